"""How much the first call of a verb compiles: functions, once for each signature, Numba's own among them.

Seconds stand in `bench/test_startup.py`. A number that grows is a function more that everybody waits for, or a kernel
that meets arguments of two kinds. Runs are long enough to be judged, which has kernels of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastbm.kernels.vectors import has_look_up

ROOT = Path(__file__).parents[2]
MOST = {
    "bm.sample(bm.models.random_machine(100, seed=1), n_chains=64, n_sweeps=100)": 37,
    "bm.sample(bm.models.ising((16, 16)), n_sweeps=100)": 26,
    "bm.sample(bm.models.edwards_anderson((4, 4, 4)), sampler='tempering', n_sweeps=100)": 43,
    "bm.sample(bm.models.sherrington_kirkpatrick(64, seed=1), 'annealing', n_sweeps=10)": 42,
    "bm.sample(bm.models.ising((16, 16)), 'wolff', n_sweeps=100)": 35,
    "bm.infer(bm.models.random_machine(10, seed=1), 'exact')": 23,
    "bm.infer(bm.models.edwards_anderson((4, 4, 4)), 'population-annealing')": 31,
    "bm.infer(bm.models.restricted(12, 6, seed=1), 'ais', n_betas=100)": 26,
    "bm.infer(bm.models.sherrington_kirkpatrick(64, seed=1), 'tempering', n_sweeps=100)": 50,
    "bm.infer(bm.models.restricted(64, 32, seed=1), 'tempering', n_sweeps=100)": 47 if has_look_up() else 46,
    "bm.fit(np.eye(6, dtype=int)[[0, 1, 2, 3, 4, 5, 0, 1]], n_hidden=6, epochs=2)": 39 if has_look_up() else 41,
}
PROGRAM = """
import warnings, numpy as np, fastbm as bm
warnings.simplefilter("ignore")
{call}
from fastbm.kernels.jit import n_compiled
print(n_compiled())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "most"), MOST.items(), ids=[call.split("(")[0] + str(k) for k, call in enumerate(MOST)]
)
def test_a_first_call_compiles_no_more_than_it_did(call: str, most: int, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    program = [sys.executable, "-c", PROGRAM.format(call=call)]
    found = subprocess.run(program, env=env, check=True, capture_output=True, text=True).stdout
    assert 0 < int(found) <= most
