"""run-headless from the outside: here, detached, the customer's own way; stopped and killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from adapters.execution import executor
from drivers import wiring
from drivers.stepping import next_work_item
from orchestrator.core.errors import Refused
from orchestrator.core.model import TaskId
from orchestrator.journal.disk import open_journal
from orchestrator.journal.live import LiveRun
from orchestrator.journal.store import RunStore
from tests.e2e.cli_process import Home, git, lines, make_home, the_one_line

pytestmark = pytest.mark.slow

SLOW = "schema = 1\nduration_s = 120\n"
QUICK = "schema = 1\nduration_s = 0\n"
WORDS = "xyzzy-words-of-the-task"
TASK = f'[[task]]\nid = "#12"\ntitle = "First"\nbody = "{WORDS}"\n'
WITHIN_S = 60.0


def until(what: str, is_so: Callable[[], bool]) -> None:
    """Real processes are awaited: look until it is so, within a bound."""
    deadline = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture
def launched() -> Iterator[list[psutil.Process]]:
    """Drivers that a test has started: none outlives it, nor do their children."""
    processes: list[psutil.Process] = []
    yield processes
    for process in processes:
        if process.is_running():
            process.kill()


def scaffold(path: Path, scenario: str, **settings: str) -> Home:
    home = make_home(path, tasks=TASK, scenario=scenario)
    home.json("--run", "r1", "init-run", "--lane", "micro")
    home.json("--run", "r1", "add-task", "--all")
    for key, value in settings.items():
        home.json("--run", "r1", "set", key, value)
    return home


def driver_log(home: Home) -> list[dict[str, Any]]:
    return lines(home.store("r1") / "driver.jsonl")


def has_ended(home: Home) -> bool:
    return bool(home.json("--run", "r1", "status")["driver"]["state"] == "exited")


def detach(home: Home, launched: list[psutil.Process], *words: str) -> dict[str, Any]:
    done = home.orchestrator("--run", "r1", "run-headless", "--detach", *words)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    if psutil.pid_exists(told["pid"]):
        launched.append(psutil.Process(told["pid"]))
    assert isinstance(told, dict)
    return told


def child_of(home: Home) -> psutil.Process:
    """The client's process of the model stage under way, as its shim has written it down."""
    record = home.store("r1") / "stages" / "12" / "implement-attempt1.shim.json"
    until("the client is started", record.exists)
    return psutil.Process(json.loads(record.read_text())["child"]["pid"])


def test_a_run_is_driven_to_its_end_without_a_word_of_task_or_agent(tmp_path: Path) -> None:
    home = scaffold(tmp_path, QUICK)
    done = home.orchestrator("--run", "r1", "run-headless", "--wait")
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout)
    assert (status["run_state"], status["terminal"]) == ("completed", True)
    assert status["events_audit"]["clean"]
    assert status["events_audit"]["dispatched"] == status["events_audit"]["recorded"]
    assert status["lane_audit"]["clean"]
    said = done.stdout + done.stderr + (home.store("r1") / "driver.log").read_text()
    assert WORDS not in said
    kinds = [record["type"] for record in driver_log(home)]
    assert (kinds[0], kinds[1], kinds[-1]) == ("driver_start", "driver_heartbeat", "driver_exit")
    assert home.call("--run", "r1", "audit").returncode == 0
    assert "completed" in home.call("--run", "r1", "watch").stdout.splitlines()[-1]
    # Once more: there is nothing left to do, and nothing is done.
    before = len([e for e in home.events("r1") if e["type"] == "stage_dispatched"])
    assert home.orchestrator("--run", "r1", "run-headless", "--wait").returncode == 0
    assert before == len([e for e in home.events("r1") if e["type"] == "stage_dispatched"])


