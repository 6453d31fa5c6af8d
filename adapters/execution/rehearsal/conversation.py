"""One call, played: turns with tools, charged as they happen, up to the result.

The order of lines and the rules for limits are the client's; what the model does comes from
the scenario's call, and where a fault is asked for, it acts at its moment.
"""

import json
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from adapters.execution.rehearsal import faults, wire
from adapters.execution.rehearsal.options import Options
from adapters.execution.rehearsal.prices import TURN_TOKENS, price, share, total
from adapters.execution.rehearsal.scenario import Account, Call, Step
from adapters.execution.rehearsal.schema import misfit, smallest
from adapters.execution.rehearsal.sessions import Session, Usage, add
from adapters.execution.rehearsal.tools import ToolResult, Tools
from adapters.execution.rehearsal.wire import Stream

OUTPUT_TRIES_MAX = 5
_REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it"
    " was a file edit, the new_string was NOT written to the file). STOP what you are doing and"
    " wait for the user to tell you how to proceed."
)


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
    ) -> None:
        self.call = call
        self.options = options
        self.session = session
        self.stream = stream
        self.tools = tools
        self.account = account
        self.env = env
        self.own: dict[str, Usage] = {}
        """What this process spent, by model."""
        self.turns = 0
        self.denials: list[dict[str, Any]] = []
        self.exit_status: int | None = None
        """Set by a fault: other than the verdict's own."""
        self.verdict_override: dict[str, Any] = {}
        self._started = time.monotonic()
        self._pending_tool: str | None = None
        self._turns_planned = len(call.steps) + 1

    # -- the play ---------------------------------------------------------

    def play(self) -> NoReturn:
        try:
            self._act(faults.Moment.BEGIN)
            fault = self._fault(faults.Moment.WORK)
            after = (
                None if fault is None else int(self._params().get("after", len(self.call.steps)))
            )
            for number, step in enumerate(self.call.steps):
                if after == number:
                    self._act(faults.Moment.WORK)
                self._turn(step, say=self.call.say if number == 0 else "")
            if after is not None and after >= len(self.call.steps):
                self._act(faults.Moment.WORK)
            self._conclude()
        except KeyboardInterrupt:
            self._interrupted()

    def _act(self, moment: faults.Moment) -> None:
        fault = self._fault(moment)
        if fault is not None:
            fault.act(self, self._params())

    def _fault(self, moment: faults.Moment) -> faults.Kind | None:
        if self.call.fault is None:
            return None
        kind = faults.KINDS[self.call.fault.name]
        return kind if kind.moment is moment else None

    def _params(self) -> dict[str, Any]:
        return self.call.fault.params if self.call.fault else {}

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
            message_id, usage = self._think()
            self.stream.assistant(message_id, {"type": "text", "text": text}, usage)
            if self.turns == 1:
                self._report_windows()
            self.finish_success(text)
        if output is None:
            output = smallest(self.options.json_schema)
        if self._fault(faults.Moment.OUTPUT):
            output = self._params().get("output", {"unexpected": True})
        wrong = misfit(output, self.options.json_schema)
        for _ in range(OUTPUT_TRIES_MAX if wrong else 1):
            message_id, usage = self._think()
            self.use(
                "StructuredOutput",
                output,
                message_id,
                usage,
                lambda _name, _arguments: (_structured_result(wrong), False),
            )
        if wrong:
            self.finish_schema(wrong)
        self.turns += 1
        self.finish_success(_compact(output), structured_output=output)

    def finish_success(self, text: str, **more: Any) -> NoReturn:
        self.finish(
            {
                "stop_reason": "tool_use" if more else "end_turn",
                "terminal_reason": "completed",
                "is_error": False,
                "subtype": "success",
                "api_error_status": None,
                "result": text,
                **more,
            },
            0,
        )

    def finish_error(self, subtype: str, terminal_reason: str, *errors: str) -> NoReturn:
        self.finish(
            {
                "stop_reason": "tool_use",
                "terminal_reason": terminal_reason,
                "is_error": True,
                "subtype": subtype,
                "errors": list(errors),
            },
            1,
        )

    def finish_turns(self) -> NoReturn:
        limit = self.options.max_turns or self.turns
        self.turns = limit + 1
        self.finish_error(
            "error_max_turns", "max_turns", f"Reached maximum number of turns ({limit})"
        )

    def finish_budget(self) -> NoReturn:
        limit = self.options.max_budget_usd or 0.0
        self.finish_error(
            "error_max_budget_usd", "budget_exhausted", f"Reached maximum budget (${limit:g})"
        )

    def finish_schema(self, wrong: str) -> NoReturn:
        self.turns += 1
        self.finish_error(
            "error_max_structured_output_retries",
            "structured_output_retry_exhausted",
            f"Failed to provide valid structured output after {OUTPUT_TRIES_MAX} attempts"
            f" — last StructuredOutput error: Output does not match required schema: {wrong}",
        )

    def finish_api_error(self, text: str, error: str, status: int | None, **more: Any) -> NoReturn:
        """A request failed for good: "success", and an error."""
        shown = {"api_error_status": status} if status is not None else {}
        self.stream.api_error(text, error, **shown, **more)
        self.turns += 1
        self.finish(
            {
                "stop_reason": "stop_sequence",
                "terminal_reason": "api_error",
                "is_error": True,
                "subtype": "success",
                "api_error_status": status,
                **more,
                "result": text,
            },
            1,
        )

    def finish(self, verdict: dict[str, Any], status: int) -> NoReturn:
        """The result line, unless a fault sees to the end in its own way."""
        record = wire.result(
            self.session.id,
            own=total(self.own),
            total=self.session.total,
            since_result=self.session.since_result,
            turns=self.turns,
            duration_s=time.monotonic() - self._started,
            denials=self.denials,
            verdict=verdict,
        )
        self.exit_status = status
        fault = self._fault(faults.Moment.RESULT)
        if fault is not None:
            fault.act(self, {**self._params(), "record": record})
        else:
            self.write_result(record)
        self._act(faults.Moment.EXIT)
        raise Ended(self.exit_status)

    def write_result(self, record: dict[str, Any]) -> None:
        self.session.append({"type": "result", "subtype": record["subtype"]})
        self.stream.line(record)
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
        self.finish(
            {
                "stop_reason": "tool_use",
                "terminal_reason": reason,
                "is_error": True,
                "subtype": "error_during_execution",
                "errors": ["[ede_diagnostic] result_type=user stop_reason=tool_use"],
            },
            0,
        )

    # -- money, windows, time ----------------------------------------------

    def charge(self, usage: Usage) -> None:
        self.session.charge(self.stream.model, usage)
        add(self.own, self.stream.model, usage)

    def _over_budget(self) -> bool:
        limit = self.options.max_budget_usd
        return limit is not None and total(self.own).cost_usd > limit

    def _report_windows(self) -> None:
        if self.account is None:
            return
        now = int(time.time())
        resets_at = now + int(self.account.resets_in_s)
        five, seven = self.account.five_hour, self.account.seven_day
        self.stream.rate_limit_event(
            {
                "status": self.account.status,
                "resetsAt": resets_at,
                "rateLimitType": "five_hour",
                "isUsingOverage": False,
                "unifiedWindows": {
                    "five_hour": {
                        "utilization": five,
                        "resetsAt": resets_at,
                        "status": self.account.status,
                    },
                    "seven_day": {
                        "utilization": seven,
                        "resetsAt": now + 5 * 86400,
                        "status": "allowed",
                    },
                },
            }
        )

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
