"""Random limits of single-spin updates: against the twins word by word, and counted over all words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fastbm.kernels.jit import kernel
from fastbm.kernels.random import log_of_bits, logit_of_bits
from fastbm.kernels.sampling.limits import ROWS, gibbs_limits, largest_float32, metropolis_limits
from tests.twins import reference

FIELD_TYPES = [np.int32, np.int64]
SCALES = np.array([1e-30, 1e-3, 1.0, 37.5, 2.0**20, 2.0**26, 1e12, 1e30, np.finfo(np.float32).max], np.float32)
PRECISION = 3e-7  # stated, of the larger of a logarithm and 1
HOLDS = [0, 1 << 28, 1 << 31]


def draw(dtype, seed: int, hold: int | None = None) -> tuple[np.ndarray, list[list[int]]]:
    """Limits (ROWS, lanes), and the words they come from."""
    streams = np.random.default_rng(seed).integers(1, 2**32, (4, len(SCALES)), dtype=np.uint32)
    twins = [reference.xoshiro(stream) for stream in streams.T.tolist()]
    words = [[next(twin) for twin in twins] for _ in range(ROWS)]
    limits = np.empty((ROWS, len(SCALES)), dtype)
    if hold is None:
        gibbs_limits(streams, SCALES, limits)
    else:
        metropolis_limits(streams, SCALES, np.uint32(hold), limits)
    return limits, words


def most(dtype) -> int:
    return int(largest_float32(np.zeros(1, dtype)))


@pytest.mark.parametrize("dtype", FIELD_TYPES)
def test_largest_limits_fit_and_fields_stay_below_them(dtype):
    assert most(dtype) <= np.iinfo(dtype).max
    assert most(dtype) == float(np.float32(most(dtype)))
    assert int(np.nextafter(np.float32(most(dtype)), np.float32(np.inf))) > np.iinfo(dtype).max


@pytest.mark.parametrize("dtype", FIELD_TYPES)
@pytest.mark.parametrize("seed", range(20))
def test_gibbs_limits_are_logits_rounded_down(dtype, seed):
    limits, words = draw(dtype, seed)
    for row, lane in np.ndindex(limits.shape):
        scale, logit = float(SCALES[lane]), reference.logit_of_bits(words[row][lane])
        exact = min(max(logit * scale, -most(dtype)), most(dtype))
        error = PRECISION * scale * max(1, abs(logit)) + 2e-7 * abs(exact)
        assert math.floor(exact - error) <= limits[row, lane] <= exact + error


@pytest.mark.parametrize("dtype", FIELD_TYPES)
@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("seed", range(10))
def test_metropolis_limits_are_logarithms_rounded_up(dtype, hold, seed):
    limits, words = draw(dtype, seed, hold)
    share = 1 - hold / 2**32
    for row, lane in np.ndindex(limits.shape):
        scale, word = float(SCALES[lane]), words[row][lane]
        if 2**32 - 1 - word < hold:
            assert limits[row, lane] == most(dtype)
            continue
        logarithm = min(reference.log_of_bits(word) - math.log(share), 0.0)
        exact = max(logarithm * scale, -most(dtype))
        error = 2 * PRECISION * scale * max(1, abs(logarithm)) + 2e-7 * abs(exact)
        assert exact - error <= limits[row, lane] <= min(0, math.ceil(exact + error))


@pytest.mark.parametrize("dtype", FIELD_TYPES)
def test_the_smallest_scale_leaves_the_sign_and_nothing_else(dtype):
    limits, words = draw(dtype, seed=1)
    assert limits[:, 0].tolist() == [0 if row[0] >> 31 else -1 for row in words]


@kernel
def _count_logits_below(first, last, marks, counts):
    """Count the words whose logit is below each of `marks` (m,) float32. Mutates `counts` (m,) int64."""
    for word in range(first, last):
        x = logit_of_bits(np.uint32(word))
        for k in range(marks.shape[0]):
            counts[k] += x < marks[k]


@kernel
def _count_logarithms_below(first, last, marks, counts):
    """Count the words whose logarithm is below each of `marks` (m,) float32. Mutates `counts` (m,) int64."""
    for word in range(first, last):
        x = log_of_bits(np.uint32(word))
        for k in range(marks.shape[0]):
            counts[k] += x < marks[k]


def assert_counts(counts: np.ndarray, marks: np.ndarray, probability, slope) -> None:
    """Out of all 2^32 words as many lie below a mark as probability says, to the precision of the logarithm."""
    for mark, count in zip(marks.astype(float), counts.tolist(), strict=True):
        allowed = 1.0 + 2**32 * slope(mark) * PRECISION * max(1.0, abs(mark))
        assert abs(count - 2**32 * probability(mark)) <= allowed, (mark, count)


TAILS = np.array([-22.0, -20.0, -math.log(1e8), -17.0, -16.0, -math.log(1e6), -12.0, -9.0, -6.0], np.float32)
MIDDLE = np.array([-6.0, -3.0, -1.0, -0.3, -0.01, -1e-4], np.float32)


def test_tails_of_logits_are_exact_down_to_1e_minus_8():
    # logits below -6 come from words of which the top bit and the next 7 are 0
    counts = np.zeros(len(TAILS), np.int64)
    _count_logits_below(0, 2**24, TAILS, counts)
    assert_counts(counts, TAILS, reference.sigmoid, lambda x: reference.sigmoid(x) * reference.sigmoid(-x))


def test_tails_of_logarithms_are_exact_down_to_1e_minus_8():
    counts = np.zeros(len(TAILS), np.int64)
    _count_logarithms_below(0, 2**24, TAILS, counts)
    assert_counts(counts, TAILS, math.exp, math.exp)


@pytest.mark.slow
def test_logits_of_all_words():
    below, above = np.zeros(len(MIDDLE), np.int64), np.zeros(len(MIDDLE), np.int64)
    _count_logits_below(0, 2**31, MIDDLE, below)
    assert_counts(below, MIDDLE, reference.sigmoid, lambda x: reference.sigmoid(x) * reference.sigmoid(-x))
    # the top bit is the sign: words that have it lie as far above 0 as the others below
    _count_logits_below(2**31, 2**32, -MIDDLE, above)
    assert_counts(2**31 - above, MIDDLE, reference.sigmoid, lambda x: reference.sigmoid(x) * reference.sigmoid(-x))


@pytest.mark.slow
def test_logarithms_of_all_words():
    counts = np.zeros(len(MIDDLE), np.int64)
    _count_logarithms_below(0, 2**32, MIDDLE, counts)
    assert_counts(counts, MIDDLE, math.exp, math.exp)
