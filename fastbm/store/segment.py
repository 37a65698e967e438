"""Segments, one for each commit: their contents, and a record of these that is read before the rows.

Reading attributes through HDF5 takes a hundred times as long as reading a few bytes, and HDF5 does not check them. So a
segment's header stands again behind the HDF5 image, at the end of the file: canonical JSON, then ``b"FBMHEAD1" | u32
length | sha256``.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .._base.streams import Stream
from .._base.versions import package_version
from . import hdf
from .image import (
    TRAILER,
    Damaged,
    Foreign,
    Image,
    Tail,
    build_image,
    check_hash,
    open_image,
    read_tail,
    read_trailer,
    write_sealed,
)
from .names import Names
from .schema import (
    FORMAT,
    FORMAT_VERSION,
    INDEX,
    INPUTS,
    META,
    REWINDS,
    SPEC,
    STATE,
    Arrays,
    canonical_json,
    check_major,
)

NUMBERS = ("segment", "first_block", "n_blocks")
TEXTS = ("run_id", "spec_sha256", "prev_sha256", "base_sha256", "state_sha256")
_FOOT = struct.Struct("<8sI32s")
_MAGIC = b"FBMHEAD1"


@dataclass(frozen=True, slots=True)
class Header:
    """The root attributes of a segment, and how many rows of each stream it and those before it hold.

    Attributes
    ----------
    index : (n_streams, 2) int64 array
        First row and number of rows of each stream, streams in order of their names.
    sha256, prev_sha256 : str
        What the trailers of the segment itself and of the one before it claim, as `Tail.sha256`; so do the others.
    state_sha256 : str
        The hash of the state's own file; empty where the state lies in the segment.
    base_sha256 : str
        The contents hash of the merged file which this run goes on from; empty in other runs.
    rewinds : (n_rewinds, 1 + n_streams) int64 array
        One row for each time that the run was taken up before its end: the segment that did so, and how many rows of
        each stream it kept of those before it.
    """

    run_id: str
    segment: int
    first_block: int
    n_blocks: int
    spec_sha256: str
    prev_sha256: str
    base_sha256: str = ""
    state_sha256: str = ""
    finished: bool = False
    index: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    rewinds: np.ndarray = field(default_factory=lambda: np.zeros((0, 1), np.int64))
    sha256: str = ""

    @property
    def end_block(self) -> int:
        """Number of blocks in this segment and all before it."""
        return self.first_block + self.n_blocks

    def end_row(self, column: int, rewinds: np.ndarray) -> int:
        """Return the end of the rows of a stream up to this segment, without those that `rewinds` take back.

        It never falls from one segment to the next.
        """
        later = [int(row[1 + column]) for row in rewinds if row[0] > self.segment]
        return min([int(self.index[column].sum()), *later])


def write_header(group: h5py.Group, header: Header) -> None:
    """Write a header as attributes of the root group, and its index (and rewinds, if any) as datasets."""
    hdf.write_attribute(group, "format", FORMAT)
    hdf.write_attribute(group, "format_version", np.array(FORMAT_VERSION, np.int32))
    hdf.write_attribute(group, "fastbm_version", package_version("fastbm"))
    for key in TEXTS:
        hdf.write_attribute(group, key, getattr(header, key))
    for key in NUMBERS:
        hdf.write_attribute(group, key, np.int64(getattr(header, key)))
    hdf.write_attribute(group, "finished", np.uint8(header.finished))
    hdf.write_arrays(group, {INDEX: header.index} | ({REWINDS: header.rewinds} if len(header.rewinds) else {}))


def pack_record(header: Header) -> bytes:
    """Return the record of a header."""
    values: dict[str, Any] = {key: getattr(header, key) for key in (*NUMBERS, *TEXTS)}
    values |= {
        "format_version": FORMAT_VERSION,
        "fastbm_version": package_version("fastbm"),
        "finished": header.finished,
        "index": header.index.tolist(),
    }
    if len(header.rewinds):
        values["rewinds"] = header.rewinds.tolist()
    text = canonical_json(values).encode()
    return text + _FOOT.pack(_MAGIC, len(text), hashlib.sha256(text).digest())


def read_header(path: Path, shown: str, *, hashed: bool) -> Header:
    """Read a segment's header, after checking its trailer and, if `hashed`, every byte.

    The record has a checksum of its own. A segment without one is hashed in any case, since attributes have none.
    """
    tail = read_tail(path)
    if hashed:
        check_hash(path, tail.sha256)
    text = _record_text(path, tail.before)
    if text is not None:
        values = json.loads(text)
        arrays = {key: np.array(values[key], np.int64) for key in (INDEX, REWINDS) if key in values}
        arrays[INDEX] = arrays[INDEX].reshape(-1, 2)
    else:
        if not hashed:
            check_hash(path, tail.sha256)
        values, arrays = _read_attributes(path)
    return _header(values, arrays, shown, tail)


def check_attributes(file: h5py.File, header: Header) -> None:
    """Compare the attributes of an open segment with its header as the record gave it."""
    attrs, arrays = _attributes(file)
    same = all(attrs.get(key) == getattr(header, key) for key in (*NUMBERS, *TEXTS, "finished"))
    same = same and (REWINDS in arrays) == (len(header.rewinds) > 0)
    if not (same and all(np.array_equal(array, getattr(header, key)) for key, array in arrays.items())):
        raise Damaged("its attributes differ from the record of them")


def _record_text(path: Path, before: bytes) -> bytes | None:
    """Return the checked text of the record in front of a trailer; None if the segment has none."""
    if len(before) < _FOOT.size:
        return None
    magic, length, digest = _FOOT.unpack_from(before, len(before) - _FOOT.size)
    if magic != _MAGIC:
        return None
    text = before[-_FOOT.size - length : -_FOOT.size]
    if len(text) < length:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TRAILER.size - _FOOT.size - length))
            text = file.read(length)
    if hashlib.sha256(text).digest() != digest:
        raise Damaged("the record of its header is not whole")
    return text


def _read_attributes(path: Path) -> tuple[dict[str, Any], Arrays]:
    try:
        with open_image(path) as file:
            return _attributes(file)
    except Exception as error:  # a file that is sealed and no segment may fail in any way
        raise Damaged(f"HDF5 cannot read it ({error})") from error


def _attributes(file: h5py.File) -> tuple[dict[str, Any], Arrays]:
    attrs = hdf.read_attributes(file["/"].id)
    if attrs.get("format") != FORMAT or "segment" not in attrs:
        raise Damaged("it is a sealed file but no segment")
    return attrs, {key: file[key][...] for key in (INDEX, REWINDS) if key in file}


def _header(values: dict[str, Any], arrays: Arrays, shown: str, tail: Tail) -> Header:
    check_major(shown, values["format_version"], values["fastbm_version"])
    known: dict[str, Any] = {key: values[key] for key in (*NUMBERS, *TEXTS)} | arrays
    for key in ("run_id", "spec_sha256"):  # the same text in thousands of segments
        known[key] = sys.intern(known[key])
    return Header(**known, finished=bool(values["finished"]), sha256=tail.sha256)


@dataclass(frozen=True)
class Contents:
    """The contents of a segment beside its header; `inputs` in the first one only, `spec` also where it changes."""

    streams: Mapping[str, Stream]
    rows: Mapping[str, list[np.ndarray]]
    state: Mapping[str, np.ndarray]
    meta: Mapping[str, Any]
    spec: str | None = None
    inputs: Mapping[str, np.ndarray] | None = None
    compression: str | None = None

    @property
    def n_bytes(self) -> int:
        """About how many bytes the arrays take in memory."""
        arrays = [*self.state.values(), *(self.inputs or {}).values()]
        return sum(a.nbytes for a in arrays) + sum(a.nbytes for blocks in self.rows.values() for a in blocks)


def spec_hash(spec: str) -> str:
    """Return the sha256 of a spec's canonical JSON."""
    return hashlib.sha256(spec.encode()).hexdigest()


