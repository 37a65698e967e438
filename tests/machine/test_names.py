"""Names of units: where they come from, where they go, and which are refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.machine.file import names_from_bytes
from tests.support.machines import calm

WEIGHTS = (
    np.triu(np.random.default_rng(1).normal(size=(4, 4)), 1)
    + np.triu(np.random.default_rng(1).normal(size=(4, 4)), 1).T
)
NAMES = ("V1 left", ("r", (0,)), 7, "Ünit ☃")
NAMED = bm.BoltzmannMachine(WEIGHTS, names=NAMES)


def test_names_go_where_a_machine_goes(tmp_path: Path) -> None:
    NAMED.save(tmp_path / "machine.h5")
    run = bm.sample(NAMED, n_sweeps=20, n_chains=2, out=tmp_path / "run.h5")
    for machine in (
        bm.load(tmp_path / "machine.h5"), run.model, bm.open(tmp_path / "run.h5").model, NAMED.to_units("binary"),
        NAMED.with_base_rates(np.full(4, 0.5)),
    ):  # fmt: skip
        assert machine.names == NAMES
    assert NAMED.name_of(2) == "7" and NAMED.with_names(None).name_of(2) == "2"
    assert NAMED.condition([1], [1]).names == ("V1 left", 7, "Ünit ☃")
    assert bm.models.ising((2, 2)).names is None
    assert bm.BoltzmannMachine(WEIGHTS, n_hidden=2, names=["a", "b"]).names == ("a", "b", "hidden 0", "hidden 1")
    assert bm.infer(NAMED, "exact").log_z == bm.infer(NAMED.with_names(None), "exact").log_z
    assert NAMED.fingerprint == NAMED.with_names(None).fingerprint


def test_columns_of_a_table_name_visible_units(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(np.random.default_rng(1).integers(0, 2, (60, 3)), columns=["a", "b", "c"])
    run = bm.fit(table, "exact", n_hidden=1, epochs=3, out=tmp_path / "run.h5")
    assert run.model.names == bm.open(tmp_path / "run.h5").model.names == ("a", "b", "c", "hidden 0")
    assert np.array_equal(run.model.weights, bm.fit(table.to_numpy(), "exact", n_hidden=1, epochs=3).model.weights)
    assert bm.fit(table.to_numpy(), "exact", epochs=3).model.names is None
    assert bm.fit(table, "exact", init=run.model, epochs=3).model.names == run.model.names
    with pytest.raises(ValueError, match=r"column 0 is 'b', and unit 0 of init 'a'. Put the columns into the order"):
        bm.fit(table[["b", "a", "c"]], "exact", init=run.model, epochs=3)
    with pytest.raises(ValueError, match=r"holdout has .* than data: column 0 is 'b', and unit 0 of data 'a'"):
        bm.fit(table, "exact", epochs=3, holdout=table[["b", "a", "c"]])
    labels = np.arange(60) % 2
    bm.BoltzmannClassifier().fit(table, labels).save(tmp_path / "classifier.h5")
    with pytest.raises(ValueError, match=r"data has .* than the training rows: column 0 is 'b', and unit 0 of"):
        bm.BoltzmannClassifier.load(tmp_path / "classifier.h5").error(table[["b", "a", "c"]], labels)
    deep = table.set_axis(pandas.MultiIndex.from_tuples([("a", np.int64(k)) for k in range(3)]), axis=1)
    run = bm.fit(deep, "exact", epochs=3, out=tmp_path / "deep.h5")
    assert bm.open(tmp_path / "deep.h5").model.names == (("a", 0), ("a", 1), ("a", 2))
    bm.log_likelihood(run.model, deep)


@pytest.mark.parametrize(
    "use",
    [
        bm.log_likelihood, bm.pseudo_likelihood, bm.fidelity, bm.pattern_frequencies, bm.transform, bm.reconstruct,
        bm.complete, bm.BoltzmannMachine.free_energy, lambda model, data: bm.smoothed_rates(data, model),
    ],
)  # fmt: skip
def test_tables_of_other_columns_are_refused(use: Callable[..., Any]) -> None:
    pandas = pytest.importorskip("pandas")
    model = bm.BoltzmannMachine([WEIGHTS[:3, :1]], units="binary", names=["a", "b", "c"])
    table = pandas.DataFrame(np.random.default_rng(1).integers(0, 2, (60, 3)), columns=["a", "b", "c"])
    use(model, table)
    with pytest.raises(ValueError, match=r"(data|rows|visible) has .* than model: column 0 is 'c', and unit 0 of"):
        use(model, table[["c", "b", "a"]])
    numbered, unnamed = model.with_names([2, 1, 0]), model.with_names(None)
    use(numbered, table.set_axis([2, 1, 0], axis=1))
    use(unnamed, table.set_axis([0, 1, 2], axis=1))
    for other, columns in ((numbered, [0, 1, 2]), (unnamed, [2, 1, 0]), (unnamed, ["0", "2", "1"])):
        with pytest.raises(ValueError, match="has the columns of other units than model: column"):
            use(other, table.set_axis(columns, axis=1))
    for names in (
        [0, 1, 2],
        ["1", "2", "3"],
        ["column_0", "column_1", "column_2"],
        pandas.date_range("2026", periods=3),
    ):
        use(model, table.set_axis(names, axis=1))


class Arrow(np.ndarray):
    """A table whose names and numbers are called as pyarrow's are."""

    column_names = ("c", "b", "a")

    @property
    def columns(self) -> list[np.ndarray]:
        return list(np.asarray(self).T)


