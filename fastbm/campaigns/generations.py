"""What a campaign has settled, in files that are written once: generations of cells, and how they are cut into shards.

``generation-0000.json`` is the campaign's beginning; each that follows adds the cells of a grid that has grown, or
computes cells again. A file is made under its name at once, or not at all where another process has made it before:
nobody waits for a lock, and all read the same.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec

from .._base import checks
from .._base.arithmetic import arithmetic
from .._base.checks import StorageError
from .._base.files import GENERATION
from .._base.versions import package_version
from ..store import disk
from ..store.names import unfinished
from ..store.schema import canonical_json, differences
from .grid import NO_NUMBER, Plan
from .reading import Note

FORMAT = 1
N_SHARDS = 32  # unless told: work for as many workers, and few files
WHY = GRID, RETRY, LONGER = "grid", "retry", "longer"  # why a generation was begun; the first one for a grid
VERSIONED = ("fastbm", "numpy", "numba")
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
MOST_NAMED = 8  # keys that differ
_NAME = re.compile(r"generation-(\d{4,})\.json")


@dataclass(frozen=True)
class Generation:
    """Cells that were settled together.

    Attributes
    ----------
    number : int
    why : {"grid", "retry", "longer"}
        New cells of a grid, failed ones that are computed again, or unconverged ones that are computed for longer.
    verb, keep : str
    tables : dict
        As written: those of a run, [grid], [zip] and [campaign].
    base : dict
        Those of a run alone.
    ids : tuple of str
        The cells, but for those of a grid, which its tables tell.
    shards : tuple of int
        How many cells each shard has.
    factor : float
        How much longer the cells are computed than their tables say.
    versions : dict of name to version
        Of what decides the last bits of numbers.
    axes : tuple of tuple of str
        Keys of the grid that go together.
    files : dict of name to Note
        Those that cells read, by their names as written; campaigns of earlier versions have none.
    created : float
        Time of day.
    """

    number: int
    why: str
    verb: str
    keep: str
    tables: dict[str, Any]
    base: dict[str, Any]
    shards: tuple[int, ...]
    versions: dict[str, str]
    axes: tuple[tuple[str, ...], ...] = ()
    ids: tuple[str, ...] = ()
    factor: float = 1.0
    files: dict[str, Note] = field(default_factory=dict)
    created: float = 0.0

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return sum(self.shards)


def versions_of(verb: str) -> dict[str, str]:
    """Return the versions of what decides the bits of a verb; those of `sample` are the same on all processors."""
    found = {name: package_version(name) for name in VERSIONED}
    return found if verb == "sample" else found | {"arithmetic": arithmetic()}


def first_generation(plan: Plan) -> Generation:
    """Return the generation that a plan begins, with no cells in it yet."""
    settings = {one.name: getattr(plan.settings, one.name) for one in fields(plan.settings)}
    settings = {name: value for name, value in settings.items() if value is not None}
    tables = {**plan.base, "grid": plan.grid, "campaign": settings} | ({"zip": plan.zips} if plan.zips else {})
    versions = versions_of(plan.verb)
    return Generation(0, GRID, plan.verb, plan.settings.keep, tables, plan.base, (), versions, plan.axes)


def cut(n_cells: int, n_shards: int | None) -> tuple[int, ...]:
    """Return how many cells each shard gets: as equal as can be, none of them empty."""
    n_shards = min(n_cells, n_shards or N_SHARDS)
    return tuple((k + 1) * n_cells // n_shards - k * n_cells // n_shards for k in range(n_shards))


def read_all(folder: Path) -> list[Generation]:
    """Read the generations of a campaign, in order; none where the folder holds no campaign.

    Raises
    ------
    StorageError
        If one is missing or makes no sense.
    """
    try:
        names = sorted(match.group() for name in os.listdir(folder) if (match := _NAME.fullmatch(name)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StorageError(f"{folder} cannot be read: {error.strerror or error}. Name another folder.") from None
    found = [_read(folder / name) for name in names]
    for k, generation in enumerate(found):
        if generation.number != k:
            raise StorageError(f"{folder} lacks {_path(folder, k).name}. Restore a copy of it.")
    return found


def _path(folder: Path, number: int) -> Path:
    return folder / GENERATION.format(number)


def _read(path: Path) -> Generation:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if (number := found.pop("format")) > FORMAT:
            raise StorageError(f"{path} has format {number}; this fastbm reads up to {FORMAT}. Install a later one.")
        generation = msgspec.convert(found, Generation)
        checks.choice("why", generation.why, WHY if generation.number else WHY[:1])
        tables = generation.tables
        msgspec.convert([tables["grid"], tables["campaign"], *tables.get("zip", ())], list[dict[str, Any]])
        return generation
    except StorageError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, msgspec.ValidationError) as error:
        raise StorageError(f"{path} makes no sense: {error}. Restore a copy of it.") from None


def add(folder: Path, generation: Generation) -> bool:
    """Write a generation; return whether it is this one that stands, and not one that another process wrote before."""
    text = json.dumps({"format": FORMAT, **asdict(generation)}, indent=1) + "\n"
    path = _path(folder, generation.number)
    temporary = unfinished(path)
    try:
        disk.make_folder(folder)
        handle = disk.write_file([text.encode()], temporary)
        try:
            disk.sync(handle)
        finally:
            disk.close(handle)
        return _named(temporary, path)
    except OSError as error:
        way = "changed. Mend that, then try again" if generation.number else "begun. Write elsewhere"
        raise StorageError(f"cannot write {folder}: {error.strerror or error}. Nothing was {way}.") from error


def _named(temporary: Path, path: Path) -> bool:
    """Give a file a name that no other has; return whether it could be had."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if path.exists():
            return False
        disk.rename(temporary, path)
    finally:
        disk.unlink(temporary)
    disk.sync_folder(path.parent)
    return True


