"""Chains that walk between a product model f_0 and a machine f = exp(-beta E), and collect their weights.

The path is f_t = f_0^(1 - t) f^t with f_0 = exp(base x), in terms of units that are up, as in
`fastbm.sampling.engine.engine`. At every step from t to t' log w rises by (t' - t) (log f(s) - log f_0(s)), constants
left out; then s is drawn anew by one sweep, which leaves f_t' unchanged. A walk down a path is the reversal, in time
too, of a walk up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ..._base.steps import tell
from ..._base.threads import fan_out
from ...machine.machine import BoltzmannMachine
from ...sampling.engine.lanes import BLOCK, Lanes, lanes_of
from ..scout.marginal import PIECE_SECONDS

GRAIN = 2.0**-30  # log-odds of the product model are multiples of it, so that sums of them do not round
FEWEST = 16  # chains of a block that is made for a thread which would have none
WORTH_A_THREAD = 1e-3  # seconds of steps, by the built-in speeds, below which threads come too late

T = TypeVar("T")
Block = tuple[np.ndarray, np.ndarray]  # log weights (width,) and states (units, width) of a block


class Walk:
    """Blocks of chains on their way. Results depend neither on the number of threads nor on how a path is cut.

    Attributes
    ----------
    log_z0 : float
        log Z of f_0, with all constants: Z = exp(log_z0) <w> over walks up, 1 / Z = exp(-log_z0) <w> over walks down.
    detail : dict
        How the walk computes.
    mine : sequence of int
        The blocks that go.
    is_exact : bool
        Whether the weights become those of the machine as the user gave it. The one in fixed point that is walked to
        has other log-odds by 1e-4 at most.
    """

    detail: dict[str, Any]
    step_seconds: float  # about what one step of one block takes
    _up: list[np.ndarray]  # states of 0 and 1, (units, width) a block
    most_chains = BLOCK  # of a block
    is_exact = True

    def __init__(
        self, model: BoltzmannMachine, beta: float, base: np.ndarray, streams: np.ndarray, threads: int
    ) -> None:
        self.model, self.beta, self.threads = model, beta, threads
        self.base = np.rint(base / GRAIN) * GRAIN
        self.n_chains = len(streams)
        self.lanes = Lanes(self.n_chains, -(-self.n_chains // self._even_blocks()))
        self.lanes.set_streams(streams)
        self.mine: Sequence[int] = range(self.n_blocks)
        self.log_z0 = float(np.logaddexp(0.0, self.base).sum())

    def _even_blocks(self) -> int:
        """Return how many blocks of equal size there are to be: as many for each thread, so that none waits."""
        least = -(-self.n_chains // self.most_chains)
        return max(least, min(lanes_of(least, self.threads), self.n_chains // FEWEST))

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return len(self.lanes.blocks)

    def keep_to(self, k: int) -> None:
        """Have block `k` alone go, as it would among all."""
        self.mine = (k,)

    def block(self, k: int) -> Block:
        """Return the log weights and the states of a block."""
        return self._log_weights()[k], self._up[k].astype(np.uint8)

    def put(self, k: int, block: Block) -> None:
        """Take what a block has come to elsewhere."""
        self._log_weights()[k][:], self._up[k][:] = block

    def begin(self) -> None:
        """Draw all chains from f_0, with weights 1."""
        raise NotImplementedError

    def load(self, up: np.ndarray) -> None:
        """Take states (n_chains, n_units) of 0 and 1, drawn from f, with weights 1."""
        raise NotImplementedError

    def follow(self, path: np.ndarray) -> None:
        """Weigh and sweep at every step of `path`, up or down."""
        size = max(1, int(PIECE_SECONDS / self.step_seconds))
        for first in range(0, len(path) - 1, size):
            tell("step", first, len(path) - 1)
            some = path[first : first + size + 1]
            self._for_blocks(partial(self._follow_block, path=some), len(some) - 1)

    def finish(self) -> None:
        """Turn the weights, at the upper end of the path, into those of the machine as the user gave it."""

    @property
    def log_w(self) -> np.ndarray:
        """The log weights so far, (n_chains,)."""
        return self.lanes.gather(self._log_weights())

    def bits(self) -> np.ndarray:
        """Return the chains' states, (n_chains, n_units) uint8."""
        return self.lanes.gather(self._up).astype(np.uint8)

    def _for_blocks(self, function: Callable[[int], T], n_steps: int = 1) -> list[T]:
        """Apply `function` to every block, on threads if the work of `n_steps` steps is worth handing over."""
        worth = n_steps * self.step_seconds * len(self.mine) >= WORTH_A_THREAD
        return fan_out(function, self.mine, self.threads if worth else 1)

    def _follow_block(self, k: int, path: np.ndarray) -> None:
        raise NotImplementedError

    def _log_weights(self) -> list[np.ndarray]:
        """Return the log weights, (width,) a block; these are no copies."""
        raise NotImplementedError
