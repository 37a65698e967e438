"""Rows of runs hold what the runs say of themselves."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import diagnostics
from fastbm.campaigns.row import columns_of
from fastbm.campaigns.table import Table
from tests.support.campaigns import run_tables

ISING = {"name": "ising", "shape": [4, 4]}
GLASS = {"name": "edwards_anderson", "shape": [3, 3, 3]}


def test_a_row_of_samples_holds_their_averages() -> None:
    observables = {"m": "magnetisation", "links": "link_overlap"}
    sample = {"n_sweeps": 40, "n_chains": 8, "beta": 0.3, "observables": observables}
    run = run_tables({"model": ISING, "sample": sample})
    row, (physics,) = columns_of(run), run.thermodynamics()
    assert physics.link_overlap.value == pytest.approx(row["links"])
    for name, estimate in zip(physics._fields[1:-1], physics[1:-1], strict=True):
        assert (row.get(name), row.get(f"{name}_error")) == (estimate or (None, None))
    e, m = run.energy / 16, run.observables["m"]
    for name, values in {"energy_square": e**2, "m2": m**2, "m4": m**4, "links": run.observables["links"]}.items():
        assert row[name] == pytest.approx(values.mean(), rel=1e-12)
        assert 1.0 <= row[f"{name}_error"] / diagnostics.standard_error(values) < 1.05  # with what was not seen
    ess = [diagnostics.ess_bulk(values) for values in (e, np.abs(m), run.observables["links"])]
    assert row["ess"] == pytest.approx(min(ess)) and row["n_samples"] == 320
    assert row["converged"] == run.converged and (row["doubt"] or "") == run.doubt
    r_hats = [diagnostics.r_hat(values) for values in (e, np.abs(m), run.observables["links"])]
    assert row["r_hat"] == pytest.approx(max(r_hats), rel=1e-9) or row["r_hat"] > max(r_hats)  # of a unit
    assert json.loads(json.dumps(row)) == row


def test_a_row_of_a_ladder_is_that_of_its_target_with_means_at_all_temperatures() -> None:
    sample = {"sampler": "tempering", "betas": [0.2, 0.5, 0.9], "n_sweeps": 40, "n_chains": 16}
    run = run_tables({"model": GLASS, "sample": sample | {"observables": ["overlap"], "record": "all"}})
    row, curves = columns_of(run), run.thermodynamics()
    assert row["energy"] == curves.energy[-1] and row["q4@0.9"] == pytest.approx(row["q4"])
    for k, beta in enumerate(run.betas.tolist()):
        assert row[f"energy@{beta!r}"] == pytest.approx(curves.energy[k])
        assert row[f"energy_error@{beta!r}"] == pytest.approx(curves.energy_error[k])
        assert row[f"specific_heat@{beta!r}"] == pytest.approx(curves.specific_heat[k])
        q = run.ladder_observables["overlap"][:, :, k]
        assert row[f"q2@{beta!r}"] == pytest.approx((q**2).mean()) and row[f"q4@{beta!r}"] == pytest.approx(
            (q**4).mean()
        )
    assert row["q2"] == pytest.approx(curves.spin_glass_susceptibility[-1] / 27)


@pytest.mark.parametrize("sampler", ["gibbs", "tempering"])
@pytest.mark.parametrize("field", [0.0, 0.3])
def test_observables_of_several_temperatures_are_told_of_each(sampler: str, field: float) -> None:
    sample = {"sampler": sampler, "n_sweeps": 40, "n_chains": 16, "observables": ["link_overlap", "magnetisation"]}
    betas = {"betas" if sampler == "tempering" else "beta": [0.1, 0.8]}
    run = run_tables({"model": GLASS | {"field": field}, "sample": sample | betas})
    row, (hot, cold) = columns_of(run), run.thermodynamics()
    own = [("", cold)] if sampler == "tempering" else []
    for at, there in [("@0.1", hot), ("@0.8", cold), *own]:
        for name in ("link_overlap", "magnetisation") if field else ("link_overlap",):
            assert (row[f"{name}{at}"], row[f"{name}_error{at}"]) == pytest.approx(
                tuple(getattr(there, name)), rel=0.01
            )
    assert ("magnetisation@0.1" in row) == (field > 0.0) and ("link_overlap" in row) == (sampler == "tempering")


SHORT = {"n_sweeps": 20, "n_chains": 4}
SMALL = {"name": "random_machine", "n": 8}
DIGITS = {"source": "bars-and-stripes", "side": 3, "holdout": 0.3}
KINDS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "two temperatures": ({"model": ISING, "sample": SHORT | {"beta": [0.1, 0.2]}}, {"energy@0.1", "m2_error@0.2"}),
    "logarithmic times": ({"model": ISING, "sample": SHORT | {"thin": "log"}}, {"time", "energy_error", "correlation"}),
    "annealing": ({"model": GLASS, "sample": SHORT | {"sampler": "annealing"}}, {"energy", "lowest_energy"}),
    "population": ({"model": GLASS, "sample": SHORT | {"sampler": "population-annealing"}}, {"log_z", "families"}),
    "best states": ({"model": GLASS, "sample": SHORT | {"keep": "best", "k": 2}}, {"energy", "lowest_energy"}),
    "infer": ({"model": SMALL, "infer": {"method": "exact"}}, {"log_z", "log_z_error", "energy", "entropy", "bound"}),
    "compare": ({"model": SMALL, "compare": {"methods": ["exact", "tap"]}}, {"log_z@exact", "log_z_off@tap"}),
    "rules": ({"model": SMALL, "compare": {"rules": ["exact", "rise"], "n_rows": 100}}, {"gamma@exact", "gamma@rise"}),
    "fit": ({"data": DIGITS, "fit": {"method": "exact", "epochs": 2}}, {"holdout", "holdout_by", "log_z", "epochs"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_runs_of_every_kind_have_a_row(kind: str) -> None:
    tables, names = KINDS[kind]
    row = columns_of(run_tables(tables))
    assert names <= set(row) and {"converged", "doubt"} <= set(row)
    assert json.loads(json.dumps(row)) == row
    assert not {"seconds", "compile_seconds"} & {name.partition("@")[0] for name in row}
    assert columns_of(run_tables(tables)) == row


def test_averages_of_relaxations_know_the_spread_between_cells_that_no_run_does() -> None:
    sample = SHORT | {"sampler": "metropolis", "thin": "log", "observables": ["magnetisation"]}
    rows = [columns_of(run_tables({"model": GLASS, "sample": sample | {"seed": seed}})) for seed in range(4)]
    (mean,) = Table.of([{"sample.seed": seed} for seed in range(4)], rows).average("sample.seed").rows
    for name in ("energy", "correlation", "magnetisation"):
        values = [row[name] for row in rows]
        assert all(row[f"{name}_error"] is None for row in rows)
        assert mean[f"{name}_error"] >= 0.99 * np.std(values, ddof=1) / 2 > 0.0


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(TypeError, match="columns_of takes runs and their results; got dict"):
        columns_of({})


@pytest.mark.parametrize("field", [0.0, 0.3])
def test_lengths_in_a_field_are_of_fluctuations_and_not_averaged_over_disorder(field: float) -> None:
    model, names = bm.models.ising((4, 4), field=field), ["magnetisation", "structure_factor"]
    found, lengths = [], []
    for beta in (0.2, 0.3):
        run = bm.sample(model, beta=beta, n_chains=16, n_sweeps=200, observables=names, seed=1)
        found.append(columns_of(run))
        lengths.append(run.correlation_length().value[0] / 4)
    assert [row["xi_over_length"] for row in found] == pytest.approx(lengths)
    assert ("length" in found[0]) == (field == 0.0)
    keys = [{"model.seed": seed, "shape": n, "beta": beta} for seed in (1, 2) for n in (4, 8) for beta in (0.2, 0.3)]
    table = Table.of(keys, 4 * found)
    if not field:
        assert "xi_over_length" in table.average()
        return
    with pytest.warns(UserWarning, match="^xi_over_length is not averaged: in a field"):
        assert "xi_over_length" not in table.average()
    with pytest.raises(ValueError, match=r"^xi_over_length is not averaged: .* The mean of those of the cells is"):
        table.crossing("xi_over_length")
    mean = table.average(of={"mean": lambda xi_over_length: xi_over_length})
    assert mean["mean"] == pytest.approx(2 * lengths)
    several = bm.sample(model, beta=[0.2, 0.3], n_chains=32, n_sweeps=200, observables=names, seed=1)
    row = columns_of(several)
    assert "xi_over_length@0.2" in row and "xi_over_length" not in row
    with pytest.warns(UserWarning, match=r"^xi_over_length is not averaged: .* is long\(\"beta\"\)\.average\("):
        Table.of([{"model.seed": seed} for seed in (1, 2)], [row, row]).average()
