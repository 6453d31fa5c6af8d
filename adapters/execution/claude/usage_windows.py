"""The account's usage windows, as a ``rate_limit_event`` tells them."""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from adapters.execution.claude import wire
from orchestrator.core.model import Window

WINDOWS_MAX = 16


def windows_in(info: Mapping[str, Any]) -> dict[str, Window]:
    """By name.  ``info``: the event's ``rate_limit_info``."""
    windows = {
        name: _window(name, wire.mapping(value))
        for told, value in list(wire.mapping(info.get("unifiedWindows")).items())[:WINDOWS_MAX]
        if (name := wire.name(told, 50))
    }
    named = wire.name(info.get("rateLimitType"), 50)
    if named and (named not in windows or info.get("status") == "rejected"):
        windows[named] = _window(named, info)
    if is_paid_beyond(info):
        for name in _used_up(windows, named):
            windows[name] = structs.replace(windows[name], overage=True)
    return windows


def is_paid_beyond(info: Mapping[str, Any]) -> bool:
    return info.get("isUsingOverage") is True


def _window(name: str, info: Mapping[str, Any]) -> Window:
    status = wire.text(info.get("status"), 50) or "allowed"
    utilization = wire.share(info.get("utilization"))
    if utilization is None and status == "rejected":
        utilization = 1.0
    resets_at = wire.moment(info.get("resetsAt"))
    return Window(name=name, utilization=utilization, resets_at=resets_at, status=status)


def _used_up(windows: Mapping[str, Window], named: str) -> list[str]:
    """Those beyond which the account pays; where none says so, the one that is talked of."""
    full = [w.name for w in windows.values() if w.status == "rejected" or (w.utilization or 0) >= 1]
    return full or ([named] if named in windows else list(windows))
