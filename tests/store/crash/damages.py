"""Files of a run damaged in every way, and what must come of it: the same end, or an error that names the file."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

from fastbm._base.checks import StorageError
from fastbm.store import merge_parts
from fastbm.store.verification import verify
from tests.store.crash import stories
from tests.store.crash.stories import N_BLOCKS, check_prefix, flip, put, taken
from tests.support import crash

N_SEGMENTS = N_BLOCKS + 1  # the first one, and one for each block
Damage = Callable[[Path, random.Random], None]


def cut(path: Path, chance: random.Random) -> None:
    """Cut a file at a random byte."""
    os.truncate(path, chance.randrange(path.stat().st_size))


def flip_one(path: Path, chance: random.Random) -> None:
    """Turn one random bit round."""
    flip(path, chance.randrange(8 * path.stat().st_size))


def swap(path: Path) -> None:
    """Exchange a segment with one near it."""
    number = int(path.stem.split("-")[1])
    other = segment(path.parent.with_suffix(""), number - 1 if number == N_SEGMENTS - 1 else number + 1)
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


def segment(path: Path, number: int) -> Path:
    """The path of a segment of a run."""
    return path.with_name(path.name + ".parts") / f"seg-{number:08d}.h5"


@cache
def stage(kind: str) -> dict[str, bytes]:
    """The files of a run: in "parts" before its end, the same with "states" of their own, or "merged"."""
    with crash.memory_folder() as folder:
        path = folder / "run.h5"
        if kind == "merged":
            stories.work(path)
        elif kind == "states":
            with stories.large_states():
                stories.go_on(stories.begin(path), N_BLOCKS, every=1, stop_at=N_BLOCKS - 1)
        else:
            writer = stories.begin(path, merge=False)
            stories.go_on(writer, N_BLOCKS, every=1)
        return {name: data for name, data in taken(folder).items() if not name.endswith("lock")}


def set_stage(kind: str, folder: Path) -> Path:
    """Put a fresh copy of a run there; return its path."""
    path = folder / "run.h5"
    crash.remove_run(path)
    put(stage(kind), folder)
    return path


def whole() -> crash.Contents:
    """What the run must hold in the end."""
    return stories.stage("run").whole


def trial(path: Path, expected: crash.Contents) -> bool:
    """Assert that readers see whole rows or an error, and that the run is mended or refused; return whether it was."""
    try:
        check_prefix(path, expected)
    except StorageError as error:
        assert_named(error)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r".*(will be recomputed|has no whole state)")
            stories.work(path)
            if not path.exists():
                merge_parts(path)
    except StorageError as error:
        assert_named(error)
        return False
    try:
        found = crash.contents_of(path)
    except (OSError, KeyError) as error:
        raise AssertionError("what was taken for whole cannot be read") from error
    crash.assert_same_contents(expected, found)
    return True


def assert_named(error: StorageError) -> None:
    """The text names the damaged file."""
    assert "run.h5" in str(error)
    assert any(word in str(error) for word in ("is damaged", "is missing", "is not a fastbm", "no state")), str(error)


def check(damage: Damage, kind: str, folder: Path, n_trials: int, seed: int = 1) -> None:
    """Damage random files of a run, one at a time."""
    chance, names = random.Random(seed), sorted(stage(kind))
    for _ in range(n_trials):
        path, name = set_stage(kind, folder), chance.choice(names)
        damage(folder / name, chance)
        try:
            assert not verify(path).sound, name
        except StorageError as error:
            assert_named(error)
        assert trial(path, whole()) is (kind != "merged" and "seg-00000000" not in name), name
