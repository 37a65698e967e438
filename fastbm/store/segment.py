"""One segment: what a commit writes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from . import hdf
from .header import Header, pack_record, write_header
from .image import Damaged, Foreign, Image, build_image, check_hash, open_image, read_trailer, write_sealed
from .names import Names
from .schema import INPUTS, META, SPEC, STATE, Arrays, Stream


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

    return write_sealed(build_image(fill), names.state(number))


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