def test_what_a_driver_that_died_at_the_very_end_left_unwritten_is_made_by_the_next(
    tmp_path: Path,
) -> None:
    home = scaffold(tmp_path, QUICK)
    assert home.orchestrator("--run", "r1", "run-headless", "--wait").returncode == 0
    store = RunStore(home.store("r1"))
    record = store.stages_dir / "12" / "04-review.json"
    derived = {path: path.read_bytes() for path in (store.costs_path, record)}
    for path in derived:
        path.unlink()
    assert home.orchestrator("--run", "r1", "run-headless", "--wait").returncode == 0
    assert {path: path.read_bytes() for path in derived} == derived


def test_the_traceback_of_an_error_around_a_dispatch_is_kept_and_shown_to_nobody(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = RunStore(scaffold(tmp_path, QUICK).store("r1"))

    async def go_wrong() -> None:
        run = await LiveRun.open(open_journal(store.events_path, store.run_id))
        async with wiring.attached(run, store):
            try:
                raise KeyError("a bug")
            except KeyError as fault:
                executor.LOG.error("T1/scope/a1/d1: unexpected error", exc_info=fault)

    trio.run(go_wrong)
    assert capfd.readouterr().err == ""
    kept = (store.path / "orchestrator-errors.log").read_text()
    assert "T1/scope/a1/d1: unexpected error\nTraceback" in kept
    assert "KeyError: 'a bug'" in kept


def test_a_run_with_a_failed_task_ends_with_6(tmp_path: Path) -> None:
    scenario = QUICK + (
        '[[call]]\nstage = "implement"\ndo = []\nlast_words = "agents-own-words"\n'
        'output = { summary = "agents-own-words", files_changed = [], notes = "" }\n'
    )
    home = scaffold(tmp_path, scenario, attempts_max="1")
    done = home.orchestrator("--run", "r1", "run-headless", "--wait")
    assert done.returncode == 6, done.stderr
    assert json.loads(done.stdout)["run_state"] == "failed"
    (task,) = json.loads(done.stdout)["tasks"]
    assert (task["cause"], task["reason"]) == (
        "no_change",
        "implement: no_change; `status` says more",
    )
    said = done.stdout + done.stderr + (home.store("r1") / "driver.log").read_text()
    assert "agents-own-words" not in said


def test_why_a_stage_without_a_model_failed_is_told_at_the_end_and_not_cut(tmp_path: Path) -> None:
    home = make_home(tmp_path, tasks=TASK, scenario=QUICK)
    with (home.repository / ".orchestrator" / "project.toml").open("a") as file:
        file.write(f'[commands]\ninstall = ["sh", "-c", "echo {"long " * 40}end; exit 7"]\n')
    git(home.repository, "commit", "-qam", "install")
    home.json("--run", "r1", "init-run", "--lane", "micro")
    home.json("--run", "r1", "add-task", "--all")
    home.json("--run", "r1", "set", "infrastructure_retries_max", "0")
    done = home.orchestrator("--run", "r1", "run-headless", "--wait", "--text")
    assert done.returncode == 6, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("#12 ")]
    assert "7" in row
    assert "…" not in row
    status = home.orchestrator("--run", "r1", "status", "--text")
    assert row in status.stdout.splitlines()


