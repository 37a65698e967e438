"""Warnings point at the line of the user, whatever was called."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import fastbm as bm

STUCK = bm.BoltzmannMachine(4.0 * (1 - np.eye(6)), units="spin")  # two valleys that no chain leaves
ROWS = np.array([[1, 1, 1], [-1, -1, -1], [1, 1, 1], [-1, -1, -1]], np.int8)


def stuck_run() -> bm.Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bm.sample(STUCK, n_chains=4, n_sweeps=40, initial=stuck_states())


def stuck_states() -> np.ndarray:
    return np.repeat([[1], [1], [-1], [-1]], 6, axis=1)


def sampling() -> None:
    bm.sample(bm.models.ising((4, 4)), sampler="metropolis", order="sequential", n_sweeps=50)


def sampling_again() -> None:
    stuck_run().sample(sampler="metropolis", order="sequential", n_sweeps=50)


def inferring() -> None:
    bm.infer(STUCK, "gibbs", n_chains=4, n_sweeps=16)


def inferring_by_weights() -> None:
    bm.infer(bm.models.sherrington_kirkpatrick(40, seed=1), "ais", beta=8.0, n_betas=3, n_chains=8)


def inferring_by_equations() -> None:
    bm.infer(bm.models.sherrington_kirkpatrick(40, seed=1), "tap", beta=4.0, max_sweeps=2)


def inferring_with_an_executor() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(inferring).result()
        bm.infer(bm.models.sherrington_kirkpatrick(40, seed=1), "tap", beta=4.0, max_sweeps=2, executor=pool)


def comparing() -> None:
    bm.compare(STUCK, {"gibbs": {"n_chains": 4, "n_sweeps": 16}})


def fitting() -> None:
    bm.fit(ROWS, method="pseudolikelihood")


def likelihood() -> None:
    machine = bm.models.sherrington_kirkpatrick(40, seed=1)
    bm.log_likelihood(machine, np.ones((2, 40)), "ais", beta=8.0, n_betas=3, n_chains=8)


def reweighting() -> None:
    bm.diagnostics.reweight(np.arange(100.0).reshape(50, 2), np.zeros((50, 2)), 0.1, 9.0)


def classifying() -> None:
    bm.BoltzmannClassifier("pseudolikelihood", units="spin", flip_noise=0.0).fit(ROWS, [0, 0, 1, 1])


@pytest.mark.parametrize(
    "call",
    [
        sampling, sampling_again, inferring, inferring_by_weights, inferring_by_equations, inferring_with_an_executor,
        comparing, fitting, likelihood, reweighting, classifying,
    ],
)  # fmt: skip
def test_warnings_point_at_the_users_line(call: Callable[[], Any]) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    assert told
    assert {one.filename for one in told} == {__file__}
