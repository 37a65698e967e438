"""Independent checks of methods that judge themselves.

Ladders, populations and chains that agree with each other may all have missed the same part of the machine.

A scout looks independently: its bound holds for certain, and around its states log Z and the energy are estimated
once more, by importance sampling where one side of the machine is small, else by walks from its means and back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import entr

from .._base import checks, rng
from .._base.threads import fan_out
from ..diagnostics.verdicts import all_of
from ..machine.machine import BoltzmannMachine
from .ais.walk import WORTH_A_THREAD, Walk
from .ais.way import Way
from .ais.weights import Average, average
from .importance_sampling import averages, mix
from .result import Inference, claim
from .scout.bases import log_odds
from .scout.bit_tempering import ATTEMPT_SECONDS, STEP_SECONDS, WALKERS, goes_as_bits, walk_both_ways
from .scout.marginal import PAIR_SECONDS
from .scout.scout import FEWEST_WITNESSES, SCOUT, SCOUT_PART, Scout, attempt_seconds, scout
from .verdict import ROUNDING, Verdict, apart, below_bound, missed_side, too_short, way_out

MOST_KEPT = 25  # units of the smaller side up to which importance sampling around a scout's states answers
N_DRAWS = 4_000
PART_AS_BITS = 0.7  # of the time of chains as bits, many ladders of which take their rounds to go round
WALK_PART = 0.4  # of the method's own time, for walks both ways
TRAVELLED = 1 / 16  # round trips a ladder, from which a look around is sure
FEWEST_STEPS, MOST_STEPS = 50, 1_000
ENERGY_BARS = 5.0


class Witness:
    """What looks at a machine besides a method, whose work `detail` tells: each look is taken once.

    Attributes
    ----------
    as_bits : bool
        Whether its chains are bits.
    seconds : float
        Of the method, by the built-in speeds.
    """

    def __init__(
        self, model: BoltzmannMachine, detail: Mapping[str, Any], beta: float, seed: int, threads: int
    ) -> None:
        self.model, self.beta, self.seed, self._threads = model, beta, seed, threads
        self.as_bits = detail.get("kernel") == "multispin" and goes_as_bits(model)
        self.seconds = float(detail.get("n_updates", 0)) * (ATTEMPT_SECONDS if self.as_bits else attempt_seconds(model))

    @cached_property
    def seen(self) -> Scout:
        """What the scout has seen."""
        part, seed = PART_AS_BITS if self.as_bits else SCOUT_PART, rng.derive(self.seed, SCOUT)
        return scout(self.model, self.beta, part * self.seconds, seed, self._threads, as_bits=self.as_bits)

    def take(self, of_log_z: bool) -> None:
        """Take the looks that a result needs that converged."""
        if self.seen.up is not None and of_log_z and not self.mixes:
            _ = self.walked

    @property
    def mixes(self) -> bool:
        """Whether importance sampling around the scout's states answers."""
        return not self.as_bits and self.seen.kept is not None and self.seen.kept.shape[2] <= MOST_KEPT

    @cached_property
    def walked(self) -> tuple[Average, Average]:
        """Averages of the weights of walks from the scout's means, and back from its states."""
        walk = _walked_as_bits if self.as_bits else _walked
        return walk(self.model, self.seen, self.beta, self.seconds, self.seed, self._threads)


def examine(found: Inference, witness: Witness, threads: int) -> Inference:
    """Return the result of a sampling method with the verdict of an independent check.

    One that says itself that it cannot tell is held against the bound alone.
    """
    log_z, _ = claim(found)
    if found.converged is False or (found.converged is None and log_z is None):
        return found
    model, beta, seen = witness.model, witness.beta, witness.seen
    facts: dict[str, Any] = {"log_z_bound": seen.bound, "bound_by": seen.bound_by, "round_trips": seen.round_trips}
    reason = _beyond_bounds(model, found, beta, seen)
    sure: bool | None = None if seen.up is None else True
    if not reason and found.converged and seen.up is not None:
        if witness.mixes:
            reason, more, sure = _mixed(found, witness, threads)
        elif log_z is None:
            reason, more, sure = _energies_of_ladders(model, found, seen)
        else:
            reason, more, sure = _compared(model, found, seen, *witness.walked)
        facts |= more
    if reason:
        checks.warn(f"{found.method}: {reason}. Its error bar is not to be trusted: {way_out('run longer')}.")
    unsure = too_short() if seen.up is None else f"the look around was not sure itself; {way_out('run longer')}"
    verdict = Verdict(False if reason else sure, reason or ("" if sure else unsure), facts)
    detail = found.detail | verdict.facts if reason else verdict.facts | found.detail
    return replace(found, converged=all_of([found.converged, verdict.converged]), detail=detail)


