"""The same bits compiled for other processors, and no index out of bounds: each in a process of its own."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.sampling import make_chains
from fastbm.sampling.engine.orders import ORDERS
from fastbm.sampling.engine.temperatures import cool

ROOT = Path(__file__).parents[3]
PROCESSORS = [("haswell", ""), ("haswell", "+avx2"), ("generic", "")]
RULES = ("gibbs", "metropolis")


def digest() -> str:
    """A hash of states, streams and energies of short runs by all kernels."""
    generator, found = np.random.default_rng(0), hashlib.sha256()
    weights = np.triu(generator.normal(size=(37, 37)) * (generator.random((37, 37)) < 0.2), 1)
    graph = bm.BoltzmannMachine(scipy.sparse.csr_array(weights + weights.T), generator.normal(size=37))
    layers = bm.BoltzmannMachine([generator.normal(size=(9, 40))], generator.normal(size=49), units="binary")
    glass = bm.models.edwards_anderson((3, 3, 5), seed=1)
    cases = [("dense", graph, 70), ("sparse", graph, 70), ("layered", layers, 70), ("multispin", glass, 192)]
    cases += [("sparse", bm.models.edwards_anderson((32, 40), distribution="gaussian", seed=1), 3)]
    cases += [("lookup", bm.models.edwards_anderson((3, 3, 5), distribution="gaussian", field=0.3, seed=1), 192)]
    cases += [("dense", bm.models.sherrington_kirkpatrick(200, seed=1), n_chains) for n_chains in (3, 70)]
    cases += [("lookup", bm.models.ising((5, 7)), 64), ("sparse", graph, 2)]
    for kernel, model, n_chains in cases:
        for rule in RULES:
            for order in ORDERS if kernel != "layered" else ("sequential", "coloured"):
                for beta in (0.3, 1e6) if order == "random" else (0.3,):
                    with warnings.catch_warnings():
                        warnings.filterwarnings("ignore", message=".*periodic")
                        chains = make_chains(
                            model, n_chains, kernel=kernel, rule=rule, order=order, beta=beta, seed=1, threads=1
                        )
                    chains.sweep(70 if n_chains == 3 else 3)  # with which units are drawn side by side
                    rows = chains.record(3, 5)
                    chains.gather(np.arange(n_chains)[::-1])
                    chains.sweep(1)
                    for array in (*rows.values(), *chains.state().values(), chains.words(0)):
                        found.update(np.ascontiguousarray(array).tobytes())
                    found.update(chains.energies().tobytes() + chains.quick_energies().tobytes())
    for array in (*others(glass, layers), *cooled(graph, glass, layers)):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def cooled(*machines: bm.BoltzmannMachine) -> Iterator[np.ndarray]:
    """Chains that were cooled."""
    graph, glass, layers = machines
    cases = [(graph, kernel, n_chains) for kernel in ("dense", "sparse") for n_chains in (3, 70)]
    cases += [(glass, "multispin", 64), (layers, "layered", 70)]
    for (model, kernel, n_chains), rule in itertools.product(cases, RULES):
        about = {"kernel": kernel, "rule": rule, "order": "sequential", "beta": 0.3, "highest_beta": 30.0}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*periodic")
            chains = make_chains(model, n_chains, **about, seed=1, threads=1)
        for betas in ([0.3, 1.0], np.linspace(1.0, 30.0, 20)):
            cool(chains, np.array(betas))
        yield from chains.state().values()


def others(glass: bm.BoltzmannMachine, layers: bm.BoltzmannMachine) -> Iterator[np.ndarray]:
    """What ladders, populations, estimators and learning come to."""
    small = bm.models.random_machine(13, bias_scale=0.3, seed=2)
    for n_chains, kernel in ((3, "sparse"), (32, "lookup")):
        ladder = {"betas": [0.2, 0.6, 1.0], "n_chains": n_chains, "kernel": kernel}
        run = bm.sample(glass, "tempering", n_sweeps=6, threads=1, seed=1, **ladder)
        yield from (run.states, run.energy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.ConvergenceWarning)
        run = bm.sample(glass, "population-annealing", n_chains=64, n_sweeps=2, threads=1, seed=1)
        yield from (run.states, run.energy)
        for model in (small, glass, layers):
            yield np.array(bm.infer(model, "ais", n_chains=20, n_betas=30, seed=1, threads=1, moments=False).log_z)
        for engine in ("gray", "blocks"):
            exact = bm.infer(small, "exact", engine=engine, threads=1)
            yield from (np.array(exact.log_z), exact.mean, exact.second_moment)
        rows = np.random.default_rng(1).integers(0, 2, (60, 9))
        for method in ("cd", "pcd"):
            learned = bm.fit(rows, method, n_hidden=5, epochs=2, batch_size=20, seed=1, threads=1, evaluate="none")
            yield from learned.model.couplings.arrays
        yield bm.fit(rows, "pcd", epochs=2, seed=1, threads=1, evaluate="none").model.weights
        for method in ("pseudolikelihood", "rise"):
            yield bm.fit(rows, method, epochs=3, threads=1, evaluate="none", l2=0.01).model.weights


def digest_elsewhere(cache: Path, **environment: str) -> str:
    code = "from tests.sampling.engine import test_processors as t; print(t.digest())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(cache), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(("processor", "features"), PROCESSORS)
def test_bits_do_not_depend_on_the_processor(processor: str, features: str, tmp_path: Path) -> None:
    elsewhere = digest_elsewhere(tmp_path, NUMBA_CPU_NAME=processor, NUMBA_CPU_FEATURES=features)
    assert elsewhere == digest()


@pytest.mark.slow
def test_no_index_is_out_of_bounds(tmp_path: Path) -> None:
    assert digest_elsewhere(tmp_path, NUMBA_BOUNDSCHECK="1") == digest()
