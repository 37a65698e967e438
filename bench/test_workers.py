"""Pieces of a second on workers: what is not computing."""

from __future__ import annotations

import os

import pytest

from . import plan

N_WORKERS = min(2, os.cpu_count() or 1)


@pytest.mark.parametrize("kind", ["process pool", "Dask"])
def test_pieces_of_a_second(benchmark, kind):
    with plan.executor_of(kind, N_WORKERS) as executor:
        seconds = benchmark.pedantic(
            plan.seconds_of, (executor, plan.spin, 1.0, 4 * N_WORKERS), rounds=1, iterations=1, warmup_rounds=0
        )
    benchmark.extra_info["overhead"] = seconds / 4.0 - 1.0


@pytest.fixture(scope="module")
def alone() -> float:
    """Seconds of an exact sum with moments on one worker: 16 pieces."""
    return plan.seconds_of_a_sum(1)


@pytest.mark.parametrize("n_workers", [1, 2, 4, 8])
def test_wall_time_beside_its_forecast(benchmark, n_workers, alone):
    seconds = benchmark.pedantic(plan.seconds_of_a_sum, (n_workers,), rounds=1, iterations=1)
    work = plan.Work("a sum", alone, 16, begin=0.0, serial=0.0)
    found = plan.forecast(work, n_workers, plan.EXECUTORS["process pool"], processors=N_WORKERS)
    benchmark.extra_info["forecast"], benchmark.extra_info["measured"] = found.seconds, seconds
