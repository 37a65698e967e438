"""What named models share: where their random numbers come from, and how they are told apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base import checks, rng
from ..machine.machine import BoltzmannMachine


def named(model: BoltzmannMachine, name: str, **arguments: Any) -> BoltzmannMachine:
    """Note in `model.origin` how it was made, in plain values, as files keep it."""
    if "seed" in arguments:
        arguments["seed"] = checks.seed(arguments["seed"])
    model.origin = {"name": name, **arguments}
    return model


def generator(seed: int | None) -> np.random.Generator:
    """Return the generator that draws a model's parameters."""
    return rng.keyed(rng.resolve(seed), rng.MODEL)
