"""Children that hang are stopped, with the evidence, and spend no attempt; slow ones are not.

The real driver, and the rehearsal agent with its ways of failing.
"""

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from adapters.execution.guard import Stall
from adapters.execution.stall import Told, Tool
from adapters.host import waiting
from orchestrator.core.model import Cause, ResultStatus, WorkItem
from orchestrator.core.settings import Settings
from tests.e2e.cli_process import SOURCE, Home, make_home
from tests.e2e.supervision import Bench, ScriptLane, until_there

pytestmark = pytest.mark.slow

TASK = '[[task]]\nid = "#12"\ntitle = "First"\nbody = "Do it."\n'
SHORT = {
    "first_event_s": "5",
    "idle_s": "1.5",
    "interrupt_wait_s": "1",
    "terminate_wait_s": "0.5",
    "result_linger_s": "0.5",
}
"""The first word of a Python program takes a second where others compute too."""


def drive(path: Path, call: str, **settings: str) -> tuple[Home, list[dict[str, Any]]]:
    """A micro run with one task whose first implement is as ``call`` says; its results."""
    scenario = f'schema = 1\n[[call]]\nstage = "implement"\nstart = 1\n{call}\n'
    home = make_home(path, tasks=TASK, scenario=scenario)
    with (home.repository / ".orchestrator" / "project.toml").open("a") as file:
        file.write('allowed_tools = ["Bash"]\n')
    home.json("--run", "r1", "init-run", "--lane", "micro")
    home.json("--run", "r1", "add-task", "--all")
    for key, value in (SHORT | settings).items():
        home.json("--run", "r1", "set", key, value)
    done = home.orchestrator("--run", "r1", "run-headless", "--wait")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run_state"] == "completed"
    recorded = [event for event in home.events("r1") if event["type"] == "stage_recorded"]
    return home, [event for event in recorded if event["stage"] == "implement"]


def dispatches(home: Home) -> list[dict[str, Any]]:
    dispatched = [event for event in home.events("r1") if event["type"] == "stage_dispatched"]
    return [event for event in dispatched if event["stage"] == "implement"]


@pytest.mark.parametrize(
    ("call", "settings", "says"),
    [
        ('fault = "silent_start"', {"first_event_s": "1.2"}, "not a word in the"),
        ('fault = { name = "hang", after = 0 }', {}, "nothing on its streams for"),
        ('fault = "ignores_signals"', {}, "nothing on its streams for"),
        # The delay that it announced is over, and nothing came.
        (
            'fault = [{ name = "retries", retries = 1, delay_s = 1 },'
            ' { name = "hang", after = 0 }]',
            {},
            "to wait 1 s for its API",
        ),
        (
            'fault = { name = "compaction", seconds = 600, after = 0 }',
            {},
            "while it compacted its context",
        ),
    ],
    ids=["silent start", "mid-turn", "deaf", "after a retry", "compaction"],
)
def test_a_child_that_hangs_is_stopped_and_resumed(
    tmp_path: Path, call: str, settings: dict[str, str], says: str
) -> None:
    home, (first, second) = drive(tmp_path, call, **settings)
    assert (first["status"], first["cause"]) == ("interrupted", "crash")
    assert first["error"].startswith("it hung: ")
    assert says in first["error"]
    seen = first["evidence"]["stall"]
    bound_s = float((SHORT | settings)["first_event_s" if "silent" in call else "idle_s"])
    assert bound_s <= seen["silence_s"] < bound_s + 5
    assert seen["has_spoken"] == ("silent" not in call)
    assert (first["exit"]["reason"], first["exit"].get("survivors", 0)) == ("hung", 0)
    # Nothing is spent, and the session goes on; where there is none yet, it is begun.
    assert (second["status"], second["attempt"], first["attempt"]) == ("success", 1, 1)
    assert [event["dispatch"] for event in dispatches(home)] == [1, 2]
    assert [event.get("resume", False) for event in dispatches(home)] == [False, True]
    assert len({event["session_id"] for event in dispatches(home)}) == 1
    # Whoever looks into the directory finds the same.
    stem = home.store("r1") / "stages" / "12" / "implement-attempt1"
    assert json.loads(Path(f"{stem}.stall.json").read_text())["what"] == first["error"]
    assert json.loads(Path(f"{stem}.exit.json").read_text())["reason"] == "stopped"


