"""Samples and energies that are recorded beside the sweeps are those of the states, bit for bit in every grouping."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm._base.halting import Halted
from fastbm.kernels.sampling.rounding import worst_remainder
from fastbm.sampling.chains import RULES, make_chains
from fastbm.sampling.engine import edges, layered
from fastbm.sampling.engine.layer_energies import largest_sum
from fastbm.sampling.engine.orders import ORDERS
from fastbm.sampling.ladder import measure
from tests.sampling.engine.test_engine import MODELS, N_CHAINS, WORDS, assert_same_state, chains_of, ways
from tests.support.combinations import each
from tests.support.machines import UNITS


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", ["glass", "alike", "exact", "hub"])
@pytest.mark.parametrize("own_bias", [False, True])
def test_energies_of_fields_are_those_of_the_couplings(units: str, kind: str, own_bias: bool) -> None:
    """Couplings that are alike round alike, and magnetised states add up their errors."""
    n, n_chains, generator = 300, 20, np.random.default_rng(3)
    weights = np.triu(generator.normal(size=(n, n)) / n**0.5, 1)
    alike = np.triu(np.full((n, n), 0.7 / n), 1)
    hub = alike * 1e-5
    hub[0, 1] = 1.0  # sets the unit of the fields, in which all others are small
    weights = {"glass": weights, "alike": alike, "exact": np.sign(weights), "hub": hub}[kind]
    model = bm.BoltzmannMachine(weights + weights.T, generator.normal(size=n) * (kind != "hub"), units=units)
    bias = generator.normal(size=(n_chains, n)) if own_bias else None
    chains = make_chains(model, n_chains, kernel="dense", beta=0.5, seed=1, bias=bias, threads=2)
    most = np.abs(weights).sum() + np.abs(chains.bias).sum(axis=1).max()
    found = [chains.record(3, thin) for thin in (1, 4)]
    for states, energies in ((one["samples/states"], one["samples/energy"]) for one in found):
        values = model.convention.values(np.unpackbits(states, axis=2, count=n, bitorder="little"), np.float64)
        exact = -np.einsum("tci,ij,tcj->tc", values, weights, values) - (values * chains.bias).sum(axis=2)
        np.testing.assert_allclose(energies, exact, rtol=0, atol=1e-9 * most)
    assert np.array_equal(chains.energies(), found[1]["samples/energy"][-1])
    chains.state()


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("order", ["sequential", "coloured"])
@pytest.mark.parametrize("sizes", [(64, 130), (33, 5, 64, 70)])
@pytest.mark.parametrize(("kind", "own_bias"), [("glass", True), ("hub", False), ("steep", False)])
def test_energies_of_fields_of_layers_are_those_of_the_couplings(
    units: str, order: str, sizes: tuple[int, ...], kind: str, own_bias: bool
) -> None:
    """By products, by tables of many samples and told anew they are the same.

    Integers of 16 bits tell those of glasses, but for a layer, of 32 bits those beside a hub; steep ones have fields of
    float64.
    """
    n, n_chains, generator = sum(sizes), 70, np.random.default_rng(3)
    blocks = [generator.normal(size=shape) * (1e4 if kind == "steep" else 1.0) for shape in pairwise(sizes)]
    if kind == "hub":
        blocks[0][0, 0] = 1e9
    model = bm.BoltzmannMachine(blocks, generator.normal(size=n), units=units)
    bias = generator.normal(size=(n_chains, n)) if own_bias else None
    beta = 1e-8 if kind == "hub" else 0.1
    chains, others = (
        make_chains(model, n_chains, kernel="layered", order=order, beta=beta, seed=1, bias=bias, threads=threads)
        for threads in (1, 2)
    )
    assert (chains.detail["fields"] == "float64") == (kind == "steep")
    most = sum(float(np.abs(block).sum()) for block in blocks) + np.abs(chains.bias).sum(axis=1).min()
    found = [chains.record(n_samples, thin) for n_samples, thin in ((2, 1), (9, 2))]
    for states, energies in ((one["samples/states"], one["samples/energy"]) for one in found):
        values = model.convention.values(np.unpackbits(states, axis=2, count=n, bitorder="little"), np.float64)
        fields = model.couplings.field(values.reshape(-1, n)).reshape(values.shape)
        exact = -(values * (0.5 * fields + chains.bias)).sum(axis=2)
        np.testing.assert_allclose(energies, exact, rtol=0, atol=1e-9 * most)
    pieces = [others.record(n_samples, thin) for n_samples, thin in ((2, 1), (3, 2), (6, 2))]
    for name in found[0]:  # the second piece is too short for tables
        whole = np.concatenate([one[name] for one in found])
        assert np.array_equal(whole, np.concatenate([one[name] for one in pieces]))
    assert np.array_equal(chains.energies(), found[1]["samples/energy"][-1])
    chains.state()


@pytest.mark.parametrize("units", UNITS)
def test_energies_of_few_units_are_looked_up_in_pairs_of_groups(units: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit those that are summed by edges."""
    for n in (1, 7, 13, 16, 24, 26, 32):
        model, found = bm.models.random_machine(n, bias_scale=1.0, units=units, seed=n), []
        for least in (0, 1_000):
            monkeypatch.setattr(edges, "EDGES_OF_A_PAIR", least)
            edges._kept.cache_clear()
            chains = make_chains(model, 20, kernel="sparse", seed=1)
            found.append(chains.record(9, 1))
            assert (chains._numbers.pairs is None) == (least > 0 and n > 14)
        states, energy = found[0]["samples/states"], found[0]["samples/energy"]
        assert np.array_equal(energy, found[1]["samples/energy"])
        values = model.convention.values(np.unpackbits(states, axis=2, count=n, bitorder="little"), np.float64)
        np.testing.assert_allclose(energy, model.energy(values), rtol=1e-12, atol=1e-12)
    edges._kept.cache_clear()


