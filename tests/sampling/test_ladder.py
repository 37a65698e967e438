"""The pilot measures how far energies fluctuate, and ladders made from it have equal steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import fastbm as bm
from fastbm._base.halting import Halted
from fastbm.sampling.chains import make_chains
from fastbm.sampling.ladder import Profile, energy_profile, equal_steps
from tests.support import machines
from tests.support.machines import UNITS, enumerate_machine, machine

SK = bm.models.sherrington_kirkpatrick(32, seed=1)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
@pytest.mark.parametrize("in_words", [False, True])
def test_the_profile_is_that_of_the_exact_energies(in_words: bool, rule: str, units: str) -> None:
    """From 64 chains and 32 sweeps: within 0.15 of the standard deviation, ten times what 2048 samples would leave."""
    model = machine("general", units, seed=2, offset=3.0)
    profile = energy_profile(model, 0.2, 1.5, rule=rule, in_words=in_words, seed=1)
    assert len(profile.betas) == len(profile.mean) == len(profile.std) == 40
    assert (profile.betas[0], profile.betas[-1]) == (0.2, 1.5)
    for beta, mean, std in list(zip(*profile, strict=True))[::6]:
        exact = enumerate_machine(model, beta)
        sigma = math.sqrt(exact.energy_variance)
        assert abs(mean + model.offset - exact.energy) < 0.15 * sigma
        assert abs(std / sigma - 1) < 0.15


def test_the_grid_reaches_far_and_is_fine_where_the_energy_changes() -> None:
    betas = energy_profile(SK, 0.0, 50.0).betas
    assert np.all(np.diff(betas) > 0)
    assert (betas < 2).sum() > 10
    assert np.diff(betas)[-1] > 10 * np.diff(betas)[0]


def test_the_profile_does_not_depend_on_threads_and_shares_nothing_with_the_run() -> None:
    one, two, other = (energy_profile(SK, 0.0, 1.0, seed=seed, threads=t) for seed, t in ((3, 1), (3, 2), (4, 1)))
    for first, second in zip(one, two, strict=True):
        assert np.array_equal(first, second)
    assert not np.array_equal(one.mean, other.mean)
    run = make_chains(SK, 64, beta=0.0, seed=3)
    assert not np.isclose(run.energies().std(), one.std[0])


def test_a_machine_that_does_not_fluctuate() -> None:
    profile = energy_profile(machines.flat(5), 0.0, 2.0)
    assert not profile.std.any()
    assert equal_steps(profile).tolist() == [0.0, 2.0]
    np.testing.assert_allclose(equal_steps(profile, 5), [0.0, 0.5, 1.0, 1.5, 2.0])


def test_steps_have_equal_length() -> None:
    """sigma = 10 / beta: the ladder is geometric but for the even part, 0.1 % of its length."""
    betas = np.geomspace(0.1, 3.0, 200)
    profile = Profile(betas, -betas, 10.0 / betas)
    ladder = equal_steps(profile, 9)
    assert (ladder[0], ladder[-1]) == (0.1, 3.0)
    np.testing.assert_allclose(ladder, np.geomspace(0.1, 3.0, 9), rtol=5e-3)
    shares = 10 * np.diff(np.log(ladder))
    np.testing.assert_allclose(shares, np.mean(shares), rtol=0.02)


@pytest.mark.parametrize("n_betas", [2, 3, 64, 500])
def test_ladders_increase_strictly_and_end_as_asked(n_betas: int) -> None:
    std = np.where(np.linspace(0, 1, 40) < 0.5, 30.0, 0.0)
    ladder = equal_steps(Profile(np.linspace(0.3, 1.7, 40), np.zeros(40), std), n_betas)
    assert len(ladder) == n_betas
    assert np.all(np.diff(ladder) > 0)
    assert (ladder[0], ladder[-1]) == (0.3, 1.7)


def test_as_many_as_a_swap_rate_of_three_in_ten_takes() -> None:
    """Gaussian energies of standard deviation sigma swap with probability erfc(step sigma / 2)."""
    profile = Profile(np.linspace(0.0, 1.0, 40), np.zeros(40), np.full(40, 30.0))
    ladder = equal_steps(profile)
    step = np.diff(ladder).mean()
    assert special.erfc(step * 30 / 2) >= 0.3 > special.erfc(1.1 * step * 30 / 2)
    assert len(equal_steps(profile._replace(std=np.full(40, 1e6)))) == 64


@pytest.mark.parametrize("in_words", [False, True])
def test_a_stop_is_noticed(in_words: bool) -> None:
    asked: list[int] = []
    lattice = bm.models.edwards_anderson((30, 30), distribution="gaussian", seed=1)
    model = lattice if in_words else bm.models.sherrington_kirkpatrick(120, seed=1)
    with pytest.raises(Halted):
        energy_profile(model, 0.1, 1.0, in_words=in_words, halt=lambda: len(asked) > 2 or bool(asked.append(1)))
    assert len(asked) == 3
    with pytest.raises(Halted):
        energy_profile(bm.models.random_machine(10, seed=1), 0.1, 1.0, halt=lambda: True)  # which is soon over
