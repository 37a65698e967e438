"""Response functions and order parameters, against closed forms and enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import fastbm as bm
from fastbm.diagnostics import binder_cumulant, overlap_distribution, specific_heat, susceptibility
from fastbm.diagnostics.thermodynamics import _edges
from tests.diagnostics.test_autocorrelation import autoregressive
from tests.diagnostics.test_jackknife import drawn, exact
from tests.support import machines


def spins(field: float, n_units: int, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Magnetisations of independent spins in a field (times beta)."""
    up = np.random.default_rng(seed).binomial(n_units, 1 / (1 + np.exp(-2 * field)), shape)
    return 2.0 * up / n_units - 1.0


def test_independent_spins() -> None:
    """E = -h n m: C = (beta h)^2 / cosh^2(beta h) and chi = beta / cosh^2(beta h) per spin, within four errors."""
    n, beta, h = 30, 0.7, 1.3
    m = spins(beta * h, n, (4000, 4))
    value, error = specific_heat(-h * n * m, beta, n)
    assert abs(value - (beta * h / np.cosh(beta * h)) ** 2) < 4 * error < 0.3 * value
    value, error = susceptibility(m, beta, n)
    assert abs(value - beta / np.cosh(beta * h) ** 2) < 4 * error < 0.3 * value


def test_they_are_the_plain_formulas() -> None:
    m = autoregressive(0.6, 3000, 3) * 0.1 + 0.02
    assert specific_heat(m, 2.0, 10).value == pytest.approx(0.4 * m.var(), rel=1e-10)
    assert susceptibility(m, 2.0, 10).value == pytest.approx(20 * m.var(), rel=1e-10)
    assert susceptibility(m, 2.0, 10, modulus=True).value == pytest.approx(20 * np.abs(m).var(), rel=1e-10)
    expected = 1 - (m**4).mean() / (3 * (m**2).mean() ** 2)
    assert binder_cumulant(m).value == pytest.approx(expected, rel=1e-10)


def test_errors_cover_the_exact_values() -> None:
    """600 runs of independent draws of an enumerated machine of five units."""
    beta = 0.8
    truth = exact(beta)
    inside = {"specific heat": [], "susceptibility": []}
    for seed in range(600):
        energy, m = drawn(beta, (400, 3), seed)
        found = specific_heat(energy, beta, 5)
        inside["specific heat"].append(abs(found.value - beta**2 * truth[2] / 5) < 1.96 * found.error)
        found = susceptibility(m, beta, 5)
        inside["susceptibility"].append(abs(found.value - beta * 5 * truth[3]) < 1.96 * found.error)
    for part in inside.values():
        machines.assert_covers(np.array(part))


@pytest.mark.parametrize(("n_samples", "n_chains", "rho"), [(4000, 1, 0.8), (200, 32, 0.0)])
def test_errors_cover_on_correlated_chains(rho: float, n_samples: int, n_chains: int) -> None:
    """Gaussian magnetisations of unit variance: chi = 1, and Binder's cumulant is 0; 300 runs."""
    inside = {"susceptibility": [], "binder": []}
    for seed in range(300):
        m = autoregressive(rho, n_samples, n_chains, seed)
        found = susceptibility(m, 1.0, 1)
        inside["susceptibility"].append(abs(found.value - 1.0) < 1.96 * found.error)
        found = binder_cumulant(m)
        inside["binder"].append(abs(found.value) < 1.96 * found.error)
    for part in inside.values():
        machines.assert_covers(np.array(part))


def test_binder_of_an_ordered_phase() -> None:
    m = np.random.default_rng(0).choice([-0.8, 0.8], (500, 4))
    found = binder_cumulant(m)
    assert found.value == pytest.approx(2 / 3, rel=1e-12) and found.error < 1e-12
    assert binder_cumulant(1e-200 * m).value == pytest.approx(2 / 3, rel=1e-12)
    assert all(np.isnan(part) for part in binder_cumulant(np.zeros((500, 4))))


def test_what_does_not_vary_has_no_response() -> None:
    energy = np.full((100, 3), -0.1)
    assert specific_heat(energy, 1.0, 5) == (0.0, 0.0)
    assert susceptibility(energy, 1.0, 5, modulus=True) == (0.0, 0.0)
    large = specific_heat(-1e9 + autoregressive(0.0, 4000, 4), 1.0, 1)
    assert large.value == pytest.approx(1.0, abs=5 * large.error)


def test_too_few_samples_are_told() -> None:
    with pytest.warns(bm.ConvergenceWarning, match="3 samples of 2 chains"):
        found = specific_heat(np.arange(6.0).reshape(3, 2), 1.0, 1)
    assert np.isfinite(found.value) and np.isnan(found.error)


