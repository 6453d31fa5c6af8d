"""Commands as processes: what they print, where, and with which exit status."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.core.model import Stage
from orchestrator.journal.codec import encode_commit
from tests.e2e.cli_process import Home, git, lines, make_home, the_one_line
from tests.unit.journal.events import NOW, dispatched


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A run ``r1`` with all tasks, which no test changes."""
    home = make_home(tmp_path_factory.mktemp("cli"))
    assert home.call("--run", "r1", "init-run", "--lane", "lite").returncode == 0
    assert home.call("--run", "r1", "add-task", "--all").returncode == 0
    return home


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("", 2, "which command?"),
        ("statsu", 2, "did you mean status?"),
        ("hold", 2, "not built yet"),
        ("--projct . status", 2, "did you mean --project?"),
        ("status", 2, "which run?"),
        ("--run nope status", 1, "there are r1"),
        ("--run r1 status --bogus", 2, "no option --bogus"),
        ("--run r1 stop --draim", 2, "did you mean --drain?"),
        ("--run r1 stop --drain --now", 2, "not allowed with"),
        ("--run r1 --project /nowhere status", 2, "/nowhere"),
        ("--run r1 tail T9", 1, "has no task T9; there are #12, B"),
        ("--run r1 tail B", 1, "has not been started"),
        ("--run r1 requeue '#12'", 1, "#12 is ready"),
        ("--run r1 abandon D", 1, "has no task D"),
        ("--run r1 add-task", 2, "which tasks?"),
        ("--run r1 add-task --task D", 1, "D"),
        ("--run r1 add-task --task B", 1, "in the run already"),
        ("--run r1 set max_concurent 3", 2, "did you mean max_concurrent?"),
        ("--run r1 set max_concurrent", 2, "has no value"),
        ("--run r1 set max_concurrent many", 2, "whole number"),
        ("--run r1 dispatchable --util 101", 2, "percentage"),
        ("--run r1 dispatchable --max-concurrent 0", 2, "from 1 to 1000"),
        ("--run r1 next --task B --guard-supervisor-context", 2, "not built yet"),
        ("--run r1 next", 2, "--task"),
        ("--run r1 record --result /nowhere.json", 2, "/nowhere.json"),
        ("--run r1 init-run", 1, "there already"),
        ("--run r2 init-run --lane big", 2, "invalid choice"),
        ("--run r2 init-run --review-workflow x", 2, "no option --review-workflow"),
        ("--run r2 init-run --budget-usd lots", 2, "a number"),
        ("--run a/b init-run", 2, "a/b"),
        ("schema evnt", 2, "did you mean event?"),
        ("schema nope", 2, "there are cost_report, cost_row, "),
        ("--run status", 2, "--run has no value, or no command follows: --run VALUE status …"),
        ("--run --json status", 2, "--run has no value before --json"),
        ("--run", 2, "--run has no value"),
        ("status --run", 2, "--run has no value; see"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    home: Home, words: str, status: int, told: str
) -> None:
    before = home.events("r1")
    done = home.call(*words.replace("'", "").split())
    assert told in the_one_line(done)
    assert done.returncode == status
    assert home.events("r1") == before
    assert len(list((home.path / "home/Development/runs/sample").glob("*/*"))) == 1


def test_every_command_says_where_the_store_is_and_what_it_found(home: Home) -> None:
    done = home.call("status", "--run", "r1")
    assert f"note: run r1: run store at {home.store('r1')}\n" in done.stderr
    status = json.loads(done.stdout)
    assert (status["run_state"], status["terminal"]) == ("created", False)
    states = {task["task_id"]: task["state"] for task in status["tasks"]}
    assert states == {"#12": "ready", "B": "waiting", "C": "waiting"}
    assert status["driver"]["state"] == "none"
    assert home.call("--run", "r1", "status", "--text").stdout.startswith("run r1: created")


def test_looking_changes_nothing(home: Home) -> None:
    def listing() -> list[tuple[str, int]]:
        return sorted((str(p), p.stat().st_mtime_ns) for p in home.store("r1").rglob("*"))

    before = listing()
    for words in (("status",), ("audit",), ("dispatchable",), ("set",)):
        assert home.call("--run", "r1", *words).returncode == 0
    assert listing() == before


def test_dispatchable_is_json_where_nobody_looks(home: Home) -> None:
    done = home.call("--run", "r1", "dispatchable", "--util", "80")
    assert json.loads(done.stdout) == {
        "dispatchable": ["#12"],
        "limit": 1,
        "limited_by": "util",
        "in_flight": [],
        "in_flight_count": 0,
    }


