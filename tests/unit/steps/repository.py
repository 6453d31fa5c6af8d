"""A real repository to work on, made for one test."""

import os
import subprocess
from pathlib import Path

AUTHOR = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
}
RUN = "run-1"


class Repo:
    """git for the test itself: with an identity, and with none of the machine's settings."""

    def __init__(self, path: Path, files: dict[str, str] | None = None) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        if files is not None:
            self.commit(files)

    @property
    def root(self) -> str:
        return str(self.path)

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def git(self, *args: str, cwd: str | Path | None = None, status: int = 0) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C"}
        done = subprocess.run(
            ["git", *args],
            cwd=cwd or self.path,
            env=env | AUTHOR,
            capture_output=True,
            text=True,
            errors="surrogateescape",
        )
        assert done.returncode == status, done.stderr
        return done.stdout.rstrip("\n")

    def write(self, files: dict[str, str], cwd: str | Path | None = None) -> None:
        for name, text in files.items():
            path = Path(cwd or self.path) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commit(
        self, files: dict[str, str], message: str = "work", cwd: str | Path | None = None
    ) -> str:
        self.write(files, cwd)
        self.git("add", "--all", "--force", *files, cwd=cwd)
        self.git("commit", "--quiet", "--allow-empty", "-m", message, cwd=cwd)
        return self.git("rev-parse", "HEAD", cwd=cwd)

    def worktree(self, path: Path, branch: str) -> str:
        self.git("worktree", "add", "--quiet", "-b", branch, str(path))
        return str(path)

    def refs(self, under: str = "refs") -> dict[str, str]:
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)", under).splitlines()
        return dict(line.split(" ") for line in lines)
