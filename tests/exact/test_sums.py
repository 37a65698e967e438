"""Sums over all states equal sums over all states."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastbm as bm
from fastbm.exact.blocks import tree
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import KINDS, UNITS, enumerate_machine, flat, machine, patterns

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def assert_is(found: bm.Inference, truth: machines.reference.Exact) -> None:
    np.testing.assert_allclose(found.log_z, truth.log_z, **CLOSE)
    np.testing.assert_allclose(found.mean, truth.mean, **CLOSE)
    np.testing.assert_allclose(found.second_moment, truth.second_moment, **CLOSE)
    np.testing.assert_allclose(found.covariance, truth.second_moment - np.outer(truth.mean, truth.mean), **CLOSE)
    np.testing.assert_allclose(found.energy, truth.energy, **CLOSE)
    np.testing.assert_allclose(found.energy_variance, truth.energy_variance, **CLOSE)
    np.testing.assert_allclose(found.entropy, truth.entropy, **CLOSE)
    assert found.bound == "exact"
    assert found.converged
    assert found.log_z_error == 0
    assert found.energy_error == 0
    assert not np.any(found.mean_error)
    assert found.free_energy == -found.log_z


@pairwise(kind=KINDS, units=UNITS, beta=[0.0, 1e-3, 0.7, 1.0, 30.0])
def test_exact_is_the_sum_over_all_states(kind: str, units: str, beta: float) -> None:
    model = machine(kind, units, offset=2.5)
    assert_is(bm.infer(model, "exact", beta=beta), enumerate_machine(model, beta))


@pytest.mark.parametrize("units", UNITS)
def test_one_unit_and_two(units: str) -> None:
    for n in (1, 2):
        model = bm.models.random_machine(n, bias_scale=1.0, units=units, seed=3)
        assert_is(bm.infer(model, "exact", beta=1.7), enumerate_machine(model, 1.7))


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("size", [1000.0, 1e-9, 1e12])
def test_couplings_of_any_size(units: str, size: float) -> None:
    base = machine("visible", units)
    model = bm.BoltzmannMachine(size * base.weights, size * base.bias, units=units)
    assert_is(bm.infer(model, "exact", beta=1 / size), enumerate_machine(base)._replace(
        energy=size * enumerate_machine(base).energy, energy_variance=size**2 * enumerate_machine(base).energy_variance
    ))  # fmt: skip
    found, truth = bm.infer(model, "exact"), enumerate_machine(model)
    np.testing.assert_allclose(found.log_z, truth.log_z, rtol=1e-14, atol=1e-10)
    np.testing.assert_allclose(found.mean, truth.mean, **CLOSE)


def test_couplings_of_plus_and_minus_1000_that_frustrate() -> None:
    """Three spins that cannot all disagree: six ground states at energy -1000."""
    model = bm.BoltzmannMachine(-1000 * (np.ones((3, 3)) - np.eye(3)))
    found = bm.infer(model, "exact")
    assert found.log_z == pytest.approx(1000 + math.log(6), abs=1e-10)
    np.testing.assert_allclose(found.mean, 0, atol=1e-12)
    np.testing.assert_allclose(found.second_moment[np.triu_indices(3, 1)], -1 / 3, atol=1e-12)
    assert found.energy == pytest.approx(-1000, abs=1e-9)
    assert found.entropy == pytest.approx(math.log(6), abs=1e-9)
    assert found.energy_variance == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("beta", [1e-300, 1e-200, 1e-12, 1e6])
def test_extreme_temperatures_give_finite_right_numbers(beta: float) -> None:
    model = machine("visible", offset=1.0)
    found, truth = bm.infer(model, "exact", beta=beta), enumerate_machine(model, beta)
    assert found.log_z == pytest.approx(truth.log_z, rel=1e-12)
    assert found.energy == pytest.approx(truth.energy, rel=1e-6)
    assert found.energy_variance == pytest.approx(truth.energy_variance, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("n", [11, 14])
def test_more_units_than_the_table_holds(n: int) -> None:
    model = bm.models.random_machine(n, scale=2.0, bias_scale=0.5, units="binary", seed=n)
    states, log_p = machines.log_joint(*machines.parameters(model), "binary", 0.9)
    p = np.exp(log_p)
    found = bm.infer(model, "exact", beta=0.9)
    assert found.log_z == pytest.approx(float(-0.9 * model.energy(states[:1].astype(int))[0] - log_p[0]), abs=1e-10)
    np.testing.assert_allclose(found.mean, p @ states, **CLOSE)
    np.testing.assert_allclose(found.second_moment, (states * p[:, None]).T @ states, **CLOSE)


def test_curie_weiss_and_a_flat_machine_in_closed_form() -> None:
    n, beta = 12, 0.8
    ups = np.arange(n + 1)
    energies = -((2 * ups - n) ** 2 - n) / (2 * n)
    terms = [
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - beta * e
        for k, e in zip(ups, energies, strict=True)
    ]
    found = bm.infer(bm.models.curie_weiss(n), "exact", beta=beta)
    assert found.log_z == pytest.approx(np.logaddexp.reduce(terms), abs=1e-11)
    assert bm.infer(flat(17), "exact").log_z == pytest.approx(17 * math.log(2), abs=1e-11)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_other_convention_has_the_same_log_z_and_moments(kind: str, units: str) -> None:
    model = machine(kind, units, offset=0.5)
    other = model.to_units("binary" if units == "spin" else "spin")
    here, there = (bm.infer(m, "exact", beta=1.3) for m in (model, other))
    assert here.log_z == pytest.approx(there.log_z, abs=1e-11)
    assert here.energy == pytest.approx(there.energy, abs=1e-11)
    assert here.energy_variance == pytest.approx(there.energy_variance, abs=1e-11)
    mean = 2 * there.mean - 1 if units == "spin" else (1 + there.mean) / 2
    np.testing.assert_allclose(here.mean, mean, atol=1e-11)


# Clamping


@pairwise(kind=KINDS, units=UNITS, beta=[0.0, 1.0, 1.6])
def test_clamped_units_keep_their_values(kind: str, units: str, beta: float) -> None:
    model = machine(kind, units, offset=-0.75)
    lo = -1 if units == "spin" else 0
    for indices, values in (([3, 0], [lo, 1]), ([1], [1])):
        found = bm.infer(model, "exact", beta=beta, clamp=(indices, values))
        truth = enumerate_machine(model, beta, clamp=dict(zip(indices, values, strict=True)))
        np.testing.assert_allclose(found.mean, truth.mean, **CLOSE)
        np.testing.assert_allclose(found.second_moment, truth.second_moment, **CLOSE)
        np.testing.assert_allclose(found.covariance[indices], 0, atol=0)
        np.testing.assert_array_equal(found.mean[indices], values)
        for name in ("log_z", "energy", "energy_variance", "entropy"):
            np.testing.assert_allclose(getattr(found, name), getattr(truth, name), **CLOSE)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_many_patterns_give_every_field_a_leading_axis(kind: str, units: str) -> None:
    model = machine(kind, units)
    rows = patterns(model.n_visible, units)[::3]
    together = bm.infer(model, "exact", beta=1.2, clamp=(np.arange(model.n_visible), rows))
    assert together.mean.shape == (len(rows), model.n_units)
    assert together.second_moment.shape == together.covariance.shape == (len(rows), model.n_units, model.n_units)
    for k, row in enumerate(rows):
        alone = bm.infer(model, "exact", beta=1.2, clamp=(np.arange(model.n_visible), row))
        for name in ("log_z", "energy", "entropy", "energy_variance", "mean", "second_moment", "covariance"):
            assert np.shape(getattr(together, name)) == (len(rows), *np.shape(getattr(alone, name)))
            np.testing.assert_allclose(getattr(together, name)[k], getattr(alone, name), rtol=1e-13, atol=1e-13)


def test_one_pattern_in_a_table_has_a_leading_axis_and_all_units_may_be_clamped() -> None:
    model = machine("visible", "binary", offset=3.0)
    assert bm.infer(model, "exact", clamp=([0], [[1]])).mean.shape == (1, 5)
    state = np.array([1, 0, 1, 1, 0])
    found = bm.infer(model, "exact", beta=2.0, clamp=(np.arange(5)[::-1], state[::-1]))
    assert found.log_z == pytest.approx(-2.0 * model.energy(state), abs=1e-12)
    np.testing.assert_array_equal(found.mean, state)
    np.testing.assert_array_equal(found.second_moment, np.outer(state, state))
    nothing = bm.infer(model, "exact", clamp=([], []))
    assert nothing.log_z == pytest.approx(bm.infer(model, "exact").log_z, abs=1e-12)


@pairwise(kind=KINDS, units=UNITS, beta=[0.5, 1.0])
def test_log_p_is_clamped_log_z_less_free_log_z(kind: str, units: str, beta: float) -> None:
    model = machine(kind, units, offset=1.0)
    rows = patterns(model.n_visible, units)
    clamped = bm.infer(model, "exact", beta=beta, clamp=(range(model.n_visible), rows)).log_z
    log_p = clamped - bm.infer(model, "exact", beta=beta).log_z
    assert np.logaddexp.reduce(log_p) == pytest.approx(0, abs=1e-11)
    expected = [machines.log_likelihood(*machines.parameters(model), units, row[None], beta) for row in rows]
    np.testing.assert_allclose(log_p, expected, **CLOSE)
    if kind in ("visible", "restricted"):
        np.testing.assert_allclose(-model.free_energy(rows, beta=beta), clamped, **CLOSE)


# Costs, bits, refusals


def test_moments_can_be_left_out() -> None:
    found, whole = (bm.infer(machine("general"), "exact", moments=moments) for moments in (False, True))
    assert found.log_z == whole.log_z
    assert (found.mean, found.mean_error, found.second_moment, found.covariance) == (None,) * 4


def test_the_same_bits_with_one_thread_and_two() -> None:
    model = bm.models.random_machine(17, bias_scale=0.2, seed=1)
    machines.assert_same_inference(*(bm.infer(model, "exact", threads=threads) for threads in (1, 2)))


@pytest.mark.parametrize("n", [60, 62])
def test_too_many_units_are_refused_with_the_cost_and_the_alternatives(n: int) -> None:
    with pytest.raises(
        ValueError, match=rf'2\^{n} states.*years.*max_forecast_seconds=600.*"sampled-states".*"mean-field"'
    ):
        bm.infer(bm.models.curie_weiss(n), "exact")


@pytest.mark.parametrize("n", [63, 2000])
def test_what_no_engine_can_do_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match=rf'exact cannot do a sum over 2\^{n} states.*blocks cannot.*gray.*"gibbs"'):
        bm.infer(bm.models.curie_weiss(n), "exact")


def test_the_limit_can_be_moved_and_clamping_helps() -> None:
    with pytest.raises(ValueError, match=r"max_forecast_seconds=0\.001"):
        bm.infer(bm.models.curie_weiss(30), "exact", max_forecast_seconds=0.001)
    found = bm.infer(flat(60), "exact", clamp=(range(50), np.ones(50, int)))
    assert found.log_z == pytest.approx(10 * math.log(2), abs=1e-11)


@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (TypeError, "exact has no option 'n_chains'.*It takes: engine, max_forecast_seconds", {"n_chains": 3}),
        (TypeError, "Did you mean 'max_forecast_seconds'", {"max_forcast_seconds": 3}),
        (ValueError, "max_forecast_seconds must be above 0", {"max_forecast_seconds": 0}),
        (ValueError, "beta must be at least 0; got -1", {"beta": -1}),
        (ValueError, "beta must be finite", {"beta": np.inf}),
        (TypeError, "beta must be a number", {"beta": "1"}),
        (ValueError, r"clamp must be a pair \(indices, values\)", {"clamp": ([0], [1], [2])}),
        (ValueError, r"clamp must be a pair \(indices, values\)", {"clamp": 3}),
        (ValueError, "clamp indices must be units from 0 to 4; got 5 to 5", {"clamp": ([5], [1])}),
        (ValueError, "clamp indices must name each unit once; unit 2", {"clamp": ([2, 2], [1, 1])}),
        (ValueError, "clamp values must be -1 or 1 .*got 0", {"clamp": ([2], [0])}),
        (ValueError, r"clamp values must have shape \(1,\)", {"clamp": ([2], [1, 1])}),
        (ValueError, "clamp values .*at least one pattern", {"clamp": ([2], np.empty((0, 1)))}),
        (ValueError, "threads must be at least 1", {"threads": 0}),
        (ValueError, "seed must be at least 0", {"seed": -3}),
    ],
)
def test_bad_arguments_are_named(
    error: type[Exception], text: str, arguments: dict[str, object], out: bool, tmp_path
) -> None:
    where = {"out": tmp_path / "result.h5"} if out else {}
    with pytest.raises(error, match=text):
        bm.infer(machine("visible"), "exact", **arguments, **where)
    assert not list(tmp_path.iterdir()), "a refused call leaves nothing behind"


def test_unknown_methods_name_the_nearest_and_only_machines_are_inferred() -> None:
    with pytest.raises(ValueError, match=r"method must be one of 'exact', .*Did you mean 'exact'"):
        bm.infer(machine("visible"), "exakt")
    with pytest.raises(TypeError, match="model must be a BoltzmannMachine; got list"):
        bm.infer([[0.0]], "exact")


def test_a_pattern_whose_energies_lie_farther_apart_than_those_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clamped units pull together, which few states outweigh; or against one another, which leaves a cold glass."""
    monkeypatch.setattr(tree, "MOST_LEAVES", 8)
    monkeypatch.setattr(tree, "DIRECT", 4)
    n, generator = 14, np.random.default_rng(0)
    weights = np.zeros((n + 2, n + 2))
    weights[:n, :n] = np.triu(generator.normal(size=(n, n)), 1)
    weights[:n, n] = weights[:n, n + 1] = 100.0 * generator.normal(size=n)
    model = bm.BoltzmannMachine(weights + weights.T)
    patterns = [[1, 1], [1, -1]]
    found = bm.infer(model, "exact", beta=30.0, clamp=([n, n + 1], patterns))
    assert [about["engine"] for about in found.detail["patterns"]] == ["blocks", "gray"]
    assert "too far apart" in found.detail["patterns"][1]["why"]
    alone = bm.infer(model.condition([n, n + 1], patterns[1]), "exact", beta=30.0, engine="gray")
    assert found.log_z[1] == alone.log_z
    np.testing.assert_array_equal(found.mean[1, :n], alone.mean)
