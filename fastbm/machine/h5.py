"""A machine's arrays in an HDF5 group, and small files that are written complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .._base import checks
from .couplings import Couplings

RATES = "base_rates"


class Storable(Protocol):
    """What a machine is stored by."""

    couplings: Couplings
    n_hidden: int
    base_rates: np.ndarray | None

    @property
    def units(self) -> str: ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the parameters."""


def describe(machine: Storable) -> dict[str, Any]:
    """Return what `BoltzmannMachine.from_arrays` needs beside the arrays, as plain values."""
    return {"kind": machine.couplings.kind, "units": machine.units, "n_hidden": machine.n_hidden}


def arrays_of(machine: Storable) -> dict[str, np.ndarray]:
    """Return all arrays of a machine: its parameters, and its base rates where it has any."""
    rates = {} if machine.base_rates is None else {RATES: machine.base_rates}
    return {**machine.to_arrays(), **rates}


def put(group: Any, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a machine into an open group."""
    group.attrs.update(description)
    for name, array in arrays.items():
        group.create_dataset(name, data=array)


def write(path: str | Path, format_name: str, fill: Callable[[Any], None], *, overwrite: bool) -> None:
    """Write a file that `fill` fills: complete, or not at all.

    Raises
    ------
    StorageError
        If the file exists and `overwrite` is not set, or it is a folder.
    """
    import h5py

    path = Path(path)
    if path.is_dir():
        raise checks.StorageError(f"{path} is a folder, not a file. Write elsewhere.")
    if path.exists() and not overwrite:
        raise checks.StorageError(f"{path} exists. Pass overwrite=True to replace it.")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".tmp")
    with h5py.File(unfinished, "w") as file:
        file.attrs["format"] = format_name
        fill(file)
    os.replace(unfinished, path)
