"""Whether an estimate of log Z may say that it has converged: only where something that could have contradicted has not.

Chains that never left their valley look healthy: their weights are even, and another base that leads to the same valley
agrees. What tells them from the truth is a bound that holds for certain, a base that finds more, and walks down from
states of an independent tempering (for them, too, Jarzynski's equality holds only if walks up can end where they
began).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from .annealed_weights import HEALTHY_ESS, Average
from .scouting import Scout

BARS = 3.0  # by which two independent estimates may differ
SLACK = 0.05  # nats that nobody quarrels over


@dataclass(frozen=True)
class Verdict:
    """`converged`, None where nothing could have contradicted; why, and what was seen, for `detail["witness"]`."""

    converged: bool | None
    reason: str = ""
    seen: dict[str, Any] = field(default_factory=dict)


def apart(gap: float, *errors: float | None) -> bool:
    """Whether a gap is more than errors explain."""
    return gap > BARS * math.hypot(*(error or 0.0 for error in errors)) + SLACK


def below_bound(log_z: float, error: float | None, found: Scout) -> str:
    """What is wrong with an estimate that a rigorous bound exceeds; empty where nothing is."""
    if not apart(found.bound - log_z, error):
        return ""
    return (
        f"log Z lies {found.bound - log_z:.3g} nats below a bound that holds for certain ({found.bound_by}): the chains "
        "never saw where most of the weight is"
    )


def of_walks(up: Average, down: Average | None, found: Scout | None, rival: tuple[str, float] | None) -> Verdict:
    """Judge walks up by walks `down` from states that are not their own, by a scout's bound, and by the lower
    confidence end of the best other base, `rival` (its name, log Z).
    """
    seen: dict[str, Any] = {}
    if found is not None:
        seen |= {"log_z_bound": found.bound, "bound_by": found.bound_by, "round_trips": found.round_trips}
    if down is not None:
        seen |= {"log_z_down": -down.log_mean, "log_z_down_error": down.error, "ess_down": down.ess}
    reason = ""
    if found is not None:
        reason = below_bound(up.log_mean, up.error, found)
    if not reason and rival is not None and apart(rival[1] - up.log_mean, up.error):
        reason = f'start="{rival[0]}" finds {rival[1] - up.log_mean:.3g} nats more, its error bar allowed for'
    if not reason and down is not None:
        reason = _crossed(up, down)
    if reason:
        return Verdict(False, reason, seen)
    return Verdict(True if down is not None else None, "" if down is not None else "no witness", seen)


def _crossed(up: Average, down: Average) -> str:
    """What walks up and down disagree about."""
    if down.ess < min(HEALTHY_ESS, 0.9 * len(down.weights)) or down.error is None:
        return f"of the walks down from other states {down.ess:.1f} of {len(down.weights)} carry the average"
    gap = -down.log_mean - up.log_mean
    if apart(abs(gap), up.error, down.error):
        return f"walks down from states of a tempering end {abs(gap):.3g} nats {'above' if gap > 0 else 'below'}"
    return ""
