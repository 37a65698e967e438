"""How long a user waits at first: import, help, a first run with an empty and with a warm compilation cache."""

import json
import os
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest

import fastbm as bm

ROOT = Path(__file__).parents[1]
IMPORT = "import fastbm; import sys; print(fastbm.__version__, 'numba' in sys.modules)"
HELP = "from fastbm.cli import main; main()"
SAMPLE = """
import fastbm as bm
run = bm.sample(bm.models.curie_weiss(8), n_chains=16, n_sweeps=100, seed=1)
print(run.states.shape)
"""
ALL_VERBS = """
import numpy as np, fastbm as bm
glass, layered = bm.models.random_machine(12, seed=1), bm.models.restricted(12, 6, seed=1)
for sampler in ("gibbs", "metropolis"):
    bm.sample(glass, sampler=sampler, n_sweeps=10)
    bm.sample(layered, sampler=sampler, order="sequential" if sampler == "gibbs" else None, n_sweeps=10)
for method in ("exact", "mean-field", "gibbs"):
    bm.infer(glass, method)
print(round(bm.infer(layered, "exact").log_z, 6))
bm.infer(layered, "ais", n_betas=100)
rows = np.random.default_rng(1).integers(0, 2, (200, 12))
bm.fit(rows, n_hidden=6, epochs=2)
bm.fit(rows, method="exact", epochs=5)
"""


# long enough for a verdict, which has kernels of its own
VERBS = {
    "sample, dense": "bm.sample(glass, n_chains=64, n_sweeps=100, seed=1)",
    "sample, one dense chain": "bm.sample(glass, n_chains=1, n_sweeps=100, seed=1)",
    "sample, lattice": "bm.sample(lattice, n_sweeps=100, seed=1)",
    "sample, restricted": "bm.sample(restricted, n_sweeps=100, seed=1)",
    "sample, tempering of dense": "bm.sample(glass, 'tempering', n_sweeps=100, seed=1)",
    "sample, tempering of a lattice": "bm.sample(lattice, 'tempering', n_sweeps=100, seed=1)",
    "sample, tempering of restricted": "bm.sample(restricted, 'tempering', n_sweeps=100, seed=1)",
    "sample, clusters": "bm.sample(bm.models.ising((16, 16)), 'wolff', n_sweeps=100, seed=1)",
    "sample, annealing": "bm.sample(glass, 'annealing', n_sweeps=100, seed=1)",
    "infer, exact": "bm.infer(bm.models.random_machine(10, seed=1), 'exact')",
    "infer, gibbs": "bm.infer(glass, 'gibbs', n_sweeps=100, seed=1)",
    "infer, tempering": "bm.infer(glass, 'tempering', n_sweeps=100, seed=1)",
    "infer, tempering of restricted": "bm.infer(restricted, 'tempering', n_sweeps=100, seed=1)",
    "infer, sampled states": "bm.infer(glass, 'sampled-states', n_sweeps=100, seed=1)",
    "infer, population annealing": "bm.infer(lattice, 'population-annealing', seed=1)",
    "infer, ais": "bm.infer(glass, 'ais', n_betas=100, seed=1)",
    "infer, ais of restricted": "bm.infer(restricted, 'ais', n_betas=100, seed=1)",
    "infer, bethe": "bm.infer(bm.models.random_machine(10, seed=1), 'bethe')",
    "fit, exact": "bm.fit(rows, method='exact')",
    "fit, visible": "bm.fit(rows, epochs=2, seed=1)",
    "fit, pcd": "bm.fit(rows, n_hidden=6, epochs=2, seed=1)",
    "fit, deep": "bm.fit(rows, n_hidden=(8, 4), epochs=2, seed=1)",
}
COUNTED = """
import json, resource, warnings
import numpy as np, fastbm as bm
warnings.simplefilter("ignore")
rows = np.random.default_rng(1).integers(0, 2, (200, 12))
glass, restricted = bm.models.sherrington_kirkpatrick(64, seed=1), bm.models.restricted(64, 32, seed=1)
lattice = bm.models.edwards_anderson((6, 6, 6), seed=1)
{verb}
from fastbm.kernels.jit import compile_seconds, n_compiled
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({{"processor_seconds": round(used.ru_utime + used.ru_stime, 2),
                  "compile_seconds": round(compile_seconds(), 2), "signatures": n_compiled()}}))
"""


def python(*arguments, cache_folder=None):
    """The output of a Python process of its own."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    if cache_folder is not None:
        env["NUMBA_CACHE_DIR"] = str(cache_folder)
    command = [sys.executable, "-c", *arguments]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


def expected(code):
    """What a script must print."""
    if code is SAMPLE:
        return "(100, 16, 8)\n"
    return f"{bm.infer(bm.models.restricted(12, 6, seed=1), 'exact').log_z:.6f}".rstrip("0") + "\n"


def test_import(work):
    assert work(partial(python, IMPORT), None, "s", workload="import fastbm", rounds=5) == f"{bm.__version__} False\n"


def test_import_numpy(work):
    run = partial(python, "import numpy")
    assert work(run, None, "s", workload="import fastbm", program="import numpy", rounds=5) == ""


@pytest.mark.skipif(find_spec("fastbm.cli") is None, reason="there is no command line yet")
def test_help(work):
    assert "resume" in work(partial(python, HELP, "--help"), None, "s", workload="fastbm --help", rounds=5)


def test_show(work, tmp_path):
    bm.sample(bm.models.random_machine(10, seed=1), n_chains=4, n_sweeps=100, out=tmp_path / "run.h5", progress=False)
    run = partial(python, HELP, "show", tmp_path / "run.h5")
    assert "r_hat" in work(run, None, "s", workload="fastbm show", rounds=5)


@pytest.mark.parametrize(("name", "code"), [("one sample", SAMPLE), ("every verb", ALL_VERBS)])
def test_empty_cache(name, code, work, tmp_path):
    numbers = count()

    def run():
        return python(code, cache_folder=tmp_path / str(next(numbers)))

    found = work(run, None, "s", workload=f"{name}, empty compilation cache", rounds=1, warm_up=partial(python, "pass"))
    assert found == expected(code)
    assert any(tmp_path.rglob("*.code"))


@pytest.mark.parametrize(("name", "code"), [("one sample", SAMPLE), ("every verb", ALL_VERBS)])
def test_warm_cache(name, code, work, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "compiled"
    found = work(partial(python, code, cache_folder=folder), None, "s", workload=f"{name}, warm compilation cache")
    assert found == expected(code)


@pytest.mark.parametrize("verb", VERBS)
def test_first_verb(verb, work, benchmark, tmp_path):
    numbers = count()

    def run():
        return python(COUNTED.format(verb=VERBS[verb]), cache_folder=tmp_path / str(next(numbers)))

    found = work(run, None, "s", workload=f"first verb ever: {verb}", rounds=1, warm_up=partial(python, "pass"))
    benchmark.extra_info.update(json.loads(found))
    assert benchmark.extra_info["signatures"] > 0
