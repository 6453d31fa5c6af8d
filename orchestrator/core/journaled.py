"""What every event is made of: a line of the journal, whose ``type`` is the class's name."""

import msgspec


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class Journaled(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=_snake
):
    pass
