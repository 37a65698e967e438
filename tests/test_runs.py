"""Runs in memory and in files: the same rows, lazily read, resumed, refused, stopped."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crashing
import helpers
import numpy as np
import pytest
from helpers import machine
from hypothesis import given, settings, strategies as st

import fastbm as bm

end_threads = helpers.end_threads

MODEL = machine("general", "spin", offset=0.5)
ROWS = bm.data.bars_and_stripes(3)
LABELS = np.arange(len(ROWS)) % 2


def sample(out: Path | None = None, **options: Any) -> bm.Run:
    return bm.sample(MODEL, **{"n_chains": 5, "n_sweeps": 40, "thin": 3, "out": out, **options})


def fit(out: Path | None = None, **options: Any) -> bm.Run:
    return bm.fit(
        ROWS, **{"n_hidden": 4, "epochs": 5, "batch_size": 7, "n_chains": 9, "samples_every": 2, "out": out, **options}
    )


def l_bfgs(out: Path | None = None, **options: Any) -> bm.Run:
    return bm.fit(ROWS, **{"method": "exact", "l2": 1e-3, "epochs": 30, "holdout": ROWS[:3], "out": out, **options})


def general(out: Path | None = None, **options: Any) -> bm.Run:
    more = {
        "method": "monte-carlo",
        "n_hidden": 3,
        "layout": "general",
        "epochs": 4,
        "n_chains": 8,
        "optimizer": "adam",
    }
    return bm.fit(ROWS, **{**more, "out": out, **options})


def contrastive(out: Path | None = None, **options: Any) -> bm.Run:
    more = {
        "method": "cd",
        "n_hidden": 3,
        "epochs": 4,
        "batch_size": 5,
        "momentum": 0.5,
        "units": "spin",
        "samples_every": 1,
    }
    return bm.fit(2 * ROWS.astype(int) - 1, **{**more, "out": out, **options})


def some_of_the_data(out: Path | None = None, **options: Any) -> bm.Run:
    """One mini-batch an epoch that is not all of the data."""
    return bm.fit(ROWS, **{"method": "pcd", "epochs": 6, "batch_size": 10, "n_chains": 9, "out": out, **options})


LEARNING = (fit, l_bfgs, general, contrastive, some_of_the_data)
ALL = (sample, *LEARNING)


def all_arrays(run: bm.Run) -> dict[str, np.ndarray]:
    """Everything that a run holds but times."""
    found = {
        f"{group}/{name}": array
        for group in ("metrics", "weights", "evaluation")
        for name, array in getattr(run, group).items()
    }
    for name in ("states", "energy", "sweep", "magnetisation"):
        try:
            found[name] = np.asarray(getattr(run, name))
        except AttributeError:
            continue
    return found | {f"model/{k}": array for k, array in run.model.to_arrays().items()}


def assert_same(first: bm.Run, second: bm.Run) -> None:
    one, other = all_arrays(first), all_arrays(second)
    assert sorted(one) == sorted(other)
    for name in one:
        assert one[name].dtype == other[name].dtype, name
        assert one[name].tobytes() == other[name].tobytes(), name


# In memory and in a file


@pytest.mark.parametrize("begin", ALL)
def test_a_run_in_a_file_is_the_run_in_memory(begin: Callable[..., bm.Run], tmp_path: Path) -> None:
    here, there = begin(), begin(tmp_path / "run.h5")
    again = bm.open(tmp_path / "run.h5")
    for run in (there, again):
        assert_same(here, run)
        assert run.config == here.config
        assert run.kind == here.kind
        assert run.finished
        assert not run.live
        assert run.path == tmp_path / "run.h5"
        assert run.converged == here.converged
        drop = lambda s: {k: v for k, v in s.items() if k not in ("file",)}  # noqa: E731
        assert drop(run.summary()) == drop(here.summary())
    assert here.path is None
    assert "in memory" in str(here.summary())
    assert "finished" in repr(again)
    assert [p.name for p in tmp_path.iterdir()] == ["run.h5"]


@pytest.mark.parametrize("method", ["exact", "mean-field", "ais", "sampled-states", "gibbs", "metropolis"])
@pytest.mark.parametrize("clamp", [None, ([0], [1]), ([0, 2], [[1, 1], [-1, 1]])], ids=["free", "one", "many"])
def test_inference_in_a_file_is_inference_in_memory(method: str, clamp: Any, tmp_path: Path) -> None:
    model = machine("layers", scale=0.3)
    options = {} if method in ("exact", "mean-field") else {"n_chains": 32}
    here = bm.infer(model, method, clamp=clamp, **options)
    there = bm.infer(model, method, clamp=clamp, out=tmp_path / "result.h5", **options)
    opened = bm.open(tmp_path / "result.h5")
    for found in (there, opened.inference):
        helpers.assert_same_inference(here, found)
        assert found.seconds > 0
        assert type(found.mean) is np.ndarray
        assert method in str(found)
        assert isinstance(found.detail, dict)
    assert opened.kind == "infer"
    assert opened.converged is True
    assert opened.summary()["cells"] == "1 of 1"


def test_details_come_back_as_they_were(tmp_path: Path) -> None:
    model = machine("layers", scale=0.3)
    here = bm.infer(model, "ais", n_chains=8)
    there = bm.infer(model, "ais", n_chains=8, out=tmp_path / "result.h5")
    assert {k: type(v) for k, v in here.detail.items()} == {k: type(v) for k, v in there.detail.items()}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("ais", {"betas": np.linspace(0, 1, 30) ** 2}),
        ("ais", {"n_betas": np.int64(30)}),
        ("gibbs", {"initial": np.ones(7, int)}),
        ("mean-field", {"tolerance": np.float64(1e-7)}),
    ],
    ids=["path", "numpy-int", "start", "numpy-float"],
)
def test_options_that_are_arrays_go_into_files_too(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = machine("layers", scale=0.3)
    helpers.assert_same_inference(
        bm.infer(model, method, **options), bm.infer(model, method, out=tmp_path / "r.h5", **options)
    )


def test_comparisons_in_a_file(tmp_path: Path) -> None:
    models, methods = (
        {"a": machine("visible"), "b": machine("layers", scale=0.3)},
        {"exact": {}, "gibbs": {"n_sweeps": 200}},
    )
    here, there = (
        bm.compare(models, methods, beta=[0.2, 0.4]),
        bm.compare(models, methods, beta=[0.2, 0.4], out=tmp_path / "c.h5"),
    )
    for found in (there, bm.open(tmp_path / "c.h5").comparison):
        assert [(c.model, c.beta, c.method) for c in found.cells] == [(c.model, c.beta, c.method) for c in here.cells]
        for k in range(len(here)):
            helpers.assert_same_inference(here[k], found[k])
    with pytest.raises(AttributeError, match="'compare' has no one model"):
        _ = bm.open(tmp_path / "c.h5").model


# What a run holds


def test_samples_of_learning_are_the_chains(tmp_path: Path) -> None:
    run = fit(tmp_path / "run.h5")
    assert run.states.shape == (3, 9, 13)  # epochs 2, 4 and the last
    assert set(np.unique(run.states[:])) <= {0, 1}
    with pytest.raises(AttributeError, match=r"'fit' has no energies; its streams are .*samples/states"):
        _ = run.energy
    with pytest.raises(AttributeError, match="'sample' has no results"):
        _ = sample().inference
    with pytest.raises(KeyError, match=r"no metrics 'loss'; it has .*moment_error"):
        run.metrics["loss"]
    assert "moment_error" in repr(run.metrics)


def test_records_come_when_they_are_due() -> None:
    run = fit(epochs=7, weights_every=3, monitor_every=2, samples_every=5)
    assert run.weights["epoch"].tolist() == [2, 5, 6]
    assert run.metrics["step"].tolist() == [1, 3, 5, 6]
    assert len(run.states) == 2
    assert np.array_equal(run.weights["weights"][-1], run.model.weights[0])
    assert "epoch" not in fit(weights_every=0).weights or not len(fit(weights_every=0).weights["epoch"])


def test_the_data_and_the_config_can_be_read_back(tmp_path: Path) -> None:
    run = bm.fit(ROWS, n_hidden=2, epochs=1, labels=LABELS, holdout=ROWS[:2], out=tmp_path / "run.h5")
    again = bm.open(tmp_path / "run.h5")
    assert np.array_equal(again.data["rows"], ROWS)
    assert np.array_equal(again.data["holdout"], ROWS[:2])
    assert np.array_equal(again.data["labels"], LABELS)
    assert again.config["fit"]["method"] == "pcd"
    assert again.config["data"] == {"n_rows": 14, "n_holdout": 2, "source": None}
    assert run.config == again.config


def test_a_run_without_samples(tmp_path: Path) -> None:
    for run in (sample(n_sweeps=0), sample(tmp_path / "run.h5", n_sweeps=2)):
        assert run.finished
        assert run.states.shape == (0, 5, 6)
        assert run.energy.shape == run.magnetisation.shape == (0, 5)
        assert len(run.sweep) == 0
        assert "samples" in run.summary()
        assert not run.converged


def test_temperatures_are_judged_one_by_one() -> None:
    run = sample(beta=[0.1, 0.2, 0.1, 0.2, 0.1], n_sweeps=500)
    assert len(run.r_hat) == 2
    assert run.beta.tolist() == [0.1, 0.2, 0.1, 0.2, 0.1]


# Lazy states


@pytest.fixture(scope="module")
def lazy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, np.ndarray]:
    path = tmp_path_factory.mktemp("lazy") / "run.h5"
    model = bm.models.random_machine(11, units="binary")
    run = bm.sample(model, n_chains=3, n_sweeps=23, out=path)
    return run.states, np.asarray(bm.sample(model, n_chains=3, n_sweeps=23).states)


def index(size: int) -> st.SearchStrategy[Any]:
    edge = st.none() | st.integers(-size - 3, size + 3)
    slices = st.builds(slice, edge, edge, st.none() | st.integers(-4, 4).filter(bool))
    whole = st.integers(-size, size - 1)
    return st.one_of(slices, whole, whole.map(np.int64), st.lists(whole, min_size=1, max_size=4))


ODD_KEYS = [
    ..., (), None, (..., 0), (None, 2), (slice(2, 9), None, 1), (3, ..., [1, 2]), (0, slice(None), [1, 2]), True, False,
]  # fmt: skip
KEYS = st.one_of(
    index(23), st.tuples(index(23)), st.tuples(index(23), st.integers(-3, 2)),
    st.tuples(index(23), st.builds(slice, st.integers(0, 3))),
    st.tuples(st.builds(slice, st.integers(0, 23)), index(3)),
    st.tuples(st.integers(0, 22), index(3), st.integers(0, 10)), st.sampled_from(ODD_KEYS),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(KEYS)
def test_lazy_slices_are_numpy_slices(lazy: tuple[Any, np.ndarray], key: Any) -> None:
    states, whole = lazy
    found = states[key]
    assert np.shape(found) == np.shape(whole[key])
    assert np.array_equal(found, whole[key])
    assert found.dtype == np.int8


def test_lazy_states_act_like_an_array(lazy: tuple[Any, np.ndarray]) -> None:
    states, whole = lazy
    assert (states.shape, states.ndim, states.size, len(states), states.dtype) == (
        whole.shape,
        3,
        whole.size,
        23,
        np.int8,
    )
    assert np.array_equal(np.asarray(states, float), whole)
    assert np.array_equal(2 * states - 1, 2 * whole - 1)
    assert np.array_equal(states == 1, whole == 1)
    assert states.mean() == np.mean(states) == whole.mean()
    assert np.array_equal(states.reshape(-1, 11), whole.reshape(-1, 11))
    assert np.array_equal(np.stack(list(states)), whole)
    assert "(23, 3, 11)" in repr(states)
    for key in (23, -24, 10**6):
        with pytest.raises(IndexError):
            states[key]
    for key in ((0, 3), (slice(None), 0, 11), (0, 0, 0, 0), 1.5, "a"):
        with pytest.raises(IndexError):
            states[key]


# Unfinished runs, and going on


def begin_and_stop(begin: Callable[..., bm.Run], path: Path, **options: Any) -> bm.Run:
    """Begin a run and stop it after its first block."""
    return begin(path, max_seconds=0.0, **options)


@pytest.mark.parametrize("begin", ALL)
def test_stopped_by_the_clock_and_resumed_again_and_again(begin: Callable[..., bm.Run], tmp_path: Path) -> None:
    options = {"n_sweeps": 1_000_000, "thin": 200_000} if begin is sample else {}
    whole, path = tmp_path / "whole.h5", tmp_path / "run.h5"
    begin(whole, **options)
    run = begin_and_stop(begin, path, **options)
    assert not run.finished
    assert not run.live
    assert "unfinished" in repr(run)
    stops = 0
    while not run.finished:
        assert stops < 40, "every resumption must get a block further"
        assert not path.exists()
        assert path.with_name("run.h5.parts").exists()
        assert str(run.summary())
        run = bm.resume(path, max_seconds=0.0)
        stops += 1
    assert stops >= 3
    crashing.assert_same_run(whole, path)
    assert_same(bm.open(whole), run)
    assert bm.resume(path).finished, "there is nothing left to do"
    crashing.assert_same_run(whole, path)


def test_a_live_run_can_be_read(tmp_path: Path) -> None:
    path, seen = tmp_path / "run.h5", []

    def look(task: Any, rows: Any) -> None:
        run = bm.open(path)
        assert run.live
        assert not run.finished
        with pytest.raises(bm.StorageError, match="is being written"):
            bm.resume(path)
        with pytest.raises(bm.StorageError, match=r"exists|is being written"):
            fit(path)
        seen.append((len(run.metrics["step"]), run))

    fit(path, epochs=6, commit_seconds=0, progress=look)
    counts = [count for count, _ in seen]
    assert counts == sorted(counts)
    first = seen[0][1]
    assert not first.live
    assert len(first.refresh().metrics["step"]) == 6
    assert first.finished
    assert_same(first, fit(epochs=6))


def test_a_run_that_failed_can_be_opened_and_resumed(tmp_path: Path) -> None:
    path, seen = tmp_path / "run.h5", []

    def fail(task: Any, rows: Any) -> None:
        seen.append(rows)
        if len(seen) == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit(path, progress=fail, commit_seconds=0)
    run = bm.open(path)
    assert not run.finished
    assert not run.live
    assert_same(bm.resume(path), fit())


# Signals


def interrupt_at(block: int) -> Callable[[Any, Any], None]:
    """A progress callback that does as Ctrl-C does, once the `block`-th block with rows is there."""
    seen = []

    def progress(task: Any, rows: Any) -> None:
        seen.extend([rows] if rows else [])
        if len(seen) == block:
            signal.raise_signal(signal.SIGINT)

    return progress


@pytest.mark.parametrize("begin", LEARNING)
def test_ctrl_c_stops_a_run_that_can_be_resumed(begin: Callable[..., bm.Run], tmp_path: Path) -> None:
    path, handler = tmp_path / "run.h5", signal.getsignal(signal.SIGINT)
    with pytest.raises(
        bm.Interrupted, match=r"stopped by SIGINT after epoch 2 of .*nothing is lost.*fastbm.resume\("
    ) as caught:
        begin(path, progress=interrupt_at(2))
    assert signal.getsignal(signal.SIGINT) is handler
    assert isinstance(caught.value, KeyboardInterrupt)
    run = caught.value.run
    assert not run.finished
    assert len(run.metrics["step"]) == 2
    with pytest.raises(bm.Interrupted):
        bm.resume(path, progress=interrupt_at(1))
    assert_same(bm.resume(path), begin())


def test_ctrl_c_in_memory_and_in_sampling(tmp_path: Path) -> None:
    options = {"n_sweeps": 1_000_000, "thin": 50_000}
    whole = sample(**options)
    with pytest.raises(bm.Interrupted) as caught:
        sample(progress=interrupt_at(1), **options)
    run = caught.value.run
    assert "resume" not in str(caught.value)
    assert 0 < len(run.energy) < 20
    assert np.array_equal(run.energy, whole.energy[: len(run.energy)])
    with pytest.raises(bm.Interrupted) as caught:
        sample(tmp_path / "run.h5", progress=interrupt_at(1), **options)
    assert caught.value.run.path == tmp_path / "run.h5"
    assert_same(bm.resume(tmp_path / "run.h5"), whole)


def test_ctrl_c_at_the_last_block_is_a_finished_run(tmp_path: Path) -> None:
    assert fit(tmp_path / "run.h5", progress=interrupt_at(6)).finished


def test_a_real_signal_from_outside(tmp_path: Path) -> None:
    """A thread sends it while the run is at work; the run goes on until it comes."""
    with pytest.raises(bm.Interrupted) as caught:
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        timer.start()
        sample(tmp_path / "run.h5", n_sweeps=10**12, thin=10**9)
    timer.join()
    assert not caught.value.run.finished
    assert bm.resume(tmp_path / "run.h5", max_seconds=0.0).finished is False


def test_a_comparison_that_was_stopped_goes_on(tmp_path: Path) -> None:
    path, methods = tmp_path / "c.h5", ["exact", "mean-field", "sampled-states"]
    with pytest.raises(bm.Interrupted) as caught:
        bm.compare(MODEL, methods, out=path, progress=interrupt_at(1))
    assert len(caught.value.run.comparison) == 1
    found, whole = bm.resume(path).comparison, bm.compare(MODEL, methods)
    assert len(found) == 3
    for k in range(3):
        helpers.assert_same_inference(found[k], whole[k])


def test_runs_in_other_threads_leave_signals_alone() -> None:
    found: list[bm.Run] = []
    thread = threading.Thread(target=lambda: found.append(sample()))
    thread.start()
    thread.join()
    assert_same(found[0], sample())


# Refusals


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    sample(path)
    before = path.read_bytes()
    for again in (
        lambda: sample(path),
        lambda: fit(path),
        lambda: bm.infer(MODEL, "exact", out=path),
        lambda: bm.compare(MODEL, ["exact"], out=path),
    ):
        with pytest.raises(bm.StorageError, match=r'run.h5 exists\. Continue it with fastbm.resume\(".*overwrite=True'):
            again()
        assert path.read_bytes() == before
    assert_same(sample(path, seed=2, overwrite=True), sample(seed=2))
    assert bm.infer(MODEL, "exact", out=path, overwrite=True).log_z == bm.infer(MODEL, "exact").log_z
    assert bm.open(path).kind == "infer"


def test_an_unfinished_run_is_not_overwritten_either(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    begin_and_stop(fit, path)
    with pytest.raises(bm.StorageError, match="exists"):
        fit(path)
    assert_same(fit(path, overwrite=True), fit())


def test_foreign_files_are_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "thesis.h5"
    path.write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(bm.StorageError, match=r"thesis.h5"):
            sample(path, overwrite=overwrite)
    assert path.read_text() == "years of work"


@pytest.mark.parametrize("verb", [bm.open, bm.resume])
def test_runs_that_are_not_there_are_named(verb: Callable[[Path], bm.Run], tmp_path: Path) -> None:
    sample(tmp_path / "digits.h5")
    with pytest.raises(bm.StorageError, match=r"digit.h5 does not exist.*digits\.h5"):
        verb(tmp_path / "digit.h5")
    with pytest.raises(bm.StorageError, match="is not a fastbm run"):
        verb(tmp_path)
    MODEL.save(tmp_path / "model.h5")
    with pytest.raises(bm.StorageError, match=r"model\.h5"):
        verb(tmp_path / "model.h5")


@pytest.mark.parametrize(
    ("error", "text", "options"),
    [
        (TypeError, "sample has no argument 'commit_second'. Did you mean 'commit_seconds'", {"commit_second": 3}),
        (TypeError, "sample has no argument 'tau'", {"tau": 3}),
        (ValueError, "commit_seconds must be at least 0", {"commit_seconds": -1.0}),
        (ValueError, "commit_bytes must be at least 0", {"commit_bytes": -1}),
        (ValueError, "compression must be one of 'gzip', 'zstd'", {"compression": "zip"}),
        (TypeError, "out must be a path", {"out": 3}),
    ],
)
def test_bad_storage_is_named(error: type[Exception], text: str, options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(error, match=text):
        sample(**{"out": tmp_path / "run.h5", **options})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{}, {"commit_seconds": -1.0}, {"compression": "zip"}], ids=str)
def test_storage_options_are_checked_in_memory_too(options: dict[str, Any]) -> None:
    if not options:
        assert sample(commit_seconds=1.0, compression="gzip").finished
        return
    with pytest.raises(ValueError, match=next(iter(options))):
        sample(**options)


def test_a_damaged_run_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    begin_and_stop(fit, path, commit_seconds=0)
    first = sorted(path.with_name("run.h5.parts").glob("*.h5"))[0]
    first.write_bytes(first.read_bytes()[:1000])
    for verb in (bm.open, bm.resume):
        with pytest.raises(bm.StorageError, match=r"damaged|not a fastbm"):
            verb(path)


def test_a_run_that_was_moved_still_opens(tmp_path: Path) -> None:
    sample(tmp_path / "run.h5")
    shutil.move(tmp_path / "run.h5", tmp_path / "other.h5")
    assert_same(bm.open(tmp_path / "other.h5"), sample())
    assert_same(bm.open(str(tmp_path / "other.h5")), sample())
