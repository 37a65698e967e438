"""Rows in a list of files, gone through once, a shard at a time, here or by workers, and read again where they lie.

A shard is so many rows of all files together. It is checked and packed, its units are counted, up and up together, and
it is told from others by the sha256 of its packed rows, that of all by the sha256 of these: how rows lie in files
changes nothing.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._base.workers import Pieces, before_anything
from ..machine.units import BINARY, SPIN, Units
from . import packing
from .counting import count_together, kind_of_counts, rows_of_shard
from .joined import Joined
from .packing import Gathering, spins_beside_zeros
from .rows import Rows, pack
from .sources import Source, as_source, read


def read_in_shards(
    data: Any,
    kind: Units | None,
    argument: str,
    executor: Executor | None,
    *,
    pairs: bool = True,
    size: int | None = None,
) -> tuple[Rows, Units]:
    """Check data as users give them; rows of a list of files that are many, and none of whose entries is missing, stay.

    Parameters
    ----------
    data, kind, argument
        As for `fastbm.data.sources.read`, which reads all others.
    executor : Executor, optional
        Does the shards.
    pairs : bool
        Count how often units are up together.
    size : int, optional
        Rows of a shard, where that is settled.
    """
    data = as_source(data)
    if isinstance(data, Source) and isinstance(data.name, tuple):
        joined = Joined.of(data.name)
        n_rows = data.limit(joined.ends[-1])
        if n_rows * -(-joined.n_units // 8) > packing.KEPT:
            size = rows_of_shard(joined.n_units) if size is None else size
            with before_anything():
                found = _scanned(Scan(data, joined, n_rows, kind, argument, size, pairs), executor)
            if found is not None:
                return found
    return read(data, kind, argument)


@dataclass(frozen=True)
class Scan:
    """What is gone through, and how: all that a worker needs besides the number of its shard."""

    source: Source
    joined: Joined
    n_rows: int
    kind: Units | None
    argument: str
    size: int
    pairs: bool

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return -(-self.n_rows // self.size)


class Shard(NamedTuple):
    """What a shard told of its rows; `together` is None where that was not asked for."""

    n_rows: int
    complete: bool
    spins: bool
    any_down: bool
    digest: bytes
    ups: np.ndarray
    together: np.ndarray | None


def scan_shard(scan: Scan, k: int) -> Shard:
    """Go through one shard."""
    first = k * scan.size
    gathering = Gathering(scan.kind, scan.argument, keep=True, first=first)
    with scan.joined.opened() as table:
        for block in scan.source.blocks_of(table, first, min(first + scan.size, scan.n_rows), scan.n_rows):
            gathering.feed(block)
    if not gathering.n_rows:
        n = scan.joined.n_units
        none = np.zeros((n, n), np.uint32) if scan.pairs else None
        return Shard(0, True, False, False, hashlib.sha256().digest(), np.zeros(n), none)
    rows = gathering.rows()
    if scan.pairs and rows.complete:
        rows.keep_counts(np.diagonal(count_together(rows)), rows.together)
    digest, spins = bytes.fromhex(rows.digest()), gathering.kind == SPIN
    return Shard(len(rows), rows.complete, spins, gathering.any_down, digest, rows.sums(), rows.together)


def _scanned(scan: Scan, executor: Executor | None) -> tuple[Rows, Units] | None:
    """Go through all shards; return None where an entry is missing."""
    pieces = None if executor is None else Pieces(executor, scan_shard, scan, scan.n_shards)
    digest, ends, kind, any_down = hashlib.sha256(), [0], scan.kind, False
    ups = np.zeros(scan.joined.n_units)
    together = np.zeros((scan.joined.n_units,) * 2, kind_of_counts(scan.n_rows)) if scan.pairs else None
    for k in range(scan.n_shards):
        shard = scan_shard(scan, k) if pieces is None else pieces.take()
        if not shard.complete:
            if pieces is not None:
                pieces.cancel()
            return None
        any_down |= shard.any_down
        kind = SPIN if kind is None and shard.spins else kind
        if scan.kind is None and any_down and kind == SPIN:
            raise spins_beside_zeros(scan.argument, k * scan.size)
        digest.update(shard.digest)
        ends.append(ends[-1] + shard.n_rows)
        ups += shard.ups
        if together is not None:
            assert shard.together is not None
            together += shard.together
    if not ends[-1]:
        return None
    rows = Rows(Listed(scan.source, scan.joined, scan.n_rows, scan.size, ends, digest.hexdigest()), scan.joined.n_units)
    rows.keep_counts(ups, together)
    return rows, kind or BINARY


class Listed:
    """A table of rows that lie in files, and are read from there, and packed, whenever they are asked for.

    Attributes
    ----------
    size : int
        Rows of a shard, those that are held out among them.
    """

    def __init__(self, source: Source, joined: Joined, n_rows: int, size: int, ends: list[int], digest: str) -> None:
        self._source, self._joined, self._n_rows, self.size = source, joined, n_rows, size
        self._ends, self._digest = np.array(ends), digest  # of rows that were taken, by shard

    def __len__(self) -> int:
        return int(self._ends[-1])

    def part(self, first: int, last: int) -> np.ndarray:
        """Return rows from `first` to before `last`."""
        return self._packed(np.arange(first, min(last, len(self))))

    def at(self, indices: np.ndarray) -> np.ndarray:
        """Return rows by their numbers."""
        ordered, inverse = np.unique(np.asarray(indices, np.int64), return_inverse=True)
        found: np.ndarray = self._packed(ordered)[inverse]
        return found

    def digest(self) -> str:
        """Return the sha256 of those of the shards, in hex."""
        return self._digest

    def _packed(self, numbers: np.ndarray) -> np.ndarray:
        """Pack rows whose numbers increase."""
        with self._joined.opened() as table:
            return pack(self._source.of_threshold(table.at(self._places(numbers))) == 1)

    def _places(self, numbers: np.ndarray) -> np.ndarray:
        """Return where rows lie among all that are in the files."""
        if not self._source.splits:
            return numbers
        is_held, found = self._source.held_out(self._n_rows), [np.zeros(0, np.int64)]
        shards = np.searchsorted(self._ends, numbers, side="right") - 1
        for k in np.unique(shards):
            first = int(k) * self.size
            taken = is_held(first, min(first + self.size, self._n_rows)) == self._source.held
            found.append(first + np.flatnonzero(taken)[numbers[shards == k] - self._ends[k]])
        return np.concatenate(found)
