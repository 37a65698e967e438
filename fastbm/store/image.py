"""HDF5 images built in memory, and the trailer that makes a file checkable.

A sealed file is an HDF5 image followed by ``b"FBMSEG01" | u64 image length | sha256(image)``. HDF5 ignores what follows
an image, so any HDF5 tool reads the file; and HDF5 itself never writes to a disk, so it never meets a disk error.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
from collections.abc import Callable
from pathlib import Path

import h5py

MAGIC = b"FBMSEG01"
TRAILER = struct.Struct("<8sQ32s")
SIGNATURE = b"\x89HDF\r\n\x1a\n"
_BLOCK = 1 << 20
_serial = itertools.count()


class Damaged(Exception):
    """A sealed file is not what was written; the text says in what."""


class Foreign(Exception):
    """A file bears the name of a segment and is nothing of ours."""


def build_image(fill: Callable[[h5py.File], None], n_bytes: int) -> bytes:
    """Return the bytes of the HDF5 file that `fill` writes: a function of its contents alone.

    `n_bytes` is about what will be written, so that the memory grows in few steps.
    """
    step = min(max(n_bytes // 4, 1 << 16), 1 << 24)
    # HDF5 takes two files in memory for one if they share a name.
    name = f"fastbm-{os.getpid()}-{next(_serial)}"
    with h5py.File(name, "w", driver="core", backing_store=False, block_size=step, libver="earliest") as file:
        fill(file)
        file.flush()
        image: bytes = file.id.get_file_image()
    return image


def seal(image: bytes) -> tuple[bytes, str]:
    """Return the trailer of an image, and its sha256 in hex."""
    digest = hashlib.sha256(image)
    return TRAILER.pack(MAGIC, len(image), digest.digest()), digest.hexdigest()


def read_trailer(path: Path) -> str:
    """Return the sha256 in hex that a sealed file claims, after checking that its length is right."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(len(SIGNATURE))
        file.seek(max(0, size - TRAILER.size))
        tail = file.read(TRAILER.size)
    if len(tail) == TRAILER.size:
        magic, length, digest = TRAILER.unpack(tail)
        if magic == MAGIC and length == size - TRAILER.size:
            return str(digest.hex())
        if magic == MAGIC:
            raise Damaged(f"its length is {size - TRAILER.size}, not {length}")
    # Zeros are what a power cut leaves of a file; a cut file begins as ours do. Anything else was put there by others.
    if any(head) and not SIGNATURE.startswith(head):
        raise Foreign("no trailer")
    if _is_whole_foreign_file(path):
        raise Foreign("no trailer")
    raise Damaged("the trailer is missing")


def check_hash(path: Path, digest: str) -> None:
    """Compare a sealed file's bytes with the sha256 in its trailer, in bounded memory."""
    computed = hashlib.sha256()
    with open(path, "rb") as file:
        left = os.fstat(file.fileno()).st_size - TRAILER.size
        while left > 0 and (piece := file.read(min(left, _BLOCK))):
            computed.update(piece)
            left -= len(piece)
    if computed.hexdigest() != digest:
        raise Damaged("sha256 differs")


def open_image(path: Path) -> h5py.File:
    """Open a finished file for reading, as any program would: HDF5 refuses two kinds of opening in one process."""
    return h5py.File(path, "r")


def _is_whole_foreign_file(path: Path) -> bool:
    try:
        with open_image(path) as file:
            return "format" not in file.attrs
    except (OSError, RuntimeError):
        return False
