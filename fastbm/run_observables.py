"""Observables of sampling runs: energy and magnetisation at each temperature, beside what is known exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import diagnostics, lattice
from .run_view import Run

STEP = 1e-4  # of beta, for the derivative of log Z


class Temperature(NamedTuple):
    """One temperature: energy per unit and modulus of the magnetisation per unit, with standard errors.

    `exact_energy` is that of the finite periodic lattice (Kaufman), `exact_magnetisation` that of the infinite one
    (Yang); None for other models.
    """

    beta: float
    energy: float
    energy_error: float
    magnetisation: float
    magnetisation_error: float
    exact_energy: float | None
    exact_magnetisation: float | None
    r_hat: float


def by_temperature(run: Run) -> list[Temperature]:
    """Return one row for each inverse temperature of a sampling run."""
    energy, magnetisation, beta = run.energy / run.model.n_units, np.abs(run.magnetisation), run.beta
    sides = square_lattice(run)
    rows = []
    for b in np.unique(beta):
        e, m = energy[:, beta == b], magnetisation[:, beta == b]
        exact_energy = exact_magnetisation = None
        if sides is not None:
            exact_energy, exact_magnetisation = (
                lattice_energy(*sides, float(b)),
                lattice.onsager_magnetisation(float(b)),
            )
        rows.append(
            Temperature(
                float(b),
                float(e.mean()),
                float(diagnostics.standard_error(e)),
                float(m.mean()),
                float(diagnostics.standard_error(m)),
                exact_energy,
                exact_magnetisation,
                float(diagnostics.r_hat(e)),
            )
        )
    return rows


def square_lattice(run: Run) -> tuple[int, int] | None:
    """The sides of the periodic square lattice with J = 1 and no field that a run samples, or None."""
    origin = run.config.get("model", {}).get("origin", {})
    if origin.get("name") != "ising" or not origin["periodic"] or origin["coupling"] != 1.0 or origin["field"] != 0.0:
        return None
    sides = origin["shape"]
    return (sides[0], sides[1]) if len(sides) == 2 and min(sides) >= 3 else None


def lattice_energy(rows: int, columns: int, beta: float) -> float:
    """Exact energy per unit of the periodic lattice: minus the derivative of Kaufman's log Z."""
    high, low = beta + STEP, max(beta - STEP, 0.0)
    slope = (lattice.kaufman_log_z(rows, columns, high) - lattice.kaufman_log_z(rows, columns, low)) / (high - low)
    return 0.0 if beta == 0.0 else -slope / (rows * columns)
