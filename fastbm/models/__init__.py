"""Named models of physics, of optimisation and of learning, ready made."""

from .files import from_qubo, from_rudy
from .graphs import from_graph
from .lattices import edwards_anderson, ising
from .mean_field import curie_weiss, hopfield, random_machine, sherrington_kirkpatrick
from .restricted import restricted
from .trees import random_tree

__all__ = [
    "curie_weiss",
    "edwards_anderson",
    "from_graph",
    "from_qubo",
    "from_rudy",
    "hopfield",
    "ising",
    "random_machine",
    "random_tree",
    "restricted",
    "sherrington_kirkpatrick",
]
