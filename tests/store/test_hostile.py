"""Files from strangers: what fastbm does not write is refused before a number of it is read."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from fastbm._base import hdf5
from fastbm._base.checks import StorageError
from fastbm.cli import main
from fastbm.store import apart, merge_parts, open_reader, resume, schema
from fastbm.store.digest import digest_of
from fastbm.store.verification import verify, verify_apart
from tests.support import forked, store
from tests.support.hostile import CRAFTS, Craft, reseal
from tests.support.store import begun, complete, completed, refused

tmp_path = store.tmp_path


def _named(craft: Craft) -> str:
    return craft.__name__


def read_all(path: Path) -> None:
    with open_reader(path) as reader:
        assert reader.inputs
        assert reader.state
        for name in reader.streams:
            reader.read(name)


@pytest.mark.parametrize("name", ["samples/energy", "inputs/model/weights", "state/rng"])
@pytest.mark.parametrize("craft", CRAFTS, ids=_named)
def test_merged_files(craft: Craft, name: str, tmp_path: Path) -> None:
    path = completed(tmp_path / "run.h5")
    reseal(path, lambda file: craft(file, name, tmp_path))
    refused(lambda: read_all(path), CRAFTS[craft])
    found = verify(path)
    assert any(CRAFTS[craft] in problem for problem in found.problems), found


@pytest.mark.parametrize("craft", CRAFTS, ids=_named)
def test_segments(craft: Craft, tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5")
    last = max(parts.glob("seg-*.h5"))
    reseal(last, lambda file: craft(file, "samples/energy", tmp_path))
    refused(lambda: read_all(tmp_path / "run.h5"), CRAFTS[craft])
    found = verify(tmp_path / "run.h5")
    assert any(CRAFTS[craft] in problem and last.name in problem for problem in found.problems), found


def test_first_segments(tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5", 0)
    craft = next(iter(CRAFTS))
    reseal(parts / "seg-00000000.h5", lambda file: craft(file, "spec", tmp_path))
    refused(lambda: read_all(tmp_path / "run.h5"), "/spec holds neither numbers nor texts")
    refused(lambda: resume(tmp_path / "run.h5"), "/spec holds neither numbers nor texts")


@pytest.mark.parametrize("rows", [np.zeros((2, 4), "<f4"), np.zeros((2, 5)), np.zeros((1, 4))], ids=str)
def test_rows_of_another_dtype_shape_or_number(rows: np.ndarray, tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5")

    def change(file: h5py.File) -> None:
        del file["samples/energy"]
        file["samples/energy"] = rows

    reseal(max(parts.glob("seg-*.h5")), change)
    with pytest.raises(StorageError, match="samples/energy"):
        read_all(tmp_path / "run.h5")
    assert not verify(tmp_path / "run.h5").sound


def test_the_largest_chunk_is_the_one_that_streams_may_have() -> None:
    assert schema.LARGEST_CHUNK_BYTES == hdf5.LARGEST_CHUNK


def test_the_digest_is_that_of_sha256sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = complete(tmp_path / "run.h5", merge=False)
    lines = [
        f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n"
        for one in sorted((tmp_path / "run.h5.parts").glob("seg-*"))
    ]
    assert digest_of(path) == hashlib.sha256("".join(lines).encode()).hexdigest()
    merge_parts(path)
    with pytest.raises(SystemExit, match="0"):
        main(["verify", "--sha256", str(path)])
    assert f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}" in capsys.readouterr().out


def crash(path: str) -> None:
    """What HDF5 may do."""
    os.abort()


def grow(path: str) -> None:
    """Take more memory than there may be."""
    np.ones(apart.LARGEST_MEMORY)


def loop(path: str) -> None:
    """Come to no end."""
    while True:
        pass


def test_a_process_apart_that_nobody_waits_for_ends() -> None:
    command = apart.command_of(loop, "", 0.01)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    assert subprocess.run(command, env=environment, timeout=60).returncode == -signal.SIGKILL


def least(path: str) -> list[int]:
    """Return the limits of a process."""
    return [resource.getrlimit(kind)[1] for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS)]


def test_lower_limits_of_the_system_stay() -> None:
    command = ["bash", "-c", 'ulimit -t 50 -v 8000000; exec "$@"', "bash", *apart.command_of(least, "", 60.0)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout) == [50, 8_000_000 << 10]


def test_what_does_not_come_to_its_end_is_ended_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "call", forked.BY_INTERPRETER)
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # where a process of its own finds `crash` and `grow`
    path = complete(tmp_path / "run.h5")
    assert verify_apart(path) == verify(path)
    refused(lambda: verify_apart(tmp_path / "no.h5"), "no.h5 does not exist")
    found = verify_apart(path, seconds=0.01)
    assert found.lost
    assert "took more than 0 s and was ended" in found.problems[0]
    with pytest.raises(apart.Lost, match=r"crashed \(SIGABRT\)"):
        apart.call(crash, "", 60.0)
    with pytest.raises(apart.Lost, match=r"failed \(.*Unable to allocate"):
        apart.call(grow, "", 60.0)
