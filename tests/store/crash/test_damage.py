"""Damaged files are never read as data: they are told with their place and computed again."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fastbm.store import Stream, create, open_reader, resume
from tests.store.crash import damages
from tests.store.crash.damages import cut, flip_one, set_stage, swap, trial
from tests.store.crash.stories import flip
from tests.support import crash, store
from tests.support.store import N_BLOCKS, append, begun, complete, refused, state_after

tmp_path = store.tmp_path
whole = store.whole


def test_a_state_that_lost_its_trailer_is_damaged_and_not_of_others(folder: Path) -> None:
    path = damages.set_stage("states", folder)
    last = sorted((folder / "run.h5.parts").glob("state-*.h5"))[-1]
    os.truncate(last, last.stat().st_size - 48)
    assert damages.trial(path, damages.whole())


@pytest.mark.parametrize("n_trials", [8, pytest.param(120, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["parts", "states", "merged"])
@pytest.mark.parametrize("damage", [cut, flip_one])
def test_random_damage_is_computed_again_or_told(folder: Path, damage: Any, kind: str, n_trials: int) -> None:
    damages.check(damage, kind, folder, n_trials if kind == "parts" else n_trials // 2)


@pytest.mark.parametrize("n_trials", [6, pytest.param(120, marks=pytest.mark.slow)])
def test_segments_that_are_lost_swapped_or_zeroed_are_computed_again(folder: Path, n_trials: int) -> None:
    chance = random.Random(4)
    acts = (
        lambda path: path.unlink(),
        swap,
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
        lambda path: path.write_bytes(b""),
    )
    for k in range(n_trials):
        path = set_stage("parts", folder)
        number = chance.randrange(1, damages.N_SEGMENTS)
        acts[k % len(acts)](damages.segment(path, number))
        assert trial(path, damages.whole()), (k, number)


def test_without_its_first_segment_a_run_is_refused(folder: Path) -> None:
    path = set_stage("parts", folder)
    damages.segment(path, 0).unlink()
    assert not trial(path, damages.whole())


def test_a_segment_of_another_life_of_the_run_is_computed_again(folder: Path) -> None:
    check_another_life(folder)


def check_another_life(tmp_path: Path) -> None:
    """A segment that continues another state than the one before it holds."""
    whole = complete(tmp_path / "whole.h5")
    parts, path = begun(tmp_path / "run.h5", 3), tmp_path / "run.h5"
    shutil.copytree(parts, tmp_path / "twin.h5.parts")
    with resume(path) as writer:
        append(writer, 3, 5)
    with resume(tmp_path / "twin.h5") as writer:
        append(writer, 3, 4, commit_each=False)
        append(writer, 4, 6)
    shutil.copy(parts / "seg-00000005.h5", tmp_path / "twin.h5.parts")  # block 4, where block 5 should follow
    with pytest.warns(UserWarning, match="it does not follow on the segment before it"):
        complete(tmp_path / "twin.h5")
    crash.assert_same_run(whole, tmp_path / "twin.h5")


def test_damage_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parts = begun(Path("run.h5"))
    flip(parts / "seg-00000004.h5", 8000)
    refused(
        lambda: open_reader("run.h5").read("samples/energy"),
        "run.h5.parts/seg-00000004.h5 is damaged: sha256 differs. Blocks 0-2 are whole; resume the run to compute the "
        "others again.",
    )
    with pytest.warns(UserWarning) as caught:
        resume("run.h5").close()
    assert [str(warning.message) for warning in caught] == [
        "run.h5.parts/seg-00000004.h5 is damaged: sha256 differs. Blocks 0-2 are whole; 3-5 will be recomputed. "
        "Set aside as seg-00000004.h5.bad, and all 3 from there on likewise."
    ]
    assert sorted(os.listdir(parts)) == [
        "lock", *(f"seg-0000000{k}.h5" for k in range(4)), *(f"seg-0000000{k}.h5.bad" for k in (4, 5, 6))
    ]  # fmt: skip


def test_a_lost_first_segment_is_told(tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5")
    flip(parts / "seg-00000000.h5", 9000)
    for act in (open_reader, resume):
        refused(lambda act=act: act(tmp_path / "run.h5"), "holds the spec and the first state, so the run cannot")
    (parts / "seg-00000000.h5").unlink()
    for act in (open_reader, resume):
        refused(lambda act=act: act(tmp_path / "run.h5"), "seg-00000000.h5 is missing")


def test_files_of_others_among_the_segments_are_refused_and_kept(folder: Path) -> None:
    check_files_of_others(folder)


def check_files_of_others(tmp_path: Path) -> None:
    """A segment of another run, and files of other programs."""
    parts = begun(tmp_path / "run.h5")
    other = begun(tmp_path / "other.h5") / "seg-00000003.h5"
    victim = parts / "seg-00000003.h5"
    for fill, text in [
        (lambda: shutil.copy(other, victim), "belongs to another run"),
        (lambda: victim.write_text("thesis"), "is not a fastbm segment (no trailer). Nothing was changed."),
        (lambda: h5py.File(victim, "w").close(), "is not a fastbm segment (no trailer). Nothing was changed."),
    ]:
        fill()
        before = victim.read_bytes()
        refused(lambda: resume(tmp_path / "run.h5"), text)
        refused(lambda: open_reader(tmp_path / "run.h5").read("samples/energy"), text)
        assert victim.read_bytes() == before


def test_damage_older_than_a_resume_looks_is_found_by_the_merge(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastbm.store.resumption.HASHED_ON_RESUME", 2)
    path = tmp_path / "run.h5"
    parts = begun(path)
    flip(parts / "seg-00000002.h5", 8 * 3000)
    with resume(path) as writer:
        assert writer.n_blocks == 6
        append(writer, 6, N_BLOCKS)
        refused(lambda: writer.finish(state_after(N_BLOCKS)), "seg-00000002.h5 is damaged: sha256 differs. Blocks 0-0")
    with pytest.warns(UserWarning, match="1-7 will be recomputed"):
        complete(path)
    crash.assert_same_run(whole, path)


def test_what_follows_a_missing_segment_is_set_aside(tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5")
    (parts / "seg-00000004.h5").unlink()
    with pytest.warns(UserWarning) as caught:
        resume(tmp_path / "run.h5").close()
    assert str(caught[0].message).endswith(
        "seg-00000004.h5 is missing. Blocks 0-2 are whole; 3-5 will be recomputed. What follows is set aside as "
        "seg-00000005.h5.bad, and all 2 from there on likewise."
    )


def test_rows_that_were_changed_since_their_commit_are_not_merged(folder: Path) -> None:
    check_merge_of_changed_rows(folder)


def check_merge_of_changed_rows(folder: Path) -> None:
    """Rows of numbers alone, which no one reads before the merge hands them on."""
    path, rows = folder / "run.h5", np.arange(10_000.0)
    with create(path, spec={}, streams={"samples/x": Stream("<f8")}, state={}) as writer:
        writer.append({"samples/x": rows}, dict)
        writer.commit({})
        segment = damages.segment(path, 1)
        data = segment.read_bytes()
        segment.write_bytes(data.replace(rows[7000:].tobytes(), rows[:3000].tobytes()))
        assert segment.read_bytes() != data
        refused(lambda: writer.finish({}), "seg-00000001.h5 is damaged: sha256 differs. No blocks are whole; resume")
    assert not path.exists()
