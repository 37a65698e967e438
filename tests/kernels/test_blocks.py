"""The kernels of sums in three blocks against their twins."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from fastbm.exact.blocks import passes
from fastbm.kernels.exact import blocks as kernels, small_blocks
from fastbm.kernels.exact.gray import descend
from tests.twins import blocks as twins

EPS = 2.0**-52
SIZES = [(3, 2, 2), (1, 0, 0), (2, 2, 3), (0, 0, 4), (1, 1, 0)]


def integers(n: int, bits: int = 58, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random couplings and fields, whole numbers."""
    generator = np.random.default_rng([seed, n])
    upper = np.triu(generator.integers(-(2**bits), 2**bits, (n, n)), 1) // max(n, 1)
    return upper + upper.T, generator.integers(-(2**bits), 2**bits, n)


@pytest.mark.parametrize(("first", "k"), [(0, 0), (0, 4), (2, 3), (6, 1)])
def test_energies_and_fields_of_settings(first, k):
    rises, fields = integers(7)
    units, others = list(range(first, first + k)), [1, 2, 3]
    found = kernels.tabulate_energies(rises, fields, first, k)
    assert found.tolist() == twins.own_energies(rises.tolist(), fields.tolist(), units)
    assert kernels.tabulate_fields(rises, first, k, 1, 3).tolist() == twins.fields_of(rises.tolist(), units, others)


@functools.cache
def tables(sizes: tuple[int, int, int], bits: int = 58) -> tuple[Any, list[list[list[int]]]]:
    """Forms of three blocks, and the energies that they stand for."""
    rises, fields = integers(sum(sizes), bits)
    forms = kernels.form_blocks(rises, fields, sizes)
    return forms, twins.energies_of_blocks(rises.tolist(), fields.tolist(), sizes)


@pytest.mark.parametrize("sizes", SIZES)
def test_forms_know_their_lowest_entry(sizes):
    forms, energies = tables(sizes)
    assert [int(form[3]) for form in forms] == [twins.lowest(table) for table in energies]
    row_own, _, fields, _ = forms[0]
    least = min(int(own) - int(np.maximum(f, 0).sum()) for own, f in zip(row_own, fields, strict=True))
    assert kernels.lowest_entry(row_own, fields) == least


@pytest.mark.parametrize("tilt", [0.0, 0.7, -1e9])
@pytest.mark.parametrize("beta", [0.0, 3.0, 4000.0, 1e300])
@pytest.mark.parametrize("sizes", SIZES)
def test_tables_of_exponentials(sizes, beta, tilt):
    for form, energies in zip(*tables(sizes), strict=True):
        high = twins.heights(energies)
        expected = np.array([[twins.weight(h, beta, tilt, 0.2) for h in row] for row in high])
        first = len(high) // 2
        table = np.full(expected.shape, np.nan)
        kernels.fill_table(form, beta, tilt, 0.2, table[first:], first)
        kernels.fill_table(form, beta, tilt, 0.2, table[:first], 0)
        rounding = 1e-15 + 4 * EPS * np.minimum(beta * np.array(high), 700)  # of the exponent
        np.testing.assert_array_less(np.abs(table - expected), rounding * np.abs(expected) + 1e-300 + 1e-16 * abs(tilt))


def test_exponents_beyond_700_are_flushed_and_those_below_are_normal_numbers():
    step = np.zeros((1, 1), np.int64)
    forms = [(np.array([0]), np.array([0, 2**60]), step, 0)]
    for beta, kept in ((1399.9, True), (1400.0, False), (1400.1, False)):
        table = np.empty((1, 2))
        kernels.fill_table(forms[0], beta, 0.0, 0.0, table, 0)
        assert table[0, 0] == 1.0
        assert table[0, 1] == pytest.approx(math.exp(-beta / 2) if kept else 0.0, rel=1e-12)


