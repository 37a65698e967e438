"""The path from a product model to a machine, every level of which is a machine too, for methods that cool.

f_t = f_0^(1 - t) f^t with f_0 = exp(a x) in terms of units that are up, x, and f = exp(-beta E). For t > 0 this is a
machine at inverse temperature t beta with the same couplings, whose biases are raised by (1 / t - 1) a / (beta span).
And f_t = f_0 exp(-t D) with D = beta E + a x: along t, D does all that the energy does along beta.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit

from ..._base import checks, rng
from ...machine.machine import BoltzmannMachine
from ...sampling.chains import make_chains
from ...sampling.engine.choice import choose_kernel
from ...sampling.engine.engine import Engine
from ...sampling.ladder import GRID, SECONDS, SWEEPS, Profile, asinh_grid, equal_steps, spread_of
from .bases import check_start, log_odds
from .scout import SCOUT_PART, attempt_seconds, scout

PILOT_CHAINS = 64
FEWEST_LEVELS = 8  # unless told: chains cross between valleys that the product model lacks at levels between


class ProductPath:
    """A machine, and the product model from which it is reached.

    Parameters
    ----------
    model : BoltzmannMachine
    beta : float
        Above 0.
    base : (n_units,) array
        Log-odds of the product model.
    name : str

    Attributes
    ----------
    log_z0 : float
        log Z of the product model.
    """

    def __init__(self, model: BoltzmannMachine, beta: float, base: np.ndarray, name: str) -> None:
        self.model, self.beta, self.base, self.name = model, beta, base, name
        self.log_z0 = float(np.logaddexp(0.0, base).sum())
        self._lo_over_span = float(model.convention.lo) / float(model.convention.span)

    def biases(self, t: np.ndarray) -> np.ndarray:
        """Return the biases of the machines at levels `t`, (n_levels, n_units); at t = 0 the machine's."""
        pull = self.base / (self.beta * float(self.model.convention.span))
        found: np.ndarray = self.model.flat_bias + _raised(t)[:, None] * pull
        return found

    def chains(self, n_chains: int, t: np.ndarray, seed: int, threads: int) -> Engine:
        """Return chains at levels `t`, (n_chains,) or one for all."""
        model, betas, bias = self.model, np.broadcast_to(t * self.beta, (n_chains,)), self.biases(t)
        kernel = choose_kernel(model.couplings, bias, model.convention, beta=betas, order="sequential")
        if kernel == "multispin":  # which takes no biases, and those of other levels are some
            kernel = "sparse"
        return make_chains(
            model, n_chains, beta=betas, bias=bias if len(bias) > 1 else bias[0], kernel=kernel, order="sequential",
            seed=seed, threads=threads, highest_beta=self.beta,
        )  # fmt: skip

    def draw(self, generator: np.random.Generator, n_states: int) -> np.ndarray:
        """Draw states of the product model, (n_states, n_units) uint8."""
        return (generator.random((n_states, len(self.base))) < expit(self.base)).astype(np.uint8)

    def measure(self, energies: np.ndarray, up: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the machine's energies and D of states whose energies in the machines at `t` are given.

        The energies returned are without offset.
        """
        tilt = up @ self.base
        own = energies + _raised(t) * ((tilt + self._lo_over_span * self.base.sum()) / self.beta)
        return own, self.beta * own + tilt


def _raised(t: np.ndarray) -> np.ndarray:
    return (1.0 - t) / np.where(t > 0.0, t, np.inf)


class LevelChains:
    """Chains that go down a path together; they begin as independent states of the product model.

    Attributes
    ----------
    engine : Engine
    t : float
        Where they stand.
    """

    def __init__(self, path: ProductPath, n_chains: int, seed: int, threads: int) -> None:
        self.path, self.t = path, 0.0
        self.engine = path.chains(n_chains, np.zeros(1), seed, threads)
        self.engine.load_bits(path.draw(rng.keyed(seed, rng.STARTS), n_chains))

    def set_beta(self, t: float) -> None:
        """Move the chains to the machine at level `t`; states stay."""
        self.t = t
        self.engine.set_beta(np.full(self.engine.n_chains, t * self.path.beta))
        self.engine.couple(self.path.model.couplings, self.path.biases(np.full(1, t))[0])

    def measure(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the chains' energies in the machine, without offset, and D."""
        return self.path.measure(self.engine.energies(), self.engine.bits(), np.full(1, self.t))


def find_path(
    model: BoltzmannMachine, beta: float, start: Any, n_sweeps: int, seed: int, threads: int
) -> ProductPath | None:
    """Find the path from a product model that is asked for; None where that is the machine at beta = 0.

    `n_sweeps` sweeps of one chain are what the call does, of which "tempering" takes a part on top.
    """
    check_start(model, start)
    if start is None or beta == 0.0 or (isinstance(start, str) and start == "uniform"):
        return None
    found = None
    if isinstance(start, str) and start == "tempering":
        seconds = SCOUT_PART * n_sweeps * model.n_units * attempt_seconds(model)
        found = scout(model, beta, seconds, rng.derive(seed, rng.PILOT, 1), threads, must=True, climb=False)
    return ProductPath(model, beta, log_odds(model, beta, start, found), start if isinstance(start, str) else "means")


def make_levels(
    path: ProductPath, n_levels: int | None, seed: int, threads: int, *, step: float | None = None
) -> np.ndarray:
    """Return levels from 0 to 1, in steps of equal thermodynamic length, or of this one, by a short pilot."""
    n_levels = None if n_levels is None else checks.whole("n_betas", n_levels, least=2)
    chains = LevelChains(path, PILOT_CHAINS, rng.derive(seed, rng.PILOT), threads)
    first = chains.measure()[1]
    grid = asinh_grid(0.0, 1.0, spread_of(first) / math.sqrt(path.model.n_units))
    work = chains.engine.attempt_seconds * path.model.n_units * PILOT_CHAINS
    n_sweeps = int(min(max(SECONDS / (GRID * work), 1), SWEEPS))
    mean, std = [float(first.mean())], [spread_of(first)]
    for t in grid[1:]:
        chains.set_beta(float(t))
        chains.engine.sweep(n_sweeps // 2)
        seen = []
        for _ in range(n_sweeps - n_sweeps // 2):
            chains.engine.sweep(1)
            seen.append(chains.measure()[1])
        mean.append(float(np.mean(seen)))
        std.append(spread_of(np.array(seen)))
    profile = Profile(grid, np.array(mean), np.array(std))
    levels = equal_steps(profile, n_levels, step=step)
    return levels if n_levels or len(levels) >= FEWEST_LEVELS else equal_steps(profile, FEWEST_LEVELS)
