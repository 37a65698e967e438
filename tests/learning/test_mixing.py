"""The free chains watched: R-hat of their records, histograms of energies, and what free="auto" does about them."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import diagnostics
from fastbm.inference.likelihood import log_sums
from fastbm.learning import make
from fastbm.learning.learners.adaptive import AutoSteps
from fastbm.learning.monitor.chains import BINS, R_HAT_OF_CHAINS, Mixing, energies, most_states, principal_axis
from fastbm.learning.rules import check
from fastbm.learning.settings import FitSettings
from fastbm.learning.training_set import Sample
from fastbm.runs.fit.task import FitTask

QUIET: dict[str, Any] = {"evaluate": "none"}
UNMIXED = pytest.mark.filterwarnings("ignore:free chains do not mix")


def ferromagnet(n: int = 10, strength: float = 3.0) -> bm.BoltzmannMachine:
    """Two modes, all up and all down, between which single flips do not lead."""
    return bm.BoltzmannMachine(strength / n * (np.ones((n, n)) - np.eye(n)), np.full(n, 0.02))


def two_modes() -> np.ndarray:
    return bm.sample(ferromagnet(), sampler="exact", n_chains=2_000, n_sweeps=1).states[0]


def two_patterns(n: int = 20) -> np.ndarray:
    """Rows near a pattern or its opposite, which hidden units learn to tell."""
    generator = np.random.default_rng(0)
    pattern = generator.integers(0, 2, n)
    rows = np.where(generator.random((1_000, 1)) < 0.7, pattern, 1 - pattern)
    return (rows ^ (generator.random(rows.shape) < 0.03)).astype(np.uint8)


BIMODAL: dict[str, tuple[Any, dict[str, Any]]] = {
    "phases": (two_modes, {"method": "monte-carlo", "n_sweeps": 1, "epochs": 200, "learning_rate": 0.02}),
    "lanes": (two_patterns, {"n_hidden": 3, "epochs": 150, "learning_rate": 0.1, "batch_size": 200}),
}


def settings_of(start: bm.BoltzmannMachine, rows: np.ndarray, method: str = "pcd", **given: Any) -> FitSettings:
    """As `fit` makes them."""
    given.pop("n_hidden", None)
    names = {name: None for name in FitSettings.__dataclass_fields__ if name != "method"}
    return check(start, len(rows), method, names | {"seed": 0} | given)


def errors_of_moments(run: bm.Run, rows: np.ndarray) -> float:
    """The largest error of a mean, in units from 0 to 1."""
    mean = bm.infer(run.model, "exact").mean[: rows.shape[1]]
    return float(np.abs(mean - rows.mean(axis=0)).max()) / run.model.convention.span


# R-hat


@pytest.mark.parametrize("free", ["gibbs", "tempering", "auto"])
@pytest.mark.parametrize("n_hidden", [0, 4])
def test_chains_that_mix(free: str, n_hidden: int):
    rows = (np.random.default_rng(1).random((400, 8)) < 0.4).astype(np.uint8)
    run = bm.fit(rows, n_hidden=n_hidden, free=free, epochs=40, **QUIET)
    r_hat = run.metrics["r_hat"]
    assert np.isnan(r_hat[:7]).all() and not np.isnan(r_hat[7:]).any()
    assert (r_hat[7:] < 1.05).all()
    assert run.summary()["free chains"] == "mix, epoch 40"
    if free == "auto":
        assert (run.metrics["n_sweeps"] == 1).all() and (run.metrics["n_betas"] == 1).all()


@pytest.mark.parametrize("engine", BIMODAL)
def test_chains_that_do_not_mix_are_told_and_answered(engine: str):
    """Plain chains stay in a mode and the machine learned is wrong; "auto" finds the data's."""
    rows, options = BIMODAL[engine][0](), BIMODAL[engine][1] | QUIET | {"monitor_every": 10}
    with pytest.warns(
        bm.ConvergenceWarning, match=r'^free chains do not mix: r_hat = .* free="auto", or lower'
    ) as told:
        plain = bm.fit(rows, free="gibbs", **options)
    assert len(told) == 1
    assert plain.metrics["r_hat"][-1] > R_HAT_OF_CHAINS
    assert plain.summary()["free chains"].startswith("do not mix (r_hat = ")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        auto = bm.fit(rows, free="auto", **options)
    texts = [str(one.message) for one in told]
    twice = 2 * options.get("n_sweeps", 1)
    assert re.fullmatch(
        rf"free chains do not mix: r_hat = .* after epoch .*; n_sweeps is {twice} from here on.", texts[0]
    )
    n_sweeps, n_betas = auto.metrics["n_sweeps"], auto.metrics["n_betas"]
    assert n_betas[0] == 1 and n_betas[-1] == 10
    assert any("with ladders of 10 replicas" in text for text in texts)
    assert set(n_sweeps) <= set(2.0 ** np.arange(5) * options.get("n_sweeps", 1))
    assert auto.metrics["r_hat"][-1] < 1.1
    # of lanes the likelihood falls so far that the parameters of a better epoch are kept, which are wrong too
    assert errors_of_moments(auto, rows) < 0.03 < 0.1 < errors_of_moments(plain, rows)


