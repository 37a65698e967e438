"""HDF5 images built in memory, without copies of large arrays, and the trailer that makes a file checkable.

HDF5 writes to a file object in memory and is asked where a dataset will lie; the array's own memory takes that place,
so that an image of rows costs no copy of them. All else, a few kilobytes of structure, is kept as HDF5 wrote it.
`Placed` is what such file objects, in memory or on a disk, have in common: a place, a size, and ways to move.

A sealed file is an HDF5 image, what else its writer appends, and ``b"FBMSEG02" | u64 length | hash`` of all before
(`fastbm.store.seal`); older ones end in ``b"FBMSEG01" | u64 length | sha256``. A merged file keeps the table of CRC-32s
between its image and ``b"FBMSEG03" | u64 length | hash``: `length` counts the table, the hash is that of the image.
HDF5 ignores what follows an image, so any HDF5 tool reads the file; and HDF5 itself never writes to a disk, so it never
meets a disk error.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
from h5py import h5f, h5fd, h5p

from .._base import hdf5
from .._base.checks import StorageError
from .._base.versions import package_version
from . import disk
from .hdf import Put
from .names import unfinished
from .schema import FORMAT
from .seal import BLOCK, CRC, BlockHash, bytes_before_table, hash_of_table

SMALL = 64 << 10  # bytes below which a copy is cheaper than a piece of its own
MAGIC, OLDER_MAGIC, TABLE_MAGIC = b"FBMSEG02", b"FBMSEG01", b"FBMSEG03"
SIGNATURE = b"\x89HDF\r\n\x1a\n"
MARKED = 64 << 10  # bytes at the start of a file of ours, in which its format stands
TAIL = 8 << 10  # bytes at the end of a file that are read at once: the trailer and, mostly, all that precedes it
_PIECE = 1 << 20  # bytes that are written or read at a time


class Placed(io.RawIOBase):
    """The base of file objects that know their position and size; reading and writing are left to others.

    Attributes
    ----------
    place, size : int
        Where the next read or write begins, and the length of the file.
    """

    def __init__(self) -> None:
        self.place, self.size = 0, 0

    def readable(self) -> bool:
        """Return True, as any file object that is read."""
        return True

    def writable(self) -> bool:
        """Return True, as any file object that is written."""
        return True

    def seekable(self) -> bool:
        """Return True, as any file object with positions."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position in the file; return it."""
        self.place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.place, os.SEEK_END: self.size}[whence]
        return self.place

    def tell(self) -> int:
        """Return the position in the file."""
        return self.place

    def passed(self, n_bytes: int) -> int:
        """Move on by the bytes that were written; return their number."""
        self.place += n_bytes
        self.size = max(self.size, self.place)
        return n_bytes

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file."""
        self.size = self.place if size is None else size
        return self.size


class ImageFile(Placed):
    """A file object for HDF5 that keeps what is written as pieces, in order.

    Memory is that of the pieces: arrays of at least `SMALL` bytes are kept by reference, everything else twice.
    """

    def __init__(self) -> None:
        super().__init__()
        self._writes: list[tuple[int, bytes]] = []
        self._placed: list[tuple[int, memoryview]] = []

    def put(self, dataset: h5py.h5d.DatasetID, arrays: Iterable[np.ndarray]) -> None:
        """Make arrays, one after the other, the contents of a dataset whose place in the file is allocated."""
        offset = dataset.get_offset()
        for array in arrays:
            if array.size:
                data = array.reshape(-1).view(np.uint8).data
                if len(data) < SMALL:
                    self._writes.append((offset, bytes(data)))
                else:
                    self._placed.append((offset, data))
                offset += len(data)

    def pieces(self) -> list[memoryview]:
        """Return the bytes of the whole file, in order; what was never written is zero."""
        found, end = [], 0
        for offset, data in sorted([*self._placed, (self.size, memoryview(b""))], key=lambda placed: placed[0]):
            if offset > end:
                found.append(memoryview(self._between(end, offset)))
            found.append(data)
            end = offset + len(data)
        return [piece for piece in found if piece]

    def _between(self, start: int, stop: int) -> bytearray:
        buffer = bytearray(stop - start)
        for offset, data in self._writes:
            low, high = max(offset, start), min(offset + len(data), stop)
            if low < high:
                buffer[low - start : high - start] = memoryview(data)[low - offset : high - offset]
        return buffer

    def readinto(self, buffer: Any) -> int:
        """Read at the position what HDF5 itself has written; it never asks for an array that was put."""
        view = memoryview(buffer).cast("B")
        view[:] = self._between(self.place, self.place + len(view))
        self.place += len(view)
        return len(view)

    def write(self, data: Any) -> int:
        """Write at the position by keeping a copy: HDF5 uses its buffers again."""
        copy = bytes(data)
        self._writes.append((self.place, copy))
        return self.passed(len(copy))


_ANY_MAGIC = re.compile(rb"FBMSEG\d\d")
TRAILER = struct.Struct("<8sQ32s")


class Damaged(Exception):
    """Raised for a sealed file that is not as it was written; the text names what differs."""


class Foreign(Exception):
    """Raised for a file that bears the name of a segment and was not made by the store."""


@dataclass(frozen=True)
class Image:
    """The bytes of a file before its trailer, in pieces, large arrays by reference."""

    pieces: tuple[memoryview, ...]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


@dataclass(frozen=True)
class Tail:
    """The end of a sealed file.

    Attributes
    ----------
    sha256 : str
        In hex, as the trailer claims it: of the bytes, or of the CRC-32s of their blocks.
    before : bytes
        Up to `TAIL` bytes in front of the trailer.
    magic : bytes
        Which of the seals it is.
    """

    sha256: str
    before: bytes
    magic: bytes = MAGIC


def build_image(fill: Callable[[h5py.Group, Put], None], appended: bytes = b"") -> Image:
    """Return the HDF5 file that `fill` writes: a function of its contents alone.

    `fill` is given the root group, and a function that puts arrays in the place of a dataset without a copy: they must
    not change before the image is written to a disk.
    """
    memory = ImageFile()
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_libver_bounds(h5f.LIBVER_EARLIEST, h5f.LIBVER_LATEST)
    access.set_fileobj_driver(h5fd.fileobj_driver, memory)
    # The low-level close gives up one reference only, and a profiler that looks at frames may hold others for a moment.
    with h5py.File(h5f.create(b"image", h5f.ACC_TRUNC, fapl=access)) as file:
        fill(file, memory.put)
    return Image((*memory.pieces(), memoryview(appended)))


def write_sealed(image: Image, path: Path, fence: Callable[[], object] = lambda: None) -> str:
    """Seal an image and publish it under its final name, unless `fence` raises; return the hash in its trailer."""
    temporary = unfinished(path)
    digest, handle = write_unnamed(image, temporary)
    try:
        fence()
    except BaseException:
        disk.close(handle)
        disk.unlink(temporary)
        raise
    disk.publish(handle, temporary, path)
    hdf5.believe(path)
    return digest


def write_unnamed(image: Image, temporary: Path) -> tuple[str, int]:
    """Seal an image and write it under a temporary name; return the hash in its trailer, and the open file."""
    digest = BlockHash()

    def blocks() -> Iterator[bytes | memoryview]:
        # Each write of many megabytes at once may wait for the disk; small ones go to memory and are synced together.
        for piece in image.pieces:
            for first in range(0, len(piece), _PIECE):
                block = piece[first : first + _PIECE]
                digest.update(block)
                yield block
        yield trailer(len(image), digest.digest())

    handle = disk.write_file(blocks(), temporary)
    hdf5.believe(temporary)
    return digest.digest().hex(), handle


def trailer(length: int, digest: bytes) -> bytes:
    """Return what seals a file of so many bytes with that hash."""
    return TRAILER.pack(MAGIC, length, digest)


def table_and_trailer(length: int, blocks: BlockHash) -> bytes:
    """Return what seals a file of so many bytes so that each of its blocks can be checked alone."""
    table = blocks.table()
    return table + TRAILER.pack(TABLE_MAGIC, length + len(table), hash_of_table(table))


def read_tail(path: Path) -> Tail:
    """Return the end of a sealed file, after checking that its length is right."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(handle).st_size
        data = os.pread(handle, TAIL, max(0, size - TAIL))
    finally:
        os.close(handle)
    if len(data) >= TRAILER.size:
        magic, length, digest = TRAILER.unpack_from(data, len(data) - TRAILER.size)
        if magic in (MAGIC, OLDER_MAGIC, TABLE_MAGIC):
            if length != size - TRAILER.size:
                raise Damaged(f"its length is {size - TRAILER.size}, not {length}")
            return Tail(digest.hex(), data[: -TRAILER.size], magic)
        if length == size - TRAILER.size and _ANY_MAGIC.fullmatch(magic):
            _refuse_newer(path, magic.decode(), digest)
    raise _without_trailer(path)


