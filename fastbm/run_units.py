"""Whether chains agree in their units, told from some of the recorded states, evenly spaced.

Means of single units and the mean of all of them, unless the machine is even: then these are known, and what is looked
at is |m| and whether units i and i + d differ, for some distances d. Means over chains say nothing of such pairs that a
flip of all units would change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from . import diagnostics
from .diagnostics.bits import bit_r_hat, r_hat_limit
from .diagnostics.drift import drifts

if TYPE_CHECKING:
    from .run_sampled import SampledRun as Run

MOST_BITS = 1 << 23  # that are looked at, so that a run of 10^4 units and 64 chains spends below 2 % of its time here
FEWEST, MOST = 32, 1024  # states of each chain
GOLDEN = 0.3819660112501051  # of the units: the distances between the units of pairs


class Agreement(NamedTuple):
    """How well chains of one group agree in one kind of quantity; `r_hat` is that of the worst, `limit` what passes."""

    name: str
    chains: np.ndarray
    r_hat: float
    limit: float
    drifts: bool = False


def agreements(run: Run, together: Sequence[np.ndarray], *, even: bool) -> list[Agreement]:
    """Compare the units of the chains of each group; none where fewer than 8 samples were recorded."""
    if not run.has_states or len(run.sweep) < 8:
        return []
    packed, n_units = _spaced(run), run._start.n_units
    found = []
    for chains in together:
        found.append(_of_magnetisation(packed[:, chains], chains, n_units, even=even))
        found.append(_of_units(packed[:, chains], chains, n_units, even=even))
    return found


def _spaced(run: Run) -> np.ndarray:
    """An even number of packed states of every chain, evenly spaced."""
    n_samples = len(run.sweep)
    wanted = int(np.clip(MOST_BITS // (run._start.n_units * len(run.beta)), FEWEST, MOST))
    packed = run.read("samples/states", max(1, n_samples // wanted))
    return packed[len(packed) % 2 :]


def _of_magnetisation(packed: np.ndarray, chains: np.ndarray, n_units: int, *, even: bool) -> Agreement:
    m = 2.0 * np.bitwise_count(packed).sum(axis=-1, dtype=np.int64) / n_units - 1.0
    m = np.abs(m) if even else m
    name, limit = "|m|" if even else "magnetisation", r_hat_limit(len(m) // 2, len(chains), 1)
    return Agreement(name, chains, float(diagnostics.r_hat(m)), limit, drifts(m))


def _of_units(packed: np.ndarray, chains: np.ndarray, n_units: int, *, even: bool) -> Agreement:
    half, shifts = len(packed) // 2, _distances(n_units, packed.shape[:2]) if even else [0]
    counts = np.zeros((2, len(chains), len(shifts) * n_units), np.uint16)
    for t, states in enumerate(packed):
        up = np.unpackbits(states, axis=1, count=n_units, bitorder="little")
        counts[t // half] += np.concatenate([up ^ np.roll(up, d, axis=1) for d in shifts], axis=1) if even else up
    r_hat = bit_r_hat(counts, half)
    limit = r_hat_limit(half, len(chains), len(r_hat))
    worst = int(np.argmax(r_hat))
    i = worst % n_units
    name = f"product of units {(i - shifts[worst // n_units]) % n_units} and {i}" if even else f"mean of unit {i}"
    return Agreement(name, chains, float(r_hat[worst]), limit)


def _distances(n_units: int, seen: tuple[int, ...]) -> list[int]:
    """Distances of pairs: all where units are few, else some multiples of the golden section, so that any two are far
    from one another.
    """
    most = max(1, MOST_BITS // (n_units * seen[0] * seen[1]))
    every = range(1, n_units // 2 + 1)
    if len(every) <= most:
        return list(every)
    return sorted({1 + int(k * GOLDEN * n_units) % (n_units - 1) for k in range(1, most + 1)})
