"""The simulator catches honest mistakes: each of MUTANTS, within a few hundred seeds."""

import pytest

from tests.simulation.mutants import MUTANTS, Mutant, planted
from tests.simulation.promises import Violation
from tests.simulation.story import simulate

SEEDS_MAX = 500


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_mutant_is_caught(mutant: Mutant) -> None:
    shown = first_shown(mutant)
    assert shown is not None, f"{mutant.mistake}: no seed shows it"
    # A mutant that does not fit the program any more would be caught by chance.
    assert not isinstance(shown.__cause__, TypeError | AttributeError | NameError), shown


def first_shown(mutant: Mutant) -> Violation | None:
    """The first promise that is seen to be broken.  Whatever else goes wrong is a fault here."""
    for seed in range(SEEDS_MAX):
        try:
            with planted(mutant):
                simulate(seed)
        except Violation as shown:
            return shown
    return None
