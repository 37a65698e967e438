"""Chains in the bits of words: what multi-spin kernels share."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from ..._base import arrays
from ...kernels.words import room_for_rows, write_rows
from .engine import Engine

WHOLE = 128  # units, of which `pack_words` makes whole squares


class Unfit(ValueError):
    """Raised for a machine or for chains that a kernel cannot take; the text says why."""


def check_words(beta: np.ndarray, first_chain: int, size: int) -> None:
    """Check that chains begin with a word of `size` chains, and that each word has one temperature.

    Raises
    ------
    Unfit
    """
    if first_chain % size:
        raise Unfit(f"chains come in words of {size}; first_chain is {first_chain}")
    if (beta != beta[::size].repeat(size)[: len(beta)]).any():
        raise Unfit(f"every {size} consecutive chains must have one beta")


def whole_words(n_chains: int, size: int) -> int:
    """Return the chains of all words that so many chains have a part of."""
    return -(-n_chains // size) * size


class Kept(NamedTuple):
    """Samples that were taken among rounds of tempering, a row of each: what lanes and ladders had.

    Attributes
    ----------
    states : (n_samples, blocks, n_units + 1, words) uint32 array
    energies : (n_samples, lanes) array
    counts : (n_samples, 2, n_betas - 1) int64 array
    trips : (n_samples, n_ladders) int64 array
    """

    states: np.ndarray
    energies: np.ndarray
    counts: np.ndarray
    trips: np.ndarray


class WordChains(Engine):
    """Chains of which a block is `n_words` words of 32; chain c of a block is bit c % 32 of word c // 32.

    Chains beyond those asked for fill up the last word, and are chains like the others, as those of a word may share
    what is drawn: the path of a chain does not depend on how many there are, but, where starts are given, that of
    chains of the last word on the last of these, which fills it up.
    """

    word_chains: ClassVar[int]  # by which chains are run together or apart, and given temperatures
    n_words: ClassVar[int]
    stream_chains: ClassVar[int]  # chains that share a stream
    _stream_groups: ClassVar[int] = 1  # parts of a block whose streams lie together, (4, streams) each
    _spare: ClassVar[int] = 0  # rows of words beyond those of the units

    def _block_size(self, n_chains: int, n_units: int, threads: int) -> int:
        return 32 * self.n_words

    def _lanes(self) -> int:
        return 32 * self.n_words

    def _allocate(self) -> None:
        self.up = [arrays.zeros((self.n_units + self._spare, self.n_words), np.uint32) for _ in self.blocks]
        size = 32 * self.n_words // self.stream_chains
        self.lane_streams = [arrays.zeros((4 * size,), np.uint32) for _ in self.blocks]

    def _load(self, up: np.ndarray, streams: np.ndarray) -> None:
        for k, stream in enumerate(self.lane_streams):
            whole = np.ones((len(stream) // 4, 4), np.uint32)  # the state 0 would stay 0
            rows = streams[k * len(whole) : (k + 1) * len(whole)]
            whole[: len(rows)] = rows
            groups = whole.reshape(self._stream_groups, -1, 4)
            stream[:] = groups.transpose(0, 2, 1).ravel()
        self._set_bits(up, whole=True)

    def _set_bits(self, up: np.ndarray, *, whole: bool = False) -> None:
        size = self._lanes()
        self._for_blocks(lambda k: self._load_block(k, up[k * size : (k + 1) * size]), 1, whole=whole)
        self._forget()

    def _load_block(self, k: int, up: np.ndarray) -> None:
        rows = np.zeros((32 * self.n_words, -(-self.n_units // WHOLE) * WHOLE // 8), np.uint8)
        rows[: len(up), : -(-self.n_units // 8)] = np.packbits(up, axis=1, bitorder="little")
        words = self.up[k][: self.n_units].view(np.uint8)
        write_rows(rows.view(np.uint32), words, False, room_for_rows())  # which is its own inverse

    def _stream_rows(self) -> np.ndarray:
        found = []
        for k, stream in enumerate(self.lane_streams):
            rows = stream.reshape(self._stream_groups, 4, -1).transpose(0, 2, 1).reshape(-1, 4)
            found.append(rows[: self._in_words(k) // self.stream_chains])
        return np.concatenate(found)

    def _in_words(self, k: int) -> int:
        """Return the number of chains of block `k`, those included that fill up its last word."""
        return whole_words(self.lanes.used(k), self.word_chains)

    def _pack_state(self) -> np.ndarray:
        packed = np.empty((whole_words(self.n_chains, self.word_chains), -(-self.n_units // 8)), np.uint8)

        def pack(k: int) -> None:
            first = self.blocks[k].start
            self._pack_block(k, packed[first : first + self._in_words(k)])

        self._for_blocks(pack, 1, whole=True)
        return packed

    def _pack_block(self, k: int, packed: np.ndarray) -> None:
        self._write_rows(k, packed)

    def _write_rows(self, k: int, rows: np.ndarray) -> None:
        write_rows(self.up[k][: self.n_units], rows, False, room_for_rows())

    def words(self, k: int) -> np.ndarray:
        """Return the bits of block `k`, 64 chains a word: they are stored so, and are no copy where all are used."""
        halves, used = self.up[k][: self.n_units], self.lanes.used(k)
        if used < 32 * self.n_words:
            halves = halves & bits_of_lanes(np.ones(used, np.bool_), self.n_words)
        return np.ascontiguousarray(halves.view("<u8")[:, : -(-used // 64)])

    def gather(self, index: np.ndarray) -> None:
        """Give chain c the state of chain index[c]; streams and temperatures stay."""
        rows, size = self._whole_rows(), self._lanes()
        index = np.concatenate([index, np.arange(self.n_chains, len(rows))])
        self._for_blocks(lambda k: self._write_rows(k, rows[k * size : (k + 1) * size]), 1)
        self._for_blocks(lambda k: self._read_rows(k, rows[index[k * size : (k + 1) * size]]), 1)
        self._forget()

    def _whole_rows(self) -> np.ndarray:
        """Return room for the bits of all chains, a row of whole squares of words each."""
        n_rows = whole_words(self.n_chains, self.word_chains)
        return np.zeros((n_rows, -(-self.n_units // WHOLE) * WHOLE // 32), np.uint32)

    def _read_rows(self, k: int, rows: np.ndarray) -> None:
        """Set the bits of block `k` from a row for each of its chains."""
        words = np.empty((32 * rows.shape[1], len(rows) // 32), np.uint32)
        write_rows(rows, words, False, room_for_rows())  # which is its own inverse
        self.up[k][: self.n_units, : words.shape[1]] = words[: self.n_units]

    def bits(self) -> np.ndarray:
        """Return the bits of all chains, (n_chains, n_units) uint8."""
        return np.unpackbits(self.packed(), axis=1, count=self.n_units, bitorder="little")

    @property
    def sweep_seconds(self) -> float:
        """About how many seconds a sweep of all chains takes."""
        n_blocks = len(self.blocks)
        return float(self.attempt_seconds * self.n_units * self._lanes() * n_blocks / min(self.threads, n_blocks))


def bits_of_lanes(chains: np.ndarray, n_words: int) -> np.ndarray:
    """Return words that have a one for some chains, which are (n,) bool; lanes beyond them have none."""
    lanes = np.zeros(32 * n_words, np.bool_)
    lanes[: len(chains)] = chains
    return np.packbits(lanes, bitorder="little").view("<u4")


def exchanged(sums: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Return sums of lanes (..., lanes), level by level, after swaps: `marks` (..., n_betas - 1, words of ladders)."""
    swapped = np.unpackbits(marks.astype("<u4", copy=False).view(np.uint8), axis=-1, bitorder="little").view(np.bool_)
    n_betas, n_ladders = swapped.shape[-2] + 1, swapped.shape[-1]
    before = sums[..., : n_betas * n_ladders].reshape(*sums.shape[:-1], n_betas, n_ladders)
    after = before.copy()
    np.copyto(after[..., :-1, :], before[..., 1:, :], where=swapped)
    np.copyto(after[..., 1:, :], before[..., :-1, :], where=swapped)
    return after.reshape(*sums.shape[:-1], n_betas * n_ladders)


def in_bytes(table: np.ndarray) -> np.ndarray:
    """Return tables with low and high bytes apart, 16 of the one, then 16 of the other."""
    sixteens = table.reshape(*table.shape[:2], -1, 16)
    low, high = (sixteens & 255).astype(np.uint8), (sixteens >> 8).astype(np.uint8)
    both = np.stack([low, high], axis=3).reshape(*table.shape[:2], -1)
    return np.ascontiguousarray(both).view(np.uint16)
