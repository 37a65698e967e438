"""Errors of couplings that are learned from samples, against temperature.

Nguyen, Zecchina and Berg, Adv. Phys. 66, 197 (2017), doi:10.1080/00018732.2017.1341604, section III: at high
temperature all rules are as good as the exact one, whose error is the noise of the samples; mean field and TAP fail
towards the glass, while pseudo-likelihood stays close to the maximum of the likelihood.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..._base.checks import ConvergenceWarning
from ...machine.machine import BoltzmannMachine
from ...models import sherrington_kirkpatrick
from ...runs.fit.verb import fit
from ...runs.sample.verb import sample
from .found import Found

UNITS, ROWS, MACHINES = 12, 10_000, 8
NGUYEN = "Nguyen, Zecchina and Berg (2017), section III; exact: the Cramér-Rao bound"
EXPECTED = {  # ratio of the error to that of the maximum of the likelihood, by beta: published, and what it leaves open
    ("pseudolikelihood", 0.2): (1.0, 0.1),
    ("pseudolikelihood", 1.0): (1.0, 0.25),
    ("tap", 0.2): (1.0, 0.1),
    ("naive-mean-field", 0.2): (1.0, 0.3),
}
SHORT = {"pseudolikelihood": "pseudo-lik.", "naive-mean-field": "mean field"}
FAILING = ("naive-mean-field", "tap")


def errors(*, threads: int | None, data: Any, effort: float) -> list[Found]:
    """Return errors of rules over those of exact maximum likelihood, and these over the Cramér-Rao bound."""
    found = []
    machines = max(3, int(MACHINES * effort))
    for beta in (0.2, 1.0):
        table = [_of_machine(beta, seed, threads) for seed in range(machines)]
        bound = np.array([row["exact"] / row["bound"] for row in table])
        found.append(Found(f"exact / bound, beta = {beta}", float(bound.mean()), _error(bound), 1.0, 0.05, NGUYEN))
        for (rule, at), (ratio, tolerance) in EXPECTED.items():
            if at == beta:
                ours = np.array([row[rule] / row["exact"] for row in table])
                found.append(_row(rule, beta, ours, ratio, tolerance))
    for rule in FAILING:
        ours = np.array([row[rule] / row["exact"] for row in table])
        found.append(_row(rule, beta, ours, 2.0, 0.0, at_least=True))
    return found


def _row(
    rule: str, beta: float, ratios: np.ndarray, ratio: float, tolerance: float, *, at_least: bool = False
) -> Found:
    what = f"{SHORT.get(rule, rule)} / exact, beta = {beta}"
    return Found(what, float(ratios.mean()), _error(ratios), ratio, tolerance, NGUYEN, at_least)


def _of_machine(beta: float, seed: int, threads: int | None) -> dict[str, float]:
    """Return root mean square errors of the couplings by rule, and what the Fisher information allows."""
    glass = sherrington_kirkpatrick(UNITS, seed=seed)
    planted = BoltzmannMachine(beta * glass.weights)
    rows = sample(planted, "exact", n_chains=100, n_sweeps=ROWS // 100, seed=seed, threads=threads)
    states, upper = rows.states.reshape(-1, UNITS), np.triu_indices(UNITS, 1)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for rule in ("exact", "pseudolikelihood", *FAILING):
            more: dict[str, Any] = {"errors": "fisher"} if rule == "exact" else {}
            run = fit(states, rule, threads=threads, **more)
            off = run.model.weights[upper] - planted.weights[upper]
            found[rule] = float(np.sqrt(np.mean(off**2)))
            if more:
                found["bound"] = float(np.sqrt(np.mean(run.errors["weights"][-1][upper] ** 2)))
    return found


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))
