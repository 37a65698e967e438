"""Pieces done by workers: in their order, and with what they share sent once."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from fastbm._base import workers
from fastbm._base.checks import Interrupted
from fastbm._base.workers import Pieces


def scaled(shared: dict[str, int], k: int) -> int:
    """A piece of a job."""
    return shared["factor"] * k


def failing(shared: None, k: int) -> int:
    """A piece that fails."""
    raise OSError(f"piece {k}")


def leaving(shared: list[int], k: int) -> int:
    """A piece whose worker is asked to leave, as often as told."""
    if k == 3 and shared[0]:
        shared[0] -= 1
        raise Interrupted("stopped by SIGTERM.", None)
    return k


def dying(shared: None, k: int) -> None:
    """A piece that is the end of its worker."""
    os._exit(9)


class Recording(Executor):
    """An executor whose workers forget what they knew, and which keeps what was sent to it."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.forgets, self.exact = False, True

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        """Do it at once."""
        self.sent.append(arguments)
        if self.forgets:
            workers._known.clear()
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except (OSError, ValueError) as error:
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


@pytest.mark.parametrize("n_times", [2, 3])
def test_a_piece_that_was_left_goes_to_another_worker_and_not_for_ever(n_times: int) -> None:
    pieces = Pieces(Recording(), leaving, [n_times], 9)
    if n_times < workers.MOST_LEFT:
        assert [pieces.take() for _ in range(9)] == list(range(9))
        return
    with pytest.raises(BrokenExecutor, match="3 workers left in the middle of one piece"):
        for _ in range(9):
            pieces.take()


def test_a_worker_with_other_versions_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "pinned", lambda: ("9.9.9", "2.0.0", "0.60.0"))
    with pytest.raises(ValueError, match=r"other bits: fastbm is .* here and 9.9.9 where the work comes from"):
        Pieces(Recording(), scaled, {"factor": 99}, 3).take()
    mixing = Recording()
    mixing.exact = False
    assert Pieces(mixing, scaled, {"factor": 98}, 3, first=1).take() == 98


def test_a_dead_pool_is_told_in_one_line() -> None:
    with ProcessPoolExecutor(2) as pool:
        pieces = Pieces(pool, dying, None, 4)
        with pytest.raises(BrokenExecutor):
            pieces.take()
        with pytest.raises(BrokenExecutor):
            pieces.take()
    with ThreadPoolExecutor(1) as closed:
        pass
    with pytest.raises(BrokenExecutor, match="after shutdown"):
        Pieces(closed, scaled, {"factor": 2}, 4).take()
