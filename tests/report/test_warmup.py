"""Kernels are compiled before they are needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CALLS = """
import warnings, numpy as np, fastbm as bm
from fastbm.kernels.jit import n_compiled
warnings.simplefilter("ignore")
glass, lattice = bm.models.sherrington_kirkpatrick(64, seed=2), bm.models.edwards_anderson((10, 10), seed=2)
layers, rows = bm.models.restricted(50, 20, seed=2), np.random.default_rng(2).integers(0, 2, (200, 12))
for model in (glass, lattice, layers):
    for n_chains in (1, 32, 64):
        bm.sample(model, n_chains=n_chains, n_sweeps=100)
    for sampler in ("metropolis", "tempering", "annealing", "population-annealing"):
        bm.sample(model, sampler, n_sweeps=50)
    for method in ("gibbs", "tempering", "ais", "mean-field", "sampled-states"):
        bm.infer(model, method)
bm.infer(bm.models.restricted(40, 12, seed=2), "exact")
for method in ("exact", "pcd", "pseudolikelihood"):
    bm.fit(rows, method)
bm.fit(rows, n_hidden=6, epochs=2)
print(n_compiled())
"""


@pytest.mark.slow
def test_usual_calls_compile_nothing_afterwards(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    warm, calls = (
        subprocess.run([sys.executable, *how], env=env, check=True, capture_output=True, text=True).stdout
        for how in (["-m", "fastbm", "warmup"], ["-c", CALLS])
    )
    lines = warm.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["sample", "infer", "fit"]
    assert "Kernels are kept in" in " ".join(lines[3:])
    assert int(calls) == 0
