"""What the driver tells, as a line for a person at a terminal; driver.log has the whole of it.

Invariant: it is made of what was to be told anyhow, after secrets and agents' words are gone.
"""

from collections.abc import Mapping
from datetime import datetime

from orchestrator.core.words import in_words
from orchestrator.views.moments import duration
from orchestrator.views.timeline import line

Values = Mapping[str, str]

UNSAID = frozenset({"started"})
"""That it was dispatched has been said."""

_WITH_REASON = {"paused": "PAUSED", "driver ends": "the driver ends"}


def spoken(event: str, values: Values, at: datetime) -> str | None:
    """None where the lines around it say it.  ``values``: of those there are."""
    if event in UNSAID:
        return None
    rest = dict(values)
    task = rest.pop("task", "")
    return line(at.timestamp(), task, _text(event, rest))


def _text(event: str, values: Values) -> str:
    stage, attempt = values.get("stage", ""), values.get("attempt", "1")
    again = "" if attempt == "1" else f", attempt {attempt}"
    match event:
        case "dispatched":
            model = f" ({values['model']})" if "model" in values else ""
            return f"{stage} begins{again}{model}"
        case "recorded":
            return _recorded(stage, values)
        case "again":
            return f"again: {stage}{again}"
        case "task failed":
            return f"FAILED at {stage}"
        case "blocked":
            return f"blocked: {values.get('because')} did not complete"
        case "taken up again":
            return f"{values.get('how')} after a restart: {values.get('dispatch')}"
        case "cooling down":
            return f"nothing starts for {duration(float(values.get('seconds', 0)))}"
        case "paused" | "driver ends":
            return f"{_WITH_REASON[event]}: {values.get('reason')}"
        case "run ended":
            return f"the run has ended: {in_words(values.get('state', ''))}"
        case "at work":
            return f"{stage} is at work, {_until(values)}"
        case "driving":
            what = f"driving {values.get('run')}, {values.get('tasks')} tasks"
            return f"{what}, pid {values.get('pid')}: {values.get('interrupt')}"
        case _:
            told = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in values.items())
            return f"{event}: {told}" if told else event


def _until(values: Values) -> str:
    """Who does it, and how long that may still take."""
    left = duration(float(values.get("ends_within_s", 0)))
    who = "by hand" if "by" in values else f"pid {values.get('pid')}"
    return f"{who}, for {left} at most"


def _recorded(stage: str, values: Values) -> str:
    paid = f", {float(values['usd']):.2f} USD" if "usd" in values else ""
    noted = "".join(
        f"; {key.replace('_', ' ')}: {values[key]}"
        for key in ("another_model", "on_paid_credits", "proves_nothing", "install_leaves")
        if key in values
    )
    if "cause" not in values:
        done = "; the task is COMPLETED" if values.get("outcome") == "completed" else ""
        return f"{stage} done{paid}{done}{noted}"
    why = f": {values['why']}" if "why" in values else ""
    return f"{stage} ended with {values['cause'].replace('_', ' ')}{paid}{why}{noted}"
