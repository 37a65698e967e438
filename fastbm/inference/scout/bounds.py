"""Lower bounds on log Z by mean field, which hold for certain: of a whole machine, and of halves seldom visited.

<log f> + S of any product distribution bounds log Z from below (Gibbs, Bogoliubov and Feynman; MacKay, Information
Theory, Inference, and Learning Algorithms (2003), section 33.2); with a unit held in place, the log of the part of Z in
which it stands there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..._base.threads import fan_out
from ...machine.couplings.layered import Layered
from ...machine.couplings.protocol import Couplings
from ...machine.machine import BoltzmannMachine
from ..fixed_point.equations import MeanFieldEquations
from ..fixed_point.iterate import starting_means

N_MODES = 2  # eigenvectors of the couplings, whose signs, and the opposite ones, mean field climbs from
FROM_STATES = 6  # climbs from states visited
N_CLIMBS = 2 + 2 * N_MODES + FROM_STATES  # of mean field
POWERS, AT_ONCE = 40, 4  # of the couplings, which leave their leading eigenvectors; made orthogonal after so many
COARSE = 6  # digits of these, the same whatever BLAS does
STEEPEST = 30.0  # log-odds of a product model, at most
STAY = 0.9  # means from which mean field climbs, where a state is up
RELAXATIONS = 100  # of mean-field equations, whose solution need not be exact
LOOK_EVERY, AT_REST = 10, 1e-6  # rounds, and how far arguments may still move
LARGEST_SINGLE = 1e30  # times the inverse temperature, of couplings that single precision holds
MOST_HELD = 6  # units that are held where they were seldom seen, those of the strongest couplings
SELDOM = 0.05  # of the states visited
HELD_CLIMBS = (2 + N_MODES) * MOST_HELD
LEAST_LEFT = 1e-3  # part of Z on the other side of a unit, by its own bias at most, from which it is looked at

_modes: WeakKeyDictionary[Couplings, np.ndarray] = WeakKeyDictionary()  # of machines that are looked at more than once


class OtherSide(NamedTuple):
    """Where a unit was seldom seen, up or down, and a lower bound on the log of that part of Z."""

    unit: int
    is_up: bool
    bound: float


def mean_field_bound(model: BoltzmannMachine, beta: float, up: np.ndarray, seed: int) -> float:
    """Return the best bound by mean field, begun at states, at corners and at random.

    Where couplings are a ferromagnet in disguise, or store few patterns, corners of their leading eigenvectors are
    valleys. All means move at once, by products of matrices alone: no kernel is compiled.
    """
    spin = model.to_units("spin")
    starts = starting_means(spin.n_units, max(N_CLIMBS, N_CLIMBS - FROM_STATES + len(up)), seed)
    starts[0], starts[1] = STAY, -STAY  # the corners
    corners = STAY * modes(model)
    starts[2 : 2 + 2 * len(corners)] = np.concatenate([corners, -corners])
    starts[len(starts) - len(up) :] = STAY * (2.0 * up - 1.0)
    bounds = _climbed(spin, beta, np.arctanh(starts))
    return float(max(bounds[np.isfinite(bounds)], default=-math.inf))


def other_sides(model: BoltzmannMachine, beta: float, means: np.ndarray) -> tuple[OtherSide, ...]:
    """Bound the parts of Z in which units stand as they seldom do, by how often they were up, (n_units,).

    Of a unit that holds many others both may be deep valleys, with none of what lies between ever met. The others start
    free, at their means, and at corners of the couplings' leading eigenvectors.
    """
    held = _held(model, beta, means)
    return held.sides([climb() for climb in held.climbs])


def both_bounds(
    model: BoltzmannMachine, beta: float, up: np.ndarray, seed: int, means: np.ndarray, threads: int
) -> tuple[float, tuple[OtherSide, ...]]:
    """Return what `mean_field_bound` and `other_sides` do; threads share the climbs."""
    held = _held(model, beta, means)
    whole: Callable[[], Any] = partial(mean_field_bound, model, beta, up, seed)
    bound, *bounds = fan_out(lambda climb: climb(), [whole, *held.climbs], threads)
    return bound, held.sides(bounds)


class _Held(NamedTuple):
    """Units held where they are seldom seen, up or down, and climbs that return a bound for each."""

    units: np.ndarray
    is_up: np.ndarray
    climbs: list[Callable[[], np.ndarray]]

    def sides(self, bounds: list[np.ndarray]) -> tuple[OtherSide, ...]:
        """Return the best of the climbs' bounds for every unit."""
        if not bounds:
            return ()
        best = np.where(np.isfinite(bounds), bounds, -math.inf).max(axis=0)
        return tuple(OtherSide(int(i), bool(s), float(b)) for i, s, b in zip(self.units, self.is_up, best, strict=True))


