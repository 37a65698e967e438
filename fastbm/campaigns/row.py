"""One row of numbers for a finished run: what a campaign keeps of each of its cells."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .._base.checks import ConvergenceWarning
from ..inference.comparison import Comparison
from ..inference.result import Inference
from ..learning.planted.comparison import RuleComparison
from ..runs.fit.run import FitRun
from ..runs.infer.run import CompareRun, InferRun
from ..runs.planted.run import RulesRun
from ..runs.sample.run import SampleRun
from . import physics

Row = dict[str, float | int | bool | str | None]

AT = "@"  # a column of one temperature or one method: NAME@LABEL
# held-out figures in nats a row, the best that is known first
HELD_OUT = (
    "holdout_log_likelihood",
    "holdout_log_likelihood_bound",
    "holdout_pseudo_likelihood",
)
OF_METHODS = ("log_z", "log_z_error", "log_z_off", "z", "mean_off", "covariance_off", "bounds_kept", "converged")
OF_RULES = ("gamma", "coupling_off", "bias_off", "mean_off", "pair_off", "likelihood_off", "converged")


def columns_of(run: Any) -> Row:
    """Return a finished run as one flat row.

    Parameters
    ----------
    run : Run, Inference, Comparison or RuleComparison
        What `sample`, `fit`, `infer`, `compare` or `compare_rules` returned.

    Returns
    -------
    dict of str to number, bool, text or None
        None where something is not known. Columns of one temperature among several are called "NAME@BETA", of one
        method or rule "NAME@METHOD". Every row has "converged" (None where nothing decides it) and "doubt", why not.
        They depend on the run's numbers alone: what it took in time is not among them.

    Notes
    -----
    Of `sample`, energies are those of a unit: "energy", "energy_square" (of the energy of a unit), "specific_heat";
    of magnetisations m "magnetisation", "abs_magnetisation", "m2", "m4", "susceptibility", "binder_cumulant"; of
    overlaps q, where they were recorded, "abs_overlap", "q2", "q4", "spin_glass_susceptibility" and
    "overlap_binder_cumulant"; other observables by their names; each with "_error". "r_hat" is the worst and "ess" the
    least of all quantities. Of a ladder they are those of its target; means at all its temperatures are beside them.
    Of a machine that is not even these hold "magnetisation", and lengths in a field ("xi_over_length"), which
    averages leave out.
    Of samples at logarithmic times they are means over chains at the last one, "time"; "correlation" is that with the
    first sample. In random and permuted order errors of these are None: the scatter between cells with seeds of their
    own, which averages tell, holds what all chains of a run share.
    """
    found: Row
    if isinstance(run, SampleRun):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # an error that is not known is None
            found = physics.columns_of_sample(run) | _verdict(run)
    elif isinstance(run, FitRun):
        found = _of_fit(run) | _verdict(run)
    elif isinstance(run, InferRun):
        found = _of_result(run.inference)
    elif isinstance(run, Inference):
        found = _of_result(run)
    elif isinstance(run, (CompareRun, Comparison)):
        found = _of_methods(run.comparison if isinstance(run, CompareRun) else run)
    elif isinstance(run, (RulesRun, RuleComparison)):
        found = _of_rules(run.rules if isinstance(run, RulesRun) else run)
    else:
        raise TypeError(f"columns_of takes runs and their results; got {type(run).__name__}.")
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> float | int | bool | str | None:
    """Return a value as Python's own; None for what is not a number."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value


def _verdict(run: Any) -> Row:
    return {"converged": run.converged, "doubt": run.doubt or None}


def _of_fit(run: FitRun) -> Row:
    """Return the last of all that was measured, what was looked at in the end before what was on the way."""
    found: Row = {}
    for group in (run.metrics, run.likelihood, run.evaluation):
        found |= {name: float(values[-1]) for name, values in group.items() if len(values) and values.ndim == 1}
    found["epochs"] = int(found.pop("step", -1) or 0) + 1
    found.pop("epoch", None)
    by = next((name for name in HELD_OUT if name in found), None)
    return {"holdout": None if by is None else found[by], "holdout_by": by} | found


def _of_result(result: Inference) -> Row:
    names = ("log_z", "log_z_error", "energy", "energy_error", "energy_variance", "entropy", "n_samples", "ess")
    found: Row = {name: value for name in names if not np.ndim(value := getattr(result, name))}
    found |= {name: result.detail.get(name) for name in ("log_z_corrected", "log_z_corrected_error")}
    found |= {"bound": result.bound, "method": result.method, "converged": result.converged}
    return {name: value for name, value in found.items() if value is not None or name == "converged"} | {
        "doubt": result.detail.get("doubt") or result.detail.get("skipped")
    }


def _of_methods(found: Comparison) -> Row:
    """Return averages over the machines, temperatures and seeds of a comparison, for each method."""
    rows = {row["method"]: dict(row) for row in found.summary(by=("method",))}
    if len(found) == len(rows):  # one result each, of which log Z itself is worth telling
        for row in found.table:
            rows[row["method"]] |= {name: row[name] for name in ("log_z", "log_z_error")}
    return _beside(rows, OF_METHODS) | _all(cell.result.converged for cell in found.cells)


def _of_rules(found: RuleComparison) -> Row:
    rows = {row["rule"]: row for row in found.summary(by=("rule",))}
    return _beside(rows, OF_RULES) | _all(cell.converged for cell in found.cells)


def _beside(rows: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> Row:
    return {f"{name}{AT}{label}": row[name] for label, row in rows.items() for name in names if name in row}


def _all(verdicts: Iterable[bool | None]) -> Row:
    told = list(verdicts)
    bad = sum(one is not True for one in told)
    converged = False if False in told else (None if None in told else True)
    return {"converged": converged, "doubt": f"{bad} of {len(told)} results have not converged" if bad else None}
