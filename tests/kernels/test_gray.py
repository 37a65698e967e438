"""Gray-code sums against sums over all states with 50 digits, at any scale of couplings and however the code is cut."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastbm.kernels.exact.gray import list_lowest, sum_slice, sum_slice_distribution, sum_slice_moments, tabulate_low
from fastbm.kernels.functions import exp2_float64
from tests.support.combinations import pairwise
from tests.twins import reference

SCALES = [1e-12, 1.0, 30.0, 1e3]
LAST = 2**63 - 1


class Sums(NamedTuple):
    """What `sum_slice_moments` returns and leaves: sums of w, w z and w z^2, and weights by units that are up."""

    totals: np.ndarray
    lows: np.ndarray
    pairs: np.ndarray


class Averages(NamedTuple):
    """Averages over bits; energies in integer steps."""

    log_z: float
    mean: np.ndarray
    second_moment: np.ndarray
    energy: float
    energy_variance: float


def low_table(rises: np.ndarray, n_low: int) -> np.ndarray:
    table = np.empty(1 << n_low, np.int64)
    tabulate_low(np.ascontiguousarray(rises[:n_low, :n_low]), table)
    return table


def run_list(rises, fields, n_low, n_lowest, start=0, depth=None) -> list[tuple[int, int]]:
    energies, numbers = np.full(n_lowest, LAST), np.full(n_lowest, LAST)
    depth = len(rises) - n_low if depth is None else depth
    list_lowest(rises, fields, low_table(rises, n_low), start, depth, energies, numbers)
    return sorted(zip(energies.tolist(), numbers.tolist(), strict=True))


def least_of(rises, fields) -> int:
    return run_list(rises, fields, 1, 1)[0][0]


def run_slice(rises, fields, unit, n_low, start=0, depth=None, least=None) -> Sums:
    """Weights relative to the lowest state of all."""
    n_high = len(rises) - n_low
    table = low_table(rises, n_low) - (least_of(rises, fields) if least is None else least)
    lows, pairs = np.zeros((1 + n_high, 1 << n_low)), np.zeros((n_high, n_high))
    depth = n_high if depth is None else depth
    scale = unit / math.log(2)
    totals = sum_slice_moments(rises, fields, table, start, depth, scale, lows, pairs)
    again = sum_slice(rises, fields, table, start, depth, scale)
    np.testing.assert_allclose(again, totals, rtol=1e-13)
    return Sums(np.array(totals), lows, pairs)


def joined(parts: list[Sums]) -> Sums:
    return Sums(*(np.sum(arrays, axis=0) for arrays in zip(*parts, strict=True)))


def averages(found: Sums, unit: float, least: int) -> Averages:
    """Turn sums into averages; pairs with low units come from the sums over settings of the low ones."""
    whole, first, second = found.totals
    n_low = found.lows.shape[1].bit_length() - 1
    bits = np.arange(1 << n_low) >> np.arange(n_low)[:, None] & 1
    n = n_low + len(found.pairs)
    pairs = np.zeros((n, n))
    pairs[n_low:, n_low:] = found.pairs + np.triu(found.pairs, 1).T
    pairs[n_low:, :n_low] = found.lows[1:] @ bits.T
    pairs[:n_low, n_low:] = pairs[n_low:, :n_low].T
    pairs[:n_low, :n_low] = (bits * found.lows[0]) @ bits.T
    height, step = first / whole, math.log(2) / unit if unit else 0.0
    energy, variance = least + height * step, (second / whole - height**2) * step**2
    return Averages(math.log(whole) - unit * least, np.diagonal(pairs) / whole, pairs / whole, energy, variance)


def summed(rises, fields, unit, n_low) -> Averages:
    return averages(run_slice(rises, fields, unit, n_low), unit, least_of(rises, fields))


def integer_energies(rises: np.ndarray, fields: np.ndarray) -> list[int]:
    """The energy of every state, in the order of the states' numbers, from Python's integers."""
    n = len(rises)
    w, b = rises.tolist(), fields.tolist()
    return [
        -sum(w[i][j] for i, j in itertools.combinations(range(n), 2) if s[i] and s[j])
        - sum(b[i] for i in range(n) if s[i])
        for s in reference.all_states(n, "binary")
    ]


def exact_averages(rises: np.ndarray, fields: np.ndarray, unit: float) -> reference.Exact:
    """The same averages with 50 digits."""
    states = reference.all_states(len(rises), "binary")
    return reference.sum_states(states, integer_energies(rises, fields), unit)


def assert_same(found: Averages, exact: reference.Exact) -> None:
    assert found.log_z == pytest.approx(exact.log_z, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-11, rtol=0)
    np.testing.assert_allclose(found.second_moment, exact.second_moment, atol=1e-11, rtol=0)


def random_integers(n: int, most: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    rises = np.triu(generator.integers(-most, most + 1, (n, n)), 1)
    return rises + rises.T, generator.integers(-most, most + 1, n)


def fixed_point(weights: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Integers with a sum of magnitudes below 2^62, and the energy of one step."""
    largest = np.abs(np.triu(weights)).sum() + np.abs(bias).sum()
    step = 2.0 ** (math.ceil(math.log2(largest)) - 61) if largest else 1.0
    return np.rint(weights / step).astype(np.int64), np.rint(bias / step).astype(np.int64), step


