"""A look from the cold: walks from low states, at a temperature at which they hardly move, up to that of the machine.

Whoever comes from high temperatures may miss a phase that a first-order transition hides, all ladders alike. Walks from
one state s are annealed importance sampling whose base is that state alone: exp(-beta_0 E(s)) <w> is Z in the mean, or
less where few ways lead back to s, and with walks that end in a set of states it is no more than that set's part of Z.

Neal, Stat. Comput. 11, 125 (2001), doi:10.1023/A:1008923215028.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..._base import rng
from ..._base.threads import single_threaded_blas
from ...machine.machine import BoltzmannMachine
from ..result import Inference, claim
from ..scout.bounds import STAY, modes, relaxed
from ..scout.scout import LEAST_SECONDS, attempt_seconds
from ..verdict import BARS, Verdict, apart, judged
from .walks import make_walk
from .weights import Average, average

COLD = 7  # what seeds are derived by
N_STATES, N_WALKS = 4, 8  # states that walks begin at, and walks from each
FEWEST_STEPS, MOST_STEPS = 50, 200
PART = 0.15  # of the method's own time
HELD = 6.0  # log-odds by which most units are held where walks begin
HELD_PART = 0.1  # of units, those that are held least, which need not be
LOWEST, HIGHEST = 2.0, 30.0  # times the inverse temperature of the machine
SETTLING = 50  # rounds of mean field from corners to low states
DIGITS = 6  # of energies by which states are chosen, the same whatever BLAS does
ERROR_BARS = 5.0
ROUNDING = 1e-9  # of a mean, or of 1
TINIEST = 1e-12


class Known(NamedTuple):
    """What a result says of a number that states have: its mean, variance and error of the mean."""

    name: str
    mean: float
    variance: float
    error: float
    of_bits: Callable[[np.ndarray], np.ndarray]  # (n_states, n_units) to (n_states,)


class Walks:
    """Walks from low states at low temperature up to that of the machine, and from free units; each done once.

    They take a part of the time of the method's updates, or a tenth of a second, and are left out where that is too
    short; also of machines in layers, whose walks are others, and of chains as bits.
    """

    def __init__(
        self, model: BoltzmannMachine, detail: Mapping[str, Any], beta: float, seed: int, threads: int
    ) -> None:
        self.model, self.beta, self._threads = model, beta, threads
        self._seeds = [rng.derive(seed, COLD, k) for k in (0, 1)]
        attempt = attempt_seconds(model)
        seconds = max(PART * attempt * float(detail.get("n_updates", 0)), LEAST_SECONDS)
        self._n_steps = int(min(seconds / (model.n_units * attempt * N_STATES * N_WALKS), MOST_STEPS))
        self.are_long = self._n_steps >= FEWEST_STEPS
        self.are_taken = not model.is_layered and detail.get("kernel") != "multispin" and beta > 0.0 and self.are_long

    @cached_property
    def cold(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States that walks begin at, (n_states, n_units), their weights and where they end, as of `walk_from`."""
        with single_threaded_blas():
            starts, factor = low_states(self.model, self.beta)
        return starts, *walk_from(self.model, self.beta, starts, factor, self._n_steps, self._seeds[0], self._threads)

    def take_cold(self) -> None:
        """Walk from low states, if walks are asked for."""
        if self.are_taken:
            _ = self.cold

    def take_hot(self) -> None:
        """Walk from free units, if walks are asked for."""
        if self.are_taken:
            _ = self.hot

    @cached_property
    def hot(self) -> Average:
        """The average weight of walks from free units."""
        return walk_up(self.model, self.beta, self._n_steps, self._seeds[1], self._threads)


def look(found: Inference, walks: Walks, up: np.ndarray | None = None) -> Inference:
    """Return an estimate that says that it has converged with the verdict of a look from the cold; a warning says why.

    `up` are states as bits that it was made of, where it gives no energy.
    """
    if not found.converged or not walks.are_taken:
        return found
    reason = missed_phase(found, walks, up)
    if not reason:
        return found
    return judged(found, Verdict(False, reason), "Compare samples that begin in both phases (initial)")


def missed_phase(found: Inference, walks: Walks, up: np.ndarray | None = None) -> str:
    """Return what a look from the cold finds that an estimate has missed, as text; empty where it finds nothing.

    `up` as for `look`.
    """
    if not walks.are_long:
        return ""
    log_z, error = claim(found)
    hot = walks.hot if log_z is None else None
    most = _most_log_z(walks.model, walks.beta, found) if log_z is None else math.inf
    for start, log_w, ends in zip(*walks.cold, strict=True):
        seen = average(log_w)
        if seen.healthy and seen.log_mean - BARS * (seen.error or 0.0) > most + ROUNDING * abs(most):
            return (
                f"walks from a low state find log Z {seen.log_mean:.6g}, and no more than {most:.6g} is left where "
                "chains are nearly always in one state"
            )
        if not seen.healthy or (hot is not None and not hot.healthy):
            continue
        if hot is not None:
            log_z, error = float(np.logaddexp(hot.log_mean, seen.log_mean)), hot.error
        assert log_z is not None
        if apart(seen.log_mean - log_z, error, seen.error):
            return f"walks from a low state find {seen.log_mean - log_z:.3g} nats more"
        bar = BARS * math.hypot(error or 0.0, seen.error or 0.0)
        for known in _known(walks.model, found, start, up):
            reason = _another_phase(known, seen, ends, log_z, bar)
            if reason:
                return reason
    return ""


