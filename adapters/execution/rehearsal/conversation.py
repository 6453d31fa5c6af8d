"""One call, played: turns with tools, charged as they happen, up to the result.

The order of lines and the rules for limits are the client's; what the model does comes from
the scenario's call, and where trouble is asked for, it acts at its moment.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, NoReturn

from adapters.execution.rehearsal import endings, wire
from adapters.execution.rehearsal.account import Account
from adapters.execution.rehearsal.endings import End
from adapters.execution.rehearsal.options import Options
from adapters.execution.rehearsal.prices import TURN_TOKENS, price, share, total
from adapters.execution.rehearsal.scenario import Call, Step
from adapters.execution.rehearsal.schema import misfit, smallest
from adapters.execution.rehearsal.sessions import Session, Usage, add
from adapters.execution.rehearsal.tools import ToolResult, Tools
from adapters.execution.rehearsal.wire import Stream

_REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it"
    " was a file edit, the new_string was NOT written to the file). STOP what you are doing and"
    " wait for the user to tell you how to proceed."
)

Params = dict[str, Any]
Act = Callable[["Conversation", Params], None]


class Moment(Enum):
    """When trouble acts."""

    START = "before the init line"
    BEGIN = "instead of the first request"
    WORK = "after `after` steps; default: after all of them"
    OUTPUT = "in place of the structured output"
    RESULT = "in place of the result line"
    EXIT = "after the result line"


class Trouble(NamedTuple):
    """Something that goes wrong in this call."""

    moment: Moment
    act: Act
    params: Params


class Ended(BaseException):
    """The call is over, with this exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Conversation:
    def __init__(
        self,
        call: Call,
        *,
        options: Options,
        session: Session,
        stream: Stream,
        tools: Tools,
        account: Account | None,
        env: Mapping[str, str],
        troubles: Sequence[Trouble] = (),
    ) -> None:
        self.call = call
        self.options = options
        self.session = session
        self.stream = stream
        self.tools = tools
        self.account = account
        self.env = env
        self.key_source = "ANTHROPIC_API_KEY" if env.get("ANTHROPIC_API_KEY") else "none"
        self.own: dict[str, Usage] = {}
        """What this process spent, by model."""
        self.turns = 0
        self.denials: list[dict[str, Any]] = []
        self.exit_status: int | None = None
        """The verdict's own, unless trouble sets another."""
        self.record: dict[str, Any] = {}
        """The result line, once there is one."""
        self._troubles = troubles
        self._started = time.monotonic()
        self._pending_tool: str | None = None
        self._turns_planned = len(call.steps) + 1

    # -- the play ---------------------------------------------------------

    def init(self) -> None:
        """The line that begins each turn of a call."""
        mode, tools = self.options.permission_mode, list(self.tools.available)
        self.stream.init(self.tools.cwd, tools, mode, self.key_source)

    def play(self) -> NoReturn:
        try:
            self.act(Moment.BEGIN)
            steps = self.call.steps
            for number, step in enumerate(steps):
                self._act_in_work(number)
                self._turn(step, say=self.call.say if number == 0 else "")
            self._act_in_work(len(steps))
            self._conclude()
        except KeyboardInterrupt:
            self._interrupted()

    def act(self, moment: Moment) -> bool:
        """Let the troubles of a moment act; whether there were any."""
        acting = [trouble for trouble in self._troubles if trouble.moment is moment]
        for trouble in acting:
            trouble.act(self, trouble.params)
        return bool(acting)

    def _act_in_work(self, done: int) -> None:
        for trouble in self._troubles:
            if trouble.moment is not Moment.WORK:
                continue
            after = int(trouble.params.get("after", len(self.call.steps)))
            if after == done or (done == len(self.call.steps) < after):
                trouble.act(self, trouble.params)

    # -- turns ------------------------------------------------------------

    def _turn(self, step: Step, say: str = "") -> None:
        """One request: the model thinks, says something, uses one tool."""
        message_id, usage = self._think()
        if say:
            self.stream.assistant(message_id, {"type": "text", "text": say}, usage)
        refused = self.use(step.kind, step.input, message_id, usage, self._permitted_use)
        if refused:
            self.denials.append(
                {"tool_name": step.kind, "tool_use_id": refused, "tool_input": step.input}
            )
        if self.options.max_turns is not None and self.turns >= self.options.max_turns:
            self.finish_turns()

    def _think(self) -> tuple[str, Usage]:
        """The request and its price; a budget that it passes ends the call here."""
        self.pause(self.call.duration_s / self._turns_planned)
        self.turns += 1
        tokens = self.call.tokens
        usage = TURN_TOKENS if tokens is None else share(tokens, self._turns_planned, self.turns)
        usage = usage._replace(cost_usd=price(self.stream.model, usage))
        self.charge(usage)
        message_id = self.stream.next_message()
        self.session.append(
            {
                "type": "assistant",
                "message": {"id": message_id, "role": "assistant", "model": self.stream.model},
                "rehearsalUsage": list(usage),
            }
        )
        return message_id, usage

    def use(
        self,
        name: str,
        arguments: dict[str, Any],
        message_id: str,
        usage: Usage,
        execute: Any,
    ) -> str | None:
        """The lines around a tool use.  Returns its id where it was refused."""
        tool_use_id = f"toolu_{wire.uuid().replace('-', '')[:20]}"
        block = {"type": "tool_use", "id": tool_use_id, "name": name, "input": arguments}
        self.stream.assistant(message_id, block, usage)
        if self.turns == 1:
            self._report_windows()
        if self._over_budget():
            self.finish_budget()
        self._pending_tool = tool_use_id
        result, refused = execute(name, arguments)
        self._pending_tool = None
        self.stream.tool_result(tool_use_id, result.content, error=result.is_error, raw=result.raw)
        return tool_use_id if refused else None

    def _permitted_use(self, name: str, arguments: dict[str, Any]) -> tuple[ToolResult, bool]:
        refusal = self.tools.refusal(name, arguments)
        return (refusal, True) if refusal else (self.tools.use(name, arguments), False)

    # -- the end ----------------------------------------------------------

    def _conclude(self) -> NoReturn:
        output = self.call.output
        if self.options.json_schema is None:
            text = self.call.last_words or ("" if output is None else _compact(output)) or "Done."
            self.say(text)
            self.finish(endings.success(text))
        if output is None:
            output = smallest(self.options.json_schema)
        for trouble in self._troubles:
            if trouble.moment is Moment.OUTPUT:
                output = trouble.params.get("output", {"unexpected": True})
        wrong = misfit(output, self.options.json_schema)
        for _ in range(endings.OUTPUT_TRIES_MAX if wrong else 1):
            message_id, usage = self._think()
            self.use(
                "StructuredOutput",
                output,
                message_id,
                usage,
                lambda _name, _arguments: (_structured_result(wrong), False),
            )
        self.turns += 1
        if wrong:
            self.finish(endings.unstructured(wrong))
        self.finish(endings.success(_compact(output), structured_output=output))

    def say(self, text: str) -> None:
        """One request that is answered by words alone."""
        message_id, usage = self._think()
        self.stream.assistant(message_id, {"type": "text", "text": text}, usage)
        if self.turns == 1:
            self._report_windows()

    def finish_turns(self) -> NoReturn:
        limit = self.options.max_turns or self.turns
        self.turns = limit + 1
        self.finish(endings.out_of_turns(limit))

    def finish_budget(self) -> NoReturn:
        self.finish(endings.out_of_budget(self.options.max_budget_usd or 0.0))

    def fail_request(self, text: str, error: str, status: int | None, **more: Any) -> NoReturn:
        """The API's last word: the synthetic message that tells it, and the result."""
        shown = {"api_error_status": status} if status is not None else {}
        self.stream.api_error(text, error, **shown, **more)
        self.turns += 1
        self.finish(endings.api_error(text, status, **more))

    def finish(self, end: End) -> NoReturn:
        """The result line, unless trouble sees to the end in its own way."""
        self.exit_status = end.status
        self.record = self.result_of(end)
        if not self.act(Moment.RESULT):
            self.write_result(self.record)
        self.act(Moment.EXIT)
        raise Ended(self.exit_status)

    def result_of(self, end: End) -> dict[str, Any]:
        return wire.result(
            self.session.id,
            own=total(self.own),
            total=self.session.total,
            since_result=self.session.since_result,
            turns=self.turns,
            duration_s=time.monotonic() - self._started,
            denials=self.denials,
            verdict=end.verdict,
        )

    def write_result(self, record: dict[str, Any]) -> None:
        self.session.append({"type": "result", "subtype": record["subtype"]})
        self.stream.line(record)
        self.session.since_result = {}
        if self.stream.quiet:
            text = _compact(record) if self.options.output_format == "json" else record["result"]
            print(text, flush=True)  # noqa: T201 - what -p prints without stream-json

    def terminated(self) -> None:
        """SIGTERM: the tool is ended, and there is no result."""
        self.tools.kill_running()
        if self._pending_tool is not None:
            text = "Exit code 137"
            self.stream.tool_result(self._pending_tool, text, error=True, raw=f"Error: {text}")

    def _interrupted(self) -> NoReturn:
        """SIGINT: the tool is ended, the result says so, and the exit status is 0."""
        self.tools.kill_running()
        reason = "aborted_streaming"
        text = "[Request interrupted by user]"
        if self._pending_tool is not None:
            reason = "aborted_tools"
            text = "[Request interrupted by user for tool use]"
            self.stream.tool_result(
                self._pending_tool, _REJECTED, error=True, raw="User rejected tool use"
            )
        self.stream.user([{"type": "text", "text": text}])
        self.turns += 1
        self.finish(endings.interrupted(reason))

    # -- money, windows, time ----------------------------------------------

    def charge(self, usage: Usage) -> None:
        self.session.charge(self.stream.model, usage)
        add(self.own, self.stream.model, usage)

    def _over_budget(self) -> bool:
        limit = self.options.max_budget_usd
        return limit is not None and total(self.own).cost_usd > limit

    def _report_windows(self) -> None:
        if self.account is not None:
            self.stream.rate_limit_event(self.account.windows())

    def pause(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


def _structured_result(wrong: str | None) -> ToolResult:
    if wrong is None:
        text = "Structured output provided successfully"
        return ToolResult(text, raw=text)
    text = f"Output does not match required schema: {wrong}"
    return ToolResult(text, True, f"Error: {text}")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
