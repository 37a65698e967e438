"""Machines of several hidden layers: the bound that they climb, pretraining, and what is told of them."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.inference.conditional.layers import lower_bounds, mean_field_layers
from fastbm.learning.learners.pretraining import Copies, Pretraining, Tied
from fastbm.learning.moments import put_odd_means
from fastbm.learning.monitor import row_sums
from fastbm.learning.phases.exact import ClampedExact, FreeExact
from fastbm.learning.phases.phase import PhaseSettings
from fastbm.report.pictures.run import plot_run
from fastbm.runs.toml import file
from tests.support import crash, machines
from tests.support.learning import (
    STEP,
    as_vector,
    by_differences,
    coupled_pairs,
    fit_task,
    gradient_by_differences,
    some_rows,
)
from tests.support.machines import UNITS, machine, parameters
from tests.support.runs import assert_same
from tests.twins import deep as reference_deep, reference

BARS = bm.data.bars_and_stripes(3)
MANY = np.repeat(BARS, 10, axis=0)


def deep(units: str, sizes: tuple[int, ...] = (3, 2, 2, 2), scale: float = 0.8) -> bm.BoltzmannMachine:
    generator = np.random.default_rng([len(sizes), UNITS.index(units)])
    blocks = [generator.normal(scale=scale, size=size) for size in itertools.pairwise(sizes)]
    bias = generator.normal(scale=0.5, size=sum(sizes))
    return bm.BoltzmannMachine(blocks, bias, units=units, offset=0.4)


# Mean field of the hidden layers


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("sizes", [(3, 2, 2), (3, 2, 3, 2), (4, 3)])
def test_means_and_bounds_are_those_of_their_twins(sizes: tuple[int, ...], units: str) -> None:
    model, beta = deep(units, sizes), 0.7
    weights, bias = parameters(model)
    rows = some_rows(model, 70).astype(float)  # more than are worked on together
    means = mean_field_layers(model, rows, beta, threads=1, max_sweeps=10_000)
    lower = lower_bounds(model, rows, beta, threads=1)
    for k in (0, 1, 2, 68, 69):
        expected = reference_deep.mean_field(rows[k], weights, bias, beta, units)
        np.testing.assert_allclose(means[k], expected, atol=1e-7)
        bound = reference_deep.bound(rows[k], expected, weights, bias, beta, units) - beta * model.offset
        assert lower[k] == pytest.approx(bound, abs=1e-10)
        exact = machines.enumerate_machine(model, beta, clamp=dict(enumerate(rows[k].astype(int).tolist())))
        assert bound <= exact.log_z + 1e-10
        if len(sizes) == 2:
            assert bound == pytest.approx(float(exact.log_z), abs=1e-10)
    single = mean_field_layers(model, rows.astype(np.float32), beta, threads=2)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, means, atol=2e-3)


def test_means_where_couplings_are_strong_are_finite() -> None:
    model = bm.BoltzmannMachine([np.full((3, 2), 1e5), np.full((2, 2), -1e5)], units="spin")
    for dtype in (np.float32, np.float64):
        means = mean_field_layers(model, np.ones((2, 3), dtype), 1.0, 1)
        assert np.array_equal(np.abs(means), np.ones((2, 4)))
    assert np.isfinite(lower_bounds(model, np.ones((2, 3)), 1.0, 1)).all()


# Gradients


@pytest.mark.parametrize("units", UNITS)
def test_a_step_with_exact_phases_is_the_gradient_of_the_likelihood(units: str) -> None:
    model, beta = deep(units), 0.8
    rows = some_rows(model)
    run = bm.fit(rows, init=model, method="exact", optimizer="sgd", learning_rate=1.0, epochs=1, beta=beta)
    slope = as_vector(run.model) - as_vector(model)
    np.testing.assert_allclose(slope, gradient_by_differences(model, rows, beta, 0.0, 0.0), atol=1e-6)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", ["deep", "general"])
def test_a_variational_step_is_the_gradient_of_the_bound_at_fixed_q(kind: str, units: str) -> None:
    model = deep(units) if kind == "deep" else machine("general", units)
    beta, rows = 0.8, some_rows(model, 4)
    run = bm.fit(
        rows, init=model, method="exact", clamped="variational", optimizer="sgd", learning_rate=1.0, epochs=1,
        beta=beta, evaluate="none",
    )  # fmt: skip
    weights, bias = parameters(model)
    means = [reference_deep.mean_field(row, weights, bias, beta, units) for row in rows]

    def value(w: np.ndarray, b: np.ndarray) -> float:
        clamped = [reference_deep.bound(row, m, w, b, beta, units) for row, m in zip(rows, means, strict=True)]
        states = np.array(reference.all_states(len(b), units), float)
        log_f = beta * (0.5 * np.einsum("si,ij,sj->s", states, w, states) + states @ b)
        return float(np.mean(clamped) - np.logaddexp.reduce(log_f))

    slope = as_vector(run.model) - as_vector(model)
    np.testing.assert_allclose(slope, by_differences(model, value), atol=1e-6)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("copies", [Copies(2, 1), Copies(1, 2), Copies(1, 1)])
def test_restricted_machines_with_copies_climb_their_likelihood(copies: Copies, units: str) -> None:
    """Averages over copies are the slopes of the tied parameters, but for the number of copies."""
    pair, beta = deep(units, (3, 2)), 0.9
    rows = some_rows(pair, 5)
    common = PhaseSettings(beta, 0, 1, 1, 1, 1, len(rows), False)
    phases = [Tied(phase(common), copies) for phase in (ClampedExact, FreeExact)]
    clamped, free = (phase.moments(pair, rows.astype(float)) for phase in phases)
    weights, bias = parameters(pair)

    def value(theta: np.ndarray) -> float:
        block, b, c = theta[:6].reshape(3, 2), theta[6:9], theta[9:]
        whole = reference.join_blocks([np.tile(block, copies)])
        biases = np.concatenate([np.tile(b, copies.lower), np.tile(c, copies.upper)])
        return machines.log_likelihood(whole, biases, units, np.tile(rows, (1, copies.lower)), beta)

    theta = np.concatenate([weights[:3, 3:].ravel(), bias])
    numbers = np.repeat([copies.lower * copies.upper, copies.lower, copies.upper], [6, 3, 2])
    found = np.concatenate([(clamped.pairs[0] - free.pairs[0]).ravel(), clamped.mean - free.mean])
    for k in range(len(theta)):
        move = np.zeros_like(theta)
        move[k] = STEP
        expected = (value(theta + move) - value(theta - move)) / (2 * STEP)
        assert beta * numbers[k] * found[k] == pytest.approx(expected, abs=1e-6)


def flipped(model: bm.BoltzmannMachine, flip: np.ndarray) -> bm.BoltzmannMachine:
    """The same machine of binary units, 0 and 1 of some units exchanged."""
    sign, layers = np.where(flip, -1.0, 1.0), model.couplings.layers
    blocks = [
        sign[a, None] * block * sign[b] for (a, b), block in zip(itertools.pairwise(layers), model.weights, strict=True)
    ]
    return bm.BoltzmannMachine(blocks, sign * (model.flat_bias + parameters(model)[0] @ flip), units="binary")


@pytest.mark.parametrize("clamped", ["exact", "variational"])
def test_flipping_units_of_any_layer_does_not_change_what_a_centred_machine_learns(clamped: str) -> None:
    model, flip = deep("binary"), np.array([1, 0, 1, 1, 0, 0, 1, 1, 0])
    rows = some_rows(model, 12)
    options: dict[str, Any] = {
        "method": "exact", "clamped": clamped, "optimizer": "sgd", "centring": True, "epochs": 5, "evaluate": "none",
    }  # fmt: skip
    plain = bm.fit(rows, init=model, **options).model
    other = bm.fit(np.where(flip[:3], 1 - rows, rows), init=flipped(model, flip), **options).model
    np.testing.assert_allclose(as_vector(flipped(other, flip)), as_vector(plain), atol=1e-7)
    not_centred = bm.fit(rows, init=model, **options | {"centring": False}).model
    assert np.abs(as_vector(not_centred) - as_vector(plain)).max() > 1e-3


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("sizes", [(3, 2, 2), (3, 2, 2, 2)])
def test_odd_layers_stand_for_themselves_by_their_means(sizes: tuple[int, ...], units: str) -> None:
    """Averages over all states, by their probabilities, stay what they are; those of one state are conditional ones."""
    model, beta = deep(units, sizes), 0.8
    states, log_p = machines.log_joint(*parameters(model), units, beta)
    values = states.copy()
    put_odd_means(model, values, beta)
    exact = machines.enumerate_machine(model, beta)
    p = np.exp(log_p)
    np.testing.assert_allclose(p @ values, np.array(exact.mean, float), atol=1e-10)
    second = (values * p[:, None]).T @ values
    for i, j in coupled_pairs(model):
        assert second[i, j] == pytest.approx(float(exact.second_moment[i, j]), abs=1e-10)
    odd = np.concatenate([np.arange(layer.start, layer.stop) for layer in model.couplings.layers[1::2]])
    even = np.setdiff1d(np.arange(model.n_units), odd)
    assert np.array_equal(values[:, even], states[:, even])
    field = model.field(states[7])
    for i in odd:
        assert values[7, i] == pytest.approx(reference_deep.mean_of_unit(field[i], beta, units), abs=1e-12)


# Pretraining


def test_layers_are_learned_from_below_and_then_together() -> None:
    run = bm.fit(
        MANY, n_hidden=[6, 5, 4], pretrain_epochs=2, epochs=8, batch_size=28, n_chains=16, samples_every=1,
        learning_rate=0.1, evaluate="none",
    )  # fmt: skip
    moves = [[bool(np.any(step)) for step in np.diff(run.weights[f"weights_{k}"], axis=0)] for k in range(3)]
    for k in range(3):  # after epochs 2, 3, ..., 8
        own = range(2 * k, 2 * k + 2)
        assert moves[k] == [epoch in own or epoch >= 6 for epoch in range(1, 8)]
    assert run.metrics["step"].tolist() == list(range(8))
    rest = [bool(np.any(a != b)) for a, b in itertools.pairwise(np.asarray(run.states))]
    assert rest == [False] * 5 + [True] * 2, "chains of the whole machine rest while layers are learned"


def test_the_whole_machine_is_made_of_the_restricted_ones() -> None:
    start = bm.fit(MANY, n_hidden=[6, 5, 4], epochs=1, evaluate="none", learning_rate=1e-12).model
    task = fit_task(
        start, MANY, method="pcd", clamped="variational", free="gibbs", optimizer="sgd", epochs=8, pretrain_epochs=2,
        batch_size=28, evaluate=None,
    )  # fmt: skip
    driver = task.learner.driver
    assert isinstance(driver, Pretraining)
    pairs = []
    for epoch in range(6):
        last, pair = driver._pair, driver._pair
        driver.epoch(epoch)
        assert last is not None
        if epoch % 2:
            pairs.append(pair.parameters)  # type: ignore[union-attr]
    whole = driver.parameters
    for k, factor in enumerate((1.0, 0.5, 1.0)):
        assert np.array_equal(whole.weights[k], factor * pairs[k].weights[0])
    edges = np.cumsum([0, 9, 6, 5, 4])
    bias = [whole.bias[a:b] for a, b in itertools.pairwise(edges)]
    assert np.array_equal(bias[0], pairs[0].bias[:9])
    assert np.array_equal(bias[1], (pairs[0].bias[9:] + pairs[1].bias[:6]) / 2)
    assert np.array_equal(bias[2], (pairs[1].bias[6:] + pairs[2].bias[:5]) / 2)
    assert np.array_equal(bias[3], pairs[2].bias[5:])


@pytest.mark.parametrize("units", ["binary", pytest.param("spin", marks=pytest.mark.slow)])
def test_pretraining_starts_the_whole_machine_from_a_likelier_one(units: str) -> None:
    rows = np.repeat(MANY, 2, axis=0).astype(int)
    run = bm.fit(
        rows if units == "binary" else 2 * rows - 1, n_hidden=[8, 4], pretrain_epochs=60, epochs=121, batch_size=28,
        n_chains=16, n_sweeps=5, learning_rate=0.2 if units == "binary" else 0.03, monitor_every=60, weights_every=0,
    )  # fmt: skip
    found = run.metrics["log_likelihood"]
    assert found[-2] > -9 * math.log(2) + 0.3, "independent units are as good as 9 log 2"
    top = run.model.weights[1]
    assert np.abs(top).mean() > 0.05, "the highest layer says something"


def test_metrics_of_layers_stop_nothing() -> None:
    run = bm.fit(MANY, n_hidden=[4, 3], pretrain_epochs=2, epochs=8, until={"moment_error": 10.0}, evaluate="none")
    assert len(run.metrics["step"]) == 5, "one epoch of the whole machine"


# Learning


def test_bars_and_stripes_are_learned() -> None:
    """log 14 = 2.64 nats is the best there is, independent units have 6.24."""
    run = bm.fit(
        np.repeat(BARS, 20, axis=0), n_hidden=[8, 5], centring=True, epochs=200, learning_rate=0.3, batch_size=28,
        n_chains=100, n_sweeps=5, monitor_every=200, schedule="linear", weights_every=0,
    )  # fmt: skip
    found = float(run.evaluation["log_likelihood"][-1])
    assert -found < math.log(len(BARS)) + 0.35
    assert np.all(lower_bounds(run.model, BARS.astype(float), 1.0, 1) < run.evaluation["log_z"][-1])


def test_sizes_of_layers() -> None:
    common: dict[str, Any] = {"epochs": 2, "n_chains": 8}
    run = bm.fit(BARS, n_hidden=(5, 3, 2), **common)
    assert run.model.couplings.sizes == (9, 5, 3, 2)
    assert (run.config["fit"]["clamped"], run.config["fit"]["free"]) == ("variational", "gibbs")
    assert_same(run, bm.fit(BARS, n_hidden=np.array([5, 3, 2]), layout="deep", **common))
    assert_same(bm.fit(BARS, n_hidden=[4], **common), bm.fit(BARS, n_hidden=4, **common))
    sampled = bm.fit(BARS, n_hidden=[4, 2], method="monte-carlo", **common)
    assert sampled.config["fit"]["clamped"] == "gibbs"


# The same bits


def run_of(out: Path, **options: Any) -> bm.Run:
    return bm.fit(
        MANY, holdout=BARS, n_hidden=[7, 6, 3], pretrain_epochs=2, epochs=9, batch_size=70, n_chains=70, momentum=0.5,
        centring=True, samples_every=2, out=out, **options,
    )  # fmt: skip


def test_runs_stopped_in_any_layer_go_on_as_if_never_stopped(tmp_path: Path) -> None:
    whole, path = run_of(tmp_path / "whole.h5"), tmp_path / "run.h5"
    run, stops = run_of(path, max_seconds=0.0), 0
    while not run.finished:
        run = bm.resume(path, max_seconds=0.0)
        stops += 1
    assert stops >= 9
    crash.assert_same_run(tmp_path / "whole.h5", path)
    assert_same(whole, run)
    run_of(tmp_path / "threads.h5", threads=2)
    crash.assert_same_run(tmp_path / "whole.h5", tmp_path / "threads.h5")


# What is told of deep machines


def test_long_sums_over_rows_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_hidden": [6, 4], "epochs": 20, "holdout": BARS, "n_chains": 20, "batch_size": 28}
    exact = bm.fit(MANY, **options)
    monkeypatch.setattr(row_sums, "EXACT_SECONDS", 0.0)
    run = bm.fit(MANY, **options)
    ais = bm.fit(MANY, evaluate="ais", out=tmp_path / "run.h5", **options)
    for name in ("log_likelihood", "holdout_log_likelihood"):
        truth, bound = float(exact.evaluation[name][-1]), float(run.evaluation[f"{name}_bound"][-1])
        assert name not in run.evaluation
        assert truth - 0.5 < bound <= truth
        assert ais.evaluation[f"{name}_bound"][-1] == pytest.approx(bound, abs=0.1)
    assert "log-likelihood, held out, lower bound" in ais.summary()
    assert plot_run(ais, tmp_path / "run.png").stat().st_size > 10_000
    asked = bm.fit(MANY, evaluate="exact", **options)
    assert asked.evaluation["log_likelihood"] == exact.evaluation["log_likelihood"]


def test_a_deep_machine_is_used_like_any_other(tmp_path: Path) -> None:
    run = bm.fit(BARS, n_hidden=[60, 50], epochs=2, n_chains=8, out=tmp_path / "run.h5")
    assert "log_likelihood_bound" in run.evaluation
    model = run.model
    model.save(tmp_path / "model.h5")
    assert bm.load(tmp_path / "model.h5").couplings.sizes == (9, 60, 50)
    by_layers = mean_field_layers(model, BARS.astype(float), 1.0, 1)
    np.testing.assert_allclose(bm.transform(model, BARS, method="mean-field"), by_layers, atol=1e-6)
    sampled = bm.transform(model, BARS, n_sweeps=400)
    np.testing.assert_allclose(sampled, by_layers, atol=0.05)  # weak couplings
    assert bm.reconstruct(model, BARS).shape == BARS.shape
    gaps = BARS.astype(float)
    gaps[:, 0] = np.nan
    for draw in (False, True):
        filled = bm.complete(model, gaps, draw=draw)
        assert np.array_equal(filled[:, 1:], BARS[:, 1:])
    assert bm.sample(model, n_chains=4, n_sweeps=3).states.shape == (3, 4, 119)
    with pytest.raises(ValueError, match="pseudo-likelihood needs a machine without hidden units"):
        bm.pseudo_likelihood(model, BARS)
    with pytest.raises(ValueError, match="exact would"):
        bm.log_likelihood(model, BARS, "ais")
    found = bm.log_likelihood(model, BARS, "ais", clamped="mean-field")
    assert found.mean == pytest.approx(float(run.evaluation["log_likelihood_bound"][-1]), abs=0.1)


def test_a_file_names_layers(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(
        '[data]\nsource = "bars-and-stripes"\nside = 3\n[fit]\nn_hidden = [4, 3]\nepochs = 5\npretrain_epochs = 2\n'
    )
    tables = file.read(path)
    run = file.call(tables, file.check(tables))()
    assert run.model.couplings.sizes == (9, 4, 3)
    with pytest.raises(ValueError, match=r"fit.n_hidden = 'many'"):
        file.check(file.read(path, ["fit.n_hidden=many"]))
