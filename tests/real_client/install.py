"""Installs the pinned client once per machine, into a cache directory.

The version and its hashes are in package-lock.json beside this file; npm's own settings say
where packages come from.  An install is whole or absent: it is made aside and renamed.

    python -m tests.real_client.install          prints the binary's path
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parents[1]
_INSTALL_TIMEOUT_S = 300
_MANIFESTS = ("package.json", "package-lock.json")


class NotInstalled(Exception):
    """The client cannot be had on this machine now; the text says why."""


def version() -> str:
    manifest = json.loads((_HERE / "package.json").read_text())
    return str(manifest["dependencies"]["@anthropic-ai/claude-code"])


def cache_dir() -> Path:
    """``$XDG_CACHE_HOME/claude-client/<version>``, otherwise in the checkout's ``.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else _CHECKOUT / ".cache") / "claude-client" / version()


def binary() -> Path:
    """The client's native binary, installed where it is not yet.  Raises NotInstalled."""
    target = cache_dir()
    if not target.exists():
        _install(target)
    return _native_binary(target)


def _install(target: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not on PATH")
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        for name in _MANIFESTS:
            shutil.copy(_HERE / name, aside / name)
        _npm_ci(npm, aside)
        _native_binary(aside)
        try:
            aside.rename(target)
        except OSError:
            if not target.exists():
                raise
            # Another process finished first: its install is as good as this one.
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _npm_ci(npm: str, where: Path) -> None:
    # The package's install script only copies the binary over a wrapper that is not used here.
    argv = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    argv += ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    try:
        done = subprocess.run(
            argv,
            cwd=where,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm did not finish within {_INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotInstalled(f"npm ci failed: {said[0] if said else f'exit {done.returncode}'}")


def _native_binary(root: Path) -> Path:
    """npm installs the one package that fits this platform; its binary is named claude."""
    packages = root / "node_modules" / "@anthropic-ai"
    found = sorted(packages.glob("claude-code-*/claude"))
    if not found:
        raise NotInstalled(f"no native client for this platform in {packages}")
    return found[0]


def main() -> int:
    try:
        print(binary())
    except NotInstalled as error:
        print(f"The pinned client {version()} is not installed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
