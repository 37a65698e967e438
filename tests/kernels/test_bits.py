"""Products with matrices of zeros and ones, held against plain sums; all ways to the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastbm.kernels.bit_products import add_bit_product
from fastbm.kernels.bit_vectors import LANES
from fastbm.kernels.bits import MASKS, add_product, fill_tables, pack_lanes
from fastbm.kernels.digits import count_states, masks_of, room_of
from fastbm.kernels.sampling.field_energies import STEPS, add_remainders
from fastbm.kernels.vectors import has_look_up
from fastbm.runs.sample.units import _words
from fastbm.sampling.engine.layered import TABLES_FROM, BitProduct
from tests.twins import sampling as slow

FLOATS = [np.float32, np.float64]
ROOT = Path(__file__).parents[2]
ELSEWHERE = """
import hashlib, sys, warnings
warnings.filterwarnings("ignore", message=".*overflow encountered.*")
from tests.kernels import test_bits as t
print(t.digest(), t.has_look_up())
"""


def multiply(product: BitProduct, fields: np.ndarray, up: np.ndarray) -> None:
    """Add the product with `up` (n, lanes) to `fields` (m, lanes), both of the weights' type."""
    add_product(fields, product.arrays(1), up, *BitProduct.room([product], up.shape[1]))


def products(weights: np.ndarray, up: np.ndarray, fields: np.ndarray) -> list[np.ndarray]:
    """`fields` (m, lanes) and the product, by every way there is; `up` is (n, lanes)."""
    found = []
    product = BitProduct(weights)
    for _ in range(TABLES_FROM):  # the last of them with tables
        found.append(fields.copy())
        multiply(product, found[-1], up)
    plain = BitProduct(weights)
    plain._wide = False
    found.append(fields.copy())
    multiply(plain, found[-1], up)
    return found


def digest() -> str:
    import hashlib

    generator, found = np.random.default_rng(5), hashlib.sha256()
    for n, m, lanes in ((1, 1, 16), (3, 9, 16), (37, 6, 80), (100, 43, 64), (5, 5, 3)):
        for dtype in FLOATS:
            weights, fields = (
                generator.normal(size=(n, m)).astype(dtype),
                generator.normal(size=(m, lanes)).astype(dtype),
            )
            for one in products(weights, (generator.random((n, lanes)) < 0.4).astype(dtype), fields):
                found.update(one.tobytes())
    words, product = generator.integers(0, 2**32, (2, 9), np.uint32), np.zeros((35, 9))
    add_bit_product(product, generator.normal(size=(35, 45)), words, -1.0, 1.0)
    found.update(product.tobytes())
    return found.hexdigest()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 70), st.integers(1, 40), st.sampled_from([1, 5, 16, 64, 80]), st.floats(0, 1),
    st.sampled_from(FLOATS), st.booleans(), st.integers(0, 2**32),
)  # fmt: skip
def test_sums_are_those_of_the_twin_and_of_each_other(n, m, lanes, part, dtype, turned, seed):
    generator = np.random.default_rng(seed)
    weights = generator.normal(size=(n, m)).astype(dtype)
    up, fields = (generator.random((n, lanes)) < part).astype(dtype), generator.normal(size=(m, lanes)).astype(dtype)
    found = products(np.asfortranarray(weights) if turned else weights, up, fields)
    assert all(np.array_equal(found[0], other) for other in found[1:])
    for lane in range(0, lanes, 7):
        expected = fields[:, lane] + np.array(slow.row_sums(weights.tolist(), up[:, lane].tolist()))
        assert np.abs(found[0][:, lane] - expected).max() <= 4 * n * np.finfo(dtype).eps * (1 + np.abs(weights).max())


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_lane_does_not_depend_on_its_neighbours(dtype):
    generator = np.random.default_rng(3)
    weights, fields = generator.normal(size=(90, 203)).astype(dtype), np.zeros((203, 80), dtype)
    up = (generator.random((90, 80)) < np.linspace(0, 1, 80)).astype(dtype)
    whole = products(weights, up, fields)[0]
    for lanes in (slice(0, 1), slice(1, 17), slice(17, 80)):
        for part in products(weights, np.ascontiguousarray(up[:, lanes]), np.ascontiguousarray(fields[:, lanes])):
            assert np.array_equal(part, whole[:, lanes])


@pytest.mark.skipif(not has_look_up(), reason="the processor has no AVX-512")
@pytest.mark.parametrize("turned", [False, True])
def test_tables_hold_all_sums_of_four_rows(turned: bool) -> None:
    weights = np.arange(1, 161, dtype=np.float32).reshape(32, 5) ** 2
    tables = np.zeros((1, 8, 4, 16), np.float32)
    fill_tables(tables, np.asfortranarray(weights) if turned else weights, MASKS)
    for group in range(8):
        for column in range(4):
            for entry in range(16):
                rows = [4 * group + bit for bit in range(4) if entry >> bit & 1]
                assert tables[0, group, column, entry] == weights[rows, column].sum()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_words_hold_the_bits(dtype):
    up = np.random.default_rng(2).integers(0, 2, (45, 16)).astype(dtype)
    words = np.full((2, 16), 7, np.uint32)
    pack_lanes(words, up)
    found = (words[:, None, :] >> np.arange(32, dtype=np.uint32)[:, None]) & 1
    assert np.array_equal(found.reshape(64, 16)[:45], up)
    assert not found.reshape(64, 16)[45:].any()


