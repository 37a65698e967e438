"""Moments of a machine's visible units, for the comparison with data: summed over all their states, or sampled."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from ... import diagnostics
from ..._base import rng
from ..._base.threads import fan_out
from ...diagnostics.bits import r_hat_limit, r_hat_of_sums
from ...inference.monte_carlo import find_burn_in
from ...machine.couplings import row_blocks
from ...machine.machine import BoltzmannMachine
from ...machine.units import Units
from ...sampling import make_chains
from ...sampling.valleys import is_even
from .moments import ORDERS, Counts, UpMoments, count, n_independent

MOST_EXACT = 20  # units whose states are all summed
N_GROUPS, GROUP_CHAINS = 16, 64  # groups of chains are independent of one another: their scatter is the error
N_CHAINS = N_GROUPS * GROUP_CHAINS
ROUND = 64  # samples of a chain between two looks at the errors
SHORTEST_BURN_IN, LONGEST_BURN_IN = 64, 4_096  # sweeps
LARGEST_THIN = 50
KEPT_ROUNDS = 16  # energies of the last ones are looked at
FEWEST_FOR_R_HAT = 4  # samples of a chain
NEEDED = ("mean", "covariance", "triple")  # orders whose errors decide how long to sample
FRACTION = 1 / 3  # of the data's errors that those of the machine are to reach


@dataclass(frozen=True)
class MachineMoments:
    """Moments with their Monte Carlo errors; `n_samples` is 0 where all states were summed.

    `precise` says whether the errors are below a third of the data's, `r_hat` is that of the chains' energies, or of
    single units where these agree less.
    """

    moments: UpMoments
    errors: dict[str, np.ndarray]
    n_samples: int
    r_hat: float
    precise: bool


def can_sum(model: BoltzmannMachine) -> bool:
    """Return whether there are few enough states for a sum.

    They are those of visible units where hidden ones have a closed form, else those of all units.
    """
    return (model.n_visible if model.hidden_are_independent else model.n_units) <= MOST_EXACT


def summed(model: BoltzmannMachine, beta: float, chosen: np.ndarray) -> MachineMoments:
    """Compute moments by a sum over all states; `chosen` are the triples."""
    n = model.n_visible
    p = _log_weights(model, beta)
    p = np.exp(p - p.max()).reshape(-1, 1 << n).sum(axis=0)
    p /= p.sum()
    n_up = np.bitwise_count(np.arange(1 << n, dtype=np.uint64))
    population = np.bincount(n_up, weights=p, minlength=n + 1)
    for unit in range(n):  # then p[S] is the probability that all units of the set S are up
        halves = p.reshape(-1, 2, 1 << unit)
        halves[:, 0] += halves[:, 1]
    bits = 1 << np.arange(n)
    i, j = np.triu_indices(n, 1)
    moments = UpMoments(p[bits], p[bits[i] | bits[j]], p[bits[chosen].sum(axis=1)], population, chosen)
    errors = {name: np.zeros_like(values) for name, values in moments.values(model.convention).items()}
    return MachineMoments(moments, errors, 0, 1.0, True)


def _log_weights(model: BoltzmannMachine, beta: float) -> np.ndarray:
    """Return -beta E of every state, visible units the fastest.

    Where hidden units have a closed form, the log of the sum over them.
    """
    closed = model.n_hidden > 0 and model.hidden_are_independent
    n = model.n_visible if closed else model.n_units
    found = np.empty(1 << n)
    for rows in row_blocks(len(found), model.n_units):
        up = (np.arange(rows.start, rows.stop)[:, None] >> np.arange(n) & 1).astype(np.uint8)
        states = model.convention.values(up)
        found[rows] = -model.free_energy(states, beta=beta) if closed else -beta * model.energy(states)
    return found


def sampled(
    model: BoltzmannMachine,
    beta: float,
    chosen: np.ndarray,
    data_scatter: dict[str, np.ndarray],
    n_rows: int,
    *,
    n_samples: int | None,
    seed: int,
    threads: int,
    max_seconds: float,
) -> MachineMoments:
    """Sample visible units from Gibbs chains until moments are precise, or the samples or the time are used up.

    Precise are errors of a third of what `n_rows` rows scatter by.

    Rows scatter by `data_scatter`, or by the machine's own moments where these say more, as for what no row shows.
    """
    started = time.perf_counter()
    chains = make_chains(model, N_CHAINS, beta=beta, seed=rng.derive(seed, rng.MONITOR), threads=threads)
    affordable = int(max_seconds / 4 / chains.sweep_seconds)
    find_burn_in(chains, min(LONGEST_BURN_IN, max(SHORTEST_BURN_IN, affordable)))
    pilot = chains.record(ROUND, 1)["samples/energy"]
    thin = min(LARGEST_THIN, math.ceil(2 * float(diagnostics.tau_int(pilot))))
    groups: list[Counts] = []
    energies: deque[np.ndarray] = deque(maxlen=KEPT_ROUNDS)
    n_done, n_up = 0, np.zeros((N_CHAINS, model.n_visible), np.int64)
    while True:
        left = ROUND if n_samples is None else -(-n_samples // N_CHAINS) - n_done
        found = chains.record(min(ROUND, left), thin)
        n_done += min(ROUND, left)
        energies.append(found["samples/energy"])
        fresh, up = _by_groups(found["samples/states"], model, chosen, threads)
        n_up += up
        groups = [a + b for a, b in zip(groups, fresh, strict=True)] if groups else fresh
        moments = UpMoments.of(sum(groups[1:], groups[0]), chosen)
        independent = moments.variances(model.convention)
        alone = {name: np.sqrt(variance / (n_done * N_CHAINS)) for name, variance in independent.items()}
        scatter = _scatter(groups, moments, alone, model.convention)
        precise = all(
            _ratio(scatter[name], np.maximum(data_scatter[name], np.sqrt(independent[name] / n_rows))) <= FRACTION
            for name in NEEDED
        )
        enough = precise if n_samples is None else n_done * N_CHAINS >= n_samples
        if enough or time.perf_counter() - started > max_seconds:
            r_hat = _r_hat(np.concatenate(energies))
            if not is_even(model, beta):  # of which chains on both sides are as they should be
                r_hat = max(r_hat, _r_hat_of_units(n_up, n_done))
            n_worth = n_independent(n_done * N_CHAINS, alone, scatter, N_CHAINS)
            errors = moments.errors(model.convention, scatter, n_worth)
            return MachineMoments(moments, errors, n_done * N_CHAINS, r_hat, precise)


def _r_hat(energies: np.ndarray) -> float:
    return float(diagnostics.r_hat(energies)) if len(energies) >= FEWEST_FOR_R_HAT else math.nan


def _r_hat_of_units(n_up: np.ndarray, n: int) -> float:
    """Return R-hat of the unit in which chains agree least, 1 where that may be chance or there are few samples.

    `n_up` (n_chains, n_units) counts in how many of `n` samples each unit was up. Valleys of many units may differ by
    less in energy than each fluctuates, and so R-hat of energies does not tell that chains stay in them.
    """
    n_chains, n_units = n_up.shape
    if n < FEWEST_FOR_R_HAT:
        return 1.0
    worst = float(r_hat_of_sums(n_up.sum(axis=0), np.square(n_up).sum(axis=0), n, n_chains).max())
    return worst if worst > r_hat_limit(n, n_chains // 2, n_units) else 1.0


def _by_groups(
    packed: np.ndarray, model: BoltzmannMachine, chosen: np.ndarray, threads: int
) -> tuple[list[Counts], np.ndarray]:
    """Count the visible units of states (n_samples, n_chains, bytes), once for each group of chains.

    Return also how often each unit of each chain was up, (n_chains, n_visible).
    """

    def one(first: int) -> tuple[Counts, np.ndarray]:
        rows = packed[:, first : first + GROUP_CHAINS].reshape(-1, packed.shape[2])
        up = np.unpackbits(rows, axis=1, count=model.n_visible, bitorder="little")
        return count(up, chosen, 1), up.reshape(len(packed), -1, model.n_visible).sum(axis=0, dtype=np.int64)

    counts, up = zip(*fan_out(one, range(0, N_CHAINS, GROUP_CHAINS), threads), strict=True)
    return list(counts), np.concatenate(up)


def _scatter(
    groups: list[Counts], moments: UpMoments, alone: dict[str, np.ndarray], units: Units
) -> dict[str, np.ndarray]:
    """Return what the groups' mean scatters by, and no less than `alone`, that of independent samples."""
    each = [UpMoments.of(group, moments.chosen).values(units) for group in groups]
    found = {}
    for name in ORDERS:
        scatter = np.std([one[name] for one in each], axis=0, ddof=1) / math.sqrt(len(groups))
        found[name] = np.maximum(scatter, alone[name])
    return found


def _ratio(errors: np.ndarray, data_errors: np.ndarray) -> float:
    """Return the root mean square of the ratio of errors, over what varies in the data."""
    varies = data_errors > 0
    if not varies.any():
        return 0.0
    return float(np.sqrt(np.mean((errors[varies] / data_errors[varies]) ** 2)))
