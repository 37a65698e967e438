"""Error bars of learned couplings: the information is the Hessian, and errors are what follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import fastbm as bm
from fastbm.learning.errors.errors import Errors, sandwich
from fastbm.learning.errors.fisher import fisher_errors, fisher_information
from fastbm.learning.errors.statistics import Statistics, all_probabilities, exact_moments, never_seen, row_moments
from fastbm.report.pictures.run import draw_errors, plot_run
from tests.support import machines
from tests.support.errors import N_ROWS, planted
from tests.support.learning import as_vector, coupled_pairs
from tests.support.machines import UNITS, draw, machine, parameters
from tests.twins import errors as twin


def information_by_differences(model: bm.BoltzmannMachine, beta: float) -> np.ndarray:
    """Minus the Hessian of the mean of log p(v) over all states v as probable as the machine has them."""
    pairs, n_visible = coupled_pairs(model), model.n_visible

    def log_p(theta: np.ndarray) -> np.ndarray:
        return twin.visible_log_p(theta, pairs, model.n_units, n_visible, model.units, beta)

    theta = as_vector(model)
    weights = np.exp(log_p(theta))
    return -twin.hessian(lambda moved: float(weights @ log_p(moved)), theta)


# The information


@pytest.mark.parametrize("beta", [1.0, 0.7])
@pytest.mark.parametrize("units", UNITS)
def test_information_is_minus_the_hessian_of_the_log_likelihood(units: str, beta: float) -> None:
    model = planted(units, n=4, scale=0.6)
    found = fisher_information(model, beta=beta)
    np.testing.assert_allclose(found.matrix, information_by_differences(model, beta), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("units", UNITS)
def test_information_of_a_restricted_machine_is_the_mean_hessian(units: str) -> None:
    generator = np.random.default_rng(3)
    blocks = [generator.normal(scale=0.7, size=(5, 2))]
    model = bm.BoltzmannMachine(blocks, generator.normal(scale=0.3, size=7), units=units)
    found = fisher_information(model, beta=0.8)
    assert found.method == "exact"
    np.testing.assert_allclose(found.matrix, information_by_differences(model, 0.8), atol=1e-6)


def test_information_of_a_small_restricted_machine_is_the_mean_hessian() -> None:
    model = bm.BoltzmannMachine([[[0.8], [-0.5], [0.3]]], [0.1, -0.2, 0.3, 0.4], units="binary")
    found = fisher_information(model, beta=0.8)
    np.testing.assert_allclose(found.matrix, information_by_differences(model, 0.8), atol=1e-6)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", ["visible", "open"])
def test_information_of_all_states_is_the_twins(kind: str, units: str) -> None:
    model = planted(units, seed=4, n=8)
    if kind == "open":  # couplings of a chain alone
        import scipy.sparse

        chain = np.where(np.abs(np.subtract.outer(range(8), range(8))) == 1, parameters(model)[0], 0.0)
        model = bm.BoltzmannMachine(scipy.sparse.csr_array(chain), model.flat_bias, units=units)
    pairs = coupled_pairs(model)
    assert len(pairs) == (7 if kind == "open" else 28)
    wanted = 0.9**2 * twin.covariance(as_vector(model), pairs, 8, units, 0.9)
    np.testing.assert_allclose(fisher_information(model, beta=0.9).matrix, wanted, atol=1e-13)


@pytest.mark.parametrize("units", UNITS)
def test_more_units_than_a_block_transforms_at_a_time(units: str) -> None:
    model = planted(units, seed=5, n=13, scale=0.15)
    p = all_probabilities(model, 1.0)
    up = (np.arange(1 << 13)[:, None] >> np.arange(13) & 1).astype(np.uint8)
    energy = model.energy(model.convention.values(up))
    np.testing.assert_allclose(p, np.exp(-energy) / np.exp(-energy).sum(), rtol=1e-11)
    by_rows = row_moments(model, up, 1.0, 1, p).covariance()
    np.testing.assert_allclose(fisher_information(model).matrix, by_rows, atol=1e-13)


@pytest.mark.parametrize("kind", ["visible", "restricted"])
def test_samples_tend_to_the_exact_information(kind: str) -> None:
    model = machine(kind, "binary", seed=6, scale=0.4)
    exact = fisher_information(model, method="exact")
    found = fisher_information(model, method="monte-carlo", n_samples=20_000, seed=1)
    size = np.sqrt(np.outer(np.diag(exact.matrix), np.diag(exact.matrix)))
    assert np.abs((found.matrix - exact.matrix) / size).max() < 6 * 2 / np.sqrt(20_000)
    assert found.detail["n_samples"] == 20_000 and found.detail["converged"]


@pytest.mark.parametrize("kind", ["visible", "restricted"])
def test_rows_of_the_truth_give_its_information(kind: str) -> None:
    model = machine(kind, "spin", seed=6, scale=0.4)
    rows = draw(model, 20_000, seed=2)
    options = {"method": "rows"} if kind == "visible" else {}
    found, exact = fisher_information(model, rows=rows, **options), fisher_information(model)
    assert (found.method, exact.method) == ("rows", "exact")
    size = np.sqrt(np.outer(np.diag(exact.matrix), np.diag(exact.matrix)))
    assert np.abs((found.matrix - exact.matrix) / size).max() < 6 * 2 / np.sqrt(20_000)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    model, hidden = planted("binary", n=7), machine("restricted", "spin")
    rows = draw(hidden, 9_000)
    for options in ({"n_samples": 9_000, "method": "monte-carlo"}, {"rows": rows}):
        one, *others = (
            fisher_information(hidden if "rows" in options else model, threads=threads, **options).matrix
            for threads in (1, 2, 3)
        )
        assert all(np.array_equal(one, other) for other in others)


def of_steps(start: bm.BoltzmannMachine, rows: Any, **options: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return what an epoch of steps of 1000 rows adds to the variance of biases and couplings, and the machine."""
    about = {"method": "pcd", "batch_size": 1000, "n_chains": 50, "epochs": 1, "errors": "fisher", "evaluate": "none"}
    run = bm.fit(rows, init=start, progress=False, threads=1, **about | options)
    base = fisher_errors(run.model, n_rows=1000)
    bias, weights = (run.read(f"errors/{name}")[-1] for name in ("bias", "weights"))
    return bias**2 - base.bias**2, weights**2 - base.weights[0] ** 2, run.model


