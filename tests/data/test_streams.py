"""Data in every form that `fit` takes: the same bits, and memory that does not grow with rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm.cli import main
from fastbm.data import counting, packing
from fastbm.data.rows import Held, Rows, pack
from fastbm.data.rows_on_disk import Spool
from fastbm.data.sources import Source, read
from fastbm.learning.learners import steps
from fastbm.learning.learners.local_objectives import Patterns
from fastbm.learning.minibatches import distinct
from fastbm.learning.phases import phase
from fastbm.machine.units import BINARY, SPIN
from fastbm.runs.toml.data import arguments
from tests.support.runs import assert_same

METHODS: dict[str, dict[str, Any]] = {
    "lanes": {"method": "pcd", "n_hidden": 5, "epochs": 3, "batch_size": 20},
    "weighed order": {"method": "cd", "n_hidden": 5, "epochs": 3, "batch_size": 20, "optimizer": "adam"},
    "clamped chains": {"method": "monte-carlo", "n_hidden": 2, "layout": "general", "epochs": 2},
    "hidden exact": {"method": "exact", "n_hidden": 2, "epochs": 5},
    "moments": {"method": "mean-field", "epochs": 5},
    "exact": {"method": "exact", "l2": 1e-3, "errors": "fisher"},
    "local": {"method": "pseudolikelihood", "l2": 1e-3, "errors": "bootstrap", "n_resamples": 3, "fidelity": True},
    "formula": {"method": "naive-mean-field", "flip_noise": 0.05},
}


def bits(n_rows: int = 300, n_units: int = 11, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return (generator.random((n_rows, n_units)) < 0.2 + 0.5 * generator.random((n_rows, 1))).astype(np.uint8)


def spooled(up: np.ndarray) -> Rows:
    spool = Spool(-(-up.shape[1] // 8))
    spool.append(pack(up[:3]))
    spool.append(pack(up[3:]))
    spool.close()
    return Rows(spool, up.shape[1])


def blocks_of(up: np.ndarray) -> Iterator[np.ndarray]:
    yield up[:7]
    yield up[7:100].astype(float)
    yield up[100:]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = bits()
        file["spins"] = 2.0 * bits() - 1.0
    return tmp_path


def in_pieces(folder: Path, up: np.ndarray) -> list[str | Path]:
    """Leave rows in files of three kinds; return the list of them."""
    np.save(folder / "p.npy", up[:70])
    np.savez(folder / "p.npz", x=up[70:71])
    with h5py.File(folder / "p.h5", "w") as file:
        file["x"] = up[71:].astype(float)
    return [folder / "p.npy", f"{folder}/p.npz", f"{folder}/p.h5:x"]


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "SHARD_NUMBERS", 440)
    monkeypatch.setattr(counting, "SHARD_ROWS", 40)


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that need not be in memory goes to a file."""
    monkeypatch.setattr(packing, "KEPT", 0)


@pytest.mark.parametrize("make", [Rows.of, spooled])
def test_rows_are_read_like_an_array(make: Any) -> None:
    up = bits()
    rows = make(up)
    assert rows.shape == up.shape
    assert len(rows) == len(up)
    assert rows.complete
    for which in (slice(None), slice(3, 9), slice(290, 400), slice(0, 0), slice(2, 50, 7)):
        assert np.array_equal(rows[which], up[which])
        assert rows.known(which).all()
        assert rows.known(which).shape == up[which].shape
    for indices in (np.array([5, 1, 1, 299]), np.zeros(0, np.int64)):
        assert np.array_equal(rows[indices], up[indices])
    assert np.array_equal(rows[up[:, 0] == 1], up[up[:, 0] == 1])
    assert np.array_equal(np.concatenate([rows[some] for some in rows.blocks(50)]), up)
    weights = np.random.default_rng(1).random(len(up))
    np.testing.assert_allclose(rows.sums(weights), weights @ up, rtol=1e-13)
    assert np.array_equal(rows.sums(), up.sum(axis=0))
    assert rows.digest() == Rows.of(up).digest()
    assert rows.digest() != Rows.of(1 - up).digest()
    assert np.array_equal(rows.chosen(np.array([4, 2]))[:], up[[4, 2]])


