"""The verification of a run: every byte checked, in parts and merged, and all damage named, without a lock or a change.

Of a damaged merged file the rows are found whose checksums are wrong.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import h5py
import numpy as np

from .._base import checks
from .._base.checks import DamagedRun, StorageError
from .._base.hdf5 import NONSENSE, sealed_format
from .._base.streams import Stream
from . import apart, hdf
from .chain import Origin, Stale, Unreadable, blocks_safe, check_link, damage
from .commit import KEPT_STATES
from .damaged import LARGEST_PIECE, damaged_rows
from .find import DISTRUST, Merged, find, kind_of
from .holder import is_live
from .image import SIGNATURE, Damaged, Foreign, check_hash, open_image, read_trailer
from .names import Names
from .parts import stamp
from .segment import Header, check_attributes

SLOWEST = 5e6  # bytes of a file that are verified in a second
TRIALS = 3


@dataclass(frozen=True)
class Verification:
    """The result of a verification: what was checked of a run, and what was found.

    Attributes
    ----------
    path : str
    n_files, n_bytes, n_blocks : int
        Files that were looked at, their bytes, and blocks that are whole from the start on.
    finished, live, merged : bool
        Whether the run came to its end, is being written, and is one file.
    problems : tuple of str
        One line for each damage; empty where all is sound.
    notes : tuple of str
        What a kill may have left and is harmless: unfinished files, parts set aside, parts that are merged already.
    lost : bool
        Whether so much is damaged that nothing of it can be read.
    """

    path: str
    n_files: int
    n_bytes: int
    n_blocks: int
    finished: bool
    live: bool
    merged: bool
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    lost: bool = False

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems


@dataclass
class _Findings:
    names: Names
    n_files: int = 0
    n_bytes: int = 0
    problems: list[str] = field(default_factory=list)


@checks.named
def verify(path: str | os.PathLike[str]) -> Verification:
    """Verify trailers, checksums, the chain, counts, and that HDF5 reads every row.

    Parameters
    ----------
    path : str or path
        ``run.h5`` or ``run.h5.parts``, live, dead or finished.

    Returns
    -------
    Verification

    Raises
    ------
    StorageError
        If there is no such run, it is of a newer format, or files of others or of another run are among its own.
    """
    names = Names(path)
    for _ in range(TRIALS):
        before = stamp(names.merged)
        found = _verify(names)
        if stamp(names.merged) == before:  # else the parts were merged while they were looked at
            break
    return found


def verify_apart(path: str | os.PathLike[str], *, seconds: float | None = None) -> Verification:
    """Verify a run in a process of its own, with limits of memory and time: it may come from a stranger.

    `seconds` is the limit of time, by default a minute and one for every 300 MB. Where the process does not come to its
    end, all is lost that the run holds; what else is as for `verify`.
    """
    names = Names(path)
    files = [one for one in (names.merged, *names.own_files()) if one.is_file()]
    n_bytes = sum(one.stat().st_size for one in files)
    try:
        found = apart.call(plain, str(path), apart.SECONDS + n_bytes / SLOWEST if seconds is None else seconds)
    except apart.Lost as error:
        problem = f"{names.shown} cannot be looked at: the process that verified it {error}. {DISTRUST}"
        return _verification(_Findings(names, len(files), n_bytes, [problem]), lost=True)
    if "refused" in found:
        raise StorageError(found["refused"])
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in found.items()}
    return Verification(**values)


def plain(path: str) -> dict[str, Any]:
    """Return what `verify` finds, as JSON takes it."""
    try:
        return asdict(verify(path))
    except StorageError as error:
        return {"refused": str(error)}


def _verify(names: Names) -> Verification:
    found = _Findings(names)
    sealed = _check_seal(found)
    if sealed is None:  # its tables are not to be trusted
        _check_seals(found, 0)
        return _verification(found, lost=not names.has_segments())
    try:
        status = find(names, trust=True)
    except DamagedRun as error:
        found.problems.append(str(error))
        _check_seals(found, 1)
        return _verification(found, lost=True)
    either = status.origin or status.merged
    if either is not None and either.settings["compression"] == "zstd":
        hdf.zstd()  # HDF5 knows the filter once it is imported
    n_blocks, finished = 0, status.origin is None
    if status.merged is not None:
        _check_merged(found, status.merged, sealed=sealed)
        n_blocks = int(status.merged.meta["n_blocks"])
    sound = not found.problems
    if status.origin is not None:
        last = _check_parts(found, status.origin)
        n_blocks, finished = last.end_block, last.finished
    notes = []
    if status.leftover_parts:
        notes.append(f"{names.shown}.parts is merged already")
    if status.leftover_merged:
        notes.append(f"{names.shown} was replaced by the run in {names.shown}.parts")
    return _verification(found, n_blocks if sound else 0, finished=finished, merged=status.origin is None, notes=notes)


def _verification(
    found: _Findings, n_blocks: int = 0, *, finished: bool = False, merged: bool | None = None, lost: bool = False,
    notes: Iterable[str] = (),
) -> Verification:  # fmt: skip
    """Return the result for a run; parts that exist belong to it unless `merged` says otherwise."""
    names = found.names
    left = [f"{names.show(one)} was left unfinished" for one in names.temporaries()]
    left += [f"{names.show(one)} is set aside" for one in names.own_files() if ".bad" in one.name]
    merged = not names.has_segments() if merged is None else merged
    return Verification(
        names.shown, found.n_files, found.n_bytes, n_blocks, finished, is_live(names), merged, tuple(found.problems),
        (*left, *notes), lost,
    )  # fmt: skip


def _check_seal(found: _Findings) -> bool | None:
    """Compare a merged file with its hash before HDF5 sees it: whether it has one, and None if the two differ.

    One without a seal may hang HDF5 or crash it, and is first read in a process of its own: None if that fails.
    """
    path, shown = found.names.merged, found.names.shown
    try:
        if kind_of(path):
            return False
        check_hash(path, read_trailer(path))
    except Foreign:
        return False
    except StorageError:
        raise
    except OSError as error:
        if error.errno != errno.EIO:  # what else there may be is told where the run is looked for
            return False
        found.problems.append(f"{shown} cannot be read: {error.strerror or error}.")
        return None
    except Damaged as error:
        unsealed = "trailer is missing" in str(error)
        if unsealed and sealed_format(path):
            return False
        places = damaged_rows(path)
        with open(path, "rb") as file:
            if unsealed and (places is not None or file.read(len(SIGNATURE)) != SIGNATURE):
                return False
        found.n_files, found.n_bytes = 1, path.stat().st_size
        for name, first, last in places or ():
            found.problems.append(f"{shown} is damaged: {name}, rows {first}-{last}.")
        nowhere = " No chunk of rows has a wrong checksum: it is something else in the file." if places == [] else ""
        why = "its seal is missing, and HDF5 cannot read it" if unsealed else error
        found.problems.append(f"{shown} is damaged: {why}. {DISTRUST}{nowhere}")
        return None
    return True


def _check_merged(found: _Findings, merged: Merged, *, sealed: bool) -> None:
    found.n_files += 1
    found.n_bytes += merged.names.merged.stat().st_size
    if not sealed:
        found.problems.append(f"{merged.names.shown} is damaged: its seal is missing. {DISTRUST}")
    try:
        with merged.open() as file:
            for name, stream in merged.streams.items():
                for some in _pieces(merged.n_rows[name], stream):
                    file.read_rows(name, some)
    except Exception as error:
        found.problems.append(f"{merged.names.shown} is damaged: HDF5 cannot read it through ({error}).")


def _check_seals(found: _Findings, first: int) -> None:
    """Check segments from the `first` on, each for itself, where what comes before them is damaged."""
    names = found.names
    for number in names.segment_numbers():
        path = names.segment(number)
        try:
            found.n_bytes += path.stat().st_size
            found.n_files += 1
            if number >= first:
                check_hash(path, read_trailer(path))
        except FileNotFoundError:
            continue
        except Exception as error:  # bytes of any kind
            found.problems.append(f"{names.show(path)} is damaged: {error}.")


def _check_parts(found: _Findings, origin: Origin) -> Header:
    """Check all segments, also those behind a damaged one; return the last header of the whole part of the chain."""
    names = found.names
    numbers = names.segment_numbers() or [0]  # none are left where they were merged in between
    before: Header | None = None
    safe = origin.header
    broken = False
    for number, n_lost in _with_gaps(numbers):
        if n_lost > 1:
            first, last = (names.segment(number + k) for k in (0, n_lost - 1))
            lost = f"{n_lost} segments, {names.show(first)} to {last.name}, are missing"
            found.problems.append(f"{lost}. {blocks_safe(safe.end_block)} are whole.")
            before, broken = None, True
            continue
        path, linked = names.segment(number), before is not None
        try:
            header = origin.header
            if number:
                header = check_link(names, origin, before, number, hashed=True, linked=linked)
            _check_contents(found, origin, header, before)
        except Stale:
            break
        except (Damaged, FileNotFoundError, Unreadable) as error:
            what = str(error) if isinstance(error, Unreadable) else f"{damage(names, number, error)}."
            found.problems.append(f"{what} {blocks_safe(safe.end_block)} are whole.")
            before, broken = None, True
        else:
            before = header
        with suppress(FileNotFoundError):
            found.n_bytes += path.stat().st_size
            found.n_files += 1
        if before is None:
            continue
        if not broken:
            safe = header
    _check_states(found, origin, safe)
    return safe


def _with_gaps(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (number, 0) for each segment, and in order with them (first missing number, length) for each gap."""
    for last, number in itertools.pairwise([-1, *numbers]):
        if number > last + 1:
            yield last + 1, number - last - 1
        yield number, 0


