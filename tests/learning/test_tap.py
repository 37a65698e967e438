"""Phases by the equations of Thouless, Anderson and Palmer climb the likelihood that these equations give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base.checks import Diverged
from fastbm.learning.phases.tap import refuse_unsolved
from tests.support import crash, machines
from tests.support.combinations import each
from tests.support.learning import as_vector, by_differences, some_rows
from tests.support.machines import KINDS, UNITS, machine
from tests.twins import fixed_point as twin, reference

TAP: dict[str, Any] = {"method": "mean-field", "clamped": "tap", "free": "tap"}


def solved(weights: np.ndarray, bias: np.ndarray, beta: float) -> float:
    """log Z by the TAP equations of spins, solved one unit after the other from m = 0."""
    means = [0.0] * len(bias)
    while twin.sweep_tap(means, weights, bias, beta, 0.0) > 1e-12:
        pass
    return twin.tap_log_z(means, weights, bias, beta)


def likelihood(weights: np.ndarray, bias: np.ndarray, units: str, rows: np.ndarray, beta: float) -> float:
    """Clamped log Z less free log Z, both by TAP."""
    w, b, offset = weights, np.asarray(bias), 0.0
    if units == "binary":
        w, b, offset = reference.convert(weights, bias, "binary", "spin")
        rows = 2 * rows - 1
    n = rows.shape[1]
    total = 0.0
    for row in rows:
        fixed = offset - 0.5 * row @ w[:n, :n] @ row - b[:n] @ row
        total += solved(w[n:, n:], b[n:] + w[n:, :n] @ row, beta) - beta * fixed
    return total / len(rows) - solved(w, b, beta) + beta * offset


@each(kind=KINDS, units=UNITS)
def test_a_step_is_the_gradient_of_the_likelihood_by_tap(kind: str, units: str) -> None:
    model, beta = machine(kind, units, seed=3, scale=0.3 if units == "spin" else 0.9), 0.8
    rows = some_rows(model, 4)
    run = bm.fit(rows, init=model, learning_rate=1.0, epochs=1, beta=beta, evaluate="none", **TAP)
    slope = as_vector(run.model) - as_vector(model)
    expected = by_differences(model, lambda w, b: likelihood(w, b, units, rows, beta))
    np.testing.assert_allclose(slope, expected, atol=1e-6)


def learned(rows: np.ndarray, **options: Any) -> float:
    """The exact log-likelihood of rows, by the machine that is learned from them."""
    run = bm.fit(rows, **{"monitor_every": 10_000, "weights_every": 0, "evaluate": "exact", **options})
    return float(run.evaluation["log_likelihood"][-1])


@each(kind=["visible", "general"], units=UNITS)
def test_where_couplings_are_weak_tap_learns_nearly_all_there_is_to_learn(kind: str, units: str) -> None:
    planted = machine(kind, units, seed=5, scale=0.15 if units == "spin" else 0.6)
    rows = machines.draw(planted, 400)
    hidden: dict[str, Any] = {"n_hidden": planted.n_hidden, "units": units}
    if planted.n_hidden:
        hidden["layout"] = "general"
    start = bm.fit(rows, **hidden, epochs=1, learning_rate=1e-12, evaluate="none").model  # the same for both
    options: dict[str, Any] = {"init": start, "epochs": 150, "learning_rate": 0.05 if units == "spin" else 0.2}
    exact = {"method": "exact", "optimizer": "sgd"}
    first = learned(rows, **{**options, **exact, "epochs": 1, "learning_rate": 1e-12})
    most = learned(rows, **options, **exact)
    assert most - learned(rows, **options, **TAP) < 0.15 * (most - first)


@pytest.mark.slow
def test_tap_learns_restricted_machines_better_than_mean_field() -> None:
    rows = machines.draw(machine("restricted", "spin", seed=5, scale=0.4), 1000)
    options: dict[str, Any] = {"n_hidden": 1, "units": "spin", "epochs": 200, "learning_rate": 0.3}
    most = learned(rows, method="exact", optimizer="sgd", **options)
    assert most - learned(rows, **options, **TAP) < 0.5 * (most - learned(rows, method="mean-field", **options))


def test_moments_alone_are_enough_where_nothing_is_hidden() -> None:
    rows = machines.draw(machine("visible", "spin", scale=0.3), 300)
    common: dict[str, Any] = {"epochs": 20, "evaluate": "none", **TAP}
    by_rows, by_moments = bm.fit(rows, **common), bm.fit(bm.Moments.of(rows, "spin"), units="spin", **common)
    np.testing.assert_allclose(by_moments.model.weights, by_rows.model.weights, atol=1e-12)


@pytest.mark.parametrize("hidden", [{"n_hidden": 4}, {"n_hidden": 3, "layout": "general"}])
def test_runs_have_the_same_bits_however_they_are_run(hidden: dict[str, Any], tmp_path: Path) -> None:
    def run(name: str, **options: Any) -> bm.Run:
        out = tmp_path / name
        return bm.fit(bm.data.bars_and_stripes(3), epochs=4, batch_size=7, out=out, **hidden, **TAP, **options)

    run("one.h5", threads=1)
    run("two.h5", threads=2)
    stopped = run("stopped.h5", max_seconds=0.0)
    assert not stopped.finished
    while not stopped.finished:
        stopped = bm.resume(tmp_path / "stopped.h5", max_seconds=0.0)
    for other in ("two.h5", "stopped.h5"):
        crash.assert_same_run(tmp_path / "one.h5", tmp_path / other)


def test_equations_that_do_not_settle_end_the_run() -> None:
    for residual in (1e-2, float("nan")):
        with pytest.raises(Diverged, match="TAP equations of the free phase do not settle"):
            refuse_unsolved("free", residual)
    refuse_unsolved("free", 1e-9)


def test_phases_may_be_mixed() -> None:
    run = bm.fit(bm.data.bars_and_stripes(2), n_hidden=2, method="pcd", free="tap", epochs=3, batch_size=6)
    assert (run.config["fit"]["clamped"], run.config["fit"]["free"]) == ("exact", "tap")
    with pytest.raises(ValueError, match="n_chains goes with a free phase that is sampled"):
        bm.fit(bm.data.bars_and_stripes(2), free="tap", n_chains=8)
    with pytest.raises(ValueError, match="errors='fisher' goes with rules of maximum likelihood"):
        bm.fit(bm.data.bars_and_stripes(2), errors="fisher", **TAP)
