"""The cells of a campaign: one for each combination of the values in [grid], each an ordinary run's tables.

A cell is known by the hash of its tables as they are written, and its seed comes from that: a grid that grows changes
no other cell.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from .._base import checks, rng
from ..runs.toml import file, machines

TABLES = ("grid", "zip", "campaign")  # those of a campaign, beside the tables of its runs
KEPT = ("summary", "runs")
NO_NUMBER = "store"  # this table decides no number of a run
LARGEST = 10_000_000  # cells
SEED_BITS = 53  # which floats hold too
written = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True)
class Settings:
    """The table [campaign].

    Attributes
    ----------
    out : str
        The folder of the campaign; empty where the file does not say.
    keep : {"summary", "runs"}
        Whether a cell leaves one row of numbers, or its run too.
    seed : int or "common"
        What the cells' seeds come from; with "common" all cells have the same, so that they are paired.
    n_shards : int, optional
    """

    out: str = ""
    keep: str = "summary"
    seed: int | str = 0
    n_shards: int | None = None

    @classmethod
    def read(cls, table: Any) -> Settings:
        """Check the table [campaign]."""
        if not isinstance(table, Mapping):
            raise ValueError(f"[campaign] must be a table; got campaign = {table!r}.")
        kinds = {"out": str, "keep": str, "seed": int | str, "n_shards": int}
        file.check_table("campaign", table, {"campaign": {one.name: kinds[one.name] for one in fields(cls)}})
        found = cls(**table)
        checks.choice("campaign.keep", found.keep, KEPT)
        if isinstance(found.seed, str):
            if found.seed != "common":
                raise ValueError(f'campaign.seed must be a whole number, or "common"; got {found.seed!r}.')
        else:
            checks.whole("campaign.seed", found.seed, most=None)
        if found.n_shards is not None:
            checks.whole("campaign.n_shards", found.n_shards, least=1)
        return found


@dataclass(frozen=True)
class Cell:
    """One run of a campaign.

    Attributes
    ----------
    id : str
        16 hexadecimal digits: the hash of `tables` as written, without [store] and without a seed that the campaign
        gave.
    keys : dict
        Its values of the grid, by "table.key".
    tables : dict
        Those of an ordinary run, the seed filled in.
    """

    id: str
    keys: dict[str, Any]
    tables: dict[str, Any]


class Axis:
    """Keys of the grid that go together, and the tuples of values that they take."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.keys = tuple(columns)
        self.values = list(zip(*columns.values(), strict=True))

    def __len__(self) -> int:
        return len(self.values)


