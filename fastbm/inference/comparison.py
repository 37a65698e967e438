"""Many methods on many machines: results side by side, held against the exact ones where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .result import Inference

BOUND_ROUNDING = 1e-10  # a bound may miss by this much, relative to |log Z|


@dataclass(frozen=True)
class Cell:
    """One method on one machine at one temperature."""

    model: str
    beta: float
    method: str
    result: Inference


@dataclass(frozen=True)
class Comparison:
    """What `fastbm.compare` found.

    Attributes
    ----------
    cells : tuple of Cell
        In the order in which they were computed; ``comparison[k]`` is the Inference of cell k, ``comparison["ais"]``
        that of the first cell with this method.
    """

    cells: tuple[Cell, ...]

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, key: int | str) -> Inference:
        if isinstance(key, str):
            for cell in self.cells:
                if cell.method == key:
                    return cell.result
            raise KeyError(f"no cell has method {key!r}; there are {sorted({c.method for c in self.cells})}")
        return self.cells[key].result

    def exact(self, cell: Cell) -> Inference | None:
        """The exact result for the machine and temperature of `cell`, if there is one."""
        for other in self.cells:
            if (other.model, other.beta) == (cell.model, cell.beta) and other.result.bound == "exact":
                return other.result
        return None

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row (a dict) for each cell.

        "log_z_off" is log Z less the exact value, "mean_off" the largest error of a mean, "bound_kept" whether a bound
        lies on its side; None where there is nothing to compare. "corrected" is the estimate of "sampled-states" beside
        its bound.
        """
        return [self._row(cell) for cell in self.cells]

    def _row(self, cell: Cell) -> dict[str, Any]:
        result, exact = cell.result, self.exact(cell)
        row: dict[str, Any] = {
            "model": cell.model,
            "beta": cell.beta,
            "method": cell.method,
            "log_z": None if np.ndim(result.log_z) else result.log_z,
            "log_z_error": result.log_z_error,
            "log_z_off": None,
            "bound": result.bound,
            "bound_kept": None,
            "mean_off": None,
            "corrected": result.detail.get("log_z_corrected"),
            "corrected_error": result.detail.get("log_z_corrected_error"),
            "converged": result.converged,
            "seconds": result.seconds,
        }
        if exact is None or np.ndim(result.log_z):
            return row
        if result.log_z is not None:
            row["log_z_off"] = off = float(result.log_z - exact.log_z)
            slack = BOUND_ROUNDING * max(1.0, abs(exact.log_z))
            row["bound_kept"] = {"lower": off <= slack, "upper": off >= -slack}.get(str(result.bound))
        if result.mean is not None and exact.mean is not None:
            row["mean_off"] = float(np.max(np.abs(np.asarray(result.mean) - exact.mean)))
        return row

    def __str__(self) -> str:
        rows = [[text(row[name], name) for name in COLUMNS] for row in self.table]
        return align([list(COLUMNS.values()), *rows])


COLUMNS = {
    "model": "model",
    "beta": "beta",
    "method": "method",
    "log_z": "log Z",
    "log_z_error": "+-",
    "log_z_off": "off by",
    "bound": "bound",
    "mean_off": "mean off",
    "seconds": "seconds",
}


def text(value: Any, name: str) -> str:
    """Return a table's entry as text."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6f}" if name == "log_z" else f"{value:.2g}" if name != "beta" else f"{value:g}"
    return str(value).replace("stochastic ", "~")


def align(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of texts as lines with aligned columns, numbers to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(entry.rjust(width) for entry, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)
