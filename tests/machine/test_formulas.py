"""The model's formulas against their twins, at extremes too."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse

from fastbm.machine.machine import BoltzmannMachine
from tests.support.combinations import each, pairwise
from tests.support.small_machines import KINDS, PAIR, UNITS, exact, make, parts, states_of
from tests.twins import reference


@pytest.mark.parametrize(("layout", "units"), KINDS)
def test_energy_is_that_of_the_twin(layout, units):
    model = make(layout, units)
    weights, bias, _ = parts(model)
    states = states_of(model)
    expected = [reference.energy(state, weights, bias, model.offset) for state in states.tolist()]
    np.testing.assert_allclose(model.energy(states), expected, atol=1e-13)


@pytest.mark.parametrize(("layout", "units"), KINDS)
def test_field_is_that_of_the_twin(layout, units):
    model = make(layout, units)
    weights, bias, _ = parts(model)
    states = states_of(model)[::5]
    expected = [[reference.field(state, i, weights, bias) for i in range(7)] for state in states.tolist()]
    np.testing.assert_allclose(model.field(states), expected, atol=1e-13)


@pytest.mark.parametrize(("layout", "units"), KINDS)
def test_energy_delta_is_the_difference_of_two_energies(layout, units):
    model, (lo, hi) = make(layout, units), reference.VALUES[units]
    states = states_of(model)[::7]
    deltas = model.energy_delta(states, np.arange(7))
    for i in range(7):
        flipped = states.copy()
        flipped[:, i] = lo + hi - flipped[:, i]
        expected = model.energy(flipped) - model.energy(states)
        np.testing.assert_allclose(deltas[:, i], expected, atol=1e-12)
        np.testing.assert_allclose(model.energy_delta(states, i), expected, atol=1e-12)
        np.testing.assert_allclose(model.energy_delta(states, i - 7), expected, atol=1e-12)


@pytest.mark.parametrize("units", UNITS)
def test_shapes_follow_the_states(units):
    model = make("dense", units)
    state = states_of(model)[5]
    assert isinstance(model.energy(state), float)
    assert isinstance(model.energy_delta(state, 2), float)
    assert model.energy_delta(state, [2, 3]).shape == (2,)
    assert model.field(state).shape == (7,)
    many = np.broadcast_to(state, (2, 3, 7))
    assert model.energy(many).shape == (2, 3)
    assert model.field(many).shape == (2, 3, 7)
    assert model.energy_delta(many, 1).shape == (2, 3)
    assert model.energy(many[:0]).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
def test_states_of_any_number_type_are_alike(dtype):
    model = make("dense", "spin")
    states = states_of(model)
    assert np.array_equal(model.energy(states.astype(dtype)), model.energy(states))


def test_binary_states_may_be_bools():
    model = make("restricted", "binary")
    states = states_of(model)
    assert np.array_equal(model.energy(states.astype(bool)), model.energy(states))


@each(**{"layout, units": KINDS}, beta=[0.0, 0.5, 3.0])
def test_conversion_keeps_the_distribution_and_log_z(layout, units, beta):
    model = make(layout, units)
    other = model.to_units("binary" if units == "spin" else "spin")
    before, after = exact(model, beta=beta), exact(other, beta=beta)
    assert after.log_z == pytest.approx(before.log_z, abs=1e-12)
    np.testing.assert_allclose(after.probabilities, before.probabilities, atol=1e-13)
    assert (other.n_hidden, other.is_layered) == (model.n_hidden, model.is_layered)


@pytest.mark.parametrize(("layout", "units"), KINDS)
def test_conversion_is_that_of_the_twin_and_undone_by_its_inverse(layout, units):
    model, to = make(layout, units), "binary" if units == "spin" else "spin"
    weights, bias, offset = reference.convert(*parts(model), to)
    other = model.to_units(to)
    np.testing.assert_allclose(parts(other)[0], weights, atol=1e-13)
    np.testing.assert_allclose(parts(other)[1], bias, atol=1e-13)
    assert other.offset == pytest.approx(model.offset + offset, abs=1e-13)
    back = other.to_units(units)
    np.testing.assert_allclose(parts(back)[0], parts(model)[0], atol=1e-14)
    np.testing.assert_allclose(parts(back)[1], parts(model)[1], atol=1e-14)
    assert back.offset == pytest.approx(model.offset, abs=1e-13)
    assert model.to_units(units) is model


# Free energy


@pairwise(layout=["dense", "sparse", "restricted"], units=UNITS, beta=[0.0, 0.7, 2.0])
def test_free_energy_is_that_of_the_twin(layout, units, beta):
    model = make(layout, units)
    if layout != "restricted":
        weights = parts(model)[0].copy()
        weights[3:, 3:] = 0
        weights = weights if layout == "dense" else scipy.sparse.csr_array(weights)
        model = BoltzmannMachine(weights, model.bias, units=units, n_hidden=4, offset=0.3)
    visible = np.array(reference.all_states(3, units))
    expected = [reference.free_energy(v, *parts(model), beta=beta, offset=model.offset) for v in visible.tolist()]
    np.testing.assert_allclose(model.free_energy(visible, beta=beta), expected, rtol=1e-13)
    assert isinstance(model.free_energy(visible[0], beta=beta), float)
    log_p = -model.free_energy(visible.reshape(2, 4, 3), beta=beta) - exact(model, beta=beta).log_z
    assert np.exp(log_p).sum() == pytest.approx(1)


def test_free_energy_without_hidden_units_is_beta_times_the_energy():
    model = BoltzmannMachine(PAIR, [0.5, 0.0])
    states = states_of(model)
    np.testing.assert_allclose(model.free_energy(states, beta=2.0), 2.0 * model.energy(states))


# Extremes


@pytest.mark.parametrize("scale", [-1000.0, 1000.0])
@pytest.mark.parametrize(("layout", "units"), KINDS)
def test_couplings_of_a_thousand_give_finite_numbers(layout, units, scale):
    model = make(layout, units, scale=scale)
    states = states_of(model)
    found = [model.energy(states), model.field(states), model.energy_delta(states, np.arange(7))]
    found += [parts(model.to_units(other))[1] for other in UNITS]
    if layout == "restricted":
        found.append(model.free_energy(states[:8, :3], beta=100.0))
    assert all(np.isfinite(array).all() for array in found)


def test_free_energy_of_huge_fields_is_their_ground_state():
    model = BoltzmannMachine([[[1000.0], [-1000.0]]], [[0.0, 0.0], [1.0]], units="binary")
    assert model.free_energy([1, 0]) == pytest.approx(-1001.0, rel=1e-15)
    assert model.free_energy([0, 1]) == pytest.approx(-math.exp(-999.0), abs=1e-300)


def test_a_single_unit_is_a_machine():
    model = BoltzmannMachine([[0.0]], [0.5], units="binary")
    assert model.energy([[0], [1]]).tolist() == [0.0, -0.5]
    assert exact(model).log_z == pytest.approx(math.log1p(math.exp(0.5)))
