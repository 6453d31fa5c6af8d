"""What a resumed session of the real client tells the model."""

import signal

import pytest

from tests.loopback_api import Gate, Request, Text, Turn
from tests.real_client.client import new_session, wait_until
from tests.real_client.conftest import Connect

pytestmark = [pytest.mark.real_client, pytest.mark.slow]


def test_a_resumed_session_sends_the_conversation_again(connect: Connect) -> None:
    client, api = connect(lambda _: Turn((Text("Done."),)))
    session = new_session()
    client.run("--session-id", session, prompt="One")
    client.run("--resume", session, prompt="Two")

    assert [request.session_id for request in api.requests] == [session, session]
    assert api.requests[-1].prompts == ("One", "Two")


def test_killed_while_the_model_thinks_it_can_be_resumed(connect: Connect) -> None:
    gate = Gate()

    def script(request: Request) -> Turn:
        return Turn((Text("Done."),), gate=gate if request.number == 1 else None)

    client, api = connect(script)
    session = new_session()
    child = client.start("--session-id", session, prompt="One")
    gate.wait_for_arrival()
    # The transcript follows the first request, by about a tenth of a second.
    wait_until(lambda: client.transcripts(session) != [], "the transcript is there")
    child.signal(signal.SIGKILL)
    child.wait()

    assert client.run("--resume", session, prompt="Two").exit == 0
    assert api.requests[-1].prompts == ("One", "Two")
