"""Epochs of persistent contrastive divergence, and exact maximum likelihood of a planted machine.

The gradient is to be below 1e-8. SciPy's L-BFGS on plain parameters stalls long before, where values are equal to
rounding, and is asked for 1e-6.
"""

from functools import cache, partial

import numpy as np
from threadpoolctl import threadpool_limits

import fastbm as bm
from fastbm._base.threads import single_threaded_blas
from fastbm.learning import rules
from fastbm.learning.methods import OF_MONITOR, OF_RULES
from fastbm.learning.training_set import smoothed_means, start_machine
from fastbm.runs.fit.task import FitTask

from . import numpy_peers
from .machine import installed

ROWS, PIXELS, HIDDEN, BATCH, RATE, EPOCHS = 1797, 64, 128, 100, 0.05, 20
PCD = f"PCD, {ROWS} x {PIXELS}, {HIDDEN} hidden, batch {BATCH}"
UNITS, SAMPLES, TOLERANCE, TOLERANCE_OF_PEER = 20, 10_000, 1e-8, 1e-6
EXACT = f"exact maximum likelihood, n = {UNITS}, {SAMPLES:,} rows, to {TOLERANCE:g}"
NO_RECORDS = 1 << 30  # epochs between two records


@cache
def digits():
    """Ten prototypes with a fifth of the pixels on or more, of which rows are noisy copies; (1797, 64) of 0 and 1."""
    generator = np.random.default_rng(11)
    prototypes = generator.random((10, PIXELS)) < 0.3
    rows = prototypes[generator.integers(0, 10, ROWS)]
    return (rows ^ (generator.random(rows.shape) < 0.08)).astype(np.uint8)


def check(weights, visible_bias, hidden_bias):
    """Rows must be reconstructed better than by the means of the pixels, by a fifth at least."""
    rows = digits().astype(float)
    hidden = numpy_peers.sigmoid(rows @ weights + hidden_bias)
    missed = np.abs(rows - numpy_peers.sigmoid(hidden @ weights.T + visible_bias)).mean()
    assert missed < 0.8 * np.abs(rows - rows.mean(axis=0)).mean()


def test_pcd_fastbm(threads, work, effort):
    rows, epochs = digits(), effort(EPOCHS)
    start = start_machine(smoothed_means(rows), HIDDEN, "restricted", "binary", 0)
    given = dict.fromkeys((*OF_RULES, *OF_MONITOR))
    given |= {"epochs": NO_RECORDS, "monitor_every": NO_RECORDS, "weights_every": 0, "evaluate": "none", "seed": 0}
    given |= {"batch_size": BATCH, "n_chains": BATCH, "learning_rate": RATE}
    task = FitTask(start, {"rows": rows}, rules.check(start, ROWS, "pcd", given), classify=None, threads=threads)

    def run():
        for _ in range(epochs):
            task.advance()

    with single_threaded_blas():
        work(run, epochs * (ROWS // BATCH * BATCH), "rows", workload=PCD, threads=threads)
    check(*task.model.weights, *task.model.bias)


@installed("sklearn")
def test_pcd_sklearn(threads, work, effort):
    from sklearn.neural_network import BernoulliRBM

    rows, epochs = digits().astype(np.float32), effort(EPOCHS)

    def run():
        return BernoulliRBM(HIDDEN, learning_rate=RATE, batch_size=BATCH, n_iter=epochs, random_state=0).fit(rows)

    with threadpool_limits(threads, "blas"):
        found = work(run, epochs * ROWS, "rows", workload=PCD, program="scikit-learn", threads=threads)
    check(found.components_.T, found.intercept_visible_, found.intercept_hidden_)


def test_pcd_numpy(threads, work, effort):
    machine, epochs = numpy_peers.Contrastive(digits(), HIDDEN, BATCH, RATE), effort(EPOCHS)

    def run():
        for _ in range(epochs):
            machine.epoch()

    with threadpool_limits(threads, "blas"):
        work(run, epochs * (ROWS // BATCH * BATCH), "rows", workload=PCD, program="minimal NumPy", threads=threads)
    check(machine.weights, machine.visible_bias, machine.hidden_bias)


@cache
def samples():
    """Rows (10,000, 20) of spins with planted couplings of strength 1 / sqrt(n)."""
    model = bm.models.sherrington_kirkpatrick(UNITS, seed=4)
    return bm.sample(model, n_chains=100, n_sweeps=1_000, thin=10, burn_in=100, seed=2).states.reshape(SAMPLES, UNITS)


def likelihood(weights, bias):
    """Mean log-likelihood of the rows."""
    rows = samples().astype(float)
    log_z, _, _ = numpy_peers.enumerate_blocked(weights, bias, False)
    return ((0.5 * rows @ weights + bias) * rows).sum(axis=1).mean() - log_z


def test_exact_fastbm(threads, work):
    rows = samples()
    records = {"weights_every": 0, "monitor_every": NO_RECORDS, "evaluate": "none"}
    run = partial(bm.fit, rows, method="exact", tolerance=TOLERANCE, threads=threads, **records)
    found = work(run, 1, "fits", workload=EXACT, threads=threads)
    _, _, best = numpy_peers.maximum_likelihood(rows.astype(float), TOLERANCE_OF_PEER)
    model, data = found.model, rows.astype(float)
    _, mean, second = numpy_peers.enumerate_blocked(model.weights, model.bias, True)
    assert abs(likelihood(model.weights, model.bias) - best) < 1e-9
    np.testing.assert_allclose(mean, data.mean(axis=0), atol=2 * TOLERANCE)
    np.testing.assert_allclose(second, data.T @ data / len(data), atol=2 * TOLERANCE)


def test_exact_scipy(threads, work):
    rows = samples().astype(float)
    with threadpool_limits(threads, "blas"):
        run = partial(numpy_peers.maximum_likelihood, rows, TOLERANCE_OF_PEER)
        weights, bias, best = work(run, 1, "fits", workload=EXACT, program="SciPy L-BFGS, NumPy sums", threads=threads)
    assert abs(likelihood(weights, bias) - best) < 1e-9
    found = bm.fit(samples(), method="exact", tolerance=TOLERANCE, evaluate="none")
    np.testing.assert_allclose(found.model.weights, weights, atol=1e-3)