def _held(model: BoltzmannMachine, beta: float, means: np.ndarray) -> _Held:
    spin = model.to_units("spin")
    free = np.exp(-np.abs(certain(model, beta))) > LEAST_LEFT
    units = np.flatnonzero((np.minimum(means, 1.0 - means) <= SELDOM) & free)
    units = units[np.argsort(-spin.couplings.absolute_sums()[units], kind="stable")[:MOST_HELD]]
    is_up, lanes = means[units] < 0.5, np.arange(len(units))
    if not len(units):
        return _Held(units, is_up, [])
    pull = np.zeros((len(units), spin.n_units))
    with np.errstate(all="ignore"):
        own = beta * (np.abs(spin.flat_bias) + spin.couplings.absolute_sums())[units]
        pull[lanes, units] = np.where(is_up, 1.0, -1.0) * (STEEPEST + own)
        seen = np.arctanh(STAY * (2.0 * means - 1.0))
        ways = math.atanh(STAY) * modes(model)
        corners = [np.sign(pull[lanes, units] * mode[units])[:, None] * mode for mode in ways]
        starts = [np.where(pull == 0.0, start, pull) for start in (0.0, seen, *corners)]
    return _Held(units, is_up, [partial(_climbed, spin, beta, start, pull) for start in starts])


def modes(model: BoltzmannMachine) -> np.ndarray:
    """Return the signs of the leading eigenvectors of the couplings, (n_modes, n_units), whatever the units are."""
    found = _modes.get(model.couplings)
    if found is None:
        found = _modes[model.couplings] = _signs_of_modes(model.couplings)
        found.flags.writeable = False
    return found


def _signs_of_modes(couplings: Couplings) -> np.ndarray:
    n = couplings.n_units
    shift = float(np.mean(couplings.absolute_sums()))  # so that the largest lead, not the most negative ones
    found = np.cos(np.outer(np.arange(1, min(N_MODES, n) + 1), np.arange(n) ** 2))  # as good as at random
    if not 0.0 < shift < math.inf:
        return np.ones_like(found)
    for _ in range(POWERS // AT_ONCE):
        for _ in range(AT_ONCE):
            found = couplings.field(found) / shift + found
        found = np.linalg.qr(found.T)[0].T
    found = np.round(found / np.abs(found).max(axis=1, keepdims=True), COARSE)
    return np.where(found < 0.0, -1.0, 1.0)


def _climbed(spin: BoltzmannMachine, beta: float, arguments: np.ndarray, pull: np.ndarray | float = 0.0) -> np.ndarray:
    """Return the bound of every lane after its climb, units held by a `pull` on their arguments."""
    with np.errstate(all="ignore"):  # of couplings beyond all numbers nothing is told
        arguments = relaxed(spin, beta, arguments, RELAXATIONS, pull, roughly=True)
        equations = MeanFieldEquations(spin.couplings, spin.flat_bias[None], beta, np.tanh(arguments))
        return equations.log_z(arguments) - beta * spin.offset


def relaxed(
    spin: BoltzmannMachine,
    beta: float,
    arguments: np.ndarray,
    n_rounds: int,
    pull: np.ndarray | float = 0.0,
    *,
    roughly: bool = False,
) -> np.ndarray:
    """Move means of spins towards the mean-field equations, all at once, by halves of what is missing.

    They are tanh(`arguments`) (n_lanes, n_units), and any means bound log Z. `roughly`, as bounds need them that are
    short by the square of what is missing, dense and layered couplings are taken in single precision, half of the
    memory that products wait for, and rounds end where nothing moves any more.
    """
    couplings, product = spin.couplings, None
    kind: np.dtype[Any] = np.dtype(np.float64)
    largest = beta * float((couplings.absolute_sums() + np.abs(spin.flat_bias)).max())
    if roughly and couplings.kind in ("dense", "layered") and largest < LARGEST_SINGLE:
        kind = np.dtype(np.float32)
        product = _single_product(couplings, beta)
    own, arguments = (beta * spin.flat_bias + pull).astype(kind), arguments.astype(kind)  # which is a copy
    means, step = np.empty_like(arguments), np.empty_like(arguments)
    for k in range(1, n_rounds + 1):
        np.tanh(arguments, out=means)
        if product is None:
            np.multiply(beta, couplings.field(means), out=step)
        else:
            product(means, step)
        step += own
        step -= arguments
        step *= 0.5
        arguments += step
        if roughly and k % LOOK_EVERY == 0 and float(np.abs(step).max()) <= AT_REST:
            break
    return arguments.astype(np.float64)


def _single_product(couplings: Couplings, beta: float) -> Callable[[np.ndarray, np.ndarray], object]:
    """Return what writes beta W s of rows of s to rows, in single precision, for dense and layered couplings."""
    if couplings.kind == "dense":
        weights = (beta * couplings.matrix()).astype(np.float32)
        return lambda values, found: np.matmul(values, weights, out=found)
    assert isinstance(couplings, Layered)
    blocks = [(beta * block).astype(np.float32) for block in couplings.arrays]

    def fill(values: np.ndarray, found: np.ndarray) -> None:
        found.fill(0.0)
        for (one, other), block in zip(pairwise(couplings.layers), blocks, strict=True):
            found[:, other] += values[:, one] @ block
            found[:, one] += values[:, other] @ block.T

    return fill


def certain(model: BoltzmannMachine, beta: float) -> np.ndarray:
    """Return log-odds (n_units,) that a unit's own bias leaves it whatever its neighbours do.

    They are 0 where neighbours may outweigh the bias, and `STEEPEST` at most.
    """
    spin = model.to_units("spin")
    left: np.ndarray = 2.0 * beta * (np.abs(spin.flat_bias) - spin.couplings.absolute_sums())
    return np.copysign(np.clip(left, 0.0, STEEPEST), spin.flat_bias)
