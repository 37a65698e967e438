"""Pictures are written aside, and replace only what fastbm drew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from fastbm._base.checks import StorageError
from fastbm.report.pictures.png import write_picture


def test_only_pictures_of_fastbm_are_replaced(tmp_path: Path) -> None:
    path, foreign = tmp_path / "p.png", tmp_path / "mine.png"
    (tmp_path / "p.tmp.png").write_bytes(b"thesis")
    Figure().savefig(foreign)
    before = foreign.read_bytes()
    write_picture(Figure(), path)
    write_picture(Figure((3, 3)), path)
    for other in (foreign, tmp_path / "p.tmp.png", tmp_path):
        with pytest.raises(StorageError, match="exists and is no picture of fastbm"):
            write_picture(Figure(), other)
    with pytest.raises(ValueError, match=r"pictures are PNG; got 'p.pdf'. Name it 'p.png'"):
        write_picture(Figure(), tmp_path / "p.pdf")
    assert foreign.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["mine.png", "p.png", "p.tmp.png"]


def test_a_full_disk_leaves_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_picture(Figure(), tmp_path / "p.png")
    before = (tmp_path / "p.png").read_bytes()

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fastbm._base.files.os.fsync", full)
        with pytest.raises(StorageError, match="No space left on device"):
            write_picture(Figure((3, 3)), tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes() == before
    assert os.listdir(tmp_path) == ["p.png"]
