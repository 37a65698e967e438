"""A short tempering, independent of any estimate: where a machine has its weight, and a lower bound on log Z.

Layered machines are tempered on their smaller side, the other summed out, from their visible biases; others in the
temperature. Every set of distinct states bounds log Z from below, and so does every product distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from ..._base import rng
from ..._base.steps import SOON, tell
from ...machine.machine import BoltzmannMachine
from ...sampling.tempering import AT_ONCE, TemperedChains
from ...sampling.unseen import free_spread
from ...sampling.valleys import is_even
from . import bit_tempering
from .bounds import FROM_STATES, HELD_CLIMBS, N_CLIMBS, RELAXATIONS, STEEPEST, OtherSide, both_bounds, mean_field_bound
from .marginal import Marginal, has_marginal
from .marginal_tempering import temper, temper_seconds

SCOUT = 3  # what seeds are derived by
FEWEST_WITNESSES = 16  # walks from what it has seen, and back
SCOUT_PART = 0.35  # of what a call takes, for the look around
LADDERS = 4
LEVELS = 40  # of the path on one side of a layered machine
MOST_ROUNDS, FEWEST_ROUNDS = 250, 25  # on one side of a layered machine
MOST_IN_TEMPERATURE = 2_000  # rounds of one spin at a time, which go round a ladder slowly
MOST_OF_BITS = 1_500  # of more ladders at once
BURN_IN = 0.2  # of the rounds, on top
ROUND_SECONDS = 3e-4  # that Python takes in a round of tempering in the temperature
LEAST_SECONDS = 0.1  # that are always granted
MOST_LEVELS, FEWEST_LEVELS = 48, 8
STEP = 1.2  # thermodynamic length between two levels
WORTH_A_THREAD = 0.02  # seconds of climbs, by the built-in speeds, from which on threads share them


@dataclass(frozen=True)
class Scout:
    """The findings of a short tempering of a machine.

    Attributes
    ----------
    bound, bound_by : float, str
        The best lower bound on log Z that holds for certain, and where it is from.
    up : (n_states, n_units) uint8 array or None
        States at the machine, all of one ladder, then of the next; None where time was too short for any.
    kept : (n_ladders, n_rounds, n_kept) uint8 array or None
        Of a layered machine those of its smaller side, `side`.
    round_trips : int
    energies : (n_states,) array or None
        Of the states `up`, where they are known.
    other_sides : tuple of OtherSide
        Of units that stand alike in nearly all states `up`.
    """

    bound: float
    bound_by: str
    up: np.ndarray | None = None
    kept: np.ndarray | None = None
    side: Marginal | None = None
    round_trips: int = 0
    energies: np.ndarray | None = None
    n_ladders: int = LADDERS
    other_sides: tuple[OtherSide, ...] = ()

    def some(self, n_states: int) -> np.ndarray:
        """Return that many states, evenly from all ladders and rounds; fewer where there are not as many."""
        assert self.up is not None
        n_states = min(n_states, len(self.up))
        found: np.ndarray = self.up[np.linspace(0, len(self.up) - 1, n_states).round().astype(np.int64)]
        return found


def attempt_seconds(model: BoltzmannMachine) -> float:
    """Estimate how long a kernel of many chains takes for one unit of one chain, by the built-in speeds."""
    couplings = model.couplings
    if couplings.kind == "layered":
        return 3e-9 + 5e-11 * sum(block.size for block in couplings.arrays) / model.n_units
    if couplings.kind == "dense":
        return 2e-9 + 2e-11 * model.n_units
    return 1e-9 + 5e-11 * len(couplings.csr()[1]) / model.n_units


def scout(
    model: BoltzmannMachine, beta: float, seconds: float, seed: int, threads: int, *, must: bool = False,
    as_bits: bool = False, climb: bool = True,
) -> Scout:  # fmt: skip
    """Temper a machine for about `seconds` of one core, by the built-in speeds, and a tenth of a second at least.

    With `must` the fewest rounds are done however long they take; with `as_bits`, ladders are more, and chains bits.
    Without `climb` bounds by mean field are left to `climbed`.
    """
    search = _as_bits if as_bits else _on_one_side if has_marginal(model) else _in_temperature
    found = search(model, beta, max(seconds, LEAST_SECONDS), seed, threads, FEWEST_ROUNDS if must else 0)
    return climbed(model, beta, found, seconds, seed, threads) if climb else found


def climbed(
    model: BoltzmannMachine, beta: float, found: Scout, seconds: float, seed: int, threads: int,
    before: Scout | None = None,
) -> Scout:  # fmt: skip
    """Return what a scout of so many seconds has seen with bounds by mean field, from low states of one before too."""
    seconds, each = max(seconds, LEAST_SECONDS), RELAXATIONS * model.n_units * attempt_seconds(model)
    if before is not None and before.bound > found.bound:
        found = replace(found, bound=before.bound, bound_by=before.bound_by)
    if N_CLIMBS * each > seconds:
        return found
    lowest = np.concatenate([_lowest(model, one) for one in (found, before) if one is not None])
    work, sides = N_CLIMBS * each, found.other_sides
    if found.up is not None and work + HELD_CLIMBS * each <= seconds:
        work += HELD_CLIMBS * each
        means = found.up.mean(axis=0)
        bound, sides = both_bounds(model, beta, lowest, seed, means, threads if work >= WORTH_A_THREAD else 1)
    else:
        bound = mean_field_bound(model, beta, lowest, seed)
    if bound > found.bound:
        found = replace(found, bound=bound, bound_by="mean field")
    return replace(found, other_sides=sides)


def _on_one_side(model: BoltzmannMachine, beta: float, seconds: float, seed: int, threads: int, least: int) -> Scout:
    """Temper the smaller side of a layered machine, the other summed out."""
    side = Marginal.of(model, beta)
    rounds = max(_rounds(seconds, temper_seconds(side, LADDERS, LEVELS, 1), MOST_ROUNDS), least)
    if not rounds:
        return Scout(-math.inf, "nothing", side=side)
    found = temper(
        side, visible_biases(model, beta), np.linspace(0.0, 1.0, LEVELS), n_ladders=LADDERS, n_rounds=rounds,
        burn_in=int(BURN_IN * rounds), seed=seed, threads=threads,
    )  # fmt: skip
    if is_even(model, beta):
        mirror(found.up)
    states = found.up.reshape(-1, len(side.kept))
    bound = float(logsumexp(side.log_f(np.unique(states, axis=0))))
    up = side.complete(states, rng.keyed(seed, rng.STARTS))
    return Scout(bound, "states visited, one side summed out", up, found.up, side, int(found.round_trips.sum()))


def _in_temperature(model: BoltzmannMachine, beta: float, seconds: float, seed: int, threads: int, least: int) -> Scout:
    """Temper a machine in the temperature, from beta = 0."""
    ladder = _ladder(model, beta)
    each = LADDERS * len(ladder) * model.n_units * attempt_seconds(model) + ROUND_SECONDS
    rounds = max(_rounds(seconds, each, MOST_IN_TEMPERATURE), least)
    if not rounds:
        return Scout(-math.inf, "nothing")
    chains = TemperedChains(model, LADDERS, ladder, seed=seed, threads=threads, at_once=AT_ONCE)
    chains.sweep(int(BURN_IN * rounds))
    visited, energies = np.empty((LADDERS, rounds, model.n_units), np.uint8), np.empty((LADDERS, rounds))
    piece = max(1, int(SOON / chains.sweep_seconds))
    for t in range(0, rounds, piece):
        tell("round of a look around", t, rounds)
        samples = chains.record(min(piece, rounds - t), 1)
        packed = samples["samples/states"].swapaxes(0, 1)
        visited[:, t : t + piece] = np.unpackbits(packed, axis=2, count=model.n_units, bitorder="little")
        energies[:, t : t + piece] = samples["samples/energy"].T + model.offset
    is_mirrored = is_even(model, beta)
    if is_mirrored:
        mirror(visited)
    up = visited.reshape(-1, model.n_units)
    # at beta = 0 a mirror is as probable whatever its energy is
    is_known = not is_mirrored or is_even(model, 1.0)
    weighed = energies.ravel() if is_known else model.energy_of_bits(up)
    bound = _sum_of_distinct(up, -beta * weighed)
    return Scout(bound, "states visited", up, None, None, int(chains.round_trips.sum()), weighed)


def _as_bits(model: BoltzmannMachine, beta: float, seconds: float, seed: int, threads: int, least: int) -> Scout:
    """Temper a machine in the temperature, from beta = 0, with more ladders, whose chains are bits."""
    n_ladders, size = bit_tempering.LADDERS, bit_tempering.WALKERS // bit_tempering.LADDERS
    n_whole = max(round(n_levels(model, beta) / size), 1) * size  # whole blocks, which cost the same when half empty
    ladder = _ladder(model, beta, n_whole)
    each = n_ladders * n_whole * model.n_units * bit_tempering.ATTEMPT_SECONDS + bit_tempering.STEP_SECONDS
    rounds = max(_rounds(seconds, each, MOST_OF_BITS), least)
    if not rounds:
        return Scout(-math.inf, "nothing", n_ladders=n_ladders)
    found = bit_tempering.temper_bits(
        model, ladder, n_rounds=rounds, burn_in=int(BURN_IN * rounds), seed=seed, threads=threads
    )
    mirror(found.up)
    up, energies = found.up.reshape(-1, model.n_units), found.energies.ravel() + model.offset
    bound = _sum_of_distinct(up, -beta * energies)
    return Scout(bound, "states visited", up, None, None, found.round_trips, energies, n_ladders)


def _sum_of_distinct(up: np.ndarray, log_f: np.ndarray) -> float:
    """Return the logarithm of the sum over all that are different of states, given those of their weights."""
    rows = np.packbits(up, axis=1)
    places = {row: k for k, row in enumerate(rows.view(f"V{rows.shape[1]}").ravel().tolist())}
    return float(logsumexp(log_f[list(places.values())]))


def mirror(up: np.ndarray) -> None:
    """Flip all units of every second state, (n_ladders, n_rounds, n_units) in place.

    Of a machine that is even these are as probable, and ladders that all fell into one of two mirrored valleys would
    not know of the other.
    """
    up[:, 1::2] ^= 1


def _rounds(seconds: float, each: float, most: int) -> int:
    """Return how many rounds fit; 0 where they are too few."""
    rounds = int(min(seconds / ((1.0 + BURN_IN) * each), most))
    return rounds if rounds >= FEWEST_ROUNDS else 0


def visible_biases(model: BoltzmannMachine, beta: float) -> np.ndarray:
    """Return the log-odds of a product model: visible units by their biases alone, hidden ones free."""
    found = np.zeros(model.n_units)
    found[: model.n_visible] = beta * model.convention.span * model.flat_bias[: model.n_visible]
    return np.clip(found, -STEEPEST, STEEPEST)


def _ladder(model: BoltzmannMachine, beta: float, n: int | None = None) -> np.ndarray:
    """Return `n` temperatures, or as many as are needed, even in asinh(2 s beta).

    s is the standard deviation of the energy at beta = 0 over sqrt(n_units): there a machine without a transition has a
    thermodynamic length of about sqrt(n_units) asinh(2 s beta) / 2.
    """
    if beta == 0.0:
        return np.zeros(1)
    scale = free_spread(model) / math.sqrt(model.n_units)
    if scale == 0.0:
        return np.array([0.0, beta])
    betas = np.sinh(np.linspace(0.0, math.asinh(2.0 * scale * beta), n or n_levels(model, beta))) / (2.0 * scale)
    betas[0], betas[-1] = 0.0, beta
    return betas


def n_levels(model: BoltzmannMachine, beta: float) -> int:
    """Estimate how many temperatures a machine without a transition needs."""
    scale = free_spread(model) / math.sqrt(model.n_units)
    length = math.sqrt(model.n_units) * math.asinh(2.0 * scale * beta) / 2.0
    return int(min(max(length / STEP + 1, FEWEST_LEVELS), MOST_LEVELS))


def _lowest(model: BoltzmannMachine, found: Scout) -> np.ndarray:
    """Return the lowest states that a scout has visited, one of every part of them, (n_states, n_units)."""
    if found.up is None:
        return np.empty((0, model.n_units), np.uint8)
    energies = model.energy_of_bits(found.up) if found.energies is None else found.energies
    parts = np.array_split(np.arange(len(found.up)), FROM_STATES)
    return found.up[[part[np.argmin(energies[part])] for part in parts if len(part)]]