def test_a_closed_pipe_ends_it_by_its_signal(home: Home) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "--run", "r1", "status"],
        cwd=home.repository,
        env=home.environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert done.returncode == -signal.SIGPIPE
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_output_that_takes_nothing_is_told(home: Home) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator", "--run", "r1", "status"],
            cwd=home.repository,
            env=home.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 5
    assert "No space left on device" in the_one_line(done)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(("words", "status"), [(("r1", "pause"), 0), (("nope", "pause"), 1)])
def test_notes_that_nothing_takes_change_neither_the_work_nor_its_status(
    tmp_path: Path, words: tuple[str, ...], status: int
) -> None:
    own = make_home(tmp_path)
    own.json("--run", "r1", "init-run")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator", "--run", *words],
            cwd=own.repository,
            env=own.environment(),
            stdout=subprocess.DEVNULL,
            stderr=full,
            timeout=60,
            check=False,
        )
    assert done.returncode == status
    paused = [event for event in own.events("r1") if event["type"] == "run_paused"]
    assert len(paused) == (status == 0)


def test_ctrl_c_while_watching_ends_it_by_its_signal(home: Home) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "--run", "r1", "watch"],
        cwd=home.repository,
        env=home.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        try:
            assert watching.stdout is not None
            assert "run created" in watching.stdout.readline()
            watching.send_signal(signal.SIGINT)
            _, stderr = watching.communicate(timeout=60)
        finally:
            watching.kill()
    assert watching.returncode == -signal.SIGINT
    assert "Traceback" not in stderr


