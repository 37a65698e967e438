"""When a run stops by itself, what burn-in it finds, and what it says at its end."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import diagnostics
from fastbm.runs.sample.convergence import quantities
from fastbm.sampling.stopping import Grouped, Relaxation, Rule, bins_for, check_after
from tests.support import machines
from tests.support.machines import UNITS, calm, flat
from tests.support.samples import FERRO, SK, small


def ar1(n_samples: int, n_chains: int, rho: float, seed: int, start: float = 0.0) -> np.ndarray:
    """Autoregressive chains of unit variance."""
    chance = np.random.default_rng(seed)
    x = np.empty((n_samples, n_chains))
    now = start + chance.normal(size=n_chains)
    for t in range(n_samples):
        now = rho * now + np.sqrt(1 - rho**2) * chance.normal(size=n_chains)
        x[t] = now
    return x


def test_looks_depend_on_nothing_but_their_number() -> None:
    looks, n = [], 0
    for _ in range(8):
        n = check_after(n)
        looks.append(n)
    assert looks == [64, 80, 100, 125, 157, 196, 245, 306]
    assert check_after(99) == 100 and check_after(100) == 125


@pytest.mark.parametrize("pieces", [1, 7, 64])
def test_the_rule_is_met_at_the_first_look_that_shows_it_whatever_the_pieces(pieces: int) -> None:
    series = ar1(5_000, 8, 0.9, seed=1)
    grouped = Grouped({"energy": 8}, 2)
    rule, n, verdicts = Rule({"ess": 300}, grouped), 0, []
    while n < len(series):
        step = min(pieces, check_after(n) - n, len(series) - n)
        verdict = rule.met({"energy": series[n : n + step]})
        n += step
        assert (verdict is not None) == (check_after(n - 1) == n)
        if verdict is not None:
            verdicts.append((n, verdict))
            if verdict:
                break
    plain = [
        (m, all(diagnostics.ess(series[:m, half]) >= 300 for half in (slice(0, 4), slice(4, 8)))) for m, _ in verdicts
    ]
    first = next(m for m, good in plain if good)
    assert verdicts[-1][1]
    # it must hold from one look to another at twice as many samples; bins against the whole series may differ
    assert abs(np.log(verdicts[-1][0] / (2 * first))) <= np.log(1.6)
    # tau_int = 9.5 by theory: 4 chains give 300 effective samples after 1425
    assert 1_800 < verdicts[-1][0] <= 5_000


def test_both_limits_must_hold() -> None:
    together, apart = ar1(383, 8, 0.0, seed=2), ar1(383, 8, 0.0, seed=2) + 3 * np.arange(8)
    for series, met in ((together, True), (apart, False)):
        rule, n = Rule({"ess": 10, "r_hat": 1.05}, Grouped({"energy": 8}, 1)), 0
        while n < 382:
            step = check_after(n) - n
            last = rule.met({"energy": series[n : n + step]})
            n += step
        assert last is met


def test_what_looked_settled_is_looked_at_again() -> None:
    """One chain that sits in a valley for its first 1200 samples and then leaves it: not the first look decides."""
    series = ar1(4_000, 1, 0.3, seed=4) + 6.0 * (np.arange(4_000) >= 1_200)[:, None]
    rule, n = Rule({"ess": 100}, Grouped({"energy": 1}, 1)), 0
    while n < 3_500:
        step = check_after(n) - n
        n += step
        assert not rule.met({"energy": series[n - step : n]}), n


def test_chains_that_relax_side_by_side_do_not_stop() -> None:
    """Eight chains that agree at all times, and all of which still move by a tenth of their spread."""
    series = ar1(2_000, 8, 0.0, seed=5) + 0.3 * np.exp(-np.arange(2_000) / 400.0)[:, None]
    rule, n, looks = Rule({"ess": 100}, Grouped({"energy": 8}, 1)), 0, []
    while n < 1_500:
        step = check_after(n) - n
        n += step
        looks.append(rule.met({"energy": series[n - step : n]}))
    assert not any(looks)


def test_a_run_stops_when_it_knows_enough() -> None:
    run = bm.sample(SK, beta=0.4, n_chains=16, n_sweeps=50_000, until={"ess": 2_000}, observables=["magnetisation"])
    assert run.finished and run.until_met and run.converged
    n = len(run.sweep)
    assert check_after(n - 1) == n
    assert n < 2_000
    assert run.sweep[-1] == run.burn_in + n
    assert min(diagnostics.ess(run.energy), diagnostics.ess(run.observables["magnetisation"])) > 1_500
    assert "until" in run.summary()


def test_the_slowest_observable_decides() -> None:
    """The magnetisation of a cold ferromagnet hardly moves, though its energy does."""
    common: dict[str, Any] = {"beta": 0.5, "n_chains": 8, "n_sweeps": 400, "until": {"ess": 200}}
    assert calm(bm.sample, FERRO, **common).until_met
    with pytest.warns(bm.ConvergenceWarning):
        run = bm.sample(FERRO, observables=["magnetisation"], **common)
    assert run.until_met is False
    assert run.converged is False
    assert len(run.sweep) == 400


def test_a_rule_that_is_not_met_is_told() -> None:
    with pytest.warns(bm.ConvergenceWarning, match=r"stopping rule \(ess 1e\+09\) was not met within n_sweeps = 200"):
        run = bm.sample(SK, beta=0.2, n_sweeps=200, until={"ess": 1e9})
    assert run.converged is False
    assert "not met" in str(run.summary())


def test_a_burn_in_is_found(tmp_path: Path) -> None:
    """From all up, a hot machine forgets at once; what is sampled then has the exact energy."""
    model = small()
    exact = machines.enumerate_machine(model, beta=0.5)
    run = bm.sample(model, beta=0.5, burn_in="auto", n_chains=64, n_sweeps=2_000, initial="up", out=tmp_path / "run.h5")
    assert run.burn_in_found is True
    assert run.burn_in in {64 * 2**k for k in range(5)}
    assert run.sweep[0] == run.burn_in + 1
    assert "found" in run.summary()["burn-in"]
    error = diagnostics.standard_error(run.energy)
    assert abs(run.energy.mean() - float(exact.energy)) < 5 * error  # false alarm: 6e-7
    assert np.array_equal(bm.open(tmp_path / "run.h5").sweep, run.sweep)


def test_a_run_that_drifts_to_the_limit_is_told() -> None:
    big = bm.models.ising((64, 64))
    with pytest.warns(bm.ConvergenceWarning, match="chains still drift after the limit of the burn-in, n_sweeps = 128"):
        run = bm.sample(big, beta=0.6, burn_in="auto", n_chains=8, n_sweeps=128)
    assert run.burn_in_found is False and run.converged is False
    assert run.burn_in == 128
    assert "limit" in run.summary()["burn-in"]


@pytest.mark.parametrize("thin", [1, 5])
def test_burn_in_is_counted_in_sweeps(thin: int) -> None:
    run = bm.sample(flat(4), burn_in="auto", n_sweeps=4_000, thin=thin)
    assert run.burn_in % (64 * thin) == 0
    assert run.sweep.tolist() == (run.burn_in + thin * np.arange(1, 4_000 // thin + 1)).tolist()


def test_one_look_at_many_quantities_rings_no_more_than_at_one() -> None:
    """Thirty stationary series: at most 8 % of first looks ring; 10 of 60 do less often than once in 1e4 trials."""
    rung = 0
    for seed in range(60):
        relaxation = Relaxation(Grouped({"energy": 30 * 8}, 30))
        rows = ar1(relaxation.rows_to_check(), 240, 0.0, seed=seed)
        rung += not relaxation.over({"energy": rows})
    assert rung <= 12


@pytest.mark.parametrize("units", UNITS)
def test_chains_that_agree_are_told_nothing(units: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n_chains in (4, 64):
            assert bm.sample(small(units), beta=0.3, n_chains=n_chains, n_sweeps=400).converged


def test_chains_that_disagree_are_told_once_with_the_way_out() -> None:
    with pytest.warns(bm.ConvergenceWarning) as told:
        run = bm.sample(SK, beta=5.0, n_chains=16, n_sweeps=200)
    assert len(told) == 1
    text = str(told[0].message)
    worst = max(run.r_hat)
    assert f"r_hat of the energy at beta = 5 is {worst:.3g}, above 1.05" in text
    assert "ess" in text and 'sampler="tempering"' in text
    assert told[0].filename == __file__
    assert not run.converged


@pytest.mark.parametrize("options", [{"n_chains": 2, "n_sweeps": 500}, {"n_sweeps": 20}, {"keep": "best"}], ids=str)
def test_nothing_is_said_where_nothing_can_be_told(options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bm.sample(SK, **{"beta": 5.0, "n_chains": 64, "n_sweeps": 100, **options})


def test_a_small_population_is_told() -> None:
    with pytest.warns(bm.ConvergenceWarning, match=r"about .* independent replicas.*Raise n_chains \(now 50\)"):
        run = bm.sample(SK, sampler="population-annealing", n_chains=50, beta=2.0)
    assert run.converged is False
    assert bm.sample(small(), sampler="population-annealing", n_chains=2_000, beta=0.3).converged


def test_a_resumed_run_tells_too_and_a_finished_one_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bm.sample(SK, beta=5.0, n_chains=16, n_sweeps=200, out=path, max_seconds=0.0)
        with pytest.warns(bm.ConvergenceWarning, match="chains disagree"):
            bm.resume(path)
        assert bm.resume(path).finished


def test_long_series_are_thinned_for_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    run = bm.sample(SK, beta=0.3, n_chains=8, n_sweeps=2_000)
    whole = quantities(run)
    monkeypatch.setattr("fastbm.runs.sample.convergence.MOST_COMPARED", 3_000)
    thinned = quantities(run)
    assert whole != thinned
    assert abs(whole[0].r_hat - thinned[0].r_hat) < 0.02


@pytest.mark.parametrize(("size", "n_bins"), [(1, 256), (64, 256), (4_096, 128), (10_000, 52), (10**6, 16)])
def test_bins_of_many_chains_take_no_more_memory(size: int, n_bins: int) -> None:
    assert bins_for(size) == n_bins
