"""A comparison of rules of learning, each measured against the planted machine whose rows it was given."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from ...inference.comparison import align
from .ranking import Row, rank, summarise

NUMBERS = ("gamma", "coupling_off", "bias_off", "mean_off", "pair_off", "likelihood_off", "likelihood_error")
TEXTS = ("rows_by", "moments_by", "warning", "skipped")
CONVERGED = {None: -1, False: 0, True: 1}
MOST_ROWS = 48  # cells that are printed one by one
MOST_COLUMNS = 6  # temperatures that are printed side by side
WIDTH, LABEL_WIDTH = 80, 20
TITLES = {
    "beta": "beta",
    "n_rows": "rows",
    "rule": "rule",
    "gamma": "gamma",
    "mean_off": "means",
    "pair_off": "pairs",
    "likelihood_off": "held out",
    "seconds": "s",
    "converged": "conv.",
}
LEGEND = (
    "gamma: error of couplings, sqrt(sum (J - J*)^2 / sum J*^2); means, pairs: root\n"
    "mean square errors of moments of spins; held out: log-likelihood less that of\n"
    "the planted machine, nats a row."
)


@dataclass(frozen=True)
class RuleCell:
    """One rule on one set of rows; numbers are None where they cannot be had.

    Attributes
    ----------
    model, beta, n_rows, seed
        Say which rows: those of the planted machine `model` at `beta`.
    rule, method : str
        Its label, and the method of `fit`.
    gamma : float or None
        sqrt(sum (J - J*)^2 / sum J*^2), couplings of spins times beta; for machines without hidden units.
    coupling_off, bias_off : float or None
        Root mean square errors of the same couplings, and of biases.
    mean_off, pair_off : float or None
        Root mean square errors of means and of second moments of visible units, as spins.
    likelihood_off, likelihood_error : float or None
        Log-likelihood of the held-out rows less that of the planted machine, nats a row; its error from log Z.
    seconds : float
        Of learning, without those in which kernels were compiled.
    converged : bool or None
        None where the rule cannot decide it, as no formula can.
    rows_by, moments_by : str or None
        What drew the rows ("exact" or "tempering"), and what gave moments and log Z of the learned machine.
    warning : str or None
        What was said as it was learned or measured, for instance that a rule has no finite optimum for these rows.
    skipped : str or None
        Why it was not learned, or not measured.
    """

    model: str
    beta: float
    n_rows: int
    seed: int
    rule: str
    method: str
    gamma: float | None
    coupling_off: float | None
    bias_off: float | None
    mean_off: float | None
    pair_off: float | None
    likelihood_off: float | None
    likelihood_error: float | None
    seconds: float
    converged: bool | None
    rows_by: str | None
    moments_by: str | None
    warning: str | None
    skipped: str | None


@dataclass(frozen=True)
class RuleComparison:
    """The result of `fastbm.compare_rules`.

    Attributes
    ----------
    cells : tuple of RuleCell
        In the order in which they were done.
    """

    cells: tuple[RuleCell, ...]

    @classmethod
    def of(cls, cells: Iterable[Mapping[str, Any]], columns: Mapping[str, Any], seconds: Any) -> RuleComparison:
        """Make the comparison from the cells of a run's spec and the rows that the run wrote."""
        verdicts = {value: key for key, value in CONVERGED.items()}
        columns = {name: columns[name] for name in (*NUMBERS, *TEXTS, "converged")}  # each is read once
        found = []
        for k, cell in zip(range(len(seconds)), cells, strict=False):
            numbers = {name: float(columns[name][k]) for name in NUMBERS}
            about = {name: cell[name] for name in ("model", "beta", "n_rows", "seed", "rule", "method")}
            results: Row = {name: None if math.isnan(value) else value for name, value in numbers.items()}
            results |= {name: str(columns[name][k]) or None for name in TEXTS}
            results |= {"converged": verdicts[int(columns["converged"][k])], "seconds": float(seconds[k])}
            found.append(RuleCell(**about, **results))
        return cls(tuple(found))

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def table(self) -> list[Row]:
        """One row (a dict) for each cell, with the names of `RuleCell`."""
        return [asdict(cell) for cell in self.cells]

    def summary(self, by: Sequence[str] = ("model", "rule")) -> list[Row]:
        """Return averages over cells: one row for each combination of the columns `by`.

        Errors are root mean squares, "likelihood_off" and "seconds" means; "converged" is the part that did of the
        cells that tell, "n" their number and "skipped" that of cells with a reason why they lack something.

        With "rule" among the columns, errors and likelihoods are averaged over those sets of rows alone that all rules
        were measured on, "common" (of the couplings) and "common_likelihood" in number: a rule gains nothing by
        failing where it is hard. One that failed on more than half of the sets has None.
        """
        return summarise(self.table, by)

    def __repr__(self) -> str:
        return f"<RuleComparison: {len(self)} cells, {len({cell.rule for cell in self.cells})} rules>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def to_dataframe(self) -> Any:
        """Return `table` as a pandas.DataFrame; needs pandas."""
        from ..._base.frame import to_frame

        return to_frame(self.table)

    def plot(self) -> Any:
        """Draw errors and costs of all rules: `plots.figure` of the comparison."""
        from ..._base.late import public

        return public("plots").figure(self)

    def __str__(self) -> str:
        parts = []
        for model in dict.fromkeys(cell.model for cell in self.cells):
            rows = [row for row in self.table if row["model"] == model]
            parts += [_listed(model, rows)] if len(self) <= MOST_ROWS else _crossed(model, rows)
            parts += _ranked(rows)
            parts += [_reasons(rows)] if any(row["skipped"] for row in rows) else []
        return "\n\n".join([*parts, LEGEND])


