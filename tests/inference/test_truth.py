"""No estimate is wrong and says that it converged: error bars of every estimator on machines that mislead them."""

from __future__ import annotations

import numpy as np
import pytest

import fastbm as bm
from tests.support import truth_machines
from tests.support.truth_coverage import OPTIONS, Cell, Claim, collect, deviations, failures, machine_of


def hold(estimator: str, n_seeds: int) -> None:
    cells = [cell for name in truth_machines.MACHINES for cell in collect(estimator, name, range(n_seeds))]
    found = failures(cells)
    assert not found, "\n".join(["", *found])


@pytest.mark.truth
@pytest.mark.parametrize("estimator", OPTIONS)
def test_error_bars_hold_and_nothing_is_wrong_and_sure(estimator: str) -> None:
    hold(estimator, 60)


@pytest.mark.long
@pytest.mark.parametrize("estimator", OPTIONS)
def test_error_bars_hold_over_200_seeds(estimator: str) -> None:
    hold(estimator, 200)


@pytest.mark.parametrize("name", truth_machines.MACHINES)
def test_the_sums_are_those_of_the_exact_method(name: str) -> None:
    nasty, truth = truth_machines.MACHINES[name], truth_machines.exact(name)
    found = bm.infer(machine_of(nasty), "exact", beta=nasty.beta)
    assert found.log_z == pytest.approx(truth.log_z, rel=1e-12)
    assert found.energy == pytest.approx(truth.energy, rel=1e-9)
    np.testing.assert_allclose(found.mean, truth.mean, rtol=1e-9, atol=1e-12)


def cell_of(z: np.ndarray, converged: np.ndarray, machine: str = "glass") -> Cell:
    return Cell("ais", machine, "log_z", list(z <= 1.96), list(z), list(converged))


def test_faults_are_found_and_good_bars_pass() -> None:
    z = np.abs(np.random.default_rng(0).normal(size=(12, 60)))
    sure, one, none = np.ones(60, bool), np.arange(60) < 2, np.zeros(60, bool)
    good = [cell_of(row, sure) for row in z]
    assert not failures(good)
    assert not failures([*good, cell_of(100.0 + z[0], none)])  # wrong, and says so
    narrow = failures([cell_of(1.4 * row, sure) for row in z])
    assert "720 results, below 0.9" in narrow[0]
    (wide,) = failures([cell_of(row / 2, sure) for row in z])
    assert "above 0.99: its bars are too wide" in wide
    (one_machine,) = failures([*good[1:], cell_of(2.5 * np.minimum(z[0], 1.9), sure)])
    assert one_machine.endswith("covers too little")
    (lies,) = failures([*good, cell_of(100.0 + z[0], one)])
    assert lies.endswith("2 of 60 results more than 5 bars off say that they converged: glass (2)")
    (timid,) = failures([*good, cell_of(z[0], none, "two units"), cell_of(z[0], none, "two valleys")])
    assert timid.endswith("right, and yet not sure")


def test_a_bar_of_nothing_holds_only_what_is_right() -> None:
    assert deviations(Claim("mean", [1.0, 0.5, 0.0], [0.0, 0.1, 0.0], True), [1.0, 0.3, 0.1])[:2] == pytest.approx(
        [0, 2]
    )
    assert deviations(Claim("energy", 0.0, 0.0, True), -1e-3) > 1e100