def _most_log_z(model: BoltzmannMachine, beta: float, found: Inference) -> float:
    """Return the largest log Z that is left where the means and their errors say that one state has part of it.

    P(s) exp(beta E(s)) is 1 / Z, and P(s) is at least 1 less all chances that a unit is not as in s.
    """
    if not isinstance(found.mean, np.ndarray) or found.mean_error is None:
        return math.inf
    units = model.convention
    p, error = (found.mean - units.lo) / units.span, np.asarray(found.mean_error) / units.span
    away = float(np.sum(np.minimum(p, 1.0 - p) + error))
    if not away < 1.0:
        return math.inf
    return -beta * float(model.energy_of_bits((p > 0.5).astype(np.uint8)[None])[0]) - math.log1p(-away)


def _known(model: BoltzmannMachine, found: Inference, start: np.ndarray, up: np.ndarray | None) -> Iterator[Known]:
    """Yield what a result says of minus the energy, and of the overlap with a state."""
    if up is not None:
        energies = -model.energy_of_bits(up)
        mean, variance = float(energies.mean()), float(energies.var())
        yield Known("energies", mean, variance, math.inf, lambda x: -model.energy_of_bits(x))
    elif found.energy is not None and found.energy_variance is not None:
        error = math.inf if found.energy_error is None else found.energy_error
        yield Known("energies", -found.energy, found.energy_variance, error, lambda x: -model.energy_of_bits(x))
    if isinstance(found.covariance, np.ndarray) and found.mean_error is not None:
        units, signs = model.convention, (2.0 * start - 1.0) / model.n_units
        mean = signs @ (2.0 * (found.mean - units.lo) / units.span - 1.0)
        variance = 4.0 * float(signs @ found.covariance @ signs) / units.span**2
        error = 2.0 * float(np.mean(found.mean_error)) / units.span
        yield Known("overlaps", float(mean), max(variance, 0.0), error, lambda x: (2.0 * x - 1.0) @ signs)


def _another_phase(known: Known, seen: Average, ends: np.ndarray, log_z: float, bar: float) -> str:
    """Return what walks from one state, and where they end, say against a result; empty where they agree.

    Half way from the mean of a number to where walks end a phase begins, which has as much of Z as walks that end there
    bring; and the result has met it no more often than its mean and variance allow (Cantelli's inequality).
    """
    values = known.of_bits(ends)
    gap = float(seen.weights @ values) - known.mean
    if gap <= ROUNDING * max(abs(known.mean), 1.0):
        return ""
    part = float(seen.weights @ (values > known.mean + 0.5 * gap)) * math.exp(min(seen.log_mean - log_z, 0.0))
    met = known.variance / (known.variance + 0.25 * gap**2)
    sure = part * math.exp(-bar) - met
    if math.log1p(max(part - met, 0.0)) <= bar and sure * gap <= ERROR_BARS * known.error:
        return ""
    return (
        f"walks from a low state end in a phase of other {known.name} ({gap:.3g} away) that has {part:.2g} of the "
        f"weight, and that chains met in {met:.2g} of it at most"
    )


def low_states(model: BoltzmannMachine, beta: float) -> tuple[np.ndarray, float]:
    """Return low states as bits, (n_states, n_units), and how much colder than beta their units hardly move.

    They are where mean field leads from all units up and down, and from corners of the couplings' leading eigenvectors.
    """
    spin = model.to_units("spin")
    corners = np.concatenate([np.ones((1, spin.n_units)), modes(model)])
    arguments = np.arctanh(STAY * np.concatenate([corners, -corners]))
    with np.errstate(all="ignore"):
        signs = np.where(relaxed(spin, HIGHEST * beta, arguments, SETTLING, roughly=True) < 0.0, -1.0, 1.0)
    signs = np.unique(signs, axis=0)
    signs = signs[np.argsort(np.round(spin.energy(signs), DIGITS), kind="stable")[:N_STATES]]
    held = 2.0 * beta * np.sort(signs * (spin.couplings.field(signs) + spin.flat_bias), axis=1)
    least = float(np.median(held[:, int(HELD_PART * spin.n_units)]))
    return (signs > 0.0).astype(np.uint8), float(np.clip(HELD / max(least, TINIEST), LOWEST, HIGHEST))


def walk_from(
    model: BoltzmannMachine, beta: float, starts: np.ndarray, factor: float, n_steps: int, seed: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return log weights, whose mean is Z or less, (n_starts, N_WALKS), and the bits of final states beside them."""
    n, up = len(starts) * N_WALKS, np.repeat(starts, N_WALKS, axis=0)
    walk = make_walk(model, factor * beta, np.zeros(model.n_units), rng.streams(seed, n), threads, "")
    walk.is_exact = False
    walk.load(up)
    walk.follow(np.geomspace(1.0, 1.0 / factor, n_steps))
    # constants of the path, which weights leave out, are those of its product model of free units
    left_out = (1.0 / factor - 1.0) * (walk.log_z0 - model.n_units * math.log(2.0))
    log_w = walk.log_w + left_out - factor * beta * model.energy_of_bits(up)
    return log_w.reshape(-1, N_WALKS), walk.bits().reshape(-1, N_WALKS, model.n_units)


def walk_up(model: BoltzmannMachine, beta: float, n_steps: int, seed: int, threads: int) -> Average:
    """Return the average weight of walks from free units."""
    walk = make_walk(model, beta, np.zeros(model.n_units), rng.streams(seed, N_STATES * N_WALKS), threads, "")
    walk.is_exact = False
    walk.begin()
    walk.follow(np.linspace(0.0, 1.0, n_steps))
    walk.finish()
    return average(walk.log_w + walk.log_z0)
