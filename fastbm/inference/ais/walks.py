"""The choice of the chains that walk between a product model and a machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._base import checks
from ...machine.machine import BoltzmannMachine
from ...machine.up_form import up_form
from ...sampling.engine.layered import LOG_ODDS_ERROR
from ..scout.marginal import has_marginal, sides_of
from .walk import Walk
from .walk_layers import LayersWalk
from .walk_marginal import MarginalWalk
from .walk_units import UnitsWalk

HALF_DIGIT = 2.0**-24  # to which float32 rounds

WALKS: dict[str, type[Walk]] = {"blocks": LayersWalk, "marginal": MarginalWalk}


def check_walk(model: BoltzmannMachine, walk: Any) -> str:
    """Return the kind of walk, checked; it is "" for machines without layers."""
    if not model.is_layered:
        if walk is not None:
            raise ValueError(f"walk is for layered machines, which have two sides; got {walk!r}. Leave it out.")
        return ""
    if checks.choice("walk", "blocks" if walk is None else walk, WALKS) == "marginal" and not has_marginal(model):
        raise ValueError(
            'walk="marginal" holds the couplings of two sides in one matrix, too large here. Use "blocks".'
        )
    return walk or "blocks"


def make_walk(
    model: BoltzmannMachine, beta: float, base: np.ndarray, streams: np.ndarray, threads: int, walk: str
) -> Walk:
    """Return chains that walk between the product model with log-odds `base` and the machine."""
    kind = WALKS.get(walk, UnitsWalk)
    return kind(model, beta, base, streams, threads)


def weighed_units(model: BoltzmannMachine, walk: str) -> np.ndarray:
    """Return the units that weights depend on; the others are summed out."""
    if not walk:
        return np.arange(model.n_units)
    sides = sides_of(model)
    return min(sides, key=len) if walk == "marginal" else sides[0]


def rounding(model: BoltzmannMachine, beta: float, walk: str) -> float:
    """Return the error of log w that sums over layers in float32 may have; other walks have none to speak of."""
    if not walk:
        return 0.0
    form, field = up_form(model.couplings, model.flat_bias, model.convention)
    worst = beta * (form.absolute_sums() + np.abs(field))
    return HALF_DIGIT * float(np.linalg.norm(1.0 + worst)) if worst.max() * 2.0**-22 <= LOG_ODDS_ERROR else 0.0
