"""Bins of bounded memory, against the whole series."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fastbm import diagnostics
from fastbm.diagnostics import Binned
from tests.diagnostics.test_autocorrelation import autoregressive
from tests.support.combinations import each
from tests.twins import statistics as reference


def binned(values: np.ndarray, cuts: list[int] | None = None, n_bins: int = 256) -> Binned:
    """Bins of a series that is added in one piece, or in several."""
    bins = Binned(values.shape[1:], n_bins=n_bins)
    edges = [0, *(cuts or []), len(values)]
    for start, stop in pairwise(edges):
        bins.add(values[start:stop])
    return bins


def assert_same_bits(first: Binned, second: Binned) -> None:
    one, other = first.state(), second.state()
    assert first.width == second.width
    assert all(one[key].tobytes() == other[key].tobytes() for key in one)


@pytest.mark.parametrize("n_samples", [1, 2, 7, 8, 9, 16, 17, 100, 1000])
def test_bins_are_those_of_a_plain_twin(n_samples: int) -> None:
    values = np.random.default_rng(n_samples).normal(5.0, 1.0, size=(n_samples, 3))
    bins = binned(values, n_bins=8)
    state = bins.state()
    for c in range(3):
        width, sums, squares = reference.binned(values[:, c].tolist(), 8)
        assert bins.width == width
        assert state["sums"][:, c].tolist() == sums
        assert state["squares"][:, c].tolist() == squares


@pytest.mark.parametrize("shape", [(1,), (5,), (3, 2)])
def test_blocks_of_any_size_give_the_same_bits(shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(3)
    values = generator.normal(size=(5000, *shape)) * 10.0 ** generator.integers(-8, 8, size=(5000, *shape))
    whole = binned(values)
    assert_same_bits(whole, binned(values, list(range(1, 5000))))
    for _ in range(20):
        cuts = np.sort(generator.integers(0, 5001, size=generator.integers(1, 30))).tolist()
        assert_same_bits(whole, binned(values, cuts))


def test_large_blocks_are_added_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(4).normal(size=(3000, 4))
    whole = binned(values)
    monkeypatch.setattr("fastbm.diagnostics.binning.CHUNK", 100)
    assert_same_bits(whole, binned(values))


@pytest.mark.parametrize("cut", [0, 1, 255, 256, 257, 512, 1777])
def test_a_restored_state_goes_on_to_the_same_bits(cut: int) -> None:
    values = autoregressive(0.9, 2000, 4)
    first = Binned(4)
    first.add(values[:cut])
    second = Binned(4)
    second.restore(first.state())
    second.add(values[cut:])
    assert_same_bits(binned(values), second)
    assert second.ess() == binned(values).ess()


def test_memory_does_not_grow() -> None:
    bins = Binned((2, 3))
    sizes = set()
    for _ in range(40):
        bins.add(np.random.default_rng(0).normal(size=(1000, 2, 3)))
        sizes.add(sum(array.nbytes for array in bins.state().values()))
    assert len(sizes) == 1
    assert bins.width == 256 and bins.n_samples == 40_000


@pytest.mark.parametrize("n_chains", [1, 4, 16])
def test_short_series_are_the_same_as_whole(n_chains: int) -> None:
    """With one sample in a bin nothing is lost."""
    values = autoregressive(0.5, 256, n_chains)
    bins = binned(values)
    assert bins.mean == pytest.approx(values.mean(), rel=1e-12)
    assert bins.variance == pytest.approx(values.var(), rel=1e-12)
    assert bins.ess() == pytest.approx(diagnostics.ess(values), rel=1e-9)
    assert bins.standard_error() == pytest.approx(diagnostics.standard_error(values), rel=1e-9)
    assert bins.r_hat() == pytest.approx(reference.classic_r_hat(reference.split(values.T.tolist())), rel=1e-9)


@each(rho=[0.0, 0.9, 0.99], n_chains=[32, 8, 1])
def test_long_series_are_nearly_the_same_as_whole(rho: float, n_chains: int) -> None:
    """The mean to rounding; effective samples within 5 % for 32 chains, 15 % for 8, and 50 % for one, whose 200 bins
    tell tau_int to 25 % (a standard deviation); split R-hat of halves of whole bins within a tenth of its distance
    from 1 and 1e-4.
    """
    values = 1e6 + autoregressive(rho, 200_000 // max(n_chains // 4, 1), n_chains)
    bins = binned(values)
    assert bins.mean == pytest.approx(values.mean(), rel=1e-14)
    assert bins.variance == pytest.approx(values.var(), rel=1e-9)
    tolerance = {1: 0.5, 8: 0.15, 32: 0.05}[n_chains]
    assert bins.ess() == pytest.approx(diagnostics.ess(values), rel=tolerance)
    assert bins.standard_error() == pytest.approx(diagnostics.standard_error(values), rel=tolerance)
    halves = reference.split(values[: bins.n_full * bins.width].T.tolist())
    expected = reference.classic_r_hat(halves)
    assert bins.r_hat() - 1 == pytest.approx(expected - 1, rel=0.1, abs=1e-4)


@pytest.mark.parametrize("n_chains", [4, 16])
def test_standard_errors_cover(n_chains: int) -> None:
    """95 % intervals of 400 series hold the mean in 90 to 99 % of cases (more than four sigma either way)."""
    inside = []
    for seed in range(400):
        bins = binned(autoregressive(0.8, 1500, n_chains, seed))
        inside.append(abs(bins.mean) < 1.96 * bins.standard_error())
    assert 0.90 < np.mean(inside) < 0.99


def test_small_variances_beside_large_means() -> None:
    """Every chain's first sample is its origin: 1e9 leaves the variance 1e-6 all its digits but those of the input."""
    noise = autoregressive(0.0, 1000, 3)
    values = 1e9 + 1e-3 * noise
    assert binned(values).variance == pytest.approx(values.var(), rel=1e-10)
    apart = values + np.array([0.0, 1e6, 2e6])
    assert binned(apart).r_hat() == pytest.approx(
        np.sqrt(1 + (apart.mean(axis=0).repeat(2).var(ddof=1) / 1e-6)), rel=0.1
    )


