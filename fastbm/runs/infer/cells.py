"""Cells of `infer` and `compare` that are no exact sums: each a function of what the run was told, done by whomever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..._base import checks
from ..._base.halting import Halt
from ..._base.threads import single_threaded_blas
from ..._base.workers import Pieces, leaving
from ...inference.auto import WORTH, BudgetTooSmall, fit_into
from ...inference.methods import METHODS, run_method
from ...inference.result import Inference, to_json
from ...inference.verdict import chosen_by_auto
from ...machine.machine import BoltzmannMachine

Warnings = list[tuple[str, type[Warning]]]


class Done(NamedTuple):
    """A result as text, the seconds that it and the compiler took, and the warnings that belong to it."""

    text: str
    seconds: float
    compile_seconds: float
    warnings: Warnings


@dataclass(frozen=True)
class Cells:
    """The cells of a run.

    Attributes
    ----------
    models : mapping of name to BoltzmannMachine
    cells : list of dict
        As for `CellsTask`.
    clamp, moments
        As for `infer`.
    sizes : mapping of place to dict or str
        Of cells with a budget: what fits, or why nothing does.
    """

    models: Mapping[str, BoltzmannMachine]
    cells: list[dict[str, Any]]
    clamp: Any
    moments: bool
    sizes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def are_many(self) -> bool:
        """Whether a cell that fails is a row of a table, in which the others can be had all the same."""
        return len(self.cells) > 1

    def apart(self, first: int) -> list[int]:
        """Return the cells, from `first` on, that are to be computed and are no exact sums."""
        rest = range(first, len(self.cells))
        return [k for k in rest if self.cells[k]["method"] != "exact" and "skipped" not in self.cells[k]]

    def size(self, k: int, threads: int, executor: Executor | None = None) -> dict[str, int] | str:
        """Find the size of an estimate that fits into the budget of cell `k`, or why none does."""
        cell = self.cells[k]
        knob = METHODS[cell["method"]].knob
        settled = ("betas",) if knob is not None and knob.name == "n_betas" else ()
        if knob is None or {knob.name, *settled} & set(cell["options"]):
            return {}

        def run(size: int) -> Inference:
            with checks.keeping_warnings():
                return self._run(cell, cell["options"] | {knob.name: size}, threads, executor)

        try:
            about: dict[str, Any] = {"on_top": "auto" not in cell}
            return {knob.name: fit_into(cell["budget"], run, knob.name, knob.least, knob.most, **about)}
        except (ValueError, TypeError) as error:
            if not self.are_many and not isinstance(error, BudgetTooSmall):
                raise
            return str(error)

    def do(self, k: int, threads: int, executor: Executor | None = None) -> Done:
        """Compute cell `k`; its size is among `sizes` if it has a budget."""
        with checks.keeping_warnings() as told:
            result = self._result(k, threads, executor)
        if self.are_many:  # the table says for each whether it converged
            told = [one for one in told if not issubclass(one[1], checks.ConvergenceWarning)]
        return Done(to_json(result), result.seconds, result.compile_seconds, told)

    def _result(self, k: int, threads: int, executor: Executor | None) -> Inference:
        cell = self.cells[k]
        size = self.sizes.get(place_of(cell), {}) if "budget" in cell else {}
        try:
            if not isinstance(size, str):
                return self.told(cell, self._run(cell, cell["options"] | size, threads, executor))
            if "auto" not in cell:
                return self.skipped(cell, size)
            return self._by_mean_field(cell, size, threads)
        except (ValueError, TypeError) as error:
            if not self.are_many:
                raise
            return self.skipped(cell, str(error))

    def _run(
        self, cell: Mapping[str, Any], options: Mapping[str, Any], threads: int, executor: Executor | None = None
    ) -> Inference:
        with chosen_by_auto("auto" in cell):
            return run_method(
                self.models[cell["model"]], cell["method"], beta=cell["beta"], clamp=self.clamp, moments=self.moments,
                seed=cell["seed"], threads=threads, executor=executor, **options,
            )  # fmt: skip

    def _by_mean_field(self, cell: dict[str, Any], why: str, threads: int) -> Inference:
        """Return the mean-field result, where a budget is too short for any estimate."""
        result = self._run(cell | {"method": "mean-field"}, {}, threads)
        note = f"{why} Mean field instead: {WORTH}; the moments are its own."
        if "start" in cell["options"]:
            note += " It begins at no product model, so that start was not used."
        return self.told(cell | {"auto": cell["auto"] | {"fell back": note, "options": {}}}, result)

    def skipped(self, cell: Mapping[str, Any], why: str) -> Inference:
        """Return what stands for a cell that was not computed."""
        return self.told(cell, Inference(cell["method"], converged=False, detail={"skipped": why}))

    def told(self, cell: Mapping[str, Any], result: Inference) -> Inference:
        """Return a result with what was chosen for its cell in `detail`."""
        about = {name: cell[name] for name in ("auto",) if name in cell}
        if isinstance(size := self.sizes.get(place_of(cell)), dict):
            about["sized"] = size
        return replace(result, detail=result.detail | about)


def place_of(cell: Mapping[str, Any]) -> str:
    """Return what cells that differ in their seed alone have in common."""
    return f"{cell['model']}, beta = {cell['beta']!r}, {cell['method']}"


class Share(NamedTuple):
    """What pieces share: the cells, which of them are pieces, and on how many threads a worker computes."""

    cells: Cells
    pieces: list[int]
    threads: int


def do_size(share: Share, k: int) -> dict[str, int] | str:
    """Find the size of a cell's place, where a piece has been sent to."""
    with leaving(), single_threaded_blas():
        return share.cells.size(share.pieces[k], share.threads)


def do_cell(share: Share, k: int) -> Done:
    """Compute a cell, where a piece has been sent to."""
    with leaving(), single_threaded_blas():
        return share.cells.do(share.pieces[k], share.threads)


class Handed:
    """Cells that workers do whole, handed out when the first result is taken: sizes of all places, then cells.

    Sizes are found where the cells are computed, and are the same for all of a place from then on.

    Parameters
    ----------
    executor : Executor
    threads : int
        On which each worker computes.
    """

    def __init__(self, executor: Executor, threads: int) -> None:
        self._executor, self._threads = executor, threads
        self._open: dict[str, Pieces] = {}
        self._unsized: list[str] = []

    def size_next(self, cells: Cells, first: int, halt: Halt) -> tuple[str, dict[str, int] | str] | None:
        """Return the next place, of cells from `first` on, and what fits there; None where all are known."""
        if "sizes" not in self._open:
            places: dict[str, int] = {}
            for k in cells.apart(first):
                cell = cells.cells[k]
                if "budget" in cell and place_of(cell) not in cells.sizes:
                    places.setdefault(place_of(cell), k)
            self._unsized = list(places)
            self._begin("sizes", do_size, cells, list(places.values()))
        if not self._unsized:
            return None
        size = self._open["sizes"].take(halt)
        return self._unsized.pop(0), size

    def do_next(self, cells: Cells, first: int, halt: Halt) -> Done:
        """Return the next cell that is done, from `first` on where none was handed out."""
        if "cells" not in self._open:
            self._begin("cells", do_cell, cells, cells.apart(first))
        done: Done = self._open["cells"].take(halt)
        return done

    def _begin(self, name: str, do: Callable[[Share, int], Any], cells: Cells, chosen: list[int]) -> None:
        self._open[name] = Pieces(self._executor, do, Share(cells, chosen, self._threads), len(chosen))

    def leave(self) -> None:
        """Take back what waits; what is taken next is handed out again."""
        for pieces in self._open.values():
            pieces.cancel()