@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
def test_what_steps_of_a_constant_rate_leave_is_in_the_errors() -> None:
    """Fits to the same rows by other chains differ by that alone."""
    rows = draw(planted("spin", n=4, scale=0.6), 1000)
    common = {"batch_size": 1000, "n_chains": 50, "learning_rate": 0.05, "threads": 1, "evaluate": "none"}
    fits = [bm.fit(rows, "pcd", epochs=12, seed=s, **common) for s in range(24)]
    spread = np.var([as_vector(one.model) for one in fits], axis=0, ddof=1).mean()
    bias, _, _ = of_steps(fits[0].model, rows, learning_rate=0.05)
    assert np.all(bias > 0.99 * 0.5 * 0.05 / 50)
    assert 0.4 < spread / bias.mean() < 1.2


def test_the_noise_of_steps_is_that_of_their_kind() -> None:
    """Chains that start anew have no memory, so that what is left is known."""
    truth = planted("spin", n=4, scale=0.3, seed=3)
    rows = draw(truth, 1000)
    plain = 0.5 * 0.05 / 50
    kinds = (({}, 1.0), ({"schedule": "linear"}, 0.0), ({"schedule": "inverse"}, 0.1), ({"momentum": 0.5}, 2.0))
    for options, factor in kinds:
        bias, weights, _ = of_steps(truth, rows, learning_rate=0.05, **{"free": "restarted"} | options)
        np.testing.assert_allclose(bias, factor * plain, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(weights[0, 1:], factor * plain, rtol=1e-6, atol=1e-12)
    bias, weights, learned = of_steps(truth, rows, learning_rate=0.05, free="restarted", centring=True)
    mean = bm.infer(learned, "exact").mean
    np.testing.assert_allclose(bias, plain * (1.0 + mean @ mean - mean**2), rtol=1e-6)
    np.testing.assert_allclose(weights[0, 1:], plain, rtol=1e-6)
    options = {"method": "monte-carlo", "batch_size": None, "free": "restarted", "learning_rate": 0.05}
    bias, _, _ = of_steps(truth, bm.Moments.of(rows), **options)
    np.testing.assert_allclose(bias, plain, rtol=1e-6)
    bias, _, learned = of_steps(truth, rows, learning_rate=0.05, free="restarted", optimizer="adam")
    mean = bm.infer(learned, "exact").mean
    np.testing.assert_allclose(bias, 0.5 * 0.05 * np.sqrt(1.0 / 50 / (1.0 - mean**2)), rtol=1e-6)


def test_the_memory_of_chains_is_in_the_noise_of_steps() -> None:
    """Two spins that are updated in turn remember each other from sweep to sweep by tanh^2 J."""
    pair = bm.BoltzmannMachine([[0.0, 1.2], [1.2, 0.0]], units="spin")
    bias, weights, _ = of_steps(pair, draw(pair, 1000), learning_rate=0.001)
    kept = np.tanh(1.2) ** 2
    assert np.all(np.abs(np.log(bias / (0.5 * 0.001 / 50 * (1 + kept) / (1 - kept)))) < 0.8)
    np.testing.assert_allclose(weights[0, 1], 0.5 * 0.001 / 50, rtol=0.8)


# From the information to errors


def test_errors_are_the_twins_with_and_without_penalty() -> None:
    model = planted("binary", seed=2)
    n_pairs = 15
    for l2, l2_bias in ((0.0, 0.0), (0.05, 0.0), (0.05, 0.02)):
        errors = fisher_errors(model, n_rows=500, beta=0.8, l2=l2, l2_bias=l2_bias)
        information = 0.8**2 * twin.covariance(as_vector(model), coupled_pairs(model), 6, "binary", 0.8)
        penalty = np.repeat([l2, l2_bias], [n_pairs, 6])
        wanted = twin.standard_errors(information, penalty, 500)
        assert errors.weights[0].shape == (6, 6) and not np.diag(errors.weights[0]).any()
        np.testing.assert_array_equal(errors.weights[0], errors.weights[0].T)
        np.testing.assert_allclose(errors.weights[0][np.triu_indices(6, 1)], wanted[:n_pairs], rtol=1e-9)
        np.testing.assert_allclose(errors.bias, wanted[n_pairs:], rtol=1e-9)
        assert errors.detail["unidentified"] == ()


def test_errors_of_one_coupling_are_the_textbooks() -> None:
    model = bm.BoltzmannMachine([[0.0, 0.0], [0.0, 0.0]], units="spin")
    errors = fisher_errors(model, n_rows=400)  # all three statistics have variance 1 and are independent
    np.testing.assert_allclose([errors.weights[0][0, 1], *errors.bias], 1 / 20, rtol=1e-12)


@pytest.mark.parametrize("units", UNITS)
def test_a_pair_that_is_never_on_together_has_no_finite_error(units: str) -> None:
    weights = np.zeros((4, 4))
    weights[0, 2] = weights[2, 0] = -60.0
    weights[1, 3] = weights[3, 1] = 0.5
    model = bm.BoltzmannMachine(weights, [0.1, -0.2, 0.3, 0.1], units="binary").to_units(units)
    errors = fisher_errors(model, n_rows=100)
    assert np.isinf(errors.weights[0][0, 2]) and np.isinf(errors.weights[0][2, 0])
    assert "weights[0, 2]" in errors.detail["unidentified"]
    assert np.isfinite(errors.weights[0][[0, 0, 1, 1, 2], [1, 3, 2, 3, 3]]).all()
    assert np.isfinite(errors.bias[[1, 3]]).all()
    if units == "binary":  # spins' biases are mixed with that coupling
        assert errors.detail["unidentified"] == ("weights[0, 2]",)
    held = fisher_errors(model, n_rows=100, l2=0.01)
    assert np.isfinite(held.weights[0]).all()
    assert held.detail["unidentified"] == errors.detail["unidentified"]


def test_information_that_is_all_but_0_leaves_no_other_open() -> None:
    information = np.array([[0.25, 0.1, 1e-316], [0.1, 0.25, 0.0], [1e-316, 0.0, 1e-316]])
    errors, unidentified, _ = sandwich(information, np.zeros(3), 100, np.ones(3))
    assert unidentified.tolist() == [False, False, True]
    np.testing.assert_allclose(errors[:2], np.sqrt(np.diag(np.linalg.inv(information[:2, :2])) / 100), rtol=1e-9)


def test_a_constant_unit_has_no_finite_error() -> None:
    model = bm.BoltzmannMachine(np.zeros((3, 3)), [0.0, 50.0, 0.3], units="spin")
    errors = fisher_errors(model, n_rows=100)
    # s_1 = 1 always: its bias is infinite, and s_0 s_1 cannot be told from s_0
    assert set(errors.detail["unidentified"]) == {"weights[0, 1]", "weights[1, 2]", "bias[0]", "bias[1]", "bias[2]"}
    assert np.isinf(errors.bias).all() and np.isfinite(errors.weights[0][0, 2])


@pytest.mark.parametrize(("l2", "l2_bias"), [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1), (0.1, 0.1)])
@pytest.mark.parametrize("units", UNITS)
def test_states_never_seen_are_the_twins(units: str, l2: float, l2_bias: float) -> None:
    n_flagged = 0
    for seed in range(12):  # strong couplings and biases leave some states of pairs, and of units, out
        model = planted(units, seed=seed, n=5, scale=2.0)
        statistics, mean = Statistics(model), exact_moments(model, 1.0).mean
        found = never_seen(statistics, mean, model.convention, 0.005, weights_held=l2 > 0, bias_held=l2_bias > 0)
        penalty = np.repeat([l2, l2_bias], [10, 5])
        directions = twin.directions_never_seen(mean.tolist(), coupled_pairs(model), units, 0.005)
        wanted = {k for direction in directions if not any(penalty[list(direction)]) for k in direction}
        assert set(np.flatnonzero(found).tolist()) == wanted
        n_flagged += len(wanted)
    # a penalty on biases holds the states of spin pairs too
    assert (n_flagged == 0) == (l2_bias > 0 and (l2 > 0 or units == "spin"))


