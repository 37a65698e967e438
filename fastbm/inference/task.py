"""Inference and comparisons as runs: one block per result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from ..model import BoltzmannMachine
from ..store import Stream
from .methods import run_method
from .result import Inference

RESULT = "result"


def to_json(result: Inference) -> str:
    """Return a result as text, without its seconds, which differ from run to run."""
    plain = {f.name: getattr(result, f.name) for f in fields(Inference) if f.name != "seconds"}
    return json.dumps(plain, default=_plain, sort_keys=True)


def from_json(text: str, seconds: float) -> Inference:
    """The way back from `to_json`; arrays come back as arrays."""
    return Inference(**_arrays(json.loads(text)), seconds=seconds)


def _arrays(value: Any) -> Any:
    """Lists of numbers back to arrays, at any depth of dicts."""
    if isinstance(value, dict):
        return {name: _arrays(entry) for name, entry in value.items()}
    if isinstance(value, list) and not any(isinstance(entry, (str, dict)) for entry in value):
        return np.asarray(value)
    return [_arrays(entry) for entry in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be stored")


class CellsTask:
    """Results one after the other: for `infer` a single one, for `compare` one for each cell.

    Parameters
    ----------
    models : mapping of name to BoltzmannMachine
    cells : list of dict
        "model", "method", "beta", "seed" and "options" of each.
    """

    unit = "cell"
    atomic = True

    def __init__(
        self,
        models: Mapping[str, BoltzmannMachine],
        cells: list[dict[str, Any]],
        *,
        clamp: Any,
        moments: bool,
        threads: int,
    ) -> None:
        self._models, self._cells, self._clamp, self._moments, self._threads = models, cells, clamp, moments, threads
        self._n_done = 0

    @property
    def streams(self) -> dict[str, Stream]:
        """What the run writes."""
        return {f"results/{RESULT}": Stream("str"), "meta/seconds": Stream("<f8")}

    @property
    def done(self) -> bool:
        """Whether all cells are done."""
        return self._n_done >= len(self._cells)

    @property
    def progress(self) -> tuple[int, int]:
        """Cells done, and all."""
        return self._n_done, len(self._cells)

    def advance(self) -> dict[str, np.ndarray]:
        """Compute one cell."""
        cell = self._cells[self._n_done]
        result = run_method(
            self._models[cell["model"]], cell["method"], beta=cell["beta"], clamp=self._clamp, moments=self._moments,
            seed=cell["seed"], threads=self._threads, **cell["options"],
        )  # fmt: skip
        self._n_done += 1
        return {
            f"results/{RESULT}": np.array([to_json(replace(result, seconds=0.0))], dtype=object),
            "meta/seconds": np.array([result.seconds]),
        }

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on."""
        return {"n_done": np.array(self._n_done)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self._n_done = int(state["n_done"])
