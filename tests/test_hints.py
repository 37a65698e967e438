"""What refusals tell a user to write, and inputs of other kinds that are taken as they are meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from tests.support.machines import calm

MODEL = bm.models.curie_weiss(4)
ROWS = np.array([[0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 1]])
UPPER = np.triu(np.ones((3, 3)), 1)


@pytest.mark.parametrize("weights", [UPPER, UPPER.T, scipy.sparse.csr_array(UPPER), scipy.sparse.csr_array(UPPER.T)])
def test_a_triangular_matrix_is_not_told_to_halve_its_couplings(weights: Any) -> None:
    with pytest.raises(ValueError, match=r"It is triangular: pass W \+ W\.T, ") as refused:
        bm.BoltzmannMachine(weights)
    assert "/ 2" not in str(refused.value)
    assert bm.BoltzmannMachine(weights + weights.T).n_units == 3


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_other_matrices_are_told_to_take_the_mean(kind: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"Pass \(W \+ W\.T\) / 2 to symmetrise"):
        bm.BoltzmannMachine(kind(UPPER + 0.5 * UPPER.T))


INVERSE = "beta = 1 / temperature"
UNTIDY: Any = bm  # for calls that no type checker lets pass


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (INVERSE, lambda: bm.sample(MODEL, temperature=2.0)),
        (INVERSE, lambda: bm.sample(MODEL, T=2.0)),
        (INVERSE, lambda: bm.infer(MODEL, "exact", temperature=2.0)),
        (INVERSE, lambda: bm.compare(MODEL, ["exact"], T=2.0)),
        (INVERSE, lambda: bm.fit(ROWS, temperature=2.0)),
        ("Reads are chains here: n_chains", lambda: bm.sample(MODEL, num_reads=10)),
        ("Reads are chains here: n_chains", lambda: bm.infer(MODEL, "gibbs", num_reads=10)),
        ("set n_sweeps", lambda: bm.sample(MODEL, n_samples=10)),
        ("fit(rows, init=model", lambda: UNTIDY.fit(MODEL, ROWS)),
        ("fit(rows, init=model", lambda: bm.fit(MODEL)),
        ("model=run.model", lambda: bm.infer(run())),
        ("model=run.model", lambda: bm.log_likelihood(run(), ROWS)),
        ("model=run.model", lambda: bm.transform(run(), ROWS)),
        ("model=run.model", lambda: bm.fidelity(run(), ROWS)),
        ("init=run.model", lambda: bm.fit(ROWS, init=run())),
        ('infer(model, "exact")', lambda: bm.infer(MODEL)),
        ("BoltzmannMachine(weights, bias)", lambda: UNTIDY.sample(np.zeros((3, 3)))),
        ("BoltzmannMachine(weights, bias)", lambda: UNTIDY.sample(scipy.sparse.csr_array(np.zeros((3, 3))))),
        ("fastbm.load(path)", lambda: UNTIDY.sample("model.h5")),
    ],
)
def test_refusals_say_what_to_write(text: str, call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        call()


def run() -> Any:
    return calm(bm.sample, MODEL, n_chains=2, n_sweeps=2)


def learn(data: Any) -> np.ndarray:
    return calm(bm.fit, data, method="mean-field", epochs=2).model.flat_bias


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "coo_array"])
def test_sparse_rows_are_filled(kind: str) -> None:
    rows = getattr(scipy.sparse, kind)(ROWS)
    assert np.array_equal(learn(rows), learn(ROWS))
    model = bm.models.random_machine(3, units="binary", seed=1)
    assert bm.log_likelihood(model, rows).mean == bm.log_likelihood(model, ROWS).mean
    assert np.array_equal(learn(scipy.sparse.csr_array(2 * ROWS - 1)), learn(2 * ROWS - 1))


class Nullable:
    """As a table of pandas with nullable columns shows itself to NumPy."""

    def __init__(self, cells: list[list[Any]]) -> None:
        self.cells = np.array(cells, dtype=object)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.cells if dtype is None else self.cells.astype(dtype)

    def to_numpy(self, dtype: Any, na_value: Any) -> np.ndarray:
        return np.where(self.cells == None, na_value, self.cells).astype(dtype)  # noqa: E711


def test_nullable_columns_are_numbers_with_gaps() -> None:
    assert np.array_equal(learn(Nullable(ROWS.astype(bool).tolist())), learn(ROWS))
    missing = Nullable([[None, 1, 1], *ROWS[1:].tolist()])
    known = np.where([[True, False, False]] + [[False] * 3] * 3, np.nan, ROWS)
    found, expected = (calm(bm.fit, rows, method="exact", l2=0.1, epochs=3) for rows in (missing, known))
    assert np.array_equal(found.model.flat_bias, expected.model.flat_bias)


def test_a_file_with_one_array_needs_no_name(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "one.mat", "w") as file:
        file["spikes"] = ROWS
    np.savez(tmp_path / "one.npz", spikes=ROWS)
    np.savez(tmp_path / "two.npz", spikes=ROWS, times=np.arange(4))
    for name in ("one.mat", "one.npz"):
        assert np.array_equal(learn(str(tmp_path / name)), learn(ROWS))
        assert np.array_equal(bm.data.load(str(tmp_path / name)).rows, ROWS)
    with pytest.raises(ValueError, match=r"holds several arrays: name one, as in '.*two\.npz:spikes'.*spikes, times"):
        learn(str(tmp_path / "two.npz"))


def test_folders_are_no_files(tmp_path: Path) -> None:
    folder = tmp_path / "folder.h5"
    folder.mkdir()
    calls: list[Callable[[], Any]] = [
        lambda: bm.load(folder),
        lambda: bm.open(folder),
        lambda: bm.fit(f"{folder}:rows"),
        lambda: bm.models.from_rudy(folder),
        lambda: bm.BoltzmannClassifier.load(folder),
        lambda: MODEL.save(folder, overwrite=True),
        lambda: bm.sample(MODEL, n_sweeps=2, out=folder, overwrite=True),
    ]
    for call in calls:
        with pytest.raises(bm.StorageError, match="is a folder"):
            call()
    with pytest.raises(bm.StorageError, match=r"Name the file in it that BoltzmannMachine\.save wrote"):
        bm.load(folder)
    bm.sample(MODEL, n_sweeps=2, out=folder / "r.h5", merge=False)
    with pytest.raises(bm.StorageError, match=r"is fastbm\.open\('.*\.parts'\)\.model"):
        bm.load(folder / "r.h5.parts")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.h5"]