def test_ladders_know_no_free_auto_as_a_way_out():
    with pytest.warns(bm.ConvergenceWarning, match=r"Raise n_sweeps \(it was 1\), or raise n_betas, or lower"):
        bm.fit(
            two_modes(), method="monte-carlo", free="tempering", n_betas=2, n_sweeps=1, epochs=150, learning_rate=0.05,
            **QUIET,
        )  # fmt: skip


@UNMIXED
def test_what_is_learned_does_not_depend_on_looks():
    rows, options = two_modes(), BIMODAL["phases"][1] | QUIET | {"free": "auto", "epochs": 70}
    often, seldom = (bm.fit(rows, monitor_every=every, **options) for every in (5, 10_000))
    assert often.metrics["n_sweeps"][-1] > 1 or often.metrics["n_betas"][-1] > 1
    assert np.array_equal(often.model.flat_bias, seldom.model.flat_bias)
    assert often.metrics["r_hat"][-1] == seldom.metrics["r_hat"][-1]


@UNMIXED
@pytest.mark.parametrize("engine", BIMODAL)
def test_stopped_right_before_and_right_after_every_answer(engine: str):
    rows, options = BIMODAL[engine][0](), BIMODAL[engine][1] | QUIET | {"free": "auto", "epochs": 90, "n_chains": 70}
    up = (rows == 1).astype(np.uint8)
    start = bm.fit(rows, **options | {"epochs": 1, "learning_rate": 1e-9}).model
    settings = settings_of(start, rows, **options)
    task = FitTask(start, {"rows": up}, settings, classify=None, threads=2)
    states, found = [task.state()], []
    while not task.done:
        found.append(task.advance())
        states.append({name: array.copy() for name, array in task.state().items()})
    answers = [int(state["auto/n_answers"]) for state in states]
    assert answers[-1] >= 5, "ladders took over"
    changes = np.flatnonzero(np.diff(answers))
    for first in sorted({*changes, *(changes + 1)}):  # states before the epoch that ends in an answer, and after it
        again = FitTask(start, {"rows": up}, settings, classify=None, threads=1)
        again.restore(states[first])
        for k in range(first, min(first + 3, len(found))):
            for here, there in ((again.advance(), found[k]), (again.state(), states[k + 1])):
                assert set(here) == set(there)
                assert all(here[name].tobytes() == there[name].tobytes() for name in here if "seconds" not in name)


def rigid() -> tuple[np.ndarray, bm.BoltzmannMachine]:
    """Rows of two kinds, and a deep machine whose chains do not get from one to the other."""
    rows = np.repeat([[1] * 4 + [-1] * 4, [-1] * 4 + [1] * 4], 50, axis=0)
    blocks = [np.outer(rows[0], np.full(4, 9.0)), np.full((4, 3), 5.0)]
    return rows, bm.BoltzmannMachine(blocks, units="spin")


