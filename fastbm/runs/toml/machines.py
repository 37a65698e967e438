"""Tables of a TOML file against the arguments of what they stand for; and those of machines, of which they are made."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, get_type_hints

import msgspec

from ... import models
from ..._base import checks, files
from ...machine.file import load
from ...machine.machine import BoltzmannMachine
from ..begin import open as open_run

MODELS = (
    "ising",
    "edwards_anderson",
    "sherrington_kirkpatrick",
    "curie_weiss",
    "restricted",
    "random_machine",
    "random_tree",
    "from_rudy",
)


def arguments_of(function: Callable[..., Any], drop: Iterable[str] = ()) -> dict[str, Any]:
    """Return the names and types of a function's keyword arguments."""
    return {name: kind for name, kind in signature_of(function).items() if name not in set(drop)}


@cache
def signature_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names and types of all arguments of a function or a class."""
    target = function.__init__ if inspect.isclass(function) else function
    hints = get_type_hints(target.func if isinstance(target, partial) else target)
    names = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    return {name: hints.get(name, Any) for name in names}


def check_table(name: str, table: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Check the keys of one table, and the types of their values, against those that `tables` may have."""
    keys = tables[name]
    for key, value in table.items():
        if key not in keys:
            elsewhere = [other for other in tables if key in tables[other]]
            hint = f" It goes into [{elsewhere[0]}]." if elsewhere else checks.nearest(key, keys)
            raise ValueError(f"unknown key {key!r} in [{name}].{hint} Keys are {', '.join(sorted(keys))}.")
        try:
            msgspec.convert(value, keys[key])
        except msgspec.ValidationError as error:
            text = str(error).replace("`object`", "a table, such as { name = value }")
            raise ValueError(f"{name}.{key} = {value!r}: {text[0].lower()}{text[1:]}.") from None


def models_of(tables: Mapping[str, Any], verb: str) -> list[Mapping[str, Any]]:
    """Return the tables of the machines of a run, which of a comparison are several."""
    found = tables.get("model", [])
    if verb == "compare":
        return [table for _, table in _each_model(found)]
    return [found] if isinstance(found, dict) else found


def one_model(table: Mapping[str, Any]) -> BoltzmannMachine:
    """Make a named model from its arguments, or read one from a file."""
    function = check_model(table)
    settings = {key: value for key, value in table.items() if key != "name"}
    return _stored_model(settings["source"]) if function is None else function(**settings)


def check_model(table: Mapping[str, Any]) -> Callable[..., BoltzmannMachine] | None:
    """Refuse unknown and missing keys of a table [model]; return what makes the machine, None where a file has it."""
    if "source" in table:
        if len(table) > 1:
            raise ValueError(f"[model] has a source, so it takes no {min(set(table) - {'source'})!r}.")
        return None
    if "name" not in table:
        raise ValueError(
            f"[model] needs a name ({', '.join(MODELS)}) or a source (a file that holds a machine or a run)."
        )
    function: Callable[..., BoltzmannMachine] = getattr(models, checks.choice("model.name", table["name"], MODELS))
    keys = {"name": str, **arguments_of(function)}
    if "path" in keys:
        keys["path"] = str  # in a file a path is text
    check_table("model", table, {"model": keys})
    parameters = inspect.signature(function).parameters.values()
    if missing := [p.name for p in parameters if p.default is p.empty and p.name not in table]:
        raise ValueError(f"[model] needs {missing[0]} for {table['name']!r}.")
    return function


def _stored_model(source: Any) -> BoltzmannMachine:
    if not isinstance(source, str):
        raise ValueError(f"model.source must be the path of a file; got {source!r}.")
    try:
        return load(files.located(source))
    except checks.StorageError as error:
        if "fastbm.open" not in str(error):
            raise
        return open_run(files.located(source)).model


def many_models(tables: Mapping[str, Any] | list[Mapping[str, Any]]) -> dict[str, BoltzmannMachine]:
    """Make one machine for each table, or for each combination of the lists in it (a lattice's shape is one value).

    A table's `label`, or else its name or source, names its machines, with what differs between them.
    """
    found: dict[str, BoltzmannMachine] = {}
    for name, table in _each_model(tables):
        if name in found:
            raise ValueError(f"two machines are called {name!r}. Give one of the tables [[model]] a label.")
        found[name] = one_model(table)
    return found


def _each_model(tables: Mapping[str, Any] | list[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the table of each machine of a comparison."""
    for table in tables if isinstance(tables, list) else [tables]:
        given = dict(table)
        label = str(given.pop("label", given.get("name", given.get("source"))))
        lists = {k: v for k, v in given.items() if isinstance(v, list) and k not in ("shape", "weights") and v}
        for values in itertools.product(*lists.values()):
            chosen = dict(zip(lists, values, strict=True))
            yield ", ".join([label, *(f"{k} = {v}" for k, v in chosen.items())]), {**given, **chosen}
