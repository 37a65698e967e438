"""Jackknife errors, reweighting and response functions, against plain twins, closed forms and enumeration."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from scipy.special import stdtrit

import fastbm as bm
from fastbm import diagnostics
from fastbm.diagnostics import jackknife, reweight
from fastbm.diagnostics.autocorrelation import longest_tau
from fastbm.diagnostics.jackknife import cut_blocks
from tests.diagnostics.test_autocorrelation import autoregressive, with_slow_mode
from tests.support import machines
from tests.support.combinations import pairwise
from tests.twins import statistics as reference


def variance_of(samples: np.ndarray) -> float:
    return float(np.mean(samples**2) - np.mean(samples) ** 2)


def variance_of_means(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return second - first**2


@pairwise(of=["means", "arrays"], n_blocks=[2, 8, 13], n_samples=[64, 67, 200])
def test_as_a_plain_twin_says(n_samples: int, n_blocks: int, of: str) -> None:
    values = np.random.default_rng(0).normal(2.0, 1.0, size=(n_samples, 3))
    rows = np.array_split(np.arange(n_samples), n_blocks)
    if n_samples % n_blocks:
        rows = [np.arange(k * n_samples // n_blocks, (k + 1) * n_samples // n_blocks) for k in range(n_blocks)]
    blocks = [[3 * t + c for t in part for c in range(3)] for part in rows]
    value, error, mean = reference.jackknife(variance_of, values.ravel(), blocks)
    if of == "means":
        function, arguments = variance_of_means, (values, values**2)
    else:
        function, arguments = np.var, (values,)
    for corrected, expected in ((False, value), (True, mean)):
        found = jackknife(function, *arguments, of=of, n_blocks=n_blocks, corrected=corrected)
        assert found.value == pytest.approx(expected, rel=1e-10)
        assert found.error == pytest.approx(error, rel=1e-9)


def test_of_a_mean_it_is_the_standard_error() -> None:
    """Blocks of one sample: the textbook formula."""
    values = np.random.default_rng(1).normal(size=(50, 1))
    value, error = jackknife(lambda mean: mean, values, n_blocks=50)
    assert value == pytest.approx(values.mean()) and error == pytest.approx(values.std(ddof=1) / np.sqrt(50))


def test_what_short_blocks_miss_is_made_up_for() -> None:
    """Blocks of L samples of an autoregressive series: 1 - (tau - 1 / (4 tau)) / L of the variance."""
    rho, length = 0.9, 100
    lags = np.arange(1, length)
    tau = 0.5 * (1 + rho) / (1 - rho)
    part = (0.5 + np.sum((1 - lags / length) * rho**lags)) / tau
    assert cut_blocks(1600, 1, tau).sizes.tolist() == [100] * 16
    assert 1 - cut_blocks(1600, 1, tau).lost == pytest.approx(part, abs=1e-4)
    values = autoregressive(rho, 1600, 1)
    chosen = jackknife(np.exp, values)
    blocks = cut_blocks(1600, 1, float(longest_tau(values)))
    assert blocks.wider == pytest.approx(stdtrit(len(blocks.sizes) - 1, 0.975) / 1.959963984540054)
    plain = jackknife(np.exp, values, n_blocks=len(blocks.sizes))
    assert chosen.error == pytest.approx(plain.error * blocks.wider / np.sqrt(1 - blocks.lost), rel=1e-9)


def test_the_bias_of_a_variance_is_taken_off() -> None:
    values = np.random.default_rng(2).normal(size=(40, 1))
    found = jackknife(variance_of_means, values, values**2, n_blocks=40, corrected=True)
    assert found.value == pytest.approx(values.var(ddof=1), rel=1e-10)


def test_blocks_are_long_enough_or_are_chains_or_there_is_no_error() -> None:
    assert (cut_blocks(10_000, 1, 1.0).axis, len(cut_blocks(10_000, 1, 1.0).sizes)) == (0, 64)
    assert (cut_blocks(250, 1, 1.0).axis, len(cut_blocks(250, 1, 1.0).sizes)) == (0, 25)
    assert (cut_blocks(50, 7, 1.0).axis, len(cut_blocks(50, 7, 1.0).sizes)) == (0, 8)
    assert (cut_blocks(50, 8, 1.0).axis, len(cut_blocks(50, 8, 1.0).sizes)) == (1, 8)
    assert (cut_blocks(1, 500, 1.0).axis, len(cut_blocks(1, 500, 1.0).sizes)) == (1, 64)
    assert not cut_blocks(32, 7, 1.0).reason and cut_blocks(31, 7, 1.0).reason
    assert cut_blocks(101, 3, 0.5, n_blocks=10).sizes.tolist() == [10] * 9 + [11]


@pytest.mark.parametrize("of", ["means", "arrays"])
def test_too_few_samples_leave_no_error(of: str) -> None:
    values = autoregressive(0.9, 30, 2)
    with pytest.warns(bm.ConvergenceWarning, match="30 samples of 2 chains with tau_int.*too few.*Sample longer"):
        found = jackknife(np.cbrt if of == "means" else np.median, values, of=of)
    assert np.isfinite(found.value) and np.isnan(found.error)


def test_many_quantities_and_functions_of_several() -> None:
    values = np.random.default_rng(3).normal(size=(400, 4, 2, 3))
    found = jackknife(lambda a, b: np.exp(a) + b[..., None], values, values[:, :, :, 0])
    assert found.value.shape == found.error.shape == (2, 3)
    alone = jackknife(lambda a, b: np.exp(a) + b, values[:, :, 1, 2], values[:, :, 1, 0], n_blocks=20)
    assert jackknife(lambda a, b: np.exp(a) + b[..., None], values, values[:, :, :, 0], n_blocks=20).error[
        1, 2
    ] == pytest.approx(alone.error, rel=1e-9)
    assert np.ndim(alone.value) == 0


def test_values_that_do_not_vary_have_no_error() -> None:
    found = jackknife(lambda mean: mean**3, np.full((100, 3), 0.1))
    assert found.value == pytest.approx(0.001) and found.error == 0.0


@pytest.mark.parametrize(("n_samples", "n_chains", "rho"), [(2000, 1, 0.8), (60, 40, 0.0)])
def test_errors_cover(rho: float, n_samples: int, n_chains: int) -> None:
    """300 intervals of exp(mean) and of the median; 0 is both mean and median."""
    inside = {"means": [], "arrays": []}
    for seed in range(300):
        values = autoregressive(rho, n_samples, n_chains, seed)
        value, error = jackknife(np.exp, values)
        inside["means"].append(abs(value - 1.0) < 1.96 * error)
        if seed < 100:
            value, error = jackknife(lambda part: np.exp(np.mean(part)), values, of="arrays")
            inside["arrays"].append(abs(value - 1.0) < 1.96 * error)
    machines.assert_covers(np.array(inside["means"]))
    assert inside["arrays"] == inside["means"][:100]


@pytest.mark.parametrize("of", ["means", "arrays"])
def test_slow_modes_are_known_of(of: str) -> None:
    """By blocks of 10 tau_int of all chains together values would be off by 1.3 errors."""
    values = np.moveaxis(with_slow_mode(2000, 8, 60), -1, 0)
    found = [jackknife(np.exp if of == "means" else lambda some: np.exp(some.mean()), some, of=of) for some in values]
    assert 0.8 < np.sqrt(np.mean([((one.value - 1.0) / one.error) ** 2 for one in found])) < 1.15


def test_no_error_is_smaller_than_that_of_whole_chains() -> None:
    values = np.random.default_rng(1).normal(size=(500, 16)) + np.repeat([-0.1, 0.1], 8)
    of_chains = values.mean(axis=0).std(ddof=1) / 4
    assert jackknife(lambda mean: mean, values).error == pytest.approx(of_chains, rel=1e-9)


def test_what_does_not_fit_is_refused() -> None:
    values = np.zeros((100, 3))
    with pytest.raises(ValueError, match=r"same samples and chains; got shapes \(100, 3\), \(100, 2\)"):
        jackknife(lambda a, b: a, values, values[:, :2])
    with pytest.raises(ValueError, match="got shapes none"):
        jackknife(lambda: 0.0)
    with pytest.raises(ValueError, match="n_blocks must lie between 2 and n_samples = 100; got 101"):
        jackknife(np.exp, values, n_blocks=101)
    with pytest.raises(ValueError, match="of must be one of 'means', 'arrays'"):
        jackknife(np.exp, values, of="mean")
    with pytest.raises(ValueError, match=r'function must keep the leading axis.*of="arrays"'):
        jackknife(np.sum, values)


# Reweighting


def drawn(beta: float, shape: tuple[int, int], seed: int, kind: str = "visible") -> tuple[np.ndarray, np.ndarray]:
    """Energies and magnetisations of independent states of a small machine."""
    model = machines.machine(kind, scale=0.4)
    states, log_p = machines.log_joint(*machines.parameters(model), model.units, beta)
    chosen = np.random.default_rng(seed).choice(len(states), shape, p=np.exp(log_p))
    return model.energy(states.astype(np.int8))[chosen], states.mean(axis=1)[chosen]


def exact(beta: float, kind: str = "visible") -> tuple[float, float, float, float]:
    """<E>, <m>, var E and var m by enumeration."""
    model = machines.machine(kind, scale=0.4)
    states, log_p = machines.log_joint(*machines.parameters(model), model.units, beta)
    energy, m, p = model.energy(states.astype(np.int8)), states.mean(axis=1), np.exp(log_p)
    return float(p @ energy), float(p @ m), float(p @ energy**2 - (p @ energy) ** 2), float(p @ m**2 - (p @ m) ** 2)


def test_reweighting_covers_the_exact_averages() -> None:
    """150 intervals at three temperatures each, of energy and magnetisation."""
    betas = np.array([0.6, 1.0, 1.2])
    truth = np.array([exact(b)[:2] for b in betas])
    inside = []
    for seed in range(150):
        energy, m = drawn(0.9, (500, 2), seed)
        found = reweight(energy, np.stack([energy, m], axis=-1), 0.9, betas)
        assert found.value.shape == found.error.shape == (3, 2) and found.ess.shape == (3,)
        inside.append(np.abs(found.value - truth) < 1.96 * found.error)
    for part in np.moveaxis(np.array(inside), 0, -1).reshape(6, 150):
        machines.assert_covers(part)


def test_reweighting_by_hand() -> None:
    energy, m = drawn(1.0, (40, 3), 0)
    weights = [np.exp(0.3 * e) for e in energy.ravel()]
    found = reweight(energy, m, 1.0, 0.7)
    assert found.value == pytest.approx(np.dot(weights, m.ravel()) / np.sum(weights), rel=1e-12)
    kish = np.sum(weights) ** 2 / np.sum(np.square(weights))
    assert found.ess == pytest.approx(kish * diagnostics.ess(energy) / energy.size, rel=1e-12)
    assert all(np.ndim(part) == 0 for part in found)


def test_reweighting_to_the_same_temperature_is_the_mean() -> None:
    energy = autoregressive(0.8, 4000, 4)
    found = reweight(energy, energy, 0.5, 0.5)
    assert found.value == pytest.approx(energy.mean(), abs=1e-12)
    assert found.error == pytest.approx(diagnostics.standard_error(energy), rel=0.4)
    assert found.ess == pytest.approx(diagnostics.ess(energy))


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_reweighting_too_far_is_told(scale: float) -> None:
    energy = scale * autoregressive(0.0, 1000, 2)
    with pytest.warns(bm.ConvergenceWarning, match="from beta = 1 to 9 leaves .* effective samples of 2000"):
        found = reweight(energy, energy, 1.0, 9.0)
    assert np.isfinite(found.value) and found.value >= energy.min() * (1 + 1e-12)
    assert found.ess < 10


@pytest.mark.parametrize(("new", "far"), [(-1.6, True), (0.0, False), (2.4, False), (3.6, True)])
def test_reweighting_beyond_the_energies_that_were_seen_is_told(new: float, far: bool) -> None:
    """The mean of normal energies moves by its whole way; the way to the outermost of 20,000 is four."""
    energy = np.random.default_rng(5).normal(size=(20_000, 1))
    text = "moves the mean energy 0.6.* of the way to the outermost of 20000"
    with pytest.warns(bm.ConvergenceWarning, match=text) if far else nullcontext():
        assert reweight(energy, energy, 1.0, new).ess > 10


@pytest.mark.parametrize(("n_lowest", "far"), [(3, True), (8, False)])
def test_reweighting_to_energies_that_end_needs_samples_of_the_lowest(n_lowest: int, far: bool) -> None:
    """Each sample stays for ten rows, which are no more than one."""
    energy = np.random.default_rng(5).normal(size=3000)
    energy = energy.clip(np.sort(energy)[n_lowest - 1]).repeat(10)[:, None]
    with pytest.warns(bm.ConvergenceWarning, match="outermost") if far else nullcontext():
        assert reweight(energy, energy, 1.0, 3.0).ess > 10


def test_reweighting_onto_one_sample_has_no_error() -> None:
    energy = np.where(np.arange(40) % 2, -3.0, 0.0)[:, None]
    energy[0] = 33.3
    with pytest.warns(bm.ConvergenceWarning, match="leaves 1 effective samples"):
        found = reweight(energy, energy, 10.0, 0.5)
    assert found.value == pytest.approx(33.3)
    assert np.isnan(found.error)


def test_reweighting_does_not_overflow() -> None:
    """Energies of a large machine: log weights of 1e6 whose spread is 1."""
    energy = -1e9 + autoregressive(0.0, 1000, 2)
    shifted = reweight(energy, energy + 1e9, 1.0, 1.5)
    plain = reweight(energy + 1e9, energy + 1e9, 1.0, 1.5)
    assert shifted.value == pytest.approx(plain.value, rel=1e-6)


def test_reweighting_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"energy must have shape \(n_samples, n_chains\)"):
        reweight(np.zeros((10, 2)), np.zeros((10, 3)), 1.0, 1.1)
    with pytest.raises(ValueError, match="new_beta must be a number or a vector"):
        reweight(np.zeros((10, 2)), np.zeros((10, 2)), 1.0, [[1.1]])
    with pytest.raises(ValueError, match="beta must be finite"):
        reweight(np.zeros((10, 2)), np.zeros((10, 2)), np.nan, 1.0)