def test_tables_of_arrow_have_names() -> None:
    table = np.random.default_rng(1).integers(0, 2, (60, 3)).view(Arrow)
    run = bm.fit(table, "exact", epochs=3)
    assert run.model.names == ("c", "b", "a")
    with pytest.raises(ValueError, match="column 0 is 'c', and unit 0 of model 'a'"):
        bm.log_likelihood(run.model.with_names(["a", "b", "c"]), table)


def test_labels_of_other_models_are_kept() -> None:
    networkx, dimod = pytest.importorskip("networkx"), pytest.importorskip("dimod")
    graph = networkx.Graph([("x", "y"), ("y", (1, 2))])
    assert bm.models.from_graph(graph).names == ("x", "y", (1, 2))
    assert bm.models.from_graph(networkx.cycle_graph(4)).names is None
    bqm = dimod.BinaryQuadraticModel({"a": 0.5}, {("a", "b"): -1.0}, 2.0, "SPIN")
    model = bm.models.from_bqm(bqm)
    assert model.names == ("a", "b")
    assert bm.models.to_bqm(model) == bqm
    assert list(bm.models.to_bqm(model, labels=["p", "q"]).variables) == ["p", "q"]


def test_names_stand_in_warnings_tables_and_pictures() -> None:
    rows = np.random.default_rng(1).integers(0, 2, (60, 3))
    rows[:, 1] = 1
    with pytest.warns(UserWarning, match="unit quiet is always on"):
        bm.fit(
            rows,
            "exact",
            epochs=2,
            init=bm.BoltzmannMachine(np.zeros((3, 3)), units="binary", names=["a", "quiet", "c"]),
        )
    two = bm.BoltzmannMachine([[0.0, 9.0], [9.0, 0.0]], [0.1, 0.1], names=["left", "right"])
    run = calm(bm.sample, two, n_chains=4, n_sweeps=200, seed=1, initial=[[1, 1], [-1, -1]] * 2)
    assert any("unit left" in name or "unit right" in name for name in run.verdicts)
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = bm.plots.coupling_matrix(NAMED, ax=figure.subplots())
    assert [text.get_text() for text in axes.get_yticklabels()] == [str(name) for name in NAMES]
    pytest.importorskip("xarray")
    assert run.to_xarray()["samples"]["unit"].values.tolist() == ["left", "right"]


@pytest.mark.parametrize(
    ("error", "names", "text"),
    [
        (ValueError, ["a", "b", "c"], "names must name the 4 units; got 3 names"),
        (ValueError, ["a", "b", "a", "c"], "'a' is there twice"),
        (ValueError, [1.5, "1.5", "b", "c"], "names .* 1.5 and '1.5' are alike as '1.5'"),
        (TypeError, "abcd", "names must be a list of names of units; got 'abcd'"),
        (TypeError, 4, "names must be a list"),
        (TypeError, np.array("a"), "names must be a list"),
        (TypeError, [["a"], "b", "c", "d"], "hashable"),
    ],
)
def test_bad_names_are_refused(error: type[Exception], names: Any, text: str) -> None:
    for act in (lambda: bm.BoltzmannMachine(WEIGHTS, names=names), lambda: NAMED.with_names(names)):
        with pytest.raises(error, match=text):
            act()


def test_a_name_that_a_hidden_unit_gets_is_said_to_be_that() -> None:
    with pytest.raises(ValueError, match="'hidden 0' is what hidden unit 0 is called"):
        bm.BoltzmannMachine([np.ones((2, 1))]).with_names(["hidden 0", "x"])


def test_copies_of_a_run_in_memory_keep_names_that_are_no_texts() -> None:
    named = NAMED.with_names([("a", 0), 1.5, None, "d"])
    run = bm.sample(named, n_chains=2, n_sweeps=4)
    assert pickle.loads(pickle.dumps(run)).model.names == copy.copy(run).model.names == named.names


def test_names_of_a_file_are_checked() -> None:
    for data in ('["a"]', '[[1.5], "b"]', '{"a": 1}', "[1,", '[true, "b"]', "\xff"):
        with pytest.raises(ValueError):
            names_from_bytes(np.frombuffer(data.encode("latin-1"), np.uint8), 2)
    with pytest.raises(ValueError, match="bytes of a text"):
        names_from_bytes(np.zeros(3), 3)


def test_a_zero_character_is_refused() -> None:
    with pytest.raises(ValueError, match="names must not hold a zero character"):
        bm.BoltzmannMachine(np.zeros((2, 2)), names=["a\0b", "c"])
