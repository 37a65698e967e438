"""Few chains whose units are drawn side by side have the bits of chains in lanes."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import fastbm as bm
from fastbm.sampling.chains import make_chains
from fastbm.sampling.engine import levels, sparse
from tests.sampling.engine.test_engine import regular_graph


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are made for little work too."""
    monkeypatch.setattr(sparse, "WORTH_ATTEMPTS", 0)


def hub() -> bm.BoltzmannMachine:
    """A unit with many neighbours, in a lattice."""
    graph = nx.grid_graph((20, 20), periodic=True)
    graph.add_edges_from(((0, 0), other) for other in list(graph)[25:300])
    weights = np.triu(nx.to_numpy_array(graph), 1) * np.random.default_rng(3).normal(size=(400, 400))
    return bm.BoltzmannMachine(weights + weights.T, np.random.default_rng(4).normal(size=400), units="binary")


MODELS = {
    "lattice": lambda: bm.models.edwards_anderson((12, 14), distribution="gaussian", field=0.3, seed=1),
    "odd": lambda: bm.models.edwards_anderson((7, 5, 9), distribution="gaussian", seed=1),
    "pieces": lambda: bm.models.edwards_anderson((136, 133), distribution="gaussian", seed=1),
    "scattered": lambda: bm.BoltzmannMachine(regular_graph(500, 4, np.random.default_rng(2))),
    "dense": lambda: bm.models.random_machine(20, seed=1),
    "hub": hub,
}
WIDE = 1e9  # a bias beside which couplings need int64


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("order", levels.ORDERS)
@pytest.mark.parametrize(("rule", "wide"), [("gibbs", False), ("gibbs", True), ("metropolis", False)])
def test_bits_are_those_of_lanes(name: str, order: str, rule: str, wide: bool) -> None:
    model, n_chains = MODELS[name](), 3
    bias = None
    if wide:
        bias = np.random.default_rng(5).normal(size=(20, model.n_units))
        bias[:, 1] = WIDE
    settings = {"kernel": "sparse", "order": order, "rule": rule, "beta": 0.7, "seed": 2}
    lanes = make_chains(model, 20, bias=bias, **settings)
    few = [
        make_chains(model, n_chains, bias=None if bias is None else bias[:n_chains], threads=threads, **settings)
        for threads in (1, 2)
    ]
    for n_sweeps in (3, levels.WORTH, 1):
        for chains in (lanes, *few):
            chains.sweep(n_sweeps)
    n_samples = 3 if name == "pieces" else 131  # more than are turned at once
    found = lanes.record(n_samples, 2)
    for chains in few:
        assert (chains._levels is None) == (name == "dense" or (name, order) == ("hub", "sequential"))
        assert chains._edges[2].dtype == (np.int64 if wide else np.int32)
        for key, rows in chains.record(n_samples, 2).items():
            assert np.array_equal(rows, found[key][:, :n_chains])
        assert np.array_equal(chains.state()["streams"], lanes.state()["streams"][:n_chains])
    assert few[0].n_flips == few[1].n_flips


def test_flips_are_counted_and_pieces_of_a_sweep_are_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    chains, cut = (make_chains(MODELS["pieces"](), 2, kernel="sparse", order="coloured", seed=3) for _ in range(2))
    chains.sweep(20)
    monkeypatch.setattr(cut, "_longest_piece", lambda: 100)
    cut.sweep(20)
    assert np.array_equal(chains.packed(), cut.packed())
    assert chains.n_flips == cut.n_flips
    before = chains.bits()
    chains.sweep(1)
    assert chains.n_flips - cut.n_flips == (before != chains.bits()).sum()
