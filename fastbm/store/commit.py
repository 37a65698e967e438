"""Commit blocks in the background, one commit at a time, at a pace that keeps its cost low."""

from __future__ import annotations

import errno
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import numpy as np

from .._base.checks import StorageError, is_full
from .._base.streams import Stream
from . import disk
from .chain import blocks_safe
from .image import Image, write_sealed, write_unnamed
from .lock import Lock
from .names import Names, unfinished
from .schema import LARGE_STATE_BYTES, Arrays
from .segment import Contents, Header, segment_image, write_state_file

STATE_SHARE = 0.03
FIRST_SECONDS = 1.0  # before a run can be looked at, and killed without all being lost
KEPT_STATES = 4
_CAUSES = {
    errno.ENOSPC: ("no space left in", "Free space"),
    errno.EDQUOT: ("disk quota exceeded in", "Free space"),
    errno.EFBIG: ("files may not become so large in", "Raise that limit (ulimit -f)"),
    errno.EIO: ("input/output error in", "Check the disk"),
}
_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)


@dataclass
class Pace:
    """The times of commits, spaced so that their cost stays low.

    A commit is due after `seconds`, the first one after `FIRST_SECONDS`, or at `n_bytes` of rows. Writing the state may
    take `STATE_SHARE` of the time, so a large or slowly written state stretches the interval, until waiting rows
    outweigh the state itself.
    """

    seconds: float
    n_bytes: int
    state_seconds: float = 0.0
    state_bytes: int = 0
    some: bool = False  # whether anything is committed
    last: float = field(default_factory=time.monotonic)

    def due(self, pending_bytes: int) -> bool:
        """Return whether to commit at this block boundary."""
        elapsed, least = time.monotonic() - self.last, self.state_seconds / STATE_SHARE
        if pending_bytes >= max(16 * self.n_bytes, self.state_bytes):
            return True
        seconds = self.seconds if self.some else min(self.seconds, FIRST_SECONDS)
        return elapsed >= least and (elapsed >= seconds or pending_bytes >= self.n_bytes)

    def committed(self, commit_seconds: float, state_bytes: int, all_bytes: int) -> None:
        """Record how long a commit took; the time is shared between state and rows by their bytes."""
        self.state_seconds = commit_seconds * state_bytes / max(1, all_bytes)
        self.state_bytes = state_bytes
        self.some = True


@dataclass(frozen=True)
class Job:
    """One commit: blocks of rows, the state after them, and what else its segment holds."""

    blocks: Sequence[Mapping[str, np.ndarray]]
    state: Arrays
    finished: bool = False
    named: bool = True  # whether the segment gets its name, and is durable, before anything else is done
    spec: str | None = None
    spec_sha256: str = ""
    kept: np.ndarray | None = None  # rows of each stream that count of those before, where not all do