def _listed(model: str, rows: list[Row]) -> str:
    """Return all cells of a machine as lines of text."""
    lines = [list(TITLES.values()), *([_text(row[name]) for name in TITLES] for row in rows)]
    return f"{_head(model, rows)}\n{align(lines)}"


def _crossed(model: str, rows: list[Row]) -> list[str]:
    """Return one table for each number of rows: rules down, temperatures across, over all seeds."""
    measure, title = _measure(rows)
    betas = sorted({row["beta"] for row in rows})
    averages = {(r["n_rows"], r["beta"], r["rule"]): r for r in summarise(rows, ("n_rows", "beta", "rule"))}
    whole = {(r["n_rows"], r["rule"]): r for r in summarise(rows, ("n_rows", "rule"))}
    parts = []
    for n_rows in sorted({row["n_rows"] for row in rows}):
        for first in range(0, len(betas), MOST_COLUMNS):
            across = betas[first : first + MOST_COLUMNS]
            lines = [["beta", *(f"{beta:g}" for beta in across), "s", "failed"]]
            for rule in dict.fromkeys(row["rule"] for row in rows):
                cells = [averages.get((n_rows, beta, rule), {}).get(measure) for beta in across]
                of_all = whole.get((n_rows, rule), {"seconds": None, "skipped": 0})
                lines.append([*map(_text, (rule, *cells, of_all["seconds"])), str(of_all["skipped"] or "-")])
            parts.append(f"{_head(model, rows)}, {n_rows} rows: {title}\n{align(lines)}")
    return parts


def _measure(rows: list[Row]) -> tuple[str, str]:
    """Return the column by which rules are compared, and its name in text."""
    if all(row["gamma"] is None for row in rows):
        return "likelihood_off", "held-out log-likelihood less the planted one's"
    return "gamma", "error of couplings (gamma)"


def _ranked(rows: list[Row]) -> list[str]:
    message = rank(rows, _measure(rows)[0])
    return [textwrap.fill(message, WIDTH, subsequent_indent="  ")] if message else []


def _head(model: str, rows: list[Row]) -> str:
    """Return the name of a machine, and how its rows were drawn where that was not exact."""
    samplers = sorted({str(row["rows_by"]) for row in rows} - {"exact"})
    return model + (f" (rows by {', '.join(samplers)})" if samplers else "")


def _reasons(rows: list[Row]) -> str:
    """Return why cells lack something: each reason once for each rule, with the cells that it holds for."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["skipped"]:
            text = f"{row['rule']}: {row['skipped']}"
            found.setdefault(text, []).append(f"beta = {row['beta']:g}, {row['n_rows']} rows")
    lines = [
        f"{text} ({places[0]}{f' and {len(places) - 1} more' if len(places) > 1 else ''})"
        for text, places in found.items()
    ]
    return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2g}"
    return short(str(value))


def short(label: str) -> str:
    """Return a label cut to the width of a column."""
    return label if len(label) <= LABEL_WIDTH else f"{label[: LABEL_WIDTH - 2]}.."
