"""Threads work side by side, each team of them for one caller; the limit on BLAS threads is the whole process's."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from fastbm._base import threads
from fastbm._base.threads import blas_libraries, fan_out, lent, side_by_side, single_threaded_blas, take_turns
from fastbm.kernels.barrier import let_through, meet as meet_others
from tests.support.machines import close_pools

blas_libraries()  # has SciPy's BLAS loaded too
BLAS = ThreadpoolController().select(user_api="blas")


def n_threads() -> set[int]:
    return {library.get_num_threads() for library in BLAS.lib_controllers}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    with BLAS.limit(limits=2):
        assert n_threads() == {2}
        yield


def test_the_first_one_out_does_not_end_the_limit_and_the_last_one_does() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with single_threaded_blas():
            inside.set()
            leave.wait(10)

    other = threading.Thread(target=hold)
    with single_threaded_blas():
        other.start()
        assert inside.wait(10)
        assert n_threads() == {1}
    assert n_threads() == {1}, "the other thread still holds it"
    leave.set()
    other.join()
    assert n_threads() == {2}


def test_a_hold_that_raises_is_given_back_and_one_within_another_does_not_end_it() -> None:
    with single_threaded_blas():
        with pytest.raises(KeyError), single_threaded_blas():
            raise KeyError
        assert n_threads() == {1}
    assert n_threads() == {2}


def test_a_forked_child_does_not_count_the_holders_of_its_parent() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with single_threaded_blas():
            inside.set()
            leave.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    assert inside.wait(10)
    child = os.fork()
    if not child:
        with single_threaded_blas():
            held = n_threads()
        os._exit(0 if (held, n_threads()) == ({1}, {2}) else 1)
    leave.set()
    other.join()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(("n_items", "n_threads"), [(3, 2), (5, 3)])
def test_items_that_take_turns_do_their_steps_in_order(n_items: int, n_threads: int) -> None:
    done: dict[int, list[int]] = {item: [] for item in range(n_items)}

    def do(first: int, last: int, item: int) -> None:
        time.sleep(1e-3 * item)
        done[item] += range(first, last)

    take_turns(do, n_items, 7, n_threads, n_threads)
    assert done == {item: list(range(7)) for item in range(n_items)}

    begun = []

    def fail(first: int, last: int, item: int) -> None:
        begun.append((first, item))
        time.sleep(5e-3 if item == 1 else 1e-3)  # long enough for others to wait for it
        if item == 1:
            raise KeyError

    with pytest.raises(KeyError):
        take_turns(fail, n_items, 7, n_threads, n_threads)
    assert [first for first, item in begun if item == 1] == [0]


def test_side_by_side_runs_at_the_same_time_or_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting, seen = threading.Barrier(3), []

    def meet(k: int, n: int) -> None:
        meeting.wait(10)
        seen.append((k, n))

    side_by_side(meet, 3)
    assert sorted(seen) == [(0, 3), (1, 3), (2, 3)]

    def fail(k: int, n: int) -> None:
        if k:
            raise KeyError(k)

    with pytest.raises(KeyError):
        side_by_side(fail, 2)

    counter = np.zeros(1, np.int64)

    def first_fails(k: int, n: int) -> None:
        if not k:
            raise KeyError(k)
        meet_others(counter, 0, n)

    with pytest.raises(KeyError):
        side_by_side(first_fails, 2, lambda: let_through(counter))

    start, begun = threading.Thread.start, []

    def one_only(thread: threading.Thread) -> None:
        if begun:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    close_pools()
    monkeypatch.setattr(threading.Thread, "start", one_only)
    seen.clear()
    side_by_side(lambda k, n: seen.append((k, n)), 3)
    assert seen == [(0, 1)]


def test_callers_at_the_same_time_have_teams_of_their_own_which_are_lent_again() -> None:
    meeting = threading.Barrier(4)

    def meet(k: int, n: int) -> None:
        meeting.wait(10)

    callers = [threading.Thread(target=side_by_side, args=(meet, 2)) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not meeting.broken

    with lent(1) as first, lent(1) as second:
        assert first is not second
    with lent(1) as again:
        assert again in (first, second)


def test_an_error_is_raised_once_and_a_team_that_has_not_ended_is_not_lent() -> None:
    both = threading.Barrier(2)

    def fail(k: int) -> None:
        both.wait(10)
        raise KeyError(k)

    for _ in range(2):
        with pytest.raises(KeyError):
            fan_out(fail, range(4), 2)
        assert fan_out(lambda k: k, range(4), 2) == [0, 1, 2, 3]

    leave = threading.Event()
    with lent(1) as busy:
        assert busy is not None
        busy.begin([leave.wait])
    with lent(1) as other:
        assert other is not busy
    leave.set()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads have no processors of their own")
def test_threads_keep_off_the_processor_of_their_caller_within_those_that_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everywhere, seen = os.sched_getaffinity(0), []
    assert threads._processor is not None and threads._processor() in everywhere
    meeting = threading.Barrier(2)

    def look(k: int, n: int) -> None:
        if k:
            seen.append(os.sched_getaffinity(0))
        meeting.wait(10)  # who waits for threads that are late lets them go anywhere

    for one in sorted(everywhere)[:2]:
        monkeypatch.setattr(threads, "_processor", partial(int, one))
        side_by_side(look, 2)
    try:
        os.sched_setaffinity(0, {min(everywhere)})
        side_by_side(look, 2)
    finally:
        os.sched_setaffinity(0, everywhere)
    *apart, within = seen
    assert within == {min(everywhere)}
    assert apart == [everywhere - {one} or everywhere for one in sorted(everywhere)[:2]]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads have no processors of their own")
def test_threads_that_are_late_may_have_all_processors() -> None:
    go, seen = threading.Event(), []

    def look() -> None:
        go.wait(10)
        seen.append(os.sched_getaffinity(0))

    with lent(1) as team:
        assert team is not None
        team.begin([look])
        waiting = threading.Thread(target=team.wait)
        waiting.start()
        waiting.join(0.1)
        go.set()
        waiting.join()
    assert seen == [os.sched_getaffinity(0)]
