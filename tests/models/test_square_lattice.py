"""The exact formulas of the two-dimensional lattice, against sums over states, one another, and sampling."""

from __future__ import annotations

import math

import pytest
from scipy.integrate import quad

import fastbm as bm
from fastbm import lattice
from fastbm.runs.sample.physics import lattice_energy


@pytest.mark.parametrize("beta", [0.0, 1e-6, 0.2, lattice.CRITICAL_BETA, 0.6, 2.0, 50.0])
@pytest.mark.parametrize("shape", [(3, 3), (3, 4), (4, 3), (3, 5), (5, 3), (4, 4)])
def test_kaufman_is_the_sum_over_all_states(shape: tuple[int, int], beta: float) -> None:
    truth = bm.infer(bm.models.ising(shape), "exact", beta=beta, moments=False).log_z
    assert lattice.kaufman_log_z(*shape, beta) == pytest.approx(truth, rel=1e-12, abs=1e-10)


def test_kaufman_does_not_care_which_side_is_which() -> None:
    for beta in (0.1, 0.44, 1.0):
        assert lattice.kaufman_log_z(7, 12, beta) == pytest.approx(lattice.kaufman_log_z(12, 7, beta), rel=1e-13)


@pytest.mark.parametrize("beta", [0.2, 0.35, 0.6, 1.0])
def test_large_lattices_approach_onsager(beta: float) -> None:
    step = 1e-5
    slope = (lattice.kaufman_log_z(64, 64, beta + step) - lattice.kaufman_log_z(64, 64, beta - step)) / (2 * step)
    assert -slope / 4096 == pytest.approx(lattice.onsager_energy(beta), abs=1e-6)


@pytest.mark.parametrize("beta", [0.1, 0.3, 0.43, 0.45, 0.8])
def test_onsager_energy_is_the_slope_of_his_free_energy(beta: float) -> None:
    def log_z(b: float) -> float:
        k = 2 * math.sinh(2 * b) / math.cosh(2 * b) ** 2
        integral = quad(lambda x: math.log((1 + math.sqrt(1 - (k * math.sin(x)) ** 2)) / 2), 0, math.pi, epsabs=1e-13)[
            0
        ]
        return math.log(2 * math.cosh(2 * b)) + integral / (2 * math.pi)

    step = 1e-4
    assert lattice.onsager_energy(beta) == pytest.approx(
        -(log_z(beta + step) - log_z(beta - step)) / (2 * step), abs=1e-6
    )


def test_values_at_special_temperatures() -> None:
    assert math.sinh(2 * lattice.CRITICAL_BETA) == pytest.approx(1)
    assert lattice.onsager_energy(0.0) == 0
    assert lattice.onsager_energy(lattice.CRITICAL_BETA) == pytest.approx(-math.sqrt(2), abs=1e-6)
    assert lattice.onsager_energy(20.0) == pytest.approx(-2)
    assert lattice.onsager_magnetisation(lattice.CRITICAL_BETA) == 0
    assert lattice.onsager_magnetisation(0.5) == pytest.approx((1 - math.sinh(1.0) ** -4) ** 0.125)
    assert lattice.onsager_magnetisation(20.0) == pytest.approx(1)


@pytest.mark.parametrize("beta", [300.0, 1e3, 1e6])
def test_the_coldest_temperatures_do_not_overflow(beta: float) -> None:
    assert lattice.kaufman_log_z(4, 6, beta) == pytest.approx(48 * beta + math.log(2), rel=1e-14)
    assert lattice.onsager_energy(beta) == pytest.approx(-2)
    assert lattice.onsager_magnetisation(beta) == pytest.approx(1)


@pytest.mark.parametrize("beta", [1e-300, 1e-17, 1e-12, 1e-9, 1e-6, 1e-5, 1e-4])
def test_the_hottest_temperatures_keep_their_digits(beta: float) -> None:
    """Energies are -2 beta to third order; a side of 3 adds 3 beta^2."""
    assert lattice.kaufman_log_z(4, 6, beta) == pytest.approx(24 * (math.log(2) + beta**2), rel=1e-14)
    assert lattice.onsager_energy(beta) == pytest.approx(-2 * beta, rel=1e-6, abs=1e-300)
    assert lattice_energy(4, 6, beta) == pytest.approx(-2 * beta, rel=1e-6, abs=1e-300)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("rows must be at least 3", (2, 4, 0.3)),
        ("columns must be at least 3", (4, 1, 0.3)),
        ("beta must be", (4, 4, -0.3)),
        ("beta must be", (4, 4, math.nan)),
    ],
)
def test_bad_arguments_are_named(text: str, arguments: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match=text):
        lattice.kaufman_log_z(*arguments)


@pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
@pytest.mark.parametrize("beta", [0.25, lattice.CRITICAL_BETA, 0.55])
def test_sampled_energies_are_kaufmans(beta: float, rule: str) -> None:
    """8 x 8 within four standard errors (false alarm: once in 16000 for each); cold chains start ordered."""
    step = 1e-5
    truth = -(lattice.kaufman_log_z(8, 8, beta + step) - lattice.kaufman_log_z(8, 8, beta - step)) / (2 * step)
    model = bm.models.ising((8, 8))
    run = bm.sample(
        model, sampler=rule, beta=beta, n_chains=256, n_sweeps=1200, burn_in=300, thin=10, initial="up", seed=1
    )
    error = bm.diagnostics.standard_error(run.energy)
    assert error < 0.004 * 128
    assert abs(run.energy.mean() - truth) < 4 * error
