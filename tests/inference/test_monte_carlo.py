"""Markov chains against exact sums: error bars that cover, and honesty about convergence."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import fastbm as bm
from fastbm.inference import chain_counts, target_moments
from fastbm.inference.target_moments import TargetMoments
from tests.support.combinations import each
from tests.support.machines import KINDS, UNITS, assert_covers, calm, flat, machine


@pytest.mark.parametrize(
    ("kind", "units", "rule", "n_seeds"),
    [
        ("visible", "spin", "gibbs", 60),
        pytest.param("restricted", "binary", "metropolis", 120, marks=pytest.mark.slow),
        pytest.param("general", "binary", "gibbs", 120, marks=pytest.mark.slow),
    ],
)
def test_error_bars_of_chains_cover(kind: str, units: str, rule: str, n_seeds: int) -> None:
    model = machine(kind, units, seed=5, scale=0.35)
    truth = bm.infer(model, "exact")
    found = [calm(bm.infer, model, rule, seed=s, n_chains=8, n_sweeps=256, threads=1) for s in range(n_seeds)]
    assert_covers(np.array([np.abs(f.mean - truth.mean) < 1.96 * f.mean_error for f in found]))
    assert_covers(np.array([abs(f.energy - truth.energy) < 1.96 * f.energy_error for f in found]))
    assert np.mean([f.converged for f in found]) > 0.9


def test_error_bars_of_units_that_hardly_flip_are_as_wide_as_a_few_flips_are_rare() -> None:
    """Of 256 samples one or none was up, where six were to be expected: in one run of 60, and it is among these."""
    for number, seeds in ((0, (64, 89)), (4, (20, 74, 88)), (7, (21,))):
        scales = {"scale": 0.3, "bias_scale": 2.0} if number < 4 else {"scale": 0.5, "bias_scale": 1.0}
        model = bm.models.random_machine(6 if number < 4 else 8, seed=number % 4, **scales)
        truth = bm.infer(model, "exact")
        for seed in seeds:
            found = bm.infer(model, "gibbs", n_chains=8, n_sweeps=32, seed=seed, threads=1)
            assert found.converged and np.all(np.abs(found.mean - truth.mean) < 4.5 * found.mean_error)
            few = bm.infer(model, "gibbs", n_chains=8, n_sweeps=31, seed=seed, threads=1)
            assert few.converged is None and "too few for error bars" in few.detail["doubt"]


@pytest.mark.parametrize(("method", "n_sweeps", "seed"), [("gibbs", 300, 121), ("tempering", 100, 31)])
def test_a_unit_that_only_a_rare_valley_flips_is_known_as_well_as_that_valley(
    method: str, n_sweeps: int, seed: int
) -> None:
    """Its other side has 0.002 of the weight and is not soon left: 64 chains hardly see it, nor do 16 ladders."""
    generator = np.random.default_rng(6)
    generator.normal(size=143)  # before a machine of such a valley
    blocks = [3.0 * generator.normal(size=shape) for shape in ((5, 1), (1, 5), (5, 3))]
    model = bm.BoltzmannMachine(blocks, [generator.normal(size=n) for n in (5, 1, 5, 3)], units="binary")
    found, truth = bm.infer(model, method, n_sweeps=n_sweeps, seed=seed), bm.infer(model, "exact")
    assert found.converged and np.all(np.abs(found.mean - truth.mean) < 5.0 * found.mean_error)
    assert found.mean_error.max() < 0.03


@each(rule=["gibbs", "metropolis"], start=["up", "random"])
def test_error_bars_cover_on_a_flat_machine_from_any_start(rule: str, start: str) -> None:
    """No proposal is ever rejected there, so chains that share an order and a start must part all the same."""
    found = [
        calm(bm.infer, flat(6), rule, seed=s, initial=start, n_chains=16, n_sweeps=64, threads=1) for s in range(40)
    ]
    assert_covers(np.array([np.abs(f.mean) < 1.96 * f.mean_error for f in found]), most=1.0)


@each(kind=KINDS, units=UNITS, rule=["metropolis", "gibbs"])
def test_moments_of_chains(kind: str, units: str, rule: str) -> None:
    """Five standard errors: one of 200 right means is further off once in 8000 changes of the stream."""
    model = machine(kind, units, scale=0.3, offset=3.0)
    truth = bm.infer(model, "exact", beta=0.9)
    found = bm.infer(model, rule, beta=0.9, n_chains=64, n_sweeps=512)
    assert found.converged
    assert np.all(np.abs(found.mean - truth.mean) < 5 * found.mean_error)
    assert abs(found.energy - truth.energy) < 5 * found.energy_error
    np.testing.assert_allclose(found.second_moment, truth.second_moment, atol=0.08)
    np.testing.assert_allclose(found.covariance, found.second_moment - np.outer(found.mean, found.mean), atol=1e-12)
    assert found.energy_variance == pytest.approx(truth.energy_variance, rel=0.15)
    assert found.log_z is None
    assert found.bound is None
    assert 0 < found.ess <= found.n_samples == 64 * 512


def test_trapped_chains_say_so() -> None:
    """A Hopfield machine far below its transition: each chain falls into the nearest pattern or its mirror."""
    stored = np.where(np.random.default_rng(0).random((3, 60)) < 0.5, -1, 1)
    with pytest.warns(bm.ConvergenceWarning, match="gibbs has not converged: r_hat.*chains disagree"):
        found = bm.infer(bm.models.hopfield(stored), "gibbs", beta=4.0, n_sweeps=500)
    assert not found.converged
    assert found.detail["r_hat"] > 1.5
    with pytest.warns(bm.ConvergenceWarning, match="chains disagree"):
        run = bm.sample(bm.models.hopfield(stored), beta=4.0, n_sweeps=100)
    overlaps = np.abs(run.states[-1] @ stored.T / 60).max(axis=1)
    assert np.median(overlaps) > 0.9


def test_burn_in_is_long_enough_from_a_cold_start() -> None:
    model = bm.models.curie_weiss(40, coupling=0.5)
    found = bm.infer(model, "gibbs", initial="up", n_chains=64, n_sweeps=200, burn_in="auto")
    assert found.detail["burn_in"] >= 64
    assert np.all(np.abs(found.mean) < 5 * found.mean_error)
    assert bm.infer(model, "gibbs", n_sweeps=100, burn_in=7).detail["burn_in"] == 7


@pytest.mark.parametrize("n_sweeps", [1, 2, 3, 64, 65, 67])
@pytest.mark.parametrize("method", ["gibbs", "sampled-states"])
def test_few_sweeps_are_legal(method: str, n_sweeps: int) -> None:
    """Nothing but ConvergenceWarning may come of it; from a start far off the burn-in uses up all its sweeps."""
    options = {"initial": "up"} if method == "gibbs" else {}
    found = calm(bm.infer, bm.models.curie_weiss(30, coupling=1.2), method, n_sweeps=n_sweeps, n_chains=4, **options)
    assert math.isfinite(found.energy)
    assert n_sweeps > 3 or method != "gibbs" or not found.converged


def test_a_single_chain_that_does_not_move_has_not_converged() -> None:
    stored = np.where(np.random.default_rng(0).random((3, 60)) < 0.5, -1, 1)
    with pytest.warns(bm.ConvergenceWarning, match="the only chain did not move after the burn-in. Pass n_chains"):
        found = bm.infer(bm.models.hopfield(stored), "gibbs", beta=20.0, n_chains=1, n_sweeps=300)
    assert not found.converged


def test_chains_that_do_not_move_have_finite_numbers() -> None:
    """Frozen chains: the energy is the same in all samples, up to no rounding at all."""
    model = bm.BoltzmannMachine(np.zeros((3, 3)), [800.1, -900.7, 1000.3])
    found = bm.infer(model, "gibbs", n_chains=6, n_sweeps=333)
    assert found.converged
    assert found.energy == pytest.approx(-2701.1, abs=1e-9)
    assert found.detail["tau_int"] == 0.5
    assert found.ess == 6 * 333


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["gibbs", "importance-sampling"])
def test_means_and_errors_are_in_the_units_of_the_machine(method: str) -> None:
    """The same machine told in spins has means from -1 to 1, and errors twice as large."""
    model = machine("restricted", "binary")
    binary, spin = (bm.infer(one, method, seed=4) for one in (model, model.to_units("spin")))
    np.testing.assert_allclose(spin.mean, 2.0 * binary.mean - 1.0, atol=0.02)
    np.testing.assert_allclose(spin.mean_error, 2.0 * binary.mean_error, rtol=0.2)
    assert spin.log_z == pytest.approx(binary.log_z, abs=0.02)


@pytest.mark.parametrize("threads", [1, 3])
def test_counts_of_states_do_not_depend_on_how_they_come(threads: int) -> None:
    n_samples, n_chains, n = 173, 131, 67
    up = np.random.default_rng(0).random((n_samples, n_chains, n)) < 0.3
    target = TargetMoments(flat(n), n_samples, n_chains, threads, halves=True)
    for first, last in itertools.pairwise([0, 85, 172, 173]):
        target.add(np.packbits(up[first:last], axis=2, bitorder="little"))
    ends = [k for k in range(n_samples) if k == 0 or 32 * k // n_samples > 32 * (k - 1) // n_samples]
    assert np.array_equal(target.fractions(), [part.mean(axis=0) for part in np.split(up, ends[1:])])
    rows = up.reshape(-1, n).astype(float)
    assert target.pairs is not None and np.array_equal(target.pairs.up(), rows.T @ rows / len(rows))
    assert target.halves is not None
    differ = np.concatenate([up ^ np.roll(up, d, axis=2) for d in (1, 17, 33)], axis=2)
    assert np.array_equal(target.halves.counts[:2], [differ[:86].sum(axis=0), differ[87:].sum(axis=0)])


@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_moments_have_the_same_bits_on_any_number_of_threads(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_counts, "WORTH_THREADS", 1)
    monkeypatch.setattr(target_moments, "TOGETHER", 70 * 32 * 4)  # some units at once
    model = bm.models.random_machine(9, seed=3, scale=0.3)
    one, *others = (
        bm.infer(model, method, n_chains=70, n_sweeps=75, burn_in=0, seed=1, threads=threads) for threads in (1, 2, 5)
    )
    for other in others:
        for name in ("mean", "mean_error", "second_moment", "energy_error"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
        assert one.detail["r_hat"] == other.detail["r_hat"]
        assert repr(one.detail["witness"]) == repr(other.detail["witness"])
