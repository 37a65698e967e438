"""Draws from sums over layers: their distribution, their bits, and stops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fastbm._base import rng
from fastbm._base.halting import Halted
from fastbm.exact.layers import draws
from tests.support import layers, machines
from tests.support.layers import machine, source, total
from tests.support.machines import UNITS

small_blocks = layers.small_blocks


def stop_after(n_looks: int) -> Any:
    looks = itertools.count(1)
    return lambda: next(looks) > n_looks


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("sizes", [(4, 3), (3, 3, 2), (2, 3, 2, 1)])
def test_draws_follow_the_distribution(sizes, units):
    model = machine(sizes, units, 0.8)
    up = source(model, 0.9).draw(np.ascontiguousarray(rng.streams(1, 100).T), 1500, 2)
    truth = machines.enumerate_machine(model, 0.9)
    assert machines.g_test(model.convention.values(up), truth.probabilities) > machines.SURE


def test_draws_of_many_states_have_the_exact_moments():
    model = machine((30, 13), "spin", 0.4)  # some units are high
    exact, n_draws = total(model), 50_000
    up = source(model).draw(np.ascontiguousarray(rng.streams(2, 200).T), n_draws // 200, 2).reshape(-1, 43)
    pairs = up.astype(float).T @ up / n_draws
    errors = np.sqrt(exact.pairs * (1 - exact.pairs) / n_draws) + 1e-6
    # the largest of 946 correlated normal deviates exceeds 5.5 less often than once in 25,000 times
    assert (np.abs(pairs - exact.pairs) / errors).max() < 5.5
    assert abs(model.energy(model.convention.values(up)).mean() - exact.energy) < 4 * np.sqrt(
        exact.energy_variance / n_draws
    )


@pytest.mark.parametrize("held", [[3, 4], [0, 1, 2, 5, 6, 7]])
def test_draws_where_one_side_is_clamped(held):
    whole = machine((3, 2, 3), "spin")
    model = whole.condition(held, np.ones(len(held)))
    up = source(model).draw(np.ascontiguousarray(rng.streams(3, 10).T), 5000, 1)
    assert machines.g_test(model.convention.values(up), machines.enumerate_machine(model).probabilities) > machines.SURE


def test_draws_do_not_depend_on_how_they_are_asked_for(monkeypatch):
    model = machine((20, 12), "binary", 0.5)
    whole_streams = np.ascontiguousarray(rng.streams(4, 7).T)
    whole = source(model).draw(whole_streams, 30, 1)
    monkeypatch.setattr(draws, "CHECK_SECONDS", 1e-4)
    split_streams, split = np.ascontiguousarray(rng.streams(4, 7).T), source(model)
    parts = [split.draw(split_streams, n, threads) for n, threads in ((1, 3), (20, 2), (9, 1))]
    assert np.array_equal(whole, np.concatenate(parts)) and np.array_equal(whole_streams, split_streams)
    alone = np.ascontiguousarray(rng.streams(4, 1, first=5).T)
    assert np.array_equal(source(model).draw(alone, 30, 1)[:, 0], whole[:, 5])


def test_draws_of_couplings_of_any_range_are_numbers():
    model = machine((6, 5), "spin", 1e3)
    up = source(model).draw(np.ascontiguousarray(rng.streams(5, 4).T), 10, 1)
    assert np.all(up == (machines.enumerate_machine(model).mean > 0))


def test_draws_can_be_stopped_and_leave_their_streams(monkeypatch, small_blocks):
    monkeypatch.setattr(draws, "CHECK_SECONDS", 1e-5)
    drawn = source(machine((25, 12), "spin"))
    streams = np.ascontiguousarray(rng.streams(6, 8).T)
    before = streams.copy()
    for n in (0, 1, 5, 12):
        with pytest.raises(Halted):
            drawn.draw(streams, 40, 2, stop_after(n))
        assert np.array_equal(streams, before)
    assert drawn.draw(streams, 40, 2).shape == (40, 8, 37) and not np.array_equal(streams, before)
