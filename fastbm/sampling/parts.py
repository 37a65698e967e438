"""Chains in parts that are computed apart: how they are cut, and how what the parts record and hold is joined.

A part is the run that its chains would be alone, with `first_chain`. How chains are cut depends on the settings of the
whole alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from .._base.checks import StorageError
from .._base.streams import Stream
from .best import Best
from .engine.choice import KERNELS
from .engine.engine import Engine
from .engine.words import WordChains
from .exact import Exact
from .population import PopulationAnnealing
from .settings import SampleSettings, SingleUnit
from .tempering import Tempering

Arrays = dict[str, np.ndarray]
PART_CHAINS = 64
MOST_PARTS = 256  # each is a file of its own
# what is of all chains together: numbers that are added up; other rows without an axis, and states, are alike
SUMMED_ROWS = ("tempering/accepted", "tempering/attempted")
SUMMED_STATES = ("n_flips", "swap_counts")
BY_LEVEL = ("chains", "streams")  # of ladders whose temperatures keep their lanes
BEST = ("best_states", "best_energies")


def why_whole(s: SampleSettings) -> str:
    """Return why these chains are not computed in parts; empty if they are."""
    if isinstance(s.own, PopulationAnnealing):
        return "the replicas of a population are culled together"
    if isinstance(s.own, Exact):
        return "each part of independent draws would need the sums over all states"
    if s.until:
        return "until looks at all chains together"
    if s.burn_in == "auto":
        return 'burn_in="auto" looks at all chains together'
    if s.n_patterns > 1:
        return "chains with several clamped patterns share their rounding"
    if len(cuts(s)) == 1:
        return f"{s.n_chains} {'ladders' if isinstance(s.own, Tempering) else 'chains'} are one part"
    return ""


def cuts(s: SampleSettings) -> list[tuple[int, int]]:
    """Return the first chain of each part and the one after its last, counted from the first of the whole."""
    step = _chains_together(s)
    step *= -(-s.n_chains // (step * MOST_PARTS))
    return [(first, min(first + step, s.n_chains)) for first in range(0, s.n_chains, step)]


def _chains_together(s: SampleSettings) -> int:
    """Return how many chains a kernel sweeps together at least without loss: of ladders an even number."""
    own = s.own
    if isinstance(own, Tempering):
        if own.kernel == "lookup":  # whose words have a ladder in each bit, and which is soon done with a level
            return PART_CHAINS
        return 2 * max(1, -(-PART_CHAINS // (2 * own.replicas)))
    kernel = KERNELS[str(own.kernel)] if isinstance(own, SingleUnit) else Engine
    return kernel.block_lanes if issubclass(kernel, WordChains) else PART_CHAINS


def part_of(s: SampleSettings, first: int, end: int) -> SampleSettings:
    """Return the settings of some chains; observables that are functions are left out, as they are of all chains."""
    named = {name: what for name, what in s.observables.items() if what is not None}
    highest = max(s.beta) if len(s.beta) > 1 else None
    return replace(
        s, n_chains=end - first, first_chain=s.first_chain + first, beta=_by_group(s.by_chain[first:end]),
        observables=named, highest_beta=highest,
    )  # fmt: skip


def _by_group(values: np.ndarray) -> tuple[float, ...]:
    """Return one value for each of as few equal groups of consecutive chains as there can be."""
    size = math.gcd(len(values), *(np.flatnonzero(np.diff(values)) + 1).tolist())
    return tuple(values[::size].tolist())


def streams_of_whole(streams: Mapping[str, Stream], n_part: int, n_chains: int) -> dict[str, Stream]:
    """Return the streams of `n_chains` chains, given those of `n_part` chains."""
    found = {}
    for name, stream in streams.items():
        if stream.shape and name not in SUMMED_ROWS:
            found[name] = replace(stream, shape=(stream.shape[0] * n_chains // n_part, *stream.shape[1:]))
        else:
            found[name] = stream
    return found


def join_rows(name: str, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return rows of a stream of all chains, given those of the parts."""
    found: np.ndarray
    if name in SUMMED_ROWS:
        found = np.sum(parts, axis=0)
    elif parts[0].ndim > 1:
        found = np.concatenate(parts, axis=1)
    else:
        found = _alike(name, parts)
    return found


def join_states(s: SampleSettings, parts: Sequence[Mapping[str, np.ndarray]]) -> Arrays:
    """Return the last state of all chains, given those of the parts."""
    by_level = isinstance(s.own, Tempering) and s.own.kernel == "lookup"
    found: Arrays = {}
    for name in parts[0]:
        arrays = [np.asarray(part[name]) for part in parts]
        if name in BEST:
            continue
        if name in SUMMED_STATES:
            found[name] = np.sum(arrays, axis=0)
        elif not arrays[0].ndim:
            found[name] = _alike(name, arrays)
        elif by_level and name in BY_LEVEL:
            levels = [array.reshape(s.own.replicas, -1, array.shape[1]) for array in arrays]
            found[name] = np.concatenate(levels, axis=1).reshape(-1, arrays[0].shape[1])
        else:
            found[name] = np.concatenate(arrays)
    if BEST[0] in parts[0]:
        found |= _best(int(s.k or 0), parts)
    return found


def _best(k: int, parts: Sequence[Mapping[str, np.ndarray]]) -> Arrays:
    best = Best(k, np.asarray(parts[0][BEST[0]]).shape[1])
    for part in parts:
        best.show(*(np.asarray(part[name]) for name in BEST))
    return best.state()


def _alike(name: str, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return what all parts have alike."""
    if any(not np.array_equal(one, parts[0]) for one in parts):
        raise StorageError(f"the parts of the run differ in {name}, which they have in common. Begin it again.")
    return np.asarray(parts[0])
