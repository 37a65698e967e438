"""The set of states against a dict."""

from __future__ import annotations

import numpy as np
import pytest

from fastbm.inference.sampled_states.state_set import FEWEST_SLOTS, FULLEST, StateSet
from tests.twins.state_set import States


def some_states(n_units: int, n: int, n_distinct: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Packed states, many of them alike, with energies that belong to them and do not tie."""
    generator = np.random.default_rng(seed)
    bits = generator.integers(0, 2, (n_distinct, n_units), dtype=np.uint8)
    packed = np.packbits(bits, axis=1, bitorder="little")
    packed = np.unique(packed, axis=0)
    energies = generator.normal(size=len(packed))
    chosen = generator.integers(0, len(packed), n)
    return packed[chosen], energies[chosen]


def content(states: StateSet) -> dict[bytes, tuple[float, int]]:
    rows = zip(states.packed, states.energies, states.counts, strict=True)
    return {packed.tobytes(): (float(energy), int(count)) for packed, energy, count in rows}


@pytest.mark.parametrize("n_units", [1, 3, 8, 9, 63, 64, 65, 130])
@pytest.mark.parametrize("n_distinct", [1, 50, 5000])
def test_holds_what_a_dict_holds(n_units: int, n_distinct: int) -> None:
    packed, energies = some_states(n_units, 20_000, n_distinct)
    states, twin = StateSet(n_units, 1e9), States(10**9)
    for start in range(0, len(packed), 777):
        below = states.add(packed[start : start + 777], energies[start : start + 777])
        assert below.all()
    twin.add([row.tobytes() for row in packed], energies.tolist())
    assert len(states) == len(twin.energy)
    assert content(states) == {state: (twin.energy[state], twin.count[state]) for state in twin.energy}
    assert states.contains(packed).all()
    others, _ = some_states(n_units, 3000, 3000, seed=1)
    assert states.contains(others).tolist() == [row.tobytes() in twin.energy for row in others]


def test_keeps_the_lowest_half_where_memory_runs_out() -> None:
    packed, energies = some_states(40, 50_000, 20_000)
    states, twin = StateSet(40, 1.0), States(int(FULLEST * FEWEST_SLOTS))
    for start in range(0, len(packed), 1000):
        states.add(packed[start : start + 1000], energies[start : start + 1000])
    twin.add([row.tobytes() for row in packed], energies.tolist())
    assert content(states) == {state: (twin.energy[state], twin.count[state]) for state in twin.energy}
    assert states.ceiling == twin.ceiling
    assert states.ceiling < np.median(energies)


def test_memory_stays_below_what_was_granted() -> None:
    states = StateSet(64, 1e6)
    packed, energies = some_states(64, 200_000, 200_000)
    states.add(packed, energies)
    held = sum(array.nbytes for array in (states._keys, states._energies, states._counts))
    assert 0.25e6 < held <= 0.5e6  # the next table must fit beside it


def test_states_that_all_tie() -> None:
    packed, _ = some_states(40, 5000, 5000)
    states = StateSet(40, 1.0)
    states.add(packed, np.zeros(len(packed)))
    assert 0 < len(states) <= FULLEST * FEWEST_SLOTS
    packed, _ = some_states(40, 5000, 5000, seed=1)
    states.add(packed, np.full(len(packed), -1.0))
    assert states.energies.min() == -1.0
