"""Trouble of the whole machine: one line, status 5, and how to mend it; then the run goes on."""

import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli_process import Home, make_home, the_one_line

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
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    done = home.orchestrator(*RUN, preexec=few)
    assert "Traceback" not in done.stderr
    if done.returncode != 0:
        assert done.returncode == 5, done.stderr
        assert "ulimit -n" in done.stderr
    after = home.orchestrator(*RUN)
    assert after.returncode == 0, after.stderr
    assert home.json("--run", "r1", "audit")["clean"]
