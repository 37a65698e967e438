"""A machine on any graph of networkx, or of anything that looks like one; random trees, where beliefs are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base import checks
from ..machine.couplings import MOST_UNITS, Sparse
from ..machine.machine import BoltzmannMachine
from .origin import generator, named


def from_graph(
    graph: Any, *, weight: str = "weight", bias: str = "bias", default: float = 1.0, units: str = "spin"
) -> BoltzmannMachine:
    """Return the machine whose couplings are the edges of a graph.

    Parameters
    ----------
    graph : networkx.Graph
        Undirected. Unit i is the i-th of ``list(graph.nodes)``, and has this node as its name.
    weight : str
        The edge attribute that holds W_ij, in the given units.
    bias : str
        The node attribute that holds b_i; 0 where a node has none.
    default : float
        W_ij of an edge without the attribute.
    units : {"spin", "binary"}

    Returns
    -------
    BoltzmannMachine
        Sparse couplings.

    Raises
    ------
    ValueError, TypeError
        For a directed or empty graph, edges that join a node to itself, two edges between the same nodes, or an
        attribute that is not a finite number; the text names nodes.

    Examples
    --------
    >>> import networkx
    >>> import fastbm as bm
    >>> model = bm.models.from_graph(networkx.cycle_graph(4))
    >>> float(model.energy([1, 1, 1, 1]))
    -4.0
    """
    for name in ("nodes", "edges", "is_directed"):
        if not hasattr(graph, name):
            raise TypeError(f"graph must be a networkx.Graph, or like one; got {type(graph).__name__} without {name}.")
    if graph.is_directed():
        raise ValueError("graph must be undirected, as couplings are symmetric. Pass graph.to_undirected().")
    default = checks.real("default", default)
    nodes = list(graph.nodes(data=bias, default=0.0))
    if not nodes:
        raise ValueError("graph must have at least one node; got an empty graph.")
    index = {node: k for k, (node, _) in enumerate(nodes)}
    biases = np.array([checks.real(f"{bias} of node {node!r}", value) for node, value in nodes])
    edges = list(graph.edges(data=weight, default=default))
    _refuse_loops_and_repeats(edges, index)
    values = np.array([checks.real(f"{weight} of edge {(u, v)!r}", value) for u, v, value in edges], np.float64)
    i, j = (np.array([index[edge[end]] for edge in edges], np.int32) for end in (0, 1))
    names = None if list(index) == list(range(len(nodes))) else list(index)
    return BoltzmannMachine(Sparse.of_pairs(len(nodes), i, j, values), biases, units=units, names=names)


def _refuse_loops_and_repeats(edges: list[Any], index: dict[Any, int]) -> None:
    loops = [u for u, v, _ in edges if u == v]
    if loops:
        raise ValueError(
            f"graph must not join a node to itself; node {loops[0]!r} is, {len(loops)} such edges in all. A unit's "
            "pull on itself belongs to the bias (binary units) or to the offset (spins)."
        )
    seen = set()
    for u, v, _ in edges:
        pair = frozenset((index[u], index[v]))
        if pair in seen:
            raise ValueError(
                f"graph must have at most one edge between two nodes; {u!r} and {v!r} are joined by more than one. "
                "Add their weights up in a networkx.Graph."
            )
        seen.add(pair)


def random_tree(
    n: int, *, scale: float = 1.0, bias_scale: float = 0.0, units: str = "spin", seed: int | None = 0
) -> BoltzmannMachine:
    """Return a machine on a random recursive tree: every unit but the first is coupled to one of those before it.

    Parameters
    ----------
    n : int
    scale, bias_scale : float
        Couplings of the tree are drawn from N(0, scale^2), biases from N(0, bias_scale^2).
    units : {"spin", "binary"}
    seed : int or None

    Returns
    -------
    BoltzmannMachine
        Sparse couplings.

    Raises
    ------
    ValueError, TypeError
        For an argument out of range; the text names it.

    Examples
    --------
    >>> import fastbm as bm
    >>> bm.models.random_tree(1000)
    <BoltzmannMachine: 1000 spin units, 999 couplings>
    """
    n = checks.whole("n", n, least=1, most=MOST_UNITS)
    scale, bias_scale = checks.real("scale", scale, least=0.0), checks.real("bias_scale", bias_scale, least=0.0)
    draws = generator(seed)
    units_after = np.arange(1, n, dtype=np.int32)
    parents = draws.integers(0, units_after).astype(np.int32)
    couplings = Sparse.of_pairs(n, parents, units_after, draws.normal(scale=scale, size=n - 1))
    made = BoltzmannMachine(couplings, draws.normal(scale=bias_scale, size=n), units=units)
    return named(made, "random_tree", n=n, scale=scale, bias_scale=bias_scale, units=units, seed=seed)
