"""Named models against their definitions, bond by bond."""

from __future__ import annotations

import itertools
import json
import math

import networkx
import numpy as np
import pytest

from fastbm import models, sample
from fastbm.runs.sample.physics import square_lattice
from tests.support.combinations import pairwise
from tests.twins import reference


def lattice_bonds(shape: tuple[int, ...], coupling: float, periodic: bool) -> np.ndarray:
    """Couplings of a lattice, one site and one direction after the other."""
    n = math.prod(shape)
    weights = np.zeros((n, n))
    for place in itertools.product(*map(range, shape)):
        for axis, side in enumerate(shape):
            step = list(place)
            step[axis] += 1
            if step[axis] == side and not periodic:
                continue
            step[axis] %= side
            i, j = np.ravel_multi_index(place, shape), np.ravel_multi_index(tuple(step), shape)
            weights[i, j] += coupling
            weights[j, i] += coupling
    return weights


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3), (2, 2), (2, 3, 4)])
def test_ising_couples_nearest_neighbours(shape, periodic):
    model = models.ising(shape, coupling=-0.7, field=0.2, periodic=periodic)
    assert np.array_equal(model.weights.toarray(), lattice_bonds(shape, -0.7, periodic))
    assert model.bias.tolist() == [0.2] * math.prod(shape)
    assert model.units == "spin"


def test_lattices_are_sparse():
    """A dense matrix of these units would take 8 TB."""
    model = models.ising((1000, 1000))
    assert (model.couplings.kind, model.couplings.n_edges) == ("sparse", 2_000_000)
    assert model.energy(np.ones(1_000_000)) == -2_000_000


@pairwise(shape=[(5,), (3, 4), (2, 3), (2, 2), (2, 3, 4)], periodic=[True, False], distribution=["bimodal", "gaussian"])
def test_edwards_anderson_draws_the_bonds_of_a_lattice(shape, periodic, distribution):
    model = models.edwards_anderson(shape, distribution=distribution, field=0.2, periodic=periodic, seed=8)
    found, bonds = model.weights.toarray(), lattice_bonds(shape, 1.0, periodic)
    assert not found[bonds == 0].any()
    if distribution == "bimodal":
        assert set(np.abs(found[bonds == 1])) <= {1.0}
        assert set(np.abs(found[bonds == 2])) <= {0.0, 2.0}
    else:
        pairs = np.triu(bonds) > 0
        assert len(set(found[pairs])) == pairs.sum()
    assert model.bias.tolist() == [0.2] * math.prod(shape)
    assert (model.units, model.couplings.kind) == ("spin", "sparse")


@pytest.mark.parametrize(("distribution", "kurtosis"), [("bimodal", 1.0), ("gaussian", 3.0)])
def test_edwards_anderson_has_mean_zero_and_variance_one(distribution, kurtosis):
    # 24,000 couplings: moments within 4 standard errors, a false alarm in 5000 seeds
    drawn = models.edwards_anderson((20, 20, 20), distribution=distribution, seed=9).couplings.arrays[0]
    n = len(drawn)
    assert n == 24_000
    assert abs(drawn.mean()) < 4 / math.sqrt(n)
    assert abs((drawn**2).mean() - 1) <= 4 * math.sqrt((kurtosis - 1) / n)
    assert abs((drawn**4).mean() - kurtosis) <= 4 * math.sqrt(96 / n) * (kurtosis > 1)


def test_both_bonds_of_a_periodic_side_of_two_are_drawn():
    # each sum of two signs is -2, 0 or 2 with odds 1:2:1; 64 seeds, by a bound that one such test in 1e4 misses
    sums = [models.edwards_anderson((2,), seed=seed).couplings.matrix()[0, 1] for seed in range(64)]
    assert set(sums) == {-2.0, 0.0, 2.0}
    assert 16 <= sums.count(0.0) <= 48


def test_edwards_anderson_tells_its_origin():
    made = models.edwards_anderson((3, 3), distribution="gaussian", seed=2)
    about = dict(made.origin)
    assert about.pop("name") == "edwards_anderson"
    assert np.array_equal(models.edwards_anderson(**about).couplings.arrays[0], made.couplings.arrays[0])


@pytest.mark.parametrize("make", [models.ising, models.edwards_anderson], ids=lambda make: make.__name__)
def test_random_fields_are_added_to_the_biases_of_the_same_couplings(make):
    plain, made = make((40, 40), field=0.5), make((40, 40), field=0.5, random_field=2.0, seed=0)
    assert np.array_equal(made.couplings.arrays[0], plain.couplings.arrays[0])
    fields = (made.bias - 0.5) / 2.0  # moments within 4 standard errors
    assert abs(fields.mean()) < 4 / 40
    assert abs((fields**2).mean() - 1) < 4 * math.sqrt(2 / 1600)
    about = dict(made.origin)
    assert about.pop("name") == make.__name__
    assert np.array_equal(make(**about).bias, made.bias)
    assert not np.array_equal(make(**about | {"seed": 1}).bias, made.bias)
    run = sample(made, beta=0.3, n_chains=8, n_sweeps=64, observables=["structure_factor"])  # it is a lattice still
    assert len(run.observables["structure_factor"]) and square_lattice(run) is None  # and not Onsager's


