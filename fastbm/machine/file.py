"""One machine in one small HDF5 file: `BoltzmannMachine.save` and `fastbm.load`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._base import checks
from .machine import BoltzmannMachine

FORMAT = "fastbm model"
RATES = "base_rates"


def describe(model: BoltzmannMachine) -> dict[str, Any]:
    """Return what `BoltzmannMachine.from_arrays` needs beside the arrays, as plain values."""
    return {"kind": model.couplings.kind, "units": model.units, "n_hidden": model.n_hidden}


def arrays_of(model: BoltzmannMachine) -> dict[str, np.ndarray]:
    """Return all arrays of a machine: its parameters, and its base rates where it has any."""
    rates = {} if model.base_rates is None else {RATES: model.base_rates}
    return {**model.to_arrays(), **rates}


def restore(arrays: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> BoltzmannMachine:
    """Make the machine of what `arrays_of` gave and what `describe` said of it.

    A description without a kind, as version 0.1 wrote it, tells layered machines from dense ones.
    """
    kind = description.get("kind") or ("layered" if description["layered"] else "dense")
    made = BoltzmannMachine.from_arrays(
        arrays, kind=str(kind), units=str(description["units"]), n_hidden=int(description["n_hidden"])
    )
    return made.with_base_rates(arrays[RATES]) if RATES in arrays else made


def save(model: BoltzmannMachine, path: str | Path, *, overwrite: bool = False) -> None:
    """Write `model` to `path`: complete, or not at all."""
    import h5py

    path = Path(path)
    if path.is_dir():
        raise checks.StorageError(f"{path} is a folder, not a file. Write elsewhere.")
    if path.exists() and not overwrite:
        raise checks.StorageError(f"{path} exists. Pass overwrite=True to replace it.")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".tmp")
    with h5py.File(unfinished, "w") as file:
        file.attrs["format"] = FORMAT
        file.attrs.update(describe(model))
        for name, array in arrays_of(model).items():
            file.create_dataset(name, data=array)
    os.replace(unfinished, path)


def load(path: str | Path) -> BoltzmannMachine:
    """Read a machine that `BoltzmannMachine.save` wrote.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    BoltzmannMachine

    Raises
    ------
    StorageError
        If there is no such file or it holds no machine (a run holds its machine in ``fastbm.open(path).model``).
    """
    import h5py

    if not Path(path).is_file():
        raise checks.StorageError(f"{path} {checks.no_file(path)}.")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise checks.StorageError(f"{path} is not an HDF5 file ({error}).") from None
    with file:
        found = str(file.attrs.get("format", "unknown"))
        if found != FORMAT:
            raise checks.StorageError(
                f"{path} holds no machine (format: {found}). The machine of a run is fastbm.open({str(path)!r}).model."
            )
        names = [f"weights/{k}" for k in range(len(file["weights"]))]
        names += [name for name in ("edges", "bias", "offset", RATES) if name in file]
        return restore({name: file[name][()] for name in names}, file.attrs)
