"""The exact, sampled and mean-field phases of learning agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import fastbm as bm
from fastbm.learning.phases import exact as exact_module
from fastbm.learning.phases.exact import ClampedExact, FreeExact
from fastbm.learning.phases.gibbs import ClampedGibbs, FreeGibbs
from fastbm.learning.phases.mean_field import ClampedMeanField, FreeMeanField
from fastbm.learning.phases.phase import PhaseSettings
from fastbm.machine.clamping import Clamped
from tests.support import machines
from tests.support.combinations import each
from tests.support.learning import coupled_pairs, some_rows
from tests.support.machines import KINDS, UNITS, machine, parameters
from tests.twins import reference


def phase_settings(**changes: Any) -> PhaseSettings:
    values = {
        "beta": 0.9,
        "seed": 1,
        "threads": 1,
        "n_chains": 512,
        "n_sweeps": 200,
        "clamped_sweeps": 50,
        "batch_size": 9,
    }
    return PhaseSettings(**{**values, "wants_log_z": False, **changes})


@each(kind=KINDS, units=UNITS)
def test_clamped_phases_agree(kind: str, units: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampled as near the exact phase as Student's t allows (false alarms: 1e-6 a number), mean field close by."""
    model = machine(kind, units, seed=6, scale=0.1 if units == "spin" else 0.4)
    rows = np.repeat(some_rows(model).astype(float), 40, axis=0)
    exact = ClampedExact(phase_settings(wants_log_z=True)).moments(model, rows)
    truth = [
        reference.enumerate_states(*parameters(model), units, beta=0.9, clamp=dict(enumerate(r)))
        for r in rows[::40].astype(int).tolist()
    ]
    np.testing.assert_allclose(exact.mean, np.mean([t.mean for t in truth], axis=0), atol=1e-10)
    np.testing.assert_allclose(
        pair_vector(model, exact.pairs),
        [np.mean([t.second_moment[i, j] for t in truth]) for i, j in coupled_pairs(model)],
        atol=1e-10,
    )
    assert exact.log_z == pytest.approx(np.mean([t.log_z for t in truth]), abs=1e-10)
    monkeypatch.setattr(exact_module, "MOST_LISTED", 0)  # states of hidden units are summed row by row
    summed = ClampedExact(phase_settings(wants_log_z=True)).moments(model, rows)
    for one, other in zip((exact.mean, *exact.pairs), (summed.mean, *summed.pairs), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)

    phase = ClampedGibbs(phase_settings())
    draws = [phase.moments(model, rows) for _ in range(24)]
    for name in ("mean", "pairs"):
        values = np.array([d.mean if name == "mean" else pair_vector(model, d.pairs) for d in draws])
        target = exact.mean if name == "mean" else pair_vector(model, exact.pairs)
        assert_centred(values, target)

    close = ClampedMeanField(phase_settings()).moments(model, rows)
    tolerance = 1e-7 if kind in ("visible", "restricted") else 0.03
    np.testing.assert_allclose(close.mean, exact.mean, atol=tolerance)
    np.testing.assert_allclose(pair_vector(model, close.pairs), pair_vector(model, exact.pairs), atol=tolerance)


def assert_centred(values: np.ndarray, target: np.ndarray) -> None:
    """The mean over the first axis is `target`, by a t-test for every entry at 1e-6."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(axis=0) - target) <= stats.t.isf(5e-7, len(values) - 1) * error + 1e-12)


def pair_vector(model: bm.BoltzmannMachine, pairs: tuple[np.ndarray, ...]) -> np.ndarray:
    """Pair averages in the order of `coupled_pairs`; a full matrix must be symmetric with nothing on its diagonal."""
    if model.couplings.kind == "sparse":
        return pairs[0]
    if len(model.couplings.sizes) == 1:
        assert np.allclose(pairs[0], pairs[0].T, atol=1e-12)
        assert not np.any(np.diagonal(pairs[0]))
        return pairs[0][np.triu_indices(model.n_units, 1)]
    return np.concatenate([block.ravel() for block in pairs])


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_free_phases_agree(kind: str, units: str) -> None:
    model = machine(kind, units, seed=7, scale=0.1 if units == "spin" else 0.4)
    rows = some_rows(model).astype(float)
    truth = machines.enumerate_machine(model, 0.9)
    exact = FreeExact(phase_settings()).moments(model, rows)
    second = [truth.second_moment[i, j] for i, j in coupled_pairs(model)]
    np.testing.assert_allclose(exact.mean, truth.mean, atol=1e-10)
    np.testing.assert_allclose(pair_vector(model, exact.pairs), second, atol=1e-10)
    assert exact.log_z == pytest.approx(truth.log_z, abs=1e-10)

    phase = FreeGibbs(phase_settings(n_sweeps=10))
    phase.prepare(model)
    draws = [phase.moments(model, rows) for _ in range(40)][2:]
    for target, values in (
        (truth.mean, [d.mean for d in draws]),
        (second, [pair_vector(model, d.pairs) for d in draws]),
    ):
        assert_centred(np.array(values), target)

    close = FreeMeanField(phase_settings()).moments(model, rows)
    np.testing.assert_allclose(close.mean, truth.mean, atol=0.04)
    np.testing.assert_allclose(pair_vector(model, close.pairs), second, atol=0.04)


def test_the_clamped_phase_is_the_free_phase_of_a_conditioned_machine() -> None:
    model = machine("general", "spin", seed=8)
    row = np.array([[1.0, -1.0, 1.0]])
    clamped = ClampedExact(phase_settings()).moments(model, row)
    smaller = Clamped.of(model, np.arange(3), row.astype(int)).machine(0)
    np.testing.assert_allclose(clamped.mean[3:], bm.infer(smaller, "exact", beta=0.9).mean, atol=1e-12)


def test_free_means_of_0_that_are_a_saddle_give_way() -> None:
    model = bm.models.ising((3, 3))
    found = FreeMeanField(phase_settings()).moments(model, np.empty((0, 9)))
    best = bm.infer(model, "mean-field", beta=0.9, seed=1)
    np.testing.assert_allclose(found.mean, best.mean, atol=1e-6)
    assert np.abs(found.mean).min() > 0.5
