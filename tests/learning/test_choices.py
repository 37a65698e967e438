"""What learning does for the number of threads, of units or of rows in a batch."""

from __future__ import annotations

import numpy as np
import pytest

import fastbm as bm
from tests.support.learning import fit_task


@pytest.mark.parametrize("n_visible", [33, 34, 35, 36])
@pytest.mark.parametrize("layered", [False, True])
def test_the_last_look_does_not_depend_on_threads(n_visible: int, layered: bool) -> None:
    n_visible -= layered
    weights = [np.zeros((n_visible, 1))] if layered else np.zeros((n_visible, n_visible))
    rows = np.zeros((4, n_visible))
    tasks = [
        fit_task(
            bm.BoltzmannMachine(weights, units="binary"),
            rows,
            threads=t,
            clamped="exact",
            free="gibbs",
            optimizer="sgd",
        )
        for t in (1, 2, 16)
    ]
    assert len({task.method for task in tasks}) == 1
    assert len({tuple(sorted(task.streams)) for task in tasks}) == 1


@pytest.mark.parametrize("n_hidden", [300, 1500])
def test_machines_of_any_size_are_learned(n_hidden: int) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (10, 784))
    run = bm.fit(rows, n_hidden=n_hidden, epochs=1, batch_size=10, evaluate="none")
    assert run.model.n_units == 784 + n_hidden


def test_a_batch_that_is_not_all_the_data_is_not_taken_for_it() -> None:
    """150 rows in mini-batches of 100 make one step an epoch, each with other rows."""
    rows = np.zeros((150, 2), int)
    rows[::2, 0] = 1
    rows[::3, 1] = 1
    run = bm.fit(
        rows,
        clamped="exact",
        free="exact",
        optimizer="sgd",
        batch_size=100,
        learning_rate=1.0,
        epochs=400,
        evaluate="none",
    )
    late = run.weights["bias"][200:]
    assert late.std(axis=0).min() > 1e-4, "mini-batches differ from epoch to epoch"
