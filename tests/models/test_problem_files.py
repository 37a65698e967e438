"""Machines out of graphs, rudy files and quadratic problems, against brute force; and what they refuse."""

from __future__ import annotations

import math

import networkx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings, strategies as st

import fastbm as bm
from fastbm import models
from tests.twins import reference

FEW = settings(derandomize=True, max_examples=40, deadline=None)
GRAPH = "# a comment\n5 6\n\n1 2 1\n2 3 -2.5\nc and another\n3 4\n1\t4 1e-1\n% a third\n2 4 3\n5 1 0\n"
EDGES = {(0, 1): 1.0, (1, 2): -2.5, (2, 3): 1.0, (0, 3): 0.1, (1, 3): 3.0, (0, 4): 0.0}


def rudy(tmp_path, text: str = GRAPH, **options) -> bm.BoltzmannMachine:
    (tmp_path / "graph.txt").write_text(text)
    return models.from_rudy(tmp_path / "graph.txt", **options)


# Files


@pytest.mark.parametrize("units", ["spin", "binary"])
def test_rudy_couplings_are_the_weights_of_the_edges(tmp_path, units):
    model = rudy(tmp_path, units=units)
    assert (model.n_units, model.units, model.couplings.kind) == (5, units, "sparse")
    states = np.array(reference.all_states(5, units))
    for state, energy in zip(states, model.energy(states), strict=True):
        s = np.where(state == 1, 1, -1)
        assert energy == pytest.approx(-sum(w * s[i] * s[j] for (i, j), w in EDGES.items()), abs=1e-12)


@pytest.mark.parametrize("units", ["spin", "binary"])
def test_the_energy_of_a_maximum_cut_is_minus_the_cut(tmp_path, units):
    model = rudy(tmp_path, problem="max-cut", units=units)
    states = np.array(reference.all_states(5, units))
    cuts = [sum(w for (i, j), w in EDGES.items() if state[i] != state[j]) for state in states]
    np.testing.assert_allclose(model.energy(states), np.negative(cuts), atol=1e-12)
    assert model.origin == {
        "name": "from_rudy", "path": str(tmp_path / "graph.txt"), "problem": "max-cut", "units": units,
    }  # fmt: skip


def test_a_graph_without_edges_is_a_graph(tmp_path):
    model = rudy(tmp_path, "3 0\n", problem="max-cut")
    assert (model.n_units, model.couplings.n_edges, model.offset) == (3, 0, 0.0)


