"""Words against xoshiro128++ in plain integers, logarithms of bits against float64, streams against SeedSequence."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastbm._base import rng
from fastbm.kernels.ahead import BLOCK, FEWEST, draw_words, leaps
from fastbm.kernels.random import draw_bits, log_float32, log_of_bits, logit_of_bits
from tests.twins import reference

WORDS = st.integers(0, 2**32 - 1)
EDGES = [0, 1, 2, 127, 2**23, 2**24 - 1, 2**24, 2**24 + 1, 2**30, 2**31 - 65, 2**31 - 64, 2**31 - 1]
EDGE_WORDS = EDGES + [2**31 + word for word in EDGES] + [2**32 - 1]


def draw(streams: np.ndarray, n: int) -> np.ndarray:
    """Draw n words from every lane: (n, lanes)."""
    bits = np.empty((n, streams.shape[1]), np.uint32)
    for row in bits:
        draw_bits(streams, row)
    return bits


def sample_words(n: int, seed: int) -> np.ndarray:
    """Words of every magnitude: uniform, and uniform in the logarithm."""
    generator = np.random.default_rng(seed)
    small = np.exp2(generator.uniform(0, 32, n // 2)).astype(np.uint64) % 2**32
    return np.concatenate([generator.integers(0, 2**32, n - n // 2, dtype=np.uint64), small]).astype(np.uint32)


def test_twin_gives_the_published_sequence():
    published = [
        641,
        1573767,
        3222811527,
        3517856514,
        836907274,
        4247214768,
        3867114732,
        1355841295,
        495546011,
        621204420,
    ]
    assert list(itertools.islice(reference.xoshiro([1, 2, 3, 4]), 10)) == published


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS).filter(any), min_size=1, max_size=9))
def test_bits_are_those_of_xoshiro128plusplus(states):
    streams = np.array(states, np.uint32).T.copy()
    bits = draw(streams, 20)
    for lane, state in enumerate(states):
        words = reference.xoshiro(state)
        assert bits[:, lane].tolist() == list(itertools.islice(words, 20))


def test_words_made_ahead_are_those_of_the_stream():
    state = np.array([1, 2, 3, 4], np.uint32)
    words = reference.xoshiro(state.tolist())
    for n in (3, FEWEST - 1, FEWEST, 700, BLOCK - 1, BLOCK, BLOCK + 5, 3 * BLOCK - 64, 2 * BLOCK + FEWEST, 17):
        found = np.empty(n, np.uint32)
        draw_words(state, leaps(), found)
        assert found.tolist() == list(itertools.islice(words, n))


def test_streams_can_be_stopped_and_carried_on():
    streams = rng.streams(3, 5).T.copy()
    other = streams.copy()
    assert np.array_equal(draw(streams, 30), np.vstack([draw(other, 11), draw(other, 19)]))
    assert np.array_equal(streams, other)


def test_a_lane_does_not_depend_on_its_neighbours():
    states = rng.streams(3, 64)
    together = draw(states.T.copy(), 10)
    for lane in (0, 1, 63):
        assert np.array_equal(draw(states[lane : lane + 1].T.copy(), 10)[:, 0], together[:, lane])


def test_lanes_beyond_the_bits_stand_still():
    streams = rng.streams(3, 8).T.copy()
    before = streams.copy()
    draw_bits(streams, np.empty(5, np.uint32))
    assert np.array_equal(streams[:, 5:], before[:, 5:])
    assert not np.array_equal(streams[:, :5], before[:, :5])


def test_log_is_within_its_stated_error():
    generator = np.random.default_rng(1)
    near_one = (1 + np.arange(-2000, 2000) * 2.0**-23).astype(np.float32)
    values = np.concatenate([np.exp(generator.uniform(-87, 88, 30_000)).astype(np.float32), near_one])
    exact = np.log(values.astype(float))
    found = np.array([log_float32(x) for x in values], float)
    assert np.max(np.abs(found - exact) / np.maximum(np.abs(exact), 1)) < 2e-7


def test_log_is_exact_at_one_and_keeps_its_sign_round_it():
    below, above = np.nextafter(np.float32(1), np.float32(0)), np.nextafter(np.float32(1), np.float32(2))
    assert log_float32(np.float32(1)) == 0
    assert log_float32(below) < 0 < log_float32(above)


@pytest.mark.parametrize(
    ("function", "twin", "bound"),
    [(log_of_bits, reference.log_of_bits, 3e-7), (logit_of_bits, reference.logit_of_bits, 3e-7)],
)
def test_thresholds_are_within_their_stated_error(function, twin, bound):
    words = np.concatenate([np.array(EDGE_WORDS, np.uint32), sample_words(30_000, 2)])
    for word in words:
        exact = twin(int(word))
        assert abs(float(function(word)) - exact) <= bound * max(abs(exact), 1), int(word)


def test_log_of_bits_is_never_above_zero():
    assert all(log_of_bits(np.uint32(2**32 - 1 - k)) <= 0 for k in range(500))


def test_logit_of_bits_is_odd_in_the_top_bit():
    for word in sample_words(2000, 3) & np.uint32(0x7FFFFFFF):
        assert logit_of_bits(word) == -logit_of_bits(word | np.uint32(0x80000000))


def test_thresholds_never_fall_along_the_words():
    # near the top float32 cannot tell neighbours apart: they are equal, never in the wrong order
    for start in (0, 2**20, 2**24 - 1000, 2**31 - 2001):
        words = np.arange(start, start + 2000, dtype=np.uint32)
        assert np.all(np.diff([logit_of_bits(word) for word in words]) >= 0)
        assert np.all(np.diff([log_of_bits(word) for word in words]) >= 0)


@pytest.mark.parametrize("p", [3e-10, 1e-9, 1e-8, 1e-7, 1e-6])
def test_rare_events_have_their_probability(p):
    # thresholds rise with the word, so the words below log p are the first ones; their number is exact to one half
    n_words = 2 * math.ceil(p * 2**32) + 10
    words = np.arange(n_words, dtype=np.uint32)
    logit = math.log(p) - math.log1p(-p)
    logits, mirrored = ([logit_of_bits(word | top) for word in words] for top in (np.uint32(0), np.uint32(2**31)))
    expected = round(p * 2**32)
    assert np.sum(np.array(logits) <= logit) == pytest.approx(expected, abs=1)
    assert np.sum(np.array(mirrored) >= -logit) == pytest.approx(expected, abs=1)
    assert np.sum([log_of_bits(word) <= math.log(p) for word in words]) == pytest.approx(expected, abs=1)


def test_smallest_uniform_is_a_half_word():
    assert logit_of_bits(np.uint32(0)) == pytest.approx(-33 * math.log(2), rel=2e-7)
    assert logit_of_bits(np.uint32(2**31)) == pytest.approx(33 * math.log(2), rel=2e-7)
    assert log_of_bits(np.uint32(0)) == pytest.approx(-33 * math.log(2), rel=2e-7)


def test_frequencies_of_middling_events():
    # four standard errors in each of 9 counts: a false alarm in 1700 seeds
    words = draw(rng.streams(11, 1024).T.copy(), 1024).ravel()[: 2**17]
    logits = np.array([logit_of_bits(word) for word in words], float)
    for p in np.linspace(0.1, 0.9, 9):
        frequency = np.mean(logits <= math.log(p / (1 - p)))
        assert abs(frequency - p) < 4 * math.sqrt(p * (1 - p) / len(words))


def test_streams_are_those_of_spawned_seed_sequences():
    children = np.random.SeedSequence(9).spawn(4)[rng.INITIAL].spawn(6)
    expected = [child.generate_state(4) for child in children]
    assert np.array_equal(rng.streams(9, 6, purpose=rng.INITIAL), expected)


def test_first_shifts_the_chains():
    assert np.array_equal(rng.streams(9, 3, first=5), rng.streams(9, 8)[5:])


@pytest.mark.parametrize(("n_rows", "n_bytes"), [(2, 9), (70, 3), (70, 1001), (300, 8), (5, 4000)])
def test_bytes_of_many_keys_are_those_of_their_generators(n_rows: int, n_bytes: int) -> None:
    found = rng.random_bytes(9, rng.INITIAL, n_rows, n_bytes, first=3)
    expected = [rng.keyed(9, rng.INITIAL, 3 + r).bytes(n_bytes) for r in range(n_rows)]
    assert found.tobytes() == b"".join(expected)
    numbers = rng.uniforms(9, rng.INITIAL, n_rows, 7, first=3)
    assert all(np.array_equal(row, rng.keyed(9, rng.INITIAL, 3 + r).random(7)) for r, row in enumerate(numbers))


def test_streams_are_distinct_and_never_zero():
    rows = np.vstack(
        [rng.streams(seed, 200, purpose=purpose) for seed in (0, 1) for purpose in (rng.CHAINS, rng.INITIAL)]
    )
    assert rows.dtype == np.uint32
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert rows.any(axis=1).all()


def test_keyed_generators_depend_on_their_key_alone():
    first = rng.keyed(4, rng.ORDERS, 7).integers(0, 2**62, 5)
    assert np.array_equal(first, rng.keyed(4, rng.ORDERS, 7).integers(0, 2**62, 5))
    for other in (rng.keyed(5, rng.ORDERS, 7), rng.keyed(4, rng.BATCHES, 7), rng.keyed(4, rng.ORDERS, 8)):
        assert not np.array_equal(first, other.integers(0, 2**62, 5))


def test_derived_seeds_differ():
    seeds = {rng.derive(seed, *index) for seed in range(5) for index in ((), (0,), (1,), (0, 0), (0, 1))}
    assert len(seeds) == 25


def test_resolve_checks_a_seed_and_draws_one_for_none():
    assert rng.resolve(12) == 12
    assert 0 <= rng.resolve(None) < 2**32
    assert rng.resolve(None) != rng.resolve(None)
    with pytest.raises(ValueError, match="seed must be at least 0; got -1"):
        rng.resolve(-1)
    with pytest.raises(TypeError, match=r"seed must be a whole number; got 1\.5"):
        rng.resolve(1.5)


def test_threshold_functions_have_one_compiled_signature():
    for function, argument in (
        (log_float32, np.float32(2)),
        (log_of_bits, np.uint32(2)),
        (logit_of_bits, np.uint32(2)),
    ):
        function(argument)
        assert len(getattr(function, "signatures", [0])) == 1
