"""Same seed, same bytes: for any number of threads, for chains run together or apart, and across kills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.store import open_reader
from tests.support import crash, machines
from tests.support.combinations import pairwise
from tests.support.machines import UNITS, machine
from tests.support.samples import WORKLOADS, work as sample_work

GENERATOR = np.random.default_rng(0)
DEEP = bm.BoltzmannMachine([GENERATOR.normal(size=(30, 20)), GENERATOR.normal(size=(20, 10))], units="binary")
GLASS = bm.models.sherrington_kirkpatrick(70, seed=1)
ROWS = (GENERATOR.random((150, 10)) < 0.4).astype(np.uint8)


def assert_same_run(first: Path, second: Path) -> None:
    crash.assert_same_run(first, second)


# Threads


@pairwise(
    model=[GLASS, DEEP],
    sampler=["gibbs", "metropolis"],
    order=["sequential", "permuted", "random"],
    n_chains=[1, 64, 200],
)
def test_samples_do_not_depend_on_threads(model: bm.BoltzmannMachine, sampler: str, order: str, n_chains: int) -> None:
    one, two, three = (
        bm.sample(model, sampler=sampler, order=order, n_chains=n_chains, n_sweeps=30, thin=7, threads=threads, seed=4)
        for threads in (1, 2, 3)
    )
    for other in (two, three):
        assert one.states.tobytes() == other.states.tobytes()
        assert one.energy.tobytes() == other.energy.tobytes()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("exact", {"clamp": (range(14, 60), np.ones(46, int))}),
        ("ais", {"n_chains": 200, "n_betas": 50}),
        ("sampled-states", {"n_chains": 300, "n_sweeps": 20}),
        ("gibbs", {"n_chains": 200, "n_sweeps": 40}),
        ("metropolis", {"n_chains": 200, "n_sweeps": 8}),
        ("mean-field", {}),
    ],
)
@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
def test_inference_does_not_depend_on_threads(method: str, options: dict[str, Any]) -> None:
    machines.assert_same_inference(
        *(bm.infer(DEEP, method, beta=0.1, threads=threads, **options) for threads in (1, 2))
    )


LEARNING: dict[str, dict[str, Any]] = {
    "pcd": {"method": "pcd", "n_hidden": 6, "epochs": 6, "batch_size": 50, "n_chains": 130, "samples_every": 2},
    "one-batch": {"method": "pcd", "epochs": 6, "batch_size": 100, "n_chains": 70},
    "cd": {"method": "cd", "n_hidden": 6, "epochs": 5, "batch_size": 70, "optimizer": "adam"},
    "1985": {
        "method": "monte-carlo",
        "n_hidden": 5,
        "layout": "general",
        "epochs": 5,
        "n_chains": 70,
        "batch_size": 75,
    },
    "mean-field": {"method": "mean-field", "n_hidden": 3, "epochs": 8},
    "deep": {"method": "pcd", "init": machine("layers", "binary"), "epochs": 5, "batch_size": 50, "n_chains": 130},
    "auto": {  # of which chains stand still, so that it answers
        "method": "monte-carlo",
        "free": "auto",
        "n_sweeps": 1,
        "epochs": 20,
        "learning_rate": 1e-3,
        "n_chains": 70,
        "init": bm.BoltzmannMachine(2.0 * (1 - np.eye(10)), np.full(10, -9.0), units="binary"),
    },
    "newton": {"method": "exact", "l2": 1e-3, "epochs": 25},
    "l-bfgs": {"method": "exact", "l2": 1e-3, "epochs": 25},
    "l-bfgs-hidden": {"method": "exact", "n_hidden": 2, "layout": "general", "epochs": 12, "l2": 1e-2},
}


def learn(name: str, out: Path | None = None, **options: Any) -> bm.Run:
    n_visible = {"deep": 3, "l-bfgs-hidden": 5, "l-bfgs": 13}.get(name, 10)
    return bm.fit(np.hstack([ROWS, ROWS[::-1]])[:, :n_visible], out=out, **LEARNING[name], **options)


# Together and apart


@pairwise(sampler=["gibbs", "metropolis"], order=["sequential", "random"], units=UNITS)
def test_chains_run_together_are_chains_run_apart(sampler: str, order: str, units: str) -> None:
    model = GLASS.to_units(units)
    common = {"sampler": sampler, "order": order, "n_sweeps": 20, "thin": 5, "seed": 9}
    together = bm.sample(model, n_chains=150, **common)
    for first, n_chains in ((0, 1), (7, 3), (60, 10), (64, 64), (149, 1)):
        apart = bm.sample(model, n_chains=n_chains, first_chain=first, **common)
        assert np.array_equal(apart.states, together.states[:, first : first + n_chains])
        assert np.array_equal(apart.energy, together.energy[:, first : first + n_chains])


def test_chains_of_layered_machines_apart_by_whole_blocks() -> None:
    together = bm.sample(DEEP, n_chains=192, n_sweeps=20, thin=5, seed=9)
    for first in (0, 64, 128):
        apart = bm.sample(DEEP, n_chains=64, first_chain=first, n_sweeps=20, thin=5, seed=9)
        assert np.array_equal(apart.states, together.states[:, first : first + 64])
        assert apart.energy.tobytes() == np.ascontiguousarray(together.energy[:, first : first + 64]).tobytes()


def test_a_temperature_of_many_is_the_temperature_alone() -> None:
    many = bm.sample(GLASS, beta=[0.5, 1.0, 2.0], n_chains=6, n_sweeps=20, seed=2)
    for k, beta in enumerate((0.5, 1.0, 2.0)):
        alone = bm.sample(GLASS, beta=beta, n_chains=2, first_chain=2 * k, n_sweeps=20, seed=2)
        assert np.array_equal(alone.states, many.states[:, 2 * k : 2 * k + 2])


def test_other_seeds_are_other_runs() -> None:
    runs = [bm.sample(GLASS, n_chains=2, n_sweeps=5, seed=seed).states.tobytes() for seed in (0, 1, 2**32, 2**64 + 1)]
    assert len(set(runs)) == 4


# Kills


def sampling(model: bm.BoltzmannMachine, path: Path, **options: Any) -> bm.Run:
    steps = {"n_chains": 70, "n_sweeps": 40_000, "thin": 500, "seed": 3}
    return bm.sample(model, out=path, threads=1, commit_seconds=0, **{**steps, **options})


def comparing(path: Path) -> Any:
    methods = {
        "exact": {"max_forecast_seconds": 1},
        "mean-field": {},
        "ais": {"n_chains": 64, "n_betas": 500},
        "sampled-states": {},
    }
    return bm.compare(machine("layers"), methods, beta=[0.1, 0.3], out=path, threads=1, commit_seconds=0)


def going_on(begin: Callable[[Path], Any]) -> Callable[[Path], None]:
    """Begin a run if there is none, else resume it, and take it to its end."""

    def work(path: Path) -> None:
        try:
            bm.resume(path, threads=1)
        except bm.StorageError as error:
            if "does not exist" not in str(error):
                raise
            begin(path)

    return work


def check(path: Path) -> None:
    """What there is after a kill can be read and is whole."""
    try:
        reader = open_reader(path)
    except bm.StorageError as error:
        assert "does not exist" in str(error)
        return
    run = bm.open(path)
    assert not run.live
    if {"samples/states", "samples/energy"} <= set(reader.streams):
        assert len(run.states) == len(run.energy) == len(run.sweep)
        np.testing.assert_allclose(run.energy, run.model.energy(run.states[:]), atol=1e-8)
    assert str(run.summary())
    machines.close_pools()  # the next child is forked


# so long that most kills hit them
LONGER = {name: {"n_sweeps": 4_000} for name in WORKLOADS if not name.startswith("population")} | {
    name: {"n_chains": 2_000, "n_sweeps": 20} for name in ("population", "population-best")
}
KILLED: dict[str, Callable[[Path], Any]] = {
    "dense": lambda path: sampling(GLASS, path, n_sweeps=4_000, thin=50),
    "dense-metropolis": lambda path: sampling(
        GLASS, path, sampler="metropolis", n_sweeps=2_000, thin=50, beta=[0.5, 1.0]
    ),
    "layered": lambda path: sampling(DEEP, path, n_sweeps=4_000, thin=50),
    "compare": comparing,
    **{
        name: (lambda path, name=name: sample_work(name, path, threads=1, commit_seconds=0, **LONGER.get(name, {})))
        for name in WORKLOADS
    },
    **{name: (lambda path, name=name: learn(name, path, threads=1, commit_seconds=0)) for name in LEARNING},
}
QUICK = ("dense", "newton")


def kill(name: str, n_kills: int, n_lives: int) -> int:
    begin = KILLED[name]
    with crash.memory_folder() as folder:
        begin(folder / "warm.h5")  # kernels are compiled, and modules imported, before a child is forked
        crash.remove_run(folder / "warm.h5")
        machines.close_pools()
        return crash.kill_and_compare(going_on(begin), folder, n_kills=n_kills, n_lives=n_lives, seed=5, check=check)


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
def test_killed_and_resumed(name: str) -> None:
    assert kill(name, n_kills=1, n_lives=3) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLED)
@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
def test_killed_and_resumed_often(name: str) -> None:
    assert kill(name, n_kills=2, n_lives=4) >= 2


QUICKLY_STOPPED = ("pcd", "newton")  # every kind of run is taken apart in the tests of crashes


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICKLY_STOPPED else pytest.mark.slow) for name in LEARNING]
)
@pytest.mark.filterwarnings("ignore:free chains do not mix")
def test_stopped_after_every_epoch_and_on_fewer_threads(name: str, tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.h5", tmp_path / "run.h5"
    learn(name, whole, threads=2)
    run = learn(name, path, threads=1, max_seconds=0.0)
    for _ in range(30):
        if not run.finished:
            run = bm.resume(path, threads=1, max_seconds=0.0)
    assert run.finished, "every resumption must get a block further"
    assert_same_run(whole, path)