@UNMIXED
def test_ladders_take_over_after_pretraining():
    rows, start = rigid()
    options: dict[str, Any] = {
        "init": start, "free": "auto", "epochs": 60, "pretrain_epochs": 3, "learning_rate": 1e-3, "n_betas": 3,
        "n_chains": 9, "optimizer": "adam", "centring": True,
    }  # fmt: skip
    run = bm.fit(rows, **options | QUIET)
    assert run.metrics["n_betas"][-1] == 3
    settings = settings_of(start, rows, **options | QUIET)
    driver = make.make(start, Sample.of(start, {"rows": (rows == 1).astype(np.uint8)}), settings, 1)
    assert isinstance(driver, AutoSteps)
    number = 0
    while number < 6:
        number += len(driver.epoch(number))
    for _ in range(4):
        assert driver.answer(np.inf, 1)
    before, packed = driver.state(), driver.samples()
    assert driver.answer(np.inf, 1)
    after = driver.state()
    assert packed is not None and np.array_equal(driver.samples(), packed)
    for name in (name for name in before if name.startswith(("parameters/", "optimizer/", "offsets"))):
        assert np.array_equal(before[name], after[name])
    assert not np.array_equal(before["free/streams"][0], after["free/streams"][0])  # ladders draw numbers of their own


def test_answers_of_resamples_are_no_failures():
    rows, start = rigid()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        bm.fit(
            rows, init=start, free="auto", epochs=24, learning_rate=1e-3, errors="bootstrap", n_resamples=2,
            monitor_every=5, **QUIET,
        )  # fmt: skip
    texts = [str(one.message) for one in told]
    assert not any("resamples" in text for text in texts)
    assert sum("from here on" in text for text in texts) == 2
    assert re.search(r"Raise n_sweeps \(it was 4\), or lower", texts[-1])


def test_auto_with_one_chain_is_refused():
    with pytest.raises(ValueError, match="free='auto' needs n_chains of at least 2"):
        bm.fit(rigid()[0], free="auto", n_chains=1)


def test_rows_that_lack_entries_have_no_energies():
    rows = (np.random.default_rng(1).random((60, 5)) < 0.4).astype(float)
    lacking = np.where(np.random.default_rng(2).random(rows.shape) < 0.1, np.nan, rows)
    lacking[0] = rows[0]
    run = bm.fit(lacking, holdout=rows, epochs=2, **QUIET)
    assert set(run.energies) == {"edges", "epoch", "chains", "holdout"}


def test_auto_that_is_asked_of_nothing_is_plain():
    rows = (np.random.default_rng(1).random((300, 6)) < 0.4).astype(np.uint8)
    for options in ({"n_hidden": 3}, {"method": "monte-carlo", "n_hidden": 2, "layout": "general"}):
        plain, auto = (bm.fit(rows, free=free, epochs=10, **options, **QUIET) for free in ("gibbs", "auto"))
        assert np.array_equal(plain.model.flat_bias, auto.model.flat_bias)
    with pytest.raises(ValueError, match=r"free must be one of .*'auto'"):
        bm.fit(rows, free="automatic")
    with pytest.raises(ValueError, match="n_betas goes with free='tempering' or 'auto'"):
        bm.fit(rows, n_betas=5)


@UNMIXED
def test_velocities_and_offsets_go_on_with_the_ladders():
    """Steps that take over from passes over lanes move as these would have, but for the noise of chains."""
    rows = two_patterns(8)
    weights = 0.1 * np.random.default_rng(0).normal(size=(8, 4))
    start = bm.models.restricted(weights=weights, units="binary")
    settings = settings_of(
        start, rows, free="auto", momentum=0.9, centring=True, n_chains=2_000, batch_size=1_000, learning_rate=0.05
    )
    driver, twin = (make.make(start, Sample.of(start, {"rows": rows}), settings, 1) for _ in range(2))
    for epoch in range(3):
        driver.epoch(epoch), twin.epoch(epoch)
    assert isinstance(driver, AutoSteps)
    for _ in range(5):
        assert driver.answer(2.0, 3)
    for one, other in zip(driver.parameters.arrays, twin.parameters.arrays, strict=True):
        assert np.array_equal(one, other)
    before = twin.parameters
    driver.epoch(3), twin.epoch(3)
    for one, other, old in zip(driver.parameters.arrays, twin.parameters.arrays, before.arrays, strict=True):
        assert np.abs(one - other).max() < 0.1 * np.abs(other - old).max()


