"""The simulator catches honest mistakes: each of MUTANTS, within a few hundred seeds."""

import pytest

from tests.simulation.mutants import MUTANTS, Mutant, planted
from tests.simulation.story import simulate

SEEDS_MAX = 500


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_mutant_is_caught(mutant: Mutant) -> None:
    assert seeds_to_catch(mutant) is not None, f"{mutant.mistake}: no seed shows it"


def seeds_to_catch(mutant: Mutant) -> int | None:
    """How many seeds it takes until something is seen."""
    for seed in range(SEEDS_MAX):
        try:
            with planted(mutant):
                simulate(seed)
        except Exception:  # noqa: BLE001 - any way of showing it will do
            return seed + 1
    return None
