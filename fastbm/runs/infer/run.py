"""Runs of estimators: a single result, or one for each cell of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...diagnostics.verdicts import all_of
from ...inference.comparison import Cell, Comparison
from ...inference.result import Inference, from_json
from ..loop import Task
from ..run import Run
from ..spec import Given, read_models
from .task import COMPILE_SECONDS, RESULT, CellsTask

MOST_NAMED = 3  # cells


class Results(Run):
    """A run of `infer` or `compare`."""

    takes = frozenset({"executor"})

    @classmethod
    def task(cls, spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, given: Given) -> Task:
        """Make the task that a spec describes."""
        clamp = (inputs["clamp/indices"], inputs["clamp/values"]) if "clamp/indices" in inputs else None
        about: dict[str, Any] = {"clamp": clamp, "moments": spec["moments"], "threads": threads}
        about |= {"executor": given.executor, "worker_threads": given.worker_threads}
        about |= {"compiling_apart": spec.get("compiling_apart", False)}
        return CellsTask(read_models(spec, inputs), spec["cells"], **about)

    def _results(self) -> list[Inference]:
        self._need(f"results/{RESULT}", "results")
        texts, seconds = self._reader.read(f"results/{RESULT}"), self._reader.read("meta/seconds")
        apart = COMPILE_SECONDS in self._reader.streams
        compiling = self._reader.read(COMPILE_SECONDS) if apart else np.zeros(len(seconds))
        return [from_json(str(text), float(s), float(c)) for text, s, c in zip(texts, seconds, compiling, strict=True)]

    @property
    def comparison(self) -> Comparison:
        """The results of `compare` so far."""
        cells = [
            Cell(c["model"], c["beta"], c["method"], result, c["seed"])
            for c, result in zip(self.config["cells"], self._results(), strict=False)
        ]
        return Comparison(tuple(cells))

    @property
    def converged(self) -> bool | None:
        """Whether all results converged; None where no method can decide."""
        return all_of(result.converged for result in self._results())

    @property
    def doubt(self) -> str:
        """Why not all results converged, or why nothing decides it; empty where they have."""
        cells = [cell for cell in self.comparison.cells if cell.result.converged is not True]
        if len(self.config["cells"]) == 1:
            return str(cells[0].result.detail.get("doubt", "")) if cells else "there is no result yet"
        named = [f"{cell.method} of {cell.model} at beta = {cell.beta:g}" for cell in cells]
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        return (
            f"{len(named)} of {len(self.config['cells'])} cells, {', '.join(named[:MOST_NAMED])}{more}" if named else ""
        )

    @property
    def evidence(self) -> str:
        """What speaks for results that have `converged`: an exact sum, or a witness that might have contradicted."""
        results = self._results()
        if len(results) > 1:
            return f"all {len(results)} cells"
        if results[0].bound == "exact":
            return "an exact sum"
        return "a witness of another kind agrees" if "witness" in results[0].detail else ""

    def _frame(self) -> tuple[Any, ...]:
        return (self.comparison.table,)

    def _entries(self) -> dict[str, Any]:
        table = self.comparison.table
        cells = f"{len(table)} of {len(self.config['cells'])}"
        return {"cells": cells, "seconds": sum(row["seconds"] for row in table)}


class InferRun(Results):
    """A run of `infer`.

    `Run` says what all runs have.
    """

    verb = "infer"

    @property
    def inference(self) -> Inference:
        """The result of `infer`."""
        return self._results()[0]


class CompareRun(Results):
    """A run of `compare`.

    `Run` says what all runs have.
    """

    verb = "compare"
