"""How a campaign stands: cells done, failed and left, shards that are written, time left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._base.checks import StorageError
from ..runs.status import LIVE, span, status_of
from ..store import Reader, last_commit, open_reader
from .generations import Generation
from .shard import cells_of, is_finished, path_of
from .task import IS_FAILED, ROW, SECONDS

STALL_COMMITS, STALL_SECONDS = 3.0, 300.0  # intervals, and seconds at least, without a commit of one that writes


@dataclass(frozen=True)
class Status:
    """How a campaign stands; prints as a table.

    Attributes
    ----------
    n_cells, done, failed, waiting : int
        Cells in all; with results; that have failed; that are not computed yet.
    running, stalled : int
        Shards that a process writes, and those that were begun, are not finished, and that none writes, or none has
        committed to for long.
    seconds_left : float or None
        By what cells took so far, on as many workers as there are; None where nothing is running or known.
    core_hours : float
        Spent on cells.
    """

    n_cells: int
    done: int
    failed: int
    waiting: int
    running: int
    stalled: int
    seconds_left: float | None
    core_hours: float

    @property
    def finished(self) -> bool:
        """Whether all cells are done or have failed."""
        return not self.waiting

    def rows(self) -> list[tuple[str, str]]:
        """Return names and values as text."""
        left = "-" if self.seconds_left is None else span(self.seconds_left)
        return [
            ("cells", f"{self.n_cells}"),
            ("done", f"{self.done}"),
            ("failed", f"{self.failed}"),
            ("waiting", f"{self.waiting}"),
            ("running", f"{self.running} shards"),
            ("stalled", f"{self.stalled} shards"),
            ("time left", left),
            ("core hours", f"{self.core_hours:.3g}"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<10}  {value}" for name, value in self.rows())


@dataclass
class Shards:
    """What the shards of a campaign hold so far, in the order of its generations.

    Attributes
    ----------
    cells : list of dict
        What specs say of cells that are done.
    rows : list of str
        JSON.
    generations : list of int
        In which generation each row was computed.
    """

    cells: list[dict[str, Any]]
    rows: list[str]
    generations: list[int]
    failed: np.ndarray
    seconds: np.ndarray


def begun(folder: Path, generations: Sequence[Generation]) -> Iterator[tuple[Generation, int, Path]]:
    """Yield the shards that are there."""
    for generation in generations:
        for k in range(len(generation.shards)):
            path = path_of(folder, generation.number, k)
            if path.exists() or Path(f"{path}.parts").exists():
                yield generation, k, path


def status(folder: Path, generations: Sequence[Generation]) -> Status:
    """Return how a campaign stands, from its files alone.

    Cells that are computed again count once, as their last row says.
    """
    again = any(one.ids for one in generations)
    n_rows, seconds, running, stalled, n_failed = 0, 0.0, 0, 0, 0
    last: dict[str, bool] = {}
    for _, _, path in begun(folder, generations):
        try:
            reader = open_reader(path)
        except StorageError:  # it is being made
            running += 1
            continue
        failed, took = reader.read(IS_FAILED), reader.read(SECONDS)
        n_rows, n_failed, seconds = n_rows + len(failed), n_failed + int(failed.sum()), seconds + float(took.sum())
        if again:
            last |= {cell["id"]: bool(one) for cell, one in zip(cells_of(reader), failed, strict=False)}
        if not is_finished(path):
            alive = _is_alive(reader)
            running, stalled = running + alive, stalled + (not alive)
    n_all = sum(one.n_cells for one in generations)
    waiting = n_all - n_rows
    left = waiting * seconds / n_rows / running if running and n_rows else None
    n_cells = sum(one.n_cells for one in generations if not one.ids)
    if again:
        n_failed = sum(last.values())
        n_rows = len(last)
    return Status(n_cells, n_rows - n_failed, n_failed, waiting, running, stalled, left, seconds / 3600.0)


def _is_alive(reader: Reader) -> bool:
    """Return whether a shard is written, and was committed to not long ago."""
    if status_of(reader).state != LIVE:
        return False
    patience = max(STALL_SECONDS, STALL_COMMITS * float(reader.settings["commit_seconds"]))
    return time.time() - last_commit(reader).time < patience or _is_long(reader)


def _is_long(reader: Reader) -> bool:
    """Return whether cells take so long that there is nothing to commit."""
    took = reader.read(SECONDS)
    return len(took) == 0 or time.time() - last_commit(reader).time < 5.0 * float(took.max())


def read_rows(folder: Path, generations: Sequence[Generation]) -> Shards:
    """Read all rows, those of cells that were computed again in place of those before, in the order of the grid."""
    found: dict[str, tuple[Any, ...]] = {}
    for generation, _, path in begun(folder, generations):
        try:
            reader = open_reader(path)
        except StorageError:
            if is_finished(path):
                raise
            continue  # it is being made
        failed, took, rows = reader.read(IS_FAILED), reader.read(SECONDS), reader.read(ROW)
        for cell, *row in zip(cells_of(reader), rows, failed, took, strict=False):
            found[cell["id"]] = (cell["at"], cell, generation.number, *row)
    ordered = sorted(found.values(), key=lambda one: one[0])
    columns: list[Any] = [list(column) for column in zip(*ordered, strict=True)] or [[]] * 6
    _, cells, numbers, rows, failed, seconds = columns
    return Shards(cells, rows, numbers, np.array(failed, bool), np.array(seconds, float))
