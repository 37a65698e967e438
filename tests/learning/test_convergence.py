"""When learning has converged, when it has not, and when it diverges."""

from __future__ import annotations

import numpy as np
import pytest

import fastbm as bm
from tests.support.machines import draw, machine


def test_convergence_does_not_depend_on_what_is_recorded() -> None:
    rows = draw(machine("visible", "binary"), 500)
    for every in (1, 4, 1000):
        run = bm.fit(rows, method="exact", monitor_every=every, weights_every=every)
        assert run.converged, f"monitor_every={every}"


def test_a_start_that_is_the_maximum_has_converged() -> None:
    rows = draw(machine("visible", "binary"), 500)
    learned = bm.fit(rows, method="exact").model
    again = bm.fit(rows, method="exact", init=learned, tolerance=1e-5)
    assert again.converged
    np.testing.assert_allclose(again.model.weights, learned.weights, atol=1e-4)


def test_too_few_iterations_have_not_converged() -> None:
    rows = draw(machine("visible", "binary"), 500)
    assert not bm.fit(rows, method="exact", epochs=2).converged
    assert bm.fit(rows, method="pcd", epochs=2).converged is None


def test_learning_rates_that_diverge_are_told() -> None:
    rows = bm.data.bars_and_stripes(2)
    text = r"learning diverged in epoch .*Lower learning_rate"
    with pytest.raises(ValueError, match=text), np.errstate(all="ignore"):
        bm.fit(rows, method="exact", optimizer="sgd", l2=10.0, learning_rate=1e30, epochs=50, evaluate="none")
