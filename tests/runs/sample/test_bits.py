"""Every sampler gives the same bytes for any number of threads, and wherever it is stopped."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.runs.sample import pace as blocks
from fastbm.sampling import samplers
from tests.support import crash
from tests.support.machines import calm
from tests.support.samples import GLASS, WORKLOADS, work

# the others' states are taken apart in the tests of crashes, with every kind of run
QUICK = ("gibbs", "houdayer", "population", "wolff", "exact-clamped")
ONE_OF_ALL = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in WORKLOADS]


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few sweeps, whatever their time."""
    monkeypatch.setattr(blocks.Pace, "count", 20)


def interrupt_at(block: int) -> Callable[[Any, Any], None]:
    left = [block]

    def progress(task: Any, rows: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)

    return progress


def test_every_sampler_has_a_workload() -> None:
    assert {own.get("sampler", "gibbs") for _, own in WORKLOADS.values()} == set(samplers.SAMPLERS)


@pytest.mark.parametrize("name", ONE_OF_ALL)
def test_stops_at_random_points_and_threads_do_not_matter(name: str, tmp_path: Path, short_blocks: None) -> None:
    whole, path, chance = tmp_path / "whole.h5", tmp_path / "run.h5", random.Random(name)
    n_blocks = []
    work(name, whole, threads=2, progress=lambda task, rows: n_blocks.append(task.progress))
    begin: Callable[..., bm.Run] = lambda **options: work(name, path, threads=1, **options)  # noqa: E731
    n_stops = 0
    for _ in range(5):
        try:
            run = begin(progress=interrupt_at(chance.randint(1, max(2, len(n_blocks) // 4))))
        except bm.Interrupted as stopped:
            n_stops += 1
            assert not stopped.run.finished
            assert str(stopped.run.summary())
            begin = lambda **options: calm(bm.resume, path, threads=1, **options)  # noqa: E731
            continue
        break
    else:
        run = begin()
    assert run.finished
    assert n_stops >= 1
    crash.assert_same_run(whole, path)


@pytest.mark.parametrize("name", ONE_OF_ALL)
def test_blocks_that_are_broken_off_are_done_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_blocks: None
) -> None:
    """All blocks count as long, and every third one is broken off after all of its work."""
    whole, path = tmp_path / "whole.h5", tmp_path / "run.h5"
    work(name, whole)
    monkeypatch.setattr(blocks, "LONG_SECONDS", 0.0)
    do, count = blocks.Breakable.block, [0]

    @contextmanager
    def fickle(task: blocks.Breakable, n: int, pace: blocks.Pace) -> Iterator[None]:
        count[0] += 1
        with do(task, n, pace):
            yield
            if count[0] % 3 == 0:
                raise blocks.Halted

    monkeypatch.setattr(blocks.Breakable, "block", fickle)
    work(name, path)
    crash.assert_same_run(whole, path)
    assert count[0] > 3


@pytest.mark.parametrize("name", ["gibbs", "metropolis", "tempering", "annealing", "wolff", "swendsen-wang"])
def test_two_halves_are_the_whole(name: str) -> None:
    model, own = WORKLOADS[name]
    options = {"n_sweeps": 60, "seed": 5, **own, "beta": 0.8 if "beta" not in own else np.atleast_1d(own["beta"])[-1]}
    both = calm(bm.sample, model, n_chains=8, **options)
    halves = [calm(bm.sample, model, n_chains=4, first_chain=first, **options) for first in (0, 4)]
    for array in ("states", "energy"):
        joined = np.concatenate([getattr(half, array) for half in halves], axis=1)
        assert joined.tobytes() == np.asarray(getattr(both, array)).tobytes()


def test_two_halves_of_ladders_with_cluster_moves_and_of_clamped_chains() -> None:
    options: dict[str, Any] = {
        "sampler": "tempering", "betas": [0.3, 1.0], "cluster": True, "n_sweeps": 30,
        "clamp": ([0, 7], [[1, 1], [1, -1]]),
    }  # fmt: skip
    both = calm(bm.sample, GLASS, n_chains=8, **options)
    for first, pattern in ((0, [1, 1]), (4, [1, -1])):
        half = calm(bm.sample, GLASS, n_chains=4, first_chain=first, **{**options, "clamp": ([0, 7], pattern)})
        assert np.array_equal(half.states, both.states[:, first : first + 4])


@pytest.mark.parametrize("own", [{"beta": 1.5}, {"keep": "best", "beta": None, "observables": ()}], ids=str)
def test_what_was_chosen_is_not_chosen_again(
    own: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.h5"
    whole = work("tempering", tmp_path / "whole.h5", **own)
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 1e-4)
    work("tempering", path, max_seconds=0.0, **own)

    def never(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a choice was made on resume")

    for place in (
        "settings.choose_kernel", "tempering.energy_profile", "tempering.equal_steps", "annealing.resolve_schedule",
        "resolve.own_betas", "resolve.hot_beta",
    ):  # fmt: skip
        monkeypatch.setattr(f"fastbm.sampling.{place}", never)
    monkeypatch.setattr("fastbm.sampling.chains.choose_kernel", never)
    again = calm(bm.resume, path)
    assert again.config == whole.config
    assert again.config["sample"]["kernel"] == "sparse"
    assert again.config["sample"]["betas"][-1] == again.config["sample"]["beta"][0]
    crash.assert_same_run(tmp_path / "whole.h5", path)