def random_couplings(n: int, scale: float, seed: int, field: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    weights = np.triu(generator.normal(scale=scale, size=(n, n)), 1)
    return weights + weights.T, generator.normal(scale=field * scale, size=n)


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(0, 2**16))
def test_table_holds_the_energy_of_the_low_couplings(k, seed):
    rises, _ = random_integers(k, 2**40, seed)
    energies = [
        -sum(int(rises[i, j]) for i, j in itertools.combinations(range(k), 2) if s[i] and s[j])
        for s in reference.all_states(k, "binary")
    ]
    assert low_table(rises, k).tolist() == energies


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.integers(2, 7), st.data())
def test_sums_are_those_of_the_twin(n, data):
    n_low = data.draw(st.integers(2, n))
    rises, fields = random_integers(
        n, data.draw(st.sampled_from([0, 1, 3, 1000, 2**50])), data.draw(st.integers(0, 2**16))
    )
    unit = data.draw(st.sampled_from([0.0, 1e-15, 1e-3, 0.3, 5.0]))
    found = summed(rises, fields, unit, n_low)
    exact = exact_averages(rises, fields, unit)
    assert_same(found, exact)
    if unit:
        assert found.energy == pytest.approx(exact.energy, rel=1e-12, abs=1e-12 * max(1, 1 / unit))
        assert found.energy_variance == pytest.approx(exact.energy_variance, rel=1e-9, abs=1e-11 / unit**2)


@pairwise(units=["spin", "binary"], scale=SCALES, field=[0.0, 0.5], n_low=[2, 3, 8])
def test_real_couplings_of_any_scale(units, scale, field, n_low):
    weights, bias = random_couplings(8, scale, seed=1, field=field)
    exact = reference.enumerate_states(weights, bias, units, beta=0.9)
    weights, bias, offset = reference.convert(weights, bias, units, "binary")
    rises, fields, step = fixed_point(weights, bias)
    found = summed(rises, fields, 0.9 * step, n_low)
    lo, hi = reference.VALUES[units]
    mean = lo + (hi - lo) * found.mean
    second = (hi - lo) ** 2 * found.second_moment + lo * (hi - lo) * (found.mean + found.mean[:, None]) + lo**2
    assert found.log_z - 0.9 * offset == pytest.approx(exact.log_z, rel=1e-12)
    np.testing.assert_allclose(mean, exact.mean, atol=1e-11, rtol=0)
    np.testing.assert_allclose(second, exact.second_moment, atol=1e-11, rtol=0)
    assert found.energy * step + offset == pytest.approx(exact.energy, abs=1e-11 * max(1, scale))
    assert found.energy_variance * step**2 == pytest.approx(exact.energy_variance, rel=1e-10, abs=1e-11)


def ring(n: int, coupling: int) -> tuple[np.ndarray, np.ndarray]:
    rises = np.zeros((n, n), np.int64)
    for i in range(n):
        rises[i, (i + 1) % n] = rises[(i + 1) % n, i] = 4 * coupling
    return rises, np.full(n, -4 * coupling)


@pytest.mark.parametrize("coupling", [1, -1, 10**15])
def test_ties_are_exact(coupling):
    # a ring: every energy is degenerate, and integer energies keep it so whatever the scale
    rises, fields = ring(7, coupling)
    unit = 50.0 / abs(coupling)
    found = run_slice(rises, fields, unit, 3)
    assert_same(summed(rises, fields, unit, 3), exact_averages(rises, fields, unit))
    assert found.totals[0] == pytest.approx(2 if coupling > 0 else 2 * 7, rel=1e-12)


@pytest.mark.parametrize("n_low", [2, 4])
@pytest.mark.parametrize("unit", [1e-3, 1.0, 40.0])
@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4])
def test_slices_add_up_whatever_their_depth(depth, unit, n_low):
    rises, fields = random_integers(n_low + 4, 30, seed=2)
    least = least_of(rises, fields)
    parts = [run_slice(rises, fields, unit, n_low, start, depth, least) for start in range(0, 16, 1 << depth)]
    assert_same(averages(joined(parts), unit, least), exact_averages(rises, fields, unit))


def test_slices_partition_the_states():
    # with unit 0 every state weighs 1: every step of the code counts 2^n_low states
    rises, fields = random_integers(7, 9, seed=3)
    for start, depth in [(0, 0), (3, 0), (4, 2), (0, 5)]:
        found = run_slice(rises, fields, 0.0, 2, start, depth)
        assert found.lows[0].tolist() == [1 << depth] * 4
        assert found.totals.tolist() == [4 << depth, 0, 0]


