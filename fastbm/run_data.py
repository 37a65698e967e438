"""The rows that a fit learns from, in the file of its run, or in a file of their own that the run names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from . import _checks
from .rows import Rows
from .sources import Source, read
from .units import Units, units as convention

Arrays = dict[str, np.ndarray]
GIVEN_AS = {"rows": "data", "holdout": "holdout"}  # arguments, by the names that a run has for them


def origin(name: str, data: Any, rows: Rows) -> dict[str, Any]:
    """What the spec says of where the rows called `name` came from; nothing of arrays.

    Rows that are in memory go into the run's file, and nothing else is needed. Others stay where they are: they are
    read again when the run goes on, and told by their sha256.
    """
    source = Source(str(data)) if isinstance(data, (str, Path)) else data
    named = source.absolute().as_dict() if isinstance(source, Source) else None
    if rows.in_memory:
        return {} if named is None else {name: {"source": named}}
    return {name: {"source": named, "sha256": rows.digest()}}


def inputs_of(rows: Mapping[str, Rows]) -> Arrays:
    """The arrays that a run keeps of its rows: those that are in memory, packed."""
    found: Arrays = {}
    for name, one in rows.items():
        if one.in_memory:
            found[f"data/{name}"] = one.packed()
            if (known := one.packed_known()) is not None:
                found[f"data/{name}_known"] = known
    return found


def stored_rows(
    about: Mapping[str, Any], inputs: Mapping[str, np.ndarray], kind: Units, n_units: int, given: Mapping[str, Rows]
) -> dict[str, Rows]:
    """The rows of a run: those at hand, those in its file, and those that are in files of their own."""
    found = dict(given)
    for name in GIVEN_AS:
        if name not in found and f"data/{name}" in inputs:
            found[name] = Rows.of_packed(inputs[f"data/{name}"], n_units, inputs.get(f"data/{name}_known"))
        elif name not in found and "sha256" in about.get("origins", {}).get(name, {}):
            found[name] = _from_source(name, about["origins"][name], kind)
    return found


def read_again(spec: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Rows]:
    """Rows that a user gives again, checked to be those that the run began with."""
    found = {}
    for name, data in given.items():
        about = spec.get("data", {}).get("origins", {}).get(name, {})
        if "sha256" not in about:
            raise ValueError(f"{GIVEN_AS[name]} is not needed: the run holds all that it needs. Leave it out.")
        if isinstance(data, (str, Path)) and about["source"]:  # the same part of it, by the same threshold
            data = replace(Source(**about["source"]), name=str(data))
        rows, _ = read(data, convention(spec["model"]["units"]), GIVEN_AS[name])
        if rows.digest() != about["sha256"]:
            raise ValueError(f"{GIVEN_AS[name]} holds other rows than those that the run began with (sha256 differs).")
        found[name] = rows
    return found


def _from_source(name: str, about: Mapping[str, Any], kind: Units) -> Rows:
    argument = GIVEN_AS[name]
    if about["source"] is None:
        raise ValueError(
            f"{argument} came from a generator, which no file can hold: pass it again, resume(..., {argument}=...)."
        )
    source = Source(**about["source"])
    out = f"Put the file back, or pass resume(..., {argument}=...)."
    try:
        rows, _ = read(source, kind, argument)
    except (_checks.StorageError, ValueError, TypeError) as error:
        raise _checks.StorageError(f"{error} The run's rows were there. {out}") from None
    if rows.digest() != about["sha256"]:
        raise _checks.StorageError(
            f"{source.name} holds other rows than those that the run began with (sha256 differs). {out}"
        )
    return rows
