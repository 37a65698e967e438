"""On what kind of file system a place lies, as far as the system tells; only messages depend on it."""

from __future__ import annotations

import os
from pathlib import Path

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
    """Say what a file system of this type is known not to hold, in the form "renames are copies"; else empty."""
    program = kind.removeprefix("fuse.")
    if program in COPIES:
        return "an object store behind it renames by copying"
    if program in ONE_HOST:
        return "its file locks end at this host"
    return ""


def _name(kind: str, source: str) -> str:
    """Programs that are not told apart by type are by what they mount: ``fuse`` of ``s3fs``."""
    return f"fuse.{source}" if kind == "fuse" and source in (*COPIES, *ONE_HOST) else kind


def _plain(text: str) -> str:
    """Undo the octal escapes of blanks in the table."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text
