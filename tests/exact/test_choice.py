"""Which engine does an exact sum, what it says of it, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.exact import calibration, choice
from fastbm.exact.plan import Forecast, Speeds, Wanted
from tests.support import machines
from tests.support.machines import UNITS, enumerate_machine, machine

DENSE = bm.models.sherrington_kirkpatrick(26, seed=1)
RESTRICTED = bm.models.restricted(40, 8, seed=2)
LATTICE = bm.models.ising((9, 9), periodic=False)


@pytest.mark.parametrize(
    ("model", "engine"),
    [
        (bm.models.sherrington_kirkpatrick(12, seed=1), "blocks"),
        (bm.models.ising((3, 4), periodic=False), "blocks"),
        (DENSE, "blocks"),
        (RESTRICTED, "layers"),
        (LATTICE, "elimination"),
        (bm.models.ising(60), "elimination"),
    ],
)
def test_the_cheapest_engine_is_taken_and_says_so(model: bm.BoltzmannMachine, engine: str) -> None:
    found = bm.infer(model, "exact", beta=0.4)
    assert found.detail["engine"] == engine
    assert f"{engine} " in found.detail["why"] and "on one thread" in found.detail["why"]
    assert 0.0 < found.detail["forecast seconds"] < 10.0


def test_why_tells_the_forecasts_of_all_that_were_considered() -> None:
    why = bm.infer(RESTRICTED, "exact", moments=False).detail["why"]
    assert why.startswith("cheapest on one thread: layers ")
    assert all(name in why for name in ("blocks", "gray", "elimination", "2^48 states"))


def test_the_choice_does_not_depend_on_threads() -> None:
    for model in (DENSE, RESTRICTED, LATTICE):
        machines.assert_same_inference(*(bm.infer(model, "exact", moments=False, threads=t) for t in (1, 2)))


@pytest.mark.parametrize("units", UNITS)
def test_every_engine_can_be_asked_for(units: str) -> None:
    model = machine("layers", units, offset=0.3)
    truth = enumerate_machine(model, 0.8)
    for engine in choice.ENGINES:
        found = bm.infer(model, "exact", beta=0.8, engine=engine)
        assert found.detail["engine"] == engine
        assert found.detail["why"].startswith("asked for; ")
        assert found.log_z == pytest.approx(truth.log_z, rel=1e-12)
        np.testing.assert_allclose(found.second_moment, truth.second_moment, atol=1e-11)
        assert found.energy_variance == pytest.approx(truth.energy_variance, rel=1e-9)


def test_variance_of_the_energy_is_given_where_it_is_free_or_asked_for() -> None:
    few, many = bm.models.curie_weiss(12), bm.models.curie_weiss(33)
    assert bm.infer(few, "exact").energy_variance is not None
    assert bm.infer(few, "exact", energy_variance=False).energy_variance is None
    wanted = choice.candidates(many)
    assert wanted[0] == "blocks"
    request = _settings(many).request(many, np.arange(33), beta=1.0, moments=True, threads=1)
    assert [request.wanted(name).energy_variance for name in ("blocks", "gray")] == [False, True]
    assert _settings(many, energy_variance=True).wanted("blocks", many, np.arange(33), 1.0, True).energy_variance


def _settings(model: bm.BoltzmannMachine, **options: Any) -> Any:
    from fastbm.inference.exact.method import Exact
    from fastbm.inference.exact.settings import ExactSettings

    return ExactSettings.of(model, **Exact(**options).as_dict())


# Pairs


def test_large_sparse_machines_have_moments_on_the_edges_only() -> None:
    found = bm.infer(LATTICE, "exact", beta=0.4, pairs=[(80, 0), (3, 3 + 40)])
    whole = bm.infer(LATTICE, "exact", beta=0.4, pairs="all")
    assert isinstance(whole.second_moment, np.ndarray)
    for name in ("second_moment", "covariance"):
        sparse, full = getattr(found, name), getattr(whole, name)
        assert isinstance(sparse, scipy.sparse.csr_array)
        assert sparse.nnz == 81 + 2 * (2 * 9 * 8 + 2)
        i, j = sparse.tocoo().coords
        np.testing.assert_allclose(sparse.data, full[i, j], atol=1e-11)
        assert sparse[0, 80] != 0
    np.testing.assert_allclose(found.second_moment.diagonal(), 1.0)


@pytest.mark.parametrize("units", UNITS)
def test_clamped_units_among_pairs_on_edges(units: str) -> None:
    model = LATTICE.to_units(units)
    lo = model.convention.lo
    clamp = ([0, 40, 80], [1, lo, 1])
    found = bm.infer(model, "exact", beta=0.4, clamp=clamp, pairs=[(0, 80), (0, 5), (5, 60)])
    whole = bm.infer(model, "exact", beta=0.4, clamp=clamp, pairs="all")
    np.testing.assert_allclose(found.mean, whole.mean, atol=1e-12)
    for name in ("second_moment", "covariance"):
        sparse, full = getattr(found, name), getattr(whole, name)
        i, j = sparse.tocoo().coords
        assert {(0, 80), (0, 5), (5, 60), (0, 1), (40, 41)} <= set(zip(i.tolist(), j.tolist(), strict=True))
        np.testing.assert_allclose(sparse.data, full[i, j], atol=1e-11)
    many = bm.infer(model, "exact", beta=0.4, clamp=([0], [[1], [lo]]))
    assert len(many.second_moment) == 2 and many.mean.shape == (2, 81)
    assert "2 patterns" in str(many)


@pytest.mark.parametrize("n", [24, 49])
def test_few_units_have_all_pairs(n: int) -> None:
    side = math.isqrt(n)
    model = bm.models.ising((side, n // side), periodic=False)
    found = bm.infer(model, "exact", beta=0.3, engine="elimination")
    assert isinstance(found.second_moment, np.ndarray)
    assert np.all(found.second_moment != 0)


# Limits


def test_memory_above_the_limit_is_refused() -> None:
    model = bm.models.curie_weiss(30)
    with pytest.raises(ValueError, match=r"the limit is max_gigabytes=.*Raise it, or use \"ais\""):
        bm.infer(model, "exact", max_gigabytes=1e-6)
    assert bm.infer(model, "exact", moments=False, max_gigabytes=0.001).log_z > 0


def test_patterns_count_one_by_one() -> None:
    rows = np.ones((5000, 1), int)
    with pytest.raises(ValueError, match=r"5000 sums over 2\^25 states.*max_forecast_seconds=0\.5"):
        bm.infer(DENSE, "exact", clamp=([0], rows), max_forecast_seconds=0.5)


def test_where_blocks_cannot_gray_can(monkeypatch: pytest.MonkeyPatch) -> None:
    forecast = choice.Request.forecast

    def without(self: Any, engine: str, **options: Any) -> Forecast:
        return Forecast(math.inf, 0.0, "too wide a range") if engine == "blocks" else forecast(self, engine, **options)

    monkeypatch.setattr(choice.Request, "forecast", without)
    model = bm.models.sherrington_kirkpatrick(11, seed=1)
    found = bm.infer(model, "exact", max_gigabytes=3.0)
    assert found.detail["engine"] == "gray"
    assert "blocks cannot (too wide a range)" in found.detail["why"]


@pytest.mark.parametrize(
    ("error", "text", "options"),
    [
        (ValueError, "engine must be one of 'gray', 'blocks'.*Did you mean 'layers'", {"engine": "layer"}),
        (ValueError, 'engine="layers" needs a layered machine.*Leave engine out', {"engine": "layers"}),
        (ValueError, "engine='gray' cannot do a sum over 2.81 states", {"engine": "gray"}),
        (ValueError, "engine='blocks' cannot do a sum", {"engine": "blocks"}),
        (ValueError, "max_gigabytes must be above 0", {"max_gigabytes": 0}),
        (TypeError, "energy_variance must be True, False or None; got 'yes'", {"energy_variance": "yes"}),
        (ValueError, 'pairs must be "all" or pairs of units', {"pairs": "some"}),
        (ValueError, r"pairs must be .*\(n_pairs, 2\)", {"pairs": [1, 2]}),
        (ValueError, "pairs must name units from 0 to 80; got 3 to 81", {"pairs": [(3, 81)]}),
        (ValueError, "pairs must be of two units; pair 1 is unit 4 twice", {"pairs": [(1, 2), (4, 4)]}),
        (ValueError, 'n_lowest and distribution come from engine="gray" alone', {"n_lowest": 2, "engine": "blocks"}),
        (ValueError, "n_lowest must be at least 0", {"n_lowest": -1}),
        (ValueError, "n_lowest must be at most", {"n_lowest": 10**9}),
        (ValueError, "distribution must name at most 20 units; got 21", {"distribution": list(range(21))}),
        (ValueError, "distribution must name each unit once", {"distribution": [1, 1]}),
        (ValueError, "distribution must name units from 0 to 80", {"distribution": [-1]}),
        (TypeError, "distribution must be a list of units", {"distribution": [0.5]}),
        (ValueError, "unit 3 is clamped", {"distribution": [2, 3], "clamp": (range(3, 81), np.ones(78, int))}),
    ],
)
@pytest.mark.parametrize("out", [False, True])
def test_bad_options_are_named(
    error: type[Exception], text: str, options: dict[str, Any], out: bool, tmp_path: Path
) -> None:
    where = {"out": tmp_path / "result.h5"} if out else {}
    with pytest.raises(error, match=text):
        bm.infer(LATTICE, "exact", **options, **where)
    assert not list(tmp_path.iterdir())


def test_wide_graphs_are_refused_with_their_width() -> None:
    with pytest.raises(ValueError, match=r"engine='elimination' cannot do a sum .*width"):
        bm.infer(bm.models.ising((40, 40)), "exact", engine="elimination")


def test_lowest_states_and_distributions_come_with_the_result() -> None:
    model = machine("visible", "spin")
    found = bm.infer(model, "exact", n_lowest=3, distribution=[3, 0])
    states = np.array(machines.reference.all_states(5, "spin"))
    energies = model.energy(states)
    order = np.argsort(energies)[:3]
    np.testing.assert_allclose(found.detail["lowest energies"], energies[order], atol=1e-12)
    np.testing.assert_array_equal(found.detail["lowest states"], states[order])
    p = np.exp(-energies - found.log_z)
    index = (states[:, 3] == 1) + 2 * (states[:, 0] == 1)
    np.testing.assert_allclose(found.detail["distribution"], np.bincount(index, weights=p), atol=1e-12)
    held = bm.infer(model, "exact", n_lowest=2, clamp=([1], [-1]))
    assert np.all(held.detail["lowest states"][:, 1] == -1)
    np.testing.assert_allclose(model.energy(held.detail["lowest states"]), held.detail["lowest energies"], atol=1e-12)


# Speeds


@pytest.fixture
def speeds_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own, and a measurement that is not made."""
    monkeypatch.setattr(calibration.jit, "CACHE_FOLDER", str(tmp_path / "kernels"))
    calibration.measured.cache_clear()
    yield tmp_path / "speeds.json"
    calibration.measured.cache_clear()


