"""The agreement of chains in single units, or pairs of them, from some of the recorded states, evenly spaced.

Means of single units and the mean of all of them, unless the machine is even: then these are known, and what is looked
at is |m| and whether units i and i + d differ, for some distances d. Means over chains say nothing of such pairs that a
flip of all units would change.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ... import diagnostics
from ..._base.threads import fan_out, resolve
from ...diagnostics.bits import r_hat_limit, r_hat_of_sums
from ...diagnostics.drift import drifts
from ...diagnostics.ranks import r_hat_of_codes
from ...machine.machine import BoltzmannMachine
from .samples import Samples

MOST_BITS = 1 << 19  # that are looked at, pair by pair: a verdict is to take a small part of the time of a run
FEWEST, MOST = 32, 256  # states of each chain
FEWEST_TOGETHER = 1024  # states of all chains, without which chance would hide much in few chains: these have more
WORTH_THREADS = 1 << 18  # bytes of states, from which on counting is worth handing over
GOLDEN = 0.3819660112501051  # of the units: the distances between the units of pairs


class Agreement(NamedTuple):
    """Agreement of the chains of a group in one kind of quantity; `r_hat` is the largest, `limit` what passes."""

    name: str
    chains: np.ndarray
    r_hat: float
    limit: float
    drifts: bool = False


def agreements(
    model: BoltzmannMachine, packed: np.ndarray, together: Sequence[np.ndarray], *, even: bool, threads: int | None
) -> list[Agreement]:
    """Compare the units of the chains of each group, in states as `spaced` returns them; empty where there are none."""
    if not len(packed):
        return []
    n_units, half = model.n_units, len(packed) // 2
    distances = _distances(n_units, len(packed) * packed.shape[1]) if even else None
    n_threads = resolve(threads) if packed.size >= WORTH_THREADS else 1
    sums, n_up = _count(packed, n_units, distances, together, n_threads)
    found = []
    for chains, (totals, squares) in zip(together, sums, strict=True):
        own = n_up if len(chains) == n_up.shape[1] else n_up[:, chains]
        found.append(_of_magnetisation(own, n_units, chains, even=even))
        r_hat = r_hat_of_sums(totals, squares, half, 2 * len(chains))
        found.append(_of_units(r_hat, half, model, chains, distances))
    return found


def spaced(run: Samples) -> np.ndarray:
    """Return an even number of packed states of every chain, evenly spaced; none where fewer than 8 were recorded."""
    n_samples, n_chains = run._n_samples, run.config["sample"]["n_chains"]
    if not run.has_states or n_samples < 8:
        return np.empty((0, n_chains, 0), np.uint8)
    fewest = max(FEWEST, FEWEST_TOGETHER // n_chains)
    wanted = max(fewest, min(MOST, MOST_BITS // (2 * run._start.n_units * n_chains)))
    packed = run._peek("samples/states", max(1, round(n_samples / wanted)))
    return packed[len(packed) % 2 :]


def _of_magnetisation(n_up: np.ndarray, n_units: int, chains: np.ndarray, *, even: bool) -> Agreement:
    m = 2.0 * np.arange(n_units + 1) / n_units - 1.0
    values, name = (np.abs(m), "|m|") if even else (m, "magnetisation")
    limit, own = r_hat_limit(len(n_up) // 2, len(chains), 1), values.take(n_up)
    r_hat = r_hat_of_codes(n_up, values) if n_up.size > n_units else float(diagnostics.r_hat(own))
    return Agreement(name, chains, r_hat, limit, drifts(own))


Sums = tuple[np.ndarray, np.ndarray]


def _count(
    packed: np.ndarray, n_units: int, distances: list[int] | None, together: Sequence[np.ndarray], threads: int
) -> tuple[list[Sums], np.ndarray]:
    """Count how often units are up, or those of pairs differ, in both halves of every chain.

    Return sums over the chains of each group, of the counts and of their squares, and how many units are up in each
    state. They are whole numbers, which do not depend on how chains are dealt to threads.
    """
    from ...kernels.digits import MOST_CHAINS, count_states, room_of  # short runs are not judged

    words, shifts = _words(packed), (-1,) if distances is None else tuple(distances)
    n_up, n_quantities = np.empty(packed.shape[:2], np.int64), n_units * len(shifts)
    pieces = [(g, piece) for g, chains in enumerate(together) for piece in _pieces(chains, threads, MOST_CHAINS)]

    def count(piece: tuple[int, int]) -> np.ndarray:
        masks = _masks(shifts, n_units, piece[1] - piece[0])
        found = np.zeros((2, len(shifts), n_units), np.uint32)
        count_states(words, piece, np.array(shifts), masks, room_of(masks, words.shape[2]), *found, n_up)
        return found.reshape(2, n_quantities)

    sums = np.zeros((len(together), 2, n_quantities), np.int64)
    for (g, _), more in zip(pieces, fan_out(count, [piece for _, piece in pieces], threads), strict=True):
        sums[g] += more
    return [(totals, squares) for totals, squares in sums], n_up


@lru_cache(maxsize=4)
def _masks(shifts: tuple[int, ...], n_units: int, n_chains: int) -> np.ndarray:
    """Return what `masks_of` does, not to be written to."""
    from ...kernels.digits import masks_of

    masks = masks_of(shifts, n_units, n_chains)
    masks.flags.writeable = False
    return masks


def _words(packed: np.ndarray) -> np.ndarray:
    """Return states as words of 64 units, (n_samples, n_chains, n_words) uint64."""
    n_bytes = packed.shape[2]
    if n_bytes % 8:
        size, row = -(-n_bytes // 8) * 8, f"V{n_bytes}"
        whole, rows = np.zeros((*packed.shape[:2], size), np.uint8), np.ascontiguousarray(packed)
        in_words: Any = {"names": ["row"], "formats": [row], "offsets": [0], "itemsize": size}
        whole.view(in_words)["row"] = rows.view(row)  # rows at once, which takes a fraction of the time of bytes
        packed = whole
    return np.ascontiguousarray(packed).view("<u8").astype(np.uint64, copy=False)


def _pieces(chains: np.ndarray, threads: int, most: int) -> list[tuple[int, int]]:
    """Return where consecutive ones of some chains begin and end, cut for threads and to at most so many."""
    found, gaps = [], np.flatnonzero(chains[1:] - chains[:-1] != 1)
    for begin, last in zip((0, *(gaps + 1)), (*gaps, -1), strict=True):
        start, end = int(chains[begin]), int(chains[last]) + 1
        size = min(most, -(-(end - start) // threads))
        found += [(first, min(first + size, end)) for first in range(start, end, size)]
    return found


def _of_units(
    r_hat: np.ndarray, half: int, model: BoltzmannMachine, chains: np.ndarray, distances: list[int] | None
) -> Agreement:
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
