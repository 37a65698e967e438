"""Samples of cluster updates: the states that sweeps leave, in any number of calls, and their energies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.kernels.words import SIDE
from fastbm.sampling import cluster_squares, clusters
from fastbm.sampling.clusters import RULES
from fastbm.sampling.engine import edges

from .test_clusters import machine, make

CASES = ["gauge", "biases of chains", "whole numbers", "sums", "many units", "two temperatures", "cut sweeps"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("case", CASES)
def test_samples_are_the_states_after_their_sweeps(rule: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any number of calls, side by side or one chain after the other, and whatever energies are told from."""
    n_chains, n_samples, thin, settings = 7, 150, 2, dict[str, Any](beta=0.3)
    model = bm.models.ising((11, 13)) if case == "whole numbers" else machine("mattis", "random", "spin")
    if case == "biases of chains":
        settings["bias"] = np.random.default_rng(1).normal(size=(n_chains, model.n_units))
    if case == "two temperatures":
        settings["beta"] = np.repeat([0.2, 0.6], [3, 4])
    if case == "sums":  # in float64, where whole numbers are too coarse
        monkeypatch.setattr(edges, "ENERGY_ERROR", -1.0)
        edges._kept.cache_clear()
    if case == "many units":
        monkeypatch.setattr(cluster_squares, "LARGEST", 0)
    if case == "cut sweeps":
        monkeypatch.setattr(clusters, "PIECE_SECONDS", 1e-9)
        n_samples, thin = 9, SIDE + 1
    chains, others, single = (make(model, rule, n_chains, **settings) for _ in range(3))
    for each in (chains, others, single):
        each.sweep(3)
    found = chains.record(n_samples, thin)
    pieces = [others.record(n, thin) for n in (1, 3, n_samples - 5, 0, 1)]
    for name, rows in found.items():
        assert np.array_equal(rows, np.concatenate([piece[name] for piece in pieces])), name
    bias = settings.get("bias", model.flat_bias)
    for t in range(n_samples):
        single.sweep(thin)
        assert np.array_equal(single.packed(), found["samples/states"][t])
        values = model.convention.values(single.bits(), np.float64)
        exact = -(values * (0.5 * model.couplings.field(values) + bias)).sum(axis=1)
        np.testing.assert_allclose(found["samples/energy"][t], exact, rtol=0, atol=1e-11)
    assert all(np.array_equal(chains.state()[name], others.state()[name]) for name in chains.state())
    edges._kept.cache_clear()


def test_energies_of_subnormal_couplings_are_no_whole_numbers_of_nothing() -> None:
    model = machine("mattis", "random", "spin")
    model = bm.BoltzmannMachine(1e-315 * model.weights, 1e-315 * model.flat_bias)
    assert not edges.EdgeNumbers(model.couplings, model.flat_bias, binary=False).exact


def test_an_energy_that_is_not_of_its_state_is_refused() -> None:
    chains = make(bm.models.ising((64, 64)), "wolff", 2, beta=0.3)
    chains.record(20, 1)
    chains.state()
    chains._up[0, :9] ^= 1
    with pytest.raises(RuntimeError, match="is not that of its state"):
        chains.state()
