"""Methods side by side, held against exact sums where there are any."""

from __future__ import annotations

from typing import Any

import helpers
import numpy as np
import pytest
from helpers import calm, machine

import fastbm as bm

end_threads = helpers.end_threads


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
    helpers.assert_same_inference(found["ais"], alone)
    lines = str(found).splitlines()
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
        (TypeError, "model must be a BoltzmannMachine; got int", ({"a": 3}, ["exact"])),
        (TypeError, "model must be a BoltzmannMachine", (3, ["exact"])),
    ],
)
def test_bad_comparisons_are_refused(error: type[Exception], text: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(error, match=text):
        bm.compare(*arguments)