def test_speeds_are_measured_once_and_kept(speeds_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(calibration, "measure", lambda: calls.append(1) or Speeds(gray_state=2e-9))
    assert calibration.measured().gray_state == 2e-9
    calibration.measured.cache_clear()
    assert calibration.measured().gray_state == 2e-9
    assert len(calls) == 1
    assert len(json.loads(speeds_file.read_text())) == 1
    damaged = ['{"torn', "[1]", json.dumps({calibration._key(): {"gray_state": 1.0}}), "\0"]
    damaged.append(speeds_file.read_text().replace("2e-09", "-1.0"))
    for n, text in enumerate(damaged):
        speeds_file.write_text(text)
        calibration.measured.cache_clear()
        assert calibration.measured().gray_state == 2e-9
        assert len(calls) == n + 2


def test_a_cache_that_cannot_be_written_is_no_error(speeds_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "measure", Speeds)
    monkeypatch.setattr(calibration.jit, "CACHE_FOLDER", "/proc/nowhere/kernels")
    assert calibration.measured() == Speeds()
    calibration.measured.cache_clear()
    monkeypatch.setattr(calibration.jit, "CACHE_FOLDER", None)
    assert calibration.measured() == Speeds()


def test_measured_speeds_are_near_the_built_in_ones() -> None:
    found = calibration.measure()
    for name in ("gray_state", "product_term", "layer_term", "message_entry"):
        assert 0.02 < getattr(found, name) / getattr(Speeds(), name) < 50


def test_only_long_sums_are_worth_a_measurement() -> None:
    def measured() -> Speeds:
        raise AssertionError("measured")

    def request(n: int) -> choice.Request:
        return choice.Request(bm.models.curie_weiss(n), 1.0, lambda e: Wanted(), choice.Limits(1e6), 1)

    choice.choose(request(20), None, measured=measured)
    with pytest.raises(AssertionError, match="measured"):
        choice.choose(request(40), None, measured=measured)


def test_measured_speeds_decide_between_engines() -> None:
    request = choice.Request(bm.models.curie_weiss(36), 1.0, lambda e: Wanted(), choice.Limits(1e6), 1)
    slow = Speeds(product_term=1e-6, gray_state=1e-12)
    assert choice.choose(request, None, measured=Speeds).engine == "blocks"
    assert choice.choose(request, None, measured=lambda: slow).engine == "gray"
