"""The same bits compiled for other processors, and no index out of bounds: each in a process of its own."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.sampling import make_chains
from fastbm.sampling.engine.cooling import cool
from fastbm.sampling.engine.orders import ORDERS

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
    cases += [("lookup", bm.models.edwards_anderson((3, 3, 5), distribution="gaussian", field=0.3, seed=1), 192)]
    cases += [("lookup", bm.models.ising((5, 7)), 64)]
    for kernel, model, n_chains in cases:
        for rule in RULES:
            for order in ORDERS if kernel != "layered" else ("sequential", "coloured"):
                for beta in (0.3, 1e6) if order == "random" else (0.3,):
                    with warnings.catch_warnings():
                        warnings.filterwarnings("ignore", message=".*periodic")
                        chains = make_chains(
                            model, n_chains, kernel=kernel, rule=rule, order=order, beta=beta, seed=1, threads=1
                        )
                    chains.sweep(3)
                    rows = chains.record(3, 5)
                    chains.gather(np.arange(n_chains)[::-1])
                    chains.sweep(1)
                    for array in (*rows.values(), *chains.state().values(), chains.words(0)):
                        found.update(np.ascontiguousarray(array).tobytes())
                    if kernel != "layered":  # products of energies are BLAS's
                        found.update(chains.energies().tobytes() + chains.quick_energies().tobytes())
    for kernel, rule, n_chains in itertools.product(("dense", "sparse"), RULES, (3, 70)):
        about = {"kernel": kernel, "rule": rule, "order": "sequential", "beta": 0.3, "highest_beta": 30.0}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*periodic")
            chains = make_chains(graph, n_chains, **about, seed=1, threads=1)
        for betas in ([0.3, 1.0], np.linspace(1.0, 30.0, 20)):
            cool(chains, np.array(betas))
        for array in chains.state().values():
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


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
