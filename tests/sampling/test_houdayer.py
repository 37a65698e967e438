"""Houdayer's move against its twin; it keeps the energy of a pair, and the product of two Boltzmann distributions."""

from __future__ import annotations

import numpy as np
import pytest

import fastbm as bm
from fastbm._base import rng
from fastbm.kernels.sampling.houdayer import houdayer_pairs
from fastbm.sampling.chains import make_chains
from fastbm.sampling.houdayer import check_pairs
from tests.support import machines
from tests.support.machines import SURE, enumerate_machine
from tests.twins import clusters as twins, reference


def glass(n: int, seed: int, density: float = 0.5) -> bm.BoltzmannMachine:
    """A frustrated machine with fields."""
    generator = np.random.default_rng(seed)
    upper = np.triu((generator.random((n, n)) < density) * generator.normal(scale=0.6, size=(n, n)), 1)
    return bm.BoltzmannMachine(upper + upper.T, generator.normal(scale=0.3, size=n))


def pair_up(n_lanes: int) -> np.ndarray:
    return np.arange(n_lanes).reshape(-1, 2)


def random_lanes(n_units: int, n_lanes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (n_units, n_lanes)).astype(np.uint8)


@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
def test_moves_are_those_of_the_twin(density: float) -> None:
    model = glass(9, seed=1, density=density)
    indptr, indices, _ = model.couplings.csr()
    up, streams = random_lanes(9, 16, seed=2), rng.streams(3, 3).T.copy()
    pairs = np.array([[0, 5], [15, 2], [5, 7]])  # lane 5 moves twice
    words = [reference.xoshiro(stream) for stream in streams.T.tolist()]
    lanes = [[2 * int(bit) - 1 for bit in lane] for lane in up.T]
    for _ in range(40):
        sizes = houdayer_pairs(up, indptr, indices, pairs, streams)
        expected = [
            twins.houdayer(lanes[a], lanes[b], model.weights, stream)
            for (a, b), stream in zip(pairs, words, strict=True)
        ]
        assert sizes.tolist() == expected
        assert np.array_equal(2 * up.astype(int) - 1, np.transpose(lanes))


def test_equal_lanes_stay_and_draw_nothing() -> None:
    up, streams = np.ones((4, 2), np.uint8), rng.streams(0, 1).T.copy()
    before = streams.copy()
    graph = glass(4, seed=0).couplings.csr()
    assert houdayer_pairs(up, *graph[:2], np.array([[0, 1]]), streams).tolist() == [0]
    assert np.array_equal(streams, before)
    assert np.all(up == 1)


@pytest.mark.parametrize("units", machines.UNITS)
def test_the_energy_of_a_pair_does_not_change(units: str) -> None:
    """Couplings and biases are multiples of 1/16, so that the sum is exact."""
    generator = np.random.default_rng(4)
    upper = np.triu(generator.integers(-20, 20, (40, 40)) * (generator.random((40, 40)) < 0.1), 1) / 16
    model = bm.BoltzmannMachine(upper + upper.T, generator.integers(-9, 9, 40) / 16, units=units)
    up, streams, pairs = random_lanes(40, 32, seed=5), rng.streams(6, 16).T.copy(), pair_up(32)
    before, overlap = model.energy(model.convention.values(up.T)), up[:, ::2] ^ up[:, 1::2]
    sizes = houdayer_pairs(up, *model.couplings.csr()[:2], pairs, streams)
    after = model.energy(model.convention.values(up.T))
    assert np.array_equal(before.reshape(-1, 2).sum(axis=1), after.reshape(-1, 2).sum(axis=1))
    assert np.array_equal(overlap, up[:, ::2] ^ up[:, 1::2])
    assert (before != after).any()
    assert (sizes > 0).all()


def test_ladders_are_whole_pairs() -> None:
    check_pairs(4, 2)
    for n_ladders, first in ((3, 0), (4, 1), (3, 1)):
        with pytest.raises(ValueError, match=f"n_chains = {n_ladders}, first_chain = {first}"):
            check_pairs(n_ladders, first)


@pytest.mark.parametrize("seed", [0, 1])
def test_pairs_keep_the_product_distribution(seed: int) -> None:
    """102400 pairs, a G-test of both replicas together; every Gibbs sweep is followed by a cluster move."""
    model = glass(4, seed, density=0.7)
    probabilities = enumerate_machine(model).probabilities
    chains = make_chains(model, 1600, seed=seed + 10, threads=1)
    streams, pairs, codes = rng.streams(seed, 32).T.copy(), pair_up(64), []
    for t in range(128 * 8 + 40):
        chains.sweep(1)
        for up in chains.up:
            houdayer_pairs(up, *model.couplings.csr()[:2], pairs, streams)
        chains._fields = []  # fields follow from the bits, which have changed
        if t >= 40 and t % 8 == 0:
            codes.append((chains.bits() @ (1 << np.arange(4))).reshape(-1, 2) @ [1, 16])
    counts = np.bincount(np.concatenate(codes), minlength=256)
    assert counts.sum() == 102400
    assert reference.g_test(counts, np.outer(probabilities, probabilities).ravel()) > SURE
