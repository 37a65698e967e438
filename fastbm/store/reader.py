"""Read a run, live or finished, in parts or merged; takes no lock and sees whole commits only."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

import h5py
import numpy as np

from .._base.checks import StorageError, nearest
from .._base.hdf5 import NONSENSE
from .._base.streams import Stream
from . import hdf
from .chain import Origin, blocks_safe, damage, follow, parse_spec, read_inputs
from .checked import MergedFile
from .find import DISTRUST, Merged, find
from .holder import Holder, is_live, read_holder
from .image import Damaged, open_image
from .memory import Memory
from .names import Names
from .parts import At, Parts, stamp, whole_part
from .schema import INPUTS, STATE, Arrays
from .segment import read_state

MAX_OPEN_FILES = 8
_TRIALS, _PAUSE = 3, 0.02
T = TypeVar("T")


class Reader:
    """One run, open for reading; made by `open_reader`.

    Attributes
    ----------
    path : str
        The run as it was named.
    damage : str
        What is damaged, where the reader was told to stop before it; else empty.
    """

    def __init__(self, run: str | os.PathLike[str] | Names, *, cut: bool = False, trust: bool = False) -> None:
        self._names, self._cut, self._trust, self.damage = Names.of(run), cut, trust, ""
        self.path = self._names.shown
        self._files: OrderedDict[Path, tuple[Any, h5py.File | MergedFile]] = OrderedDict()
        self._seen: Any = None
        self._run_id = ""  # of the run that the last refresh found
        self._merged: Merged | None = None
        self._parts: Parts | None = None
        self.refresh()

    def __reduce__(self) -> Any:
        """Return how a copy is made: by the path, from which it opens the run again, here or in another process."""
        return _open_again, (str(self._names.merged), self._cut, self._trust)

    def refresh(self) -> None:
        """Read what was committed since the last call."""
        self._retrying(lambda: None, reopen_first=True)

    @property
    def place(self) -> str:
        """The run's absolute path, so that a change of the working folder does no harm; no other run is there."""
        return self._retrying(lambda: str(self._names.merged))

    @property
    def spec(self) -> dict[str, Any]:
        """Spec of the run: everything that decides the rows."""
        return self._retrying(lambda: parse_spec(self._read_spec()))

    @property
    def inputs(self) -> Arrays:
        """Arrays that the run started from."""
        return self._retrying(self._read_inputs)

    @property
    def state(self) -> Arrays:
        """State at the last commit."""
        return self._retrying(self._read_state)

    @property
    def meta(self) -> dict[str, Any]:
        """Machine, versions and times of the run."""
        return dict(self._parts.origin.meta if self._parts else self._whole.meta)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the writer: compression, commit interval, merge."""
        return dict(self._parts.origin.settings if self._parts else self._whole.settings)

    @property
    def streams(self) -> dict[str, Stream]:
        """The declared streams by name."""
        return dict(self._parts.origin.streams if self._parts else self._whole.streams)

    @property
    def unchecked(self) -> bool:
        """Whether the run is read from a file without a seal, so that none of it is checked against damage."""
        return self._merged is not None and not self._merged.sha256

    @property
    def finished(self) -> bool:
        """Whether the run reached its end."""
        return self._parts.last.finished if self._parts else True

    @property
    def live(self) -> bool:
        """Whether a process is writing the run."""
        return is_live(self._names, float(self.settings["commit_seconds"]))

    @property
    def holder(self) -> Holder | None:
        """The process that writes the run, or wrote it when it was killed."""
        return read_holder(self._names.lock)

    @property
    def n_blocks(self) -> int:
        """Number of committed blocks."""
        return self._parts.last.end_block if self._parts else int(self._whole.meta["n_blocks"])

    def n_rows(self, name: str) -> int:
        """Return how many rows of a stream are committed."""
        if name not in self.streams:
            raise KeyError(f"{self.path} has no stream {name!r}.{nearest(name, self.streams)}")
        return self._parts.n_rows(name) if self._parts else self._whole.n_rows[name]

    def read(self, name: str, start: int = 0, stop: int | None = None, step: int = 1) -> np.ndarray:
        """Return rows of a stream, selected as by a slice with a positive step.

        Parameters
        ----------
        name : str
        start, stop, step : int
            As in a slice; `step` at least 1.

        Returns
        -------
        (n, ...) array
            In the stream's dtype; texts as an object array of str.

        Raises
        ------
        StorageError
            If a part that holds these rows is damaged.
        """
        if step < 1:
            raise ValueError(f"step must be at least 1; got {step}.")
        self.n_rows(name)  # which refuses other names
        return self._retrying(lambda: self._read_rows(name, slice(start, stop, step)))

    def verify(self) -> None:
        """Check every byte of the run; raise StorageError at the first damage."""
        if self._merged is not None:
            self._merged.check()
        self.verify_parts()

    def verify_parts(self) -> None:
        """Check every byte that is not merged, also where no rows are; raise StorageError at the first damage."""
        if self._parts is not None:
            self._retrying(self._check_parts)

    def close(self) -> None:
        """Close the files; reading opens them again."""
        while self._files:
            self._files.popitem()[1][1].close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _whole(self) -> Merged:
        assert self._merged is not None
        return self._merged

    def _retrying(self, act: Callable[[], T], *, reopen_first: bool = False) -> T:
        """Call `act`; where files were merged, removed or computed again meanwhile, find them again and repeat."""
        for attempt in range(_TRIALS):
            try:
                if reopen_first or attempt or self._is_replaced():
                    self._reopen()
                if reopen_first:
                    self._run_id = self._id()
                elif self._id() != self._run_id:
                    raise StorageError(f"{self.path} is another run than it was when it was opened. Open it again.")
                return act()
            except (At, Damaged, FileNotFoundError) as error:
                failure: Exception = error
                time.sleep(_PAUSE if self.holder else 0.0)
            except (OSError, *NONSENSE) as error:
                if isinstance(error, StorageError) or getattr(error, "errno", None) is not None:  # not HDF5's
                    raise
                raise self._damage(error) from error
        raise self._damage(failure) from None

    def _is_replaced(self) -> bool:
        """Return whether files took the place of those that rows were read from."""
        merged, first = self._seen
        if self._merged is not None and stamp(self._names.merged) != merged:
            return True
        return self._parts is not None and stamp(self._names.segment(0)) != first

    def _id(self) -> str:
        return self._parts.origin.header.run_id if self._parts else self._whole.run_id

    def _reopen(self) -> None:
        for _ in range(_TRIALS):
            seen = self._stamps()
            self._reopen_once(seen)
            if self._stamps() == seen:  # else parts were listed that a merge was about to remove, from the last one on
                return

    def _stamps(self) -> Any:
        return stamp(self._names.merged), stamp(self._names.segment(0))

    def _reopen_once(self, seen: Any) -> None:
        if seen != self._seen or seen == (None, None):
            self.close()
            self._parts, self.damage = None, ""
            status = find(self._names, trust=self._trust)
            self._merged = status.merged
            self._parts = self._parts_of(status.origin) if status.origin else None
            if self.settings["compression"] == "zstd":
                hdf.zstd()  # HDF5 knows the filter once it is imported
            self._seen = seen
        elif self._parts is not None:
            self._parts.refresh()

    def _parts_of(self, origin: Origin) -> Parts:
        if not self._cut:
            return Parts(self._names, origin)
        whole = whole_part(self._names, origin)
        self.damage = whole.damage
        return whole

    def _damage(self, error: Exception) -> StorageError:
        if not isinstance(error, At):
            return StorageError(f"{self.path} is damaged: {error}. {'' if self._parts else DISTRUST}".rstrip())
        safe = 0
        with suppress(StorageError, OSError):
            if origin := find(self._names).origin:
                whole = follow(self._names, origin, hash_last=None).headers
                safe = whole[: max(error.number, 1)][-1].end_block
        place = damage(self._names, error.number, error.error)
        return StorageError(f"{place}. {blocks_safe(safe)} are whole; resume the run to compute the others again.")

    def _check_parts(self) -> None:
        for number in range(self._parts.last_number + 1 if self._parts else 0):
            assert self._parts is not None
            self._parts.header(number)

    def _read_spec(self) -> str:
        return self._parts.read_spec() if self._parts else self._whole.spec

    def _read_inputs(self) -> Arrays:
        return read_inputs(self._names) if self._parts else self._whole.read_arrays(INPUTS)

    def _read_state(self) -> Arrays:
        if self._parts is None:
            return self._whole.read_arrays(STATE)
        last = self._parts.last
        try:
            return read_state(self._names, last)
        except Damaged as error:
            place = self._names.state(last.segment) if last.state_sha256 else self._names.segment(last.segment)
            raise Damaged(f"{self._names.show(place)}: {error}") from None

    def _read_rows(self, name: str, selection: slice) -> np.ndarray:
        chosen, stream = range(self.n_rows(name))[selection], self.streams[name]
        rows = None
        for first, end, path in self._pieces(name, chosen[0], chosen[-1] + 1) if len(chosen) else ():
            low = max(0, -(-(first - chosen.start) // chosen.step))
            high = min(len(chosen), -(-(end - chosen.start) // chosen.step))
            if low >= high:
                continue
            picked = slice(chosen[low] - first, chosen[high - 1] - first + 1, chosen.step)
            piece = self._read_piece(path, name, picked)
            if high - low == len(chosen) and piece.dtype == stream.numpy_dtype:
                return piece  # a copy of it would cost as much again
            rows = np.empty((len(chosen), *stream.shape), stream.numpy_dtype) if rows is None else rows
            rows[low:high] = piece
        return np.empty((0, *stream.shape), stream.numpy_dtype) if rows is None else rows

    def _pieces(self, name: str, start: int, stop: int) -> Iterator[tuple[int, int, Path]]:
        n_merged = self._parts.n_rows_before(name) if self._parts else self._whole.n_rows[name]
        if start < n_merged:
            yield 0, n_merged, self._names.merged
        if self._parts is not None and stop > n_merged:
            for first, end, header in self._parts.pieces(name, max(start, n_merged), stop):
                yield first, end, self._names.segment(header.segment)

    def _read_piece(self, path: Path, name: str, picked: slice) -> np.ndarray:
        try:
            file = self._open(path)
            if isinstance(file, MergedFile):
                return file.read_rows(name, picked)
            return hdf.read_rows_of(file, name, self.streams[name], picked)
        except (FileNotFoundError, Damaged):
            raise
        except Exception as error:  # of what was sealed and is no rows
            place = f"{self._names.show(path)} is damaged: {name}, rows {picked.start}-{picked.stop - 1} of the file"
            raise StorageError(f"{place}: {error}.") from error

    def _open(self, path: Path) -> h5py.File | MergedFile:
        seen = stamp(path)
        if path in self._files:
            known, file = self._files.pop(path)
            if known == seen:
                self._files[path] = (known, file)
                return file
            file.close()
        merged = self._merged if path == self._names.merged else None
        file = merged.open() if merged else open_image(path)
        self._files[path] = (seen, file)
        if len(self._files) > MAX_OPEN_FILES:
            self._files.popitem(last=False)[1][1].close()
        return file


@overload
def open_reader(run: str | os.PathLike[str] | Names, *, cut: bool = False, trust: bool = False) -> Reader: ...
@overload
def open_reader(run: Memory, *, cut: bool = False, trust: bool = False) -> Memory: ...
def open_reader(
    run: str | os.PathLike[str] | Names | Memory, *, cut: bool = False, trust: bool = False
) -> Reader | Memory:
    """Open a run for reading.

    Parameters
    ----------
    run : str, path, Names or Memory
        ``run.h5`` or ``run.h5.parts``, whichever of the two there is; a run in memory is returned as it is. The names
        of a run hold also where the working folder has changed since.
    cut : bool
        Check every byte of parts first, and read as if the run ended before the first that is damaged; what that is
        stands in `damage`. Such a reader keeps to what was there when it was opened.
    trust : bool
        Believe a merged file without a seal, of which nothing can be checked; `Reader.unchecked` tells of it.

    Raises
    ------
    StorageError
        If there is no such run, it is not a fastbm run, is of a newer format, or is damaged.
    """
    return run if isinstance(run, Memory) else Reader(run, cut=cut, trust=trust)


def _open_again(path: str, cut: bool, trust: bool) -> Reader:
    return Reader(path, cut=cut, trust=trust)
