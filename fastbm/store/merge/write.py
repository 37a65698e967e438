"""Write the one file of a merged run, in one pass through its segments: every byte is checked as it is read.

HDF5 makes the file with holes for the chunks of rows, which are then filled in the order of the segments; one thread
reads the segments ahead, and one reads the merged file behind. Rows of texts, and rows that are to be compressed, go
through HDF5.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

import h5py
import numpy as np
from h5py import h5d

from ..._base import hdf5
from ..._base.checks import StorageError
from ..._base.halting import Halt, stop_if_asked
from ..._base.streams import Stream
from ..._base.versions import package_version
from .. import disk as files, hdf, scales
from ..chain import Chain, Origin, Written, damage, read_inputs, read_spec
from ..find import Merged, Status
from ..image import Damaged, check_hash, hasher_of, open_image
from ..names import Names
from ..reader import Reader
from ..schema import FORMAT, FORMAT_VERSION, INPUTS, META, SPEC, STATE, Arrays, chunk_shape
from ..seal import BlockHash
from ..segment import Header, read_state
from .file import SIZE, Chunks, DiskFile, Follower, chunk_bytes, corners

PIECE = 4 << 20  # bytes that are read at a time
T = TypeVar("T")
Rows = list[tuple[str, memoryview]]
_BATCH_BYTES = 8 << 20


def kept_rows(headers: Sequence[Header], n_base: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return how many rows of each stream count, of a merged file that segments go on from and of each segment.

    Rows that a later segment puts others in the place of do not.
    """
    limit = headers[-1].index.sum(axis=1)
    kept: list[np.ndarray] = []
    for header in reversed(headers):
        first, count = header.index.T
        kept.append(np.clip(np.minimum(first + count, limit) - first, 0, None))
        limit = np.minimum(limit, first)
    return np.minimum(n_base, limit), kept[::-1]


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items of `items`, each made in another thread while the one before it is used."""
    with ThreadPoolExecutor(1, "fastbm-read") as thread:
        item = thread.submit(next, items, None)
        while (found := item.result()) is not None:
            item = thread.submit(next, items, None)
            yield found


def row_bytes(
    names: Names, headers: Sequence[Header], kept: Iterable[np.ndarray], columns: dict[str, tuple[int, Stream]]
) -> Iterator[Rows]:
    """Yield the bytes of rows of some streams, a piece of a segment at a time; valid while the next piece is read.

    Parameters
    ----------
    names : Names
    headers : sequence of Header
        Of the segments; each file's hash is compared with its header's.
    kept : iterable of arrays
        How many rows of each stream are wanted, for each segment.
    columns : dict
        The streams that are wanted, with their columns of the index.

    Raises
    ------
    Damaged
        If a segment is not what was written. Bytes of it may have been handed on by then.
    """
    longest = max((os.stat(names.segment(header.segment)).st_size for header in headers), default=0)
    buffers = [memoryview(bytearray(min(PIECE, longest))) for _ in range(2)]
    turn = 0
    for header, counts in zip(headers, kept, strict=True):
        try:
            wanted = _places(names, header, {n: (int(counts[c]), s) for n, (c, s) in columns.items() if counts[c]})
            for start, piece in _pieces(names, header, buffers, turn):
                turn += 1
                yield [(name, piece[low - start : high - start]) for name, low, high in _within(wanted, start, piece)]
        except Damaged as error:
            raise Damaged(damage(names, header.segment, error)) from None


def _places(names: Names, header: Header, wanted: dict[str, tuple[int, Stream]]) -> list[tuple[str, int, int]]:
    """Return where in the file of a segment the rows of streams begin and end."""
    found = []
    if wanted:
        try:
            with open_image(names.segment(header.segment)) as file:
                for name, (n_rows, stream) in wanted.items():
                    dataset, size = h5d.open(file.id, name.encode()), n_rows * stream.row_bytes
                    place = dataset.get_offset()
                    if place is None or dataset.dtype != stream.numpy_dtype or dataset.shape[0] < n_rows:
                        raise Damaged(f"{name} is not laid out as rows of a segment are")
                    found.append((name, place, place + size))
        except (OSError, KeyError, RuntimeError) as error:
            with suppress(OSError):
                check_hash(names.segment(header.segment), header.sha256)  # which tells more
            raise Damaged(f"HDF5 cannot read it ({error})") from error
    return sorted(found, key=lambda one: one[1])


def _pieces(names: Names, header: Header, buffers: list[memoryview], turn: int) -> Iterator[tuple[int, memoryview]]:
    """Read a segment's image from start to end, and compare its hash."""
    with open(names.segment(header.segment), "rb", buffering=0) as file:
        (size, hasher), start = hasher_of(file), 0
        while start < size:
            view = buffers[turn % 2][: size - start]
            n_read = file.readinto(view)
            if not n_read:
                raise Damaged("it was cut while it was read")
            hasher.update(view[:n_read])
            turn += 1
            yield start, view[:n_read]
            start += n_read
    if hasher.digest().hex() != header.sha256:
        raise Damaged("sha256 differs")


