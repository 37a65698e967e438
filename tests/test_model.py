"""The model's formulas against their twins, and what it says about bad input."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import reference

from fastbm.clamping import Clamped
from fastbm.model import BoltzmannMachine

UNITS = ["spin", "binary"]
LAYERS = {"dense": None, "restricted": (3, 4), "deep": (3, 2, 2)}
KINDS = [(layout, units) for layout in LAYERS for units in UNITS]
BLOCK = np.arange(6.0).reshape(2, 3)
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def make(layout: str, units: str, seed: int = 1, scale: float = 1.0) -> BoltzmannMachine:
    """A machine of seven units, four of them hidden where it is not one of layers."""
    generator = np.random.default_rng(seed)
    if layout == "dense":
        weights = np.triu(scale * generator.normal(size=(7, 7)), 1)
        bias = scale * generator.normal(size=7)
        return BoltzmannMachine(weights + weights.T, bias, units=units, n_hidden=4, offset=0.3)
    sizes = LAYERS[layout]
    blocks = [scale * generator.normal(size=size) for size in itertools.pairwise(sizes)]
    biases = [scale * generator.normal(size=size) for size in sizes]
    return BoltzmannMachine(blocks, biases, units=units, offset=0.3)


def parts(model: BoltzmannMachine) -> tuple[np.ndarray, np.ndarray, str]:
    """Weights, bias and units as the twins take them, from the public attributes alone."""
    if model.is_layered:
        return reference.join_blocks(model.weights), np.concatenate(model.bias), model.units
    return model.weights, model.bias, model.units


def exact(model: BoltzmannMachine, **options) -> reference.Exact:
    return reference.enumerate_states(*parts(model), offset=model.offset, **options)


def states_of(model: BoltzmannMachine) -> np.ndarray:
    return np.array(reference.all_states(model.n_units, model.units))


# Formulas


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


@pytest.mark.parametrize("beta", [0.0, 0.5, 3.0])
@pytest.mark.parametrize(("layout", "units"), KINDS)
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


# Clamping


@pytest.mark.parametrize("indices", [[2], [5, 0], [6, 3, 1], [0, 1, 2], [3, 4, 5, 6], []])
@pytest.mark.parametrize(("layout", "units"), KINDS)
def test_energies_of_a_conditioned_machine_are_those_of_the_whole(layout, units, indices):
    model, lo_hi = make(layout, units), reference.VALUES[units]
    values = [lo_hi[k % 2] for k in range(len(indices))]
    small = model.condition(indices, values)
    free = [i for i in range(7) if i not in indices]
    assert small.n_units == len(free)
    assert small.n_hidden == sum(i >= model.n_visible for i in free)
    part = np.array(reference.all_states(len(free), units))
    whole = np.empty((len(part), 7), int)
    whole[:, free], whole[:, indices] = part, values
    np.testing.assert_allclose(small.energy(part), model.energy(whole), atol=1e-12)
    np.testing.assert_allclose(small.field(part), model.field(whole)[:, free], atol=1e-12)


@pytest.mark.parametrize(("layout", "units"), KINDS)
def test_a_conditioned_machine_has_the_conditional_distribution(layout, units):
    model, (lo, hi) = make(layout, units), reference.VALUES[units]
    small = model.condition([4, 1], [hi, lo])
    held, found = exact(model, beta=0.7, clamp={4: hi, 1: lo}), exact(small, beta=0.7)
    assert found.log_z == pytest.approx(held.log_z, abs=1e-12)
    np.testing.assert_allclose(found.probabilities, held.probabilities, atol=1e-13)


def test_many_patterns_give_one_machine_each_with_shared_couplings():
    model = make("restricted", "binary")
    patterns = [[0, 1], [1, 1], [0, 0]]
    machines = model.condition([0, 2], patterns)
    for machine, pattern in zip(machines, patterns, strict=True):
        alone = model.condition([0, 2], pattern)
        assert np.array_equal(machine.flat_bias, alone.flat_bias)
        assert machine.offset == alone.offset
        assert machine.couplings is machines[0].couplings


def test_conditioning_twice_is_conditioning_at_once():
    model = make("dense", "spin")
    twice = model.condition([1, 5], [1, -1]).condition([3], [1])
    once = model.condition([1, 5, 4], [1, -1, 1])
    np.testing.assert_allclose(twice.weights, once.weights, atol=1e-14)
    np.testing.assert_allclose(twice.bias, once.bias, atol=1e-14)
    assert twice.offset == pytest.approx(once.offset)


@pytest.mark.parametrize("units", UNITS)
def test_full_states_and_matrices_put_clamped_units_back(units):
    model, (lo, hi) = make("dense", units), reference.VALUES[units]
    clamped = Clamped.of(model, [4, 1], [[lo, hi], [hi, lo]])
    free = np.array(reference.all_states(5, units))[3:6]
    whole = clamped.full_states(1, free)
    assert whole[:, [0, 2, 3, 5, 6]].tolist() == free.tolist()
    assert whole[:, [4, 1]].tolist() == [[hi, lo]] * 3
    matrix = clamped.full_matrix(np.arange(25.0).reshape(5, 5))
    assert matrix[2, 5] == 8
    assert not matrix[[1, 4]].any()
    assert not matrix[:, [1, 4]].any()


@pytest.mark.parametrize("beta", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("layout", ["dense", "restricted"])
def test_free_energy_is_that_of_the_twin(layout, units, beta):
    model = make(layout, units)
    if layout == "dense":
        weights = np.array(model.weights)
        weights[3:, 3:] = 0
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


@pytest.mark.parametrize("layout", ["deep", "dense"])
def test_free_energy_refuses_coupled_hidden_units_and_tells_the_way_out(layout):
    with pytest.raises(ValueError, match=r'not coupled to one another.*infer\(model, "exact", clamp='):
        make(layout, "spin").free_energy([1, 1, 1])


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


@pytest.mark.filterwarnings("ignore:overflow")
def test_parameters_whose_energies_overflow_are_refused():
    with pytest.raises(ValueError, match=r"weights|bias"):
        BoltzmannMachine(1e308 * PAIR, [1e308, 1e308])


def test_a_single_unit_is_a_machine():
    model = BoltzmannMachine([[0.0]], [0.5], units="binary")
    assert model.energy([[0], [1]]).tolist() == [0.0, -0.5]
    assert exact(model).log_z == pytest.approx(math.log1p(math.exp(0.5)))


# Attributes


def test_arrays_are_read_only_copies():
    weights, bias = PAIR.copy(), np.array([0.5, 0.0])
    model = BoltzmannMachine(weights, bias)
    weights[0, 1] = bias[0] = 9.0
    assert model.weights[0, 1] == 1.0
    assert model.bias[0] == 0.5
    layered = make("deep", "spin")
    for array in (
        model.weights,
        model.bias,
        *layered.weights,
        *layered.bias,
        layered.flat_bias,
        model.to_units("binary").bias,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_visible_units_come_first_and_layers_follow():
    model = make("deep", "binary")
    assert (model.n_units, model.n_visible, model.n_hidden) == (7, 3, 4)
    assert [len(layer) for layer in model.bias] == [3, 2, 2]
    assert [block.shape for block in model.weights] == [(3, 2), (2, 2)]
    assert np.array_equal(np.concatenate(model.bias), model.flat_bias)


def test_bias_of_layers_may_be_one_vector():
    layered = BoltzmannMachine([BLOCK], [[1, 2], [3, 4, 5]])
    for flat in ([1, 2, 3, 4, 5], np.arange(1, 6)):
        assert np.array_equal(BoltzmannMachine([BLOCK], flat).flat_bias, layered.flat_bias)


def test_defaults_are_no_bias_no_offset_and_spins():
    model = BoltzmannMachine(PAIR)
    assert (model.units, model.offset, model.n_hidden, model.bias.tolist()) == ("spin", 0.0, 0, [0.0, 0.0])


def test_repr_tells_sizes_and_units():
    assert repr(BoltzmannMachine(PAIR, n_hidden=1)) == "<BoltzmannMachine: 2 spin units, 1 hidden>"
    assert repr(make("deep", "binary")) == "<BoltzmannMachine: 3 x 2 x 2 binary units, 4 hidden>"


def same(one: BoltzmannMachine, other: BoltzmannMachine) -> bool:
    """Whether two machines have the same parameters, bit by bit."""
    arrays, others = one.to_arrays(), other.to_arrays()
    attributes = [(m.units, m.n_hidden, m.is_layered, m.couplings.sizes) for m in (one, other)]
    return (
        arrays.keys() == others.keys()
        and all(np.array_equal(arrays[name], others[name]) for name in arrays)
        and attributes[0] == attributes[1]
    )


def through_arrays(model: BoltzmannMachine) -> BoltzmannMachine:
    return BoltzmannMachine.from_arrays(
        model.to_arrays(), layered=model.is_layered, units=model.units, n_hidden=model.n_hidden
    )


@pytest.mark.parametrize(("layout", "units"), KINDS)
def test_arrays_hold_the_whole_machine(layout, units):
    model = make(layout, units)
    assert same(through_arrays(model), model)


@pytest.mark.parametrize("indices", [[0], [0, 1, 2], [3, 4, 5, 6], [3, 4]])
@pytest.mark.parametrize("layout", LAYERS)
def test_arrays_hold_a_conditioned_machine_too(layout, indices):
    small = make(layout, "spin").condition(indices, [1] * len(indices))
    assert same(through_arrays(small), small)


def test_saved_machines_are_loaded_as_they_were(tmp_path):
    from fastbm.modelfile import load

    for layout, units in KINDS:
        model = make(layout, units)
        model.save(tmp_path / f"{layout}-{units}.h5")
        assert same(load(tmp_path / f"{layout}-{units}.h5"), model)


def test_save_does_not_overwrite_unless_told(tmp_path):
    path = tmp_path / "m.h5"
    BoltzmannMachine(PAIR).save(path)
    with pytest.raises(OSError, match=r"m\.h5 exists\. Pass overwrite=True"):
        BoltzmannMachine(PAIR, [1.0, 0.0]).save(path)
    BoltzmannMachine(PAIR, [1.0, 0.0]).save(path, overwrite=True)


# Bad input: (what is made or asked, the error's type, what its text must say)

BAD_MODELS = {
    "asymmetric": (lambda: BoltzmannMachine([[0, 1], [2, 0]]), ValueError, [
        "weights must be symmetric", "= 1 at (0, 1)", "(W + W.T) / 2", "list of blocks"]),
    "diagonal": (lambda: BoltzmannMachine([[0, 1], [1, 3]]), ValueError, [
        "weights must have a zero diagonal", "3 at (1, 1)", "bias"]),
    "nan": (lambda: BoltzmannMachine([[0, math.nan], [math.nan, 0]]), ValueError, [
        "weights must be finite", "nan at (0, 1)", "2 such entries"]),
    "inf": (lambda: BoltzmannMachine([[0, math.inf], [math.inf, 0]]), ValueError, [
        "weights must be finite", "inf at (0, 1)"]),
    "rectangular": (lambda: BoltzmannMachine(np.ones((2, 3))), ValueError, [
        "weights must be a square matrix", "(2, 3)", "list of blocks"]),
    "vector": (lambda: BoltzmannMachine(np.ones(3)), ValueError, ["weights must be a square matrix", "(3,)"]),
    "empty matrix": (lambda: BoltzmannMachine(np.zeros((0, 0))), ValueError, ["weights", "at least one unit", "empty"]),
    "empty list of blocks": (lambda: BoltzmannMachine([]), ValueError, ["weights must be", "(0,)", "list of blocks"]),
    "ragged": (lambda: BoltzmannMachine([[0, 1], [1]]), ValueError, ["weights must be", "rows of equal length"]),
    "text": (lambda: BoltzmannMachine("spam"), TypeError, ["weights must be an array of real numbers", "spam"]),
    "complex": (lambda: BoltzmannMachine(1j * PAIR), TypeError, ["weights must be an array of real numbers"]),
    "layers do not chain": (lambda: BoltzmannMachine([BLOCK, np.ones((2, 2))]), ValueError, [
        "weights[0] has shape (2, 3)", "weights[1] must have 3 rows", "(2, 2)"]),
    "layer of nothing": (lambda: BoltzmannMachine([np.ones((0, 3))]), ValueError, [
        "weights", "at least one unit", "(0, 3)"]),
    "nan in a block": (lambda: BoltzmannMachine([BLOCK, np.full((3, 1), math.nan)]), ValueError, [
        "weights[1] must be finite", "(0, 0)"]),
    "ragged block": (lambda: BoltzmannMachine([[[1.0, 2.0], [3.0]]]), ValueError, ["weights", "rows of equal length"]),
    "bias too long": (lambda: BoltzmannMachine(PAIR, [1, 2, 3]), ValueError, ["bias must have shape (2,)", "got (3,)"]),
    "bias scalar": (lambda: BoltzmannMachine(PAIR, 1.0), ValueError, ["bias must have shape (2,)", "got ()"]),
    "bias nan": (lambda: BoltzmannMachine(PAIR, [0, math.nan]), ValueError, ["bias must be finite", "nan at (1,)"]),
    "bias text": (lambda: BoltzmannMachine(PAIR, ["a", "b"]), TypeError, ["bias must be an array of real numbers"]),
    "bias of wrong layers": (lambda: BoltzmannMachine([BLOCK], [[0, 0, 0], [0, 0]]), ValueError, [
        "bias must have one vector per layer", "(2, 3)", "[(3,), (2,)]"]),
    "bias of too few layers": (lambda: BoltzmannMachine([BLOCK], [[0, 0]]), ValueError, [
        "bias must have one vector per layer", "[(2,)]"]),
    "bias of no layers": (lambda: BoltzmannMachine([BLOCK], []), ValueError, ["bias", "(2, 3)"]),
    "bias of a vector and a number": (lambda: BoltzmannMachine([BLOCK], [[0, 0], 1.0]), (TypeError, ValueError), [
        "bias"]),
    "bias vector and column": (lambda: BoltzmannMachine([BLOCK], [[0, 0], BLOCK.T[:, :1]]), (TypeError, ValueError), [
        "bias"]),
    "bias of layers with text": (lambda: BoltzmannMachine([BLOCK], [["a", "b"], [0, 0, 0]]), (TypeError, ValueError), [
        "bias[0] must"]),
    "units unknown": (lambda: BoltzmannMachine(PAIR, units="spins"), ValueError, [
        "units must be one of 'spin', 'binary'", "'spins'", "Did you mean 'spin'?"]),
    "units none": (lambda: BoltzmannMachine(PAIR, units=None), ValueError, ["units must be one of", "None"]),
    "too many hidden": (lambda: BoltzmannMachine(PAIR, n_hidden=2), ValueError, ["n_hidden must be below", "2; got 2"]),
    "negative hidden": (lambda: BoltzmannMachine(PAIR, n_hidden=-1), ValueError, ["n_hidden must be at least 0", "-1"]),
    "fractional hidden": (lambda: BoltzmannMachine(PAIR, n_hidden=1.0), TypeError, [
        "n_hidden must be a whole number", "1.0"]),
    "hidden against layers": (lambda: BoltzmannMachine([BLOCK], n_hidden=1), ValueError, ["n_hidden", "3; got 1"]),
    "offset nan": (lambda: BoltzmannMachine(PAIR, offset=math.nan), ValueError, ["offset must be finite", "nan"]),
    "offset text": (lambda: BoltzmannMachine(PAIR, offset="1"), TypeError, ["offset must be a number", "'1'"]),
}  # fmt: skip

SPINS = make("dense", "spin")
BITS = make("restricted", "binary")

BAD_QUESTIONS = {
    "bits for spins": (lambda: SPINS.energy([[1] * 7, [0] * 7]), ValueError, [
        "states must be -1 or 1 (spin units)", "0 at (1, 0)", "7 such entries", "2 * x - 1", 'units="binary"']),
    "spins for bits": (lambda: BITS.field([-1] * 7), ValueError, [
        "states must be 0 or 1 (binary units)", "-1 at (0,)", "(s + 1) // 2", 'units="spin"']),
    "grey levels": (lambda: BITS.energy([0, 1, 0, 1, 0, 1, 0.5]), ValueError, [
        "states must be 0 or 1", "0.5 at (6,)", "threshold"]),
    "nan in states": (lambda: SPINS.energy([1, 1, 1, 1, 1, 1, math.nan]), ValueError, [
        "states must be -1 or 1", "nan at (6,)"]),
    "text in states": (lambda: SPINS.energy(["up"] * 7), TypeError, ["states must be numbers", "dtype"]),
    "ragged states": (lambda: SPINS.energy([[1] * 7, [1]]), (TypeError, ValueError), ["states"]),
    "too few units": (lambda: SPINS.energy([1, 1]), ValueError, ["states must have a last axis of 7 units", "(2,)"]),
    "one number": (lambda: SPINS.field(1), ValueError, ["states must have a last axis of 7 units", "()"]),
    "visible too long": (lambda: BITS.free_energy([1] * 7), ValueError, [
        "visible must have a last axis of 3 units", "(7,)"]),
    "visible in spins": (lambda: BITS.free_energy([-1, 1, 1]), ValueError, [
        "visible must be 0 or 1", "-1 at (0,)", "(s + 1) // 2"]),
    "negative beta": (lambda: BITS.free_energy([1, 1, 1], beta=-1.0), ValueError, ["beta must be at least 0", "-1"]),
    "infinite beta": (lambda: BITS.free_energy([1, 1, 1], beta=math.inf), ValueError, ["beta must be finite"]),
    "no such unit": (lambda: SPINS.energy_delta([1] * 7, 7), ValueError, ["i must be indices of units", "0 to 6", "7"]),
    "fractional unit": (lambda: SPINS.energy_delta([1] * 7, 1.0), ValueError, ["i must be indices of units", "1.0"]),
    "clamped twice": (lambda: SPINS.condition([2, 2], [1, 1]), ValueError, [
        "clamp indices must name each unit once", "unit 2"]),
    "clamped out of range": (lambda: SPINS.condition([7], [1]), ValueError, [
        "clamp indices must be units from 0 to 6", "7"]),
    "clamped below range": (lambda: SPINS.condition([-1], [1]), ValueError, [
        "clamp indices must be units from 0 to 6", "-1"]),
    "clamp by a mask": (lambda: SPINS.condition([True] * 7, [1] * 7), TypeError, [
        "clamp indices must be a list of whole numbers"]),
    "clamp by a number": (lambda: SPINS.condition(0, 1), TypeError, [
        "clamp indices must be a list of whole numbers", "got 0"]),
    "clamp values of wrong length": (lambda: SPINS.condition([0], [1, 1]), ValueError, [
        "clamp values must have shape (1,) or (n_patterns, 1)", "got (2,)"]),
    "clamp values of wrong units": (lambda: SPINS.condition([0], [0]), ValueError, [
        "clamp values must be -1 or 1", "2 * x - 1"]),
    "all clamped": (lambda: SPINS.condition(range(7), [1] * 7), ValueError, [
        "condition", "at least one unit", "energy()"]),
    "units to convert to": (lambda: SPINS.to_units("ising"), ValueError, [
        "units must be one of 'spin', 'binary'", "'ising'"]),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", BAD_MODELS)
def test_bad_parameters_are_refused_by_name(case):
    build, error, fragments = BAD_MODELS[case]
    with pytest.raises(error) as caught:
        build()
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", BAD_QUESTIONS)
def test_bad_arguments_are_refused_by_name(case):
    ask, error, fragments = BAD_QUESTIONS[case]
    with pytest.raises(error) as caught:
        ask()
    for fragment in fragments:
        assert fragment in str(caught.value)