def read_trailer(path: Path) -> str:
    """Return the hash in hex that a sealed file claims, after checking that its length is right."""
    return read_tail(path).sha256


class Hasher(Protocol):
    """The methods that the hashes of `hashlib` and a `BlockHash` share."""

    def update(self, data: memoryview, /) -> None:
        """Add bytes to the hash."""

    def digest(self) -> bytes:
        """Return the hash of all bytes so far."""


def hasher_of(file: FileIO) -> tuple[int, Hasher]:
    """Return the number of bytes before a file's seal, and a hasher of the seal's kind."""
    length = max(0, os.fstat(file.fileno()).st_size - TRAILER.size)
    magic = os.pread(file.fileno(), len(MAGIC), length)
    if magic == TABLE_MAGIC:
        length = bytes_before_table(length)
    return length, hashlib.sha256() if magic == OLDER_MAGIC else BlockHash()


def read_table(path: Path, digest: str) -> bytes | None:
    """Return the checked table of CRC-32s of a sealed file, given the hash in its trailer; None if it has none."""
    with open(path, "rb", buffering=0) as file:
        end = os.fstat(file.fileno()).st_size - TRAILER.size
        if os.pread(file.fileno(), len(MAGIC), end) != TABLE_MAGIC:
            return None
        start = bytes_before_table(end)
        table = os.pread(file.fileno(), end - start, start)
    if hash_of_table(table).hex() != digest:
        raise Damaged("the table of its checksums is not what was written")
    return table


