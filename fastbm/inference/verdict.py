"""Whether an estimate of log Z may say that it has converged: where something that could have contradicted has not.

Chains that never left their valley look healthy: their weights are even, and another base that leads to the same valley
agrees. What tells them from the truth is a bound that holds for certain, a base that finds more, and walks down from
states of an independent tempering (for them, too, Jarzynski's equality holds only if walks up can end where they
began).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from .._base import checks
from .ais.weights import HEALTHY_ESS, Average
from .result import Inference
from .scout.scout import Scout

BARS = 3.0  # by which two independent estimates may differ
ROUNDING = 1e-12  # of log Z
SLACK = 0.05  # nats that nobody quarrels over
ANSWERS = 'infer(model, "auto")'  # what finds an answer where one can be had
UNASKED = "nothing stood witness: witness=False"
TOO_SHORT = f"the call was too short for an independent tempering to stand witness; run longer, or take {ANSWERS}"


@dataclass(frozen=True)
class Verdict:
    """`converged`, None where nothing could have contradicted; why, and what was seen, for `detail["witness"]`."""

    converged: bool | None
    reason: str = ""
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def told(self) -> dict[str, Any]:
        """For `detail`."""
        return {"witness": self.seen} | ({"doubt": self.reason} if self.reason else {})


def apart(gap: float, *errors: float | None) -> bool:
    """Whether a gap is more than errors explain."""
    return gap > BARS * math.hypot(*(error or 0.0 for error in errors)) + SLACK


def below_bound(log_z: float, error: float | None, found: Scout) -> str:
    """What is wrong with an estimate that a rigorous bound exceeds; empty where nothing is."""
    if not apart(found.bound - log_z - ROUNDING * abs(log_z), error):
        return ""
    return (
        f"log Z lies {found.bound - log_z:.3g} nats below a bound that holds for certain ({found.bound_by}): chains "
        "have not been where most of the weight is"
    )


def of_walks(
    up: Average | None, down: Average | None, own: Average, found: Scout | None, rival: tuple[str, float] | None
) -> Verdict:
    """Judge walks by those in the other direction, from states that are not their own, by a scout's bound, and by the
    lower confidence end of the best base that was tried, `rival` (its name, log Z). `own` is the one that is judged.
    """
    log_z = own.log_mean if own is up else -own.log_mean
    reason = ""
    if found is not None:
        reason = below_bound(log_z, own.error, found)
    if not reason and rival is not None and apart(rival[1] - log_z, own.error):
        reason = f'start="{rival[0]}" finds {rival[1] - log_z:.3g} nats more, its error bar allowed for'
    if not reason and up is not None and down is not None:
        reason = _crossed(up, down, down if own is up else up)
    seen = _seen(up, down, own, found)
    if reason:
        return Verdict(False, reason, seen)
    if up is None or down is None:
        return Verdict(None, TOO_SHORT, seen)
    if min(up.ess, down.ess) < HEALTHY_ESS:
        return Verdict(None, f"so few walks cannot tell; pass n_chains of {2 * HEALTHY_ESS:.0f} or more", seen)
    return Verdict(True, "", seen)


def _seen(up: Average | None, down: Average | None, own: Average, found: Scout | None) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    if found is not None:
        seen |= {"log_z_bound": found.bound, "bound_by": found.bound_by, "round_trips": found.round_trips}
    if own is up and down is not None:
        seen |= {"log_z_down": -down.log_mean, "log_z_down_error": down.error, "ess_down": down.ess}
    if own is down and up is not None:
        seen |= {"log_z_up": up.log_mean, "log_z_up_error": up.error, "ess_up": up.ess}
    return seen


def _crossed(up: Average, down: Average, other: Average) -> str:
    """What walks up and down disagree about; `other` are those that stand witness."""
    way, where = ("down", "states of a tempering") if other is down else ("up", "the product model")
    if not other.healthy:
        return f"of the walks {way} from {where} that stand witness {other.ess:.1f} of {len(other.weights)} count"
    gap = -down.log_mean - up.log_mean
    if apart(gap, up.error, down.error) or apart(-gap, up.error, down.error):
        return f"walks up and walks down from independent states end {abs(gap):.3g} nats apart"
    return ""


def judged(found: Inference, verdict: Verdict, way_out: str) -> Inference:
    """Give a result its verdict, what was seen to `detail`; warn where it has not converged."""
    if verdict.converged is False:
        checks.warn(
            f"{found.method} has not converged: {verdict.reason}. Its error bars are not to be trusted. {way_out}."
        )
    doubt = {"doubt": verdict.reason} if verdict.reason else {}
    return replace(found, converged=verdict.converged, detail={**found.detail, **verdict.seen, **doubt})
