"""Shared by all benchmarks: rounds, effort, the record of work per second, worker processes for peers."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from .machine import THREADS, describe


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fastbm")
    group.addoption("--rounds", type=int, default=2, help="timed rounds of each benchmark (default 2)")
    group.addoption("--effort", type=float, default=1.0, help="work in a round, as a multiple of the short default")


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    machine_info["fastbm"] = describe(machine_info["cpu"].get("brand_raw", "unknown"))


@pytest.fixture(params=THREADS, ids=lambda n: f"threads={n}")
def threads(request: pytest.FixtureRequest) -> int:
    """One thread, and two where there are two processors."""
    return request.param


@pytest.fixture
def effort(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """Scale a count (of sweeps, of epochs) by --effort."""
    factor = request.config.getoption("--effort")
    return lambda count: max(1, round(count * factor))


@pytest.fixture
def work(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Time `function` and record its work per second.

    ``work(function, count, unit, workload=..., program=...)`` runs `warm_up` (or `function`) once untimed, then
    --rounds rounds, and returns the last result. `count` is how many `unit`s a round does, or a function of the result
    that tells, or None where only the time matters. ``bench/report.py`` compares the entries of one `workload`;
    `variant` tells those of fastbm apart that all stand beside the same peers.
    """

    def measure(
        function: Callable[[], Any],
        count: Any,
        unit: str,
        *,
        workload: str,
        program: str = "fastbm",
        variant: str = "",
        threads: int = 1,
        warm_up: Callable[[], Any] | None = None,
        rounds: int | None = None,
        setup: Callable[[], None] | None = None,
    ) -> Any:
        benchmark.group = workload
        if setup is None or warm_up is not None:
            (warm_up or function)()
        rounds = rounds or request.config.getoption("--rounds")
        result = benchmark.pedantic(function, setup=setup, rounds=rounds, iterations=1)
        total = count(result) if callable(count) else count
        benchmark.extra_info |= {
            "program": program,
            "variant": variant,
            "threads": threads,
            "unit": unit,
            "count": total,
        }
        if total is not None and benchmark.stats is not None:
            benchmark.extra_info[f"{unit}/s"] = total / benchmark.stats.stats.median
        return result

    return measure


@pytest.fixture(scope="session")
def workers() -> Iterator[list[ProcessPoolExecutor]]:
    """Two processes of their own: peers hold the interpreter lock, so their threads would share one processor."""
    context = multiprocessing.get_context("spawn")
    pools = [ProcessPoolExecutor(1, mp_context=context) for _ in range(2)]
    yield pools
    for pool in pools:
        pool.shutdown()
