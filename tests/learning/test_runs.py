"""How the pieces of a learning run go together: divergence, early stopping, options that do nothing, small sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.inference.exact.method import usual_engine
from tests.support.combinations import pairwise

QUIET: dict[str, Any] = {"evaluate": "none"}


def rows_of(m: int, n: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return (generator.random((m, n)) < generator.uniform(0.2, 0.8, n)).astype(np.uint8)


@pairwise(optimizer=["sgd", "adam"], n_visible=[1, 6], n_hidden=[1, 2])
def test_the_best_look_is_kept_whole(n_visible: int, n_hidden: int, optimizer: str):
    """Steps go on after the best look, which must not move what was kept of it."""
    run = bm.fit(
        rows_of(40, n_visible), n_hidden=n_hidden, holdout=rows_of(40, n_visible, 3), epochs=60, patience=5,
        learning_rate=0.5, batch_size=20, optimizer=optimizer,
    )  # fmt: skip
    best = int(np.argmax(run.metrics["holdout_log_likelihood"]))
    assert best < len(run.metrics["step"]) - 1
    assert np.array_equal(run.weights["weights"][best], run.model.weights[0])
    assert np.array_equal(run.weights["bias"][best], np.concatenate(run.model.bias))


def test_contrastive_divergence_of_visible_machines_takes_all_rows_at_once():
    rows = rows_of(50, 5)
    for options in ({"batch_size": 50}, {"batch_size": 1_000}, {}):
        run = bm.fit(rows, method="cd", epochs=40, learning_rate=0.3, n_sweeps=5, **options)
        assert np.abs(bm.infer(run.model, "exact").mean - rows.mean(axis=0)).max() < 0.15


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"n_hidden": 3}, {"n_hidden": 3, "momentum": 0.5}, {"method": "cd", "n_hidden": 1, "beta": 0.5},
        {"method": "monte-carlo", "n_hidden": 2, "layout": "general"}, {"method": "exact", "optimizer": "sgd"},
    ],
)  # fmt: skip
def test_what_was_learned_before_a_divergence_is_kept(options: dict[str, Any], in_file: bool, tmp_path: Path):
    """A rate above 2 / l2 overshoots further with every step."""
    out = tmp_path / "run.h5" if in_file else None
    with pytest.raises(
        ValueError, match=r"learning diverged in epoch \d+: parameters .* Lower learning_rate"
    ) as caught:
        bm.fit(rows_of(30, 4), out=out, epochs=500, learning_rate=1.0, l2=4.0, l2_bias=4.0, **options, **QUIET)
    run = getattr(caught.value, "run", None) if out is None else bm.open(out)
    assert f"in epoch {len(run.weights['epoch'])}:" in str(caught.value)
    assert not run.finished
    assert np.array_equal(run.weights["weights"][-1], run.model.couplings.arrays[0])
    assert np.array_equal(run.weights["bias"][-1], run.model.flat_bias)
    assert 1e5 < max(np.abs(run.weights[name]).max() for name in ("weights", "bias")) < 1e8 / options.get("beta", 1.0)


def test_a_divergence_in_the_first_epoch_leaves_no_file(tmp_path: Path):
    with pytest.raises(ValueError, match="diverged in epoch 0"):
        bm.fit(rows_of(30, 4), optimizer="adam", learning_rate=1e9, out=tmp_path / "run.h5")
    assert not list(tmp_path.iterdir())


def test_mean_field_that_diverges_names_the_epoch(tmp_path: Path):
    start = bm.BoltzmannMachine((np.ones((9, 9)) - np.eye(9)) / 8, units="spin")  # at its transition
    text = r"diverged in epoch 0: the free phase has no finite linear response\. Lower"
    with pytest.raises(ValueError, match=text), pytest.warns(bm.ConvergenceWarning):
        bm.fit(2 * rows_of(30, 9).astype(int) - 1, method="mean-field", init=start, out=tmp_path / "run.h5")
    assert not list(tmp_path.iterdir())  # nothing was learned


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("momentum", {"n_hidden": 2, "optimizer": "adam", "momentum": 0.5}),
        ("momentum", {"method": "exact", "momentum": 0.5}),
        ("learning_rate", {"method": "exact", "learning_rate": 0.1}),
        ("learning_rate", {"method": "tap", "learning_rate": 0.1}),
        ("schedule", {"method": "rise", "schedule": "cosine"}),
        ("batch_size", {"method": "bethe", "batch_size": 10}),
        ("tolerance", {"method": "pcd", "tolerance": 1e-3}),
        ("n_chains", {"method": "cd", "n_chains": 10}),
        ("n_chains", {"method": "mean-field", "n_chains": 10}),
        ("n_sweeps", {"method": "exact", "n_sweeps": 10}),
        ("n_betas", {"method": "pcd", "n_betas": 5}),
        ("clamped_sweeps", {"method": "pcd", "n_hidden": 2, "clamped_sweeps": 5}),
        ("clamped_sweeps", {"method": "monte-carlo", "clamped_sweeps": 5}),
        ("n_resamples", {"method": "exact", "n_resamples": 10}),
        ("patience", {"method": "tap", "patience": 3, "holdout": rows_of(10, 4)}),
        ("until names 'gradient'", {"method": "pcd", "until": {"gradient": 0.1}}),
        ("until names 'moment_error'", {"method": "exact", "until": {"moment_error": 0.1}}),
        ("until names 'moment_error'", {"method": "rise", "until": {"moment_error": 0.1}}),
    ],
)
def test_options_that_would_do_nothing_are_refused(name: str, options: dict[str, Any]):
    with pytest.raises(ValueError, match=f"^{name}"):
        bm.fit(rows_of(30, 4), **options)


def test_options_that_ask_for_nothing_go_with_everything():
    off: dict[str, Any] = {"momentum": 0.0, "schedule": "constant", "centring": False, "patience": 0, "l2": 0.0}
    for method in ("exact", "tap", "rise", "mean-field"):
        few = {} if method == "tap" else {"epochs": 2}
        bm.fit(rows_of(200, 3), method=method, **few, **off, **QUIET)


def test_patience_needs_a_likelihood_to_look_at():
    options = {"n_hidden": 12, "layout": "general", "holdout": rows_of(20, 30, 1), "epochs": 2, "patience": 1}
    with pytest.raises(ValueError, match="patience=1 needs a likelihood of held-out rows"):
        bm.fit(rows_of(40, 30), method="monte-carlo", **options, **QUIET)


def test_until_holds_between_the_looks_of_monitors():
    options: dict[str, Any] = {"method": "monte-carlo", "n_chains": 512, "epochs": 500, "until": {"moment_error": 0.02}}
    often, seldom = (bm.fit(rows_of(500, 5), monitor_every=k, **options, **QUIET) for k in (1, 1_000))
    assert often.metrics["step"][-1] == seldom.metrics["step"][-1] < 499
    assert len(seldom.metrics["step"]) == 1
    assert seldom.metrics["moment_error"][-1] <= 0.02


def test_resamples_stop_early_as_the_run_did():
    options: dict[str, Any] = {"method": "monte-carlo", "learning_rate": 1.0, "n_chains": 64, "l2": 1e-3}
    rows, held = rows_of(25, 5), rows_of(200, 5, 7)
    run = bm.fit(rows, holdout=held, epochs=2_000, patience=2, errors="bootstrap", n_resamples=5, **options)
    assert len(run.metrics["step"]) < 200
    assert np.isfinite(run.errors["weights"]).all()


def test_what_the_last_look_cannot_do_is_refused_before_anything_is_learned(tmp_path: Path):
    rows, out = rows_of(40, 30), tmp_path / "run.h5"
    deep = {"init": bm.BoltzmannMachine([np.zeros((30, 40)), np.zeros((40, 40))], units="binary"), "out": out}
    with pytest.raises(ValueError, match="the Fisher information needs hidden units"):
        bm.fit(rows, errors="fisher", clamped="gibbs", **deep)
    with pytest.raises(ValueError, match="exact would"):
        bm.fit(rows, evaluate="exact", **deep)
    general = {"n_hidden": 60, "layout": "general", "clamped": "gibbs", "n_chains": 2, "out": out}
    with pytest.raises(ValueError, match=r"2\^60 states"):
        bm.fit(rows, evaluate="ais", **general)
    assert not list(tmp_path.iterdir())
    # "auto" gives no likelihood where there is none to be had
    run = bm.fit(rows, epochs=1, clamped_sweeps=1, **general)
    assert run.finished
    assert "log_z" not in run.evaluation


def test_few_rows_have_error_bars_by_samples_of_the_machine():
    run = bm.fit(rows_of(80, 6), n_hidden=2, errors="fisher", epochs=5)
    assert run.errors["weights"].shape == (1, 6, 2)


@pytest.mark.parametrize("method", ["tap", "naive-mean-field", "bethe"])
def test_formulas_refuse_pairs_that_are_left_out(method: str):
    start = bm.models.ising((3, 3)).to_units("binary")
    with pytest.raises(ValueError, match="couples all pairs; init has sparse couplings"):
        bm.fit(rows_of(300, 9), method=method, init=start)


def test_engines_of_long_rows_of_sums_are_chosen_once():
    """Planning may take a hundred times as long as the sum."""
    small = bm.models.restricted(weights=np.zeros((10, 40)))
    assert usual_engine(small, moments=True) == usual_engine(small, moments=False) == "layers"
    assert usual_engine(bm.BoltzmannMachine(np.zeros((12, 12))), moments=True) is None
    one = bm.infer(small, "exact", engine=usual_engine(small, moments=True))
    assert one.log_z == pytest.approx(bm.infer(small, "exact").log_z, abs=1e-12)
