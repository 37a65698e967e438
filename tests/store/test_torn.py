"""Segments of which a power cut left zeros: a suffix, a prefix or a page of the last one."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

import fastbm as bm
from tests.support import crash

PAGE = 4096
OFFSETS = (0, 8, 64, 500, 2048, 6128, -64, -8, -1)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few segments that was stopped, and beside it the same run whole."""
    place = tmp_path_factory.mktemp("torn")
    model, options = bm.models.ising((8, 8)), {"n_chains": 4, "n_sweeps": 60, "beta": 0.3, "commit_seconds": 0.0}
    bm.sample(model, out=place / "whole.h5", **options)
    bm.sample(model, out=place / "run.h5", max_seconds=0.0, **options)
    return place


def zeroed(data: bytes, way: str, offset: int) -> bytes:
    start = offset % len(data)
    first, last = {"suffix": (start, len(data)), "prefix": (0, start), "page": (start, start + PAGE)}[way]
    return data[:first] + bytes(len(data[first:last])) + data[last:]


@pytest.mark.parametrize("way", ["suffix", "prefix", "page"])
def test_a_torn_segment_is_told_and_the_run_goes_on_without_it(way: str, stopped: Path, tmp_path: Path) -> None:
    parts = stopped / "run.h5.parts"
    last = sorted(parts.glob("seg-*.h5"))[-1]
    data = last.read_bytes()
    for k, offset in enumerate(OFFSETS):
        torn = zeroed(data, way, offset)
        if torn == data:
            continue
        path = tmp_path / f"{k}" / "run.h5"
        shutil.copytree(parts, f"{path}.parts")
        (path.parent / "run.h5.parts" / last.name).write_bytes(torn)
        with pytest.raises(bm.StorageError, match=rf"{last.name} is damaged: "):
            bm.open(path)
        assert bm.verify(path).problems
    kept = [path for path in tmp_path.glob("*/run.h5.parts")]
    for place in itertools.islice(kept, 3):
        run = Path(str(place).removesuffix(".parts"))
        with pytest.warns(UserWarning, match="all from . on will be recomputed"):
            assert bm.resume(run).finished
        crash.assert_same_run(stopped / "whole.h5", run)
