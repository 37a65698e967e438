"""Data sets by name and from files, as they came, and what is said of those that cannot be read."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import fastbm as bm
from fastbm.data import datasets
from fastbm.data.sources import read
from fastbm.runs.toml.data import arguments
from tests.support import machines


@pytest.mark.parametrize("side", [1, 2, 3, 4, 5])
def test_bars_and_stripes_are_all_distinct_and_all_there(side: int) -> None:
    rows = datasets.bars_and_stripes(side)
    assert rows.shape == (max(2, 2 * 2**side - 2), side * side)
    assert len(np.unique(rows, axis=0)) == len(rows)
    pictures = rows.reshape(-1, side, side)
    bars = (pictures == pictures[:, :, :1]).all(axis=(1, 2))
    stripes = (pictures == pictures[:, :1, :]).all(axis=(1, 2))
    assert np.all(bars | stripes)
    assert bars.sum() == stripes.sum() == 2**side


@pytest.mark.parametrize("side", [2, 3, 8])
def test_the_shifter_shifts(side: int) -> None:
    rows, labels = datasets.shifter(side)
    assert rows.shape == (3 * 2**side, 2 * side + 3)
    assert np.unique(labels, return_counts=True)[1].tolist() == [2**side] * 3
    for row, label in zip(rows, labels, strict=True):
        assert np.array_equal(np.roll(row[:side], label), row[side : 2 * side])
        assert row[2 * side :].tolist() == [int(label == shift) for shift in (-1, 0, 1)]


def test_named_sets() -> None:
    assert np.array_equal(datasets.load("bars-and-stripes", side=3).rows, datasets.bars_and_stripes(3))
    assert datasets.load("bars-and-stripes").labels is None
    found = datasets.load("shifter", side=3)
    assert np.array_equal(found.rows, datasets.shifter(3)[0])
    assert np.array_equal(found.labels, datasets.shifter(3)[1])


def test_digits() -> None:
    pytest.importorskip("sklearn")
    found = datasets.load("sklearn:digits")
    assert found.rows.shape == (1797, 64)
    assert found.labels.shape == (1797,)


@pytest.mark.parametrize("source", ["a.h5:again", "a.h5:/again", "a.h5:soft", "a.h5:with:colon", "b:c/a.npy"])
def test_links_and_colons_in_names(folder: Path, source: str) -> None:
    with h5py.File(folder / "a.h5", "a") as file:
        file["again"] = file["spikes"]  # one dataset by two names
        file["soft"] = h5py.SoftLink("/spikes")
        file["with:colon"] = file["spikes"][...]
    (folder / "b:c").mkdir()
    np.save(folder / "b:c" / "a.npy", np.load(folder / "a.npy"))
    assert np.array_equal(datasets.load(f"{folder}/{source}").rows, np.arange(12).reshape(4, 3) % 2)
    assert datasets.load(f"{folder}/a.h5:spikes").rows.shape == (4, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = np.arange(12).reshape(4, 3) % 2
    np.save(tmp_path / "a.npy", rows)
    np.savez(tmp_path / "a.npz", spikes=rows, other=rows[:2])
    for name in ("a.h5", "a.mat", "a.hdf5"):
        with h5py.File(tmp_path / name, "w") as file:
            file["spikes"] = rows
            file["deep/inside/spikes"] = rows[:1]
    (tmp_path / "text.h5").write_text("no HDF5")
    np.save(tmp_path / "o.npy", rows.astype(object))
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.npz").write_text("no archive")
    return tmp_path


@pytest.mark.parametrize(
    "source", ["a.npy", "a.npz:spikes", "a.h5:spikes", "a.mat:spikes", "a.hdf5:spikes", "a.h5:/spikes"]
)
def test_files(folder: Path, source: str) -> None:
    found = datasets.load(f"{folder}/{source}")
    assert np.array_equal(found.rows, np.arange(12).reshape(4, 3) % 2)
    assert found.labels is None
    assert datasets.load(f"{folder}/a.h5:deep/inside/spikes").rows.shape == (1, 3)


def test_the_neurons() -> None:
    rows = datasets.load(f"{machines.data_file('example15.mat')}:spikes15").rows
    assert rows.shape == (40000, 15)
    assert rows.mean() == pytest.approx(0.114, abs=5e-4)


def test_fit_reads_a_file_by_name_and_remembers_it(folder: Path) -> None:
    run = bm.fit(f"{folder}/a.npz:spikes", method="exact", l2=0.1)
    assert run.config["data"]["source"].endswith("a.npz:spikes")
    assert np.array_equal(run.data["rows"], np.arange(12).reshape(4, 3) % 2)


@pytest.mark.parametrize(
    ("error", "text", "source"),
    [
        (ValueError, "source must be 'sklearn:digits', 'bars-and-stripes', .*got 'a.csv'", "a.csv"),
        (ValueError, "source must be", "bars_and_stripes"),
        (bm.StorageError, r"nowhere.h5 does not exist \(source = .*nowhere.h5:x", "{folder}/nowhere.h5:x"),
        (bm.StorageError, "text.h5 is not an HDF5 file", "{folder}/text.h5:x"),
        (
            ValueError,
            "a.h5 has no 'spike'. Did you mean 'spikes'.*It holds: .*deep/inside/spikes",
            "{folder}/a.h5:spike",
        ),
        (ValueError, "a.h5 has no 'deep'", "{folder}/a.h5:deep"),
        (
            ValueError,
            "a.npz has no 'spikess'. Did you mean 'spikes'.*It holds: spikes, other",
            "{folder}/a.npz:spikess",
        ),
        (ValueError, "a.npz holds several arrays: name one.*It holds: spikes, other", "{folder}/a.npz"),
        (ValueError, "source must be", "{folder}/a.npy:spikes"),
        (bm.StorageError, "o.npy is not a NumPy file of numbers", "{folder}/o.npy"),
        (bm.StorageError, "empty.npy is not a NumPy file of numbers", "{folder}/empty.npy"),
        (bm.StorageError, "text.npz is not a NumPy file of numbers", "{folder}/text.npz:x"),
    ],
)
def test_what_cannot_be_read_is_named(folder: Path, error: type[Exception], text: str, source: str) -> None:
    with pytest.raises(error, match=text):
        datasets.load(source.format(folder=folder))


@pytest.mark.parametrize("name", ["rows.h5:rows", "rows.npz", "rows.nwb"])
def test_files_that_are_damaged_within_are_named(tmp_path: Path, name: str) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (500, 8))
    path = tmp_path / name.partition(":")[0]
    if path.suffix == ".npz":
        np.savez_compressed(path, rows=rows)
        n_name, n_extra = np.frombuffer(path.read_bytes()[26:30], "<u2")
        place = 30 + int(n_name) + int(n_extra)
    else:
        with h5py.File(path, "w") as file:
            file["units/spike_times_index"] = [500]
            for key in ("rows", "units/spike_times"):
                kept = file.create_dataset(key, data=rows[:, 0] if key != "rows" else rows, compression="gzip")
                if key == "rows" or path.suffix == ".nwb":
                    place = kept.id.get_chunk_info(0).byte_offset
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\x07" * 8)  # no deflated block begins so
    with pytest.raises(bm.StorageError, match=rf"{path.name} is (damaged: HDF5|not a NumPy file)"):
        if path.suffix == ".nwb":
            bm.data.from_spike_times(str(path), 1.0)
        else:
            read(f"{tmp_path}/{name}", None)


@pytest.mark.parametrize(("function", "least"), [(datasets.bars_and_stripes, 1), (datasets.shifter, 2)])
def test_sides_are_checked(function, least: int) -> None:
    with pytest.raises(ValueError, match=f"side must be at least {least}"):
        function(least - 1)
    with pytest.raises(TypeError, match="side must be a whole number"):
        function(2.0)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.floats(0, 0.99), st.integers(0, 5))
def test_a_split_is_a_partition_that_leaves_something_to_learn_from(n_rows: int, holdout: float, seed: int) -> None:
    kept, held = datasets.split(n_rows, holdout, seed)
    assert sorted([*kept, *held]) == list(range(n_rows))
    assert np.all(np.diff(kept) > 0)
    assert np.all(np.diff(held) > 0)
    assert len(kept) > 0
    assert abs(len(held) - holdout * n_rows) <= 1
    again = datasets.split(n_rows, holdout, seed)
    assert np.array_equal(kept, again[0])


@pytest.mark.parametrize(
    ("text", "holdout"), [("holdout must be below 1; got 1", 1.0), ("holdout must be at least 0", -0.1)]
)
def test_bad_splits_are_named(text: str, holdout: float) -> None:
    with pytest.raises(ValueError, match=text):
        datasets.split(10, holdout, 0)


@pytest.mark.parametrize(
    ("error", "text", "rows"),
    [
        (ValueError, r"data must have shape \(n_rows, n_units\); got \(3,\)", [0, 1, 0]),
        (TypeError, r"data must be rows: an array of .*; got None \(NoneType\)", None),
        (TypeError, r"data must be rows: an array of .*; got 0.2 \(float\)", 0.2),
        (TypeError, r"data must be rows: an array of .*; got \{'a': \[0, 1\]\} \(dict\)", {"a": [0, 1]}),
        (ValueError, r"data must have shape \(n_rows, n_units\); got \(0,\)", []),
        (ValueError, r"data is empty: shape \(0, 4\)", np.zeros((0, 4))),
        (ValueError, r"data is empty: shape \(4, 0\)", np.zeros((4, 0))),
        (ValueError, "data must be 0 or 1 .*got 0.5 at .*Binarise", [[0.5, 1.0]]),
        (ValueError, "data must be finite; got inf in row 1, unit 0", [[0.0, 1.0], [np.inf, 1.0]]),
        (ValueError, "data must have at least one known entry in each row; 1 row has none", [[0.0, 1.0], [np.nan] * 2]),
        (ValueError, "data must be -1 or 1 .*got 0 at .*Binarise|data must be -1 or 1 .*got 0 at", [[-1, 0, 1]]),
        (TypeError, "data must be numbers", [["0", "1"]]),
        (ValueError, "data must be an array with rows of equal length", [[0, 1], [0]]),
    ],
)
def test_bad_rows_are_named(error: type[Exception], text: str, rows: object) -> None:
    with pytest.raises(error, match=text):
        bm.fit(rows, method="exact")


def test_data_in_the_other_units_are_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"data must be -1 or 1 .*They look like binary units: pass 2 \* x - 1"):
        bm.fit([[0, 1]], method="exact", units="spin")
    with pytest.raises(ValueError, match=r"data must be 0 or 1 .*They look like spin units: pass \(s \+ 1\) // 2"):
        bm.fit([[-1, 1]], method="exact", units="binary")
    assert bm.fit([[-1, 1], [1, 1]], method="exact", l2=0.1, l2_bias=0.1).model.units == "spin"
    assert bm.fit([[0, 1], [1, 1]], method="exact", l2=0.1, l2_bias=0.1).model.units == "binary"
    assert (
        bm.fit(np.array([[True, False], [False, False]]), method="exact", l2=0.1, l2_bias=0.1).model.units == "binary"
    )


def test_folds_are_blocks_that_cover_the_rows_once(tmp_path: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 2, (300, 5), np.uint8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["labels"] = bits, np.arange(300)
    held = []
    for fold in range(7):
        found = arguments(
            {"source": f"{tmp_path}/a.h5:x", "labels": f"{tmp_path}/a.h5:labels", "folds": 7, "fold": fold}, seed=0
        )
        (rows, _), (out, _) = read(found["data"], None), read(found["holdout"], None)
        assert np.array_equal(rows[:], bits[found["labels"]])
        assert np.array_equal(out[:], bits[found["holdout_labels"]])
        assert sorted([*found["labels"], *found["holdout_labels"]]) == list(range(300))
        held += found["holdout_labels"].tolist()
    assert held == list(range(300))
    for bad, error in (
        ({"folds": 301, "fold": 0}, "at most the number of rows, 300"),
        ({"fold": 0}, "give both"),
        ({"folds": 2, "fold": 0, "holdout_source": "a.h5:x"}, "data.folds takes held-out rows of"),
    ):
        with pytest.raises(ValueError, match=error):
            arguments({"source": f"{tmp_path}/a.h5:x", **bad}, seed=0)
