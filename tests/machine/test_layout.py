"""A machine says what it is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm

COUPLED = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.5], [1.0, 0.5, 0.0]])
APART = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
MACHINES = {
    "dense": (bm.BoltzmannMachine(COUPLED), "dense", True, True),
    "sparse": (bm.BoltzmannMachine(scipy.sparse.csr_array(COUPLED)), "sparse", True, True),
    "restricted": (bm.BoltzmannMachine([np.ones((3, 2))]), "restricted", True, True),
    "deep": (bm.BoltzmannMachine([np.ones((3, 2)), np.ones((2, 2))]), "deep", False, False),
    "deep, cut": (bm.BoltzmannMachine([np.ones((3, 2)), np.zeros((2, 2))]), "deep", False, True),
    "general": (bm.BoltzmannMachine(COUPLED, n_hidden=2), "general", False, False),
    "general, apart": (bm.BoltzmannMachine(APART, n_hidden=2), "general", False, True),
    "general, sparse": (bm.BoltzmannMachine(scipy.sparse.csr_array(COUPLED), n_hidden=1), "general", False, True),
}


@pytest.mark.parametrize(("model", "layout", "independent", "free"), MACHINES.values(), ids=MACHINES)
def test_layouts(model: bm.BoltzmannMachine, layout: str, independent: bool, free: bool) -> None:
    assert (model.layout, model.hidden_are_independent, model.has_free_energy) == (layout, independent, free)
    hidden = model.hidden()
    assert hidden.n_units == hidden.n_hidden == model.n_hidden
    if model.n_hidden:
        given = model.condition(range(model.n_visible), np.ones(model.n_visible, int))
        states = np.random.default_rng(0).choice([-1, 1], (5, model.n_hidden))
        pull = given.flat_bias - hidden.flat_bias  # what the visible units add
        np.testing.assert_allclose(given.energy(states) - given.offset, hidden.energy(states) - states @ pull)
