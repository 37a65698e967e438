"""Autocorrelation times, effective samples and R-hat of series whose values are known."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm

from fastbm import diagnostics
from fastbm.diagnostics.autocorrelation import covariances, error_by, standard_errors, windowed_time
from fastbm.diagnostics.drift import drifts
from fastbm.diagnostics.ranks import largest_r_hats


def autoregressive(rho: float, n_samples: int, n_chains: int, seed: int = 0) -> np.ndarray:
    """Stationary chains x_t = rho x_{t-1} + noise of unit variance: tau_int = (1 + rho) / (2 (1 - rho))."""
    noise = np.random.default_rng(seed).normal(size=(n_samples, n_chains))
    noise[1:] *= np.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=0)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.98])
@pytest.mark.parametrize("n_chains", [1, 20])
def test_autocorrelation_time_of_an_autoregressive_series(rho: float, n_chains: int) -> None:
    """Sokal's error of tau is tau sqrt(2 (2 W + 1) / N) with window W = 5 tau; four of them, fixed seeds."""
    n_samples = 200_000 // n_chains
    values = autoregressive(rho, n_samples, n_chains)
    tau = 0.5 * (1 + rho) / (1 - rho)
    error = tau * np.sqrt(2 * (10 * tau + 1) / values.size)
    assert abs(diagnostics.tau_int(values) - tau) < 4 * error + 0.02 * tau
    assert diagnostics.ess(values) == pytest.approx(values.size / (2 * diagnostics.tau_int(values)))


def test_alternating_series_count_as_independent() -> None:
    assert diagnostics.tau_int(autoregressive(-0.5, 10_000, 4)) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -12.3456, 1e8 / 3, 1e-8])
@pytest.mark.parametrize("n_samples", [1, 2, 3, 10, 777, 1000])
def test_values_that_do_not_vary(value: float, n_samples: int) -> None:
    values = np.full((n_samples, 3), value)
    assert diagnostics.tau_int(values) == 0.5
    assert diagnostics.ess(values) == 3 * n_samples
    assert diagnostics.standard_error(values) == pytest.approx(0, abs=1e-14 * abs(value))
    assert np.isnan(diagnostics.r_hat(values)) if n_samples < 4 else diagnostics.r_hat(values) == 1


def test_r_hat_of_chains_that_agree_and_of_chains_that_do_not() -> None:
    good = autoregressive(0.5, 4000, 8)
    assert abs(diagnostics.r_hat(good) - 1) < 0.01
    assert diagnostics.r_hat(good + np.arange(8)) > 2
    stuck = np.tile(np.arange(8.0), (100, 1))
    assert diagnostics.r_hat(stuck) == np.inf
    assert diagnostics.r_hat(stuck * 0.1 + 0.3) > 1e3
    drifting = good + np.linspace(-5, 5, 4000)[:, None]
    assert diagnostics.r_hat(drifting) > 1.5, "chains that agree with one another and not with themselves"


def test_r_hat_by_hand() -> None:
    """Eight values, ranks 1, 3 (three times), 6 (three times) and 8; of distances from the median 1.5 likewise."""
    values = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [1.0, 2.0]])
    first = {x: norm.ppf((rank - 0.375) / 8.25) for x, rank in {0: 1, 1: 3, 2: 6, 3: 8}.items()}
    far, near = norm.ppf((7.5 - 0.375) / 8.25), norm.ppf((3.5 - 0.375) / 8.25)
    ratios = []
    for score in (first, {0: far, 1: near, 2: near, 3: far}):
        halves = [[score[x] for x in half] for half in ([0, 1], [2, 1], [1, 3], [2, 2])]
        within = np.mean([np.var(half, ddof=1) for half in halves])
        between = 2 * np.var([np.mean(half) for half in halves], ddof=1)
        ratios.append(np.sqrt((within / 2 + between / 2) / within))
    assert diagnostics.r_hat(values) == pytest.approx(max(ratios), rel=1e-12)


def coverage(rho: float, n: int, n_chains: int) -> float:
    """The part of 400 series whose mean lies in the 95 % interval."""
    series = (autoregressive(rho, n, n_chains, seed) for seed in range(400))
    return float(np.mean([abs(one.mean()) < 1.96 * diagnostics.standard_error(one) for one in series]))


