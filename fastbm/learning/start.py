"""Where learning starts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .. import _checks, rng
from ..model import BoltzmannMachine
from ..rows import Rows

LAYOUTS = ("restricted", "general", "deep")


def check_hidden(n_hidden: Any) -> tuple[int, ...]:
    """Check what a user passed as the number of hidden units, one number or one for each layer; the latter."""
    if not isinstance(n_hidden, (list, tuple, np.ndarray)):
        n = _checks.whole("n_hidden", n_hidden)
        return (n,) if n else ()
    if not len(n_hidden):
        raise ValueError("n_hidden must hold the size of at least one layer; got an empty list. Use 0 for none.")
    return tuple(_checks.whole(f"n_hidden[{k}]", size, least=1) for k, size in enumerate(n_hidden))


def start_machine(
    p: np.ndarray, n_hidden: Any, layout: str | None, units: str, seed: int, *, scale: float = 0.01
) -> BoltzmannMachine:
    """Return where learning starts: biases that give the visible units their means, small random couplings to hidden
    ones.

    `p` (n_visible,) are the parts of rows in which units are up, above 0 and below 1; `n_hidden` one number, or one for
    each layer.
    Hinton, A practical guide to training restricted Boltzmann machines (2012), sect. 8,
    doi:10.1007/978-3-642-35289-8_32.
    """
    sizes = check_hidden(n_hidden)
    layout = _check_layout(layout, sizes)
    n_visible = len(p)
    bias = np.concatenate([np.log(p / (1 - p)), np.zeros(sum(sizes))])
    generator = rng.keyed(seed, rng.MODEL)
    if layout != "general":
        blocks = [generator.normal(scale=scale, size=size) for size in itertools.pairwise((n_visible, *sizes))]
        return BoltzmannMachine(blocks, bias, units="binary").to_units(units)
    n = len(bias)
    upper = np.triu(generator.normal(scale=scale, size=(n, n)), 1)
    upper[:n_visible, :n_visible] = 0.0
    return BoltzmannMachine(upper + upper.T, bias, units="binary", n_hidden=n - n_visible).to_units(units)


def _check_layout(layout: str | None, sizes: tuple[int, ...]) -> str:
    if layout is None:
        return ("general", "restricted", "deep")[min(len(sizes), 2)]
    _checks.choice("layout", layout, LAYOUTS)
    if not sizes and layout != "deep":
        raise ValueError(
            f"layout={layout!r} says how hidden units are coupled, and n_hidden is 0. Raise n_hidden, or leave layout "
            "out."
        )
    if (layout == "deep") != (len(sizes) > 1):
        raise ValueError(
            f'layout="deep" and n_hidden with several layers, such as [500, 250], go together; got layout={layout!r} '
            f"with {len(sizes)} hidden layers. Leave layout out."
        )
    return layout


def smoothed_means(up: Rows | np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The parts of rows, by weight, in which units are up, kept from 0 and 1 by one row more, half up; of each unit
    where it is known.
    """
    up = Rows.of(up)
    scale = 1.0 if weights is None else len(up) / weights.sum()
    means: np.ndarray = (up.sums(weights) * scale + 0.5) / (up.known_counts(weights) * scale + 1.0)
    return means