BAD_FILES = {
    "empty": ("", ["holds no graph"]),
    "comments alone": ("# nothing\n\n", ["holds no graph"]),
    "one number": ("5\n1 2 1\n", ["line 1", "numbers of vertices and edges", "'5'"]),
    "dimacs": ("c x\np edge 3 1\ne 1 2\n", ["line 2", "numbers of vertices and edges", "'p edge 3 1'"]),
    "fractional size": ("2.5 1\n1 2 1\n", ["line 1", "whole numbers", "'2.5'"]),
    "no vertices": ("0 0\n", ["line 1", "0", "at least 1"]),
    "negative number of edges": ("3 -1\n", ["line 1", "-1"]),
    "truncated": ("3 3\n1 2 1\n2 3 1\n", ["announces 3 edges", "after 2", "line 3", "truncated"]),
    "header alone": ("3 3\n", ["announces 3 edges", "after 0", "line 1"]),
    "labels": ("3000000000 1\n1 2 1\n", ["at most 2147483647 units", "32 bits", "3000000000"]),
    "gaps": ("2000000 1\n1 2 1\n", ["1 edges for 2000000 variables", "Number the variables from 1 without gaps"]),
    "more edges": ("3 1\n1 2 1\n\n2 3 1\n", ["line 4", "more than the 1", "'2 3 1'"]),
    "self-loop": ("3 2\n1 2 1\n3 3 1\n", ["line 3", "vertex 3 to itself", "`from_qubo` reads these"]),
    "duplicate": ("3 3\n1 2 1\n2 3 1\n2 1 4\n", ["line 4", "repeats the edge 1 2 of line 2"]),
    "counted from zero": ("3 1\n0 1 1\n", ["line 2", "0", "counted from 1"]),
    "beyond": ("3 1\n1 4 1\n", ["line 2", "vertex 4", "3 vertices"]),
    "word for a vertex": ("3 1\n1 b 1\n", ["line 2", "whole numbers", "'b'"]),
    "underscore": ("30 1\n1 1_0 1\n", ["line 2", "1"]),
    "word for a weight": ("3 1\n1 2 x\n", ["line 2", "finite number", "'x'"]),
    "nan": ("3 1\n1 2 nan\n", ["line 2", "finite number", "'nan'"]),
    "one vertex": ("3 1\n1\n", ["line 2", "an edge, i j w", "'1'"]),
    "too many words": ("3 1\n1 2 3 4\n", ["line 2", "an edge, i j w"]),
    "bytes": ("\x00\x01\x02 \x03\n", ["line 1", "whole numbers"]),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused_by_line(tmp_path, case):
    text, fragments = BAD_FILES[case]
    with pytest.raises(ValueError) as caught:
        rudy(tmp_path, text)
    assert not [part for part in ["graph.txt", *fragments] if part not in str(caught.value)], str(caught.value)


def test_other_bad_arguments_of_from_rudy_are_refused(tmp_path):
    with pytest.raises(bm.StorageError, match="is a folder, not a file"):
        models.from_rudy(tmp_path)
    with pytest.raises(bm.StorageError, match=r"nowhere\.txt does not exist"):
        models.from_rudy(tmp_path / "nowhere.txt")
    with pytest.raises(ValueError, match=r"problem must be one of 'couplings', 'max-cut'; got 'maxcut'.*max-cut"):
        rudy(tmp_path, problem="maxcut")
    with pytest.raises(ValueError, match="units must be one of"):
        rudy(tmp_path, units="bits")


def test_toml_files_name_glasses_and_graphs(tmp_path, monkeypatch):
    from fastbm.runs.toml import machines

    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.txt").write_text(GRAPH)
    found = machines.one_model({"name": "from_rudy", "path": "graph.txt", "problem": "max-cut"})
    assert (found.n_units, found.offset) == (5, pytest.approx(-1.3))
    glass = machines.one_model({"name": "edwards_anderson", "shape": [3, 3], "distribution": "gaussian", "seed": 4})
    expected = models.edwards_anderson((3, 3), distribution="gaussian", seed=4)
    assert np.array_equal(glass.couplings.arrays[0], expected.couplings.arrays[0])
    with pytest.raises(ValueError, match=r"model\.path = 3"):
        machines.one_model({"name": "from_rudy", "path": 3})
    with pytest.raises(ValueError, match="needs path"):
        machines.one_model({"name": "from_rudy"})


# Quadratic problems

FORMS = {
    "array": lambda q: q,
    "list": lambda q: q.tolist(),
    "csr": scipy.sparse.csr_array,
    "coo": scipy.sparse.coo_matrix,
    "dict of SciPy": scipy.sparse.dok_array,
    "dict": lambda q: {(int(i), int(j)): float(q[i, j]) for i, j in np.ndindex(q.shape)},
}


@FEW
@given(st.sampled_from(sorted(FORMS)), st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(0, 1))
def test_the_energy_of_a_qubo_is_its_value(form, seed, n, density):
    generator = np.random.default_rng(seed)
    q = np.where(generator.random((n, n)) < density, generator.normal(size=(n, n)), 0.0)
    model = models.from_qubo(FORMS[form](q), offset=0.25)
    assert (model.units, model.n_units) == ("binary", n)
    assert model.couplings.kind == ("dense" if form in ("array", "list") else "sparse")
    states = np.array(reference.all_states(n, "binary"))
    expected = [0.25 + sum(q[i, j] * x[i] * x[j] for i in range(n) for j in range(n)) for x in states]
    np.testing.assert_allclose(model.energy(states), expected, atol=1e-12)


def test_a_dict_names_as_many_units_as_its_largest_index_asks_for():
    model = models.from_qubo({(0, 3): 2.0, (3, 0): 1.0, (np.int64(1), 1): -1})
    assert model.n_units == 4
    assert model.couplings.edges.tolist() == [[0, 3]]
    assert model.couplings.arrays[0].tolist() == [-3.0]
    assert model.bias.tolist() == [0, 1, 0, 0]


QUBO_FILE = "# of the Biq Mac library\n3 4\n1 1 -5\n1 2 2\n3 2 -1.5\n3 3 4\n"


def test_a_file_of_a_qubo_tells_one_triangle_of_a_symmetric_matrix(tmp_path):
    (tmp_path / "q.sparse").write_text(QUBO_FILE)
    q = np.array([[-5.0, 2.0, 0.0], [2.0, 0.0, -1.5], [0.0, -1.5, 4.0]])
    states = np.array(reference.all_states(3, "binary"))
    for path in (tmp_path / "q.sparse", str(tmp_path / "q.sparse")):
        model = models.from_qubo(path, offset=0.5)
        assert (model.units, model.couplings.kind) == ("binary", "sparse")
        np.testing.assert_allclose(model.energy(states), [x @ q @ x + 0.5 for x in states], atol=1e-12)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no problem: no line has the numbers of variables and entries"),
        ("3 1\n1 2\n", "line 2 must hold an entry, i j q; got '1 2'"),
        ("2 2\n1 2 1\n2 1 1\n", "line 3 repeats the entry 1 2 of line 2"),
        ("2 1\n1 3 1\n", "line 2 names variable 3; the file announces 2 variables"),
        ("2 2\n1 1 1\n", r"announces 2 entries, but ends after 1 \(line 2\)"),
    ],
)
def test_bad_files_of_qubos_are_refused_by_line(text, why, tmp_path):
    (tmp_path / "q.sparse").write_text(text)
    with pytest.raises(ValueError, match=why):
        models.from_qubo(tmp_path / "q.sparse")
    with pytest.raises(bm.StorageError, match="does not exist"):
        models.from_qubo(tmp_path / "other.sparse")


