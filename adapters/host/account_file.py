"""The file of an account, as bytes: read whole, replaced whole.

Who only looks needs nothing else, and waits for nobody.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from orchestrator.core.standing import Standing
from orchestrator.given_file import read_file

VERSION = 1
BYTES_MAX = 100_000


class NotShared(Exception):
    """Why the file is of no use to this program, in words."""


class Damaged(NotShared):
    """It is no JSON: nothing of it is worth keeping."""


class _File(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    v: int
    account: str
    standing: Standing


class _Version(msgspec.Struct, frozen=True):
    v: int = 0


def path_of(directory: Path, account: str) -> Path:
    return directory / f"{account}.json"


def read(path: Path) -> Standing:
    """Nothing where there is no file.  Raises OSError, NotShared."""
    try:
        data = read_file(path, BYTES_MAX)
    except FileNotFoundError:
        return Standing()
    try:
        version = msgspec.json.decode(data, type=_Version).v
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged("it is damaged, and will be begun anew") from error
    if version != VERSION:
        raise NotShared(f"it is of version {version}, and this program reads {VERSION}")
    try:
        return msgspec.json.decode(data, type=_File).standing
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotShared(f"it cannot be read: {error}") from error


def replace(path: Path, account: str, standing: Standing) -> None:
    """Raises OSError; then the file is as it was."""
    data = msgspec.json.encode(_File(v=VERSION, account=account, standing=standing)) + b"\n"
    with _new_file(path) as descriptor:
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _new_file(path: Path) -> Iterator[int]:
    """A file that takes the place of the one at ``path`` if all goes well."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
