"""Any scale of couplings and temperature: finite answers, or one refusal that names it, and no RuntimeWarning."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.inference.methods import METHODS
from fastbm.sampling.samplers import SAMPLERS
from tests.support import machines

REFUSAL = r"is beyond the largest number; lower beta, or rescale weights and bias\.$"
N = 6
KINDS = list(itertools.product(("dense", "sparse", "layered"), machines.UNITS))
HELD = [(1e-320, 1e140), (1e-300, 1.0), (1e-150, 1e140), (1.0, 0.0), (1.0, 1e-300), (1.0, 1e140), (1e140, 0.0),
        (1e140, 1e-300), (1e140, 1.0)]  # fmt: skip
BEYOND = [(1e200, 0.0), (1e200, 1.0), (1e300, 1e-300), (1.0, 1e200), (1e-250, 1e300)]
SIZES: dict[str, dict[str, Any]] = {
    "ais": {"n_chains": 8, "n_betas": 20},
    "reverse-ais": {"n_chains": 8, "n_betas": 20},
    "importance-sampling": {"n_samples": 200, "n_sweeps": 25},
    "tempering": {"n_chains": 8, "n_sweeps": 40},
    "population-annealing": {"n_chains": 64},
    "gibbs": {"n_chains": 4, "n_sweeps": 40},
    "metropolis": {"n_chains": 4, "n_sweeps": 40},
    "sampled-states": {"n_chains": 8, "n_sweeps": 20},
}


def machine(kind: str, units: str, scale: float, *, ferromagnet: bool = False) -> bm.BoltzmannMachine:
    """Six units with fields."""
    chance = np.random.default_rng(3)
    matrix, bias = np.triu(chance.standard_normal((N, N)), 1), chance.standard_normal(N) * scale
    matrix = (np.abs(matrix) if ferromagnet else matrix) * scale
    if kind == "layered":
        return bm.BoltzmannMachine([matrix[:4, 4:]], [bias[:4], bias[4:]], units=units)
    if kind == "dense":
        return bm.BoltzmannMachine(matrix + matrix.T, bias, units=units)
    ring = np.zeros((N, N))
    for i in range(N - 1):
        ring[i, i + 1] = ring[i + 1, i] = matrix[i, i + 1]
    return bm.BoltzmannMachine(scipy.sparse.csr_array(ring), bias, units=units)


def calm(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call without what warns of convergence; a RuntimeWarning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return call(*arguments, **options)


def assert_finite(found: bm.Inference) -> None:
    for name in ("log_z", "log_z_error", "mean", "mean_error", "second_moment", "covariance", "energy", "energy_error",
                 "entropy", "energy_variance"):  # fmt: skip
        value = getattr(found, name)
        if value is not None:
            numbers = value.data if hasattr(value, "tocsr") else value
            assert np.isfinite(numbers).all(), name


def methods_of(model: bm.BoltzmannMachine) -> list[str]:
    """Those that the machine has: one sums out a side of layers."""
    return [name for name in METHODS if model.is_layered or name != "importance-sampling"]


def check_all(scale: float, beta: float, kind: str, units: str) -> None:
    model = machine(kind, units, scale)
    for method in methods_of(model):
        assert_finite(calm(bm.infer, model, method, beta=beta, **SIZES.get(method, {})))
    assert_finite(calm(bm.infer, model, "tempering", beta=beta, engine="ti", **SIZES["tempering"]))
    for sampler, cls in SAMPLERS.items():
        if "lowest_beta" in cls.names() and not beta:
            continue  # refused: it cools down to beta
        n_sweeps = {} if sampler == "population-annealing" else {"n_sweeps": 40}
        ours = machine(kind, units, scale, ferromagnet=True) if sampler in ("wolff", "swendsen-wang") else model
        run = calm(bm.sample, ours, sampler=sampler, beta=beta, n_chains=8, **n_sweeps)
        assert np.isfinite(run.energy).all()
        calm(lambda run=run: str(run.summary()))
    rows = np.full((3, model.n_visible), model.convention.lo)
    rows[0] = model.convention.hi
    assert np.isfinite(bm.log_likelihood(model, rows, beta=beta).mean)
    assert np.isfinite(bm.pseudo_likelihood(model, rows, beta=beta).mean)
    assert np.isfinite(bm.reconstruct(model, rows, beta=beta)).all()


@pytest.mark.parametrize(("k", "point"), list(enumerate(HELD))[::2], ids=str)
def test_answers_are_finite_at_any_scale_that_floats_hold(k: int, point: tuple[float, float]) -> None:
    check_all(*point, *KINDS[k % len(KINDS)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_answers_of_every_kind_are_finite_at_any_scale_that_floats_hold(kind: tuple[str, str]) -> None:
    for point in HELD:
        check_all(*point, *kind)


def calls(model: bm.BoltzmannMachine, beta: float, path: Any) -> list[Callable[[], Any]]:
    """What must not answer."""
    rows = model.convention.values(np.ones((2, model.n_visible)))
    return [
        *(
            lambda method=method: bm.infer(model, method, beta=beta)
            for method in methods_of(model)
            if method != "exact"
        ),
        lambda: bm.infer(model, "ais", beta=beta, out=path),
        lambda: bm.compare(model, ["mean-field", "ais"], beta=beta, out=path),
        lambda: bm.log_likelihood(model, rows, beta=beta),
        lambda: bm.pseudo_likelihood(model, rows, beta=beta),
        lambda: bm.reconstruct(model, rows, beta=beta),
        lambda: bm.fidelity(model, rows, beta=beta),
        lambda: bm.fit(rows, init=model, beta=beta, epochs=1, out=path),
    ]


@pytest.mark.parametrize(("scale", "beta"), BEYOND)
@pytest.mark.parametrize("kind", KINDS[::3], ids=str)
def test_what_is_beyond_is_refused_by_all_alike(
    kind: tuple[str, str], scale: float, beta: float, tmp_path: Any
) -> None:
    model, path, told = machine(*kind, scale), tmp_path / "run.h5", set()
    for call in calls(model, beta, path):
        with pytest.raises(ValueError, match=REFUSAL) as caught:
            call()
        told.add(str(caught.value))
    assert len(told) == 1
    assert_finite(calm(bm.infer, model, "exact", beta=beta))
    if scale > 1.0:  # sampling squares no beta
        for options in (*({"sampler": name, "beta": beta or 1.0} for name in SAMPLERS), {"keep": "best"}):
            with pytest.raises(ValueError, match=REFUSAL):
                bm.sample(model, out=path, **options)
    assert not path.exists()


def test_long_runs_without_couplings_divide_by_nothing() -> None:
    """At beta = 0, and without couplings, nothing varies that could be divided by."""
    for model in (bm.BoltzmannMachine(np.zeros((4, 4))), bm.BoltzmannMachine([np.zeros((3, 2))], units="binary")):
        for method in methods_of(model):
            for beta in (0.0, 1.0):
                assert_finite(calm(bm.infer, model, method, beta=beta, **SIZES.get(method, {})))