@pytest.mark.parametrize("n", [3, 4, 13])
def test_the_worst_remainder_is_that_of_no_state(n: int) -> None:
    """It lies between the largest of all states and the sum of all remainders of one sign."""
    values = np.random.default_rng(n).normal(size=(n, n))
    whole = np.rint(values * 4.0)
    found = worst_remainder(values, 4.0, whole.astype(np.int32), 254)
    rest = (values * 4.0 - whole) * 254
    left = np.tril(rest - np.rint(rest), -1)
    states = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(float)
    largest = np.abs(np.einsum("ti,ij,tj->t", states, left, states)).max()
    in_fours = sum(0.25 * m * (m - 1) for m in [4] * (n // 4) + [n % 4])
    assert largest <= found <= 1.002 * (max(left[left > 0].sum(), -left[left < 0].sum()) + in_fours)


def test_remainders_that_are_alike_add_up() -> None:
    n = 42
    values = np.full((n, n), (3.0 + 10.25 / 254) / 4.0)
    found = worst_remainder(values, 4.0, np.full((n, n), 3, np.int32), 254)
    in_fours = 6 * 10 + 1  # pairs, which count half
    assert found == pytest.approx(0.25 * (n * (n - 1) / 2 - in_fours) + 0.5 * in_fours, rel=2e-3)


@pytest.mark.parametrize("take", [lambda chains, n: chains.record(n, 1), lambda chains, n: measure(chains, 0, n)])
def test_energies_of_layers_that_are_no_longer_those_of_their_states_are_told(take) -> None:
    """As samples have them, and as swaps are decided by them."""
    chains = make_chains(bm.models.restricted(40, 20, scale=1.0, seed=1), 2)
    take(chains, 60)
    chains.state()
    chains._told_from._sums[1].unit *= 1.0 + 1e-6
    take(chains, 1)
    with pytest.raises(RuntimeError, match="not that of its state"):
        chains.state()


@pytest.mark.parametrize("sizes", [(40, 30), (20, 40, 30)])
def test_energies_of_layers_are_told_before_and_after_sweeps(sizes: tuple[int, ...]) -> None:
    generator = np.random.default_rng(4)
    model = bm.BoltzmannMachine([generator.normal(size=shape) for shape in pairwise(sizes)], units="binary")
    whole, apart = (make_chains(model, 20, seed=1, threads=1) for _ in range(2))
    most = 1e-9 * sum(np.abs(block).sum() for block in model.couplings.arrays)
    first = whole.measure_now()
    found = [first, *measure(whole, 2, 3)]
    for t, energies in enumerate(found):
        apart.sweep((0, 3, 1, 1)[t])
        states = np.unpackbits(apart.packed(), axis=1, count=model.n_units, bitorder="little")
        assert np.abs(model.energy(states) - model.offset - energies).max() <= most
        assert np.array_equal(apart.energies(), energies)
    assert whole.n_flips == apart.n_flips


@each(
    n_chains=[1, 2, 3, 4, 5, 8], near=[0, 0, layered.NEAR], rule=RULES, order=["sequential", "coloured"],
    scale=[1.0, 1e4],  # fields in float32 and in float64
)  # fmt: skip
def test_few_chains_of_layers_are_the_first_of_many(
    n_chains: int, near: int, rule: str, order: str, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layered, "NEAR", near)
    monkeypatch.setattr(layered, "MANY_UNITS", near)
    generator, sizes = np.random.default_rng(6), (70, 33, 41)
    model = bm.BoltzmannMachine([scale * generator.normal(size=shape) for shape in pairwise(sizes)], units="binary")
    bias = scale * generator.normal(size=sum(sizes))
    settings = {"rule": rule, "order": order, "beta": 0.2 / scale, "seed": 1, "highest_beta": 1.0}
    few, many = (make_chains(model, n, bias=bias, threads=2, **settings) for n in (n_chains, 16))
    assert few.dtype == (np.float32 if scale == 1.0 else np.float64)
    for thin in (1, 3):
        alone, together = (chains.record(2, thin) for chains in (few, many))
        for name, values in alone.items():
            assert np.array_equal(values, together[name][:, :n_chains])
    assert np.array_equal(few.state()["streams"], many.state()["streams"][:n_chains])


@pytest.mark.parametrize("sampler", ["gibbs", "tempering"])
@pytest.mark.parametrize("sizes", [(5, 3), (40, 20, 30)])
def test_all_units_of_a_layer_may_be_clamped(sizes: tuple[int, ...], sampler: str) -> None:
    generator, ends = np.random.default_rng(5), np.cumsum((0, *sizes))
    blocks = [generator.normal(size=shape) for shape in pairwise(sizes)]
    model = bm.BoltzmannMachine(blocks, generator.normal(size=ends[-1]), units="binary")
    for first, end in pairwise(ends):
        row = generator.integers(0, 2, end - first)
        run = bm.sample(model, sampler, n_sweeps=20, n_chains=3, clamp=(range(first, end), row), seed=1)
        states = np.asarray(run.states)
        assert (states[..., first:end] == row).all()
        np.testing.assert_allclose(run.read("samples/energy"), model.energy(states), rtol=0, atol=1e-7)


@pytest.mark.parametrize("shape", [(1, 1), (5, 4), (3, 70)])
def test_roundings_of_layers_are_at_most_what_is_said_of_them(shape: tuple[int, int]) -> None:
    """No state of the smaller layer, with the best of the other one, has more."""
    rest = np.random.default_rng(sum(shape)).uniform(-1, 1, shape)
    states = (np.arange(2 ** shape[0])[:, None] >> np.arange(shape[0]) & 1) @ rest
    largest = max(np.maximum(sign * states, 0).sum(axis=1).max() for sign in (1, -1))
    assert largest <= largest_sum(rest) <= 6 * np.abs(rest).sum()


def test_fields_that_came_apart_from_their_states_are_told() -> None:
    chains = make_chains(bm.models.random_machine(60, seed=1), 2, kernel="dense")
    chains.record(60, 1)
    chains._fields[0] += 1 << 20
    chains.record(1, 1)
    with pytest.raises(RuntimeError, match="not that of its state"):
        chains.state()


@pytest.mark.parametrize(
    ("kernel", "n_chains"), [*product(("dense", "sparse"), (1, 3, 20)), *product(("lookup",), (32, 40, 64, 150))]
)
@pytest.mark.parametrize("order", ORDERS)
def test_samples_in_one_call_are_those_of_sweeps(kernel: str, order: str, n_chains: int) -> None:
    for n in (12, 21, 60):
        model = bm.models.random_machine(n, seed=1)
        if kernel == "lookup":  # by which samples of few chains are taken side by side
            model = bm.models.edwards_anderson((3, n // 3), distribution="gaussian", seed=1)
        settings = {"kernel": kernel, "order": order, "seed": 2}
        whole, apart, ones = (make_chains(model, n_chains, threads=threads, **settings) for threads in (1, 2, 1))
        rows = whole.record(5, 3)
        for t in range(5):
            apart.sweep(3)
            assert np.array_equal(apart.packed(), rows["samples/states"][t])
            one = ones.record(1, 3)["samples/energy"][0]
            assert np.array_equal(one, rows["samples/energy"][t])
            if kernel == "sparse":  # whole numbers, where other energies are sums in float64
                assert np.abs(apart.energies() - one).max() <= 1e-11
                one = np.concatenate([ones._sample_energies(k) for k in range(len(ones.blocks))])
            assert np.array_equal(apart.energies() if kernel != "sparse" else one, rows["samples/energy"][t])
        found = measure(whole, 2, 3)
        apart.sweep(2)
        for energies in found:
            apart.sweep(1)
            assert np.array_equal(apart.quick_energies(), energies)
        assert whole.n_flips == apart.n_flips


@pytest.mark.parametrize(("kernel", "rule", "order"), ways(*MODELS))
def test_chains_are_watched_after_every_sweep(kernel: str, rule: str, order: str) -> None:
    few = [] if kernel in WORDS else [(2, 5)]
    for threads, n_chains in ((1, N_CHAINS[kernel]), (2, N_CHAINS[kernel]), *few):
        chains, other = (chains_of(kernel, rule, order, threads=threads, n_chains=n_chains) for _ in range(2))
        for n_sweeps in (3, 0, 1):
            seen: dict[int, np.ndarray] = {}
            chains.watch(n_sweeps, seen.__setitem__)
            found: dict[int, list[np.ndarray]] = {}
            for _ in range(n_sweeps):
                other.sweep(1)
                for k, block in enumerate(other.blocks):
                    found.setdefault(block.start, []).append(other.words(k))
            assert seen.keys() == found.keys()
            assert all(np.array_equal(seen[first], np.concatenate(words, axis=1)) for first, words in found.items())
        assert_same_state(chains, other)


@pytest.mark.parametrize("kernel", ["dense", "sparse", "layered"])
def test_energies_at_many_temperatures_are_those_at_one_after_the_other(kernel: str) -> None:
    is_layered = kernel == "layered"
    model = bm.models.restricted(12, 8, seed=1) if is_layered else bm.models.random_machine(20, seed=1)
    settings = {"kernel": kernel, "order": None if is_layered else "random", "seed": 2, "highest_beta": 1.5}
    whole, apart = (make_chains(model, 20, threads=threads, **settings) for threads in (2, 1))
    betas = np.array([0.2, 1.5, 0.7])
    found = np.split(whole.measure(2, 3, betas), 3)
    for beta, energies in zip(betas, found, strict=True):
        apart.set_beta(np.full(20, beta))
        assert np.array_equal(measure(apart, 2, 3), energies)
    for chains in (whole, apart):
        chains.sweep(1)
    assert np.array_equal(whole.packed(), apart.packed()) and np.array_equal(whole.beta, apart.beta)
    assert whole.n_flips == apart.n_flips


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_temperatures_after_a_stop_are_those_that_chains_tell(kernel: str) -> None:
    chains = make_chains(bm.models.random_machine(20, seed=1), 20, kernel=kernel, beta=0.5, highest_beta=1.5, threads=1)
    asked: list[int] = []
    chains.attempt_seconds, chains.halt = 1e-6, lambda: len(asked) > 1 or bool(asked.append(1))
    with pytest.raises(Halted):
        chains.measure(2, 3, np.linspace(0.1, 1.5, 40))
    found = np.concatenate(chains._scale)
    chains.set_beta(chains.beta)
    assert np.array_equal(found, np.concatenate(chains._scale)) and chains.beta[0] == 0.5


@pytest.mark.parametrize("n", [9, 20, 42, 70])
def test_nothing_is_written_beyond_the_samples(n: int) -> None:
    weights = np.array(bm.models.random_machine(n, seed=1).weights)
    weights[0], weights[:, 0] = 1e6 * weights[0], 1e6 * weights[:, 0]  # for fields of 64 bits, which tell energies
    chains = make_chains(bm.BoltzmannMachine(weights), 20, kernel="dense", threads=1)
    chains.record(1, 1)
    packed = np.full((3, 20, -(-n // 8)), 0xA5, np.uint8)
    chains._record_block(1, packed[:2], np.empty((2, 20)), 0, 2, 0)
    assert np.array_equal(packed[1], chains.packed()) and (packed[2] == 0xA5).all()


@pytest.mark.parametrize("units", ["spin", "binary"])
@pytest.mark.parametrize("values", ["one size", "real", "real, fewer digits", "far apart"])
@pytest.mark.parametrize(("kernel", "n_chains"), [("lookup", 160), ("sparse", 40), ("sparse", 3)])
def test_energies_of_whole_numbers_are_those_of_the_users_couplings(
    values: str, units: str, kernel: str, n_chains: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded energies are exact where couplings are few multiples of one, and within 1e-9 of sum |W| in any case."""
    monkeypatch.setattr(edges, "MANY", 0 if "fewer" in values else edges.MANY)
    generator = np.random.default_rng(8)
    model = bm.models.edwards_anderson((4, 5), distribution="gaussian", field=0.3, seed=1)
    weights, bias = model.weights.toarray(), np.array(model.flat_bias)
    if values == "one size":
        weights, bias = 0.1 * np.sign(weights), 0.3 * generator.integers(-1, 2, 20)
    elif values == "far apart":
        weights[0], weights[:, 0] = 1e-12 * weights[0], 1e-12 * weights[:, 0]
    model = bm.BoltzmannMachine(scipy.sparse.csr_array(weights), bias).to_units(units)
    chains = make_chains(model, n_chains, kernel=kernel, beta=0.5, seed=1, threads=1)
    rows = chains.record(11, 2)
    states = np.unpackbits(rows["samples/states"], axis=2, count=20, bitorder="little")
    exact = model.energy(model.convention.values(states, np.float64)) - model.offset
    most = np.abs(weights).sum() / 2 + np.abs(bias).sum()
    assert np.abs(rows["samples/energy"] - exact).max() <= (1e-9 if "fewer" in values else 1e-14) * most
    last = np.concatenate([chains._sample_energies(k) for k in range(len(chains.blocks))])
    assert np.array_equal(rows["samples/energy"][-1], last)
    assert np.abs(chains.energies() - chains.quick_energies()).max() <= 1e-9 * most
    if kernel == "sparse":  # its last energy is checked, the others are told anew
        assert chains.record(1 << 13, 1) and chains.state()
        chains._last = (chains.n_swept, chains._last[1] + 1e-8 * most)
    chains._numbers._numbers[:] *= 2.0  # as a damaged memory would; processors that look up have tables besides
    chains._numbers._tables[:] += 1
    with pytest.raises(RuntimeError, match="is not that of its state"):
        chains.state()
