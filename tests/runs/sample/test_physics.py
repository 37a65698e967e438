"""What a run tells of physics and of its sampler, against enumeration and against its own rows."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import diagnostics
from tests.support import machines
from tests.support.machines import calm
from tests.support.samples import FERRO, GLASS, SK, small, work

RING = bm.models.ising((6,))
SIGMA = 5.0  # two-sided: a false alarm in 2e6 comparisons


def moments(model: bm.BoltzmannMachine, beta: float) -> dict[str, float]:
    """Exact averages per unit, of spins."""
    states, log_p = machines.log_joint(*machines.parameters(model), model.units, beta)
    p, n = np.exp(log_p), model.n_units
    energy = np.array([model.energy(state) for state in states])
    m = np.where(states == 1, 1, -1).mean(axis=1)
    mean = {k: float(p @ m**k) for k in (1, 2, 4)}
    return {
        "energy": float(p @ energy) / n,
        "specific_heat": beta**2 * float(p @ energy**2 - (p @ energy) ** 2) / n,
        "magnetisation": mean[1],
        "abs_magnetisation": float(p @ np.abs(m)),
        "susceptibility": beta * n * (mean[2] - mean[1] ** 2),
        "binder_cumulant": 1 - mean[4] / (3 * mean[2] ** 2),
    }


def links(model: bm.BoltzmannMachine, beta: float) -> float:
    """Exact mean overlap of the links of two independent replicas."""
    weights, bias = machines.parameters(model)
    states, log_p = machines.log_joint(weights, bias, "spin", beta)
    means = (states * np.exp(log_p)[:, None]).T @ states
    return float((means[np.triu(weights) != 0.0] ** 2).mean())


def assert_near(estimate: Any, truth: float) -> None:
    assert estimate.error > 0
    assert abs(estimate.value - truth) < SIGMA * estimate.error


@pytest.mark.parametrize("units", machines.UNITS)
def test_thermodynamics_at_every_temperature(units: str) -> None:
    model = RING.to_units(units)
    run = bm.sample(model, beta=[0.2, 0.6], n_chains=32, n_sweeps=4_000, seed=1)
    rows = run.thermodynamics()
    assert [row.beta for row in rows] == [0.2, 0.6]
    for row in rows:
        assert row.magnetisation == (0.0, 0.0)  # by symmetry, and no estimate
        for name, truth in moments(model, row.beta).items():
            if name != "magnetisation":
                assert_near(getattr(row, name), truth)


def test_thermodynamics_of_a_ladder() -> None:
    model = small()
    run = bm.sample(model, sampler="tempering", betas=[0.2, 0.5, 1.0], n_chains=16, n_sweeps=4_000, seed=2)
    rows = run.thermodynamics()
    assert [row.beta for row in rows] == [0.2, 0.5, 1.0]
    for row in rows:
        exact = moments(model, row.beta)
        for name in ("energy", "specific_heat"):
            assert_near(getattr(row, name), exact[name])
    assert rows[0].magnetisation is None
    assert_near(rows[-1].susceptibility, moments(model, 1.0)["susceptibility"])


SQUARE = bm.models.ising((3, 3))
FIELDS = bm.BoltzmannMachine(SQUARE.weights, np.linspace(0.1, 0.3, 9)).to_units("binary")
RARE: dict[str, tuple[bm.BoltzmannMachine, str, dict[str, Any]]] = {
    "mirrors in a field": (bm.models.ising((3, 3), field=0.2), "tempering", {"beta": 1.2, "n_chains": 2, "seed": 9}),
    "mirrors in fields": (FIELDS, "tempering", {"beta": 1.2, "n_chains": 2, "seed": 17}),
    "all links of a unit": (SQUARE, "swendsen-wang", {"beta": 1.2, "n_chains": 32, "n_sweeps": 100, "seed": 5}),
    "long visits": (bm.models.edwards_anderson((2, 4), seed=3), "gibbs", {"beta": 2.5, "n_chains": 64, "seed": 26}),
    "units that clusters seldom begin at": (
        bm.models.ising((3, 3), field=0.2), "wolff", {"beta": 1.2, "n_chains": 64, "n_sweeps": 1_000, "seed": 42},
    ),
    "a large m": (bm.models.ising((3,), coupling=-1.0), "exact", {"beta": 2.0, "n_chains": 32, "seed": 4}),
}  # fmt: skip


@pytest.mark.parametrize("case", RARE)
def test_errors_hold_what_few_or_no_samples_have_seen(case: str) -> None:
    """Runs that have converged, in which what is rare was seen less often than chance allows on average."""
    model, sampler, options = RARE[case]
    run = bm.sample(model, sampler, observables=["link_overlap"], **{"n_sweeps": 300} | options)
    row, beta = run.thermodynamics()[-1], options["beta"]
    assert run.converged
    for name, truth in (moments(model, beta) | {"link_overlap": links(model.to_units("spin"), beta)}).items():
        if getattr(row, name) != (0.0, 0.0):  # known by symmetry
            assert_near(getattr(row, name), truth)
    assert row.magnetisation.error < 0.1 and row.energy.error < 0.1


def test_reweighting_to_neighbouring_temperatures() -> None:
    run = bm.sample(RING, beta=0.4, n_chains=32, n_sweeps=4_000, seed=3, observables=["magnetisation"])
    betas = [0.35, 0.4, 0.45]
    found = run.reweight(betas)
    assert found.value.shape == found.error.shape == found.ess.shape == (3,)
    squares = run.reweight(betas, run.observables["magnetisation"] ** 2)
    for k, beta in enumerate(betas):
        exact = moments(RING, beta)
        assert abs(found.value[k] / 6 - exact["energy"]) < SIGMA * found.error[k] / 6
        m2 = exact["susceptibility"] / (6 * beta) + exact["magnetisation"] ** 2
        assert abs(squares.value[k] - m2) < SIGMA * squares.error[k]
    assert run.reweight(0.4, "magnetisation")[:2] == (0.0, 0.0)  # a ring without a field is even
    with pytest.raises(ValueError, match="observable must be one of 'energy', 'magnetisation'"):
        run.reweight(0.4, "mass")
    with pytest.raises(ValueError, match="one value for each sample and chain"):
        run.reweight(0.4, np.zeros(3))


def test_magnetisation_is_of_spins_whatever_the_units_and_whatever_was_recorded() -> None:
    weights = bm.models.sherrington_kirkpatrick(6, seed=1).weights
    model = bm.BoltzmannMachine(weights, np.linspace(-0.3, 0.6, 6)).to_units("binary")
    found = []
    for observables in ((), ("magnetisation",)):
        run = calm(bm.sample, model, beta=0.5, n_chains=8, n_sweeps=50, observables=observables)
        found.append(run.reweight(0.5, "magnetisation").value)
        assert run.thermodynamics()[0].magnetisation.value == pytest.approx(found[-1])
    assert found[0] == pytest.approx(found[1]) == pytest.approx(2.0 * run.magnetisation.mean() - 1.0)


def test_reweighting_takes_the_nearest_temperature() -> None:
    run = bm.sample(RING, beta=[0.2, 0.6], n_chains=8, n_sweeps=2_000, seed=3)
    direct = diagnostics.reweight(run.energy[:, 4:], run.energy[:, 4:], 0.6, 0.55)
    assert run.reweight(0.55).value == direct.value
    ladder = bm.sample(RING, sampler="tempering", betas=[0.2, 0.6], n_chains=8, n_sweeps=2_000, seed=3)
    hot = ladder.read("tempering/energy")[:, :, 0]
    assert ladder.reweight(0.25).value == diagnostics.reweight(hot, hot, 0.2, 0.25).value


def test_reweighting_covers_or_warns() -> None:
    """Of independent draws of machines that are summed, cold ones that have seen a few energies among them."""
    rng, z, n_warned = np.random.default_rng(0), [], 0
    named = [bm.models.ising(shape) for shape in ((2, 2, 2), (3, 3), (2, 6))]
    for model in (*named, *(bm.models.edwards_anderson((3, 4), seed=seed) for seed in range(3))):
        energies = model.energy(machines.log_joint(*machines.parameters(model), "spin", 1.0)[0])
        for _ in range(40):
            beta, n = rng.uniform(0.3, 1.4), int(rng.choice([200, 20_000]))
            new = beta * rng.uniform(0.1, 1.6)
            p, q = (np.exp(-b * (energies - energies.min())) for b in (beta, new))
            drawn = rng.choice(energies, size=(n // 8, 8), p=p / p.sum())
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = diagnostics.reweight(drawn, drawn, beta, new)
            n_warned += bool(caught)
            if not caught:
                z.append(abs(found.value - (q * energies).sum() / q.sum()) / found.error)
    assert n_warned < 80 and np.mean(np.array(z) < 2.0) > 0.9 and max(z) < 6.0


def test_reweighting_of_what_never_varied() -> None:
    """All samples are ground states: hotter temperatures are not known from them, and errors are not 0."""
    run = bm.sample(bm.models.ising((2, 2, 2)), beta=3.0, n_sweeps=200, initial="up")
    assert np.ptp(run.energy) == 0.0
    with pytest.warns(bm.ConvergenceWarning, match="from beta = 3 to 0.5 goes far from .* all of one energy"):
        run.reweight(0.5)
    assert run.reweight(3.2).error > 0.0
    found = run.reweight(3.2, np.abs(run.magnetisation))
    assert found.value == 1.0 and 1e-5 < found.error < 1e-3


@pytest.mark.parametrize("observables", [[], ["overlap"]], ids=["from-states", "recorded"])
def test_the_distribution_of_overlaps(observables: list[str]) -> None:
    run = bm.sample(RING, beta=0.5, n_chains=32, n_sweeps=3_000, seed=4, observables=observables)
    found = run.overlap_distribution()
    states, log_p = machines.log_joint(*machines.parameters(RING), "spin", 0.5)
    q, p = states @ states.T / 6, np.exp(log_p)
    exact = [float((p[:, None] * p[None, :])[np.isclose(q, centre)].sum()) for centre in found.overlap]
    assert (np.abs(found.value * found.width - exact) < SIGMA * found.error * found.width).all()
    assert (found.value * found.width).sum() == pytest.approx(1.0)


def test_an_even_machine_is_seen_from_both_sides() -> None:
    """Whichever of two valleys that mirror each other chains are in; all of these are in one."""
    up = np.tile(1 - 2 * np.eye(16, dtype=int)[:2], (4, 1))
    options: dict[str, Any] = {"n_chains": 8, "n_sweeps": 200, "initial": up, "observables": ["overlap"]}
    run = calm(bm.sample, bm.models.ising((4, 4)), beta=0.8, **options)
    assert (run.observables["overlap"] > 0).all()
    found = run.overlap_distribution()
    assert (2.0 * found.error >= np.abs(found.value - found.value[::-1])).all() and found.value[-1] > found.value[0]
    assert run.reweight([0.75, 0.8], "overlap").value.tolist() == [0.0, 0.0]


def test_overlaps_at_one_of_several_temperatures() -> None:
    run = bm.sample(RING, beta=[0.2, 0.6], n_chains=8, n_sweeps=500)
    cold = run.overlap_distribution(0.6)
    q = diagnostics.overlap_distribution(
        np.stack([(run.states[:, k] * run.states[:, k + 1]).mean(axis=1) for k in (4, 6)], axis=1), 6
    )
    assert np.array_equal(cold.value, q.value)
    with pytest.raises(ValueError, match=r"needs beta, one of 0\.2, 0\.6"):
        run.overlap_distribution()
    with pytest.raises(TypeError, match=r"beta must be a number; got \[0.6\]"):
        run.overlap_distribution([0.6])
    with pytest.raises(ValueError, match=r"the nearest to 0\.5 is 0\.6"):
        run.overlap_distribution(0.5)


@pytest.mark.parametrize("sampler", ["gibbs", "tempering"])
def test_overlaps_at_another_temperature(sampler: str) -> None:
    """Both replicas of a pair go there: the mean overlap of independent replicas is the mean of squared means."""
    model, beta, new = small(), 0.6, [0.5, 0.6, 0.75]
    where: dict[str, Any] = {"betas": [0.3, beta]} if sampler == "tempering" else {"beta": beta}
    run = bm.sample(model, sampler=sampler, n_chains=32, n_sweeps=4_000, seed=3, observables=["overlap"], **where)
    found = run.reweight(new, "overlap")
    assert found.value[1] == pytest.approx(run.observables["overlap"].mean())
    for value, error, b in zip(found.value, found.error, new, strict=True):
        states, log_p = machines.log_joint(*machines.parameters(model), model.units, b)
        assert_near(diagnostics.Estimate(value, error), float(((np.exp(log_p) @ states) ** 2).mean()))
    together = run.reweight(0.75, "overlap")
    assert (together.value, together.error) == (found.value[2], found.error[2])


@pytest.mark.parametrize("betas", [[[1.0]], [], np.ones((2, 2))])
def test_betas_of_reweighting_are_a_number_or_a_list(betas: Any) -> None:
    with pytest.raises(ValueError, match="betas must be a number or a list of numbers; got shape"):
        bm.sample(RING, n_chains=4, n_sweeps=20).reweight(betas)


def test_thermodynamics_at_the_coldest_of_temperatures() -> None:
    row = bm.sample(FERRO, beta=1e300, n_chains=8, n_sweeps=50, initial="up").thermodynamics()[0]
    assert row.energy.value == -2.0 and 0.0 < row.energy.error < 1e-290  # what was not seen is that near in energy
    assert row.specific_heat.value == 0.0 and 0.0 < row.specific_heat.error < 0.2
    faint = bm.BoltzmannMachine(np.ldexp(SK.weights, -998))
    options = {"n_chains": 8, "n_sweeps": 400}
    hot = calm(bm.sample, faint, beta=np.ldexp(0.3, 998), **options).thermodynamics()[0]
    same = calm(bm.sample, SK, beta=0.3, **options).thermodynamics()[0]
    assert hot.specific_heat == pytest.approx(same.specific_heat)


def test_chains_that_tell_nothing_have_not_converged() -> None:
    still = {"beta": 50.0, "initial": "up", "n_sweeps": 40}
    assert calm(bm.sample, GLASS, n_chains=1, beta=50.0, n_sweeps=400, seed=1).converged is None
    assert bm.sample(FERRO, n_chains=1, **still).converged is None
    assert bm.sample(FERRO, n_chains=8, **still).converged is None  # no unit ever flipped
    field = bm.BoltzmannMachine(np.zeros((4, 4)), np.full(4, 900.0))
    assert bm.sample(field, n_chains=8, n_sweeps=40).converged  # from random starts to where all agree
    assert bm.sample(field, n_chains=2, beta=[0.5, 1.0], n_sweeps=40).converged is None
    one = bm.sample(RING, n_chains=1, n_sweeps=4_000, beta=0.3)
    assert one.converged is None and "one chain cannot tell" in one.doubt
    ladder = bm.sample(small(), "tempering", n_chains=1, n_sweeps=1_000)
    assert ladder.round_trips[0] > 8 and ladder.converged is None and "one chain cannot tell" in ladder.doubt
    assert "one chain cannot tell" in str(one.summary())
    assert bm.sample(RING, n_chains=2, n_sweeps=4_000, beta=0.3).converged  # too hot for valleys


def test_clamped_patterns_have_rows_of_their_own() -> None:
    from fastbm.runs.sample.physics import by_temperature

    field = bm.BoltzmannMachine(FERRO.weights, np.full(25, 0.1))
    patterns = ([0, 7], [[1, 1], [-1, -1]])
    run = calm(bm.sample, field, beta=[0.2, 0.2, 0.5, 0.5], clamp=patterns, n_chains=8, n_sweeps=100)
    rows = by_temperature(run)
    assert [(row.beta, row.pattern) for row in rows] == [(0.2, 0), (0.5, 1)]
    assert rows[1].energy == pytest.approx(run.energy[:, 4:].mean() / 25)
    run = calm(bm.sample, field, beta=[0.2, 0.5], clamp=([0], [[1], [-1], [1], [-1]]), n_chains=16, n_sweeps=100)
    assert [(row.beta, row.pattern) for row in by_temperature(run)] == [(0.2, 0), (0.2, 1), (0.5, 2), (0.5, 3)]
    assert {row.pattern for row in by_temperature(bm.sample(field, beta=[0.2, 0.5], n_chains=4, n_sweeps=9))} == {None}


def test_swaps_and_round_trips_are_those_of_the_rows(tmp_path: Path) -> None:
    run = calm(bm.sample, GLASS, sampler="tempering", betas=[0.2, 0.5, 0.9, 1.4], n_chains=6, n_sweeps=300, burn_in=50)
    assert run.betas.tolist() == [0.2, 0.5, 0.9, 1.4]
    assert run.beta.tolist() == [1.4] * 6
    accepted, attempted = run.read("tempering/accepted"), run.read("tempering/attempted")
    assert (np.diff(attempted, axis=0) >= 0).all()
    expected = (accepted[-1] - accepted[0]) / (attempted[-1] - attempted[0])
    assert np.array_equal(run.swap_rates, expected)
    assert (run.swap_rates > 0).all() and (run.swap_rates < 1).all()
    assert np.array_equal(run.round_trips, run.read("tempering/round_trips")[-1])
    assert run.round_trips.sum() > 0
    for out in (None, tmp_path / "run.h5"):  # a file is not damaged because its sampler swaps nothing
        with pytest.raises(AttributeError, match="has no swaps"):
            _ = bm.sample(SK, n_sweeps=1, out=out).swap_rates


def test_acceptance_is_counted_flip_by_flip() -> None:
    """Independent units at beta = 0 flip with probability 1/2 at every Gibbs attempt."""
    run = bm.sample(machines.flat(10), n_chains=64, n_sweeps=1_000, beta=0.0)
    assert abs(run.acceptance - 0.5) < SIGMA * 0.5 / np.sqrt(10 * 64 * 1_100)
    still = bm.sample(RING, sampler="metropolis", beta=50.0, initial="up", n_sweeps=50, burn_in=0)
    assert still.acceptance == 0.0
    clamped = bm.sample(machines.flat(10), clamp=([1, 2], [1, 1]), n_chains=64, n_sweeps=1_000, beta=0.0)
    assert abs(clamped.acceptance - 0.5) < SIGMA * 0.5 / np.sqrt(8 * 64 * 1_100)
    assert bm.sample(FERRO, sampler="wolff", n_sweeps=5).acceptance is None
    assert calm(bm.sample, GLASS, sampler="tempering", n_sweeps=50).acceptance < 0.5


def test_a_population_tells_log_z() -> None:
    model = small()
    run = bm.sample(model, sampler="population-annealing", n_chains=20_000, seed=1)
    exact = machines.enumerate_machine(model)
    assert abs(run.read("population/log_z")[-1] - float(exact.log_z)) < 0.05  # one sigma is about 0.005
    assert run.betas[0] == 0.0 and run.betas[-1] == 1.0
    assert "log Z" in run.summary() and "families" in run.summary()
    assert machines.g_test(run.states[:, ::40], exact.probabilities) > machines.SURE


def test_schedules_have_no_series_in_time() -> None:
    run = work("annealing")
    assert run.states.shape == (1, 8, 20)
    assert run.sweep.tolist() == [240]
    assert run.converged is None
    for call in (run.thermodynamics, run.overlap_distribution, lambda: run.reweight(1.0)):
        with pytest.raises(AttributeError, match="chains that stay at their temperatures"):
            call()
    assert run.observables["overlap"].shape == (1, 4)


@pytest.mark.parametrize("name", ["gibbs", "tempering", "annealing-best", "population", "wolff", "until", "clamped"])
def test_summaries_fit_a_terminal_and_tell_the_kernel(name: str, tmp_path: Path) -> None:
    run = work(name, tmp_path / "run.h5")
    text = str(run.summary())
    assert max(map(len, text.splitlines())) <= 80 + len(str(tmp_path))
    assert run.summary()["kernel"].split()[0] in ("sparse", "dense", "wolff")
    if name == "tempering":
        assert "swap rates" in text and "round trips" in text


def test_without_samples_there_is_no_r_hat() -> None:
    assert np.isnan(bm.sample(SK, n_sweeps=0).r_hat).all()


def test_what_only_runs_of_sample_have() -> None:
    run = bm.fit(bm.data.bars_and_stripes(3), method="pcd", epochs=1, n_chains=4)
    for name in ("beta", "betas", "r_hat", "acceptance"):
        with pytest.raises(AttributeError):
            getattr(run, name)


def test_histograms_of_lattice_energies_have_as_many_levels_in_each_bin() -> None:
    pytest.importorskip("matplotlib")
    from fastbm.report.pictures.sample import BINS, _bins

    levels = -640.0 + 4.0 * np.arange(125)
    edges = _bins(levels[:, None])
    counts = np.histogram(levels, edges)[0]
    assert counts.sum() == 125 and set(counts[:-1]) == {3} and 0 < counts[-1] <= 3
    assert _bins(np.random.default_rng(0).normal(size=(50, 4))) == BINS == _bins(np.zeros((3, 2)))