def _within(wanted: list[tuple[str, int, int]], start: int, piece: memoryview) -> Iterator[tuple[str, int, int]]:
    """Yield the parts of the wanted places that lie in a piece of the file."""
    end = start + len(piece)
    for name, low, high in wanted:
        if low < end and high > start:
            yield name, max(low, start), min(high, end)


def write_merged(names: Names, status: Status, chain: Chain, halt: Halt, written: Written | None) -> None:
    """Write ``run.h5`` beside the parts, under a temporary name until it is whole.

    Inputs and state are read from the parts unless they are at hand, as `written`.

    Raises
    ------
    Damaged
        If a segment is.
    Halted
        If a stop is asked for.
    """
    assert status.origin is not None
    streams = status.origin.streams
    n_rows = dict(zip(streams, chain.headers[-1].index.sum(axis=1).tolist(), strict=True))
    compression = str(status.origin.settings["compression"] or "") or None
    raw = {name for name, stream in streams.items() if not compression and stream.dtype != "str" and stream.row_bytes}
    disk = DiskFile(names.merged_temporary)
    try:
        holes, copied = {}, {}
        with disk.hdf5() as file, ExitStack() as stack:
            inputs = read_inputs(names) if written is None else written.inputs
            state = _state(names, chain.headers[-1]) if written is None else written.state
            _write_about(file, names, status.origin, chain, inputs, state)
            reader = stack.enter_context(Reader(names)) if raw != set(streams) else None
            # the largest first, so that the file can be read behind while it fills
            for name in sorted(streams, key=lambda name: (-n_rows[name] * streams[name].row_bytes, name)):
                dataset = hdf.declare(file, name, streams[name], compression, n_rows[name])
                if reader is None or name in raw:
                    holes[name] = _leave_holes(disk, dataset, streams[name], n_rows[name])
                else:
                    copied[name] = _copy(dataset, reader, name, streams[name], halt)
            scales.name_axes(file, streams, scales.coordinates(inputs))
        blocks = _fill_holes(disk, holes, n_rows, names, status, chain, halt)
        _check(names, streams, n_rows, copied)
        disk.seal(blocks)
        disk.sync()
    finally:
        disk.close()
    names.fence()
    files.rename(names.merged_temporary, names.merged)
    files.sync_folder(names.merged.parent)
    hdf5.believe(names.merged)


def _write_about(file: h5py.File, names: Names, origin: Origin, chain: Chain, inputs: Arrays, state: Arrays) -> None:
    """Write everything but the streams."""
    last = chain.headers[-1]
    meta = {key: value for key, value in origin.meta.items() if key != "replaces"}
    meta |= {"merged_from": origin.header.sha256, "n_blocks": last.end_block}
    hdf.write_attribute(file, "format", FORMAT)
    hdf.write_attribute(file, "format_version", np.array(FORMAT_VERSION, np.int32))
    hdf.write_attribute(file, "fastbm_version", package_version("fastbm"))
    spec = read_spec(names, chain.headers, origin.spec)
    file.create_dataset(SPEC, data=spec, dtype=hdf.TEXT, track_times=False)
    hdf.write_arrays(file.create_group(INPUTS), inputs)
    hdf.write_arrays(file.create_group(STATE), state)
    about = file.create_group(META)
    for key in sorted(meta):
        hdf.write_attribute(about, key, meta[key])