class Cells(Sequence[Cell]):
    """All cells, the last key of the grid changing fastest; each is made when it is asked for."""

    def __init__(self, base: dict[str, Any], axes: Sequence[Axis], verb: str, seed: int | str) -> None:
        self._base, self._axes, self._verb, self._seed = base, axes, verb, seed

    def __len__(self) -> int:
        return math.prod(map(len, self._axes))

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        index = range(len(self))[k]
        places = []
        for axis in reversed(self._axes):
            index, place = divmod(index, len(axis))
            places.append(place)
        return self._cell([axis.values[place] for axis, place in zip(self._axes, reversed(places), strict=True)])

    def __iter__(self) -> Iterator[Cell]:
        return map(self._cell, self._choices())

    @cached_property
    def ids(self) -> list[str]:
        """The ids of all cells, which is faster than making them."""
        return [_id(_with(self._base, self._keys(values))) for values in self._choices()]

    def _choices(self) -> Iterator[tuple[Any, ...]]:
        return itertools.product(*(axis.values for axis in self._axes))

    def _keys(self, values: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
        return {
            k: v for axis, some in zip(self._axes, values, strict=True) for k, v in zip(axis.keys, some, strict=True)
        }

    def _cell(self, values: Sequence[tuple[Any, ...]]) -> Cell:
        keys = self._keys(values)
        tables = _with(self._base, keys)
        id = _id(tables)
        if "seed" not in tables[self._verb]:
            seed = 0 if self._seed == "common" else seed_of(int(self._seed), id)
            tables[self._verb] = {**tables[self._verb], "seed": seed}
        return Cell(id, keys, tables)


@dataclass(frozen=True)
class Plan:
    """A campaign that was read and checked.

    Attributes
    ----------
    verb : {"sample", "fit", "infer", "compare"}
    base : dict
        The tables as written, without those of the campaign.
    grid : dict
        Values by "table.key", as written; those that go together are in `zips`.
    zips : list of dict
    settings : Settings
    axes : tuple of tuple of str
        Keys that go together, in the order of the cells.
    cells : Cells
    """

    verb: str
    base: dict[str, Any]
    grid: dict[str, Any]
    zips: list[dict[str, Any]]
    settings: Settings
    axes: tuple[tuple[str, ...], ...]
    cells: Cells


def read(tables: Mapping[str, Any]) -> Plan:
    """Read and check the tables of a campaign.

    Parameters
    ----------
    tables : mapping
        As of an ordinary run, with the tables [grid], whose values are lists, `{ range = n }`, `{ range = [from, to,
        step] }` or `{ linspace = [first, last, n] }`; [zip] (or several, [[zip]]), of lists that go together; and
        [campaign].

    Raises
    ------
    ValueError, TypeError
        For unknown tables and keys, the nearest named, values of a wrong type, and a grid that is empty.
    """
    settings = Settings.read(tables.get("campaign", {}))
    base = {name: _plain(table) for name, table in tables.items() if name not in TABLES}
    if wrong := sorted({"out", "overwrite"} & set(base.get(NO_NUMBER) or {})):
        raise ValueError(f"store.{wrong[0]} is of a single run. The folder of a campaign is campaign.out.")
    for name, table in base.items():
        for key, value in table.items() if isinstance(table, dict) else ():
            _text(f"{name}.{key}", value)
    grid = _flat("grid", tables.get("grid", {}))
    given = tables.get("zip", [])
    zips = [_flat("zip", one) for one in (given if isinstance(given, (list, tuple)) else [given])]
    axes = [_together(one) for one in zips] + [Axis({key: values_of("grid", key, v)}) for key, v in grid.items()]
    if not axes:
        raise ValueError(
            "[grid] is empty: it names keys of the run and their values, for instance "
            '"model.seed" = { range = 100 }. Without it this is one run.'
        )
    _check_keys([key for axis in axes for key in axis.keys], base)
    if (n_cells := math.prod(map(len, axes))) > LARGEST:
        raise ValueError(f"a campaign has at most {LARGEST} cells; this grid has {n_cells}.")
    verb = _check_values(base, axes)
    names = tuple(axis.keys for axis in axes)
    return Plan(verb, base, grid, zips, settings, names, Cells(base, axes, verb, settings.seed))


def seed_of(seed: int, id: str) -> int:
    """Return the seed of a cell, from the campaign's and its id."""
    return rng.derive(seed, int(id, 16)) >> (64 - SEED_BITS)


def _id(tables: Mapping[str, Any]) -> str:
    decides = {name: table for name, table in tables.items() if name != NO_NUMBER}
    return hashlib.sha256(written(decides).encode()).hexdigest()[:16]


def _with(base: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a run with some keys set; only what is changed is copied."""
    found = dict(base)
    copied: dict[tuple[str, ...], dict[str, Any]] = {(): found}
    for key, value in keys.items():
        *path, last = key.split(".")
        for depth in range(len(path)):
            place = tuple(path[: depth + 1])
            if place not in copied:
                copied[place] = dict(copied[place[:-1]].get(place[-1], {}))
                copied[place[:-1]][place[-1]] = copied[place]
        copied[tuple(path)][last] = value
    return found


def _plain(value: Any) -> Any:
    """Return tables with lists and numbers of Python's own, as a file has them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return [_plain(one) for one in value] if isinstance(value, (list, tuple, range)) else value


def _flat(name: str, table: Any) -> dict[str, Any]:
    """Return a grid by "table.key", whether its keys were written in quotation marks or not."""
    if not isinstance(table, Mapping):
        raise ValueError(f"[{name}] must be a table; got {name} = {table!r}.")
    found: dict[str, Any] = {}
    for key, value in table.items():
        inner = value if "." not in key and isinstance(value, Mapping) else None
        if inner is not None and not set(inner) & {"range", "linspace"}:
            found |= {f"{key}.{last}": _plain(one) for last, one in inner.items()}
        else:
            found[key] = _plain(value)
    return found


def _together(table: Mapping[str, Any]) -> Axis:
    columns = {key: values_of("zip", key, value) for key, value in table.items()}
    lengths = {key: len(values) for key, values in columns.items()}
    if len(columns) < 2:
        raise ValueError(f"[zip] names lists that go together, two or more; got {', '.join(columns) or 'none'}.")
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{key} has {n}" for key, n in lengths.items())
        raise ValueError(f"lists in [zip] go together and must be of one length; {listed}.")
    return Axis(columns)


def values_of(table: str, key: str, given: Any) -> list[Any]:
    """Return the values of a key of the grid."""
    if isinstance(given, Mapping):
        found = _of_words(key, given)
    elif isinstance(given, list):
        found = given
    else:
        raise ValueError(
            f"[{table}] {key} must be a list of values, {{ range = ... }} or {{ linspace = [...] }}; got {given!r}."
        )
    if not found:
        raise ValueError(f"[{table}] {key} has no values, so that the campaign has no cells.")
    seen: set[str] = set()
    for value in found:
        _text(f"[{table}] {key}", value)
        if (text := written(by_value(value))) in seen and table == "grid":
            raise ValueError(f"[grid] {key} has {value!r} twice. Each value makes cells of its own.")
        seen.add(text)
    return found


def by_value(value: Any) -> Any:
    """Return a value of which 1 and 1.0 are the same."""
    if isinstance(value, dict):
        return {name: by_value(one) for name, one in value.items()}
    if isinstance(value, list):
        return list(map(by_value, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(name: str, value: Any) -> str:
    """Return a value as it is written in specs, which all that decides numbers must stand in."""
    try:
        return written(value)
    except (ValueError, TypeError):
        raise ValueError(
            f"{name} takes finite numbers, texts, truth values, and lists and tables of them; got {value!r}."
        ) from None


def _of_words(key: str, given: Mapping[str, Any]) -> list[Any]:
    word = next(iter(given), "")
    if len(given) != 1 or word not in ("range", "linspace"):
        raise ValueError(
            f"[grid] {key} must be a list, {{ range = n }}, {{ range = [from, to, step] }} or "
            f"{{ linspace = [first, last, n] }}; got {dict(given)!r}.{checks.nearest(word, ('range', 'linspace'))}"
        )
    if word == "linspace":
        if not isinstance(given[word], list) or len(given[word]) != 3:
            raise ValueError(f"[grid] {key}: linspace takes [first, last, n]; got {given[word]!r}.")
        first, last = (checks.real(f"[grid] {key}: linspace", value) for value in given[word][:2])
        n = checks.whole(f"[grid] {key}: n of linspace", given[word][2], least=1, most=LARGEST)
        found: list[Any] = np.linspace(first, last, n).tolist()
        return found
    numbers = given[word] if isinstance(given[word], list) else [0, given[word]]
    if len(numbers) not in (2, 3):
        raise ValueError(f"[grid] {key}: range takes n, [from, to] or [from, to, step]; got {given[word]!r}.")
    for number in numbers:
        if isinstance(number, float):
            raise ValueError(
                f"[grid] {key}: range takes whole numbers, to before the last; got {number!r}. Others: "
                "{ linspace = [first, last, n] }."
            )
        checks.whole(f"[grid] {key}: range", number, least=-checks.LARGEST_COUNT)
    if len(numbers) == 3 and not numbers[2]:
        raise ValueError(f"[grid] {key}: the step of a range must not be 0.")
    if len(found_range := range(*numbers)) > LARGEST:
        raise ValueError(f"[grid] {key}: a range has at most {LARGEST} values; got {len(found_range)}.")
    return list(found_range)


def _check_keys(keys: Sequence[str], base: Mapping[str, Any]) -> None:
    """Refuse keys that name no key of a table, and two that name the same."""
    for key in keys:
        table, dot, last = key.partition(".")
        if not dot or not last:
            raise ValueError(f'keys of [grid] are written "table.key", as "sample.beta"; got {key!r}.')
        if table == NO_NUMBER:
            raise ValueError(f"[grid] takes no keys of [{NO_NUMBER}], which decides no number; got {key!r}.")
        if isinstance(base.get(table), list):
            raise ValueError(f"[grid] sets {key}, and [[{table}]] are several tables. Make it one, [{table}].")
        if keys.count(key) > 1:
            raise ValueError(f"{key} stands in [grid] and [zip], or in two [[zip]]. Name it once.")
        if other := next((one for one in keys if one.startswith(key + ".")), None):
            raise ValueError(f"[grid] sets both {key} and {other}, which is part of it. Name one of them.")


def _check_values(base: Mapping[str, Any], axes: Sequence[Axis]) -> str:
    """Check a cell for every value of every key, the others at their first; return the verb.

    Of numbers from a range that is the first and the last.
    """
    first = {key: value for axis in axes for key, value in zip(axis.keys, axis.values[0], strict=True)}
    verb = ""
    for axis in axes:
        for values in _distinct(axis):
            keys = first | dict(zip(axis.keys, values, strict=True))
            tables = _with(base, keys)
            try:
                verb = file.check(tables)
                for one in machines.models_of(tables, verb):
                    machines.check_model(one)
            except (ValueError, TypeError) as error:
                raise type(error)(f"a cell of the grid is refused: {error}{_way_out(axis, str(error))}") from None
    return verb


def _distinct(axis: Axis) -> list[tuple[Any, ...]]:
    """Return values that are checked: of whole numbers alone, and of floats alone, the smallest and the largest."""
    for kind in (int, float):
        if len(axis.keys) == 1 and all(type(value) is kind for (value,) in axis.values):
            return [min(axis.values), max(axis.values)]
    return axis.values


def _way_out(axis: Axis, text: str) -> str:
    """Return a hint where a list of numbers was given for one value that is a list."""
    if "array" not in text or not any(text.startswith(f"{key} = ") for key in axis.keys):
        return ""
    return f" Each entry of the grid's list is one value: write {axis.keys[0]} = [[...], [...]]."