def _beyond_bounds(model: BoltzmannMachine, found: Inference, beta: float, seen: Scout) -> str:
    """Return how bounds that hold for certain contradict a result."""
    units, (log_z, error) = model.convention, claim(found)
    reason = "" if log_z is None else below_bound(log_z, error, seen)
    if reason or found.mean is None:
        return reason
    p = np.clip((np.asarray(found.mean) - units.lo) / units.span, 0.0, 1.0)
    p_error = np.zeros_like(p) if found.mean_error is None else np.asarray(found.mean_error) / units.span
    if log_z is None:
        return "" if found.energy is None else _above_entropy(found, p, p_error, beta, seen)
    return missed_side(seen.other_sides, log_z, error or 0.0, p, p_error)


def _above_entropy(found: Inference, p: np.ndarray, p_error: np.ndarray, beta: float, seen: Scout) -> str:
    """Return how means and energy contradict a bound: log Z = S - beta E, and S is at most that of independent units.

    Cover and Thomas, Elements of Information Theory (2006), theorem 2.6.6.
    """
    assert found.energy is not None
    bar = ENERGY_BARS * p_error
    widest = np.clip(p + np.clip(0.5 - p, -bar, bar), 0.0, 1.0)
    entropy = float(np.sum(entr(widest) + entr(1.0 - widest)))
    most = entropy - beta * (found.energy - ENERGY_BARS * (found.energy_error or 0.0))
    if seen.bound <= most + ROUNDING * abs(most):
        return missed_side(seen.other_sides, most, 0.0, p, p_error)
    return (
        f"its means and energy allow a log Z of at most {most:.6g}, and {seen.bound:.6g} is a bound that holds for "
        f"certain ({seen.bound_by}): chains have not been where most of the weight is"
    )


def _mixed(found: Inference, witness: Witness, threads: int) -> tuple[str, dict[str, Any], bool | None]:
    """Compare with importance sampling around the scout's states."""
    seen = witness.seen
    assert seen.side is not None and seen.kept is not None
    mixture = mix(seen.side, seen.kept, N_DRAWS, rng.derive(witness.seed, SCOUT), threads)
    if mixture.doubt:
        return "", {"importance sampling": mixture.doubt}, None
    other = averages(witness.model, witness.beta, seen.side, mixture, False, threads)
    facts = {"log_z": mixture.all.log_mean, "log_z_error": mixture.all.error, "energy": other["energy"]}
    log_z, error = claim(found)
    gap = 0.0 if log_z is None else mixture.all.log_mean - log_z
    if apart(abs(gap), error, mixture.all.error):
        if gap < 0.0 and not _travelled(seen):  # it has been in fewer places
            return "", facts, None
        return f"importance sampling around the states of a tempering finds log Z {gap:+.3g} nats away", facts, True
    return _energies_apart(found, other["energy"], other["energy_error"]), facts, True


def _energies_apart(found: Inference, energy: float, error: float) -> str:
    """Return how the energy of a result without log Z differs from another estimate; empty where it does not."""
    if found.log_z is not None or found.energy is None:
        return ""
    gap = abs(found.energy - energy)
    spread = math.sqrt(found.energy_variance or 0.0)
    if gap > ENERGY_BARS * math.hypot(found.energy_error or 0.0, error) + 0.02 * spread:
        return f"an independent tempering finds an energy of {energy:.6g}, {gap:.3g} away"
    return ""


