"""R-hat and effective samples from ranks, against ArviZ and against plain twins."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

from fastbm import diagnostics
from fastbm.diagnostics.ranks import r_hat_of_codes, r_hats_of_codes
from tests.diagnostics.test_autocorrelation import autoregressive
from tests.twins import statistics as reference

KINDS = (
    "independent",
    "slow",
    "alternating",
    "three values",
    "two values",
    "heavy tails",
    "chains apart",
    "half stuck",
    "one far off",
)
RANKED = {"r_hat": diagnostics.r_hat, "ess_bulk": diagnostics.ess_bulk, "ess_tail": diagnostics.ess_tail}


def series(kind: str, n_samples: int, n_chains: int, seed: int = 0) -> np.ndarray:
    """Chains of one kind, (n_samples, n_chains)."""
    generator = np.random.default_rng([seed, KINDS.index(kind), n_samples, n_chains])
    normal = generator.normal(size=(n_samples, n_chains))
    if kind == "slow":
        return autoregressive(0.9, n_samples, n_chains, seed)
    if kind == "alternating":
        return autoregressive(-0.8, n_samples, n_chains, seed)
    if kind == "three values":
        return generator.integers(0, 3, size=(n_samples, n_chains)) * 2.0 - 2.0
    if kind == "two values":
        return np.sign(autoregressive(0.7, n_samples, n_chains, seed))
    if kind == "heavy tails":
        return generator.standard_cauchy(size=(n_samples, n_chains))
    if kind == "chains apart":
        return normal + 2.0 * np.arange(n_chains)
    if kind == "one far off":
        return np.where(np.arange(normal.size).reshape(normal.shape) == 5, -1e300, 1.0 + 1e-9 * normal)
    return np.where(np.arange(n_chains) % 2, 0.3, normal) if kind == "half stuck" else normal


def arviz(name: str, values: np.ndarray) -> float:
    """What ArviZ says, its warnings of divisions by zero aside."""
    stats = pytest.importorskip("arviz_stats.base").array_stats
    chains: Any = values.T
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if name == "r_hat":
            return float(stats.rhat(chains, method="rank"))
        if name == "ess_bulk":
            return float(stats.ess(chains, method="bulk"))
        return float(stats.ess(chains, method="tail", prob=(0.05, 0.95)))


@pytest.mark.parametrize("name", RANKED)
def test_as_arviz_says(name: str) -> None:
    lengths = [4, 5, 6, 7, 8, 9, 20, 21, 101, 1000, 2000]
    for k, (kind, n_samples) in enumerate(itertools.product(KINDS, lengths)):
        values = series(kind, n_samples, n_chains=(2, 3, 8)[k % 3])
        expected, found = arviz(name, values), float(RANKED[name](values))
        if np.isfinite(expected) and expected < 1e10:
            assert found == pytest.approx(expected, rel=1e-10), (kind, values.shape)
        else:  # 1 where nothing varies, infinite where all stand still at different values
            assert found in (1.0, np.inf), (kind, values.shape)


@pytest.mark.parametrize("name", ["ess_bulk", "ess_tail"])
@pytest.mark.parametrize("kind", ["independent", "slow", "two values"])
def test_one_chain_as_arviz_says(name: str, kind: str) -> None:
    values = series(kind, 300, 1)
    assert RANKED[name](values) == pytest.approx(arviz(name, values), rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(4, 2), (9, 3), (40, 2), (61, 4)])
def test_as_the_plain_twins_say(kind: str, shape: tuple[int, int]) -> None:
    values = series(kind, *shape, seed=1)
    chains = values.T.tolist()
    for name, function in RANKED.items():
        found = float(function(values))
        try:
            expected = getattr(reference, name)(chains)
        except ZeroDivisionError:
            assert found in (1.0, np.inf, values.size - shape[0] % 2 * shape[1]) or name == "r_hat"
            continue
        assert found == pytest.approx(expected, rel=1e-10), name


@pytest.mark.parametrize(("shape", "n_codes"), [((4, 1), 3), ((101, 5), 8), ((600, 8), 65), ((64, 2), 1)])
def test_codes_are_ranked_as_their_values(
    shape: tuple[int, int], n_codes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several quantities at once, and of chains that stand still or move once."""
    codes = np.random.default_rng(n_codes).integers(0, n_codes, (*shape, 7))
    codes[:, :, 1] = codes[0, :, 1]
    codes[:, :, 2] = codes[0, :, 2]
    codes[-1, 0, 2] = 0
    codes[:, :, 3] = 0
    for values in (np.abs(2.0 * np.arange(n_codes) / n_codes - 1.0), np.arange(n_codes) % 2 - 0.5):
        expected = diagnostics.r_hat(values[codes])
        assert [r_hat_of_codes(codes[..., k], values) for k in range(7)] == expected.tolist()
        assert r_hats_of_codes(codes, values) == pytest.approx(expected, rel=1e-11)
        monkeypatch.setattr("fastbm.diagnostics.ranks.CODES", 2 * codes[..., 0].size)
        assert np.array_equal(r_hats_of_codes(codes[..., :1], values)[0], r_hats_of_codes(codes, values)[0])


