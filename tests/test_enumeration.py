"""Gray-code sums against sums over all states with 50 digits, at any scale of couplings and however the code is cut."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
import reference
from hypothesis import given, settings, strategies as st

from fastbm.kernels.enumeration import enumerate_slice, tabulate_low

SCALES = [1e-12, 1.0, 30.0, 1e3]


class Sums(NamedTuple):
    """What `enumerate_slice` leaves."""

    lowest: int
    sums: np.ndarray
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


def run_slice(rises, fields, unit, n_low, start=0, stop=None) -> Sums:
    n = len(rises)
    sums, pairs = np.zeros((3, 1 << n_low)), np.zeros((n, n))
    stop = 1 << (n - n_low) if stop is None else stop
    lowest = enumerate_slice(rises, fields, low_table(rises, n_low), start, stop, unit, sums, pairs)
    return Sums(int(lowest), sums, pairs)


def joined(parts: list[Sums], unit: float) -> Sums:
    """Refer all parts to the lowest energy of any (x grows by the difference, w by its exponential) and add them."""
    lowest = min(part.lowest for part in parts)
    sums, pairs = np.zeros_like(parts[0].sums), np.zeros_like(parts[0].pairs)
    for part in parts:
        shift = unit * (part.lowest - lowest)
        factor = math.exp(-shift)
        zeroth, first, second = part.sums
        sums += factor * np.array([zeroth, first + shift * zeroth, second + 2 * shift * first + shift**2 * zeroth])
        pairs += factor * part.pairs
    return Sums(lowest, sums, pairs)


def averages(found: Sums, unit: float, n_low: int) -> Averages:
    """Turn sums into averages; second moments of two low units come from the sums over settings of the low ones."""
    weights, first, second = found.sums
    whole = weights.sum()
    bits = np.arange(len(weights)) >> np.arange(n_low)[:, None] & 1
    pairs = found.pairs + np.triu(found.pairs, 1).T
    pairs[:n_low, n_low:] = found.pairs[n_low:, :n_low].T
    pairs[:n_low, :n_low] = (bits * weights) @ bits.T
    height = first.sum() / whole
    energy = found.lowest + (height / unit if unit else 0.0)
    variance = (second.sum() / whole - height**2) / unit**2 if unit else 0.0
    return Averages(math.log(whole) - unit * found.lowest, np.diagonal(pairs) / whole, pairs / whole, energy, variance)


def exact_averages(rises: np.ndarray, fields: np.ndarray, unit: float) -> reference.Exact:
    """The same averages from Python's integers and 50 digits."""
    n = len(rises)
    states = reference.all_states(n, "binary")
    w, b = rises.tolist(), fields.tolist()
    energies = [
        -sum(w[i][j] for i, j in itertools.combinations(range(n), 2) if s[i] and s[j])
        - sum(b[i] for i in range(n) if s[i])
        for s in states
    ]
    return reference.sum_states(states, energies, unit)


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
@given(st.integers(1, 7), st.data())
def test_sums_are_those_of_the_twin(n, data):
    n_low = data.draw(st.integers(1, n))
    rises, fields = random_integers(
        n, data.draw(st.sampled_from([0, 1, 3, 1000, 2**50])), data.draw(st.integers(0, 2**16))
    )
    unit = data.draw(st.sampled_from([0.0, 1e-15, 1e-3, 0.3, 5.0]))
    found = averages(run_slice(rises, fields, unit, n_low), unit, n_low)
    exact = exact_averages(rises, fields, unit)
    assert_same(found, exact)
    if unit:
        assert found.energy == pytest.approx(exact.energy, rel=1e-12, abs=1e-12 * max(1, 1 / unit))
        assert found.energy_variance == pytest.approx(exact.energy_variance, rel=1e-9, abs=1e-11 / unit**2)


@pytest.mark.parametrize("n_low", [1, 3, 8])
@pytest.mark.parametrize("field", [0.0, 0.5])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("units", ["spin", "binary"])
def test_real_couplings_of_any_scale(units, scale, field, n_low):
    weights, bias = random_couplings(8, scale, seed=1, field=field)
    exact = reference.enumerate_states(weights, bias, units, beta=0.9)
    weights, bias, offset = reference.convert(weights, bias, units, "binary")
    rises, fields, step = fixed_point(weights, bias)
    found = averages(run_slice(rises, fields, 0.9 * step, n_low), 0.9 * step, n_low)
    lo, hi = reference.VALUES[units]
    mean = lo + (hi - lo) * found.mean
    second = (hi - lo) ** 2 * found.second_moment + lo * (hi - lo) * (found.mean + found.mean[:, None]) + lo**2
    assert found.log_z - 0.9 * offset == pytest.approx(exact.log_z, rel=1e-12)
    np.testing.assert_allclose(mean, exact.mean, atol=1e-11, rtol=0)
    np.testing.assert_allclose(second, exact.second_moment, atol=1e-11, rtol=0)
    assert found.energy * step + offset == pytest.approx(exact.energy, abs=1e-11 * max(1, scale))
    assert found.energy_variance * step**2 == pytest.approx(exact.energy_variance, rel=1e-10, abs=1e-11)