def test_a_periodic_side_of_two_has_both_bonds():
    assert models.ising((2,)).weights.toarray().tolist() == [[0, 2], [2, 0]]
    assert models.ising((2,), periodic=False).weights.toarray().tolist() == [[0, 1], [1, 0]]


def test_a_ring_has_its_closed_form():
    n, j = 7, 0.4
    log_z = math.log((2 * math.cosh(j)) ** n + (2 * math.sinh(j)) ** n)
    model = models.ising(n, coupling=j)
    assert reference.enumerate_states(model.weights.toarray(), model.bias, "spin").log_z == pytest.approx(
        log_z, rel=1e-13
    )


def test_an_open_side_of_one_is_no_side():
    one, other = models.ising((1, 4), periodic=False), models.ising(4, periodic=False)
    assert np.array_equal(one.weights.toarray(), other.weights.toarray())


def test_sherrington_kirkpatrick_has_variance_one_over_n():
    # n (n - 1) / 2 couplings: mean and variance within 4 standard errors, a false alarm in 8000 seeds
    n = 300
    model = models.sherrington_kirkpatrick(n, seed=3, field=0.1)
    upper = model.weights[np.triu_indices(n, 1)] * math.sqrt(n)
    assert abs(upper.mean()) < 4 / math.sqrt(len(upper))
    assert abs(upper.var() - 1) < 4 * math.sqrt(2 / len(upper))
    assert np.array_equal(model.weights, model.weights.T)
    assert set(model.bias) == {0.1}


def test_curie_weiss_couples_every_pair_by_j_over_n():
    model = models.curie_weiss(5, coupling=2.0, field=-0.3)
    assert np.array_equal(model.weights, 0.4 * (1 - np.eye(5)))
    assert set(model.bias) == {-0.3}


def test_hopfield_is_the_sum_of_outer_products():
    patterns = np.random.default_rng(4).choice([-1, 1], (3, 8))
    weights = models.hopfield(patterns).weights
    for i, j in itertools.permutations(range(8), 2):
        assert weights[i, j] == pytest.approx(sum(x[i] * x[j] for x in patterns) / 8)
    assert not np.diagonal(weights).any()


def test_hopfield_takes_one_pattern_and_stores_it():
    pattern = np.array([1, -1, -1, 1, 1])
    model = models.hopfield(pattern)
    assert np.all(pattern * model.field(pattern) > 0)


def test_restricted_takes_its_parameters():
    weights = np.arange(6.0).reshape(2, 3)
    model = models.restricted(weights=weights, visible_bias=[1, 2], hidden_bias=[3, 4, 5])
    assert model.units == "binary"
    assert np.array_equal(model.weights[0], weights)
    assert [layer.tolist() for layer in model.bias] == [[1, 2], [3, 4, 5]]
    assert (model.n_visible, model.n_hidden) == (2, 3)


def test_restricted_draws_its_parameters():
    # 30,000 weights within 4 standard errors: a false alarm in 8000 seeds
    model = models.restricted(200, 150, scale=0.3, seed=5, units="spin")
    drawn = model.weights[0].ravel()
    assert model.weights[0].shape == (200, 150)
    assert abs(drawn.mean()) < 4 * 0.3 / math.sqrt(drawn.size)
    assert abs(drawn.var() / 0.09 - 1) < 4 * math.sqrt(2 / drawn.size)
    assert not model.flat_bias.any()


def test_random_machine_has_its_scales():
    # 44,850 couplings and 300 biases within 4 standard errors: a false alarm in 8000 seeds
    n = 300
    model = models.random_machine(n, n_hidden=20, scale=2.0, bias_scale=0.5, units="binary", seed=6)
    upper = model.weights[np.triu_indices(n, 1)] * math.sqrt(n) / 2
    assert abs(upper.var() - 1) < 4 * math.sqrt(2 / len(upper))
    assert abs(model.bias.var() / 0.25 - 1) < 4 * math.sqrt(2 / n)
    assert (model.n_hidden, model.units) == (20, "binary")


@pytest.mark.parametrize("units", ["spin", "binary"])
def test_random_tree_is_a_tree_with_its_scales(units):
    n = 2000
    model = models.random_tree(n, scale=0.7, bias_scale=0.5, units=units, seed=6)
    graph = networkx.from_scipy_sparse_array(model.weights)
    assert networkx.is_tree(graph) and model.units == units
    drawn = model.weights.data
    assert abs(drawn.var() / 0.49 - 1) < 4 * math.sqrt(2 / n)
    assert abs(model.bias.var() / 0.25 - 1) < 4 * math.sqrt(2 / n)
    assert models.random_tree(1).n_units == 1


