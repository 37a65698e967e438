"""Opening and reading merged runs, whose every byte is checked, beside bare h5py with fletcher32."""

from functools import partial

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm import store

BLOCK = (2_048, 64, 125)  # 16.4 MB: samples of 64 chains of 1000 units, packed
N_BLOCKS = 62  # 1 GB
OPENING, READING = "opening a merged run", "reading 1 GB of samples"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A merged run of 1 GB of bits, and the same rows by h5py with its checksums."""
    folder = tmp_path_factory.mktemp("reading")
    rows = np.random.default_rng(3).integers(0, 256, BLOCK, dtype=np.uint8)
    streams, state = {"samples/states": store.Stream("|u1", BLOCK[1:])}, {"n_rows": np.int64(0)}
    with store.create(folder / "run.h5", spec={"kind": "sample"}, streams=streams, state=state) as writer:
        for _ in range(N_BLOCKS):
            writer.append({"samples/states": rows}, lambda: state)
        writer.finish(state)
    shape, chunks = (N_BLOCKS * len(rows), *BLOCK[1:]), (131, *BLOCK[1:])
    with h5py.File(folder / "bare.h5", "w") as file:
        states = file.create_dataset("samples/states", shape, "|u1", chunks=chunks, fletcher32=True)
        for k in range(N_BLOCKS):
            states[k * len(rows) : (k + 1) * len(rows)] = rows
    return folder / "run.h5", folder / "bare.h5", rows


def read_all(read):
    """Read a block after the other; return the last one."""
    for k in range(N_BLOCKS):
        found = read(k * BLOCK[0], (k + 1) * BLOCK[0])
    return found


def test_read(work, files):
    path, _, rows = files

    def run():
        with store.open_reader(path) as reader:
            return read_all(partial(reader.read, "samples/states"))

    found = work(run, N_BLOCKS * rows.nbytes, "bytes", workload=READING)
    np.testing.assert_array_equal(found, rows)


def test_read_h5py(work, files):
    _, path, rows = files

    def run():
        with h5py.File(path) as file:
            return read_all(lambda start, stop: file["samples/states"][start:stop])

    found = work(run, N_BLOCKS * rows.nbytes, "bytes", workload=READING, program="h5py with fletcher32")
    np.testing.assert_array_equal(found, rows)


def test_open(work, files):
    reader = work(partial(store.open_reader, files[0]), 1, "runs", workload=f"{OPENING} of 1 GB")
    assert reader.n_rows("samples/states") == N_BLOCKS * BLOCK[0]


def test_open_small(work, tmp_path):
    path = tmp_path / "run.h5"
    bm.sample(bm.models.ising((8, 8)), n_chains=4, n_sweeps=100, seed=1, out=path)
    run = work(partial(bm.open, path), 1, "runs", workload=f"{OPENING} of 100 samples")
    assert len(run.energy) == 100
