"""Files of other programs, cut, empty, flipped and misplaced ones: named, never read as data, and left as they are."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm.store import merge_parts, open_reader, resume
from fastbm.store.verification import verify
from tests.support import store
from tests.support.places import listing, unchanged
from tests.support.store import SPEC, begin, begun, complete, completed, refused

tmp_path = store.tmp_path


def checked(path: Path) -> None:
    """Verify a run, and raise what was found."""
    if problems := verify(path).problems:
        raise bm.StorageError(" ".join(problems))


READING: dict[str, Callable[[Path], Any]] = {
    "open": open_reader,
    "resume": resume,
    "inexact": lambda path: resume(path, exact=False),
    "extend": lambda path: resume(path, extend_spec={**SPEC, "n_chains": 8}),
    "merge": merge_parts,
    "verify": checked,
}
WRITING: dict[str, Callable[[Path], Any]] = {
    "create": begin,
    "overwrite": lambda path: begin(path, overwrite=True),
}
ALL = READING | WRITING


def hdf5_of_others(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(3)


def npz(path: Path) -> None:
    with open(path, "wb") as file:
        np.savez(file, a=np.arange(3))


def table(path: Path) -> None:
    path.write_text("a,b\n1,2\n")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(5000))


OTHERS = [hdf5_of_others, npz, table]


@pytest.mark.parametrize("act", ALL.values(), ids=ALL)
@pytest.mark.parametrize("make", [*OTHERS, empty, zeros])
def test_a_file_of_another_program(tmp_path: Path, make: Callable[[Path], None], act: Callable[[Path], Any]) -> None:
    path = tmp_path / "run.h5"
    make(path)
    why = "no format attribute" if make is hdf5_of_others else "not an HDF5 file"
    unchanged(tmp_path, lambda: act(path), f"{path} is not a fastbm run ({why}).")


@pytest.mark.parametrize("act", READING.values(), ids=READING)
@pytest.mark.parametrize("make", OTHERS)
def test_another_programs_file_instead_of_the_first_segment(
    tmp_path: Path, make: Callable[[Path], None], act: Callable[[Path], Any]
) -> None:
    make(begun(tmp_path / "run.h5") / "seg-00000000.h5")
    text = "run.h5.parts/seg-00000000.h5 is not a fastbm segment (no trailer). Nothing was changed."
    unchanged(tmp_path, lambda: act(tmp_path / "run.h5"), text)


@pytest.mark.parametrize("make", OTHERS)
@pytest.mark.parametrize("number", [0, 3])
def test_another_programs_file_is_never_replaced(tmp_path: Path, make: Callable[[Path], None], number: int) -> None:
    path = tmp_path / "run.h5"
    shown = f"seg-{number:08d}.h5"
    make(begun(path) / shown)
    text = f"{shown} is not a fastbm segment (no trailer). Nothing was changed. It is never overwritten."
    unchanged(tmp_path, lambda: begin(path, overwrite=True), text)
    if number:
        unchanged(tmp_path, lambda: resume(path), f"{shown} is not a fastbm segment (no trailer). Nothing was changed.")
    shutil.rmtree(tmp_path / "run.h5.parts")
    (tmp_path / "run.h5.parts").mkdir()
    make(tmp_path / "run.h5.parts" / shown)  # and nothing else
    unchanged(tmp_path, lambda: begin(path, overwrite=True), text)
    unchanged(tmp_path, lambda: begin(path), "run.h5 exists.")


@pytest.mark.parametrize("act", ALL.values(), ids=ALL)
@pytest.mark.parametrize("kept", [0.001, 0.5, 0.97])
def test_a_merged_file_cut_short(tmp_path: Path, act: Callable[[Path], Any], kept: float) -> None:
    path = completed(tmp_path / "run.h5")
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data))])
    unchanged(tmp_path, lambda: act(path), f"{path} is damaged: its seal is missing, ")


@pytest.mark.parametrize("act", ALL.values(), ids=ALL)
def test_a_flipped_bit_of_a_merged_file(tmp_path: Path, act: Callable[[Path], Any]) -> None:
    path = completed(tmp_path / "run.h5")
    data = bytearray(path.read_bytes())
    for at, what in (
        (len(data) // 3, f"bytes 0-{len(data) - 53} are not"),
        (len(data) - 50, "the table of its checksums is not"),
        (len(data) - 20, "the table of its checksums is not"),
    ):
        data[at] ^= 4
        path.write_bytes(data)
        unchanged(
            tmp_path, lambda: act(path), f"{path} is damaged: {what} what was written. Its rows cannot be trusted."
        )
        data[at] ^= 4


@pytest.mark.parametrize("act", READING.values(), ids=READING)
def test_a_damaged_first_segment(tmp_path: Path, act: Callable[[Path], Any]) -> None:
    path = tmp_path / "run.h5"
    first = begun(path) / "seg-00000000.h5"
    data = first.read_bytes()
    cut = [(bad, "the trailer is missing") for bad in (b"", data[:-9], bytes(len(data)))]
    for bad, why in [*cut, (data[:900] + b"\xff" + data[901:], "sha256 differs")]:
        first.write_bytes(bad)
        unchanged(tmp_path, lambda: act(path), f"{path}.parts/seg-00000000.h5 is damaged: {why}. It holds the spec")


def test_a_damaged_run_in_parts_may_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    (begun(path) / "seg-00000002.h5").write_bytes(b"")
    unchanged(tmp_path, lambda: begin(path), "run.h5 exists.")
    begin(path, overwrite=True).close()
    assert sorted(listing(tmp_path)) == ["run.h5.parts", "run.h5.parts/lock", "run.h5.parts/seg-00000000.h5"]


@pytest.mark.parametrize("act", READING.values(), ids=READING)
def test_a_segment_of_another_run(tmp_path: Path, act: Callable[[Path], Any]) -> None:
    path = tmp_path / "run.h5"
    parts, other = begun(path), begun(tmp_path / "other.h5", spec={"b": 1})
    shutil.copy(other / "seg-00000004.h5", parts / "seg-00000004.h5")
    text = "run.h5.parts/seg-00000004.h5 belongs to another run"
    if act is open_reader:
        with open_reader(path) as reader:
            unchanged(tmp_path, lambda: reader.read("samples/energy"), text)
    else:
        unchanged(tmp_path, lambda: act(path), text)


@pytest.mark.parametrize("act", READING.values(), ids=READING)
def test_a_merged_file_and_parts_of_different_runs(tmp_path: Path, act: Callable[[Path], Any]) -> None:
    path = tmp_path / "run.h5"
    begun(path)
    shutil.move(complete(tmp_path / "other.h5", spec={"b": 1}), path)
    unchanged(tmp_path, lambda: act(path), "are of different runs. Nothing was changed. Move one of them away.")


def test_two_runs_begun_on_one_path(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    with begin(path) as writer:
        before = listing(tmp_path)
        refused(lambda: begin(path), "is being written by pid")
        for act in (WRITING["overwrite"], resume):
            refused(lambda act=act: act(path), "is being written by pid")
        assert listing(tmp_path) == before
        store.append(writer, 0, 1)


@pytest.mark.parametrize("act", [bm.open, bm.resume, bm.merge, bm.verify])
def test_the_public_functions_say_the_same(tmp_path: Path, act: Callable[[Path], Any]) -> None:
    table(tmp_path / "run.h5")
    unchanged(tmp_path, lambda: act(tmp_path / "run.h5"), "is not a fastbm run (not an HDF5 file).")
