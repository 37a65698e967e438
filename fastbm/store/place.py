"""The place of a run: what is refused before anything is made there, and what is warned of where guarantees are weak.

On what kind of file system a place lies is told as far as the system tells; only messages depend on it.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from .._base.checks import StorageError, warn
from . import disk
from .lock import TAKING, cannot_write
from .names import PARTS, TEMPORARY, Names, is_own, is_segment

COPIES = (
    "s3fs",
    "goofys",
    "gcsfuse",
    "mount-s3",
    "mountpoint-s3",
    "rclone",
    "blobfuse",
    "blobfuse2",
    "ossfs",
    "geesefs",
)
ONE_HOST = ("sshfs",)
_TABLE = Path("/proc/self/mountinfo")


def mount_of(path: Path) -> tuple[str, str]:
    """Return the mount point and type of the file system that a place lies on; two empty texts where it is unknown."""
    try:
        table = _TABLE.read_bytes().decode(errors="surrogateescape")
    except OSError:
        return "", ""
    place, found = os.path.realpath(path), ("", "")
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 5 or len(kind) < 2:
            continue
        point = _plain(fields[4])
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(found[0]):  # of two on one point the later hides the earlier
            found = point, _name(kind[0], kind[1])
    return found


def weakness(kind: str) -> str:
    """Return what a file system of this type is known not to guarantee: "renames are copies"; else empty."""
    program = kind.removeprefix("fuse.")
    if program in COPIES:
        return "an object store behind it renames by copying"
    if program in ONE_HOST:
        return "its file locks end at this host"
    return ""


def _name(kind: str, source: str) -> str:
    """Return the type of a file system; those of a general type get the mounted program too: ``fuse.s3fs``."""
    return f"fuse.{source}" if kind == "fuse" and source in (*COPIES, *ONE_HOST) else kind


def _plain(text: str) -> str:
    """Undo the octal escapes of blanks in the table."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text


def check_out(path: str | os.PathLike[str]) -> None:
    """Refuse a path that ends as a folder's; one of parts may, as shells complete it so."""
    text = os.fspath(path)
    if text.endswith("/") and not text.rstrip("/").endswith(PARTS):
        raise ValueError(f"out: {text!r} ends with '/' and so names a folder. Name a file in it, such as 'run.h5'.")


def check_place(names: Names) -> None:
    """Refuse a place that cannot take a run, or where a run would be in the way of others; nothing is made."""
    for path in (names.merged, names.parts):
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise cannot_write(names, error) from error
        if stat.S_ISLNK(mode) and not path.exists():
            raise _in_the_way(names, path, f"is a link to {os.readlink(path)}, which does not exist")
        if stat.S_ISLNK(mode) and path == names.parts:
            raise _in_the_way(names, path, f"is a link to {os.readlink(path)}")
    if os.path.lexists(names.parts) and not names.parts.is_dir():
        raise _in_the_way(names, names.parts, "is not a folder")
    if foreign := foreign_files(names):
        some = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")
        raise _in_the_way(names, names.parts, f"holds files that are not of a run ({some})")
    names.check_links()
    _check_folder(names)


def check_replaceable(names: Names) -> None:
    """Refuse to put a new file in the place of a link: the file that it leads to would stay as it is."""
    if names.merged.is_symlink():
        raise _in_the_way(names, names.merged, f"is a link to {os.readlink(names.merged)}, and would be replaced")


def foreign_files(names: Names) -> list[str]:
    """Return the files in the parts folder that no writer has made; hidden ones are the system's."""
    try:
        there = sorted(os.listdir(names.parts))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise cannot_write(names, error) from error
    # One listing: files that a writer names between two would look as if they were of nobody.
    own = {name for name in there if is_own(name)}
    if not any(is_segment(name) for name in there):
        own = {name for name in own if name.endswith(TEMPORARY)}
    own |= {names.lock.name, TAKING}
    return [name for name in there if name not in own and not name.startswith(".")]


def warn_of_place(names: Names, no_locks: str, no_sync: str | None = None) -> None:
    """Warn once of what is not guaranteed where the file system lacks locks, folders that sync, or renames.

    `no_sync` says why folders cannot be synced; it is tried where that is not known.
    """
    point, kind = mount_of(names.parts)
    lacks = [f"it has no file locks (flock: {no_locks})"] if no_locks else []
    lost = ["two writers on two hosts are not kept apart"] if no_locks else []
    if failure := _sync_failure(names) if no_sync is None else no_sync:
        lacks.append(f"folders cannot be synced (fsync: {failure})")
        lost.append("a power cut may lose the last commits")
    if weak := weakness(kind):
        lacks.append(weak)
        lost.append("a commit may be seen half, or two writers not be kept apart")
    if lacks:
        where = f"{kind} at {point}" if kind else "a file system of unknown type"
        warn(
            f"{names.shown} lies on {where}: {'; '.join(lacks)}. So {'; '.join(lost)}. "
            f"Where that matters, write to a local disk and copy the finished file.",
            UserWarning,
        )


def _sync_failure(names: Names) -> str:
    """Return why the file system cannot sync folders; empty if it can."""
    try:
        handle = os.open(names.parts, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise cannot_write(names, error) from error
    try:
        os.fsync(handle)
    except OSError as error:
        return str(error.strerror) if error.errno in disk.NO_FOLDER_SYNC else ""
    finally:
        os.close(handle)
    return ""


def _check_folder(names: Names) -> None:
    """Refuse a folder that is none or takes no files; of one that is missing, the folder that it would be made in."""
    folder = names.parts if names.parts.exists() else names.merged.parent
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise StorageError(
            f"cannot write {names.shown}: {folder} is not a folder. Nothing was changed. Write elsewhere."
        )
    for needed in {folder, names.merged.parent} if folder == names.parts else {folder}:
        if not os.access(needed, os.W_OK | os.X_OK):
            reason = os.strerror(errno.EROFS if os.statvfs(needed).f_flag & os.ST_RDONLY else errno.EACCES)
            raise cannot_write(names, OSError(errno.EACCES, reason), needed)


def _in_the_way(names: Names, path: Path, what: str) -> StorageError:
    shown = names.shown + path.name.removeprefix(names.merged.name)
    return StorageError(f"cannot write {names.shown}: {shown} {what}. Nothing was changed. Move it or write elsewhere.")