@pytest.mark.filterwarnings("ignore:data")
@pytest.mark.parametrize("units", UNITS)
def test_a_pair_that_never_fired_together_in_the_data_is_named(units: str) -> None:
    rows = draw(planted(units, seed=3), 2_000)
    rows = rows[(rows[:, 1] == -1) | (rows[:, 4] != 1) if units == "spin" else rows[:, 1] * rows[:, 4] == 0]
    plain, held = (
        bm.fit(rows, method="exact", units=units, evaluate="none", epochs=200, l2=l2).model for l2 in (0.0, 1e-3)
    )
    pairs = coupled_pairs(plain)
    means = np.mean([twin.statistics(row, pairs) for row in rows.tolist()], axis=0)
    missing = twin.directions_never_seen(means.tolist(), pairs, units, 0.5 / len(rows))
    fourteen = pairs.index((1, 4))
    assert missing == ([{fourteen}] if units == "binary" else [{fourteen, 15 + 1, 15 + 4}])
    errors = fisher_errors(plain, n_rows=len(rows))
    assert errors.detail["unidentified"] == ("weights[1, 4]", "bias[1]", "bias[4]")[: len(missing[0])]
    assert np.isinf(errors.weights[0][1, 4]) and np.isinf(errors.weights[0]).sum() == 2
    assert np.isinf(errors.bias).sum() == len(missing[0]) - 1
    assert errors.bias[np.isfinite(errors.bias)].max() < 0.5
    assert np.isfinite(fisher_errors(held, n_rows=len(rows), l2=1e-3).weights[0]).all()


