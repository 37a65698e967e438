"""Streaming samples to a file against keeping them in memory, and how fast a commit is."""

import itertools
import os
import time
from functools import cache, partial
from itertools import count
from statistics import median

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm import StorageError, store

from .problems import Problem, machine

CHAINS, THIN, COMMIT_SECONDS, LOOK_SECONDS = 64, 10, 1.0, 0.1
SWEEPS = {Problem("sk", 1000): 2_000, Problem("gaussian", (128, 128)): 400}
BLOCK = (8_192, 64, 125)  # 65.5 MB: samples of 64 chains of 1000 units, packed
COMMIT = "commit of 65 MB"

each_problem = pytest.mark.parametrize("problem", SWEEPS, ids=str)


def workload(problem):
    return f"{problem}, {CHAINS} chains, every {THIN}th sweep streamed to a file (peer: kept in memory)"


def read_workload(problem):
    return f"{problem}, streamed and committed every second, read 10 times a second (peer: not read)"


def sample(problem, n_sweeps, out=None, **options):
    return bm.sample(
        machine(problem), n_chains=CHAINS, n_sweeps=n_sweeps, thin=THIN, burn_in=0, threads=1, out=out, **options
    )


class Between:
    """Runs something before each timed round; the overhead is what a round takes more than the runs around it."""

    def __init__(self, run):
        self.run, self.seconds = run, []

    def __call__(self):
        started = time.perf_counter()
        self.run()
        self.seconds.append(time.perf_counter() - started)

    def overhead(self, rounds):
        """Return the median of the ratios, each of one round and the mean of its neighbours, less one."""
        self()
        around = [(a + b) / 2 for a, b in itertools.pairwise(self.seconds[-len(rounds) - 1 :])]
        return median(mine / other for mine, other in zip(rounds, around, strict=True)) - 1


@each_problem
def test_streamed_to_file(work, effort, tmp_path, benchmark, problem):
    sweeps, numbers = effort(SWEEPS[problem]), count()
    in_memory = Between(lambda: sample(problem, sweeps))

    def run():
        return sample(problem, sweeps, tmp_path / f"{next(numbers)}.h5")

    warm_up = partial(sample, problem, THIN, tmp_path / "warm.h5")
    work(run, sweeps, "sweeps", workload=workload(problem), setup=in_memory, warm_up=warm_up)
    if benchmark.stats is not None:
        benchmark.extra_info["overhead"] = in_memory.overhead(benchmark.stats.stats.data)
    found, expected = bm.open(tmp_path / "0.h5"), sample(problem, sweeps)
    np.testing.assert_array_equal(found.states[:], expected.states)
    np.testing.assert_array_equal(found.energy, expected.energy)


@each_problem
def test_kept_in_memory(work, effort, problem):
    sweeps = effort(SWEEPS[problem])
    found = work(
        partial(sample, problem, sweeps), sweeps, "sweeps", workload=workload(problem), program="fastbm without a file",
        warm_up=partial(sample, problem, THIN),
    )  # fmt: skip
    assert len(found.states) == sweeps // THIN


def look(path):
    """Look at a run as it begins, ten times a second, until it is merged; return how often new rows were there."""
    reader, n_rows = None, []
    while reader is None or reader.live:
        time.sleep(LOOK_SECONDS)
        try:
            reader = reader or store.open_reader(path)
        except StorageError:  # it has not begun
            continue
        reader.refresh()
        n_rows.append(reader.n_rows("samples/energy"))
        assert len(reader.read("samples/energy", max(0, n_rows[-1] - 10))) == min(10, n_rows[-1])
    return len(set(n_rows))


@each_problem
def test_read_while_it_is_written(work, effort, tmp_path, benchmark, workers, problem):
    sweeps, numbers, looks = 4 * effort(SWEEPS[problem]), count(), []

    def run():
        sample(problem, sweeps, tmp_path / f"{next(numbers)}.h5", commit_seconds=COMMIT_SECONDS)

    def run_and_look():
        path = tmp_path / f"{next(numbers)}.h5"
        looks.append(workers[0].submit(look, path))
        sample(problem, sweeps, path, commit_seconds=COMMIT_SECONDS)

    alone = Between(run)
    run_and_look()  # both processes have compiled and imported all
    looks.pop().result()
    work(run_and_look, sweeps, "sweeps", workload=read_workload(problem), setup=alone, warm_up=lambda: None)
    if benchmark.stats is not None:
        benchmark.extra_info["overhead"] = alone.overhead(benchmark.stats.stats.data)
    assert all(one.result() > 0 for one in looks)


@each_problem
def test_not_read_while_it_is_written(work, effort, tmp_path, problem):
    sweeps, numbers = 4 * effort(SWEEPS[problem]), count()

    def run():
        return sample(problem, sweeps, tmp_path / f"{next(numbers)}.h5", commit_seconds=COMMIT_SECONDS)

    work(run, sweeps, "sweeps", workload=read_workload(problem), program="fastbm that nobody reads")


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
