"""The agreement of chains in single units, or pairs of them, from some of the recorded states, evenly spaced.

Means of single units and the mean of all of them, unless the machine is even: then these are known, and what is looked
at is |m| and whether units i and i + d differ, for some distances d. Means over chains say nothing of such pairs that a
flip of all units would change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ... import diagnostics
from ...diagnostics.bits import bit_r_hat, r_hat_limit
from ...diagnostics.drift import drifts
from ...kernels.bits import BITS, count_by_chain
from ...machine.machine import BoltzmannMachine
from .samples import Samples

MOST_BITS = 1 << 23  # that are looked at, so that a run of 10^4 units and 64 chains spends below 2 % of its time here
FEWEST, MOST = 32, 1024  # states of each chain
MANY_UNITS = 4096  # from which counting digits pays
GOLDEN = 0.3819660112501051  # of the units: the distances between the units of pairs


class Agreement(NamedTuple):
    """Agreement of the chains of a group in one kind of quantity; `r_hat` is the largest, `limit` what passes."""

    name: str
    chains: np.ndarray
    r_hat: float
    limit: float
    drifts: bool = False


def agreements(run: Samples, together: Sequence[np.ndarray], *, even: bool) -> list[Agreement]:
    """Compare the units of the chains of each group; empty where fewer than 8 samples were recorded."""
    if not run.has_states or len(run.sweep) < 8:
        return []
    packed, n_units = spaced(run), run._start.n_units
    distances = _distances(n_units, len(packed) * packed.shape[1]) if even else None
    counts, n_up = _counts(packed, n_units, distances)
    m, found = 2.0 * n_up / n_units - 1.0, []
    for chains in together:
        found.append(_of_magnetisation(np.abs(m) if even else m, chains, even=even))
        found.append(_of_units(counts, len(packed) // 2, run._start, chains, distances))
    return found


def spaced(run: Samples) -> np.ndarray:
    """Return an even number of packed states of every chain, evenly spaced."""
    n_samples = len(run.sweep)
    wanted = int(np.clip(MOST_BITS // (run._start.n_units * len(run.beta)), FEWEST, MOST))
    packed = run.read("samples/states", max(1, n_samples // wanted))
    return packed[len(packed) % 2 :]


def _of_magnetisation(m: np.ndarray, chains: np.ndarray, *, even: bool) -> Agreement:
    own, name = m[:, chains], "|m|" if even else "magnetisation"
    limit = r_hat_limit(len(m) // 2, len(chains), 1)
    return Agreement(name, chains, float(diagnostics.r_hat(own)), limit, drifts(own))


def _counts(packed: np.ndarray, n_units: int, distances: list[int] | None) -> tuple[np.ndarray, np.ndarray]:
    """Count how often units are up, or those of pairs differ, in both halves of every chain: (2, n_chains, k).

    Return with it how many units are up in each state.
    """
    n_samples, n_chains = packed.shape[:2]
    shifts = np.array([-1] if distances is None else distances)
    counts, n_up = np.zeros((2, n_chains, n_units * len(shifts)), np.uint16), np.empty((n_samples, n_chains), np.int64)
    count = count_by_chain
    if n_units >= MANY_UNITS:
        from ...kernels.digits import count_digits_by_chain as count  # most machines are smaller

    count(np.ascontiguousarray(packed), BITS, shifts, counts, n_up)
    return counts, n_up


def _of_units(
    counts: np.ndarray, half: int, model: BoltzmannMachine, chains: np.ndarray, distances: list[int] | None
) -> Agreement:
    r_hat = bit_r_hat(counts, half, chains)
    worst, limit = int(np.argmax(r_hat)), r_hat_limit(half, len(chains), len(r_hat))
    i, n_units = worst % model.n_units, model.n_units
    name = f"mean of unit {model.name_of(i)}"
    if distances is not None:
        name = f"product of units {model.name_of((i - distances[worst // n_units]) % n_units)} and {model.name_of(i)}"
    return Agreement(name, chains, float(r_hat[worst]), limit)


def _distances(n_units: int, n_states: int) -> list[int]:
    """Return the distances of the pairs of units that are compared.

    All of them where units are few, else some multiples of the golden section, so that any two are far from one
    another.
    """
    most, every = max(1, MOST_BITS // (n_units * n_states)), range(1, n_units // 2 + 1)
    if len(every) <= most:
        return list(every) or [0]
    return sorted({1 + int(k * GOLDEN * n_units) % (n_units - 1) for k in range(1, most + 1)})
