"""All damage is named, place by place, and sound runs are said to be sound."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm.cli import main
from fastbm.store import Stream, create, merge_parts, open_reader, resume, schema, segment
from fastbm.store.names import Names
from fastbm.store.verification import verify
from tests.support import store
from tests.support.classifier import blobs
from tests.support.hostile import reseal
from tests.support.store import N_BLOCKS, append, begin, complete, refused

tmp_path = store.tmp_path


def parts(tmp_path: Path) -> Path:
    """A whole run in parts."""
    return complete(tmp_path / "run.h5", merge=False)


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def test_sound_runs(tmp_path: Path) -> None:
    found = verify(parts(tmp_path))
    assert found.sound
    assert found.finished
    assert not found.live
    assert not found.merged
    assert found.n_blocks == N_BLOCKS
    assert found.n_files == len(list((tmp_path / "run.h5.parts").glob("seg-*.h5")))
    assert found.n_bytes == sum(one.stat().st_size for one in (tmp_path / "run.h5.parts").glob("seg-*.h5"))
    merge_parts(tmp_path / "run.h5")
    found = verify(tmp_path / "run.h5")
    assert found.sound
    assert found.merged
    assert (found.n_files, found.n_blocks) == (1, N_BLOCKS)
    assert found.n_bytes == (tmp_path / "run.h5").stat().st_size


def test_a_live_run_and_what_a_kill_leaves(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    with begin(path) as writer:
        append(writer, 0, 3)
        found = verify(path)
        assert found.live
        assert found.sound
        assert not found.finished
        assert found.n_blocks == 3
    (tmp_path / "run.h5.parts" / "seg-00000009.h5.tmp").write_bytes(b"half")
    found = verify(path)
    assert not found.live
    assert found.sound
    assert found.notes == (f"{path}.parts/seg-00000009.h5.tmp was left unfinished",)


def test_every_flipped_bit_of_parts_is_found(tmp_path: Path) -> None:
    path = parts(tmp_path)
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "run.h5.parts", whole)
    generator = random.Random(1)
    for _ in range(30):
        number = generator.randrange(1, N_BLOCKS + 1)
        one = tmp_path / "run.h5.parts" / f"seg-{number:08d}.h5"
        flip(one, generator.randrange(8 * one.stat().st_size))
        found = verify(path)
        assert not found.sound
        assert any(one.name in problem for problem in found.problems), found.problems
        assert found.n_blocks == number - 1
        shutil.copy(whole / one.name, one)
    assert verify(path).sound


def test_all_damaged_parts_are_named(tmp_path: Path) -> None:
    path = parts(tmp_path)
    flip(tmp_path / "run.h5.parts" / "seg-00000003.h5", 5000)
    (tmp_path / "run.h5.parts" / "seg-00000006.h5").unlink()
    found = verify(path)
    assert found.n_blocks == 2
    three, six = found.problems
    assert "seg-00000003.h5 is damaged: sha256 differs. Blocks 0-1 are whole" in three
    assert "seg-00000006.h5 is missing" in six
    assert found.n_files == len(list((tmp_path / "run.h5.parts").glob("seg-*.h5")))


def test_a_gap_is_one_line_however_long(tmp_path: Path) -> None:
    path = parts(tmp_path)
    folder = tmp_path / "run.h5.parts"
    numbers, n_blocks = Names(path).segment_numbers(), verify(path).n_blocks
    (folder / f"seg-{10**8 - 1}.h5").write_bytes((folder / "seg-00000002.h5").read_bytes())
    found = verify(path)
    assert found.n_blocks == n_blocks
    gap, stray = found.problems
    assert f"{10**8 - 2 - numbers[-1]} segments, " in gap
    assert f"seg-{numbers[-1] + 1:08d}.h5 to seg-99999998.h5, are missing. Blocks 0-" in gap
    assert "seg-99999999.h5 is damaged" in stray


def test_counts_that_do_not_hold_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are sealed as they are, and still count wrongly: a fault of the writer, not of the disk."""
    path = tmp_path / "run.h5"
    with begin(path) as writer:
        append(writer, 0, 2)
    real = segment.segment_image

    def wrong(header: segment.Header, contents: segment.Contents) -> bytes:
        header.index[0, 1] += 1
        return real(header, contents)

    monkeypatch.setattr("fastbm.store.commit.segment_image", wrong)
    with resume(path) as writer:
        append(writer, 2, 3)
    monkeypatch.undo()
    found = verify(path)
    (problem,) = found.problems
    assert "seg-00000003.h5 is damaged: it counts" in problem
    assert found.n_blocks == 2


