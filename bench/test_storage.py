"""Streaming samples to a file against keeping them in memory, and how fast a commit is."""

import os
import time
from contextlib import ExitStack
from functools import cache, partial
from itertools import count
from statistics import median
from unittest import mock

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm import StorageError, store

from .problems import Problem, machine

CHAINS, THIN, COMMIT_SECONDS, CHECK_SECONDS = 64, 10, 1.0, 0.1
SWEEPS = {Problem("sk", 1000): 3_000, Problem("gaussian", (128, 128)): 3_000}
BLOCK = (8_192, 64, 125)  # 65.5 MB: samples of 64 chains of 1000 units, packed
COMMIT = "commit of 65 MB"

each_problem = pytest.mark.parametrize("problem", SWEEPS, ids=str)
pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")


def workload(problem):
    return f"{problem}, {CHAINS} chains, every {THIN}th sweep streamed to a file"


def read_workload(problem):
    return f"{problem}, streamed and committed every second, read 10 times a second"


def sample(problem, n_sweeps, out=None, **options):
    return bm.sample(
        machine(problem), n_chains=CHAINS, n_sweeps=n_sweeps, thin=THIN, burn_in=0, threads=1, out=out, **options
    )


class Stopwatch:
    """The time that calls of the store take of the thread that computes: the ratio of two runs is that of the machine.

    Whole runs differ by more than streaming costs, even one after the other; what this leaves out is what the
    committing thread takes from the computing one where no processor is free.
    """

    def __init__(self):
        self.inside, self.shares = 0.0, []

    def watched(self, call):
        """Return a function that does `call` and adds its time, unless it is within one that is watched."""

        def timed(*arguments, **options):
            before, started = self.inside, time.perf_counter()
            result = call(*arguments, **options)
            self.inside = before + time.perf_counter() - started
            return result

        return timed

    def __call__(self, run):
        """Do `run` and note the time in the store as a share of all other time."""
        places = [(store, "create"), (store, "open_reader")]
        places += [(kind, name) for kind in (store.Writer, store.Memory) for name in ("append", "commit", "finish")]
        self.inside, started = 0.0, time.perf_counter()
        with ExitStack() as stack:
            for owner, name in places:
                if hasattr(owner, name):
                    stack.enter_context(mock.patch.object(owner, name, self.watched(getattr(owner, name))))
            result = run()
        self.shares.append(self.inside / (time.perf_counter() - started - self.inside))
        return result


@each_problem
def test_streamed_to_file(work, effort, tmp_path, benchmark, problem):
    sweeps, numbers = effort(SWEEPS[problem]), count()
    in_file, in_memory = Stopwatch(), Stopwatch()

    def run():
        return in_file(lambda: sample(problem, sweeps, tmp_path / f"{next(numbers)}.h5"))

    warm_up = partial(sample, problem, THIN, tmp_path / "warm.h5")
    work(
        run, sweeps, "sweeps", workload=workload(problem), warm_up=warm_up,
        setup=lambda: in_memory(lambda: sample(problem, sweeps)) and None,
    )  # fmt: skip
    if benchmark.stats is not None:
        benchmark.extra_info["overhead"] = median(in_file.shares) - median(in_memory.shares)
    found, expected = bm.open(tmp_path / "0.h5"), sample(problem, sweeps)
    np.testing.assert_array_equal(found.states[:], expected.states)
    np.testing.assert_array_equal(found.energy, expected.energy)


def look(path):
    """Look at a run ten times a second, from its begin to its merge.

    Returns
    -------
    n_commits : int
        How many different ends of the run were seen.
    share : float
        The processor time that looking took, of that of all processors: it cannot take more from the writer.
    """
    reader, n_rows = None, set()
    cpu, started = time.process_time(), time.monotonic()
    while reader is None or reader.live:
        time.sleep(CHECK_SECONDS)
        try:
            reader = reader or store.open_reader(path)
        except StorageError:  # it has not begun
            continue
        reader.refresh()
        n_rows.add(reader.n_rows("samples/energy"))
        assert len(reader.read("samples/energy", max(0, max(n_rows) - 10))) == min(10, max(n_rows))
    return len(n_rows), (time.process_time() - cpu) / (time.monotonic() - started) / len(os.sched_getaffinity(0))


@each_problem
def test_read_while_it_is_written(work, effort, tmp_path, benchmark, workers, problem):
    sweeps, numbers, found = effort(SWEEPS[problem]), count(), []

    def run():
        path = tmp_path / f"{next(numbers)}.h5"
        looking = workers[0].submit(look, path)
        sample(problem, sweeps, path, commit_seconds=COMMIT_SECONDS)
        found.append(looking.result())

    work(run, sweeps, "sweeps", workload=read_workload(problem))
    if benchmark.stats is not None:
        benchmark.extra_info["overhead"] = median(share for _, share in found[1:])
    assert all(n_commits > 0 for n_commits, _ in found)


@cache
def block():
    """Bits that no filter can compress."""
    return np.random.default_rng(3).integers(0, 256, BLOCK, dtype=np.uint8)


def test_commit(work, tmp_path):
    path, rows = tmp_path / "commit.h5", block()
    streams, state = {"samples/states": store.Stream("|u1", BLOCK[1:])}, {"n_rows": np.int64(0)}
    writer = store.create(
        path,
        spec={"kind": "sample"},
        streams=streams,
        state=state,
        commit_seconds=1e6,
        commit_bytes=1 << 40,
        merge=False,
    )
    with writer:

        def setup():
            writer.append({"samples/states": rows}, lambda: state)

        work(partial(writer.commit, state), rows.nbytes, "bytes", workload=COMMIT, setup=setup)
        writer.finish(state)
    reader = store.open_reader(path)
    np.testing.assert_array_equal(reader.read("samples/states", 0, len(rows)), rows)
    np.testing.assert_array_equal(reader.read("samples/states", reader.n_rows("samples/states") - 1), rows[-1:])


def test_commit_h5py(work, tmp_path):
    rows, numbers = block(), count()

    def run():
        """Write one dataset to a file of its own and see it to the disk."""
        path = tmp_path / f"{next(numbers)}.h5"
        with h5py.File(path, "w") as file:
            file["states"] = rows
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        return path

    path = work(run, rows.nbytes, "bytes", workload=COMMIT, program="h5py and fsync")
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["states"][-1], rows[-1])
