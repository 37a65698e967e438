"""What happens to a small run of arrays: it is begun, extended, replaced, mended; each story is told again and again.

Rows depend on all before them through the state, so that a wrong state shows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from fastbm._base.checks import StorageError
from fastbm.store import Stream, Writer, commit, create, merge_parts, open_reader, resume
from tests.store.crash.operations import Operation, operations_of
from tests.support import crash

N_BLOCKS = 4
ROWS_A_BLOCK = 3
STREAMS = {
    "samples/states": Stream("|u1", (4, 3), {"n_units": 20, "bitorder": "little", "one": 1}),
    "samples/energy": Stream("<f8", (4,)),
    "metrics/note": Stream("str"),
    "meta/seconds": Stream("<f8"),
}

Acknowledge = Callable[[int], None]


def nobody(n_blocks: int) -> None:
    """Nobody is told that blocks are safe."""


def begin(path: Path, n_blocks: int = N_BLOCKS, seed: int = 1, **options: Any) -> Writer:
    return create(
        path, spec={"n_blocks": n_blocks, "seed": seed}, inputs={"start": np.arange(5.0)}, streams=STREAMS,
        state={"rng": np.array([seed], np.uint64), "counters/sweep": 0}, **options,
    )  # fmt: skip


def go_on(
    writer: Writer, n_blocks: int, *, acknowledge: Acknowledge = nobody, every: int = 2, stop_at: int | None = None
) -> None:
    """Append blocks, commit every few, and finish, unless it is to stop before."""
    with writer:
        acknowledge(writer.n_blocks)
        word, sweep = int(writer.state["rng"][0]), int(writer.state["counters/sweep"])

        def state() -> dict[str, object]:
            return {"rng": np.array([word], np.uint64), "counters/sweep": sweep}

        while not writer.finished and writer.n_blocks < n_blocks:
            if writer.n_blocks == stop_at:
                return
            rng = np.random.default_rng(word)
            rows = {
                "samples/states": rng.integers(0, 256, (ROWS_A_BLOCK, 4, 3), dtype=np.uint8),
                "samples/energy": rng.normal(size=(ROWS_A_BLOCK, 4)),
                "meta/seconds": [time.perf_counter()],
            }
            if writer.n_blocks % 2:
                rows["metrics/note"] = [f"block {writer.n_blocks}"]
            word, sweep = int(rng.integers(2**63)), sweep + ROWS_A_BLOCK
            writer.append(rows, state)
            if writer.n_blocks % every == 0:
                writer.commit(state())
                acknowledge(writer.n_blocks)
        writer.finish(state())
        acknowledge(writer.n_blocks)


def work(path: Path, acknowledge: Acknowledge = nobody, **options: Any) -> None:
    """Begin the run if there is none, else resume it; take it to its end."""
    try:
        writer = resume(path)
    except StorageError as error:
        if "does not exist" not in str(error):
            raise
        writer = begin(path)
    go_on(writer, N_BLOCKS, acknowledge=acknowledge, **options)


def extend(path: Path, acknowledge: Acknowledge = nobody) -> None:
    """Go on to twice the length."""
    writer = resume(path, extend_spec={"n_blocks": 2 * N_BLOCKS, "seed": 1})
    go_on(writer, 2 * N_BLOCKS, acknowledge=acknowledge)


def replace(path: Path, acknowledge: Acknowledge = nobody) -> None:
    """Put a run with another seed in the place of the one that is there; go on with it if that was done."""
    replaced = open_reader(path).spec["seed"] == 2
    writer = resume(path) if replaced else begin(path, seed=2, overwrite=True)
    go_on(writer, N_BLOCKS, acknowledge=acknowledge)


def merge(path: Path, acknowledge: Acknowledge = nobody) -> None:
    """Merge the parts of a run that is finished; one that is merged stays as it is."""
    acknowledge(N_BLOCKS)
    merge_parts(path)


def mend(path: Path, acknowledge: Acknowledge = nobody) -> None:
    """Resume a run of which segments are damaged."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*will be recomputed")
        work(path, acknowledge)