def check_hash(path: Path, digest: str) -> None:
    """Compare a sealed file's bytes with the hash in its trailer, in bounded memory; name the first that differ."""
    table = read_table(path, digest)
    with open(path, "rb", buffering=0) as file:
        length, hasher = hasher_of(file)
        if _digest(file, length, hasher).hex() == digest:
            return
    if table is None or not isinstance(hasher, BlockHash):
        raise Damaged("sha256 differs")
    raise wrong_bytes(_first_difference(table, hasher.table()), length)


def wrong_bytes(block: int, length: int) -> Damaged:
    """Return the error for a block of a file of so many bytes whose CRC-32 is another."""
    return Damaged(f"bytes {block * BLOCK}-{min((block + 1) * BLOCK, length) - 1} are not what was written")


def _first_difference(one: bytes, other: bytes) -> int:
    return next(k for k in range(0, len(one), CRC) if one[k : k + CRC] != other[k : k + CRC]) // CRC


def _digest(file: FileIO, length: int, hasher: Hasher) -> bytes:
    buffer = memoryview(bytearray(_PIECE))
    file.seek(0)
    while length > 0 and (taken := file.readinto(buffer[: min(length, _PIECE)])):
        hasher.update(buffer[:taken])
        length -= taken
    return hasher.digest()


def open_image(path: Path) -> h5py.File:
    """Open a finished file for reading, as any program would: HDF5 refuses two kinds of opening in one process.

    Raises
    ------
    Damaged
        If it holds anything of a kind that fastbm does not write; no array of it was read.
    FileNotFoundError
        If it is not there, or no longer.
    """
    identity = hdf5.identity_of(path)
    try:
        file = h5py.File(path, "r")
    except OSError:
        path.stat()  # a file that vanished once HDF5 had opened it, HDF5 tells without errno
        raise
    return believed(file, identity)


def believed(file: h5py.File, identity: tuple[int, ...]) -> h5py.File:
    """Return an open file of a run that holds nothing unsafe to read; else close it and raise `Damaged`."""
    try:
        return hdf5.believed(file, identity, axes=True)
    except hdf5.Unbelievable as error:
        raise Damaged(str(error)) from None


def _refuse_newer(path: Path, magic: str, digest: bytes) -> None:
    """Refuse a seal of a later version. A known kind of hash means that only the trailer's first bytes are damaged."""
    with open(path, "rb", buffering=0) as file:
        length, _ = hasher_of(file)
        known = ((length, BlockHash()), (length, hashlib.sha256()), (bytes_before_table(length), BlockHash()))
        if all(_digest(file, n_bytes, hasher) != digest for n_bytes, hasher in known):
            raise StorageError(
                f"{path} is sealed by {magic}, which this fastbm ({package_version('fastbm')}) does not know. "
                "Nothing was changed. Install a newer fastbm."
            )


def _without_trailer(path: Path) -> Damaged | Foreign:
    """Distinguish a file of the store that was cut or torn from one of others, by bytes that no HDF5 has to parse."""
    with open(path, "rb") as file:
        head = file.read(MARKED)
        size = file.seek(0, os.SEEK_END)
    # Zeros are what a power cut leaves of a file; a cut file begins as ours do. Anything else was put there by others.
    if any(head[: len(SIGNATURE)]) and not SIGNATURE.startswith(head[: len(SIGNATURE)]):
        return Foreign("no trailer")
    if _end_of_image(head) == size and FORMAT.encode() not in head:  # ours are longer by their seal
        return Foreign("no trailer")
    return Damaged("the trailer is missing")


def _end_of_image(head: bytes) -> int:
    """Return the length that the superblock of an HDF5 file claims; -1 where there is none.

    HDF5 File Format Specification 3.0, II.A: the third address of versions 0 and 1, behind their sizes and B-tree
    ranks, the third also of versions 2 and 3.
    """
    place = {0: 40, 1: 44, 2: 28, 3: 28}.get(head[len(SIGNATURE)] if len(head) > len(SIGNATURE) else -1)
    return -1 if place is None else int.from_bytes(head[place : place + 8], "little")
