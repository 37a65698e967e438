"""Merge the parts of a finished run into one plain HDF5 file."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from typing import Any

import h5py
import numpy as np

from .._checks import StorageError
from ..halting import Halt, Halted, look, never
from . import files, hdf
from .chain import blocks_safe, follow
from .commit import disk_errors
from .diskfile import DiskFile
from .image import open_image
from .lock import Lock
from .names import Names
from .reader import Reader
from .schema import (
    FORMAT,
    FORMAT_VERSION,
    INPUTS,
    META,
    SPEC,
    STATE,
    Stream,
    canonical_json,
    chunk_shape,
    package_version,
)
from .standing import Standing, find

LARGEST_MERGE_BYTES = 20 * 10**9
_BATCH_BYTES = 8 << 20


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
    standing = find(names)
    if standing.origin is not None or standing.leftover_parts:
        lock = Lock(names)
        try:
            merge_chain(names)
        finally:
            lock.release()
    return names.shown


def merge_chain(names: Names, halt: Halt = never) -> None:
    """Merge under the lock that the caller holds; may be killed or halted at any instant and done again."""
    standing = find(names)
    if standing.origin is not None:
        safe = _check_whole(names, standing)
        with disk_errors(names, needed=parts_bytes(names), safe=safe):
            try:
                _write_merged(names, standing, halt)
            except (OSError, Halted):
                with suppress(OSError):
                    files.unlink(names.merged_temporary)
                raise
    with disk_errors(names):
        remove_parts(names)


def remove_parts(names: Names) -> None:
    """Remove parts that are merged, with their lock and folder."""
    remove_segments(names)
    files.unlink(names.lock)
    files.remove_folder(names.parts)


def discard(path: str | os.PathLike[str]) -> None:
    """Remove a run that is in parts and that nobody writes, with all that it holds."""
    remove_parts(Names(path))


def remove_segments(names: Names) -> None:
    """Remove segments that are merged. The first one tells that they are, so it goes when the others are gone."""
    for path in names.own_files():
        if path == names.segment(0):
            files.sync_folder(names.parts)
        files.unlink(path)


def reason_to_keep_parts(names: Names) -> str | None:
    """Return why a run should not be merged by itself, if so."""
    size = parts_bytes(names)
    if names.merged.exists():
        size += names.merged.stat().st_size
    free = shutil.disk_usage(names.parts).free
    if size > LARGEST_MERGE_BYTES:
        return f"it has {size / 1e9:.1f} GB, and above {LARGEST_MERGE_BYTES / 1e9:.0f} GB only fastbm.merge does"
    if free < size + (16 << 20):
        return f"merging needs {size / 1e6:.1f} MB and {free / 1e6:.1f} MB are free"
    return None


def parts_bytes(names: Names) -> int:
    """Return the size of all parts."""
    sizes = 0
    for path in names.own_files():
        with suppress(FileNotFoundError):
            sizes += path.stat().st_size
    return sizes


def _check_whole(names: Names, standing: Standing) -> int:
    """Check that there is a whole chain to an end, and return its number of blocks."""
    assert standing.origin is not None
    chain = follow(names, standing.origin, hash_last=0)  # bytes are checked as they are read
    end = chain.headers[-1].end_block
    if chain.bad:
        raise StorageError(
            f"{chain.reason}. {blocks_safe(end)} are whole; resume the run to compute the others again. "
            f"Nothing was merged."
        )
    if not chain.headers[-1].finished:
        raise StorageError(f"{names.shown} is not finished ({end} blocks). Resume it to its end, then merge.")
    if standing.merged is not None:
        standing.merged.check()
    return end


def _write_merged(names: Names, standing: Standing, halt: Halt) -> None:
    assert standing.origin is not None
    disk = DiskFile(names.merged_temporary)
    try:
        with Reader(names.parts) as reader:
            meta = {key: value for key, value in reader.meta.items() if key != "replaces"}
            meta |= {"merged_from": standing.origin.header.sha256, "n_blocks": reader.n_blocks}
            with disk.hdf5() as file:
                hashes = _fill(file, reader, meta, halt)
        _compare(names, hashes, halt)
        disk.seal()
        disk.sync()
    finally:
        disk.close()
    files.rename(names.merged_temporary, names.merged)
    files.sync_folder(names.merged.parent)


def _fill(file: h5py.File, reader: Reader, meta: dict[str, Any], halt: Halt) -> dict[str, str]:
    """Write everything; return the hash of each stream's rows as they came from the segments."""
    file.attrs["format"] = FORMAT
    file.attrs["format_version"] = np.array(FORMAT_VERSION, np.int32)
    file.attrs["fastbm_version"] = package_version("fastbm")
    file.create_dataset(SPEC, data=canonical_json(reader.spec), dtype=hdf.TEXT, track_times=False)
    hdf.write_arrays(file.create_group(INPUTS), reader.inputs)
    hdf.write_arrays(file.create_group(STATE), reader.state)
    file.create_group(META).attrs.update({key: meta[key] for key in sorted(meta)})
    hashes = {}
    for name, stream in reader.streams.items():
        dataset = hdf.declare(file, name, stream, str(reader.settings["compression"] or "") or None)
        n_rows, batch, digest = reader.n_rows(name), batch_rows(stream), hashlib.sha256()
        dataset.resize((n_rows, *stream.shape))
        for start in range(0, n_rows, batch):
            look(halt)
            rows = reader.read(name, start, start + batch)
            update_hash(digest, rows)
            if rows.size:
                dataset[start : start + len(rows)] = rows
        hashes[name] = digest.hexdigest()
    return hashes


def _compare(names: Names, hashes: dict[str, str], halt: Halt) -> None:
    with open_image(names.merged_temporary) as file:
        for name, stream in hdf.read_streams(file).items():
            digest, batch = hashlib.sha256(), batch_rows(stream)
            for start in range(0, file[name].shape[0], batch):
                look(halt)
                update_hash(digest, hdf.read_rows(file[name], slice(start, start + batch)))
            if hashes.pop(name) != digest.hexdigest():
                raise StorageError(f"{names.merged_temporary.name}: {name} differs from the parts, which were kept.")
    if hashes:
        raise StorageError(f"{names.merged_temporary.name} lacks {', '.join(hashes)}; the parts were kept.")


def batch_rows(stream: Stream) -> int:
    """Return a number of rows that fills whole chunks and little memory."""
    chunk = chunk_shape(stream)[0]
    return chunk * max(1, _BATCH_BYTES // max(1, chunk * stream.row_bytes))


def update_hash(digest: Any, rows: np.ndarray) -> None:
    """Add rows to a hash; texts with their lengths, so that no two lists of texts are alike."""
    if rows.dtype.kind != "O":
        digest.update(np.ascontiguousarray(rows).view(np.uint8).data if rows.size else b"")
        return
    for text in rows.flat:
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
