"""What `sample` is told: refusals, defaults, and specs of version 0.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.runs.spec import Given, build, describe, model_inputs
from fastbm.sampling.clamped import Conditioned
from fastbm.sampling.own_temperatures import hot_beta, own_betas
from fastbm.sampling.samplers import OWN, SAMPLERS, read_settings
from fastbm.sampling.settings import OPEN
from tests.support import machines
from tests.support.machines import calm
from tests.support.samples import FERRO, GLASS, SK, small, work

GIVEN: dict[str, Any] = {
    "rule": "gibbs", "order": "random", "kernel": "dense", "burn_in": 5, "betas": [0.1, 1.0], "n_betas": 3,
    "lowest_beta": 0.1, "schedule": "linear", "swap_every": 2, "cluster": True, "record": "all", "target_ess": 0.8,
    "clamp": ([0], [1]), "until": {"ess": 10}, "initial": "up", "first_chain": 2, "thin": 2,
    "engine": "blocks", "max_forecast_seconds": 1.0, "max_gigabytes": 1.0,
}  # fmt: skip


def test_every_special_argument_is_tried() -> None:
    assert set(GIVEN) == OPEN | OWN


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", GIVEN)
def test_arguments_that_a_sampler_does_not_take_are_named(sampler: str, name: str) -> None:
    if name in (*SAMPLERS[sampler].takes, *SAMPLERS[sampler].names()):
        return
    with pytest.raises(ValueError, match=rf"sampler='{sampler}' does not take {name}; {name} goes with sampler '"):
        bm.sample(SK, sampler=sampler, **{name: GIVEN[name]})


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (ValueError, "betas must increase, .*got 0.5 at 2 after 0.7", {"sampler": "tempering", "betas": [0, 0.7, 0.5]}),
        (ValueError, "betas must increase", {"sampler": "tempering", "betas": [0.5, 0.5]}),
        (ValueError, "betas must list at least two", {"sampler": "tempering", "betas": [1.0]}),
        (ValueError, "betas must be at least 0", {"sampler": "tempering", "betas": [-1.0, 1.0]}),
        (ValueError, "betas must end at beta.*last is 0.9 and beta is 1",
         {"sampler": "tempering", "betas": [0.1, 0.9], "beta": 1.0}),
        (ValueError, "betas say all that n_betas would",
         {"sampler": "tempering", "betas": [0.1, 0.9], "n_betas": 3}),
        (ValueError, "betas say all that schedule would",
         {"sampler": "annealing", "betas": [0.1, 0.9], "schedule": "linear"}),
        (ValueError, "betas has 3 entries for 2 sweeps", {"sampler": "annealing", "betas": [0, 0.1, 1], "n_sweeps": 2}),
        (ValueError, "lowest_beta must be below beta", {"sampler": "tempering", "lowest_beta": 1.0}),
        (ValueError, "beta must be above 0 for sampler='tempering'", {"sampler": "tempering", "beta": 0.0}),
        (ValueError, 'lowest_beta must be above 0 for schedule="geometric"',
         {"sampler": "annealing", "schedule": "geometric", "lowest_beta": 0.0}),
        (ValueError, "schedule must be one of 'linear'.*Did you mean 'geometric'",
         {"sampler": "annealing", "schedule": "geometrical"}),
        (ValueError, "sampler='tempering' takes one beta.*goes with sampler 'gibbs'",
         {"sampler": "tempering", "beta": [0.5, 1.0]}),
        (ValueError, "n_chains must be even; got 3", {"sampler": "tempering", "cluster": True, "n_chains": 3}),
        (ValueError, "cluster must be one of 'houdayer'", {"sampler": "tempering", "cluster": "wolff"}),
        (ValueError, "n_betas must be at least 2", {"sampler": "tempering", "n_betas": 1}),
        (
            ValueError,
            'the name "states" is that of the states of a ladder',
            {"sampler": "tempering", "record": "all", "observables": {"states": "magnetisation"}},
        ),
        (ValueError, "record=.all. records samples", {"sampler": "tempering", "record": "all", "keep": "best"}),
        (ValueError, "swap_every must be at least 1", {"sampler": "tempering", "swap_every": 0}),
        (ValueError, "target_ess is a part of the population", {"sampler": "population-annealing", "target_ess": 1.0}),
        (ValueError, "n_sweeps must be at least 1", {"sampler": "annealing", "n_sweeps": 0}),
        (ValueError, 'burn_in must be a whole number of sweeps, or "auto"', {"burn_in": "some"}),
        (ValueError, "until must be one of 'ess', 'r_hat'; got 'rhat'. Did you mean 'r_hat'", {"until": {"rhat": 2}}),
        (ValueError, r"until\['r_hat'\] must be above 1", {"until": {"r_hat": 1.0}}),
        (ValueError, r"until\['ess'\] must be above 0", {"until": {"ess": 0}}),
        (TypeError, "until must be a dict such as", {"until": 100}),
        (ValueError, "keep must be one of 'all', 'best'", {"keep": "some"}),
        (ValueError, 'k is the number of best states, so it goes with keep="best"', {"k": 3}),
        (ValueError, "k must be at least 1", {"keep": "best", "k": 0}),
        (ValueError, 'keep="best" records none', {"keep": "best", "observables": ["magnetisation"]}),
        (ValueError, 'thin says how often sampler=.annealing. looks', {"sampler": "annealing", "thin": 2}),
        (ValueError, 'thin must be a whole number of sweeps, or "log"; got .linear.', {"thin": "linear"}),
        (ValueError, "relaxation, and until asks for effective samples", {"thin": "log", "until": {"ess": 9}}),
        (ValueError, 'relaxation, and burn_in="auto" waits for the end', {"thin": "log", "burn_in": "auto"}),
        (ValueError, 'relaxation, and keep="best" looks for', {"thin": "log", "keep": "best"}),
        (ValueError, "relaxation, and sampler='annealing' has an end", {"thin": "log", "sampler": "annealing"}),
        (ValueError, "relaxation, and draws of sampler='exact' are indep", {"thin": "log", "sampler": "exact"}),
        (ValueError, "'population-annealing' does not take thin", {"thin": "log", "sampler": "population-annealing"}),
        (ValueError, "kernel must be one of", {"kernel": "fast"}),
        (ValueError, 'kernel="multispin" takes couplings of one magnitude', {"kernel": "multispin"}),
        (ValueError, "words of 64 chains: couplings have several magnitudes", {"kernel": "multispin", "n_chains": 8}),
        (ValueError, 'kernel="layered" draws layers at once', {"kernel": "layered"}),
    ],
)  # fmt: skip
def test_bad_settings_are_named(error: type[Exception], text: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(error, match=text):
        bm.sample(SK, out=tmp_path / "run.h5", **arguments)
    assert not list(tmp_path.iterdir())


def test_frustration_is_named_where_clusters_need_none() -> None:
    with pytest.raises(ValueError, match="frustrat"):
        bm.sample(GLASS, sampler="wolff", n_sweeps=1)


def test_defaults_stand_in_the_spec() -> None:
    def told(model: bm.BoltzmannMachine = SK, **options: Any) -> dict[str, Any]:
        return calm(bm.sample, model, **{"n_chains": 4, "n_sweeps": 3, **options}).config["sample"]

    plain = told(n_sweeps=None, thin=500)
    assert (plain["n_sweeps"], plain["burn_in"], plain["kernel"], plain["beta"]) == (1000, 100, "dense", [1.0])
    assert told(bm.models.sherrington_kirkpatrick(200))["kernel"] == "dense"
    assert told(kernel="dense")["kernel"] == "dense"
    assert told(FERRO, n_chains=256)["kernel"] == "lookup"
    assert told(FERRO, n_chains=256, beta=[0.1, 0.2])["kernel"] == "lookup"
    assert told(FERRO, sampler="annealing", n_chains=256)["kernel"] == "multispin"
    ladder = told(sampler="tempering", beta=2.0)
    hot = hot_beta(Conditioned(SK, None, 1))
    assert (ladder["lowest_beta"], ladder["betas"][0], ladder["betas"][-1]) == (hot, hot, 2.0)
    assert hot < 0.2
    assert ladder["rule"] == "gibbs" and ladder["swap_every"] == 1
    assert len(told(sampler="tempering", n_betas=5)["betas"]) == 5
    assert told(sampler="tempering", betas=[0.1, 0.7])["beta"] == [0.7]
    annealed = told(sampler="annealing", beta=2.0)
    own = own_betas(Conditioned(SK, None, 1), 1)
    assert annealed["betas"] == [min(own.first, 0.2), 2.0]
    assert (annealed["rule"], annealed["order"], annealed["schedule"]) == ("metropolis", "sequential", "geometric")
    assert told(sampler="annealing", lowest_beta=0.0)["schedule"] == "linear"
    searching = told(sampler="annealing")
    assert searching["betas"] == [searching["lowest_beta"], *searching["beta"]] == [own.first, own.last]
    assert len(told(sampler="annealing", schedule="adaptive")["betas"]) > 10
    assert told(sampler="population-annealing", n_sweeps=None)["n_sweeps"] == 10
    assert told(sampler="tempering", rule="metropolis")["order"] == "random"
    assert told(keep="best")["burn_in"] == 0
    assert told(keep="best", burn_in=2)["burn_in"] == 2


@pytest.mark.parametrize("name", ["gibbs", "tempering", "until", "clamped", "annealing-best", "wolff"])
def test_settings_come_back_from_the_spec(name: str) -> None:
    spec = work(name).config["sample"]
    read = read_settings(json.loads(json.dumps(spec)))
    assert json.loads(json.dumps(read.as_dict())) == spec


def old_spec(model: bm.BoltzmannMachine, settings: dict[str, Any]) -> dict[str, Any]:
    """A spec as version 0.1 wrote it."""
    known = ("sampler", "order", "n_chains", "n_sweeps", "burn_in", "thin", "beta", "seed", "first_chain")
    return {
        "kind": "sample",
        "model": {**{k: v for k, v in describe(model).items() if k != "kind"}, "layered": model.is_layered},
        "sample": {name: settings[name] for name in known},
        "initial": "random",
    }


@pytest.mark.parametrize(("n_chains", "kernel"), [(8, "dense"), (256, "dense"), (5, "layered")])
def test_old_runs_go_on_with_the_kernel_they_had(n_chains: int, kernel: str) -> None:
    model = bm.BoltzmannMachine(FERRO.weights.toarray())
    if kernel == "layered":
        model = machines.machine("restricted")
    run = bm.sample(model, n_chains=n_chains, n_sweeps=40, thin=10, beta=0.3, kernel=kernel)
    task = build(old_spec(model, run.config["sample"]), model_inputs(model), 1, Given())
    assert task.detail["kernel"] == kernel  # type: ignore[attr-defined]
    state = {name: array for name, array in task.state().items() if name != "n_flips"}
    task.restore(state)
    rows = []
    while not task.done:
        rows.append(task.advance())
    energy = np.concatenate([row["samples/energy"] for row in rows if row])
    assert energy.tobytes() == run.energy.tobytes()


def test_many_chains_are_refused_before_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.sampling.memory.available_bytes", lambda: 1e8)
    with pytest.raises(ValueError, match=r"n_chains = 1000000 of 30 units need about .* GB.*About (\d+) chains would"):
        bm.sample(SK, n_chains=1_000_000, n_sweeps=1)
    with pytest.raises(ValueError, match=r"n_chains = 100000 \(\d+ replicas\) of 30"):
        bm.sample(SK, sampler="tempering", n_chains=100_000, n_sweeps=1)
    many: list[dict[str, Any]] = [
        {"n_chains": 2**53}, {"n_chains": 2**53, "clamp": ([0], [1])}, {"sampler": "annealing", "n_sweeps": 2**53},
        {"sampler": "tempering", "n_betas": 2**53},
    ]  # fmt: skip
    for options in many:  # of which nothing is made at all
        with pytest.raises(ValueError, match=f"{2**53}: to hold so many temperatures takes"):
            bm.sample(SK, **options)
    monkeypatch.setattr("fastbm.sampling.memory.available_bytes", lambda: 100.0)
    monkeypatch.setattr("fastbm.sampling.memory.SMALL", 0.0)
    with pytest.raises(ValueError, match="Not even one chain would fit"):
        bm.sample(small(), n_chains=1, n_sweeps=1)
    monkeypatch.setattr("fastbm.sampling.memory.available_bytes", lambda: None)
    assert bm.sample(small(), n_sweeps=1).finished


def test_settings_of_later_versions_are_refused() -> None:
    spec = bm.sample(SK, n_sweeps=1).config["sample"]
    with pytest.raises(bm.StorageError, match="was told haste, which this version of fastbm does not know"):
        read_settings({**spec, "haste": 3})


def test_samples_that_memory_cannot_hold_are_refused_unless_they_are_streamed(tmp_path):
    model = bm.models.ising((100, 100))
    with pytest.raises(ValueError, match=r"samples of 64 chains take about .* GB in memory; .* Pass out=PATH"):
        bm.sample(model, n_chains=64, n_sweeps=10**10)
    run = bm.sample(model, n_chains=64, n_sweeps=10**10, burn_in=0, max_seconds=0.0)
    assert not run.finished


def test_one_chain_cannot_be_compared():
    with pytest.raises(ValueError, match="n_chains must be at least 2; got 1"):
        bm.sample(bm.models.ising((4, 4)), n_chains=1, until={"r_hat": 1.1})


def test_an_observable_that_is_not_finite_leaves_convergence_open():
    run = bm.sample(
        bm.models.ising((4, 4)), n_sweeps=64, beta=0.1, observables={"f": lambda s: s.mean(axis=1) * np.nan}
    )
    assert run.converged is None