def test_a_ground_state_met_last_takes_all_the_weight():
    # step after step is lower by far more than a float64 can tell apart
    n = 5
    fields = np.array([1, 1, 10**6, 10**9, 10**12])
    rises = np.zeros((n, n), np.int64)
    assert least_of(rises, fields) == -fields.sum()
    assert_same(summed(rises, fields, 1.0, 2), exact_averages(rises, fields, 1.0))


def test_energies_next_to_the_end_of_int64_do_not_wrap():
    most = 2**62 // 3 - 1
    rises = np.array([[0, most, 0], [most, 0, 0], [0, 0, 0]])
    fields = np.array([0, -most, most])
    unit = 20.0 / 2**62
    for n_low in (2, 3):
        assert_same(summed(rises, fields, unit, n_low), exact_averages(rises, fields, unit))


def test_a_scale_without_bounds_leaves_the_lowest_states():
    rises, fields = ring(6, 1)
    found = run_slice(rises, fields, 1e280, 3)
    assert found.totals[0] == 2.0
    assert np.isfinite(found.totals).all()


# Lowest states


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.integers(1, 7), st.data())
def test_lowest_states_are_the_first_of_all_by_energy_and_number(n, data):
    n_low = data.draw(st.integers(1, n))
    rises, fields = random_integers(n, data.draw(st.sampled_from([0, 1, 2, 2**50])), data.draw(st.integers(0, 2**16)))
    n_lowest = data.draw(st.integers(1, 1 << n))
    expected = sorted((energy, number) for number, energy in enumerate(integer_energies(rises, fields)))
    assert run_list(rises, fields, n_low, n_lowest) == expected[:n_lowest]


def test_lowest_states_of_a_slice_are_those_of_its_steps():
    rises, fields = random_integers(7, 2, seed=5)
    energies = integer_energies(rises, fields)
    for start, depth in [(0, 0), (5, 0), (8, 2), (16, 4)]:
        steps = range(start, start + (1 << depth))
        numbers = [(step ^ step >> 1) * 4 + x for step in steps for x in range(4)]
        expected = sorted((energies[number], number) for number in numbers)
        assert run_list(rises, fields, 2, 3, start, depth) == expected[:3]
        padded = run_list(rises, fields, 2, len(expected) + 2, start, depth)
        assert padded == [*expected, (LAST, LAST), (LAST, LAST)]


# Distributions


@pytest.mark.parametrize(("n_low", "n_chosen"), [(2, 2), (2, 5), (3, 7), (4, 4), (7, 7)])
def test_distribution_of_the_first_units(n_low, n_chosen):
    rises, fields = random_integers(7, 3, seed=n_chosen)
    weights = np.zeros(1 << n_chosen)
    table = low_table(rises, n_low) - least_of(rises, fields)
    depth = 7 - n_low
    cut = min(depth, 1)
    for start in range(0, 1 << depth, 1 << (depth - cut)):
        sum_slice_distribution(rises, fields, table, start, depth - cut, 0.7 / math.log(2), weights)
    exact = exact_averages(rises, fields, 0.7).probabilities.reshape(-1, 1 << n_chosen).sum(axis=0)
    np.testing.assert_allclose(weights / weights.sum(), exact, rtol=1e-13)


# Calls


def test_exp2_is_within_its_stated_error():
    generator = np.random.default_rng(9)
    for x in [*generator.uniform(-1021, 1021, 300), *generator.uniform(-1, 1, 300), -1021.0, 1021.0, 0.5, -0.5]:
        with mpmath.workdps(40):
            exact = mpmath.mpf(2) ** mpmath.mpf(float(x))
            assert abs(mpmath.mpf(float(exp2_float64(float(x)))) / exact - 1) < 6e-16, x
    assert [exp2_float64(float(k)) for k in (-1021, -3, 0, 1, 40)] == [2.0**k for k in (-1021, -3, 0, 1, 40)]


def test_arguments_are_left_as_they_were():
    rises, fields = random_integers(6, 50, seed=6)
    table = low_table(rises, 2)
    before = rises.copy(), fields.copy(), table.copy()
    sum_slice(rises, fields, table, 0, 4, 0.1)
    sum_slice_moments(rises, fields, table, 0, 4, 0.1, np.zeros((5, 4)), np.zeros((4, 4)))
    sum_slice_distribution(rises, fields, table, 0, 4, 0.1, np.zeros(4))
    list_lowest(rises, fields, table, 0, 4, np.full(2, LAST), np.full(2, LAST))
    for one, other in zip((rises, fields, table), before, strict=True):
        assert np.array_equal(one, other)


def test_one_compiled_signature():
    kernels = (tabulate_low, sum_slice, sum_slice_moments, list_lowest)
    run_slice(*random_integers(4, 5, seed=7), 0.5, 2)
    before = [list(getattr(kernel, "signatures", [])) for kernel in kernels]
    run_slice(*random_integers(2, 5, seed=8), 0.5, 2)
    assert [list(getattr(kernel, "signatures", [])) for kernel in kernels] == before