def _check_contents(found: _Findings, origin: Origin, header: Header, before: Header | None) -> None:
    """Check the counts of a segment against its rows and the segment before it; read all rows."""
    if header.index.shape != (len(origin.streams), 2):
        raise Damaged("its index is of other streams")
    if before is not None and not np.array_equal(header.index[:, 0], _rows_before(header, before)):
        raise Damaged("its rows do not follow on those of the segment before it")
    try:
        with open_image(found.names.segment(header.segment)) as file:
            check_attributes(file, header)
            there = {name: stream for name, stream in origin.streams.items() if name in file}
            for (name, _), count in zip(origin.streams.items(), header.index[:, 1], strict=True):
                n_rows = file[name].shape[0] if name in there else 0
                if n_rows != count:
                    raise Damaged(f"it counts {count} rows of {name} and holds {n_rows}")
            _read_through(file, there)
    except (OSError, *NONSENSE) as error:
        raise Damaged(f"HDF5 cannot read it through ({error})") from error


def _rows_before(header: Header, before: Header) -> np.ndarray:
    """Return the rows of each stream before a segment: all so far, but for those that it takes back itself."""
    found: np.ndarray = before.index.sum(axis=1)
    if len(header.rewinds) != len(before.rewinds):
        found = np.minimum(header.rewinds[-1, 1:], found)
    return found


