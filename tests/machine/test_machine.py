"""What a machine holds and shows, and that it comes back whole from arrays and files."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from fastbm.machine.machine import BoltzmannMachine
from tests.support.small_machines import BLOCK, KINDS, LAYERS, PAIR, make


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


@pytest.mark.parametrize("layout", LAYERS)
@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_arrays_of_copies_are_read_only_too(again, layout):
    model = make(layout, "spin")
    model = model.with_base_rates(np.full(model.n_visible, 0.5))
    model.couplings.csr(), model.couplings.absolute_sums()
    copied = again(model)
    assert same(copied, model)
    kept = (*copied.couplings.arrays, *copied.couplings.csr(), copied.flat_bias, copied.base_rates)
    assert not [array for array in kept if array.flags.writeable]


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
        model.to_arrays(), kind=model.couplings.kind, units=model.units, n_hidden=model.n_hidden
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
    from fastbm.machine.file import load

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