def test_a_detached_driver_is_out_of_the_launchers_reach(
    tmp_path: Path, launched: list[psutil.Process]
) -> None:
    home = scaffold(tmp_path, SLOW)
    told = detach(home, launched)
    driver = launched[0]
    assert driver_log(home)[1]["type"] == "driver_heartbeat"
    assert (os.getsid(driver.pid), os.getpgid(driver.pid)) == (driver.pid, driver.pid)
    assert driver.ppid() != os.getpid()
    command = " ".join(driver.cmdline())
    assert "--run r1 run-headless" in command
    log = str(home.store("r1") / "driver.log")
    if sys.platform == "linux":
        open_files = [os.readlink(f"/proc/{driver.pid}/fd/{n}") for n in (0, 1, 2)]
        assert open_files == [os.devnull, log, log]
    assert told["log"] == log
    assert told["monitor"].endswith("--run r1 watch")
    assert told["stop"].endswith("--run r1 stop --drain")
    status = home.json("--run", "r1", "status")["driver"]
    assert (status["state"], status["alive"], status["pid"]) == ("live", True, driver.pid)

    child = child_of(home)
    until("its start is noted", lambda: home.events("r1")[-1]["type"] == "child_started")
    before = home.events("r1")
    second = home.orchestrator("--run", "r1", "run-headless")
    assert second.returncode == 4
    assert str(driver.pid) in the_one_line(second)
    third = home.orchestrator("--run", "r1", "run-headless", "--detach")
    assert third.returncode == 4
    assert str(driver.pid) in the_one_line(third)
    refused = home.call("--run", "r1", "abandon", "#12")
    assert refused.returncode == 1
    assert "stop" in the_one_line(refused)
    for resume in ((), ("--resume",)):
        taken = home.orchestrator("--run", "r1", "next", "--task", "#12", *resume)
        assert taken.returncode == 1
        assert "12/implement/a1/d1" in the_one_line(taken)
    assert home.events("r1") == before

    assert home.json("--run", "r1", "stop", "--now")["in_flight"] == ["#12"]
    until("the driver has ended", lambda: has_ended(home))
    until("no child is left", lambda: not child.is_running())
    until("the driver is gone", lambda: not driver.is_running())
    narration = Path(log).read_text()
    assert len(re.findall(r" driving ", narration)) == 1
    assert "driver ends" in narration.splitlines()[-1], "and no status below it"


def test_a_detached_driver_that_cannot_begin_is_told_with_its_status(
    tmp_path: Path, launched: list[psutil.Process]
) -> None:
    home = make_home(tmp_path, tasks=TASK)
    home.json("--run", "r1", "init-run")
    done = home.orchestrator("--run", "r1", "run-headless", "--detach")
    assert done.returncode == 1
    assert "has no tasks" in the_one_line(done)


def test_a_run_for_hands_is_not_driven(tmp_path: Path) -> None:
    home = make_home(tmp_path, tasks=TASK)
    home.json("--run", "r1", "init-run", "--mode", "interactive")
    home.json("--run", "r1", "add-task", "--all")
    done = home.orchestrator("--run", "r1", "run-headless")
    assert done.returncode == 1
    assert "stepped by hand" in the_one_line(done)


def test_a_driver_detached_the_customers_own_way(
    tmp_path: Path, launched: list[psutil.Process]
) -> None:
    home = scaffold(tmp_path, QUICK)
    store = home.store("r1")
    words = [sys.executable, "-m", "orchestrator", "--run", "r1", "run-headless", "--wait"]
    script = (
        "import os, subprocess, sys\n"
        "if os.fork(): sys.exit(0)\n"
        "os.setsid()\n"
        f"log = open({str(store / 'driver.log')!r}, 'a')\n"
        f"subprocess.run({words!r}, stdout=log, stderr=log, stdin=subprocess.DEVNULL)\n"
    )
    subprocess.run(
        [sys.executable, "-c", script],
        cwd=home.repository,
        env=home.environment(),
        check=True,
        timeout=60,
    )
    until("the driver has written", lambda: (store / "driver.jsonl").exists())
    until("the run has ended", lambda: has_ended(home))
    assert home.json("--run", "r1", "status")["run_state"] == "completed"
    start = driver_log(home)[0]
    assert start["sid"] != os.getsid(0)
    said = (store / "driver.log").read_text()
    assert len(re.findall(r" driving ", said)) == 1
    assert len(re.findall(r" dispatched .*stage=intake", said)) == 1
    assert WORDS not in said