# Records


def naive_r_hat(records: np.ndarray) -> float:
    """Of records (k, n_chains, 3): brought to mean 0 and variance 1 over chains, then the largest R-hat."""
    scaled = (records - records.mean(axis=1, keepdims=True)) / records.std(axis=1, keepdims=True)
    return max(float(diagnostics.r_hat(scaled[..., k])) for k in range(3))


def test_records_are_of_the_last_half():
    model = ferromagnet(6, 0.5)
    generator = np.random.default_rng(0)
    axis = generator.normal(size=6)
    mixing = Mixing(axis, 0.7, 40)
    kept: list[tuple[int, np.ndarray]] = []
    for epoch in range(1, 300):
        up = generator.integers(0, 2, (40, 6)).astype(np.uint8)
        spins = 2.0 * up - 1
        numbers = [model.energy(spins) * 0.7, up.sum(axis=1), spins @ axis]
        kept.append((epoch, np.stack(numbers, axis=1)))
        mixing.record(model, up)
        spacing = int(mixing.state()["count"][1])
        used = [record for number, record in kept if number % spacing == 0][-len(mixing.state()["records"]) :]
        assert len(used) <= 32
        if epoch >= 32:
            assert 0.3 <= len(used) * spacing / epoch <= 1
        if epoch < 8:
            assert np.isnan(mixing.r_hat)
        elif epoch % 37 == 0:
            assert mixing.r_hat == pytest.approx(naive_r_hat(np.array(used)), abs=1e-3)
    other = Mixing(axis, 0.7, 40)
    other.restore(mixing.state())
    assert other.r_hat == mixing.r_hat


def test_a_drift_that_all_chains_share_is_no_disagreement():
    model, generator = ferromagnet(12, 0.2), np.random.default_rng(2)
    mixing, stuck = Mixing(np.ones(12), 1.0, 100), Mixing(np.ones(12), 1.0, 100)
    own = np.repeat([[0.3], [0.7]], 50, axis=0)
    for epoch in range(32):
        p = 0.1 + 0.025 * epoch
        mixing.record(model, (generator.random((100, 12)) < p).astype(np.uint8))
        stuck.record(model, (generator.random((100, 12)) < own).astype(np.uint8))
    assert mixing.r_hat < 1.03
    assert stuck.r_hat > 1.5


def test_one_chain_and_chains_that_stand_still():
    model = ferromagnet(5)
    alone, still, alike = Mixing(np.ones(5), 1.0, 1), Mixing(np.ones(5), 1.0, 20), Mixing(np.ones(5), 1.0, 20)
    up = np.random.default_rng(0).integers(0, 2, (20, 5)).astype(np.uint8)
    for _ in range(10):
        alone.record(model, up[:1])
        still.record(model, up)
        alike.record(model, np.ones_like(up))
    assert np.isnan(alone.r_hat)
    assert still.r_hat == np.inf or still.r_hat > 10
    assert alike.r_hat == 1.0


def test_the_axis_is_that_of_the_data():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(500, 6)) * [1, 1, 1, 1, 1, 3]
    covariance = np.cov(rows.T)
    axis = principal_axis(lambda v: covariance @ v, 6, seed=0)
    assert np.linalg.norm(axis) == pytest.approx(1)
    leading = np.linalg.eigh(covariance)[1][:, -1]
    assert abs(axis @ leading) == pytest.approx(1, abs=1e-9)
    assert not principal_axis(lambda v: 0 * v, 6, seed=0).any()


# Energies