def segment_image(header: Header, contents: Contents) -> Image:
    """Return the HDF5 image of a segment, and the record of its header behind it.

    Beside arrays of numbers it takes some kilobytes, as they are not copied. Compressed rows are copied once, and twice
    more as HDF5 stores them; texts are copied twice.
    """

    def fill(file: h5py.Group, put: hdf.Put) -> None:
        write_header(file, header)
        meta = file.create_group(META)
        for key in sorted(contents.meta):
            hdf.write_attribute(meta, key, contents.meta[key])
        if contents.spec is not None:
            hdf.write_arrays(file, {SPEC: np.array(contents.spec, dtype=object)})
        if contents.inputs is not None:
            hdf.write_arrays(file.create_group(INPUTS), contents.inputs, put)
        if not header.state_sha256:
            hdf.write_arrays(file.create_group(STATE), contents.state, put)
        for name, stream in contents.streams.items():
            blocks = contents.rows.get(name)
            if header.segment == 0:
                hdf.declare(file, name, stream, contents.compression)
            elif blocks:
                hdf.write_rows(file, name, stream, blocks, contents.compression, put)

    return build_image(fill, pack_record(header))


def write_state_file(names: Names, number: int, state: Mapping[str, np.ndarray]) -> str:
    """Write the state that belongs to a segment as a file of its own; return its hash."""

    def fill(file: h5py.Group, put: hdf.Put) -> None:
        hdf.write_arrays(file.create_group(STATE), state, put)

    return write_sealed(build_image(fill), names.state(number), names.fence)


def read_state(names: Names, header: Header) -> Arrays:
    """Read the state of a verified segment, from its own file where it has one."""
    path = names.segment(header.segment)
    if header.state_sha256:
        path = names.state(header.segment)
        if not path.exists():
            raise Damaged("the file of its state is missing")
        try:
            digest = read_trailer(path)
        except Foreign as error:  # a state that lost its trailer is a whole HDF5 file without the marks of a run
            raise Damaged(f"the file of its state has {error}") from None
        check_hash(path, digest)
        if digest != header.state_sha256:
            raise Damaged("the file of its state is of another commit")
    with open_image(path) as file:
        return hdf.read_arrays(file[STATE])
