"""``--util`` and ``--max-concurrent``, as several commands take them."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-concurrent", type=_count, metavar="N", help="children at once (default: the run's)"
    )
    parser.add_argument(
        "--util",
        type=_share,
        default=None,
        metavar="auto|PCT",
        help="how full the account's usage window is, in percent (default: auto, as the client"
        " reports it)",
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"is a whole number from 1 to 1000, not {text!r}")
    return int(text)


def _share(text: str) -> float | None:
    """None: auto."""
    if text == "auto":
        return None
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise argparse.ArgumentTypeError(f"is auto or a percentage from 0 to 100, not {text!r}")
    return percent / 100
