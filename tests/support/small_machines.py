"""What the tests of the model share: machines of seven units, and what their twins are given."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse

from fastbm.machine.machine import BoltzmannMachine
from tests.twins import reference

UNITS = ["spin", "binary"]
LAYERS = {"dense": None, "restricted": (3, 4), "deep": (3, 2, 2), "sparse": None}
KINDS = [(layout, units) for layout in LAYERS for units in UNITS]
BLOCK = np.arange(6.0).reshape(2, 3)
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def make(layout: str, units: str, seed: int = 1, scale: float = 1.0) -> BoltzmannMachine:
    """A machine of seven units, four of them hidden where it is not one of layers."""
    generator = np.random.default_rng(seed)
    if layout in ("dense", "sparse"):
        weights = np.triu(scale * generator.normal(size=(7, 7)), 1)
        bias = scale * generator.normal(size=7)
        weights += weights.T
        if layout == "sparse":  # 13 of 21 pairs; unit 2 coupled to unit 5 alone
            cut = np.zeros((7, 7), bool)
            cut[[0, 1, 2, 2, 2, 1, 0, 5], [2, 2, 3, 4, 6, 5, 4, 6]] = True
            weights = scipy.sparse.csr_array(np.where(cut | cut.T, 0.0, weights))
        return BoltzmannMachine(weights, bias, units=units, n_hidden=4, offset=0.3)
    sizes = LAYERS[layout]
    blocks = [scale * generator.normal(size=size) for size in itertools.pairwise(sizes)]
    biases = [scale * generator.normal(size=size) for size in sizes]
    return BoltzmannMachine(blocks, biases, units=units, offset=0.3)


def parts(model: BoltzmannMachine) -> tuple[np.ndarray, np.ndarray, str]:
    """Weights, bias and units as the twins take them, from the public attributes alone."""
    if model.is_layered:
        return reference.join_blocks(model.weights), np.concatenate(model.bias), model.units
    weights = model.weights
    return weights.toarray() if scipy.sparse.issparse(weights) else weights, model.bias, model.units


def exact(model: BoltzmannMachine, **options) -> reference.Exact:
    return reference.enumerate_states(*parts(model), offset=model.offset, **options)


def states_of(model: BoltzmannMachine) -> np.ndarray:
    return np.array(reference.all_states(model.n_units, model.units))
