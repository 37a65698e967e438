"""How a campaign stands: cells done, failed and left, shards that are written, time left.

Each shard that is there is opened, and held against what the campaign has settled.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .._base.checks import DamagedRun, StorageError
from ..runs.status import LIVE, span, status_of
from ..store import Reader, last_commit, open_reader
from . import grid
from .generations import GRID, Generation
from .shard import KIND, entry_of, is_finished, path_of, spec_of
from .task import IS_FAILED, ROW, SECONDS

STALL_COMMITS, STALL_SECONDS = 3.0, 300.0  # intervals, and seconds at least, without a commit of one that writes

WAY_OUT = "remove it, then resume: its cells are computed again."

Found = tuple[Generation, Path, Reader | None]


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
    damaged : tuple of str
        Files of shards that cannot be read; their cells count as waiting.
    """

    n_cells: int
    done: int
    failed: int
    waiting: int
    running: int
    stalled: int
    seconds_left: float | None
    core_hours: float
    damaged: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether all cells are done or have failed."""
        return not self.waiting

    def rows(self) -> list[tuple[str, str]]:
        """Return names and values as text."""
        left = "-" if self.seconds_left is None else span(self.seconds_left)
        rows = [
            ("cells", f"{self.n_cells}"),
            ("done", f"{self.done}"),
            ("failed", f"{self.failed}"),
            ("waiting", f"{self.waiting}"),
            ("running", f"{self.running} shards"),
            ("stalled", f"{self.stalled} shards"),
            ("time left", left),
            ("core hours", f"{self.core_hours:.3g}"),
        ]
        return [*rows, ("damaged", ", ".join(self.damaged))] if self.damaged else rows

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


def opened(folder: Path, generations: Sequence[Generation], damaged: list[Path] | None = None) -> Iterator[Found]:
    """Yield the shards that are there, with None for a reader where one is being made.

    Those that are damaged are added to a list, if there is one.

    Raises
    ------
    DamagedRun
        If one is damaged, or is no shard of this campaign, or not in its place.
    """
    settled = _Settled(generations)
    for generation in generations:
        for k in range(len(generation.shards)):
            path = path_of(folder, generation.number, k)
            if not path.exists() and not Path(f"{path}.parts").exists():
                continue
            try:
                reader = _open(path)
            except StorageError as error:
                if damaged is None:
                    raise DamagedRun(f"{error} Else {WAY_OUT}") from None
                damaged.append(path)
                continue
            if reader is not None and (what := settled.other(reader.spec, generation.number, k)):
                raise DamagedRun(f"{path} is {what}, not this shard of this campaign. Restore its own, or {WAY_OUT}")
            yield generation, path, reader


def _open(path: Path) -> Reader | None:
    """Open a shard; None where it is being made."""
    try:
        return open_reader(path)
    except StorageError:
        return open_reader(path) if is_finished(path) else None  # it may have been merged in between


class _Settled:
    """What the shards of a campaign must be."""

    def __init__(self, generations: Sequence[Generation]) -> None:
        self._generations = generations

    @cached_property
    def _cells(self) -> dict[int, grid.Cells]:
        """The cells of each grid."""
        return {one.number: grid.read(one.tables).cells for one in self._generations if one.why == GRID}

    @cached_property
    def _ids(self) -> dict[tuple[int, int], list[str]]:
        """The ids of each shard's cells."""
        found, there = {}, set[str]()
        for one in self._generations:
            ids = sorted(set(self._cells[one.number].ids) - there) if one.why == GRID else sorted(one.ids)
            there.update(ids)
            for k, n in enumerate(one.shards):
                found[one.number, k], ids = ids[:n], ids[n:]
        return found

    def other(self, spec: Mapping[str, Any], number: int, k: int) -> str:
        """Return what the spec of a file is of, if it is not of a shard; empty if it is."""
        if spec.get("kind") != KIND:
            return f"a run of kind {spec.get('kind')!r}"
        if self._is(spec, number, k):
            return ""
        first, second = spec["shard"]
        return f"shard {first}-{second:03d}" if self._is(spec, first, second) else "a shard of another campaign"

    def _is(self, spec: Mapping[str, Any], number: int, k: int) -> bool:
        cells = spec["cells"]
        if [cell["id"] for cell in cells] != self._ids.get((number, k)):
            return False
        return bool(spec == spec_of(self._generations[number], k, cells) and cells[0] == self._entry(*cells[0]["at"]))

    def _entry(self, number: int, k: int) -> dict[str, Any] | None:
        """Return what a spec says of a cell of a grid: with ids alike, seeds may still be of another campaign."""
        cells = self._cells.get(number, ())
        return entry_of(cells[k], self._generations[number].base, (number, k)) if k < len(cells) else None


def status(folder: Path, generations: Sequence[Generation]) -> Status:
    """Return how a campaign stands, from its files alone.

    Cells that are computed again count once, as their last row says.
    """
    again = any(one.ids for one in generations)
    n_rows, seconds, running, stalled, n_failed = 0, 0.0, 0, 0, 0
    last: dict[str, bool] = {}
    damaged: list[Path] = []
    for _, path, reader in opened(folder, generations, damaged):
        if reader is None:
            running += 1
            continue
        failed, took = reader.read(IS_FAILED), reader.read(SECONDS)
        n_rows, n_failed, seconds = n_rows + len(failed), n_failed + int(failed.sum()), seconds + float(took.sum())
        if again:
            last |= {cell["id"]: bool(one) for cell, one in zip(reader.spec["cells"], failed, strict=False)}
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
    hours, names = seconds / 3600.0, tuple(path.name for path in damaged)
    return Status(n_cells, n_rows - n_failed, n_failed, waiting, running, stalled, left, hours, names)


def way_to_begin(folder: Path, known: Sequence[Generation]) -> str:
    """Return where tables can be run that are not those of the campaign in a folder."""
    with suppress(StorageError):  # which is told where the campaign is looked at
        stands = status(folder, known)
        kept = stands.done or stands.running or stands.damaged or any((folder / "cells").glob("*"))
        if stands.failed and not kept:
            settled = f"{folder}/generation-*.json and {folder}/shards"
            return f"No cell of it has a result: to begin anew there, remove {settled}."
    return "Only values in [grid] can be added. Name another folder: campaign.out."


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
    for generation, _, reader in opened(folder, generations):
        if reader is None:
            continue
        failed, took, rows = reader.read(IS_FAILED), reader.read(SECONDS), reader.read(ROW)
        for cell, *row in zip(reader.spec["cells"], rows, failed, took, strict=False):
            found[cell["id"]] = (cell["at"], cell, generation.number, *row)
    ordered = sorted(found.values(), key=lambda one: one[0])
    columns: list[Any] = [list(column) for column in zip(*ordered, strict=True)] or [[]] * 6
    _, cells, numbers, rows, failed, seconds = columns
    return Shards(cells, rows, numbers, np.array(failed, bool), np.array(seconds, float))
