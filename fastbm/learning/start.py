"""Where learning starts."""

from __future__ import annotations

import numpy as np

from .. import _checks, rng
from ..model import BoltzmannMachine
from ..rows import Rows
from .gaps import known_counts


def start_machine(
    p: np.ndarray, n_hidden: int, layout: str | None, units: str, seed: int, *, scale: float = 0.01
) -> BoltzmannMachine:
    """Return where learning starts: biases that give the visible units their means, small random couplings to hidden
    ones.

    `p` (n_visible,) are the parts of rows in which units are up, above 0 and below 1.
    Hinton, A practical guide to training restricted Boltzmann machines (2012), sect. 8,
    doi:10.1007/978-3-642-35289-8_32.
    """
    layout = layout or ("restricted" if n_hidden else "general")
    _checks.choice("layout", layout, ("restricted", "general"))
    if layout == "restricted" and not n_hidden:
        raise ValueError('layout="restricted" needs n_hidden of at least 1; got 0.')
    n_visible = len(p)
    bias = np.concatenate([np.log(p / (1 - p)), np.zeros(n_hidden)])
    generator = rng.keyed(seed, rng.MODEL)
    if layout == "restricted":
        binary = BoltzmannMachine([generator.normal(scale=scale, size=(n_visible, n_hidden))], bias, units="binary")
        return binary.to_units(units)
    n = n_visible + n_hidden
    upper = np.triu(generator.normal(scale=scale, size=(n, n)), 1)
    upper[:n_visible, :n_visible] = 0.0
    return BoltzmannMachine(upper + upper.T, bias, units="binary", n_hidden=n_hidden).to_units(units)


def smoothed_means(up: Rows | np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The parts of rows, by weight, in which units are up, kept from 0 and 1 by one row more, half up; of each unit
    where it is known.
    """
    up = Rows.of(up)
    scale = 1.0 if weights is None else len(up) / weights.sum()
    means: np.ndarray = (up.sums(weights) * scale + 0.5) / (known_counts(up, weights) * scale + 1.0)
    return means
