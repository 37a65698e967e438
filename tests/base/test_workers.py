"""Pieces done by workers: in their order, and with what they share sent once."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from fastbm._base import workers
from fastbm._base.workers import Pieces


def scaled(shared: dict[str, int], k: int) -> int:
    """A piece of a job."""
    return shared["factor"] * k


def failing(shared: None, k: int) -> int:
    """A piece that fails."""
    raise OSError(f"piece {k}")


class Recording(Executor):
    """An executor whose workers forget what they knew, and which keeps what was sent to it."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.forgets = False

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        """Do it at once."""
        self.sent.append(arguments)
        if self.forgets:
            workers._known.clear()
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except OSError as error:
            future.set_exception(error)
        return future


def test_pieces_come_in_order_from_threads_and_processes() -> None:
    for pool in (ThreadPoolExecutor(2), ProcessPoolExecutor(2)):
        with pool:
            pieces = Pieces(pool, scaled, {"factor": 3}, 40, first=5)
            assert [pieces.take() for _ in range(35)] == [3 * k for k in range(5, 40)]


def test_what_pieces_share_is_sent_once_a_worker() -> None:
    executor, shared = Recording(), {"factor": 2} | {str(k): k for k in range(10_000)}
    pieces = Pieces(executor, scaled, shared, 300)
    assert [pieces.take() for _ in range(300)] == [2 * k for k in range(300)]
    with_shared = [arguments for arguments in executor.sent if arguments[-1] is not None]
    assert len(with_shared) == (os.cpu_count() or 1)
    assert max(len(pickle.dumps(arguments)) for arguments in executor.sent if arguments[-1] is None) < 200


def test_workers_that_forget_are_told_again() -> None:
    executor = Recording()
    executor.forgets = True
    pieces = Pieces(executor, scaled, {"factor": 2}, 30)
    assert [pieces.take() for _ in range(30)] == [2 * k for k in range(30)]


def test_an_error_is_that_of_the_first_piece_that_fails() -> None:
    pieces = Pieces(Recording(), failing, None, 9, first=4)
    with pytest.raises(OSError, match="piece 4"):
        pieces.take()
