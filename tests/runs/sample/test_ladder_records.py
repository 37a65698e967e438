"""What a ladder records at every temperature, and the physics that comes of it, against enumeration."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from tests.support.machines import UNITS

SIDES, BETAS = (3, 4), [0.2, 0.5, 0.9]
GLASS = bm.models.edwards_anderson(SIDES, distribution="gaussian", seed=3)
FERRO = bm.models.ising(SIDES)


def ladders(model: bm.BoltzmannMachine, **options: Any) -> Any:
    options = {"betas": BETAS, "beta": BETAS[-1], "n_chains": 4, "n_sweeps": 60, "seed": 1, "record": "all"} | options
    return bm.sample(model, "tempering", **options)


def exact_structure(model: bm.BoltzmannMachine, beta: float, of: str) -> tuple[float, float]:
    """Averages of S(0) and S(k), k along the longer side, over all states, or over all pairs of states."""
    states = np.array(list(itertools.product([-1, 1], repeat=model.n_units)))
    weight = np.exp(-beta * (energy := model.energy(states)) + beta * energy.min())
    weight /= weight.sum()
    x = np.arange(model.n_units) % SIDES[1]
    waves = np.stack([np.ones(model.n_units), np.exp(2j * np.pi * x / SIDES[1])])
    correlations = (states * weight[:, None]).T @ states
    correlations = correlations**2 if of == "overlaps" else correlations
    zero, smallest = (float((wave.conj() @ correlations @ wave).real) / model.n_units for wave in waves)
    return zero, smallest


def test_in_a_field_correlations_are_those_of_fluctuations() -> None:
    """The zero mode has a mean, which is no correlation: without that the length would grow with the field."""
    model = bm.models.ising(SIDES, field=0.3)
    states = np.array(list(itertools.product((-1, 1), repeat=model.n_units)), float)
    weight = np.exp(-0.3 * model.energy(states))
    weight /= weight.sum()
    wave = np.exp(2j * np.pi * (np.arange(model.n_units) % SIDES[1]) / SIDES[1])
    m, smallest = states.sum(axis=1), weight @ np.abs(states @ wave) ** 2
    true = np.sqrt((weight @ m**2 - (weight @ m) ** 2) / smallest - 1.0) / (2.0 * np.sin(np.pi / SIDES[1]))
    for options in ({}, {"keep": "all", "observables": ["magnetisation", "structure_factor"]}):
        run = bm.sample(model, "exact", beta=0.3, n_chains=64, n_sweeps=1000, seed=1, **options)
        found = run.correlation_length()
        assert abs(found.value[0] - true) < 4.0 * found.error[0] < 0.4


@pytest.mark.parametrize(("model", "of"), [(FERRO, "spins"), (GLASS, "overlaps")])
def test_physics_at_every_temperature_is_that_of_enumeration(model: bm.BoltzmannMachine, of: str) -> None:
    run = ladders(model, n_chains=64, n_sweeps=600, observables=["magnetisation", "overlap"])
    lengths, rows = run.correlation_length(of), run.thermodynamics()
    np.testing.assert_allclose(lengths.beta, BETAS)
    for k, beta in enumerate(BETAS):
        zero, smallest = exact_structure(model, beta, of)
        length = np.sqrt(zero / smallest - 1.0) / (2.0 * np.sin(np.pi / SIDES[1]))
        assert abs(lengths.value[k] - length) < 5.0 * lengths.error[k]
        assert 0.0 < lengths.error[k] < 0.05 + 0.3 * length
        if of == "overlaps":
            chi = rows[k].spin_glass_susceptibility
            assert abs(chi.value - zero) < 5.0 * chi.error
            states, n = run.ladder_states[:, :, k], model.n_units
            q = (states[:, ::2].astype(int) * states[:, 1::2]).mean(axis=-1)
            np.testing.assert_allclose(rows[k].abs_overlap.value, np.abs(q).mean())
            np.testing.assert_allclose(rows[k].overlap_binder_cumulant, bm.diagnostics.binder_cumulant(q), rtol=1e-4)
            found, direct = run.overlap_distribution(beta), bm.diagnostics.overlap_distribution(q, n)
            np.testing.assert_allclose(found.value, direct.value)
        else:
            chi = rows[k].susceptibility
            assert abs(chi.value - beta * zero) < 5.0 * chi.error


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("stored", [False, True])
def test_states_of_a_ladder_have_its_energies(units: str, stored: bool, tmp_path: Path) -> None:
    model = bm.BoltzmannMachine(GLASS.weights.toarray(), np.linspace(-1, 1, 12), units=units, offset=2.0)
    out = tmp_path / "run.h5" if stored else None
    run = ladders(model, out=out, observables={"up": lambda states: states.sum(axis=1), "link": "link_overlap"})
    states = run.ladder_states
    assert states.shape == (60, 4, 3, 12)
    np.testing.assert_allclose(model.energy(np.asarray(states).reshape(-1, 12)), run.read("tempering/energy").ravel())
    assert np.array_equal(states[:, :, -1], run.states)
    assert np.array_equal(states[3], np.asarray(states)[3])
    assert set(run.ladder_observables) == {"up", "link"}
    assert np.array_equal(run.ladder_observables["up"], np.asarray(states, int).sum(axis=-1))
    assert run.ladder_observables["link"].shape == (60, 2, 3)
    for name, values in run.ladder_observables.items():
        assert np.array_equal(values[..., -1], run.observables[name])
    plain = ladders(model, record="target")
    assert np.array_equal(plain.states, run.states)
    assert not [name for name in plain.streams if name.startswith("ladder/")]


def test_named_observables_are_recorded_at_every_temperature(tmp_path: Path) -> None:
    options = {"observables": {"m": "magnetisation", "q": "overlap", "up": lambda states: states.sum(axis=1)}}
    whole, run = ladders(GLASS, **options), ladders(GLASS, record="observables", out=tmp_path / "run.h5", **options)
    assert [name for name in run.streams if name.startswith("ladder/")] == ["ladder/m", "ladder/q"]
    for name, values in run.ladder_observables.items():
        assert np.array_equal(values, whole.ladder_observables[name])
    assert np.array_equal(run.observables["up"], whole.observables["up"])
    assert run.to_dataframe().equals(whole.to_dataframe())
    for one, other in zip(run.overlap_distribution(BETAS[0]), whole.overlap_distribution(BETAS[0]), strict=True):
        assert np.array_equal(one, other)
    for of, names in (("spins", ["magnetisation"]), ("overlaps", ["overlap"])):
        names += ["structure_factor" if of == "spins" else "overlap_structure_factor"]
        lengths = ladders(GLASS, record="observables", observables=names).correlation_length(of)
        for one, other in zip(lengths, whole.correlation_length(of), strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(run.correlation_length().beta) == 1  # of states, which are those of the target
    assert not [name for name in ladders(GLASS, record="observables").streams if name.startswith("ladder/")]


def test_clamped_units_are_in_the_states() -> None:
    patterns = np.array([[1, -1], [-1, -1]])
    run = ladders(GLASS, clamp=([0, 5], patterns), n_chains=4)
    assert np.array_equal(
        run.ladder_states[:, :, :, [0, 5]], np.broadcast_to(patterns[[0, 0, 1, 1], None], (60, 4, 3, 2))
    )
    assert np.array_equal(run.ladder_states[:, :, -1], run.states)
    with pytest.raises(ValueError, match='record="all" records samples'):
        ladders(GLASS, keep="best")


def test_observables_are_reweighted_from_the_nearest_level() -> None:
    model = bm.models.ising(SIDES, field=0.1)
    run = ladders(model, n_chains=32, n_sweeps=400, observables=["magnetisation"])
    assert run.reweight(0.5, "magnetisation").value == pytest.approx(
        run.ladder_observables["magnetisation"][:, :, 1].mean()
    )
    assert run.reweight(0.55, "magnetisation").ess > 0.5 * run.reweight(0.5, "magnetisation").ess


def test_stopped_ladders_go_on_with_the_same_bits(tmp_path: Path) -> None:
    def stop(task: Any, rows: Any) -> None:
        raise ZeroDivisionError

    options: dict[str, Any] = {"observables": ["overlap"], "n_sweeps": 300}
    whole = ladders(GLASS, **options)
    with pytest.raises(ZeroDivisionError):
        ladders(GLASS, out=tmp_path / "run.h5", progress=stop, **options)
    run = bm.resume(tmp_path / "run.h5")
    for name in whole.streams:
        assert np.array_equal(whole.read(name), run.read(name)), name


def test_axes_have_names() -> None:
    xarray = pytest.importorskip("xarray")
    tree = ladders(GLASS, observables=["overlap", "magnetisation"]).to_xarray()
    assert isinstance(tree, xarray.DataTree)
    ladder = tree["ladder"]
    assert ladder["states"].dims == ("draw", "chain", "beta", "unit")
    assert ladder["overlap"].dims == ("draw", "pair", "beta")
    assert ladder["magnetisation"].dims == ("draw", "chain", "beta")
    assert ladder["beta"].values.tolist() == BETAS


def test_lengths_need_a_lattice_and_states() -> None:
    for model in (bm.models.random_machine(12, seed=1), bm.models.ising((3, 4), periodic=False)):
        with pytest.raises(ValueError, match="periodic lattice"):
            ladders(model, n_sweeps=5).correlation_length()
        with pytest.raises(ValueError, match="observables 'structure_factor' needs a periodic lattice"):
            ladders(model, n_sweeps=5, observables=["structure_factor"])
    with pytest.raises(ValueError, match="of must be one of"):
        ladders(FERRO, n_sweeps=5).correlation_length("overlap")
    with pytest.raises(ValueError, match="one chain"):
        ladders(FERRO, n_sweeps=5, n_chains=1).correlation_length("overlaps")
    with pytest.raises(AttributeError, match="states"):
        ladders(FERRO, n_sweeps=5, record="target", keep="best").correlation_length()
    with pytest.raises(AttributeError, match="every temperature"):
        _ = ladders(FERRO, n_sweeps=5, record="target").ladder_states
    assert len(ladders(FERRO, record="target").correlation_length().beta) == 1
    by_beta = bm.sample(FERRO, beta=[0.2, 0.4], n_chains=8, n_sweeps=100, seed=1).correlation_length()
    assert by_beta.value[0] < by_beta.value[1]
