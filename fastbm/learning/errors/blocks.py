"""Rows that stay together when errors are found: contiguous blocks, or whole trials.

Neighbours in time depend on one another, and blocks of them on others hardly.
Künsch, Ann. Stat. 17, 1217 (1989), doi:10.1214/aos/1176347265; whole groups: Davison and Hinkley, Bootstrap Methods and
their Application (1997), section 3.8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base import checks, rng
from ...data.rows import Rows
from ...diagnostics.jackknife import LONG, SHORT
from .slowest import INDEPENDENT, tau_of

FEWEST_BLOCKS = 20
MOST_TAU = 1.0  # of rows that pass for independent: errors of the slowest are then sqrt(2) times what is said
MOST_BLOCKS = 200  # of which each is left out in turn


@dataclass(frozen=True)
class Together:
    """How rows stay together.

    Attributes
    ----------
    n_rows : int
    block : int
        Rows of a block; 0 where trials stay together.
    ends : (n_trials,) int64 array or None
        Ends of the trials.
    """

    n_rows: int
    block: int
    ends: np.ndarray | None = None

    @classmethod
    def of(cls, block: Any, trials: Any, rows: Rows) -> Together:
        """Check `block` and `trials`, as `bm.fidelity` takes them; "auto" finds a block, trials go before it.

        Raises
        ------
        ValueError
            For blocks or trials of which there are fewer than 20, or trials that are not contiguous.
        """
        if trials is None:
            size = "auto" if isinstance(block, str) and block == "auto" else checks.whole("block", block, least=1)
            return cls(len(rows), block_of(size, rows))
        if block not in ("auto", 1):
            raise ValueError("pass trials, which stay together whole, or block, not both.")
        labels = checks.any_array("trials", trials)
        if labels.shape != (len(rows),):
            raise ValueError(f"trials must name the trial of each row, ({len(rows)},); got shape {labels.shape}.")
        ends = np.append(np.flatnonzero(labels[1:] != labels[:-1]) + 1, len(labels))
        if len(np.unique(labels)) < len(ends):
            raise ValueError("trials must be contiguous: rows of one trial must follow one another.")
        if len(ends) < FEWEST_BLOCKS:
            raise ValueError(
                f"trials must be at least {FEWEST_BLOCKS}, from whose scatter errors come; got {len(ends)}."
            )
        return cls(len(rows), 0, ends)

    def drawn(self, seed: int, k: int) -> np.ndarray:
        """Return the numbers of the rows of resample `k`."""
        if self.ends is None:
            return drawn_rows(self.n_rows, self.block, seed, k)
        starts = np.concatenate([[0], self.ends[:-1]])
        chosen = rng.keyed(seed, rng.BOOTSTRAP, k).integers(len(self.ends), size=len(self.ends))
        return np.concatenate([np.arange(starts[i], self.ends[i]) for i in chosen])

    def cuts(self) -> np.ndarray:
        """Return the ends of contiguous blocks, at most 200 of them, that hold whole blocks or trials."""
        ends = self.ends
        if ends is None:
            ends = np.append(np.arange(1, self.n_rows // self.block) * self.block, self.n_rows)
        return ends if len(ends) <= MOST_BLOCKS else ends[np.arange(1, MOST_BLOCKS + 1) * len(ends) // MOST_BLOCKS - 1]


def drawn_rows(n_rows: int, block: int, seed: int, k: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the numbers of the rows of resample `k`, (n_rows,), in blocks of consecutive ones that begin anywhere.

    Where none of them has a weight above 0 they are drawn again: such a resample says nothing.
    """
    generator, n_blocks = rng.keyed(seed, rng.BOOTSTRAP, k), -(-n_rows // block)
    while True:
        starts = generator.integers(n_rows - block + 1, size=n_blocks)
        drawn = (starts[:, None] + np.arange(block)).ravel()[:n_rows]
        if weights is None or weights[drawn].any():
            return drawn


def block_of(given: int | str, rows: Rows) -> int:
    """Return how many consecutive rows are drawn together.

    "auto" takes ten autocorrelation times, as `tau_of` has them; 1 where it sees none.

    Raises
    ------
    ValueError
        For blocks of which there would be fewer than 20.

    Warns
    -----
    ConvergenceWarning
        Where "auto" would need blocks of which there are fewer than 20, and those there are hold fewer than four
        autocorrelation times.
    """
    most = max(len(rows) // FEWEST_BLOCKS, 1)
    if given == "auto":
        tau = tau_of(rows)
        if tau <= INDEPENDENT:
            return 1
        if most < SHORT * tau:
            checks.warn(
                f"{len(rows)} rows are too few for their autocorrelation time, about {tau:.2g} rows: blocks of "
                f"{LONG:g} times that are needed, and {FEWEST_BLOCKS} blocks have {most} rows each. Errors are too "
                "small. Take more rows; or shuffle them, with block=1, if their order has no meaning."
            )
        return min(math.ceil(LONG * tau), most)
    if int(given) > most:
        raise ValueError(f"block must be at most {most}, so that there are {FEWEST_BLOCKS} of them; got {given}.")
    return int(given)


def warn_of_neighbours(rows: Rows, what: str) -> None:
    """Warn where rows that `what` takes for independent are like those before them."""
    tau = tau_of(rows)
    if tau > MOST_TAU:
        checks.warn(
            f"rows are like those before them, with an autocorrelation time of about {tau:.2g} rows, and "
            f"{what} takes them for independent: errors may be too small by up to {math.sqrt(2.0 * tau):.2g}. "
            'Use errors="bootstrap", block="auto"; or shuffle the rows if their order has no meaning.'
        )
