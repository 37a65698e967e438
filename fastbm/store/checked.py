"""Merged files, open for reading: each block is compared with its CRC-32 before any byte of it is used.

HDF5 reads through a file object which holds a few blocks, all of them checked. Where a file keeps the table of its
CRC-32s, it costs nothing to open it, and whatever is read of it is checked, its structure, inputs and state as well as
rows. A file of an older seal is read and checked whole when it is first opened; the table of its blocks is remembered
by this process while inode, size and times of the file stay what they are.

Rows that are stored without compression are read without HDF5, which would compare a second checksum, slower to compute
and weaker: to Fletcher's sum a word of zeros is the same as one of ones. HDF5 only tells where their chunks lie.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import weakref
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .._base import hdf5
from . import hdf
from .chunks import chunk_places, runs
from .image import Damaged, Placed, believed, hasher_of, open_image, read_table, read_trailer, wrong_bytes
from .seal import BLOCK, BlockHash

CHECKED_AT_OPEN = 4 << 20  # bytes of a file that is checked whole, which takes no longer than to open it
LEAST_DIRECT = 4 << 20  # bytes of rows for which it pays to learn where all chunks lie
_KEPT_BLOCKS, _KEPT_TABLES = 4, 64


class CheckedFile(Placed):
    """The image of a sealed file as a file object for HDF5; what it reads is checked.

    Attributes
    ----------
    sha256 : str
        The hash in the file's trailer, in hex.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._handle = -1
        self.sha256 = read_trailer(path)
        self._table = np.frombuffer(_table_of(path, self.sha256), "<u4")
        self._blocks: OrderedDict[int, memoryview] = OrderedDict()
        self._lock = threading.Lock()  # HDF5 has its own, but rows are read beside it
        with open(path, "rb", buffering=0) as file:
            self.size, _ = hasher_of(file)
            self._handle = os.dup(file.fileno())

    def writable(self) -> bool:
        """Return False: the image is only read."""
        return False

    def readinto(self, buffer: Any) -> int:
        """Read at the current position into `buffer`; HDF5 never asks for more."""
        view = memoryview(buffer).cast("B")
        self.copy(self.place, view)
        self.place += len(view)
        return len(view)

    def copy(self, place: int, view: memoryview) -> None:
        """Fill `view` with the bytes from position `place` on.

        Raises
        ------
        Damaged
            If they are not what was sealed.
        """
        if place < 0 or place + len(view) > self.size:
            raise Damaged(f"bytes {place}-{place + len(view) - 1} are asked for, and it ends at {self.size}")
        done = 0
        with self._lock:
            while done < len(view):
                number, offset = divmod(place + done, BLOCK)
                n_bytes = min(len(view) - done, BLOCK - offset)
                some = view[done : done + n_bytes]
                if n_bytes == BLOCK and number not in self._blocks:
                    self._read(number, some)  # a whole block goes where it is wanted
                else:
                    some[:] = self._block(number)[offset : offset + n_bytes]
                done += n_bytes

    def check(self, start: int, stop: int) -> None:
        """Compare the blocks of some bytes with their CRC-32s."""
        with self._lock:
            for number in range(start // BLOCK, -(-min(stop, self.size) // BLOCK)):
                self._block(number)

    def close(self) -> None:
        """Close the file."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
        super().close()

    def _is_whole(self, number: int, block: memoryview) -> bool:
        return zlib.crc32(block) == int(self._table[number])

    def _block(self, number: int) -> memoryview:
        found = self._blocks.get(number)
        if found is not None:
            return found
        if len(self._blocks) < _KEPT_BLOCKS:
            buffer = memoryview(bytearray(min(BLOCK, self.size)))
        else:
            buffer = self._blocks.popitem(last=False)[1]
        self._read(number, buffer[: min(BLOCK, self.size - number * BLOCK)])
        self._blocks[number] = buffer
        return buffer

    def _read(self, number: int, block: memoryview) -> None:
        """Read a block, and compare it with its CRC-32."""
        n_read = 0
        while n_read < len(block):
            some = os.preadv(self._handle, [block[n_read:]], number * BLOCK + n_read)
            if not some:
                raise Damaged(f"it was cut at byte {number * BLOCK + n_read} while it was open")
            n_read += some
        if not self._is_whole(number, block):
            raise wrong_bytes(number, self.size)


# The tables of files of older seals, with how the files stood when they were checked.
_tables: OrderedDict[str, tuple[tuple[int, ...], bytes]] = OrderedDict()


def _table_of(path: Path, digest: str) -> bytes:
    table = read_table(path, digest)
    if table is not None:
        return table
    identity = hdf5.identity_of(path)
    known, table = _tables.get(digest, (None, b""))
    if known != identity:
        table = _check_whole(path, digest)
        _tables[digest] = (identity, table)
        if len(_tables) > _KEPT_TABLES:
            _tables.popitem(last=False)
    return table


def _check_whole(path: Path, digest: str) -> bytes:
    """Compare a file of an older seal with its hash; return the CRC-32s of its blocks."""
    blocks = BlockHash()
    with open(path, "rb", buffering=0) as file:
        length, hasher = hasher_of(file)
        buffer = memoryview(bytearray(min(BLOCK, length)))
        while length > 0 and (taken := file.readinto(buffer[: min(length, BLOCK)])):
            hasher.update(buffer[:taken])
            blocks.update(buffer[:taken])
            length -= taken
    if hasher.digest().hex() != digest:
        raise Damaged("sha256 differs")
    return blocks.table()


def _open_checked(path: Path, image: CheckedFile) -> h5py.File:
    identity = hdf5.identity_of(path)
    return believed(h5py.File(image, "r"), identity)


class MergedFile:
    """A merged file that is open, with its rows.

    Parameters
    ----------
    path : Path
    trust : bool
        Whether to believe a file without a seal; nothing of it is checked.

    Attributes
    ----------
    hdf5 : h5py.File
    sha256 : str
        The hash in its trailer; empty if it is trusted.

    Raises
    ------
    Damaged, Foreign
        If the file is not what was sealed, or has no seal and is not trusted.
    """

    def __init__(self, path: Path, *, trust: bool = False) -> None:
        self._image = None if trust else CheckedFile(path)
        self.sha256 = self._image.sha256 if self._image else ""
        self.hdf5 = _open_checked(path, self._image) if self._image else open_image(path)
        self._places: dict[str, np.ndarray | None] = {}
        _open.add(self)

    def check_about(self, groups: tuple[str, ...]) -> None:
        """Check all of a small file; of a large one, the arrays in some groups."""
        if self._image is None:
            return
        if self._image.size <= CHECKED_AT_OPEN:
            self._image.check(0, self._image.size)
            return
        for name in (f"{group}/{name}" for group in groups for name in hdf.dataset_names(self.hdf5[group])):
            dataset = self.hdf5[name].id
            if (place := dataset.get_offset()) is not None:
                self._image.check(place, place + dataset.get_storage_size())

    def read_rows(self, name: str, picked: slice) -> np.ndarray:
        """Read some rows of a stream."""
        dataset = hdf.dataset_of(self.hdf5, name)
        image, places = self._image, None
        if image is not None and picked.step in (None, 1):
            places = self._places_of(name, dataset, picked.stop - picked.start)
        if image is None or places is None:
            return hdf.read_rows(dataset, picked)
        rows = np.empty((picked.stop - picked.start, *dataset.shape[1:]), dataset.dtype)
        view, done = rows.reshape(-1).view(np.uint8).data, 0
        for place, n_bytes in runs(dataset, places, picked.start, picked.stop):
            image.copy(place, view[done : done + n_bytes])
            done += n_bytes
        return rows

    def _places_of(self, name: str, dataset: h5py.Dataset, n_rows: int) -> np.ndarray | None:
        """Return the places of a stream's chunks, if they are known or worth finding; else None."""
        if name not in self._places:
            if n_rows * math.prod(dataset.shape[1:]) * dataset.dtype.itemsize < LEAST_DIRECT:
                return None
            self._places[name] = chunk_places(dataset)
        return self._places[name]

    def close(self) -> None:
        """Close the file."""
        self.hdf5.close()

    def __enter__(self) -> MergedFile:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()


_open: weakref.WeakSet[MergedFile] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all open files before the interpreter ends, when HDF5 could no longer ask a file object."""
    for one in list(_open):
        one.close()