def _state(names: Names, last: Header) -> Arrays:
    try:
        return read_state(names, last)
    except Damaged as error:
        raise Damaged(f"{names.show(names.segment(last.segment))} has no whole state: {error}") from None


def _leave_holes(disk: DiskFile, dataset: h5py.Dataset, stream: Stream, n_rows: int) -> list[int]:
    """Have HDF5 allocate all chunks of a dataset, left blank; return their places."""
    blank, first = disk.blank(chunk_bytes(stream, n_rows)), len(disk.holes)
    for corner in corners(stream, n_rows):
        dataset.id.write_direct_chunk(corner, blank)
    return disk.holes[first:]


def _copy(dataset: h5py.Dataset, reader: Reader, name: str, stream: Stream, halt: Halt) -> str:
    """Write rows through HDF5; return their hash."""
    digest, batch = hashlib.sha256(), batch_rows(stream)
    for start in range(0, len(dataset), batch):
        stop_if_asked(halt)
        rows = reader.read(name, start, start + batch)
        update_hash(digest, rows)
        if rows.size:
            dataset[start : start + len(rows)] = rows
    return digest.hexdigest()


def _fill_holes(
    disk: DiskFile,
    holes: dict[str, list[int]],
    n_rows: dict[str, int],
    names: Names,
    status: Status,
    chain: Chain,
    halt: Halt,
) -> BlockHash:
    """Fill the holes with the rows of all segments, and return the hash of the file."""
    assert status.origin is not None
    streams = status.origin.streams
    sizes = ((place, chunk_bytes(streams[name], n_rows[name])) for name, places in holes.items() for place in places)
    follower = Follower(disk.handle, disk.size, sizes)

    def write(place: int, data: bytearray) -> None:
        disk.fill(place, data)
        follower.filled(place, bytes(data[-SIZE:]))

    try:
        chunks = {name: Chunks(streams[name], n_rows[name], holes[name], write) for name in holes}
        n_base, kept = kept_rows(chain.headers, status.origin.header.index[:, 0])
        columns = {name: (column, stream) for column, (name, stream) in enumerate(streams.items()) if name in holes}
        if status.merged is not None:
            _feed_base(status.merged, {name: (int(n_base[columns[name][0]]), one) for name, one in chunks.items()})
        found, large = row_bytes(names, chain.headers[1:], kept[1:], columns), disk.size >= PIECE
        for pieces in one_ahead(found) if large else found:
            stop_if_asked(halt)
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
    """Pass on the rows of the merged file that segments continue."""
    with merged.open() as file:
        for name, (n_rows, one) in chunks.items():
            batch = batch_rows(merged.streams[name])
            for start in range(0, n_rows, batch):
                rows = file.read_rows(name, slice(start, min(start + batch, n_rows)))
                one.feed(np.ascontiguousarray(rows).view(np.uint8).reshape(-1).data)


def _check(names: Names, streams: dict[str, Stream], n_rows: dict[str, int], copied: dict[str, str]) -> None:
    """Read the merged file as a reader does: all streams with all rows, compared with those that went through HDF5."""
    with h5py.File(names.merged_temporary, "r") as file:
        if hdf.read_streams(file)[0] != streams:
            raise StorageError(f"{names.merged_temporary.name} has other streams than the parts, which were kept.")
        for name, stream in streams.items():
            digest, batch, dataset = hashlib.sha256(), batch_rows(stream), hdf.dataset_of(file, name)
            last = max(n_rows[name] - 1, 0)  # of those whose chunks were compared one by one, HDF5 is to read the last
            for start in range(0 if name in copied else last, n_rows[name], batch):
                update_hash(digest, hdf.read_rows(dataset, slice(start, start + batch)))
            if dataset.shape[0] != n_rows[name] or copied.get(name, digest.hexdigest()) != digest.hexdigest():
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