def other_settings(known: Sequence[Generation], new: Generation) -> str:
    """Return which keys of new tables differ from a campaign's, as text; those of a grid may become more."""
    last = [one for one in known if one.why == GRID][-1]
    free = {key for one in (last, new) for key in grid_keys(one)}
    here, there = (_without({**one.base, "keep": one.keep, "seed": _seed(one)}, free) for one in (new, last))
    found = differences(json.loads(canonical_json(here)), json.loads(canonical_json(there)))
    more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return "; ".join(found[:MOST_NAMED]).replace("in the file", "there") + more


def check_versions(folder: Path, first: Generation) -> None:
    """Refuse to mix numbers of several versions in one campaign."""
    if text := other_versions(first.versions, versions_of(first.verb)):
        raise StorageError(
            f"{folder} was begun with {text}, with which numbers may differ. Go on with those versions, begin another "
            "campaign, or take the mixture: exact=False (on the command line --inexact)."
        )


def other_versions(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return what differs between two sets of versions, as text."""
    names = [name for name in there if there[name] != here.get(name)]
    return "; ".join(f"{name} {there[name]}, and {here.get(name)} is here" for name in names)


def noted(known: Iterable[Generation]) -> dict[str, Note]:
    """Return what was noted last of each file that cells read."""
    return {name: one for generation in known for name, one in generation.files.items()}


def grid_keys(generation: Generation) -> Iterable[str]:
    """Yield the keys of a generation's grid."""
    yield from generation.tables.get("grid", {})
    for one in generation.tables.get("zip", ()):
        yield from one


def value_of(tables: Mapping[str, Any], key: str) -> Any:
    """Return what tables say of a "table.key"; None where they say nothing."""
    place: Any = tables
    for name in key.split("."):
        place = place.get(name) if isinstance(place, dict) else None
    return place


def _seed(generation: Generation) -> Any:
    return generation.tables.get("campaign", {}).get("seed", 0)


def _without(tables: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return tables without some keys, and without what decides no number."""
    found = {name: _copied(table) for name, table in tables.items() if name != NO_NUMBER}
    for key in keys:
        *path, last = key.split(".")
        place: Any = found
        for name in path:
            place = place.get(name) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.pop(last, None)
    return found


def _copied(table: Any) -> Any:
    return {name: _copied(one) for name, one in table.items()} if isinstance(table, dict) else table


def numbered(generation: Generation, known: Sequence[Generation], **changes: Any) -> Generation:
    """Return a generation that follows those that are known."""
    return replace(generation, number=len(known), created=time.time(), **changes)
