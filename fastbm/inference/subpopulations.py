"""Many independent populations that are annealed side by side, down the same temperatures, in one engine.

Each population is resampled within itself, so that its exp(log Z) is an unbiased estimate of its own, and the spread of
these is an error bar that knows of all that replicas of one population have in common.

Hukushima and Iba, AIP Conf. Proc. 690, 200 (2003), doi:10.1063/1.1632130; Machta, Phys. Rev. E 82, 026704 (2010), sec.
III (weighted averages of populations), doi:10.1103/PhysRevE.82.026704.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from .._base import rng
from ..kernels.sampling.population import choose_step, resample_systematic
from ..machine.machine import BoltzmannMachine
from ..sampling.chains import kernel_of_many, make_chains
from ..sampling.engine.engine import Engine
from ..sampling.population import AT_ONCE
from .scout.product_path import LevelChains, ProductPath

WORD = 64  # replicas of a word of an engine's bits
LONGEST_SECONDS = 0.1  # that threads go on with, about, after a stop


class Subpopulations:
    """Populations at beta = 0, to be cooled.

    Parameters
    ----------
    model : BoltzmannMachine
    n_chains, n_populations : int
        Replicas, which the populations share as equally as can be.
    highest_beta : float
    seed, threads : int
    lookup_from : int, optional
        As for `fastbm.sampling.engine.choice.choose_kernel`.

    Attributes
    ----------
    engine : Engine
        The replicas; those of a population lie side by side.
    groups : list of slice
    beta : float
        Where the populations stand.
    log_z : (n_populations,) array
        Each population's estimate at `beta`, without offset.
    family : (n_chains,) int64 array
        The number of the initial replica that each descends from.
    parents : (n_chains,) int64 array or None
        Of which replica each is to be a copy when they are swept next.
    """

    engine: Engine

    def __init__(
        self,
        model: BoltzmannMachine,
        n_chains: int,
        n_populations: int,
        *,
        highest_beta: float,
        seed: int,
        threads: int,
        lookup_from: int | None = None,
    ) -> None:
        self.engine = make_chains(
            model,
            n_chains,
            beta=0.0,
            summed=True,
            seed=seed,
            threads=threads,
            highest_beta=highest_beta,
            kernel=kernel_of_many(model, n_chains, 0.0, "sequential", lookup_from),
        )
        self._divide(n_chains, n_populations, model.n_units * math.log(2.0), seed)

    def _divide(self, n_chains: int, n_populations: int, log_z0: float, seed: int) -> None:
        self._edges = np.arange(n_populations + 1) * n_chains // n_populations
        self.sizes = np.diff(self._edges)
        self.groups = [slice(int(a), int(b)) for a, b in itertools.pairwise(self._edges)]
        self.beta, self.log_z = 0.0, np.full(n_populations, log_z0)
        self.family = np.arange(n_chains)
        self._seed, self._n_steps = seed, 0
        self.parents: np.ndarray | None = None
        self._energies: np.ndarray | None = None  # of the present states, where they are known

    def measure(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the energies of all replicas, without offset, and what weighs them when `beta` changes: the same."""
        if self._energies is None:
            self._energies = self.engine.resample(None, 0)
        return self._energies, self._energies

    def next_beta(self, energies: np.ndarray, target: float, target_ess: float) -> float:
        """Return the coldest temperature whose weights still have the effective sample size that is asked for.

        Of all replicas together it is at least `target_ess` times their number.
        """
        most = target - self.beta
        step: float = choose_step(energies, most, target_ess)
        return target if step == most else max(self.beta + step, float(np.nextafter(self.beta, np.inf)))

    def cool(self, beta: float, energies: np.ndarray) -> None:
        """Weigh every population, whose replicas weigh by these energies, for `beta`; the next sweep resamples it."""
        step = beta - self.beta
        parents, (lowest, totals) = np.empty(len(energies), np.int64), np.empty((2, len(self.groups)))
        if (k := self._n_steps % AT_ONCE) == 0:
            first, n = self._n_steps, len(self.groups)
            self._uniforms = rng.uniforms(self._seed, rng.RESAMPLING, AT_ONCE, n, first=first)
        resample_systematic(parents, energies, self._edges, step, self._uniforms[k], lowest, totals)
        self.log_z += [math.log(mean) for mean in totals / self.sizes] - step * lowest
        self.family = self.family[parents]
        self.parents = parents
        self._set_beta(beta)
        self.beta, self._n_steps = beta, self._n_steps + 1

    def _set_beta(self, beta: float) -> None:
        self.engine.set_beta(np.full(self.engine.n_chains, beta))

    def sweep(self, n_sweeps: int) -> None:
        """Resample, and advance every replica, in pieces between which a stop can come."""
        piece = max(1, int(LONGEST_SECONDS / self.engine.sweep_seconds))
        for start in range(0, n_sweeps, piece):
            self._energies = self.engine.resample(self.parents, min(piece, n_sweeps - start))
            self.parents = None

    def weights(self) -> np.ndarray:
        """Each population's part in averages: exp(log_z), normalised, (n_populations,)."""
        w = np.exp(self.log_z - self.log_z.max())
        return w / w.sum()

    def means(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of values (n_chains, ...) over every population, (n_populations, ...)."""
        size = int(self.sizes[0])
        if (self.sizes != size).any():
            return np.stack([values[group].mean(axis=0) for group in self.groups])
        found: np.ndarray = values.reshape(len(self.sizes), size, *values.shape[1:]).mean(axis=1)  # the same sums
        return found

    def n_up(self) -> np.ndarray:
        """Return in how many replicas of every population units are up, (n_populations, n_units)."""
        size, blocks = int(self.sizes[0]), self.engine.blocks
        alike = min(size & -size, WORD)  # replicas of one population in a part of a word
        if (self.sizes != size).any() or alike < 8 or any(block.start % WORD for block in blocks):
            return np.add.reduceat(self.engine.bits(), self._edges[:-1], axis=0, dtype=np.uint32)
        words = [self.engine.words(k).astype("<u8", copy=False) for k in range(len(blocks))]
        of_parts = np.concatenate([np.bitwise_count(some.view(f"<u{alike // 8}")) for some in words], axis=1)
        n_parts, of_parts = size // alike, of_parts[:, : self.engine.n_chains // alike]
        found: np.ndarray = of_parts[:, ::n_parts].astype(np.uint32)
        for k in range(1, n_parts):
            found += of_parts[:, k::n_parts]
        return np.ascontiguousarray(found.T)


class BasedPopulations(Subpopulations):
    """Populations of states of a product model, that go along the path to the machine: `beta` goes from 0 to 1."""

    def __init__(self, path: ProductPath, n_chains: int, n_populations: int, *, seed: int, threads: int) -> None:
        self._chains = LevelChains(path, n_chains, seed, threads)
        self.engine = self._chains.engine
        self._divide(n_chains, n_populations, path.log_z0, seed)

    def measure(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the energies of all replicas in the machine, without offset, and D, which weighs them."""
        energies, _ = super().measure()
        return self._chains.path.measure(energies, self.engine.bits(), np.full(1, self._chains.t))

    def _set_beta(self, beta: float) -> None:
        self._chains.set_beta(beta)
