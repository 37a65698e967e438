"""Likelihoods of data against sums over all states."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from pytest import MonkeyPatch

import fastbm as bm
from fastbm.inference import likelihood
from fastbm.inference.result import from_json, to_json
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import UNITS, calm, machine

HIDDEN = ["visible", "restricted", "layers"]


def every_row(model: bm.BoltzmannMachine) -> np.ndarray:
    lo, hi = (-1, 1) if model.units == "spin" else (0, 1)
    return np.array(list(itertools.product((lo, hi), repeat=model.n_visible)), float)


def log_p_visible(model: bm.BoltzmannMachine, beta: float) -> np.ndarray:
    """log p(v) of every visible state, all states enumerated."""
    truth = machines.enumerate_machine(model, beta)
    lo, hi = (-1, 1) if model.units == "spin" else (0, 1)
    states = np.array(list(itertools.product((lo, hi), repeat=model.n_units)), float)
    log_weights = -beta * model.energy(states)
    of_visible = log_weights.reshape(2**model.n_visible, -1)
    return np.logaddexp.reduce(of_visible, axis=1) - truth.log_z


def deep(units: str) -> bm.BoltzmannMachine:
    """Hidden units that are coupled to one another, in no layers."""
    model = bm.models.random_machine(7, scale=0.8, bias_scale=0.3, units=units, seed=5)
    return bm.BoltzmannMachine(model.weights, model.bias, units=units, n_hidden=3, offset=0.7)


def some(kind: str, units: str) -> bm.BoltzmannMachine:
    return deep(units) if kind == "coupled" else machine(kind, units)


@pairwise(listed=[12, 0], beta=[0.0, 0.7], kind=[*HIDDEN, "coupled"], units=UNITS)
def test_is_log_p_of_every_row(kind: str, units: str, beta: float, listed: int, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "MOST_LISTED", listed)
    model = some(kind, units)
    truth = log_p_visible(model, beta)
    found = bm.log_likelihood(model, every_row(model), "exact", beta=beta)
    np.testing.assert_allclose(found.each, truth, rtol=0, atol=1e-11)
    assert np.exp(found.each).sum() == pytest.approx(1.0)
    assert found.mean == pytest.approx(truth.mean())
    assert found.error == 0 and found.bound == "exact" and found.interval is None
    assert found.spread == pytest.approx(truth.std(ddof=1) / math.sqrt(len(truth)))


def test_rows_that_repeat_are_told_one_by_one() -> None:
    model = deep("spin")
    rows = every_row(model)[[3, 0, 3, 3]]
    found = bm.log_likelihood(model, rows)
    assert found.each[0] == found.each[2] == found.each[3] != found.each[1]
    assert found.mean == pytest.approx(found.each.mean())


def test_the_error_is_that_of_log_z() -> None:
    model = machine("restricted")
    rows = every_row(model)[::5]
    ais = bm.infer(model, "ais", n_betas=20, n_chains=50, moments=False)
    found = bm.log_likelihood(model, rows, ais)
    truth = bm.log_likelihood(model, rows, "exact")
    assert found.error == ais.log_z_error > 0
    assert found.bound == "stochastic upper" and ais.bound == "stochastic lower"
    assert abs(found.mean - truth.mean) < 5 * found.error
    again = bm.log_likelihood(model, rows, "ais", n_betas=20, n_chains=50)
    assert again.mean == found.mean


def test_bounds_of_log_z_turn_round() -> None:
    model = machine("restricted")
    rows = every_row(model)
    truth = bm.log_likelihood(model, rows, "exact").mean
    found = bm.log_likelihood(model, rows, "mean-field")
    assert found.bound == "upper" and found.mean >= truth


def test_a_bracket_leaves_an_interval() -> None:
    model = bm.models.sherrington_kirkpatrick(8, seed=1)
    rows = np.ones((2, 8))
    for seed in range(4):  # noise has the ends crossed for some of them
        found = bm.log_likelihood(model, rows, "ais", bracket=True, n_betas=2_000, n_chains=32, seed=seed)
        assert found.interval[0] <= found.interval[1]
    trapped = calm(bm.infer, model, "ais", beta=50.0, bracket=True, source="gibbs", n_sweeps=20)
    assert not trapped.detail["upper_holds"]
    assert bm.log_likelihood(model, rows, trapped, beta=50.0).interval is None


def test_clamped_sums_by_another_method() -> None:
    model = deep("binary")
    rows = every_row(model)
    truth = bm.log_likelihood(model, rows, "exact")
    low = bm.log_likelihood(model, rows, "exact", clamped="mean-field")
    assert low.bound == "lower" and (low.each <= truth.each + 1e-10).all()
    assert bm.log_likelihood(model, rows, "mean-field", clamped="mean-field").bound is None


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", ["visible", "restricted"])
def test_pseudo_likelihood_is_the_sum_of_conditionals(kind: str, units: str) -> None:
    model, beta = machine(kind, units), 0.8
    log_p = log_p_visible(model, beta)
    rows = every_row(model)
    places = {tuple(row): k for k, row in enumerate(rows)}
    lo, hi = rows.min(), rows.max()
    expected = np.zeros(len(rows))
    for k, row in enumerate(rows):
        for i in range(model.n_visible):
            other = row.copy()
            other[i] = lo + hi - row[i]
            expected[k] += log_p[k] - np.logaddexp(log_p[k], log_p[places[tuple(other)]])
    found = bm.pseudo_likelihood(model, rows, beta=beta)
    np.testing.assert_allclose(found.each, expected, rtol=0, atol=1e-9)
    assert found.mean == pytest.approx(expected.mean())
    assert found.bound is None and found.log_z is None


def test_data_by_path_and_in_blocks(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = machine("restricted", "binary")
    rows = np.random.default_rng(0).integers(0, 2, (50, model.n_visible))
    np.save(tmp_path / "rows.npy", rows)
    whole = bm.log_likelihood(model, rows)
    pseudo = bm.pseudo_likelihood(model, rows)
    monkeypatch.setattr("fastbm.inference.likelihood.ROWS", 7)
    np.testing.assert_array_equal(bm.log_likelihood(model, str(tmp_path / "rows.npy")).each, whole.each)
    np.testing.assert_allclose(bm.pseudo_likelihood(model, rows, threads=2).each, pseudo.each, rtol=1e-14)


def test_printed() -> None:
    model = machine("restricted")
    text = str(bm.log_likelihood(model, every_row(model), "ais", n_betas=20))
    assert "nats a row" in text and "stochastic upper" in text and "between data sets" in text


@pytest.mark.parametrize(
    ("error", "text", "call"),
    [
        (TypeError, "model must be a BoltzmannMachine", lambda m, r: bm.log_likelihood(3, r)),
        (ValueError, "data must have a last axis of 4", lambda m, r: bm.log_likelihood(m, r[:, 1:])),
        (ValueError, "data", lambda m, r: bm.log_likelihood(m, r + 0.5)),
        (TypeError, "clamped must be", lambda m, r: bm.log_likelihood(m, r, clamped=scipy.sparse.csr_array(np.eye(2)))),
        (TypeError, "threads must be a whole number", lambda m, r: bm.pseudo_likelihood(m, r, threads="all")),
        (TypeError, "data must be numbers, -1 or 1; got dtype <U", lambda m, r: bm.log_likelihood(m, r.astype(str))),
        (ValueError, r"data must have shape \(n_rows, 4\)", lambda m, r: bm.log_likelihood(m, r[0])),
        (ValueError, "n_rows at least 1", lambda m, r: bm.log_likelihood(m, r[:0])),
        (ValueError, "'gibbs' does not", lambda m, r: calm(bm.log_likelihood, m, r, "gibbs", n_sweeps=20)),
        (ValueError, "Did you mean 'exact'", lambda m, r: bm.log_likelihood(m, r, "exat")),
        (ValueError, "clamped", lambda m, r: calm(bm.log_likelihood, m, r, "exact", clamped="gibbs")),
        (ValueError, "hidden units, or a restricted one", lambda m, r: bm.pseudo_likelihood(m, r)),
    ],
)
def test_bad_input(error: type[Exception], text: str, call: Any) -> None:
    model = deep("spin")
    with pytest.raises(error, match=text):
        call(model, every_row(model))


def test_a_finished_result_must_be_of_this_machine_at_this_beta(tmp_path: Any) -> None:
    model, rows = machine("restricted"), every_row(machine("restricted"))
    found = bm.infer(model, "exact", beta=0.7)
    with_options = {"n_chains": 3}
    same = bm.BoltzmannMachine(model.weights, model.bias, units=model.units, offset=model.offset)
    stored = bm.infer(model, "exact", beta=0.7, out=tmp_path / "z.h5")
    for one in (found, stored, pickle.loads(pickle.dumps(found)), bm.open(tmp_path / "z.h5").inference):
        assert one.subject == found.subject
        assert bm.log_likelihood(same, rows, one, beta=0.7).mean == bm.log_likelihood(model, rows, beta=0.7).mean
    edited = bm.BoltzmannMachine(model.weights, model.bias, units=model.units, offset=model.offset + 1.0)
    others = [edited, bm.BoltzmannMachine([w * 2 for w in model.weights], model.bias, units=model.units)]
    for other in others:
        with pytest.raises(ValueError, match="method is a result of another machine"):
            bm.log_likelihood(other, rows, stored, beta=0.7)
    with pytest.raises(ValueError, match=r"at beta = 0\.7, and beta is 1\. Pass beta=0\.7"):
        bm.log_likelihood(model, rows, found)
    with pytest.raises(TypeError, match="'n_chains' would do nothing"):
        bm.log_likelihood(model, rows, found, beta=0.7, **with_options)
    held = bm.infer(model, "exact", beta=0.7, clamp=([0], rows[0, :1]))
    with pytest.raises(ValueError, match="with units clamped"):
        bm.log_likelihood(model, rows, held, beta=0.7)
    with pytest.raises(ValueError, match=r"clamped must be one of .*; got 'nonsense'"):
        bm.log_likelihood(model, rows, clamped="nonsense")


def test_a_machine_is_known_by_every_number_it_is_made_of() -> None:
    edges = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    kinds = [bm.BoltzmannMachine(edges), bm.BoltzmannMachine(scipy.sparse.csr_array(edges)), machine("layers")]
    moved = edges[np.ix_([1, 0, 2], [1, 0, 2])]
    kinds += [bm.BoltzmannMachine(moved), bm.BoltzmannMachine(scipy.sparse.csr_array(moved))]
    kinds += [bm.BoltzmannMachine(edges, units="binary"), bm.BoltzmannMachine(edges, [0, 0, 1])]
    assert len({one.fingerprint for one in kinds}) == len(kinds)


def test_results_of_older_files_tell_no_machine() -> None:
    model = machine("visible")
    text = json.loads(to_json(bm.infer(model, "exact")))
    del text["subject"]
    old = from_json(json.dumps(text), 0.0)
    assert old.subject is None
    assert bm.log_likelihood(model, every_row(model), old).mean < 0.0
