"""Trouble of the whole machine: one line, status 5, and how to mend it; then the run goes on."""

import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.cli_process import Home, make_home, the_one_line
from tests.e2e.test_bad_output import begin, client_at_work, ended

pytestmark = pytest.mark.slow

TASK = '[[task]]\nid = "T1"\ntitle = "First"\n'
RUN = ("--run", "r1", "run-headless", "--wait")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = make_home(tmp_path, tasks=TASK)
    home.json("--run", "r1", "init-run", "--lane", "micro")
    home.json("--run", "r1", "add-task", "--all")
    return home


def read_only(path: Path, words: tuple[str, ...]) -> list[str]:
    """``words`` where nobody, not even root, may write at ``path``."""
    at = shlex.quote(str(path))
    mount = f"mount --bind {at} {at} && mount -o remount,bind,ro {at}"
    argv = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    tried = shutil.which("unshare") and subprocess.run([*argv, mount], check=False).returncode == 0
    if not tried:
        pytest.skip("this system lets nobody mount")
    return [*argv, f"{mount} && exec {shlex.join([sys.executable, '-m', 'orchestrator', *words])}"]


@pytest.mark.parametrize(
    "words", [RUN, (*RUN, "--detach"), ("--run", "r1", "pause")], ids=["here", "detached", "pause"]
)
def test_a_run_on_a_read_only_disk(home: Home, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        read_only(home.store("r1"), words),
        cwd=home.repository,
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 5
    told = the_one_line(done)
    assert "Read-only file system" in told
    assert "writable" in told or "may write" in told
    assert home.orchestrator(*RUN).returncode == 0


@pytest.mark.parametrize("most", range(14, 32, 3))
def test_too_few_descriptors(home: Home, most: int) -> None:
    done = home.orchestrator(*RUN, preexec=few(most))
    assert "Traceback" not in done.stderr
    if done.returncode != 0:
        assert done.returncode == 5, done.stderr
        assert "ulimit -n" in done.stderr
    after = home.orchestrator(*RUN)
    assert after.returncode == 0, after.stderr
    assert home.json("--run", "r1", "audit")["clean"]


def test_so_few_descriptors_that_it_cannot_work(home: Home) -> None:
    done = home.orchestrator(*RUN, preexec=few(12))
    assert done.returncode == 5
    told = the_one_line(done)
    assert "Too many open files" in told
    assert "ulimit -n" in told
    assert home.orchestrator(*RUN).returncode == 0


def few(most: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@pytest.mark.parametrize("what", ["the directory", "the journal"])
def test_a_run_that_is_deleted_under_its_driver(home: Home, what: str) -> None:
    """There is nothing left that could be lost: it says so, and leaves nobody behind."""
    (home.path / "scenario.toml").write_text("schema = 1\nduration_s = 2\n")
    store = home.store("r1")
    with begin(home, RUN, stdout=subprocess.DEVNULL) as driver:
        client = client_at_work(home)
        if what == "the directory":
            shutil.rmtree(store)
        else:
            (store / "events.jsonl").unlink()
        said = ended(driver)
    assert driver.returncode == 5
    told = [line for line in said.splitlines() if not line.startswith("note: ")]
    assert len(told) == 1, said
    assert "events.jsonl: is not to be had any more" in told[0]
    assert not client.is_running()
    after = home.orchestrator(*RUN)
    assert after.returncode == 1
    assert "there is no run 'r1'" in the_one_line(after)


@pytest.mark.parametrize("words", [RUN, ("--run", "r1", "next", "--task", "T1")])
def test_a_repository_that_is_away_for_a_while(home: Home, words: tuple[str, ...]) -> None:
    """On a disk that is not mounted: no task is failed for it."""
    away = home.repository.rename(home.path / "away")
    done = home.orchestrator(*words, cwd=home.path)
    assert done.returncode == 5
    assert f"there is no git repository at {home.repository}" in the_one_line(done)
    assert {event["type"] for event in home.events("r1")} <= {
        "run_created",
        "task_added",
        "driver_claimed",
    }
    away.rename(home.repository)
    assert home.orchestrator(*RUN).returncode == 0


def test_two_drivers_that_start_in_the_same_millisecond(home: Home) -> None:
    """Both are loaded and wait for one word; who comes second says so, and changes nothing."""
    (home.path / "scenario.toml").write_text("schema = 1\nduration_s = 1\n")
    program = (
        "import sys\nimport drivers.headless.main\nfrom drivers.cli.main import main\n"
        "print('loaded', flush=True)\nsys.stdin.readline()\nsys.exit(main(sys.argv[1:]))"
    )
    drivers = [
        subprocess.Popen(
            [sys.executable, "-c", program, *RUN],
            cwd=home.repository,
            env=home.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for driver in drivers:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "loaded\n"
        for driver in drivers:
            assert driver.stdin is not None
            driver.stdin.write("\n")
            driver.stdin.flush()
        said = [driver.communicate(timeout=60)[1] for driver in drivers]
    finally:
        for driver in drivers:
            driver.kill()
            driver.wait()
    assert sorted(driver.returncode for driver in drivers) == [0, 4], said
    (second,) = [words for words, driver in zip(said, drivers, strict=True) if driver.returncode]
    (told,) = [line for line in second.splitlines() if not line.startswith("note: ")]
    assert "another driver is live" in told
    assert [event["type"] for event in home.events("r1")].count("driver_claimed") == 1
    assert home.json("--run", "r1", "audit")["clean"]
