"""Every estimator of log Z on machines of many units whose log Z is known in closed form."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from tests.support.combinations import each
from tests.support.machines import calm
from tests.twins import tempering

OPTIONS: dict[str, dict[str, Any]] = {
    "mean-field": {},
    "sampled-states": {"n_chains": 64, "n_sweeps": 200},
    "ais": {"n_betas": 400},
    "reverse-ais": {"n_betas": 400},
    "tempering": {"n_sweeps": 1500},
    "population-annealing": {},
}


def curie_weiss_log_z(n: int, beta: float, coupling: float = 1.0) -> float:
    """Sum over the number of spins that are up; the couplings are coupling / n, each pair once."""
    k = np.arange(n + 1)
    magnetisation = 2 * k - n
    multiplicity = [math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1) for j in k.tolist()]
    return float(np.logaddexp.reduce(multiplicity + beta * coupling * (magnetisation**2 - n) / (2 * n)))


@functools.cache
def known(name: str) -> tuple[bm.BoltzmannMachine, float, float]:
    """A machine, beta, and log Z by a formula of its own."""
    if name == "curie-weiss":
        return bm.models.curie_weiss(200), 0.9, curie_weiss_log_z(200, 0.9)
    if name == "torus":
        return bm.models.ising((10, 10)), 0.35, tempering.kaufman_log_z(10, 10, 0.35)
    model = bm.models.random_tree(120, scale=1.0, bias_scale=0.2, seed=4)
    return model, 0.7, bm.infer(model, "exact", engine="elimination", beta=0.7, moments=False).log_z


@each(method=OPTIONS, name=["curie-weiss", "torus", "tree", "torus"])
def test_log_z_and_bounds(name: str, method: str) -> None:
    model, beta, truth = known(name)
    found = calm(bm.infer, model, method, beta=beta, **OPTIONS[method])
    slack = 1e-10 * abs(truth)
    if method in ("mean-field", "sampled-states"):
        assert found.bound == "lower" and found.log_z <= truth + slack
        return
    assert abs(found.log_z - truth) < 4 * found.log_z_error
    assert found.log_z_error < 1.0
    if method == "ais":
        assert found.bound == "stochastic lower"
    if method == "reverse-ais":
        assert found.bound in ("stochastic upper", None)


def test_bethe_on_trees_is_exact() -> None:
    model, beta, truth = known("tree")
    found = bm.infer(model, "bethe", beta=beta)
    whole = bm.infer(model, "exact", engine="elimination", beta=beta, pairs="all")
    assert found.log_z == pytest.approx(truth, rel=1e-9)
    np.testing.assert_allclose(found.mean, whole.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.covariance, whole.covariance, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["curie-weiss", "torus", "tree"])
def test_the_bracket_holds_log_z(name: str) -> None:
    model, beta, truth = known(name)
    found = calm(bm.infer, model, "ais", beta=beta, n_betas=400, bracket=True)
    detail = found.detail
    low, high = (detail[f"log_z_{side}"] for side in ("lower", "upper"))
    assert low - 4 * detail["log_z_lower_error"] < truth < high + 4 * detail["log_z_upper_error"]