@pytest.mark.filterwarnings("ignore:data")
def test_neurons_that_never_fire_together_are_named() -> None:
    rows = bm.data.load(f"{machines.data_file('example15.mat')}:spikes15").rows
    learned = bm.fit(rows, method="exact", units="binary", evaluate="none", epochs=500).model
    errors = fisher_errors(learned, n_rows=len(rows))
    assert errors.detail["unidentified"] == ("weights[1, 11]", "weights[10, 11]")
    assert np.isinf(errors.weights[0]).sum() == 4 and np.isfinite(errors.bias).all()


def test_nothing_is_known_at_beta_0() -> None:
    errors = fisher_errors(planted("spin"), n_rows=10, beta=0.0)
    assert np.isinf(errors.bias).all() and len(errors.detail["unidentified"]) == 21


def test_a_hidden_unit_without_couplings_has_no_bias() -> None:
    model = bm.BoltzmannMachine([np.array([[0.5, 0.0], [-0.4, 0.0], [0.6, 0.0]])], units="binary")
    errors = fisher_errors(model, n_rows=100)
    assert "bias[4]" in errors.detail["unidentified"]


def test_a_singular_information_is_told_by_what_determines_a_parameter() -> None:
    information = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 4.0]])
    errors, unidentified, _ = sandwich(information, np.zeros(3), 100, np.ones(3))
    np.testing.assert_array_equal(errors, [np.inf, np.inf, 0.05])
    np.testing.assert_array_equal(unidentified, [True, True, False])