@pytest.mark.parametrize(
    "call",
    [
        # A tool in flight, within its time; nothing moves at all.
        'do = [{ run = "sleep 4" }, { write = "a.txt", text = "a" }]',
        # It announces how long it waits.
        'fault = { name = "retries", retries = 2, delay_s = 2.5 }',
        # Slow, but not so slow.
        'duration_s = 1.0\nfault = { name = "hang", seconds = 0.4 }',
    ],
    ids=["long tool", "long retries", "slow"],
)
def test_a_child_that_is_slow_is_left_alone(tmp_path: Path, call: str) -> None:
    home, (only,) = drive(tmp_path, call)
    assert (only["status"], len(dispatches(home))) == ("success", 1)
    assert "stall" not in only["evidence"]


@pytest.mark.parametrize(
    "fault",
    [
        '"hang_after_result"',
        '{ name = "hang_after_result", deaf = true }',
        '"leaves_shell"',
    ],
)
def test_a_hang_after_the_result_is_no_failure(tmp_path: Path, fault: str) -> None:
    home, recorded = drive(tmp_path, f"fault = {fault}")
    (only,) = recorded
    assert (only["status"], len(dispatches(home))) == ("success", 1)
    assert only["exit"].get("reason", "exited") == "exited"
    assert only["evidence"]["outlived_its_result"] == "stopped"


# -- one dispatch, and what its processes do ------------------------------------------------


class LegibleLane(ScriptLane):
    """Its child's transcript is a file named transcript; the tool in flight is in the inputs."""

    def __init__(self, root: Path, **tools: float | None) -> None:
        self._transcript = root / "transcript"
        self._told = Told(tools={n: Tool(name=n, timeout_s=s) for n, s in tools.items()})

    def told(self, reader: object) -> Told:
        return self._told

    def transcript_bytes(self, work: WorkItem) -> int:
        return self._transcript.stat().st_size if self._transcript.exists() else 0


WATCHED = Settings(
    first_event_s=0.6, idle_s=0.6, interrupt_wait_s=0.2, terminate_wait_s=0.2, result_linger_s=0.2
)


def bench(root: Path, **tools: float | None) -> Bench:
    return Bench(root, WATCHED, LegibleLane(root, **tools))


def stall_of(at: Bench, work: WorkItem) -> Stall | None:
    return at.stem(work).read_stall(Stall)


@pytest.mark.parametrize(
    "life",
    [
        # A test run in a session of its own that says nothing, and computes.
        "echo on; setsid sh -c 'until [ -e go ]; do :; done'; echo RESULT",
        # Short-lived ones, each gone before it could be looked at.
        "echo on; until [ -e go ]; do true | true; done; echo RESULT",
        "echo on; until [ -e go ]; do echo x >> transcript; sleep 0.1; done; echo RESULT",
        "echo on; until [ -e go ]; do echo x >&2; sleep 0.1; done; echo RESULT",
        "until [ -e go ]; do echo x; sleep 0.1; done; echo RESULT",
    ],
    ids=["CPU of a grandchild", "CPU of many", "transcript", "stderr", "stdout"],
)
async def test_what_moves_is_not_hung(tmp_path: Path, life: str) -> None:
    at = bench(tmp_path)
    work = at.shell(life)

    async def let_go() -> None:
        await trio.sleep(2.5)  # four deadlines long, which is what is being tried
        (tmp_path / "go").touch()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(let_go)
        ending = await at.run(work)
        nursery.cancel_scope.cancel()
    assert (ending.status, ending.exit.duration_s > 1.2) == (ResultStatus.SUCCESS, True)
    assert stall_of(at, work) is None


@pytest.mark.parametrize("said", ["", "echo on; "], ids=["mute", "silent"])
async def test_what_does_not_move_is_hung(tmp_path: Path, said: str) -> None:
    at = bench(tmp_path)
    work = at.shell(f"{said}sleep 600")
    with trio.fail_after(5):
        ending = await at.run(work)
    assert (ending.cause, ending.exit.reason) == (Cause.CRASH, "hung")
    assert ending.evidence["stall"]["has_spoken"] == bool(said)
    assert 0.6 <= ending.evidence["stall"]["silence_s"] < 2
    stall = stall_of(at, work)
    assert stall is not None
    assert stall.what == ending.exit.error
    assert at.tagged(work) == []


async def test_a_tool_has_its_time_and_some_slack(tmp_path: Path) -> None:
    at = bench(tmp_path, Bash=1.0)
    ending = await at.run(at.shell("echo on; sleep 2; echo RESULT"))
    assert ending.status is ResultStatus.SUCCESS
    endless = bench(tmp_path, WebFetch=None)
    ending = await endless.run(endless.shell("echo on; sleep 600", dispatch=2))
    assert ending.evidence["stall"]["tool"] == "WebFetch"


