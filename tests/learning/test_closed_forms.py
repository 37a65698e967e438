"""Closed forms: equal to their formulas, right to the power of the couplings that they should be, exact on trees."""

from __future__ import annotations

import numpy as np
import pytest

import fastbm as bm
from fastbm.learning.closed_forms.learn import CLOSED_FORMS, learn
from tests.support import machines
from tests.support.combinations import pairwise
from tests.twins import closed_forms

TWINS = {
    "independent-pair": closed_forms.independent_pair,
    "naive-mean-field": closed_forms.naive_mean_field,
    "tap": closed_forms.tap,
    "sessak-monasson": closed_forms.sessak_monasson,
    "bethe": closed_forms.bethe,
}
POWERS = {  # of the couplings' size: errors of W without and with biases, of b, and of log Z with biases
    "independent-pair": (2, 2, 2, 3),
    "naive-mean-field": (3, 2, 2, 2),
    "tap": (3, 3, 3, 3),
    "sessak-monasson": (5, 4, 4, 5),
    "bethe": (4, 3, 3, 3),
}
METHODS = tuple(CLOSED_FORMS)


def planted(n: int = 6, scale: float = 0.1, bias: float = 0.5, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    upper = np.triu(generator.normal(scale=scale, size=(n, n)), 1)
    return upper + upper.T, generator.normal(scale=bias, size=n) if bias else np.zeros(n)


def tree(n: int = 8, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    weights = np.zeros((n, n))
    for i in range(1, n):
        j = generator.integers(i)
        weights[i, j] = weights[j, i] = generator.normal(scale=0.8)
    return weights, generator.normal(scale=0.5, size=n)


def exact_moments(weights: np.ndarray, bias: np.ndarray, units: str = "spin") -> tuple[bm.Moments, float]:
    """Of the spin machine, in either convention, and its log Z."""
    n = len(bias)
    states, log_p = machines.log_joint(weights, bias, "spin", 1.0)
    p = np.exp(log_p)
    log_z = 0.5 * weights.sum() + bias.sum() - log_p[(states == 1).all(axis=1)][0]
    moments = bm.Moments(p @ states, (states * p[:, None]).T @ states * (1 - np.eye(n)), units="spin")
    return moments.to_units(units), log_z


def errors(method: str, weights: np.ndarray, bias: np.ndarray) -> tuple[float, float, float]:
    """Of W and b against what was planted, and of the rule's log Z against the learned machine's."""
    moments, _ = exact_moments(weights, bias)
    model, log_z = learn(moments, method)
    truth = exact_moments(model.weights, model.bias)[1] - model.offset
    return abs(model.weights - weights).max(), abs(model.bias - bias).max(), abs(log_z - truth)


def slope(sizes: list[float], found: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(found), 1)[0])


def test_every_rule_has_a_twin_and_a_power():
    assert set(CLOSED_FORMS) == set(TWINS) == set(POWERS)


@pytest.mark.parametrize("method", METHODS)
def test_a_rule_is_its_formula(method):
    moments, _ = exact_moments(*planted(scale=0.2))
    weights, bias, log_z = TWINS[method](moments.mean, np.array(moments.second_moment))
    model, found = learn(moments, method)
    tolerance = 2e-6 if method in ("independent-pair", "sessak-monasson") else 1e-11  # twins by differences
    np.testing.assert_allclose(model.weights, weights, atol=tolerance)
    np.testing.assert_allclose(model.bias, bias, atol=tolerance)
    assert found == pytest.approx(log_z, abs=tolerance)
    assert np.array_equal(model.weights, model.weights.T)


@pytest.mark.parametrize("method", METHODS)
def test_errors_fall_as_the_right_power_of_the_couplings(method):
    sizes = [0.08, 0.04, 0.02, 0.01]
    weights, bias = planted(scale=1.0)
    plain = [errors(method, size * weights, 0 * bias) for size in sizes]
    biased = [errors(method, size * weights, bias) for size in sizes]
    found = [
        slope(sizes, [w for w, _, _ in plain]),
        *(slope(sizes, [one[k] for one in biased]) for k in range(3)),
    ]
    np.testing.assert_allclose(found, POWERS[method], atol=0.3)
    assert max(b for _, b, _ in plain) < 1e-12


@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_the_expansion_is_best_at_small_couplings(bias):
    for seed in range(5):
        machine = planted(8, 0.05, bias, seed)
        found = {method: errors(method, *machine)[0] for method in METHODS}
        assert all(found["sessak-monasson"] < 0.5 * found[other] for other in METHODS if other != "sessak-monasson")


def test_bethe_is_exact_on_trees():
    weights, bias = tree()
    moments, log_z = exact_moments(weights, bias)
    model, found = learn(moments, "bethe")
    np.testing.assert_allclose(model.weights, weights, atol=1e-8)
    np.testing.assert_allclose(model.bias, bias, atol=1e-8)
    assert found == pytest.approx(log_z, abs=1e-8)


@pytest.mark.parametrize("method", ["independent-pair", "sessak-monasson", "bethe"])
def test_two_units_are_exact(method):
    weights, bias = np.array([[0.0, -0.9], [-0.9, 0.0]]), np.array([0.7, -0.2])
    moments, log_z = exact_moments(weights, bias)
    model, found = learn(moments, method)
    np.testing.assert_allclose(model.weights, weights, atol=1e-12)
    np.testing.assert_allclose(model.bias, bias, atol=1e-12)
    assert found == pytest.approx(log_z, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_independent_units_stay_uncoupled(method):
    moments = bm.Moments([0.3, -0.5, 0.0], np.outer([0.3, -0.5, 0.0], [0.3, -0.5, 0.0]) * (1 - np.eye(3)))
    ridge = 0.0 if method == "independent-pair" else 0.2
    model, log_z = learn(moments, method, ridge=ridge)
    np.testing.assert_allclose(model.weights, 0.0, atol=1e-15)
    np.testing.assert_allclose(model.bias, np.arctanh(moments.mean), atol=1e-15)
    assert log_z == pytest.approx(np.log(2 * np.cosh(model.bias)).sum(), abs=1e-12)


@pytest.mark.parametrize("method", ["tap", "bethe"])
def test_inference_by_the_same_approximation_gives_the_moments_back(method):
    moments, _ = exact_moments(*planted(scale=0.2))
    model, log_z = learn(moments, method)
    found = bm.infer(model, method, tolerance=1e-12)
    off = ~np.eye(moments.n_units, dtype=bool)
    np.testing.assert_allclose(found.mean, moments.mean, atol=1e-9)
    np.testing.assert_allclose(np.linalg.inv(found.covariance)[off], np.linalg.inv(moments.covariance)[off], atol=1e-7)
    assert found.log_z == pytest.approx(log_z, abs=1e-9)


@pairwise(method=METHODS, wanted=machines.UNITS, given=machines.UNITS)
def test_units_do_not_matter(method, given, wanted):
    machine = planted()
    like, log_z = learn(exact_moments(*machine)[0], method)
    model, found = learn(exact_moments(*machine, units=given)[0], method, units=wanted)
    assert model.units == wanted
    assert learn(exact_moments(*machine, units=given)[0], method)[0].units == given
    np.testing.assert_allclose(model.to_units("spin").weights, like.weights, atol=1e-12)
    np.testing.assert_allclose(model.to_units("spin").bias, like.bias, atol=1e-12)
    assert model.to_units("spin").offset == pytest.approx(like.offset, abs=1e-12)
    assert found == pytest.approx(log_z, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_a_machine_learned_at_beta_has_the_same_distribution_there(method):
    moments, _ = exact_moments(*planted())
    like, log_z = learn(moments, method)
    model, found = learn(moments, method, beta=2.0)
    states = machines.patterns(6, "spin")
    np.testing.assert_allclose(2.0 * model.energy(states), like.energy(states), atol=1e-13)
    assert found == log_z


@pytest.mark.parametrize("method", METHODS)
def test_flip_noise_is_that_of_the_moments(method):
    rows = np.random.default_rng(0).integers(0, 2, (40, 5))
    moments = bm.Moments.of(rows)
    assert moments.units == "binary"
    model, log_z = learn(moments, method, flip_noise=0.1)
    like, expected = learn(moments.flipped(0.1), method)
    np.testing.assert_allclose(model.weights, like.weights, atol=1e-12)
    np.testing.assert_allclose(model.bias, like.bias, atol=1e-12)
    assert log_z == pytest.approx(expected, abs=1e-12)


def test_a_ridge_is_in_units_of_the_mean_variance():
    moments, _ = exact_moments(*planted())
    covariance = moments.covariance + 0.3 * np.eye(6) * np.mean(1 - moments.mean**2)
    model, _ = learn(moments, "naive-mean-field", ridge=0.3)
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(model.weights[off], -np.linalg.inv(covariance)[off], atol=1e-13)
    plain, _ = learn(moments, "naive-mean-field")
    assert np.abs(model.weights).sum() < 0.8 * np.abs(plain.weights).sum()


def test_constant_units_are_named():
    rows = np.random.default_rng(0).integers(0, 2, (30, 4))
    rows[:, 2] = 0
    with pytest.raises(ValueError, match=r"unit 2 is always down, 1 such units in all\. Use flip_noise"):
        learn(bm.Moments.of(rows), "bethe")
    rows[:, 1] = 1
    with pytest.raises(ValueError, match="unit 1 is always up, 2 such"):
        learn(bm.Moments.of(2 * rows - 1, weights=np.arange(30) / 7), "independent-pair")
    assert np.isfinite(learn(bm.Moments.of(rows), "bethe", flip_noise=0.1)[1])


@pytest.mark.parametrize("method", [method for method, rule in CLOSED_FORMS.items() if rule.inverts])
def test_a_singular_covariance_is_said_to_be_one(method):
    rows = np.random.default_rng(1).integers(0, 2, (50, 4))
    rows[:, 3] = rows[:, 0]
    moments = bm.Moments.of(rows)
    with pytest.raises(ValueError, match=r"singular \(moments of 50 rows, 4 units\).*flip_noise or ridge"):
        learn(moments, method)
    assert np.isfinite(learn(moments, method, flip_noise=0.1)[0].weights).all()
    few = bm.Moments.of(np.random.default_rng(2).integers(0, 2, (9, 12)))
    with pytest.raises(ValueError, match=r"singular \(moments of 9 rows, 12 units\)"):
        learn(few, method)


def test_a_ridge_mends_a_singular_covariance():
    rows = np.random.default_rng(1).integers(0, 2, (50, 4))
    rows[:, 3] = rows[:, 0]
    model, _ = learn(bm.Moments.of(rows), "naive-mean-field", ridge=0.1)
    assert model.to_units("spin").weights[0, 3] == np.abs(model.to_units("spin").weights).max()


def test_a_fit_to_a_covariance_that_is_nearly_singular_says_what_a_formula_knows():
    rows = np.random.default_rng(1).integers(0, 2, (50, 4))
    rows[:, 3] = rows[:, 0]
    with pytest.raises(ValueError, match=r"parameters are not finite, .* Raise flip_noise or ridge\."):
        bm.fit(rows, "tap", flip_noise=1e-9, progress=False)


@pytest.mark.parametrize("method", ["independent-pair", "sessak-monasson"])
def test_pairs_that_never_fire_together_are_named(method):
    rows = np.random.default_rng(0).integers(0, 2, (60, 4))
    rows[:, 3] *= 1 - rows[:, 1]
    with pytest.raises(ValueError, match=rf'"{method}" has no real solution for units 1 and 3: .*\(up, up\)'):
        learn(bm.Moments.of(rows), method)
    assert np.isfinite(learn(bm.Moments.of(rows), method, flip_noise=0.05)[0].weights).all()


def test_pairs_are_refused_without_warnings_of_logarithms():
    rows = np.random.default_rng(24).integers(0, 2, (12, 4))
    rows[:, 2] = rows[:, 0] ^ rows[:, 1]
    text = 'no real solution for units .*: "naive-mean-field" has a solution wherever the covariance can be inverted'
    with pytest.raises(ValueError, match=text):
        bm.fit(rows, "independent-pair", threads=1)


def frustrated(mean: float, covariance: float) -> bm.Moments:
    second = np.full((3, 3), covariance + mean**2) * (1 - np.eye(3))
    return bm.Moments(np.full(3, mean), second, units="spin")


def test_pairs_without_a_solution_are_named():
    with pytest.raises(ValueError, match=r'"tap" has no real solution for units 0 and 1: .*"naive-mean-field"'):
        learn(frustrated(0.5, -0.25), "tap")
    with pytest.raises(ValueError, match=r'"bethe" has no real solution for units 0 and 1: .*\(down, down\)'):
        learn(frustrated(0.5, -0.2), "bethe")
    assert np.isfinite(learn(frustrated(0.5, -0.2), "naive-mean-field")[1])


def test_arguments_are_checked():
    moments = frustrated(0.1, 0.1)
    with pytest.raises(ValueError, match=r"method must be one of .*Did you mean 'bethe'"):
        learn(moments, "beth")
    with pytest.raises(ValueError, match="beta must be above 0"):
        learn(moments, "tap", beta=0.0)
    with pytest.raises(ValueError, match=r"flip_noise must be below 0\.5"):
        learn(moments, "tap", flip_noise=0.5)
    with pytest.raises(ValueError, match="ridge must be at least 0"):
        learn(moments, "tap", ridge=-1.0)
    with pytest.raises(ValueError, match=r"independent-pair.*ridge does nothing; use flip_noise"):
        learn(moments, "independent-pair", ridge=0.1)


def test_neurons_are_told_that_they_never_fire_together_and_fitted_nevertheless():
    rows = bm.data.load(f"{machines.data_file('example15.mat')}:spikes15").rows
    moments = bm.Moments.of(rows)
    with pytest.raises(ValueError, match=r"units 1 and 11: .*\(up, up\) is not above 0\. There are 2 such pairs"):
        learn(moments, "sessak-monasson")
    best = -4.48652  # of exact maximum likelihood, in nats a row; -4.55358 for independent units
    for method, loss in (("sessak-monasson", 0.001), ("bethe", 0.002), ("naive-mean-field", 0.02)):
        model, _ = learn(moments, method, flip_noise=0.001)
        found = -model.energy(rows).mean() - bm.infer(model, "exact", moments=False).log_z
        assert best - loss < found < best
