"""What every stored value is made of."""

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every stored value is made of: immutable, named fields, one codec."""
