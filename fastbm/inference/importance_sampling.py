"""Importance sampling on the smaller side of a layered machine, around the states that a tempering visited.

q(x) is a mixture, over the states x' visited and over some rates, of flipping every unit of x' with that rate. With the
other side summed out f(x) is known, so that Z = <f / q> over independent draws of q: no chain has to be at equilibrium,
the tempering only has to have come by wherever f is large. Every ladder alone is an estimate too, and they must agree.

Hesterberg, Technometrics 37, 185 (1995), doi:10.1080/00401706.1995.10484303 (mixtures); Owen and Zhou, J. Am. Stat.
Assoc. 95, 135 (2000), doi:10.1080/01621459.2000.10473909.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.special import expit, logsumexp

from .._base import checks, rng
from .._base.options import Least, options
from .._base.threads import fan_out, single_threaded_blas
from ..machine.machine import BoltzmannMachine
from ..sampling.unseen import rarely
from ..sampling.valleys import has_one_valley, is_even
from .ais.weights import Average, average
from .estimator import Estimator, Knob
from .result import Inference, check_pairs, moments_of
from .scout.bounds import mean_field_bound, other_sides
from .scout.marginal import Marginal, has_marginal
from .scout.marginal_tempering import temper
from .scout.scout import BURN_IN, LADDERS, LEVELS, mirror, visible_biases
from .verdict import apart, missed_side

RATES = (0.02, 0.1, 0.25)
N_SWEEPS = 250  # rounds of the tempering, unless told
LEAST_ESS = 100.0
ENOUGH_ROUNDS = 100  # for replicas of ladders that nothing blocks to go round some times; one takes 80 at least
BARS = 3.0  # by which a ladder may differ from all
FAINT = 1e-12  # weights below this part of the largest are left out of the averages
TABLE = 1 << 17  # distances of draws and states that are held at once: they stay in the cache


@dataclass(frozen=True)
class Mixture:
    """Draws around the states of some ladders, and their weights.

    Attributes
    ----------
    up : (n_draws, n_kept) uint8 array
        As many around the states of each ladder.
    log_w : (n_draws,) array
        log f / q, all constants included.
    all, each : Average, list of Average
        Of all draws, and of each ladder's own around its own states.
    """

    up: np.ndarray
    log_w: np.ndarray
    all: Average
    each: list[Average]

    @property
    def doubt(self) -> str:
        """Why the estimate should not be trusted; empty where it should."""
        if not self.all.ess >= LEAST_ESS:
            return f"{self.all.ess:.0f} of {len(self.log_w)} draws carry the average"
        for one in self.each:
            if not abs(one.log_mean - self.all.log_mean) <= BARS * ((one.error or 0.0) + (self.all.error or 0.0)):
                return f"a ladder alone is {abs(one.log_mean - self.all.log_mean):.2g} nats off"
        return ""


def mix(side: Marginal, visited: np.ndarray, n_draws: int, seed: int, threads: int) -> Mixture:
    """Draw around the states (n_ladders, n_rounds, n_kept) of independent ladders, and weigh."""
    n_ladders, n_rounds, n_kept = visited.shape
    share = -(-n_draws // n_ladders)
    generator = rng.keyed(seed, rng.RESAMPLING)
    centres = visited[np.arange(n_ladders)[:, None], generator.integers(0, n_rounds, (n_ladders, share))]
    rates = np.array(RATES)[generator.integers(0, len(RATES), (n_ladders, share))]
    flips = generator.random(centres.shape) < rates[..., None]
    up = (centres ^ flips).reshape(-1, n_kept).astype(np.uint8)
    with single_threaded_blas():
        log_f = side.log_f(up, threads)
        log_q = np.stack(fan_out(partial(_log_q, up), visited, threads))
    log_w = log_f - (logsumexp(log_q, axis=0) - np.log(n_ladders))
    parts = [slice(k * share, (k + 1) * share) for k in range(n_ladders)]
    weights = [log_w, *(log_f[part] - log_q[k, part] for k, part in enumerate(parts))]
    total, *own = fan_out(partial(average, tail=False), weights, threads)
    return Mixture(up, log_w, total, own)


def _log_q(up: np.ndarray, visited: np.ndarray) -> np.ndarray:
    """Return log of the density of draws around states (n_states, n_kept)."""
    states, counts = np.unique(visited, axis=0, return_counts=True)
    n = states.shape[1]
    distance = np.arange(n + 1)[:, None]
    log_q = distance * np.log(RATES) + (n - distance) * np.log1p(-np.array(RATES))
    table = logsumexp(log_q, axis=1) - np.log(len(RATES))
    shares, signs = counts / counts.sum(), 1.0 - 2.0 * states.astype(np.float32)
    found = np.empty(len(up))
    step = max(64, TABLE // len(states) & -64)
    for first in range(0, len(up), step):
        # the distance of x and x' is sum_j x'_j + x_j (1 - 2 x'_j)
        far = up[first : first + step].astype(np.float32) @ signs.T + states.sum(axis=1, dtype=np.float32)
        logs = table[np.rint(far).astype(np.int64)]
        top = logs.max(axis=1)
        found[first : first + step] = top + np.log(np.exp(logs - top[:, None]) @ shares)
    return found


@options
class ImportanceSampling(Estimator):
    """Estimate log Z and moments of a layered machine by importance sampling around the states of a tempering.

    Parameters
    ----------
    n_samples : int
        Independent draws; `log_z_error` falls as its square root.
    n_sweeps : int
        Rounds of the tempering on the smaller side, of 4 ladders of 40 levels from the visible biases. Where the draws
        do not agree it is done again with twice as many.

    Raises
    ------
    ValueError
        If the machine has no layers.

    Notes
    -----
    `converged` where at least 100 draws carry the average and every ladder alone agrees with all; None where no
    replica of the tempering went round its ladder in 100 rounds or more. Best for up to about 25 units in the
    smaller side; beyond 100 the mixture is too wide.
    """

    name: ClassVar[str] = "importance-sampling"
    knob: ClassVar[Knob | None] = Knob("n_sweeps", 250, 100_000)
    all_pairs: ClassVar[bool] = True

    n_samples: Annotated[int, Least(2 * LADDERS)] = 20_000
    n_sweeps: Annotated[int, Least(1)] = N_SWEEPS

    def run(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Inference:
        """Infer log Z and moments; moments are in the machine's units."""
        _refuse_without_sides(model)
        if moments:
            check_pairs(model.n_units)
        side = Marginal.of(model, beta)
        for attempt, rounds in enumerate((self.n_sweeps, 2 * self.n_sweeps)):
            visited = temper(
                side, visible_biases(model, beta), np.linspace(0.0, 1.0, LEVELS), n_ladders=LADDERS, n_rounds=rounds,
                burn_in=int(BURN_IN * rounds), seed=rng.derive(seed, attempt), threads=threads,
            )  # fmt: skip
            if is_even(model, beta):
                mirror(visited.up)
            found = mix(side, visited.up, self.n_samples, rng.derive(seed, attempt), threads)
            if not found.doubt:
                break
        doubt = found.doubt
        bound = mean_field_bound(model, beta, np.empty((0, model.n_units), np.uint8), seed)
        if not doubt and apart(bound - found.all.log_mean, found.all.error):
            doubt = f"log Z lies {bound - found.all.log_mean:.3g} nats below the bound of mean field"
        result = averages(model, beta, side, found, moments, threads)
        if not doubt and moments:
            units = model.convention
            p, p_error = (result["mean"] - units.lo) / units.span, result["mean_error"] / units.span
            sides = other_sides(model, beta, np.clip(p, 0.0, 1.0))
            doubt = missed_side(sides, found.all.log_mean, found.all.error or 0.0, p, p_error)
        if doubt:
            checks.warn(
                f"importance-sampling: {doubt}; its error bar is not to be trusted. Raise n_sweeps, or, beyond some "
                'tens of units in the smaller side, use "ais".'
            )
        unsure = ""
        blocked = rounds >= ENOUGH_ROUNDS and not visited.round_trips.any()
        if not doubt and blocked and not has_one_valley(model, beta):
            unsure = "no replica went round a ladder, so that valleys may be missing: raise n_sweeps"
        detail = {
            "n_states": len(np.unique(visited.up.reshape(-1, visited.up.shape[2]), axis=0)),
            "n_sweeps": rounds,
            "round_trips": visited.round_trips,
            "log_z of ladders": np.array([one.log_mean for one in found.each]),
            "log_z_errors": found.all.errors,
        }
        if doubt or unsure:
            detail["doubt"] = doubt or unsure
        return Inference(
            "importance-sampling",
            log_z=found.all.log_mean,
            log_z_error=found.all.error,
            **result,
            converged=None if unsure else not doubt,
            n_samples=len(found.log_w),
            ess=found.all.ess,
            detail=detail,
        )


