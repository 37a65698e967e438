"""A planned sum done piece by piece: it can be left between any two of them, kept as arrays, and gone on with."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import fields
from typing import Any

import numpy as np

from .._base.halting import Halt, never
from .._base.workers import Pieces, leaving
from .plan import Part, Sum, combine


class Work:
    """The work of a sum: its pieces, combined one after the other, in their order.

    A piece joins the running part of those before it, so that the bits do not depend on where the work was left, nor on
    who did the pieces.

    Parameters
    ----------
    planned : Sum
    threads : int
    executor : Executor, optional
        Does the pieces, each on one thread of its own.
    """

    def __init__(self, planned: Sum, threads: int, executor: Executor | None = None) -> None:
        self.planned = planned
        self._threads, self._executor = threads, executor
        self._part: Part | None = None
        self._n_done = 0
        self._handed: Pieces | None = None

    @property
    def done(self) -> bool:
        """Whether all pieces are done."""
        return self._n_done >= self.planned.n_pieces

    @property
    def progress(self) -> tuple[int, int]:
        """Pieces done, and all."""
        return self._n_done, self.planned.n_pieces

    @property
    def result(self) -> Part:
        """The sum of the pieces done."""
        assert self._part is not None
        return self._part

    def advance(self, halt: Halt = never) -> None:
        """Do the next piece; raises `Halted`, with the work as it was, where a stop is asked for."""
        if self._executor is None:
            piece = self.planned.piece(self._n_done, self._threads, halt)
        else:
            if self._handed is None:
                self._handed = Pieces(self._executor, do_piece, self.planned, self.planned.n_pieces, self._n_done)
            piece = self._handed.take(halt)
        self._part = piece if self._part is None else combine((self._part, piece))
        self._n_done += 1

    def leave(self) -> None:
        """Take back what waits for the executor; `advance` hands it out again."""
        if self._handed is not None:
            self._handed.cancel()

    def state(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on, bit for bit."""
        found = {"n_pieces_done": np.array(self._n_done), "n_pieces": np.array(self.planned.n_pieces)}
        return found if self._part is None else found | _arrays_of(self._part)

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        if (n_pieces := int(state.get("n_pieces", self.planned.n_pieces))) != self.planned.n_pieces:
            raise ValueError(f"its sum was cut into {n_pieces} pieces by another version; now {self.planned.n_pieces}.")
        self._n_done = int(state["n_pieces_done"])
        self._part = _part_of(state) if self._n_done else None
        self._handed = None


def do_piece(planned: Sum, k: int) -> Part:
    """Do one piece where a task has been sent to."""
    with leaving():
        return planned.piece(k, 1)


def run(planned: Sum, threads: int) -> Part:
    """Do all pieces."""
    work = Work(planned, threads)
    while not work.done:
        work.advance()
    return work.result


def _arrays_of(part: Part) -> dict[str, np.ndarray]:
    named = {f.name: getattr(part, f.name) for f in fields(part)}
    return {f"part/{name}": np.asarray(value) for name, value in named.items() if value is not None}


def _part_of(state: dict[str, np.ndarray]) -> Part:
    named = {f.name: state.get(f"part/{f.name}") for f in fields(Part)}
    values: dict[str, Any] = {k: v[()] if v.ndim == 0 else v for k, v in named.items() if v is not None}
    return Part(**values)
