"""The verdict on walks up or down a path: whether they may claim to have converged."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..scout.scout import Scout
from ..verdict import Verdict, apart, below_bound, missed_side, too_short
from .weights import HEALTHY_ESS, Average

SELDOM_MET = 3.0  # samples: three bars are of a side that as many would lack once in e^9


def of_walks(
    up: Average | None, down: Average | None, own: Average, found: Scout | None,
    rival: tuple[str, float] | None, met: np.ndarray | None,
) -> Verdict:  # fmt: skip
    """Judge walks by those in the other direction, by a scout's bound and by the best rival.

    Those in the other direction start from states that are not their own; of the best base that was tried, `rival` (its
    name, log Z), the lower confidence end counts. `own` is the one that is judged; `met` are the states that walks up
    end at, (n_walks, n_units), or from some of which walks down begin, where they are known.
    """
    log_z = own.log_mean if own is up else -own.log_mean
    reason = ""
    if found is not None:
        reason = below_bound(log_z, own.error, found)
    if not reason and found is not None and met is not None:
        p = own.weights @ met if own is up else met.mean(axis=0)
        p_error = np.sqrt(p * (1.0 - p) / own.ess + (SELDOM_MET / own.ess) ** 2)
        reason = missed_side(found.other_sides, log_z, own.error or 0.0, p, p_error)
    if not reason and rival is not None and apart(rival[1] - log_z, own.error):
        reason = f'start="{rival[0]}" finds {rival[1] - log_z:.3g} nats more, its error bar allowed for'
    if not reason and up is not None and down is not None:
        reason = _crossed(up, down, down if own is up else up)
    seen = _seen(up, down, own, found)
    if reason:
        return Verdict(False, reason, seen)
    if up is None or down is None:
        return Verdict(None, too_short(), seen)
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
    """Return how walks up and down disagree, as text; `other` are those that check the estimate."""
    way, where = ("down", "states of a tempering") if other is down else ("up", "the product model")
    if not other.healthy:
        return f"of the walks {way} from {where} that stand witness {other.ess:.1f} of {len(other.weights)} count"
    gap = -down.log_mean - up.log_mean
    if apart(gap, up.error, down.error) or apart(-gap, up.error, down.error):
        return f"walks up and walks down from independent states end {abs(gap):.3g} nats apart"
    return ""
