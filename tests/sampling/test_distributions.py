"""Every kernel, rule, order and unit convention against the enumerated distribution, by G-tests.

At least 57,344 samples each, 16 sweeps apart in thousands of chains and so independent. p-values above 1e-6: all tests
here together raise a false alarm in one of 10,000 changes of the random streams.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.sampling.chains import couple_chains
from fastbm.sampling.engine.engine import Engine
from tests.support import machines
from tests.support.combinations import each, pairwise
from tests.support.machines import SURE, UNITS

ORDERS = ("sequential", "permuted", "random", "coloured")
RULES = ("gibbs", "metropolis")
CHAINS, SAMPLES, THIN, BURN_IN = 14_336, 4, 16, 60
BETA = 0.7


def random_graph(units: str) -> bm.BoltzmannMachine:
    """Eight units of 0 to 5 neighbours, with biases."""
    generator, weights = np.random.default_rng(1), np.zeros((8, 8))
    for i, j in [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 2), (2, 3), (4, 5), (5, 6)]:
        weights[i, j] = weights[j, i] = generator.normal(scale=0.7 if units == "spin" else 1.5)
    return bm.BoltzmannMachine(scipy.sparse.csr_array(weights), generator.normal(scale=0.4, size=8), units=units)


def layers(units: str) -> bm.BoltzmannMachine:
    generator = np.random.default_rng(2)
    blocks = [generator.normal(scale=0.6, size=size) for size in ((4, 3), (3, 2))]
    return bm.BoltzmannMachine(blocks, generator.normal(scale=0.4, size=9), units=units)


def signs(units: str) -> bm.BoltzmannMachine:
    """Eight spins with couplings of +-0.3, one of twice that; 0 to 7 neighbours."""
    weights = np.zeros((8, 8))
    edges = [(0, j) for j in range(1, 6)] + [(1, 2), (2, 3), (1, 3), (4, 5), (5, 6)]
    for k, (i, j) in enumerate(edges):
        weights[i, j] = weights[j, i] = 0.3 * (-1) ** (k % 3) * (2 if (i, j) in ((0, 1), (1, 2)) else 1)
    model = bm.BoltzmannMachine(scipy.sparse.csr_array(weights))
    assert sorted(np.rint(np.abs(weights).sum(axis=1) / 0.3)) == [0, 1, 2, 3, 3, 4, 5, 6]
    return model.to_units(units)


def clique(units: str) -> bm.BoltzmannMachine:
    """Six spins, five neighbours each: no field is ever 0, and Metropolis updates in any order are not periodic."""
    weights = 0.3 * np.where(np.random.default_rng(3).random((6, 6)) < 0.4, -1.0, 1.0)
    weights = np.triu(weights, 1)
    return bm.BoltzmannMachine(weights + weights.T).to_units(units)


MODELS = {"dense": random_graph, "sparse": random_graph, "layered": layers, "lookup": random_graph, "multispin": signs}


def chains_of(
    model: bm.BoltzmannMachine, kernel: str, rule: str, order: str, *, beta: Any = BETA, bias: Any = None
) -> Engine:
    """Many chains, their streams and starts drawn at once."""
    generator = np.random.default_rng([ORDERS.index(order), RULES.index(rule), len(kernel)])
    n_streams = CHAINS // {"multispin": 32, "lookup": 2}.get(kernel, 1)
    return couple_chains(
        model.couplings,
        model.flat_bias if bias is None else bias,
        model.convention,
        generator.integers(0, 2, (CHAINS, model.n_units), dtype=np.uint8),
        generator.integers(1, 2**32, (n_streams, 4), dtype=np.uint32),
        kernel=kernel,
        beta=beta,
        rule=rule,
        order=order,
        seed=5,
        threads=2,
    )


def sampled(chains: Engine) -> np.ndarray:
    """Codes (samples, chains) of states, unit i in bit i."""
    chains.sweep(BURN_IN)
    packed = chains.record(SAMPLES, THIN)["samples/states"].astype(int)
    return packed @ (1 << 8 * np.arange(packed.shape[-1]))


def assert_distribution(codes: np.ndarray, model: bm.BoltzmannMachine, beta: float, bias: np.ndarray) -> None:
    weights, _ = machines.parameters(model)
    _, log_p = machines.log_joint(weights, bias, model.units, beta)
    assert codes.size >= 50_000
    counts = np.bincount(codes.ravel(), minlength=len(log_p))
    assert machines.reference.g_test(counts, np.exp(log_p)) > SURE


CASES = [
    (kernel, rule, order, units)
    for kernel in MODELS
    for rule in RULES
    for order in (ORDERS if kernel != "layered" else ("sequential", "coloured"))
    for units in UNITS
    # free units are flipped by every Metropolis proposal: in another order than "random" their chain is periodic
    if not (kernel == "multispin" and rule == "metropolis" and order != "random")
]


@pytest.mark.parametrize(
    ("kernel", "rule", "order", "units"),
    [pytest.param(*case, marks=pytest.mark.slow if k % 3 else []) for k, case in enumerate(CASES)],
)
def test_samples_have_the_exact_distribution(kernel: str, rule: str, order: str, units: str) -> None:
    model = MODELS[kernel](units)
    chains = chains_of(model, kernel, rule, order)
    assert chains.kernel == kernel
    assert_distribution(sampled(chains), model, BETA, model.flat_bias)


@pairwise(rule=RULES, order=ORDERS, units=UNITS)
def test_replicas_of_a_clique(rule: str, order: str, units: str) -> None:
    model = clique(units)
    assert_distribution(sampled(chains_of(model, "multispin", rule, order)), model, BETA, model.flat_bias)


@pairwise(kernel=["dense", "sparse", "layered"], rule=RULES, units=UNITS)
def test_chains_with_biases_and_temperatures_of_their_own(
    monkeypatch: pytest.MonkeyPatch, kernel: str, rule: str, units: str
) -> None:
    """As in the clamped phase, where what the pattern of a chain pulls is its bias; one temperature is infinite."""
    monkeypatch.setitem(globals(), "SAMPLES", 12)
    model, betas = MODELS[kernel](units), np.array([0.0, 0.5, 1.1])
    biases = np.random.default_rng(6).normal(scale=0.5, size=(3, model.n_units))
    group = np.arange(CHAINS) % 3
    order = "random" if kernel != "layered" and rule == "metropolis" else "sequential"
    if kernel == "layered" and rule == "metropolis":
        betas[0] = 0.2  # at 0 every proposal is accepted, and the chain is periodic
    codes = sampled(chains_of(model, kernel, rule, order, beta=betas[group], bias=biases[group]))
    for g in range(3):
        assert_distribution(codes[:, group == g], model, betas[g], biases[g])


@pairwise(kernel=["lookup", "multispin"], units=UNITS, rule=RULES)
def test_words_with_temperatures_of_their_own(
    monkeypatch: pytest.MonkeyPatch, kernel: str, rule: str, units: str
) -> None:
    monkeypatch.setitem(globals(), "SAMPLES", 16)
    model, betas = signs(units), np.array([0.0, 0.5, 1.1, 2.0])
    group = np.arange(CHAINS) // 64 % 4
    codes = sampled(chains_of(model, kernel, rule, "random", beta=betas[group]))
    for g in range(4):
        assert_distribution(codes[:, group == g], model, betas[g], model.flat_bias)


@pairwise(kernel=["dense", "sparse", "lookup", "multispin"], rule=RULES, units=UNITS)
def test_units_without_pull_are_fair(monkeypatch: pytest.MonkeyPatch, kernel: str, rule: str, units: str) -> None:
    """Nothing pulls two of four units, not even at nearly no temperature, where the others are in a ground state."""
    monkeypatch.setitem(globals(), "THIN", 64)  # free units flip 15 times of 16
    weights = np.zeros((4, 4))
    weights[1, 2] = weights[2, 1] = 1.0
    model = bm.BoltzmannMachine(scipy.sparse.csr_array(weights)).to_units(units)
    codes = sampled(chains_of(model, kernel, rule, "random", beta=1e6))
    ground = np.array([bool(k & 2) == bool(k & 4) for k in range(16)])
    counts = np.bincount(codes.ravel(), minlength=16)
    assert not counts[~ground].any()
    assert machines.reference.g_test(counts[ground], np.full(8, 1 / 8)) > SURE


@each(size=[1e-200, 1e-30, 1e60, 1e200], kernel=["dense", "sparse", "lookup", "multispin"])
def test_couplings_of_any_size(kernel: str, size: float) -> None:
    """Couplings far from 1: with beta to match they are as good as any, without it all is noise or all is frozen."""
    model = signs("spin")
    scaled = bm.BoltzmannMachine(model.weights * size)
    matched = sampled(chains_of(scaled, kernel, "gibbs", "sequential", beta=BETA / size))
    assert_distribution(matched, model, BETA, model.flat_bias)
    codes = sampled(chains_of(scaled, kernel, "gibbs", "sequential", beta=1.0))
    energies = model.energy(np.array(machines.reference.all_states(8, "spin")))
    counts = np.bincount(codes.ravel(), minlength=256)
    if size < 1:
        assert machines.reference.g_test(counts, np.full(256, 1 / 256)) > SURE
    else:
        stays = counts > 0
        assert energies[stays].max() < -0.3
        assert counts[stays & (np.arange(256) & 128 > 0)].sum() == pytest.approx(codes.size / 2, rel=0.02)
