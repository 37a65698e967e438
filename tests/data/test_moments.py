"""Moments: averages of rows, both conventions, flip noise, and what no distribution can have."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import fastbm as bm
from tests.support import machines
from tests.twins import closed_forms

OFF = 1 - np.eye(3)


def some_rows(units: str, n_rows: int = 40, n_units: int = 4, seed: int = 0) -> np.ndarray:
    up = np.random.default_rng(seed).random((n_rows, n_units)) < [0.2, 0.5, 0.7, 0.4][:n_units]
    return 2 * up.astype(int) - 1 if units == "spin" else up.astype(int)


def some_table(seed: int = 0) -> dict[tuple[int, ...], float]:
    generator = np.random.default_rng(seed)
    upper = np.triu(generator.normal(size=(4, 4)), 1)
    return closed_forms.distribution(upper + upper.T, generator.normal(size=4))[0]


@pytest.mark.parametrize("units", machines.UNITS)
def test_moments_of_rows_are_their_averages(units):
    rows = some_rows(units)
    moments = bm.Moments.of(rows)
    mean, second = closed_forms.average(rows.tolist(), [1.0] * len(rows))
    assert (moments.units, moments.n_samples, moments.n_units) == (units, 40, 4)
    np.testing.assert_allclose(moments.mean, mean, atol=1e-15)
    np.testing.assert_allclose(moments.second_moment, second, atol=1e-15)
    np.testing.assert_allclose(moments.covariance, np.cov(rows.T, bias=True), atol=1e-14)
    assert not moments.mean.flags.writeable and not moments.second_moment.flags.writeable
    again = bm.Moments(mean, second, 40)  # what rows give passes all checks, and its units are told
    assert again.units == units
    assert repr(again) == f"<Moments: 4 {units} units, 40 samples>"


@pytest.mark.parametrize("units", machines.UNITS)
def test_rows_may_have_weights(units):
    rows = some_rows(units)
    weights = np.random.default_rng(1).integers(0, 4, 40)
    moments = bm.Moments.of(rows, weights=weights)
    mean, second = closed_forms.average(rows.tolist(), weights.tolist())
    np.testing.assert_allclose(moments.mean, mean, atol=1e-14)
    np.testing.assert_allclose(moments.second_moment, second, atol=1e-14)
    assert moments.n_samples == round(weights.sum() ** 2 / (weights**2).sum())  # as `fit` counts weighted rows
    repeated = bm.Moments.of(np.repeat(rows, weights, axis=0))
    assert np.array_equal(moments.second_moment, repeated.second_moment)
    for scale in (1e-308, 5e307):  # whose sums leave the range of float64
        np.testing.assert_allclose(bm.Moments.of(rows, weights=scale * weights).mean, mean, atol=1e-14)


def test_rows_are_summed_in_blocks(monkeypatch):
    rows = some_rows("binary", n_rows=1000)
    whole = bm.Moments.of(rows)
    weighted = bm.Moments.of(rows, weights=np.linspace(0, 1, 1000))
    monkeypatch.setattr("fastbm.machine.couplings.protocol.BLOCK", 64)
    assert np.array_equal(bm.Moments.of(rows).second_moment, whole.second_moment)
    blocks = bm.Moments.of(rows, weights=np.linspace(0, 1, 1000))
    np.testing.assert_allclose(blocks.second_moment, weighted.second_moment, atol=1e-14)


def test_units_of_rows_are_told_or_asked_for():
    assert bm.Moments.of([[1, -1]]).units == "spin"
    assert bm.Moments.of([[True, False]]).units == "binary"
    with pytest.raises(ValueError, match=r'neither -1 nor 0: pass units="binary" or units="spin"'):
        bm.Moments.of([[1, 1]])
    assert bm.Moments.of([[1, 1]], units="spin").units == "spin"
    with pytest.raises(ValueError, match=r"rows must be -1 or 1 \(spin units\); got 0 at \(0, 1\)"):
        bm.Moments.of([[1, 0]], units="spin")


@pytest.mark.parametrize(
    ("rows", "weights", "error", "text"),
    [
        ([1, 0], None, ValueError, r"rows must have shape \(n_rows, n_units\)"),
        (np.zeros((0, 3)), None, ValueError, "at least one of each"),
        ([["a", "b"]], None, TypeError, "rows must be numbers"),
        ([[0.0, np.nan]], None, ValueError, r"got nan at \(0, 1\)"),
        ([[0, 1]], [1, 2], ValueError, r"weights must have shape \(1,\)"),
        ([[0, 1], [1, 0]], [1, -2], ValueError, "weights must be at least 0 and not all 0; the least is -2"),
        ([[0, 1], [1, 0]], [0, 0], ValueError, "not all 0"),
    ],
)
def test_bad_rows_are_refused(rows, weights, error, text):
    with pytest.raises(error, match=text):
        bm.Moments.of(rows, weights=weights)


@pytest.mark.parametrize("units", machines.UNITS)
def test_units_convert(units):
    other = "binary" if units == "spin" else "spin"
    moments = bm.Moments.of(some_rows(units))
    converted, expected = moments.to_units(other), bm.Moments.of(some_rows(other))
    assert (converted.units, converted.n_samples) == (other, 40)
    np.testing.assert_allclose(converted.mean, expected.mean, atol=1e-15)
    np.testing.assert_allclose(converted.second_moment, expected.second_moment, atol=1e-15)
    assert moments.to_units(units) is moments


@pytest.mark.parametrize("units", machines.UNITS)
@pytest.mark.parametrize("eps", [0.0, 0.1, 0.45])
def test_flip_noise_is_the_average_over_all_flips(units, eps):
    table = some_table()
    mean, second = closed_forms.moments(table)
    noisy = closed_forms.moments(closed_forms.flip(table, eps))
    found = bm.Moments(mean, second, units="spin").to_units(units).flipped(eps)
    assert found.units == units
    np.testing.assert_allclose(found.to_units("spin").mean, noisy[0], atol=1e-14)
    np.testing.assert_allclose(found.to_units("spin").second_moment, noisy[1], atol=1e-14)


@pytest.mark.parametrize("eps", [0.5, 0.9])
def test_flip_noise_is_below_a_half(eps):
    with pytest.raises(ValueError, match=r"eps must be below 0\.5"):
        bm.Moments.of(some_rows("spin")).flipped(eps)


def test_a_diagonal_of_zeros_is_filled():
    binary = bm.Moments([0.5, 0.4, 0.3], 0.2 * OFF, units="binary")
    assert np.array_equal(np.diagonal(binary.second_moment), [0.5, 0.4, 0.3])
    spin = bm.Moments([0.2, -0.1, 0.3], 0.2 * OFF)
    assert spin.units == "spin" and np.array_equal(np.diagonal(spin.second_moment), [1, 1, 1])
    assert spin.n_samples is None and repr(spin) == "<Moments: 3 spin units, exact>"


@pytest.mark.parametrize(
    ("mean", "second", "text"),
    [
        ([0.5, 0.4, 0.3], 0.2 * OFF, "units cannot be told from these moments: pass units="),
        ([1.0, 1.0], np.ones((2, 2)), "units cannot be told"),
        ([0.5, 0.5], [[0.25, 0.1], [0.1, 0.25]], r"0\.5 for unit 0.*got 0\.25.*A covariance is not a second moment"),
    ],
)
def test_units_that_cannot_be_told_are_asked_for(mean, second, text):
    with pytest.raises(ValueError, match=text):
        bm.Moments(mean, second)


@pytest.mark.parametrize(
    ("mean", "second", "units", "text"),
    [
        ([[0.5]], [[1.0]], "spin", r"mean must have one number a unit, \(n_units,\); got shape \(1, 1\)"),
        ([], np.zeros((0, 0)), "spin", "mean must have one number a unit"),
        ([0.5, 0.5], [[1.0]], "spin", r"second_moment must have shape \(2, 2\); got \(1, 1\)"),
        ([0.5, np.nan], np.eye(2), "spin", r"mean must be finite; nan at \(1,\)"),
        ([0.5, 0.5], [[1.0, np.inf], [0.0, 1.0]], "spin", r"second_moment must be finite; inf at \(0, 1\)"),
        ([0.5, 0.5], [[1.0, 0.3], [0.2, 1.0]], "spin", r"symmetric: it is 0\.3 at \(0, 1\) and 0\.2 at \(1, 0\)"),
        ([0.5, 1.5], np.eye(2), "spin", r"mean must be from -1 to 1 \(spin units\); got 1\.5 for unit 1"),
        ([0.5, -0.5], 0 * np.eye(2), "binary", r'got -0\.5 for unit 1, 1 such units in all\. Pass units="spin"'),
        ([0.5, 0.4], np.diag([0.5, 0.6]), "binary", r"the mean for binary units, 0\.4 for unit 1; got 0\.6"),
        ([0.5, 0.4], np.diag([0.5, 0.4]), "spin", r'1 for unit 0; got 0\.5.*Pass units="binary"'),
    ],
)
def test_malformed_moments_are_refused(mean, second, units, text):
    with pytest.raises(ValueError, match=text):
        bm.Moments(mean, second, units=units)


@pytest.mark.parametrize("units", machines.UNITS)
@pytest.mark.parametrize(
    ("pair", "allowed"), [(0.45, r"0\.450000|0\.45.*from 0\.3 to 0\.4"), (0.25, r"0\.25.*from 0\.3 to 0\.4")]
)
def test_pairs_outside_their_bounds_are_named(units, pair, allowed):
    p, pairs = np.array([0.5, 0.9, 0.4]), np.array([[0.5, 0.45, 0.2], [0.45, 0.9, 0.36], [0.2, 0.36, 0.4]])
    right = bm.Moments(p, pairs).to_units(units)
    assert right.units == units
    pairs[1, 2] = pairs[2, 1] = pair
    mean, second = p, pairs
    if units == "spin":
        mean, second = 2 * p - 1, 4 * pairs - 2 * (p[:, None] + p[None, :]) + 1
        np.fill_diagonal(second, 1.0)
    with pytest.raises(ValueError, match=rf"units 1 and 2 is one that no distribution can have: .*({allowed})"):
        bm.Moments(mean, second, units=units)


def test_a_negative_direction_is_refused():
    second = np.eye(4)
    second[1:, 1:] = -0.6 * OFF + np.eye(3)
    with pytest.raises(ValueError, match=r"no distribution can have: .*variance of -0\.2, to which units 1 and 2"):
        bm.Moments(np.zeros(4), second)
    second[1:, 1:] = -0.5 * OFF + np.eye(3)
    bm.Moments(np.zeros(4), second)  # on the border, though three spins that sum to 0 do not exist


def test_rounding_is_forgiven():
    for seed in range(5):
        rows = some_rows("spin", seed=seed)
        rows[:, 3] = rows[:, 0]  # a singular covariance, cells that are empty
        rows[:, 2] = 1
        exact = bm.Moments.of(rows)
        rounded = bm.Moments(exact.mean.astype(np.float32), exact.second_moment.astype(np.float32), 40)
        np.testing.assert_allclose(rounded.second_moment, exact.second_moment, atol=1e-6)
        assert np.abs(rounded.mean).max() <= 1


@pytest.mark.parametrize("units", machines.UNITS)
def test_moments_of_any_rows_pass_the_checks(units):
    generator = np.random.default_rng(5)
    for n_rows, n_units in ((1, 3), (2, 5), (7, 20), (500, 60)):
        up = generator.random((n_rows, n_units)) < generator.random(n_units)
        found = bm.Moments.of(2 * up.astype(int) - 1 if units == "spin" else up, units=units)
        bm.Moments(found.mean, found.second_moment, n_rows, units)
        bm.Moments(found.mean, found.second_moment - np.diag(np.diagonal(found.second_moment)), units=units)


def test_n_samples_is_a_whole_number():
    with pytest.raises(ValueError, match="n_samples must be at least 1"):
        bm.Moments([0.0], [[1.0]], n_samples=0)


def test_bits_do_not_depend_on_the_threads_of_blas():
    generator = np.random.default_rng(0)
    rows, weights = generator.random((20_000, 300)) < generator.random(300), generator.random(20_000)
    found = set()
    for threads in (1, 2, 3):
        with threadpool_limits(threads, "blas"):
            moments = [bm.Moments.of(rows, weights=given).second_moment for given in (None, weights)]
        found.add(tuple(moment.tobytes() for moment in moments))
    assert len(found) == 1
