"""The clamped phase of the variational bound: hidden units as independent as mean field has them.

With q the product distribution that mean field finds for a row, the slope of log p(v) >= S(q) - beta <E>_q - log Z at
this q is that of the likelihood with <s_i s_j>_clamped replaced by the product of means. Linear response would give
correlations too, at the price of one inverse a row, but no bound whose slope that is.
Salakhutdinov and Hinton, AISTATS (2009), PMLR 5, 448.
"""

from __future__ import annotations

import numpy as np

from ..clamping import Clamped
from ..inference.given import How, means_given
from ..inference.hidden_layers import mean_field_layers
from ..model import BoltzmannMachine
from .moments import PhaseMoments, from_values
from .phase import Phase


class ClampedVariational(Phase):
    """Hidden units by mean field, their correlations by products of means."""

    name = "variational"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        s = self.settings
        if model.n_hidden == 0:
            return from_values(model.couplings, rows)
        if model.is_layered:
            means = mean_field_layers(model, rows, s.beta, s.threads)
        else:
            how = How("mean-field", s.beta, 1, 0, s.seed, s.threads)
            clamped = Clamped.of(model, np.arange(model.n_visible), rows)
            means = means_given(clamped, how, np.arange(len(rows)))
        return from_values(model.couplings, np.concatenate([rows, means], axis=1))
