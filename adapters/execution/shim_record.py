"""How a shim writes down what others read: a small file, whole or not at all.

Its own few lines of JSON, because importing json costs a shim 12 ms and 1 MB.
"""

import os

Value = str | int | float | None | dict[str, "Value"]


def write_record(path: str, record: dict[str, Value], *, synced: bool) -> None:
    """Whole or not at all: a reader sees the old file or the new one.

    One sync does for data and name: after the rename, a sync of the file carries the rename too
    (ext4, XFS, Btrfs).  A power cut in between may leave an empty file, which readers take for
    none.
    """
    temporary = path + ".tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        data = (to_json(record) + "\n").encode("ascii")
        while data:
            data = data[os.write(fd, data) :]
        os.rename(temporary, path)
        if synced:
            os.fsync(fd)
    finally:
        os.close(fd)


def to_json(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + ",".join(f"{to_json(k)}:{to_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    return repr(value)


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if " " <= char <= "~":
        return char
    code = ord(char)
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    # A byte that is no UTF-8 came in as a lone surrogate, which no reader would take back.
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
