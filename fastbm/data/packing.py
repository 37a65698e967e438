"""Blocks of values, as they come from arrays, files and generators, into packed rows: one pass, bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._base import checks
from ..machine.units import BINARY, SPIN, Units
from .rows import NUMBERS, Held, Rows, Table, pack
from .rows_on_disk import Spool

MOST_SHOWN = 40  # letters of what is no table
KEPT = 4 << 20  # bytes of packed rows beyond which rows that need not be in memory go to a temporary file


class Gathering:
    """Packs blocks of values as they are fed.

    Parameters
    ----------
    kind : Units, optional
        The convention; told from the values unless given: spins where there is a -1, else binary units.
    argument : str
        What errors call the data.
    keep : bool
        Hold all rows in memory, however many.
    first : int
        Rows that come before, as errors count them.

    Attributes
    ----------
    n_rows : int
        Rows that were fed.
    any_down : bool
        Whether a value was 0, where the convention was to be told.
    """

    def __init__(self, kind: Units | None, argument: str, *, keep: bool, first: int = 0) -> None:
        self._kind, self._argument = kind, argument
        self._bits, self._known = Growing(keep), Growing(keep)
        self._n_units: int | None = None
        self._first, self.n_rows = first, 0
        self.any_down = self._any_missing = False

    @property
    def _at(self) -> int:
        return self._first + self.n_rows

    def feed(self, block: Any) -> None:
        """Take in some more rows: an array (m, n_units), masked or with NaN where entries are missing."""
        values, missing = _values(self._argument, block, self._at)
        if self._n_units is None:
            self._n_units = values.shape[1]
        if values.shape[1] != self._n_units:
            raise ValueError(
                f"{self._argument} must have {self._n_units} units in every block; got {values.shape[1]} in the block "
                f"from row {self._at} on."
            )
        for first in range(0, len(values), step := max(NUMBERS // self._n_units, 1)):
            some = slice(first, first + step)
            self._pack(values[some], None if missing is None else missing[some])

    def _pack(self, values: np.ndarray, missing: np.ndarray | None) -> None:
        kind = self._units_of(values, missing)
        whole = values if missing is None else np.where(missing, kind.lo, values)
        name = self._argument if not self._at else f"{self._argument} from row {self._at} on"
        up = kind.bits(name, whole)
        if missing is not None and not self._any_missing:
            self._any_missing = True
            self._known.append_ones(self.n_rows, values.shape[1])
        self._bits.append(pack(up))
        if self._any_missing:
            self._known.append(pack(np.ones(up.shape, np.uint8) if missing is None else ~missing))
        self.n_rows += len(up)

    def _units_of(self, values: np.ndarray, missing: np.ndarray | None) -> Units:
        """Return the convention, as far as values so far show it; rows whose units are all up are the same in both."""
        if self._kind is not None:
            return self._kind
        has_minus = values.dtype.kind in "if" and bool(((values == -1) & (True if missing is None else ~missing)).any())
        if has_minus:
            if self.any_down:
                raise spins_beside_zeros(self._argument, self._at)
            self._kind = SPIN
            return SPIN
        self.any_down = self.any_down or bool(((values == 0) & (True if missing is None else ~missing)).any())
        return BINARY

    def rows(self) -> Rows:
        """Return what was fed, packed."""
        if not self.n_rows:
            raise ValueError(f"{self._argument} is empty: no rows came. At least one is needed.")
        assert self._n_units is not None
        return Rows(self._bits.table(), self._n_units, self._known.table() if self._any_missing else None)

    @property
    def kind(self) -> Units:
        """The convention of the values."""
        return self._kind or BINARY


def spins_beside_zeros(argument: str, row: int) -> ValueError:
    """Return the error of values of both conventions, told after `row`."""
    return ValueError(
        f"{argument} must be -1 or 1 (spin units), or 0 or 1 (binary units); got both -1 and 0, the first -1 after row "
        f"{row}. Convert one into the other."
    )


def gather(blocks: Iterable[Any], kind: Units | None, argument: str, *, keep: bool) -> tuple[Rows, Units]:
    """Pack all blocks; parameters as for `Gathering`."""
    gathering = Gathering(kind, argument, keep=keep)
    for block in blocks:
        gathering.feed(block)
    return gathering.rows(), gathering.kind


class Growing:
    """Packed rows: in memory at first, in a temporary file when they are many, unless `keep` holds them there."""

    def __init__(self, keep: bool) -> None:
        self._keep, self._n_bytes = keep, 0
        self._parts: list[np.ndarray] = []
        self._spool: Spool | None = None

    def append(self, packed: np.ndarray) -> None:
        """Append packed rows; when they get many they move to a temporary file."""
        self._n_bytes += packed.nbytes
        if self._spool is not None:
            self._spool.append(packed)
            return
        self._parts.append(packed)
        if self._n_bytes > KEPT and not self._keep:
            self._spool = Spool(packed.shape[1])
            for part in self._parts:
                self._spool.append(part)
            self._parts = []

    def append_ones(self, n_rows: int, n_units: int) -> None:
        """Append rows of ones, for what came before the first missing entry."""
        step = max(NUMBERS // n_units, 1)
        for first in range(0, n_rows, step):
            self.append(pack(np.ones((min(step, n_rows - first), n_units), np.uint8)))

    def table(self) -> Table:
        """Return all rows as a table, in memory or on disk."""
        if self._spool is not None:
            self._spool.close()
            return self._spool
        return Held(np.concatenate(self._parts) if len(self._parts) != 1 else self._parts[0])


def _values(argument: str, block: Any, first: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a block as a table of values, and where entries are missing, if any are."""
    masked = isinstance(block, np.ma.MaskedArray)
    values = block.data if masked else checks.any_array(argument, block)
    if not values.ndim:
        raise TypeError(
            f"{argument} must be rows: an array of shape (n_rows, n_units), a table, or the name of a dataset; got "
            f"{str(values)[:MOST_SHOWN]} ({type(values.item()).__name__})."
        )
    if values.ndim != 2:
        raise ValueError(f"{argument} must have shape (n_rows, n_units); got {values.shape}.")
    if not values.shape[1] or not len(values):
        raise ValueError(f"{argument} is empty: shape {values.shape}. At least one row and one unit are needed.")
    if values.dtype.kind not in "biuf":
        raise TypeError(
            f"{argument} must be numbers, 0 or 1, or -1 or 1; got dtype {values.dtype}. Convert it, for instance to "
            "float with NaN where entries are missing."
        )
    missing = np.ma.getmaskarray(block) if masked else None
    if values.dtype.kind == "f":
        if (infinite := np.isinf(values)).any():
            row, column = (int(k) for k in np.argwhere(infinite)[0])
            raise ValueError(
                f"{argument} must be finite; got {values[row, column]} in row {first + row}, unit {column}."
            )
        nan = np.isnan(values)
        missing = nan if missing is None else missing | nan
    return values, missing if missing is not None and missing.any() else None
