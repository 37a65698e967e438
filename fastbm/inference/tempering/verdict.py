"""The verdict on a tempering: whether it has converged, judged by what its answer needs.

log Z and energies need levels that overlap, replicas that go round the ladder, and ladders that agree within error bars
from their own spread. They do not need that every ladder has seen all valleys of equal energy: with 8 independent
ladders or more the error bars of the units' means come from the ladders' spread too, and know of that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import diagnostics
from ...diagnostics.autocorrelation import MANY_CHAINS
from ...machine.machine import BoltzmannMachine
from ...sampling.valleys import is_even
from ..target_moments import OfUnits
from ..verdict import Verdict
from .levels import Told
from .log_ratios import LogRatios

HEALTHY_OVERLAP = 10.0  # effective samples that two neighbours must share
COARSEST = 0.5  # nats by which rules of integration may differ for their difference to tell the error
LOOSE = 1.1  # R-hat of energies at which a ladder is worth five samples or so: its spread is an error bar all the same
FEW = 1.2  # R-hat of units of few blocks, which differ by chance


def judge_ladders(
    model: BoltzmannMachine,
    shape: tuple[int, int, int],
    told: Told,
    r_hat: float,
    units: OfUnits | None,
    round_trips: np.ndarray,
    *,
    based: bool = False,
) -> Verdict:
    """Judge energies of that shape, (n_samples, n_ladders, n_betas), and what was told of all levels.

    `r_hat` is the largest of the energies, `units` tell how often units are up at the target. None where there is one
    ladder, or too few samples to compare. `based` says that ladders lead to a product model, which may know one valley
    alone: they have to mix.
    """
    n_samples, n_ladders, n_betas = shape
    seen: dict[str, Any] = {"r_hat": r_hat} if units is None else {"r_hat": r_hat, "r_hat_units": units.r_hat}
    reason = _disagreement(model, seen, n_ladders, LOOSE if n_ladders >= MANY_CHAINS and not based else None)
    if not reason and n_samples * n_ladders > 1:
        reason = _gap(told.ratios, n_samples * n_ladders / (2.0 * told.tau))
    if not reason and told.drifts:
        reason = "the first half of the samples differs from the second"
    if not reason and n_betas > 1 and n_samples >= 4 and round_trips.sum() < n_ladders:
        reason = (
            f"replicas went from the target to the first level and back {round_trips.sum()} times, less than once a "
            "ladder"
        )
    if reason:
        return Verdict(False, reason, seen)
    if n_ladders == 1:
        return Verdict(None, "one ladder has none to disagree with: pass n_chains of 8 or more", seen)
    if n_samples < 4:
        return Verdict(None, f"{n_samples} samples of each ladder are too few to compare: raise n_sweeps", seen)
    return Verdict(True, "", seen)


def _disagreement(model: BoltzmannMachine, seen: dict[str, Any], n_ladders: int, most: float | None) -> str:
    """Return how ladders differ beyond their error bars, where R-hat of what swaps them is above `most`; else empty."""
    watched = [(seen["r_hat"], diagnostics.R_HAT_LIMIT if most is None else most)]
    if 1 < n_ladders < MANY_CHAINS and "r_hat_units" in seen and not is_even(model, 1.0):
        watched.append((seen["r_hat_units"], FEW))
    for r_hat, limit in watched:
        if r_hat > limit:
            return f"r_hat = {r_hat:.3g} (above {limit}); the ladders disagree and the error bars are too small"
    return ""


def _gap(ratios: LogRatios, ess: np.ndarray) -> str:
    """Return where levels are too far apart for log Z, given the effective samples (n_betas,) of every one."""
    shared = float((ratios.overlap * np.minimum(ess[1:], ess[:-1])).min(initial=math.inf))
    coarse = ratios.detail.get("discretisation_error", 0.0)
    if shared < HEALTHY_OVERLAP:
        return f"two neighbouring levels share {shared:.2g} effective samples, too few for the error bar of log Z"
    if coarse > COARSEST:
        return (
            f"the temperatures are too far apart to integrate over, two rules differ by {coarse:.2g} nats; "
            'engine="bennett" needs no such rule'
        )
    return ""
