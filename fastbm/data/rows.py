"""Rows of data, eight units a byte, in memory or in a file: what of them is asked for is unpacked then.

`rows[first:last]` and `rows[indices]` are bits, (m, n_units) uint8, as they would be of an array of bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

NUMBERS = 1 << 22  # bits that are unpacked at a time where all rows are gone through
TURNED = 1 << 15  # bits, a byte each, that are turned together


class Table(Protocol):
    """Packed rows, (n_rows, n_bytes) uint8, of which some are read at a time."""

    def __len__(self) -> int: ...

    def part(self, first: int, last: int) -> np.ndarray:
        """Return rows from `first` to before `last`."""

    def at(self, indices: np.ndarray) -> np.ndarray:
        """Return rows by their numbers."""

    def digest(self) -> str:
        """Return the sha256 of all bytes, in hex."""


class Held:
    """A table in memory."""

    def __init__(self, packed: np.ndarray) -> None:
        self._packed = np.ascontiguousarray(packed)

    def __len__(self) -> int:
        return len(self._packed)

    def part(self, first: int, last: int) -> np.ndarray:
        """Return rows from `first` to before `last`."""
        return self._packed[first:last]

    def at(self, indices: np.ndarray) -> np.ndarray:
        """Return rows by their numbers."""
        return self._packed[indices]

    def digest(self) -> str:
        """Return the sha256 of all bytes, in hex."""
        return hashlib.sha256(self._packed.data).hexdigest()


class Rows:
    """Bits of data, and which of them are known.

    Parameters
    ----------
    table : Table
        The bits, unit 0 in the lowest; of entries that are missing they are 0.
    n_units : int
    known : Table, optional
        1 where an entry is known; all are unless given.
    """

    def __init__(self, table: Table, n_units: int, known: Table | None = None) -> None:
        self.table, self.n_units, self._known = table, n_units, known
        self._sums: np.ndarray | None = None  # without weights, once they were asked for
        self.together: np.ndarray | None = None  # how often units are up together, once it was counted

    @classmethod
    def of(cls, up: np.ndarray | Rows, known: np.ndarray | None = None) -> Rows:
        """Pack bits (m, n_units); rows are returned as they are."""
        if isinstance(up, Rows):
            return up
        return cls(Held(pack(up)), up.shape[1], None if known is None else Held(pack(known)))

    @classmethod
    def of_packed(cls, packed: np.ndarray, n_units: int, known: np.ndarray | None = None) -> Rows:
        """Take rows that are packed already."""
        return cls(Held(packed), n_units, None if known is None else Held(known))

    def __len__(self) -> int:
        return len(self.table)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_units)."""
        return len(self), self.n_units

    @property
    def complete(self) -> bool:
        """Whether no entry is missing."""
        return self._known is None

    def __getitem__(self, which: slice | np.ndarray) -> np.ndarray:
        return unpack(self._packed(self.table, which), self.n_units)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        bits = self[:]
        return bits if dtype is None else bits.astype(dtype)

    def known(self, which: slice | np.ndarray) -> np.ndarray:
        """Return 1 where an entry is known, (m, n_units) uint8."""
        if self._known is None:
            n_rows = len(range(*which.indices(len(self)))) if isinstance(which, slice) else len(which)
            return np.ones((n_rows, self.n_units), np.uint8)
        return unpack(self._packed(self._known, which), self.n_units)

    def packed(self, which: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return bits as they are kept, (m, ceil(n_units / 8)) uint8."""
        return self._packed(self.table, which)

    def packed_known(self, which: slice | np.ndarray = slice(None)) -> np.ndarray | None:
        """Return which entries are known, packed; None where all are."""
        return None if self._known is None else self._packed(self._known, which)

    def _packed(self, table: Table, which: slice | np.ndarray) -> np.ndarray:
        if isinstance(which, slice):
            first, last, step = which.indices(len(self))
            return table.part(first, last)[::step]
        which = np.asarray(which)
        return table.at(np.flatnonzero(which) if which.dtype == bool else which)

    def blocks(self, numbers: int | None = None, first: int = 0, last: int | None = None) -> Iterator[slice]:
        """Yield slices that cover all rows, of at most so many numbers each (at least one row).

        Or those from `first` to before `last`.
        """
        step, end = max((numbers or NUMBERS) // self.n_units, 1), len(self) if last is None else last
        for begin in range(first, end, step):
            yield slice(begin, min(begin + step, end))

    def keep_counts(self, ups: np.ndarray, together: np.ndarray | None) -> None:
        """Keep in how many rows each unit is up, and two units are, which was counted elsewhere."""
        self._sums, self.together = ups, together

    def sums(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Count in how many rows each unit is up, or the weight of these rows; missing entries count as down."""
        if weights is None and self._sums is not None:
            return self._sums.copy()
        if weights is None and self.together is not None:
            return np.diagonal(self.together).astype(np.float64)
        total = np.zeros(self.n_units)
        for some in self.blocks():
            bits = self[some]
            total += bits.sum(axis=0, dtype=np.int64) if weights is None else weights[some] @ bits
        if weights is None:
            self._sums = total.copy()
        return total

    def known_counts(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Count in how many rows each unit is known, or the weight of these rows."""
        if self.complete:
            return np.full(self.n_units, float(len(self) if weights is None else weights.sum()))
        total = np.zeros(self.n_units)
        for some in self.blocks():
            known = self.known(some)
            total += known.sum(axis=0, dtype=np.int64) if weights is None else weights[some] @ known
        return total

    def digest(self) -> str:
        """Return what tells these rows from others: the sha256 of the bits, and of which are known."""
        return self.table.digest() + ("" if self._known is None else self._known.digest())

    @property
    def in_memory(self) -> bool:
        """Whether the bits are held in memory."""
        return isinstance(self.table, Held)

    def chosen(self, indices: np.ndarray) -> Rows:
        """Return some of the rows, in memory."""
        known = None if self._known is None else self._known.at(indices)
        return Rows.of_packed(self.table.at(indices), self.n_units, known)

    def of_weight(self, weights: np.ndarray | None) -> tuple[Rows, np.ndarray | None]:
        """Return the rows whose weight is above 0, in memory where these are not all, and their weights."""
        if weights is None or weights.all():
            return self, weights
        seen = np.flatnonzero(weights)
        return self.chosen(seen), weights[seen]


def pack(up: np.ndarray) -> np.ndarray:
    """Pack bits, eight units a byte, unit 0 in the lowest."""
    return np.packbits(up, axis=1, bitorder="little")


def unpack(packed: np.ndarray, n_units: int) -> np.ndarray:
    """Unpack what `pack` returned."""
    return np.unpackbits(packed, axis=1, count=n_units, bitorder="little")


def pack_rows(up: np.ndarray) -> np.ndarray:
    """Pack bits (m, n_units) into words (n_units, ceil(m / 64)) uint64, with zeros beyond m."""
    m, n_units = up.shape
    padded, size = np.zeros((n_units, -(-m // 64) * 8), np.uint8), max(64, TURNED // max(n_units, 1) // 64 * 64)
    for k in range(0, m, size):  # as many rows as the first cache holds: columns of more are far apart
        some = np.packbits(np.ascontiguousarray(up[k : k + size].T), axis=1, bitorder="little")
        padded[:, k // 8 : k // 8 + some.shape[1]] = some
    return padded.view(np.uint64)
