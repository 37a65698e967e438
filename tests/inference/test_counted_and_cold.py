"""What holds estimates that all agree: states that are counted, and walks from the cold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.inference import counted
from fastbm.inference.ais import cold
from fastbm.inference.ais.weights import average
from tests.support.machines import UNITS, calm, machine, two_phases


@pytest.mark.parametrize("kind", ["visible", "restricted", "layers", "sparse"])
@pytest.mark.parametrize("units", UNITS)
def test_counting_is_exact(units: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "LOW_UNITS", 3)
    monkeypatch.setattr(counted, "TOGETHER", 32)
    model = machine(kind, units, seed=4, offset=1.5)
    truth = bm.infer(model, "exact", beta=0.8)
    found = counted.count(model, 0.8)
    assert found is not None
    assert (found.log_z, found.energy) == pytest.approx((truth.log_z, truth.energy), rel=1e-12)
    np.testing.assert_allclose(model.convention.lo + model.convention.span * found.p, truth.mean, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"log_z": 3.0}, "gives log Z"), ({"energy": 1.0}, "gives an energy of"),
        ({"mean": np.array([0.9, 0.0, 0.0])}, "gives unit 0 a mean of"), ({}, ""),
    ],
)  # fmt: skip
def test_who_is_off_by_more_than_the_error_of_what_was_counted_has_not_converged(wrong: Any, text: str) -> None:
    model = bm.models.ising((3,), coupling=0.2, periodic=False)
    truth = counted.count(model, 1.0)
    assert truth is not None
    right = bm.Inference(
        "tempering", log_z=truth.log_z + 0.04, log_z_error=0.01, energy=truth.energy, energy_error=0.01,
        mean=2 * truth.p - 1, mean_error=np.full(3, 0.01),
    )  # fmt: skip
    found = calm(counted.confront, model, replace(right, **wrong), 1.0)
    assert found.converged is (not text)
    assert text in found.detail.get("doubt", "")


SQUARE = np.vstack([[[1.0, 1.0], [1.0, -1.0]], np.zeros((40, 2))])


@pytest.mark.parametrize(
    ("model", "n"), [(bm.models.ising((5,), coupling=-1.0), 5), (bm.BoltzmannMachine([SQUARE]), 4)]
)
@pytest.mark.parametrize(("beta", "converged"), [(0.5, True), (3.0, False)])
def test_an_approximation_that_fails_on_few_states_has_not_converged(
    model: bm.BoltzmannMachine, n: int, beta: float, converged: bool
) -> None:
    """Beliefs of a frustrated ring of n units know nothing of it: log Z lacks log(1 - tanh(beta)^n)."""
    found = calm(bm.infer, model, "bethe", beta=beta)
    missing = np.log1p(-(np.tanh(beta) ** n))
    assert found.log_z + missing == pytest.approx(bm.infer(model, "exact", beta=beta).log_z, rel=1e-9)
    assert found.converged is converged
    text = f"counting all states gives log Z {found.log_z + missing:.6g}, {missing:+.3g} from it"
    assert converged or text in found.detail["doubt"]


@pytest.mark.parametrize("method", ["ais", "reverse-ais", "tempering", "population-annealing", "gibbs"])
def test_a_phase_that_only_walks_from_the_cold_find_is_told(method: str) -> None:
    model, beta = two_phases()
    found = calm(bm.infer, model, method, beta=beta)
    assert found.converged is False
    assert "walks from a low state" in found.detail["doubt"]


@pytest.mark.parametrize("kind", ["visible", "sparse"])
@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_walks_from_one_state_bring_no_more_than_z(kind: str, beta: float) -> None:
    model = machine(kind, "spin", seed=2)
    truth = bm.infer(model, "exact", beta=beta).log_z
    starts, factor = cold.low_states(model, beta)
    log_w, ends = cold.walk_from(model, beta, starts, factor, 300, 1, 1)
    assert log_w.shape == ends.shape[:2] == (len(starts), cold.N_WALKS)
    means = [average(one) for one in log_w]
    assert max(one.log_mean - 4 * (one.error or 0.0) for one in means) < truth
    assert max(one.log_mean for one in means) > truth - 2.0


def test_a_valley_of_a_ferromagnet_in_disguise_bounds_log_z() -> None:
    """Units that hold many, their signs turned at random: a corner of the leading eigenvector is the other valley."""
    signs = np.random.default_rng(1).choice([-1.0, 1.0], 69)
    weights = np.full((69, 69), 0.001)
    weights[:9], weights[:, :9] = 0.2, 0.2
    weights[:9, :9] = 0.3
    np.fill_diagonal(weights, 0.0)
    bias = np.r_[np.full(9, -9.5), np.full(60, 1.8)]
    found = calm(bm.infer, bm.BoltzmannMachine(weights * np.outer(signs, signs), bias * signs), "tempering")
    assert found.converged is False
    assert "nats below a bound that holds for certain (mean field)" in found.detail["doubt"]


@pytest.mark.parametrize(("method", "sizes", "repulsion"), [("gibbs", (17, 6), 25.0), ("tempering", (19, 4), 30.0)])
def test_the_wider_of_two_valleys_is_held_against_the_deeper_one(
    method: str, sizes: tuple[int, int], repulsion: float
) -> None:
    """All of one group or all of the other are on; chains fall to the second, which has an eighth of the weight."""
    couplings, depths, group = (1.5, 4.0), (100.0, 98.0), np.repeat([0, 1], sizes)
    weights = np.where(group[:, None] == group, np.array(couplings)[group], -repulsion)
    np.fill_diagonal(weights, 0.0)
    each = [depth / n - coupling * (n - 1) / 2 for n, coupling, depth in zip(sizes, couplings, depths, strict=True)]
    model = bm.BoltzmannMachine(weights, np.array(each)[group], units="binary")
    truth = bm.infer(model, "exact").mean[0]
    for seed in range(6):
        found = calm(bm.infer, model, method, seed=seed)
        assert found.converged is False or abs(found.mean[0] - truth) < 5 * found.mean_error[0]


def test_means_of_annealing_know_of_the_weight_that_may_be_missing() -> None:
    """Cold rings, of which walks met no state of a valley that has a fifth of the weight."""
    n, generator = 22, np.random.default_rng(2)
    weights, i = np.zeros((n, n)), np.arange(n)
    weights[i, (i + 1) % n] = 5.0 * generator.normal(size=n)
    model = bm.BoltzmannMachine(weights + weights.T, 0.5 * generator.normal(size=n))
    truth = bm.infer(model, "exact").mean
    for seed in (3, 6):
        found = calm(bm.infer, model, "ais", seed=seed)
        assert found.converged is False or np.abs((found.mean - truth) / found.mean_error).max() < 6.0