def test_the_inverse_of_few_samples_is_not_too_large() -> None:
    model = planted("spin")
    exact = fisher_errors(model, n_rows=N_ROWS)
    found = [fisher_errors(model, n_rows=N_ROWS, method="monte-carlo", n_samples=210, seed=k) for k in range(60)]
    squares = np.mean([one.bias**2 for one in found], axis=0) / exact.bias**2
    assert abs(squares.mean() - 1) < 0.08  # 0.19 without the correction, which is that of normal variables
    assert found[0].detail["relative_error"] == pytest.approx(np.sqrt(0.5 / (210 - 21 - 2)))


# What is handed on, and what is refused


def test_rows_fit_their_streams() -> None:
    visible, layered = fisher_errors(planted("spin"), n_rows=9), fisher_errors(machine("restricted"), n_rows=9)
    for errors, n_units in ((visible, 6), (layered, 7)):
        rows, streams = errors.to_rows(), errors.streams()
        assert list(rows) == list(streams) == ["errors/weights", "errors/bias"]
        assert all(rows[name].shape == (1, *stream.shape) for name, stream in streams.items())
        assert rows["errors/bias"].shape == (1, n_units)
    several = Errors((np.ones((2, 3)), np.ones((3, 1))), np.ones(6), "bootstrap")
    assert list(several.to_rows()) == ["errors/weights_0", "errors/weights_1", "errors/bias"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "monte-carlo", "n_samples": 209}, "at least 210 samples .* n_samples is 209. Pass n_samples=420"),
        ({"method": "rows"}, 'needs rows, the data. Pass them, or use method="auto"'),
        ({"method": "monte carlo"}, "Did you mean 'monte-carlo'"),
        ({"n_rows": 0}, "n_rows must be at least 1"),
        ({"l2": -1.0}, "l2 must be at least 0"),
        ({"beta": -0.5}, "beta must be at least 0"),
    ],
)
def test_refusals_say_the_way_out(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        fisher_errors(planted("spin"), **{"n_rows": 10, **options})


def test_machines_without_an_information_matrix_are_refused() -> None:
    with pytest.raises(ValueError, match=r'coupled to visible ones only .* Use errors="bootstrap"'):
        fisher_errors(machine("general"), n_rows=10)
    with pytest.raises(ValueError, match=r'coupled to visible ones only .* Use errors="bootstrap"'):
        fisher_errors(machine("layers"), n_rows=10)
    with pytest.raises(ValueError, match=r'of 2556 parameters is too large .* 2500. Use errors="bootstrap"'):
        fisher_errors(machines.flat(71), n_rows=10)
    with pytest.raises(ValueError, match=r'exact" is for up to 24 units; got 25. Use method="monte-carlo"'):
        fisher_errors(machines.flat(25), n_rows=10, method="exact")
    with pytest.raises(ValueError, match=r"needs at least 190 samples .* rows has 9. Leave rows out"):
        fisher_errors(machine("restricted"), n_rows=9, rows=draw(machine("restricted"), 9))


@pytest.mark.slow
def test_samples_that_have_not_converged_are_told() -> None:
    weights = 0.5 * (1 - np.eye(40))  # two states, all up and all down
    with pytest.warns(bm.ConvergenceWarning, match=r"after n_sweeps=4.* Raise n_sweeps"):
        fisher_errors(bm.BoltzmannMachine(weights), n_rows=10, method="monte-carlo", n_samples=8_200, n_sweeps=4)


@pytest.mark.slow
def test_machines_beyond_exact_sums_are_sampled() -> None:
    n = 44
    bias = np.random.default_rng(9).normal(scale=0.4, size=n)
    model = bm.BoltzmannMachine(1e-9 * (1 - np.eye(n)), bias)  # all but independent spins
    errors = fisher_errors(model, n_rows=N_ROWS)
    assert errors.method == "fisher monte-carlo" and errors.detail["source"] == "gibbs" and errors.detail["converged"]
    mean = np.tanh(bias)
    variance = 1 - mean**2
    # b_i = (b_i + sum_j W_ij m_j) - sum_j W_ij m_j, of which all terms are independent
    squares = 1 / np.outer(variance, variance)
    np.fill_diagonal(squares, 0.0)
    np.testing.assert_allclose(errors.weights[0], np.sqrt(squares / N_ROWS), rtol=0.05)
    np.testing.assert_allclose(errors.bias, np.sqrt((1 / variance + squares @ mean**2) / N_ROWS), rtol=0.05)


def test_errors_stand_in_the_picture_of_a_fit(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, 5))
    rows[:, 4] &= 1 - rows[:, 3]  # a pair that is never on together: its coupling is open
    with pytest.warns(bm.ConvergenceWarning, match="never on together"):
        run = bm.fit(rows, method="exact", errors="fisher", epochs=20)
    figure = Figure()
    axes = figure.subplots()
    draw_errors(axes, run)
    first, second = axes.get_title().split("\n")
    assert first == "10 couplings ± standard error, 1 of them open"
    weights = run.model.weights[np.triu_indices(5, 1)]
    edge = np.sort(np.abs(weights))[-2]  # the open one, far from all others, does not flatten them
    assert second == f"1 beyond ±{edge:.3g} drawn at the edge"
    assert axes.get_ylim() == pytest.approx((-1.1 * edge, 1.1 * edge))
    assert max(np.abs(y).max(initial=0.0) for y in (line.get_ydata() for line in axes.lines)) == pytest.approx(edge)
    groups = [bars.get_segments() for bars in axes.collections if isinstance(bars, LineCollection)]
    bars = np.array([bar for group in groups for bar in group])
    heights = np.sort(bars[:, 1, 1] - bars[:, 0, 1]) / 2
    errors = run.errors["weights"][-1][np.triu_indices(5, 1)]
    np.testing.assert_allclose(heights, np.sort(errors[np.isfinite(errors)]), rtol=1e-9)
    assert plot_run(run, tmp_path / "a.png").stat().st_size > 10_000