DRAWN = {
    "edwards_anderson": lambda seed: models.edwards_anderson((3, 3, 3), seed=seed),
    "sherrington_kirkpatrick": lambda seed: models.sherrington_kirkpatrick(6, seed=seed),
    "restricted": lambda seed: models.restricted(3, 2, seed=seed),
    "random_machine": lambda seed: models.random_machine(5, seed=seed),
    "random_tree": lambda seed: models.random_tree(5, seed=seed),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_gives_one_machine(name):
    def arrays(seed):
        return np.concatenate([array.ravel() for array in DRAWN[name](seed).couplings.arrays])

    assert np.array_equal(arrays(7), arrays(7))
    assert not np.array_equal(arrays(7), arrays(8))
    assert not np.array_equal(arrays(None), arrays(None))
    assert json.dumps(DRAWN[name](np.int64(7)).origin) == json.dumps(DRAWN[name](7).origin)


BAD = {
    "periodic side of one": (lambda: models.ising((1, 3)), ValueError, [
        "shape", "length 1", "(1, 3)", "periodic=False"]),
    "rows of sides": (lambda: models.ising([[2, 3], [4]]), ValueError, ["shape must be an array"]),
    "rows of patterns": (lambda: models.hopfield([[1, 1], [1]]), ValueError, ["patterns must be an array"]),
    "sums beyond floats": (lambda: models.from_qubo([[0, 1e308], [1e308, 0]]), ValueError, ["weights"]),
    "visible units as a list": (
        lambda: models.restricted([2, 2], weights=[[1.0, 1.0], [0.0, 1.0]]), TypeError, ["n_visible must be a whole"]),
    "no side": (lambda: models.ising(()), ValueError, ["shape must name at least one side"]),
    "side of nothing": (lambda: models.ising((3, 0)), ValueError, ["shape[1] must be at least 1", "0"]),
    "fractional side": (lambda: models.ising((3, 2.5)), TypeError, ["shape[", "whole number"]),
    "distribution": (lambda: models.edwards_anderson((3, 3), distribution="normal"), ValueError, [
        "distribution must be one of", "'gaussian'", "'normal'"]),
    "more units than indices": (lambda: models.ising((100_000, 100_000)), ValueError, [
        "shape must ask for at most 2147483647 units", "10000000000"]),
    "glass of a periodic side of one": (lambda: models.edwards_anderson((1, 3)), ValueError, ["length 1"]),
    "coupling nan": (lambda: models.ising((3, 3), coupling=math.nan), ValueError, ["coupling must be finite"]),
    "coupling text": (lambda: models.curie_weiss(3, coupling="strong"), TypeError, ["coupling must be a number"]),
    "field text": (lambda: models.ising(3, field="up"), TypeError, ["field must be a number"]),
    "seed of no field": (lambda: models.ising((3, 3), seed=1), ValueError, ["seed draws random fields"]),
    "random field": (lambda: models.ising((3, 3), random_field=-1.0), ValueError, [
        "random_field must be at least 0; got -1"]),
    "no spins": (lambda: models.sherrington_kirkpatrick(0), ValueError, ["n must be at least 1", "0"]),
    "fractional n": (lambda: models.curie_weiss(2.5), TypeError, ["n must be a whole number", "2.5"]),
    "seed": (lambda: models.random_machine(3, seed=-1), ValueError, ["seed must be at least 0", "-1"]),
    "bits for patterns": (lambda: models.hopfield([[0, 1]]), ValueError, ["patterns must be -1 or 1", "2 * x - 1"]),
    "no patterns": (lambda: models.hopfield([]), ValueError, ["patterns must have shape (n_patterns, n_units)"]),
    "no sizes": (lambda: models.restricted(3), ValueError, ["weights=", "n_hidden"]),
    "sizes against weights": (lambda: models.restricted(3, 2, weights=np.ones((2, 2))), ValueError, [
        "n_visible is 3", "(2, 2)"]),
    "visible bias": (lambda: models.restricted(weights=np.ones((2, 3)), visible_bias=[1]), ValueError, [
        "visible_bias", "(2,)", "(1,)"]),
    "hidden bias": (lambda: models.restricted(weights=np.ones((2, 3)), hidden_bias=[1]), ValueError, [
        "hidden_bias", "(3,)", "(1,)"]),
    "flat weights": (lambda: models.restricted(weights=np.ones(3)), ValueError, [
        "weights must have shape (n_visible, n_hidden)"]),
    "scale": (lambda: models.random_machine(3, scale=-1.0), ValueError, ["scale must be at least 0", "-1"]),
    "tree of nothing": (lambda: models.random_tree(0), ValueError, ["n must be at least 1", "0"]),
    "all hidden": (lambda: models.random_machine(3, n_hidden=3), ValueError, ["n_hidden must be below", "3"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_refused_by_name(case):
    build, error, fragments = BAD[case]
    with pytest.raises(error) as caught:
        build()
    for fragment in fragments:
        assert fragment in str(caught.value)
