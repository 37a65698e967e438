"""What the model says about bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fastbm.machine.machine import BoltzmannMachine
from tests.support.small_machines import BLOCK, PAIR, make

# Bad input: (what is made or asked, the error's type, what its text must say)

BAD_MODELS = {
    "asymmetric": (lambda: BoltzmannMachine([[0, 1], [2, 0]]), ValueError, [
        "weights must be symmetric", "= 1 at (0, 1)", "(W + W.T) / 2", "list of blocks"]),
    "a number": (lambda: BoltzmannMachine(np.array(2.0)), ValueError, ["weights must be a square matrix"]),
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
    "rows of units": (lambda: SPINS.energy_delta([1] * 7, [[0, 1], [2]]), ValueError, ["i must be an array"]),
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


@pytest.mark.filterwarnings("ignore:overflow")
def test_parameters_whose_energies_overflow_are_refused():
    with pytest.raises(ValueError, match=r"weights|bias"):
        BoltzmannMachine(1e308 * PAIR, [1e308, 1e308])


@pytest.mark.parametrize("layout", ["deep", "dense"])
def test_free_energy_refuses_coupled_hidden_units_and_tells_the_way_out(layout):
    with pytest.raises(ValueError, match=r'not coupled to one another.*infer\(model, "exact", clamp='):
        make(layout, "spin").free_energy([1, 1, 1])


def test_units_that_others_leave_no_digits_for_are_refused():
    """A bias of 1e18 holds its unit beyond all digits of the others; where all numbers are huge, none is lost."""
    from fastbm import infer, sample

    model = BoltzmannMachine(np.zeros((3, 3)), [1e18, 0.2, 0.3], names=["a", "b", "c"])
    for ask in (lambda: sample(model, n_sweeps=3), lambda: infer(model, "ais"), lambda: infer(model, "exact")):
        with pytest.raises(ValueError, match=r"no digits left for unit b: its log-odds are 0\.4 at most.*clamp="):
            ask()
    assert infer(BoltzmannMachine(1e18 * PAIR, [1e17, 0.0]), "exact").log_z > 1e17
    assert sample(BoltzmannMachine(np.zeros((2, 2)), [1e12, 0.2]), n_sweeps=3).finished
