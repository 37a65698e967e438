"""Archives with links: nothing that they lead to is written, removed or taken for a part."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fastbm.store import merge_parts, open_reader, resume
from fastbm.store.names import Names
from fastbm.store.verification import verify
from tests.support import store
from tests.support.store import N_BLOCKS, begin, begun, check_rows, complete, refused

tmp_path = store.tmp_path
THESIS = b"thesis"


@pytest.fixture
def thesis(tmp_path: Path) -> Path:
    path = tmp_path / "thesis"
    path.write_bytes(THESIS)
    return path


def test_a_merge_follows_no_link(tmp_path: Path, thesis: Path) -> None:
    path = complete(tmp_path / "run.h5", merge=False)
    (tmp_path / "run.h5.tmp").symlink_to(thesis)
    merge_parts(path)
    assert thesis.read_bytes() == THESIS
    assert path.is_file() and not path.is_symlink()
    assert (tmp_path / "run.h5.tmp").is_symlink()


def test_a_name_that_could_be_guessed_is_not_followed_either(
    tmp_path: Path, thesis: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = complete(tmp_path / "run.h5", merge=False)
    monkeypatch.setattr("secrets.token_hex", lambda n: "0" * 2 * n)
    guessed = Names(path).merged_temporary
    monkeypatch.setattr("fastbm.store.merge.merge.Names.check_links", lambda names: None)
    monkeypatch.setattr("fastbm.store.merge.merge.Names.temporaries", lambda names: [])
    guessed.symlink_to(thesis)
    refused(lambda: merge_parts(path), "exists")
    assert thesis.read_bytes() == THESIS


def test_what_others_left_under_names_of_old_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    (tmp_path / "run.h5.tmp").write_bytes(THESIS)
    begun(path)
    complete(path)
    assert (tmp_path / "run.h5.tmp").read_bytes() == THESIS


def test_what_a_killed_merge_left_is_removed(tmp_path: Path) -> None:
    path = complete(tmp_path / "run.h5", merge=False)
    Names(path).merged_temporary.write_bytes(b"half")
    assert len(verify(path).notes) == 1
    merge_parts(path)
    assert os.listdir(tmp_path) == ["run.h5"]


@pytest.mark.parametrize("act", [open_reader, resume, merge_parts, verify, lambda p: begin(p, overwrite=True)])
@pytest.mark.parametrize("name", ["seg-00000003.h5", "state-00000003.h5", "seg-00000003.h5.tmp", "seg-00000000.h5"])
def test_links_among_the_parts_are_refused(act: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5")
    shutil.copytree(parts, tmp_path / "other")
    (parts / name).unlink(missing_ok=True)
    (parts / name).symlink_to(tmp_path / "other" / name)
    refused(lambda: act(tmp_path / "run.h5"), f"run.h5.parts/{name} is a link, which fastbm never makes there")
    assert (parts / name).is_symlink()


def test_a_pipe_among_the_parts_does_not_hang(tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5")
    os.mkfifo(parts / "seg-00000099.h5")
    refused(lambda: open_reader(tmp_path / "run.h5"), "seg-00000099.h5 is no plain file")


def test_parts_that_are_anothers_are_not_written(tmp_path: Path) -> None:
    parts = begun(tmp_path / "mine.h5")
    before = sorted(os.listdir(parts))
    (tmp_path / "run.h5.parts").symlink_to(parts)
    for act in (resume, merge_parts, lambda path: begin(path, overwrite=True)):
        refused(lambda act=act: act(tmp_path / "run.h5"), "run.h5.parts is a link to")
    assert sorted(os.listdir(parts)) == before


def test_a_backup_by_hard_links_is_read_and_not_written(tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5", N_BLOCKS)
    shutil.copytree(parts, tmp_path / "copy.h5.parts", copy_function=os.link)
    with open_reader(tmp_path / "copy.h5") as reader:
        check_rows(reader, N_BLOCKS)
    assert verify(tmp_path / "copy.h5").sound
    refused(lambda: resume(tmp_path / "copy.h5"), "lock is a hard link")
    (tmp_path / "copy.h5.parts" / "lock").unlink()
    with resume(tmp_path / "copy.h5") as writer:
        writer.finish(writer.state)
    assert verify(tmp_path / "run.h5").sound
