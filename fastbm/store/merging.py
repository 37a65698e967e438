"""Write the one file of a merged run, in one pass through its segments.

HDF5 makes the file with holes for the chunks of rows, which are then filled in the order of the segments; one thread
reads the segments ahead, and one reads the merged file behind. Rows of texts, and rows that are to be compressed, go
through HDF5.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack, suppress
from typing import Any

import h5py
import numpy as np

from .._checks import StorageError
from ..halting import Halt, look
from . import files, hdf, sealed
from .chain import Chain, Origin, read_inputs, read_spec
from .checksum import SIZE
from .chunks import Chunks, chunk_bytes, corners
from .diskfile import DiskFile
from .following import Follower
from .header import Header
from .image import Damaged, open_image
from .names import Names
from .passing import PIECE, kept_rows, one_ahead, row_bytes
from .reader import Reader
from .schema import (
    FORMAT,
    FORMAT_VERSION,
    INPUTS,
    META,
    SPEC,
    STATE,
    Arrays,
    Stream,
    chunk_shape,
    package_version,
)
from .segment import read_state
from .standing import Merged, Standing

_BATCH_BYTES = 8 << 20


def write_merged(names: Names, standing: Standing, chain: Chain, halt: Halt) -> None:
    """Write ``run.h5`` beside the parts; no one sees it before it is whole.

    Raises
    ------
    Damaged
        If a segment is.
    Halted
        If a stop is asked for.
    """
    assert standing.origin is not None
    streams = standing.origin.streams
    n_rows = dict(zip(streams, chain.headers[-1].index.sum(axis=1).tolist(), strict=True))
    compression = str(standing.origin.settings["compression"] or "") or None
    raw = {name for name, stream in streams.items() if not compression and stream.dtype != "str" and stream.row_bytes}
    disk = DiskFile(names.merged_temporary)
    try:
        holes, copied = {}, {}
        with disk.hdf5() as file, ExitStack() as stack:
            _write_about(file, names, standing.origin, chain)
            reader = stack.enter_context(Reader(names.parts)) if raw != set(streams) else None
            # the largest first, so that the file can be read behind while it fills
            for name in sorted(streams, key=lambda name: (-n_rows[name] * streams[name].row_bytes, name)):
                dataset = hdf.declare(file, name, streams[name], compression)
                dataset.resize((n_rows[name], *streams[name].shape))
                if reader is None or name in raw:
                    holes[name] = _leave_holes(disk, dataset, streams[name], n_rows[name])
                else:
                    copied[name] = _copy(dataset, reader, name, streams[name], halt)
        digest = _fill_holes(disk, holes, names, standing, chain, halt)
        _check(names, streams, n_rows, copied)
        disk.seal(digest)
        disk.sync()
    finally:
        disk.close()
    files.rename(names.merged_temporary, names.merged)
    files.sync_folder(names.merged.parent)
    with suppress(OSError):  # one who has moved it by now may
        sealed.note(names.merged, digest.hex())


def _write_about(file: h5py.File, names: Names, origin: Origin, chain: Chain) -> None:
    """Write all that is no stream."""
    last = chain.headers[-1]
    meta = {key: value for key, value in origin.meta.items() if key != "replaces"}
    meta |= {"merged_from": origin.header.sha256, "n_blocks": last.end_block}
    file.attrs["format"] = FORMAT
    file.attrs["format_version"] = np.array(FORMAT_VERSION, np.int32)
    file.attrs["fastbm_version"] = package_version("fastbm")
    spec = read_spec(names, chain.headers, origin.spec)
    file.create_dataset(SPEC, data=spec, dtype=hdf.TEXT, track_times=False)
    hdf.write_arrays(file.create_group(INPUTS), read_inputs(names))
    hdf.write_arrays(file.create_group(STATE), _state(names, last))
    file.create_group(META).attrs.update({key: meta[key] for key in sorted(meta)})


def _state(names: Names, last: Header) -> Arrays:
    try:
        return read_state(names, last)
    except Damaged as error:
        raise Damaged(f"{names.show(names.segment(last.segment))} has no whole state: {error}") from None


def _leave_holes(disk: DiskFile, dataset: h5py.Dataset, stream: Stream, n_rows: int) -> list[int]:
    """Let HDF5 place all chunks of a dataset; return where."""
    blank, first = disk.blank(chunk_bytes(stream)), len(disk.holes)
    for corner in corners(stream, n_rows):
        dataset.id.write_direct_chunk(corner, blank)
    return disk.holes[first:]


def _copy(dataset: h5py.Dataset, reader: Reader, name: str, stream: Stream, halt: Halt) -> str:
    """Write rows through HDF5; return their hash."""
    digest, batch = hashlib.sha256(), batch_rows(stream)
    for start in range(0, len(dataset), batch):
        look(halt)
        rows = reader.read(name, start, start + batch)
        update_hash(digest, rows)
        if rows.size:
            dataset[start : start + len(rows)] = rows
    return digest.hexdigest()


def _fill_holes(
    disk: DiskFile, holes: dict[str, list[int]], names: Names, standing: Standing, chain: Chain, halt: Halt
) -> bytes:
    """Fill the holes with the rows of all segments, and return the hash of the file."""
    assert standing.origin is not None
    streams = standing.origin.streams
    sizes = ((place, chunk_bytes(streams[name])) for name, places in holes.items() for place in places)
    follower = Follower(disk.handle, disk.size, sizes)

    def write(place: int, data: bytearray) -> None:
        disk.fill(place, data)
        follower.filled(place, bytes(data[-SIZE:]))

    try:
        chunks = {name: Chunks(streams[name], holes[name], write) for name in holes}
        n_base, kept = kept_rows(chain.headers, standing.origin.header.index[:, 0])
        columns = {name: (column, stream) for column, (name, stream) in enumerate(streams.items()) if name in holes}
        if standing.merged is not None:
            _feed_base(standing.merged, {name: (int(n_base[columns[name][0]]), one) for name, one in chunks.items()})
        found, large = row_bytes(names, chain.headers[1:], kept[1:], columns), disk.size >= PIECE
        for pieces in one_ahead(found) if large else found:
            look(halt)
            for name, data in pieces:
                chunks[name].feed(data)
        for one in chunks.values():
            one.end()
        if large:
            disk.sync()  # while the other thread reads and hashes what is left
        return follower.end()
    finally:
        follower.close()


def _feed_base(merged: Merged, chunks: dict[str, tuple[int, Chunks]]) -> None:
    """Hand on the rows of the merged file that segments go on from."""
    with open_image(merged.names.merged) as file:
        for name, (n_rows, one) in chunks.items():
            batch = batch_rows(merged.streams[name])
            for start in range(0, n_rows, batch):
                rows = hdf.read_rows(file[name], slice(start, min(start + batch, n_rows)))
                one.feed(np.ascontiguousarray(rows).view(np.uint8).reshape(-1).data)


def _check(names: Names, streams: dict[str, Stream], n_rows: dict[str, int], copied: dict[str, str]) -> None:
    """Read the merged file as others will: all streams with all rows, and those that went through HDF5 the same."""
    with open_image(names.merged_temporary) as file:
        if hdf.read_streams(file) != streams:
            raise StorageError(f"{names.merged_temporary.name} has other streams than the parts, which were kept.")
        for name, stream in streams.items():
            digest, batch = hashlib.sha256(), batch_rows(stream)
            last = max(n_rows[name] - 1, 0)  # of those whose chunks were compared one by one, HDF5 is to read the last
            for start in range(0 if name in copied else last, n_rows[name], batch):
                update_hash(digest, hdf.read_rows(file[name], slice(start, start + batch)))
            if file[name].shape[0] != n_rows[name] or copied.get(name, digest.hexdigest()) != digest.hexdigest():
                raise StorageError(f"{names.merged_temporary.name}: {name} differs from the parts, which were kept.")


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
