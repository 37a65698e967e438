"""The chain of a run's segments: follow it, and find the first link that does not hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._base.checks import DamagedRun, StorageError
from .._base.hdf5 import NONSENSE
from .._base.streams import Stream
from . import hdf
from .image import Damaged, Foreign, check_hash, open_image, read_trailer
from .names import Names
from .schema import INPUTS, META, SPEC, Arrays
from .segment import Header, read_header


@dataclass
class Chain:
    """The whole segments of a run, in order, and what comes after them.

    Attributes
    ----------
    headers : list of Header
    bad : list of int
        Numbers of the first damaged segment and of all after it.
    reason : str
        What is wrong with the first of `bad`.
    stale : list of int
        Numbers of segments that belong to the run which this one replaced.
    """

    names: Names
    headers: list[Header]
    bad: list[int] = field(default_factory=list)
    reason: str = ""
    stale: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Origin:
    """The declarations of the first segment, which hold for the whole run."""

    header: Header
    spec: str
    streams: dict[str, Stream]
    meta: dict[str, object]
    replaced: list[str]  # ids of the runs whose place this run took

    @property
    def settings(self) -> dict[str, object]:
        """How the run is written: compression, commit interval, merge."""
        return parse_settings(self.meta)


@dataclass(frozen=True)
class Written:
    """The arrays of a run that this process has begun and written to its end, which need not be read again."""

    origin: Origin
    inputs: Arrays
    state: Arrays


def read_origin(names: Names) -> Origin:
    """Read and fully check the first segment, without which there is no run."""
    path = names.segment(0)
    try:
        header = read_header(path, names.show(path), hashed=True)
        with open_image(path) as file:
            meta = hdf.read_attributes(file[META].id)
            parse_settings(meta)
            replaced = [str(one) for one in json.loads(str(meta["replaces"]))]
            return Origin(header, file[SPEC].asstr()[()], hdf.read_streams(file)[0], meta, replaced)
    except Foreign as error:
        raise foreign(names, 0, error) from None
    except (Damaged, *NONSENSE) as error:
        raise DamagedRun(
            f"{names.show(path)} is damaged: {error}. It holds the spec and the first state, so the run cannot be read "
            f"or resumed. {way_out_of_lost_parts(names)}"
        ) from None
    except StorageError:
        raise
    except OSError as error:
        error.filename = error.filename or path  # reading a folder names none
        raise


def parse_spec(text: str) -> dict[str, Any]:
    """Return the spec that a text holds; raise Damaged if that is none."""
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError, TypeError) as error:
        raise Damaged(f"its spec is no JSON text ({error})") from None
    if not isinstance(spec, dict):
        raise Damaged(f"its spec is {type(spec).__name__}, no table of settings")
    return spec


def parse_settings(meta: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of a run's writer, as `meta` has them; raise Damaged if they are not there."""
    settings = parse_spec(str(meta.get("settings", "")))
    if not {"compression", "commit_seconds"} <= set(settings):
        raise Damaged("the settings of its writer are not there")
    return settings


def way_out_of_lost_parts(names: Names) -> str:
    """Return a text on the way out where the first segment is lost; a run that was to be extended may be left."""
    if names.merged.exists():
        return f"Nothing was changed. Restore a copy of it, or move {names.shown}.parts away: {names.shown} is there."
    return "Nothing was changed. Restore a copy of it, or begin the run again."


def read_inputs(names: Names) -> Arrays:
    """Read the input arrays of a run from its first segment."""
    with open_image(names.segment(0)) as file:
        return hdf.read_arrays(file[INPUTS])


def read_spec(names: Names, headers: Iterable[Header], first: str) -> str:
    """Return the spec in force at the end of a chain: a run that was extended before its merge holds several."""
    spec, known = first, None
    for header in headers:
        if known is not None and header.spec_sha256 != known:
            spec = spec_of(names, header)
        known = header.spec_sha256
    return spec


def spec_of(names: Names, header: Header) -> str:
    """Read the spec that a segment brought."""
    with open_image(names.segment(header.segment)) as file:
        return str(file[SPEC].asstr()[()])


