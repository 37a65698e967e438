"""dimod's own tests of samplers, and what its users expect beyond them."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import dimod
import dimod.testing
import numpy as np
import pytest

import fastbm as bm
from fastbm.dimod import AnnealingSampler, ExactSampler, TemperingSampler
from tests.support.machines import SURE
from tests.twins import reference

SAMPLERS = (AnnealingSampler, TemperingSampler, ExactSampler)


@dimod.testing.load_sampler_bqm_tests(AnnealingSampler)
@dimod.testing.load_sampler_bqm_tests(TemperingSampler)
@dimod.testing.load_sampler_bqm_tests(ExactSampler)
class TestSamplers(unittest.TestCase):
    """The tests that dimod has for every sampler."""


def problem(n: int, vartype: str = "SPIN", seed: int = 0) -> dimod.BinaryQuadraticModel:
    """A dense problem whose labels are words, numbers and pairs."""
    chance, labels = np.random.default_rng(seed), [("a", k) if k % 3 else (f"x{k}" if k % 2 else k) for k in range(n)]
    quadratic = {(labels[i], labels[j]): float(chance.normal()) for i in range(n) for j in range(i)}
    return dimod.BinaryQuadraticModel({name: float(chance.normal()) for name in labels}, quadratic, 1.5, vartype)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_interface_is_dimods(sampler: Callable[[], Any]) -> None:
    dimod.testing.assert_sampler_api(sampler())
    for vartype in ("SPIN", "BINARY"):
        bqm = problem(8, vartype)
        found = sampler().sample(bqm, seed=1)
        dimod.testing.assert_sampleset_energies(found, bqm)
        assert found.vartype is bqm.vartype and list(found.variables) == list(bqm.variables)
        assert np.array_equal(found.record.sample, sampler().sample(bqm, seed=1).record.sample)
        assert found.first.energy == pytest.approx(dimod.ExactSolver().sample(bqm).first.energy)
    with pytest.warns(dimod.exceptions.SamplerUnknownArgWarning):
        sampler().sample(bqm, no_such_argument=1)


@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
def test_models_there_and_back(vartype: str) -> None:
    bqm = problem(9, vartype)
    model = bm.models.from_bqm(bqm)
    assert (model.units, model.n_units) == ({"SPIN": "spin", "BINARY": "binary"}[vartype], 9)
    states = np.random.default_rng(1).integers(0, 2, (20, 9)) * (2 if vartype == "SPIN" else 1)
    states -= vartype == "SPIN"
    np.testing.assert_allclose(model.energy(states), bqm.energies((states, list(bqm.variables))), rtol=1e-13)
    back = bm.models.to_bqm(model, list(bqm.variables))
    assert list(back.variables) == list(bqm.variables)
    back.relabel_variables({name: name for name in back.variables})
    np.testing.assert_allclose(back.energies((states, list(bqm.variables))), model.energy(states), rtol=1e-13)
    deep = bm.models.to_bqm(bm.BoltzmannMachine([np.ones((3, 2))], offset=2.0))
    assert (deep.num_variables, deep.num_interactions, deep.offset) == (5, 6, 2.0)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_labels_may_look_alike(sampler: Callable[[], Any]) -> None:
    """Files keep names as texts; sample sets have labels of their own."""
    bqm = dimod.BinaryQuadraticModel({(1, 2): 1.0, "(1, 2)": -1.0, "a\0": 0.5}, {}, 0.0, "SPIN")
    found = sampler().sample(bqm, seed=1).first
    assert (found.sample, found.energy) == ({(1, 2): -1, "(1, 2)": 1, "a\0": -1}, -2.5)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match=r"bqm must be a dimod.BinaryQuadraticModel; got dict"):
        bm.models.from_bqm({("a", "b"): 1.0})
    with pytest.raises(ValueError, match="at least one variable"):
        bm.models.from_bqm(dimod.BinaryQuadraticModel("SPIN"))
    with pytest.raises(ValueError, match="quadratic biases of bqm"):
        bm.models.from_bqm(dimod.BinaryQuadraticModel({}, {("a", "b"): float("nan")}, "SPIN"))
    with pytest.raises(ValueError, match="labels must name each of the 3 units once; got 3, 2 of them different"):
        bm.models.to_bqm(bm.models.ising((3,)), ["a", "b", "a"])
    with pytest.raises(TypeError, match="labels must be hashable"):
        bm.models.to_bqm(bm.models.ising((2,)), [["a"], ["b"]])
    for sampler in SAMPLERS:
        with pytest.raises(TypeError, match="BinaryQuadraticModel; got ConstrainedQuadraticModel"):
            sampler().sample(dimod.ConstrainedQuadraticModel())


def test_annealing_takes_the_arguments_of_dwaves() -> None:
    bqm, sampler = problem(12), AnnealingSampler()
    ground = dimod.ExactSolver().sample(bqm).first
    common: dict[str, Any] = {"num_reads": 20, "seed": 2}
    ways: list[dict[str, Any]] = [
        {"num_sweeps": 300, "num_sweeps_per_beta": 3, "beta_range": [0.01, 5.0], "beta_schedule_type": "geometric"},
        {"num_sweeps_per_beta": 10, "beta_schedule_type": "custom", "beta_schedule": np.linspace(0, 5, 30)},
        {"randomize_order": True, "proposal_acceptance_criteria": "Gibbs"},
        {"initial_states": [ground.sample], "initial_states_generator": "tile", "beta_schedule_type": "geometric"},
    ]
    for options in ways:
        found = sampler.sample(bqm, **common, **options)
        assert len(found) == 20 and found.first.energy == pytest.approx(ground.energy)
        assert set(found.info) == {"beta_range", "beta_schedule_type", "seed", "timing"}
    cold = {"beta_range": [1e6, 1e6], "num_sweeps": 1}
    held = sampler.sample(bqm, initial_states=[ground.sample] * 3, initial_states_generator="none", **cold)
    assert len(held) == 3 and np.all(held.record.energy == held.first.energy)
    best = sampler.sample(bqm, num_best=4, **common)
    assert np.all(np.diff(best.record.energy) > 0) and len(best) == 4
    exact = ExactSampler().sample(bqm, num_states=4)
    assert np.array_equal(best.record.sample, exact.record.sample)


def test_states_along_the_schedule_are_those_of_shorter_ones() -> None:
    bqm, sampler, betas = problem(12, "BINARY"), AnnealingSampler(), np.linspace(0.1, 3.0, 12)
    common: dict[str, Any] = {"num_reads": 70, "num_sweeps_per_beta": 2, "beta_schedule_type": "custom", "seed": 4}
    common["interrupt_function"] = lambda: False  # in batches
    found = sampler.sample(bqm, beta_schedule=betas, num_intermediate=3, **common)
    assert np.unique(found.record.sweep).tolist() == [6, 12, 18, 24] and len(found) == 4 * 70
    for sweep in (6, 12, 18, 24):
        rows = found.record[found.record.sweep == sweep]
        assert np.all(rows.beta == betas[sweep // 2 - 1]) and np.array_equal(rows.read, np.arange(70))
        alone = sampler.sample(bqm, beta_schedule=betas[: sweep // 2], **common)
        assert np.array_equal(rows.sample, alone.record.sample) and np.array_equal(rows.energy, alone.record.energy)


def test_annealing_stops_between_batches() -> None:
    bqm, sampler = problem(10), AnnealingSampler()
    assert len(sampler.sample(bqm, num_reads=300, interrupt_function=lambda: True, seed=1)) == 64
    assert len(sampler.sample(bqm, num_reads=300, time_limit=0.0, seed=1)) == 64
    whole = sampler.sample(bqm, num_reads=150, time_limit=1e6, seed=1)
    assert np.array_equal(whole.record.sample, sampler.sample(bqm, num_reads=150, seed=1).record.sample)
    ring = dimod.BinaryQuadraticModel({}, {(i, (i + 1) % 40): 1.0 for i in range(40)}, 0.0, "SPIN")
    for intermediate in (0, 1):  # 256 reads take another kernel than 64
        common: dict[str, Any] = {"num_reads": 256, "num_sweeps": 20, "num_intermediate": intermediate, "seed": 5}
        cut = sampler.sample(ring, time_limit=1e6, **common)
        assert np.array_equal(cut.record.sample, sampler.sample(ring, **common).record.sample)
    assert len(TemperingSampler().sample(bqm, num_sweeps=10**9, time_limit=0.1, seed=1)) == 1


def test_draws_are_from_the_exact_distribution() -> None:
    bqm = problem(5, "BINARY")
    found = ExactSampler().sample(bqm, num_reads=20_000, beta=0.7, seed=3)
    every = ExactSampler().sample(bqm, beta=0.7)
    assert len(every) == 32
    log_p = -0.7 * every.record.energy - every.info["log_z"]
    assert np.exp(log_p).sum() == pytest.approx(1.0)
    place = {row.tobytes(): k for k, row in enumerate(every.record.sample)}
    counts = np.bincount([place[row.tobytes()] for row in found.record.sample], minlength=32)
    assert reference.g_test(counts, np.exp(log_p)) > SURE


@pytest.mark.parametrize(
    ("sampler", "options", "text"),
    [
        (AnnealingSampler, {"beta_range": [2.0, 1.0]}, "from hot to cold"),
        (AnnealingSampler, {"beta_range": [1.0]}, r"must be \(hot, cold\); got \[1\.0\]"),
        (AnnealingSampler, {"beta_range": 5}, r"must be \(hot, cold\); got 5"),
        (AnnealingSampler, {"time_limit": -1}, "time_limit must be at least 0"),
        (TemperingSampler, {"time_limit": -1}, "time_limit must be at least 0"),
        (AnnealingSampler, {"beta_schedule_type": "custom"}, "which needs it"),
        (AnnealingSampler, {"beta_schedule": [1.0]}, 'goes with beta_schedule_type="custom"'),
        (
            AnnealingSampler,
            {"beta_schedule_type": "custom", "beta_schedule": [1.0, 2.0], "num_sweeps": 3},
            "num_sweeps_per_beta times the length of beta_schedule, 2; got 3",
        ),
        (AnnealingSampler, {"num_sweeps": 10, "num_sweeps_per_beta": 3}, "must be a multiple"),
        (AnnealingSampler, {"beta_schedule_type": "geometric", "beta_range": [0, 1]}, '"linear" takes 0'),
        (AnnealingSampler, {"proposal_acceptance_criteria": "metropolis"}, "Did you mean 'Metropolis'"),
        (AnnealingSampler, {"num_intermediate": 2, "num_best": 2}, "give one of them"),
        (AnnealingSampler, {"num_intermediate": 5, "num_sweeps": 5}, "num_intermediate must be at most 4; got 5"),
        (AnnealingSampler, {"beta_schedule_type": "custom", "beta_schedule": [0.0]}, "beta_schedule must end above 0"),
        (AnnealingSampler, {"beta_schedule_type": "custom", "beta_schedule": [2, 1]}, "beta_schedule must increase"),
        (AnnealingSampler, {"num_best": 0}, "num_best must be at least 1"),
        (TemperingSampler, {"beta_range": (1, 1)}, "beta_range must have two ends"),
        (TemperingSampler, {"num_replicas": 0}, "num_replicas must be at least 1"),
        (TemperingSampler, {"num_betas": 1}, "num_betas must be at least 2"),
        (ExactSampler, {"num_reads": 0}, "num_reads must be at least 1"),
        (AnnealingSampler, {"seed": 2**32}, "seed must be at most"),
        (TemperingSampler, {"betas": [0.1, 1.0], "num_betas": 3}, "leave one of them out"),
        (ExactSampler, {"num_states": 1, "num_reads": 1}, "give one of them"),
    ],
)
def test_wrong_arguments_are_refused(sampler: Callable[[], Any], options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        sampler().sample(problem(4), **options)