def _refuse_without_sides(model: BoltzmannMachine) -> None:
    if has_marginal(model):
        return
    if not np.any(np.diff(model.couplings.csr()[0])):
        raise ValueError(
            "importance-sampling sums out one side of a layered machine; here no two free units are coupled, "
            'and log Z is a sum over units. Use "mean-field", which is exact then, or "exact".'
        )
    raise ValueError(
        "importance-sampling sums out one side of a layered machine; this one has no layers, or too many "
        'couplings for one matrix. Use "tempering" or "ais".'
    )


def averages(
    model: BoltzmannMachine, beta: float, side: Marginal, found: Mixture, moments: bool, threads: int
) -> dict[str, Any]:
    """Return the energy, and moments in the model's units if wanted.

    The summed units are replaced by their conditional means.
    """
    weights, units, plain, n = found.all.weights, model.convention, Marginal.of(model, 1.0), model.n_units
    heavy = weights > FAINT * weights.max()
    states, weights = found.up[heavy], weights[heavy]
    energies, spread = np.empty((2, len(weights)))

    def add(some: slice) -> tuple[np.ndarray, np.ndarray]:
        """Write the energies of some states; return sums of weighted moments, of squared weights among them."""
        up, share = states[some], weights[some]
        p, pulled, spread[some] = _summed_out(beta, plain.fields(up))
        energies[some] = -(plain.constant + up @ plain.bias[side.kept] + pulled)
        if not moments:
            return np.zeros(0), np.zeros(0)
        whole = np.empty((len(up), n))
        whole[:, side.kept], whole[:, side.summed] = up, p
        drift = np.stack([share @ whole, share**2 @ whole, share**2 @ whole**2])  # with 1, up and up^2
        return (whole * share[:, None]).T @ whole, drift

    second, drift, blocks = np.zeros((n, n)), np.zeros((3, n)), side.blocks(len(weights))
    with single_threaded_blas():
        for first in range(0, len(blocks), threads):  # sums of so many are held at once
            for one, other in fan_out(add, blocks[first : first + threads], threads):
                if moments:
                    second += one
                    drift += other
    energy = float(weights @ energies)
    facts: dict[str, Any] = {
        "energy": energy,
        "energy_error": math.sqrt(weights**2 @ ((energies - energy) ** 2 + spread)),
        "energy_variance": float(weights @ (spread + (energies - energy) ** 2)),
        "entropy": found.all.log_mean + beta * energy,
    }
    if not moments:
        return facts
    mean, ess = drift[0], found.all.ess
    np.fill_diagonal(second, mean)
    variance = drift[2] - 2.0 * mean * drift[1] + mean**2 * float(weights @ weights)
    error = np.maximum(np.sqrt(np.maximum(variance, 0.0)), rarely(ess))
    pairs = units.span**2 * second + units.lo * units.span * (mean[:, None] + mean) + units.lo**2
    return facts | moments_of(units.lo + units.span * mean, pairs) | {"mean_error": units.span * error}


def _summed_out(beta: float, gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return how likely summed units are up, and sums over units of means and variances of what they add.

    `gaps` (n_states, n_summed) are their log-odds per beta.
    """
    p = expit(beta * gaps)
    pulled = p * gaps
    return p, pulled.sum(axis=1), ((1.0 - p) * pulled * gaps).sum(axis=1)