def some_tables(sizes: tuple[int, int, int]) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The form of H, its heights, random tables of the shapes of F and G, and their product."""
    forms, energies = tables(sizes)
    generator = np.random.default_rng(0)
    left, right = generator.exponential(size=(len(energies[0]), len(energies[1]))), None
    right = generator.exponential(size=(len(energies[1]), len(energies[2][0])))
    return forms[2], np.array(twins.heights(energies[2])), left, right, left @ right


@pytest.mark.parametrize("sizes", SIZES)
def test_weights_by_row_and_by_column(sizes):
    form, high, left, right, product = some_tables(sizes)
    table = np.random.default_rng(1).exponential(size=high.shape)
    by_row, by_col = twins.weigh(product.tolist(), table.tolist(), high.tolist())
    at_once = passes.Weighed.empty(*table.shape)
    kernels.weigh_product(left, right, table, small_blocks.list_energies(form), *at_once)
    for found in (at_once, whole_by_tiles(product, table, form)):
        np.testing.assert_allclose(found.by_row, by_row, rtol=1e-13)
        np.testing.assert_allclose(found.by_col, by_col, rtol=1e-13)
    assert kernels.sum_product(left, right, table) == pytest.approx((product * table).sum(), rel=1e-13)
    np.testing.assert_allclose(left @ right, twins.multiply(left.tolist(), right.tolist()), rtol=1e-13)


def whole_by_tiles(product: np.ndarray, table: np.ndarray, form: Any) -> passes.Weighed:
    """`weigh` a quarter of a table at a time."""
    n_rows, n_cols = (max(size // 2, 1) for size in table.shape)
    whole = passes.Weighed.empty(*table.shape)
    low, k = n_cols.bit_length() - 1, table.shape[1].bit_length() - 1
    for r in range(0, table.shape[0], n_rows):
        for c in range(0, table.shape[1], n_cols):
            tile = passes.Weighed.empty(n_rows, n_cols)
            place = np.s_[r : r + n_rows, c : c + n_cols]
            kernels.weigh(product[place].copy(), table[place], form, (r, c), *tile)
            whole.by_row[r : r + n_rows, :low] += tile.by_row[:, :low]
            whole.by_row[r : r + n_rows, k] += tile.by_row[:, low]
            whole.by_row[r : r + n_rows, low:k] += tile.by_row[:, low:] * (c > 0)
            whole.by_col[:, c : c + n_cols] += tile.by_col
    return whole


@pytest.mark.parametrize("sizes", SIZES)
def test_tilted_products(sizes):
    form, high, left, right, _ = some_tables(sizes)
    generator = np.random.default_rng(2)
    table = generator.exponential(size=high.shape)
    lefts = list(generator.normal(size=(2, *left.shape)))
    rights = list(generator.normal(size=(2, *right.shape)))
    products = np.array([a @ b for a, b in zip(lefts, rights, strict=True)])
    expected = twins.covary(products.tolist(), table.tolist(), high.tolist())
    sums = np.zeros((2, table.shape[1]))
    kernels.covary(products, table, form, (0, 0), sums)
    np.testing.assert_allclose(sums, expected, rtol=1e-11, atol=1e-12)
    sums[:] = 0.0
    kernels.covary_products(tuple(lefts), tuple(rights), table, small_blocks.list_energies(form), sums)
    np.testing.assert_allclose(sums, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("sizes", SIZES)
def test_sums_of_few_units_in_one_call(sizes, beta):
    n = sum(sizes)
    rises, fields = integers(n)
    states = [twins.bits(number, n) for number in range(1 << n)]
    energies = np.array([twins.energy(rises.tolist(), fields.tolist(), x) for x in states], object)
    total, lowest = small_blocks.total_small(rises, fields, sizes, beta)
    heights = np.array((energies - lowest) / 2**61, float)
    weights, x = np.exp(-beta * heights), np.array(states, float)
    assert total == pytest.approx(weights.sum(), rel=1e-13)
    pairs, shares = np.zeros((n, n)), weights / weights.sum()
    found = small_blocks.average_small(rises, fields, sizes, beta, True, pairs)
    mean = shares @ heights
    assert found == pytest.approx((total, lowest, mean, shares @ (heights - mean) ** 2), rel=1e-9)
    np.testing.assert_allclose(pairs, (x.T * shares) @ x, rtol=1e-12)
    assert small_blocks.average_small(rises, fields, sizes, beta, False, pairs)[:3] == found[:3]


@pytest.mark.parametrize(("n_rows", "n_cols"), [(3, 2), (0, 3), (2, 0), (0, 0)])
def test_pairs_of_the_rows_and_the_columns(n_rows, n_cols):
    joint = np.random.default_rng(3).exponential(size=(2**n_rows, 2**n_cols))
    by_row, by_col = (np.array(sums) for sums in twins.weigh(joint.tolist(), np.ones_like(joint), np.zeros_like(joint)))
    pairs = np.full((7, 7), -1.0)
    kernels.add_pairs(by_row, by_col, 1, 4, pairs)
    places = [*range(1, 1 + n_rows), *range(4, 4 + n_cols)]
    expected = np.full((7, 7), -1.0)
    expected[np.ix_(places, places)] = twins.pairs_up(joint.tolist())
    np.testing.assert_allclose(pairs, expected, rtol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("bits", [2, 58])
def test_descents_end_where_the_twins_do_and_cannot_go_on(n, bits):
    for seed in range(5):
        rises, fields = integers(n, bits, seed)
        least, ends = twins.descend(rises.tolist(), fields.tolist(), 6)
        assert descend(rises, fields, 6) == least
        everywhere = twins.own_energies(rises.tolist(), fields.tolist(), range(n))
        assert min(everywhere) <= least
        for x in ends:
            code = sum(bit << i for i, bit in enumerate(x))
            assert all(everywhere[code] <= everywhere[code ^ 1 << i] for i in range(n))