def test_chains_that_stand_still() -> None:
    stuck = np.tile([0.1, 0.1, 0.7], (51, 1))
    assert diagnostics.r_hat(stuck) == np.inf
    assert diagnostics.r_hat(np.full((51, 3), 0.1)) == 1.0
    assert diagnostics.ess_bulk(np.full((51, 3), 0.1)) == 150, "halves of 25 samples"
    assert diagnostics.ess_bulk(stuck) < 6
    assert np.isnan(diagnostics.ess_bulk(np.zeros((3, 2)))) and np.isnan(diagnostics.ess_tail(np.zeros((3, 2))))


def test_a_balanced_pair_of_values_has_no_distances_from_its_median() -> None:
    values = np.tile([[-1.0, 1.0], [1.0, -1.0]], (20, 1))
    assert diagnostics.r_hat(values) == pytest.approx(arviz("r_hat", values), rel=1e-12)


def test_chains_of_different_spread_are_told_apart() -> None:
    """Same location, other widths: the classic ratio sees nothing."""
    values = series("independent", 1000, 4) * np.array([1.0, 1.0, 1.0, 4.0])
    assert reference.classic_r_hat(reference.split(values.T.tolist())) < 1.01
    assert diagnostics.r_hat(values) > 1.1


@pytest.mark.parametrize("name", RANKED)
def test_many_quantities_are_the_same_as_one_by_one(name: str) -> None:
    values = np.stack([series(kind, 101, 4) for kind in KINDS], axis=-1).reshape(101, 4, 3, 3)
    together = RANKED[name](values)
    assert together.shape == (3, 3)
    for k in np.ndindex(3, 3):
        assert together[k] == pytest.approx(RANKED[name](values[:, :, *k]), rel=1e-10)


@pytest.mark.parametrize("name", RANKED)
def test_increasing_transformations_change_nothing(name: str) -> None:
    values = series("slow", 500, 3)
    if name == "r_hat":  # distances from the median are not kept
        assert RANKED[name](3.0 * values + 1e3) == pytest.approx(RANKED[name](values), rel=1e-9)
    else:
        assert RANKED[name](np.exp(values)) == pytest.approx(RANKED[name](values), rel=1e-9)


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_effective_samples_of_an_autoregressive_series(rho: float) -> None:
    """Within 15 % of n (1 - rho) / (1 + rho), some five standard deviations of the estimate."""
    values = autoregressive(rho, 10_000, 4)
    assert diagnostics.ess_bulk(values) == pytest.approx(values.size * (1 - rho) / (1 + rho), rel=0.15)


@pytest.mark.parametrize("name", RANKED)
def test_what_is_no_series_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"values must have shape \(n_samples, n_chains"):
        RANKED[name]([1.0, 2.0])
    with pytest.raises(ValueError, match="values must be finite; 1 of 8"):
        RANKED[name]([[0.0, np.nan]] + [[0.0, 1.0]] * 3)
