"""The client's ``main``: from its arguments and standard input to its exit status."""

import os
import signal
import sys
import time
from types import FrameType
from typing import NoReturn

from adapters.execution.rehearsal import endings, wire
from adapters.execution.rehearsal.conversation import Conversation, Ended, Moment, Trouble
from adapters.execution.rehearsal.options import Options, Refusal, is_uuid, parse
from adapters.execution.rehearsal.prices import full_model_name
from adapters.execution.rehearsal.scenario import (
    Call,
    Fault,
    Scenario,
    ScenarioError,
    Who,
    load,
    who_asks,
)
from adapters.execution.rehearsal.sessions import (
    Session,
    config_dir,
    count_start,
    find,
    transcript_path,
)
from adapters.execution.rehearsal.tools import Tools

_SIGINT_STATUS = 130
_SIGTERM_STATUS = 143
_NO_PROMPT = (
    "Error: Input must be provided either through stdin or as a prompt argument when using --print"
)


_HELP = """\
usage: python -m adapters.execution.rehearsal [--scenario FILE] [the client's own options]
       python -m adapters.execution.rehearsal faults

An agent that plays the client: the prompt on standard input, the client's stream on standard
output.  What it does for a task, stage and attempt is the scenario's to say, or that of the file
which ORCHESTRATOR_REHEARSAL names; without one all goes well.  `faults` lists what can go wrong.
`orchestrator rehearse` plays a whole batch with it.  SCENARIO.md beside it has the file's form."""


def main(argv: list[str]) -> int:
    if argv[:1] in (["--help"], ["-h"]):
        _say(_HELP)
        return 0
    try:
        as_root = os.geteuid() == 0
        options = parse(argv, as_root=as_root, sandboxed=os.environ.get("IS_SANDBOX") == "1")
        if options.version:
            _say(f"{wire.VERSION} (Claude Code; rehearsal agent)")
            return 0
        if options.words[:2] == ("auth", "status"):
            _say('{"loggedIn": true, "authMethod": "rehearsal", "apiProvider": "rehearsal"}')
            return 0
        if options.words == ("faults",):
            _list_faults()
            return 0
        return _print_mode(options, load(options.scenario))
    except Refusal as refusal:
        return _fail(str(refusal))
    except ScenarioError as error:
        return _fail(f"rehearsal: {error}")
    except Ended as ended:
        return ended.status
    except KeyboardInterrupt:  # before there was a conversation
        return _SIGINT_STATUS


def _print_mode(options: Options, scenario: Scenario) -> NoReturn:
    prompt = "\n".join(options.words) or sys.stdin.buffer.read().decode(errors="replace")
    if not prompt.strip():
        raise Refusal(_NO_PROMPT)
    env, cwd = os.environ, os.getcwd()
    config = config_dir(env)
    session = _open_session(options, config, cwd)
    who = _who(prompt, session)
    start = count_start(config, cwd, f"{who.task} {who.stage} {who.attempt or 1}")
    call = scenario.call(who, start)
    troubles = _troubles(call, scenario, config)

    stream = wire.Stream(session.id, full_model_name(options.model), quiet=not options.stream)
    schema_tool = ("StructuredOutput",) if options.json_schema is not None else ()
    names = tuple(n for n in wire.TOOLS if options.tools is None or n in options.tools)
    tools = Tools(
        cwd,
        available=(*names, *schema_tool),
        allowed=options.allowed,
        disallowed=options.disallowed,
        permission_mode=options.permission_mode,
        env=env,
    )
    play = Conversation(
        call,
        options=options,
        session=session,
        stream=stream,
        tools=tools,
        account=scenario.account,
        env=env,
        troubles=troubles,
    )
    _handle_signals(play)
    play.act(Moment.START)
    play.init()
    # Killed before this, the session does not exist, and its id is free again.
    time.sleep(scenario.transcript_after_s)
    play.session.append(
        {
            "type": "user",
            "message": {"role": "user", "content": prompt},
            "cwd": cwd,
            "rehearsalCall": who._asdict(),
        }
    )
    play.play()


def _open_session(options: Options, config: str, cwd: str) -> Session:
    if options.resume is not None:
        found = find(config, cwd, options.resume) if is_uuid(options.resume) else None
        if found is None:
            _unknown_session(options)
        here = transcript_path(config, cwd, options.resume)
        return Session.resumed(found, here, options.resume)
    session_id = options.session_id or wire.uuid()
    path = transcript_path(config, cwd, session_id)
    if options.session_id is not None and os.path.exists(path):
        raise Refusal(f"Error: Session ID {session_id} is already in use.")
    return Session(session_id, path if options.persistent else None)


def _unknown_session(options: Options) -> NoReturn:
    text = f"No conversation found with session ID: {options.resume}"
    record = endings.not_started(options.resume or "", text, uuid=wire.uuid())
    wire.Stream("", "", quiet=not options.stream).line(record)
    raise Refusal(text)


def _troubles(call: Call, scenario: Scenario, config: str) -> tuple[Trouble, ...]:
    limited_until = scenario.account and scenario.account.limited_until(config)
    asked = call.faults
    if limited_until:
        asked = (Fault("rate_limited", {"resets_at": limited_until}), *asked)
    if not asked:
        return ()
    # Here, because most calls go well, and start without it, some milliseconds faster.
    from adapters.execution.rehearsal.faults import trouble_of

    return tuple(map(trouble_of, asked))


def _who(prompt: str, session: Session) -> Who:
    """A prompt without markers goes on with what its session was asked last."""
    who = who_asks(prompt)
    if who is not None:
        return who
    if session.calls:
        return Who(**session.calls[-1])
    return Who("", "", None)


def _handle_signals(play: Conversation) -> None:
    def terminate(_signal: int, _frame: FrameType | None) -> None:
        play.terminated()
        os._exit(_SIGTERM_STATUS)

    signal.signal(signal.SIGTERM, terminate)
    # Also where a shell started it in the background, with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _list_faults() -> None:
    from adapters.execution.rehearsal.faults import KINDS

    order = list(Moment)
    for name, kind in sorted(KINDS.items(), key=lambda item: order.index(item[1].moment)):
        _say(f"{name:<24} {kind.about} ({kind.moment.value})")


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _fail(text: str) -> int:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
    return 1