@pytest.mark.parametrize("form", ["dict", "sparse"])
def test_labels_in_place_of_indices_are_refused(form):
    n = 10**9 + 1
    problem = {(n - 1, 0): 1.0} if form == "dict" else scipy.sparse.coo_array(([1.0], ([n - 1], [0])), shape=(n, n))
    with pytest.raises(ValueError, match=r"1 entries for 1000000001 variables.*Number the variables from 0 without"):
        models.from_qubo(problem)
    assert models.from_qubo({(999_999, 0): 1.0}).n_units == 10**6


def test_duplicate_entries_of_a_sparse_qubo_add_up():
    q = scipy.sparse.coo_array(([1.0, 2.0, 4.0, 8.0], ([0, 0, 1, 1], [0, 0, 0, 0])), shape=(2, 2))
    assert models.from_qubo(q).energy([[1, 0], [1, 1]]).tolist() == [3.0, 15.0]


BAD_PROBLEMS = {
    "not square": (np.ones((2, 3)), ValueError, ["Q must be a square matrix", "(2, 3)"]),
    "sparse, not square": (scipy.sparse.csr_array((2, 3)), ValueError, ["square", "(2, 3)"]),
    "flat": ([1.0, 2.0], ValueError, ["square", "(2,)"]),
    "ragged": ([[1.0], [1.0, 2.0]], ValueError, ["Q must be an array with rows of equal length"]),
    "nothing": (np.empty((0, 0)), ValueError, ["at least one variable"]),
    "no entries": ({}, ValueError, ["at least one entry"]),
    "nan": ([[math.nan]], ValueError, ["Q must be finite", "(0, 0)"]),
    "sparse nan": (scipy.sparse.csr_array([[math.nan]]), ValueError, ["Q must be finite"]),
    "nan in a dict": ({(0, 1): math.nan}, ValueError, ["Q[(0, 1)] must be finite"]),
    "text": ({(0, 1): "x"}, TypeError, ["Q[(0, 1)] must be a number"]),
    "names": ({("a", "b"): 1.0}, TypeError, ["index of Q in ('a', 'b')", "whole number"]),
    "one index": ({0: 1.0}, TypeError, ["keys (i, j)", "0"]),
    "negative index": ({(0, -1): 1.0}, ValueError, ["index of Q", "at least 0", "-1"]),
}


