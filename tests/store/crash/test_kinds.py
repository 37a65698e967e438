"""Every kind of run, stopped or killed after any block, ends as if it had not been."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastbm as bm
from fastbm import learning
from fastbm._base.checks import StorageError
from fastbm.campaigns import attempts
from fastbm.exact.choice import ENGINES
from fastbm.inference.methods import METHODS
from fastbm.learning import make as drivers
from fastbm.learning.learners.protocol import Driver
from fastbm.learning.methods import OF_MONITOR, OF_RULES, PRESETS
from fastbm.learning.optimise.sgd import OPTIMIZERS
from fastbm.learning.rules import CLAMPED, ERRORS, FREE
from fastbm.sampling.arguments import KEEP, LIMITS
from fastbm.sampling.engine.choice import KERNELS
from fastbm.sampling.engine.orders import ORDERS
from fastbm.sampling.exact import ENGINES as DRAWING_ENGINES
from fastbm.sampling.observables import NAMED
from fastbm.sampling.samplers import OWN, SAMPLERS
from tests.store.crash import kinds_work
from tests.support import crash, machines, pace
from tests.support.run_kinds import COMPARING, INFERRING, KINDS, LEARNING, SAMPLING, STOPPED_BY_THE_CLOCK

pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
IN_FILES = ("gibbs-best", "pcd", "infer-blocks-clamped", "compare_rules")


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(attempts, "MOST_DEATHS", 1 << 30)  # kills that are no cell's fault
    with pace.short_blocks():
        yield


@pytest.mark.parametrize("name", KINDS)
def test_taken_apart_after_every_block_a_run_has_the_same_rows(name: str) -> None:
    check(name)


def check(name: str) -> None:
    """Compare a run that is built anew after every block with one that is not."""
    make = kinds_work.maker(KINDS[name])
    (whole, n_blocks), (found, n_found) = kinds_work.at_once(make), kinds_work.piecemeal(make)
    assert n_found == n_blocks
    assert sorted(found) == sorted(whole)
    for stream in whole:
        assert found[stream] == whole[stream], stream


def stop_and_resume(name: str, folder: Path) -> int:
    """Stop a run in a file after every block; return how often that was."""
    kind, whole, path = KINDS[name], folder / "whole.h5", folder / "run.h5"
    kind.begin(whole)
    if kind.verb in STOPPED_BY_THE_CLOCK:
        kind.begin(path, max_seconds=0.0)
    else:
        with pytest.raises(ZeroDivisionError):
            kind.begin(path, progress=lambda task, rows: 1 / 0)
    n_stops = 1
    while not path.exists():
        assert n_stops < kinds_work.MOST_BLOCKS, "every resumption must get a block further"
        kind.resume(path, max_seconds=0.0, threads=1 + n_stops % 2)
        n_stops += 1
    crash.assert_same_run(whole, path)
    return n_stops


@pytest.mark.parametrize("name", IN_FILES)
def test_stopped_after_every_block_a_run_in_a_file_ends_the_same(name: str, folder: Path) -> None:
    assert stop_and_resume(name, folder) > 2


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KINDS if name not in IN_FILES])
def test_stopped_after_every_block_any_run_in_a_file_ends_the_same(name: str, folder: Path) -> None:
    assert stop_and_resume(name, folder) >= 1


def going_on(name: str) -> crash.Work:
    """The workload of a kind of run: begun if it is not there, else resumed."""
    kind = KINDS[name]

    def work(path: Path) -> None:
        with pace.committed_blocks():
            try:
                kind.resume(path)
            except StorageError as error:
                if "does not exist" not in str(error):
                    raise
                kind.begin(path)

    return work


def kill(name: str, folder: Path, n_kills: int, n_lives: int, n_states: int = 1) -> None:
    """Kill a run at random instants, until enough kills came in time."""
    work = going_on(name)

    def look(path: Path) -> int:
        try:
            return int(bm.store.open_reader(path).n_blocks)
        except StorageError as error:
            assert "does not exist" in str(error)
            return -1

    work(folder / "warm.h5")  # kernels are compiled, and modules imported, before a child is forked
    crash.remove_run(folder / "warm.h5")
    machines.close_pools()
    lives = {"n_kills": n_kills, "n_lives": n_lives}
    assert crash.kill_and_compare(work, folder, check=look, n_states=n_states, **lives) >= n_kills


@pytest.mark.parametrize(
    ("name", "n_kills", "n_lives"),
    [
        ("gibbs", 2, 2),
        # up to n - 1 kills a run: all but the first while it resumes
        *(pytest.param(name, 25, n, marks=pytest.mark.slow) for name in ("gibbs", "pcd-visible") for n in (2, 5)),
        *(pytest.param(name, 500, 3, marks=pytest.mark.long) for name in ("gibbs", "pcd-visible")),
    ],
)
def test_killed_at_random_instants(name: str, n_kills: int, n_lives: int, folder: Path) -> None:
    kill(name, folder, n_kills, n_lives, n_states=min(3, n_kills))


@pytest.mark.parametrize("n_kills", [pytest.param(1, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", KINDS)
def test_any_kind_killed_at_random_instants(name: str, n_kills: int, folder: Path) -> None:
    kill(name, folder, n_kills, 4)


# Is every kind there?


def options(kinds: dict[str, Any], name: str, default: Any = None) -> set[Any]:
    """All values of an option among some kinds."""
    values = (kind.options.get(name, default) for kind in kinds.values())
    return {value for value in values if isinstance(value, str)}


def test_every_way_to_sample_is_a_kind() -> None:
    assert options(SAMPLING, "sampler", "gibbs") == set(SAMPLERS)
    assert options(SAMPLING, "kernel") == set(KERNELS)
    assert options(SAMPLING, "order", "sequential") == set(ORDERS)
    assert options(SAMPLING, "keep", "all") == set(KEEP)
    assert options(SAMPLING, "engine") == set(DRAWING_ENGINES)
    found = {name for kind in SAMPLING.values() for name in kind.options.get("observables", ())}
    assert found >= set(NAMED)
    assert {name for kind in SAMPLING.values() for name in kind.options.get("until", ())} == set(LIMITS)
    given = {name for kind in SAMPLING.values() for name in kind.options}
    how_not_what = {"seed", "max_forecast_seconds", "max_gigabytes", "threads", "out", "overwrite", "max_seconds"}
    left_out = (set(bm.sample.__kwdefaults__) | OWN) - given - how_not_what - {"progress", "stop", "executor"}
    assert left_out <= {"lowest_beta", "target_ess"}, "numbers alone"


def test_every_way_to_infer_is_a_kind() -> None:
    assert options(INFERRING, "method") == {*METHODS, "auto"}
    assert options(INFERRING, "engine") == set(ENGINES)
    assert {kind.verb for kind in COMPARING.values()} == {"compare", "compare_rules"}


def test_every_way_to_learn_is_a_kind() -> None:
    found = {name for kind in LEARNING.values() for name in kinds_work.drivers_of(kinds_work.maker(kind))}
    assert {"Steps", "RestrictedSteps"} <= driver_classes()
    assert options(LEARNING, "method", "pcd") == set(PRESETS)
    assert options(LEARNING, "errors") == set(ERRORS)
    assert options(LEARNING, "optimizer", "sgd") >= set(OPTIMIZERS)
    assert found >= driver_classes()
    phases = {phase.__name__ for phase in (*CLAMPED.values(), *FREE.values(), *drivers.CLAMPED_WITH_GAPS.values())}
    assert found >= phases
    given = {name for kind in LEARNING.values() for name in kind.options}
    how_not_what = {"seed", "threads", "out", "overwrite", "max_seconds", "progress", "stop", "executor"}
    left_out = (set(bm.fit.__kwdefaults__) | {*OF_RULES, *OF_MONITOR}) - given - how_not_what - {"monitor"}
    assert left_out <= {"beta", "l2_bias", "ridge", "tolerance", "ais_start"}, "numbers alone"


def driver_classes() -> set[str]:
    """Every class of fastbm.learning that does epochs, but for the protocol and what others are made from."""
    found = set()
    for module in pkgutil.walk_packages(learning.__path__, "fastbm.learning."):
        for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if callable(getattr(one, "epoch", None)) and one is not Driver:
                found.add(one)
    return {one.__name__ for one in found if not any(other in found for other in one.__subclasses__())}
