"""Searches and hot ends take their temperatures from the machine: W and c W find the same states, whatever c is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.sampling.clamped import Conditioned
from fastbm.sampling.own_temperatures import FREE, FROZEN, LOOSE, MOVING, STILL, TIED, hot_beta, own_betas
from tests.support import machines
from tests.support.combinations import each
from tests.support.machines import calm
from tests.support.samples import FERRO, GLASS, SK, small

GAUSS = bm.models.edwards_anderson((5, 5), distribution="gaussian", seed=3)
LAYERED = machines.machine("restricted", "binary")
MODELS = {"dense": SK, "sparse": GAUSS, "layered": LAYERED, "fields": small("binary")}


def scaled(model: bm.BoltzmannMachine, factor: float) -> bm.BoltzmannMachine:
    kind, bias = model.couplings.scaled(factor), model.flat_bias * factor
    return bm.BoltzmannMachine.trusted(kind, bias, model.convention, model.n_hidden, model.offset * factor)


def best(model: bm.BoltzmannMachine, sampler: str, **options: Any) -> bm.Run:
    n_sweeps = 5 if sampler == "population-annealing" else 40
    return calm(bm.sample, model, **{
        "sampler": sampler, "keep": "best", "k": 5, "n_chains": 8, "n_sweeps": n_sweeps, **options
    })  # fmt: skip


@each(sampler=["annealing", "tempering", "gibbs", "population-annealing"], name=MODELS)
def test_any_scale_of_the_couplings_finds_the_same_states(name: str, sampler: str) -> None:
    model = MODELS[name]
    run = best(model, sampler)
    other = best(scaled(model, 2.0**-900), sampler)
    assert np.array_equal(other.best_states, run.best_states)
    assert other.config["sample"]["beta"] == [run.config["sample"]["beta"][0] * 2.0**900]
    for factor in (1e-3, 1e5):
        other = best(scaled(model, factor), sampler)
        assert abs(other.best_energies[0] / factor - run.best_energies[0]) < 1e-9 * abs(run.best_energies[0])


def test_the_lowest_energy_is_found_where_a_temperature_of_one_is_too_hot_or_too_cold() -> None:
    """A maximum cut of 120 vertices and degree 24, weights in thousands and in thousandths."""
    chance = np.random.default_rng(5)
    signs = np.triu(chance.choice([-0.5, 0.5], (120, 120)) * (chance.random((120, 120)) < 0.2), 1)
    cut = bm.BoltzmannMachine(signs + signs.T)
    target = best(cut, "annealing", n_chains=64, n_sweeps=2000, beta=5.0).best_energies[0]
    for factor in (1e-3, 1.0, 1e3):
        for sampler in ("annealing", "gibbs"):
            run = best(scaled(cut, factor), sampler, n_chains=64, n_sweeps=400)
            assert run.best_energies[0] / factor < 0.99 * target
            assert abs(run.best_energies[0] / factor - target) < 1e-6
        hopeless = best(scaled(cut, factor), "gibbs", n_chains=64, n_sweeps=400, beta=1e-3 / factor)
        assert hopeless.best_energies[0] / factor > 0.9 * target


@pytest.mark.parametrize("name", MODELS)
def test_the_hot_end_is_hot_in_every_state(name: str) -> None:
    """At the hot end the largest pull in any state, by enumeration or by its bound, makes log-odds of `FREE`."""
    model = MODELS[name]
    matrix, span = model.couplings.matrix(), model.convention.span
    strongest = span * (np.abs(matrix).sum(axis=1) + np.abs(model.flat_bias)).max()
    assert abs(hot_beta(Conditioned(model, None, 1)) * strongest / FREE - 1) < 2.0**-10


def test_the_cold_end_goes_by_the_fields_of_low_states() -> None:
    """Collective pulls count whole, an outlier and units without any pull not at all."""
    found = own_betas(Conditioned(bm.models.curie_weiss(200), None, 1), 1)
    pull = 2 * 199 / 200
    assert abs(found.cold * pull / FROZEN - 1) < 2.0**-10
    assert abs(found.moving * pull / MOVING - 1) < 2.0**-10
    assert abs(found.first * pull / LOOSE - 1) < 2.0**-10
    assert abs(found.last * pull / STILL - 1) < 2.0**-10
    matrix, bias = np.zeros((60, 60)), np.zeros(60)
    matrix[:25, :25], bias[25] = SK.weights[:25, :25], 1e6
    plain = own_betas(Conditioned(bm.BoltzmannMachine(matrix[:25, :25]), None, 1), 1)
    padded = own_betas(Conditioned(bm.BoltzmannMachine(matrix, bias), None, 1), 2)
    assert 0.7 < padded.cold / plain.cold < 1.4
    assert padded.hot < 1e-6
    assert 0.7 < padded.first / plain.first < 1.4, "nothing ties units to one another through a bias"
    tie = np.zeros((60, 60))
    tie[40, 41] = tie[41, 40] = 1e3
    assert abs(own_betas(Conditioned(bm.BoltzmannMachine(matrix + tie), None, 1), 1).first * 2e3 / TIED - 1) < 2.0**-10


def test_machines_without_pulls_are_searched_at_one() -> None:
    for model in (bm.BoltzmannMachine(np.zeros((3, 3))), bm.BoltzmannMachine(np.zeros((3, 3)), units="binary")):
        for sampler in ("gibbs", "annealing", "tempering"):
            assert best(model, sampler).config["sample"]["beta"] == [1.0]


def test_the_temperature_of_a_search_depends_on_the_machine_alone() -> None:
    betas = {
        tuple(best(SK, "annealing", n_chains=n, seed=seed, threads=threads).config["sample"]["betas"])
        for n, seed, threads in ((16, 0, 1), (8, 1, 2))
    }
    assert len(betas) == 1
    assert best(SK, "annealing").summary()["beta"] == "{:g} to {:g}".format(*next(iter(betas)))
    clamp = ([0, 1], [[1, 1], [1, -1]])
    assert best(SK, "annealing", clamp=clamp).config["sample"]["beta"] != [next(iter(betas))[-1]]


def test_what_is_given_and_one_where_a_distribution_is_sampled_mean_what_they_say() -> None:
    for sampler in ("annealing", "tempering", "gibbs"):
        assert best(SK, sampler, beta=0.7).config["sample"]["beta"] == [0.7]
    for sampler in ("gibbs", "tempering", "population-annealing"):
        assert best(SK, sampler, keep="all", k=None).config["sample"]["beta"] == [1.0]
    assert best(SK, "annealing", betas=[0.1, 0.4]).config["sample"]["beta"] == [0.4]
    hot = best(SK, "tempering", beta=1e-3).config["sample"]["lowest_beta"]
    assert hot == pytest.approx(1e-4, rel=1e-12), "never above a tenth of the target"
    strong = best(scaled(GLASS, 1e5), "tempering", beta=1.0, keep="all", k=None).config["sample"]
    assert strong["lowest_beta"] == strong["betas"][0] == hot_beta(Conditioned(scaled(GLASS, 1e5), None, 1))


def test_a_hot_end_beyond_the_machines_own_cold_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lowest_beta must be below beta.*which the machine's fields suggest"):
        bm.sample(FERRO, sampler="annealing", lowest_beta=1e4)