def test_a_second_driver_is_refused_although_the_lock_was_deleted(
    tmp_path: Path, launched: list[psutil.Process]
) -> None:
    home = scaffold(tmp_path, SLOW)
    detach(home, launched)
    driver = launched[0]
    child = child_of(home)
    until("its start is noted", lambda: home.events("r1")[-1]["type"] == "child_started")
    before = home.events("r1")
    lock = home.store("r1") / "driver.lock"
    lock.unlink()
    for words in (("run-headless",), ("run-headless", "--take-over"), ("run-headless", "--detach")):
        second = home.orchestrator("--run", "r1", *words)
        assert second.returncode == 4
        assert f"another driver is live (pid {driver.pid})" in the_one_line(second)
    assert home.events("r1") == before
    assert len(re.findall("driver_start", (home.store("r1") / "driver.jsonl").read_text())) == 1

    # Nor does `stop` end the children of a driver that lives: that is the driver's to do.
    assert home.json("--run", "r1", "stop", "--now")["in_flight"] == ["#12"]
    until("the driver has ended", lambda: has_ended(home))
    until("no child is left", lambda: not child.is_running())


def test_what_a_killed_driver_leaves_is_told_and_can_be_ended(
    tmp_path: Path, launched: list[psutil.Process]
) -> None:
    home = scaffold(tmp_path, SLOW)
    detach(home, launched)
    child = child_of(home)
    launched[0].send_signal(signal.SIGKILL)
    launched[0].wait(WITHIN_S)
    status = home.json("--run", "r1", "status")
    assert status["driver"]["state"] == "dead"
    assert status["events_audit"]["outstanding"] == 1
    assert status["events_audit"]["orphaned"] == []  # the child lives on
    assert child.is_running()
    assert home.call("--run", "r1", "abandon", "#12").returncode == 1

    assert "ended #12" in home.json("--run", "r1", "stop", "--now")["said"]
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert home.json("--run", "r1", "status")["events_audit"]["orphaned"]
    assert home.json("--run", "r1", "abandon", "#12")["tasks"][0]["state"] == "rejected"


def test_tail_follows_a_task_to_its_end(tmp_path: Path) -> None:
    home = scaffold(tmp_path, QUICK)
    tail = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "--run", "r1", "tail", "#12", "--follow"],
        cwd=home.repository,
        env=home.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tail.stderr is not None
    noted = [tail.stderr.readline() for _ in range(2)]
    assert noted[1].startswith("note: no driver is live: ")
    assert home.orchestrator("--run", "r1", "run-headless", "--wait").returncode == 0
    said, more = tail.communicate(timeout=60)
    assert tail.returncode == 0
    assert "no driver is live" not in more
    stages = re.findall(r"^--- (\w+)-attempt1$", said, re.MULTILINE)
    assert stages[-1] == "review"
    assert "= success" in said


def test_a_task_is_stepped_by_hand(tmp_path: Path) -> None:
    home = scaffold(tmp_path, QUICK)
    item = home.json("--run", "r1", "next", "--task", "#12")
    assert (item["stage"], item["attempt"], item["lane"]) == (
        "implement",
        1,
        "interactive:claude",
    )
    assert WORDS in item["prompt"]
    taken = home.call("--run", "r1", "next", "--task", "#12")
    assert taken.returncode == 1
    assert item["id"] in the_one_line(taken)

    (Path(item["cwd"]) / "done.txt").write_text("done\n")
    result = {
        "work_item_id": item["id"],
        "content_hash": item["content_hash"],
        "run_id": "r1",
        "task_id": "#12",
        "stage": "implement",
        "attempt": 1,
        "status": "success",
        "structured_output": {"summary": "s", "files_changed": ["done.txt"], "notes": ""},
    }
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**result, "content_hash": "0" * 64}))
    stale = home.call("--run", "r1", "record", "--result", str(path))
    assert (stale.returncode, json.loads(stale.stdout)["recorded"]) == (1, False)
    path.write_text(json.dumps({**result, "cost_usd": -5}))
    refunded = home.call("--run", "r1", "record", "--result", str(path))
    assert (refunded.returncode, json.loads(refunded.stdout)["recorded"]) == (2, False)
    assert "cost_usd" in json.loads(refunded.stdout)["reason"]
    path.write_text(json.dumps(result))
    recorded = home.json("--run", "r1", "record", "--result", str(path))
    assert (recorded["ok"], recorded["recorded"], recorded["outcome"]) == (True, True, "advanced")

    review = home.json("--run", "r1", "next", "--task", "#12")
    assert review["stage"] == "review"
    again = home.json("--run", "r1", "next", "--task", "#12", "--resume")
    assert again["id"] != review["id"]
    assert home.events("r1")[-1]["supersedes"] == review["id"]
    audit = home.json("--run", "r1", "status")["events_audit"]
    assert (audit["superseded"], audit["outstanding"], audit["results_rejected"]) == (1, 1, 1)


