"""The beginning of a run: check the place, and commit its first segment before anything is computed."""

from __future__ import annotations

import errno
import os
import platform
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._base.checks import StorageError, TakenRun, choice, real, whole
from .._base.streams import Stream
from .._base.versions import package_version
from . import disk, hdf
from .chain import Origin, foreign
from .commit import disk_errors
from .find import read_merged, unreadable
from .hdf import copy_arrays
from .holder import is_live
from .image import Damaged, Foreign, write_sealed
from .lock import Lock, busy
from .names import Names
from .place import check_out, check_place, warn_of_place
from .schema import canonical_json, check_streams
from .segment import Contents, Header, read_header, segment_image, spec_hash
from .writer import Settings, Writer, index_of

OWN_META = ("run_id", "created", "machine", "replaces", "settings", "merged_from", "n_blocks", "written")
VERSIONED = ("fastbm", "numpy", "numba", "h5py")
SPARE = 1 << 20  # bytes that must stay free beside what a run begins with


def create(
    path: str | os.PathLike[str],
    *,
    spec: dict[str, Any],
    streams: Mapping[str, Stream],
    state: Mapping[str, Any],
    inputs: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    commit_seconds: float = 60.0,
    commit_bytes: int = 16 << 20,
    compression: str | None = None,
    merge: bool = True,
    overwrite: bool = False,
) -> Writer:
    """Begin a run and make its first commit.

    Parameters
    ----------
    path : str or path
        The file that holds the run once it is finished; ``path.parts`` holds it until then.
    spec : dict
        Everything that decides the rows; JSON values.
    streams : mapping of name to Stream
    state : mapping of name to array
        The state before the first block.
    inputs : mapping of name to array, optional
        Arrays that the run starts from.
    meta : mapping of name to number or text, optional
        What is worth knowing but decides nothing.
    commit_seconds, commit_bytes : float, int
        A commit is due after this time, or with this many bytes of rows.
    compression : {None, "gzip", "zstd"}
    merge : bool
        Whether `finish` merges the parts into one file.
    overwrite : bool
        Replace a run of that name, once this one's first commit is safe. Of a link to a run the link is replaced, and
        the run that it leads to is kept.

    Returns
    -------
    Writer

    Warns
    -----
    UserWarning
        If the file system lacks locks, cannot sync folders or renames by copying: what is then not guaranteed.

    Raises
    ------
    StorageError
        If a run is there, is being written, or the place cannot be written; nothing is changed then.
    ValueError
        If the path names no local file.
    """
    names = Names(path)
    check_out(path)
    if compression is not None and choice("compression", compression, ("gzip", "zstd")) == "zstd":
        hdf.zstd()
    settings = Settings(
        real("commit_seconds", commit_seconds, least=0.0), whole("commit_bytes", commit_bytes), compression, bool(merge)
    )
    streams = check_streams(streams)
    first_state, first_inputs = copy_arrays(state, "state"), copy_arrays(inputs or {}, "inputs")
    text = canonical_json(spec)
    _check_meta(meta or {})
    check_place(names)  # before a folder is made
    runs_there(names, overwrite=overwrite)
    made = [folder for folder in (names.parts, *names.parts.parents) if not folder.exists()]
    lock = _locked(names, made)
    try:
        with disk_errors(names):
            replaced = runs_there(names, overwrite=overwrite)
        run_id = secrets.token_hex(16)
        own = {
            **run_meta(meta or {}),
            "run_id": run_id,
            "replaces": canonical_json(sorted(replaced)),
            "settings": canonical_json(asdict(settings)),
        }
        header = Header(run_id, 0, 0, 0, spec_hash(text), prev_sha256="", index=index_of(streams, {}))
        contents = Contents(streams, {}, first_state, own, text, first_inputs, compression)
        header = write_first(names, header, contents)
        with disk_errors(names, safe=0, resumable=True):
            no_sync = disk.sync_folder(names.parts.parent)
            for folder in made[1:]:
                disk.sync_folder(folder.parent)
        warn_of_place(names, lock.lacks, no_sync)
        with disk_errors(names, safe=0, resumable=True):
            clear_leftovers(names, merged=bool(replaced))
    except BaseException:
        give_up(names, lock)
        _remove(made)
        raise
    origin = Origin(header, text, streams, own, sorted(replaced))
    return Writer(names, lock, text, first_inputs, streams, first_state, settings, header, origin)