@pytest.mark.parametrize("n_chains", [1, 4, 16])
@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_standard_errors_cover(rho: float, n_chains: int) -> None:
    """95 % intervals hold the mean in 90 to 99.5 % of cases (more than four sigma either way)."""
    assert 0.90 < coverage(rho, 400, n_chains) < 0.995


def test_standard_errors_of_short_series_know_that_their_time_is_too_short() -> None:
    """Of ten and twenty integrated times: by tau_int itself they would cover 74 and 83 %."""
    assert coverage(0.8, 45, 1) > 0.79 and coverage(0.8, 90, 1) > 0.86


def with_slow_mode(n_samples: int, n_chains: int, n_series: int) -> np.ndarray:
    """White noise with a tenth of its variance in a mode of tau_int = 20, (n_samples, n_chains, n_series)."""
    shape, noise = (n_samples, n_chains, n_series), np.random.default_rng(5).normal
    slow = autoregressive(39 / 41, n_samples, n_chains * n_series, 6).reshape(shape)
    return np.sqrt(0.9) * noise(size=shape) + np.sqrt(0.1) * slow


@pytest.mark.parametrize("n_chains", [1, 4])
def test_standard_errors_know_of_slow_modes_of_small_amplitude(n_chains: int) -> None:
    """Sokal's window ends before them: by `tau_int` alone means would be off by 1.5 errors."""
    values = with_slow_mode(20_000 // n_chains, n_chains, 100)
    off = values.mean(axis=(0, 1)) / diagnostics.standard_error(values)
    assert 0.85 < np.sqrt(np.mean(off**2)) < 1.15


@pytest.mark.parametrize(("rho", "n_chains"), [(0.0, 1), (0.0, 64), (0.8, 4)])
def test_errors_grow_by_little_where_there_is_no_slow_mode(rho: float, n_chains: int) -> None:
    values = autoregressive(rho, 4000 // n_chains, 100 * n_chains).reshape(-1, n_chains, 100)
    longer, alone = diagnostics.standard_error(values), error_by(windowed_time, values)
    assert np.all(longer >= alone) and np.mean(longer) < 1.02 * np.mean(alone)


def test_spread_of_the_chains_means_is_seen() -> None:
    """A mode that no chain has seen the end of: within chains all is quiet."""
    values = np.random.default_rng(1).normal(size=(500, 16)) + np.repeat([-3.0, 3.0], 8)
    assert 0.95 * 3.1 / 4 < diagnostics.standard_error(values) < 2


def test_many_quantities_at_once() -> None:
    values = np.stack([autoregressive(rho, 2000, 5) for rho in (0.0, 0.9)] + [np.full((2000, 5), 0.3)], axis=-1)
    for function in (diagnostics.tau_int, diagnostics.ess, diagnostics.r_hat, diagnostics.standard_error):
        together = function(values)
        assert together.shape == (3,)
        assert function(values[..., :0]).shape == function(values[:9, :, :0]).shape == (0,)
        for k in range(3):
            assert together[k] == pytest.approx(function(values[..., k]), rel=1e-9, abs=1e-15)
            assert np.ndim(function(values[..., k])) == 0


@pytest.mark.parametrize("n", [1, 60, 90])
@pytest.mark.parametrize("n_chains", [1, 500])
def test_autocovariance_is_a_mean_of_products(n_chains: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many chains and quantities are looked at at once, short or long."""
    monkeypatch.setattr(import_module("fastbm.diagnostics.autocorrelation"), "TOGETHER", 2 * n * n_chains)
    values = autoregressive(0.7, n, 3 * n_chains).reshape(n, n_chains, 3)
    off = values - values.mean(axis=(0, 1))
    expected = [(off[: n - t] * off[t:]).mean(axis=(0, 1)) for t in range(n)]
    found = np.concatenate([some.of_lags for some in covariances(values)], axis=1)
    assert found == pytest.approx(np.array(expected), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("most", [1, 40 * 6 * 3, 1 << 17])
def test_the_largest_r_hat_of_many_quantities(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.diagnostics.ranks.WORTH_THREADS", most)
    values = np.random.default_rng(2).normal(size=(40, 6, 21))
    values[..., 20] += np.arange(6)
    for threads in (1, 2):
        found = largest_r_hats([values[..., 3], values[:3], values, values[..., :20]], threads)
        each = diagnostics.r_hat(values)
        assert found == [each[3], 0.0, each[20], each[:20].max()]


def test_shifts_and_scales_change_nothing() -> None:
    values = autoregressive(0.7, 3000, 3)
    for function in (diagnostics.tau_int, diagnostics.ess, diagnostics.r_hat):
        assert function(1e3 * values - 7e4) == pytest.approx(function(values), rel=1e-6)
    assert diagnostics.standard_error(5 * values) == pytest.approx(5 * diagnostics.standard_error(values))


def test_errors_of_tiny_series_are_in_proportion() -> None:
    """Also beside one of ordinary size, as energies of a machine that is cold for its size have magnetisations."""
    values, tiny = autoregressive(0.7, 400, 8), 2.0**-700
    error = diagnostics.standard_error(values)
    assert standard_errors(tiny * values, values) == pytest.approx([tiny * error, error], rel=1e-12, abs=0.0)
    found, scaled = (diagnostics.jackknife(np.tanh, size * values).error for size in (1e-9, 1e-9 * tiny))
    assert scaled == pytest.approx(tiny * found, rel=1e-9, abs=0.0)
    assert not any(drifts(tiny * values[:, :n_chains]) for n_chains in (3, 8))
    bins = values.reshape(2, 200, 1, 8) * np.array([tiny, 1.0])[:, None]
    assert all(diagnostics.is_stationary(bins[..., :n_chains]) for n_chains in (3, 8))
    assert drifts(tiny * (values + np.linspace(0.0, 9.0, 400)[:, None]))


@pytest.mark.parametrize("values", [[1.0, 2.0], np.empty((0, 3)), np.empty((3, 0)), 1.0])
@pytest.mark.parametrize("name", ["tau_int", "ess", "r_hat", "standard_error"])
def test_shapes_are_checked(name: str, values: object) -> None:
    with pytest.raises(ValueError, match=r"values must have shape \(n_samples, n_chains"):
        getattr(diagnostics, name)(values)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["tau_int", "ess", "r_hat", "standard_error"])
def test_values_that_are_no_numbers_are_refused(name: str, bad: float) -> None:
    values = np.zeros((10, 2))
    values[3, 1] = bad
    with pytest.raises(ValueError, match="values must be finite"):
        getattr(diagnostics, name)(values)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (np.ones((10, 2)) * 1j, "values must be an array of real numbers; got dtype complex128"),
        (np.ma.array(np.ones((10, 2)), mask=np.eye(10, 2)), "values must have no masked entries"),
        ([["a", "b"]] * 10, "values must be an array of real numbers; got dtype <U1"),
    ],
)
def test_values_of_which_a_part_would_be_lost_are_refused(values: object, match: str) -> None:
    for take in (diagnostics.tau_int, diagnostics.r_hat, diagnostics.Binned(2).add):
        with pytest.raises((TypeError, ValueError), match=match):
            take(values)
    with pytest.raises((TypeError, ValueError), match=match):
        diagnostics.jackknife(np.mean, values)


def test_axes_with_names_are_taken_by_them() -> None:
    xarray = pytest.importorskip("xarray")
    values = autoregressive(0.5, 60, 9).reshape(60, 3, 3)  # of three quantities, which are no chains
    turned = xarray.DataArray(values, dims=("draw", "chain", "unit")).transpose("unit", "chain", "draw")
    for take in (diagnostics.tau_int, diagnostics.r_hat, diagnostics.ess_bulk, diagnostics.standard_error):
        assert np.array_equal(take(turned), take(values))
    added, known = diagnostics.Binned((3, 3)), diagnostics.Binned((3, 3))
    added.add(turned)
    known.add(values)
    assert np.array_equal(added.mean, known.mean)
    by_place = xarray.DataArray(values[:, :, 0])
    assert diagnostics.ess(by_place) == diagnostics.ess(values[:, :, 0])
    with pytest.raises(ValueError, match=r"values must have axes .*; got \('chain', 'time'\)"):
        diagnostics.ess(by_place.rename(dim_0="chain", dim_1="time"))
