"""A run that compared rules of learning on planted machines, whose parameters are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...learning.planted.comparison import RuleComparison
from ..loop import Task
from ..records import Columns
from ..run import Run
from ..spec import Given, read_models
from .task import InverseTask


class RulesRun(Run):
    """A run of `compare_rules`.

    `Run` says what all runs have.
    """

    takes = frozenset({"executor"})
    verb = "compare_rules"

    @classmethod
    def task(cls, spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, given: Given) -> Task:
        """Make the task that a spec describes."""
        by: dict[str, Any] = {"executor": given.executor, "worker_threads": given.worker_threads}
        return InverseTask(read_models(spec, inputs), spec["cells"], threads=threads, **by)

    @property
    def rules(self) -> RuleComparison:
        """The results of `compare_rules` so far."""
        self._need("results/gamma", "rules")
        seconds = self._reader.read("meta/seconds")
        return RuleComparison.of(self.config["cells"], Columns(self._reader, "results"), seconds)

    @property
    def converged(self) -> bool | None:
        """Whether no cell was skipped, and no rule in any of them failed to converge."""
        return all(cell.converged is not False and cell.skipped is None for cell in self.rules.cells)

    @property
    def doubt(self) -> str:
        """How many cells were skipped or have a rule that did not converge; empty where there are none."""
        bad = sum(cell.converged is False or cell.skipped is not None for cell in self.rules.cells)
        return f"{bad} of {len(self.config['cells'])} cells were skipped or did not converge" if bad else ""

    def _frame(self) -> tuple[Any, ...]:
        return (self.rules.table,)

    def _entries(self) -> dict[str, Any]:
        cells = self.rules.cells
        skipped = sum(cell.skipped is not None for cell in cells)
        done = f"{len(cells)} of {len(self.config['cells'])}"
        found: dict[str, Any] = {"cells": done, "seconds": sum(cell.seconds for cell in cells)}
        return found | ({"cells that lack something": skipped} if skipped else {})
