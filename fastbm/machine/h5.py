"""A machine's arrays in an HDF5 group, and sealed HDF5 files that are written complete or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .._base import checks, files
from .checks import as_kept
from .couplings import Couplings

RATES, NAMES, ORIGIN, SEALED = "base_rates", "names", "origin", "sealed"


class Storable(Protocol):
    """What a machine is stored by."""

    couplings: Couplings
    n_hidden: int
    base_rates: np.ndarray | None
    names: tuple[Any, ...] | None
    origin: dict[str, Any]

    @property
    def units(self) -> str:
        """Kind of units: "spin" or "binary"."""

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the parameters."""


def describe(machine: Storable) -> dict[str, Any]:
    """Return what `BoltzmannMachine.from_arrays` needs beside the arrays, as plain values."""
    return {"kind": machine.couplings.kind, "units": machine.units, "n_hidden": machine.n_hidden}


def arrays_of(machine: Storable) -> dict[str, np.ndarray]:
    """Return all arrays of a machine: its parameters, and its base rates and names where it has any."""
    found = machine.to_arrays()
    if machine.base_rates is not None:
        found[RATES] = machine.base_rates
    if machine.names is not None:
        found[NAMES] = names_as_bytes(machine.names)
    return found


def names_as_bytes(names: Iterable[Any]) -> np.ndarray:
    """Return names as a file keeps them, JSON in UTF-8, whose lists are tuples."""
    plain = [as_kept(name) for name in names]
    return np.frombuffer(json.dumps(plain, ensure_ascii=False).encode(errors="surrogatepass"), np.uint8)


def put(group: Any, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a machine into an open group."""
    group.attrs.update(description)
    for name, array in arrays.items():
        group.create_dataset(name, data=array)


def put_whole(group: Any, machine: Storable) -> None:
    """Write a machine into an open group of its own, and how it was made where that is known."""
    made = {ORIGIN: json.dumps(machine.origin)} if machine.origin else {}
    put(group, describe(machine) | made, arrays_of(machine))


def write(path: str | Path, format_name: str, fill: Callable[[Any], None], *, overwrite: bool) -> None:
    """Write a sealed file that `fill` fills: complete, or not at all. HDF5 makes it in memory and meets no disk.

    Raises
    ------
    StorageError
        If the file exists and `overwrite` is not set, or it is another than `format_name` says; or the disk refuses.
    """
    import h5py

    from .._base.hdf5 import sealed_format

    path = Path(path)
    if path.is_dir():
        raise checks.StorageError(f"{path} is a folder, not a file. Write elsewhere.")
    if os.path.lexists(path) and not overwrite:
        raise checks.StorageError(f"{path} exists. Pass overwrite=True to replace it.")
    found = sealed_format(path) if path.is_file() else "no file"
    if path.exists() and not path.is_symlink() and found != format_name:  # what a link leads to stays
        raise checks.StorageError(
            f"{path} is no file of this kind ({format_name!r}) but another ({found or 'not of fastbm'}). It is never "
            "overwritten. Write elsewhere."
        )
    with h5py.File("image", "w", driver="core", backing_store=False) as file:
        file.attrs["format"] = format_name
        file.attrs[SEALED] = True  # so that a file that lost its seal is not taken for an older one, which had none
        fill(file)
        file.flush()
        image = file.id.get_file_image()
    files.write_whole(path, files.sealed(image))


@contextmanager
def opened(path: str | Path, format_name: str, what: str) -> Iterator[Any]:
    """Open a file that `write` wrote, or an older one without a seal, after checking its bytes and its structure.

    Parameters
    ----------
    path : str or Path
    format_name : str
    what : str
        What such files hold, as files of another format are told.

    Raises
    ------
    StorageError
        If there is no such file, it is of another format, or damaged.
    """
    from .._base import hdf5

    if not Path(checks.path("path", path)).is_file():
        raise checks.StorageError(f"{path} {checks.no_file(path)}.")
    try:
        has_seal = files.check_seal(Path(path))
        file = hdf5.open_believed(path, axes=True)  # those of a run, which is told what it is
    except checks.StorageError:
        raise
    except OSError as error:
        raise checks.StorageError(f"{path} is not an HDF5 file ({error}).") from None
    except hdf5.Unbelievable as error:
        raise files.damaged(path, error) from None
    with file:
        try:
            _check_format(path, file, format_name, what, has_seal=has_seal)
            with hdf5.open_believed(path) as believed:
                yield believed
        except checks.StorageError:
            raise
        except hdf5.Unbelievable as error:
            raise files.damaged(path, error) from None
        except (OSError, *hdf5.NONSENSE) as error:
            raise files.damaged(path, f"it is not laid out as fastbm does it ({error})") from error


def _check_format(path: str | Path, file: Any, format_name: str, what: str, *, has_seal: bool) -> None:
    if (found := str(file.attrs.get("format", "unknown"))) != format_name:
        from .._base.hdf5 import reader_of

        reader, way_out = f"{reader_of(found)}({str(path)!r})", ""
        if found.startswith("fastbm"):
            way_out = f" The machine of a run is {reader}.model." if found == "fastbm" else f" {reader} reads it."
        raise checks.StorageError(f"{path} holds no {what} (format: {found}).{way_out}")
    if SEALED in file.attrs and not has_seal:
        raise files.damaged(path, "its seal is missing")
