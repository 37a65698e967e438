"""Tables in files, one after the other as one table of which rows are read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from . import datasets

GAP = 1 << 12  # rows between two that are asked for, from which on those between are not read


@contextmanager
def opened_table(name: str, side: int | None = None) -> Iterator[Any]:
    """Give an array or a dataset of an open file, checked to be a table of numbers."""
    with datasets.opened(name, side) as table:
        if table.shape is None or len(table.shape) != 2:
            raise ValueError(f"{name} must have shape (n_rows, n_units); got {table.shape}.")
        if table.dtype.kind not in "biuf":
            raise TypeError(f"{name} must hold numbers; got dtype {table.dtype}.")
        yield table


@dataclass(frozen=True)
class Joined:
    """Where the tables are, and how many rows each has.

    Attributes
    ----------
    names : tuple of str
        Of the tables, as `fastbm.data.load` takes them.
    ends : tuple of int
        Rows up to the end of each.
    n_units : int
    """

    names: tuple[str, ...]
    ends: tuple[int, ...]
    n_units: int

    @classmethod
    def of(cls, names: tuple[str, ...]) -> Joined:
        """Look at every table; refuse those that do not fit together."""
        ends: list[int] = []
        widths: list[int] = []
        for name in names:
            with opened_table(name) as table:
                ends.append((ends[-1] if ends else 0) + len(table))
                widths.append(table.shape[1])
            if widths[-1] != widths[0]:
                raise ValueError(f"{name} must have {widths[0]} units, as {names[0]} has; got {widths[-1]}.")
        return cls(names, tuple(ends), widths[0])

    @contextmanager
    def opened(self) -> Iterator[Reading]:
        """Give what rows are read from; one file is open at a time."""
        with ExitStack() as stack:
            yield Reading(self, stack)


class Reading:
    """Joined tables, of which rows are read as of an array."""

    def __init__(self, joined: Joined, stack: ExitStack) -> None:
        self._joined, self._stack = joined, stack
        self._open: tuple[int, Any] = (-1, None)
        self.shape = len(self), joined.n_units

    def __len__(self) -> int:
        return self._joined.ends[-1]

    def __getitem__(self, which: slice) -> np.ndarray:
        first, last, _ = which.indices(len(self))
        found = []
        while first < last:
            k = bisect_right(self._joined.ends, first)
            begin, end = (0, *self._joined.ends)[k : k + 2]
            found.append(np.asarray(self._table(k)[first - begin : min(last, end) - begin]))
            first = end
        if not found:
            return np.zeros((0, self._joined.n_units), np.uint8)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return rows by their numbers, which increase."""
        cuts = [0, *(np.flatnonzero(np.diff(places) > GAP) + 1).tolist(), len(places)]
        runs = [places[a:b] for a, b in pairwise(cuts) if a < b]
        found = [self[int(run[0]) : int(run[-1]) + 1][run - run[0]] for run in runs]
        return np.concatenate(found) if found else self[0:0]

    def _table(self, k: int) -> Any:
        if self._open[0] != k:
            self._stack.close()
            self._open = k, self._stack.enter_context(opened_table(self._joined.names[k]))
        return self._open[1]
