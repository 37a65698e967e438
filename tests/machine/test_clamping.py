"""Machines with clamped units have the energies and the distribution of the whole one."""

from __future__ import annotations

import numpy as np
import pytest

from fastbm.machine.clamping import Clamped
from tests.support.small_machines import KINDS, UNITS, exact, make, parts
from tests.twins import reference


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


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_conditioning_twice_is_conditioning_at_once(layout):
    model = make(layout, "spin")
    twice = model.condition([1, 5], [1, -1]).condition([3], [1])
    once = model.condition([1, 5, 4], [1, -1, 1])
    np.testing.assert_allclose(parts(twice)[0], parts(once)[0], atol=1e-14)
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
