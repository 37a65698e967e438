"""The way of chains along a path, up it or down, gone here or by the workers of an executor.

Chains go in blocks, each of them on its own, so that a block is a piece: log weights and states come back to the lanes
that they would have had here.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from ..._base.threads import single_threaded_blas
from ..._base.workers import Pieces, leaving
from ...machine.machine import BoltzmannMachine
from .walk import Block, Walk
from .walks import make_walk


@dataclass(frozen=True)
class Way:
    """The way of chains between the product model with log-odds `base` and a machine.

    Attributes
    ----------
    walk : str
        As for `make_walk`.
    path : (n_betas,) array
        In the order in which it is gone.
    streams : (n_chains, 4) array
    starts : (n_chains, n_units) array, optional
        States of the machine that the way down begins at; without them it begins at the product model.
    """

    model: BoltzmannMachine
    beta: float
    base: np.ndarray
    walk: str
    path: np.ndarray
    streams: np.ndarray
    starts: np.ndarray | None = None

    def chains(self, threads: int) -> Walk:
        """Return the chains before they go."""
        return make_walk(self.model, self.beta, self.base, self.streams, threads, self.walk)

    def go(self, chains: Walk) -> None:
        """Let chains go the whole way."""
        if self.starts is None:
            chains.begin()
        else:
            chains.load(self.starts)
        chains.follow(self.path)
        if self.starts is None:
            chains.finish()

    def gone(self, threads: int, executor: Executor | None = None) -> Walk:
        """Return the chains at the end of the way."""
        chains = self.chains(threads if executor is None else 1)
        if executor is None:
            self.go(chains)
            return chains
        pieces = Pieces(executor, go_block, self, chains.n_blocks)
        for k in range(chains.n_blocks):
            chains.put(k, pieces.take())
        return chains


def go_block(way: Way, k: int) -> Block:
    """Let one block of the chains go, where it has been sent to."""
    chains = way.chains(1)
    chains.keep_to(k)
    with leaving(), single_threaded_blas():
        way.go(chains)
    return chains.block(k)
