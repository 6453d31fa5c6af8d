"""What one call cost, by itself, although the client's totals run over the whole session.

The invariant: summing the calls of a session gives what the session cost, and a call that
used tokens never costs 0.

List prices in USD per million tokens, used only for the part of a call that no result
accounted for: taken in 2026-11 from the cost that client 2.1.332 itself computes for known
token counts, model by model.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from adapters.execution.claude.wire import count, mapping, name, number, usd
from orchestrator.core.model import USD_MAX, CallCost, ModelUsage

CUMULATIVE_SINCE = (2, 1, 277)
"""The first client whose totals run over a resumed session."""

_OPEN_MESSAGES_MAX = 64
CHARS_PER_TOKEN = 4
_MODELS_MAX = 50
_OTHER = "others"
"""What stands for the models beyond these."""
_SAME_USD = 1e-6


class Price(NamedTuple):
    input: float
    output: float
    cache_read: float
    cache_write: float


_PRICES: tuple[tuple[str, Price], ...] = (
    # By the beginning of a model's id; the first that fits.
    ("claude-fable-5", Price(8, 40, 0.2, 10)),
    ("claude-opus-5", Price(4, 20, 0.2, 5)),
    ("claude-opus-4", Price(5, 25, 0.5, 6.25)),
    ("claude-sonnet-5", Price(2, 10, 0.1, 2.5)),
    ("claude-haiku-5", Price(0.1, 0.5, 0.01, 0.125)),
    ("claude-haiku-4", Price(1, 5, 0.1, 1.25)),
    ("claude-3-5-haiku", Price(0.8, 4, 0.08, 1)),
    ("claude-sonnet", Price(3, 15, 0.3, 3.75)),
)
_PRICE_OTHERWISE = Price(4, 20, 0.2, 5)
"""What the client itself assumes for a model it does not know."""


class Tokens(NamedTuple):
    """The usage of one message, as its assistant lines carry it."""

    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int


class Totals(NamedTuple):
    """The figures of one result line."""

    total_usd: float
    is_reported: bool
    """There was a usable figure; otherwise all else is empty."""
    by_model: dict[str, ModelUsage]
    """Over the session, with clients that accumulate."""
    own: dict[str, ModelUsage] | None
    """Since the result before: None where the client does not say."""


def totals(result: Mapping[str, Any]) -> Totals:
    total_usd = usd(result.get("total_cost_usd"))
    if total_usd is None:
        return Totals(total_usd=0.0, is_reported=False, by_model={}, own=None)
    own = result.get("model_usage_since_last_result")
    is_own = isinstance(own, dict) and all(
        usd(mapping(usage).get("costUSD", 0)) is not None for usage in own.values()
    )
    return Totals(
        total_usd=total_usd,
        is_reported=True,
        by_model=_by_model(result.get("modelUsage")),
        own=_by_model(own) if is_own else None,
    )


def _by_model(value: Any) -> dict[str, ModelUsage]:
    return {
        name(model): ModelUsage(
            input_tokens=count(usage.get("inputTokens")),
            output_tokens=count(usage.get("outputTokens")),
            cache_read_tokens=count(usage.get("cacheReadInputTokens")),
            cache_write_tokens=count(usage.get("cacheCreationInputTokens")),
            cost_usd=usd(usage.get("costUSD")) or 0.0,
        )
        for model, usage in list(mapping(value).items())[:_MODELS_MAX]
        if isinstance(usage, dict)
    }


class Meter:
    """Adds up a stream's usage in bounded memory: by result lines, and by messages between."""

    def __init__(self) -> None:
        self.last: Totals | None = None
        self._own: dict[str, ModelUsage] | None = {}
        self._open: OrderedDict[str, tuple[Tokens, int]] = OrderedDict()
        self._paid: deque[str] = deque(maxlen=_OPEN_MESSAGES_MAX)
        """Messages that a result accounted for: their lines may come late, or twice."""
        self._unaccounted: dict[str, ModelUsage] = {}
        self._accounted: dict[str, ModelUsage] = {}
        """What a result has paid for, as it would have been estimated."""

    def message(self, message_id: str, tokens: Tokens, chars: int) -> None:
        """Lines of one message repeat its usage: the largest figure of each kind counts.

        The output is counted at the beginning of a message, so what it says (``chars`` of this
        line) may be the better figure.
        """
        if message_id in self._paid:
            return
        if message_id in self._open:
            before, chars_before = self._open.pop(message_id)
            tokens = Tokens(tokens.model, *map(max, zip(tokens[1:], before[1:], strict=True)))
            chars += chars_before
        self._open[message_id] = (tokens, chars)
        while len(self._open) > _OPEN_MESSAGES_MAX:
            self._close(*self._open.popitem(last=False)[1])

    def result(self, found: Totals) -> None:
        """A line that comes twice is known by its total, which has not grown.

        One without any figure, or with a smaller total than before, takes nothing from what
        others have said, or will say; and what was used since is not paid for by it.
        """
        if not found.is_reported:
            self.last = self.last or found
            return
        if self.last is not None and found.total_usd < self.last.total_usd - _SAME_USD:
            return
        has_grown = self.last is None or found.total_usd > self.last.total_usd + _SAME_USD
        self.last = found
        if found.own is None:
            self._own = None
        elif self._own is not None and has_grown:
            self._own = _sum(self._own, found.own)
        if has_grown and found.total_usd > 0:
            self._paid.extend(self._open)
            self._accounted = _sum(self._accounted, self._estimate())
            self._unaccounted = {}

    def call_cost(
        self, before: Mapping[str, Any], version: str, asked: Tokens | None = None
    ) -> CallCost | None:
        """``before``: what the session had been charged, ``{total_usd, estimated_usd, usage}``.
        ``asked``: a request that was probably sent, for where nothing else is known of it.

        None: nothing is known to have been used, and no figure was reported.
        """
        estimate = self._estimate()
        is_reported = self.last is not None and self.last.is_reported
        if not estimate and not is_reported and asked is not None:
            self._close(asked, 0)
            estimate = self._estimate()
        if self.last is None and not estimate:
            return None
        metered, metered_usd = self._metered(before, version)
        if metered_usd <= 0 and self._accounted:
            # It was at work, and its totals have not grown: they tell of something else.
            metered, metered_usd, estimate = {}, 0.0, _sum(estimate, self._accounted)
        estimated_usd = min(sum(usage.cost_usd for usage in estimate.values()), USD_MAX)
        by_model = _sum(metered, estimate)
        return CallCost(
            cost_usd=min(metered_usd + estimated_usd, USD_MAX),
            session_total_usd=self._session_total(before),
            metered=not estimate,
            estimated_usd=estimated_usd,
            input_tokens=sum(usage.input_tokens for usage in by_model.values()),
            output_tokens=sum(usage.output_tokens for usage in by_model.values()),
            cache_read_tokens=sum(usage.cache_read_tokens for usage in by_model.values()),
            cache_write_tokens=sum(usage.cache_write_tokens for usage in by_model.values()),
            by_model=by_model,
        )

    def _metered(
        self, before: Mapping[str, Any], version: str
    ) -> tuple[dict[str, ModelUsage], float]:
        if self.last is None:
            return {}, 0.0
        usd_before = number(before.get("total_usd")) or 0.0
        usage_before = _stored(before.get("usage"))
        grown_usd = self.last.total_usd - usd_before
        if self._own is not None:
            own_usd = sum(usage.cost_usd for usage in self._own.values())
            # More, where an earlier call was charged whose result nobody saw: but for what was
            # booked of it as an estimate.  Never less: the client may have forgotten that call.
            grown_usd -= number(before.get("estimated_usd")) or 0.0
            if grown_usd <= own_usd + _SAME_USD or not before:
                return self._own, own_usd
            return _difference(self.last.by_model, usage_before), grown_usd
        if not _is_cumulative(self.last, usd_before, usage_before, version):
            return self.last.by_model, self.last.total_usd
        return _difference(self.last.by_model, usage_before), grown_usd

    def _session_total(self, before: Mapping[str, Any]) -> float | None:
        """A failed start reports a total of 0 for a session that has cost something."""
        if self.last is None or (self.last.total_usd == 0 and number(before.get("total_usd"))):
            return None
        return self.last.total_usd

    def _estimate(self) -> dict[str, ModelUsage]:
        for tokens, chars in self._open.values():
            self._close(tokens, chars)
        self._open.clear()
        return self._unaccounted

    def _close(self, tokens: Tokens, chars: int) -> None:
        tokens = tokens._replace(output=max(tokens.output, chars // CHARS_PER_TOKEN))
        if any(tokens[1:]):
            usage = usage_at_list_price(tokens)
            known = self._unaccounted
            is_one_more = tokens.model not in known and len(known) >= _MODELS_MAX
            self._unaccounted = _sum(known, {_OTHER if is_one_more else tokens.model: usage})


def asked_at_least(model: str, prompt_chars: int) -> Tokens:
    """A request with this prompt; what else was in it, nobody has said."""
    return Tokens(model, max(1, prompt_chars // CHARS_PER_TOKEN), 0, 0, 0)


def usage_at_list_price(tokens: Tokens) -> ModelUsage:
    price = price_of(tokens.model)
    return ModelUsage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
        cost_usd=sum(n * usd for n, usd in zip(tokens[1:], price, strict=True)) / 1e6,
    )


def price_of(model: str) -> Price:
    return next((p for prefix, p in _PRICES if model.startswith(prefix)), _PRICE_OTHERWISE)


def _is_cumulative(
    last: Totals, usd_before: float, before: Mapping[str, ModelUsage], version: str
) -> bool:
    known = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", version)
    if known:
        # By its tokens it may look otherwise: what was estimated is among those before.
        is_new = tuple(map(int, known.groups())) >= CUMULATIVE_SINCE
        return is_new and last.total_usd >= usd_before
    grown = all(
        model in last.by_model and min(_fields(_minus(last.by_model[model], usage))[:4]) >= 0
        for model, usage in before.items()
    )
    return grown and last.total_usd >= usd_before


def _stored(value: Any) -> dict[str, ModelUsage]:
    try:
        return msgspec.convert(value, dict[str, ModelUsage])
    except (msgspec.ValidationError, UnicodeError):
        return {}


def _fields(usage: ModelUsage) -> tuple[float, ...]:
    return msgspec.structs.astuple(usage)


def _sum(left: Mapping[str, ModelUsage], right: Mapping[str, ModelUsage]) -> dict[str, ModelUsage]:
    added = dict(left)
    for model, usage in right.items():
        old = added.get(model, ModelUsage())
        added[model] = ModelUsage(
            input_tokens=old.input_tokens + usage.input_tokens,
            output_tokens=old.output_tokens + usage.output_tokens,
            cache_read_tokens=old.cache_read_tokens + usage.cache_read_tokens,
            cache_write_tokens=old.cache_write_tokens + usage.cache_write_tokens,
            cost_usd=old.cost_usd + usage.cost_usd,
        )
    return added


def _minus(usage: ModelUsage, before: ModelUsage) -> ModelUsage:
    return ModelUsage(
        input_tokens=usage.input_tokens - before.input_tokens,
        output_tokens=usage.output_tokens - before.output_tokens,
        cache_read_tokens=usage.cache_read_tokens - before.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens - before.cache_write_tokens,
        cost_usd=usage.cost_usd - before.cost_usd,
    )


def _grown(usage: ModelUsage, before: ModelUsage) -> ModelUsage:
    less = _minus(usage, before)
    return ModelUsage(
        input_tokens=max(less.input_tokens, 0),
        output_tokens=max(less.output_tokens, 0),
        cache_read_tokens=max(less.cache_read_tokens, 0),
        cache_write_tokens=max(less.cache_write_tokens, 0),
        cost_usd=max(less.cost_usd, 0.0),
    )


def _difference(
    now: Mapping[str, ModelUsage], before: Mapping[str, ModelUsage]
) -> dict[str, ModelUsage]:
    """Models without anything new are left out.  An estimate may have run ahead of the totals."""
    grown = {model: _grown(usage, before.get(model, ModelUsage())) for model, usage in now.items()}
    return {model: usage for model, usage in grown.items() if any(_fields(usage))}
