"""Whether an estimate of log Z may say that it has converged: where something that could have contradicted has not.

Chains that never left their valley look healthy: their weights are even, and another base that leads to the same valley
agrees. What tells them from the truth is a bound that holds for certain, a base that finds more, and walks down from
states of an independent tempering (for them, too, Jarzynski's equality holds only if walks up can end where they
began).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from .._base import checks
from .result import Inference
from .scout.scout import Scout

BARS = 3.0  # by which two independent estimates may differ
ROUNDING = 1e-12  # of log Z
SLACK = 0.05  # nats that nobody quarrels over
_OF_AUTO: ContextVar[bool] = ContextVar("of_auto", default=False)
UNASKED = "nothing stood witness: witness=False"


@contextmanager
def chosen_by_auto(chosen: bool = True) -> Iterator[None]:
    """While "auto" runs the method that it chose, nobody is sent to "auto"."""
    token = _OF_AUTO.set(chosen)
    try:
        yield
    finally:
        _OF_AUTO.reset(token)


def way_out(longer: str) -> str:
    """Say what to do about a doubt: `longer`, or what finds an answer where one can be had."""
    if _OF_AUTO.get():
        return "pass a larger budget, or name the method and pass it more chains"
    return f'{longer}, or take infer(model, "auto")'


def too_short() -> str:
    """Why nothing stood witness, though it was asked."""
    return f"the call was too short for an independent tempering to stand witness; {way_out('run longer')}"


@dataclass(frozen=True)
class Verdict:
    """`converged`, None where nothing could have contradicted; why, and what was seen, for `detail["witness"]`."""

    converged: bool | None
    reason: str = ""
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def told(self) -> dict[str, Any]:
        """The verdict as plain values, for `Inference.detail`."""
        return {"witness": self.seen} | ({"doubt": self.reason} if self.reason else {})


def apart(gap: float, *errors: float | None) -> bool:
    """Whether a gap is more than errors explain."""
    return gap > BARS * math.hypot(*(error or 0.0 for error in errors)) + SLACK


def below_bound(log_z: float, error: float | None, found: Scout) -> str:
    """Say what is wrong with an estimate that a rigorous bound exceeds; empty where nothing is."""
    if not apart(found.bound - log_z - ROUNDING * abs(log_z), error):
        return ""
    return (
        f"log Z lies {found.bound - log_z:.3g} nats below a bound that holds for certain ({found.bound_by}): chains "
        "have not been where most of the weight is"
    )


def judged(found: Inference, verdict: Verdict, way_out: str) -> Inference:
    """Give a result its verdict, what was seen to `detail`; warn where it has not converged."""
    if verdict.converged is False:
        checks.warn(
            f"{found.method} has not converged: {verdict.reason}. Its error bars are not to be trusted. {way_out}."
        )
    doubt = {"doubt": verdict.reason} if verdict.reason else {}
    return replace(found, converged=verdict.converged, detail={**found.detail, **verdict.seen, **doubt})
