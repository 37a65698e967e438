"""Comparisons of methods on machines: results side by side, measured against exact ones or the tightest bracket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from .result import Inference, is_sparse

BOUND_ROUNDING = 1e-10  # a bound may miss by this much, relative to |log Z|
NOMINAL = 1.96  # standard errors that cover 95 % of a normal distribution
MOST_ROWS = 48  # cells that are printed one by one
REPORTED_SECONDS = 0.1  # of compiling that are worth a line
COMPILING = "Compiling took {:.2g} s, which are not among the seconds."


@dataclass(frozen=True)
class Cell:
    """One method on one machine at one temperature, with one seed."""

    model: str
    beta: float
    method: str
    result: Inference
    seed: int = 0

    @property
    def skipped(self) -> str | None:
        """Why the cell was not computed; empty where it was."""
        return self.result.detail.get("skipped")


@dataclass(frozen=True)
class Reference:
    """The reference for log Z of a machine at a temperature: two numbers between which it lies.

    Attributes
    ----------
    kind : {"exact", "bracket"}
    low, high : float
        Alike where it is exact.
    result : Inference or None
        The exact one.
    """

    kind: str
    low: float
    high: float
    result: Inference | None = None

    def off(self, log_z: float) -> float:
        """Return how far a value lies outside the two numbers; 0 within."""
        return log_z - min(max(log_z, self.low), self.high)


@dataclass(frozen=True)
class Comparison:
    """The result of `fastbm.compare`.

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

    def reference(self, model: str, beta: float) -> Reference | None:
        """Return the reference for a machine's log Z at a temperature: exact, else the tightest bracket."""
        results = [cell.result for cell in self.cells if (cell.model, cell.beta) == (model, beta)]
        for result in results:
            if result.bound == "exact" and not np.ndim(result.log_z):
                return Reference("exact", float(result.log_z), float(result.log_z), result)
        lower: list[float] = []
        upper: list[float] = []
        for result in results:
            if result.log_z is None or np.ndim(result.log_z):
                continue
            of_side = {"lower": lower, "stochastic lower": lower, "upper": upper, "stochastic upper": upper}
            if result.bound in of_side:
                of_side[result.bound].append(float(result.log_z))
            if result.detail.get("log_z_upper") is not None and result.detail.get("upper_holds", True):
                upper.append(float(result.detail["log_z_upper"]))
        if not lower or not upper:
            return None
        low, high = max(lower), min(upper)
        return Reference("bracket", min(low, high), max(low, high))

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row (a dict) for each cell.

        "log_z_off" is how far log Z lies from the exact value, or outside the bracket ("reference" says which), "z" the
        same in its standard errors, "mean_off" and "covariance_off" the largest error of a mean and of a covariance,
        "bound_kept" whether a bound lies on its side, a stochastic one within 1.96 standard errors; None where there is
        nothing to compare. "seconds" are those without "compile_seconds". "corrected" is the estimate of
        "sampled-states" beside its bound. "skipped" says why a cell was not computed.
        """
        references = {place: self.reference(*place) for place in dict.fromkeys((c.model, c.beta) for c in self.cells)}
        return [_row(cell, references[cell.model, cell.beta]) for cell in self.cells]

    def summary(self, by: Sequence[str] = ("model", "method")) -> list[dict[str, Any]]:
        """Return averages over cells: one row for each combination of the columns `by`.

        "log_z_off" (of the corrected value where there is one), "mean_off" and "covariance_off" are medians of absolute
        values; of results that say that they have converged "z" is a root mean square, about 1 where error bars are
        honest, and "covered" the part of error bars of 1.96 standard errors that cover the exact value; "bounds_kept"
        and "converged" are parts of the cells, "seconds" a mean, "compile_seconds" a sum, "n" the number of cells and
        "skipped" of those that were not computed.
        """
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in self.table:
            groups.setdefault(tuple(row[name] for name in by), []).append(row)
        return [dict(zip(by, key, strict=True)) | _together(rows) for key, rows in groups.items()]

    def __repr__(self) -> str:
        return f"<Comparison: {len(self)} cells, {len({cell.method for cell in self.cells})} methods>"

    def __str__(self) -> str:
        return "\n".join([align(self.printed()), *self._skipped(), *self.compiling])

    def _repr_html_(self) -> str:
        from .._base import html

        head, *rows = self.printed()
        return html.table(rows, head) + "".join(
            f"<p>{escape(line)}</p>" for line in [*self._skipped(), *self.compiling]
        )

    def printed(self) -> list[list[str]]:
        """Return the table that is printed, its head first: cells one by one, or averages where they are many."""
        if len(self) <= MOST_ROWS:
            rows, columns = self.table, COLUMNS
        else:
            rows, columns = self.summary(), SUMMARY_COLUMNS
        return [list(columns.values()), *([text(row[name], name) for name in columns] for row in rows)]

    def to_dataframe(self) -> Any:
        """Return `table` as a pandas.DataFrame; needs pandas."""
        from .._base.frame import to_frame

        return to_frame(self.table)

    def plot(self) -> Any:
        """Draw errors and costs of all methods: `plots.figure` of the comparison."""
        from .._base.late import public

        return public("plots").figure(self)

    def _skipped(self) -> list[str]:
        """Return lines on which methods were skipped, why, and how often."""
        facts: dict[str, int] = {}
        for cell in self.cells:
            if cell.skipped:
                line = f"{cell.method} was skipped: {cell.skipped}"
                facts[line] = facts.get(line, 0) + 1
        return [line + (f" ({n} times)" if n > 1 else "") for line, n in facts.items()]

    @property
    def compiling(self) -> list[str]:
        """Return a line on how long compiling took, if it is worth one."""
        seconds = sum(cell.result.compile_seconds for cell in self.cells)
        return [COMPILING.format(seconds)] if seconds >= REPORTED_SECONDS else []


def _row(cell: Cell, reference: Reference | None) -> dict[str, Any]:
    result = cell.result
    single = result.log_z is not None and not np.ndim(result.log_z)
    row: dict[str, Any] = {
        "model": cell.model,
        "beta": cell.beta,
        "method": cell.method,
        "seed": cell.seed,
        "log_z": result.log_z if single else None,
        "log_z_error": result.log_z_error if single else None,
        "log_z_off": None,
        "z": None,
        "reference": reference and reference.kind,
        "bound": result.bound,
        "bound_kept": None,
        "mean_off": None,
        "covariance_off": None,
        "corrected": result.detail.get("log_z_corrected"),
        "corrected_error": result.detail.get("log_z_corrected_error"),
        "corrected_off": None,
        "converged": result.converged,
        "seconds": result.seconds,
        "compile_seconds": result.compile_seconds,
        "skipped": cell.skipped,
    }
    if reference is None:
        return row
    exact = reference.result
    if single:
        row["log_z_off"] = off = reference.off(float(result.log_z))
        if exact is not None:
            row["bound_kept"] = _kept(result, off)
            row["z"] = _in_errors(off, result.log_z_error)
    if row["corrected"] is not None:
        row["corrected_off"] = off = reference.off(row["corrected"])
        if exact is not None:
            row["z"] = _in_errors(off, row["corrected_error"])
    if exact is not None:
        row["mean_off"] = _farthest(result.mean, exact.mean)
        row["covariance_off"] = _farthest(result.covariance, exact.covariance)
    return row


def _kept(result: Inference, off: float) -> bool | None:
    """Return whether a bound lies on its side, a stochastic one within its error bar; None for what is no bound."""
    slack = BOUND_ROUNDING * max(1.0, abs(float(result.log_z)))
    side = str(result.bound)
    if side.startswith("stochastic "):
        side = side.removeprefix("stochastic ")
        slack += NOMINAL * (result.log_z_error or 0.0)
    return {"lower": off <= slack, "upper": off >= -slack}.get(side)


def _in_errors(off: float, error: Any) -> float | None:
    return None if error is None or not error > 0 else float(off / error)


def _farthest(one: Any, exact: Any) -> float | None:
    """Return the largest difference of two arrays.

    Of sparse ones it is that on the entries of both; None where they cannot be held.
    """
    if one is None or exact is None or np.shape(one) != np.shape(exact):
        return None
    if is_sparse(one) or is_sparse(exact):
        kept, other = (one, exact) if is_sparse(one) else (exact, one)
        rows, columns = kept.nonzero()
        if is_sparse(other) and other.nnz != kept.nnz:
            return None
        try:
            return float(np.max(np.abs(np.asarray(kept[rows, columns] - other[rows, columns])), initial=0.0))
        except LookupError:  # as many pairs, but others
            return None
    return float(np.max(np.abs(np.asarray(one) - exact), initial=0.0))


def _together(rows: list[dict[str, Any]]) -> dict[str, Any]:
    done = [row for row in rows if row["skipped"] is None]
    z = _known([row for row in done if row["converged"]], "z")
    kept = _known(done, "bound_kept")
    off = [row["log_z_off"] if row["corrected_off"] is None else row["corrected_off"] for row in done]
    return {
        "n": len(done),
        "skipped": len(rows) - len(done),
        "log_z_off": _median([value for value in off if value is not None]),
        "z": _root_mean_square(z),
        "covered": _mean([abs(value) < NOMINAL for value in z]),
        "bounds_kept": _mean(kept),
        "mean_off": _median(_known(done, "mean_off")),
        "covariance_off": _median(_known(done, "covariance_off")),
        "converged": _mean([row["converged"] is True for row in done]),
        "seconds": _mean([row["seconds"] for row in done]),
        "compile_seconds": float(sum(row["compile_seconds"] for row in rows)),
    }


def _known(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows if row[name] is not None]


def _mean(values: Sequence[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(np.abs(values))) if len(values) else None


def _root_mean_square(values: Sequence[float]) -> float | None:
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else None


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
SUMMARY_COLUMNS = {
    "model": "model",
    "method": "method",
    "log_z_off": "off by",
    "z": "z",
    "covered": "covered",
    "bounds_kept": "bounds",
    "mean_off": "means",
    "covariance_off": "covs",
    "converged": "conv.",
    "seconds": "seconds",
}
PARTS = ("covered", "bounds_kept", "converged")


def text(value: Any, name: str) -> str:
    """Return a table's entry as text."""
    if value is None:
        return "-"
    if name in PARTS and not isinstance(value, bool):
        return f"{value:.0%}"
    if isinstance(value, float):
        return f"{value:.6f}" if name == "log_z" else f"{value:.2g}" if name != "beta" else f"{value:g}"
    return str(value).replace("stochastic ", "~")


def align(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of texts as lines with aligned columns, numbers to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(entry.rjust(width) for entry, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)
