"""Learning with hidden units comes to a maximum, not to a saddle where they do nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.learning.learners.climbs import Climbs
from fastbm.learning.optimise.curvature import smallest_curvature, way_down
from fastbm.learning.optimise.lbfgs import Lbfgs
from tests.support.machines import draw

XOR = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]] * 25, np.uint8)
BEST_OF_XOR = {1: -1.96203, 2: -1.73287, 3: -np.log(4.0)}  # by hundreds of starts


def log_likelihood(run: bm.Run) -> float:
    return float(run.evaluation["log_likelihood"][-1])


@pytest.mark.parametrize("n_hidden", [1, 2, 3])
def test_rows_of_xor_are_learned(n_hidden: int) -> None:
    with pytest.warns(bm.ConvergenceWarning, match="no finite optimum .*: couplings or biases grow"):
        run = bm.fit(XOR, method="exact", n_hidden=n_hidden, seed=1, weights_every=0)
    assert log_likelihood(run) == pytest.approx(BEST_OF_XOR[n_hidden], abs=1e-4)
    assert run.converged is False and "without end" in run.doubt
    assert bm.fit(XOR, method="exact", n_hidden=n_hidden, seed=1, l2=1e-3, l2_bias=1e-3, epochs=2_000).converged


@pytest.mark.filterwarnings("ignore:exact has no finite optimum")
def test_learning_that_starts_on_a_saddle_leaves_it() -> None:
    """Couplings of 0 have no slope; those of spins without fields have a curvature, those of XOR not even that."""
    planted = bm.models.restricted(n_visible=5, n_hidden=1, scale=2.0, seed=3, units="spin")
    rows = draw(planted, 500)
    for data, start in ((rows, np.zeros((5, 1))), (XOR, np.zeros((3, 3)))):
        units = "spin" if data is rows else "binary"
        found = bm.fit(data, method="exact", init=bm.BoltzmannMachine([start], units=units), weights_every=0)
        best = bm.fit(data, method="exact", n_hidden=start.shape[1], units=units, weights_every=0)
        assert found.converged or "without end" in found.doubt
        assert log_likelihood(found) == pytest.approx(log_likelihood(best), abs=1e-3)


def test_the_smallest_curvature_is_that_of_the_hessian() -> None:
    generator = np.random.default_rng(0)
    for n in (6, 120):  # by as many steps as parameters, and by fewer
        basis, _ = np.linalg.qr(generator.normal(size=(n, n)))
        values = np.concatenate([[-0.5], np.linspace(0.1, 2.0, n - 1)])
        hessian = (basis * values) @ basis.T
        least, largest, direction = smallest_curvature(lambda x: (0.0, hessian @ x), np.zeros(n), generator)  # noqa: B023
        assert (least, largest) == pytest.approx((-0.5, 2.0), abs=1e-3)
        assert abs(direction @ basis[:, 0]) == pytest.approx(1.0, abs=1e-3)


def test_a_minimum_has_no_way_down() -> None:
    for curvature, bent in ((1.0, False), (-1.0, True)):
        shape = np.array([2.0, curvature])
        found = way_down(
            lambda x: (0.5 * shape @ x**2 + 0.1 * float(x @ x) ** 2, shape * x + 0.4 * float(x @ x) * x),  # noqa: B023
            np.zeros(2), 0.0, np.random.default_rng(0),
        )  # fmt: skip
        assert (found is not None) == bent


def two_wells(x: np.ndarray) -> tuple[float, np.ndarray]:
    """The left one is the deeper."""
    return float((x @ x - 1.0) ** 2 + 0.3 * x[0]), 4.0 * (x @ x - 1.0) * x + np.array([0.3])


def test_the_best_of_several_climbs_is_kept_also_after_a_stop() -> None:
    def climbs() -> Climbs:
        return Climbs(lambda point: Lbfgs(two_wells, point, 1e-8), [np.array([x]) for x in (1.5, 0.8, -0.7)], 500)

    straight = climbs()
    while not straight.over:
        straight.climb()
        resumed = climbs()
        resumed.restore({name: np.array(array) for name, array in straight.state().items()})
        while not resumed.over:
            resumed.climb()
        assert resumed.best().run(200)[-1][0] == pytest.approx(-1.0356, abs=1e-3)
    assert straight.best().run(200)[-1][0] == resumed.best().run(200)[-1][0]


def test_starts_take_no_more_iterations_than_were_asked_for() -> None:
    for n_iterations, most in ((5, 14), (60, 130), (10_000, 500)):
        asked: list[int] = []

        class Counted(Lbfgs):
            def run(self, max_iterations: int) -> list[Any]:
                asked.append(max_iterations)  # noqa: B023
                return super().run(max_iterations)

        points = [np.array([x, 0.5]) for x in np.linspace(-2.0, 2.0, 8)]
        climbs = Climbs(lambda point: Counted(lambda x: (float(x @ x), 2.0 * x), point, 1e-8), points, n_iterations)  # noqa: B023
        while not climbs.over:
            before = len(asked)
            climbs.climb()
            del asked[before : len(asked) - 1]  # those that only tell what is known
        assert len(asked) == 10
        assert sum(asked) <= most


@pytest.mark.slow
def test_chains_learn_the_rows_of_xor() -> None:
    found = []
    for seed in range(3):
        run = bm.fit(XOR, method="monte-carlo", n_hidden=3, seed=seed, weights_every=0, monitor_every=50)
        found.append(log_likelihood(run))
        assert run.converged is not True
    assert min(found) > -1.5


@pytest.mark.parametrize(("method", "epochs"), [("mean-field", 3), ("monte-carlo", 3), ("monte-carlo", 100)])
def test_hidden_units_that_do_nothing_have_not_converged(method: str, epochs: int) -> None:
    """That moments pass their test, as they do after 100 epochs, is no reason to warn of them."""
    start = bm.BoltzmannMachine([np.zeros((3, 2))], units="binary")
    options: dict[str, Any] = {"method": method, "epochs": epochs, "weights_every": 0}
    run = bm.fit(XOR, init=start, **options)
    assert run.converged is False
    assert "hidden units" in run.summary()


def rare_rows() -> np.ndarray:
    """Return rows of which little more can be told than how often units are on: 0.018 nats."""
    generator = np.random.default_rng(0)
    rows = (generator.random((5000, 6)) < [0.006, 0.006, 0.08, 0.2, 0.26, 0.27]).astype(int)
    rows[:, 4] |= rows[:, 3] & (generator.random(5000) < 0.3)
    return rows


def test_hidden_units_do_something_that_gain_most_of_what_there_is() -> None:
    learned = bm.fit(rare_rows(), "exact", n_hidden=2, l2=1e-4, evaluate="none").model
    run = bm.fit(rare_rows(), "monte-carlo", init=learned, epochs=10, learning_rate=1e-3)
    assert run.converged is None
    assert "do nothing" not in run.doubt


def test_a_start_that_is_worse_than_nothing_is_no_excuse() -> None:
    with pytest.warns(bm.ConvergenceWarning, match="units on their own have -2.046"):
        run = bm.fit(rare_rows(), "mean-field", n_hidden=2, epochs=50, weights_every=0)
    assert run.converged is False
    assert "do nothing" not in run.doubt


def test_starts_are_for_hidden_units() -> None:
    start = bm.BoltzmannMachine([np.full((3, 1), 0.1)], units="binary")
    options: dict[str, Any] = {"method": "exact", "epochs": 1, "weights_every": 0}
    told: list[dict[str, Any]] = [{"n_hidden": 1}, {"init": start}, {"n_hidden": 1, "n_starts": 3}]
    asked = [bm.fit(XOR, **options, **more) for more in told]
    assert [run.config["fit"]["n_starts"] for run in asked] == [8, 1, 3]
    with pytest.raises(ValueError, match="n_starts goes with hidden units that are learned by optimizer 'l-bfgs'"):
        bm.fit(XOR, method="exact", n_starts=2)
