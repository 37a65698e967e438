"""Samples at logarithmic times: the same as those of every sweep, and nothing that only an even series has."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, t as student

import fastbm as bm
from fastbm import cli
from fastbm.runs.sample.errors import across_chains
from tests.support.machines import assert_covers, calm
from tests.support.samples import FERRO, GLASS, SK, WORKLOADS, work

EVERY = [
    name
    for name, (_, own) in WORKLOADS.items()
    if not {"keep", "until", "burn_in"} & set(own)
    and own.get("sampler") not in ("annealing", "population-annealing", "exact")
]


@pytest.mark.parametrize("name", EVERY)
def test_samples_are_those_of_every_sweep(name: str) -> None:
    wait = 7
    every = work(name, thin=1, burn_in=0, n_sweeps=wait + 40)
    run = work(name, thin="log", burn_in=wait, n_sweeps=40)
    assert run.times.tolist() == [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40]
    assert run.sweep.tolist() == (wait + run.times).tolist()
    for stream in every.streams:
        if stream != "clusters/size":  # a mean since the sample before
            assert run.read(stream).tobytes() == every.read(stream)[run.sweep - 1].tobytes(), stream


def test_means_over_chains_at_each_time() -> None:
    model = bm.models.ising((8, 8)).to_units("binary")
    run = bm.sample(model, thin="log", beta=[0.3, 1.0], n_chains=32, n_sweeps=30, seed=2)
    found, spins = run.relaxation(1.0), 2.0 * run.states - 1.0
    assert found.beta == 1.0 and found.time is not None and found.time.tolist() == run.times.tolist()
    energy, kept = run.energy[:, 16:] / 64, (spins * spins[0]).mean(axis=2)[:, 16:]
    for values, mean, error in (
        (energy, found.energy, found.energy_error),
        (kept[1:], found.correlation[1:], found.correlation_error[1:]),
    ):
        np.testing.assert_allclose(mean, values.mean(axis=1))
        wider = student.ppf(0.975, 15) / norm.ppf(0.975)
        np.testing.assert_allclose(error, wider * values.std(axis=1, ddof=1) / 4, rtol=0.05)  # and what is not seen
    assert (found.correlation[0], found.correlation_error[0]) == (1.0, 0.0)
    assert found.energy[-1] < found.energy[0] < 0.0
    table = run.to_dataframe()
    assert len(table) == 2 * len(run.times) and table.index.name == "time"
    np.testing.assert_array_equal(table[table.beta == 1.0].correlation, found.correlation)
    single = bm.sample(FERRO, thin="log", n_chains=1, n_sweeps=3).relaxation()
    assert np.isnan(single.energy_error).all() and np.isfinite(single.energy).all()
    frozen = bm.sample(FERRO, initial="up", beta=9.0, n_sweeps=20, n_chains=4).relaxation()  # of even times, too
    assert (frozen.energy_error > 0.0).all() and (frozen.correlation_error[1:] > 0.0).all()


def test_errors_of_few_chains_cover() -> None:
    run = bm.sample(FERRO, thin="log", n_chains=2, n_sweeps=1)
    for n_chains in (2, 4, 16):
        mean, error = across_chains(run, np.random.default_rng(n_chains).normal(size=(600, n_chains)), 0.0)
        assert_covers(np.abs(mean) < 1.96 * error)


@pytest.mark.parametrize(
    ("sampler", "order"),
    [
        ("gibbs", "sequential"),
        ("gibbs", "coloured"),
        ("gibbs", "permuted"),
        ("metropolis", None),
        ("tempering", "random"),
    ],
)
def test_errors_at_one_time_are_told_where_chains_share_no_order(sampler: str, order: str | None) -> None:
    """Of 24 seeds the scatter of means is their errors' within a factor of 2, by chance not once in 1,000 trials."""
    options = {"order": order, "betas": [0.8, 1.6]} if sampler == "tempering" else {"order": order, "beta": 1.6}
    known, means, errors = order in ("sequential", "coloured"), [], []
    for seed in range(24 if known else 1):
        run = calm(bm.sample, GLASS, sampler, thin="log", n_chains=256, n_sweeps=2, seed=seed, threads=1, **options)
        with contextlib.nullcontext() if known else pytest.warns(bm.ConvergenceWarning, match="the scatter between"):
            found = run.relaxation()
        means.append((found.energy[0], found.correlation[1]))
        errors.append((found.energy_error[0], found.correlation_error[1]))
    assert np.isfinite(means).all() and np.isfinite(errors).all() == known
    assert ("the scatter between runs" in run.summary().get("errors", "")) != known
    if known:
        ratio = np.std(means, axis=0, ddof=1) / np.mean(errors, axis=0)
        assert (ratio > 0.5).all() and (ratio < 2.0).all()


