"""A machine comes back from the file that `BoltzmannMachine.save` wrote: `fastbm.load`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._base import checks
from .._base.files import is_campaign
from . import h5
from .checks import Names, as_kept, check_names
from .h5 import NAMES, ORIGIN, RATES
from .machine import FORMAT, BoltzmannMachine


def restore(arrays: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> BoltzmannMachine:
    """Make the machine of what `arrays_of` gave and what `describe` said of it.

    A description without a kind, as version 0.1 wrote it, tells layered machines from dense ones.

    Raises
    ------
    ValueError
        If these are no arrays of a machine.
    """
    kind = description.get("kind") or ("layered" if description["layered"] else "dense")
    _check(arrays, str(kind), int(description["n_hidden"]))
    made = BoltzmannMachine.from_arrays(
        arrays, kind=str(kind), units=str(description["units"]), n_hidden=int(description["n_hidden"])
    )
    made.names = names_from_bytes(arrays[NAMES], made.n_units) if NAMES in arrays else None
    return made.with_base_rates(arrays[RATES]) if RATES in arrays else made


def _check(arrays: Mapping[str, np.ndarray], kind: str, n_hidden: int) -> None:
    """Refuse arrays that make no machine; layers may be empty, as those of a conditioned machine."""
    for name, array in arrays.items():
        if name == NAMES:
            continue
        if array.dtype.kind not in ("i" if name == "edges" else "f") or not np.isfinite(array).all():
            raise ValueError(f"{name} must hold finite numbers")
    n_blocks = sum(name.startswith("weights/") for name in arrays)
    shapes = [arrays[f"weights/{k}"].shape for k in range(n_blocks)]
    n, edges = len(arrays["bias"]), arrays.get("edges", np.empty((0, 2), np.int32))
    fits = {
        "dense": shapes == [(n, n)],
        "sparse": shapes == [(len(edges),)] and edges.shape == (len(edges), 2),
        "layered": all(len(shape) == 2 for shape in shapes)
        and all(upper[1] == lower[0] for upper, lower in itertools.pairwise(shapes))
        and n == sum(shape[0] for shape in shapes) + shapes[-1][1],
    }
    whole = fits.get(kind) and arrays["bias"].shape == (n,) and not arrays["offset"].shape
    if not whole or not 0 <= n_hidden <= n:
        raise ValueError(f"its arrays are not those of a {kind} machine with {n_hidden} hidden units")
    if kind == "dense" and not _is_symmetric(arrays["weights/0"]):
        raise ValueError("weights/0 must be symmetric with a zero diagonal")
    if kind == "sparse" and not _are_sorted(edges, n):
        raise ValueError("edges must be sorted pairs i < j of units")


def names_from_bytes(data: np.ndarray, n_units: int) -> Names:
    """Return the names that a file keeps.

    Raises
    ------
    ValueError
        If they are no names.
    """
    if data.dtype != np.uint8 or data.ndim != 1:
        raise ValueError("names must be bytes of a text")
    found = json.loads(data.tobytes().decode(errors="surrogatepass"))
    if not isinstance(found, list):
        raise ValueError("names must be a list")
    names = _tuples(found)
    if not all(as_kept(name) is name for name in names):
        raise ValueError("names must be texts, whole numbers and lists of these")
    return check_names(names, n_units, n_units)


def _tuples(names: list[Any]) -> tuple[Any, ...]:
    """Return lists within one another as the tuples that they were."""
    return tuple(_tuples(name) if isinstance(name, list) else name for name in names)


def _is_symmetric(matrix: np.ndarray) -> bool:
    return not np.diagonal(matrix).any() and bool(np.array_equal(matrix, matrix.T))


def _are_sorted(edges: np.ndarray, n_units: int) -> bool:
    i, j = edges.astype(np.int64).T
    return bool((i >= 0).all() and (i < j).all() and (j < n_units).all() and (np.diff(i * n_units + j) > 0).all())


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
        If there is no such file, it is damaged, or it holds no machine (a run holds its machine in
        ``fastbm.open(path).model``). Files of versions that wrote no checksum are read without one.
    """
    if Path(checks.path("path", path)).is_dir():
        raise checks.StorageError(_of_folder(str(path)))
    with h5.opened(path, FORMAT, "machine") as file:
        names = [f"weights/{k}" for k in range(len(file["weights"]))]
        names += [name for name in ("edges", "bias", "offset", RATES, NAMES) if name in file]
        made = restore({name: file[name][()] for name in names}, file.attrs)
        made.origin = _origin(file.attrs.get(ORIGIN, "{}"))
        return made


def _origin(text: Any) -> dict[str, Any]:
    """Return how a machine was made, as its file tells.

    Raises
    ------
    ValueError
        If the text is not one of names and values.
    """
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("origin must hold names and values")
    return found


def _of_folder(path: str) -> str:
    """Return what is wrong with a folder where the file of a machine is expected, and what takes it."""
    if is_campaign(path):
        return f"{path} is the folder of a campaign, which holds no machine: fastbm.open({path!r}) reads its runs."
    if path.endswith(".parts"):
        return f"{path} is the folder of a run: its machine is fastbm.open({path!r}).model."
    return f"{path} is a folder, not a file. Name the file in it that BoltzmannMachine.save wrote."
