"""Exact samples: independent draws with the right distribution, the same bits however they are drawn, and refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import cli, diagnostics, lattice
from fastbm.sampling.arguments import check
from fastbm.sampling.clamped import Conditioned
from fastbm.sampling.exact import make_groups
from fastbm.sampling.settings import OPEN
from tests.support import crash, machines
from tests.support.machines import SURE, UNITS, enumerate_machine, machine
from tests.twins import reference

ENGINES = {
    "blocks": ("visible", "restricted", "layers", "general", "sparse"),
    "layers": ("restricted", "layers"),
    "elimination": ("visible", "restricted", "layers", "general", "sparse"),
}
CASES = [(engine, kind) for engine, kinds in ENGINES.items() for kind in kinds]
NEEDED = {"beta": None, "seed": 0, "keep": "all", "k": None, "observables": None}  # what all samplers take
ONE = [("blocks", "general"), ("layers", "restricted"), ("elimination", "sparse")]


def draws(model: bm.BoltzmannMachine, n_sweeps: int = 1600, **options: Any) -> np.ndarray:
    """64 chains of independent states."""
    return bm.sample(model, sampler="exact", **{"n_sweeps": n_sweeps, "seed": 4, **options}).states


# Distributions: p-values above 1e-6, so that right engines fail one of these 50 tests once in 20000 changes of a stream


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(("engine", "kind"), CASES)
def test_draws_have_the_boltzmann_distribution(engine: str, kind: str, units: str) -> None:
    model = machine(kind, units, offset=2.0)
    states = draws(model, engine=engine, beta=0.8)
    assert states.shape == (1600, 64, model.n_units)
    assert machines.g_test(states, enumerate_machine(model, 0.8).probabilities) > SURE


@pytest.mark.parametrize(("engine", "kind"), ONE)
@pytest.mark.parametrize("units", UNITS)
def test_each_clamped_pattern_and_each_beta_has_its_own_distribution(engine: str, kind: str, units: str) -> None:
    model, betas = machine(kind, units, offset=0.3), [0.0, 1.2]
    lo, hi = model.convention.lo, model.convention.hi
    values = [[hi, lo], [lo, lo], [hi, hi]]
    run = bm.sample(
        model, sampler="exact", engine=engine, clamp=([4, 1], values), beta=betas, n_chains=60, n_sweeps=2000
    )
    states = run.states
    np.testing.assert_allclose(run.energy, model.energy(states), rtol=0, atol=1e-12)
    for group in range(6):
        of_four, of_one = values[group // 2]
        truth = enumerate_machine(model, betas[group // 3], clamp={4: of_four, 1: of_one})
        mine = states[:, 10 * group : 10 * (group + 1)]
        assert (mine[..., [4, 1]] == [of_four, of_one]).all()
        assert machines.g_test(np.delete(mine, [1, 4], axis=2), truth.probabilities) > SURE


@pytest.mark.parametrize("size", [1e-12, 30.0, 1e3])
@pytest.mark.parametrize(("engine", "kind"), ONE)
def test_couplings_of_any_size(engine: str, kind: str, size: float) -> None:
    """Without biases, so that at no temperature two ground states are left."""
    base = machine(kind)
    weights = [size * block for block in base.weights] if base.is_layered else size * base.weights
    model = bm.BoltzmannMachine(weights)
    states, p = draws(model, engine=engine), enumerate_machine(model).probabilities
    assert machines.g_test(states, p) > SURE
    assert p[machines.codes(states)].min() > 1e-9


@pytest.mark.parametrize("engine", ENGINES)
def test_ground_states_that_tie_are_drawn_equally_often(engine: str) -> None:
    """Six ground states, each of spins that cannot all disagree, at no temperature."""
    if engine == "layers":
        model, n_ground = bm.BoltzmannMachine([np.full((3, 2), 1e3)]), 2
    else:
        model, n_ground = bm.BoltzmannMachine(-1e3 * (np.ones((3, 3)) - np.eye(3))), 6
    found, counts = np.unique(machines.codes(draws(model, engine=engine)), return_counts=True)
    assert len(found) == n_ground
    assert reference.g_test(counts, np.full(n_ground, 1 / n_ground)) > SURE


def test_successive_draws_are_independent() -> None:
    """Of 64 chains of 1600 draws, lag-one correlations of the energy and of pairs of chains, within four sigma."""
    energy = bm.sample(bm.models.curie_weiss(10), sampler="exact", n_sweeps=1600, beta=1.2).energy
    z = (energy - energy.mean()) / energy.std()
    assert abs((z[1:] * z[:-1]).mean()) < 4 / math.sqrt(z[1:].size)
    assert abs((z[:, 1:] * z[:, :-1]).mean()) < 4 / math.sqrt(z[:, 1:].size)
    assert diagnostics.tau_int(energy) == pytest.approx(0.5, abs=0.05)


def assert_moments(model: bm.BoltzmannMachine, engine: str, truth: bm.Inference, **options: Any) -> None:
    """A million draws: means, pairs and energy within four standard errors of the exact ones."""
    run = bm.sample(model, sampler="exact", engine=engine, n_chains=100, n_sweeps=10_000, seed=1, **options)
    n = run.energy.size
    assert abs(run.energy.mean() - truth.energy) < 4 * math.sqrt(truth.energy_variance / n)
    up = (run.states == model.convention.hi).reshape(n, -1)
    sums = np.zeros((model.n_units, model.n_units))
    for first in range(0, n, 100_000):
        rows = up[first : first + 100_000].astype(np.float32)
        sums += rows.T @ rows
    pairs = _pairs_up(model, truth)
    known = np.isfinite(pairs)
    sigma = np.sqrt(np.where(known, np.maximum(pairs * (1 - pairs), 1e-30), 1.0) / n)
    assert (np.abs(sums / n - pairs)[known] < 4 * sigma[known]).all()


def _pairs_up(model: bm.BoltzmannMachine, truth: bm.Inference) -> np.ndarray:
    """P(i and j up) from means and second moments; NaN for pairs that are not given."""
    lo, span = model.convention.lo, model.convention.span
    second = truth.second_moment
    if not isinstance(second, np.ndarray):
        given = second.tocoo()
        second = np.full((model.n_units, model.n_units), np.nan)
        second[given.row, given.col] = given.data
    up = (truth.mean - lo) / span
    pairs = (second - lo * span * (up[:, None] + up) - lo * lo) / span**2
    np.fill_diagonal(pairs, up)
    return pairs


@pytest.mark.parametrize("engine", ["blocks", "elimination"])
def test_a_million_draws_of_twelve_units_have_the_right_moments(engine: str) -> None:
    model = bm.models.sherrington_kirkpatrick(12, seed=4)
    assert_moments(model, engine, bm.infer(model, "exact"))


def test_a_million_draws_of_a_restricted_machine_have_the_right_moments() -> None:
    model = bm.models.restricted(20, 8, seed=2, scale=0.4)
    assert_moments(model, "layers", bm.infer(model, "exact"))


@pytest.mark.slow
def test_a_million_draws_of_an_open_lattice_have_the_right_moments() -> None:
    model = bm.models.ising((16, 16), periodic=False)
    assert_moments(model, "elimination", bm.infer(model, "exact", beta=0.4), beta=0.4)


@pytest.mark.slow
def test_the_energy_of_a_torus_is_kaufmans() -> None:
    model, beta, step = bm.models.ising((8, 8)), 0.43, 1e-5
    log_z = [lattice.kaufman_log_z(8, 8, beta + k * step) for k in (-1, 0, 1)]
    mean, variance = -(log_z[2] - log_z[0]) / (2 * step), (log_z[2] - 2 * log_z[1] + log_z[0]) / step**2
    energy = bm.sample(model, sampler="exact", beta=beta, n_chains=100, n_sweeps=1000).energy
    assert abs(energy.mean() - mean) < 4 * math.sqrt(variance / energy.size)


# Bits


@pytest.mark.parametrize(("engine", "kind"), ONE)
def test_the_same_bits_for_any_threads_parts_and_thinning(engine: str, kind: str) -> None:
    model = machine(kind)
    own: dict[str, Any] = {"sampler": "exact", "engine": engine, "n_chains": 8, "seed": 2}
    whole = bm.sample(model, n_sweeps=120, threads=1, **own)
    for threads in (2, 3):
        again = bm.sample(model, n_sweeps=120, threads=threads, **own)
        assert np.array_equal(again.states, whole.states) and np.array_equal(again.energy, whole.energy)
    thin = bm.sample(model, n_sweeps=100, thin=10, burn_in=20, **own)
    assert np.array_equal(thin.states, whole.states[29::10])
    assert thin.sweep.tolist() == list(range(30, 121, 10))
    for first in (0, 4):
        part = bm.sample(model, n_sweeps=120, **{**own, "n_chains": 4}, first_chain=first)
        assert np.array_equal(part.states, whole.states[:, first : first + 4])
    other = bm.sample(model, n_sweeps=120, **{**own, "seed": 3})
    assert not np.array_equal(other.states, whole.states)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_bits_where_tables_are_made_on_threads(engine: str) -> None:
    model = {
        "blocks": bm.models.sherrington_kirkpatrick(25, seed=1),
        "layers": bm.models.restricted(60, 15, scale=0.3),
        "elimination": bm.models.ising((13, 13), periodic=False),
    }[engine]
    own: dict[str, Any] = {"sampler": "exact", "engine": engine, "n_sweeps": 150, "beta": 0.5}
    whole = bm.sample(model, n_chains=48, threads=1, **own)
    for threads in (2, 3):
        assert np.array_equal(bm.sample(model, n_chains=48, threads=threads, **own).states, whole.states)
    part = bm.sample(model, n_chains=5, first_chain=32, threads=2, **own)
    assert np.array_equal(part.states, whole.states[:, 32:37])


def test_the_engine_is_chosen_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = machine("restricted")
    own: dict[str, Any] = {"sampler": "exact", "n_chains": 4, "n_sweeps": 50}
    whole = bm.sample(model, out=tmp_path / "whole.h5", **own)
    assert whole.config["sample"]["engine"] in ENGINES
    assert whole.config["sample"]["max_gigabytes"] == 4.0
    bm.sample(model, out=tmp_path / "run.h5", max_seconds=0.0, **own)

    def chosen_again(*arguments: Any) -> str:
        raise AssertionError("an engine was chosen on resume")

    monkeypatch.setattr("fastbm.sampling.exact.choose_engine", chosen_again)
    assert bm.resume(tmp_path / "run.h5").finished
    crash.assert_same_run(tmp_path / "whole.h5", tmp_path / "run.h5")


def test_the_choice_does_not_depend_on_threads_or_on_the_number_of_chains() -> None:
    for model in (machine("restricted"), machine("sparse"), bm.models.ising((4, 4)), bm.models.curie_weiss(16)):
        chosen = {
            bm.sample(model, sampler="exact", n_chains=n, n_sweeps=n, threads=threads).config["sample"]["engine"]
            for n in (1, 200)
            for threads in (1, 2)
        }
        assert len(chosen) == 1


# What else a run of samples can do


def test_summary_averages_and_responses() -> None:
    model, betas = bm.models.ising((4, 4)), [0.2, 0.4]
    run = bm.sample(model, sampler="exact", beta=betas, n_sweeps=1000, observables=["magnetisation", "overlap"])
    text = str(run.summary())
    assert "exact" in text and "0 sweeps" in text and "acceptance" not in text and "order" not in text
    assert run.acceptance is None and run.converged and run.burn_in == 0
    for row, beta in zip(run.thermodynamics(), betas, strict=True):
        truth = bm.infer(model, "exact", beta=beta)
        assert abs(row.energy.value - truth.energy / 16) < 4 * row.energy.error
        assert abs(row.specific_heat.value - beta**2 * truth.energy_variance / 16) < 4 * row.specific_heat.error
    found = run.reweight(0.3)
    assert abs(found.value - bm.infer(model, "exact", beta=0.3).energy) < 4 * found.error
    square = run.observables["overlap"][:, :16] ** 2
    truth = float((bm.infer(model, "exact", beta=0.2).second_moment ** 2).mean())
    assert abs(square.mean() - truth) < 4 * square.std() / math.sqrt(square.size)


def test_a_summary_tells_of_how_many_records_its_ess_is(monkeypatch: pytest.MonkeyPatch) -> None:
    run = bm.sample(bm.models.ising((4, 4)), sampler="exact", beta=0.2, n_chains=8, n_sweeps=1000)
    whole = str(run.summary()["ess"])
    assert "records" not in whole and float(whole.split()[0]) > 4000
    monkeypatch.setattr("fastbm.runs.sample.convergence.MOST_NUMBERS", 2000)
    some = str(run.summary()["ess"])
    assert some.endswith("tail in one of 4 records") and float(some.split()[0]) < 4000


def test_a_rule_stops_a_run_of_draws() -> None:
    run = bm.sample(machine("general"), sampler="exact", n_chains=16, n_sweeps=50_000, until={"ess": 2000})
    assert run.until_met and 2000 / 16 <= len(run.sweep) <= 2.5 * 2000 / 16
    relaxed = bm.sample(machine("general"), sampler="exact", n_sweeps=2000, burn_in="auto")
    assert relaxed.burn_in_found and relaxed.burn_in < 600


def test_the_lowest_states_of_all_draws() -> None:
    model = machine("visible")
    run = bm.sample(model, sampler="exact", keep="best", k=32, n_sweeps=2000, beta=0.3)
    truth = np.sort(model.energy(np.array(reference.all_states(5, "spin"))))
    np.testing.assert_allclose(run.best_energies, truth[: len(run.best_energies)], atol=1e-12)
    assert len(run.best_energies) == 32


def test_a_file_names_an_exact_sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = '[model]\nname = "ising"\nshape = [4, 4]\n[sample]\nsampler = "exact"\nengine = "elimination"\n'
    Path("run.toml").write_text(text + "n_sweeps = 40\nmax_gigabytes = 1\nbeta = 0.4\n", encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        cli.main(["run", "run.toml", "--out", "a.h5", "-q"])
    assert not left.value.code
    here = bm.sample(
        bm.models.ising((4, 4)), sampler="exact", engine="elimination", n_sweeps=40, max_gigabytes=1, beta=0.4
    )
    assert np.array_equal(bm.open("a.h5").states[:], here.states)


# Refusals


@pytest.mark.parametrize("name", ["rule", "order", "kernel", "initial", "betas", "schedule", "cluster"])
def test_what_has_no_meaning_for_draws_is_refused(name: str) -> None:
    given = {"initial": "up", "betas": [0.1, 1.0], "cluster": True}.get(name, "gibbs")
    with pytest.raises(ValueError, match=f"sampler='exact' does not take {name}"):
        bm.sample(machine("visible"), sampler="exact", **{name: given})


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("engine must be one of 'blocks', 'layers', 'elimination'; got 'gray'", {"engine": "gray"}),
        ("max_gigabytes must be above 0", {"max_gigabytes": 0}),
        ("max_forecast_seconds must be above 0", {"max_forecast_seconds": -1.0}),
        ('engine="layers" needs a layered machine', {"engine": "layers"}),
        ("max_forecast_seconds=1e-30", {"max_forecast_seconds": 1e-30}),
        ("clamp must leave at least one unit free", {"clamp": (range(5), np.ones(5, int))}),
    ],
)
def test_bad_settings_are_named(text: str, options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=text):
        bm.sample(machine("visible"), sampler="exact", out=tmp_path / "run.h5", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "n", "engines"),
    [
        (bm.models.sherrington_kirkpatrick(70), 70, ["blocks"]),
        (bm.models.sherrington_kirkpatrick(2000), 2000, ["blocks"]),
        (bm.models.ising((40, 40)), 1600, ["blocks", "elimination"]),
        (bm.models.restricted(80, 70), 150, ["blocks", "layers", "elimination"]),
    ],
)
def test_machines_that_are_too_large_are_refused_with_the_cost_and_the_alternatives(
    model: bm.BoltzmannMachine, n: int, engines: list[str]
) -> None:
    with pytest.raises(ValueError, match=f"for {n} units on 1 thread within max_forecast_seconds=600") as refused:
        bm.sample(model, sampler="exact", threads=1)
    text = str(refused.value)
    assert 'use sampler="gibbs" or "tempering", or clamp units' in text
    assert all(f"{name} cannot (" in text for name in engines)


def test_the_cost_of_tables_is_told() -> None:
    model = bm.models.sherrington_kirkpatrick(34, seed=1)
    with pytest.raises(ValueError, match=r"blocks \S+ seconds, \S+ GB \(2\^34 states\)"):
        bm.sample(model, sampler="exact", max_forecast_seconds=1e-3)
    with pytest.raises(ValueError, match=r"max_gigabytes=1e-06: blocks cannot"):
        bm.sample(model, sampler="exact", max_gigabytes=1e-6)


def test_many_patterns_share_the_memory() -> None:
    """Tables of one pattern fit, those of 64 do not."""
    model = bm.models.sherrington_kirkpatrick(30, seed=1)
    values = np.where(np.random.default_rng(1).random((64, 6)) < 0.5, -1, 1)
    own: dict[str, Any] = {"sampler": "exact", "engine": "blocks", "n_chains": 64, "n_sweeps": 2}
    one = check("exact", {**dict.fromkeys(OPEN), **NEEDED, "n_chains": 64, "n_sweeps": 2}, {"engine": "blocks"})
    groups = make_groups("blocks", one, Conditioned(model, (range(6), values[0]), 64), 1)
    most = 2 * groups[0].source.forecast.n_bytes / 1e9
    assert bm.sample(model, clamp=(range(6), values[0]), max_gigabytes=most, **own).finished
    with pytest.raises(ValueError, match=r"64 machines \(betas and clamped patterns\) of 24 units .*max_gigabytes"):
        bm.sample(model, clamp=(range(6), values), max_gigabytes=most, **own)
