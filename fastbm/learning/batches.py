"""The order in which an epoch goes through the rows."""

from __future__ import annotations

import numpy as np

from .. import rng


def order_of_rows(n_rows: int, seed: int, epoch: int, weights: np.ndarray | None) -> np.ndarray:
    """A permutation of the rows; with weights as many independent draws, by weight, so that a mini-batch's mean is
    the weighted one on average.
    """
    generator = rng.keyed(seed, rng.BATCHES, epoch)
    if weights is None:
        return generator.permutation(n_rows)
    return generator.choice(n_rows, size=n_rows, p=weights / weights.sum())
