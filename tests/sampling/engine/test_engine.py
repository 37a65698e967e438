"""What every engine promises: the same bits however chains are run, stopped and stored; fields that do not drift."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings, strategies as st

import fastbm as bm
from fastbm.kernels.sampling.dense import init_fields_dense, room_of_fields
from fastbm.machine.up_form import up_form
from fastbm.sampling import make_chains
from fastbm.sampling.engine.engine import Engine
from fastbm.sampling.engine.orders import ORDERS
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import UNITS
from tests.twins import reference

RULES = ("gibbs", "metropolis")
GENERATOR = np.random.default_rng(0)
DEEP = bm.BoltzmannMachine([GENERATOR.normal(size=(13, 9)), GENERATOR.normal(size=(9, 4))], GENERATOR.normal(size=26))
GLASS = bm.models.edwards_anderson((5, 4, 2), seed=1)
GRAPH = bm.BoltzmannMachine(GLASS.weights * 0.7, GENERATOR.normal(size=40))
MODELS = {"dense": GRAPH, "sparse": GRAPH, "layered": DEEP, "lookup": GRAPH, "multispin": GLASS}
N_CHAINS = {"dense": 200, "sparse": 200, "layered": 200, "lookup": 1070, "multispin": 1152}
WORDS = ("lookup", "multispin")


def chains_of(kernel: str, rule: str = "gibbs", order: str | None = None, **options: Any) -> Engine:
    """Chains of the machine that goes with a kernel."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*periodic")
        settings = {"n_chains": N_CHAINS[kernel], "kernel": kernel, "beta": 0.6, "seed": 3, **options}
        return make_chains(MODELS[kernel], settings.pop("n_chains"), rule=rule, order=order, **settings)


def ways(*kernels: str) -> list[tuple[str, str, str]]:
    return [
        (kernel, rule, order)
        for kernel in kernels
        for rule in RULES
        for order in (ORDERS if kernel != "layered" else ("sequential", "coloured"))
    ]


def assert_same_state(one: Engine, other: Engine) -> None:
    first, second = one.state(), other.state()
    assert first.keys() == second.keys()
    for name in first:
        assert np.array_equal(first[name], second[name]), name
    assert one.energies().tobytes() == other.energies().tobytes()


