"""A machine on any graph of networkx, or of anything that looks like one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _checks
from ..couplings import Sparse
from ..model import BoltzmannMachine


def from_graph(
    graph: Any, *, weight: str = "weight", bias: str = "bias", default: float = 1.0, units: str = "spin"
) -> BoltzmannMachine:
    """Return the machine whose couplings are the edges of a graph.

    Parameters
    ----------
    graph : networkx.Graph
        Undirected. Unit i is the i-th of ``list(graph.nodes)``: zip that list with a state to read it.
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
    default = _checks.real("default", default)
    nodes = list(graph.nodes(data=bias, default=0.0))
    if not nodes:
        raise ValueError("graph must have at least one node; got an empty graph.")
    index = {node: k for k, (node, _) in enumerate(nodes)}
    biases = np.array([_checks.real(f"{bias} of node {node!r}", value) for node, value in nodes])
    edges = list(graph.edges(data=weight, default=default))
    _refuse_loops_and_repeats(edges, index)
    values = np.array([_checks.real(f"{weight} of edge {(u, v)!r}", value) for u, v, value in edges], np.float64)
    i, j = (np.array([index[edge[end]] for edge in edges], np.int32) for end in (0, 1))
    return BoltzmannMachine(Sparse.of_pairs(len(nodes), i, j, values), biases, units=units)


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