# Overlaps


@pytest.mark.parametrize("n_units", [1, 2, 7, 20])
def test_natural_bins_hold_one_value_each(n_units: int) -> None:
    """Independent spins: binomial, every bin within five errors and all of them together by a G-test."""
    q = spins(0.2, n_units, (4000, 4))
    found = overlap_distribution(q, n_units)
    assert found.overlap == pytest.approx(np.linspace(-1, 1, n_units + 1), abs=1e-12)
    assert found.width == pytest.approx(np.full(n_units + 1, 2 / n_units))
    assert (found.value * found.width).sum() == pytest.approx(1.0, rel=1e-12)
    p = binom.pmf(np.arange(n_units + 1), n_units, 1 / (1 + np.exp(-0.4)))
    seen = found.error > 0
    assert (np.abs(found.value * found.width - p)[seen] < 5 * (found.error * found.width)[seen]).mean() > 0.9
    counts = np.rint(found.value * found.width * q.size).astype(int)
    assert machines.reference.g_test(counts, p) > machines.SURE


# the outer bins of eight units hold three of 800 samples
@pytest.mark.parametrize(("n_units", "n_samples", "even"), [(6, 300, False), (8, 200, False), (6, 300, True)])
def test_overlap_errors_cover(n_units: int, n_samples: int, even: bool) -> None:
    p = binom.pmf(np.arange(n_units + 1), n_units, 0.5)
    inside = []
    for seed in range(300):
        found = overlap_distribution(spins(0.0, n_units, (n_samples, 4), seed), n_units, even=even)
        inside.append(np.abs(found.value * found.width - p) < 1.96 * found.error * found.width)
    for part in np.array(inside).T:
        machines.assert_covers(part)


@pytest.mark.parametrize("n_units", [201, 202, 1000, 1001])
def test_many_units_share_bins_symmetrically(n_units: int) -> None:
    q = spins(0.0, n_units, (2000, 4))
    both = overlap_distribution(np.concatenate([q, -q], axis=1), n_units)
    assert len(both.value) == (101 if n_units % 2 == 0 else 100)
    assert both.overlap == pytest.approx(-both.overlap[::-1], abs=1e-12)
    assert both.width == pytest.approx(both.width[::-1])
    assert both.width.sum() == pytest.approx(2 + 2 / n_units)
    assert both.value == pytest.approx(both.value[::-1], abs=1e-12)
    assert (both.value * both.width).sum() == pytest.approx(1.0)


def test_bins_never_are_empty_of_values() -> None:
    for n_values in range(1, 60):
        for bins in range(1, n_values + 1):
            edges = _edges(n_values, bins)
            assert len(edges) == bins + 1 and edges[0] == 0 and edges[-1] == n_values
            assert (np.diff(edges) >= 1).all()
            if n_values % 2 == 0 or bins % 2:
                assert (edges + edges[::-1] == n_values).all()


def test_few_samples_of_many_chains() -> None:
    found = overlap_distribution(spins(0.0, 4, (2, 200)), 4)
    assert (found.error > 0).all() and (found.value * found.width).sum() == pytest.approx(1.0)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"overlap must lie between -1 and 1; got 7\. Divide by n_units"):
        overlap_distribution(np.full((10, 2), 7.0), 7)
    with pytest.raises(ValueError, match=r"bins must lie between 1 and n_units \+ 1 = 8"):
        overlap_distribution(np.zeros((10, 2)), 7, bins=9)
    with pytest.raises(ValueError, match=r"energy must have shape \(n_samples, n_chains\)"):
        specific_heat(np.zeros((10, 2, 2)), 1.0, 5)
    with pytest.raises(ValueError, match="n_units must be at least 1"):
        susceptibility(np.zeros((10, 2)), 1.0, 0)


def test_responses_beyond_floating_point_are_refused() -> None:
    energy = np.random.default_rng(0).normal(size=(64, 4))
    for call in (
        lambda: specific_heat(energy, 1e200, 10),
        lambda: specific_heat(1e200 * energy, 1.0, 10),
        lambda: susceptibility(energy, 1e308, 1000),
    ):
        with pytest.raises(ValueError, match="is too large for a floating-point number"):
            call()
    assert specific_heat(np.ones((64, 4)), 1e300, 10) == (0.0, 0.0)
    small = specific_heat(1e-200 * energy, 1e200, 10)
    np.testing.assert_allclose(small, specific_heat(energy, 1.0, 10), rtol=1e-12)
