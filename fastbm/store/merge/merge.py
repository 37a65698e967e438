"""Merge the parts of a finished run into one plain HDF5 file."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from ..._base.checks import StorageError
from ..._base.halting import Halt, never
from .. import disk
from ..chain import Chain, Origin, Written, blocks_safe, follow
from ..commit import disk_errors
from ..find import Status, find
from ..image import Damaged, check_hash
from ..lock import Lock
from ..names import TEMPORARY, Names
from ..place import check_replaceable

LARGEST_MERGE_BYTES = 20 * 10**9
RESERVE = 16 << 20  # bytes that a merge leaves free, unless it is asked for


def merge_parts(path: str | os.PathLike[str]) -> str:
    """Merge a finished run's parts into one file and remove them.

    Parameters
    ----------
    path : str or path
        ``run.h5`` or ``run.h5.parts``. A run that is merged already is left as it is.

    Returns
    -------
    str
        The merged file.

    Raises
    ------
    StorageError
        If the run is being written, is not finished, or is damaged; the parts are left as they were.
    """
    names = Names(path)
    find(names)
    if names.parts.is_dir():  # a kill may have left the folder with nothing but its lock
        lock = Lock(names)
        try:
            merge_chain(names)
        finally:
            lock.release()
    return names.shown


def merge_chain(names: Names, halt: Halt = never, written: Written | None = None) -> None:
    """Merge under the lock that the caller holds; may be killed or halted at any instant and done again.

    `written` is given where this process has begun the run, and no file was there before.
    """
    from .write import write_merged  # runs in memory, and those that are read, never merge

    if written is not None and not _stands(names, written.origin):
        written = None
    status = find(names) if written is None else Status(None, written.origin)
    if status.origin is not None:
        check_replaceable(names)
        for path in names.temporaries():
            disk.unlink(path)
        chain = _check_whole(names, status)
        with disk_errors(names, needed=parts_bytes(names), safe=chain.headers[-1].end_block, resumable=True):
            try:
                write_merged(names, status, chain, halt, written)
            except BaseException as error:
                with suppress(OSError):
                    disk.unlink(names.merged_temporary)
                if isinstance(error, Damaged):
                    whole = follow(names, status.origin, hash_last=None)
                    raise _damaged(str(error), whole.headers[-1].end_block) from None
                raise
    with disk_errors(names, resumable=True):
        names.fence()
        remove_parts(names)


def _stands(names: Names, origin: Origin) -> bool:
    """Return whether the first segment is what was written; if not, `find` tells what is wrong."""
    try:
        check_hash(names.segment(0), origin.header.sha256)
    except (Damaged, OSError):
        return False
    return not names.merged.exists()


def remove_parts(names: Names) -> None:
    """Remove parts that are merged, with their lock and folder."""
    remove_segments(names)
    disk.unlink(names.lock)
    disk.remove_folder(names.parts)


def discard(run: str | os.PathLike[str] | Names) -> None:
    """Remove a run that is in parts and that nobody writes, with all that it holds."""
    remove_parts(Names.of(run))


def remove_segments(names: Names) -> None:
    """Remove segments that are merged; the first one, which shows that they are, when the others are gone."""
    for _, handle in names.unnamed.values():
        disk.close(handle)
    names.unnamed.clear()
    several = False
    for path in names.own_files():
        if path == names.segment(0) and several:
            disk.sync_folder(names.parts)
        disk.unlink(path)
        several = several or not path.name.endswith(TEMPORARY)  # what bears no name is no segment of a run


def reason_to_keep_parts(names: Names) -> str | None:
    """Return why a run should not be merged by itself, if so."""
    size = parts_bytes(names)
    if names.merged.exists():
        size += names.merged.stat().st_size
    free = shutil.disk_usage(names.parts).free
    if size > LARGEST_MERGE_BYTES:
        return f"it has {size / 1e9:.1f} GB, and above {LARGEST_MERGE_BYTES / 1e9:.0f} GB only fastbm.merge does"
    if free < (needed := size + RESERVE):
        reserve = f"{RESERVE / 1e6:.0f} to stay free"
        return f"merging needs {needed / 1e6:.1f} MB, of them {reserve}; {free / 1e6:.1f} MB are free"
    return None


def parts_bytes(names: Names) -> int:
    """Return the size of all parts."""
    sizes = 0
    for path in names.own_files():
        with suppress(FileNotFoundError):
            sizes += path.stat().st_size
    return sizes


def _check_whole(names: Names, status: Status) -> Chain:
    """Follow the chain to its end; refuse parts that lack it."""
    assert status.origin is not None
    chain = follow(names, status.origin, hash_last=0)  # bytes are checked as they are read
    end = chain.headers[-1].end_block
    if chain.bad:
        raise _damaged(chain.reason, end)
    if not chain.headers[-1].finished:
        raise StorageError(f"{names.shown} is not finished ({end} blocks). Resume it to its end, then merge.")
    if status.merged is not None:
        status.merged.check()
    return chain


def _damaged(reason: str, end: int) -> StorageError:
    return StorageError(
        f"{reason}. {blocks_safe(end)} are whole; resume the run to compute the others again. Nothing was merged."
    )
