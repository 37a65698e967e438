"""The runs of a run's parts, which stand in a folder beside it until it is whole: ``run.h5.chains/00000064.h5``."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from . import disk
from .merge.merge import discard
from .names import PARTS, TEMPORARY, Names

_RUN = re.compile(rf"(\d{{8,}}\.h5)({re.escape(PARTS)})?")
_STOP = re.compile(rf"stop\.[0-9a-f]{{16}}{re.escape(TEMPORARY)}")


def part_at(folder: Path, first: int) -> Path:
    """Return the file of the part that begins with a chain."""
    return folder / f"{first:08d}.h5"


def remove_part(path: str | os.PathLike[str]) -> None:
    """Remove a part."""
    names = Names(path)
    discard(names)
    disk.unlink(names.merged)


def clear(names: Names) -> None:
    """Remove the parts of a run that is whole; what is not the store's stays."""
    folder = names.beside
    if folder.is_symlink():
        return
    for name in sorted(os.listdir(folder)):
        path = folder / name
        with suppress(OSError):
            if (match := _RUN.fullmatch(name)) and match[2]:
                discard(path)
            elif match or _STOP.fullmatch(name):
                disk.unlink(path)
    with suppress(OSError):
        disk.remove_folder(folder)
