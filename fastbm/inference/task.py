"""Inference as a run: one method on one machine after the other; long exact sums go piece by piece."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np

from .. import _checks
from ..halting import Halted, never
from ..model import BoltzmannMachine
from ..store import Stream
from .exact_settings import ExactSettings
from .exact_sums import ExactSums
from .methods import METHODS, run_method
from .result import Inference
from .sizing import BudgetTooSmall, fit_into
from .stored import to_json

RESULT = "result"


class CellsTask:
    """Results one after the other: for `infer` a single one, for `compare` one for each cell.

    Parameters
    ----------
    models : mapping of name to BoltzmannMachine
    cells : list of dict
        "model", "method", "beta", "seed" and "options" of each, and the "plan" of exact ones; the "budget" in seconds
        of those whose size is to be found; "skipped", why one cannot be computed; "auto", why it was chosen.
    executor : Executor, optional
        Does the pieces of exact sums.

    Attributes
    ----------
    halt : function
        Asked for a stop inside of exact sums.
    """

    def __init__(
        self,
        models: Mapping[str, BoltzmannMachine],
        cells: list[dict[str, Any]],
        *,
        clamp: Any,
        moments: bool,
        threads: int,
        executor: Executor | None = None,
    ) -> None:
        self._models, self._cells, self._clamp, self._moments, self._threads = models, cells, clamp, moments, threads
        self._executor = executor
        self.halt: Callable[[], bool] = never
        self._n_done = 0
        self._sums: ExactSums | None = None
        self._seconds = 0.0  # spent on the present sums
        self._sizes: dict[str, Any] = {}  # of cells with a budget: what fits, or why nothing does

    @property
    def streams(self) -> dict[str, Stream]:
        """What the run writes."""
        return {f"results/{RESULT}": Stream("str"), "meta/seconds": Stream("<f8")}

    @property
    def atomic(self) -> bool:
        """Whether the next block may be broken off anywhere: any cell but exact ones, which look for a stop."""
        return not self.done and self._cells[self._n_done]["method"] != "exact"

    @property
    def done(self) -> bool:
        """Whether all cells are done."""
        return self._n_done >= len(self._cells)

    @property
    def unit(self) -> str:
        """What `progress` counts."""
        return "cell" if self._sums is None or len(self._cells) > 1 else "piece"

    @property
    def progress(self) -> tuple[int, int]:
        """Cells done, and all; or pieces, of a single sum that is under way."""
        if self._sums is not None and len(self._cells) == 1:
            return self._sums.progress
        return self._n_done, len(self._cells)

    def advance(self) -> dict[str, np.ndarray] | None:
        """Compute one cell, or a slice of one that is exact, or find the size that fits its budget; None where a stop
        was asked for within it.
        """
        cell = self._cells[self._n_done]
        if "skipped" in cell:
            return self._skip(cell, cell["skipped"])
        if cell["method"] == "exact":
            return self._advance_sums(cell)
        options = dict(cell["options"])
        if "budget" in cell:
            if (place := _place(cell)) not in self._sizes:
                self._sizes[place] = self._size(cell)
                return {}
            size = self._sizes[place]
            if isinstance(size, str):
                return self._skip(cell, size)
            options |= size
        try:
            result = self._run(cell, options)
        except (ValueError, TypeError) as error:
            if len(self._cells) == 1:
                raise
            return self._skip(cell, str(error))  # the other cells can be had all the same
        return self._rows(cell, result, result.seconds)

    def _run(self, cell: dict[str, Any], options: Mapping[str, Any]) -> Inference:
        with warnings.catch_warnings():
            if len(self._cells) > 1:  # the table says for each whether it converged
                warnings.simplefilter("ignore", _checks.ConvergenceWarning)
            return run_method(
                self._models[cell["model"]], cell["method"], beta=cell["beta"], clamp=self._clamp,
                moments=self._moments, seed=cell["seed"], threads=self._threads, **options,
            )  # fmt: skip

    def _size(self, cell: dict[str, Any]) -> dict[str, int] | str:
        """What fits into the budget, or why nothing does."""
        knob = METHODS[cell["method"]].knob
        if knob is None or knob.name in cell["options"]:
            return {}

        def run(size: int) -> Inference:
            return self._run(cell, cell["options"] | {knob.name: size})

        try:
            return {knob.name: fit_into(cell["budget"], run, knob.name, knob.least, knob.most)}
        except (ValueError, TypeError) as error:
            if len(self._cells) == 1 and not isinstance(error, BudgetTooSmall):
                raise
            return str(error)

    def _skip(self, cell: dict[str, Any], why: str) -> dict[str, np.ndarray]:
        return self._rows(cell, Inference(cell["method"], converged=False, detail={"skipped": why}), 0.0)

    def _advance_sums(self, cell: dict[str, Any]) -> dict[str, np.ndarray] | None:
        started = time.perf_counter()
        if self._sums is None:
            self._sums = self._begin(cell)
        sums = self._sums
        try:
            sums.advance(self.halt)
        except Halted:
            return None
        finally:
            self._seconds += time.perf_counter() - started
        if not sums.done:
            return {}
        rows = self._rows(cell, sums.result, self._seconds)
        self._sums, self._seconds = None, 0.0
        return rows

    def _begin(self, cell: dict[str, Any]) -> ExactSums:
        model = self._models[cell["model"]]
        return ExactSums(
            model,
            ExactSettings.of(model, **cell["options"]),
            beta=cell["beta"],
            clamp=self._clamp,
            moments=self._moments,
            threads=self._threads,
            executor=self._executor,
            plan=cell.get("plan"),
        )

    def _rows(self, cell: dict[str, Any], result: Inference, seconds: float) -> dict[str, np.ndarray]:
        self._n_done += 1
        told = {name: cell[name] for name in ("auto",) if name in cell}
        if isinstance(size := self._sizes.get(_place(cell)), dict):
            told["sized"] = size
        result = replace(result, detail=result.detail | told)
        return {
            f"results/{RESULT}": np.array([to_json(replace(result, seconds=0.0))], dtype=object),
            "meta/seconds": np.array([seconds]),
        }

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on."""
        sizes = json.dumps(self._sizes, sort_keys=True).encode()
        found = {"n_done": np.array(self._n_done), "sizes": np.frombuffer(sizes, np.uint8)}
        if self._sums is not None:
            found |= {f"sums/{name}": array for name, array in self._sums.state().items()}
            found["seconds"] = np.array(self._seconds)
        return found

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self._n_done, self._sums, self._seconds = int(state["n_done"]), None, 0.0
        self._sizes = json.loads(state["sizes"].tobytes()) if "sizes" in state else {}
        kept = {name.removeprefix("sums/"): array for name, array in state.items() if name.startswith("sums/")}
        if kept:
            self._sums = self._begin(self._cells[self._n_done])
            self._sums.restore(kept)
            self._seconds = float(state["seconds"])


def _place(cell: dict[str, Any]) -> str:
    """What cells that differ in their seed alone have in common."""
    return f"{cell['model']}, beta = {cell['beta']!r}, {cell['method']}"
