"""Ground states of the Sherrington-Kirkpatrick glass.

With couplings +-1 / sqrt(n) the mean energy a spin follows e(n) = e + A n^(-2/3): Boettcher, Eur. Phys. J. B 46, 501
(2005), doi:10.1140/epjb/e2005-00280-6, found A = 0.70(1) with Parisi's e = -0.76317 (Crisanti and Rizzo, Phys. Rev. E
65, 046137 (2002), doi:10.1103/PhysRevE.65.046137).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...machine.machine import BoltzmannMachine
from ...runs.sample.verb import sample
from .found import Found, slope

PARISI, AMPLITUDE = -0.76317, 0.70
SAMPLES = {31: 400, 63: 300, 127: 200}
BOETTCHER, LIMIT = "Boettcher (2005): e(n) = -0.7632 + 0.70(1) n^(-2/3)", "Crisanti and Rizzo (2002)"


def sk(*, threads: int | None, data: Any, effort: float) -> list[Found]:
    """Return mean energies by size, and what they extrapolate to, by annealing with the defaults."""
    found, means, errors = [], [], []
    for n, count in SAMPLES.items():
        energies = np.array([_ground_energy(n, k, threads) for k in range(max(20, int(count * effort)))]) / n
        mean, error = float(energies.mean()), float(energies.std(ddof=1) / np.sqrt(len(energies)))
        found.append(
            Found(f"energy a spin, n = {n}", mean, error, PARISI + AMPLITUDE * n ** (-2 / 3), 0.002, BOETTCHER)
        )
        means.append(mean)
        errors.append(error)
    _, _, limit, spread = slope([n ** (-2 / 3) for n in SAMPLES], means, errors)
    return [*found, Found("extrapolated to infinite n", limit, spread, PARISI, 0.003, LIMIT)]


def _ground_energy(n: int, seed: int, threads: int | None) -> float:
    signs = np.triu(np.random.default_rng([n, seed]).integers(0, 2, (n, n)) * 2.0 - 1.0, 1) / np.sqrt(n)
    model = BoltzmannMachine(signs + signs.T)
    run = sample(model, "annealing", n_chains=64, n_sweeps=20 * n, keep="best", k=1, seed=seed, threads=threads)
    return float(run.best_energies[0])
