"""The sha256 of a run, by which two copies of it are compared."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from .._base import files
from .find import find
from .names import TEMPORARY, Names


def digest_of(path: str | os.PathLike[str]) -> str:
    """Return the sha256 of all bytes of a run, a machine's file or a classifier's, in hex.

    Of one file it is that of ``sha256sum run.h5``; of parts that of the lines which ``sha256sum`` prints in their
    folder for the segments and states in order of their names, behind that of ``run.h5`` where it is the first part.

    Raises
    ------
    StorageError
        If there is no such run.
    """
    if os.path.isfile(path) and files.check_seal(Path(path)):
        return _of_file(Path(path))
    names = Names(path)
    status = find(names)
    merged = [names.merged] if status.merged is not None else []
    if status.origin is None:
        return _of_file(names.merged)
    parts = [one for one in names.own_files() if not one.name.endswith(TEMPORARY) and ".bad" not in one.name]
    lines = [f"{_of_file(one)}  {one.name}\n" for one in (*merged, *sorted(parts))]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _of_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
