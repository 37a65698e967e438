"""Inference as a run: one method on one machine after the other; long exact sums are done in pieces."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ..._base import checks
from ..._base.halting import Halted, never
from ..._base.steps import heard
from ..._base.streams import Stream
from ...inference.auto import WORTH, BudgetTooSmall, fit_into
from ...inference.exact.method import Exact
from ...inference.exact.settings import ExactSettings
from ...inference.exact.sums import ExactSums
from ...inference.methods import METHODS, run_method
from ...inference.result import Inference, to_json
from ...inference.subject import Subject, clamp_of
from ...inference.verdict import chosen_by_auto
from ...kernels.stopwatch import Stopwatch
from ...machine.machine import BoltzmannMachine
from .call import Call

RESULT = "result"
COMPILE_SECONDS = "meta/compile_seconds"


class CellsTask:
    """The task of `infer` and `compare`: cells in order, a single one for `infer`, each computed to its result.

    Parameters
    ----------
    models : mapping of name to BoltzmannMachine
    cells : list of dict
        "model", "method", "beta", "seed" and "options" of each, and the "plan" of exact ones; the "budget" in seconds
        of those whose size is to be found; "skipped", why one cannot be computed; "auto", why it was chosen.
    executor : Executor, optional
        Does the pieces of exact sums.
    compiling_apart : bool
        Whether the time to compile is written beside the seconds; files that were begun by older versions lack it.

    Attributes
    ----------
    halt : function
        Asked for a stop inside of exact sums.
    told : function, optional
        Called as a single cell goes, which `unit` and `progress` then tell of.
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
        compiling_apart: bool = True,
    ) -> None:
        self._models, self._cells, self._clamp, self._moments, self._threads = models, cells, clamp, moments, threads
        self._executor, self._compiling_apart = executor, compiling_apart
        self.halt: Callable[[], bool] = never
        self.told: Callable[[], None] | None = None
        self._within: Call | None = None
        self._n_done = 0
        self._sums: ExactSums | None = None
        self._seconds = np.zeros(2)  # spent on the present sums, and on compiling for them
        self._sizes: dict[str, Any] = {}  # of cells with a budget: what fits, or why nothing does

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that the run writes."""
        apart = {COMPILE_SECONDS: Stream("<f8")} if self._compiling_apart else {}
        return {f"results/{RESULT}": Stream("str"), "meta/seconds": Stream("<f8"), **apart}

    @property
    def atomic(self) -> bool:
        """Whether the next block may be broken off anywhere: not in an exact sum, which checks for a stop itself."""
        return not self.done and self._cells[self._n_done]["method"] != "exact"

    @property
    def done(self) -> bool:
        """Whether all cells are done."""
        return self._n_done >= len(self._cells)

    @property
    def unit(self) -> str:
        """Name of what `progress` counts, "cell", "piece", or what a single cell tells of."""
        if self._within is not None:
            return self._within.unit
        return "cell" if self._sums is None or len(self._cells) > 1 else "piece"

    @property
    def progress(self) -> tuple[int, int]:
        """Cells done, and cells in all; pieces or steps in place of cells where a single one is under way."""
        if self._within is not None:
            return self._within.progress
        if self._sums is not None and len(self._cells) == 1:
            return self._sums.progress
        return self._n_done, len(self._cells)

    def advance(self) -> dict[str, np.ndarray] | None:
        """Compute one cell, a slice of one that is exact, or the size that fits its budget.

        Returns None where a stop was asked for within it.
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
                return self._fall_back(cell, size) if "auto" in cell else self._skip(cell, size)
            options |= size
        try:
            result = self._run(cell, options)
        except (ValueError, TypeError) as error:
            if len(self._cells) == 1:
                raise
            return self._skip(cell, str(error))  # the other cells can be had all the same
        return self._rows(cell, result, result.seconds, result.compile_seconds)

    def _run(self, cell: dict[str, Any], options: Mapping[str, Any]) -> Inference:
        with warnings.catch_warnings(), chosen_by_auto("auto" in cell):
            if len(self._cells) > 1:  # the table says for each whether it converged
                warnings.simplefilter("ignore", checks.ConvergenceWarning)
            with self._telling(cell["method"]):
                return run_method(
                    self._models[cell["model"]], cell["method"], beta=cell["beta"], clamp=self._clamp,
                    moments=self._moments, seed=cell["seed"], threads=self._threads, **options,
                )  # fmt: skip

    @contextmanager
    def _telling(self, method: str) -> Iterator[None]:
        """Tell how far a single cell is."""
        if self.told is None or len(self._cells) > 1:
            yield
            return
        told, self._within = self.told, Call(method)
        self._within.each = lambda task, rows: told()
        try:
            with heard(self._within.hear):
                yield
        finally:
            self._within = None

    def _size(self, cell: dict[str, Any]) -> dict[str, int] | str:
        """Find the size of an estimate that fits into the budget, or why none does."""
        knob = METHODS[cell["method"]].knob
        settled = ("betas",) if knob is not None and knob.name == "n_betas" else ()
        if knob is None or {knob.name, *settled} & set(cell["options"]):
            return {}

        def run(size: int) -> Inference:
            return self._run(cell, cell["options"] | {knob.name: size})

        try:
            about: dict[str, Any] = {"on_top": "auto" not in cell}
            return {knob.name: fit_into(cell["budget"], run, knob.name, knob.least, knob.most, **about)}
        except (ValueError, TypeError) as error:
            if len(self._cells) == 1 and not isinstance(error, BudgetTooSmall):
                raise
            return str(error)

    def _fall_back(self, cell: dict[str, Any], why: str) -> dict[str, np.ndarray]:
        """Return the mean-field result, where a budget is too short for any estimate."""
        result = self._run(cell | {"method": "mean-field"}, {})
        note = f"{why} Mean field instead: {WORTH}; the moments are its own."
        if "start" in cell["options"]:
            note += " It begins at no product model, so that start was not used."
        about = cell | {"auto": cell["auto"] | {"fell back": note}}
        return self._rows(about, result, result.seconds, result.compile_seconds)

    def _skip(self, cell: dict[str, Any], why: str) -> dict[str, np.ndarray]:
        return self._rows(cell, Inference(cell["method"], converged=False, detail={"skipped": why}))

    def _advance_sums(self, cell: dict[str, Any]) -> dict[str, np.ndarray] | None:
        watch = Stopwatch()
        if self._sums is None:
            self._sums = self._begin(cell)
        sums = self._sums
        try:
            sums.advance(self.halt)
        except Halted:
            return None
        finally:
            self._seconds += watch.seconds, watch.compile_seconds
        if not sums.done:
            return {}
        subject = Subject(self._models[cell["model"]], cell["beta"], clamp_of(self._clamp))
        rows = self._rows(cell, replace(sums.result, subject=subject), *self._seconds)
        self._sums, self._seconds = None, np.zeros(2)
        return rows

    def _begin(self, cell: dict[str, Any]) -> ExactSums:
        model = self._models[cell["model"]]
        return ExactSums(
            model,
            ExactSettings.of(model, **Exact.read(cell["options"]).as_dict()),
            beta=cell["beta"],
            clamp=self._clamp,
            moments=self._moments,
            threads=self._threads,
            executor=self._executor,
            plan=cell.get("plan"),
        )

    def _rows(
        self, cell: dict[str, Any], result: Inference, seconds: float = 0.0, compile_seconds: float = 0.0
    ) -> dict[str, np.ndarray]:
        self._n_done += 1
        about = {name: cell[name] for name in ("auto",) if name in cell}
        if isinstance(size := self._sizes.get(_place(cell)), dict):
            about["sized"] = size
        result = replace(result, detail=result.detail | about)
        rows = {
            f"results/{RESULT}": np.array([to_json(result)], dtype=object),
            "meta/seconds": np.array([seconds]),
            COMPILE_SECONDS: np.array([compile_seconds]),
        }
        return {name: rows[name] for name in self.streams}

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the run."""
        sizes = json.dumps(self._sizes, sort_keys=True).encode()
        found = {"n_done": np.array(self._n_done), "sizes": np.frombuffer(sizes, np.uint8)}
        if self._sums is not None:
            found |= {f"sums/{name}": array for name, array in self._sums.state().items()}
            found["seconds"] = self._seconds.copy()
        return found

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._n_done, self._sums, self._seconds = int(state["n_done"]), None, np.zeros(2)
        self._sizes = json.loads(state["sizes"].tobytes()) if "sizes" in state else {}
        kept = {name.removeprefix("sums/"): array for name, array in state.items() if name.startswith("sums/")}
        if kept:
            self._sums = self._begin(self._cells[self._n_done])
            self._sums.restore(kept)
            self._seconds[: np.size(state["seconds"])] = state["seconds"]  # older files hold one number


def _place(cell: dict[str, Any]) -> str:
    """Return what cells that differ in their seed alone have in common."""
    return f"{cell['model']}, beta = {cell['beta']!r}, {cell['method']}"
