"""The graph that beliefs are propagated on."""

from __future__ import annotations

import numpy as np

from ..kernels.belief import reverse_slots
from ..model import BoltzmannMachine


class Graph:
    """The rows of the symmetric matrix of couplings, times beta, with the reverse of each slot and an order of units in
    which a tree is done in one sweep forth and back.
    """

    def __init__(self, spin: BoltzmannMachine, beta: float) -> None:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

        self.indptr, self.indices, values = spin.couplings.csr()
        self.couplings, self.fields = beta * values, beta * spin.flat_bias
        self.reverse = np.empty(len(values), np.int64)
        reverse_slots(self.indptr, self.indices, self.reverse)
        shape = (spin.n_units, spin.n_units)
        links = csr_array((np.ones(len(values), np.int8), self.indices, self.indptr.astype(np.int32)), shape=shape)
        self.order = reverse_cuthill_mckee(links, symmetric_mode=True).astype(np.int32)
        n_parts = connected_components(links, directed=False, return_labels=False)
        self.is_forest = len(values) // 2 == spin.n_units - n_parts

    @property
    def whole(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What kernels take."""
        return self.indptr, self.reverse, self.couplings