def _check_states(found: _Findings, origin: Origin, last: Header) -> None:
    """Check the states that are files of their own: all that exist, and the last one, which must."""
    names = found.names
    for number in names.state_numbers():
        path = names.state(number)
        try:
            n_bytes = path.stat().st_size
            check_hash(path, read_trailer(path))
        except FileNotFoundError:
            continue  # one who writes the run removes those that no resume will need
        except Exception as error:  # bytes of any kind
            found.problems.append(f"{names.show(path)} is damaged: {error}.")
        found.n_files += 1
        found.n_bytes += n_bytes
    if last.state_sha256 and last.run_id == origin.header.run_id:
        path = names.state(last.segment)
        if not path.exists() and not names.segment(last.segment + KEPT_STATES).exists():
            found.problems.append(f"{names.show(path)}, the state of the last commit, is missing.")


def _read_through(file: h5py.File, streams: dict[str, Stream]) -> None:
    """Read all rows, a piece at a time: HDF5 compares its own checksums of chunks."""
    for name, stream in streams.items():
        for some in _pieces(file[name].shape[0], stream):
            hdf.read_rows_of(file, name, stream, some)


def _pieces(n_rows: int, stream: Stream) -> Iterator[slice]:
    step = max(LARGEST_PIECE // max(stream.row_bytes, 1), 1)
    return (slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step))
