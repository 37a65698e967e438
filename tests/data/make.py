"""Make the runs of `tests/data/format-X.Y`, by the fastbm that is installed: `python tests/data/make.py`.

The folder of a released format is never made again: it must hold what that release has written.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

import fastbm as bm
from fastbm import store
from fastbm.runs import loop
from fastbm.runs.sample import pace
from fastbm.store import commit, schema
from tests.support.formats import DATA, N_BASE, N_BLOCKS, append, fit, known, sample, state_after, stored


def main() -> None:
    folder = DATA / "format-{}.{}".format(*schema.FORMAT_VERSION)
    folder.mkdir()  # one that is there is kept
    anonymous = mock.patch.multiple(platform, node=lambda: "node7", platform=lambda: "Linux")
    with anonymous, tempfile.TemporaryDirectory() as made:
        make(Path(made))
        for path in sorted(Path(made).rglob("*.h5")):
            target = folder / path.relative_to(made)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    names = sorted({path.name.removesuffix(".parts") for path in folder.iterdir()})
    expected = {name: known(folder / name) for name in names}
    (folder / "expected.json").write_text(
        json.dumps(expected, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    )


def make(folder: Path) -> None:
    """Make one run of every kind of standing that a run can have."""
    sample(folder / "sample.h5", compression="gzip")
    fit(folder / "fit.h5", compression="gzip")
    with mock.patch.object(pace, "BLOCK_SECONDS", 0.0):  # one record a block
        sample(folder / "finished.h5", merge=False)
        stop_after(4, sample, folder / "stopped.h5", commit_seconds=0.0)
    with mock.patch.object(commit, "LARGE_STATE_BYTES", 0):
        stop_after(2, fit, folder / "large.h5")
    with stored(folder / "extended.h5", N_BASE, compression="gzip") as writer:
        append(writer, 0, N_BASE)
        writer.finish(state_after(N_BASE))
    with store.resume(folder / "extended.h5", extend_spec={"n_blocks": N_BLOCKS}) as writer:
        append(writer, N_BASE, N_BLOCKS - 1)


def stop_after(n_blocks: int, begin: Callable[..., bm.Run], path: Path, **options: Any) -> None:
    """Begin a run and stop it after some blocks."""
    stop, seen = loop.Stop(), []

    def look(task: Any, rows: Any) -> None:
        seen.append(rows)
        stop.requested = "SIGTERM" if len(seen) == n_blocks else ""

    try:
        begin(path, stop=stop, progress=look, **options)
    except bm.Interrupted:
        return
    raise AssertionError(f"{path.name} was done before {n_blocks} blocks")


if __name__ == "__main__":
    main()
