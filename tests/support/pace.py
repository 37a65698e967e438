"""Blocks as short as they come, each committed: tiny runs then have as many commits as long ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from fastbm.inference.exact import sums as exact_sums
from fastbm.inference.exact.settings import ExactSettings
from fastbm.learning.learners import restricted
from fastbm.runs.sample import pace
from fastbm.store import Writer

PIECES = 4  # of an exact sum


@contextmanager
def short_blocks() -> Iterator[None]:
    """One sweep, sample, mini-batch or piece of a sum a block."""
    settle = exact_sums.ExactSums._settle

    def in_pieces(sums: Any, settings: ExactSettings) -> exact_sums.Settled:
        found = settle(sums, settings)
        return exact_sums.Settled(found.settings, found.why, found.seconds, PIECES)

    with ExitStack() as stack:
        for owner, name, value in (
            (pace, "BLOCK_SECONDS", 0.0),
            (restricted, "CALL_WORK", 1),
            (exact_sums, "SLICE_SECONDS", 1e-9),
            (exact_sums.ExactSums, "_settle", in_pieces),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


@contextmanager
def committed_blocks() -> Iterator[None]:
    """Short blocks, each safe before the next is begun."""
    append = Writer.append

    def append_and_commit(writer: Writer, rows: Any, state: Any) -> None:
        append(writer, rows, state)
        writer.commit(state())

    with short_blocks(), mock.patch.object(Writer, "append", append_and_commit):
        yield
