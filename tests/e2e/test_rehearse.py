"""``orchestrator rehearse``: somebody's own tasks on a clone, and nothing of theirs is touched."""

import json
from pathlib import Path

import pytest

from adapters.execution.rehearsal.throwaway import NAMED
from tests.e2e.cli_process import Home, git, make_home, the_one_line

TASKS = '[[task]]\nid = "#12"\ntitle = "First"\n[[task]]\nid = "B"\ntitle = "Second"\n'
SCENARIO = """
schema = 1
[[call]]
task = "#12"
stage = "implement"
start = 1
fault = ["noise", "crash"]
[[call]]
stage = "review"
fault = { name = "orphan", seconds = 600 }
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = make_home(tmp_path, tasks=TASKS)
    (tmp_path / "mine.toml").write_text(SCENARIO)
    return made


def test_the_named_scenarios_are_listed(home: Home) -> None:
    said = home.json("rehearse", "--list")["scenarios"]
    assert set(said) == {path.stem for path in NAMED.glob("*.toml")}
    assert all(said.values())


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("nothing", "there is no scenario 'nothing': name a file, or one of calm, costly, crashes"),
        ("../mine.toml", "unknown fault 'explode'"),
    ],
)
def test_refuses_in_one_line_and_makes_nothing(home: Home, scenario: str, words: str) -> None:
    (home.path / "mine.toml").write_text('call = [{ fault = "explode" }]')
    done = home.call("rehearse", "--scenario", scenario, "--dir", str(home.path / "there"))
    assert done.returncode == 2
    assert words in the_one_line(done)
    assert not (home.path / "there").exists()


@pytest.mark.slow
def test_their_tasks_are_played_on_a_clone(home: Home) -> None:
    git(home.repository, "checkout", "-q", "-b", "their-branch")
    (home.repository / "half.txt").write_text("half done")
    before = {
        what: git(home.repository, *words)
        for what, words in {
            "refs": ("for-each-ref",),
            "status": ("status", "--porcelain", "--ignored"),
            "worktrees": ("worktree", "list"),
        }.items()
    }
    there = home.path / "there"
    done = home.orchestrator(
        "rehearse", "--scenario", "../mine.toml", "--lane", "micro", "--dir", str(there), "--json"
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["run_state"] == "completed"
    assert said["tasks"] == {"#12": "completed", "B": "completed"}
    (crash,) = said["happened"]
    assert (crash["cause"], crash["times"], crash["followed"]) == ("crash", 1, {"again": 1})
    assert said["noticed"]["unreadable_lines"] == 1
    assert said["processes"] == {"ended": 2, "survivors": 0}
    assert said["clean"]
    assert said["events_audit"]["attempts_spent"] == 0

    assert git(home.repository, "for-each-ref") == before["refs"]
    assert git(home.repository, "status", "--porcelain", "--ignored") == before["status"]
    assert git(home.repository, "worktree", "list") == before["worktrees"]
    assert not (home.path / "home" / ".claude").exists(), "its sessions are not theirs"
    clone = there / "repository"
    assert git(clone, "remote") == ""
    assert "refs/heads/orchestrator/rehearsal/B" in git(clone, "for-each-ref")


@pytest.mark.slow
def test_without_a_project_the_sample_is_played(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "home").mkdir()
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    (tmp_path / "calm.toml").write_text("schema = 1\n")
    words = ("rehearse", "--scenario", "../calm.toml", "--task", "slug", "--lane", "micro")
    done = home.orchestrator(*words, "--text", cwd=nowhere)
    assert done.returncode == 0, done.stderr
    assert "on the sample repository" in done.stderr
    assert "all of 1 tasks are completed" in done.stdout
    assert "what went wrong (4 of 4 stages went well)\n  nothing\n" in done.stdout


@pytest.mark.slow
def test_tasks_that_fail_are_said_and_so_is_the_status(home: Home) -> None:
    (home.path / "mine.toml").write_text(
        '[[call]]\ntask = "B"\nstage = "implement"\nfault = "zero_work"\n'
    )
    done = home.orchestrator(
        "rehearse", "--scenario", "../mine.toml", "--lane", "micro", "--task", "B", "--text"
    )
    assert done.returncode == 6
    assert "B  failed: implement failed twice in the same way" in done.stdout
    assert "without having done anything" in done.stdout


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("rehearse", "--task", "T9"), 1),
        (("rehearse", "--max-concurrent", "0"), 2),
        (("demo", "--max-concurrent", "0"), 2),
    ],
)
def test_what_is_refused_leaves_nothing_behind(
    home: Home, words: tuple[str, ...], status: int
) -> None:
    done = home.call(*words, "--dir", str(home.path / "there"))
    assert done.returncode == status
    assert not (home.path / "there").exists()