def follow(names: Names, origin: Origin, *, hash_last: int | None) -> Chain:
    """Check trailer, run, number and chain of every segment, and the bytes of the last `hash_last` (None: of all)."""
    numbers = names.segment_numbers() or [0]  # a reader may find none left, where they were merged in between
    chain = Chain(names, [origin.header])
    first_hashed = 0 if hash_last is None else len(numbers) - hash_last
    for number in range(1, numbers[-1] + 1):
        try:
            header = check_link(names, origin, chain.headers[-1], number, hashed=number >= first_hashed)
        except Stale:
            chain.stale = [n for n in numbers if n >= number]
            break
        except Damaged as error:
            place, error = _first_damaged(chain, number, error)
            chain.headers = chain.headers[:place]
            chain.bad = [n for n in numbers if n >= place]
            chain.reason = damage(names, place, error)
            break
        chain.headers.append(header)
    return chain


def _first_damaged(chain: Chain, number: int, error: Damaged) -> tuple[int, Damaged]:
    """Return whether a segment is damaged, or the uncompared hash in the trailer of the one before it."""
    if number > 1:
        try:
            check_hash(chain.names.segment(number - 1), chain.headers[-1].sha256)
        except Damaged as other:
            return number - 1, other
    return number, error


class Stale(Exception):
    """Raised for a segment of the run that this run replaced."""


class Missing(Damaged):
    """Raised for a segment that is missing."""


class Unreadable(StorageError):
    """Raised for a segment that exists but that the system refuses to read."""

    def __init__(self, names: Names, path: Path, error: OSError) -> None:
        super().__init__(
            f"{names.show(path)} cannot be read: {error.strerror or error}. Nothing was changed. "
            f"Mend that and try again. If it is moved away, a resume computes its blocks and all after them again."
        )


def check_link(
    names: Names, origin: Origin, before: Header | None, number: int, *, hashed: bool, linked: bool = True
) -> Header:
    """Read the header of a segment and check that it continues `before`, or else the trailer of that file.

    Where what comes before it is damaged, so that nothing can be said of the link, `linked` is false.
    """
    path = names.segment(number)
    try:
        header = read_header(path, names.show(path), hashed=hashed)
    except FileNotFoundError:
        raise Missing from None
    except Foreign as error:
        raise foreign(names, number, error) from None
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise Unreadable(names, path, error) from None
    if header.run_id in origin.replaced and header.run_id != origin.header.run_id:
        raise Stale
    if header.run_id != origin.header.run_id:
        raise StorageError(
            f"{names.show(path)} belongs to another run ({header.run_id[:8]}; this one is "
            f"{origin.header.run_id[:8]}). Nothing was changed. Put it where it belongs, then resume: "
            f"the blocks that it stood for are computed again."
        )
    if header.segment != number:
        raise Damaged(f"it is segment {header.segment}")
    if not linked:
        return header
    try:
        prev_sha256 = before.sha256 if before else read_trailer(names.segment(number - 1))
    except FileNotFoundError:
        raise Damaged(f"segment {number - 1}, before it, is missing") from None
    if header.prev_sha256 != prev_sha256 or (before and header.first_block != before.end_block):
        raise Damaged("it does not follow on the segment before it")
    return header


def foreign(names: Names, number: int, error: Foreign) -> StorageError:
    """Return the error for a file among the segments that the store did not make."""
    shown = names.show(names.segment(number))
    return StorageError(f"{shown} is not a fastbm segment ({error}). Nothing was changed.")


def damage(names: Names, number: int, error: Exception) -> str:
    """Return a text that names the damaged segment, and what is damaged in it."""
    shown = names.show(names.segment(number))
    return f"{shown} is missing" if isinstance(error, Missing) else f"{shown} is damaged: {error}"


def blocks_safe(end_block: int) -> str:
    """Return a text that names the committed blocks: ``Blocks 0-5999``."""
    return f"Blocks 0-{end_block - 1}" if end_block else "No blocks"
