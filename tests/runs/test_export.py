"""Runs as trees of xarray's and tables of pandas': every kind, names of axes, and states that stay packed."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base.versions import package_version
from tests.support import runs

pandas = pytest.importorskip("pandas")
xarray = pytest.importorskip("xarray")


def ladder(out: Path | None = None) -> bm.Run:
    options: dict[str, Any] = {"n_betas": 3, "n_chains": 8, "n_sweeps": 300, "seed": 3, "out": out}
    names = ["magnetisation", "overlap"]
    return bm.sample(bm.models.curie_weiss(6), "tempering", beta=0.8, observables=names, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("in_file", [True, False])
def test_a_ladder(in_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ladder(tmp_path / "run.h5" if in_file else None)
    read: list[tuple[int, int]] = []
    packed = type(run._reader).read

    def reading(reader: Any, name: str, *span: Any) -> np.ndarray:
        if name == "samples/states":
            read.append(span)
        return packed(reader, name, *span)

    monkeypatch.setattr(type(run._reader), "read", reading)
    tree = run.to_xarray()
    assert tree.attrs["kind"] == "sample" and tree.attrs["fastbm_version"] == package_version("fastbm")
    assert tree["samples"]["energy"].dims == ("draw", "chain")
    assert tree["samples"]["states"].dims == ("draw", "chain", "unit")
    assert tree["observables"]["overlap"].dims == ("draw", "pair")
    assert tree["tempering"]["energy"].dims == ("draw", "chain", "beta")
    assert tree["tempering"]["accepted"].dims == ("draw", "gap")
    np.testing.assert_array_equal(tree["tempering"]["beta"], run.betas)
    np.testing.assert_array_equal(tree["samples"]["beta"], run.beta)
    np.testing.assert_array_equal(tree["samples"]["sweep"], run.sweep)
    if in_file:
        assert not read  # nothing of them is read yet
        some = tree["samples"]["states"].isel(draw=slice(10, 14), chain=2)
        np.testing.assert_array_equal(some, np.asarray(run.states)[10:14, 2])
        assert (10, 14, 1) in read
    np.testing.assert_array_equal(tree["samples"]["states"], run.states)
    np.testing.assert_array_equal(tree["samples"]["states"][5, 3, [1, 2]], np.asarray(run.states)[5, 3, [1, 2]])


@pytest.mark.filterwarnings("ignore")
def test_runs_of_other_kinds(tmp_path: Path) -> None:
    fitted, annealed = runs.fit(), bm.sample(bm.models.curie_weiss(4), "annealing", n_sweeps=10, n_chains=3)
    compared = bm.compare({"m": bm.models.curie_weiss(4)}, ["exact", "tap"], out=tmp_path / "compare.h5")
    rules = {"planted": bm.models.curie_weiss(4)}, ["naive-mean-field"]
    ruled = bm.compare_rules(*rules, n_rows=[100], out=tmp_path / "rules.h5")
    for run in (fitted, annealed, bm.open(tmp_path / "compare.h5"), bm.open(tmp_path / "rules.h5")):
        tree, told = run.to_xarray(), 0
        for name in run.streams:
            values = tree[name.rpartition("/")[0]][name.rpartition("/")[2]].values
            found = run.states if name == "samples/states" else run.read(name)
            np.testing.assert_array_equal(values, found)
            told += 1
        assert told
    np.testing.assert_array_equal(fitted.to_xarray()["weights"]["epoch"], fitted.weights["epoch"])
    assert compared.to_dataframe().method.tolist() == ["exact", "tap"]
    assert bm.open(tmp_path / "compare.h5").to_dataframe().equals(compared.to_dataframe())
    assert ruled.to_dataframe().rule.tolist() == bm.open(tmp_path / "rules.h5").to_dataframe().rule.tolist()


@pytest.mark.filterwarnings("ignore")
def test_tables() -> None:
    run, fitted = ladder(), runs.fit()
    table = run.to_dataframe()
    assert table.index.name == "beta" and table.index.tolist() == run.betas.tolist()
    rows = run.thermodynamics()
    assert table["specific_heat"].tolist() == [row.specific_heat.value for row in rows]
    assert table["binder_cumulant_error"].tolist()[-1] == rows[-1].binder_cumulant.error
    np.testing.assert_array_equal(rows.energy, [row.energy.value for row in rows])
    np.testing.assert_array_equal(rows.binder_cumulant_error, table["binder_cumulant_error"])
    np.testing.assert_array_equal(rows.beta, run.betas)
    with pytest.raises(AttributeError, match="there is no heat; columns are beta, energy, specific_heat"):
        _ = rows.heat
    assert np.isfinite(table["binder_cumulant"]).all()
    table = fitted.to_dataframe()
    assert table.index.name == "epoch" and table.index.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(table["pseudo_likelihood"], fitted.metrics["pseudo_likelihood"])
    annealed = bm.sample(bm.models.curie_weiss(4), "annealing", n_sweeps=10, n_chains=3)
    table, energies = annealed.to_dataframe(), annealed.read("annealing/energy")
    assert table.index.tolist() == annealed.read("annealing/beta").tolist()
    np.testing.assert_array_equal(table[["energy", "lowest_energy"]].T, [energies.mean(axis=1), energies.min(axis=1)])
    population = bm.sample(bm.models.curie_weiss(4), "population-annealing", n_chains=200)
    np.testing.assert_array_equal(population.to_dataframe()["log_z"], population.read("population/log_z"))


def test_arviz_takes_it() -> None:
    stats = pytest.importorskip("arviz_stats", reason='needs "arviz-stats[xarray]"')
    pytest.importorskip("arviz_base")
    run = bm.sample(bm.models.curie_weiss(6), n_chains=4, n_sweeps=200, observables=["magnetisation"])
    for group, name, values in (("samples", "energy", run.energy), ("observables", "magnetisation", run.magnetisation)):
        row = stats.summary(run.to_xarray(), group=group, var_names=[name], round_to="none").loc[name]
        assert row["r_hat"] == pytest.approx(float(bm.diagnostics.r_hat(values)), rel=1e-6)
        assert row["mean"] == pytest.approx(float(values.mean()), abs=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_files_show_their_axes_without_fastbm(tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    warnings.simplefilter("error")  # xarray warns of axes without names
    ladder(tmp_path / "ladder.h5")
    runs.fit(tmp_path / "fit.h5")
    with xarray.open_datatree(tmp_path / "ladder.h5", engine="h5netcdf") as tree:
        assert tree["tempering"]["energy"].dims == ("draw", "chain", "beta")
        assert tree["samples"]["states"].dims == ("draw", "chain", "unit_byte")
        np.testing.assert_array_equal(tree["tempering"]["beta"], bm.open(tmp_path / "ladder.h5").betas)
        assert tree["tempering"]["energy"].attrs["long_name"] == "energy"
        assert tree["ladder"]["overlap"].attrs["long_name"] == "overlap of chains 2k and 2k + 1"
    with xarray.open_datatree(tmp_path / "fit.h5", engine="h5netcdf") as tree:
        assert tree["weights"]["weights"].dims == ("epoch", "visible", "hidden")
        assert tree["weights"].indexes["epoch"].tolist() == bm.open(tmp_path / "fit.h5").weights["epoch"].tolist()


def test_observables_with_names_of_axes_and_square_machines(tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    names = {"chain": "magnetisation", "draw": lambda states: states.sum(axis=1), "pair": "overlap"}
    model, options = bm.models.curie_weiss(4), {"n_chains": 6, "n_sweeps": 5, "observables": names}
    for run in (bm.sample(model, **options), bm.sample(model, out=tmp_path / "run.h5", **options)):
        tree = run.to_xarray()["observables"]
        assert tree["chain"].dims == tree["draw"].dims == ("draw.axis", "chain.axis")
        assert tree["pair"].dims == ("draw.axis", "pair.axis")
    with xarray.open_datatree(tmp_path / "run.h5", engine="h5netcdf") as tree:
        np.testing.assert_array_equal(tree["observables"]["chain"], run.observables["chain"])
    rows = np.random.default_rng(1).integers(0, 2, (20, 4))
    tree = bm.fit(rows, n_hidden=4, epochs=2, evaluate="none").to_xarray()["weights"]
    assert tree["weights"].dims == ("epoch", "visible", "hidden") and tree["bias"].dims == ("epoch", "unit")
    assert bm.fit(rows, "exact").to_xarray()["weights"]["weights"].dims == ("epoch", "unit", "other_unit")


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    run = runs.fit()
    for name, call in (("xarray", run.to_xarray), ("pandas", run.to_dataframe)):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, name, None)
            with pytest.raises(ImportError, match=r'pip install "fastbm\[xarray\]"'):
                call()
