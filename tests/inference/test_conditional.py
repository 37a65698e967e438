"""Using a machine: hidden means, reconstructions and completed rows, held against sums over all states."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.inference.conditional import completions, given as given_module
from fastbm.machine.clamping import Clamped
from tests.support import machines
from tests.support.combinations import pairwise
from tests.twins import conditional as reference

SIGMAS = 5.0  # of about 1000 comparisons below, one is off by as much in 1 of 1000 changes of the code
WITH_HIDDEN = [kind for kind in machines.KINDS if kind != "visible"]


def some_rows(model: bm.BoltzmannMachine, n_rows: int = 6, seed: int = 1) -> np.ndarray:
    up = np.random.default_rng(seed).integers(0, 2, (n_rows, model.n_visible))
    return model.convention.values(up)


def expected(model: bm.BoltzmannMachine, row: np.ndarray, beta: float) -> np.ndarray:
    """Means of all units given the entries of a row that are not NaN."""
    held = {i: float(x) for i, x in enumerate(row) if not np.isnan(x)}
    return reference.conditional_means(*machines.parameters(model), model.units, held, beta)


def with_gaps(model: bm.BoltzmannMachine, seed: int = 2, n_rows: int = 8) -> np.ndarray:
    """Rows with missing entries, one of them whole and one all missing."""
    rows = some_rows(model, n_rows, seed).astype(float)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.4] = np.nan
    rows[0], rows[1] = some_rows(model, 1, seed)[0], np.nan
    return rows


@pairwise(listed=[12, 0], kind=WITH_HIDDEN, units=machines.UNITS)
def test_hidden_means_are_exact(kind: str, units: str, listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_module, "MOST_LISTED", listed)
    model, beta = machines.machine(kind, units, offset=0.3), 0.8
    rows = some_rows(model)
    found = bm.transform(model, rows, beta=beta)
    assert found.shape == (6, model.n_hidden)
    assert found.dtype == np.float64
    truth = np.array([expected(model, row, beta)[model.n_visible :] for row in rows])
    np.testing.assert_allclose(found, truth, atol=1e-10)
    assert np.array_equal(found, bm.transform(model, rows, beta=beta, method="exact"))


@pytest.mark.parametrize("units", machines.UNITS)
@pytest.mark.parametrize("kind", WITH_HIDDEN)
def test_hidden_means_by_mean_field_are_its_fixed_point(kind: str, units: str) -> None:
    model, beta = machines.machine(kind, units, scale=0.3), 0.7
    rows = some_rows(model, 3)
    found = bm.transform(model, rows, beta=beta, method="mean-field")
    spin = model.to_units("spin")
    for row, means in zip(rows, found, strict=True):
        held = {i: float(x) if units == "spin" else 2.0 * x - 1.0 for i, x in enumerate(row)}
        m = reference.mean_field(*machines.parameters(spin), held, beta)[model.n_visible :]
        np.testing.assert_allclose(means, m if units == "spin" else (1 + m) / 2, atol=1e-8)


@pytest.mark.parametrize("units", machines.UNITS)
@pytest.mark.parametrize("kind", WITH_HIDDEN)
def test_hidden_means_by_gibbs_are_unbiased(kind: str, units: str) -> None:
    model, beta = machines.machine(kind, units), 0.8
    row = some_rows(model, 1)
    found = bm.transform(model, np.repeat(row, 400, axis=0), beta=beta, method="gibbs", n_sweeps=20, burn_in=30)
    error = found.std(axis=0) / 20 + 1e-9  # chains are independent
    assert (np.abs(found.mean(axis=0) - expected(model, row[0], beta)[model.n_visible :]) < SIGMAS * error).all()


@pairwise(listed=[12, 0], kind=machines.KINDS, units=machines.UNITS)
def test_missing_entries_become_their_means(
    kind: str, units: str, listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_module, "MOST_LISTED", listed)
    model, beta = machines.machine(kind, units), 0.9
    rows = with_gaps(model)
    left = [np.full((n_rows, model.n_units), 1e308) for n_rows in range(1, 9) for _ in range(7)]
    del left  # to the memory of what is computed next, where numbers so large would overflow
    found = bm.complete(model, rows, beta=beta)
    for row, whole in zip(rows, found, strict=True):
        np.testing.assert_allclose(whole, expected(model, row, beta)[: model.n_visible], atol=1e-10)
    assert np.array_equal(found[0], rows[0])


@pytest.mark.parametrize("kind", machines.KINDS)
def test_missing_entries_by_gibbs_are_unbiased(kind: str) -> None:
    model = machines.machine(kind, "binary")
    row = some_rows(model, 1).astype(float)
    row[0, :2] = np.nan
    found = bm.complete(model, np.repeat(row, 400, axis=0), method="gibbs", n_sweeps=20, burn_in=30)
    error = found.std(axis=0) / 20 + 1e-9
    assert (np.abs(found.mean(axis=0) - expected(model, row[0], 1.0)[: model.n_visible]) < SIGMAS * error).all()


@pairwise(kind=machines.KINDS, units=machines.UNITS, method=["auto", "gibbs"])
def test_draws_have_the_conditional_distribution(kind: str, units: str, method: str) -> None:
    model = machines.machine(kind, units)
    row = some_rows(model, 1).astype(float)
    row[0, [0, 2]] = np.nan
    found = bm.complete(model, np.repeat(row, 2000, axis=0), draw=True, method=method, n_sweeps=10, burn_in=20)
    assert found.dtype == np.int8
    held = {i: float(x) for i, x in enumerate(row[0]) if not np.isnan(x)}
    states = reference.conditional(*machines.parameters(model), units, held)
    lo = model.convention.lo
    for pair in [(lo, lo), (lo, 1), (1, lo), (1, 1)]:
        p = sum(q for state, q in states.items() if (state[0], state[2]) == pair)
        part = float((found[:, [0, 2]] == pair).all(axis=1).mean())
        assert abs(part - p) < SIGMAS * np.sqrt(p * (1 - p) / 2000) + 1e-9
    assert (found[:, 1] == row[0, 1]).all()


@pytest.mark.parametrize("units", machines.UNITS)
def test_rows_of_a_restricted_machine_that_lack_others_are_sampled_together(units: str) -> None:
    model, beta = machines.machine("restricted", units), 0.8
    rows = np.repeat(with_gaps(model), 300, axis=0)
    options: dict[str, Any] = {"beta": beta, "method": "gibbs", "n_sweeps": 10, "burn_in": 20}
    found = bm.complete(model, rows, **options)
    states = bm.complete(model, rows, draw=True, **options)
    for k in range(0, len(rows), 300):
        truth = expected(model, rows[k], beta)[:4]
        for some in (found[k : k + 300], states[k : k + 300]):
            error = model.convention.span * 0.5 / np.sqrt(300) * np.isnan(rows[k])
            assert (np.abs(some.mean(axis=0) - truth) <= SIGMAS * error + 1e-12).all()
        spread = found[k : k + 300].std(axis=0) / np.sqrt(300)
        assert (np.abs(found[k : k + 300].mean(axis=0) - truth) <= SIGMAS * spread + 1e-12).all()
    for threads in (1, 3):
        assert np.array_equal(found, bm.complete(model, rows, threads=threads, **options))


def test_masked_entries_are_missing() -> None:
    model = machines.machine("visible", "binary")
    rows = with_gaps(model)
    masked = np.ma.masked_array(np.nan_to_num(rows, nan=1.0).astype(np.int8), np.isnan(rows))
    assert np.array_equal(bm.complete(model, masked), bm.complete(model, rows))
    with pytest.raises(ValueError, match="rows must have no masked entries here"):
        bm.reconstruct(model, masked)
    with pytest.raises(ValueError, match="states must have no masked entries here"):
        model.energy(masked)


def test_a_mask_says_what_nan_says() -> None:
    model = machines.machine("restricted", "binary")
    rows = with_gaps(model)
    missing = np.isnan(rows)
    for filler in (0, 1, 7):  # what stands in a missing entry does not matter
        plain = np.where(missing, filler, rows).astype(int)
        assert np.array_equal(bm.complete(model, plain, missing=missing), bm.complete(model, rows))
    line = np.array([True, False, False, True])
    rows = some_rows(model)
    assert np.array_equal(bm.complete(model, rows, missing=line), bm.complete(model, np.where(line, np.nan, rows)))
    assert np.array_equal(bm.complete(model, rows), rows)


@pytest.mark.parametrize("units", machines.UNITS)
@pytest.mark.parametrize("kind", WITH_HIDDEN)
def test_reconstruction_is_a_round_trip(kind: str, units: str) -> None:
    model, beta, n = machines.machine(kind, units), 0.9, 2000
    row = some_rows(model, 1)
    found = bm.reconstruct(model, np.repeat(row, n, axis=0), beta=beta)
    mean, variance = reference.round_trip(*machines.parameters(model), units, row[0], beta)
    assert (np.abs(found.mean(axis=0) - mean) < SIGMAS * np.sqrt(variance / n) + 1e-9).all()
    np.testing.assert_allclose(found.var(axis=0), variance, atol=SIGMAS / np.sqrt(n))
    states = bm.reconstruct(model, np.repeat(row, n, axis=0), beta=beta, means=False)
    assert states.dtype == np.int8
    assert (np.abs(states.mean(axis=0) - mean) < SIGMAS * model.convention.span * 0.5 / np.sqrt(n)).all()


def test_many_round_trips_forget_the_row() -> None:
    model = machines.machine("restricted", "spin", scale=0.4)
    row = some_rows(model, 1)
    found = bm.reconstruct(model, np.repeat(row, 2000, axis=0), n_sweeps=50)
    truth = expected(model, np.full(4, np.nan), 1.0)[:4]
    assert (np.abs(found.mean(axis=0) - truth) < SIGMAS * found.std(axis=0) / np.sqrt(2000)).all()


@pytest.mark.parametrize("units", machines.UNITS)
def test_without_hidden_units_each_is_looked_at_given_the_others(units: str) -> None:
    model, beta = machines.machine("visible", units), 0.8
    rows = some_rows(model, 4)
    found = bm.reconstruct(model, rows, beta=beta)
    for row, means in zip(rows, found, strict=True):
        for i in range(5):
            gap = np.where(np.arange(5) == i, np.nan, row)
            assert means[i] == pytest.approx(expected(model, gap, beta)[i], abs=1e-12)
    states = bm.reconstruct(model, np.repeat(rows[:1], 2000, axis=0), beta=beta, n_sweeps=50, means=False)
    truth = expected(model, np.full(5, np.nan), beta)
    assert (np.abs(states.mean(axis=0) - truth) < SIGMAS * model.convention.span * 0.5 / np.sqrt(2000)).all()


@pytest.mark.parametrize("method", ["exact", "mean-field", "gibbs"])
def test_threads_change_no_bit(method: str) -> None:
    generator = np.random.default_rng(0)
    weights = np.triu(generator.normal(scale=0.2, size=(18, 18)), 1)
    model = bm.BoltzmannMachine(weights + weights.T, generator.normal(size=18), units="binary", n_hidden=9)
    rows = some_rows(model, 2000)
    gaps = rows.astype(float)
    gaps[:1000, :2], gaps[1000:, 4] = np.nan, np.nan
    gaps[np.arange(200), generator.integers(2, 9, 200)] = np.nan  # so many lack what few others do
    options: dict[str, Any] = {"method": method, "n_sweeps": 3, "burn_in": 3}
    whole = [bm.transform(model, rows, threads=threads, **options) for threads in (1, 2, 3)]
    filled = [bm.complete(model, gaps, threads=threads, **options) for threads in (1, 2, 3)]
    for found in (whole, filled):
        assert np.array_equal(found[0], found[1])
        assert np.array_equal(found[0], found[2])
    again = [bm.reconstruct(model, rows, threads=threads, means=False) for threads in (1, 3)]
    assert np.array_equal(*again)
    assert not np.array_equal(again[0], bm.reconstruct(model, rows, seed=1, means=False))


def test_memory_does_not_grow_with_the_states_of_many_rows() -> None:
    """12 listed hidden units of 4000 rows have 16 million probabilities, 130 MB, if held at once."""
    generator = np.random.default_rng(0)
    weights = np.triu(generator.normal(scale=0.2, size=(16, 16)), 1)
    model = bm.BoltzmannMachine(weights + weights.T, units="spin", n_hidden=12)
    rows = some_rows(model, 4000)
    tracemalloc.start()
    bm.transform(model, rows, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_auto_samples_where_sums_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_module, "MOST_LISTED", 0)
    model = machines.machine("general", "spin")
    rows = some_rows(model)
    exact = bm.transform(model, rows)
    monkeypatch.setattr(given_module, "EXACT_SECONDS", 0.0)
    sampled = bm.transform(model, rows, n_sweeps=50)
    assert np.array_equal(sampled, bm.transform(model, rows, method="gibbs", n_sweeps=50))
    assert not np.array_equal(sampled, exact)
    np.testing.assert_allclose(sampled, exact, atol=0.25)


@pytest.mark.parametrize("kind", ["general", "restricted"])
def test_rows_with_gaps_of_their_own_share_the_time_for_sums(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (given_module, completions):
        monkeypatch.setattr(module, "MOST_LISTED", 0)
    monkeypatch.setattr(given_module, "EXACT_SECONDS", 10 * given_module.PATTERN_SECONDS)
    model = machines.machine(kind, "spin")
    rows = some_rows(model, 11).astype(float)
    rows[np.arange(11), np.arange(11) % model.n_visible] = np.nan
    few, exact = bm.complete(model, rows[:10]), bm.complete(model, rows, method="exact")
    np.testing.assert_array_equal(few, exact[:10])
    found = bm.complete(model, rows)
    np.testing.assert_array_equal(found, bm.complete(model, rows, method="gibbs"))
    assert not np.array_equal(found, exact)


def test_few_gaps_of_restricted_machines_take_no_sum_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bm.BoltzmannMachine([np.random.default_rng(0).normal(scale=0.3, size=(20, 15))])
    rows = some_rows(model, 3).astype(float)
    rows[:, 4:7] = np.nan
    truth = [bm.infer(model, "exact", clamp=(np.flatnonzero(row == row), row[row == row])).mean[:20] for row in rows]
    monkeypatch.setattr(given_module, "_summed", lambda *_: pytest.fail("an exact sum for each row"))
    np.testing.assert_allclose(bm.complete(model, rows), truth, atol=1e-12)
    np.testing.assert_array_equal(bm.complete(model, rows, method="exact"), bm.complete(model, rows, threads=2))
    monkeypatch.setattr(completions, "EXACT_SECONDS", 0.0)
    monkeypatch.setattr(given_module, "EXACT_SECONDS", 0.0)
    np.testing.assert_array_equal(bm.complete(model, rows), bm.complete(model, rows, method="gibbs"))


def test_auto_sums_by_what_this_machine_takes() -> None:
    """Zeros of a full matrix make sums short; energies far apart make them long."""
    chain = bm.BoltzmannMachine(np.eye(64, k=1) + np.eye(64, k=-1), n_hidden=60)
    rows = some_rows(chain, 2)
    np.testing.assert_array_equal(bm.transform(chain, rows), bm.transform(chain, rows, method="exact"))
    glass = bm.models.random_machine(40, n_hidden=30, seed=1)
    clamped = Clamped.of(glass, np.arange(10), some_rows(glass, 100))
    hot, cold = (given_module.How("auto", beta, 1, 1, 0, 1, n_rows=100) for beta in (0.1, 100.0))
    assert given_module._is_short(clamped, hot) and not given_module._is_short(clamped, cold)


def test_a_run_uses_its_machine_at_its_beta() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (40, 5))
    run = bm.fit(rows, n_hidden=3, epochs=2, beta=0.5)
    gaps = np.where(np.arange(5) == 2, np.nan, rows)
    assert np.array_equal(run.transform(rows), bm.transform(run.model, rows, beta=0.5))
    assert np.array_equal(run.transform(rows, beta=1.0), bm.transform(run.model, rows))
    assert np.array_equal(run.reconstruct(rows, seed=3), bm.reconstruct(run.model, rows, beta=0.5, seed=3))
    assert np.array_equal(run.complete(gaps), bm.complete(run.model, gaps, beta=0.5))
    sampled = run.sample(n_sweeps=10, n_chains=4)
    assert np.array_equal(sampled.states, bm.sample(run.model, beta=0.5, n_sweeps=10, n_chains=4).states)
    assert np.array_equal(sampled.complete(gaps), bm.complete(run.model, gaps))


@pytest.mark.parametrize(
    ("error", "text", "call"),
    [
        (ValueError, "transform needs hidden units", lambda: bm.transform(machines.machine("visible"), [[1] * 5])),
        (ValueError, r"rows must have shape \(n_rows, 4\)", lambda: bm.transform(RESTRICTED, [1, 1, 1, 1])),
        (ValueError, r"rows must have shape \(n_rows, 4\)", lambda: bm.complete(RESTRICTED, np.ones((2, 5)))),
        (ValueError, "unit 2 of row 1 is missing", lambda: bm.reconstruct(RESTRICTED, GAP)),
        (ValueError, r"rows must be 0 or 1 .*got 3.0 at \(1, 3\)", lambda: bm.complete(RESTRICTED, BAD)),
        (TypeError, "rows must be numbers, 0 or 1; got dtype <U", lambda: bm.complete(RESTRICTED, [["0"] * 4])),
        (ValueError, "They look like spin units", lambda: bm.complete(RESTRICTED, [[np.nan, -1, 1, 1]])),
        (TypeError, "missing must be True and False", lambda: bm.complete(RESTRICTED, ONES, missing=[0, 1, 0, 0])),
        (ValueError, "missing must have shape", lambda: bm.complete(RESTRICTED, ONES, missing=[True])),
        (ValueError, "method must be one of", lambda: bm.transform(RESTRICTED, ONES, method="tap")),
        (ValueError, "n_sweeps must be at least 1", lambda: bm.reconstruct(RESTRICTED, ONES, n_sweeps=0)),
        (TypeError, "means must be True or False; got 1", lambda: bm.reconstruct(RESTRICTED, ONES, means=1)),
        (ValueError, "burn_in must be at least 0", lambda: bm.reconstruct(LARGE, np.ones((1, 15)), burn_in=-1)),
        (TypeError, "draw must be True or False; got 'no'", lambda: bm.complete(RESTRICTED, ONES, draw="no")),
        (TypeError, "rows must be numbers, 0 or 1", lambda: bm.complete(RESTRICTED, [["x"] * 4])),
        (ValueError, "beta must be at least 0", lambda: bm.complete(RESTRICTED, ONES, beta=-1.0)),
        (ValueError, "beta must be at least 0", lambda: bm.reconstruct(RESTRICTED, ONES, beta=-1.0)),
        (TypeError, "model must be a BoltzmannMachine", lambda: bm.reconstruct(np.ones((2, 2)), ONES)),
        (TypeError, "model must be a BoltzmannMachine", lambda: bm.transform(np.ones((2, 2)), ONES)),
        (
            ValueError,
            'method="exact" draws for up to 12',
            lambda: bm.complete(LARGE, np.full((1, 15), np.nan), method="exact", draw=True),
        ),
    ],
)
def test_bad_input_is_named(error: type[Exception], text: str, call: Any) -> None:
    with pytest.raises(error, match=text):
        call()


RESTRICTED = machines.machine("restricted", "binary")
LARGE = bm.BoltzmannMachine(np.ones((15, 15)) - np.eye(15))
ONES = np.ones((2, 4))
GAP = np.where(np.arange(8).reshape(2, 4) == 6, np.nan, 1.0)
BAD = np.where(np.arange(8).reshape(2, 4) == 7, 3.0, 1.0)


@pytest.mark.filterwarnings("error")
def test_beta_0_and_large_fields_are_plain_numbers() -> None:
    model = bm.BoltzmannMachine([[[900.0], [-900.0]]], [0.0, 0.0, 5.0], units="spin")
    rows = np.array([[1, -1], [-1, 1]])
    np.testing.assert_array_equal(bm.transform(model, rows), [[1.0], [-1.0]])
    np.testing.assert_array_equal(bm.transform(model, rows, beta=0.0), [[0.0], [0.0]])
    np.testing.assert_array_equal(bm.complete(model, [[np.nan, np.nan], [1.0, np.nan]], beta=0.0)[0], [0.0, 0.0])
    np.testing.assert_array_equal(bm.reconstruct(model, rows), rows)
