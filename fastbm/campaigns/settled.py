"""From tables to shards: which cells are new, how they are cut, and what is to be done of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._base.checks import StorageError
from . import generations, grid
from .alike import as_before, refuse_doubles
from .generations import GRID, Generation, add, check_versions, cut, noted, numbered, other_settings, read_all
from .reading import note, places_of, read_by
from .shard import ShardJob, entry_of, path_of, spec_of

Entry = dict[str, Any]  # what the spec of a shard says of a cell
STORED = ("commit_seconds", "commit_bytes", "compression")  # of [store], for the shards too


def settle(
    folder: Path, plan: grid.Plan, way_out: Callable[[Path, Sequence[Generation]], str], *, exact: bool = True
) -> None:
    """Write down the cells of a grid that the campaign in a folder does not have yet, and how they are cut.

    `way_out` says what to do where the tables are not that campaign's.

    Raises
    ------
    StorageError
        If the tables, versions or files that cells read are not that campaign's, or such a file is missing.
    """
    while True:
        known = read_all(folder)
        plan = as_before(plan, [one.tables for one in known if one.why == GRID])
        new = generations.first_generation(plan)
        if known:
            if text := other_settings(known, new):
                raise StorageError(f"{folder} is a campaign with other settings: {text}. {way_out(folder, known)}")
            if exact:
                check_versions(folder, known[0])
        ids = plan.cells.ids
        there = {name for one in known if one.why == GRID for name in _ids_of(one)} if known else set()
        if not (n_new := len(set(ids) - there)):
            return
        refuse_doubles(plan)
        files = note(folder, read_by(new.tables), noted(known))
        if add(folder, numbered(new, known, shards=cut(n_new, plan.settings.n_shards), files=files)):
            return


def _ids_of(generation: Generation) -> list[str]:
    found: list[str] = grid.read(generation.tables).cells.ids
    return found


def again(
    folder: Path, known: Sequence[Generation], ids: Mapping[str, int], why: str, factors: Mapping[str, float]
) -> None:
    """Write down that some cells are to be computed again, `factors` times as long as their tables say.

    `ids` tell the generation whose grid a cell is of: what a cell sets is set in the tables of that one, and a later
    grid may have others.
    """
    n_shards = [one for one in known if one.why == GRID][-1].tables["campaign"].get("n_shards")
    alike: dict[tuple[int, float], list[str]] = {}
    for name, number in ids.items():
        alike.setdefault((number, factors.get(name, 1.0)), []).append(name)
    for (number, times), some in sorted(alike.items()):
        more = {"why": why, "ids": tuple(sorted(some)), "shards": cut(len(some), n_shards), "factor": times}
        files = note(folder, read_by(known[number].tables), noted(known))
        if not add(folder, new := numbered(known[number], known, files=files, **more)):
            raise StorageError(f"{folder} was changed by another process just now. Try again.")
        known = [*known, new]


def jobs_of(
    folder: Path, known: Sequence[Generation], left: Sequence[tuple[Generation, int]], threads: int | None, exact: bool
) -> list[ShardJob]:
    """Return the jobs of some shards: with their specs, where these do not stand in a file yet.

    All their paths are absolute, as workers may be in other folders. Raises as `files_of`.
    """
    places = files_of(folder, known, {one.number: one for one, _ in left}.values())
    folder = folder.absolute()
    new = {one.number for one, k in left if not _has_begun(path_of(folder, one.number, k))}
    specs = {(one.number, k): spec for one, k, spec in _specs(folder, known, new)}
    jobs = []
    for one, k in left:
        path = path_of(folder, one.number, k)
        spec = None if _has_begun(path) else specs[one.number, k]
        stored = {name: value for name, value in one.base.get("store", {}).items() if name in STORED}
        versions = known[0].versions if exact else {}
        told: dict[str, Any] = {"verb": one.verb, "versions": versions, "threads": threads, "storage": stored}
        jobs.append(ShardJob(str(path), one.shards[k], spec=spec, places=places, **told))
    return jobs


def files_of(folder: Path, known: Sequence[Generation], some: Iterable[Generation]) -> dict[str, str]:
    """Return where the files are that cells of some generations read, by their names as written.

    Raises
    ------
    StorageError
        If they are not those that were noted, or missing.
    """
    read = {name: key for one in some for name, key in read_by(one.tables).items()}
    return places_of(folder, read, noted(known))


def _has_begun(path: Path) -> bool:
    return path.exists() or Path(f"{path}.parts/seg-00000000.h5").exists()


def _specs(
    folder: Path, known: Sequence[Generation], wanted: set[int]
) -> Iterator[tuple[Generation, int, dict[str, Any]]]:
    """Yield the specs of the shards of some generations; cells are in the order of their ids, which is no order."""
    there: dict[str, Entry] = {}
    several = any(one.number > 0 and one.number in wanted for one in known)
    for one in known:
        if not several and one.number not in wanted:
            continue
        if one.why == GRID:
            cells = grid.read(one.tables).cells
            entries = [entry_of(cell, one.base, (one.number, k)) for k, cell in enumerate(cells)]
            entries = [
                entry for entry in {entry["id"]: entry for entry in entries}.values() if entry["id"] not in there
            ]
            there |= {entry["id"]: entry for entry in entries}
        else:
            entries = [there[name] for name in one.ids]
        if one.number not in wanted:
            continue
        entries.sort(key=lambda entry: entry["id"])
        first = 0
        for k, n in enumerate(one.shards):
            yield one, k, spec_of(one, k, entries[first : first + n])
            first += n
