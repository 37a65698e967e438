"""Functions that draw into given axes: what they draw, that they neither show, save nor set anything, and refusals."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import fastbm as bm
from fastbm import plots
from tests.support import runs
from tests.support.machines import calm


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Settings of Matplotlib stay, no figure is left, nothing is written, none shown."""
    pyplot.close("all")  # those of other tests
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyplot, "show", lambda *_: pytest.fail("shown"))
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before and not list(tmp_path.iterdir())
    pyplot.close("all")


def lattice() -> bm.Run:
    model = bm.models.ising((4, 4))
    return bm.sample(model, beta=[0.2, 0.3], n_chains=32, n_sweeps=200, observables=["magnetisation"], seed=1)


def relaxing(**options: Any) -> bm.Run:
    return bm.sample(bm.models.ising((4, 4)), thin="log", n_chains=8, n_sweeps=50, seed=1, **options)


def ladder() -> bm.Run:
    return bm.sample(bm.models.curie_weiss(6), "tempering", beta=0.8, n_betas=3, n_chains=8, n_sweeps=200, seed=3)


@pytest.mark.filterwarnings("ignore")
def test_each_draws_into_the_axes_that_it_is_given() -> None:
    sampled, tempered, fitted = lattice(), ladder(), runs.fit()
    model, exact = fitted.model, bm.infer(bm.models.curie_weiss(6), "tempering", n_chains=8, n_sweeps=100)
    fidelity = bm.fidelity(model, runs.ROWS)
    for draw, what in (
        (plots.trace, sampled), (plots.energies, sampled), (plots.autocorrelation, sampled), (plots.energy, sampled),
        (plots.magnetisation, sampled), (plots.swaps, tempered), (plots.overlaps, tempered), (plots.learning, fitted),
        (plots.couplings, fitted), (plots.couplings, model), (plots.coupling_matrix, model), (plots.means, fidelity),
        (plots.covariances, fidelity), (plots.triples, fidelity), (plots.population_count, fidelity),
        (plots.relaxation, relaxing()), (partial(plots.relaxation, quantity="correlation"), relaxing()),
        (plots.temperatures, exact), (plots.temperatures, bm.Temperatures.of(exact)),
    ):  # fmt: skip
        axes = Figure().subplots()
        assert draw(what, axes) is axes
        assert axes.has_data() and axes.get_xlabel()
    assert not pyplot.get_fignums()
    axes = plots.energy(sampled)  # the current axes
    assert isinstance(axes, Axes) and axes is pyplot.gca()
    energy = sampled.energy[:, :16].mean() / 16
    points = [line for line in axes.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(points[0].get_ydata()[0], energy)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("betas", "options", "labels"),
    [
        ([0.1, 0.2, 0.4], {}, ["beta = 0.1", "beta = 0.2", "beta = 0.4"]),
        ([0.3], {"clamp": ([0], [[1], [-1]])}, ["pattern 0", "pattern 1"]),
        (np.linspace(0.0, 0.5, 11), {}, [f"beta = {beta:g}" for beta in np.linspace(0.0, 0.5, 6)]),
    ],
    ids=["temperatures", "patterns", "many"],
)
def test_each_temperature_and_pattern_has_its_own_autocorrelation(betas: Any, options: Any, labels: list[str]) -> None:
    model, n_chains = bm.models.ising((3, 3)), 4 * len(betas) * (2 if options else 1)
    run = bm.sample(model, beta=betas, n_chains=n_chains, n_sweeps=300, seed=1, **options)
    for draw in (plots.autocorrelation, plots.energies):
        axes = Figure().subplots()
        draw(run, axes)
        assert axes.get_legend_handles_labels()[1] == labels
    plots.autocorrelation(run, axes := Figure().subplots())
    assert float(axes.get_title().split()[-2]) < 20.0  # pooled, temperatures would never be forgotten


