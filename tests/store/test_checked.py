"""What is read of a merged file is compared before it is believed, at any size and whatever its seal."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm._base.checks import DamagedRun, StorageError
from fastbm.cli import main
from fastbm.store import Stream, checked, create, open_reader
from fastbm.store.verification import verify
from tests.store import test_merge
from tests.support import store
from tests.support.store import N_BLOCKS, SEALS, check_rows, complete, image_of, refused, seal

tmp_path = store.tmp_path
whole = store.whole
STATES = np.where(np.arange(3 << 20) % 3000 < 1500, np.uint8(255), np.uint8(0)).reshape(-1, 1024)
WEIGHTS = np.random.default_rng(5).normal(size=(1 << 18,))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A merged file above the size up to which one is checked whole when it is opened."""
    path = tmp_path / "large.h5"
    streams = {"a/energy": Stream("<f8"), "samples/states": Stream("|u1", (1024,))}
    with create(path, spec={}, streams=streams, state={"k": 0}, inputs={"model/weights": WEIGHTS}) as writer:
        writer.append({"a/energy": np.arange(1000.0), "samples/states": STATES}, dict)
        writer.finish({"k": 1})
    assert path.stat().st_size > checked.CHECKED_AT_OPEN
    return path


def change(path: Path, place: int, data: bytes) -> None:
    """Write some bytes into a file, and leave its times as they were."""
    found = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(data)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize("magic", SEALS)
def test_a_flipped_bit_of_the_inputs_is_told(large: Path, magic: bytes) -> None:
    seal(large, image_of(large), magic)
    data = large.read_bytes()
    place = data.index(WEIGHTS[-100].tobytes())
    change(large, place, bytes([data[place] ^ 1]))
    what = "are not what was written" if magic == SEALS[2] else "sha256 differs"
    for act in (open_reader, lambda path: open_reader(path).inputs):
        with pytest.raises(DamagedRun, match=rf"large.h5 is damaged: .*{what}. Its rows cannot be trusted. Restore"):
            act(large)


def test_rows_are_compared_as_they_are_read(large: Path) -> None:
    """A word of ones that became zeros is one that Fletcher's sum takes for the same."""
    with h5py.File(large) as file:
        place = file["samples/states"].id.get_chunk_info(30).byte_offset  # behind the first MiB of rows
        first = 30 * file["samples/states"].chunks[0]
        change(large, place, bytes(2))
        assert not file["samples/states"][first, :2].any()
    assert (STATES[first, :2] == 255).all()
    block = f"bytes {place >> 20 << 20}-{(place >> 20 << 20) + (1 << 20) - 1}"
    with open_reader(large) as reader:
        assert np.array_equal(reader.read("a/energy"), np.arange(1000.0))
        for act in (lambda: reader.read("samples/states"), lambda: reader.read("samples/states", first, first + 1)):
            refused(act, f"large.h5 is damaged: {block} are not what was written. Its rows cannot be trusted. Restore")
        assert np.array_equal(reader.read("samples/states", 0, 10), STATES[:10])
    assert not verify(large).sound


def test_a_file_that_is_changed_while_it_is_open(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked, "_KEPT_BLOCKS", 1)  # what is kept is as it was sealed, whatever becomes of the file
    with open_reader(large) as reader:
        assert np.array_equal(reader.read("samples/states", 0, 10), STATES[:10])
        change(large, large.read_bytes().rindex(STATES[-30:-20].tobytes()), b"\x11")
        refused(lambda: reader.read("samples/states"), "are not what was written")


