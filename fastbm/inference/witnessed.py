"""What stands witness to estimates that no walk along a path judges: bounds on log Z that hold for certain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .. import _checks, rng
from ..model import BoltzmannMachine
from .result import Inference
from .scouting import attempt_seconds, scout
from .verdict import Verdict, below_bound

PART = 0.35  # of the time of the estimate that the witness takes
SCOUT = 3  # what its seed is derived by
UNASKED = Verdict(None, "no witness was asked for")


def contradicted(
    model: BoltzmannMachine, beta: float, log_z: float, error: float | None, n_sweeps: float, seed: int, threads: int
) -> Verdict:
    """Hold an estimate against the bounds of a scout, for a part of the time that `n_sweeps` of one chain take."""
    seconds = PART * n_sweeps * model.n_units * attempt_seconds(model)
    found = scout(model, beta, seconds, rng.derive(seed, SCOUT), threads)
    reason = below_bound(log_z, error, found)
    seen: dict[str, Any] = {"log_z_bound": found.bound, "bound_by": found.bound_by}
    return Verdict(not reason, reason, seen | ({"contradiction": reason} if reason else {}))


def judged(found: Inference, verdict: Verdict, about: Mapping[str, Any], way_out: str) -> Inference:
    """Give a result its verdict, and more for `detail`; warn where it has not converged."""
    if verdict.converged is False:
        _checks.warn(
            f"{found.method} has not converged: {verdict.reason}. Its error bars are not to be trusted. {way_out}."
        )
    doubt = {"doubt": verdict.reason} if verdict.converged is None else {}
    return replace(found, converged=verdict.converged, detail={**found.detail, **about, **doubt})
