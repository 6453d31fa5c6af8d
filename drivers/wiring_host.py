"""This machine, as drivers and commands use it: its identity, what it has left, its places.

Imports are late, as in wiring_cli.py, for the commands.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from drivers.settings import Environment

if TYPE_CHECKING:
    from adapters.host.local import LocalHost
    from adapters.host.slots import Slots
    from orchestrator.core.model import HostIdentity
    from orchestrator.core.resources import Resources
    from orchestrator.core.settings import Project
    from orchestrator.core.state import RunState
    from orchestrator.journal.store import RunStore


def this_host() -> "HostIdentity":
    from adapters.host.local import LocalHost

    return LocalHost().identity()


def resources_now(store: "RunStore", state: "RunState") -> "Resources":
    """What this host has left for children of the run.  Changes nothing."""
    from orchestrator.core import resources

    return resources.look(host_of(state.project, store, slots_of_host()).resources, state)


def host_of(project: "Project", store: "RunStore", slots: "Slots") -> "LocalHost":
    """This machine, as a run on the project uses it."""
    from adapters.host.local import LocalHost

    return LocalHost(places=(store.path, Path(project.root, project.git.worktrees)), slots=slots)


def slots_of_host() -> "Slots":
    """The places for children that all drivers of this machine share: a home may be several's."""
    from adapters.host.slots import Slots

    machine = this_host().machine_id.replace("/", "-")
    return Slots(Environment.read().state_dir / "host" / "slots" / machine)