@pytest.mark.usefixtures("no_room")
def test_every_form_of_data_is_the_same_rows(folder: Path) -> None:
    up = bits()
    forms: dict[str, tuple[Any, Any]] = {
        "array": (up, BINARY),
        "floats": (up.astype(np.float32), BINARY),
        "bool": (up.astype(bool), BINARY),
        "spins": (2 * up.astype(np.int8) - 1, SPIN),
        "packed": (bm.Packed(np.packbits(up, axis=1, bitorder="little"), 11), BINARY),
        "packed spins": (bm.Packed(np.packbits(up, axis=1, bitorder="little"), 11, units="spin"), SPIN),
        "generator": (blocks_of(up), BINARY),
        "function": (lambda: blocks_of(up), BINARY),
        "file": (f"{folder}/a.h5:x", BINARY),
        "file of spins": (f"{folder}/a.h5:spins", SPIN),
        "source": (Source(f"{folder}/a.h5:spins", threshold=0.0), BINARY),
        "list": (in_pieces(folder, up), BINARY),
        "list of one": ([f"{folder}/a.h5:spins"], SPIN),
    }
    for name, (data, kind) in forms.items():
        rows, told = read(data, None)
        assert told == kind, name
        assert np.array_equal(rows[:], up), name
        assert rows.in_memory == (name in ("array", "floats", "bool", "spins", "packed", "packed spins")), name


