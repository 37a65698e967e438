"""Rows in lists of files: they stay there, are counted in shards, and a run goes on with them."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.cli import main
from fastbm.data import counting
from fastbm.data.rows import Rows
from fastbm.data.shards import Listed, read_in_shards
from fastbm.data.sources import Source, read
from tests.data import test_streams
from tests.data.test_streams import bits, in_pieces
from tests.support.runs import assert_same

folder, small_shards, no_room = test_streams.folder, test_streams.small_shards, test_streams.no_room


@pytest.mark.parametrize(
    "options",
    [{}, {"threshold": 0.5}, {"max_rows": 99}, {"folds": 5, "fold": 1}, {"folds": 9, "fold": 3, "held": True},
     {"holdout": 0.3, "seed": 4}],
)  # fmt: skip
@pytest.mark.usefixtures("no_room", "small_shards")
def test_rows_of_a_list_of_files_stay_there_and_are_counted_in_shards(folder: Path, options: dict[str, Any]) -> None:
    names = in_pieces(folder, bits())
    whole, kind = read(Source(names, **options), None)
    with ThreadPoolExecutor(2) as pool:
        for executor in (None, pool):
            rows, told = read_in_shards(Source(names, **options), None, "data", executor)
            assert told == kind and isinstance(rows.table, Listed)
            assert np.array_equal(rows.together, whole[:].astype(int).T @ whole[:])
            assert np.array_equal(rows.sums(), whole[:].sum(axis=0))
            assert np.array_equal(rows[:], whole[:]) and rows.shape == whole.shape
            some = np.array([5, 1, len(whole) - 1, 1])
            assert np.array_equal(rows[some], whole[some])
            assert np.array_equal(rows[70:75], whole[70:75])
    other, _ = read_in_shards(Source([f"{folder}/a.h5:x"], **options), None, "data", None)
    assert other.digest() == rows.digest()  # however the rows lie in files
    assert pickle.loads(pickle.dumps(rows)).digest() == rows.digest()
    at_hand = Rows.of(whole[:])
    with ThreadPoolExecutor(2) as pool:
        counting.count_by_workers(at_hand, pool)
    assert np.array_equal(at_hand.together, rows.together)


@pytest.mark.usefixtures("no_room", "small_shards")
def test_what_does_not_fit_in_a_list_is_named(folder: Path) -> None:
    up = bits()
    np.save(folder / "wide.npy", up[:, :4])
    np.save(folder / "spins.npy", 2 * up.astype(np.int8) - 1)
    np.save(folder / "some.npy", up[:280])
    np.save(folder / "twos.npy", 2 * up)
    np.save(folder / "gaps.npy", np.where(np.arange(300)[:, None] == 7, np.nan, up)[6:])
    for names, error in (
        (["a.h5:x", "wide.npy"], "wide.npy must have 11 units, as .*a.h5:x has; got 4"),
        (["some.npy", "spins.npy"], "got both -1 and 0, the first -1 after row 280"),
        (["a.h5:x", "spins.npy"], "data from row 280 on must be -1 or 1"),
        (["a.h5:x", "twos.npy"], r"data from row \d+ on must be 0 or 1 \(binary units\); got 2"),
        (["gaps.npy", "a.h5:x"], "at least one known entry in each row; 1 row has none, the first is row 1"),
    ):
        with pytest.raises(ValueError, match=error):
            bm.fit([f"{folder}/{name}" for name in names], "exact", l2=0.1)
    with pytest.raises(bm.StorageError, match=r"none\.npy does not exist"):
        bm.fit([folder / "none.npy"], "exact")
    with pytest.raises(ValueError, match=r"data\.side goes with the name of one set"):
        Source(["a.npy"], side=3)


@pytest.mark.usefixtures("no_room", "small_shards")
def test_a_run_goes_on_with_a_list_of_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"method": "mean-field", "epochs": 6, "merge": False}
    names, out = in_pieces(folder, bits()), folder / "run.h5"
    whole = bm.fit(bits(), **options)
    monkeypatch.chdir(folder)
    assert not bm.fit([Path(name).name for name in map(str, names)], out=out, max_seconds=0.0, **options).finished
    monkeypatch.chdir("/")
    run = bm.open(out)
    assert "rows" not in run.data and run._reader.inputs["data/rows_together"].dtype == np.uint32
    assert_same(whole, bm.resume(out))
    assert run.config["data"]["source"].endswith("p.npy and 2 more")
    assert not bm.fit(names, out=out, overwrite=True, max_seconds=0.0, **options).finished
    (folder / "p.npz").rename(folder / "q.npz")
    with pytest.raises(bm.StorageError, match=r"p.npz does not exist.*pass resume"):
        bm.resume(out)
    with ThreadPoolExecutor(2) as pool:
        assert_same(whole, bm.resume(out, data=[names[0], folder / "q.npz", names[2]], executor=pool))


def test_a_run_file_may_list_its_sources(folder: Path) -> None:
    in_pieces(folder, bits())
    out = folder / "run.h5"
    text = f"""
[data]
source = ["{folder}/p.npy", "{folder}/p.npz", "{folder}/p.h5:x"]
folds = 3
fold = 2
[fit]
method = "exact"
l2 = 0.01
[store]
out = "{out}"
"""
    (folder / "run.toml").write_text(text)
    with pytest.raises(SystemExit) as left:
        main(["run", str(folder / "run.toml"), "-q"])
    assert not left.value.code
    assert_same(bm.open(out), bm.fit(bits()[:200], "exact", holdout=bits()[200:], l2=0.01))
