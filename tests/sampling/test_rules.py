"""Samples are drawn from the Boltzmann distribution, at the sweeps that were asked for, by every rule and order."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import fastbm as bm
from fastbm.sampling.chains import why_periodic
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import SURE, UNITS, enumerate_machine, flat, g_test, machine

RULES = ("gibbs", "metropolis")
ORDERS = ("sequential", "permuted", "random")
MANY = {"n_chains": 1600, "n_sweeps": 64 * 8, "thin": 8, "burn_in": 40}  # 102400 samples, 8 sweeps apart
WEAK = {"spin": 0.25, "binary": 0.8}  # couplings so weak that such samples are independent


def distribution(model: bm.BoltzmannMachine, beta: float = 1.0) -> np.ndarray:
    return enumerate_machine(model, beta).probabilities


# Distributions: p-values above 1e-6, so a right sampler fails one of these 60 tests once in 16000 changes of its stream


@pairwise(kind=["visible", "restricted", "layers"], rule=RULES, order=ORDERS, units=UNITS)
def test_samples_have_the_boltzmann_distribution(kind: str, rule: str, order: str, units: str) -> None:
    model = machine(kind, units, seed=1, scale=WEAK[units])
    run = bm.sample(model, sampler=rule, order=order, beta=0.8, seed=3, **MANY)
    assert run.states.shape == (64, 1600, model.n_units)
    assert g_test(run.states, distribution(model, 0.8)) > SURE


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("rule", RULES)
def test_ten_units(rule: str, units: str) -> None:
    model = bm.models.random_machine(10, scale=0.5, bias_scale=0.3, units=units, seed=2)
    _, log_p = machines.log_joint(*machines.parameters(model), units, 1.0)
    assert g_test(bm.sample(model, sampler=rule, seed=5, **MANY).states, np.exp(log_p)) > SURE


@pairwise(n=[1, 2, 3, 7, 10], rule=RULES, units=UNITS)
def test_default_order_is_safe_on_a_flat_machine(n: int, rule: str, units: str) -> None:
    run = bm.sample(flat(n, units), sampler=rule, seed=n, **MANY)
    assert g_test(run.states, np.full(2**n, 0.5**n)) > SURE


@pytest.mark.parametrize("rule", RULES)
def test_default_order_is_safe_on_a_flat_layered_machine(rule: str) -> None:
    model = bm.BoltzmannMachine([np.zeros((3, 2)), np.zeros((2, 2))], units="binary")
    assert g_test(bm.sample(model, sampler=rule, **MANY).states, np.full(128, 1 / 128)) > SURE


@pytest.mark.parametrize("rule", RULES)
def test_every_temperature_of_a_list_has_its_own_distribution(rule: str) -> None:
    model, betas = machine("general", seed=4, scale=0.25), [0.0, 0.4, 1.3]
    run = bm.sample(model, sampler=rule, beta=betas, **(MANY | {"n_chains": 4800, "seed": 1}))
    assert np.array_equal(run.beta, np.repeat(betas, 1600))
    for beta in betas:
        assert g_test(run.states[:, run.beta == beta], distribution(model, beta)) > SURE


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [1, 4, 8])
def test_chains_that_start_alike_part(n: int, rule: str) -> None:
    """Chains share the order of their updates; where nothing is ever rejected, that must not make them one chain."""
    run = bm.sample(flat(n), sampler=rule, initial="up", n_chains=4096, n_sweeps=1, burn_in=50)
    assert g_test(run.states, np.full(2**n, 0.5**n)) > SURE


@pytest.mark.parametrize("rule", RULES)
def test_beta_zero_is_a_fair_coin_whatever_the_couplings(rule: str) -> None:
    model = bm.models.random_machine(6, scale=1e6, units="binary", seed=1)
    assert g_test(bm.sample(model, sampler=rule, beta=0.0, **MANY).states, np.full(64, 1 / 64)) > SURE


@pytest.mark.parametrize("size", [1000.0, 1e-3])
@pytest.mark.parametrize("kind", ["visible", "restricted"])
def test_couplings_of_any_size(kind: str, size: float) -> None:
    base = machine(kind, "spin", seed=6, scale=WEAK["spin"])
    blocks = [size * np.asarray(b) for b in base.couplings.arrays]
    model = bm.BoltzmannMachine(blocks if base.is_layered else blocks[0], size * base.flat_bias)
    run = bm.sample(model, beta=1 / size, **MANY)
    assert g_test(run.states, distribution(base)) > SURE
    np.testing.assert_allclose(run.energy, model.energy(run.states), rtol=1e-12, atol=1e-9 * size)


# Metropolis dynamics that is periodic


@pytest.mark.parametrize("order", ["sequential", "permuted"])
@pytest.mark.parametrize("model", [flat(8), bm.BoltzmannMachine([np.zeros((4, 4))])], ids=["dense", "layered"])
def test_periodic_dynamics_is_warned_of(model: bm.BoltzmannMachine, order: str) -> None:
    with pytest.warns(UserWarning, match='periodic.*order="random"'):
        run = bm.sample(model, sampler="metropolis", order=order, n_chains=4, n_sweeps=4, burn_in=0)
    assert np.array_equal(run.states[2:], run.states[:-2])
    assert np.array_equal(run.states[1:], -run.states[:-1])


def test_one_hot_chain_is_enough_for_the_warning() -> None:
    with pytest.warns(UserWarning, match="periodic"):
        bm.sample(machine("visible"), sampler="metropolis", order="sequential", beta=[1.0, 0.0], n_chains=2, n_sweeps=1)


def test_sequential_metropolis_on_a_ring_never_leaves_its_class_and_warns() -> None:
    """Flips that cost nothing move domain walls along with the sweep: at n = 3 to 6 the chain is reducible."""
    ring = bm.models.ising((6,))
    with pytest.warns(UserWarning, match="never reach some states"), pytest.warns(bm.ConvergenceWarning):
        run = bm.sample(ring, sampler="metropolis", order="sequential", beta=0.5, n_chains=32, n_sweeps=500)
    assert not run.converged
    assert bm.sample(ring, sampler="metropolis", beta=0.5, n_chains=32, n_sweeps=500).converged


@pytest.mark.parametrize("kernel", ["lookup", "sparse"])
def test_ladders_on_a_ring_are_warned_of_and_are_not_said_to_have_converged(kernel: str) -> None:
    ring, options = (
        bm.models.ising((6,)),
        {"rule": "metropolis", "beta": 0.66, "n_chains": 64, "betas": [0.12, 0.3, 0.66]},
    )
    with pytest.warns(UserWarning, match="never reach some states") as told:
        run = bm.sample(ring, "tempering", order="coloured", kernel=kernel, **options)
    assert len(told) == 1
    assert run.converged is None
    assert "coloured order" in run.doubt
    assert bm.sample(ring, "tempering", kernel=kernel, **options).converged


def test_an_estimate_by_chains_that_may_be_periodic_has_not_converged() -> None:
    with pytest.warns(UserWarning, match="never reach some states"):
        found = bm.infer(bm.models.ising((4, 4)), "metropolis", order="coloured", beta=0.2, seed=1)
    assert found.converged is None
    assert "coloured order" in found.detail["doubt"]


def test_magnitudes_of_all_couplings_are_looked_at() -> None:
    signs = np.sign(np.random.default_rng(1).normal(size=(80, 80)))
    weights = np.triu(signs, 1) + np.triu(signs, 1).T
    rule: dict[str, Any] = {"rule": "metropolis", "beta": 1.0}
    assert "many flips cost nothing" in why_periodic(bm.BoltzmannMachine(weights), order="sequential", **rule)
    assert not why_periodic(bm.BoltzmannMachine(weights), order="permuted", **rule)
    weights[70:, 70:] *= 1.0 + np.add.outer(np.arange(10), np.arange(10)) / 7
    assert not why_periodic(bm.BoltzmannMachine(weights), order="sequential", **rule)


def test_no_warning_where_nothing_is_periodic() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bm.sample(flat(4), sampler="metropolis", n_sweeps=1)
        bm.sample(flat(4), sampler="gibbs", order="sequential", n_sweeps=1)
        bm.sample(machine("visible"), sampler="metropolis", order="sequential", n_sweeps=1)


# Sweeps, samples, energies


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 30), st.integers(0, 9), st.integers(1, 7), st.sampled_from(RULES), st.sampled_from((None, *ORDERS))
)
def test_sample_t_is_taken_after_burn_in_plus_t_plus_one_times_thin_sweeps(
    n_sweeps: int, burn_in: int, thin: int, rule: str, order: str | None
) -> None:
    assume(thin <= n_sweeps or not n_sweeps)
    model = machine("visible", "binary", scale=2.0)
    common = {"sampler": rule, "order": order, "n_chains": 3, "seed": 7}
    every = bm.sample(model, n_sweeps=burn_in + n_sweeps, burn_in=0, **common)
    run = bm.sample(model, n_sweeps=n_sweeps, burn_in=burn_in, thin=thin, **common)
    assert len(run.states) == len(run.energy) == len(run.sweep) == n_sweeps // thin
    assert run.sweep.tolist() == [burn_in + (t + 1) * thin for t in range(n_sweeps // thin)]
    assert np.array_equal(run.states, every.states[run.sweep - 1])
    assert np.array_equal(run.energy, every.energy[run.sweep - 1])


@pairwise(units=UNITS, kind=machines.KINDS, n_chains=[1, 63, 64, 65, 130])
def test_recorded_energies_are_those_of_the_recorded_states(kind: str, units: str, n_chains: int) -> None:
    model = machine(kind, units, scale=3.0, offset=-17.25)
    run = bm.sample(model, n_chains=n_chains, n_sweeps=5)
    assert run.states.shape == (5, n_chains, model.n_units)
    assert set(np.unique(run.states)) <= {(-1 if units == "spin" else 0), 1}
    np.testing.assert_allclose(run.energy, model.energy(run.states), rtol=0, atol=1e-12 * 100)
    np.testing.assert_allclose(run.magnetisation, np.asarray(run.states).mean(axis=-1), rtol=0, atol=1e-15)


def test_burn_in_is_a_tenth_unless_given() -> None:
    assert bm.sample(flat(3), n_sweeps=57, n_chains=1).sweep[0] == 6
    assert bm.sample(flat(3), n_sweeps=57, n_chains=1, burn_in=0).sweep[0] == 1


def test_two_calls_alike_are_the_same_run_and_the_seed_drawn_is_told() -> None:
    model = machine("general")
    once, again = (bm.sample(model, n_sweeps=9) for _ in range(2))
    assert np.array_equal(once.states, again.states)
    assert once.config["sample"]["seed"] == 0
    drawn = bm.sample(model, n_sweeps=9, seed=None)
    told = bm.sample(model, n_sweeps=9, seed=drawn.config["sample"]["seed"])
    assert np.array_equal(drawn.states, told.states)
    assert not np.array_equal(drawn.states, bm.sample(model, n_sweeps=9, seed=None).states)


# Starts


def test_chains_start_where_they_are_told() -> None:
    frozen = {"sampler": "metropolis", "order": "random", "burn_in": 0, "n_sweeps": 1, "n_chains": 3}
    stiff = bm.models.ising((4,), coupling=1000.0)
    assert np.all(bm.sample(stiff, initial="up", **frozen).states == 1)
    one, each = np.array([1, 1, 1, 1]), np.array([[1] * 4, [-1] * 4, [1] * 4])
    assert np.array_equal(bm.sample(stiff, initial=one, **frozen).states[0], np.tile(one, (3, 1)))
    first = bm.sample(stiff, initial=each, **frozen)
    assert np.array_equal(first.states[0], each)
    assert np.array_equal(bm.sample(stiff, initial=first, **frozen).states[0], each)


@pytest.mark.parametrize("name", ["random", "up"])
def test_named_starts(name: str) -> None:
    """Two spins tied together fall into one of their two ground states and stay there."""
    pair = bm.BoltzmannMachine(np.array([[0, 1e6], [1e6, 0]]))
    run = bm.sample(pair, sampler="metropolis", initial=name, n_chains=4096, n_sweeps=1, burn_in=20)
    up = (run.states[-1] == 1).all(axis=1).mean()
    assert up == 1 if name == "up" else abs(up - 0.5) < 6 * 0.5 / np.sqrt(4096)  # six sigma


# Refusals


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (
            ValueError,
            r"sampler must be one of 'gibbs', 'metropolis', 'tempering', .*; got 'gibs'\. Did you mean 'gibbs'",
            {"sampler": "gibs"},
        ),
        (ValueError, r"order must be one of .*got 'sequentail'\. Did you mean 'sequential'", {"order": "sequentail"}),
        (ValueError, "n_sweeps must be at least 0; got -1", {"n_sweeps": -1}),
        (TypeError, "n_sweeps must be a whole number; got 1.5", {"n_sweeps": 1.5}),
        (TypeError, "n_sweeps must be a whole number; got True", {"n_sweeps": True}),
        (ValueError, "burn_in must be at least 0; got -2", {"burn_in": -2}),
        (ValueError, "thin must be at least 1; got 0", {"thin": 0}),
        (ValueError, "n_chains must be at least 1; got 0", {"n_chains": 0}),
        (ValueError, r"beta must be .*divides n_chains \(64\); got shape \(3,\)", {"beta": [1.0, 2.0, 3.0]}),
        (ValueError, r"beta must be .*got shape \(0,\)", {"beta": []}),
        (ValueError, "beta must be at least 0; got -1", {"beta": -1.0}),
        (ValueError, "beta must be at least 0; got -0.5", {"beta": [0.5, -0.5]}),
        (ValueError, "beta must be finite", {"beta": np.nan}),
        (TypeError, "beta must be an array of real numbers", {"beta": "hot"}),
        (ValueError, r'initial must be .*"random", "up"|initial must be one of', {"initial": "down"}),
        (ValueError, r"initial must have shape \(64, 5\) or \(5,\); got \(4,\)", {"initial": [1, 1, 1, 1]}),
        (ValueError, "initial must be -1 or 1 .*got 0 at", {"initial": [1, 1, 0, 1, 1]}),
        (ValueError, "seed must be at least 0; got -1", {"seed": -1}),
        (ValueError, "first_chain must be at least 0", {"first_chain": -1}),
        (ValueError, "threads must be at least 1; got 0", {"threads": 0}),
        (TypeError, "sample has no argument 'n_chain'. Did you mean 'n_chains'", {"n_chain": 3}),
        (TypeError, "max_seconds must be a number", {"max_seconds": "soon"}),
        (ValueError, "max_seconds must be at least 0", {"max_seconds": -1.0}),
        (ValueError, "initial must be an array", {"initial": [[1], [1, 1]]}),
    ],
)
def test_bad_arguments_are_named(error: type[Exception], text: str, arguments: dict[str, object]) -> None:
    with pytest.raises(error, match=text):
        bm.sample(machine("visible"), **{"n_sweeps": 2, **arguments})


def test_only_machines_are_sampled() -> None:
    with pytest.raises(TypeError, match="model must be a BoltzmannMachine; got ndarray"):
        bm.sample(np.zeros((3, 3)))


def test_a_run_without_samples_cannot_be_a_start() -> None:
    model = machine("visible")
    with pytest.raises(ValueError, match="initial"):
        bm.sample(model, n_sweeps=1, initial=bm.sample(model, n_sweeps=0))
