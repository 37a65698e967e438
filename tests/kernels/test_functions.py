"""Energies, exponentials, mean field, moments and packing against their twins."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from hypothesis import given, settings, strategies as st

import fastbm as bm
from fastbm.data import counting
from fastbm.data.rows import Rows, pack_rows
from fastbm.inference.target_moments import TargetMoments
from fastbm.kernels.bits import count_chains, count_pairs, pack_lane, pack_units, turn_rows
from fastbm.kernels.energy import energies_dense
from fastbm.kernels.functions import exp2_float64, exp_float32, exp_float64, expm1_negative, log1p_float64
from tests.twins import reference

FEW = settings(derandomize=True, max_examples=25, deadline=None)


def random_machine(n: int, seed: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    weights = np.triu(generator.normal(scale=scale, size=(n, n)), 1)
    weights = weights + weights.T
    weights.setflags(write=False)
    return weights, generator.normal(scale=scale, size=n)


def random_bits(n: int, n_lanes: int, seed: int, dtype=np.uint8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (n, n_lanes)).astype(dtype)


# Energies


@FEW
@given(st.integers(1, 9), st.integers(1, 3), st.sampled_from(["spin", "binary"]), st.booleans(), st.integers(0, 2**16))
def test_energies_are_those_of_the_twin(n, n_blocks, units, bias_per_lane, seed):
    lanes = 16 * n_blocks
    weights, bias = random_machine(n, seed)
    biases = np.random.default_rng(seed).normal(size=(n, lanes)) if bias_per_lane else bias[:, None].copy()
    lo, hi = reference.VALUES[units]
    values = np.where(random_bits(n, lanes, seed), float(hi), float(lo))
    energies = np.zeros(lanes)
    energies_dense(values, weights, biases, energies, 0, n)
    exact = [reference.energy(values[:, c], weights, biases[:, c if bias_per_lane else 0]) for c in range(lanes)]
    np.testing.assert_allclose(energies, exact, rtol=0, atol=1e-13 * n * n)


def test_energy_of_a_lane_does_not_depend_on_its_place():
    weights, bias = random_machine(20, seed=1)
    values = 2.0 * random_bits(20, 48, seed=2) - 1
    energies, turned = np.zeros(48), np.zeros(48)
    energies_dense(values, weights, bias[:, None].copy(), energies, 0, 20)
    energies_dense(np.ascontiguousarray(values[:, ::-1]), weights, bias[:, None].copy(), turned, 0, 20)
    assert np.array_equal(energies, turned[::-1])


def test_energies_in_pieces_have_the_same_bits():
    weights, bias = random_machine(20, seed=1)
    values = 2.0 * random_bits(20, 16, seed=2) - 1
    whole, parts = np.zeros(16), np.zeros(16)
    energies_dense(values, weights, bias[:, None].copy(), whole, 0, 20)
    for start, stop in ((0, 7), (7, 8), (8, 20)):
        energies_dense(values, weights, bias[:, None].copy(), parts, start, stop)
    assert np.array_equal(whole, parts)


# Exponentials


def test_exp_float32_is_within_its_stated_error():
    # of all float32 numbers, the two listed lie where the polynomial is worst
    x = np.append(np.random.default_rng(3).uniform(-86.9, 88, 50_000), [5.1989794, 48.867237]).astype(np.float32)
    exact = np.exp(x.astype(float))
    found = np.array([exp_float32(v) for v in x], float)
    assert np.max(np.abs(found / exact - 1)) < 2e-7


def test_exp_float32_of_very_negative_numbers_is_tiny_and_positive():
    for x in (-87.01, -100.0, -1e4, -1e30, -np.inf):
        assert 0 <= exp_float32(np.float32(x)) < 1e-37


def test_exp_float64_is_within_its_stated_error():
    generator = np.random.default_rng(4)
    for x in np.concatenate([generator.uniform(-708, 709, 1000), generator.uniform(-1, 1, 1000), [-708.0, 709.0, 0.0]]):
        exact = mpmath.exp(mpmath.mpf(float(x)))
        assert abs(exp_float64(x) / exact - 1) < 1e-15, x


def test_exp_float64_of_very_negative_numbers_is_tiny_and_positive():
    for x in (-708.5, -1e4, -1e300, -math.inf):
        assert 0 <= exp_float64(x) < 1e-307


def test_other_functions_are_within_their_stated_errors():
    generator, near = np.random.default_rng(5), np.logspace(-18, 0, 300)
    for function, exact, x, error in (
        (
            exp2_float64,
            lambda x: mpmath.power(2, x),
            [*generator.uniform(-1021, 1021, 700), *near, -1021.0, 1021.0],
            6e-16,
        ),
        (log1p_float64, mpmath.log1p, [*generator.uniform(0, 1, 700), *near], 1e-15),
        (expm1_negative, mpmath.expm1, [*-generator.uniform(0, 40, 700), *-near, -700.0], 1e-15),
    ):
        with mpmath.workdps(40):
            for one in x:
                assert abs(function(one) / exact(mpmath.mpf(one)) - 1) < error, (function, one)
    assert exp2_float64(0.0) == 1.0
    assert expm1_negative(-800.0) == -1.0


def test_exponentials_of_zero_are_one():
    assert exp_float32(np.float32(0)) == 1
    assert exp_float64(0.0) == 1


def test_exponentials_never_fall():
    x = np.linspace(-20, 5, 20_000)
    # the largest rounding error is what two neighbours may be out of order by
    single = np.array([exp_float32(v) for v in x.astype(np.float32)], float)
    double = np.array([exp_float64(v) for v in x])
    assert np.all(np.diff(single) >= -4e-7 * single[1:])
    assert np.all(np.diff(double) >= -2e-15 * double[1:])


# Packing and counting


@FEW
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 6), st.integers(0, 2**16))
def test_units_are_packed_into_bytes(n, n_chains, spare, seed):
    up = random_bits(n, n_chains + spare, seed)
    packed = np.full((n_chains, -(-n // 8)), 255, np.uint8)
    pack_units(up, packed)
    one_by_one = np.full_like(packed, 255)
    for c in range(n_chains):
        pack_lane(up, c, one_by_one[c])
    assert packed.tolist() == one_by_one.tolist() == [reference.pack_words(up[:, c], 8) for c in range(n_chains)]


@FEW
@given(st.integers(1, 4), st.sampled_from([1, 2, 63, 64, 65, 128, 150]), st.integers(0, 6), st.integers(0, 2**16))
def test_chains_are_packed_into_words(n, n_chains, spare, seed):
    up = random_bits(n, n_chains + spare, seed)
    words = pack_rows(up[:, :n_chains].T)
    assert words.tolist() == [reference.pack_words(row[:n_chains], 64) for row in up]


@FEW
@given(st.sampled_from([1, 9, 63, 64, 65, 130]), st.sampled_from([1, 63, 64, 65, 130]), st.integers(0, 2**16))
def test_packed_rows_are_turned(n, m, seed):
    up = random_bits(n, m, seed)
    words = np.full((n, -(-m // 64)), 7, np.uint64)
    turn_rows(np.packbits(up.T, axis=1, bitorder="little"), words, np.full(64, 5, np.uint64))
    assert words.tolist() == [reference.pack_words(row, 64) for row in up]


def test_float_bits_are_packed_alike():
    up = random_bits(11, 70, seed=9)
    for dtype in (np.float32, np.float64):
        packed = np.zeros((70, 2), np.uint8)
        pack_units(up.astype(dtype), packed)
        assert packed.tolist() == [reference.pack_words(up[:, c], 8) for c in range(70)]


def test_packed_bytes_are_numpys_little_endian_order():
    up = random_bits(19, 5, seed=10)
    packed = np.zeros((5, 3), np.uint8)
    pack_units(up, packed)
    assert np.array_equal(np.unpackbits(packed, axis=1, count=19, bitorder="little"), up.T)


@FEW
@given(st.integers(1, 6), st.sampled_from([1, 63, 64, 65, 200]), st.integers(0, 2**16))
def test_pairs_are_counted_exactly(n, n_chains, seed):
    up = random_bits(n, n_chains, seed)
    words = pack_rows(up.T)
    before = np.random.default_rng(seed).integers(0, 2**50, (n, n))
    counts = before.copy()
    count_pairs(words, counts)
    assert np.array_equal(counts, before + reference.count_pairs(up))


def test_every_bit_of_a_word_is_counted():
    for word in [0, 1, 2**63, 2**64 - 1, *(1 << k for k in range(64)), 0x123456789ABCDEF0]:
        counts = np.zeros((1, 1), np.int64)
        count_pairs(np.array([[word]], np.uint64), counts)
        assert counts[0, 0] == word.bit_count()


def test_one_compiled_signature(monkeypatch):
    def run_all(n, lanes):
        weights, bias = random_machine(n, seed=11)
        energies_dense(np.ones((n, 16 * lanes)), weights, bias[:, None].copy(), np.zeros(16 * lanes), 0, n)
        up = random_bits(n, lanes, seed=12)
        pack_units(up, np.zeros((lanes, -(-n // 8)), np.uint8))
        count_pairs(pack_rows(up.T), np.zeros((n, n), np.int64))
        packed = np.zeros((lanes, -(-n // 8)), np.uint8)
        packed.flags.writeable = False
        counting.count_together(Rows.of_packed(packed, n))
        TargetMoments(bm.BoltzmannMachine(np.zeros((n, n))), 3, lanes, 1, halves=True).add(
            np.zeros((3, lanes, -(-n // 8)), np.uint8)
        )

    monkeypatch.setattr(counting, "LARGE", 0)
    kernels = (energies_dense, pack_units, count_pairs, turn_rows, count_chains)
    run_all(5, 5)
    before = [list(getattr(kernel, "signatures", [])) for kernel in kernels]
    run_all(1, 1)
    assert [list(getattr(kernel, "signatures", [])) for kernel in kernels] == before


def test_exponentials_have_one_compiled_signature():
    for function, argument in ((exp_float32, np.float32(1)), (exp_float64, 1.0)):
        function(argument)
        assert len(getattr(function, "signatures", [0])) == 1
