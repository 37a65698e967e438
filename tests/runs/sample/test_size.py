"""Large machines: memory that does not grow, and stops that do not wait for a sweep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fastbm.sampling import memory
from tests.support import stopping

MEMORY = """
import resource, sys
import fastbm as bm
model = bm.models.ising((1000, 1000))
bm.sample(model, n_chains=64, n_sweeps=int(sys.argv[2]), burn_in=1, beta=0.4, out=sys.argv[1])
try:  # kilobytes of this program; getrusage counts those of the process that started it, too
    print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
except FileNotFoundError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
STOP = """
import os, signal, sys, threading, time
import fastbm as bm
sides, options = eval(sys.argv[1]), eval(sys.argv[2])
fired, began = [], []
def fire():
    fired.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
def progress(task, rows):
    if not began:
        began.append(1)
        threading.Timer(0.3, fire).start()
try:
    bm.sample(bm.models.ising(sides), beta=0.4, progress=progress, max_seconds=60.0, **options)
except bm.Interrupted as stopped:
    print(time.perf_counter() - fired[0])
"""


def run(code: str, *words: object) -> float:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, words)], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


@pytest.mark.slow
def test_a_million_units_in_64_chains_take_less_than_a_gigabyte(tmp_path: Path) -> None:
    """At 3 sweeps and at 40, with 8 MB of samples each: they leave memory as they are committed."""
    kilobytes = [run(MEMORY, tmp_path / f"{n}.h5", n) for n in (3, 40)]
    assert max(kilobytes) < 1e6


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["gibbs", "annealing", "population-annealing", "swendsen-wang"])
def test_a_million_units_stop_at_once(sampler: str) -> None:
    """In 0.2 s on an idle machine; a busy one may take longer, but not the minutes that are left to do."""
    options = {"sampler": sampler, "n_chains": 64, "n_sweeps": 10_000}
    assert run(STOP, (1000, 1000), options) < 4.0


def test_sweeps_of_many_replicas_are_left_half_way() -> None:
    options = {"sampler": "tempering", "n_betas": 40, "n_chains": 64, "n_sweeps": 10_000}
    with stopping.start((100, 100), options, before="", code=STOP) as child:
        told, errors = child.communicate()
    assert float(told) < 4.0, errors


def test_what_is_free_is_known_here() -> None:
    free = memory.available_bytes()
    assert free is not None
    assert 1e6 < free < 1e14


def test_a_control_group_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory._of_group() is None
    for name, text in (
        ("memory.max", "5000000\n"),
        ("memory.current", "4000000\n"),
        ("memory.stat", "anon 1\ninactive_file 300\n"),
    ):
        (tmp_path / name).write_text(text)
    assert memory._of_group() == 1_000_300
    assert memory.available_bytes() == 1_000_300
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._of_group() is None
