"""What the store refuses, in which words, and that it leaves everything as it was."""

from __future__ import annotations

import json
import os
import pickle
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fastbm._base.checks import StorageError
from fastbm.store import Stream, merge_parts, open_reader, resume, schema
from tests.support import crash, store
from tests.support.store import N_BLOCKS, SPEC, append, begin, begun, check_rows, complete, refused, seal

tmp_path = store.tmp_path
whole = store.whole


def test_another_spec_is_refused_by_field(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    begun(path)
    other = {"sampler": {"beta": 0.8, "burn_in": 1}, "n_chains": 4, "name": "sk"}
    refused(
        lambda: resume(path, spec=other),
        "cannot resume: sampler.beta is 0.8 here and 0.5 in the file; "
        "sampler.burn_in is 1 here and absent in the file; sampler.thin is absent here and 10 in the file.",
    )
    with resume(path, spec=json.loads(json.dumps(SPEC))) as writer:
        assert writer.n_blocks == 6


def test_other_versions_are_refused_unless_inexact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.h5"
    begun(path)
    monkeypatch.setattr("fastbm.store.resumption.package_version", lambda name: "9.9" if name == "numpy" else "x")
    refused(lambda: resume(path), f"numpy is 9.9 here and {np.__version__} in the file")
    with resume(path, exact=False) as writer:
        assert writer.n_blocks == 6


def test_an_existing_run_is_never_overwritten_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "run.h5 exists. Continue it with fastbm.resume('run.h5') or pass overwrite=True to replace it."
    begun(tmp_path / "run.h5")
    refused(lambda: begin(Path("run.h5")), text)
    complete(tmp_path / "run.h5")
    refused(lambda: begin(Path("run.h5")), text)
    assert not (tmp_path / "run.h5.parts").exists()
    with begin(Path("run.h5"), spec={"b": 1}, overwrite=True):
        assert os.listdir(tmp_path) == ["run.h5.parts"]
    assert open_reader("run.h5").spec == {"b": 1}


def test_files_of_others_are_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    path.mkdir()
    refused(lambda: begin(path, overwrite=True), "is not a fastbm run (it is a folder). It is never overwritten.")
    path.rmdir()
    path.write_text("thesis")
    refused(lambda: begin(path, overwrite=True), "is not a fastbm run (not an HDF5 file). It is never overwritten.")
    refused(lambda: open_reader(path), "is not a fastbm run (not an HDF5 file).")
    path.unlink()
    with h5py.File(path, "w") as file:
        file["a"] = 1
    refused(lambda: begin(path, overwrite=True), "is not a fastbm run (no format attribute). It is never overwritten.")
    refused(lambda: resume(path), "is not a fastbm run (no format attribute).")
    assert os.listdir(tmp_path) == ["x.h5"]


def test_a_missing_run_names_its_neighbours(tmp_path: Path) -> None:
    begun(tmp_path / "digits.h5")
    for act in (open_reader, resume, merge_parts):
        refused(lambda act=act: act(tmp_path / "digit.h5"), "does not exist: no such run. Nearest by name: digits.h5.")
    refused(lambda: open_reader(tmp_path / "no" / "run.h5"), "and no folder")
    assert os.listdir(tmp_path) == ["digits.h5.parts"]


def test_a_newer_format_is_refused(whole: Path) -> None:
    with h5py.File(whole, "r+") as file:
        file.attrs["format_version"] = np.array([2, 1], np.int32)
        file.attrs["fastbm_version"] = "0.9.1"
    text = f"has format 2.1; this fastbm ({schema.package_version('fastbm')}) reads up to 1.x. Install fastbm >= 0.9.1."
    seal(whole, whole.read_bytes())
    refused(lambda: open_reader(whole), text)
    refused(lambda: resume(whole), text)


def test_a_file_edited_by_others_is_read_if_it_is_trusted(whole: Path) -> None:
    assert not open_reader(whole).unchecked
    with h5py.File(whole, "r+") as file:
        file["notes"] = np.arange(3.0)
    for act in (open_reader, resume, merge_parts):
        refused(lambda act=act: act(whole), f"{whole} is damaged: its seal is missing, so that nothing in it can be")
    with open_reader(whole, trust=True) as reader:
        assert reader.unchecked
        check_rows(reader, N_BLOCKS)
        assert pickle.loads(pickle.dumps(reader)).unchecked
        refused(reader.verify, "its seal is missing")


def test_one_segment_is_not_a_run(tmp_path: Path) -> None:
    refused(lambda: open_reader(begun(tmp_path / "run.h5") / "seg-00000001.h5"), "is one segment of a run")


def test_a_second_writer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("run.h5")

    def refused_in_a_child() -> None:
        text = rf"^run.h5 is being written by pid {os.getppid()} on \S+ since 2\d\d\d-\d\d-\d\d \d\d:\d\d. Stop it"
        for act in (resume, lambda path: begin(path, overwrite=True), merge_parts):
            with pytest.raises(StorageError, match=text):
                act(path)
        assert open_reader(path).live

    with begin(path) as writer:
        append(writer, 0, 1)
        assert crash.run_child(refused_in_a_child) == 0
        append(writer, 1, 2)
        assert crash.run_child(lambda: refused(lambda: append(writer, 2, 3), "is closed for writing")) == 0
    with resume(path) as writer:
        assert writer.n_blocks == 2


def test_a_child_does_not_keep_its_parents_lock(tmp_path: Path) -> None:
    writer = begin(tmp_path / "run.h5")
    child = crash.start_child(lambda: time.sleep(5))
    writer.close()
    resume(tmp_path / "run.h5").close()
    os.kill(child, 9)
    crash.ended(child)


@pytest.mark.parametrize(
    ("rows", "error", "text"),
    [
        ({"samples/energi": np.zeros((1, 4))}, ValueError, "Did you mean 'samples/energy'?"),
        ({"samples/energy": np.zeros((1, 5))}, ValueError, "must have shape (n, *(4,)); got (1, 5)"),
        ({"samples/energy": 1.0}, ValueError, "got ()"),
        ({"samples/states": np.full((1, 4, 3), 300)}, TypeError, "stored as |u1; got int64, which does not fit"),
        ({"samples/states": np.zeros((1, 4, 3))}, TypeError, "which does not fit"),
        ({"metrics/note": [1.0]}, TypeError, "which does not fit"),
        ({"metrics/note": ["a\0b"]}, ValueError, "zero character"),
        ({"samples/energy": [["a"] * 4]}, TypeError, "which does not fit"),
        ({"samples/energy": [[None] * 4]}, TypeError, "must hold numbers, booleans or texts; got NoneType"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    tmp_path: Path, rows: dict[str, Any], error: type[Exception], text: str
) -> None:
    with begin(tmp_path / "run.h5") as writer:
        refused(lambda: writer.append(rows, dict), text, error=error)
        assert writer.n_blocks == 0
        writer.append({"samples/states": np.full((1, 4, 3), 3)}, dict)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"spec": {"beta": float("nan")}}, ValueError, "spec must be made of"),
        ({"spec": {"w": np.eye(2)}}, TypeError, "spec must be made of"),
        ({"streams": {"state/x": Stream("<f8")}}, ValueError, "may not lie in 'state', which is reserved"),
        ({"streams": {"a": Stream("<f8"), "a/b": Stream("<f8")}}, ValueError, "'a/b' lies inside 'a'"),
        ({"streams": {"/a": Stream("<f8")}}, ValueError, "is not a name"),
        ({"streams": {"a b": Stream("<f8")}}, ValueError, "is not a name"),
        ({"streams": {"a": Stream("<M8[s]")}}, TypeError, "expected numbers, booleans or 'str'"),
        ({"streams": {"a": Stream("<f8", (), {"k": None})}}, TypeError, "must be a number or text"),
        ({"meta": {"run_id": "x"}}, ValueError, "written by the store itself"),
        ({"meta": {"x": None}}, TypeError, "must be a number or text"),
        ({"compression": "lzf"}, ValueError, "compression must be one of 'gzip', 'zstd'"),
        ({"inputs": {"a": {}}}, TypeError, "'inputs/a' must hold numbers"),
    ],
)  # fmt: skip
def test_bad_declarations_are_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    refused(lambda: begin(tmp_path / "run.h5", **options), text, error=error)
    assert os.listdir(tmp_path) == []


def test_an_unfinished_run_is_not_merged(tmp_path: Path) -> None:
    begun(tmp_path / "run.h5")
    refused(lambda: merge_parts(tmp_path / "run.h5"), "is not finished (6 blocks). Resume it to its end, then merge.")
