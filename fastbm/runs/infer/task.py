"""Inference as a run: one method on one machine after the other; long exact sums are done in pieces."""

from __future__ import annotations

import json
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
from ...inference.exact.method import Exact
from ...inference.exact.settings import ExactSettings
from ...inference.exact.sums import ExactSums
from ...inference.methods import can_be_cut
from ...inference.result import to_json
from ...inference.subject import Subject, clamp_of
from ...kernels.stopwatch import Stopwatch
from ...machine.machine import BoltzmannMachine
from .call import Call
from .cells import Cells, Done, Handed, place_of

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
        Does the pieces of exact sums, and all other cells.
    worker_threads : int
        On which each of its workers computes.
    compiling_apart : bool
        Whether the time to compile is written beside the seconds; files that were begun by older versions lack it.

    Attributes
    ----------
    halt : function
        Asked for a stop inside of exact sums, and while workers compute.
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
        worker_threads: int = 1,
        compiling_apart: bool = True,
    ) -> None:
        self._models, self._cells, self._clamp, self._moments, self._threads = models, cells, clamp, moments, threads
        self._executor, self._worker_threads, self._compiling_apart = executor, worker_threads, compiling_apart
        self.halt: Callable[[], bool] = never
        self.told: Callable[[], None] | None = None
        self._within: Call | None = None
        self._n_done = 0
        self._sums: ExactSums | None = None
        self._seconds = np.zeros(2)  # spent on the present sums, and on compiling for them
        self._sizes: dict[str, Any] = {}  # of cells with a budget: what fits, or why nothing does
        self._made = Cells(models, cells, clamp, moments, self._sizes)
        self._handed = self._hand_out()

    def _hand_out(self) -> Handed | None:
        """Return what hands cells to workers; None where they are done here, as a single one that is cut itself is."""
        alone = not self._made.are_many and can_be_cut(self._cells[0]["method"], self._clamp)
        return None if self._executor is None or alone else Handed(self._executor, self._worker_threads)

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that the run writes."""
        apart = {COMPILE_SECONDS: Stream("<f8")} if self._compiling_apart else {}
        return {f"results/{RESULT}": Stream("str"), "meta/seconds": Stream("<f8"), **apart}

    @property
    def atomic(self) -> bool:
        """Whether the next block may be broken off anywhere: not where it checks for a stop itself."""
        return not self.done and self._handed is None and self._cells[self._n_done]["method"] != "exact"

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
            return self._rows(to_json(self._made.skipped(cell, cell["skipped"])))
        if cell["method"] == "exact":
            return self._advance_sums(cell)
        try:
            if self._find_size(cell):
                return {}
            done = self._do()
        except Halted:
            return None
        for text, category in done.warnings:
            checks.warn(text, category)
        return self._rows(done.text, done.seconds, done.compile_seconds)

    def _do(self) -> Done:
        if self._handed is not None:
            return self._handed.do_next(self._made, self._n_done, self.halt)
        with self._telling():
            return self._made.do(self._n_done, self._threads, self._executor)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell how far a single cell is."""
        if self.told is None or len(self._cells) > 1:
            yield
            return
        told, self._within = self.told, Call(self._cells[0]["method"])
        self._within.each = lambda task, rows: told()
        try:
            with heard(self._within.hear):
                yield
        finally:
            self._within = None

    def _find_size(self, cell: Mapping[str, Any]) -> bool:
        """Find a size that is needed, and write it down; return whether there was one to be found."""
        if self._handed is not None:
            if (found := self._handed.size_next(self._made, self._n_done, self.halt)) is None:
                return False
            self._sizes.update([found])
            return True
        if "budget" not in cell or (place := place_of(cell)) in self._sizes:
            return False
        with self._telling():
            self._sizes[place] = self._made.size(self._n_done, self._threads, self._executor)
        return True

    def leave(self) -> None:
        """Take back what waits for the executor."""
        if self._handed is not None:
            self._handed.leave()
        if self._sums is not None:
            self._sums.leave()

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
        result = self._made.told(cell, replace(sums.result, subject=subject))
        rows = self._rows(to_json(result), *self._seconds)
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

    def _rows(self, text: str, seconds: float = 0.0, compile_seconds: float = 0.0) -> dict[str, np.ndarray]:
        self._n_done += 1
        rows = {
            f"results/{RESULT}": np.array([text], dtype=object),
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
        self._handed = self._hand_out()
        self._sizes.clear()
        self._sizes.update(json.loads(state["sizes"].tobytes()) if "sizes" in state else {})
        kept = {name.removeprefix("sums/"): array for name, array in state.items() if name.startswith("sums/")}
        if kept:
            self._sums = self._begin(self._cells[self._n_done])
            self._sums.restore(kept)
            self._seconds[: np.size(state["seconds"])] = state["seconds"]  # older files hold one number
