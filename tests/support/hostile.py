"""Files of runs as a stranger could make them: changed by HDF5 itself and sealed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5s, h5t

from fastbm._base import files
from fastbm.store.image import Hasher, hasher_of, trailer
from fastbm.store.seal import BlockHash
from fastbm.store.segment import _record_text, read_tail

Craft = Callable[[h5py.File, str, Path], None]  # of the file, the path of an array in it, and a folder for others
SECRET = np.arange(64, dtype="<f8")


def unsealed(path: Path) -> tuple[bytes, Callable[[bytes], bytes]]:
    """Return what a seal is of, and what seals it: that of runs, or that of machines and classifiers."""
    if files.check_seal(path):
        return path.read_bytes()[: -files.SEAL.size], files.sealed

    def sealed(data: bytes) -> bytes:
        digest: Hasher = BlockHash()
        digest.update(memoryview(data))
        return data + trailer(len(data), digest.digest())

    with open(path, "rb", buffering=0) as file:
        length, _ = hasher_of(file)
        return file.read(length), sealed


def reseal(path: Path, change: Callable[[h5py.File], None]) -> None:
    """Change a sealed file and seal it again, with the record of its header if it has one."""
    image, sealed = unsealed(path)
    text = None if sealed is files.sealed else _record_text(path, read_tail(path).before)
    record = image[-(len(text) + 44) :] if text is not None else b""
    with h5py.File(path, "r+") as file:
        change(file)
    path.write_bytes(sealed(path.read_bytes() + record))


def pointers(file: h5py.File, name: str, folder: Path) -> None:
    """Bytes that h5py takes for the addresses of Python objects."""
    kind = h5t.create(h5t.OPAQUE, 8)
    kind.set_tag(b"NUMPY:|O")
    shape = file[name].shape
    del file[name]
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    space = h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
    h5d.create(file.id, name.encode(), kind, space, layout)


def attribute_of_pointers(file: h5py.File, name: str, folder: Path) -> None:
    kind = h5t.create(h5t.OPAQUE, 8)
    kind.set_tag(b"NUMPY:|O")
    h5py.h5a.create(file[name].id, b"scale", kind, h5s.create(h5s.SCALAR))


def elsewhere(file: h5py.File, name: str, folder: Path) -> None:
    """Numbers of another file of the reader's."""
    shape = file[name].shape or (1,)
    (folder / "secret").write_bytes(SECRET.tobytes())
    del file[name]
    file.create_dataset(name, shape, "<f8", external=[(str(folder / "secret"), 0, 8 * int(np.prod(shape)))])


def virtual(file: h5py.File, name: str, folder: Path) -> None:
    with h5py.File(folder / "other.h5", "w") as other:
        other["x"] = SECRET
    layout = h5py.VirtualLayout((64,), "<f8")
    layout[:] = h5py.VirtualSource(folder / "other.h5", "x", (64,))
    del file[name]
    file.create_virtual_dataset(name, layout)


def external_link(file: h5py.File, name: str, folder: Path) -> None:
    with h5py.File(folder / "other.h5", "w") as other:
        other["x"] = SECRET
    del file[name]
    file[name] = h5py.ExternalLink(folder / "other.h5", "x")


def soft_link(file: h5py.File, name: str, folder: Path) -> None:
    file.move(name, f"{name}_")
    file[name] = h5py.SoftLink(f"/{name}_")


def circle(file: h5py.File, name: str, folder: Path) -> None:
    file[name].parent["again"] = file[name].parent


def twice(file: h5py.File, name: str, folder: Path) -> None:
    file[f"{name}_"] = file[name]


def deep(file: h5py.File, name: str, folder: Path) -> None:
    file["/".join("a" * 40)] = 1.0


def claim(file: h5py.File, name: str, folder: Path) -> None:
    """Rows without end, of which none is there."""
    del file[name]
    file.create_dataset(name, (10**11, 4), "<f8", chunks=(2048, 4))


def overflow(file: h5py.File, name: str, folder: Path) -> None:
    """So many rows that their number of bytes is a small one again."""
    del file[name]
    file.create_dataset(name, (2**32, 2**29), "<f8", chunks=(64, 64))


def bomb(file: h5py.File, name: str, folder: Path) -> None:
    """A few bytes that become many when they are read."""
    del file[name]
    zeros: Any = np.zeros((1 << 20, 4))
    file.create_dataset(name, data=zeros, chunks=zeros.shape, compression="gzip")


def filtered(file: h5py.File, name: str, folder: Path) -> None:
    del file[name]
    file.create_dataset(name, data=np.zeros((64, 4)), chunks=(64, 4), compression="lzf")


def compact(file: h5py.File, name: str, folder: Path) -> None:
    del file[name]
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_layout(h5d.COMPACT)
    h5d.create(file.id, name.encode(), h5t.IEEE_F64LE, h5s.create_simple((16, 4)), layout)


def ragged(file: h5py.File, name: str, folder: Path) -> None:
    shape = file[name].shape
    del file[name]
    file.create_dataset(name, shape, h5py.vlen_dtype(np.float64))


def references(file: h5py.File, name: str, folder: Path) -> None:
    shape = file[name].shape
    del file[name]
    file.create_dataset(name, data=np.full(shape, file.ref, dtype=h5py.ref_dtype), dtype=h5py.ref_dtype)


def fixed_texts(file: h5py.File, name: str, folder: Path) -> None:
    shape = file[name].shape
    del file[name]
    file.create_dataset(name, data=np.full(shape, b"1.0"))


def named_type(file: h5py.File, name: str, folder: Path) -> None:
    file[f"{name}_"] = np.dtype("f8")


def pointers_of_axes(file: h5py.File, name: str, folder: Path) -> None:
    """An attribute of dimension scales that holds something else."""
    kind = h5t.create(h5t.OPAQUE, 8)
    kind.set_tag(b"NUMPY:|O")
    if "DIMENSION_LIST" in file[name].attrs:
        del file[name].attrs["DIMENSION_LIST"]
    h5py.h5a.create(file[name].id, b"DIMENSION_LIST", kind, h5s.create_simple((1,)))


def axes_of_a_group(file: h5py.File, name: str, folder: Path) -> None:
    """Attributes of dimension scales where there is no array."""
    file[name].parent.attrs["REFERENCE_LIST"] = file[name].parent.ref


CRAFTS: dict[Craft, str] = {
    pointers: "holds neither numbers nor texts",
    attribute_of_pointers: "attribute scale, holds neither numbers nor texts",
    elsewhere: "lies in another file",
    virtual: "is a virtual dataset",
    external_link: "is a link to elsewhere",
    soft_link: "is a link to elsewhere",
    circle: "is a second link to one object",
    twice: "is a second link to one object",
    deep: "lies deeper than",
    claim: "bytes, and 0 are there",
    overflow: "bytes, and 0 are there",
    bomb: "has chunks of 33554432 bytes",
    filtered: "needs filter 32000",
    compact: "is a compact dataset",
    ragged: "holds neither numbers nor texts",
    references: "holds neither numbers nor texts",
    fixed_texts: "holds texts of a kind",
    pointers_of_axes: "is not what dimension scales have",
    axes_of_a_group: "holds neither numbers nor texts",
    named_type: "is neither a group nor a dataset",
}