@pytest.mark.parametrize(("n", "k", "m"), [(1, 1, 1), (32, 32, 5), (45, 70, 33)])
@pytest.mark.parametrize(("off", "on"), [(-1.0, 1.0), (0.0, 1.0)])
def test_products_by_tables_in_memory_are_added(n, k, m, off, on):
    generator = np.random.default_rng(3)
    left, up = generator.normal(size=(n, k)), generator.integers(0, 2, (k, m)).astype(np.uint8)
    words, product = np.zeros((-(-k // 32), m), np.uint32), generator.normal(size=(n, m))
    pack_lanes(words, up)
    expected = product + left @ np.where(up, on, off)
    add_bit_product(product, left, words, off, on)
    np.testing.assert_allclose(product, expected, rtol=0, atol=1e-13)


def test_products_are_the_same_while_another_thread_makes_the_tables(monkeypatch):
    generator = np.random.default_rng(6)
    weights, up = generator.normal(size=(64, 8)).astype(np.float32), generator.integers(0, 2, (64, 16))
    up, product, meanwhile = up.astype(np.float32), BitProduct(weights), np.zeros((8, 16), np.float32)

    def fill_later(*args):
        multiply(product, meanwhile, up)  # what another thread may do, as kernels let go of the interpreter
        fill_tables(*args)

    monkeypatch.setattr("fastbm.sampling.engine.layered.fill_tables", fill_later)
    found = np.zeros((TABLES_FROM, 8, 16), np.float32)
    for fields in found:
        multiply(product, fields, up)
    assert np.array_equal(found[0], found[-1])
    assert not has_look_up() or np.array_equal(found[0], meanwhile)  # elsewhere no tables are made


def test_large_weights_are_not_tabled():
    product = BitProduct(np.zeros((1 << 12, 1 << 11), np.float32))
    up, fields = np.zeros((1 << 12, 16), np.float32), np.zeros((1 << 11, 16), np.float32)
    for _ in range(2 * TABLES_FROM):
        multiply(product, fields, up)
    assert not len(product._tables)


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""},
        {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
        {"NUMBA_DISABLE_JIT": "1"},
    ],
)
def test_bits_are_those_of_a_processor_without_look_up(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [digest(), "False"]


@pytest.mark.parametrize(
    ("n_samples", "n_chains", "n_units"),
    [(600, 3, 10), (32, 5, 100), (4, 1, 1), (514, 2, 7), (10, 70, 128), (4, 3, 65)],
)
@pytest.mark.parametrize("shifts", [(-1,), (0,), (1, 3, 64)])
def test_sums_of_counts_of_chains_are_those_of_bits(
    n_samples: int, n_chains: int, n_units: int, shifts: tuple[int, ...]
) -> None:
    up = np.random.default_rng(0).integers(0, 2, (n_samples, n_chains, n_units))
    distances, half = tuple(min(d, n_units - 1) for d in shifts), n_samples // 2
    words = _words(np.packbits(up, axis=2, bitorder="little"))
    unlike = np.stack([up if d < 0 else up != np.roll(up, d, axis=2) for d in distances], axis=2)
    counts = np.stack([unlike[:half].sum(axis=0), unlike[half:].sum(axis=0)])
    for first, end in ((0, n_chains), (n_chains // 2, n_chains)):
        sums = np.full((n_samples, n_chains), -1)
        totals, squares = np.zeros((2, len(distances), n_units), np.uint32)
        masks = masks_of(distances, n_units, end - first)
        room = room_of(masks, words.shape[2])
        count_states(words, (first, end), np.array(distances), masks, room, totals, squares, sums)
        assert np.array_equal(totals, counts[:, first:end].sum(axis=(0, 1)))
        assert np.array_equal(squares, np.square(counts[:, first:end]).sum(axis=(0, 1)))
        assert np.array_equal(sums[:, first:end], up.sum(axis=2)[:, first:end])
        assert (sums[:, :first] == -1).all()


@pytest.mark.parametrize("n", [8, 520, 1032])
@pytest.mark.parametrize("all_up", [False, True])
def test_what_rounding_left_is_summed_exactly(n: int, all_up: bool) -> None:
    """Also where all that is summed has one sign, so that partial sums are largest."""
    generator, n_samples, n_chains = np.random.default_rng(n), 3, 24
    left = np.full((n, n), -127) if all_up else generator.integers(-127, 128, (n, n))
    left = np.tril(left, -1)
    up = np.ones((n, 96), np.uint8) if all_up else generator.integers(0, 2, (n, 96), dtype=np.uint8)
    bits = np.ascontiguousarray(up.reshape(n // 4, 4, 3, LANES).transpose(2, 0, 3, 1)).view(np.uint32)[..., 0]
    energies = np.zeros((n_samples, n_chains))
    rest = left[None].astype(np.int8)
    add_remainders(rest, bits, np.zeros(LANES, np.int32), np.zeros(LANES, np.int64), energies)
    x = up[:, : energies.size].astype(np.int64)
    np.testing.assert_array_equal(energies.ravel(), -(x * (left @ x)).sum(axis=0) / STEPS[1])
