"""Data that `fit` may be given: arrays, packed arrays, generators of blocks, and names of what lies in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._base import checks, files
from ..machine.units import BINARY, SPIN, Units, units as convention
from . import datasets
from .joined import Joined, opened_table
from .packing import gather
from .rows import NUMBERS, Rows

HDF5 = (".h5", ".hdf5", ".mat")


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows of bits that are packed already.

    Attributes
    ----------
    bits : (n_rows, ceil(n_units / 8)) uint8 array
        Eight units a byte, unit 0 in the lowest bit (`np.packbits(..., axis=1, bitorder="little")`).
    n_units : int
    units : {"binary", "spin"}
        Of the machine that is to be learned.
    """

    bits: np.ndarray
    n_units: int
    units: str = "binary"

    def check(self, argument: str) -> Rows:
        """Check the rows, and return them."""
        n_units = checks.whole(f"{argument}.n_units", self.n_units, least=1)
        bits = checks.any_array(argument, self.bits)
        if bits.dtype != np.uint8 or bits.ndim != 2 or not len(bits) or bits.shape[1] != -(-n_units // 8):
            raise ValueError(
                f"{argument} must have packed bits (n_rows, {-(-n_units // 8)}) uint8 for {n_units} units; got shape "
                f"{bits.shape}, {bits.dtype}. Pack them by np.packbits(up, axis=1, bitorder='little')."
            )
        if n_units % 8 and (bits[:, -1] >> (n_units % 8)).any():
            raise ValueError(
                f"{argument} has bits set beyond unit {n_units - 1}. Is n_units right, and bitorder 'little'?"
            )
        return Rows.of_packed(bits, n_units)


@dataclass(frozen=True)
class Source:
    """Rows by the name of where they are; a part of them, made binary by a threshold.

    HDF5 datasets are read in blocks, never whole.

    Attributes
    ----------
    name : str or Path, or a list of them
        "FILE.h5:dataset", "FILE.mat:variable" (MATLAB v7.3), "FILE.npz:member", "FILE.npy", or a set that
        `fastbm.data.load` makes. Rows of a list are those of one table after the other.
    threshold : float, optional
        Values above it are 1, others 0; NaN stays missing.
    max_rows : int, optional
        The first so many.
    holdout : float
        Part of the rows that is drawn, by `seed`, to be held out.
    folds, fold : int, optional
        In place of `holdout`, hold out fold `fold` of `folds`, counted from 0, for cross-validation. Folds are
        contiguous blocks of rows, as neighbours in time depend on one another.
    held : bool
        Take the rows that are held out in place of the others.
    side : int, optional
        Of the sets that have a size.
    """

    name: str | tuple[str, ...]
    threshold: float | None = None
    max_rows: int | None = None
    holdout: float = 0.0
    seed: int = 0
    held: bool = False
    side: int | None = None
    folds: int | None = None
    fold: int | None = None

    def __post_init__(self) -> None:
        names = self.name if isinstance(self.name, (list, tuple)) and self.name else [self.name]
        for name in names:
            if not isinstance(name, (str, Path)):
                raise TypeError(f"source must be a text or a Path; got {name!r} ({type(name).__name__}).")
        object.__setattr__(self, "name", str(self.name) if names[0] is self.name else tuple(map(str, names)))
        if isinstance(self.name, tuple) and self.side is not None:
            raise ValueError("data.side goes with the name of one set; source is a list.")
        if self.threshold is not None:
            checks.real("data.threshold", self.threshold)
        if self.max_rows is not None:
            checks.whole("data.max_rows", self.max_rows, least=1)
        checks.whole("data.seed", self.seed, most=None)
        if not isinstance(self.held, bool):
            raise TypeError(f"data.held must be True or False; got {self.held!r}.")
        self._check_folds()
        if self.held and not self.splits:
            raise ValueError(
                "data.held takes the rows that holdout draws, but holdout is 0. Give it, or leave held out."
            )

    def _check_folds(self) -> None:
        if self.folds is None and self.fold is None:
            return
        if self.folds is None or self.fold is None:
            raise ValueError("data.folds cuts the rows, and data.fold tells which part is held out: give both.")
        if self.holdout:
            raise ValueError("data.holdout draws held-out rows, data.fold takes a block of them: give one.")
        folds = checks.whole("data.folds", self.folds, least=2)
        if checks.whole("data.fold", self.fold) >= folds:
            raise ValueError(f"data.fold must be below data.folds, {folds}, as it counts from 0; got {self.fold}.")

    @property
    def splits(self) -> bool:
        """Whether some of the rows are held out."""
        return bool(self.holdout) or self.folds is not None

    def held_out(self, n_rows: int) -> Callable[[int, int], np.ndarray]:
        """Return a function that tells which of `n_rows` rows, from one to before another, are held out."""
        if self.folds is None or self.fold is None:
            return datasets.holding_out(n_rows, self.holdout, self.seed)
        return datasets.fold_of(n_rows, self.folds, self.fold)

    @property
    def in_file(self) -> bool:
        """Whether the rows lie where they can be read again, block by block: in an HDF5 file, or in a list of files."""
        return isinstance(self.name, tuple) or datasets.parts_of(self.name)[0].endswith(HDF5)

    @property
    def title(self) -> str:
        """What the rows are called where there is little room."""
        if isinstance(self.name, str):
            return self.name
        return self.name[0] if len(self.name) == 1 else f"{self.name[0]} and {len(self.name) - 1} more"

    def absolute(self) -> Source:
        """Return the same source by absolute paths, where it is in files that are read again."""
        if isinstance(self.name, tuple):
            return replace(self, name=tuple(map(_absolute, self.name)))
        return replace(self, name=_absolute(self.name)) if self.in_file else self

    def opposite(self) -> Source:
        """Return the rows that are held out here, or the others."""
        return replace(self, held=not self.held)

    def as_dict(self) -> dict[str, Any]:
        """Return the source as plain values, for the spec of a run."""
        named = asdict(self)
        return named if self.folds is not None else {k: v for k, v in named.items() if k not in ("folds", "fold")}

    def n_rows(self) -> int:
        """Return how many rows there are, with those that are held out."""
        with self._table() as table:
            return self.limit(len(table))

    @contextmanager
    def _table(self) -> Iterator[Any]:
        """Open the table from which rows are read."""
        if isinstance(self.name, tuple):
            with Joined.of(self.name).opened() as table:
                yield table
            return
        with opened_table(self.name, self.side) as table:
            if self.side is not None and self.name not in datasets.PATTERNS:
                raise ValueError(
                    f"data.side goes with {' and '.join(map(repr, datasets.PATTERNS))}; source is {self.name!r}."
                )
            yield table

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the rows, a block at a time."""
        with self._table() as table:
            n_rows = self.limit(len(table))
            yield from self.blocks_of(table, 0, n_rows, n_rows)

    def blocks_of(self, table: Any, begin: int, end: int, n_rows: int) -> Iterator[np.ndarray]:
        """Yield what is taken of rows from `begin` to before `end` of the `n_rows` of a table."""
        step, is_held = max(NUMBERS // max(table.shape[1], 1), 1), self.held_out(n_rows)
        for first in range(begin, end, step):
            last = min(first + step, end)
            block = np.asarray(table[first:last])
            if self.splits:
                block = block[is_held(first, last) == self.held]
            if len(block):
                yield self.of_threshold(block)

    def of_threshold(self, block: np.ndarray) -> np.ndarray:
        """Return values as the threshold, where there is one, makes them: 1 above it, else 0; NaN stays."""
        return block if self.threshold is None else _above(block, self.threshold)

    def limit(self, n_rows: int) -> int:
        """Return how many of `n_rows` rows are asked for."""
        return n_rows if self.max_rows is None else min(n_rows, self.max_rows)


def as_source(data: Any) -> Any:
    """Return the source that a name, a path or a list of them stands for; all else as it is."""
    if isinstance(data, (str, Path)):
        return Source(str(data))
    if isinstance(data, (list, tuple)) and data and all(isinstance(one, (str, Path)) for one in data):
        return Source(tuple(map(str, data)))
    return data


def _absolute(name: str) -> str:
    """Return a name with an absolute path, where it has one."""
    path, member = datasets.parts_of(name)
    if not path:
        return name
    place = Path(files.located(path)).absolute()
    return f"{place}:{member}" if member or path.endswith(HDF5) else str(place)


def _above(block: np.ndarray, threshold: float) -> np.ndarray:
    """1 where a value is above the threshold, 0 elsewhere; NaN where it is NaN."""
    above = block > threshold
    if block.dtype.kind == "f" and (missing := np.isnan(block)).any():
        return np.where(missing, np.nan, above)
    return above.astype(np.uint8)


def read(data: Any, kind: Units | None, argument: str = "data") -> tuple[Rows, Units]:
    """Check data as users give them, and pack them.

    Rows of arrays stay in memory; those of HDF5 files and generators only where they are few.
    """
    data = as_source(data)
    if isinstance(data, Packed):
        found = convention(data.units)
        if kind is not None and kind != found:
            raise ValueError(f"{argument} is packed for {found.name} units; the machine has {kind.name} units.")
        return data.check(argument), found
    if isinstance(data, Source):
        return gather(data.blocks(), kind, argument, keep=not data.in_file)
    if callable(data):
        data = data()
    if isinstance(data, Iterator):
        return gather(data, kind, argument, keep=False)
    if hasattr(data, "tocsr"):
        return gather(_filled(data.tocsr()), kind or _units_of(data.tocsr().data), argument, keep=True)
    whole = data if isinstance(data, np.ma.MaskedArray) else checks.any_array(argument, data)
    return gather([whole], kind or _units_of(whole), argument, keep=True)


def _filled(table: Any) -> Iterator[np.ndarray]:
    """Yield the rows of a scipy.sparse table, a block at a time."""
    step = max(NUMBERS // max(table.shape[1], 1), 1)
    for first in range(0, table.shape[0], step):
        yield table[first : first + step].toarray()


def _units_of(whole: np.ndarray) -> Units:
    """Spins where there is a -1, else binary units."""
    has_minus = whole.dtype.kind in "if" and bool(np.ma.filled(whole == -1, False).any())
    return SPIN if has_minus else BINARY
