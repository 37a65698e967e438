"""Exact sums at the ends of what can be asked for: energies near the largest number, nothing free, wrong words."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.exact.elimination import sum
from fastbm.inference.exact import settings
from tests.support.combinations import pairwise
from tests.support.machines import UNITS

ENGINES = ("gray", "blocks", "layers", "elimination")
LARGE = bm.models.sherrington_kirkpatrick(26, seed=1)
SMALL = bm.models.sherrington_kirkpatrick(6, seed=1)


def restricted(scale: float, units: str = "spin") -> bm.BoltzmannMachine:
    generator = np.random.default_rng(3)
    return bm.BoltzmannMachine([scale * generator.normal(size=(5, 3))], scale * generator.normal(size=8), units=units)


@pairwise(engine=ENGINES, beta=[0.0, 1e-300, 1.0], units=UNITS)
def test_energies_beyond_the_root_of_the_largest_number(engine: str, beta: float, units: str) -> None:
    found = bm.infer(restricted(1e300, units), "exact", engine=engine, beta=beta)
    alike = bm.infer(restricted(1.0, units), "exact", engine=engine, beta=min(beta * 1e300, 1e300))
    assert found.log_z == pytest.approx(alike.log_z, rel=1e-12)
    assert found.energy == pytest.approx(1e300 * alike.energy, rel=1e-11, abs=1e286)
    np.testing.assert_allclose(found.covariance, alike.covariance, rtol=0, atol=1e-11)
    if beta == 1.0:  # in the lowest state but for weights as small as 1e-305
        assert found.energy_variance <= 1e300
    else:
        assert found.energy_variance == sys.float_info.max


def test_the_variance_of_a_single_unit_with_a_large_field() -> None:
    found = bm.infer(bm.BoltzmannMachine(np.zeros((1, 1)), [1e300]), "exact", engine="elimination")
    assert found.energy == -1e300 and 0.0 <= found.energy_variance <= 1e300


@pytest.mark.parametrize("engine", [None, *ENGINES])
@pytest.mark.parametrize(("scale", "beta"), [(1e150, 1e300), (1e150, 1e160), (1.0, 1e308)])
def test_log_z_beyond_the_largest_number_is_refused(engine: str | None, scale: float, beta: float) -> None:
    with pytest.raises(ValueError, match="is beyond the largest number; lower beta, or rescale"):
        bm.infer(restricted(scale), "exact", engine=engine, beta=beta)
    if engine != "gray":
        with pytest.raises(ValueError, match="is beyond the largest number; lower beta, or rescale"):
            bm.sample(restricted(scale), sampler="exact", engine=engine, beta=beta, n_sweeps=1)


@pytest.mark.parametrize("beta", [np.nan, np.inf, [1.0, np.nan]])
def test_samples_at_a_beta_that_is_no_number_are_refused(beta: Any) -> None:
    with pytest.raises(ValueError, match="beta must be finite"):
        bm.sample(SMALL, sampler="exact", beta=beta, n_sweeps=1)


@pytest.mark.parametrize("model", [SMALL, LARGE], ids=["few", "many"])
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"moments": "no"}, TypeError, "moments must be True or False; got 'no'"),
        ({"moments": None}, TypeError, "moments must be True or False; got None"),
        ({"executor": 3}, TypeError, "executor must be a concurrent.futures.Executor; got int"),
        ({"n_lowest": None}, TypeError, "n_lowest must be a whole number; got None"),
        ({"n_lowest": False}, TypeError, "n_lowest must be a whole number; got False"),
        ({"moments": False, "energy_variance": True}, ValueError, "energy_variance comes with the moments only"),
        ({"moments": False, "pairs": "all"}, ValueError, "pairs comes with the moments only"),
    ],
)
def test_words_that_are_off_are_refused_alike(
    model: bm.BoltzmannMachine, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        bm.infer(model, "exact", **options)


def test_a_limit_beyond_all_machines_is_none() -> None:
    few = bm.infer(SMALL, "exact", max_gigabytes=1e308)
    assert few.log_z == bm.infer(SMALL, "exact").log_z
    assert bm.infer(LARGE, "exact", max_gigabytes=1e308, moments=False).log_z is not None


def test_all_pairs_that_no_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 200_000
    chain = scipy.sparse.coo_array((np.full(n - 1, 0.3), (np.arange(n - 1), np.arange(1, n))), shape=(n, n))
    model = bm.BoltzmannMachine((chain + chain.T).tocsr())
    with pytest.raises(ValueError, match=r'pairs="all" of 200000 units take .* GB; the limit is max_gigabytes=4'):
        bm.infer(model, "exact", pairs="all")
    monkeypatch.setattr(settings, "BYTES_A_PAIR", 1e9)
    with pytest.raises(ValueError, match="Name pairs, or leave them out"):
        bm.infer(SMALL, "exact", engine="elimination", pairs="all")


@pytest.mark.parametrize("values", [[1, -1, 1, 1, -1, 1], [[1, -1, 1, 1, -1, 1], [-1, -1, 1, 1, -1, 1]]])
def test_where_all_units_are_clamped_the_lists_hold_the_one_state(values: list[Any]) -> None:
    found = bm.infer(SMALL, "exact", clamp=(range(6), values), n_lowest=3)
    for detail, state in zip(found.detail.get("patterns", [found.detail]), np.atleast_2d(values), strict=True):
        assert detail["why"] == "all units are clamped: one state is left"
        np.testing.assert_array_equal(detail["lowest states"], [state])
        np.testing.assert_allclose(detail["lowest energies"], SMALL.energy(state[None]), rtol=1e-14)
    with pytest.raises(ValueError, match="distribution must name units that are free; unit 2 is clamped"):
        bm.infer(SMALL, "exact", clamp=(range(6), values), distribution=[2])


def test_where_all_units_are_clamped_moments_are_left_out_where_not_wanted(tmp_path: Any) -> None:
    for k, values in enumerate(([1] * 6, [[1] * 6, [-1] * 6])):
        found = bm.infer(SMALL, "exact", clamp=(range(6), values), moments=False, out=tmp_path / f"{k}.h5")
        assert found.mean is found.mean_error is found.second_moment is found.covariance is None


def test_machines_of_high_degree_are_refused_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*arguments: Any) -> None:
        raise AssertionError("no search is needed")

    monkeypatch.setattr(sum, "neighbours_in", search)
    with pytest.raises(ValueError, match=r"elimination cannot \(width above 100\)"):
        bm.infer(bm.models.curie_weiss(150), "exact", engine="elimination")


def test_whole_numbers_beyond_the_largest_number_are_refused() -> None:
    with pytest.raises(ValueError, match="beta must be finite"):
        bm.infer(bm.models.curie_weiss(4), "exact", beta=10**400)