def test_a_generator_whose_spins_begin_late_is_told() -> None:
    ones = np.ones((2, 3), np.int8)
    rows, kind = read(iter([ones, -ones]), None)
    assert kind == SPIN
    assert rows[:].tolist() == [[1, 1, 1]] * 2 + [[0, 0, 0]] * 2
    with pytest.raises(ValueError, match="got both -1 and 0"):
        read(iter([ones - 1, -ones]), None)
    with pytest.raises(ValueError, match="data from row 2 on must be -1 or 1"):
        read(iter([-ones, ones - 1]), None)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (lambda: iter([]), "data is empty: no rows came"),
        (lambda: iter([np.ones((2, 3)), np.ones((2, 4))]), "data must have 3 units in every block; got 4"),
        (lambda: iter([np.ones(3)]), "must have shape"),
        (lambda: iter([np.full((2, 3), np.inf)]), "must be finite"),
        (lambda: bm.Packed(np.zeros((2, 2), np.uint8), 20), "packed bits .n_rows, 3. uint8 for 20 units"),
        (lambda: bm.Packed(np.full((2, 2), 255, np.uint8), 11), "bits set beyond unit 10"),
    ],
)
def test_bad_forms_are_named(data: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        bm.fit(data(), method="exact", l2=0.1)


@pytest.mark.parametrize(
    ("error", "text", "options"),
    [
        (TypeError, "data.threshold must be a number; got 'a'", {"threshold": "a"}),
        (ValueError, "data.threshold must be finite; got nan", {"threshold": np.nan}),
        (ValueError, "data.max_rows must be at least 1", {"max_rows": 0}),
        (TypeError, "data.seed must be a whole number; got None", {"seed": None, "holdout": 0.2}),
        (ValueError, "data.held takes the rows that holdout draws, but holdout is 0", {"held": True}),
        (TypeError, "data.held must be True or False", {"held": 1, "holdout": 0.2}),
        (TypeError, "source must be a text or a Path; got 3", {"name": 3}),
        (ValueError, "data.folds cuts the rows.* give both", {"folds": 3}),
        (ValueError, "data.holdout draws .* data.fold takes a block", {"folds": 3, "fold": 0, "holdout": 0.2}),
        (ValueError, "data.folds must be at least 2", {"folds": 1, "fold": 0}),
        (ValueError, "data.fold must be below data.folds, 3, as it counts from 0; got 3", {"folds": 3, "fold": 3}),
    ],
)
def test_bad_sources_are_named(error: type[Exception], text: str, options: dict[str, Any]) -> None:
    with pytest.raises(error, match=text):
        Source(**{"name": "a.h5:x"} | options)


def test_datasets_that_hold_no_numbers_are_named(folder: Path) -> None:
    with h5py.File(folder / "a.h5", "a") as file:
        file["texts"] = np.array([[b"a", b"b"]])
        file["pairs"] = np.zeros((4, 3), dtype=[("a", "i4")])
        file["number"] = 3.0
        file["nothing"] = h5py.Empty("f8")
    for name, error in (("texts", "numbers"), ("pairs", "numbers"), ("number", "shape"), ("nothing", "shape")):
        for source in (Source(f"{folder}/a.h5:{name}"), Source(f"{folder}/a.h5:{name}", threshold=0.5)):
            with pytest.raises((TypeError, ValueError), match=f"a.h5:{name} must .*{error}"):
                source.n_rows()
            with pytest.raises((TypeError, ValueError), match=f"a.h5:{name} must .*{error}"):
                bm.fit(source)
    with pytest.raises(ValueError, match=r"data\.side goes with 'bars-and-stripes' and 'shifter'"):
        bm.fit(Source(f"{folder}/a.h5:x", side=3))
    for objects in (np.array([[0, None]], object), np.array([["0", "1"]]), np.zeros((2, 2), complex)):
        with pytest.raises(TypeError, match="data must be numbers, 0 or 1, or -1 or 1; got dtype"):
            bm.fit(objects)


def test_texts_in_files_are_labels(folder: Path) -> None:
    with h5py.File(folder / "a.h5", "a") as file:
        file["fixed"] = np.array([b"no", b"yes"] * 150)
        file["texts"] = ["no", "yes"] * 150
    for labels in ([b"no", b"yes"] * 150, f"{folder}/a.h5:fixed", f"{folder}/a.h5:texts"):
        run = bm.fit(f"{folder}/a.h5:x", method="exact", epochs=1, l2=0.1, labels=labels, out=folder / "run.h5",
                     overwrite=True)  # fmt: skip
        assert run.data["labels"].tolist() == ["no", "yes"] * 150
        assert bm.open(folder / "run.h5").data["labels"].tolist() == ["no", "yes"] * 150
    for bad in (np.array([None, 1] * 150, object), np.zeros(300, "M8[D]")):
        with pytest.raises(TypeError, match="labels must be numbers or texts"):
            bm.fit(f"{folder}/a.h5:x", method="exact", epochs=1, l2=0.1, labels=bad)
    with pytest.raises(ValueError, match="holdout_labels are those of held-out rows: give holdout too"):
        bm.fit(bits(), holdout_labels=[1])
    with pytest.raises(TypeError, match="classify must be a dict of options"):
        bm.fit(bits(), labels=np.arange(300) % 2, holdout=bits(), holdout_labels=np.arange(300) % 2, classify=True)


def test_the_likelihood_reads_a_path(folder: Path) -> None:
    model = bm.BoltzmannMachine(np.zeros((11, 11)), np.linspace(-1, 1, 11), units="binary")
    expected = bm.log_likelihood(model, bits()).mean
    assert bm.log_likelihood(model, folder / "a.h5:x").mean == expected


def test_labels_in_a_run_file_fit_the_source(folder: Path) -> None:
    with h5py.File(folder / "a.h5", "a") as file:
        file["labels"], file["column"], file["few"] = np.arange(300), np.arange(300)[:, None], np.arange(20)
        file["table"], file["nothing"] = np.arange(300).reshape(2, 150), h5py.Empty("f8")
    table = {"source": f"{folder}/a.h5:x", "holdout": 0.25}
    for name in ("labels", "column"):
        found = arguments(table | {"labels": f"{folder}/a.h5:{name}"}, seed=0)
        assert sorted([*found["labels"], *found["holdout_labels"]]) == list(range(300))
        found = arguments(table | {"labels": f"{folder}/a.h5:{name}", "max_rows": 20}, seed=0)
        assert sorted([*found["labels"], *found["holdout_labels"]]) == list(range(20))
    assert len(arguments(table | {"labels": f"{folder}/a.h5:few", "max_rows": 20}, seed=0)["labels"]) == 15
    with h5py.File(folder / "a.h5", "a") as file:
        file["short"] = bits(20)
    for source, labels in (("x", "few"), ("short", "labels")):
        with pytest.raises(ValueError, match=r"data\.labels must have one entry for each row of source"):
            arguments({"source": f"{folder}/a.h5:{source}", "labels": f"{folder}/a.h5:{labels}"}, seed=0)
    for name in ("table", "nothing"):
        with pytest.raises(ValueError, match=f"{name} must have one entry for each row; got shape"):
            arguments(table | {"labels": f"{folder}/a.h5:{name}"}, seed=0)


@pytest.mark.parametrize("options", METHODS.values(), ids=list(METHODS))
@pytest.mark.usefixtures("no_room", "small_shards")
def test_a_file_gives_the_bits_of_an_array(folder: Path, options: dict[str, Any]) -> None:
    first = bm.fit(bits(), holdout=bits(40, seed=1), seed=3, **options)
    with h5py.File(folder / "a.h5", "a") as file:
        file["held"] = bits(40, seed=1)
    for data in (f"{folder}/a.h5:x", blocks_of(bits()), in_pieces(folder, bits())):
        second = bm.fit(data, holdout=f"{folder}/a.h5:held", seed=3, **options)
        assert_same(first, second)


@pytest.mark.usefixtures("no_room")
def test_a_run_goes_on_with_rows_that_stayed_where_they_were(folder: Path) -> None:
    options: dict[str, Any] = {"method": "pcd", "n_hidden": 4, "epochs": 6, "batch_size": 50, "merge": False}
    whole = bm.fit(bits(), **options)
    out = folder / "run.h5"

    def begin(data: Any) -> None:
        assert not bm.fit(data, out=out, overwrite=True, max_seconds=0.0, **options).finished

    begin(f"{folder}/a.h5:x")
    assert "data/rows" not in bm.open(out)._reader.inputs
    assert_same(whole, bm.resume(out))

    begin(f"{folder}/a.h5:x")
    (folder / "a.h5").rename(folder / "b.h5")
    with pytest.raises(bm.StorageError, match=r"a.h5 does not exist.*pass resume\(..., data=...\)"):
        bm.resume(out)
    with pytest.raises(ValueError, match="data holds other rows than those that the run began with"):
        bm.resume(out, data=1 - bits())
    assert_same(whole, bm.resume(out, data=f"{folder}/b.h5:x"))

    begin(Source(f"{folder}/b.h5:spins", threshold=0.0))
    (folder / "b.h5").rename(folder / "c.h5")
    main_resumes(out, "--data", f"{folder}/c.h5:spins")
    assert_same(whole, bm.open(out))
    (folder / "c.h5").rename(folder / "b.h5")

    begin(blocks_of(bits()))
    with pytest.raises(ValueError, match=r"data came from a generator.*resume\(..., data=...\)"):
        bm.resume(out)
    assert_same(whole, bm.resume(out, data=blocks_of(bits())))

    (folder / "b.h5").rename(folder / "a.h5")
    begin(f"{folder}/a.h5:x")
    with h5py.File(folder / "a.h5", "a") as file:
        file["x"][5, 5] ^= 1
    with pytest.raises(bm.StorageError, match=r"a.h5:x holds other rows than those that the run began with"):
        bm.resume(out)
    with h5py.File(folder / "a.h5", "a") as file:
        file.move("x", "y")
    with pytest.raises(bm.StorageError, match=r"a.h5 has no 'x'.*pass resume\(..., data=...\)"):
        bm.resume(out)
    assert_same(whole, bm.resume(out, data=bits()))


def main_resumes(out: Path, *options: str) -> None:
    with pytest.raises(SystemExit) as left:
        main(["resume", str(out), "-q", *options])
    assert not left.value.code


def test_data_that_the_run_holds_are_not_to_be_given_again(tmp_path: Path) -> None:
    run = bm.fit(bits(), method="pcd", n_hidden=2, epochs=4, out=tmp_path / "a.h5", max_seconds=0.0)
    assert not run.finished
    with pytest.raises(ValueError, match="data is not needed: the run holds all that it needs"):
        bm.resume(tmp_path / "a.h5", data=bits())


def test_rows_that_are_all_different_are_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.learning.minibatches.MOST_NUMBERS", 200)
    up = bits(500, 30)
    found, shares = distinct(up)
    assert shares is None
    assert np.array_equal(found[:], up)
    monkeypatch.setattr("fastbm.learning.learners.local_objectives.MOST_NUMBERS", 200)
    kept, streamed = Patterns(up, SPIN), Patterns(spooled(up), SPIN)
    assert np.array_equal(kept.correlations(), streamed.correlations())
    for k in range(kept.n_blocks):
        for one, other in zip(kept.block(k), streamed.block(k), strict=True):
            assert np.array_equal(one, other)
        for one, other in zip(kept.words(k), streamed.words(k), strict=True):
            assert np.array_equal(one, other)
    total = sum(block.weights.sum() for block in map(kept.block, range(kept.n_blocks)))
    assert total == pytest.approx(1.0)
    values = np.concatenate(
        [values[:, weights.ravel() > 0] for _, values, weights in map(kept.block, range(kept.n_blocks))], axis=1
    )
    assert np.array_equal(values.T, SPIN.values(up))
    assert isinstance(kept._rows.table, Held)


@pytest.mark.parametrize(
    ("kind", "weighed"), [("general", True), pytest.param("restricted", False, marks=pytest.mark.slow)]
)
def test_many_rows_are_averaged_in_parts(kind: str, weighed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"n_hidden": 2, "layout": kind, "epochs": 3, "evaluate": "none", "seed": 1}
    options["row_weights"] = np.random.default_rng(0).random(300) if weighed else None
    for method in ({"method": "exact"}, {"method": "pcd", "batch_size": 300, "clamped": "exact", "optimizer": "adam"}):
        whole = bm.fit(bits(), **method, **options).model
        with monkeypatch.context() as changed:
            changed.setattr(phase, "PART_NUMBERS", 500)
            changed.setattr(steps, "PART_NUMBERS", 500)
            cut = bm.fit(bits(), **method, **options).model
        for one, other in zip(whole.couplings.arrays, cut.couplings.arrays, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-6)  # moments of lanes and layers are float32


SCRIPT = """
import resource, sys
import fastbm as bm
options = {options}
bm.fit(sys.argv[1], evaluate="none", **options)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"method": "pcd", "n_hidden": 20, "epochs": 1},
        {"method": "mean-field", "epochs": 2},
        {"method": "pseudolikelihood", "epochs": 3},
        {"method": "monte-carlo", "n_hidden": 3, "epochs": 1, "n_sweeps": 1, "clamped_sweeps": 1},
        {"method": "exact", "n_hidden": 2, "epochs": 2, "n_starts": 1},
    ],
    ids=lambda options: options["method"],
)
@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, options: dict[str, Any]) -> None:
    peaks = []
    for n_blocks in (2, 20):
        path = tmp_path / f"{n_blocks}.h5"
        with h5py.File(path, "w") as file:
            rows = file.create_dataset("x", (n_blocks * 50_000, 100), np.uint8, chunks=(4096, 100))
            for k in range(n_blocks):
                rows[k * 50_000 : (k + 1) * 50_000] = bits(50_000, 100, seed=k)
        command = [sys.executable, "-c", SCRIPT.format(options=options), f"{path}:x"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] < peaks[0] + 60, peaks  # MB; bits alone of the larger set are 100 MB as bytes
