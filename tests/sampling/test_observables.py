"""What is measured along the way: against plain sums over the recorded states."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.runs.sample import pace
from fastbm.sampling.observables import TAKEN
from fastbm.sampling.structure import structure_factor
from tests.support import machines
from tests.support.machines import UNITS, calm
from tests.support.samples import GLASS, SK, WORKLOADS, small, work


def spins(run: bm.Run) -> np.ndarray:
    return np.where(np.asarray(run.states) == 1, 1, -1)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("options", [{}, {"sampler": "tempering"}, {"clamp": ([0, 3], [1, 1])}], ids=str)
def test_named_ones(units: str, options: dict[str, Any]) -> None:
    glass = GLASS.to_units(units)
    names = ["magnetisation", "overlap", "link_overlap"]
    run = calm(bm.sample, glass, n_chains=6, n_sweeps=25, observables=names, **options)
    s, weights = spins(run), GLASS.weights.toarray()
    assert sorted(run.observables) == sorted(names)
    np.testing.assert_allclose(run.observables["magnetisation"], s.mean(axis=2), atol=1e-15)
    overlap, link = np.empty((25, 3)), np.empty((25, 3))
    bonds = [(i, j) for i in range(20) for j in range(i) if weights[i, j]]
    for t in range(25):
        for k in range(3):
            product = s[t, 2 * k] * s[t, 2 * k + 1]
            overlap[t, k] = product.mean()
            link[t, k] = np.mean([product[i] * product[j] for i, j in bonds])
    np.testing.assert_allclose(run.observables["overlap"], overlap, atol=1e-15)
    np.testing.assert_allclose(run.observables["link_overlap"], link, atol=1e-15)


def test_functions_get_states_in_the_models_units_and_may_return_any_one_shape(tmp_path: Path) -> None:
    model, shapes = small("binary"), []

    def chains(states: np.ndarray) -> np.ndarray:
        shapes.append((states.shape, states.dtype.name, set(np.unique(states)) <= {0, 1}, states.flags.writeable))
        return states[:, 0] + 2 * states[:, 1]

    functions = {"code": chains, "mean": lambda s: s.mean(axis=0), "one": lambda s: s.sum(), "m": "magnetisation"}
    run = bm.sample(model, n_chains=5, n_sweeps=30, observables=functions, out=tmp_path / "run.h5")
    states = run.states[:]
    assert set(shapes) == {((5, 6), "int8", True, False)}
    assert np.array_equal(run.observables["code"], states[..., 0] + 2.0 * states[..., 1])
    assert np.array_equal(run.observables["mean"], states.mean(axis=1))
    assert np.array_equal(run.observables["one"], states.sum(axis=(1, 2)))
    assert np.array_equal(run.observables["m"], 2 * states.mean(axis=2) - 1)
    assert run.config["sample"]["observables"] == {"code": None, "m": "magnetisation", "mean": None, "one": None}
    assert "code" in run.summary()
    assert "mean" not in run.summary()


def test_functions_must_be_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, first = tmp_path / "run.h5", {"first": lambda states: states[:, 0]}
    whole = bm.sample(SK, n_chains=4, n_sweeps=100, beta=0.3, observables=first)
    monkeypatch.setattr(pace, "BLOCK_SECONDS", 1e-5)
    bm.sample(SK, n_chains=4, n_sweeps=100, beta=0.3, observables=first, out=path, max_seconds=0.0)
    with pytest.raises(ValueError, match=r"measures 'first' by functions.*observables=\{\"first\": \.\.\.\}"):
        bm.resume(path)
    with pytest.raises(ValueError, match="this run has no function 'second'; it has 'first'"):
        bm.resume(path, observables={**first, "second": len})
    with pytest.raises(TypeError, match=r"observables\['first'\] must be a function"):
        bm.resume(path, observables={"first": "overlap"})  # type: ignore[dict-item]
    run = bm.resume(path, observables=first)
    assert np.array_equal(run.observables["first"], whole.observables["first"])
    assert bm.resume(path).finished, "there is nothing left to measure"
    learned = bm.fit(bm.data.bars_and_stripes(3), method="pcd", epochs=2, out=tmp_path / "f.h5", max_seconds=0.0)
    assert not learned.finished
    with pytest.raises(ValueError, match="this is one of fit"):
        bm.resume(tmp_path / "f.h5", observables=first)


@pytest.mark.parametrize(
    ("error", "text", "observables"),
    [
        (ValueError, "observables must be one of 'magnetisation', .*Did you mean 'overlap'", ["overlaps"]),
        (TypeError, "observables must be a list of names, or a dict", "overlap"),
        (TypeError, "observables must be a list of names, or a dict", np.array("overlap")),
        (TypeError, "functions need names", [len]),
        (ValueError, r"observables\['m'\] must be one of", {"m": "magnetization "}),
        (ValueError, "observables must have names of letters", {"a/b": len}),
        (ValueError, "observables must have names of letters .*got 'ä'", {"ä": len}),
        (ValueError, '"energy" is told of every run by that name; give another one', {"energy": len}),
        (ValueError, '"r_hat" is told of every run', {"r_hat": "overlap"}),
        (ValueError, '"sweep" is told of every run', {"sweep": len}),
        (ValueError, "chains 2k and 2k \\+ 1.*must be even; got 5", ["overlap"]),
        (TypeError, r"observables\['f'\] must return numbers", {"f": lambda states: "many"}),
        (TypeError, r"observables\['f'\] must return numbers, \(5,\)", {"f": lambda states: states}),
        (TypeError, r"observables\['f'\] must return numbers, .* shape \(0,\)", {"f": lambda states: []}),
    ],
)
def test_bad_observables_are_named(error: type[Exception], text: str, observables: Any, tmp_path: Path) -> None:
    with pytest.raises(error, match=text):
        bm.sample(SK, n_chains=5, n_sweeps=2, observables=observables, out=tmp_path / "run.h5")
    assert not list(tmp_path.iterdir())


def test_an_overlap_without_couplings_is_refused() -> None:
    with pytest.raises(ValueError, match="'link_overlap' is a mean over couplings, and the machine has none"):
        bm.sample(machines.flat(4), n_chains=2, observables=["link_overlap"])


def test_functions_that_change_their_mind_are_named() -> None:
    calls: list[int] = []

    def moody(states: np.ndarray) -> np.ndarray:
        calls.append(1)
        return states[: len(calls), 0]

    with pytest.raises(ValueError, match=r"observables\['f'\] returned shape \(1,\) first and \(2,\) later"):
        bm.sample(SK, n_chains=5, n_sweeps=2, observables={"f": moody})
    with pytest.raises(ValueError, match=r"observables\['f'\] returned a number that is not finite"):
        bm.sample(SK, n_chains=5, observables={"f": lambda s: np.full(5, np.nan)}, until={"ess": 10})
    run = bm.sample(SK, n_chains=5, n_sweeps=9, observables={"f": lambda s: np.full(5, np.nan)})
    assert run.finished and run.summary()["f"] == "not known: 45 of 45 values are not finite"


def test_a_summary_averages_over_no_two_machines() -> None:
    """Chains at each temperature, and of each clamped pattern, have a mean of their own."""
    names = ["magnetisation", "overlap"]
    options: dict[str, Any] = {"n_chains": 16, "n_sweeps": 40, "burn_in": 20, "observables": names}
    run = calm(bm.sample, small(), beta=[0.1, 0.9], **options)
    for name, half in (("magnetisation", 8), ("overlap", 4)):
        first, last = run.observables[name][:, :half].mean(), run.observables[name][:, half:].mean()
        found = re.fullmatch(r"(\S+) \+- \S+ at beta = 0.1 to (\S+) \+- \S+ at beta = 0.9", run.summary()[name])
        assert found is not None and [*map(float, found.groups())] == pytest.approx([first, last], rel=1e-4)
    run = calm(bm.sample, small(), clamp=([0], [[1], [-1]]), **options)
    assert ", pattern 0 to " in run.summary()["overlap"] and run.summary()["overlap"].endswith(", pattern 1")
    run = calm(bm.sample, bm.models.ising((4, 4)), "wolff", beta=[0.1, 0.9], n_chains=4, n_sweeps=40)
    first, last = run.read("clusters/size").reshape(40, 2, 2).mean(axis=(0, 2))
    assert run.summary()["cluster size"].startswith(f"{first:.4g} to {last:.4g} units, ")


def test_the_file_says_what_it_lacks() -> None:
    run = bm.sample(SK, n_chains=2, n_sweeps=3)
    assert list(run.observables) == []
    with pytest.raises(KeyError, match="no observables 'overlap'; it has none"):
        run.observables["overlap"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_row_of_a_summary_has_the_name_of_an_observable(name: str) -> None:
    run = work(name)
    own = set(run.config["sample"].get("observables") or {})
    names = {row for row in run.summary() if row not in own and row.replace("_", "").replace("-", "").isalnum()}
    assert names <= TAKEN


@pytest.mark.parametrize("sides", [(8, 8, 8), (4, 6), (6, 4, 6), (9,), (130, 130)])
def test_structure_factors_are_those_of_fourier_transforms(sides: tuple[int, ...]) -> None:
    """By products of bits, and by sums one by one."""
    up = np.random.default_rng(1).integers(0, 2, (2, 3, math.prod(sides)), np.uint8)
    found = structure_factor(np.packbits(up, axis=-1, bitorder="little"), sides)
    axes = [k for k, side in enumerate(sides) if side == max(sides)]
    waves = np.fft.fftn(2.0 * up.reshape(2, 3, *sides) - 1.0, axes=range(2, 2 + len(sides)))
    of_axes = [waves[(..., *(int(k == axis) for k in range(len(sides))))] for axis in axes]
    exact = np.mean(np.abs(of_axes) ** 2, axis=0) / up.shape[2]
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-12)
