"""The files that cells read, rows, labels and machines: noted when cells are settled, so that they stay what they are.

A file is looked for under its name from the current folder, and then where it was when it was noted. It is hashed again
only where its place, its size or the time of its last change is another.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._base.checks import StorageError, no_file
from .._base.files import reading
from ..data.datasets import parts_of

KEYS = (
    "data.source", "data.labels", "data.holdout_source", "data.holdout_labels", "model.source", "model.path",
)  # fmt: skip
WAY_OUT = "or begin a new campaign, in another folder: campaign.out (--out)."


@dataclass(frozen=True)
class Note:
    """A file that cells read.

    Attributes
    ----------
    path : str
        Where it was found, absolutely.
    sha256 : str
        Of all its bytes, in hex.
    size, mtime_ns : int
        In bytes, and when it was changed.
    """

    path: str
    sha256: str
    size: int
    mtime_ns: int


def read_by(tables: Mapping[str, Any]) -> dict[str, str]:
    """Return the files that the cells of a campaign read, by their names in its tables, each with the key it is of."""
    of_grid = {key: values for one in (tables["grid"], *tables.get("zip", ())) for key, values in one.items()}
    found: dict[str, str] = {}
    for key in KEYS:
        table, _, last = key.partition(".")
        said = tables.get(table, {})
        values = of_grid.get(key) or [one.get(last) for one in (said if isinstance(said, list) else [said])]
        for name in _texts(values):
            if path := parts_of(name)[0] if table == "data" else name:
                found.setdefault(path, key)
    return found


def _texts(values: Any) -> Iterator[str]:
    """Yield the texts in lists, however deep."""
    if isinstance(values, str):
        yield values
    for one in values if isinstance(values, list) else ():
        yield from _texts(one)


def note(folder: Path, names: Mapping[str, str], noted: Mapping[str, Note]) -> dict[str, Note]:
    """Return what is to be noted of files, which are held against what was noted of them before.

    Parameters
    ----------
    folder : path
        Of the campaign.
    names : dict of name to key
    noted : dict of name to Note

    Raises
    ------
    StorageError
        If one is missing, cannot be read, or is not the one that was noted.
    """
    return {name: _noted(folder, name, key, noted.get(name)) for name, key in names.items()}


def places_of(folder: Path, names: Mapping[str, str], noted: Mapping[str, Note]) -> dict[str, str]:
    """Return where files are, absolutely; those of campaigns of before notes are where their names say.

    Parameters and errors as for `note`.
    """
    found = note(folder, {name: key for name, key in names.items() if name in noted}, noted)
    return {name: found[name].path if name in found else _place(name) for name in names}


def _noted(folder: Path, name: str, key: str, before: Note | None) -> Note:
    place = _found(folder, name, key, before)
    with reading(place):
        about = os.stat(place)
        found = Note(place, "" if before is None else before.sha256, about.st_size, about.st_mtime_ns)
        if found == before:
            return before
        with open(place, "rb") as file:
            found = replace(found, sha256=hashlib.file_digest(file, "sha256").hexdigest())
    if before is not None and found.sha256 != before.sha256:
        there = "" if place == before.path else f", which was {before.path}"
        raise StorageError(
            f"{place} ({key}) is not the file that cells of {folder} were computed from{there}: its sha256 differs. "
            f"Restore that one, {WAY_OUT}"
        )
    return found


def _found(folder: Path, name: str, key: str, before: Note | None) -> str:
    """Return where a file is."""
    if os.path.isfile(place := _place(name)):
        return place
    if before is None:
        raise StorageError(f"{name} {no_file(name)} ({key}). Nothing was begun in {folder}. Name a file that is there.")
    if os.path.isfile(before.path):
        return before.path
    raise StorageError(
        f"{name} ({key}) is neither here nor where cells of {folder} were begun, {before.path}. Put it back, {WAY_OUT}"
    )


def _place(name: str) -> str:
    return str(Path(name).absolute())
