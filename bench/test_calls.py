"""What one small call costs: ten units, and what is done before the first sweep of large machines."""

import tempfile
from collections.abc import Iterator
from functools import cache, partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import fastbm as bm
from fastbm._base import rng

from . import external, numpy_peers
from .machine import installed

N, SWEEPS, ROUNDS = 10, 100, 200
CALL = f"one call, n = {N}, one chain, {SWEEPS} sweeps"
LARGE = 2_000


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def to_files(folder: Path, function):
    """Return a call of `function` that writes a file of its own each time."""
    numbers = count()
    return lambda: function(out=folder / f"{next(numbers)}.h5")


@cache
def rows() -> np.ndarray:
    return bm.sample(external.glass(N), n_chains=10, n_sweeps=1_000).states.reshape(-1, N)


def test_one_chain(work):
    run = partial(bm.sample, external.glass(N), n_chains=1, n_sweeps=SWEEPS, threads=1)
    assert work(run, None, "", workload=CALL, rounds=ROUNDS).states.shape == (SWEEPS, 1, N)


@installed("dwave.samplers")
def test_one_chain_by_dwave(work):
    from dwave.samplers import SimulatedAnnealingSampler

    model = bm.models.to_bqm(external.glass(N))
    run = partial(
        SimulatedAnnealingSampler().sample, model, num_reads=1, num_sweeps=SWEEPS, beta_range=(1.0, 1.0), seed=1
    )
    assert len(work(run, None, "", workload=CALL, program="dwave-samplers", rounds=ROUNDS)) == 1


@installed("openjij")
def test_one_chain_by_openjij(work):
    import openjij

    model = bm.models.to_bqm(external.glass(N))
    run = partial(
        openjij.SASampler().sample_ising, model.linear, model.quadratic, num_reads=1, num_sweeps=SWEEPS, beta_min=1.0,
        beta_max=1.0, seed=1,
    )  # fmt: skip
    assert len(work(run, None, "", workload=CALL, program="OpenJij", rounds=ROUNDS)) == 1


def test_default_chains(threads, work):
    run = partial(bm.sample, external.glass(N), n_sweeps=SWEEPS, threads=threads)
    workload = f"one call, n = {N}, 64 chains, {SWEEPS} sweeps, judged"
    assert work(run, None, "", workload=workload, threads=threads, rounds=ROUNDS).converged


def test_ten_rows_in_a_file(work, place):
    run = partial(bm.sample, external.glass(N), n_chains=1, n_sweeps=10)
    found = work(to_files(place, run), None, "", workload="a run of ten rows, with its file", rounds=50)
    assert found.path.stat().st_size <= 30_000


def test_open(work, place):
    bm.sample(external.glass(N), n_chains=1, n_sweeps=10, out=place / "run.h5")
    found = work(partial(bm.open, place / "run.h5"), None, "", workload="open a run of ten rows", rounds=50)
    assert found.finished


@pytest.mark.parametrize("moments", [False, True], ids=["log Z", "moments"])
def test_exact(moments, work):
    run = partial(bm.infer, external.glass(N), "exact", moments=moments)
    found = work(run, None, "", workload=exact(moments), rounds=ROUNDS)
    assert found.log_z == pytest.approx(numpy_peers.enumerate_blocked(*parts(), moments)[0], rel=1e-12)


@pytest.mark.parametrize("moments", [False, True], ids=["log Z", "moments"])
def test_exact_by_numpy(moments, work):
    run = partial(numpy_peers.enumerate_blocked, *parts(), moments)
    work(run, None, "", workload=exact(moments), program="blocked NumPy", rounds=ROUNDS)


def exact(moments: bool) -> str:
    return f"one call, exact {'moments' if moments else 'log Z'}, n = {N}"


def parts() -> tuple[np.ndarray, np.ndarray]:
    return external.glass(N).weights, external.glass(N).bias


def test_exact_fit(work):
    run = partial(bm.fit, rows(), method="exact")
    assert work(run, None, "", workload=f"exact fit of 10,000 rows, n = {N}", rounds=20).converged


def test_exact_fit_in_a_file(work, place):
    run = to_files(place, partial(bm.fit, rows(), method="exact"))
    found = work(run, None, "", workload=f"exact fit of 10,000 rows, n = {N}, with its file", rounds=10)
    assert found.path.stat().st_size <= 150_000


def test_seeds(work):
    found = work(partial(rng.streams, 3, 100_000), 100_000, "chains", workload="streams of 100,000 chains", rounds=10)
    assert (found[7] == np.random.SeedSequence(3, spawn_key=(rng.CHAINS, 7)).generate_state(4)).all()


def test_before_the_first_sweep(work):
    model = bm.models.sherrington_kirkpatrick(LARGE, seed=1)
    run = partial(bm.sample, model, n_chains=1, n_sweeps=1, burn_in=0, threads=1)
    work(run, None, "", workload=f"one sweep of one chain, n = {LARGE}", rounds=20)
