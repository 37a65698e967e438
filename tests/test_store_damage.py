"""Damaged files are never read as data: they are told with their place and computed again."""

from __future__ import annotations

import os
import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import crashing
import h5py
import numpy as np
import pytest
import store_helpers
from store_helpers import N_BLOCKS, STREAMS, append, begun, complete, refused, state_after

from fastbm._checks import StorageError
from fastbm.store import open_reader, resume

tmp_path = store_helpers.tmp_path
whole = store_helpers.whole


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def check_damaged(path: Path, whole: Path, kept: dict[str, np.ndarray]) -> bool:
    """Assert that readers give rows of the whole run or an error, and that a resume mends the run or says where not."""
    try:
        with open_reader(path) as reader:
            for name, rows in kept.items():
                found = reader.read(name)
                assert np.array_equal(found, rows[: len(found)])
    except StorageError as error:
        assert "run.h5.parts/seg-" in str(error)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            complete(path)
    except StorageError as error:
        assert "run.h5.parts/seg-" in str(error)
        return False
    crashing.assert_same_run(whole, path)
    return True


@pytest.fixture
def kept(whole: Path) -> dict[str, np.ndarray]:
    with open_reader(whole) as reader:
        return {name: reader.read(name) for name in STREAMS if not name.startswith("meta")}


@pytest.fixture
def damage(tmp_path: Path, whole: Path, kept: dict[str, np.ndarray]) -> Iterator[Callable[..., bool]]:
    """Give a function that damages one segment of a copy of a run and checks what comes of it."""
    parts = begun(tmp_path / "run.h5")

    def apply(act: Callable[[Path], None], number: int) -> bool:
        folder = tmp_path / "trial"
        shutil.copytree(parts, folder / "run.h5.parts")
        act(folder / "run.h5.parts" / f"seg-{number:08d}.h5")
        mended = check_damaged(folder / "run.h5", whole, kept)
        shutil.rmtree(folder)
        return mended

    yield apply


@pytest.mark.parametrize("n_trials", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_a_segment_cut_at_a_random_byte_is_computed_again(damage: Callable[..., bool], n_trials: int) -> None:
    chance = random.Random(1)

    def cut(path: Path) -> None:
        os.truncate(path, chance.randrange(path.stat().st_size))

    for _ in range(n_trials):
        number = chance.randrange(7)
        assert damage(cut, number) is (number > 0)


@pytest.mark.parametrize("n_trials", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_found(damage: Callable[..., bool], n_trials: int) -> None:
    chance = random.Random(2)
    for _ in range(n_trials):
        number = chance.randrange(7)
        assert damage(lambda path: flip(path, chance.randrange(8 * path.stat().st_size)), number) is (number > 0)


def test_a_segment_that_is_lost_swapped_or_zeroed_is_computed_again(damage: Callable[..., bool]) -> None:
    def swap(path: Path) -> None:
        other = path.with_name("seg-00000005.h5")
        one, two = path.read_bytes(), other.read_bytes()
        path.write_bytes(two)
        other.write_bytes(one)

    for number in range(1, 5):
        assert damage(Path.unlink, number)
        assert damage(swap, number)
        assert damage(lambda path: path.write_bytes(bytes(path.stat().st_size)), number)
        assert damage(lambda path: path.write_bytes(b""), number)
    assert not damage(Path.unlink, 0)


def test_a_segment_of_another_life_of_the_run_is_computed_again(tmp_path: Path, whole: Path) -> None:
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
    crashing.assert_same_run(whole, tmp_path / "twin.h5")


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
        "Set aside and 2 after it as seg-00000004.h5.bad."
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


def test_files_of_others_among_the_segments_are_refused_and_kept(tmp_path: Path) -> None:
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
    monkeypatch.setattr("fastbm.store.resuming.HASHED_ON_RESUME", 2)
    path = tmp_path / "run.h5"
    parts = begun(path)
    flip(parts / "seg-00000002.h5", 8 * 3000)
    with resume(path) as writer:
        assert writer.n_blocks == 6
        append(writer, 6, N_BLOCKS)
        refused(lambda: writer.finish(state_after(N_BLOCKS)), "seg-00000002.h5 is damaged: sha256 differs. Blocks 0-0")
    with pytest.warns(UserWarning, match="1-7 will be recomputed"):
        complete(path)
    crashing.assert_same_run(whole, path)


def test_a_damaged_merged_file_is_told(whole: Path) -> None:
    good, chance = whole.read_bytes(), random.Random(3)
    for _ in range(20):
        whole.write_bytes(good)
        flip(whole, chance.randrange(8 * len(good)))
        refused(lambda: open_reader(whole).read("samples/energy"), "whole.h5 is")
        whole.write_bytes(good[: chance.randrange(1, len(good) - 48)])
        refused(lambda: open_reader(whole).read("samples/energy"), "whole.h5 is")
