"""Thresholds that are looked up, against their twin: every chain, every random bit, in every form of the code."""

from __future__ import annotations

import numpy as np
import pytest

from fastbm.kernels import patterns
from fastbm.kernels.sampling.lookup import FEW, MANY, fill_thresholds, sweep_lookup
from fastbm.sampling.engine.words import in_bytes
from tests.twins import lookup as slow, reference

WORDS = patterns.WORDS
ALL = 0xFFFFFFFF


class Problem:
    """A random graph of few neighbours with chains on it; `scale` is the size of fields and couplings."""

    def __init__(self, n: int, degree: int, betas: list[float], keep: float | None, seed: int, scale: float = 1.0):
        chance = np.random.default_rng(seed)
        self.n, self.betas, self.keep = n, np.array(betas), keep
        self.lists = []
        for i in range(n):
            others = chance.permutation([j for j in range(n) if j != i])[: chance.integers(0, degree + 1)]
            self.lists.append({int(j): float(x) for j, x in zip(others, chance.normal(size=len(others)), strict=True)})
        self.lists[0] = {j: scale * float(chance.normal()) for j in range(1, min(n, degree + 1))}
        self.neighbours, self.rises = np.full((n, degree), n, np.int32), np.zeros((n, degree))
        for i, entries in enumerate(self.lists):
            self.neighbours[i, : len(entries)] = list(entries)
            self.rises[i, : len(entries)] = list(entries.values())
        self.fields = scale * chance.normal(size=n)
        self.up = chance.integers(0, 2**32, (n + 1, WORDS), dtype=np.uint32)
        self.up[n] = 0
        self.streams = chance.integers(1, 2**32, (WORDS, 4, 16), dtype=np.uint32)
        self.used = np.array([ALL, ALL, ALL, 0], np.uint32)

    def table(self) -> np.ndarray:
        own = self.keep is not None
        entries = patterns.n_entries(self.rises.shape[1] + own)
        table = np.zeros((self.n, len(self.betas), entries), np.uint16)
        fill_thresholds(self.rises, self.fields, self.betas, self._keep, own, table)
        return in_bytes(table) if patterns.best_form() == patterns.SHUFFLE else table

    @property
    def _keep(self) -> float:
        return -1.0 if self.keep is None else self.keep

    def sweep(self, sites: np.ndarray, n_sweeps: int) -> int:
        graph = (self.neighbours, self.rises, self.fields, self.used)
        chains = (self.betas, self._keep, self.streams)
        many = True if self.rises.shape[1] == MANY else None
        own = None if self.keep is None else True
        rows = np.ascontiguousarray(sites, np.int32)
        return sweep_lookup(self.up, graph, self.table(), chains, (rows, n_sweeps, 0, 1), (many, own), self.up[None])

    def twin(self, sites: np.ndarray, n_sweeps: int) -> tuple[np.ndarray, int, list]:
        """The words, the flips that count, and the streams, after the sweeps."""
        words, n_flips, streams = np.zeros_like(self.up), 0, []
        for w in range(WORDS):
            bits = [[int(word) >> c & 1 for word in self.up[: self.n, w]] for c in range(32)]
            own = [reference.xoshiro([int(x) for x in self.streams[w, :, j]]) for j in range(16)]
            beta = float(self.betas[w % len(self.betas)])
            for t in range(n_sweeps):
                row = sites[t % len(sites)].tolist()
                flips = slow.sweep(bits, self.lists, self.fields.tolist(), beta, self.keep, own, row)
                n_flips += flips if self.used[w] else 0
            words[: self.n, w] = [sum(chain[i] << c for c, chain in enumerate(bits)) for i in range(self.n)]
            streams.append(own)
        return words, n_flips, streams


def assert_is_the_twin(problem: Problem, sites: np.ndarray, n_sweeps: int) -> None:
    """States, flips, and how many words every stream has given."""
    words, n_flips, streams = problem.twin(sites, n_sweeps)
    assert problem.sweep(sites, n_sweeps) == n_flips
    assert np.array_equal(problem.up, words)
    for w in range(WORDS):
        for j in range(16):
            ahead = reference.xoshiro([int(x) for x in problem.streams[w, :, j]])
            assert next(ahead) == next(streams[w][j])


@pytest.mark.parametrize("betas", [[0.7], [0.0, 0.4, 1.5, 3.0]], ids=["one", "words"])
@pytest.mark.parametrize("keep", [None, 1.0, 0.9375])
@pytest.mark.parametrize("degree", [FEW, MANY])
def test_path_is_that_of_the_twin(degree: int, keep: float | None, betas: list[float]) -> None:
    sites = np.random.default_rng(2).integers(0, 9, (3, 9))
    assert_is_the_twin(Problem(9, degree, betas, keep, seed=1), sites, 4)


@pytest.mark.parametrize("keep", [-1.0, 0.9375])
def test_units_that_are_pulled_alike_have_one_table(keep: float) -> None:
    """Many units have the pulls of others but for a field, or for one number, and some share all bits but few."""
    chance, own = np.random.default_rng(5), keep > 0.0
    rises, fields = chance.choice([-1.0, 1.0, 1.0 + 2.0**-52], (90, FEW)), chance.choice([0.0, 0.5], 90)
    betas = np.array([0.4, 0.4, 1.5, 3.0])
    together, alone = np.zeros((2, 90, 4, patterns.n_entries(FEW + own)), np.uint16)
    fill_thresholds(rises, fields, betas, keep, own, together)
    for i in range(90):
        one = slice(i, i + 1)
        fill_thresholds(rises[one], fields[one], betas, keep, own, alone[one])
    assert np.array_equal(together, alone)


@pytest.mark.parametrize("keep", [None, 1.0])
def test_numbers_are_compared_to_the_last_bit(keep: float | None) -> None:
    """Streams in the state 0 give zeros: numbers are equal for as many bits as the threshold begins with zeros."""
    for scale in (5.0, 12.0, 25.0, 40.0, 1e3, 1e200):
        problem = Problem(5, FEW, [1.0, 0.5, 0.0, 2.0], keep, seed=3, scale=scale)
        problem.streams[:] = 0
        assert_is_the_twin(problem, np.arange(5)[None], 2)


def test_flips_of_words_in_use_are_counted_and_calls_can_be_cut() -> None:
    sites = np.arange(20)[None]
    whole, parts = (Problem(20, MANY, [0.6], None, seed=4) for _ in range(2))
    n_flips = whole.sweep(sites, 40)
    assert sum(parts.sweep(sites, n) for n in (1, 0, 12, 27)) == n_flips
    assert np.array_equal(whole.up, parts.up)
    assert np.array_equal(whole.streams, parts.streams)
