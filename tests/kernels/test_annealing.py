"""Walks along a path, chain by chain, against their twins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse

from fastbm.kernels.inference.annealing import anneal_dense, anneal_sparse, draw_tempered_layer, follow_layers, scale_of
from fastbm.kernels.sampling.dense import init_fields_dense, room_of_fields
from fastbm.kernels.sampling.field_energies import room_for_words
from fastbm.kernels.sampling.limits import ROWS
from fastbm.sampling.engine.dense import dense_room
from fastbm.sampling.engine.layered import BitProduct
from tests.twins import annealing, reference

LANES, CHAINS = 16, 11  # lanes beyond the chains walk too, and nobody looks at them
INTEGERS = (np.int32, np.int64)


class Problem:
    """A random machine in integers, chains on their way, and a path."""

    def __init__(self, n: int, dtype: type, *, down: bool, seed: int = 0, unit: float = 2.0**-12) -> None:
        generator = np.random.default_rng([seed, n])
        cut = np.triu(generator.random((n, n)) < 0.5, 1)
        upper = np.where(cut, generator.integers(-6000, 6000, (n, n)), 0)
        self.rises = (upper + upper.T).astype(dtype)
        self.start = generator.integers(-4000, 4000, n).astype(dtype)
        self.base = np.rint(generator.normal(size=n) * 1024) / 1024
        knots = np.array([0.0, 0.1, 0.45, 0.8, 1.0])[:: -1 if down else 1]
        self.path = np.column_stack([np.diff(knots), knots[1:], np.full(len(knots) - 1, unit)])
        self.sites = np.arange(n, dtype=np.int32)[:: -1 if down else 1].copy()
        self.up = generator.integers(0, 2, (n, LANES)).astype(np.uint8)
        self.streams = generator.integers(1, 2**32, (4, LANES), dtype=np.uint32)
        gains = [annealing.gain(x, self.rises.tolist(), self.start.tolist()) for x in self.up.T.tolist()]
        self.sums = (np.array(gains, np.int64), self.base @ self.up, np.zeros(LANES))

    def expect(self) -> list[tuple[list[int], float]]:
        """States and log w of all chains, by the twin."""
        found = []
        for c in range(CHAINS):
            up = self.up[:, c].tolist()
            words = reference.xoshiro(self.streams[:, c].tolist())
            about = (self.rises.tolist(), self.start.tolist(), self.base.tolist(), self.path.tolist())
            log_w = annealing.walk(up, *about, words, self.sites.tolist())
            found.append((up, log_w))
        return found

    def check(self, expected: list[tuple[list[int], float]]) -> None:
        gains, tilts, log_w = self.sums
        for c, (up, total) in enumerate(expected):
            assert self.up[:, c].tolist() == up
            assert log_w[c] == pytest.approx(total, abs=1e-11)
            assert gains[c] == annealing.gain(up, self.rises.tolist(), self.start.tolist())
            assert tilts[c] == sum(b for b, x in zip(self.base, up, strict=True) if x)  # exact: multiples of 1 / 1024

    def walk_dense(self) -> None:
        width = -(-len(self.up) // 64) * 64
        rises, start = np.zeros((len(self.up), width), self.rises.dtype), np.zeros((CHAINS, width), self.rises.dtype)
        rises[:, : len(self.up)], start[:, : len(self.up)] = self.rises, self.start
        fields = np.empty_like(start)
        init_fields_dense(fields, self.up, rises, start, room_of_fields(fields))
        words = room_for_words(self.up, CHAINS)
        room = (dense_room(self.up, fields), (*words, np.empty(CHAINS), np.empty(ROWS, np.float32)))
        chains = (fields, rises, start[:1].astype(np.int64))
        anneal_dense(self.up, chains, self.sums, self.base, self.path, self.streams, self.sites, room)
        anew = np.empty_like(fields)
        init_fields_dense(anew, self.up, rises, start, room_of_fields(anew))
        assert np.array_equal(fields, anew)

    def walk_sparse(self) -> None:
        matrix = scipy.sparse.csr_array(self.rises)
        graph = (matrix.indptr.astype(np.int64), matrix.indices, matrix.data.astype(self.rises.dtype), self.start)
        anneal_sparse(self.up, self.sums, graph, self.base, self.path, self.streams, self.sites)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("n", [1, 15, 16, 40])
@pytest.mark.parametrize("kernel", ["walk_dense", "walk_sparse"])
def test_a_walk_is_that_of_the_twin(kernel: str, n: int, dtype: type, down: bool) -> None:
    problem = Problem(n, dtype, down=down)
    expected = problem.expect()
    getattr(problem, kernel)()
    problem.check(expected)


@pytest.mark.parametrize("unit", [1e-300, 1e3])
@pytest.mark.parametrize("kernel", ["walk_dense", "walk_sparse"])
def test_fields_of_any_size_decide(kernel: str, unit: float) -> None:
    """Where fields have no say units follow the product model; where nothing else has, they follow the fields."""
    problem = Problem(20, np.int64, down=False, unit=unit)
    expected = problem.expect()
    getattr(problem, kernel)()
    log_w = problem.sums[2]
    for c, (up, total) in enumerate(expected):
        assert problem.up[:, c].tolist() == up
        assert log_w[c] == pytest.approx(total, rel=1e-12, abs=1e-11)
    assert np.isfinite(log_w).all()


def test_scales_are_floats_of_any_unit() -> None:
    found = [float(scale_of(unit)) for unit in (0.0, 1e-320, 1e-30, 0.25, 1e300)]
    np.testing.assert_allclose(found, [3.4e38, 3.4e38, 1e30, 4.0, 1e-30], rtol=1e-6)


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_tempered_layer_is_that_of_the_twin(dtype: type, t: float) -> None:
    generator = np.random.default_rng(3)
    n, lanes = 37, 5
    fields = generator.normal(scale=3.0, size=(n, lanes)).astype(dtype)
    base, tilt = generator.normal(size=(2, n))
    streams = generator.integers(1, 2**32, (4, lanes), dtype=np.uint32)
    words = [reference.xoshiro(stream) for stream in streams.T.tolist()]
    up, sums = np.full((n, lanes), 0.5, dtype), np.full(lanes, 1.5)
    draw_tempered_layer(up, fields, base, t, tilt, streams, sums)
    for c in range(lanes):
        drawn, total = annealing.draw_layer(fields[:, c].tolist(), base.tolist(), t, tilt.tolist(), words[c])
        assert up[:, c].tolist() == drawn
        assert sums[c] == pytest.approx(1.5 + total, abs=1e-12)


@pytest.mark.parametrize("path", [[0.3], [0.0, 0.25, 1.0], [1.0, 0.5]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_walk_over_layers_is_that_of_the_twin(dtype: type, path: list[float]) -> None:
    # couplings and biases of few bits, so that fields are exact in any order
    generator, starts, n_lanes = np.random.default_rng(4), np.array([0, 35, 41, 44]), 16
    blocks = [generator.integers(-9, 10, size) / 16.0 for size in ((35, 6), (6, 3))]
    bias, tilt = generator.integers(-9, 10, 44) / 8.0, generator.normal(size=44)
    base = np.rint(generator.normal(size=44) * 64) / 64
    up, streams = np.full((44, n_lanes), 1, dtype), generator.integers(1, 2**32, (4, n_lanes), dtype=np.uint32)
    totals, tilts = np.full(n_lanes, 2.5), np.full(n_lanes, 0.5)
    words = [reference.xoshiro(stream) for stream in streams.T.tolist()]
    made = [BitProduct(one.astype(dtype)) for block in blocks for one in (block, block.T)]
    machine = starts, bias.astype(dtype)[:, None], BitProduct.rows(made, 9)
    room = np.empty((35, n_lanes), dtype), *BitProduct.room(made, n_lanes)
    follow_layers(up, (totals, tilts), streams, machine, (base.astype(dtype), base, tilt), room, np.array(path))

    weights, layers = reference.join_blocks(blocks), [range(*ends) for ends in ((0, 35), (35, 41), (41, 44))]
    for c in range(n_lanes):
        state, total, tilted = [1] * 44, 2.5, 0.5
        for before, after in itertools.pairwise([None, *path] if len(path) == 1 else path):
            if before is not None:
                total += (after - before) * tilted
                fields = [reference.field(state, i, weights, bias) for i in layers[1]]
                state[35:41], change = reference.anneal_layer(fields, base[35:41].tolist(), before, after, words[c])
                total += change
            tilted = 0.0
            for layer in (layers[0], layers[2]):
                some = slice(layer.start, layer.stop)
                fields = [reference.field(state, i, weights, bias) for i in layer]
                state[some], more = annealing.draw_layer(
                    fields, base[some].tolist(), after, tilt[some].tolist(), words[c]
                )
                tilted += more
        assert up[:, c].tolist() == state
        assert totals[c] == pytest.approx(total, abs=2e-5)
        assert tilts[c] == pytest.approx(tilted, abs=1e-12)
