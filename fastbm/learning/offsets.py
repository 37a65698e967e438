"""Centring of the gradient: units count from offsets mu, so that couplings and biases are learned apart.

With D_ij the difference of both phases' <s_i s_j> and D_i that of their <s_i>, the slopes are G_ij = D_ij - mu_i D_j -
D_i mu_j and G_i = D_i - sum_j G_ij mu_j. Flipping units, or 0 and 1 for -1 and 1, leaves what is learned as it is.

Montavon and Mueller, in Neural Networks: Tricks of the Trade (2012), doi:10.1007/978-3-642-35289-8_33; Melchior,
Fischer and Wiskott, J. Mach. Learn. Res. 17(99), 1 (2016).
"""

from __future__ import annotations

import numpy as np

from ..model import BoltzmannMachine
from .moments import Parameters

RATE = 0.01  # of hidden units' offsets, a mini-batch


class Offsets:
    """Where units count from: the data's means, and for hidden units a sliding mean of the clamped phase.

    Attributes
    ----------
    values : (n_units,) array
    """

    def __init__(self, like: BoltzmannMachine, visible_means: np.ndarray) -> None:
        units = like.convention
        self._couplings, self._n_visible = like.couplings, like.n_visible
        self.values = np.full(like.n_units, (units.lo + units.hi) / 2)
        self.values[: like.n_visible] = visible_means

    def follow(self, hidden_means: np.ndarray) -> None:
        """Take in the hidden units' means of one clamped phase."""
        hidden = self.values[self._n_visible :]
        hidden += RATE * (hidden_means - hidden)

    def slope(self, gap: Parameters) -> Parameters:
        """The centred gradient from the differences of both phases."""
        mu = self.values
        sums = (self._couplings.pair_sums(x[None]) for x in (mu + gap.bias, mu, gap.bias))
        weights = tuple(d - (both - one - other) for d, both, one, other in zip(gap.weights, *sums, strict=True))
        if weights[0].shape == (mu.size, mu.size):
            np.fill_diagonal(weights[0], 0.0)
        pull = self._couplings.with_arrays([np.array(w) for w in weights]).field(mu[None])[0]
        return Parameters(weights, gap.bias - pull)