def test_an_unexpected_error_is_one_line_and_its_traceback_is_kept(home: Home) -> None:
    code = (
        "import drivers.cli.status as s, drivers.cli.main as m, sys\n"
        "def run(args, ctx): raise ValueError('a\\nb')\n"
        "s.run = run\n"
        "sys.exit(m.main(['--run', 'r1', 'status']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=home.repository,
        env=home.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    line = the_one_line(done)
    assert done.returncode == 5
    assert "unexpected ValueError: a b" in line
    log = Path(line.partition("(details in ")[2].rstrip(")"))
    assert "Traceback" in log.read_text()


def test_help_is_there_for_every_command_without_loading_any() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "orchestrator", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert loaded.isdisjoint({"trio", "msgspec", "pydantic", "structlog", "argparse", "psutil"})
    assert "run-headless" in done.stdout
    assert not {name for name in loaded if name.startswith("adapters")}


def test_who_only_looks_does_not_wait_for_an_event_loop(home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "orchestrator", "--run", "r1", "status"],
        env=home.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "orchestrator.journal.snapshot" in loaded
    assert loaded.isdisjoint({"trio", "pydantic", "structlog", "psutil", "difflib"})


def test_both_names_are_one_program(home: Home) -> None:
    words = ["-c", "from drivers.cli.main import console; console()", "--version"]
    script = subprocess.run(
        [sys.executable, *words], env=home.environment(), capture_output=True, check=True
    )
    module = home.orchestrator("--version")
    assert (module.returncode, module.stdout) == (0, script.stdout.decode())


# What changes a run has one of its own.


@pytest.fixture
def own(tmp_path: Path) -> Home:
    return make_home(tmp_path)


def test_a_run_is_made_and_scaffolded(own: Home) -> None:
    made = own.json("--run", "r1", "init-run", "--max-concurrent", "2", "--budget-usd", "4.5")
    assert made["store"] == str(own.store("r1"))
    assert (made["settings"]["max_concurrent"], made["settings"]["budget_usd"]) == (2, 4.5)
    assert made["base_commit"] == git(own.repository, "rev-parse", "HEAD")
    added = own.json("--run", "r1", "add-task", "--task", "C", "--depends-on", "#12")
    assert (added["task"], added["depends_on"]) == ("C", ["B", "#12"])
    assert added["waiting_for"] == ["#12", "B"]
    added = own.json("--run", "r1", "add-task", "--all")
    assert [row["task"] for row in added["tasks"]] == ["#12", "B"]
    assert own.json("--run", "r1", "set", "lane", "micro")["pipeline"] == "micro"
    assert [event["type"] for event in own.events("r1")] == [
        "run_created",
        "task_added",
        "task_added",
        "task_added",
        "settings_changed",
    ]


def test_a_run_without_a_name_gets_one(own: Home) -> None:
    first, second = own.json("init-run")["run"], own.json("init-run")["run"]
    assert first != second
    assert first.startswith("sample-")


def test_root_pins_the_store(own: Home) -> None:
    root = str(own.path / "pinned")
    made = own.json("--root", root, "--run", "r1", "init-run")
    assert made["store"] == f"{root}/r1"
    assert own.json("--run", "r1", "status", "--root", root)["run_id"] == "r1"


@pytest.mark.parametrize("other", [("--task", "B"), ("--label", "api")])
def test_all_tasks_and_some_are_not_asked_for_at_once(own: Home, other: tuple[str, str]) -> None:
    own.json("--run", "r1", "init-run")
    done = own.call("--run", "r1", "add-task", "--all", *other)
    assert (done.returncode, len(own.events("r1"))) == (2, 1)
    assert f"leave it out, or {other[0]}" in the_one_line(done)


def test_a_cycle_is_refused_by_its_path(own: Home) -> None:
    own.json("--run", "r1", "init-run")
    own.json("--run", "r1", "add-task", "--task", "B,C")
    done = own.call("--run", "r1", "add-task", "--task", "#12", "--model", "two words")
    assert (done.returncode, "--model is a model's name" in done.stderr) == (2, True)
    done = own.call("--run", "r1", "add-task", "--task", "#12", "--depends-on", "C")
    assert done.returncode == 1
    line = the_one_line(done)
    assert "->" in line
    assert {"#12", "B", "C"} <= set(line.replace(":", " ").split())
    assert len(own.events("r1")) == 3


def test_a_missing_dependency_is_named_before_anything_is_driven(own: Home) -> None:
    own.json("--run", "r1", "init-run")
    done = own.call("--run", "r1", "add-task", "--task", "B")
    assert "#12 is waited for" in done.stderr
    driven = own.call("--run", "r1", "run-headless")
    assert driven.returncode == 1
    assert "#12" in the_one_line(driven)


def test_a_dependency_that_the_source_does_not_know_is_refused(own: Home) -> None:
    own.json("--run", "r1", "init-run")
    done = own.call("--run", "r1", "add-task", "--task", "B", "--depends-on", "nix")
    assert (done.returncode, len(own.events("r1"))) == (1, 1)
    assert "B depends on nix" in the_one_line(done)


def test_steering_is_written_down(own: Home) -> None:
    own.json("--run", "r1", "init-run", "--budget-usd", "1")
    own.json("--run", "r1", "add-task", "--all")
    assert own.json("--run", "r1", "pause", "--reason", "lunch")["run_state"] == "paused"
    unpaused = own.json("--run", "r1", "unpause", "--raise-budget", "2")
    assert (unpaused["run_state"], unpaused["budget_usd"]) == ("created", 2.0)
    given_up = own.json("--run", "r1", "abandon", "#12")
    assert given_up["blocked"] == ["B", "C"]
    again = own.json("--run", "r1", "requeue", "#12")
    assert again["tasks"] == [{"task": "#12", "state": "ready", "round": 2}]
    assert own.events("r1")[-1]["type"] == "task_requeued"
    assert again["next"].endswith("run-headless --wait")
    told = own.call("--run", "r1", "abandon", "#12").stdout
    assert "#12  abandoned\n" in told
    assert "rejected" not in told


def test_a_prompt_of_a_megabyte_is_a_task_like_any(tmp_path: Path) -> None:
    body = "word " * 200_000
    own = make_home(tmp_path, tasks=f'[[task]]\nid = "big"\ntitle = "Big"\nbody = "{body}"\n')
    own.json("--run", "r1", "init-run")
    assert own.json("--run", "r1", "add-task", "--all")["task"] == "big"
    assert len(own.events("r1")[-1]["body"]) > 900_000


def test_a_full_disk_is_told_and_nothing_is_half_made(own: Home) -> None:
    own.json("--run", "r1", "init-run")
    before = own.events("r1")

    def no_space() -> None:
        size = (own.store("r1") / "events.jsonl").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    done = own.orchestrator("--run", "r1", "pause", preexec=no_space)
    assert done.returncode == 5
    assert "events.jsonl" in the_one_line(done)
    assert own.events("r1") == before
    made = own.orchestrator(
        "--run", "r2", "init-run", preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))
    )
    assert made.returncode == 5
    the_one_line(made)
    assert own.orchestrator("--run", "r2", "status").returncode == 1