# Dense and sparse kernels have the same bits


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    n=st.integers(1, 30),
    density=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    scale=st.sampled_from([1e-3, 0.5, 30.0]),
    kind=st.sampled_from(["dense", "sparse", "layered"]),
    units=st.sampled_from(UNITS),
    rule=st.sampled_from(RULES),
    order=st.sampled_from(ORDERS),
    beta=st.sampled_from([0.0, 1e-3, 1.0, 1e6]),
    n_chains=st.sampled_from([1, 2, 16, 17, 63, 64, 65, 129, 200]),
    own_bias=st.booleans(),
    own_beta=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_dense_and_sparse_kernels_give_the_same_bits(
    n: int, density: float, scale: float, kind: str, units: str, rule: str, order: str, beta: float, n_chains: int,
    own_bias: bool, own_beta: bool, seed: int,
) -> None:  # fmt: skip
    generator = np.random.default_rng(seed)
    weights = np.triu(generator.normal(scale=scale, size=(n, n)) * (generator.random((n, n)) < density), 1)
    weights += weights.T
    if kind == "layered" and n > 1:
        given_weights: Any = [weights[: n // 2, n // 2 :]]
    else:
        given_weights = scipy.sparse.csr_array(weights) if kind == "sparse" else weights
    model = bm.BoltzmannMachine(given_weights, generator.normal(scale=scale, size=n), units=units)
    bias = generator.normal(scale=scale, size=(n_chains, n)) if own_bias else None
    betas = beta * generator.random(n_chains) if own_beta else beta
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*periodic")
        dense, sparse = (
            make_chains(model, n_chains, rule=rule, order=order, kernel=kernel, beta=betas, seed=seed, bias=bias)
            for kernel in ("dense", "sparse")
        )
    for n_sweeps in (3, 2):
        for chains in (dense, sparse):
            chains.sweep(n_sweeps)
        first, second = dense.state(), sparse.state()
        assert all(np.array_equal(first[name], second[name]) for name in first)
    assert dense.detail == sparse.detail | {"kernel": "dense"}
    weight, pull = np.abs(model.couplings.matrix()).sum() / 2, np.abs(dense.bias).sum(axis=1)
    allowed = 1e-9 * (weight + pull.min()) + 1e-14 * n * max(1.0, 2 * weight + pull.max())
    np.testing.assert_allclose(dense.energies(), sparse.energies(), rtol=0, atol=allowed)


def regular_graph(n: int, degree: int, generator: np.random.Generator) -> scipy.sparse.csr_array:
    """Normal couplings on a circulant graph of even degree whose units are in random order."""
    steps = generator.choice(np.arange(1, (n + 1) // 2), degree // 2, replace=False)
    place = generator.permutation(n)
    rows = np.repeat(place, len(steps))
    columns = place[(np.arange(n)[:, None] + steps) % n].ravel()
    values = generator.normal(scale=degree**-0.5, size=len(rows))
    half = scipy.sparse.csr_array((values, (rows, columns)), shape=(n, n))
    return half + half.T


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("units", UNITS)
def test_the_same_bits_where_a_unit_has_a_thousand_neighbours(units: str, rule: str) -> None:
    n, degree, generator = 1101, 1000, np.random.default_rng(7)
    weights = regular_graph(n, degree, generator)
    assert set(np.diff(weights.indptr)) == {degree}
    model = bm.BoltzmannMachine(weights, generator.normal(scale=0.1, size=n), units=units)
    dense, sparse = (
        make_chains(model, 40, rule=rule, order="random", kernel=kernel, beta=0.8, seed=4)
        for kernel in ("dense", "sparse")
    )
    for chains in (dense, sparse):
        chains.sweep(10)
    first, second = dense.state(), sparse.state()
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert sparse.n_flips > 40 * n
    most = np.abs(weights.data).sum() / 2
    np.testing.assert_allclose(dense.energies(), sparse.energies(), rtol=0, atol=1e-10 * most)


@pytest.mark.filterwarnings("ignore:.*periodic")
@pairwise(kernel=["dense", "sparse", "layered"], rule=RULES, power=[-1020, -300, 300, 1000])
def test_the_scale_of_couplings_does_not_matter_if_beta_makes_up_for_it(kernel: str, rule: str, power: int) -> None:
    """Powers of two lose no bit, whether 2^power is near the smallest of all numbers or near the largest."""
    model, found = MODELS[kernel], []
    for scale in (0, power):
        blocks = [np.ldexp(block, scale) for block in model.couplings.arrays]
        weights = blocks if kernel == "layered" else np.ldexp(model.couplings.matrix(), scale)
        scaled = bm.BoltzmannMachine(weights, np.ldexp(model.flat_bias, scale))
        betas = np.ldexp(np.array([0.6, 0.3]), -scale)
        chains = make_chains(scaled, 40, kernel=kernel, rule=rule, order="sequential", beta=betas, seed=2)
        chains.sweep(20)
        found.append(chains)
    assert np.array_equal(found[0].packed(), found[1].packed())
    assert 0 < found[0].n_flips == found[1].n_flips
    error = "largest log-odds error"
    assert found[1].detail[error] == pytest.approx(found[0].detail[error], rel=1e-12)


def test_both_widths_of_integers_are_held_against_each_other() -> None:
    details = {chains_of("dense", beta=beta).detail["fields"].split()[0] for beta in (0.1, 1.0, 1e6)}
    assert details == {"int32", "int64"}


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("beta", [0.1, 1.0, 30.0, 1e6])
def test_the_stated_error_of_log_odds_is_that_of_the_integers(beta: float, units: str) -> None:
    """In the worst state of each unit: all roundings of one sign add up."""
    model = bm.models.random_machine(40, scale=1.3, units=units, seed=1)
    chains = make_chains(model, 1, kernel="dense", beta=beta)
    form, field = up_form(model.couplings, model.flat_bias, model.convention)
    change = np.ldexp(chains._rises[:, :40].astype(float), -chains._point.exponent) - form.matrix()
    start = np.ldexp(chains._start[0, :40].astype(float), -chains._point.exponent) - field
    worst = beta * (np.maximum(np.maximum(change, 0).sum(0), np.maximum(-change, 0).sum(0)) + np.abs(start)).max()
    assert chains.detail["largest log-odds error"] == pytest.approx(worst, rel=1e-3)
    assert worst <= 1e-4
    largest = np.abs(chains._rises.astype(float)).sum(axis=0)[:40] + np.abs(chains._start[0, :40].astype(float))
    assert largest.max() < (2**31 - 256 if chains._rises.dtype == np.int32 else 2**62)


# Fields and energies


def recomputed(chains: Engine, k: int) -> np.ndarray:
    fields = np.empty_like(chains._fields[k])
    start = np.ascontiguousarray(np.broadcast_to(chains._rows(k), fields.shape))
    init_fields_dense(fields, chains.up[k], chains._rises, start, room_of_fields(fields))
    return fields


def assert_fields_are_right(chains: Engine) -> None:
    chains._prepare()
    for k in range(len(chains.blocks)):
        assert np.array_equal(chains._fields[k], recomputed(chains, k))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("beta", [0.6, 1e5])
def test_cached_fields_are_the_recomputed_ones_after_1e5_sweeps(rule: str, beta: float) -> None:
    model = bm.models.random_machine(17, scale=0.4 / beta, bias_scale=0.1 / beta, seed=2)
    chains = make_chains(model, 20, kernel="dense", rule=rule, beta=beta, seed=1, threads=1)
    chains.sweep(100_000)
    assert chains.n_flips > 1_000_000
    assert_fields_are_right(chains)


@pytest.mark.parametrize("own_bias", [False, True])
def test_cached_fields_follow_every_change(own_bias: bool) -> None:
    n_chains, generator = 150, np.random.default_rng(4)
    bias = generator.normal(size=(n_chains, 40)) if own_bias else None
    chains = chains_of("dense", n_chains=n_chains, bias=bias, highest_beta=3.0)
    chains.sweep(3)
    before, index = chains.bits(), generator.integers(0, n_chains, n_chains)
    chains.gather(index)
    assert np.array_equal(chains.bits(), before[index])
    assert_fields_are_right(chains)
    chains.sweep(2)
    chains.set_beta(np.linspace(0, 3, n_chains))
    chains.sweep(2)
    assert_fields_are_right(chains)
    chains.load_bits(generator.integers(0, 2, (n_chains, 40), dtype=np.uint8))
    assert_fields_are_right(chains)
    chains.sweep(2)
    chains.couple(chains.couplings.scaled(-1e4), chains.bias + 1.0)
    chains.sweep(2)
    assert_fields_are_right(chains)


@pairwise(kernel=list(MODELS), own_bias=[False, True], units=UNITS)
def test_energies_are_those_of_the_states(kernel: str, own_bias: bool, units: str) -> None:
    own_bias = own_bias and kernel not in WORDS
    model, n_chains, generator = MODELS[kernel].to_units(units), N_CHAINS[kernel], np.random.default_rng(5)
    bias = generator.normal(size=(n_chains, model.n_units)) if own_bias else None
    chains = make_chains(model, n_chains, kernel=kernel, beta=0.7, seed=1, bias=bias)
    for n_sweeps in (0, 3):
        chains.sweep(n_sweeps)
        states = model.convention.values(chains.bits(), np.float64)
        biases = np.broadcast_to(model.flat_bias if bias is None else bias, states.shape)
        weights, _ = machines.parameters(model)
        exact = [reference.energy(s, weights, b) for s, b in zip(states[::37], biases[::37], strict=True)]
        size = np.abs(weights).sum() / 2 + np.abs(biases).sum(axis=1).min()
        allowed = 1e-9 * size if kernel in ("dense", "layered") else 1e-11
        np.testing.assert_allclose(chains.energies()[::37], exact, rtol=0, atol=allowed)
        # an error of log-odds at most, for each unit that is up
        allowed += chains.detail["largest log-odds error"] / 0.7 * model.n_units
        np.testing.assert_allclose(chains.quick_energies(), chains.energies(), rtol=0, atol=allowed)


@pytest.mark.parametrize("kernel", MODELS)
def test_bits_words_and_bytes_agree(kernel: str) -> None:
    chains = chains_of(kernel)
    chains.sweep(2)
    bits = chains.bits()
    assert bits.shape == (chains.n_chains, chains.n_units)
    assert np.array_equal(np.packbits(bits, axis=1, bitorder="little"), chains.packed())
    for k, block in enumerate(chains.blocks):
        words = chains.words(k)
        expected = [reference.pack_words(column, 64) for column in bits[block].T]
        assert words.tolist() == expected


# One path, however it is run


@pytest.mark.parametrize(("kernel", "rule", "order"), ways(*MODELS))
def test_bits_do_not_depend_on_threads_and_on_cuts(kernel: str, rule: str, order: str) -> None:
    one, two, three = (chains_of(kernel, rule, order, threads=threads) for threads in (1, 2, 3))
    found = [chains.record(4, 5) for chains in (one, two)]
    for name in found[0]:
        assert np.array_equal(found[0][name], found[1][name])
    for n_sweeps in (1, 0, 12, 7):
        three.sweep(n_sweeps)
    assert_same_state(one, two)
    assert_same_state(one, three)
    assert np.array_equal(three.packed(), found[0]["samples/states"][-1])
    # samples on sparse couplings have energies by whole numbers, others are sums in float64
    off = 1e-12 if kernel == "sparse" else 0.0
    np.testing.assert_allclose(three.energies(), found[0]["samples/energy"][-1], rtol=off, atol=off)


def test_there_may_be_more_threads_than_units() -> None:
    one, many = (make_chains(bm.models.ising((2, 2)), 64, kernel="lookup", threads=threads) for threads in (1, 9))
    one.sweep(3), many.sweep(3)
    assert_same_state(one, many)


@pytest.mark.parametrize(("kernel", "rule", "order"), ways(*MODELS))
def test_a_run_goes_on_from_its_state(kernel: str, rule: str, order: str) -> None:
    whole = chains_of(kernel, rule, order)
    whole.sweep(7)
    state = {name: array.copy() for name, array in whole.state().items()}
    other = chains_of(kernel, rule, order, initial="up", threads=3)
    other.sweep(2)
    other.restore(state)
    assert_same_state(whole, other)
    for chains in (whole, other):
        chains.sweep(6)
    assert_same_state(whole, other)
    whole.restore(state)
    whole.sweep(6)
    assert_same_state(whole, other)


@pytest.mark.parametrize(("kernel", "rule", "order"), ways("dense", "sparse", *WORDS))
def test_chains_run_together_are_chains_run_apart(kernel: str, rule: str, order: str) -> None:
    together = chains_of(kernel, rule, order)
    together.sweep(6)
    last = N_CHAINS[kernel] - 896
    parts = [(0, 64), (64, 64), (128, 192), (896, last)] if kernel in WORDS else [(0, 1), (7, 3), (64, 130)]
    for first, n_chains in parts:
        apart = chains_of(kernel, rule, order, first_chain=first, n_chains=n_chains)
        apart.sweep(6)
        assert np.array_equal(apart.bits(), together.bits()[first : first + n_chains])
        assert np.array_equal(apart.energies(), together.energies()[first : first + n_chains])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("initial", ["random", "up", "given"])
def test_chains_share_what_ties_draw_with_those_that_fill_up_their_word(rule: str, initial: Any) -> None:
    model = MODELS["lookup"]
    starts = np.tile([[1], [-1]], (20, model.n_units)) if initial == "given" else initial
    rest = np.concatenate([starts, np.repeat(starts[-1:], 24, axis=0)]) if initial == "given" else initial
    settings = {"rule": rule, "kernel": "lookup", "beta": 0.6, "seed": 3}
    whole, some, again = (
        make_chains(model, n, initial=start, **settings) for n, start in ((64, rest), (40, starts), (40, starts))
    )
    whole.sweep(2000)
    some.sweep(1000)
    again.restore(some.state())
    for chains in (some, again):
        chains.sweep(1000)
        assert np.array_equal(chains.bits(), whole.bits()[:40])
        assert np.array_equal(chains.energies(), whole.energies()[:40])
    assert_same_state(some, again)


@pytest.mark.parametrize("kernel", ["dense", "sparse", *WORDS])
def test_a_temperature_of_many_is_the_temperature_alone(kernel: str) -> None:
    many = chains_of(kernel, n_chains=192, beta=np.repeat([0.0, 0.6, 2.0], 64))
    late = chains_of(kernel, n_chains=192, highest_beta=2.0)
    late.set_beta(np.repeat([0.0, 0.6, 2.0], 64))
    for chains in (many, late):
        chains.sweep(6)
    assert np.array_equal(many.bits(), late.bits())
    for k, beta in enumerate((0.0, 0.6, 2.0)):
        alone = chains_of(kernel, beta=beta, n_chains=64, first_chain=64 * k, highest_beta=2.0)
        alone.sweep(6)
        assert np.array_equal(alone.bits(), many.bits()[64 * k : 64 * (k + 1)])


@pytest.mark.parametrize("kernel", MODELS)
def test_gathered_chains_keep_their_streams(kernel: str) -> None:
    chains = chains_of(kernel)
    chains.sweep(3)
    before, index = chains.state(), np.random.default_rng(6).integers(0, chains.n_chains, chains.n_chains)
    chains.gather(index)
    after = chains.state()
    assert np.array_equal(after["chains"][: len(index)], before["chains"][index])
    assert np.array_equal(after["chains"][len(index) :], before["chains"][len(index) :])
    assert np.array_equal(after["streams"], before["streams"])
    other = chains_of(kernel)
    other.restore(after)
    for one in (chains, other):
        one.sweep(3)
    assert np.array_equal(chains.bits(), other.bits())


@pytest.mark.parametrize("kernel", ["dense", "sparse", *WORDS])
@pytest.mark.parametrize("rule", RULES)
def test_flips_are_counted(kernel: str, rule: str) -> None:
    chains = chains_of(kernel, rule, "sequential")
    total = 0
    for _ in range(4):  # in an order that visits each unit once, flips are what has changed
        before = chains.bits()
        chains.sweep(1)
        total += int((before != chains.bits()).sum())
        assert chains.n_flips == total


# Single units


@pairwise(rule=RULES, order=ORDERS, kernel=["dense", "sparse"])
def test_a_single_unit(kernel: str, order: str, rule: str) -> None:
    """Its probability by 64,000 draws, to 4.5 standard errors: 16 tests, a false alarm in 9,000 seeds."""
    model = bm.BoltzmannMachine(np.zeros((1, 1)), np.array([0.4]))
    chains = make_chains(model, 1000, kernel=kernel, rule=rule, order=order, initial="up")
    n_up = sum(int(chains.bits().sum()) for _ in range(64) if chains.sweep(8) is None)
    p = reference.sigmoid(0.8)
    assert abs(n_up / 64_000 - p) < 4.5 * np.sqrt(p * (1 - p) / 64_000)
    np.testing.assert_allclose(chains.energies(), 0.4 - 0.8 * chains.bits()[:, 0])


def test_chains_that_are_swept_together_are_not_dealt_out_one_by_one() -> None:
    """In random order more than four chains of a graph take lanes side by side, which threads cannot share."""
    assert len(chains_of("sparse", order="random", n_chains=8, threads=8).blocks) == 1
    assert len(chains_of("sparse", order="sequential", n_chains=8, threads=8).blocks) == 8
