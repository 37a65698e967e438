"""A shard of a campaign: an ordinary run, whose rows are its cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..runs.loop import Task
from ..runs.run import Run
from ..runs.spec import Given
from .task import IS_FAILED, ROW, SECONDS, ShardTask, parsed


class ShardRun(Run):
    """A run of some cells of a campaign.

    `Run` says what all runs have.
    """

    verb = "campaign"

    @classmethod
    def task(cls, spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, given: Given) -> Task:
        """Make the task that a spec describes."""
        return ShardTask(spec, threads)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row of columns for each cell that was computed."""
        return [parsed(text) for text in self._reader.read(ROW)]

    @property
    def n_failed(self) -> int:
        """Number of cells that have failed."""
        return int(self._reader.read(IS_FAILED).sum())

    def check_records(self) -> None:
        """Raise a ValueError where rows are missing."""
        if (n := self._reader.n_rows(ROW)) != len(self.config["cells"]):
            raise ValueError(f"{n} rows of {len(self.config['cells'])} cells")

    @property
    def converged(self) -> bool | None:
        """Whether all cells converged; None where nothing can decide it."""
        from ..diagnostics.verdicts import all_of

        return all_of(row.get("converged", False) for row in self.rows)

    @property
    def doubt(self) -> str:
        """How many cells have not converged."""
        rows = self.rows
        n = sum(row.get("converged") is not True for row in rows)
        return f"{n} of {len(rows)} cells" if n else ""

    @property
    def evidence(self) -> str:
        """What speaks for cells that have `converged`."""
        return f"all {len(self.config['cells'])} cells"

    def _frame(self) -> tuple[Any, ...]:
        cells = self.config["cells"]
        return ([cell["keys"] | row for cell, row in zip(cells, self.rows, strict=False)],)

    def _entries(self) -> dict[str, Any]:
        seconds = self._reader.read(SECONDS)
        return {
            "cells": f"{len(seconds)} of {len(self.config['cells'])}",
            "failed": self.n_failed,
            "seconds": float(seconds.sum()),
        }