def test_a_damaged_journal_is_refused_by_its_line(own: Home) -> None:
    own.json("--run", "r1", "init-run")
    own.json("--run", "r1", "add-task", "--task", "#12")
    own.json("--run", "r1", "add-task", "--task", "B")
    path = own.store("r1") / "events.jsonl"
    damaged = path.read_bytes().split(b"\n")
    damaged[1] = b"{garbage"
    path.write_bytes(b"\n".join(damaged))
    done = own.call("--run", "r1", "status")
    assert done.returncode == 5
    assert "line 2" in the_one_line(done)


def test_an_event_that_does_not_fit_is_told_with_the_remedy(own: Home) -> None:
    own.json("--run", "r1", "init-run")
    own.json("--run", "r1", "add-task", "--task", "#12")
    path = own.store("r1") / "events.jsonl"
    last = json.loads(path.read_text().splitlines()[-1])
    with path.open("a") as journal:
        journal.write(json.dumps({**last, "seq": last["seq"] + 1}) + "\n")
    for words in (["status"], ["pause"]):
        done = own.call("--run", "r1", *words)
        assert done.returncode == 5
        assert "restore events.jsonl from a copy" in the_one_line(done)


def test_what_another_host_has_is_status_4_and_stays_as_it_is(own: Home) -> None:
    own.json("--run", "r1", "init-run")
    own.json("--run", "r1", "add-task", "--task", "#12")
    before = own.events("r1")
    elsewhere = dispatched("#12", Stage.INTAKE)
    line, _ = encode_commit([elsewhere], after_seq=before[-1]["seq"], run_id="r1", now=NOW)
    with (own.store("r1") / "events.jsonl").open("ab") as journal:
        journal.write(line)
    done = own.orchestrator("--run", "r1", "run-headless", "--wait")
    assert done.returncode == 4
    assert "orchestrator --run r1 run-headless --take-over" in the_one_line(done)
    assert [event for event in own.events("r1") if event["type"] == "stage_recorded"] == []
    assert own.json("--run", "r1", "status")["tasks"][0]["state"] == "running"


@pytest.mark.parametrize(
    "kind", ["typo", "no commits", "no git", "blocked", "run blocked", "no base"]
)
def test_a_repository_that_cannot_be_used_is_told_and_makes_no_run(own: Home, kind: str) -> None:
    project = own.repository / ".orchestrator" / "project.toml"
    told = kind
    match kind:
        case "typo":
            project.write_text(project.read_text().replace("source", "sorce"))
            told = "source"
        case "no commits":
            (own.repository / ".git").rename(own.path / "old-git")
            git(own.repository, "init", "-q")
            told = "no commits"
        case "no git":
            (own.repository / ".git").rename(own.path / "old-git")
            told = "git"
        case "blocked":
            git(own.repository, "branch", "orchestrator")
            told = "blocks"
        case "run blocked":
            git(own.repository, "branch", "orchestrator/r1")
            told = "git branch -m orchestrator/r1 NAME"
        case "no base":
            project.write_text(project.read_text() + '[git]\nbase = "trunk"\n')
            told = "trunk"
        case _:
            raise AssertionError(kind)
    done = own.call("--run", "r1", "init-run")
    assert done.returncode in (1, 2)
    assert told in the_one_line(done)
    assert not list((own.path / "home").rglob("events.jsonl"))


def test_no_client_is_status_5_before_anything_starts(own: Home) -> None:
    project = own.repository / ".orchestrator" / "project.toml"
    text = project.read_text()
    project.write_text(text[: text.index("command")] + 'command = ["no-such-claude"]\n')
    own.json("--run", "r1", "init-run")
    own.json("--run", "r1", "add-task", "--all")
    before = own.events("r1")
    for more in ((), ("--detach",)):
        done = own.orchestrator("--run", "r1", "run-headless", *more)
        assert done.returncode == 5
        assert "no-such-claude" in the_one_line(done)
    assert own.events("r1") == before


