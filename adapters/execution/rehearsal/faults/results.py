"""Results that are missing, doubled, not true, or of work that was not finished."""

import os
import time
from typing import Any

from adapters.execution.rehearsal import endings
from adapters.execution.rehearsal.conversation import Conversation, Moment, Params
from adapters.execution.rehearsal.faults.kind import be_silent, registry

KINDS, _at = registry()


@_at(Moment.BEGIN)
def zero_work(play: Conversation, params: Params) -> None:
    """Success, and nothing was done: no request, no turn, no words."""
    play.finish(endings.success(""))


@_at(Moment.WORK)
def exit_without_result(play: Conversation, params: Params) -> None:
    """Ends with `status` (0) and no result line."""
    os._exit(params.get("status", 0))


@_at(Moment.RESULT)
def no_result(play: Conversation, params: Params) -> None:
    """All the work, and no result line; exit `status` (0)."""
    play.exit_status = params.get("status", 0)


@_at(Moment.RESULT)
def two_results(play: Conversation, params: Params) -> None:
    """The result, and then it again: a background task ended and started another turn."""
    play.write_result(play.record)
    again = {"result_index": 1, "model_usage_since_last_result": {}}
    play.write_result(play.record | again)


@_at(Moment.RESULT)
def another_turn(play: Conversation, params: Params) -> None:
    """A result with a turn queued behind it; the turn comes, and its result is the last word."""
    early = play.record | {"queued_turn_count": 1, "result": "Not yet."}
    early.pop("structured_output", None)
    play.write_result(early)
    time.sleep(params.get("seconds", 0))
    play.init()
    play.say("There was more to do.")
    last = play.result_of(endings.success(str(play.record["result"])))
    output = {"structured_output": play.record.get("structured_output"), "result_index": 1}
    play.write_result(last | output)


@_at(Moment.WORK)
def max_turns(play: Conversation, params: Params) -> None:
    """Stops at --max-turns, whatever it was."""
    play.finish_turns()


@_at(Moment.WORK)
def max_budget(play: Conversation, params: Params) -> None:
    """Stops at --max-budget-usd, whatever it was."""
    play.finish_budget()


@_at(Moment.OUTPUT)
def schema_violation(play: Conversation, params: Params) -> None:
    """Offers `output`, which does not fit the schema, until the client gives up."""


@_at(Moment.RESULT)
def schema_missing(play: Conversation, params: Params) -> None:
    """Success, and no structured output in it; its words are `says` ("I have finished.")."""
    record = dict(play.record)
    record.pop("structured_output", None)
    play.write_result(record | {"result": params.get("says", "I have finished.")})


@_at(Moment.BEGIN)
def asks(play: Conversation, params: Params) -> None:
    """Ends with a question (`says`), or a plan, in place of the work: success, and no output."""
    said = params.get("says", "Before I begin: shall I use tabs or spaces?")
    play.say(said)
    play.finish(endings.success(said))


@_at(Moment.BEGIN)
def refusal(play: Conversation, params: Params) -> None:
    """The model refuses: success, with stop_reason refusal."""
    said = "I can't help with that."
    play.say(said)
    end = endings.success(said)
    play.finish(end._replace(verdict=end.verdict | {"stop_reason": "refusal"}))


@_at(Moment.RESULT)
def denied(play: Conversation, params: Params) -> None:
    """`tool` (Bash) was denied on the way; success all the same."""
    tool = params.get("tool", "Bash")
    denial = {"tool_name": tool, "tool_use_id": "toolu_denied", "tool_input": {}}
    denials = [*play.record["permission_denials"], denial]
    play.write_result(play.record | {"permission_denials": denials})


@_at(Moment.RESULT)
def loses_subagents(play: Conversation, params: Params) -> None:
    """Success while a subagent is at work; it is stopped, and what it did is lost."""
    play.stream.system("task_started", **_task(is_backgrounded=True, subagent_type="worker"))
    play.write_result(play.record)
    play.stream.system("task_notification", **_task(status="stopped", summary=""))


@_at(Moment.RESULT)
def leaves_shell(play: Conversation, params: Params) -> None:
    """Success while a shell in the background lives, for `seconds` (for ever)."""
    task = _task(task_type="local_bash", description="a server")
    play.stream.system("background_tasks_changed", tasks=[task])
    play.write_result(play.record)
    be_silent(params)


def _task(**more: Any) -> dict[str, Any]:
    return {"task_id": "task_1", "task_type": "local_agent", "description": "a part of it", **more}