class Committer:
    """The writer of segments in the background, one at a time.

    Attributes
    ----------
    last : Header
        The last acknowledged segment.
    state : dict of arrays
        The state in it.
    failure : BaseException or None
        What stopped a commit, for good.
    seconds, n_bytes : float, int
        What the last commit took.
    """

    def __init__(
        self, names: Names, lock: Lock, streams: Mapping[str, Stream], compression: str | None, last: Header,
        state: Arrays,
    ) -> None:  # fmt: skip
        self.last, self.state = last, state
        self.failure: BaseException | None = None
        self.seconds, self.n_bytes = 0.0, 0
        self._names, self._lock, self._streams, self._compression = names, lock, streams, compression
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a commit is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, job: Job) -> None:
        """Begin a commit; the one before must be done."""
        thread = threading.Thread(target=self._run, args=(job,), name="fastbm-commit")
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:  # the system starts no more of them
            self._run(job)

    def wait(self) -> None:
        """Wait until no commit is under way."""
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join()

    def _run(self, job: Job) -> None:
        started = time.monotonic()
        try:
            header = self._commit(job)
        except BaseException as error:  # raised again in the caller's thread
            self.failure = error
        else:
            self.seconds = time.monotonic() - started
            # The caller takes its count of safe blocks from `last`, so that comes last.
            self.state = job.state
            self.last = header

    def _commit(self, job: Job) -> Header:
        if not self._lock.held:
            raise StorageError(f"{self._names.shown} is not open for writing in this process.")
        rows: dict[str, list[np.ndarray]] = {}
        for block in job.blocks:
            for name, some in block.items():
                if len(some):
                    rows.setdefault(name, []).append(some)
        contents = Contents(
            self._streams, rows, job.state, {"written": time.time()}, job.spec, compression=self._compression
        )
        self.n_bytes = contents.n_bytes
        number = self.last.segment + 1
        first, rewinds = self._taken_up(number, job.kept)
        header = replace(
            self.last,
            segment=number,
            first_block=self.last.end_block,
            n_blocks=len(job.blocks),
            spec_sha256=job.spec_sha256 or self.last.spec_sha256,
            prev_sha256=self.last.sha256,
            base_sha256="",
            state_sha256="",
            finished=job.finished,
            index=self._index(rows, first),
            rewinds=rewinds,
        )
        with disk_errors(self._names, needed=contents.n_bytes, safe=header.first_block, resumable=True):
            if sum(one.nbytes for one in job.state.values()) > LARGE_STATE_BYTES:
                header = replace(header, state_sha256=write_state_file(self._names, number, job.state))
            digest = self._write(number, segment_image(header, contents), named=job.named)
        if header.state_sha256:
            drop_state(self._names, number - KEPT_STATES)
        return replace(header, sha256=digest)

    def _write(self, number: int, image: Image, *, named: bool) -> str:
        path = self._names.named(number)
        if named:
            return write_sealed(image, path, self._names.fence)
        temporary = unfinished(path)
        digest, handle = write_unnamed(image, temporary)
        self._names.unnamed[number] = (temporary, handle)
        return digest

    def _taken_up(self, number: int, kept: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return where rows continue, and which of those before are taken back."""
        first = self.last.index.sum(axis=1)
        if kept is None or np.array_equal(kept, first):
            return first, self.last.rewinds
        row = np.array([[number, *kept]], np.int64)
        return kept, np.concatenate([self.last.rewinds, row]) if len(self.last.rewinds) else row

    def _index(self, rows: Mapping[str, list[np.ndarray]], first: np.ndarray) -> np.ndarray:
        counts = [sum(map(len, rows.get(name, ()))) for name in self._streams]
        return np.stack([first, np.array(counts, np.int64)], axis=1)


def name_segments(names: Names) -> None:
    """Make segments durable that bear no name yet, and name them."""
    while names.unnamed:
        number, (temporary, handle) = names.unnamed.popitem()
        with disk_errors(names, resumable=True):
            names.fence()
            disk.publish(handle, temporary, names.named(number))


def drop_state(names: Names, number: int) -> None:
    """Remove a state that no resume will need, unless its number is a power of two.

    Those stay so that damage far back does not cost the whole run.
    """
    if number > 0 and number & (number - 1):
        with suppress(OSError):
            disk.unlink(names.state(number))


def prune_states(names: Names, last: int) -> None:
    """Remove states that a killed writer left: all that `drop_state` should have removed, and any after `last`."""
    for number in names.state_numbers():
        if number > last:
            with suppress(OSError):
                disk.unlink(names.state(number))
        elif number <= last - KEPT_STATES:
            drop_state(names, number)


@contextmanager
def disk_errors(names: Names, *, needed: int = 0, safe: int | None = None, resumable: bool = False) -> Iterator[None]:
    """Turn errors of the disk into a StorageError; with `resumable` the run has begun, and can go on if that is mended.

    `safe` blocks are committed; None where nothing was to be added to them.
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        found = disk_error(names, error, needed, safe, resumable)
        found.resumable = resumable and is_full(error)
        raise found from error


def disk_error(names: Names, error: OSError, needed: int, safe: int | None, resumable: bool) -> StorageError:
    """Return the error that says what the disk refused, what is safe, and the way out."""
    folder = names.merged.parent
    other = (f"cannot write ({error.strerror or error}) in", "Mend that")
    cause, way_out = _CAUSES.get(error.errno or 0, other)
    space = ""
    if error.errno in _OF_SPACE:
        with suppress(OSError):
            space = f", {shutil.disk_usage(folder).free / 1e6:.1f} MB free"
        space = f" (needed {needed / 1e6:.1f} MB{space})"
    kept = "What is committed is safe" if safe is None else f"{blocks_safe(safe)} are safe"
    if not safe and not resumable:
        kept = f"Nothing of {names.shown} was begun"
    then = "resume" if resumable else "begin it again"
    return StorageError(f"{cause} {folder}{space}. {kept}. {way_out}, then {then}.")