def test_values_that_do_not_vary() -> None:
    bins = binned(np.full((1000, 4), 0.1))
    assert bins.mean == 0.1 and bins.variance == 0.0 and bins.standard_error() == 0.0
    assert bins.ess() == 4000 and bins.r_hat() == 1.0
    stuck = binned(np.tile([0.1, 0.2], (1000, 1)))
    assert stuck.r_hat() == np.inf and stuck.variance == pytest.approx(0.0025)
    assert stuck.ess() < 4


def test_few_samples() -> None:
    bins = Binned(3)
    for what in (lambda: bins.mean, bins.ess, bins.standard_error):
        with pytest.raises(ValueError, match="these bins are empty: add samples first"):
            what()
    assert np.isnan(bins.r_hat())
    bins.add(np.ones((3, 3)))
    assert np.isnan(bins.r_hat()) and bins.mean == 1.0
    bins.add(np.ones((1, 3)))
    assert bins.r_hat() == 1.0


def test_many_quantities_at_once() -> None:
    values = np.stack([autoregressive(rho, 3000, 5) for rho in (0.0, 0.9)], axis=-1)
    together = binned(values)
    for k in range(2):
        alone = binned(values[..., k])
        for name in ("ess", "r_hat", "standard_error"):
            assert getattr(together, name)()[k] == pytest.approx(getattr(alone, name)(), rel=1e-9)
            assert np.ndim(getattr(alone, name)()) == 0
        assert together.mean[k] == pytest.approx(alone.mean, rel=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    bins = Binned((2, 3))
    with pytest.raises(ValueError, match=r"values must have shape \(n_samples, 2, 3\); got \(5, 2\)"):
        bins.add(np.zeros((5, 2)))
    with pytest.raises(ValueError, match="values must be finite; 1 of 6"):
        bins.add(np.where(np.arange(6) == 4, np.nan, 0.0).reshape(1, 2, 3))
    with pytest.raises(ValueError, match="n_bins must be even"):
        Binned(2, n_bins=7)
    with pytest.raises(ValueError, match="state must hold arrays of shapes"):
        bins.restore(Binned(2).state())