@pytest.mark.parametrize("case", BAD_PROBLEMS)
def test_bad_problems_are_refused(case):
    problem, error, fragments = BAD_PROBLEMS[case]
    with pytest.raises(error) as caught:
        models.from_qubo(problem)
    assert not [part for part in fragments if part not in str(caught.value)], str(caught.value)


# Graphs


@FEW
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from(["spin", "binary"]))
def test_a_graph_gives_its_edges_and_its_nodes(seed, n, units):
    generator = np.random.default_rng(seed)
    names = [f"node {k}" for k in generator.permutation(n)]
    graph = networkx.Graph()
    for name in names:
        graph.add_node(name, **({"bias": float(generator.normal())} if generator.random() < 0.5 else {}))
    for i in range(n):
        for j in range(i):
            if generator.random() < 0.5:
                graph.add_edge(names[i], names[j], weight=float(generator.normal()))
    model = models.from_graph(graph, units=units)
    assert (model.units, list(graph.nodes)) == (units, names)
    assert np.array_equal(model.weights.toarray(), networkx.to_numpy_array(graph, nodelist=names))
    assert model.bias.tolist() == [graph.nodes[name].get("bias", 0.0) for name in names]


def test_attributes_have_other_names_and_defaults():
    graph = networkx.Graph([("a", "b", {"J": 2.0}), ("b", "c", {})])
    graph.nodes["c"]["h"] = -1
    model = models.from_graph(graph, weight="J", bias="h", default=0.5)
    assert model.couplings.matrix().tolist() == [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]]
    assert model.bias.tolist() == [0, 0, -1]


def test_a_multigraph_of_single_edges_and_a_graph_without_edges_are_taken():
    assert models.from_graph(networkx.MultiGraph([(0, 1), (1, 2)])).couplings.n_edges == 2
    assert models.from_graph(networkx.empty_graph(3)).n_units == 3


BAD_GRAPHS = {
    "directed": (networkx.DiGraph([(0, 1)]), ValueError, ["undirected", "to_undirected()"]),
    "repeated": (networkx.MultiGraph([("a", "b"), ("b", "a")]), ValueError, ["at most one edge", "'a'", "'b'"]),
    "loops": (networkx.Graph([(0, 1), (2, 2), (1, 1)]), ValueError, ["itself", "2 such edges"]),
    "empty": (networkx.Graph(), ValueError, ["at least one node"]),
    "no graph": ([(0, 1)], TypeError, ["networkx.Graph", "list without nodes"]),
    "weight": (networkx.Graph([("a", "b", {"weight": "x"})]), TypeError, ["weight of edge ('a', 'b')", "'x'"]),
    "weight none": (networkx.Graph([("a", "b", {"weight": None})]), TypeError, ["weight of edge ('a', 'b')"]),
    "infinite weight": (networkx.Graph([(0, 1, {"weight": math.inf})]), ValueError, ["weight of edge (0, 1)"]),
}


@pytest.mark.parametrize("case", BAD_GRAPHS)
def test_bad_graphs_are_refused(case):
    graph, error, fragments = BAD_GRAPHS[case]
    with pytest.raises(error) as caught:
        models.from_graph(graph)
    assert not [part for part in fragments if part not in str(caught.value)], str(caught.value)


def test_bad_biases_and_defaults_are_refused():
    graph = networkx.path_graph(2)
    graph.nodes[1]["bias"] = math.nan
    with pytest.raises(ValueError, match="bias of node 1 must be finite"):
        models.from_graph(graph)
    with pytest.raises(TypeError, match="default must be a number"):
        models.from_graph(networkx.path_graph(2), default="one")
