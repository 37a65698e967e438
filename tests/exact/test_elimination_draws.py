"""Exact draws by elimination: their distribution, their moments, and that splitting them changes no bit."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import fastbm as bm
from fastbm._base import rng
from fastbm._base.halting import Halted
from fastbm.exact.elimination import draws
from fastbm.exact.elimination.draws import EliminationSource
from tests.support.elimination import GRAPHS, SPEEDS, lattice, on_graph, plan
from tests.support.machines import SURE, UNITS, enumerate_machine
from tests.twins import reference


def source(model: bm.BoltzmannMachine, beta: float = 1.0, max_bytes: float = 4e9) -> EliminationSource:
    return draws.source(model, beta, threads=1, max_bytes=max_bytes, speeds=SPEEDS)


def streams(n_chains: int, seed: int = 0) -> np.ndarray:
    return rng.streams(seed, n_chains).T.copy()


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("name", ["grid", "tree", "parts", "complete", "one unit"])
def test_draws_have_the_exact_distribution(name, units):
    model = on_graph(GRAPHS[name], units, scale=0.6)
    bits = source(model, 0.9).draw(streams(40), 3000, 2)
    truth = enumerate_machine(model, 0.9).probabilities
    numbers = bits.reshape(-1, model.n_units).astype(int) @ (1 << np.arange(model.n_units))
    assert reference.g_test(np.bincount(numbers, minlength=len(truth)), truth) > SURE


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_moments_of_draws(scale):
    model = on_graph(nx.grid_2d_graph(7, 8), scale=scale)
    planned = plan(model, 0.7)
    part, n = planned.piece(0, 1), 200 * 1000
    flat = source(model, 0.7).draw(streams(200, 3), 1000, 2).reshape(n, -1)
    assert_near(flat.mean(axis=0), part.up, n)
    i, j = planned.named_pairs.T
    assert_near(np.array([(flat[:, a] & flat[:, b]).mean() for a, b in zip(i, j, strict=True)]), part.pairs, n)


def assert_near(found: np.ndarray, truth: np.ndarray, n: int) -> None:
    """Within 4.5 standard errors: of 200 averages one falls out less often than once in 700 times."""
    assert (np.abs(found - truth) <= 4.5 * np.sqrt(np.maximum(truth * (1 - truth), 0) / n) + 1e-9).all()


def test_splitting_draws_chains_or_threads_changes_no_bit(monkeypatch):
    model = lattice(5, 6)
    whole_streams = streams(7)
    whole = source(model).draw(whole_streams, 40, 1)
    own = source(model)
    parts = streams(7)
    assert (np.concatenate([own.draw(parts, 15, 2), own.draw(parts, 25, 3)]) == whole).all()
    assert (parts == whole_streams).all()
    few = np.ascontiguousarray(streams(7)[:, 2:5])
    assert (own.draw(few, 40, 1) == whole[:, 2:5]).all()
    monkeypatch.setattr(draws, "COLUMNS", 16)
    monkeypatch.setattr(draws, "CELLS", 90)
    assert (source(model).draw(streams(7), 40, 2) == whole).all()


def test_chances_that_do_not_fit_are_computed_again():
    model = on_graph(nx.grid_2d_graph(6, 9))
    whole, cut = source(model), source(model, max_bytes=0)
    assert len(cut.tables.program.segments) > 1 == len(whole.tables.program.segments)
    assert cut.forecast.seconds > whole.forecast.seconds and cut.forecast.n_bytes < whole.forecast.n_bytes
    assert (cut.draw(streams(3), 20, 1) == whole.draw(streams(3), 20, 1)).all()


def test_a_stop_leaves_the_streams_as_they_were():
    model, before = lattice(6, 6), streams(4)
    after = before.copy()
    made = source(model)
    for last in (0, 1, 2):
        asked = iter([False] * last + [True] * 10)
        with pytest.raises(Halted):
            made.draw(after, 10, 1, lambda asked=asked: next(asked))
        assert (after == before).all()
    assert (made.draw(after, 10, 1) == source(model).draw(before, 10, 1)).all()


def test_what_is_too_wide_cannot_be_drawn():
    made = source(bm.models.sherrington_kirkpatrick(50, seed=1))
    assert made.forecast.seconds == made.draw_seconds == np.inf
    with pytest.raises(ValueError, match="elimination cannot draw from this machine: width 49"):
        made.draw(streams(1), 1, 1)
