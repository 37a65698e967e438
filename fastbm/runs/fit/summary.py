"""The summary of a run of `fit`: settings, progress, results, and whether to trust them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...learning.monitor.chains import R_HAT_OF_CHAINS
from ...learning.monitor.looks import MOST_ROWS
from .learned import Learned
from .verdict import last_r_hat, statistic_of, verdict_of


def summarise_fit(run: Learned) -> dict[str, Any]:
    """Return the entries of the summary of a run of `fit`, by name."""
    settings = run.config["fit"]
    phases = f"clamped {settings['clamped']}, free {settings['free']}, {settings['optimizer']}"
    if settings["free"] == "none":
        phases = "a formula" if settings["optimizer"] == "none" else f"convex, {settings['optimizer']}"
    found: dict[str, Any] = {
        "model": repr(run.model)[1:-1],
        "method": f"{settings['method']} ({phases})",
        "rows": _rows(run.config["data"]),
    }
    steps = run.metrics["step"]
    if len(steps):
        found["epochs"] = f"{int(steps[-1]) + 1} of {settings['epochs']}"
        for name in run.metrics:
            if name not in ("step", *run.evaluation) and not np.isnan(run.metrics[name][-1]):
                found[_label(name, run.config["data"])] = float(run.metrics[name][-1])
        found |= _verdict(run) | _ais(run)
    evaluation = {name: float(values[-1]) for name, values in run.evaluation.items() if len(values)}
    if "log_z" in evaluation:
        found["log Z"] = (evaluation["log_z"], evaluation["log_z_error"])
    names = {
        "log_likelihood": "log-likelihood, nats a row",
        "holdout_log_likelihood": "log-likelihood, held out",
        "log_likelihood_bound": "log-likelihood, lower bound",
        "holdout_log_likelihood_bound": "log-likelihood, held out, lower bound",
        "classifier_error": "error of one machine a class",
    }
    found |= {label: evaluation[name] for name, label in names.items() if name in evaluation}
    found |= _bracket(evaluation)
    found |= _errors(run) | _fidelity(run)
    return found


def _label(name: str, data: dict[str, Any]) -> str:
    """Return the label of a metric, which says of how many rows it is where these are not all."""
    label, n_rows = name.replace("_", "-"), data["n_holdout" if name.startswith("holdout") else "n_rows"]
    some = name.endswith("pseudo_likelihood") and n_rows is not None and n_rows > MOST_ROWS
    return f"{label}, of {MOST_ROWS} rows" if some else label


def _verdict(run: Learned) -> dict[str, Any]:
    """Return whether learning diverged, whether chains mix, and how far moments are from the data's.

    That chains mix is left out where learning diverged, since it would suggest that all is well.
    """
    verdict, found = verdict_of(run), _mixing(run)
    if verdict is not None and verdict.diverged:
        last, best, independent = verdict.likelihoods
        text, label = f"{last:.6g} nats a row (independent {independent:.6g})", "worse than independent units"
        if last < best:
            label = "diverged"
            text = f"to {last:.6g} nats a row (best {best:.6g}, which is kept; independent {independent:.6g})"
        return {label: text} | {name: said for name, said in found.items() if not said.startswith("mix")}
    if verdict is not None and verdict.idle:
        found["hidden units"] = "do nothing: rows are no likelier than units on their own have them"
    if verdict is not None and verdict.statistic >= 0:
        found["worst moment"] = f"{verdict.largest_z:.3g} times its noise off, {statistic_of(run, verdict)}"
    return found


def _mixing(run: Learned) -> dict[str, Any]:
    """Return whether free chains mixed when R-hat was last computed."""
    found = last_r_hat(run)
    if found is None:
        return {}
    verdict = "mix" if found.r_hat <= R_HAT_OF_CHAINS else f"do not mix (r_hat = {found.r_hat:.3g})"
    return {"free chains": f"{verdict}, epoch {found.epoch}"}


def _ais(run: Learned) -> dict[str, Any]:
    """Return the last likelihood by annealed importance sampling."""
    last = {name: values[-1] for name, values in run.likelihood.items() if len(values)}
    error = last.get("log_z_error")
    labels = {
        "log_likelihood": "log-likelihood by ais",
        "holdout_log_likelihood": "log-likelihood by ais, held out",
        "log_likelihood_bound": "log-likelihood by ais, lower bound",
        "holdout_log_likelihood_bound": "log-likelihood by ais, held out, lower bound",
    }
    return {
        f"{label}, epoch {last['epoch'] + 1}": (float(last[name]), float(error))
        for name, label in labels.items()
        if error is not None and name in last
    }


def _bracket(evaluation: dict[str, float]) -> dict[str, Any]:
    """Return both bounds of log Z and of likelihoods, where annealing ran both ways; by noise they may cross."""
    found = {}
    for label, lower, upper in (
        ("log Z, bracket", "log_z_lower", "log_z_upper"),
        ("log-likelihood, bracket", "log_likelihood_lower", "log_likelihood_upper"),
        ("log-likelihood, held out, bracket", "holdout_log_likelihood_lower", "holdout_log_likelihood_upper"),
        ("lower bound, bracket", "log_likelihood_bound_lower", "log_likelihood_bound_upper"),
        (
            "lower bound, held out, bracket",
            "holdout_log_likelihood_bound_lower",
            "holdout_log_likelihood_bound_upper",
        ),
    ):
        if lower in evaluation:
            ends = sorted((evaluation[lower], evaluation[upper]))
            found[label] = f"{ends[0]:.6g} to {ends[1]:.6g}"
    if found and not evaluation["upper_holds"]:
        found = {label: f"{text}, if chains had converged" for label, text in found.items()}
    return found


def _rows(data: dict[str, Any]) -> str:
    if data["n_rows"] is None:
        return "exact moments"
    missing = f", {100 * data['missing']:.1f} % of entries missing" if "missing" in data else ""
    return f"{data['n_rows']}, held out {data['n_holdout']}{missing}"


def _errors(run: Learned) -> dict[str, Any]:
    """Return the median of the couplings' errors, and how many couplings the data leave undetermined."""
    arrays = [values[-1] for name, values in run.errors.items() if name != "bias" and len(values)]
    if not arrays:
        return {}
    symmetric = len(arrays) == 1 and not run.model.is_layered and arrays[0].ndim == 2
    sizes = arrays[0][np.triu_indices(len(arrays[0]), 1)] if symmetric else np.concatenate([a.ravel() for a in arrays])
    if not sizes.size:  # of one unit
        return {}
    found: dict[str, Any] = {"standard error of couplings, median": float(np.median(sizes))}
    unknown = int(np.isinf(sizes).sum())
    return found | ({"couplings that the data leave open": unknown} if unknown else {})


def _fidelity(run: Learned) -> dict[str, Any]:
    """Return the largest deviations of the machine's moments from the data's, in standard errors."""
    if (found := run.fidelity) is None:
        return {}
    names = {"means": found.mean, "covariances": found.covariance, "triples": found.triple}
    largest: dict[str, Any] = {f"largest |z| of {name}": one.largest_z for name, one in names.items()}
    noise = f"{found.population_divergence_noise:.2g} of it to be expected of noise"
    return largest | {"divergence of population counts": f"{found.population_divergence:.6g} nats, {noise}"}
