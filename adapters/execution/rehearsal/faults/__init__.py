"""The failures that a scenario can ask for, by name: ``fault = "hang"``.

Each is a function in the module of its theme, and acts at one moment of a call.  ``python -m
adapters.execution.rehearsal faults`` prints the list from their docstrings.
"""

from adapters.execution.rehearsal.conversation import Trouble
from adapters.execution.rehearsal.faults import account, launch, lines, processes, results, session
from adapters.execution.rehearsal.faults.kind import Kind
from adapters.execution.rehearsal.scenario import Fault, ScenarioError

KINDS: dict[str, Kind] = {
    name: kind
    for theme in (launch, processes, lines, results, account, session)
    for name, kind in theme.KINDS.items()
}


def trouble_of(fault: Fault) -> Trouble:
    """Raises ScenarioError where there is no such fault."""
    kind = KINDS.get(fault.name)
    if kind is None:
        known = ", ".join(sorted(KINDS))
        raise ScenarioError(f"unknown fault {fault.name!r}; known: {known}")
    return Trouble(kind.moment, kind.act, fault.params)
