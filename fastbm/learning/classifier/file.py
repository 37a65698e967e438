"""A learned classifier in one HDF5 file: its settings as JSON, its numbers and machines as datasets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...machine import h5
from ...machine.file import restore
from ...machine.machine import BoltzmannMachine

FORMAT = "fastbm classifier"
ARRAYS = ("classes", "log_z", "log_z_error", "log_prior", "offsets", "scale", "flip_noise")
Parts = tuple[dict[str, Any], dict[str, np.ndarray], list[BoltzmannMachine], dict[float, float]]


def write(
    path: str | Path,
    settings: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    machines: Sequence[BoltzmannMachine],
    tried: Mapping[float, float],
    *,
    overwrite: bool,
) -> None:
    """Write a classifier to a file, completely or not at all."""

    def fill(file: Any) -> None:
        file.attrs["settings"] = json.dumps(settings)
        file.attrs["n_classes"] = len(machines)
        for name, array in arrays.items():
            text = array.dtype.kind in "UO"
            file.create_dataset(name, data=array.astype(object) if text else array, dtype=_text() if text else None)
        file.create_dataset("cross_validation", data=np.array(list(tried.items()), np.float64).reshape(-1, 2))
        for k, machine in enumerate(machines):
            h5.put(file.create_group(f"machines/{k}"), h5.describe(machine), h5.arrays_of(machine))

    h5.write(path, FORMAT, fill, overwrite=overwrite)


@contextmanager
def reading(path: str | Path) -> Iterator[Parts]:
    """Yield settings, numbers, machines and the errors of cross-validation; what stumbles over them is damage.

    Raises
    ------
    StorageError
    """
    import h5py

    with h5.opened(path, FORMAT, "classifier") as file:
        machines = []
        for k in range(int(file.attrs["n_classes"])):
            group, names = file[f"machines/{k}"], []
            group.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)  # noqa: B023
            machines.append(restore({name: group[name][()] for name in names}, group.attrs))
        arrays = {name: _array(file[name]) for name in ARRAYS}
        tried = {float(noise): float(error) for noise, error in file["cross_validation"][()]}
        _check(arrays, machines)
        yield json.loads(file.attrs["settings"]), arrays, machines, tried


def _check(arrays: Mapping[str, np.ndarray], machines: Sequence[BoltzmannMachine]) -> None:
    """Refuse numbers that are not one for each machine, and machines of other units."""
    alone = ("scale", "flip_noise")
    for name, array in arrays.items():
        shape = () if name in alone else (len(machines),)
        known = name == "classes"
        if array.dtype.kind == "f":
            known = bool((np.isfinite(array) | (np.isnan(array) & (name == "log_z_error"))).all())
        if array.shape != shape or not known:
            raise ValueError(f"{name} is not {'one number' if name in alone else 'a number for each class'}")
    if len({(machine.n_visible, machine.units) for machine in machines}) != 1:
        raise ValueError("its machines are of different units")


def _text() -> Any:
    import h5py

    return h5py.string_dtype()


def _array(dataset: Any) -> np.ndarray:
    """Return a dataset as an array, with text as the array of strings that was written."""
    return np.asarray(dataset.asstr()[()]).astype(np.str_) if dataset.dtype.kind == "O" else np.asarray(dataset[()])
