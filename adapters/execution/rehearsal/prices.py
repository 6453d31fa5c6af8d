"""What a turn of the scripted model is charged: tokens, at list prices."""

from collections.abc import Mapping

from adapters.execution.rehearsal.sessions import Usage

TURN_TOKENS = Usage(12, 42, 5000, 1000)
"""Of a turn for which the scenario says nothing."""

_PRICES_PER_MTOK = {
    "opus": (5.0, 25.0, 0.5, 6.25),
    "sonnet": (3.0, 15.0, 0.3, 3.75),
    "haiku": (1.0, 5.0, 0.1, 1.25),
}


def full_model_name(model: str) -> str:
    return {
        "opus": "claude-opus-4-6",
        "sonnet": "claude-sonnet-4-6",
        "haiku": "claude-haiku-4-5",
    }.get(model, model)


def price(model: str, usage: Usage) -> float:
    family = next((name for name in _PRICES_PER_MTOK if name in model), "sonnet")
    prices = _PRICES_PER_MTOK[family]
    return sum(tokens * usd for tokens, usd in zip(usage[:4], prices, strict=True)) / 1e6


def share(tokens: Usage, turns: int, turn: int) -> Usage:
    """An even part, with what does not divide going to the last planned turn; then nothing."""
    if turn > turns:
        return Usage()
    parts = [int(value) // turns for value in tokens[:4]]
    if turn == turns:
        parts = [int(v) - p * (turns - 1) for v, p in zip(tokens[:4], parts, strict=True)]
    return Usage(*parts)


def total(spent: Mapping[str, Usage]) -> Usage:
    together = Usage()
    for usage in spent.values():
        together = together.plus(usage)
    return together
