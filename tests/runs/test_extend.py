"""A finished run that goes on past its end is the run that was longer from the start."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import cli
from fastbm.report import tables
from tests.store.crash import operations
from tests.support import crash, machines, store
from tests.support.runs import MODEL, ROWS, begin_and_stop, fit, sample

tmp_path = store.tmp_path

slow = pytest.mark.slow
SPINS = bm.models.ising((4, 4))
DEEP = {"n_hidden": [4, 3], "method": "monte-carlo", "pretrain_epochs": 1, "batch_size": 7, "n_chains": 9}
WATCHED = {"monitor_every": 3, "weights_every": 4, "samples_every": 3, "holdout": ROWS[:4]}


def up(states: np.ndarray) -> np.ndarray:
    return (states > 0).mean(axis=1)


SAMPLED: dict[str, dict[str, Any]] = {
    "thin that does not divide": {"thin": 4, "burn_in": 5, "observables": ["magnetisation", "overlap"], "n_chains": 6},
    "best states": {"keep": "best", "k": 5, "burn_in": 0},
    "until is not met, clamped": {"until": {"ess": 1e9}, "burn_in": 0, "clamp": ([1, 3], [1, -1])},
    "burn-in that settled": {"burn_in": "auto", "beta": 0.0, "n_chains": 8},
    "no burn-in, metropolis": {"sampler": "metropolis", "burn_in": 2, "beta": [0.2, 0.4], "n_chains": 4},
    "logarithmic times": {"thin": "log", "n_chains": 4},
    "tempering": {"sampler": "tempering", "betas": [0.2, 0.6, 1.0], "burn_in": 4, "swap_every": 3, "n_chains": 2},
}
SIMILAR = ("best states", "no burn-in, metropolis", "burn-in that settled", "contrastive divergence")  # to others
SLOWLY_SAMPLED: dict[str, dict[str, Any]] = {
    "exact": {"sampler": "exact", "burn_in": 0},
    "lookup of ladders": {"sampler": "tempering", "betas": [0.2, 0.6], "burn_in": 4, "kernel": "lookup", "n_chains": 3},
    "cluster": {"sampler": "tempering", "betas": [0.2, 0.6], "burn_in": 4, "cluster": True, "n_chains": 4},
    "wolff": {"sampler": "wolff", "burn_in": 5},
    "swendsen-wang": {"sampler": "swendsen-wang", "burn_in": 5},
    "multispin": {"kernel": "multispin", "burn_in": 5, "n_chains": 64},
    "best of tempering": {"sampler": "tempering", "betas": [0.2, 1.0], "keep": "best", "k": 9, "n_chains": 3},
}
LEARNED: dict[str, dict[str, Any]] = {
    "pcd, watched": {**WATCHED, "momentum": 0.5, "patience": 40, "until": {"moment_error": 1e-9}},
    "contrastive divergence": {
        "method": "cd",
        "n_hidden": 3,
        "optimizer": "adam",
        "monitor_every": 50,
        "weights_every": 0,
    },
}
NEWTON = {"method": "exact", "l2": 1e-2, "tolerance": 1e-9, **WATCHED, "samples_every": 0}
SLOWLY_LEARNED: dict[str, dict[str, Any]] = {
    "sgd": {"method": "exact", "optimizer": "sgd", "errors": "fisher", "monitor_every": 2},
    "l-bfgs with hidden units": {"method": "exact", "l2": 1e-2, "n_hidden": 2, "n_starts": 1},
    "phases": {**WATCHED, "centring": True, "optimizer": "adam"},
    "auto": {"free": "auto", **WATCHED, "fidelity": True},
    "tempering": {"free": "tempering", "n_betas": 3, "samples_every": 2},
    "monte-carlo": {"method": "monte-carlo", "n_hidden": 3, "layout": "general", "n_chains": 8, "monitor_every": 3},
    "mean-field": {"method": "mean-field", "n_hidden": 3, "monitor_every": 4, "weights_every": 3},
    "pseudo-likelihood": {"method": "pseudolikelihood", "l2": 1e-3, "tolerance": 1e-14},
    "ais": {"ais_every": 3, "evaluate": "ais", **WATCHED},
    "deep": {**DEEP, **WATCHED},
    "missing entries": {"missing": True, "monitor_every": 3},
    "bootstrap": {
        "method": "pseudolikelihood",
        "l2": 1e-2,
        "tolerance": 1e-14,
        "errors": "bootstrap",
        "n_resamples": 3,
    },
}


def sampled(n: int, out: Path | None = None, **options: Any) -> bm.Run:
    model = (
        SPINS if options.get("sampler") in ("wolff", "swendsen-wang") or {"kernel", "cluster"} & set(options) else MODEL
    )
    return bm.sample(model, n_sweeps=n, out=out, **{"n_chains": 5, "seed": 3, **options})


def learned(n: int, out: Path | None = None, *, missing: bool = False, **options: Any) -> bm.Run:
    usual = {"n_hidden": 4, "batch_size": 7, "n_chains": 9} if "method" not in options else {}
    rows = np.where(np.random.default_rng(1).random(ROWS.shape) < 0.1, np.nan, ROWS) if missing else ROWS
    return bm.fit(rows, epochs=n, out=out, **{"threads": 1, **usual, **options})


CASES = [
    *(
        pytest.param(sampled, o, "n_sweeps", 211, 389, id=name, marks=[slow] if name in SIMILAR else [])
        for name, o in SAMPLED.items()
    ),
    *(pytest.param(sampled, o, "n_sweeps", 21, 32, id=name, marks=slow) for name, o in SLOWLY_SAMPLED.items()),
    *(
        pytest.param(learned, o, "epochs", 4, 10, id=name, marks=[slow] if name in SIMILAR else [])
        for name, o in LEARNED.items()
    ),
    pytest.param(learned, NEWTON, "epochs", 1, 4, id="newton"),
    *(pytest.param(learned, o, "epochs", 4, 10, id=name, marks=slow) for name, o in SLOWLY_LEARNED.items()),
]


def assert_same_memory(one: bm.Run, other: bm.Run) -> None:
    """Compare spec, state and all rows that do not tell of clocks."""
    a, b = one._reader, other._reader
    assert a.spec == b.spec and a.finished and b.finished
    assert sorted(a.state) == sorted(b.state)
    assert all(a.state[name].tobytes() == b.state[name].tobytes() for name in a.state)
    for name in a.streams:
        if not name.startswith("meta/"):
            assert a.read(name).tobytes() == b.read(name).tobytes(), name


@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
@pytest.mark.parametrize(("begin", "options", "count", "n", "longer"), CASES)
def test_an_extended_run_is_the_longer_one(
    begin: Callable[..., bm.Run], options: dict[str, Any], count: str, n: int, longer: int, tmp_path: Path
) -> None:
    begin(longer, tmp_path / "long.h5", **options)
    path = tmp_path / "run.h5"
    begin(n, path, **options)
    assert bm.extend(path, **{count: 1}).finished
    found = bm.extend(str(path), **{count: longer - n - 1})
    crash.assert_same_run(tmp_path / "long.h5", path)
    assert found.finished and not (tmp_path / "run.h5.parts").exists()

    kept = tmp_path / "parts.h5"
    run = begin(n, kept, merge=False, **options)
    for k in range(3):
        bm.extend(run, max_seconds=0.0, **{count: (longer - n) // 3 + (k < (longer - n) % 3)})
        bm.resume(kept)
    assert bm.verify(kept).sound
    in_parts = bm.open(kept)
    whole = bm.open(path)
    for name in whole._reader.streams:
        if not name.startswith("meta/"):
            assert in_parts._reader.read(name).tobytes() == whole._reader.read(name).tobytes(), name
            assert in_parts._reader.read(name, 1, None, 3).tobytes() == whole._reader.read(name, 1, None, 3).tobytes()
    bm.merge(kept)
    crash.assert_same_run(tmp_path / "long.h5", kept)


def test_a_gradient_that_vanishes_just_before_the_last_epoch(tmp_path: Path) -> None:
    """That learning had ended is known again after a resume: what is kept for an extension is the same, or nothing."""
    options: dict[str, Any] = {"method": "exact", "l2": 1e-2}
    whole, path = tmp_path / "whole.h5", tmp_path / "run.h5"
    stopped_at = int(learned(300, **options)._reader.state["n_epochs"])
    for epochs in (stopped_at, stopped_at + 1, stopped_at + 2):
        learned(epochs, whole, overwrite=True, **options)
        run = learned(epochs, path, max_seconds=0.0, overwrite=True, **options)
        while not run.finished:
            run = bm.resume(path, max_seconds=0.0)
        crash.assert_same_run(whole, path)


@pytest.mark.parametrize(("begin", "count", "n", "longer"), [(sampled, "n_sweeps", 21, 50), (learned, "epochs", 4, 7)])
def test_a_run_in_memory_stays_and_a_longer_one_comes_back(
    begin: Callable[..., bm.Run], count: str, n: int, longer: int
) -> None:
    options: dict[str, Any] = {"burn_in": 2, "thin": 4} if begin is sampled else WATCHED
    run, again = begin(n, **options), begin(n, **options)
    found = bm.extend(bm.extend(run, **{count: 1}), **{count: longer - n - 1})
    assert_same_memory(found, begin(longer, **options))
    assert_same_memory(run, again)


def test_functions_and_rows_are_given_again(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    sampled(40, tmp_path / "long.h5", burn_in=3, observables={"up": up})
    sampled(20, path, burn_in=3, observables={"up": up})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="up"):
        bm.extend(path, n_sweeps=20)
    assert path.read_bytes() == before and not (tmp_path / "run.h5.parts").exists()
    bm.extend(path, n_sweeps=20, observables={"up": up})
    crash.assert_same_run(tmp_path / "long.h5", path)


def test_what_was_stopped_or_is_written_is_not_extended(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    begin_and_stop(fit, path)
    before = {one.name: one.read_bytes() for one in (tmp_path / "run.h5.parts").iterdir() if one.name != "lock"}
    with pytest.raises(bm.StorageError, match=r"is not finished \(\d+ blocks\)\. Resume it to its end, then extend it"):
        bm.extend(path, epochs=2)
    assert before == {one.name: one.read_bytes() for one in (tmp_path / "run.h5.parts").iterdir() if one.name != "lock"}

    def look(*arguments: Any) -> None:
        with pytest.raises(bm.StorageError, match="is being written by pid"):
            bm.extend(path, epochs=1)

    assert bm.resume(path, progress=look).finished
    assert bm.extend(path, epochs=1, progress=look).finished  # two at once: one is refused
    with pytest.raises(bm.StorageError, match="does not exist"):
        bm.extend(tmp_path / "gone.h5", epochs=1)
    stopped = sample(max_seconds=0.0, n_sweeps=10**9)
    with pytest.raises(bm.StorageError, match=r"not finished.*in memory cannot be resumed.*out=PATH"):
        bm.extend(stopped, n_sweeps=1)


REFUSED: dict[str, tuple[Callable[..., bm.Run], dict[str, Any], str]] = {
    "annealing": (
        lambda **o: bm.sample(MODEL, sampler="annealing", betas=[0.1, 1.0], n_chains=4, n_sweeps=8, **o),
        {"n_sweeps": 2},
        r"sampler='annealing' has an end of its own, .*n_sweeps=8\. Begin a longer one: sample\(\.\.\., n_sweeps=10\)",
    ),
    "population annealing": (
        lambda **o: bm.sample(MODEL, sampler="population-annealing", n_chains=40, n_sweeps=2, **o),
        {"n_sweeps": 2},
        "sampler='population-annealing' has an end of its own",
    ),
    "until was met": (
        lambda **o: bm.sample(MODEL, until={"ess": 1.0}, n_chains=8, n_sweeps=500, burn_in=0, beta=0.1, **o),
        {"n_sweeps": 2},
        "its stopping rule, until=.*was met after sweep 382",
    ),
    "burn-in did not settle": (
        lambda **o: bm.sample(MODEL, burn_in="auto", n_chains=8, n_sweeps=5, **o),
        {"n_sweeps": 2},
        "its burn-in did not settle within n_sweeps",
    ),
    "no sample is ever taken": (
        lambda **o: bm.sample(MODEL, n_chains=4, n_sweeps=0, thin=5, **o),
        {"n_sweeps": 3},
        "thin must be at most n_sweeps, or no sample is ever taken; got thin=5 and n_sweeps=3",
    ),
    "more than can be counted": (
        lambda **o: bm.sample(MODEL, n_chains=4, n_sweeps=2, **o),
        {"n_sweeps": (1 << 53) - 1},
        f"n_sweeps must be at most {1 << 53}; got {(1 << 53) + 1}",
    ),
    "learning rate falls": (
        lambda **o: fit(schedule="cosine", **o),
        {"epochs": 3},
        r"schedule='cosine' .* epochs=5, .* Begin a longer one: fit\(\.\.\., epochs=8\)",
    ),
    "climbs are cut short": (
        lambda **o: bm.fit(ROWS, method="exact", n_hidden=1, l2=1e-3, epochs=5, **o),
        {"epochs": 3},
        r"n_starts=8 climbs share epochs=5, so that a longer run .* Begin a longer one: fit\(\.\.\., epochs=8\)",
    ),
    "gradient vanished": (
        lambda **o: bm.fit(ROWS, method="exact", l2=1.0, epochs=300, **o),
        {"epochs": 3},
        r"learning stopped by itself after epoch \d+ of 300, as there was nothing left to gain",
    ),
    "until of learning": (
        lambda **o: fit(until={"moment_error": 100.0}, **o),
        {"epochs": 3},
        "learning stopped by itself after epoch 1 of 5, as until was met",
    ),
    "formula": (
        lambda **o: bm.fit(ROWS, method="tap", flip_noise=0.05, **o),
        {"epochs": 3},
        r"is a formula, which knows no epochs\.$",
    ),
    "infer": (lambda **o: bm.infer(MODEL, "exact", **o), {"n_sweeps": 3}, "this is one of infer, .* with infer"),
    "sweeps of fit": (fit, {"n_sweeps": 3}, r"n_sweeps goes with another kind .* one of fit\. Say epochs"),
    "nothing": (fit, {}, "say how much longer"),
    "none": (fit, {"epochs": 0}, "epochs must be at least 1; got 0"),
    "rows that are there": (fit, {"epochs": 1, "data": ROWS}, "data is not needed"),
}


@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_runs_that_would_be_others_are_refused_and_stay(name: str, tmp_path: Path) -> None:
    begin, options, text = REFUSED[name]
    path = tmp_path / "run.h5"
    begin(out=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=text):
        bm.extend(path, **options)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["run.h5"]


def kill_and_go_on(begin: Callable[..., bm.Run], count: str, merge: bool, n_kills: int) -> int:
    """Kill an extension at file operations, go on, compare; return how many kills came before its end."""
    n_hits = 0
    with crash.memory_folder() as folder:
        whole, path = folder / "whole.h5", folder / "run.h5"
        begin(9, whole, commit_seconds=0.0)
        begin(4, path, commit_seconds=0.0, merge=merge)
        shutil.copytree(folder, folder / "kept")

        def prepare() -> None:
            crash.remove_run(path)
            shutil.copytree(folder / "kept", folder, dirs_exist_ok=True)

        def act() -> None:
            bm.extend(path, threads=1, **{count: 5})

        machines.close_pools()
        n_operations = len(operations.operations_of(act))
        for number in sorted({n_operations * k // n_kills for k in range(n_kills)}):
            prepare()
            machines.close_pools()
            code = operations.kill_at(act, number, torn=True)
            assert code in (0, -signal.SIGKILL)
            n_hits += code != 0
            found = bm.open(path)
            if found.config[found.kind][count] == 4:
                assert found.finished, "the run that was finished is still there"
                bm.extend(path, threads=1, **{count: 5})
            else:
                bm.resume(path, threads=1)
            if not merge:
                bm.merge(path)
            crash.assert_same_run(whole, path)
    return n_hits


def watched(n: int, out: Path, **storage: Any) -> bm.Run:
    return learned(n, out, **WATCHED, **storage)


def thinned(n: int, out: Path, **storage: Any) -> bm.Run:
    return sampled(n, out, burn_in=2, threads=1, **storage)


@pytest.mark.parametrize("merge", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_extensions_that_are_killed_go_on(merge: bool) -> None:
    assert kill_and_go_on(watched, "epochs", merge, n_kills=3) >= 1


@slow
@pytest.mark.parametrize(("begin", "count", "merge"), [(watched, "epochs", True), (thinned, "n_sweeps", False)])
def test_extensions_that_are_killed_at_every_file_operation_go_on(
    begin: Callable[..., bm.Run], count: str, merge: bool
) -> None:
    assert kill_and_go_on(begin, count, merge, n_kills=30) >= 10


def test_what_is_no_run_and_what_a_handle_tells_after_an_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in (None, 3, MODEL):
        with pytest.raises(TypeError, match="run must be a path or a Run; got"):
            bm.extend(wrong, epochs=1)  # type: ignore[arg-type]
    for options in ({"exact": "no"}, {"observables": ["magnetisation"]}, {"stop": len}):
        with pytest.raises(TypeError, match=f"{next(iter(options))} must be"):
            bm.extend(sample(), n_sweeps=1, **options)
        with pytest.raises(TypeError, match=f"{next(iter(options))} must be"):
            bm.resume(begin_and_stop(sample, tmp_path / f"{next(iter(options))}.h5").path, **options)
    monkeypatch.chdir(tmp_path)
    fit(Path("run.h5"))
    seen = bm.open("run.h5")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    fit(Path("run.h5"))
    bm.extend(seen, epochs=2)
    assert seen.refresh().config["fit"]["epochs"] == len(seen.metrics["step"]) == 7
    assert bm.open("run.h5").config["fit"]["epochs"] == 5
    fit(tmp_path / "run.h5", overwrite=True)
    with pytest.raises(bm.StorageError, match="is another run than it was when it was opened"):
        bm.extend(seen, epochs=2)


def call(*words: Any) -> Any:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return left.value.code


def test_the_command_line_extends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tables, "draw_picture", lambda run, path: path)  # it takes most of the time
    fit(Path("long.h5"), epochs=8)
    fit(Path("run.h5"))
    assert call("resume", "run.h5", "--extend", 3, "-q") == 0
    crash.assert_same_run(Path("long.h5"), Path("run.h5"))
    assert "nothing left" not in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(tables, "open_run", lambda path: signal.raise_signal(signal.SIGTERM))
        assert call("resume", "run.h5", "--extend", 2, "-q") == 3
    assert capsys.readouterr().err.endswith("Go on with: fastbm resume run.h5 --extend 2\n")
    sample(Path("s.h5"))
    assert call("resume", "s.h5", "--extend", 20, "-q") == 0
    assert bm.open("s.h5").config["sample"]["n_sweeps"] == 60
    assert call("resume", "s.h5", "--extend", 0) == 2
    assert "--extend must be at least 1; got 0." in capsys.readouterr().err
    bm.infer(MODEL, "exact", out="i.h5")
    assert call("resume", "i.h5", "--extend", 2) == 2
    assert "extend goes with runs of sample and fit" in capsys.readouterr().err
