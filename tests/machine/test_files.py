"""Files of machines: whole or not there, and a bit that turned is told."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm._base.checks import StorageError
from fastbm.machine.file import load
from tests.support.hostile import CRAFTS, pointers

MODEL = bm.BoltzmannMachine(np.array([[0.0, 0.291], [0.291, 0.0]]), [0.5, -0.25])


def test_every_bit_counts(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    MODEL.save(path)
    whole = path.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 60).astype(int):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        with pytest.raises(StorageError, match=r"m\.h5"):
            load(path)
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(StorageError, match=r"m\.h5"):
            load(path)


def test_older_files_have_no_checksum_and_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    with h5py.File(path, "w") as file:
        file.attrs.update({"format": "fastbm model", "kind": "dense", "units": "spin", "n_hidden": 0})
        for name, array in MODEL.to_arrays().items():
            file[name] = array
    assert np.array_equal(load(path).bias, MODEL.bias)


@pytest.mark.parametrize("craft", CRAFTS, ids=lambda craft: craft.__name__)
def test_crafted_files_are_not_read(craft: object, tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    MODEL.save(path)
    with h5py.File(path, "r+") as file:  # which drops the seal, and that it had one
        del file.attrs["sealed"]
        craft(file, "bias", tmp_path)  # type: ignore[operator]
    with pytest.raises(StorageError, match=CRAFTS[craft]):  # type: ignore[index]
        load(path)


def test_a_file_that_is_laid_out_otherwise_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    MODEL.save(path)
    with h5py.File(path, "r+") as file:
        del file.attrs["sealed"], file["bias"]
        file["bias"] = ["a", "b"]
    with pytest.raises(StorageError, match=r"m\.h5 is damaged"):
        load(path)
    with h5py.File(path, "r+") as file:
        pointers(file, "weights/0", tmp_path)
    with pytest.raises(StorageError, match=r"/weights/0 holds neither numbers nor texts"):
        load(path)


def test_a_run_is_told_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lengths of a run's axes, which no file of a machine has, are no damage, whoever wrote it."""
    bm.sample(MODEL, n_sweeps=4, n_chains=8, out=tmp_path / "run.h5")
    monkeypatch.setattr("fastbm._base.hdf5._believed", OrderedDict())
    for read, text in ((load, r"holds no machine \(format: fastbm\)"), (bm.BoltzmannClassifier.load, "holds no class")):
        with pytest.raises(StorageError, match=text):
            read(tmp_path / "run.h5")


def test_what_is_beside_it_is_kept_and_links_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_bytes(b"thesis")
    (tmp_path / "m.h5.tmp").symlink_to("thesis")
    (tmp_path / "m.h5").symlink_to("thesis")
    with pytest.raises(StorageError, match="exists"):
        MODEL.save(tmp_path / "m.h5")
    MODEL.save(tmp_path / "m.h5", overwrite=True)
    assert (tmp_path / "thesis").read_bytes() == b"thesis"
    assert (tmp_path / "m.h5.tmp").is_symlink() and not (tmp_path / "m.h5").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["m.h5", "m.h5.tmp", "thesis"]


@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MODEL.save(tmp_path / "m.h5")
    before = (tmp_path / "m.h5").read_bytes()

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"fastbm._base.files.os.{name}", full)
    with pytest.raises(StorageError, match=r"m\.h5 cannot be written: No space left on device"):
        bm.BoltzmannMachine(np.eye(2) * 0).save(tmp_path / "m.h5", overwrite=True)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["m.h5"]
    assert (tmp_path / "m.h5").read_bytes() == before


def test_a_lattice_stays_one_in_other_units_and_in_a_file(tmp_path: Path) -> None:
    path, model = tmp_path / "m.h5", bm.models.ising((4, 4))
    model.to_units("binary").save(path)
    assert load(path).origin == model.origin
    run = bm.sample(load(path), n_chains=2, n_sweeps=4, observables=["structure_factor"], progress=False)
    assert run.observables["structure_factor"].shape == (4, 2)


def test_files_of_others_are_not_overwritten_and_machines_are_no_runs(tmp_path: Path) -> None:
    text, run = tmp_path / "notes.txt", tmp_path / "run.h5"
    text.write_text("precious")
    bm.sample(MODEL, n_sweeps=2, out=run, progress=False)
    os.mkfifo(tmp_path / "pipe")
    for path in (text, run, tmp_path / "pipe"):
        with pytest.raises(StorageError, match=r"is no file of this kind .* never overwritten"):
            MODEL.save(path, overwrite=True)
    assert text.read_text() == "precious" and bm.open(run).finished
    MODEL.save(tmp_path / "m.h5")
    with pytest.raises(StorageError, match=r"m\.h5 is not a fastbm run but a fastbm model, which fastbm\.load reads"):
        bm.open(tmp_path / "m.h5")