def stopped(path: Path, n_blocks: int) -> Path:
    """Leave a run that was stopped after `n_blocks`; return its parts."""
    go_on(begin(path), N_BLOCKS, every=1, stop_at=n_blocks)
    return path.with_name(path.name + ".parts")


def _damaged(path: Path) -> None:
    parts = stopped(path, 3)
    flip(parts / "seg-00000002.h5", 8 * 3000)
    (parts / "seg-00000004.h5.tmp").write_bytes(b"left by a kill")


def flip(path: Path, bit: int) -> None:
    """Turn one bit of a file round."""
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@contextmanager
def large_states() -> Iterator[None]:
    """Every state is a file of its own, of which the last two are kept, and some older ones."""
    with (
        mock.patch.object(commit, "LARGE_STATE_BYTES", 0),
        mock.patch.object(commit, "KEPT_STATES", 1),
    ):
        yield


@dataclass(frozen=True)
class Story:
    """One thing that is done to a run.

    Attributes
    ----------
    tell : callable
        Does it; told again after a crash it goes on to the same end.
    end : callable
        Makes the run as it must be in the end, never interrupted.
    prepare : callable
        Makes what is there before.
    """

    tell: Callable[..., None]
    end: Callable[[Path], None]
    prepare: Callable[[Path], Any] = lambda path: None
    setting: Callable[[], AbstractContextManager[None]] = nullcontext


STORIES = {
    "run": Story(work, work),
    "short": Story(partial(work, every=N_BLOCKS + 1), work),  # over before its first commit was due
    "large-states": Story(partial(work, every=1), work, setting=large_states),
    "extension": Story(extend, lambda path: go_on(begin(path, 2 * N_BLOCKS), 2 * N_BLOCKS), work),
    "replacement": Story(replace, lambda path: go_on(begin(path, seed=2), N_BLOCKS), work),
    "replacement-of-parts": Story(
        replace, lambda path: go_on(begin(path, seed=2), N_BLOCKS), lambda path: stopped(path, 3)
    ),
    "merge": Story(merge, work, lambda path: go_on(begin(path, merge=False), N_BLOCKS)),
    "mend": Story(mend, work, _damaged),
}


@dataclass(frozen=True)
class Stage:
    """A story made ready: its files before, what the run holds in the end, and the operations in between."""

    story: Story
    before: dict[str, bytes]
    whole: crash.Contents
    operations: tuple[Operation, ...]

    def set(self, path: Path) -> None:
        """Put the files there that the story begins with, and no others."""
        crash.remove_run(path)
        put(self.before, path.parent)

    def tell(self, path: Path, *arguments: Any) -> None:
        """Tell the story."""
        with self.story.setting():
            self.story.tell(path, *arguments)


@cache
def stage(name: str) -> Stage:
    """Make a story ready; a run is called ``run.h5`` in it."""
    story = STORIES[name]
    with crash.memory_folder() as folder, story.setting():
        story.end(folder / "whole.h5")
        whole = crash.contents_of(folder / "whole.h5")
        crash.remove_run(folder / "whole.h5")
        path = folder / "run.h5"
        story.prepare(path)
        before = taken(folder)
        operations = operations_of(lambda: story.tell(path))
        crash.assert_same_contents(whole, crash.contents_of(path))
        return Stage(story, before, whole, tuple(operations))


def taken(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their names in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def put(found: dict[str, bytes], folder: Path) -> None:
    """The way back from `taken`."""
    for name, data in found.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def check_prefix(path: Path, whole: crash.Contents) -> int:
    """Assert that what a reader sees is a prefix of the whole run, in whole blocks; return their number."""
    with open_reader(path) as reader:
        return prefix_of(reader, whole)


def prefix_of(reader: Any, whole: crash.Contents) -> int:
    """The same, of a reader that is open; while it looks, more may be committed."""
    n_blocks = reader.n_blocks
    for name in ("samples/states", "samples/energy"):
        rows, n_rows = reader.read(name), ROWS_A_BLOCK * n_blocks
        assert len(rows) >= n_rows
        assert len(rows) % ROWS_A_BLOCK == 0
        assert rows.tobytes() == whole[name][-1][: len(rows) * rows[:1].nbytes]
    return int(n_blocks)
