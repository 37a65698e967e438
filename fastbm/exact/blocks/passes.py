"""The passes over tables that a sum in three blocks is made of; small ones: `fastbm.kernels.exact.small_blocks`.

BLAS works a tile at a time, each weighed while it is in the cache. Tiles are cut by the size of the tables alone and
done by one thread of BLAS each, so that the bits do not depend on how many threads there are; they do on the build of
BLAS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._base.arrays import empty
from ..._base.halting import Halt, stop_if_asked
from ..._base.threads import fan_out
from ...kernels.exact.blocks import covary, fill_table, weigh

TILE = 10  # a tile is up to 2^10 x 2^10: 8 MB, and a tenth of a second between two looks for a stop
FILL_ROWS = 64

Form = tuple[np.ndarray, np.ndarray, np.ndarray, int]
Tilted = tuple[Form, float, float]  # by so much, about a height


class Weighed(NamedTuple):
    """Joint weights of two blocks, summed by row and by column as `weigh` does."""

    by_row: np.ndarray
    by_col: np.ndarray

    @classmethod
    def empty(cls, n_rows: int, n_cols: int) -> Weighed:
        """Return sums of nothing, over tables or tiles of 2^k columns."""
        return cls(np.zeros((n_rows, n_cols.bit_length())), np.zeros((3, n_cols)))

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.by_col[0].sum())

    @property
    def spread(self) -> tuple[float, float]:
        """Mean and variance of the table's height."""
        total, first, second = self.by_col.sum(axis=1).tolist()
        mean = first / total
        return mean, max(second / total - mean**2, 0.0)


class Passes:
    """Passes over tables, products of which are weighed and not kept.

    They go over tiles by BLAS, on threads; to be used where BLAS is held to one thread.
    """

    def __init__(self, threads: int, halt: Halt) -> None:
        self._threads, self._halt = threads, halt

    def tables(self, tilted: Sequence[Tilted], beta: float) -> list[np.ndarray]:
        """Return the exponentials of forms, as `fill_table` writes them, some rows a thread."""
        tables = [empty((form[0].size, form[1].size), np.float64) for form, _, _ in tilted]

        def fill(place: tuple[int, int]) -> None:
            k, first = place
            form, tilt, centre = tilted[k]
            fill_table(form, beta, tilt, centre, tables[k][first : first + FILL_ROWS], first)

        self._each(fill, [(k, first) for k, table in enumerate(tables) for first in range(0, len(table), FILL_ROWS)])
        return tables

    def product(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return left @ right, computed tile by tile."""
        product = empty((len(left), right.shape[1]), np.float64)

        def multiply(place: tuple[slice, slice]) -> None:
            rows, cols = place
            product[rows, cols] = left[rows] @ right[:, cols]

        self._each(multiply, tiles(product))
        return product

    def total(self, left: np.ndarray, right: np.ndarray, table: np.ndarray) -> float:
        """Return the sum of (left @ right) * table, tile by tile."""

        def add(place: tuple[slice, slice]) -> float:
            rows, cols = place
            return float(np.einsum("ij,ij->", _multiplied(left[rows], right[:, cols]), table[rows, cols]))

        return sum(self._each(add, tiles(table)))

    def weigh(self, products: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, Form]]) -> list[Weighed]:
        """Return the joint weights (left @ right) * table of each (left, right, table, form), tile by tile.

        They are summed by row and by column.
        """

        def add(item: tuple[int, tuple[slice, slice]]) -> Weighed:
            k, (rows, cols) = item
            left, right, table, form = products[k]
            found = Weighed.empty(rows.stop - rows.start, cols.stop - cols.start)
            weigh(_multiplied(left[rows], right[:, cols]), table[rows, cols], form, (rows.start, cols.start), *found)
            return found

        places = [(k, place) for k, product in enumerate(products) for place in tiles(product[2])]
        found = [Weighed.empty(*product[2].shape) for product in products]
        for (k, (rows, cols)), tile in zip(places, self._each(add, places), strict=True):
            whole, low = found[k], tile.by_row.shape[1] - 1
            n_units = whole.by_row.shape[1] - 1
            up = [unit for unit in range(low, n_units) if cols.start >> unit & 1]
            whole.by_row[rows, :low] += tile.by_row[:, :low]
            whole.by_row[rows, [*up, n_units]] += tile.by_row[:, low:]
            whole.by_col[:, cols] += tile.by_col
        return found

    def covary(self, left: Sequence[np.ndarray], right: Sequence[np.ndarray], table: np.ndarray, form: Form) -> Any:
        """Return the sums that `covary` makes of two products and a table, tile by tile."""

        def add(place: tuple[slice, slice]) -> np.ndarray:
            rows, cols = place
            sums = np.zeros((2, cols.stop - cols.start))
            products = empty((2, rows.stop - rows.start, cols.stop - cols.start), np.float64)
            for a, b, product in zip(left, right, products, strict=True):
                np.matmul(a[rows], b[:, cols], out=product)
            covary(products, table[rows, cols], form, (rows.start, cols.start), sums)
            return sums.sum(axis=1)

        return sum(self._each(add, tiles(table)), np.zeros(2))

    def _each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        def one(item: Any) -> Any:
            stop_if_asked(self._halt)
            return function(item)

        return fan_out(one, items, self._threads)


def _multiplied(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return left @ right in memory that is kept: threads wait for each other where it is new to the process."""
    return np.matmul(left, right, out=empty((len(left), right.shape[1]), np.float64))


def tiles(table: np.ndarray) -> list[tuple[slice, slice]]:
    """Return the tiles of a table, at least two rows of them, so that two threads have work."""
    n_rows, n_cols = table.shape
    height, width = min(1 << TILE, max(n_rows // 2, 1)), min(1 << TILE, n_cols)
    return [
        (slice(r, r + height), slice(c, c + width)) for r in range(0, n_rows, height) for c in range(0, n_cols, width)
    ]