def test_a_result_that_answers_nothing_is_refused_as_json(own: Home, tmp_path: Path) -> None:
    own.json("--run", "r1", "init-run")
    own.json("--run", "r1", "add-task", "--task", "#12")
    result = {
        "work_item_id": "#12/scope/a1/d1",
        "content_hash": "0" * 64,
        "run_id": "r1",
        "task_id": "#12",
        "stage": "scope",
        "attempt": 1,
        "status": "success",
    }
    good, bad, wordless = (tmp_path / name for name in ("good.json", "bad.json", "wordless.json"))
    good.write_text(json.dumps(result))
    bad.write_text(json.dumps({**result, "status": "fine"}))
    wordless.write_text(json.dumps({**result, "status": "failure"}))
    misspelt, other = tmp_path / "misspelt.json", tmp_path / "other.json"
    misspelt.write_text(json.dumps({**result, "structured_outputs": {}}))
    other.write_text(json.dumps({**result, "id": "x"}))
    torn = tmp_path / "torn.json"
    torn.write_text('{"task_id"')
    for path, status, told in (
        (good, 1, "no outstanding dispatch"),
        (torn, 2, "is no stage result"),
        (bad, 2, "status is one of success, failure, schema_violation, "),
        (wordless, 2, "needs an `error`"),
        (misspelt, 2, "no key 'structured_outputs' (did you mean structured_output?)"),
        (other, 2, "did you mean work_item_id?"),
    ):
        done = own.call("--run", "r1", "record", "--result", str(path))
        assert done.returncode == status
        answer = json.loads(done.stdout)
        assert (answer["ok"], answer["recorded"]) == (False, False)
        assert told in answer["reason"]
    assert not [event for event in own.events("r1") if event["type"] == "stage_recorded"]


def test_a_run_keeps_its_project(own: Home, tmp_path: Path) -> None:
    own.json("--run", "r1", "init-run")
    assert own.json("--run", "r1", "--project", str(own.repository), "status")["run_id"] == "r1"
    (tmp_path / "other").mkdir()
    other = make_home(tmp_path / "other")
    done = own.call("--run", "r1", "--project", str(other.repository), "pause")
    assert done.returncode == 1
    assert "leave --project out" in the_one_line(done)
    assert len(lines(own.store("r1") / "events.jsonl")) == 1


def test_an_unpaused_run_that_nobody_drives_is_said_to_be_so(own: Home) -> None:
    own.json("--run", "r1", "init-run")
    own.json("--run", "r1", "add-task", "--all")
    own.json("--run", "r1", "pause")
    done = own.call("--run", "r1", "unpause")
    assert done.stdout.startswith("run r1: unpaused\n")
    assert done.stdout.splitlines()[-1].endswith("--run r1 run-headless --wait")
    again = own.json("--run", "r1", "unpause")["next"]
    assert again == done.stdout.splitlines()[-1].strip()
    done = own.call("--run", "r1", "unpause", "--raise-budget", "5")
    assert done.returncode == 1
    own.json("--run", "r1", "set", "budget_usd", "0.02")
    done = own.call("--run", "r1", "unpause", "--raise-budget", "5")
    assert done.stdout.startswith("run r1: budget 0.02 USD -> 5.00 USD\n")
    assert "not paused" not in done.stdout + done.stderr
    own.json("--run", "hands", "init-run", "--mode", "interactive")
    assert "run-headless" not in own.call("--run", "hands", "unpause").stdout


def test_a_file_without_tasks_is_told_with_the_form_of_one(own: Home) -> None:
    file = own.repository / "tasks.toml"
    file.write_text("# none yet\n")
    own.json("--run", "r1", "init-run")
    done = own.call("--run", "r1", "add-task", "--all")
    assert done.returncode == 1
    assert f"{file} has no tasks yet: write one, [[task]], and below it id = " in done.stderr
    assert done.stdout == ""
    file.write_text('[[task]]\nid = "T1"\ntitle = "a"\ndone = true\n')
    told = own.call("--run", "r1", "add-task", "--all").stdout
    assert "in the run already, or done" in told


def test_a_label_that_no_task_has_is_refused_with_those_there_are(own: Home) -> None:
    (own.repository / "tasks.toml").write_text(
        '[[task]]\nid = "A"\ntitle = "A"\nlabels = ["api", "ui"]\n[[task]]\nid = "B"\ntitle = "B"\n'
    )
    own.json("--run", "r1", "init-run")
    done = own.call("--run", "r1", "add-task", "--label", "nope")
    assert done.returncode == 1
    assert the_one_line(done).endswith("no task has the label nope; there are api, ui")
    added = own.json("--run", "r1", "add-task", "--label", "api", "--task", "B")
    assert [row["task"] for row in added["tasks"]] == ["B", "A"]
    done = own.call("--run", "r1", "add-task", "--label", "api")
    assert (done.returncode, done.stdout) == (
        0,
        "nothing to add: what there is is in the run already, or done\n",
    )


