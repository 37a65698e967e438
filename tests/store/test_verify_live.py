"""Runs that change while they are looked through, and filters that HDF5 must be told of first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastbm.store import chain, merge_parts, open_reader, parts, verification as verifying
from fastbm.store.verification import verify
from tests.support import store
from tests.support.store import N_BLOCKS, append, begin, check_rows, complete, refused, state_after

tmp_path = store.tmp_path


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, act: Callable[[], object], call: int = 1
) -> None:
    """Do something once, right before a call of a function of the store."""
    calls, real = [0], getattr(module, name)

    def function(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == call:
            act()
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, function)


@pytest.mark.parametrize(
    ("name", "call"), [("_check_parts", 1), ("_check_contents", 1), ("check_link", 3), ("_check_states", 1)]
)
def test_a_run_that_is_merged_while_it_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int
) -> None:
    path = complete(tmp_path / "run.h5", merge=False)
    meanwhile(monkeypatch, verifying, name, lambda: merge_parts(path), call)
    found = verify(path)
    assert found.problems == ()
    assert (found.n_blocks, found.finished, found.merged) == (N_BLOCKS, True, True)


@pytest.mark.parametrize(("name", "call"), [("_check_states", 1), ("check_hash", 2)])
def test_states_that_a_writer_removes_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int
) -> None:
    monkeypatch.setattr("fastbm.store.commit.LARGE_STATE_BYTES", 1)
    path = tmp_path / "run.h5"
    with begin(path) as writer:
        append(writer, 0, 7)
        meanwhile(monkeypatch, verifying, name, lambda: append(writer, 7, 20), call)
        found = verify(path)
        assert found.problems == ()
        assert found.n_blocks == 7
        assert not (tmp_path / "run.h5.parts" / "state-00000007.h5").exists()


@pytest.mark.parametrize(("module", "name", "call"), [(parts, "follow", 1), (chain, "check_link", 1)])
def test_a_run_that_is_merged_while_its_whole_part_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, call: int
) -> None:
    path = complete(tmp_path / "run.h5", merge=False)
    meanwhile(monkeypatch, module, name, lambda: merge_parts(path), call)
    with open_reader(path, cut=True) as reader:
        assert reader.damage == ""
        assert reader.finished
        check_rows(reader, N_BLOCKS)


@pytest.mark.parametrize("merge", [False, True])
def test_a_process_that_has_not_read_a_compressed_run_verifies_it(tmp_path: Path, merge: bool) -> None:
    pytest.importorskip("hdf5plugin")
    path = complete(tmp_path / "run.h5", merge=merge, compression="zstd")
    script = "import sys, fastbm; sys.exit('; '.join(fastbm.verify(sys.argv[1]).problems) or 0)"
    child = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert (child.returncode, child.stderr) == (0, "")


@pytest.mark.parametrize("merge", [False, True])
def test_a_reader_does_not_mix_two_runs_of_one_name(tmp_path: Path, merge: bool) -> None:
    path = complete(tmp_path / "run.h5", merge=merge)
    with open_reader(path) as reader:
        reader.read("samples/energy")
        other = begin(path, spec={"name": "other"}, merge=merge, overwrite=True)
        with other:
            append(other, 3, 5)
            other.finish(state_after(5))
        for act in (lambda: reader.read("samples/energy", 0, 2), lambda: reader.spec, lambda: reader.state):
            refused(act, "run.h5 is another run than it was when it was opened. Open it again.")
        reader.refresh()
        assert reader.spec == {"name": "other"}
        assert reader.n_rows("samples/energy") == len(reader.read("samples/energy")) == 4
