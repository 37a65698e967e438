"""All engines for exact sums against 50-digit sums, closed forms, one another, and what must not change them."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings, strategies as st

import fastbm as bm
from fastbm import lattice
from tests.support import machines
from tests.support.combinations import each, pairwise
from tests.support.machines import UNITS, enumerate_machine
from tests.twins import reference

EPS = float(np.finfo(float).eps)
SCALES = ("1e-12", "1", "30", "1e3", "mixed", "ties")
TAKES = {
    "dense": ("gray", "blocks", "elimination"),
    "ring": ("gray", "blocks", "elimination"),
    "parts": ("gray", "blocks", "elimination"),
    "restricted": ("gray", "blocks", "layers", "elimination"),
    "layers": ("gray", "blocks", "layers", "elimination"),
}
CASES = [(kind, engine) for kind, engines in TAKES.items() for engine in engines]


def numbers(generator: np.random.Generator, scale: str, shape: Any) -> np.ndarray:
    """Couplings or biases of one size, of sizes from 1e-12 to 1e3, or of +-1."""
    signs = np.where(generator.random(shape) < 0.5, -1.0, 1.0)
    if scale == "ties":
        return signs
    if scale == "mixed":
        return signs * generator.uniform(0.5, 1.5, shape) * generator.choice([1e-12, 1e-3, 1.0, 30.0, 1e3], shape)
    return float(scale) * generator.normal(size=shape)


@functools.cache
def case(kind: str, units: str, scale: str) -> bm.BoltzmannMachine:
    """A machine of seven to nine units; ties have no biases."""
    generator = np.random.default_rng([SCALES.index(scale), UNITS.index(units), len(kind)])
    if kind in ("restricted", "layers"):
        sizes = (5, 3) if kind == "restricted" else (3, 2, 3)
        weights: Any = [numbers(generator, scale, size) for size in itertools.pairwise(sizes)]
        n = sum(sizes)
    else:
        n = {"dense": 8, "ring": 9, "parts": 7}[kind]
        upper = np.triu(numbers(generator, scale, (n, n)), 1)
        if kind == "ring":
            upper *= (np.subtract.outer(np.arange(n), np.arange(n)) % n == 1) | np.eye(n, k=1, dtype=bool)
            upper[0, -1] = upper[0, 1]
        if kind == "parts":
            upper[:3, 3:] = 0.0
            upper[:, 5] = upper[5] = 0.0
        weights = upper + upper.T
        if kind != "dense":
            weights = scipy.sparse.csr_array(weights)
    bias = np.zeros(n) if scale == "ties" else numbers(generator, scale, n)
    return bm.BoltzmannMachine(weights, bias, units=units, offset=0.25)


@functools.cache
def truth_of(kind: str, units: str, scale: str) -> reference.Exact:
    return enumerate_machine(case(kind, units, scale))


def strength(model: bm.BoltzmannMachine) -> float:
    """The sum of all couplings and biases, each once."""
    weights, bias = machines.parameters(model)
    return float(np.abs(weights).sum() / 2 + np.abs(bias).sum())


def bound(model: bm.BoltzmannMachine, beta: float = 1.0) -> float:
    """How far a moment may be off."""
    return 1e-11 + 8 * EPS * beta * strength(model)


def full(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.toarray() if scipy.sparse.issparse(matrix) else matrix)


def assert_is(found: bm.Inference, truth: Any, model: bm.BoltzmannMachine, beta: float = 1.0) -> None:
    """Compare all fields; energies are in units of the couplings."""
    close, size = bound(model, beta), strength(model)
    assert abs(found.log_z - truth.log_z) <= 1e-12 * max(1.0, abs(truth.log_z))
    np.testing.assert_allclose(found.mean, truth.mean, rtol=0, atol=close)
    np.testing.assert_allclose(full(found.second_moment), truth.second_moment, rtol=0, atol=close)
    assert found.energy == pytest.approx(truth.energy, rel=1e-12, abs=close * size)
    if found.energy_variance is not None:
        assert found.energy_variance == pytest.approx(truth.energy_variance, rel=1e-9, abs=close * size**2)
        assert found.energy_variance >= 0
    entropy = 1e-10 + 8 * EPS * beta * size
    assert found.entropy == pytest.approx(truth.entropy, abs=entropy)
    assert found.bound == "exact"


# Sums with 50 digits


@each(**{"kind, engine": CASES * 2}, units=UNITS, scale=SCALES)
def test_every_engine_is_the_sum_over_all_states(kind: str, engine: str, units: str, scale: str) -> None:
    model = case(kind, units, scale)
    found = bm.infer(model, "exact", engine=engine)
    assert found.detail["engine"] == engine
    assert_is(found, truth_of(kind, units, scale), model)
    alone = bm.infer(model, "exact", engine=engine, moments=False)
    assert abs(alone.log_z - found.log_z) <= 1e-12 * max(1.0, abs(found.log_z))


@each(**{"kind, engine": CASES}, units=UNITS, beta=[0.0, 1e-12, 1e3])
def test_every_temperature(kind: str, engine: str, units: str, beta: float) -> None:
    model = case(kind, units, "1")
    truth = enumerate_machine(model, beta)
    assert_is(bm.infer(model, "exact", beta=beta, engine=engine), truth, model, beta)


@pytest.mark.parametrize(("kind", "engine"), CASES)
def test_clamped_units(kind: str, engine: str) -> None:
    for units in UNITS:
        model, lo = case(kind, units, "1"), machines.flat(1, units).convention.lo
        found = bm.infer(model, "exact", engine=engine, clamp=([5, 0], [1, lo]))
        assert_is(found, enumerate_machine(model, clamp={5: 1, 0: lo}), model)


# One another, beyond what can be enumerated


def large(kind: str, scale: float, units: str) -> bm.BoltzmannMachine:
    """Machines of 20 to 23 units; the last goes through large matrix products."""
    generator = np.random.default_rng([len(kind), int(scale)])
    if kind == "restricted":
        blocks = [generator.normal(scale=scale, size=(12, 9))]
        return bm.BoltzmannMachine(blocks, generator.normal(scale=scale, size=21), units=units)
    n = 23 if kind == "dense" else 20
    upper = np.triu(generator.normal(scale=scale, size=(n, n)), 1)
    if kind == "sparse":
        upper *= generator.random((n, n)) < 0.15
    return bm.BoltzmannMachine(upper + upper.T, generator.normal(scale=scale, size=n), units=units)


@each(scale=[0.3, 30.0, 1e3], kind=["dense", "sparse", "restricted"])
def test_engines_agree(kind: str, scale: float) -> None:
    model = large(kind, scale, "spin" if scale == 30 else "binary")
    first = bm.infer(model, "exact", engine="gray")
    for engine in TAKES["restricted" if kind == "restricted" else "dense"][1:]:
        assert_is(bm.infer(model, "exact", engine=engine), first, model)
    assert_is(bm.infer(model, "exact"), first, model)


def of_28_units(scale: float) -> bm.BoltzmannMachine:
    generator = np.random.default_rng(5)
    upper = np.triu(generator.normal(scale=scale, size=(28, 28)), 1)
    return bm.BoltzmannMachine(upper + upper.T, generator.normal(scale=scale, size=28))


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.2, 8.0])
def test_blocks_and_gray_code_agree_on_28_units(scale: float) -> None:
    model = of_28_units(scale)
    found = bm.infer(model, "exact", engine="blocks", energy_variance=True)
    assert_is(found, bm.infer(model, "exact", engine="gray"), model)


@pytest.mark.slow
def test_a_range_of_energies_that_is_too_wide_for_blocks_is_no_end() -> None:
    """One state has all the weight."""
    model = of_28_units(1e3)
    found = bm.infer(model, "exact")
    state = np.rint(found.mean).astype(int)
    np.testing.assert_allclose(found.mean, state, rtol=0, atol=bound(model))
    assert found.log_z == pytest.approx(-model.energy(state), rel=1e-12)
    assert (model.energy_delta(state, range(28)) > 0).all()


# Closed forms


@pairwise(engine=["blocks", "gray"], **{"n, beta": [(8, 0.5), (17, 1.3), (24, 1.0), (24, 200.0)]}, field=[0.0, 0.3])
def test_curie_weiss(engine: str, n: int, beta: float, field: float) -> None:
    """Sums over the magnetisation with 50 digits."""
    model = bm.models.curie_weiss(n, field=field)
    j, b = mpmath.mpf(float(model.weights[0, 1])), mpmath.mpf(field)
    with mpmath.workdps(50):
        m = [2 * k - n for k in range(n + 1)]
        energy = [-j * (x * x - n) / 2 - b * x for x in m]
        weights = [mpmath.binomial(n, k) * mpmath.exp(-mpmath.mpf(beta) * e) for k, e in enumerate(energy)]
        z = mpmath.fsum(weights)
        average = lambda values: float(mpmath.fsum(w * v for w, v in zip(weights, values, strict=True)) / z)  # noqa: E731
        mean, square, log_z = average(m), average([x * x for x in m]), float(mpmath.log(z))
        mean_energy = average(energy)
        variance = average([(e - mpmath.mpf(mean_energy)) ** 2 for e in energy])
    second = np.full((n, n), (square - n) / (n * (n - 1)))
    np.fill_diagonal(second, 1.0)
    truth = reference.Exact(
        log_z, np.full(n, mean / n), second, mean_energy, variance, log_z + beta * mean_energy, np.empty(0), np.empty(0)
    )
    assert_is(bm.infer(model, "exact", beta=beta, engine=engine), truth, model, beta)


@pytest.mark.parametrize("engine", ["gray", "blocks", "elimination"])
@pytest.mark.parametrize("j", [1e-12, 0.7, -0.7, 30.0, 1e3])
def test_rings(engine: str, j: float) -> None:
    """<s_i s_(i + r)> = (t^r + t^(n - r)) / (1 + t^n), t = tanh J."""
    n = 12
    model = bm.models.ising((n,), coupling=j)
    with mpmath.workdps(50):
        t = mpmath.tanh(mpmath.mpf(j))
        whole = 1 + t**n
        log_z = float(n * mpmath.log(2 * mpmath.cosh(mpmath.mpf(j))) + mpmath.log(whole))
        by_distance = np.array([float((t**r + t ** (n - r)) / whole) for r in range(n)])
    by_distance[0] = 1.0
    second = by_distance[np.subtract.outer(np.arange(n), np.arange(n)) % n]
    found = bm.infer(model, "exact", engine=engine)
    assert abs(found.log_z - log_z) <= 1e-12 * abs(log_z)
    np.testing.assert_allclose(full(found.second_moment), second, rtol=0, atol=bound(model))
    assert not np.any(np.abs(found.mean) > bound(model))
    assert found.energy == pytest.approx(-j * n * by_distance[1], rel=1e-11, abs=abs(j) * bound(model))


@pytest.mark.parametrize("beta", [1e-6, 0.44, 2.0])
@pytest.mark.parametrize(
    ("shape", "engines"),
    [
        ((3, 4), ("gray", "blocks", "elimination")),
        ((4, 5), ("gray", "blocks", "elimination")),
        ((4, 6), ("blocks", "elimination")),
        ((6, 6), ("elimination",)),
    ],
)
def test_tori_are_kaufmans(shape: tuple[int, int], engines: tuple[str, ...], beta: float) -> None:
    log_z = lattice.kaufman_log_z(*shape, beta)
    for engine in engines:
        found = bm.infer(bm.models.ising(shape), "exact", engine=engine, beta=beta, moments=False)
        assert found.log_z == pytest.approx(log_z, rel=1e-12)


@pytest.mark.slow
def test_a_torus_of_36_spins_by_blocks_is_kaufmans() -> None:
    found = bm.infer(bm.models.ising((6, 6)), "exact", engine="blocks", beta=0.44, moments=False)
    assert found.log_z == pytest.approx(lattice.kaufman_log_z(6, 6, 0.44), rel=1e-12)


# What must not change a sum. Engines are those of `infer` and one that is forced.

ENGINE = st.sampled_from([None, "gray", "blocks", "elimination"])
MACHINE = st.tuples(st.integers(2, 9), st.sampled_from(UNITS), st.sampled_from(SCALES), st.integers(0, 99))
many = settings(max_examples=25, deadline=None, derandomize=True)


def drawn(n: int, units: str, scale: str, seed: int) -> bm.BoltzmannMachine:
    generator = np.random.default_rng(seed)
    upper = np.triu(numbers(generator, scale, (n, n)), 1) * (generator.random((n, n)) < 0.7)
    return bm.BoltzmannMachine(upper + upper.T, numbers(generator, scale, n), units=units)


def moments(model: bm.BoltzmannMachine, engine: str | None) -> tuple[float, np.ndarray, np.ndarray]:
    found = bm.infer(model, "exact", engine=engine)
    return found.log_z, found.mean, full(found.second_moment)


def assert_close(
    found: tuple[float, np.ndarray, np.ndarray],
    expected: tuple[float, np.ndarray, np.ndarray],
    model: bm.BoltzmannMachine,
) -> None:
    close = 4 * bound(model)  # two sums, and couplings that were rounded anew
    assert abs(found[0] - expected[0]) <= 1e-12 * max(1.0, abs(expected[0]), strength(model))
    np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=close)
    np.testing.assert_allclose(found[2], expected[2], rtol=0, atol=close)


@many
@given(MACHINE, ENGINE)
def test_the_order_of_units(machine: tuple, engine: str | None) -> None:
    model = drawn(*machine)
    order = np.random.default_rng(machine[-1]).permutation(model.n_units)
    other = bm.BoltzmannMachine(model.weights[np.ix_(order, order)], model.bias[order], units=model.units)
    log_z, mean, second = moments(model, engine)
    assert_close(moments(other, engine), (log_z, mean[order], second[np.ix_(order, order)]), model)


@many
@given(MACHINE, ENGINE)
def test_gauge_transformations(machine: tuple, engine: str | None) -> None:
    model = drawn(machine[0], "spin", *machine[2:])
    signs = np.where(np.random.default_rng(machine[-1]).random(model.n_units) < 0.5, -1, 1)
    turned = np.outer(signs, signs)
    log_z, mean, second = moments(model, engine)
    other = bm.BoltzmannMachine(model.weights * turned, model.bias * signs)
    assert_close(moments(other, engine), (log_z, mean * signs, second * turned), model)


@many
@given(MACHINE, ENGINE)
def test_units_of_either_convention(machine: tuple, engine: str | None) -> None:
    model = drawn(machine[0], "binary", *machine[2:])
    log_z, mean, second = moments(model, engine)
    spins = 4 * second - 2 * (mean[:, None] + mean) + 1
    expected = (log_z, 2 * mean - 1, spins)
    close = bm.BoltzmannMachine(4 * model.weights, 4 * model.bias)
    assert_close(moments(model.to_units("spin"), engine), expected, close)


@many
@given(MACHINE, ENGINE, st.sampled_from([0.0, 1e-12, 0.4, -2.0, 30.0, 1e3]))
def test_a_unit_that_stands_alone(machine: tuple, engine: str | None, bias: float) -> None:
    """log Z gains log 2 cosh b, or log(1 + exp b), and its moments are products."""
    model = drawn(*machine)
    n, lo = model.n_units, model.convention.lo
    weights = np.zeros((n + 1, n + 1))
    weights[:n, :n] = model.weights
    other = bm.BoltzmannMachine(weights, np.append(model.bias, bias), units=model.units)
    log_z, mean, second = moments(model, engine)
    last = 1 / (1 + math.exp(-bias)) if lo == 0 else math.tanh(bias)
    whole = np.append(mean, last)
    pairs = np.outer(whole, whole)
    pairs[:n, :n] = second
    pairs[n, n] = last if lo == 0 else 1.0
    assert_close(moments(other, engine), (log_z + float(np.logaddexp(lo * bias, bias)), whole, pairs), other)


@many
@given(MACHINE, ENGINE, st.sampled_from([2.0**-40, 0.125, 8.0, 2.0**40]))
def test_couplings_and_temperatures_of_another_scale(machine: tuple, engine: str | None, factor: float) -> None:
    model = drawn(*machine)
    other = bm.BoltzmannMachine(factor * model.weights, factor * model.bias, units=model.units)
    found = bm.infer(other, "exact", beta=1 / factor, engine=engine)
    assert_close((found.log_z, found.mean, full(found.second_moment)), moments(model, engine), model)


@many
@given(st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3)), st.sampled_from(SCALES), st.integers(0, 99))
def test_layers_in_either_order(sizes: tuple[int, int, int], scale: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    blocks = [numbers(generator, scale, size) for size in itertools.pairwise(sizes)]
    bias = [numbers(generator, scale, size) for size in sizes]
    model = bm.BoltzmannMachine(blocks, bias)
    other = bm.BoltzmannMachine([block.T for block in blocks[::-1]], bias[::-1])
    order = np.concatenate(np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])[::-1])
    log_z, mean, second = moments(model, "layers")
    assert_close(moments(other, "layers"), (log_z, mean[order], second[np.ix_(order, order)]), model)
