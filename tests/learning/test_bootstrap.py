"""The bootstrap: what it draws, what it makes of the estimates, and that it can stop anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.data.rows import Rows
from fastbm.learning.errors.blocks import block_of, drawn_rows
from fastbm.learning.errors.bootstrap import Bootstrap, Refit, bootstrap_errors
from fastbm.learning.moments import Parameters
from tests.support import machines
from tests.twins import errors as twin


def refit_means(rows: np.ndarray) -> Refit:
    return lambda counts: Parameters((np.full((2, 2), counts @ rows[:, 0] / len(rows)),), counts @ rows / len(rows))


def test_bootstrap_errors_are_the_deviation_of_the_estimates() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 2))
    bootstrap = Bootstrap(50, n_resamples=40, seed=3)
    counts = np.array([bootstrap.counts(k) for k in range(40)])
    assert (counts.sum(axis=1) == 50).all() and len(np.unique(counts, axis=0)) == 40
    errors = bootstrap_errors(refit_means(rows), 50, n_resamples=40, seed=3)
    np.testing.assert_allclose(errors.bias, twin.bootstrap(counts @ rows / 50), rtol=1e-12)
    np.testing.assert_allclose(errors.weights[0], errors.bias[0], rtol=1e-12)
    np.testing.assert_allclose(errors.detail["mean"].bias, (counts @ rows / 50).mean(axis=0), rtol=1e-12)
    assert abs(errors.bias.mean() / (rows.std(axis=0) / np.sqrt(50)).mean() - 1) < 0.3


def test_resamples_draw_every_row_as_often_as_chance_has_it() -> None:
    bootstrap = Bootstrap(20, n_resamples=2_000)
    counts = np.array([bootstrap.counts(k) for k in range(2_000)])
    assert np.abs(counts.mean(axis=0) - 1).max() < 5 * np.sqrt(0.95 / 2_000)
    assert abs(counts.var() - 0.95) < 0.05


def test_a_bootstrap_that_stopped_ends_with_the_same_bits() -> None:
    rows = np.random.default_rng(1).normal(size=(30, 2))
    whole = bootstrap_errors(refit_means(rows), 30, n_resamples=9, seed=5)
    for stop in (0, 1, 4, 9):
        first, second = (Bootstrap(30, n_resamples=9, seed=5) for _ in range(2))
        for k in range(stop):
            first.add(refit_means(rows)(first.counts(k)))
        second.restore(first.state())
        while not second.done:
            second.add(refit_means(rows)(second.counts(second.n_done)))
        np.testing.assert_array_equal(second.errors().bias, whole.bias)
        np.testing.assert_array_equal(second.errors().weights[0], whole.weights[0])


def test_what_a_resample_leaves_open_has_no_finite_error() -> None:
    def refit(counts: np.ndarray) -> Parameters:
        weights = np.full((3, 3), counts[0] + 1.0)
        weights[0, 2] = weights[2, 0] = -np.inf if counts[1] == 0 else counts[1]
        return Parameters((weights,), np.array([1.0, counts[0], np.nan]))

    errors = bootstrap_errors(refit, 10, n_resamples=50)
    assert errors.detail["unidentified"] == ("weights[0, 2]", "bias[2]")
    np.testing.assert_array_equal(np.isinf(errors.weights[0]), np.fliplr(np.diag([1.0, 0.0, 1.0])) > 0)
    assert errors.bias[0] == 0.0 and 0.5 < errors.bias[1] < 1.5 and np.isinf(errors.bias[2])


def test_bootstrap_refusals() -> None:
    with pytest.raises(ValueError, match="n_resamples must be at least 2"):
        bootstrap_errors(refit_means(np.ones((3, 2))), 3, n_resamples=1)
    with pytest.raises(ValueError, match=r"at least two resamples; got 0. Call add\(\)"):
        Bootstrap(3).errors()
    sizes = iter((2, 3))
    with pytest.raises(ValueError, match="same shapes each time"):
        bootstrap_errors(lambda counts: Parameters((), np.zeros(next(sizes))), 3)


def test_resamples_that_hold_all_units_still_leave_everything_open() -> None:
    rows = np.array([[0], [1], [1], [0]])
    run = bm.fit(rows, "bethe", errors="bootstrap", n_resamples=20, progress=False)
    assert np.isinf(run.errors["bias"][-1]).all()
    with pytest.raises(ValueError, match="needs at least 2 rows"):
        bm.fit(rows[:1], "exact", l2_bias=0.1, errors="bootstrap")


def test_resamples_without_a_row_that_counts_are_drawn_again() -> None:
    rows, about = np.array([[0], [1], [1], [0]]), {"errors": "bootstrap", "n_resamples": 20, "progress": False}
    run = bm.fit(rows, "rise", l2=0.1, l2_bias=0.1, row_weights=[0, 1, 0, 1], **about)
    assert np.isfinite(run.errors["bias"]).all()
    with pytest.raises(ValueError, match="at least 2 rows that count, whose scatter it tells; got 1"):
        bm.fit(rows, "rise", row_weights=[0, 1, 0, 0], **about)


def test_blocks_of_rows_are_drawn_together() -> None:
    numbers = np.stack([drawn_rows(103, 10, 7, k) for k in range(400)])
    pieces = numbers[:, :100].reshape(400, 10, 10)
    assert (np.diff(pieces, axis=2) == 1).all() and numbers.min() == 0 and numbers.max() == 102
    assert np.array_equal(drawn_rows(50, 1, 3, 2), drawn_rows(50, 1, 3, 2))


def test_blocks_are_as_long_as_rows_depend_on_one_another() -> None:
    chance = np.random.default_rng(1)
    free = (chance.random((4000, 20)) < 0.5).astype(np.uint8)
    kept = np.repeat(free[::10], 10, axis=0)  # each row ten times
    assert block_of("auto", Rows.of(free)) == 1
    assert 40 <= block_of("auto", Rows.of(kept)) <= 200
    assert block_of("auto", Rows.of(np.ones((100, 3), np.uint8))) == 1
    assert block_of(7, Rows.of(free)) == 7
    with pytest.raises(ValueError, match="block must be at most 200, so that there are 20 of them; got 201"):
        block_of(201, Rows.of(free))
    with pytest.raises(ValueError, match="block must be at most 1,"):
        block_of(2, Rows.of(free[:19]))


def test_blocks_see_what_is_slow_where_the_number_of_units_up_is_not() -> None:
    """One of many units, and assemblies that take turns of 100 rows, each unit of which hardly knows of them."""
    chance = np.random.default_rng(2)
    turn = np.repeat(chance.integers(2, size=100), 100)
    free = chance.random((10_000, 60))
    one, both = free < 0.2, free < 0.2 + 0.03 * np.outer(2 * turn - 1, np.repeat([1, -1], 30))
    one[:, 7] = free[:, 7] < 0.4 * turn
    assert all(60 <= block_of("auto", Rows.of(up)) <= 400 for up in (one, both))
    gaps = Rows.of((free < 0.2) & (turn == 0)[:, None], np.repeat(turn[:, None] == 0, 60, axis=1))
    assert block_of("auto", gaps) == 1  # that rows are missing together is no time of theirs


def test_blocks_of_many_rows_know_short_times_and_long_ones() -> None:
    chance = np.random.default_rng(3)
    few = chance.random((25_000, 4)) < 0.3
    assert 18 <= block_of("auto", Rows.of(np.repeat(few, 4, axis=0))) <= 30
    slight = np.repeat(chance.choice([0.46, 0.54], 200), 500)  # a sixth of the rows tells nothing of that
    assert 10 < block_of("auto", Rows.of((chance.random(100_000) < slight)[:, None])) < 60
    with pytest.warns(bm.ConvergenceWarning, match="100000 rows are too few for their autocorrelation time"):
        assert block_of("auto", Rows.of(np.repeat(few[:20], 5000, axis=0))) == 5000


def test_errors_of_one_unit_are_told_without_couplings() -> None:
    run = bm.fit(10 * [[0], [1]], "pseudolikelihood", errors="bootstrap", n_resamples=2, progress=False)
    assert "standard error of couplings, median" not in run.summary()


def test_errors_of_rows_that_repeat_are_as_wide_as_they_should_be() -> None:
    """Rows that stand ten times each are a tenth as many: errors by blocks are sqrt(10) those of single rows."""
    few = machines.draw(bm.models.curie_weiss(4), 400)
    options: dict[str, Any] = {"epochs": 50, "errors": "bootstrap", "n_resamples": 60, "weights_every": 0}
    rows = np.repeat(few, 10, axis=0)
    right = bm.fit(few, "exact", **options).errors
    blocks = bm.fit(rows, "exact", block="auto", **options).errors
    with pytest.warns(bm.ConvergenceWarning, match="errors='bootstrap' with block=1 takes them for independent"):
        single = bm.fit(rows, "exact", **options).errors
    assert np.mean(blocks["bias"] / right["bias"]) == pytest.approx(1.0, abs=0.3)
    assert np.mean(blocks["bias"] / single["bias"]) == pytest.approx(np.sqrt(10.0), rel=0.3)
    with pytest.warns(bm.ConvergenceWarning, match=r"time of about [456][.\d]* rows, and errors='fisher' takes them"):
        bm.fit(rows, "exact", errors="fisher")
    with pytest.raises(ValueError, match="block goes with errors='bootstrap'"):
        bm.fit(few, "exact", block=5)
    seen: list[Any] = []
    with pytest.raises(ValueError, match="block must be at most 20, so that there are 20 of them; got 21"):
        bm.fit(few, "exact", errors="bootstrap", block=21, progress=lambda task, rows: seen.append(task))
    assert not seen  # before anything was learned
    with pytest.raises(ValueError, match="block must be at least 1"):
        bm.fit(few, "exact", errors="bootstrap", block=0)
