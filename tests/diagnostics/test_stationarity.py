"""The end of the burn-in: chains that start far off, and chains that start in equilibrium."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, t as student

from fastbm.diagnostics import LogBins, is_stationary
from tests.diagnostics.test_autocorrelation import autoregressive
from tests.support.combinations import each
from tests.twins import statistics as reference

N_BINS = 16


def relaxing(rho: float, n_rows: int, n_chains: int, start: float, seed: int, n_observables: int = 1) -> np.ndarray:
    """Rows of chains of unit variance whose mean decays from `start` as rho^t: (n_rows, n_observables, n_chains)."""
    shape = (n_rows, n_observables * n_chains)
    noise = autoregressive(rho, *shape, seed)
    return noise.reshape(n_rows, n_observables, n_chains) + start * rho ** np.arange(1, n_rows + 1)[:, None, None]


def burn_in(rows: np.ndarray, **options: float) -> int:
    """The look that calls rows stationary; twice their number if none does."""
    bins = LogBins(*rows.shape[1:], **options)
    for t, row in enumerate(rows):
        if bins.add(row):
            return t + 1
    return 2 * len(rows)


def test_windows_are_those_of_a_plain_twin() -> None:
    rows = np.random.default_rng(0).normal(size=(2048, 2, 3)).cumsum(axis=0)
    bins = LogBins(2, 3, unit=32)
    looks = []
    for t, row in enumerate(rows, 1):
        if bins.add(row) is not None:
            looks.append(t)
            expected = reference.window_means(rows, t, N_BINS)
            if t == 128:  # the oldest window is all of the first unit
                expected[0] = rows[:32].reshape(N_BINS, 2, 2, 3).mean(axis=1) - rows[0]
            assert bins.means() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert looks == [128, 256, 512, 1024, 2048]


def test_looks_are_after_four_units_and_then_double() -> None:
    bins = LogBins(1, 2)
    assert [t for t in range(1, 1025) if bins.add(np.zeros((1, 2))) is not None] == [64, 128, 256, 512, 1024]


@pytest.mark.parametrize("n_chains", [8, 64])
@pytest.mark.parametrize("rho", [0.0, 0.9, 0.98])
def test_many_stationary_chains_stop_soon(rho: float, n_chains: int) -> None:
    """200 runs, z = 2: 4.6 % false alarms a look, however slow the chains. More than 25 at the first look, or more
    than 8 at the first two, come up less often than once in 1e5 times.
    """
    found = np.array([burn_in(relaxing(rho, 128, n_chains, 0.0, seed)) for seed in range(200)])
    assert (found > 64).sum() <= 25
    assert (found > 128).sum() <= 8


@pytest.mark.parametrize("n_chains", [1, 2, 7])
def test_few_stationary_chains_stop_when_they_are_long_enough(n_chains: int) -> None:
    """Independent rows stop at once; with tau_int = 9.5 a few chains need some ten to twenty of it to tell."""
    found = np.array([burn_in(relaxing(0.0, 128, n_chains, 0.0, seed)) for seed in range(200)])
    assert (found == 64).mean() > 0.85 and (found <= 128).mean() > 0.95
    slow = np.array([burn_in(relaxing(0.9, 1024, n_chains, 0.0, seed)) for seed in range(100)])
    assert (slow <= 256).mean() > 0.75 and (slow <= 1024).mean() > 0.97


@each(start=[10.0, 100.0], rho=[0.98, 0.9], n_chains=[1, 2, 8, 64])
def test_what_a_far_start_leaves_is_small(rho: float, n_chains: int, start: float) -> None:
    """40 runs each with tau_int = 9.5 and 49.5: in all of them below 0.1 of a standard deviation is left."""
    left = [start * rho ** burn_in(relaxing(rho, 8192, n_chains, start, seed)) for seed in range(40)]
    assert max(left) < 0.1
    assert np.mean(left) < 0.02


def test_every_observable_must_agree() -> None:
    rows = relaxing(0.98, 4096, 16, 0.0, 0, n_observables=2)
    first = burn_in(rows)
    rows[:, 1] += 100.0 * 0.98 ** np.arange(4096)[:, None]
    assert burn_in(rows) > 4 * first


def test_the_width_is_students() -> None:
    """Eight differences of mean 1: stationary for z above the one whose tail is that of Student's t."""
    means = np.zeros((2, 1, 1, 8))
    means[1, 0, 0] = 1.0 + np.array([-1, 1, -1, 1, -1, 1, -1, 1])
    value = np.sqrt(8) / means[1, 0, 0].std(ddof=1)
    z = norm.isf(student.sf(value, 7))
    assert is_stationary(means, z=1.001 * z) and not is_stationary(means, z=0.999 * z)


def test_values_that_do_not_vary_are_stationary_and_common_drifts_are_not() -> None:
    for n_chains in (1, 3, 12):
        assert burn_in(np.full((64, 2, n_chains), 0.1)) == 64
        drift = np.arange(4096.0)[:, None, None] * np.ones((1, 1, n_chains))
        assert burn_in(drift) == 8192


@pytest.mark.parametrize("cut", [0, 1, 15, 16, 31, 32, 63, 64, 100, 128, 300])
def test_a_restored_state_goes_on_to_the_same_bits(cut: int) -> None:
    rows = np.random.default_rng(1).normal(size=(600, 2, 5)).cumsum(axis=0)
    whole, first, second = (LogBins(2, 5) for _ in range(3))
    told = [whole.add(row) for row in rows]
    assert [first.add(row) for row in rows[:cut]] == told[:cut]
    second.restore(first.state())
    assert [second.add(row) for row in rows[cut:]] == told[cut:]
    for key, array in whole.state().items():
        assert array.tobytes() == second.state()[key].tobytes()


def test_what_does_not_fit_is_refused() -> None:
    bins = LogBins(2, 3)
    with pytest.raises(ValueError, match=r"row must have shape \(2, 3\); got \(3, 2\)"):
        bins.add(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="unit must be a multiple of 16, the bins of a window; got 24"):
        LogBins(1, 1, unit=24)
    with pytest.raises(ValueError, match="z must be above 0"):
        LogBins(1, 1, z=0.0)
    with pytest.raises(ValueError, match="state must hold arrays of shapes"):
        bins.restore(LogBins(2, 4).state())
    with pytest.raises(ValueError, match="means must have shape"):
        is_stationary(np.zeros((1, 16, 2, 3)))
    bins.add(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="row must be finite"):
        bins.add(np.full((2, 3), np.nan))