def test_a_glass_remembers_longer_the_older_it_is() -> None:
    """Of 128 chains, the difference is some ten standard errors."""
    model = bm.models.edwards_anderson((6, 6, 6), seed=1)
    young, old = (
        bm.sample(model, beta=1.6, thin="log", burn_in=age - 1, n_chains=128, n_sweeps=102, seed=4).relaxation()
        for age in (1, 300)
    )
    late = int(np.flatnonzero(young.time == 100)[0])
    error = np.hypot(young.correlation_error[late], old.correlation_error[late])
    assert old.correlation[late] - young.correlation[late] > 5.0 * error


def test_what_needs_an_even_series_is_withheld(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = bm.sample(GLASS, out=tmp_path / "run.h5", n_chains=8, n_sweeps=400, seed=1, **WORKLOADS["logarithmic"][1])
    assert run.converged is None and run.verdicts == {} and np.isnan(run.r_hat).all() and run.evidence == ""
    assert run.verdict == "cannot tell whether it converged: " + (
        "samples at logarithmic times are a relaxation, no even series"
    )
    summary = run.summary()
    assert summary["samples"] == "24 of 8 chains, at logarithmic times up to 398 sweeps"
    assert not {"r_hat", "ess", "tau_int"} & set(summary)
    assert "at time 1 to -" in summary["energy"] and summary["overlap"].endswith("at time 398")
    for call in (run.thermodynamics, run.overlap_distribution, run.correlation_length, lambda: run.reweight(1.0)):
        with pytest.raises(AttributeError, match=r"at logarithmic times .* relaxation\(\) has means over chains"):
            call()
    for verb in (["show"], ["watch", "--once"], ["plot"], ["report"]):
        with pytest.raises(SystemExit) as left:
            cli.main([verb[0], str(tmp_path / "run.h5"), *verb[1:]])
        printed = capsys.readouterr().out
        assert not left.value.code and "r_hat" not in printed and " ess" not in printed
    tree = run.to_xarray()
    np.testing.assert_array_equal(tree["samples"]["sweep"], run.sweep)
    assert tree["samples"]["sweep"].dims == ("draw",)
    with pytest.raises(ValueError, match=r"relaxation needs beta, one of 0.2, 0.4\."):
        calm(bm.sample, SK, thin="log", beta=[0.2, 0.4], n_chains=4, n_sweeps=9).relaxation()
    with pytest.raises(TypeError, match=r"beta must be a number; got \[0.2\]"):
        run.relaxation([0.2])
    with pytest.raises(ValueError, match=r"the nearest to 1 is 0.2\."):
        calm(bm.sample, SK, beta=0.2, n_chains=4, n_sweeps=9).relaxation(1.0)
    with pytest.raises(ValueError, match="2 clamped patterns"):
        bm.sample(SK, thin="log", clamp=([0], [[1], [-1]]), n_chains=4, n_sweeps=9).relaxation()
    with pytest.raises(AttributeError, match="stay at their temperatures"):
        bm.sample(GLASS, "annealing", n_chains=4, n_sweeps=9).relaxation()
