"""The writer of a run, which takes blocks of rows and commits them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

import numpy as np

from .._base.checks import StorageError, warn
from .._base.halting import Halt, never
from .._base.streams import Stream
from .chain import Origin, Written
from .commit import Committer, Job, Pace, name_segments
from .hdf import copy_arrays, copy_rows
from .lock import Lock
from .merge.merge import merge_chain, reason_to_keep_parts
from .names import Names
from .schema import Arrays, Extension, canonical_json
from .segment import Header, spec_hash

State = Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """Settings of the writer of a run; none of them changes a row."""

    commit_seconds: float
    commit_bytes: int
    compression: str | None
    merge: bool


class Writer:
    """A run that is open for writing, made by `create` or `resume`.

    Attributes
    ----------
    path : str
        The run as it was named.
    names : Names
        Where its files are, wherever the working folder goes.
    spec : dict
    inputs : dict of arrays
    streams : dict of Stream
    finished : bool
        Whether the last commit marked the run as finished.
    """

    def __init__(
        self, names: Names, lock: Lock | None, spec: str, inputs: Arrays, streams: dict[str, Stream], state: Arrays,
        settings: Settings, last: Header, origin: Origin | None = None,
    ) -> None:  # fmt: skip
        self.path, self.spec, self.inputs, self.streams = names.shown, json.loads(spec), inputs, streams
        self.finished = last.finished
        self.names, self._lock, self._settings, self._origin = names, lock, settings, origin
        self._pace = Pace(settings.commit_seconds, settings.commit_bytes)
        self._committer = Committer(names, lock, streams, settings.compression, last, state) if lock else None
        self._state, self._acknowledged = state, last
        # Acknowledged blocks and waiting ones change together, in one assignment, so that Ctrl-C finds them whole.
        self._progress: tuple[int, list[Arrays]] = (last.end_block, [])
        self._pending_bytes = 0
        self._warned = False

    @property
    def n_blocks(self) -> int:
        """Number of blocks appended to the run, in this process and before it."""
        return self._progress[0] + len(self._progress[1])

    @property
    def run_id(self) -> str:
        """What no other run has."""
        return self._acknowledged.run_id

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the writer: compression, commit interval, merge."""
        return asdict(self._settings)

    @property
    def state(self) -> Arrays:
        """State at the last commit."""
        return self._state

    def n_rows(self, name: str) -> int:
        """Return how many rows of a stream were written, in this process and before it."""
        safe = int(self._acknowledged.index[list(self.streams).index(name)].sum())
        return safe + sum(len(block[name]) for block in self._progress[1] if name in block)

    def append(self, rows: Mapping[str, Any], state: Callable[[], State]) -> None:
        """Add one block of rows; commit in the background if that is due.

        Parameters
        ----------
        rows : mapping of name to (n, ...) array
            Rows for any of the streams; copied. `n` may be 0, and differ between streams.
        state : callable
            Gives the state after this block; called only if a commit is due.
        """
        self._collect(wait=False)
        self._check_open()
        block = copy_rows(rows, self.streams)
        self._progress[1].append(block)
        self._pending_bytes += sum(array.nbytes for array in block.values())
        if not self._pace.due(self._pending_bytes):
            return
        # Rows may pile up to four commits' worth while a slow disk takes the last.
        if self._busy and self._pending_bytes < 4 * self._settings.commit_bytes:
            return
        self._collect(wait=True)
        self._start(copy_arrays(state(), "state"))

    def wait_with_the_first(self) -> None:
        """Let the first commit wait as long as those after it: for short runs that stand beside many others."""
        self._pace.some = True

    def commit(self, state: State) -> None:
        """Commit all blocks; return when they are on the disk.

        Parameters
        ----------
        state : mapping of name to array
            The state after the last block.
        """
        self._commit_all(copy_arrays(state, "state"))

    def finish(self, state: State, halt: Halt = never) -> None:
        """Commit all blocks, mark the run as finished, merge it into one file and close.

        A run that was finished before it was stopped is merged; one that is merged stays as it is. `halt` breaks off
        the merge, not the commit: `Halted` is raised, and the parts stay.
        """
        if self._lock is None and self.finished:
            return
        if not self.finished:
            self._collect(wait=True)
            # Of a run that is over before its first commit was due, the merge is the commit.
            at_once = self._settings.merge and not self._acknowledged.segment and not reason_to_keep_parts(self.names)
            self._commit_all(copy_arrays(state, "state"), finished=True, named=not at_once)
            self.finished = True
        try:
            self._merge(halt)
        finally:
            name_segments(self.names)
        self.close()

    def _merge(self, halt: Halt) -> None:
        kept = reason_to_keep_parts(self.names) if self._settings.merge else None
        if kept:
            warn(f"{self.path} stays in parts: {kept}. Readers use the parts.", UserWarning)
        elif self._settings.merge:
            origin = self._origin
            merge_chain(self.names, halt, None if origin is None else Written(origin, self.inputs, self._state))

    def close(self) -> None:
        """Release the run without finishing it; blocks since the last commit are left to be computed again."""
        if self._lock is None:
            return
        try:
            if not self._warned:
                self._collect(wait=True)
        finally:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StorageError:
            if error is None:
                raise

    def _extend(self, extension: Extension) -> None:
        """Continue a finished run past its end, under a longer spec."""
        self._check_lock()
        text = canonical_json(extension.spec)
        state = self._state if extension.state is None else copy_arrays(extension.state, "state")
        written = {name: self.n_rows(name) for name in self.streams}
        kept = index_of(self.streams, extension.kept(written))[:, 0]
        self._start(state, spec=text, spec_sha256=spec_hash(text), kept=kept)
        self._collect(wait=True)
        self.spec, self.finished = json.loads(text), False

    def _commit_all(self, state: Arrays, **options: Any) -> None:
        self._collect(wait=True)
        self._check_open()
        self._start(state, **options)
        self._collect(wait=True)

    @property
    def _busy(self) -> bool:
        return self._committer is not None and self._committer.busy

    def _start(self, state: Arrays, **options: Any) -> None:
        assert self._committer is not None
        self._pace.last = time.monotonic()
        self._committer.start(Job(list(self._progress[1]), state, **options))
        self._pending_bytes = 0

    def _collect(self, *, wait: bool) -> None:
        """Take over the result of a commit that is done, after which its rows are freed."""
        committer = self._committer
        if committer is None:
            return
        if wait:
            committer.wait()
        if committer.failure is not None:
            self._warned = True
            raise committer.failure
        if committer.last is not self._acknowledged:
            self._acknowledged, self._state = committer.last, committer.state
            safe, blocks = self._progress
            self._progress = (self._acknowledged.end_block, blocks[self._acknowledged.end_block - safe :])
            state_bytes = sum(array.nbytes for array in self._state.values())
            self._pace.committed(committer.seconds, state_bytes, committer.n_bytes)

    def _check_open(self) -> None:
        if self.finished:
            raise StorageError(f"{self.path} is finished. Extend it to go on past its end.")
        self._check_lock()

    def _check_lock(self) -> None:
        if self._lock is None or not self._lock.held:
            raise StorageError(f"{self.path} is closed for writing in process {os.getpid()}. Resume it to go on.")


def index_of(streams: Mapping[str, Stream], n_rows: Mapping[str, int]) -> np.ndarray:
    """Return the index of a first segment: no rows of its own, after those of a merged file, if any."""
    return np.array([[n_rows.get(name, 0), 0] for name in streams], np.int64).reshape(-1, 2)
