"""Epochs of contrastive divergence on restricted machines, with all that `fit` watches by default.

Rows are as large, as many and as dark as those of scikit-learn's digits, and as 10,000 of MNIST. JAX has as many chains
as rows of a batch, as fastbm has at batches of 32 and 100; of 10 rows fastbm takes 16.
"""

from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from fastbm._base.threads import single_threaded_blas
from fastbm.learning import rules
from fastbm.learning.methods import OF_MONITOR, OF_RULES
from fastbm.learning.training_set import smoothed_means, start_machine
from fastbm.runs.fit.task import FitTask

from . import jax_peer, numpy_peers
from .machine import installed

RATE, NO_END = 0.05, 1 << 30


@cache
def digits():
    """Rows (1797, 64), a third of the pixels on."""
    return strokes(1797, 8, 0.33)


@cache
def mnist():
    """Rows (10,000, 784), an eighth of the pixels on, and none at the rim."""
    return strokes(10_000, 28, 0.125)


ROWS = {"digits": digits, "mnist": mnist}
SHAPES = {"digits": (128, 30), "mnist": (500, 1)}  # hidden units; epochs a round
CASES = [
    *[("digits", batch, method) for batch in (10, 100) for method in ("pcd", "cd")],
    *[("mnist", batch, method) for batch in (10, 32, 100) for method in ("pcd", "cd")],
]
each_case = pytest.mark.parametrize(("name", "batch", "method"), CASES)


def strokes(n_rows, side, part):
    """Noisy copies of 100 smooth pictures, a `part` of whose pixels is on, none of them far from the middle."""
    generator = np.random.default_rng(11)
    pictures = gaussian_filter(generator.normal(size=(100, side, side)), (0, side / 16, side / 16))
    y, x = np.indices((side, side)) - (side - 1) / 2
    inside = np.hypot(x, y) < 0.52 * side
    pictures = np.where(inside, pictures, -np.inf).reshape(100, -1)
    pictures = pictures > np.quantile(pictures, 1.0 - part, axis=1, keepdims=True)
    rows = pictures[generator.integers(0, 100, n_rows)]
    return (rows ^ (inside.ravel() & (generator.random(rows.shape) < 0.02))).astype(np.uint8)


def workload(name, batch, method):
    """What the rows of a table are called."""
    n_rows, n = ROWS[name]().shape
    return f"{method.upper()}, {n_rows:,} x {n}, {SHAPES[name][0]} hidden, batch {batch}"


def check(name, weights, visible_bias, hidden_bias):
    """Rows must be reconstructed better than by the means of the pixels, by a fifth at least."""
    rows = ROWS[name]()[:1000].astype(float)
    hidden = numpy_peers.sigmoid(rows @ weights + hidden_bias)
    missed = np.abs(rows - numpy_peers.sigmoid(hidden @ weights.T + visible_bias)).mean()
    assert missed < 0.8 * np.abs(rows - rows.mean(axis=0)).mean()


@each_case
def test_fastbm(name, batch, method, threads, work, effort):
    rows, (hidden, epochs) = ROWS[name](), SHAPES[name]
    start = start_machine(smoothed_means(rows), hidden, "restricted", "binary", 0)
    given = dict.fromkeys((*OF_RULES, *OF_MONITOR)) | {"epochs": NO_END, "batch_size": batch, "learning_rate": RATE}
    settings = rules.check(start, len(rows), method, given | {"seed": 0, "evaluate": "none"})
    task = FitTask(start, {"rows": rows}, settings, classify=None, threads=threads)

    def run():
        done = task.n_epochs + effort(epochs)
        while task.n_epochs < done:
            task.advance()

    with single_threaded_blas():
        count = effort(epochs) * (len(rows) // batch * batch)
        work(run, count, "rows", workload=workload(name, batch, method), threads=threads)
    check(name, *task.model.weights, *task.model.bias)


@installed("jax")
@each_case
def test_jax(name, batch, method, threads, work, effort, jax_workers):
    n, arguments = effort(SHAPES[name][1]), (name, SHAPES[name][0], batch, RATE, method == "pcd")

    def run():
        return jax_workers[threads].submit(jax_peer.learn, n, *arguments).result()

    count = n * (len(ROWS[name]()) // batch * batch)
    found = work(run, count, "rows", workload=workload(name, batch, method), program="minimal JAX", threads=threads)
    check(name, *found)


@pytest.fixture(scope="module")
def jax_workers():
    """A process for each number of threads."""
    context = get_context("spawn")
    pools = {n: ProcessPoolExecutor(1, context, jax_peer.hold, (n,)) for n in (1, 2)}
    yield pools
    for pool in pools.values():
        pool.shutdown()
