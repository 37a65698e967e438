"""What runs of `sample` recorded, by temperature: energies, and quantities of chains, of pairs and of whole ladders."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...sampling.observables import OF_PAIRS
from .samples import Samples

READ_BYTES = 1 << 25  # of packed states at once


class At(NamedTuple):
    """One temperature: the energies there, its number among recorded levels of a ladder, and the chains at it.

    Attributes
    ----------
    has_states : bool
        Whether states were recorded at it, where any were.
    """

    beta: float
    energy: np.ndarray
    level: int | None
    chains: np.ndarray | None
    has_states: bool

    def pairs(self) -> np.ndarray:
        """Return which pairs of chains 2k and 2k + 1 are at it, both."""
        assert self.chains is not None
        n_pairs = len(self.chains) // 2
        return np.asarray(self.chains[: 2 * n_pairs].reshape(-1, 2).all(axis=1))


def temperatures(run: Samples) -> list[At]:
    """Return each inverse temperature; of a ladder chains are at the last one."""
    if "tempering/energy" in run.streams:
        ladder, energy, every = run.betas, run.read("tempering/energy"), np.ones(len(run.beta), bool)
        last, whole = len(ladder) - 1, "ladder/states" in run.streams
        observed = any(name.startswith("ladder/") for name in run.streams)
        return [
            At(float(b), energy[:, :, k], k if observed else None, every if k == last else None, whole or k == last)
            for k, b in enumerate(ladder)
        ]
    energy, beta = run.energy, run.beta
    return [At(float(b), energy[:, beta == b], None, beta == b, True) for b in np.unique(beta)]


class Series(NamedTuple):
    """A quantity of chains or of pairs, (n_samples, n_chains), and at every level of ladders, (..., n_levels)."""

    of_chains: np.ndarray | None
    of_ladders: np.ndarray | None
    in_pairs: bool = False

    def at(self, at: At) -> np.ndarray | None:
        """Return the values at a temperature, None where they are not known."""
        if self.of_ladders is not None and at.level is not None:
            return self.of_ladders[:, :, at.level]
        if self.of_chains is None or at.chains is None:
            return None
        return self.of_chains[:, at.pairs() if self.in_pairs else at.chains]


def recorded(run: Samples, what: str) -> Series:
    """Return one of our observables as it was recorded, under whatever name."""
    for name, kind in (run.config["sample"].get("observables") or {}).items():
        if kind == what:
            return named(run, name)
    return Series(None, None, what in OF_PAIRS)


def named(run: Samples, name: str) -> Series:
    """Return an observable by the name under which it was recorded."""
    ladder = run.read(f"ladder/{name}") if f"ladder/{name}" in run.streams else None
    return Series(run.observables[name], ladder, run.config["sample"]["observables"][name] in OF_PAIRS)


def magnetisations(run: Samples) -> Series:
    """Return the means of spins, as they were recorded or of recorded states."""
    found = recorded(run, "magnetisation")
    if found.of_chains is None and run.has_states:
        units = run._start.convention
        found = found._replace(of_chains=2.0 * (run.magnetisation - units.lo) / units.span - 1.0)
    if found.of_ladders is None and "ladder/states" in run.streams:
        n_up = of_levels(run, lambda packed: np.bitwise_count(packed).sum(axis=-1, dtype=np.int64))
        found = found._replace(of_ladders=2.0 * n_up / run._start.n_units - 1.0)
    return found


def of_states(run: Samples, at: At, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return a function of the packed states at a temperature, (n_samples, n_chains, n_bytes), read in pieces."""
    if "ladder/states" in run.streams and at.level is not None:
        level = at.level
        return _in_pieces(run, "ladder/states", lambda packed: function(packed[:, :, level]))
    chains = at.chains
    return _in_pieces(run, "samples/states", lambda packed: function(packed[:, chains]))


def of_levels(run: Samples, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return a function of packed states at all levels, (n_samples, n_chains, n_levels, n_bytes), read in pieces."""
    return _in_pieces(run, "ladder/states", function)


def _in_pieces(run: Samples, name: str, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    n_samples = len(run.sweep)
    rows = max(1, READ_BYTES // run.streams[name].row_bytes)
    pieces = [run._reader.read(name, t, min(t + rows, n_samples)) for t in range(0, n_samples, rows)]
    return np.concatenate([function(piece) for piece in pieces])


def correlations_with_first(run: Samples) -> np.ndarray:
    """Return the overlap of every sample of a chain with its first one, (n_samples, n_chains)."""
    first = run._reader.read("samples/states", 0, 1)

    def n_off(packed: np.ndarray) -> np.ndarray:
        return np.bitwise_count(packed ^ first).sum(axis=-1, dtype=np.int64)

    return 1.0 - 2.0 * _in_pieces(run, "samples/states", n_off) / run._start.n_units


def overlaps(run: Samples) -> Series:
    """Return overlaps of chains 2k and 2k + 1, as they were recorded or of recorded states."""
    found, n_units, end = recorded(run, "overlap"), run._start.n_units, len(run.beta) // 2 * 2

    def n_off(packed: np.ndarray) -> np.ndarray:
        return np.bitwise_count(packed[:, :end:2] ^ packed[:, 1:end:2]).sum(axis=-1, dtype=np.int64)

    if found.of_chains is None:
        run._need("samples/states", "samples")
        found = found._replace(of_chains=1.0 - 2.0 * _in_pieces(run, "samples/states", n_off) / n_units)
    if found.of_ladders is None and "ladder/states" in run.streams:
        found = found._replace(of_ladders=1.0 - 2.0 * of_levels(run, n_off) / n_units)
    return found
