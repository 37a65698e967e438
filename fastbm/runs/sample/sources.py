"""Where the parts of a sampling run are: in files beside it, which workers write, or in memory, sent by workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import cached_property
from typing import Any

import numpy as np

from ... import store
from ..._base.checks import StorageError, warn
from ..._base.halting import Halted
from ..._base.versions import PINNED_PACKAGES, differences, pinned
from ..._base.workers import Pieces
from ...store.beside import part_at, remove_part
from ...store.holder import is_live
from ...store.names import Names
from ..stop import Stop
from ..workers.coordinator import Coordinator
from .part import PART_OF, Arrays, PartJob, do_in_memory

BLOCK_BYTES = 1 << 24
MOST_READERS = 64  # that are open at a time
STORED = ("commit_seconds", "commit_bytes", "compression")
MOST_TEXTS = 3

Cuts = Sequence[tuple[int, int]]


class InFiles:
    """Parts that are runs with files.

    Attributes
    ----------
    n_done : int
        Chains of the parts that are there.
    rounds : iterator
        To be gone through until all is done; pauses now and then.
    block_bytes : int
        How many bytes of rows are joined at a time.
    """

    block_bytes = BLOCK_BYTES

    def __init__(self, writer: store.Writer, cuts: Cuts, threads: int, executor: Executor | None, stop: Stop) -> None:
        self._folder = writer.names.beside
        self._paths = [str(part_at(self._folder, first)) for first, _ in cuts]
        self._readers: dict[str, store.Reader] = {}
        self._whole, self._run_id = str(writer.names.merged), writer.run_id
        self._cuts, self._threads, self._executor, self._stop = cuts, threads, executor, stop
        self._storage = {name: writer.settings[name] for name in STORED}
        self._coordinator: Coordinator | None = None
        self._n_before = 0
        self.rounds = self._rounds()

    def _rounds(self) -> Iterator[None]:
        self._folder.mkdir(exist_ok=True)
        meta = store.open_reader(self._whole).meta
        mixed = not getattr(self._executor, "exact", True)
        exact = not mixed and not differences({n: str(meta.get(f"{n}_version")) for n in PINNED_PACKAGES}, "")
        jobs = [
            PartJob(
                path, end - first, whole=self._whole, run_id=self._run_id, first=first, end=end,
                versions=() if mixed else pinned(), exact=exact, threads=self._threads, storage=self._storage,
            )
            for path, (first, end) in zip(self._paths, self._cuts, strict=True)
            if not self._is_there(path)
        ]  # fmt: skip
        self._n_before = self._cuts[-1][1] - sum(job.size for job in jobs)
        self._coordinator = Coordinator(jobs, self._executor, self._stop, self._folder)
        yield from self._coordinator.rounds()

    def _is_there(self, path: str) -> bool:
        """Return whether a part of the run is done, every byte of it; remove one that is damaged."""
        if not store.is_there(path):
            return False
        try:
            with store.open_reader(path) as reader:
                if reader.meta.get(PART_OF) != self._run_id or not reader.finished:
                    return False
                reader.verify()
            return True
        except StorageError as error:
            if not is_live(Names(path)):
                warn(f"{error} It is computed again.", UserWarning)
                remove_part(path)
            return False

    @property
    def n_done(self) -> int:
        """Chains of the parts that are there."""
        return self._n_before + (0 if self._coordinator is None else self._coordinator.n_done)

    @property
    def ready(self) -> bool:
        """Whether all parts are there."""
        return self.n_done == self._cuts[-1][1]

    def check(self) -> None:
        """Raise what kept parts from being done."""
        assert self._coordinator is not None
        left = self._coordinator.left
        error = None
        if left.failed:
            error = StorageError(f"{self._whole}: {'; '.join(text.rstrip('.') for text in left.failed[:MOST_TEXTS])}.")
        elif left.busy:
            error = StorageError(
                f"{self._whole}: {len(left.busy)} of its parts are being written by other processes. Resume it when "
                "they have ended."
            )
        if error is not None:
            error.resumable = True
            raise error

    def leave(self) -> None:
        """Have workers stop, and close what is open."""
        self.rounds.close()  # type: ignore[attr-defined]
        for reader in self._readers.values():
            reader.close()

    def _reader(self, path: str) -> store.Reader:
        if path not in self._readers:
            self._readers[path] = store.open_reader(path)
        return self._readers[path]

    def n_rows(self, name: str) -> int:
        """Return how many rows of a stream a part has."""
        return self._reader(self._paths[0]).n_rows(name)

    def read(self, name: str, start: int, stop: int) -> list[np.ndarray]:
        """Return rows of a stream of each part."""
        found = []
        for k, path in enumerate(self._paths):
            try:
                found.append(self._reader(path).read(name, start, stop))
            except StorageError as error:
                raise StorageError(f"{error} Resume {self._whole}: that part is computed again.") from None
            if k >= MOST_READERS:
                self._reader(path).close()
        return found

    def states(self) -> list[Mapping[str, np.ndarray]]:
        """Return the last state of each part."""
        return [self._reader(path).state for path in self._paths]


class InMemory:
    """Parts that workers send back; attributes are those of `InFiles`.

    `shared` is what `do_in_memory` takes.
    """

    def __init__(self, shared: tuple[Any, ...], executor: Executor, stop: Stop) -> None:
        self._cuts: Cuts = shared[2]
        self._stop = stop
        self._pieces = Pieces(executor, do_in_memory, shared, len(self._cuts))
        self._parts: list[tuple[Arrays, Arrays]] = []
        self.rounds = self._rounds()

    def _rounds(self) -> Iterator[None]:
        while not self.ready:
            try:
                self._parts.append(self._pieces.take(self._stop.due))
            except Halted:
                return
            yield

    @property
    def n_done(self) -> int:
        """Chains of the parts that are there."""
        return self._cuts[len(self._parts) - 1][1] if self._parts else 0

    @property
    def ready(self) -> bool:
        """Whether all parts are there."""
        return len(self._parts) == len(self._cuts)

    @cached_property
    def block_bytes(self) -> int:
        """How many bytes of rows are joined at a time: all."""
        return 1 << 62

    def check(self) -> None:
        """Do nothing: what keeps a part from being done is raised by it."""

    def leave(self) -> None:
        """Leave no part waiting."""
        self._pieces.cancel()

    def n_rows(self, name: str) -> int:
        """Return how many rows of a stream a part has."""
        return len(self._parts[0][0][name])

    def read(self, name: str, start: int, stop: int) -> list[np.ndarray]:
        """Return rows of a stream of each part."""
        return [rows[name][start:stop] for rows, _ in self._parts]

    def states(self) -> list[Mapping[str, np.ndarray]]:
        """Return the last state of each part."""
        return [state for _, state in self._parts]
