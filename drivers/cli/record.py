"""``record``: hand back the result of a work item that ``next`` gave out."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from drivers.cli.context import Context
from orchestrator.core.errors import ExitStatus, Refused, Usage
from orchestrator.core.model import ResultStatus, Stage, StageResult
from orchestrator.core.words import nearest
from orchestrator.given_file import DATA_BYTES_MAX, in_words, read_given

if TYPE_CHECKING:
    from orchestrator.journal.live import LiveRun
    from orchestrator.journal.store import RunStore

HELP = """Record the result of a work item.  One that does not answer the dispatch that is
outstanding is refused, and changes nothing of the task."""
JSON_WHEN_PIPED = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--result", required=True, metavar="FILE", help="the stage result as JSON; - is stdin"
    )


def run(args: argparse.Namespace, ctx: Context) -> int:
    data = _read(args.result)

    async def record(run: "LiveRun", store: "RunStore") -> dict[str, Any]:
        from drivers.stepping import record_result

        return await record_result(run, store, _parse(data, args.result))

    try:
        outcome = ctx.with_run(record)
    except (Refused, NoResult) as refusal:
        answer = {"ok": False, "recorded": False, "reason": str(refusal)}
        ctx.result(answer, f"not recorded: {refusal}")
        return refusal.exit_status
    ctx.result({"ok": True, "recorded": True, **outcome}, _text(outcome))
    return ExitStatus.DONE


NESTED_MAX = 100
"""Lists and objects within each other: what is kept has to be read again at any time."""


class NoResult(Usage):
    """The file is no stage result at all, whatever is outstanding."""


def _read(path: str) -> bytes:
    if path == "-":
        return _read_stdin()
    try:
        return read_given(path, DATA_BYTES_MAX)
    except OSError as error:
        raise Usage(f"--result {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Usage(f"--result {path!r} names no file") from error


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise Usage("--result -: there is no standard input")
    try:
        data = sys.stdin.buffer.read(DATA_BYTES_MAX + 1)
    except OSError as error:
        raise Usage(f"--result -: standard input cannot be read: {error.strerror}") from error
    if len(data) > DATA_BYTES_MAX:
        raise Usage(f"--result -: more than {in_words(DATA_BYTES_MAX)}")
    return data


def _parse(data: bytes, path: str) -> StageResult:
    try:
        written = msgspec.json.decode(data)
        if _is_deeper(written, NESTED_MAX):
            raise NoResult(f"{path} is no stage result: nested more than {NESTED_MAX} deep")
        if isinstance(written, dict) and (mistake := _mistake(written)):
            raise NoResult(f"{path} is no stage result: {mistake}")
        result = msgspec.convert(written, StageResult)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoResult(f"{path} is no stage result: {error}") from error
    except RecursionError as error:
        raise NoResult(f"{path} is no stage result: nested too deeply") from error
    if result.status is not ResultStatus.SUCCESS and not result.error:
        raise NoResult(f"{path} is no stage result: a {result.status} needs an `error`")
    return result


def _is_deeper(value: Any, levels: int) -> bool:
    """Without recursion, which has a bound of its own."""
    held = [value]
    for _ in range(levels):
        nested = (each for each in held if isinstance(each, dict | list))
        held = [v for each in nested for v in (each.values() if isinstance(each, dict) else each)]
    return any(isinstance(each, dict | list) for each in held)


def _mistake(written: dict[str, Any]) -> str:
    """What a person has probably misspelled; "" where every name is known."""
    known = StageResult.__struct_fields__
    for key in written:
        if key not in known:
            near = " (did you mean work_item_id?)" if key == "id" else nearest(key, known)
            return f"it has no key {key!r}{near}; `schema stage_result` has them all"
    for key, kind in (("status", ResultStatus), ("stage", Stage)):
        if key in written and written[key] not in list(kind):
            return f"{key} is one of {', '.join(kind)}, not {written[key]!r}"
    return ""


def _text(outcome: dict[str, Any]) -> str:
    return "\n".join(["recorded", *(f"  {key}: {value}" for key, value in outcome.items())])
