"""Named models of physics, of optimisation and of learning, ready made."""

from .fully_connected import curie_weiss, hopfield, random_machine, sherrington_kirkpatrick
from .graphs import from_graph, random_tree
from .lattices import edwards_anderson, ising
from .problem_files import from_qubo, from_rudy
from .quadratic import from_bqm, to_bqm
from .restricted import restricted

__all__ = [
    "curie_weiss",
    "edwards_anderson",
    "from_bqm",
    "from_graph",
    "from_qubo",
    "from_rudy",
    "hopfield",
    "ising",
    "random_machine",
    "random_tree",
    "restricted",
    "sherrington_kirkpatrick",
    "to_bqm",
]
