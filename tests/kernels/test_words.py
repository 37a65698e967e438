"""Chains in the bits of words: to rows and back, and their energies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastbm._base import arrays
from fastbm.kernels.sampling.record_sparse import room_of_samples
from fastbm.kernels.squares import pick_rows, turn_squares, write_octets, write_rows as write_rows_of_squares
from fastbm.kernels.words import energies_words, room_for_rows, write_rows, write_short_rows
from tests.twins import reference, sampling as slow

ALL = 0xFFFFFFFF


@settings(derandomize=True, max_examples=20, deadline=None)
@given(
    st.one_of(st.integers(1, 300), st.sampled_from([512, 1000])),
    st.sampled_from([(4, 64), (4, 128), (16, 1), (16, 33), (16, 448), (16, 512)]),
    st.integers(0, 99),
)
def test_chains_are_packed(n: int, shape: tuple[int, int], seed: int) -> None:
    n_words, n_chains = shape
    bits = np.random.default_rng(seed).integers(0, 2, (n_chains, n), dtype=np.uint8)
    padded = np.zeros((32 * n_words, n), int)
    padded[:n_chains] = bits
    up = np.array(slow.words_of(padded), np.uint32)
    for kind, past_caches, whole in (
        (np.uint8, True, 1),
        (np.uint8, False, 1),
        (np.uint32, False, 1),
        (np.uint32, False, 4),
    ):
        width = 8 * np.dtype(kind).itemsize
        more = -(-n // width) % whole and whole - -(-n // width) % whole  # words, so that squares are whole
        rows = arrays.empty((n_chains + 1, -(-n // width) + more), kind)
        rows[:] = ALL & (2**width - 1)
        write_rows(up, rows[:-1], past_caches, room_for_rows())
        assert rows[:-1].tolist() == [[*reference.pack_words(row, width), *more * [0]] for row in bits]
        assert (rows[-1] == ALL & (2**width - 1)).all()  # nothing is written beyond


@settings(derandomize=True, max_examples=20, deadline=None)
@given(st.integers(1, 64), st.integers(1, 9), st.integers(0, 2), st.integers(0, 99))
def test_few_units_of_some_states_are_packed(n: int, n_states: int, apart: int, seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 2, (n_states, 128, n), dtype=np.uint8)
    ups = np.full((n_states, n + 1, 4), ALL, np.uint32)
    ups[:, :-1] = [slow.words_of(one.astype(int)) for one in bits]
    n_bytes = -(-n // 8)
    rows, room = np.full((128 * n_states, n_bytes + apart), 0xFF, np.uint8), room_for_rows()
    parts = ups.ctypes.data, ups.strides[0], ups.strides[1], n, n_states
    for _ in range(2):  # in room that was used
        write_short_rows(parts, room, rows.ctypes.data, rows.strides[0], n_bytes, len(rows) - 1)
    expected = [reference.pack_words(row, 8) for row in bits.reshape(-1, n)[:-1]]
    assert rows[:-1, :n_bytes].tolist() == expected
    assert (rows[-1] == 0xFF).all() and (rows[:, n_bytes:] == 0xFF).all()  # nothing is written beyond


@settings(derandomize=True, max_examples=30, deadline=None)
@given(st.integers(1, 300), st.integers(1, 3), st.sampled_from([1, 40, 128]), st.integers(0, 99))
def test_samples_are_turned_to_units_and_back(n: int, n_chains: int, n_samples: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    bits, places = chance.integers(0, 2, (n_samples, n * n_chains), dtype=np.uint8), chance.permutation(n) * n_chains
    kept, turned, states, back, turned_back, *_ = room_of_samples(1, n * n_chains, n, None)
    words = states[0, :n]
    kept[:] = chance.integers(0, 2**32, kept.shape, dtype=np.uint32)  # what was before
    for row, octets in enumerate(bits):
        write_octets(octets, row, kept[0])
    turn_squares(kept[0], turned)
    for c in range(n_chains):
        pick_rows(turned, places, c, words)
        own = bits[:, places + c]
        padded = np.zeros((128, n), int)
        padded[:n_samples] = own
        told = 32 * np.arange(4) < n_samples
        mask = np.array([(1 << max(0, min(32, n_samples - 32 * g))) - 1 for g in range(4)], np.uint32)
        assert np.array_equal(words[:, told] & mask[told], np.array(slow.words_of(padded), np.uint32)[:, told])
        turn_squares(back, turned_back)
        rows = np.empty((n_samples, -(-n // 8)), np.uint8)
        write_rows_of_squares(turned_back, rows)
        assert rows.tolist() == [reference.pack_words(row, 8) for row in own]


@pytest.mark.parametrize("conjunction", [False, True])
def test_energies_are_sums_over_edges(conjunction: bool) -> None:
    chance = np.random.default_rng(1)
    up = chance.integers(0, 2**32, (8, 4), dtype=np.uint32)
    up[7] = 0
    edges = np.array([(0, 1), (2, 6), (1, 5), (0, 6)], np.int32)
    ends = np.array([(3, 7), (6, 7)], np.int32)
    weights, bias = chance.normal(size=4), chance.normal(size=2)
    energies = np.full(128, 0.5)
    energies_words(up, edges, weights, ends, bias, conjunction, energies)
    for chain in range(128):
        bit = [int(word) >> chain % 32 & 1 for word in up[:, chain // 32]]
        expected = 0.5
        for (i, j), weight in zip(edges.tolist(), weights.tolist(), strict=True):
            expected += weight * (bit[i] * bit[j] if conjunction else bit[i] ^ bit[j])
        for (i, _), weight in zip(ends.tolist(), bias.tolist(), strict=True):
            expected += weight * bit[i]
        assert energies[chain] == expected  # one after the other, in order