def test_damage_of_a_merged_file(tmp_path: Path) -> None:
    path = complete(tmp_path / "run.h5")
    whole = path.read_bytes()
    generator = random.Random(2)
    for _ in range(3):
        flip(path, generator.randrange(8 * len(whole)))
        try:
            found = verify(path)
        except bm.StorageError as error:
            assert "run.h5" in str(error)
        else:
            assert not found.sound
        path.write_bytes(whole)
    with h5py.File(path, "a") as file:  # another program wrote into it: the trailer is gone
        file["meta"].attrs["note"] = 1
    assert not verify(path).sound


def test_a_state_of_its_own_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.store.commit.LARGE_STATE_BYTES", 1)
    path = tmp_path / "run.h5"
    with begin(path) as writer:
        append(writer, 0, 3)
    assert verify(path).sound
    last = sorted((tmp_path / "run.h5.parts").glob("state-*.h5"))[-1]
    flip(last, 999)
    assert any(last.name in problem for problem in verify(path).problems)
    last.unlink()
    assert any("the state of the last commit, is missing" in problem for problem in verify(path).problems)


def call(*words: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as left:
        main(list(words))
    return int(left.value.code or 0)


def test_the_command_line_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = parts(tmp_path)
    assert call("verify", str(path)) == 0
    assert "Every byte is as it was written" in " ".join(capsys.readouterr().out.split())
    flip(tmp_path / "run.h5.parts" / "seg-00000004.h5", 4000)
    assert call("verify", str(path)) == 1
    assert "seg-00000004.h5 is damaged" in " ".join(capsys.readouterr().out.split())
    flip(tmp_path / "run.h5.parts" / "seg-00000004.h5", 4000)
    flip(tmp_path / "run.h5.parts" / "seg-00000001.h5", 4000)
    assert call("verify", str(path)) == 1
    assert "no blocks are whole" in " ".join(capsys.readouterr().out.split())
    flip(tmp_path / "run.h5.parts" / "seg-00000001.h5", 4000)
    assert call("verify", str(tmp_path / "gone.h5")) == 2


def test_files_of_machines_and_classifiers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bm.models.random_machine(6, seed=1).save(tmp_path / "machine.h5")
    bm.BoltzmannClassifier().fit(*blobs(30, 6)).save(tmp_path / "classifier.h5")
    for name, told in (("machine", "a machine of 6 spin units"), ("classifier", "a classifier of 3 classes, 6 units")):
        path = tmp_path / f"{name}.h5"
        assert call("verify", "--sha256", str(path)) == 0
        out = capsys.readouterr().out
        assert told in out
        assert hashlib.sha256(path.read_bytes()).hexdigest() in out
        reseal(path, lambda file: file.attrs.__delitem__("n_hidden" if "n_hidden" in file.attrs else "settings"))
        assert call("verify", str(path)) == 1
        assert "not laid out as fastbm does it" in " ".join(capsys.readouterr().out.split())
        flip(path, 8 * 900)
        assert call("verify", str(path)) == 1
        assert "not those that were written" in " ".join(capsys.readouterr().out.split())


def test_runs_are_merged_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.h5"
    run = bm.fit(np.eye(4, dtype=int), method="pcd", n_hidden=2, epochs=3, out=path, merge=False)
    weights = run.weights["weights"]
    assert not path.exists()
    with pytest.raises(SystemExit) as left:
        main(["merge", str(path)])
    assert not left.value.code
    assert "is merged" in " ".join(capsys.readouterr().out.split())
    again = bm.merge(path)
    assert path.exists()
    assert np.array_equal(again.weights["weights"], weights)
    assert bm.verify(path).sound


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_damaged_rows_of_a_compressed_file_are_named(tmp_path: Path, compression: str) -> None:
    pytest.importorskip("hdf5plugin")
    path, rows = tmp_path / "run.h5", np.random.default_rng(0).random(50_000)
    with create(path, spec={}, streams={"a/x": Stream("<f8")}, state={}, compression=compression) as writer:
        writer.append({"a/x": rows}, dict)
        writer.finish({})
    with h5py.File(path) as file:
        chunk = file["a/x"].id.get_chunk_info(2)
        step = file["a/x"].chunks[0]
    flip(path, 8 * (chunk.byte_offset + chunk.size // 2))
    assert verify(path).problems[0] == f"{path} is damaged: a/x, rows {2 * step}-{3 * step - 1}."


def test_damaged_rows_of_a_merged_file_are_named_to_the_chunk(tmp_path: Path) -> None:
    path, rows = tmp_path / "run.h5", np.arange(100_000.0)
    with create(
        path, spec={"note": "of this run"}, streams={"a/x": Stream("<f8"), "b/y": Stream("<f8")}, state={}
    ) as writer:
        writer.append({"a/x": rows, "b/y": -1 - rows}, dict)
        writer.finish({})
    whole, step = path.read_bytes(), schema.chunk_shape(Stream("<f8"))[0]
    assert verify(path).n_blocks == 1

    def problems(*changed: float) -> list[str]:
        data = whole
        for value in changed:
            number = np.float64(value).tobytes()
            assert data.count(number) == 1
            data = data.replace(number, number[::-1])
        path.write_bytes(data)
        found = verify(path)
        assert found.n_blocks == 0
        assert re.match(
            f"{path} is damaged: bytes [0-9]+-[0-9]+ are not what was written. Its rows cannot be trusted. Restore",
            found.problems[-1],
        )
        return [problem.removeprefix(f"{path} is damaged: ").removesuffix(".") for problem in found.problems[:-1]]

    assert problems(step + 5.5 - 0.5) == [f"a/x, rows {step}-{2 * step - 1}"]
    assert problems(3.0, step + 3.0, 4 * step + 3.0) == [
        f"a/x, rows 0-{2 * step - 1}", f"a/x, rows {4 * step}-{5 * step - 1}"
    ]  # fmt: skip
    assert problems(-1.0 - 99_999, 99_999.0) == [
        f"{name}, rows {99_999 - 99_999 % step}-99999" for name in ("a/x", "b/y")
    ]
    path.write_bytes(whole.replace(b"of this run", b"of that run"))
    (problem,) = verify(path).problems
    assert problem.endswith("No chunk of rows has a wrong checksum: it is something else in the file.")


@pytest.mark.parametrize("n_trials", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_no_damage_of_a_merged_file_crashes_the_check(tmp_path: Path, n_trials: int) -> None:
    """HDF5 does not survive every damage of its tables, which stand mostly at the start."""
    path = complete(tmp_path / "run.h5")
    whole, chance = path.read_bytes(), random.Random(n_trials)
    for trial in range(n_trials):
        path.write_bytes(whole)
        flip(path, chance.randrange(8 * (8000 if trial % 2 else len(whole) - 52)))
        found = verify(path)
        assert found.lost
        assert found.n_blocks == 0
        text = f"{path} is damaged: bytes 0-{len(whole) - 53} are not what was written. Its rows cannot be trusted."
        assert text in found.problems[-1]


def test_where_the_first_segment_is_lost_the_others_are_still_checked(tmp_path: Path) -> None:
    path = parts(tmp_path)
    for number in (0, 4):
        flip(tmp_path / "run.h5.parts" / f"seg-{number:08d}.h5", 5000)
    found = verify(path)
    first, other = found.problems
    assert "seg-00000000.h5 is damaged: sha256 differs. It holds the spec" in first
    assert first.endswith("Restore a copy of it, or begin the run again.")
    assert other.endswith("seg-00000004.h5 is damaged: sha256 differs.")
    assert (found.lost, found.n_blocks, found.n_files) == (True, 0, len(Names(path).segment_numbers()))


def test_a_damaged_run_that_was_to_be_extended(tmp_path: Path) -> None:
    """Its finished part, and what is to be done where the extension is lost and the finished part is not."""
    path = complete(tmp_path / "run.h5")
    resume(path, extend_spec={**store.SPEC, "n_chains": 8}).close()
    whole = path.read_bytes()
    flip(path, 8 * (len(whole) // 2))
    found = verify(path)
    assert (found.lost, found.n_blocks, found.merged) == (False, 0, False)
    assert "run.h5 is damaged: bytes 0-" in found.problems[-1]
    path.write_bytes(whole)
    flip(tmp_path / "run.h5.parts" / "seg-00000000.h5", 5000)
    (problem,) = verify(path).problems
    assert problem.endswith(f"move {path}.parts away: {path} is there.")
    shutil.rmtree(tmp_path / "run.h5.parts")
    assert verify(path).sound


@pytest.mark.parametrize("change", ["folder", "EIO"])
def test_a_segment_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    path = parts(tmp_path)
    five = tmp_path / "run.h5.parts" / "seg-00000005.h5"
    if change == "folder":
        five.unlink()
        five.mkdir()
        why = "Is a directory"
    else:
        real = os.open

        def broken(name: Any, *arguments: Any, **options: Any) -> int:
            if name == five:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(name, *arguments, **options)

        monkeypatch.setattr(os, "open", broken)
        why = os.strerror(errno.EIO)
    text = f"{path}.parts/seg-00000005.h5 cannot be read: {why}. Nothing was changed. Mend that and try again."
    for act in (resume, merge_parts, lambda path: open_reader(path).read("samples/energy")):
        refused(lambda act=act: act(path), text)
    (problem,) = verify(path).problems
    assert problem.startswith(text)
    assert "Blocks 0-3 are whole" in problem