async def test_a_deadline_set_to_nought_while_it_runs_holds_at_once(tmp_path: Path) -> None:
    at = bench(tmp_path)

    async def change() -> None:
        stream = at.stem(at.shell("")).stream
        await until_there(lambda: stream.exists() and stream.stat().st_size > 0)
        at.settings = Settings(idle_s=0, first_event_s=0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(change)
        ending = await at.run(at.shell("echo on; sleep 2; echo RESULT"))
    assert ending.status is ResultStatus.SUCCESS


async def test_the_engines_children_have_their_deadline_alone(tmp_path: Path) -> None:
    at = Bench(tmp_path, WATCHED)
    ending = await at.run(at.shell("sleep 2; echo RESULT"))
    assert ending.status is ResultStatus.SUCCESS


async def test_a_driver_that_dies_before_it_can_stop_leaves_its_reason(tmp_path: Path) -> None:
    at = bench(tmp_path)
    work = at.shell("echo on; sleep 600")
    executor = at.executor()
    await executor.prepare(work)
    with trio.CancelScope() as scope:  # it has decided, and is killed
        async with trio.open_nursery() as nursery:
            nursery.start_soon(executor.run, work, lambda _: None)
            await until_there(partial(stall_of, at, work))
            scope.cancel()
    ending = await at.attach(work)
    assert (ending.cause, ending.exit.reason) == (Cause.CRASH, "hung")
    assert ending.evidence["stall"]["silence_s"] >= 0.6
    assert at.tagged(work) == []
    # Also where only the report was missing.
    assert (await at.attach(work)).evidence["stall"] == ending.evidence["stall"]


async def test_a_new_driver_calls_nobody_hung_whom_it_has_not_watched(tmp_path: Path) -> None:
    at = bench(tmp_path)
    work = at.shell("echo on; sleep 1.2; echo RESULT")
    executor = at.executor()
    await executor.prepare(work)
    for _ in range(3):
        with trio.move_on_after(0.4):
            if at.stem(work).was_started():
                await at.attach(work)
            else:
                await executor.run(work, lambda _: None)
    assert (await at.attach(work)).status is ResultStatus.SUCCESS


DRIVER = """
import sys
from pathlib import Path
import trio
from tests.e2e.test_stall import TALKATIVE, bench
at = bench(Path(sys.argv[1]))
trio.run(at.run, at.shell(TALKATIVE))
"""
TALKATIVE = "until [ -e go ]; do echo on; sleep 0.1; done; echo RESULT"


async def test_a_driver_that_was_stopped_itself_blames_nobody(tmp_path: Path) -> None:
    """Ctrl-Z, or a machine that stood still: the child has spoken meanwhile."""
    at = bench(tmp_path)
    stem = at.stem(at.shell(TALKATIVE))
    argv = [sys.executable, "-c", DRIVER, str(tmp_path)]
    with subprocess.Popen(argv, cwd=SOURCE) as driver:  # noqa: ASYNC220 - nothing else runs here
        await until_there(stem.shim.exists)
        for _ in range(4):
            driver.send_signal(signal.SIGSTOP)
            await trio.sleep(0.8)  # longer than the deadline
            driver.send_signal(signal.SIGCONT)
            await trio.sleep(0.2)
        (tmp_path / "go").touch()
        driver.wait(10)
    record = stem.read_exit()
    assert record is not None
    assert (record.reason, stem.stall.exists()) == ("exited", False)


async def test_a_hang_without_its_shim_is_stopped_too(tmp_path: Path) -> None:
    at = bench(tmp_path)
    work = at.shell("echo on; sleep 600")
    executor = at.executor()
    await executor.prepare(work)
    endings = []

    async def run() -> None:
        endings.append(await executor.run(work, lambda _: None))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await until_there(at.stem(work).read_shim)
        record = at.stem(work).read_shim()
        assert record is not None
        assert waiting.signal_if_same(record.shim, signal.SIGKILL)
    assert [ending.exit.reason for ending in endings] == ["hung"]
    assert at.tagged(work) == []


async def test_what_said_its_result_without_its_shim_does_not_linger(tmp_path: Path) -> None:
    at = Bench(tmp_path, WATCHED)
    work = at.shell("echo on; until [ -e go ]; do sleep 0.01; done; echo RESULT; sleep 600")
    executor = at.executor()
    await executor.prepare(work)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(executor.run, work, lambda _: None)
            await until_there(at.stem(work).read_shim)
            record = at.stem(work).read_shim()
            assert record is not None
            assert waiting.signal_if_same(record.shim, signal.SIGKILL)
            (tmp_path / "go").touch()
    assert at.tagged(work) == []
