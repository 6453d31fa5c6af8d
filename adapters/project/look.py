"""Look at a repository and guess how it is installed, tested, linted and type-checked.

Reads files at the repository's top, runs nothing.  A guess is made only where a file says so;
what nothing says stays empty, and a person fills it in.
"""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adapters.project.look_python import see_python
from adapters.project.seen import Seen, first_of, table_in, text_of
from orchestrator.core.settings import Argv, Commands


def look(root: Path) -> tuple[Seen, ...]:
    """What the repository seems to be, the likeliest first; its first test command is the best."""
    found = [seen for see in _KINDS if (seen := see(root)) is not None]
    return tuple(sorted(found, key=lambda seen: not seen.commands.test))


def name_in(root: Path) -> str | None:
    """What the project calls itself."""
    named = (
        table_in(_toml(root / "pyproject.toml"), "project"),
        table_in(_toml(root / "pyproject.toml"), "tool", "poetry"),
        table_in(_json(root / "package.json")),
        table_in(_toml(root / "Cargo.toml"), "package"),
    )
    return next((table["name"] for table in named if isinstance(table.get("name"), str)), None)


def _toml(path: Path) -> Any:
    try:
        return tomllib.loads(text_of(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _json(path: Path) -> Any:
    try:
        return json.loads(text_of(path))
    except (ValueError, RecursionError):
        return {}


def _node(root: Path) -> Seen | None:
    if not (root / "package.json").exists():
        return None
    scripts = table_in(_json(root / "package.json"), "scripts")
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
    tool = locks.get(first_of(root, *locks) or "", "npm")
    frozen: Argv = (tool, "install", "--frozen-lockfile")
    if tool == "npm":
        frozen = ("npm", "ci") if (root / "package-lock.json").exists() else ("npm", "install")
    tests = str(scripts.get("test", "no test specified"))
    run: Argv = (tool, "run")
    typecheck = next((name for name in ("typecheck", "type-check") if name in scripts), None)
    return Seen(
        "JavaScript or TypeScript",
        "package.json",
        Commands(
            install=frozen,
            test=() if "no test specified" in tests else (*run, "test"),
            lint=(*run, "lint") if "lint" in scripts else (),
            typecheck=(*run, typecheck) if typecheck else (),
        ),
    )


def _make(root: Path) -> Seen | None:
    for file, tool in (("Makefile", "make"), ("makefile", "make"), ("justfile", "just")):
        text = text_of(root / file)
        has = {
            name for name in ("test", "lint") if re.search(rf"^{name}\b[^=:\n]*:(?!=)", text, re.M)
        }
        if has:
            test: Argv = (tool, "test") if "test" in has else ()
            lint: Argv = (tool, "lint") if "lint" in has else ()
            return Seen(f"{file} targets", file, Commands(test=test, lint=lint))
    return None


def _script(root: Path) -> Seen | None:
    if not (root / "scripts" / "test").exists():
        return None
    return Seen("its own scripts", "scripts/test", Commands(test=("scripts/test",)))


def _by_file(
    language: str, files: tuple[str, ...], **commands: Argv
) -> Callable[[Path], Seen | None]:
    """A language whose own tool knows what to do, wherever one of its files is."""

    def see(root: Path) -> Seen | None:
        sign = first_of(root, *files)
        return Seen(language, sign, Commands(**commands)) if sign else None

    return see


def _rust(root: Path) -> Seen | None:
    """A lint that warnings fail: clippy has no other way to fail at all."""
    if not (root / "Cargo.toml").exists():
        return None
    commands = Commands(
        test=("cargo", "test"),
        lint=("cargo", "clippy", "--all-targets", "--", "-D", "warnings"),
        typecheck=("cargo", "check"),
    )
    return Seen("Rust", "Cargo.toml", commands)


def _ruby_specs(root: Path) -> Seen | None:
    """Specs beside a Gemfile: a Rakefile is there for much else."""
    if not ((root / "Gemfile").exists() and (root / "spec").is_dir()):
        return None
    specs = Commands(install=("bundle", "install"), test=("bundle", "exec", "rspec"))
    return Seen("Ruby", "spec/", specs)


_PHPUNIT = ("vendor/bin/phpunit",)
_KINDS: tuple[Callable[[Path], Seen | None], ...] = (
    see_python,
    _node,
    _rust,
    _by_file("Go", ("go.mod",), test=("go", "test", "./..."), lint=("go", "vet", "./...")),
    _by_file("Java (Gradle)", ("gradlew",), test=("./gradlew", "test")),
    _by_file("Java (Gradle)", ("build.gradle", "build.gradle.kts"), test=("gradle", "test")),
    _by_file("Java (Maven)", ("mvnw",), test=("./mvnw", "-q", "test")),
    _by_file("Java (Maven)", ("pom.xml",), test=("mvn", "-q", "test")),
    _by_file("Ruby", (".rspec",), install=("bundle", "install"), test=("bundle", "exec", "rspec")),
    _ruby_specs,
    _by_file("Ruby", ("Rakefile",), install=("bundle", "install"), test=("bundle", "exec", "rake")),
    _by_file("PHP", ("phpunit.xml",), install=("composer", "install"), test=_PHPUNIT),
    _by_file("Elixir", ("mix.exs",), install=("mix", "deps.get"), test=("mix", "test")),
    _by_file("Swift", ("Package.swift",), test=("swift", "test")),
    _by_file("Dart", ("pubspec.yaml",), install=("dart", "pub", "get"), test=("dart", "test")),
    _script,
    _make,
)  # fmt: skip
