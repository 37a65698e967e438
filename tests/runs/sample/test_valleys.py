"""Chains in valleys of equal energy: what they say of themselves, held against what is known of the machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.diagnostics.bits import bit_r_hat, r_hat_limit
from fastbm.diagnostics.drift import drifts
from fastbm.kernels.digits import MOST_CHAINS, MOST_SAMPLES
from fastbm.runs.sample import valleys as of_runs
from fastbm.runs.sample.convergence import groups, judge
from fastbm.runs.sample.units import FEWEST, spaced
from fastbm.sampling import valleys
from tests.support import machines
from tests.support.machines import calm

FERRO = bm.BoltzmannMachine(0.8 * (np.ones((8, 8)) - np.eye(8)))
STORED = np.where(np.random.default_rng(0).random((2, 30)) < 0.5, -1, 1)
HOPFIELD = bm.models.hopfield(STORED)
FIELD = bm.BoltzmannMachine(FERRO.weights, np.full(8, 1e-4))  # two valleys of nearly equal energy, and not even
SEEDS = range(6)


@pytest.mark.parametrize("n_chains", [1, 4, 16])
@pytest.mark.parametrize("model", [HOPFIELD, FIELD, FIELD.to_units("binary")], ids=["hopfield", "spin", "binary"])
def test_chains_in_several_valleys_have_not_converged(model: bm.BoltzmannMachine, n_chains: int) -> None:
    for seed in SEEDS:
        run = calm(bm.sample, model, beta=3.0, n_chains=n_chains, n_sweeps=300, seed=seed)
        assert run.converged is not True
        assert run.doubt
        assert (run.converged is False) == (False in run.verdicts.values())


@pytest.mark.parametrize("sampler", ["gibbs", "tempering", "population-annealing"])
@pytest.mark.parametrize(("pull", "told"), [(-210.0, "is a bound that holds for certain"), (-222.3, "unit 0 up weigh")])
def test_what_all_chains_have_missed_is_told_by_bounds(sampler: str, pull: float, told: str) -> None:
    """Behind a unit that all chains leave down lie all but a part of e^-12 of Z, or half of it."""
    star = np.zeros((61, 61))
    star[0, 1:] = star[1:, 0] = 5.0
    model = bm.BoltzmannMachine(star, [pull, *[-1.0] * 60], units="binary")
    options: dict[str, Any] = {"n_chains": 32, "n_sweeps": 200, "burn_in": 20}
    options |= {"betas": [0.9, 1.0]} if sampler == "tempering" else {}
    options = {"n_chains": 512} if sampler == "population-annealing" else options
    run = calm(bm.sample, model, sampler, threads=1, **options)
    assert run.converged is False and told in run.doubt
    assert set(run.verdicts.values()) <= {None}  # chains agree in all of them


def test_a_phase_behind_a_transition_is_told_where_a_run_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    model, beta = machines.two_phases()
    monkeypatch.setattr(of_runs, "LONG_SECONDS", 0.0)
    run = calm(bm.sample, model, n_chains=64, n_sweeps=300, burn_in=100, beta=beta, threads=1)
    assert run.converged is False and "phase of other energies" in run.doubt


@pytest.mark.parametrize("units", machines.UNITS)
def test_an_even_machine_is_judged_by_what_is_even(units: str) -> None:
    """An ordered ferromagnet without biases is as good on either side; its means are 0 by symmetry."""
    model = FERRO.to_units(units)
    for n_chains in (4, 16):
        run = bm.sample(model, n_chains=n_chains, n_sweeps=400, observables=["magnetisation", "overlap"])
        assert run.converged, run.doubt
        summary = run.summary()
        assert summary["magnetisation"] == summary["overlap"] == (0.0, 0.0)
        assert summary["|magnetisation|"][0] == pytest.approx(np.abs(run.observables["magnetisation"]).mean())
        assert "by symmetry" in summary["means of units"]
        row = run.thermodynamics()[0]
        assert row.magnetisation == (0.0, 0.0)
        assert abs(row.susceptibility.value - 8 * _mean_square(FERRO)) < 4 * row.susceptibility.error


@pytest.mark.parametrize(("beta", "converged"), [(1.0, None), (0.01, True)])
def test_functions_on_one_side_of_an_even_machine_have_no_mean(beta: float, converged: bool | None) -> None:
    """Chains that began up, in two states, agree that a unit is up where they stay; its mean is 0."""
    up = np.tile(1 - 2 * np.eye(8, dtype=int)[:2], (4, 1))
    options: dict[str, Any] = {"beta": beta, "n_chains": 8, "n_sweeps": 64, "initial": up, "seed": 1}
    run = calm(bm.sample, FERRO, observables={"side": lambda s: s[:, 0]}, **options)
    assert (run.converged, "on one side" in run.doubt) == (converged, converged is None), run.doubt
    assert calm(bm.sample, FERRO, observables=["magnetisation"], **options).converged


def _mean_square(model: bm.BoltzmannMachine) -> float:
    states, log_p = machines.log_joint(*machines.parameters(model), "spin", 1.0)
    return float(np.exp(log_p) @ states.mean(axis=1) ** 2)


@pytest.mark.parametrize("n_chains", [4, 8])
@pytest.mark.parametrize("model", [FERRO, HOPFIELD, FIELD], ids=["ferromagnet", "hopfield", "field"])
def test_means_by_chains_that_are_wrong_are_not_believed(model: bm.BoltzmannMachine, n_chains: int) -> None:
    for seed in SEEDS:
        found = calm(bm.infer, model, "gibbs", beta=3.0, n_chains=n_chains, n_sweeps=200, seed=seed)
        assert found.converged is not True
        assert found.detail["doubt"]
    assert calm(bm.infer, model, "gibbs", beta=0.01, n_chains=n_chains, n_sweeps=200).converged


def test_one_chain_cannot_tell(tmp_path: Path) -> None:
    found = bm.infer(FIELD, "gibbs", beta=0.01, n_chains=1, out=tmp_path / "found.h5")
    assert found.converged is None
    assert "one chain cannot tell" in str(found)
    assert bm.open(tmp_path / "found.h5").converged is None
    patterns = ([0], [[1], [-1]])
    assert bm.infer(FIELD, "gibbs", beta=0.01, n_chains=1, clamp=patterns).converged is None
    table = bm.compare(FIELD, {"exact": {}, "gibbs": {"n_chains": 1}}, beta=0.01).table
    assert [row["converged"] for row in table] == [True, None]


def test_all_chains_from_one_state_may_hide_a_valley(tmp_path: Path) -> None:
    start: dict[str, Any] = {"n_chains": 16, "n_sweeps": 200, "beta": 3.0}
    for initial in ("up", np.ones(30), np.ones((16, 30))):
        run = calm(bm.sample, HOPFIELD, initial=initial, **start)
        assert run.converged is not True
        assert "may hide other valleys" in run.summary()["begun at"]
    ordered = bm.sample(bm.models.ising((5, 5)), initial="up", out=tmp_path / "run.h5", **start | {"beta": 0.7})
    assert ordered.converged  # up to the mirror there is one valley
    assert bm.open(tmp_path / "run.h5").converged
    assert "begun at" not in bm.sample(HOPFIELD, n_chains=16, n_sweeps=20, beta=0.01).summary()


def test_verdicts_are_those_of_the_whole_series_of_a_resumed_run(tmp_path: Path) -> None:
    options: dict[str, Any] = {"beta": 3.0, "n_chains": 8, "n_sweeps": 500, "seed": 3}
    plain = calm(bm.sample, FIELD, **options)
    stopped = calm(bm.sample, FIELD, out=tmp_path / "run.h5", max_seconds=0.0, **options)
    while not stopped.finished:
        stopped = calm(bm.resume, tmp_path / "run.h5")
    assert stopped.verdicts == plain.verdicts
    assert stopped.doubt == plain.doubt
    assert np.array_equal(stopped.states, plain.states)


def test_what_is_known_of_valleys() -> None:
    assert valleys.is_even(FERRO, 5.0) and valleys.is_even(FERRO.to_units("binary"), 5.0)
    assert not valleys.is_even(FIELD, 1.0) and not valleys.is_even(FIELD.to_units("binary"), 1.0)
    assert valleys.has_one_valley(FERRO, 0.17) and not valleys.has_one_valley(FERRO, 0.18)  # 7 couplings of 0.8
    binary = FIELD.to_units("binary")
    assert valleys.has_one_valley(binary, 0.17) and not valleys.has_one_valley(binary, 0.18)
    for coupling, field, one in ((0.19, 0.0, True), (0.21, 0.0, False), (0.21, 1.5, True), (5.0, 10.0, False)):
        ring = bm.BoltzmannMachine(coupling * (np.roll(np.eye(6), 1, 0) + np.roll(np.eye(6), -1, 0)), np.full(6, field))
        assert valleys.has_one_valley(ring, 2.5) is valleys.has_one_valley(ring.to_units("binary"), 2.5) is one
    assert valleys.has_mirrors_only(FERRO, 1.0) and not valleys.has_mirrors_only(FIELD, 1.0)
    assert not valleys.has_mirrors_only(HOPFIELD, 1.0)  # without frustration, but two parts that flip apart
    assert not valleys.has_mirrors_only(bm.models.sherrington_kirkpatrick(8, seed=1), 1.0)


def test_units_that_are_rarely_up_are_no_disagreement() -> None:
    """One unit up three times in a row in one chain of 64, of ten thousand units that are never up else."""
    counts = np.zeros((2, 64, 10_000), np.uint16)
    counts[0, 7, 5] = 3
    limit = r_hat_limit(16, 64, 10_000)
    assert bit_r_hat(counts, 16).max() < limit
    counts[:, 7, 5] = 16  # a chain that stays there
    assert bit_r_hat(counts, 16).max() > limit


def test_a_common_drift_is_seen_and_chance_is_none() -> None:
    chance = np.random.default_rng(0)
    for n_chains in (4, 16):
        noise = chance.normal(size=(500, n_chains))
        assert not drifts(noise)
        assert drifts(noise + np.linspace(0.0, 0.6, 500)[:, None])
        assert not drifts(np.full((500, n_chains), 0.1))
    late = np.exp(-np.arange(900) / 40.0)[:, None]  # a start that biases the mean by two of its errors
    n_late = sum(drifts(chance.normal(size=(900, 64)) + 0.18 * late) for _ in range(20))
    n_rare = sum(drifts(chance.random((900, 64)) < 1e-3) for _ in range(200))  # often none in the first part
    assert n_late >= 15 and n_rare <= 1


def test_no_error_bar_is_0() -> None:
    """A unit that is up once in 3000 samples, and never was: 1.96 errors hold the energy that this costs."""
    rare = bm.BoltzmannMachine(np.zeros((2, 2)), [4.0, 4.0])
    run = next(r for s in range(20) if np.ptp((r := bm.sample(rare, n_chains=8, n_sweeps=100, seed=s)).energy) == 0.0)
    value, error = run.summary()["energy"]
    exact = float(bm.infer(rare, "exact").energy)
    assert abs(value - exact) < 1.96 * error < 0.1
    row = run.thermodynamics()[0]
    for estimate in (row.energy, row.specific_heat, row.abs_magnetisation, row.susceptibility, row.binder_cumulant):
        assert 0.0 < estimate.error < 0.1
    assert (run.overlap_distribution().error > 0.0).all()
    found = bm.infer(rare, "gibbs", n_chains=8, n_sweeps=20, seed=1)
    assert found.energy_error > 0.0


def test_what_varies_a_little_hides_no_unseen_flip() -> None:
    """A unit that no sample saw flip, beside one whose flips hardly cost energy; and flips that one in 400 pays."""
    free = bm.BoltzmannMachine(np.zeros((2, 2)), [6.0, 1e-4])
    exact = bm.infer(free, "exact")
    for rule in ("gibbs", "metropolis"):
        found = bm.infer(free, rule, seed=1)
        assert found.converged and 1e-6 < abs(found.energy - exact.energy) < 2.0 * found.energy_error < 1e-3
        assert found.mean_error[0] < 1e-4  # of a unit whose own bias holds it, sweeps are independent samples
    pair = bm.BoltzmannMachine([[0.0, 3.0], [3.0, 0.0]], [0.1, -0.2])
    for model, seed in ((free, 0), (pair, 6)):
        run, exact = bm.sample(model, "exact", n_chains=4, n_sweeps=100, seed=seed), bm.infer(model, "exact")
        row, beside = run.thermodynamics()[0], run.relaxation()
        assert 0.0 < np.ptp(run.energy) < 1.0
        assert abs(2.0 * row.energy.value - exact.energy) < 2.0 * 2.0 * row.energy.error < 0.1
        assert abs(2.0 * row.specific_heat.value - exact.energy_variance) < 2.0 * 2.0 * row.specific_heat.error < 1.0
        assert (beside.energy_error > 0.1).all()
    lattice = bm.sample(bm.models.ising((16, 16)), beta=0.3, n_chains=16, n_sweeps=200, seed=1)
    row, plain = lattice.thermodynamics()[0], bm.diagnostics.standard_error(lattice.energy / 256)
    assert row.energy.error == pytest.approx(plain, rel=1e-3)  # where much varies, little is added


def test_a_thin_that_leaves_no_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="thin must be at most n_sweeps, or no sample is ever taken; got thin=20 and"):
        bm.sample(FERRO, n_sweeps=10, thin=20)


def test_a_pair_that_was_not_computed_is_not_0(tmp_path: Path) -> None:
    ring = bm.models.ising((80,))
    found = bm.infer(ring, "exact", engine="elimination", out=tmp_path / "found.h5")
    for result in (found, bm.open(tmp_path / "found.h5").inference):
        assert result.second_moment[3, 4] == pytest.approx(np.tanh(1.0), abs=1e-3)
        assert result.second_moment[np.array([3, 79]), np.array([4, 0])].shape == (2,)
        for moments in (result.second_moment, result.covariance):
            with pytest.raises(LookupError, match=r"pair of units \(3, 9\) was not computed .* pairs=\[\(i, j\)"):
                moments[3, 9]
            with pytest.raises(LookupError):
                moments[[3, 3], [4, -1]]


def test_the_watch_looks_at_few_states_of_large_machines() -> None:
    """Of 10^4 units and 64 chains at 64 of 1000 samples at most: a look at a unit costs less than a third of an update,
    so that the watch stays below 2 % of the run. Of few chains at more, or chance would hide what it watches for.
    """
    run = bm.sample(bm.models.ising((100, 100)), beta=0.1, n_chains=64, n_sweeps=160, burn_in=0)
    assert FEWEST <= len(spaced(run)) < 2 * FEWEST
    for model, n_chains, fewest, most in (
        (FERRO, 64, 220, 280),
        (FERRO, 2, 450, MOST_SAMPLES),
        (bm.models.ising((30, 30)), 4, 220, 280),
    ):
        looked_at = spaced(bm.sample(model, beta=0.1, n_chains=n_chains, n_sweeps=2_000))
        assert len(looked_at) % 2 == 0 and fewest <= len(looked_at) <= most
    assert 2 * MOST_CHAINS * (MOST_SAMPLES // 2) ** 2 < 1 << 32, "the kernel's sums of squares"


def test_groups_of_chains_are_compared_alike_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.runs.sample.convergence.MANY_NUMBERS", 1)
    monkeypatch.setattr("fastbm.runs.sample.units.WORTH_THREADS", 1)
    for model in (FERRO, FIELD):
        run, found = calm(bm.sample, model, beta=[0.1, 0.3, 0.1], n_chains=24, n_sweeps=100, threads=2), []
        for run.n_threads in (1, 2, 3):
            run.found = {}
            found.append(judge(run).quantities)
        assert found[0] == found[1] == found[2]
    apart, up = groups(run), (spaced(run)[..., None] >> np.arange(8) & 1).reshape(100, 24, -1)[..., : FIELD.n_units]
    counts = np.stack([up[:50].sum(axis=0), up[50:].sum(axis=0)])
    ratios = [q.r_hat for q in found[0] if q.name.startswith("mean of unit")]
    assert ratios == [bit_r_hat(counts[:, chains], 50).max() for chains in apart]
    assert apart[0].tolist() == [*range(8), *range(16, 24)]


def test_what_never_changed_has_no_r_hat_and_no_effective_samples() -> None:
    model = bm.BoltzmannMachine(np.zeros((4, 4)), bias=np.full(4, 60.0))
    run = calm(bm.sample, model, n_chains=8, n_sweeps=200, initial="up")
    assert run.converged is None and "stand still" in run.doubt
    assert np.isnan(run.r_hat).all()
    assert run.verdicts["energy at beta = 1"] is None
    summary = run.summary()
    assert summary["never changed"] == "the energy at beta = 1: r_hat and ess are not known"
    assert not {"r_hat", "ess"} & set(summary)


def test_few_draws_that_are_independent_are_not_told_to_disagree() -> None:
    """R-hat of 20 draws is above 1.05 by chance in a third of runs."""
    model = bm.models.random_machine(8, seed=3)
    runs = [bm.sample(model, "exact", n_chains=1, n_sweeps=20, seed=seed, progress=False) for seed in range(20)]
    unsure = [run for run in runs if run.converged is None]
    assert all(run.converged is not False for run in runs) and 2 < len(unsure) < 15
    assert "which chance may bring to so few samples" in unsure[0].doubt
    assert None in unsure[0].verdicts.values() and False not in unsure[0].verdicts.values()


def test_no_clamped_units_are_none() -> None:
    model, options = bm.models.random_machine(6, seed=3), {"n_chains": 16, "n_sweeps": 200, "beta": 3.0}
    found = [bm.sample(model, clamp=([], []), seed=seed, progress=False, **options).converged for seed in range(5)]
    assert False not in found
