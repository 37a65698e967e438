"""What the tests of the upper floors share: machines of every kind, and plain twins of what fastbm says of them."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm._base import threads
from tests.twins import reference

DATA = Path(os.environ.get("FASTBM_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))  # pytest --data FOLDER
KINDS = ("visible", "restricted", "layers", "general", "sparse")
UNITS = ("spin", "binary")
SURE = 1e-6  # false-alarm rate of one test of a distribution: all of them together stay below 1e-4


def close_pools() -> None:
    """End all threads of fastbm's own."""
    for team in itertools.chain(*threads._idle.values()):
        team._pool.shutdown()
    threads._idle.clear()


def machine(
    kind: str, units: str = "spin", *, seed: int = 0, scale: float = 0.6, offset: float = 0.0
) -> bm.BoltzmannMachine:
    """A small machine with random couplings and biases.

    "visible" has 5 visible units, "restricted" 4 + 3, "layers" 3 + 2 + 2, "general" 3 + 3 with all pairs coupled,
    "sparse" 3 + 3 with 8 couplings.
    """
    generator = np.random.default_rng([seed, KINDS.index(kind), UNITS.index(units)])
    sizes = {"visible": (5,), "restricted": (4, 3), "layers": (3, 2, 2), "general": (6,), "sparse": (6,)}[kind]
    bias = generator.normal(scale=0.5, size=sum(sizes))
    if len(sizes) > 1:
        blocks = [generator.normal(scale=scale, size=size) for size in itertools.pairwise(sizes)]
        return bm.BoltzmannMachine(blocks, bias, units=units, offset=offset)
    upper = np.triu(generator.normal(scale=scale, size=2 * sizes), 1)
    weights: Any = upper + upper.T
    if kind == "sparse":
        cut = np.zeros((6, 6), bool)
        cut[[0, 0, 1, 2, 3, 2, 3], [1, 2, 3, 4, 4, 5, 5]] = True
        weights = scipy.sparse.csr_array(np.where(cut | cut.T, 0.0, weights))
    n_hidden = 3 if kind in ("general", "sparse") else 0
    return bm.BoltzmannMachine(weights, bias, units=units, n_hidden=n_hidden, offset=offset)


def flat(n: int, units: str = "spin") -> bm.BoltzmannMachine:
    """A machine whose states are all alike."""
    return bm.BoltzmannMachine(np.zeros((n, n)), units=units)


def parameters(model: bm.BoltzmannMachine) -> tuple[np.ndarray, np.ndarray]:
    """The whole matrix of couplings and the biases."""
    weights = model.weights
    if model.is_layered:
        weights = reference.join_blocks(weights)
    return weights.toarray() if scipy.sparse.issparse(weights) else np.asarray(weights), np.asarray(model.flat_bias)


def enumerate_machine(
    model: bm.BoltzmannMachine, beta: float = 1.0, clamp: Mapping[int, int] | None = None
) -> reference.Exact:
    """All that a sum over states gives, with 50 digits."""
    return reference.enumerate_states(*parameters(model), model.units, beta=beta, offset=model.offset, clamp=clamp)


def codes(states: np.ndarray) -> np.ndarray:
    """The number of every state in the order of `reference.all_states`."""
    return (np.asarray(states) == 1).reshape(-1, states.shape[-1]) @ (1 << np.arange(states.shape[-1]))


def g_test(states: np.ndarray, probabilities: np.ndarray) -> float:
    """The p-value of independent states under the probabilities of `reference.all_states`."""
    return reference.g_test(np.bincount(codes(states), minlength=len(probabilities)), probabilities)


def log_joint(weights: np.ndarray, bias: np.ndarray, units: str, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """All states, and log p of each, in float64."""
    states = np.array(reference.all_states(len(bias), units), float)
    log_f = beta * (0.5 * np.einsum("si,ij,sj->s", states, weights, states) + states @ bias)
    return states, log_f - np.logaddexp.reduce(log_f)


def log_likelihood(weights: np.ndarray, bias: np.ndarray, units: str, rows: np.ndarray, beta: float = 1.0) -> float:
    """Mean log p(v) of rows of visible units, hidden ones summed out."""
    states, log_p = log_joint(weights, bias, units, beta)
    visible, inverse = np.unique(states[:, : rows.shape[1]], axis=0, return_inverse=True)
    marginal = np.full(len(visible), -np.inf)
    np.logaddexp.at(marginal, inverse.ravel(), log_p)
    found = {tuple(v): p for v, p in zip(visible.tolist(), marginal, strict=True)}
    return float(np.mean([found[tuple(row)] for row in np.asarray(rows, float).tolist()]))


def draw(model: bm.BoltzmannMachine, n_rows: int, seed: int = 0) -> np.ndarray:
    """Independent rows of the machine's visible units, drawn from the enumerated distribution."""
    states, log_p = log_joint(*parameters(model), model.units, 1.0)
    chosen = np.random.default_rng(seed).choice(len(states), n_rows, p=np.exp(log_p))
    return states[chosen, : model.n_visible].astype(np.int8)


def patterns(n: int, units: str) -> np.ndarray:
    """All states of n units."""
    return np.array(reference.all_states(n, units))


def data_file(name: str) -> Path:
    """The path of a data set for developers; the test is skipped where it is absent."""
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {path.parent}; pytest --data FOLDER says where it is")
    return path


def assert_same_values(first: Any, second: Any) -> None:
    """Compare two plain values, arrays or nestings of them; lists may stand for arrays."""
    if isinstance(first, dict):
        assert sorted(first) == sorted(second)
        for key in first:
            assert_same_values(first[key], second[key])
    elif isinstance(first, (list, tuple)) and first and isinstance(first[0], dict):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same_values(one, other)
    elif first is None or isinstance(first, str):
        assert first == second
    else:
        one, other = np.asarray(first), np.asarray(second)
        assert one.shape == other.shape
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def calm(function: Callable[..., bm.Inference], *arguments: Any, **options: Any) -> bm.Inference:
    """Call and let it say that it has not converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.ConvergenceWarning)
        return function(*arguments, **options)


RESULT_FIELDS = (
    "method", "log_z", "log_z_error", "bound", "mean", "mean_error", "second_moment", "covariance", "energy",
    "energy_error", "entropy", "energy_variance", "converged", "n_samples", "ess", "detail",
)  # fmt: skip


def assert_same_inference(first: bm.Inference, second: bm.Inference) -> None:
    """Compare two results, seconds aside, to the last bit."""
    for name in RESULT_FIELDS:
        assert_same_values(getattr(first, name), getattr(second, name))


def assert_covers(inside: np.ndarray, least: float = 0.88, most: float = 0.995) -> None:
    """The part of the 95 % intervals that hold the truth.

    For 600 intervals of the right width a part below 0.88 or above 0.995 turns up less often than once in 1e9 times.
    """
    covered = float(np.mean(inside))
    assert least <= covered <= most, covered


def two_phases() -> tuple[bm.BoltzmannMachine, float]:
    """The mean-field model of Blume and Capel where it is ordered and disordered with equal weight; a site is 2 units.

    Blume, Phys. Rev. 141, 517 (1966), doi:10.1103/PhysRev.141.517.
    """
    n, strength = 60, 0.408028
    site = np.repeat(np.arange(n), 2)
    weights = np.full((2 * n, 2 * n), 1 / (4 * n))
    weights[site[:, None] == site] = -strength / 2
    np.fill_diagonal(weights, 0.0)
    return bm.BoltzmannMachine(weights, np.zeros(2 * n), offset=strength * n / 2), 1 / 0.12