def _locked(names: Names, made: list[Path]) -> Lock:
    try:
        return Lock(names)
    except StorageError:
        _remove(made)
        raise


def _remove(made: list[Path]) -> None:
    """Remove folders that were made for a run that was refused, the inner ones first."""
    for folder in made:
        disk.remove_folder(folder)


def write_first(names: Names, header: Header, contents: Contents) -> Header:
    """Commit the first segment; it takes the place of any other in one rename."""
    check_memory(names, contents)
    image = segment_image(header, contents)
    free = shutil.disk_usage(names.parts).free
    if free < (least := len(image) + SPARE):
        needed = f"needed {least / 1e6:.1f} MB, {free / 1e6:.1f} MB free"
        error = StorageError(
            f"no space left in {names.merged.parent} ({needed}). Nothing of {names.shown} was begun. Free space first."
        )
        error.errno = errno.ENOSPC
        raise error
    with disk_errors(names, needed=len(image), safe=header.first_block, resumable=header.first_block > 0):
        digest = write_sealed(image, names.segment(0))
    return replace(header, sha256=digest)


def clear_leftovers(names: Names, *, merged: bool) -> None:
    """Remove what the first segment has replaced: last first, so that a kill leaves no run that looks whole."""
    replaced = [path for path in names.own_files() if path != names.segment(0)]
    for path in replaced:
        disk.unlink(path)
    if merged:
        disk.unlink(names.merged)
        disk.sync_folder(names.merged.parent)
    if replaced:
        disk.sync_folder(names.parts)


def give_up(names: Names, lock: Lock) -> None:
    """Release the lock, and remove the folder if nothing was begun in it."""
    with suppress(OSError):
        if not names.segment_numbers():
            disk.unlink(names.lock)
            disk.remove_folder(names.parts)
    lock.release()


def runs_there(names: Names, *, overwrite: bool) -> set[str]:
    """Return the ids of the runs under a name; refuse if there are any and `overwrite` is false, or foreign files."""
    found: set[str] = set()
    if names.merged.exists():
        try:
            found.add(read_merged(names).run_id)
        except OSError as error:
            reason = error if isinstance(error, StorageError) else unreadable(names, error)
            raise StorageError(f"{reason} It is never overwritten. Write elsewhere.") from None
    numbers = names.segment_numbers()
    if not overwrite and (found or numbers):
        if is_live(names):
            raise busy(names)
        raise TakenRun(
            f"{names.shown} exists. Continue it with fastbm.resume({names.shown!r}) "
            "or pass overwrite=True to replace it."
        )
    for number in numbers:
        try:
            found.add(read_header(names.segment(number), names.shown, hashed=False).run_id)
        except Foreign as error:
            raise StorageError(f"{foreign(names, number, error)} It is never overwritten. Write elsewhere.") from None
        except (Damaged, FileNotFoundError):
            continue  # it was ours
        except StorageError:
            raise
        except OSError as error:
            raise unreadable(names, error) from error
    return found


def run_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of /meta: the caller's, the machine and the versions."""
    versions = {f"{name}_version": package_version(name) for name in VERSIONED}
    machine = f"{platform.node()} {platform.platform()} {platform.machine()}, {os.cpu_count()} cpus"
    created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    return {**meta, **versions, "python_version": platform.python_version(), "machine": machine, "created": created}


def check_memory(names: Names, contents: Contents) -> None:
    """Refuse a run that this machine's memory cannot hold.

    Of the state there are three copies: the caller's, that of the last commit and that of the one under way. Of inputs
    there are two, the caller's and ours. An image refers to them.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    inputs = sum(array.nbytes for array in (contents.inputs or {}).values())
    state = sum(array.nbytes for array in contents.state.values())
    if 3 * state + 2 * inputs > total:
        raise StorageError(
            f"{names.shown}: {state / 1e9:.1f} GB of state are held three times in memory, inputs of "
            f"{inputs / 1e9:.1f} GB twice; this machine has {total / 1e9:.1f} GB. Give large data by path."
        )


def _check_meta(meta: Mapping[str, Any]) -> None:
    for key, value in meta.items():
        if key in OWN_META or key.endswith("_version"):
            raise ValueError(f"meta: {key!r} is written by the store itself; choose another name.")
        if not isinstance(value, (str, int, float, np.number, np.bool_)):
            raise TypeError(f"meta: {key!r} must be a number or text; got {value!r}.")
