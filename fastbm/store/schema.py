"""The format of a run: names, dtypes and layouts, and what a longer run continues from."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .._base.checks import StorageError
from .._base.hdf5 import AXIS, SCALE_ATTRIBUTES
from .._base.streams import Stream
from .._base.versions import package_version

FORMAT = "fastbm"
FORMAT_VERSION = (1, 1)
SPEC, INPUTS, STATE, META, INDEX, REWINDS = "spec", "inputs", "state", "meta", "index", "rewinds"
LARGE_STATE_BYTES = 16 << 20
CHUNK_BYTES, LARGEST_CHUNK_BYTES = 64 << 10, 1 << 20

RESERVED = {AXIS.decode(), *(name.decode() for name in SCALE_ATTRIBUTES)}  # attributes

Arrays = dict[str, np.ndarray]

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
_NAME = re.compile(r"[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)*")


def chunk_shape(stream: Stream, n_rows: int = 0) -> tuple[int, ...]:
    """Return the chunk of a stream's dataset: 64 KiB to 1 MiB, or all rows where a run has no more than `n_rows`.

    It must not depend on how many rows a commit brought, or an interrupted run would be laid out differently.
    """
    inner = [max(1, n) for n in stream.shape]
    size = stream.item_bytes * math.prod(inner)
    axis = 0
    while size > LARGEST_CHUNK_BYTES and axis < len(inner):
        if inner[axis] == 1:
            axis += 1
            continue
        size = size // inner[axis] * ((inner[axis] + 1) // 2)
        inner[axis] = (inner[axis] + 1) // 2
    most = max(1, -(-CHUNK_BYTES // size))
    return (min(most, n_rows or most), *inner)


def check_names(argument: str, names: Iterable[str], reserved: Iterable[str] = ()) -> None:
    """Check slash paths: plain words, none inside another, none in a reserved group."""
    _check_names(argument, frozenset(names), frozenset(reserved))


@lru_cache(maxsize=256)  # runs of one kind have the same names, and short ones are begun by the thousand
def _check_names(argument: str, names: frozenset[str], reserved: frozenset[str]) -> None:
    for name in sorted(names):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{argument}: {name!r} is not a name; use words of letters, digits, _ . + - joined by /.")
        if name.split("/")[0] in reserved:
            raise ValueError(f"{argument}: {name!r} may not lie in {name.split('/')[0]!r}, which is reserved.")
        parents = {name[:k] for k, letter in enumerate(name) if letter == "/"}
        if parents & names:
            raise ValueError(f"{argument}: {name!r} lies inside {min(parents & names)!r}, which is an array.")


def check_streams(streams: Mapping[str, Stream]) -> dict[str, Stream]:
    """Check declared streams and return them in the order in which they are stored."""
    check_names("streams", streams, reserved=(SPEC, INPUTS, STATE, INDEX, REWINDS))
    found = {}
    for name in sorted(streams):
        stream, stored = streams[name], _stored(streams[name].dtype)
        if not stored:
            raise TypeError(f"streams: {name!r} has dtype {stream.dtype!r}; expected numbers, booleans or 'str'.")
        if taken := RESERVED & stream.attrs.keys():
            raise ValueError(f"streams: attribute {min(taken)!r} of {name!r} is written by the store itself.")
        for key, value in stream.attrs.items():
            if not isinstance(value, (int, float, str, np.integer, np.floating)):
                raise TypeError(f"streams: attribute {key!r} of {name!r} must be a number or text; got {value!r}.")
        found[name] = Stream(stored, tuple(int(n) for n in stream.shape), dict(stream.attrs))
    _check_axes(streams)
    return found


@lru_cache(maxsize=64)
def _stored(dtype: str) -> str:
    """Return a dtype as it is stored, "" where it cannot be."""
    kind = Stream(dtype).numpy_dtype
    if kind.kind == "O":
        return dtype if dtype == "str" else ""
    return kind.str if kind.kind in "biufc" else ""


def names_of_axes(stream: Stream) -> tuple[str, ...]:
    """Return the names of the axes of a stream, rows first; empty where it has none."""
    return tuple(str(stream.attrs.get("dims", "")).split())


def _check_axes(streams: Mapping[str, Stream]) -> None:
    """Check that names of axes are as many as axes, and that a stream named as an axis of its group lies along it."""
    for name, stream in streams.items():
        dims = names_of_axes(stream)
        if dims and (len(dims) != 1 + len(stream.shape) or len(set(dims)) < len(dims)):
            raise ValueError(f"streams: {name!r} has {1 + len(stream.shape)} axes, and names {dims} for them.")
        for dim in dims:
            other = streams.get(beside(name, dim))
            if other is not None and names_of_axes(other) != (dim,):
                raise ValueError(f"streams: {name!r} has an axis {dim!r}, and the stream of that name is no axis.")


def beside(name: str, other: str) -> str:
    """Return the path of `other` in the group of `name`."""
    group, slash, _ = name.rpartition("/")
    return f"{group}{slash}{other}"


def canonical_json(value: Any) -> str:
    """Return the one JSON text of `value`: sorted keys, no spaces, no NaN."""
    try:
        return _CANONICAL.encode(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"spec must be made of dicts, lists, texts, finite numbers and None: {error}") from None


def differences(here: Any, there: Any, name: str = "") -> list[str]:
    """Return one text per field in which two specs differ: ``beta is 0.8 here and 0.5 in the file``."""
    if isinstance(here, dict) and isinstance(there, dict):
        found: list[str] = []
        for key in sorted(here.keys() | there.keys()):
            dotted = f"{name}.{key}" if name else key
            if key not in here:
                found.append(f"{dotted} is absent here and {_short(there[key])} in the file")
            elif key not in there:
                found.append(f"{dotted} is {_short(here[key])} here and absent in the file")
            else:
                found += differences(here[key], there[key], dotted)
        return found
    if canonical_json(here) == canonical_json(there):
        return []
    return [f"{name or 'spec'} is {_short(here)} here and {_short(there)} in the file"]


def check_same_spec(here: dict[str, Any], there: dict[str, Any]) -> None:
    """Refuse to continue a run under another spec, naming the fields."""
    # Through JSON, so that tuples and lists, or 1 and np.int64(1) already converted, compare as they are stored.
    found = differences(json.loads(canonical_json(here)), there)
    if found:
        more = f"; and {len(found) - 8} more" if len(found) > 8 else ""
        raise StorageError(f"cannot resume: {'; '.join(found[:8])}{more}.")


def check_major(shown: str, version: Iterable[int], written_by: str) -> None:
    """Refuse a format whose major number is above this version's."""
    major, minor = (int(number) for number in version)
    if major > FORMAT_VERSION[0]:
        raise StorageError(
            f"{shown} has format {major}.{minor}; this fastbm ({package_version('fastbm')}) reads up to "
            f"{FORMAT_VERSION[0]}.x. Install fastbm >= {written_by}."
        )


def _short(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class Extension:
    """A longer run: its spec, and the state and rows that it continues from.

    Attributes
    ----------
    spec : dict
    state : mapping of name to array, optional
        Where to go on from; the last state unless given.
    n_rows : mapping of name to int, optional
        How many rows of each stream there are at that place, where the end of the run has brought more: those are left
        out, by readers and by the merge. All unless given.
    """

    spec: dict[str, Any]
    state: Mapping[str, Any] | None = None
    n_rows: Mapping[str, int] | None = None

    def kept(self, written: Mapping[str, int]) -> dict[str, int]:
        """Return how many of the written rows count for the longer run."""
        return {name: min(n, (self.n_rows or written)[name]) for name, n in written.items()}


Extend = Callable[[dict[str, Any], Arrays, Arrays], Extension]  # of the spec, the inputs and the last state
