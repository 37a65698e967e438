"""Multi-spin coding against its twin: every replica, every random bit, every word that is drawn."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastbm.kernels.sampling.multispin import (
    FIRST,
    LEVELS,
    WORDS,
    count_unsatisfied,
    sweep_multispin,
)
from tests.twins import reference, sampling as slow

RULES = ["gibbs", "metropolis"]
REPLICAS = 32 * WORDS
ALL = 0xFFFFFFFF
FEW = settings(derandomize=True, max_examples=25, deadline=None)


class Graph(NamedTuple):
    """Couplings of +-1 or +-2 between units; no unit has more than 7 of them."""

    n: int
    edges: list[tuple[int, int, int]]

    @classmethod
    def draw(cls, n: int, n_edges: int, seed: int) -> Graph:
        generator = np.random.default_rng(seed)
        degrees, edges, pairs = [0] * n, [], set()
        for _ in range(n_edges if n > 1 else 0):
            i, j = sorted(map(int, generator.choice(n, 2, replace=False)))
            times = int(generator.integers(1, 3))
            if (i, j) in pairs or degrees[i] + times > 7 or degrees[j] + times > 7:
                continue
            pairs.add((i, j))
            sign = int(generator.choice([-1, 1]))
            edges += [(i, j, sign)] * times
            degrees[i], degrees[j] = degrees[i] + times, degrees[j] + times
        return cls(n, edges)

    @property
    def neighbours(self) -> list[list[tuple[int, int]]]:
        found: list[list[tuple[int, int]]] = [[] for _ in range(self.n)]
        for i, j, sign in self.edges:
            found[i].append((j, sign))
            found[j].append((i, sign))
        return found

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lists = self.neighbours
        flat = [entry for entries in lists for entry in entries]
        indptr = np.concatenate([[0], np.cumsum([len(entries) for entries in lists])]).astype(np.int64)
        indices = np.array([j for j, _ in flat], np.int32)
        return indptr, indices, np.array([ALL if sign < 0 else 0 for _, sign in flat], np.uint32)


class Replicas(NamedTuple):
    """What the sweep works on."""

    up: np.ndarray
    streams: np.ndarray
    thresholds: list[dict[int, int]]

    @classmethod
    def draw(cls, n: int, seed: int, thresholds: dict[int, int] | None = None) -> Replicas:
        generator = np.random.default_rng(seed)
        up = generator.integers(0, 2**32, (n, WORDS), dtype=np.uint32)
        streams = generator.integers(1, 2**32, 4 * WORDS, dtype=np.uint32)
        if thresholds is not None:
            return cls(up, streams, [thresholds] * WORDS)
        # pulls of 0 go either way; the others get numbers of their own in each word, so that no two can be mixed up
        rows = generator.integers(0, 2**64, (WORDS, 8), dtype=np.uint64).tolist()
        return cls(up, streams, [{0: 2**63} | dict(enumerate(row[1:], 1)) for row in rows])

    def tables(self) -> tuple[np.ndarray, ...]:
        found = []
        for odd in (0, 1):
            numbers = np.array(
                [[self.thresholds[w][2 * level + odd] for w in range(WORDS)] if 2 * level + odd < 8 else [0] * WORDS
                 for level in range(LEVELS)],
                np.uint64,
            )  # fmt: skip
            masks = [[ALL if int(x) >> (63 - b) & 1 else 0 for x in numbers.ravel()] for b in range(FIRST)]
            found += [np.array(masks, np.uint32).ravel(), numbers.ravel()]
        return tuple(found)

    def sweep(self, graph: Graph, sites: np.ndarray, n_sweeps: int, rule: str, hold: bool, n_words: int = WORDS) -> int:
        return self.attempt(graph, sites, 0, n_sweeps * sites.shape[1], rule, hold, n_words)

    def attempt(
        self, graph: Graph, sites: np.ndarray, first: int, last: int, rule: str, hold: bool, n_words: int = WORDS
    ) -> int:
        rows = np.ascontiguousarray(sites, np.int32)
        arguments = (self.up, graph.arrays, self.tables(), self.streams, rows, first, last)
        return sweep_multispin(*arguments, hold if rule == "metropolis" else None, n_words)


def bits_of(up: np.ndarray, w: int) -> list[list[int]]:
    """Bits [replica][unit] of word w."""
    return [[int(word) >> r & 1 for word in up[:, w]] for r in range(32)]


def stream_of(streams: np.ndarray, w: int) -> list[int]:
    return [int(streams[16 * k + w]) for k in range(4)]


def assert_is_the_twin(graph: Graph, replicas: Replicas, sites: np.ndarray, n_sweeps: int, rule: str, hold: bool):
    """States, flips, and how many words every stream has given."""
    before, streams = replicas.up.copy(), replicas.streams.copy()
    n_flips, expected = replicas.sweep(graph, sites, n_sweeps, rule, hold), 0
    for w in range(WORDS):
        bits, words = bits_of(before, w), reference.xoshiro(stream_of(streams, w))
        for t in range(n_sweeps):
            row = sites[t % len(sites)].tolist()
            expected += slow.sweep_word(
                bits, graph.neighbours, replicas.thresholds[w], words, row, rule, hold and rule == "metropolis"
            )
        assert bits_of(replicas.up, w) == bits
        ahead = reference.xoshiro(stream_of(replicas.streams, w))
        assert [next(ahead) for _ in range(4)] == [next(words) for _ in range(4)]
    assert n_flips == expected


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_path_is_that_of_the_twin(rule, hold):
    graph = Graph.draw(12, 60, seed=1)
    degrees = {len(entries) for entries in graph.neighbours}
    assert {6, 7} <= degrees and len(degrees) > 3
    sites = np.random.default_rng(2).integers(0, 12, (5, 12))
    assert_is_the_twin(graph, Replicas.draw(12, seed=3), sites, 7, rule, hold)


@FEW
@given(st.integers(1, 9), st.integers(0, 30), st.sampled_from(RULES), st.booleans(), st.integers(0, 2**16))
def test_path_is_that_of_the_twin_for_any_graph(n, n_edges, rule, hold, seed):
    sites = np.random.default_rng(seed).integers(0, n, (2, n))
    assert_is_the_twin(Graph.draw(n, n_edges, seed), Replicas.draw(n, seed), sites, 2, rule, hold)


@pytest.mark.parametrize("threshold", [0, 1, 2**47, 2**48, 2**48 + 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("rule", RULES)
def test_numbers_are_compared_to_the_last_bit(rule, threshold):
    # streams in the state 0 give nothing but zeros: a number of 0 against the threshold, drawn on as far as needed
    pair = Graph(2, [(0, 1, 1)])
    replicas = Replicas.draw(2, seed=4, thresholds=dict.fromkeys(range(8), threshold))
    replicas.streams[:] = 0
    assert_is_the_twin(pair, replicas, np.array([[0, 1, 1]]), 2, rule, False)


@pytest.mark.parametrize("rule", RULES)
def test_units_without_neighbours_are_fair(rule):
    # 51,200 fair bits in each of three lone units; 4.5 standard errors, 6 tests: a false alarm in 25,000 seeds
    graph, replicas = Graph(3, []), Replicas.draw(3, seed=5, thresholds={0: 2**63} | dict.fromkeys(range(1, 8), 0))
    replicas.up[:] = ALL
    counts = np.zeros(3)
    for _ in range(100):
        replicas.sweep(graph, np.array([[0, 1, 2, 2, 1, 0, 1, 2, 0]]), 8, rule, rule == "metropolis")
        counts += [sum(int(word).bit_count() for word in row) for row in replicas.up]
    assert np.all(np.abs(counts / (100 * REPLICAS) - 0.5) < 4.5 * 0.5 / np.sqrt(100 * REPLICAS))


@pytest.mark.parametrize("rule", RULES)
def test_words_do_not_know_of_each_other(rule):
    graph, sites = Graph.draw(8, 20, seed=6), np.random.default_rng(7).integers(0, 8, (3, 8))
    together, alone = Replicas.draw(8, seed=8), Replicas.draw(8, seed=8)
    others = [w for w in range(WORDS) if w not in (0, 5)]
    alone.up[:, others] = 0
    alone.streams.reshape(4, WORDS)[:, others] = 1
    for replicas in (together, alone):
        replicas.sweep(graph, sites, 40, rule, True)
    assert np.array_equal(alone.up[:, [0, 5]], together.up[:, [0, 5]])
    assert np.array_equal(alone.streams.reshape(4, WORDS)[:, [0, 5]], together.streams.reshape(4, WORDS)[:, [0, 5]])


def test_flips_of_the_first_words_are_counted():
    graph, sites = Graph.draw(8, 20, seed=6), np.arange(8)[None]
    for n_words in (0, 1, 7, WORDS):
        replicas = Replicas.draw(8, seed=9)
        before, flips = replicas.up.copy(), replicas.sweep(graph, sites, 1, "gibbs", False, n_words)
        changed = (before ^ replicas.up)[:, :n_words]
        assert flips == sum(int(word).bit_count() for word in changed.ravel())


def test_cutting_a_run_into_calls_changes_nothing():
    graph, sites = Graph.draw(8, 20, seed=10), np.stack([np.arange(8), np.arange(8)[::-1]])
    whole, parts = Replicas.draw(8, seed=11), Replicas.draw(8, seed=11)
    flips = whole.sweep(graph, sites, 30, "metropolis", True)
    ends = (0, 3, 3, 16, 19, 22, 144, 167, 240)  # within sweeps too
    assert sum(parts.attempt(graph, sites, *part, "metropolis", True) for part in pairwise(ends)) == flips
    assert np.array_equal(whole.up, parts.up)
    assert np.array_equal(whole.streams, parts.streams)


@FEW
@given(st.integers(2, 9), st.integers(0, 40), st.integers(0, 2**16))
def test_unsatisfied_couplings_are_counted(n, n_edges, seed):
    graph, up = Graph.draw(n, n_edges, seed), Replicas.draw(n, seed).up
    edges = np.array([(i, j) for i, j, _ in graph.edges], np.int32).reshape(-1, 2)
    signs, totals = np.array([ALL if sign < 0 else 0 for *_, sign in graph.edges], np.uint32), np.empty(REPLICAS, int)
    count_unsatisfied(up, edges, signs, totals)
    expected = [slow.count_unsatisfied(bits, graph.edges) for w in range(WORDS) for bits in bits_of(up, w)]
    assert totals.tolist() == expected


def test_many_unsatisfied_couplings_are_counted():
    n = 70_000
    up = np.zeros((n, WORDS), np.uint32)
    up[::2] = ALL
    totals = np.empty(REPLICAS, int)
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1).astype(np.int32)
    count_unsatisfied(up, edges, np.zeros(n - 1, np.uint32), totals)
    assert np.all(totals == n - 1)


def test_one_compiled_signature():
    kernels = (sweep_multispin, count_unsatisfied)

    def run_all(n):
        graph, replicas = Graph.draw(n, 5, seed=1), Replicas.draw(n, seed=1)
        for rule in RULES:
            replicas.sweep(graph, np.zeros((1, n)), 1, rule, True)
        count_unsatisfied(replicas.up, np.zeros((1, 2), np.int32), np.zeros(1, np.uint32), np.empty(REPLICAS, np.int64))

    run_all(5)
    before = [list(getattr(kernel, "signatures", [])) for kernel in kernels]
    run_all(1)
    assert [list(getattr(kernel, "signatures", [])) for kernel in kernels] == before