def test_large_machines_are_looked_at_with_fewer_states():
    assert most_states(ferromagnet(5)) == 256
    assert most_states(bm.models.restricted(784, 500)) == 256
    assert 32 < most_states(ferromagnet(1_000)) < 256
    rows = (np.random.default_rng(1).random((400, 7)) < 0.4).astype(np.uint8)
    run = bm.fit(rows, n_chains=400, epochs=9, **QUIET)
    assert run.energies["chains"][-1].sum() == 256
    assert run.metrics["r_hat"][-1] < 1.1


@pytest.mark.parametrize("units", ["binary", "spin"])
@pytest.mark.parametrize("kind", ["visible", "restricted", "general"])
def test_energies_of_rows(units: str, kind: str):
    generator = np.random.default_rng(3)
    if kind == "restricted":
        model = bm.models.restricted(weights=generator.normal(size=(5, 3)), units="binary").to_units(units)
    else:
        weights = np.triu(generator.normal(size=(6, 6)), 1)
        n_hidden = 2 if kind == "general" else 0
        bias = generator.normal(size=6)
        model = bm.BoltzmannMachine(weights + weights.T, bias, units=units, n_hidden=n_hidden, offset=0.3)
    values = model.convention.values(generator.integers(0, 2, (7, model.n_units)), np.float64)
    found = energies(model, values, 0.8)
    if kind == "general":
        np.testing.assert_allclose(found, 0.8 * model.energy(values))
    else:
        np.testing.assert_allclose(found, -log_sums(model, values[:, : model.n_visible], 0.8, 1)[0], atol=1e-12)


@UNMIXED
@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"n_hidden": 4}, {"chains", "rows", "holdout"}),
        ({"method": "monte-carlo", "free": "tempering"}, {"chains", "rows", "holdout"}),
        ({"method": "monte-carlo", "n_hidden": 2, "layout": "general"}, {"chains"}),
        ({"method": "cd", "n_hidden": 3}, set()),
        ({"method": "exact"}, set()),
    ],
)
def test_histograms_count_every_chain_and_row(options: dict[str, Any], names: set[str], tmp_path: Path):
    rows = (np.random.default_rng(1).random((400, 7)) < 0.4).astype(np.uint8)
    chains = {} if options["method" if "method" in options else "n_hidden"] in ("cd", "exact") else {"n_chains": 50}
    run = bm.fit(
        rows, holdout=rows[:90], epochs=6, monitor_every=4, **options, **chains, out=tmp_path / "run.h5", **QUIET
    )
    found = bm.open(tmp_path / "run.h5").energies
    assert set(found) == (names | {"edges", "epoch"} if names else set())
    assert all(not name.startswith("energies") for name in run.metrics)
    for name, n in (("chains", 50), ("rows", 256), ("holdout", 90)):
        if name in names:
            assert found[name].shape == (2, BINS)
            assert (found[name].sum(axis=1) == n).all()
    if names:
        assert found["epoch"].tolist() == [3, 5]
        assert (np.diff(found["edges"], axis=1) > 0).all()


def test_a_picture_shows_the_chains(tmp_path: Path):
    plots = pytest.importorskip("fastbm.report.pictures.run")
    rows = two_patterns(9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.ConvergenceWarning)
        run = bm.fit(rows, n_hidden=2, free="auto", epochs=60, learning_rate=0.3, ais_every=30, holdout=rows[:50])
        short = bm.fit(rows, epochs=2, **QUIET)
    assert plots.plot_run(run, tmp_path / "run.png").stat().st_size > 10_000
    figure = plots.Figure()
    plots.fill_mixing(figure, short)
    assert [text.get_text() for text in figure.axes[0].texts] == ["too few epochs"]


def test_learning_that_diverges_at_once_keeps_nothing():
    rows = rigid()[0]
    with pytest.raises(ValueError, match="diverged in epoch 0") as told:
        bm.fit(rows, n_hidden=[3, 2], epochs=9, pretrain_epochs=2, learning_rate=1e10, **QUIET)
    assert "kept" not in str(told.value)