@pytest.mark.parametrize("n_places", [47, pytest.param(564, marks=pytest.mark.slow)])
def test_zeros_at_the_start_are_told(whole: Path, n_places: int) -> None:
    """HDF5 hangs at some of them, so that it must not see them."""
    for kind, data in (("sealed", whole.read_bytes()), ("no seal", image_of(whole))):
        for place in range(0, 9000, 9000 // n_places):
            whole.write_bytes(data[:place] + bytes(64) + data[place + 64 :])
            if data[place : place + 64] == bytes(64):
                continue
            for act in (open_reader, bm.open, bm.resume):
                with pytest.raises(StorageError, match=r"whole.h5 (is damaged|is not a fastbm run)") as caught:
                    act(whole)
                assert ("not what was written" in str(caught.value)) == (kind == "sealed"), place


def test_an_older_seal_is_checked_once_while_the_file_stays_as_it_is(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    real = checked._check_whole
    monkeypatch.setattr(checked, "_check_whole", lambda path, digest: (read.append(path), real(path, digest))[1])
    for magic in SEALS[:2]:
        seal(large, image_of(large), magic)
        read.clear()
        for _ in range(3):
            with open_reader(large) as reader:
                assert np.array_equal(reader.read("samples/states"), STATES)
        assert len(read) == 1
        os.utime(large, ns=(1, 1))
        open_reader(large).close()
        assert len(read) == 2


def test_a_file_without_a_seal_says_so(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bm.sample(bm.BoltzmannMachine(1 - np.eye(3)), n_chains=2, n_sweeps=4, out=whole.with_name("run.h5")).path
    assert path is not None
    assert "seal" not in bm.open(path).summary()
    path.write_bytes(image_of(path))
    assert main_code("show", str(path)) == 1
    assert "or open it as it is with --trust of show, plot and watch." in " ".join(capsys.readouterr().err.split())
    run = bm.open(path, trust=True)
    assert run.unchecked
    assert "unchecked" in repr(run)
    assert run.summary()["seal"] == "none: nothing in the file is checked"
    assert main_code("show", str(path), "--trust") == 0
    assert "none: nothing in the file is checked" in " ".join(capsys.readouterr().out.split())
    assert main_code("watch", str(path), "--trust", "--once") == 0
    assert "no seal: nothing is checked" in " ".join(capsys.readouterr().out.split())


def main_code(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(words))
    return int(left.value.code or 0)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_any_rows_are_read_as_hdf5_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str | None
) -> None:
    monkeypatch.setattr(checked, "LEAST_DIRECT", 0)
    path, chance = tmp_path / "run.h5", random.Random(3)
    test_merge.write(path, compression=compression)
    bm.store.merge_parts(path)
    with open_reader(path) as reader:
        for name in test_merge.STREAMS:
            rows = test_merge.expected(name)
            for _ in range(6):
                start, stop = sorted(chance.choices(range(len(rows) + 1), k=2))
                step = chance.choice((1, 1, 2))
                assert np.array_equal(reader.read(name, start, stop, step), rows[start:stop:step]), name


def test_rows_go_past_hdf5_unless_it_must_be_asked(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would add a second checksum to ours."""
    asked: list[Any] = []
    monkeypatch.setattr(checked.hdf, "read_rows", lambda *arguments: asked.append(arguments))
    monkeypatch.setattr(checked, "LEAST_DIRECT", 1 << 20)
    with open_reader(large) as reader:
        assert np.array_equal(reader.read("samples/states", 5), STATES[5:])
    assert not asked


@pytest.mark.parametrize("change", ["cut", "trailer", "table"])
def test_a_seal_that_is_not_whole(whole: Path, change: str) -> None:
    data = bytearray(whole.read_bytes())
    changes: dict[str, Callable[[], Any]] = {
        "cut": lambda: data.__delitem__(slice(100, 200)),
        "trailer": lambda: data.__setitem__(-10, data[-10] ^ 1),
        "table": lambda: data.__setitem__(-50, data[-50] ^ 1),
    }
    changes[change]()
    whole.write_bytes(data)
    text = "its length is" if change == "cut" else "the table of its checksums is not what was written"
    refused(lambda: open_reader(whole), f"whole.h5 is damaged: {text}")
    assert not verify(whole).sound


def test_a_process_may_end_with_a_run_open(whole: Path) -> None:
    """HDF5 must not ask a file object for anything when the interpreter is gone."""
    code = f"from fastbm.store import open_reader; k = [open_reader({str(whole)!r})]; k[0].read('samples/energy')"
    done = subprocess.run([sys.executable, "-c", code + "; k.append(k)"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_plain_hdf5_reads_a_sealed_file(whole: Path) -> None:
    assert whole.read_bytes()[-48:-40] == SEALS[2]
    with h5py.File(whole) as file, open_reader(whole) as reader:
        check_rows(reader, N_BLOCKS)
        assert np.array_equal(file["samples/energy"][...], reader.read("samples/energy"))


def test_a_trailer_whose_number_alone_is_damaged_is_no_newer_one(whole: Path) -> None:
    whole.write_bytes(whole.read_bytes()[:-41] + b"9" + whole.read_bytes()[-40:])
    refused(lambda: open_reader(whole), "its seal is missing")
    complete(whole.with_name("other.h5"))
