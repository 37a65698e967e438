"""The end of a run, as last written: reading it costs the same however long the run is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import h5py
import numpy as np

from .hdf import read_dataset
from .image import open_image
from .names import Names
from .reader import Reader
from .schema import STATE, Arrays


@dataclass(frozen=True)
class Commit:
    """A commit: its number, when it was made (time of day), and the blocks up to it; a merged file is the last one.

    Attributes
    ----------
    number : int
        -1 for a merged file.
    """

    number: int
    time: float
    n_blocks: int


def is_there(path: str | os.PathLike[str]) -> bool:
    """Return whether a run has begun: there is a merged file, or a first segment."""
    names = Names(path)
    return names.merged.exists() or names.segment(0).exists()


def last_commit(reader: Reader) -> Commit:
    """Return the last commit of a run."""
    try:
        return _last_commit(reader)
    except FileNotFoundError:  # the parts were merged since the reader looked
        reader.refresh()
        return _last_commit(reader)


def _last_commit(reader: Reader) -> Commit:
    parts = reader._parts
    if parts is None:
        return Commit(-1, os.stat(reader._names.merged).st_mtime, reader.n_blocks)
    made = os.stat(reader._names.segment(parts.last_number)).st_mtime
    return Commit(parts.last_number, made, parts.last.end_block)


def commit_at(reader: Reader, number: int) -> Commit:
    """Return a commit by its number, as it is in the parts of a run."""
    assert reader._parts is not None
    made = os.stat(reader._names.segment(number)).st_mtime
    return Commit(number, made, reader._parts.header(number, hashed=False).end_block)


def counters(reader: Reader, at: Commit, names: Iterable[str]) -> Arrays:
    """Read some small arrays of the state at a commit, those that exist.

    Raises
    ------
    OSError
        If that state, a file of its own, is kept no longer.
    """
    if at.number < 0:
        with reader._whole.open() as merged:
            return _small(merged.hdf5, names)
    assert reader._parts is not None
    of_its_own = reader._parts.header(at.number, hashed=False).state_sha256
    path = reader._names.state(at.number) if of_its_own else reader._names.segment(at.number)
    with open_image(path) as file:
        return _small(file, names)


def _small(file: h5py.File, names: Iterable[str]) -> Arrays:
    state = file[STATE]
    return {name: read_dataset(state[name].id) for name in names if name in state}


def last_rows(reader: Reader, name: str, n_rows: int, n_commits: int) -> tuple[int, np.ndarray]:
    """Return the number of the first of the last rows of a stream, and the rows: at most `n_rows`, of `n_commits`."""
    end = reader.n_rows(name)
    start = max(0, end - n_rows, _first_row(reader, name, n_commits))
    return start, reader.read(name, start, end)


def _first_row(reader: Reader, name: str, n_commits: int) -> int:
    parts = reader._parts
    if parts is None or parts.last_number < n_commits:
        return 0
    return int(parts.header(parts.last_number - n_commits + 1, hashed=False).index[list(reader.streams).index(name), 0])
