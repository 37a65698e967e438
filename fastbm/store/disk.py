"""Every operation on files that a commit or a merge makes, one function each.

Nothing else in the store changes a file. Callers name these functions through the module (``disk.rename``), so that a
test can put a failing, killing or recording one in the place of any of `OPERATIONS`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .._base.system import fcntl

OPERATIONS = ("make_folder", "create", "write", "sync", "close", "rename", "sync_folder", "unlink", "remove_folder")
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # what such file systems answer


def make_folder(path: Path) -> None:
    """Make a folder and its parents; one that is there already is fine."""
    path.mkdir(parents=True, exist_ok=True)


def create(path: Path) -> int:
    """Make a file and open it for reading and writing; one that is there, or a link, is never written to."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def write(handle: int, data: memoryview, offset: int) -> int:
    """Write at `offset`; return how many bytes the system took, which may be fewer than given."""
    return os.pwrite(handle, data, offset)


def sync(handle: int) -> None:
    """Return when the file's bytes are on the disk. A failure is final: the system may have dropped the pages."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync alone stops at the drive's volatile cache
        with suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
            return
    os.fsync(handle)


def close(handle: int) -> None:
    """Close a file."""
    os.close(handle)


def rename(old: Path, new: Path) -> None:
    """Give a file its name, atomically, in place of any file of that name."""
    os.replace(old, new)


def sync_folder(path: Path) -> str:
    """Return when the folder's names are on the disk; or why the file system cannot do that for any folder."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC:
            raise
        return str(error.strerror)
    finally:
        os.close(handle)
    return ""


def unlink(path: Path) -> None:
    """Remove a file; one that is gone already is fine."""
    path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove an empty folder; one that is gone, or holds files of others, is left as it is."""
    with suppress(OSError):
        path.rmdir()


def write_all(handle: int, data: bytes | memoryview, offset: int) -> int:
    """Write every byte at `offset`, over short writes; return the offset behind them."""
    view = memoryview(data).cast("B")
    while view:
        taken = write(handle, view, offset)
        if taken <= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        view, offset = view[taken:], offset + taken
    return offset


def write_file(pieces: Iterable[bytes | memoryview], temporary: Path) -> int:
    """Write a file under a temporary name, which a power cut may take away; return it, open."""
    with _removed_on_error(temporary):
        handle = create(temporary)
        try:
            offset = 0
            for piece in pieces:
                offset = write_all(handle, piece, offset)
        except BaseException:
            close(handle)
            raise
    return handle


def publish(handle: int, temporary: Path, final: Path) -> None:
    """Make an open file durable, close it, and give it its final name: the commit point."""
    with _removed_on_error(temporary):
        try:
            sync(handle)
        finally:
            close(handle)
        rename(temporary, final)
    sync_folder(final.parent)


@contextmanager
def _removed_on_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError:
        with suppress(OSError):
            unlink(path)
        raise