def _walked(
    model: BoltzmannMachine, seen: Scout, beta: float, seconds: float, seed: int, threads: int
) -> tuple[Average, Average]:
    """Walk from the scout's means, and back from its states."""
    kind, step_seconds = "blocks" if model.is_layered else "", model.n_units * attempt_seconds(model)
    if seen.side is not None:  # by the kernel that looked around, which is there already
        kind, step_seconds = "marginal", PAIR_SECONDS * seen.side.weights.size
    each = step_seconds * 2.0 * FEWEST_WITNESSES
    n_steps = int(min(max(WALK_PART * seconds / each, FEWEST_STEPS), MOST_STEPS))
    path = np.linspace(0.0, 1.0, n_steps)
    base = log_odds(model, beta, "tempering", seen)
    streams = rng.streams(rng.derive(seed, SCOUT, 1), 2 * FEWEST_WITNESSES)
    ways = (
        Way(model, beta, base, kind, path, streams[:FEWEST_WITNESSES]),
        Way(model, beta, base, kind, path[::-1], streams[FEWEST_WITNESSES:], seen.some(FEWEST_WITNESSES)),
    )

    def walked(way: Way) -> Walk:
        chains = way.chains(1)  # one block
        chains.is_exact = False
        way.go(chains)
        return chains

    there, back = fan_out(walked, ways, threads if n_steps * each >= WORTH_A_THREAD else 1)
    return average(there.log_w + there.log_z0), average(back.log_w - back.log_z0).of_groups(seen.n_ladders)


def _walked_as_bits(
    model: BoltzmannMachine, seen: Scout, beta: float, seconds: float, seed: int, threads: int
) -> tuple[Average, Average]:
    """Walk from beta = 0 and back, with chains as bits, of which there are more.

    Their machines are even, so that the product model of their means is that of free units.
    """
    each = 2.0 * (model.n_units * WALKERS * ATTEMPT_SECONDS + STEP_SECONDS)
    n_steps = int(min(max(WALK_PART * seconds / each, FEWEST_STEPS), MOST_STEPS))
    path = np.linspace(0.0, beta, n_steps)
    seeds = rng.derive(seed, SCOUT, 1), rng.derive(seed, SCOUT, 2)
    up, down = map(average, walk_both_ways(model, path, seen.some(WALKERS), seeds, threads))
    return up, down


def _energies_of_ladders(
    model: BoltzmannMachine, found: Inference, seen: Scout
) -> tuple[str, dict[str, Any], bool | None]:
    """Compare the energy of a result without log Z with that of the scout's ladders."""
    assert seen.up is not None
    energies = model.energy_of_bits(seen.up) if seen.energies is None else seen.energies
    means = energies.reshape(seen.n_ladders, -1).mean(axis=1)
    # of four ladders the spread is known badly, and Student's quantile is twice the normal one; of more it is on the
    # safe side
    reason = _energies_apart(found, float(means.mean()), 2.0 * float(means.std(ddof=1)) / math.sqrt(len(means)))
    return reason, {"energy": float(means.mean())}, True


def _compared(
    model: BoltzmannMachine, found: Inference, seen: Scout, up: Average, down: Average
) -> tuple[str, dict[str, Any], bool | None]:
    """Compare with averages of the weights of walks both ways."""
    log_z, error = claim(found)
    assert log_z is not None
    facts = {"log_z_up": up.log_mean, "ess_up": up.ess, "log_z_down": -down.log_mean, "ess_down": down.ess}
    healthy = up.healthy and down.healthy
    travelled = _travelled(seen) and not model.is_layered
    if healthy and apart(up.log_mean - log_z, error, up.error):
        return f"walks from a product model find {up.log_mean - log_z:.3g} nats more", facts, True
    # ladders that all stood elsewhere say less than states that they have seen
    knows = not apart(seen.bound + down.log_mean, down.error)
    if healthy and knows and apart(log_z + down.log_mean, error, down.error):
        return f"walks back to a product model allow {log_z + down.log_mean:.3g} nats less", facts, True
    return "", facts, True if healthy or travelled else None


def _travelled(seen: Scout) -> bool:
    """Return whether replicas went round the scout's ladders, so that it may have been everywhere."""
    return seen.round_trips >= TRAVELLED * seen.n_ladders