def by_hand(
    home: Home, output: dict[str, Any], *, hide: bool = False, **more: Any
) -> dict[str, Any]:
    """Take the task's next work item and hand this back; what `record` answered."""
    item = home.json("--run", "r1", "next", "--task", "#12")
    if hide:
        git(Path(item["cwd"]), "update-index", "--assume-unchanged", "tasks.toml")
    if item["stage"] == "implement":
        Path(item["cwd"], "done.txt").write_text("done\n")
    same = ("content_hash", "run_id", "task_id", "stage", "attempt")
    result = {key: item[key] for key in same} | {"work_item_id": item["id"], "status": "success"}
    path = home.path / "result.json"
    path.write_text(json.dumps({**result, "structured_output": output, **more}))
    done = home.call("--run", "r1", "record", "--result", str(path), "--json")
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return {**answer, "cwd": item["cwd"]}


WORK = {"summary": "s", "files_changed": ["done.txt"], "notes": ""}
VERDICT = {"approved": True, "issues": [], "non_blocking": []}


@pytest.mark.parametrize("keep", ["", "hidden", "setting"])
def test_a_task_that_is_completed_by_hand_leaves_no_worktree_but_one_that_holds_more(
    tmp_path: Path, keep: str
) -> None:
    home = scaffold(tmp_path, QUICK, **({"keep_worktrees": "true"} if keep == "setting" else {}))
    implemented = by_hand(home, WORK)
    assert "reason" not in implemented
    worktree = Path(implemented["cwd"])
    answer = by_hand(home, VERDICT, hide=keep == "hidden")
    assert (answer["task_state"], answer["run_state"]) == ("completed", "completed")
    assert worktree.exists() == bool(keep)
    assert worktree.parent.exists() == bool(keep)
    assert ("tasks.toml" in answer.get("worktree_kept", "")) == (keep == "hidden")


def test_why_a_result_by_hand_is_a_retry_is_told(tmp_path: Path) -> None:
    home = scaffold(tmp_path, QUICK)
    answer = by_hand(home, {**WORK, "files_changed": "done.txt"})
    assert answer["outcome"] == "retry"
    assert answer["reason"] == "invalid_output: output.files_changed must be array, not string"
    answer = by_hand(home, WORK, status="failure", error="I could not")
    assert answer["reason"] == "work_error: I could not"


def test_a_task_that_another_was_quicker_to_take_is_refused_and_nothing_breaks(
    tmp_path: Path,
) -> None:
    home = scaffold(tmp_path, QUICK)
    store = RunStore(home.store("r1"))
    events: list[dict[str, Any]] = []

    async def too_late() -> None:
        run = await LiveRun.open(open_journal(store.events_path, store.run_id))
        quicker = home.orchestrator("--run", "r1", "next", "--task", "#12")
        assert json.loads(quicker.stdout)["stage"] == "implement"
        events.extend(home.events("r1"))
        with pytest.raises(Refused, match="taken by somebody else"):
            await next_work_item(run, store, TaskId("#12"), resume=False)

    trio.run(too_late)
    assert home.events("r1") == events
    assert home.json("--run", "r1", "status")["events_audit"]["clean"]
