"""Methods side by side, held against exact sums where there are any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.inference.comparison import Cell, Reference
from tests.support import machines
from tests.support.machines import calm, machine


def test_compare_holds_everything_against_exact() -> None:
    models = {"rbm": machine("restricted"), "deep": machine("layers", "binary")}
    methods = {
        "exact": {},
        "mean-field": {},
        "ais": {"n_betas": 100},
        "sampled-states": {"n_sweeps": 100},
        "gibbs": {"n_sweeps": 200},
    }
    found = calm(bm.compare, models, methods, beta=[0.5, 1.0], seed=3)
    assert len(found) == 2 * 2 * 5
    assert [(c.model, c.beta, c.method) for c in found.cells] == [
        (m, b, x) for m in models for b in (0.5, 1.0) for x in methods
    ]
    for row, cell in zip(found.table, found.cells, strict=True):
        truth = bm.infer(models[cell.model], "exact", beta=cell.beta)
        if cell.method in ("mean-field", "sampled-states", "exact"):
            assert row["log_z_off"] == cell.result.log_z - truth.log_z
        if cell.result.bound == "lower":
            assert row["bound_kept"] is True
        assert row["mean_off"] == np.abs(cell.result.mean - truth.mean).max()
    alone = bm.infer(models["rbm"], "ais", beta=0.5, seed=3, n_betas=100)
    machines.assert_same_inference(found["ais"], alone)
    lines = [line for line in str(found).splitlines() if not line.startswith("Compiling took")]
    assert len(lines) == 1 + len(found)
    assert "off by" in lines[0]
    with pytest.raises(KeyError, match="no cell has method 'tap'"):
        found["tap"]


def test_compare_without_exact_has_nothing_to_compare() -> None:
    row = bm.compare(machine("visible"), "mean-field").table[0]
    assert row["log_z_off"] is row["bound_kept"] is row["mean_off"] is None


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (ValueError, "compare needs at least one model and one method", (machine("visible"), [])),
        (ValueError, "compare needs at least one model and one method", ({}, ["exact"])),
        (ValueError, "method must be one of .*Did you mean 'mean-field'", (machine("visible"), ["mean_field"])),
        (
            TypeError,
            "gibbs has no option 'sweeps'. Did you mean 'n_sweeps'",
            (machine("visible"), {"gibbs": {"sweeps": 1}}),
        ),
        (ValueError, "auto chooses one", (machine("visible"), ["auto"])),
        (TypeError, "model must be a BoltzmannMachine; got int", ({"a": 3}, ["exact"])),
        (TypeError, "model must be a BoltzmannMachine", (3, ["exact"])),
        (TypeError, "got list.*; compare takes several as a dict, by name", ([machine("visible")], ["exact"])),
    ],
)
def test_bad_comparisons_are_refused(error: type[Exception], text: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(error, match=text):
        bm.compare(*arguments)


def made(method: str, log_z: float | None, beta: float = 1.0, seed: int = 0, **about: Any) -> Cell:
    return Cell("m", beta, method, bm.Inference(method, log_z=log_z, **about), seed)


def test_held_against_the_tightest_bracket() -> None:
    cells = (
        made("mean-field", 1.0, bound="lower"),
        made("ais", 2.0, bound="stochastic lower", log_z_error=0.1),
        made("reverse-ais", 2.5, bound="stochastic upper", log_z_error=0.1),
        made("tempering", 2.2, log_z_error=0.1),
        made("bethe", 3.0),
        made("tap", 1.5),
    )
    found = bm.Comparison(cells)
    reference = found.reference("m", 1.0)
    assert reference is not None and (reference.kind, reference.low, reference.high) == ("bracket", 2.0, 2.5)
    assert [row["log_z_off"] for row in found.table] == [-1.0, 0.0, 0.0, 0.0, 0.5, -0.5]
    assert all(row["z"] is None and row["bound_kept"] is None for row in found.table)
    assert bm.Comparison(cells[:2]).reference("m", 1.0) is None
    one = made("ais", 2.0, bound="stochastic lower", detail={"log_z_upper": 2.3, "upper_holds": True})
    assert bm.Comparison((one,)).reference("m", 1.0) == Reference("bracket", 2.0, 2.3)
    open_end = made("ais", 2.0, bound="stochastic lower", detail={"log_z_upper": 2.3, "upper_holds": False})
    assert bm.Comparison((open_end,)).reference("m", 1.0) is None


def test_errors_in_standard_errors_and_what_cells_say_together() -> None:
    exact = made("exact", 5.0, bound="exact", mean=np.zeros(2), covariance=np.eye(2))
    off = [0.1, -0.2, 0.4]
    cells = [made("ais", 5.0 + o, seed=k, log_z_error=0.1, bound="stochastic lower") for k, o in enumerate(off)]
    cells[1] = made("ais", 4.8, seed=1, log_z_error=0.1, bound="stochastic lower", mean=np.array([0.3, -0.1]))
    skipped = made("ais", None, seed=3, converged=False, detail={"skipped": "too slow"})
    found = bm.Comparison((exact, *cells, skipped))
    rows = found.table[1:]
    assert [row["z"] for row in rows] == pytest.approx([1.0, -2.0, 4.0, None])
    assert [row["bound_kept"] for row in rows] == [True, True, False, None]
    assert rows[1]["mean_off"] == 0.3 and rows[3]["skipped"] == "too slow"
    (row,) = [row for row in found.summary(("method",)) if row["method"] == "ais"]
    assert (row["n"], row["skipped"]) == (3, 1)
    assert row["z"] == pytest.approx(np.sqrt(7.0)) and row["covered"] == pytest.approx(1 / 3)
    assert row["bounds_kept"] == pytest.approx(2 / 3) and row["log_z_off"] == pytest.approx(0.2)
    assert row["mean_off"] == 0.3 and row["covariance_off"] is None and row["converged"] == 1.0


def test_moments_on_the_edges_are_held_against_full_ones() -> None:
    full = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.0], [0.2, 0.0, 1.0]])
    edges = scipy.sparse.csr_array(np.array([[1.0, 0.4, 0.0], [0.4, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    for exact, other in ((full, edges), (edges, full)):
        cells = made("exact", 0.0, bound="exact", covariance=exact), made("x", 0.0, covariance=other)
        assert bm.Comparison(cells).table[1]["covariance_off"] == pytest.approx(0.1)


def test_a_budget_sizes_what_draws_samples_and_skips_what_does_not_fit(tmp_path: Any) -> None:
    model = bm.models.sherrington_kirkpatrick(40, seed=1)
    out = tmp_path / "c.h5"
    found = bm.compare(model, {"exact": {}, "mean-field": {}, "gibbs": {}, "ais": {"n_betas": 30}}, budget=1.0, out=out,
                       seed=[3, 4], threads=1)  # fmt: skip
    exact, *others = found.cells
    assert exact.skipped and "max_forecast_seconds" in exact.skipped
    assert [(c.method, c.seed) for c in others] == [(m, s) for m in ("mean-field", "gibbs", "ais") for s in (3, 4)]
    of_gibbs = [c.result.detail["sized"] for c in others if c.method == "gibbs"]
    assert of_gibbs[0] == of_gibbs[1] and of_gibbs[0]["n_sweeps"] >= 50
    assert found["ais"].detail["sized"] == {}
    assert str(bm.open(out).comparison) == str(found)


def test_a_budget_for_nothing() -> None:
    model = bm.models.sherrington_kirkpatrick(40, seed=1)
    with pytest.raises(ValueError, match=r"budget = 1e-07 s is too small .* gibbs: n_sweeps = 50, the least"):
        bm.compare(model, ["exact", "gibbs"], budget=1e-7)


def test_many_cells_are_printed_together() -> None:
    found = bm.Comparison(tuple(made("ais", float(k), seed=k) for k in range(60)))
    lines = str(found).splitlines()
    assert len(lines) == 2 and "covered" in lines[0]


def test_a_method_that_fails_leaves_the_others(tmp_path: Any) -> None:
    model = machine("visible")
    found = bm.compare(model, {"ais": {"walk": "blocks"}, "gibbs": {"n_sweeps": 100}}, out=tmp_path / "c.h5")
    failed, done = found.cells
    assert failed.skipped is not None and "walk is for layered machines" in failed.skipped
    assert f"ais was skipped: {failed.skipped}" in str(found).splitlines()
    assert done.skipped is None and done.result.mean is not None


def test_moments_that_memory_cannot_hold_are_refused_beforehand(tmp_path: Any) -> None:
    model = bm.models.ising((200, 200))
    with pytest.raises(ValueError, match="second moments"):
        bm.compare(model, ["mean-field", "gibbs"], out=tmp_path / "c.h5")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "methods", "options"),
    [
        ("methods must be a list; got 3", 3, {}),
        ("methods must be a list; got None", None, {}),
        ("methods must be names, or a dict of name to a dict of options; got 'ais': None", {"ais": None}, {}),
        ("methods must be names", [3], {}),
        ("seed must be a list; got '12'", ["ais"], {"seed": "12"}),
    ],
)
def test_what_is_no_list_of_methods(text: str, methods: Any, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=text):
        bm.compare(machine("visible"), methods, **options)
