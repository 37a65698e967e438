"""Small files that are written whole or not at all, and the checksum behind those that carry numbers.

A sealed file ends in ``b"FBMFILE1" | u64 length | sha256`` of all before, which HDF5 ignores. It finds accidents; it is
no signature, as whoever makes a file can seal it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from . import checks
from .checks import StorageError

SEAL = struct.Struct("<8sQ32s")
GENERATION = "generation-{:04d}.json"  # of cells of a campaign
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
for _flag in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"):  # those that the system has
    NEW |= getattr(os, _flag, 0)
_MAGIC = b"FBMFILE1"
_PIECE = 1 << 20
_HEAD = 4096  # bytes in which a picture or a page says what made it
_places: ContextVar[Mapping[str, str]] = ContextVar("places", default=MappingProxyType({}))


@contextmanager
def placed(places: Mapping[str, str]) -> Iterator[None]:
    """Have files that are to be read found elsewhere, by their names as written, in the body and this thread."""
    token = _places.set(places)
    try:
        yield
    finally:
        _places.reset(token)


def located(path: str) -> str:
    """Return where a file is that is to be read: its path, unless `placed` says otherwise."""
    return _places.get().get(path, path)


def marked(mark: bytes) -> Callable[[BinaryIO], bool]:
    """Return a test of an open file: whether it has a mark at its beginning."""
    return lambda file: mark in file.read(_HEAD)


def refuse_foreign(path: Path, what: str, is_ours: Callable[[BinaryIO], bool]) -> Path:
    """Refuse to replace what was not made here: a file that is not empty and not ours, and all that is no file.

    Returns where to write: of a link to a file the file, so that the link stays.

    Raises
    ------
    StorageError
    """
    if not os.path.lexists(path):
        return path
    if path.is_file():
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size or is_ours(file):
                return path.resolve()
    raise StorageError(f"{path} exists and is no {what} of fastbm. Nothing was changed. Move it or write elsewhere.")


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Name the file of the body where the system does not let it be read.

    Raises
    ------
    StorageError
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        text = f"{path} cannot be read: {error.strerror or error}. Make it readable, or name another file."
        raise StorageError(text) from error


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """Write a file aside, under a name that nobody can guess, and rename it when its bytes are on the disk.

    A link at the path is replaced, and what it leads to is kept.

    Raises
    ------
    StorageError
        If the disk refuses; nothing is changed and nothing left then.
    """
    aside = path.parent / f".fastbm.{secrets.token_hex(8)}.tmp"  # whose length depends on no name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(aside, NEW, 0o666)
    except OSError as error:
        raise _refused(path, error) from error
    try:
        try:
            _write(handle, memoryview(data))
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(aside, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(aside)
        if isinstance(error, OSError):
            raise _refused(path, error) from error
        raise


def _write(handle: int, view: memoryview) -> None:
    while view:
        view = view[os.write(handle, view) :]


def _refused(path: Path, error: OSError) -> StorageError:
    return StorageError(f"{path} cannot be written: {error.strerror or error}. Nothing was changed. Write elsewhere.")


def sealed(data: bytes) -> bytes:
    """Return some bytes with their seal behind them."""
    return data + SEAL.pack(_MAGIC, len(data), hashlib.sha256(data).digest())


def check_seal(path: Path) -> bool:
    """Compare a file with its seal; return whether it has one.

    Raises
    ------
    StorageError
        If the two differ.
    """
    with open(path, "rb") as file:
        length = file.seek(0, os.SEEK_END) - SEAL.size
        if length < 0:
            return False
        file.seek(length)
        magic, claimed, digest = SEAL.unpack(file.read(SEAL.size))
        if magic != _MAGIC:
            return False
        file.seek(0)
        found, left = hashlib.sha256(), length
        while left > 0 and (piece := file.read(min(_PIECE, left))):
            found.update(piece)
            left -= len(piece)
    if claimed != length or found.digest() != digest:
        raise damaged(path, "its bytes are not those that were written")
    return True


def damaged(path: Path | str, what: object) -> StorageError:
    """Return the error for a file that cannot be believed."""
    return StorageError(f"{path} is damaged: {what}. Its numbers cannot be trusted. Restore a copy of it.")


def is_campaign(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is the folder of a campaign, and not a run."""
    return os.path.isfile(os.path.join(os.path.expanduser(checks.path("path", path)), GENERATION.format(0)))
