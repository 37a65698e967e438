"""keep="best": the lowest distinct states that were seen, whatever the order in which they came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import fastbm as bm
from fastbm.sampling.best import Best
from tests.support import machines
from tests.support.machines import calm
from tests.support.samples import FERRO, GLASS, SK, small


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 3), st.integers(0, 40))
def test_the_lowest_of_all_whatever_the_order_and_the_pieces(seed: int, k: int, n_bytes: int, n: int) -> None:
    chance = np.random.default_rng(seed)
    rows = chance.integers(0, 4, (n, n_bytes)).astype(np.uint8)
    energy_of = {bytes(row): float(chance.integers(-2, 3)) for row in rows}
    energies = np.array([energy_of[bytes(row)] for row in rows])
    expected = sorted({(energy_of[bytes(row)], bytes(row)) for row in rows})[:k]
    for _ in range(2):
        best, order = Best(k, n_bytes), chance.permutation(n)
        for part in np.array_split(order, chance.integers(1, 5)):
            best.show(rows[part], energies[part])
            again = Best(k, n_bytes)
            again.restore(best.state())
            best = again
        assert [(e, bytes(s)) for e, s in zip(best.energies, best.states, strict=True)] == expected


def seen_by(run: bm.Run, model: bm.BoltzmannMachine, k: int) -> list[tuple[float, tuple[int, ...]]]:
    """The k lowest of recorded states, by plain Python."""
    rows = {tuple(row) for row in np.asarray(run.states).reshape(-1, model.n_units).tolist()}
    packed = {row: np.packbits(np.array(row) == 1, bitorder="little").tobytes() for row in rows}
    found = sorted((float(model.energy(row)), packed[row], row) for row in rows)[:k]
    return [(energy, row) for energy, _, row in found]


@pytest.mark.parametrize("model", [GLASS, FERRO], ids=["glass", "ferromagnet"])
@pytest.mark.parametrize("options", [{}, {"sampler": "metropolis", "thin": 3}, {"beta": [0.3, 1.0]}], ids=str)
def test_they_are_the_lowest_of_the_recorded_ones(model: bm.BoltzmannMachine, options: dict[str, Any]) -> None:
    common = {"n_chains": 6, "n_sweeps": 90, "burn_in": 0, "beta": 1.0, **options}
    kept = calm(bm.sample, model, keep="best", k=25, **common)
    every = calm(bm.sample, model, **common)
    expected = seen_by(every, model, 25)
    assert [tuple(state) for state in kept.best_states.tolist()] == [row for _, row in expected]
    np.testing.assert_allclose(kept.best_energies, [energy for energy, _ in expected], atol=1e-12)
    assert np.array_equal(kept.energy, every.energy)
    assert kept.best_states.dtype == np.int8
    assert not kept.has_states
    with pytest.raises(AttributeError, match=r'keep="best".*best_states'):
        _ = kept.states
    with pytest.raises(AttributeError, match="are kept by sample"):
        _ = every.best_states


@pytest.mark.parametrize("sampler", ["tempering", "annealing", "population-annealing"])
@pytest.mark.parametrize("units", machines.UNITS)
def test_ground_states_are_found_and_energies_are_the_users(sampler: str, units: str) -> None:
    glass = small(units)
    n_sweeps = 20 if sampler == "population-annealing" else 200
    run = calm(bm.sample, glass, sampler=sampler, keep="best", k=10, n_chains=32, n_sweeps=n_sweeps, beta=3.0)
    states = machines.patterns(6, units)
    energies = np.sort(glass.energy(states))
    assert abs(run.best_energies[0] - energies[0]) < 1e-12
    assert abs(run.best_energies - glass.energy(run.best_states)).max() < 1e-12
    assert (np.diff(run.best_energies) >= 0).all()
    assert len(np.unique(run.best_states, axis=0)) == len(run.best_states)
    if sampler == "tempering":
        np.testing.assert_allclose(run.best_energies, energies[:10], atol=1e-12)
    assert "best energy" in str(run.summary())


def test_all_temperatures_of_a_ladder_are_looked_at() -> None:
    """A ladder of a hot and a very cold end: states of the hot one would never turn up at the target."""
    run = calm(bm.sample, small(), sampler="tempering", betas=[0.0, 50.0], keep="best", k=64, n_chains=16, n_sweeps=200)
    assert len(run.best_states) == 64


def test_clamped_units_are_in_them() -> None:
    run = calm(bm.sample, SK, clamp=([2, 3], [[1, 1], [-1, 1]]), keep="best", k=8, n_chains=4, n_sweeps=50)
    assert (run.best_states[:, 3] == 1).all()
    np.testing.assert_allclose(run.best_energies, SK.energy(run.best_states), atol=1e-12)


def test_fewer_states_than_asked_for(tmp_path: Any) -> None:
    two = bm.BoltzmannMachine([[0.0, 1.0], [1.0, 0.0]])
    run = calm(bm.sample, two, keep="best", n_chains=16, n_sweeps=200, beta=0.1, out=tmp_path / "run.h5")
    assert run.best_energies.tolist() == [-1.0, -1.0, 1.0, 1.0]
    assert run.best_states.tolist() == [[-1, -1], [1, 1], [1, -1], [-1, 1]]
    assert np.array_equal(bm.open(tmp_path / "run.h5").best_states, run.best_states)
    assert bm.sample(two, keep="best", n_sweeps=0).best_states.shape == (0, 2)
    assert run.converged is None
