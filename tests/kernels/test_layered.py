"""Layer passes against their twins, and alternating passes over a whole machine against its exact distribution."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fastbm as bm
from fastbm.kernels.sampling.layered import anneal_layer, gibbs_layer, metropolis_layer
from fastbm.sampling.engine.layered import LayeredChains
from tests.support.combinations import pairwise
from tests.twins import reference, sampling as slow

FLOATS = [np.float32, np.float64]
RULES = {"gibbs": gibbs_layer, "metropolis": metropolis_layer}
FALSE_ALARM = 1e-4  # of one G-test, over seeds


def update(rule: str, up: np.ndarray, fields: np.ndarray, scale: np.ndarray, streams: np.ndarray, n_chains: int) -> int:
    """Update a layer, and hold the words that come of it against its bits. Mutates `up`, `streams`."""
    n, n_lanes = up.shape
    words = np.full((-(-n // 32), n_lanes), 2**32 - 1, np.uint32)
    room = (np.empty(n_lanes, np.uint32), np.empty(n_lanes, np.int32)), *([None] if rule == "gibbs" else [])
    n_flips = RULES[rule](up, words, fields, scale, streams, n_chains, *room)
    bits = (words[:, None] >> np.arange(32, dtype=np.uint32)[:, None] & np.uint32(1)).reshape(-1, n_lanes)
    assert np.array_equal(bits[:n], up)
    assert not bits[n:].any()
    return n_flips


def random_streams(n_lanes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 2**32, (4, n_lanes), dtype=np.uint32)


def random_fields(n: int, n_lanes: int, dtype, seed: int, scale: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(scale=scale, size=(n, n_lanes)).astype(dtype)


@pytest.mark.parametrize("bits", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("rule", RULES)
def test_updates_are_those_of_the_twin(rule, bits):
    n, n_lanes = 40, 6
    dtype = np.float64 if bits is np.float64 else np.float32
    up = np.random.default_rng(1).integers(0, 2, (n, n_lanes)).astype(bits)
    fields, scale = random_fields(n, n_lanes, dtype, seed=2), np.linspace(0, 2, n_lanes).astype(dtype)
    streams = random_streams(n_lanes, seed=3)
    words = [reference.xoshiro(stream) for stream in streams.T.tolist()]
    expected = [
        reference.update_layer(up[:, c].tolist(), fields[:, c].tolist(), float(scale[c]), words[c], rule)
        for c in range(n_lanes)
    ]
    before = up.copy()
    flips = update(rule, up, fields, scale, streams, 4)
    assert up.T.tolist() == expected
    assert flips == (before != up)[:, :4].sum()


def test_metropolis_accepts_ties():
    # the first word drawn is the largest, whose logarithm is 0: nothing is in favour of the flip, and it is made
    streams = np.repeat(np.array([[2**32 - 1], [5], [6], [1]], np.uint32), 2, axis=1)
    up = np.array([[0, 1]], np.float32)
    update("metropolis", up, np.zeros((1, 2), np.float32), np.ones(2, np.float32), streams, 2)
    assert up.tolist() == [[1, 0]]


@pytest.mark.parametrize("rule", RULES)
def test_a_lane_does_not_depend_on_its_neighbours(rule):
    up = np.random.default_rng(4).integers(0, 2, (9, 65)).astype(np.float32)
    fields, scale, streams = (
        random_fields(9, 65, np.float32, seed=5),
        np.ones(65, np.float32),
        random_streams(65, seed=6),
    )
    parts = [
        (up[:, k].copy(), fields[:, k].copy(), scale[k].copy(), streams[:, k].copy())
        for k in (slice(0, 7), slice(7, 65))
    ]
    update(rule, up, fields, scale, streams, 65)
    for part in parts:
        update(rule, *part, part[0].shape[1])
    assert np.array_equal(np.hstack([part[0] for part in parts]), up)
    assert np.array_equal(np.hstack([part[3] for part in parts]), streams)


def alternate(
    layers: list[np.ndarray], blocks, biases, units: str, beta: float, streams, rule: str, n_sweeps: int
) -> None:
    """Update layer after layer of a machine, fields by plain matrix products. Mutates `layers`, `streams`."""
    lo, hi = reference.VALUES[units]
    scale = np.full(layers[0].shape[1], beta * (hi - lo), np.float32)
    for _ in range(n_sweeps):
        for k, layer in enumerate(layers):
            fields = np.repeat(np.asarray(biases[k], float)[:, None], layer.shape[1], axis=1)
            if k > 0:
                fields += blocks[k - 1].T @ (lo + (hi - lo) * layers[k - 1].astype(float))
            if k + 1 < len(layers):
                fields += blocks[k] @ (lo + (hi - lo) * layers[k + 1].astype(float))
            update(rule, layer, fields.astype(np.float32), scale, streams, layer.shape[1])


@pairwise(rule=RULES, sizes=[(4, 3), (3, 2, 2)], units=["spin", "binary"])
def test_samples_have_the_exact_distribution(rule, sizes, units):
    # 65,536 independent chains; 4 tests: a false alarm in 2500 seeds
    n_chains, beta, generator = 2**16, 0.7, np.random.default_rng(10)
    blocks = [generator.normal(scale=0.8, size=size) for size in itertools.pairwise(sizes)]
    biases = [generator.normal(scale=0.4, size=size) for size in sizes]
    layers = [generator.integers(0, 2, (size, n_chains)).astype(np.float32) for size in sizes]
    # Metropolis passes of one layer given the others are not periodic here: fields and biases are nowhere 0
    alternate(layers, blocks, biases, units, beta, random_streams(n_chains, seed=11), rule, n_sweeps=60)
    exact = reference.enumerate_states(reference.join_blocks(blocks), np.concatenate(biases), units, beta=beta)
    codes = (1 << np.arange(sum(sizes))) @ np.vstack(layers).astype(int)
    assert reference.g_test(np.bincount(codes, minlength=len(exact.probabilities)), exact.probabilities) > FALSE_ALARM


@pairwise(rule=RULES, order=["sequential", "coloured"], units=["spin", "binary"], power=[0, 9], fields=[1, 3])
def test_sweeps_and_energies_are_those_of_the_twin(rule, order, units, power, fields):
    # numbers of few bits, so that sums are exact in any order; of power 9 they are taken in float64
    sizes, n_chains, generator = (37, 6, 3), 3, np.random.default_rng(20)
    blocks = [np.ldexp(generator.integers(-9, 10, size), power - 4) for size in itertools.pairwise(sizes)]
    bias = np.ldexp(generator.integers(-9, 10, (fields, sum(sizes))), power - 3)
    model = bm.BoltzmannMachine(blocks, bias[0], units=units)
    up, streams = generator.integers(0, 2, (n_chains, sum(sizes)), np.uint8), random_streams(n_chains, seed=21).T
    how = {"beta": 1.0, "rule": rule, "order": order, "seed": 0, "threads": 1}
    chains = LayeredChains(model.convention, up, streams, **how)
    chains.couple(model.couplings, bias)
    assert chains.detail["fields"] == ("float64" if power else "float32")
    found = [chains.record(*times) for times in ((1, 1), (3, 2))]  # without tables, and with them

    first, last = sizes[0], sum(sizes[:2])
    sites = list(range(sum(sizes)))
    sites = sites if order == "sequential" else sites[:first] + sites[last:] + sites[first:last]
    weights, values, n_flips = reference.join_blocks(blocks), np.array(reference.VALUES[units]), 0
    for c in range(n_chains):
        state, words, b = values[up[c]].tolist(), reference.xoshiro(streams[c].tolist()), bias[c % fields]
        for t, n_sweeps in enumerate((1, 2, 2, 2)):
            for _ in range(n_sweeps):
                if rule == "gibbs":
                    for i in sites:
                        log_odds = (values[1] - values[0]) * reference.field(state, i, weights, b)
                        before, state[i] = state[i], values[int(log_odds > reference.logit_of_bits(next(words)))]
                        n_flips += before != state[i]
                else:
                    n_flips += slow.sweep_held(state, weights, b, units, 1.0, words, sites)
            rows, energies = (
                np.concatenate([one[f"samples/{name}"] for one in found]) for name in ("states", "energy")
            )
            assert rows[t, c].tolist() == reference.pack_words([int(x == values[1]) for x in state], 8)
            assert energies[t, c] == reference.energy(state, weights, b)
    assert chains.n_flips == n_flips


@pytest.mark.parametrize("dtype", FLOATS)
def test_zero_scale_draws_fair_bits(dtype):
    # 10^6 fair bits; 4.5 standard errors in two tests: a false alarm in 70,000 seeds
    up = np.zeros((1000, 1000), dtype)
    fields, streams = random_fields(1000, 1000, dtype, seed=12), random_streams(1000, seed=13)
    update("gibbs", up, fields, np.zeros(1000, dtype), streams, 0)
    assert abs(up.mean() - 0.5) < 4.5 * 0.5 / 1000


@pytest.mark.parametrize(("before", "after"), [(0.0, 0.01), (0.3, 0.9), (0.999, 1.0)])
@pytest.mark.parametrize("n", [1, 32, 33, 100])
@pytest.mark.parametrize("dtype", FLOATS)
def test_an_annealed_layer_is_that_of_the_twin(dtype, n, before, after):
    n_lanes = 5
    fields, base = random_fields(n, n_lanes, dtype, seed=14), random_fields(n, 1, dtype, seed=15)[:, 0]
    streams = random_streams(n_lanes, seed=16)
    words = [reference.xoshiro(stream) for stream in streams.T.tolist()]
    up, totals = np.empty_like(fields), np.full(n_lanes, 2.5)
    anneal_layer(up, fields, base, before, after, streams, totals)
    for c in range(n_lanes):
        drawn, change = reference.anneal_layer(fields[:, c].tolist(), base.tolist(), before, after, words[c])
        assert up[:, c].tolist() == drawn
        assert totals[c] - 2.5 == pytest.approx(change, abs=2e-6 * n + 1e-6)


def test_one_compiled_signature_for_each_type_of_fields():
    def run_all(n, n_lanes):
        for dtype in FLOATS:
            up, fields, scale = np.zeros((n, n_lanes), dtype), np.zeros((n, n_lanes), dtype), np.ones(n_lanes, dtype)
            for rule in RULES:
                update(rule, up, fields, scale, random_streams(n_lanes, seed=1), n_lanes)

    kernels = tuple(RULES.values())
    run_all(4, 4)
    before = [list(getattr(kernel, "signatures", [])) for kernel in kernels]
    run_all(1, 1)
    assert [list(getattr(kernel, "signatures", [])) for kernel in kernels] == before
