import io
import re

import pytest

from drivers.cli.demo_view import Lines, Table, chips_of, view_on
from orchestrator.core.events import Entry, KnownEvent, RetryScheduled
from orchestrator.core.model import Mode, Pipeline, Stage, TaskId, TaskStatus
from orchestrator.core.settings import Project, Settings
from orchestrator.core.state import RunState, TaskState


def task(**values: object) -> TaskState:
    given = {
        "id": TaskId("T1"),
        "slug": "t1",
        "title": "One",
        "body": "",
        "pipeline": Pipeline.FULL,
        "depends_on": (),
        "added_seq": 1,
        **values,
    }
    return TaskState(**given)  # type: ignore[arg-type]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def kinds(state: TaskState) -> str:
    return " ".join(kind for kind, _ in chips_of(state, now=0.0))


def test_stages_before_the_present_one_are_done() -> None:
    assert kinds(task()) == "todo todo todo todo todo todo"
    assert kinds(task(stage=Stage.TEST)) == "done done done todo todo todo"
    assert kinds(task(stage=Stage.REVIEW, status=TaskStatus.COMPLETED)) == " ".join(["done"] * 6)
    assert kinds(task(stage=Stage.TEST, status=TaskStatus.FAILED)) == "done done done bad todo todo"


def test_a_micro_pipeline_has_its_own_stages() -> None:
    assert [name for _, name in chips_of(task(pipeline=Pipeline.MICRO), now=0.0)] == [
        "intake",
        "implement",
        "deliver",
        "review",
    ]


def test_a_further_attempt_is_told() -> None:
    tried = task(stage=Stage.IMPLEMENT, attempts={Stage.IMPLEMENT: 2})
    assert chips_of(tried, now=0.0)[2][1] == "implement #2"


def run_of(*tasks: TaskState) -> RunState:
    state = RunState(
        run_id="r",
        settings=Settings(),
        project=Project(name="p", root="/p"),
        mode=Mode.HEADLESS,
        created_at=0.0,
    )
    state.tasks = {each.id: each for each in tasks}
    return state


def again(reason: str = "tests failed") -> KnownEvent:
    return RetryScheduled(
        task_id=TaskId("T1"),
        stage=Stage.IMPLEMENT,
        attempt=2,
        reason=reason,
        spends_attempt=True,
    )


def entry(event: KnownEvent) -> Entry:
    return Entry(seq=1, ts=0.0, run_id="r", event=event)


def drawn(view: Table, stream: Terminal) -> list[str]:
    """The lines that a person sees, without what moves the cursor or colors."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", stream.getvalue())
    return text.splitlines()


@pytest.mark.parametrize("width", [30, 60, 100])
def test_no_line_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    stream = Terminal()
    table = Table(stream, unit="USD", colors=True)
    bad = task(status=TaskStatus.HELD, reason="merge conflict in\x1b[2J " + "a.py " * 50)
    table.show(run_of(task(id=TaskId("a" * 80)), bad), [entry(again("why " * 90))], now=9.0)
    lines = drawn(table, stream)
    assert len(lines) == 4
    assert all(len(line) < width for line in lines)


def test_the_table_is_drawn_over_itself() -> None:
    stream = Terminal()
    table = Table(stream, unit="USD", colors=False)
    for _ in range(2):
        table.show(run_of(task()), [], now=1.0)
    assert stream.getvalue().count("\x1b[3F") == 1


def test_what_went_wrong_last_stays_to_be_read() -> None:
    stream = Terminal()
    table = Table(stream, unit="USD", colors=False)
    table.show(run_of(task()), [entry(again())], now=1.0)
    table.show(run_of(task()), [], now=2.0)
    assert drawn(table, stream)[-1] == "T1: implement again, attempt 2: tests failed"


def test_elsewhere_than_on_a_terminal_changes_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(view_on(Terminal(), unit="USD"), Table)
    stream = io.StringIO()
    view = view_on(stream, unit="USD")
    assert isinstance(view, Lines)
    view.show(run_of(task()), [entry(again())], now=1.0)
    view.show(run_of(task()), [], now=2.0)
    assert stream.getvalue().count("\n") == 1
    assert "implement, attempt 2" in stream.getvalue()
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(view_on(Terminal(), unit="USD"), Lines)
