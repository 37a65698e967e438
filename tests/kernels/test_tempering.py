"""Swaps of temperatures, and round trips between the ends of ladders, against their twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from fastbm._base import rng
from fastbm.kernels.sampling.tempering import count_round_trips, swap_neighbours
from tests.twins import reference, schedules as twins


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(2, 7), st.integers(0, 1))
def test_swaps_are_those_of_the_twin(seed: int, n_ladders: int, n_betas: int, parity: int) -> None:
    generator = np.random.default_rng(seed)
    level = np.array([generator.permutation(n_betas) for _ in range(n_ladders)])
    energies, betas = generator.normal(size=(n_ladders, n_betas)), np.sort(generator.random(n_betas))
    streams, counts = rng.streams(seed, n_ladders), np.zeros((2, n_betas - 1), np.int64)
    words = [reference.xoshiro(row) for row in streams.tolist()]
    for _ in range(5):
        found = [
            twins.swap(row, word, betas, energy, parity)
            for row, word, energy in zip(level.tolist(), words, energies, strict=True)
        ]
        before = counts.copy()
        n_swaps = swap_neighbours(level, streams, counts, betas, energies, parity)
        assert level.tolist() == [row for row, _, _ in found]
        for kind in (1, 2):
            pairs = [k for entry in found for k in entry[kind]]
            expected = np.bincount(np.array(pairs, int), minlength=n_betas - 1)
            assert np.array_equal((counts - before)[kind - 1], expected)
        assert n_swaps == (counts - before)[1].sum()


def test_swaps_happen_as_often_as_detailed_balance_asks() -> None:
    """40000 tries of each of 12 pairs, within 5 standard deviations: a false alarm once in 10^5 changes."""
    generator, n = np.random.default_rng(0), 40_000
    streams = generator.integers(1, 2**32, (n, 4), dtype=np.uint32)
    for _ in range(12):
        betas, energies = np.sort(generator.random(2) * 2), generator.normal(size=2)
        level, counts = np.tile([0, 1], (n, 1)), np.zeros((2, 1), np.int64)
        swap_neighbours(level, streams, counts, betas, np.tile(energies, (n, 1)), 0)
        p = twins.swap_probability(*betas, *energies)
        assert counts[0, 0] == n
        assert abs(counts[1, 0] - n * p) <= 5 * np.sqrt(n * p * (1 - p))


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 4), st.integers(0, 2**31), st.integers(1, 60))
def test_round_trips_are_those_of_the_twin(n_betas: int, seed: int, n_steps: int) -> None:
    generator = np.random.default_rng(seed)
    paths = np.array([[generator.permutation(n_betas) for _ in range(3)] for _ in range(n_steps)])
    end, trips = np.zeros((3, n_betas), np.uint8), np.zeros(3, np.int64)
    for level in paths:
        count_round_trips(end, trips, level)
    for c in range(3):
        assert trips[c] == sum(twins.round_trips(paths[:, c, r].tolist(), n_betas) for r in range(n_betas))


def test_round_trips_of_a_trajectory_made_by_hand() -> None:
    """Replicas that begin elsewhere must come to the target first."""
    path = [
        ([2, 1, 0], 0), ([1, 2, 0], 0), ([0, 2, 1], 0), ([1, 2, 0], 0),
        ([2, 1, 0], 1),  # replica 0 was at the hottest and is back
        ([2, 0, 1], 1),
        ([1, 0, 2], 1),  # replica 2 is at the target for the first time
        ([0, 1, 2], 1),
        ([0, 2, 1], 2),  # replica 1
        ([1, 2, 0], 2),
        ([2, 1, 0], 3),  # replica 0 again
        ([1, 0, 2], 4),  # replica 2
        ([0, 1, 2], 4),
    ]  # fmt: skip
    end, trips = np.zeros((1, 3), np.uint8), np.zeros(1, np.int64)
    for level, expected in path:
        count_round_trips(end, trips, np.array([level]))
        assert trips[0] == expected, level
