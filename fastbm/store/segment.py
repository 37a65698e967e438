"""One segment: what a commit writes, and what can be known of it before its rows are read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from . import files, hdf
from .image import Damaged, build_image, check_hash, open_image, read_trailer, seal
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
    Stream,
    check_major,
    package_version,
)

_NUMBERS = ("segment", "first_block", "n_blocks")
_TEXTS = ("run_id", "spec_sha256", "prev_sha256", "base_sha256", "state_sha256")


@dataclass(frozen=True)
class Header:
    """The root attributes of a segment, and how many rows of each stream it and those before it hold.

    Attributes
    ----------
    index : (n_streams, 2) int64 array
        First row and number of rows of each stream, streams in order of their names.
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
        """The number of blocks in this segment and all before it."""
        return self.first_block + self.n_blocks

    def end_row(self, column: int, rewinds: np.ndarray) -> int:
        """The end of the rows of a stream up to this segment, without those that `rewinds` take back; it never falls
        from one segment to the next.
        """
        later = [int(row[1 + column]) for row in rewinds if row[0] > self.segment]
        return min([int(self.index[column].sum()), *later])


@dataclass(frozen=True)
class Contents:
    """What lies in a segment beside its header; `inputs` in the first one only, `spec` also where it changes."""

    streams: Mapping[str, Stream]
    rows: Mapping[str, list[np.ndarray]]
    state: Mapping[str, np.ndarray]
    meta: Mapping[str, Any]
    spec: str | None = None
    inputs: Mapping[str, np.ndarray] | None = None
    compression: str | None = None

    @property
    def n_bytes(self) -> int:
        """About the memory of all arrays."""
        arrays = [*self.state.values(), *(self.inputs or {}).values()]
        return sum(a.nbytes for a in arrays) + sum(a.nbytes for blocks in self.rows.values() for a in blocks)


def spec_hash(spec: str) -> str:
    """Return the sha256 of a spec's canonical JSON."""
    return hashlib.sha256(spec.encode()).hexdigest()


def segment_image(header: Header, contents: Contents) -> bytes:
    """Return the HDF5 image of a segment."""

    def fill(file: h5py.File) -> None:
        _write_header(file, header)
        file.create_dataset(INDEX, data=header.index, track_times=False)
        if len(header.rewinds):
            file.create_dataset(REWINDS, data=header.rewinds, track_times=False)
        file.create_group(META).attrs.update({key: contents.meta[key] for key in sorted(contents.meta)})
        if contents.spec is not None:
            file.create_dataset(SPEC, data=contents.spec, dtype=hdf.TEXT, track_times=False)
        if contents.inputs is not None:
            hdf.write_arrays(file.create_group(INPUTS), contents.inputs)
        if not header.state_sha256:
            hdf.write_arrays(file.create_group(STATE), contents.state)
        for name, stream in contents.streams.items():
            blocks = contents.rows.get(name)
            if header.segment == 0:
                hdf.declare(file, name, stream, contents.compression)
            elif blocks:
                hdf.write_rows(file, name, stream, blocks, contents.compression)

    return build_image(fill, contents.n_bytes)


def write_state_file(names: Names, number: int, state: Mapping[str, np.ndarray]) -> str:
    """Write the state that belongs to a segment as a file of its own; return its hash."""

    def fill(file: h5py.File) -> None:
        hdf.write_arrays(file.create_group(STATE), state)

    path = names.state(number)
    return write_sealed(build_image(fill, sum(array.nbytes for array in state.values())), path)


def write_sealed(image: bytes, path: Path) -> str:
    """Seal an image and publish it under its final name; return its sha256 in hex."""
    trailer, digest = seal(image)
    files.publish((image, trailer), path.with_name(path.name + ".tmp"), path)
    return digest


def read_header(path: Path, shown: str, *, hashed: bool) -> Header:
    """Read a segment's header, after checking its trailer and, if `hashed`, every byte."""
    digest = read_trailer(path)
    if hashed:
        check_hash(path, digest)
    try:
        with open_image(path) as file:
            attrs = {key: hdf.plain(value) for key, value in file.attrs.items()}
            arrays = {"index": file[INDEX][...]}
            if REWINDS in file:
                arrays["rewinds"] = file[REWINDS][...]
    except Exception as error:  # bytes that were not hashed may fail in any way
        raise Damaged(f"HDF5 cannot read it ({error})") from error
    if attrs.get("format") != FORMAT or "segment" not in attrs:
        raise Damaged("it is a sealed file but no segment")
    check_major(shown, attrs["format_version"], attrs["fastbm_version"])
    known: dict[str, Any] = {key: attrs[key] for key in (*_NUMBERS, *_TEXTS)}
    return Header(**known, finished=bool(attrs["finished"]), sha256=digest, **arrays)


def read_state(names: Names, header: Header) -> Arrays:
    """Read the state of a verified segment, from its own file where it has one."""
    path = names.segment(header.segment)
    if header.state_sha256:
        path = names.state(header.segment)
        if not path.exists():
            raise Damaged("the file of its state is missing")
        digest = read_trailer(path)
        check_hash(path, digest)
        if digest != header.state_sha256:
            raise Damaged("the file of its state is of another commit")
    with open_image(path) as file:
        return hdf.read_arrays(file[STATE])


def _write_header(file: h5py.File, header: Header) -> None:
    file.attrs["format"] = FORMAT
    file.attrs["format_version"] = np.array(FORMAT_VERSION, np.int32)
    file.attrs["fastbm_version"] = package_version("fastbm")
    for key in _TEXTS:
        file.attrs[key] = getattr(header, key)
    for key in _NUMBERS:
        file.attrs[key] = np.int64(getattr(header, key))
    file.attrs["finished"] = np.uint8(header.finished)