@pytest.mark.filterwarnings("ignore")
def test_runs_and_results_draw_themselves() -> None:
    sampled = lattice()
    comparison = bm.compare({"m": bm.models.curie_weiss(6)}, ["exact", "tap"])
    rules = bm.compare_rules({"m": bm.models.curie_weiss(4)}, ["naive-mean-field"], n_rows=[100])
    inference = bm.infer(bm.models.curie_weiss(6), "tempering", n_chains=8, n_sweeps=100)
    fidelity = bm.fidelity(bm.models.curie_weiss(4), np.ones((20, 4)))
    assert [axes.get_xscale() for axes in relaxing(beta=[0.3, 0.5]).plot().axes] == ["log"] * 3
    for what in (sampled, comparison, rules, inference, bm.Temperatures.of(inference), fidelity):
        assert isinstance(what.plot(), Figure)
    assert sampled.plot().get_suptitle() == sampled.verdict
    assert not pyplot.get_fignums()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("coupling", [1.0, 1e30])
def test_a_run_of_one_sample_is_drawn_whatever_its_energies_are(coupling: float) -> None:
    run = calm(bm.sample, bm.models.ising((3, 3), coupling=coupling), n_chains=4, n_sweeps=1)
    assert [axes.has_data() for axes in run.plot().axes] == [True] * 3


def test_what_notebooks_show_is_escaped_and_short() -> None:
    sampled = lattice()
    comparison = bm.compare({"<i>": bm.models.curie_weiss(6)}, ["exact", "tap"])
    likelihood = bm.log_likelihood(bm.models.curie_weiss(4), np.ones((20, 4)))
    for what, said in (
        (sampled, sampled.verdict), (comparison, "&lt;i&gt;"), (comparison[0], "log Z"), (likelihood, "nats a row"),
        (bm.compare_rules({"m": bm.models.curie_weiss(4)}, ["naive-mean-field"], n_rows=[100]), "naive"),
    ):  # fmt: skip
        assert said in what._repr_html_() and "<i>" not in what._repr_html_()
        assert len(repr(what)) < 120 and "\n" not in repr(what)
    rows = np.random.default_rng(1).integers(0, 2, (200, 4)) * 2 - 1
    rows[:, 0] = rows[:, 1]
    machine = bm.models.curie_weiss(4)
    curves, fidelity = sampled.thermodynamics(), bm.fidelity(machine, rows)
    for what in (
        curves, fidelity, fidelity.mean, bm.pattern_frequencies(machine, rows),
        bm.pair_information(rows, n_resamples=2), sampled.overlap_distribution(sampled.beta[0]),
        bm.data.from_spike_times([[0.1, 0.2]] * 4, 0.01),
        bm.BoltzmannClassifier().fit(rows[:, 1:] > 0, rows[:, 0]),
    ):  # fmt: skip
        assert len(repr(what)) < 250 and "\n" not in repr(what)
    assert "specific heat" in curves._repr_html_() and "±" in curves._repr_html_()
    assert "triple z" in fidelity._repr_html_()


def test_without_matplotlib_its_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fastbm.report.plots")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "fastbm\[plot\]"'):
        importlib.import_module("fastbm.report.plots")


@pytest.mark.filterwarnings("ignore")
def test_refusals() -> None:
    axes = Figure().subplots()
    for draw, what, match in (
        (plots.trace, runs.fit(), "draws runs of sample; got one of fit"),
        (plots.learning, lattice(), "draws runs of fit; got one of sample"),
        (plots.trace, 3, "draws runs of sample; got int"),
        (plots.couplings, 3, "draws machines and runs; got int"),
        (plots.figure, "run.h5", "draws runs, results and comparisons; got str"),
        (plots.temperatures, 3, "draws results of tempering and population-annealing; got int"),
    ):
        with pytest.raises(TypeError, match=match):
            draw(what) if draw is plots.figure else draw(what, axes)
    exact = bm.infer(bm.models.curie_weiss(6), "exact")
    for call, match in (
        (lambda: exact.plot(), "'exact' has no curves"),
        (lambda: plots.autocorrelation(relaxing(), axes), "logarithmic times have no autocorrelation over lags"),
        (lambda: plots.relaxation(lattice(), axes, quantity="m"), "quantity must be one of 'energy', 'correlation'"),
        (lambda: plots.temperatures(exact, axes), "'exact' has no curves"),
        (lambda: plots.temperatures(exact, axes, quantity="z"), "quantity must be one of log_z"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
