"""One side of a layered machine, the other summed out: its sums, sweeps, ladders and walks, and importance sampling."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base import rng
from fastbm.inference import importance_sampling
from fastbm.inference.ais.walk_marginal import MarginalWalk
from fastbm.inference.ais.weights import average
from fastbm.inference.scout.marginal import Marginal
from fastbm.inference.scout.marginal_tempering import temper
from tests.support import machines
from tests.support.machines import SURE, UNITS, calm, machine
from tests.twins import marginal as twin, reference

LAYERS = ("restricted", "layers")
BETA = 1.3


def side_of(kind: str, units: str, scale: float = 1.0) -> tuple[bm.BoltzmannMachine, Marginal]:
    model = machine(kind, units, seed=3, scale=scale, offset=0.7)
    return model, Marginal.of(model, BETA)


def parts(side: Marginal, base: np.ndarray) -> tuple[Any, ...]:
    """What the twins take."""
    kept, summed = side.kept, side.summed
    return side.weights.tolist(), side.bias[kept], side.bias[summed], base[kept], base[summed]


def base_of(side: Marginal) -> np.ndarray:
    return np.random.default_rng(1).normal(size=side.n_units)


def numbers(up: np.ndarray) -> np.ndarray:
    """States by their numbers."""
    return np.asarray(up, np.int64) @ (1 << np.arange(up.shape[-1]))


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", LAYERS)
def test_sums_are_those_of_all_states(kind: str, units: str) -> None:
    model, side = side_of(kind, units)
    assert len(side.kept) <= len(side.summed) == model.n_units - len(side.kept)
    _, log_z = twin.distribution(*parts(side, np.zeros(model.n_units)), 1.0)
    truth = float(machines.enumerate_machine(model, BETA).log_z)
    assert side.constant + log_z == pytest.approx(truth, abs=1e-10)
    up = np.array([[k >> j & 1 for j in range(len(side.kept))] for k in range(1 << len(side.kept))], np.uint8)
    assert np.logaddexp.reduce(side.log_f(up)) == pytest.approx(truth, abs=1e-10)


@pytest.mark.parametrize("units", UNITS)
def test_a_layer_may_be_clamped_whole(units: str) -> None:
    blocks = [np.random.default_rng(5).normal(size=size) for size in itertools.pairwise((2, 1, 2, 3))]
    for layer in ([2], [3, 4]):
        model = bm.BoltzmannMachine(blocks, units=units, offset=0.4).condition(layer, [1] * len(layer))
        side, truth = Marginal.of(model, BETA), float(machines.enumerate_machine(model, BETA).log_z)
        up = np.array([[k >> j & 1 for j in range(len(side.kept))] for k in range(1 << len(side.kept))], np.uint8)
        assert np.logaddexp.reduce(side.log_f(up)) == pytest.approx(truth, abs=1e-10)


@pytest.mark.parametrize("scale", [1.0, 1e3])  # the second has fields in float64
def test_a_ladder_visits_what_the_machine_does(scale: float) -> None:
    model = machine("restricted", "binary", seed=3, scale=scale)
    model = bm.BoltzmannMachine(list(model.weights), model.flat_bias / scale, units="binary")
    side = Marginal.of(model, 1.0 if scale == 1.0 else 2.0 / scale)
    found = temper(
        side, base_of(side), np.linspace(0, 1, 6), n_ladders=40, n_rounds=4_000, burn_in=50, seed=2, threads=2
    )
    p, _ = twin.distribution(*parts(side, base_of(side)), 1.0)
    independent = found.up[:, ::8].reshape(-1, len(side.kept))
    assert reference.g_test(np.bincount(numbers(independent), minlength=len(p)), p) > SURE
    assert found.round_trips.sum() > 1000
    alone = temper(side, base_of(side), np.linspace(0, 1, 6), n_ladders=2, n_rounds=9, burn_in=50, seed=2, threads=1)
    np.testing.assert_array_equal(alone.up, found.up[:2, :9])


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", LAYERS)
def test_walks_are_unbiased_both_ways(kind: str, units: str) -> None:
    model, side = side_of(kind, units)
    truth, base, path = float(machines.enumerate_machine(model, BETA).log_z), base_of(side), np.linspace(0, 1, 12)
    up = MarginalWalk(model, BETA, base, rng.streams(1, 4_000), 2)
    up.begin()
    up.follow(path)
    up.finish()
    found = average(up.log_w + up.log_z0)
    assert abs(found.log_mean - truth) < 4 * found.error < 0.2
    p, _ = twin.distribution(*parts(side, base), 1.0)
    states = np.random.default_rng(5).choice(len(p), 4_000, p=p)
    kept = (states[:, None] >> np.arange(len(side.kept)) & 1).astype(np.uint8)
    down = MarginalWalk(model, BETA, base, rng.streams(2, 4_000), 2)
    down.load(side.complete(kept, np.random.default_rng(6)))
    down.follow(path[::-1])
    found = average(down.log_w - down.log_z0)
    assert abs(found.log_mean + truth) < 4 * found.error < 0.2


def test_densities_of_draws() -> None:
    generator = np.random.default_rng(2)
    up, visited = (generator.integers(0, 2, (n, 7)).astype(np.uint8) for n in (5, 9))
    expected = [twin.log_q(bits, visited, importance_sampling.RATES) for bits in up.tolist()]
    np.testing.assert_allclose(importance_sampling._log_q(up, visited), expected, rtol=1e-6)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", LAYERS)
def test_importance_sampling(kind: str, units: str) -> None:
    model = machine(kind, units, seed=4, scale=1.5, offset=0.3)
    truth = bm.infer(model, "exact", beta=BETA, energy_variance=True)
    found = bm.infer(model, "importance-sampling", beta=BETA, n_sweeps=60)
    assert found.converged and found.ess > 1_000
    assert abs(found.log_z - truth.log_z) < 4 * found.log_z_error < 0.1
    assert abs(found.energy - truth.energy) < 4 * found.energy_error
    assert np.all(np.abs(found.mean - truth.mean) < 4.5 * found.mean_error)
    np.testing.assert_allclose(found.second_moment, truth.second_moment, atol=0.05)
    np.testing.assert_allclose(np.diagonal(found.covariance), found.second_moment.diagonal() - found.mean**2, atol=1e-9)
    assert found.energy_variance == pytest.approx(truth.energy_variance, rel=0.1)
    assert found.entropy == pytest.approx(truth.entropy, abs=0.1)
    again = bm.infer(model, "importance-sampling", beta=BETA, n_sweeps=60, threads=1)
    assert again.log_z == found.log_z
    np.testing.assert_array_equal(again.mean, found.mean)


def test_errors_of_importance_sampling_cover() -> None:
    model = machine("restricted", "binary", seed=5, scale=3.0)
    truth = bm.infer(model, "exact").log_z
    runs = [bm.infer(model, "importance-sampling", seed=s, n_samples=2_000, n_sweeps=25) for s in range(60)]
    assert 0.88 <= np.mean([abs(r.log_z - truth) < 1.96 * r.log_z_error for r in runs]) <= 0.995


def test_importance_sampling_knows_of_the_mirrored_valley_and_of_others_that_it_may_lack() -> None:
    """Four ladders that stay where they began miss one of two equal valleys once in eight runs."""
    for tilt in (0.0, 0.05):
        hidden = np.full(4, 14.0 + tilt)
        model = bm.BoltzmannMachine([np.full((7, 4), -4.0)], [np.full(7, 8.0), hidden], units="binary")
        truth = bm.infer(model, "exact", beta=2.0).log_z
        for seed in range(12):
            found = calm(bm.infer, model, "importance-sampling", beta=2.0, n_samples=1_000, n_sweeps=100, seed=seed)
            assert not found.detail["round_trips"].any()
            if tilt:
                assert found.converged is not True and "doubt" in found.detail
            else:
                assert abs(found.log_z - truth) < 5 * found.log_z_error < 0.3


def test_importance_sampling_says_where_it_fails() -> None:
    with pytest.raises(ValueError, match=r"sums out one side of a layered machine.*Use .tempering"):
        bm.infer(machine("visible"), "importance-sampling")
    model = machine("restricted")
    with pytest.raises(ValueError, match=r'no two free units are coupled.*Use "mean-field", which is exact'):
        bm.infer(model, "importance-sampling", clamp=(range(model.n_visible), [1] * model.n_visible))
    wide = bm.models.restricted(120, 120, scale=0.5, seed=1, units="binary")
    with pytest.warns(bm.ConvergenceWarning, match="importance-sampling: .*Raise n_sweeps"):
        found = bm.infer(wide, "importance-sampling", n_samples=400, n_sweeps=25, moments=False)
    assert found.converged is False


def test_walks_with_one_side_summed_out_leave_a_mode() -> None:
    """Layers drawn whole stay where the visible units hold them; see `truth_machines` for the machine."""
    model = bm.models.restricted(
        weights=np.full((60, 1), 5.0), visible_bias=-np.ones(60), hidden_bias=[-210.0], units="binary"
    )
    truth = np.logaddexp(60 * np.logaddexp(0, -1.0), -210 + 60 * np.logaddexp(0, 4.0))
    settings = {"n_betas": 200, "n_chains": 64, "start": "biases", "witness": False}
    held = calm(bm.infer, model, "ais", **settings)
    found = bm.infer(model, "ais", walk="marginal", **settings)
    assert held.log_z < truth - 10
    assert abs(found.log_z - truth) < 4 * found.log_z_error
    with pytest.raises(ValueError, match="walk is for layered machines"):
        bm.infer(machine("visible"), "ais", walk="marginal")
