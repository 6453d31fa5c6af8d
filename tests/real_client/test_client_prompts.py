"""What the real client makes of a prompt on its standard input."""

import pytest

from tests.loopback_api import Request, Text, Turn
from tests.real_client.conftest import Connect

pytestmark = [pytest.mark.real_client, pytest.mark.slow]


def _says_done(_: Request) -> Turn:
    return Turn((Text("Done."),))


def test_a_megabyte_arrives_whole(connect: Connect) -> None:
    prompt = "begin " + "ä" * 500_000 + " end"
    client, api = connect(_says_done)
    run = client.run(prompt=prompt)

    assert run.exit == 0
    assert api.requests[0].prompt == prompt


def test_more_than_ten_megabytes_are_refused(connect: Connect) -> None:
    client, api = connect(_says_done)
    run = client.run(prompt="x" * 11_000_000)

    assert run.exit == 1
    assert run.lines == ()
    assert "exceeds 10MB" in run.stderr
    assert api.requests == []


def test_bytes_that_are_not_text_do_no_harm(connect: Connect) -> None:
    client, api = connect(_says_done)
    run = client.run(prompt=b"a\x00b \xff\xfe \xe2\x80\xa8 c")

    assert run.exit == 0
    assert api.requests[0].prompt.startswith("a")


def test_a_prompt_that_begins_with_a_command_does_no_work_and_says_success(
    connect: Connect,
) -> None:
    """Also with the flag that is to disable commands: why a success needs evidence of work, and
    why a prompt begins with our own words."""
    client, api = connect(_says_done)
    run = client.run("--disable-slash-commands", prompt="/clear and then fix the bug")

    assert run.exit == 0
    assert run.result["subtype"] == "success"
    assert run.result["is_error"] is False
    assert api.requests == []


def test_a_command_after_other_words_is_only_text(connect: Connect) -> None:
    client, api = connect(_says_done)
    client.run(prompt="The issue says:\n/clear and then fix the bug")

    assert api.requests[0].prompt == "The issue says:\n/clear and then fix the bug"


def test_a_file_named_in_a_prompt_is_read_unless_attachments_are_off(connect: Connect) -> None:
    client, api = connect(_says_done)
    (client.work / "secret.txt").write_text("xyzzy")
    client.run(prompt="see @secret.txt")
    client.run(prompt="see @secret.txt", env={"CLAUDE_CODE_DISABLE_ATTACHMENTS": "1"})

    read, not_read = (request.raw for request in api.requests)
    assert b"xyzzy" in read
    assert b"xyzzy" not in not_read