@pytest.mark.parametrize("coupling", [1, -1, 10**15])
def test_ties_are_exact(coupling):
    # a ring: every energy is degenerate, and integer energies keep it so whatever the scale
    n = 7
    rises = np.zeros((n, n), np.int64)
    for i in range(n):
        rises[i, (i + 1) % n] = rises[(i + 1) % n, i] = 4 * coupling
    fields = np.full(n, -4 * coupling)
    unit = 50.0 / abs(coupling)
    found = run_slice(rises, fields, unit, 3)
    exact = exact_averages(rises, fields, unit)
    assert_same(averages(found, unit, 3), exact)
    degeneracy = 2 if coupling > 0 else 2 * n
    assert found.sums[0].sum() == pytest.approx(degeneracy, rel=1e-12)


@pytest.mark.parametrize("n_low", [1, 2, 4])
@pytest.mark.parametrize("unit", [1e-3, 1.0, 40.0])
@pytest.mark.parametrize("cuts", [[0, 16], [0, 1, 2, 3, 16], [0, 5, 6, 11, 16], list(range(17))])
def test_slices_add_up_whatever_the_cut(cuts, unit, n_low):
    n = n_low + 4
    rises, fields = random_integers(n, 30, seed=2)
    parts = [run_slice(rises, fields, unit, n_low, *cut) for cut in itertools.pairwise(cuts)]
    assert_same(averages(joined(parts, unit), unit, n_low), exact_averages(rises, fields, unit))


def test_slices_partition_the_states():
    # with unit 0 every state weighs 1: every step of the code counts 2^n_low states
    rises, fields = random_integers(7, 9, seed=3)
    for start, stop in [(0, 1), (3, 4), (3, 9), (0, 32)]:
        found = run_slice(rises, fields, 0.0, 2, start, stop)
        assert found.sums[0].tolist() == [stop - start] * 4


def test_an_empty_slice_adds_nothing():
    rises, fields = random_integers(6, 9, seed=4)
    found = run_slice(rises, fields, 1.0, 2, 5, 5)
    assert not found.sums.any()
    assert not found.pairs.any()


def test_lowest_is_the_ground_state_of_the_slice():
    rises, fields = random_integers(8, 2**40, seed=5)
    states = np.array(reference.all_states(8, "binary"))
    energies = -(states @ rises * states).sum(axis=1) // 2 - states @ fields
    assert run_slice(rises, fields, 2.0**-40, 3).lowest == energies.min()
    low_setting_of_zero = energies[: 1 << 3]
    assert run_slice(rises, fields, 2.0**-40, 3, 0, 1).lowest == low_setting_of_zero.min()


def test_a_ground_state_met_last_takes_all_the_weight():
    # step after step is lower by far more than a float64 can tell apart
    n = 5
    fields = np.array([1, 1, 10**6, 10**9, 10**12])
    rises = np.zeros((n, n), np.int64)
    found = run_slice(rises, fields, 1.0, 2)
    assert found.lowest == -fields.sum()
    assert_same(averages(found, 1.0, 2), exact_averages(rises, fields, 1.0))


def test_energies_next_to_the_end_of_int64_do_not_wrap():
    most = 2**62 // 3 - 1
    rises = np.array([[0, most, 0], [most, 0, 0], [0, 0, 0]])
    fields = np.array([0, -most, most])
    unit = 20.0 / 2**62
    for n_low in (1, 2, 3):
        assert_same(averages(run_slice(rises, fields, unit, n_low), unit, n_low), exact_averages(rises, fields, unit))


def test_arguments_are_left_as_they_were():
    rises, fields = random_integers(6, 50, seed=6)
    table = low_table(rises, 2)
    before = rises.copy(), fields.copy(), table.copy()
    enumerate_slice(rises, fields, table, 0, 16, 0.1, np.zeros((3, 4)), np.zeros((6, 6)))
    for one, other in zip((rises, fields, table), before, strict=True):
        assert np.array_equal(one, other)


def test_one_compiled_signature():
    kernels = (tabulate_low, enumerate_slice)
    rises, fields = random_integers(4, 5, seed=7)
    run_slice(rises, fields, 0.5, 2)
    before = [list(getattr(kernel, "signatures", [])) for kernel in kernels]
    rises, fields = random_integers(1, 5, seed=8)
    run_slice(rises, fields, 0.5, 1)
    assert [list(getattr(kernel, "signatures", [])) for kernel in kernels] == before
