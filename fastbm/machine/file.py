"""A machine comes back from the file that `BoltzmannMachine.save` wrote: `fastbm.load`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import h5
from .h5 import RATES
from .machine import FORMAT, BoltzmannMachine


def restore(arrays: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> BoltzmannMachine:
    """Make the machine of what `arrays_of` gave and what `describe` said of it.

    A description without a kind, as version 0.1 wrote it, tells layered machines from dense ones.
    """
    kind = description.get("kind") or ("layered" if description["layered"] else "dense")
    made = BoltzmannMachine.from_arrays(
        arrays, kind=str(kind), units=str(description["units"]), n_hidden=int(description["n_hidden"])
    )
    return made.with_base_rates(arrays[RATES]) if RATES in arrays else made


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
    way_out = f"The machine of a run is fastbm.open({str(path)!r}).model.".replace("{", "{{").replace("}", "}}")
    with h5.opened(path, FORMAT, f"holds no machine (format: {{found}}). {way_out}") as file:
        names = [f"weights/{k}" for k in range(len(file["weights"]))]
        names += [name for name in ("edges", "bias", "offset", RATES) if name in file]
        return restore({name: file[name][()] for name in names}, file.attrs)
