"""Verdicts on estimates of log Z: converged only where something that could have contradicted them has not.

Chains that never left their valley look healthy: their weights are even, and another base that leads to the same valley
agrees. What tells them from the truth is a bound that holds for certain, a base that finds more, and walks down from
states of an independent tempering (for them, too, Jarzynski's equality holds only if walks up can end where they
began).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._base import checks
from .result import Inference
from .scout.bounds import OtherSide
from .scout.scout import Scout

BARS = 3.0  # by which two independent estimates may differ
ROUNDING = 1e-12  # of log Z
MOST_NATS = 100.0  # that are told, of what is missed
SLACK = 0.05  # nats by which estimates that are not bounds may differ besides
_OF_AUTO: ContextVar[bool] = ContextVar("of_auto", default=False)
UNASKED = "nothing stood witness: witness=False"


@contextmanager
def chosen_by_auto(chosen: bool = True) -> Iterator[None]:
    """Keep methods that "auto" chose from advising "auto" in their warnings, in the body."""
    token = _OF_AUTO.set(chosen)
    try:
        yield
    finally:
        _OF_AUTO.reset(token)


def way_out(longer: str) -> str:
    """Return the advice on a doubt: `longer`, or a method that finds an answer where there is one."""
    if _OF_AUTO.get():
        return "pass a larger budget, or name the method and pass it more chains"
    return f'{longer}, or take infer(model, "auto")'


def too_short() -> str:
    """Return why nothing checked an estimate, though that was asked for."""
    return f"the call was too short for an independent tempering to stand witness; {way_out('run longer')}"


@dataclass(frozen=True)
class Verdict:
    """The verdict on an estimate: whether it converged, why, and what was seen, for `detail["witness"]`.

    `converged` is None where nothing could have contradicted it.
    """

    converged: bool | None
    reason: str = ""
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """The verdict as plain values, for `Inference.detail`."""
        return {"witness": self.seen} | ({"doubt": self.reason} if self.reason else {})


def apart(gap: float, *errors: float | None) -> bool:
    """Return whether a gap is more than errors explain."""
    return gap > BARS * math.hypot(*(error or 0.0 for error in errors)) + SLACK


def below_bound(log_z: float, error: float | None, found: Scout) -> str:
    """Return how a rigorous bound contradicts an estimate, as text; empty where it does not."""
    if found.bound - log_z <= BARS * (error or 0.0) + ROUNDING * abs(log_z):
        return ""
    return (
        f"log Z lies {found.bound - log_z:.3g} nats below a bound that holds for certain ({found.bound_by}): chains "
        "have not been where most of the weight is"
    )


def missed_side(sides: Iterable[OtherSide], log_z: float, error: float, p: np.ndarray, p_error: np.ndarray) -> str:
    """Return how a bound on a half of Z contradicts how often an estimate met it, as text; empty where it does not.

    Parameters
    ----------
    log_z, error : float
        Of all that the estimate counts, or an upper end without an error.
    p, p_error : (n_units,) arrays
        How often units are up by the same estimate.
    """
    for unit, is_up, bound in sides:
        part = math.exp(min(bound - log_z, MOST_NATS))
        met = float(p[unit] if is_up else 1.0 - p[unit])
        if math.log1p(max(part - met, 0.0)) > BARS * math.hypot(error, p_error[unit]):
            where = "up" if is_up else "down"
            return (
                f"states with unit {unit} {where} weigh at least {part:.2g} of all that it counts (by mean field, for "
                f"certain), and that unit is {where} in {met:.2g} of it: chains have been there too seldom"
            )
    return ""


def judged(found: Inference, verdict: Verdict, way_out: str) -> Inference:
    """Add its verdict to a result, and what was seen to `detail`; warn where it has not converged."""
    if verdict.converged is False:
        checks.warn(
            f"{found.method} has not converged: {verdict.reason}. Its error bars are not to be trusted. {way_out}."
        )
    doubt = {"doubt": verdict.reason} if verdict.reason else {}
    return replace(found, converged=verdict.converged, detail={**found.detail, **verdict.seen, **doubt})
