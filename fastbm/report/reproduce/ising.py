"""Finite-size scaling of the square lattice at its critical point.

At beta_c = log(1 + sqrt 2) / 2 the modulus of the magnetisation falls as L^(-beta/nu), n <m^2> rises as L^(gamma/nu),
and Binder's cumulant tends to a universal number: Onsager, Phys. Rev. 65, 117 (1944), doi:10.1103/PhysRev.65.117;
Kamieniarz and Blöte, J. Phys. A 26, 201 (1993), doi:10.1088/0305-4470/26/2/009.
"""

from __future__ import annotations

import math
from typing import Any

from ...models import ising
from ...runs.sample.verb import sample
from .found import Found, slope

CRITICAL = math.log(1.0 + math.sqrt(2.0)) / 2.0
SIZES = (8, 16, 32, 64)
EXACT, BLOTE = "Onsager (1944), Yang (1952): exact exponents", "Kamieniarz and Blöte (1993)"


def scaling(*, threads: int | None, data: Any, effort: float) -> list[Found]:
    """Return exponents and the cumulant, from Swendsen-Wang moves."""
    rows = []
    for k, side in enumerate(SIZES):
        run = sample(
            ising((side, side)), "swendsen-wang", beta=CRITICAL, n_chains=16, burn_in=200,
            n_sweeps=max(200, int(6_000 * effort)), seed=k, threads=threads,
        )  # fmt: skip
        rows.append(run.thermodynamics()[0])
    x = [math.log(side) for side in SIZES]
    modulus, modulus_error = _of_logarithms([row.abs_magnetisation for row in rows], x)
    square, square_error = _of_logarithms([row.susceptibility for row in rows], x)
    binder: Any = rows[-1].binder_cumulant
    return [
        Found("beta / nu", -modulus, modulus_error, 0.125, 0.002, EXACT),
        Found("gamma / nu", square, square_error, 1.75, 0.005, EXACT),
        Found(f"Binder's cumulant, L = {SIZES[-1]}", binder.value, binder.error, 0.61069, 0.002, BLOTE),
    ]


def _of_logarithms(estimates: list[Any], x: list[float]) -> tuple[float, float]:
    found = slope(x, [math.log(one.value) for one in estimates], [one.error / one.value for one in estimates])
    return found[0], found[1]
