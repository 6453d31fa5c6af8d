"""Guess how a Python repository is installed, tested, linted and type-checked."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from adapters.project.seen import Seen, first_of, table_in, text_of
from orchestrator.core.settings import Argv, Commands


def see_python(root: Path) -> Seen | None:
    signs = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "tox.ini")
    tests = sorted(root.glob("test*/**/test*.py"))[:50] or sorted(root.glob("test*.py"))
    sign = first_of(root, *signs) or next((str(it.relative_to(root)) for it in tests), None)
    if sign is None:
        return None
    python = _Python.read(root)
    test_texts = [text_of(path) for path in tests]
    test: Argv = ()
    if python.asks_for("pytest") or any("import pytest" in text for text in test_texts):
        test = (*python.runs("pytest"), "-q")
    elif any("unittest" in text for text in test_texts):
        start = () if (root / "tests" / "__init__.py").exists() else _start_directory(root)
        test = (*python.runs("unittest"), "discover", *start)
    elif (root / "tox.ini").exists():
        test = ("tox", "-q")
    elif tests:
        test = (*python.runs("pytest"), "-q")
    return Seen(
        "Python",
        sign,
        Commands(
            install=python.install(with_pytest="pytest" in test),
            test=test,
            lint=(*python.runs("ruff"), "check", ".") if python.declares("ruff") else (),
            typecheck=python.runs("mypy") if python.declares("mypy") and python.has_mypy else (),
        ),
    )


class _Python(NamedTuple):
    """A Python repository's own words about its tools."""

    root: Path
    pyproject: dict[str, Any]
    requirements: tuple[str, ...]
    """Names of requirements files for development first, then for use."""
    declared: str
    """Everything that declares a dependency, as one text."""

    @classmethod
    def read(cls, root: Path) -> "_Python":
        try:
            pyproject = tomllib.loads(text_of(root / "pyproject.toml"))
        except (tomllib.TOMLDecodeError, RecursionError):
            pyproject = {}
        names = ("requirements-dev.txt", "dev-requirements.txt", "requirements.txt")
        requirements = tuple(name for name in names if (root / name).exists())
        said = [
            table_in(pyproject, "project").get("dependencies"),
            table_in(pyproject, "project", "optional-dependencies"),
            table_in(pyproject, "dependency-groups"),
            table_in(pyproject, "tool", "poetry"),
            *(text_of(root / name) for name in (*requirements, "setup.py", "setup.cfg")),
        ]
        return cls(root, pyproject, requirements, json.dumps(said, default=str))

    @property
    def has_mypy(self) -> bool:
        return "mypy" in table_in(self.pyproject, "tool") or (self.root / "mypy.ini").exists()

    def declares(self, package: str) -> bool:
        return re.search(rf"(?<![\w-]){package}(?![\w-])", self.declared) is not None

    def asks_for(self, runner: str) -> bool:
        """A configuration of the test runner, or a dependency on it."""
        files = (f"{runner}.ini", "conftest.py", "tests/conftest.py")
        return (
            runner in table_in(self.pyproject, "tool")
            or f"[tool:{runner}]" in text_of(self.root / "setup.cfg")
            or any((self.root / name).exists() for name in files)
            or self.declares(runner)
        )

    def runs(self, tool: str) -> Argv:
        if (self.root / "uv.lock").exists():
            return ("uv", "run", tool) if tool != "unittest" else ("uv", "run", "-m", tool)
        if (self.root / "poetry.lock").exists():
            python = ("poetry", "run", "python", "-m", tool)
            return python if tool == "unittest" else ("poetry", "run", tool)
        return (".venv/bin/python" if self._needs_an_environment else "python3", "-m", tool)

    def install(self, *, with_pytest: bool) -> Argv:
        if (self.root / "uv.lock").exists():
            return ("uv", "sync")
        if (self.root / "poetry.lock").exists():
            return ("poetry", "install")
        if not self._needs_an_environment:
            return ()
        words = [f"-r {name}" for name in self.requirements]
        if self._is_installable:
            optional = table_in(self.pyproject, "project", "optional-dependencies")
            extras = [name for name in ("dev", "test", "tests") if name in optional]
            words.append(f"-e '.[{','.join(extras)}]'" if extras else "-e .")
        if with_pytest and not self.declares("pytest"):
            words.append("pytest")
        # The environment lies in the worktree and hides itself from git.
        make = "python3 -m venv .venv && echo '*' > .venv/.gitignore"
        return ("sh", "-c", f"{make} && .venv/bin/pip install -q {' '.join(words)}")

    @property
    def _is_installable(self) -> bool:
        return "build-system" in self.pyproject or (self.root / "setup.py").exists()

    @property
    def _needs_an_environment(self) -> bool:
        return bool(self.requirements) or self._is_installable


def _start_directory(root: Path) -> Argv:
    return ("-s", "tests") if (root / "tests").is_dir() else ()
