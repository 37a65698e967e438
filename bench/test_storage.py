"""Streaming samples to a file against keeping them in memory, and how fast a commit is."""

import os
import time
from functools import cache, partial
from itertools import count
from statistics import median

import h5py
import numpy as np

import fastbm as bm
from fastbm import store

from .external import glass

UNITS, CHAINS, SWEEPS, THIN = 1_000, 64, 200, 10
STREAMING = f"SK n = {UNITS}, {CHAINS} chains, every {THIN}th sweep streamed to a file (peer: kept in memory)"
BLOCK = (8_192, 64, 125)  # 65.5 MB: samples of 64 chains of 1000 units, packed
COMMIT = "commit of 65 MB"


def sample(n_sweeps, out=None):
    return bm.sample(glass(UNITS), n_chains=CHAINS, n_sweeps=n_sweeps, thin=THIN, burn_in=0, threads=1, out=out)


def test_streamed_to_file(work, effort, tmp_path, benchmark):
    sweeps, numbers, in_memory = effort(SWEEPS), count(), []

    def setup():
        """A run in memory before each timed one, so that the ratio is taken under the same load."""
        started = time.perf_counter()
        sample(sweeps)
        in_memory.append(time.perf_counter() - started)

    def run():
        return sample(sweeps, tmp_path / f"{next(numbers)}.h5")

    work(run, sweeps, "sweeps", workload=STREAMING, setup=setup, warm_up=partial(sample, THIN, tmp_path / "warm.h5"))
    if benchmark.stats is not None:
        benchmark.extra_info["overhead"] = benchmark.stats.stats.median / median(in_memory) - 1
    found, expected = bm.open(tmp_path / "0.h5"), sample(sweeps)
    np.testing.assert_array_equal(found.states[:], expected.states)
    np.testing.assert_array_equal(found.energy, expected.energy)


def test_kept_in_memory(work, effort):
    sweeps = effort(SWEEPS)
    run = partial(sample, sweeps)
    found = work(
        run, sweeps, "sweeps", workload=STREAMING, program="fastbm without a file", warm_up=partial(sample, THIN)
    )
    assert found.states.shape == (sweeps // THIN, CHAINS, UNITS)


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