def test_setting_says_what_it_was_before(own: Home) -> None:
    own.json("--run", "r1", "init-run")
    done = own.call("--run", "r1", "set", "max-concurrent", "5", "lane", "full")
    assert done.stdout == "max_concurrent = 5, was 3\npipeline = full, as before\n"
    own.json("--run", "r1", "add-task", "--task", "#12")
    done = own.call("--run", "r1", "set", "--task", "#12", "budget_usd", "2")
    assert done.stdout == "budget_usd = 2.0, was none\n"
    assert len(own.call("--run", "r1", "set").stdout.splitlines()) > 20


def test_what_was_set_and_paused_is_shown_and_taken_back(own: Home) -> None:
    def said(*words: str) -> str:
        done = own.call("--run", "r1", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said("init-run")
    said("add-task", "--all")
    said("set", "models.scope", "haiku", "--reason", "cheap")
    paused = said("pause", "--task", "#12", "B", "--lane", "engine:none", "--reason", "not yet")
    assert "paused: #12, B, engine:none; " in paused
    assert "unpause --task '#12' B --lane engine:none goes on" in paused
    done = own.call("--run", "r1", "unpause")
    assert "still paused: " in done.stderr
    assert "unpause --task '#12' B" in done.stderr
    assert said("set", "--task", "#12") == (
        "priority = 0\nmodel = none\neffort = none\nbudget_usd = none\npaused = not yet\n"
    )
    refused = own.call("--run", "r1", "next", "--task", "#12")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "#12 cannot start: paused: #12 (not yet); go on: " in the_one_line(refused)
    assert said("set", "--undo", "--reason", "go").splitlines() == [
        "paused_lanes = none, was engine:none",
        "#12: paused = none, was not yet",
        "B: paused = none, was not yet",
    ]
    history = said("set", "--history").splitlines()
    assert "someone  models.scope: none -> haiku (cheap)" in history[0]
    assert len(history) == 7
    assert said("set", "models.scope", "default") == "models.scope = none, was haiku\n"
    for words, status, told in (
        (("set", "--undo", "3"), 1, "only 2 changes by someone can be taken back, not 3"),
        (("set", "--undo", "0"), 2, "a number of commands from 1 on"),
        (("set", "--undo", "max_concurrent"), 2, "not 'max_concurrent'"),
        (("set", "--history", "max_concurrent", "5"), 2, "say one of them"),
        (("set", "models.scop", "opus"), 2, "did you mean scope"),
        (("pause", "--lane", "micro"), 2, "a lane is headless:claude"),
        (("unpause", "--task", "B", "--raise-budget", "5"), 2, "--raise-budget is of the whole"),
    ):
        done = own.call("--run", "r1", *words)
        assert (done.returncode, done.stdout) == (status, ""), done
        assert told in the_one_line(done)


def test_a_new_run_shows_what_is_its_own_and_what_comes_next(own: Home) -> None:
    done = own.call("--run", "r1", "init-run", "--budget-usd", "20")
    assert "\nbudget_usd 20.0\n" in done.stdout
    assert len(done.stdout.splitlines()) < 15
    assert done.stdout.splitlines()[-1].endswith("--run r1 add-task --all")
    # What is missing in the project file is noted of a run that is made, not beside a refusal.
    assert "no test command" in done.stderr
    assert "no test command" not in own.call("--run", "r1", "init-run").stderr


@pytest.mark.parametrize(
    ("old", "new", "status", "told"),
    [
        ('source = "local"', 'source = "github"', 1, "github"),
        ('path = "tasks.toml"', 'path = "gone.toml"', 2, "gone.toml does not exist"),
    ],
)
def test_a_run_is_not_made_on_a_task_source_that_cannot_be_opened(
    own: Home, old: str, new: str, status: int, told: str
) -> None:
    file = own.repository / ".orchestrator" / "project.toml"
    file.write_text(file.read_text().replace(old, new))
    done = own.call("--run", "r1", "init-run")
    assert done.returncode == status
    assert told in the_one_line(done)
    assert not list((own.path / "home").rglob("events.jsonl"))


def test_why_there_is_nothing_to_do_by_hand_is_told(own: Home) -> None:
    own.json("--run", "r1", "init-run")
    own.json("--run", "r1", "add-task", "--all")
    done = own.call("--run", "r1", "next", "--task", "B", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, None)
    assert "note: B waits for #12" in done.stderr
    own.json("--run", "r1", "abandon", "#12")
    done = own.call("--run", "r1", "next", "--task", "#12", "--json")
    assert "note: #12 is abandoned: `requeue '#12'` does it again" in done.stderr
