"""Trees: machines on which belief propagation is exact."""

from __future__ import annotations

import numpy as np

from .. import _checks
from ..couplings import Sparse
from ..model import BoltzmannMachine
from .making import generator, named


def random_tree(
    n: int, *, scale: float = 1.0, bias_scale: float = 0.0, units: str = "spin", seed: int | None = 0
) -> BoltzmannMachine:
    """Return a machine on a random recursive tree: every unit but the first is coupled to one of those before it.

    Parameters
    ----------
    n : int
    scale, bias_scale : float
        Couplings of the tree are drawn from N(0, scale^2), biases from N(0, bias_scale^2).
    units : {"spin", "binary"}
    seed : int or None

    Returns
    -------
    BoltzmannMachine
        Sparse couplings.

    Raises
    ------
    ValueError, TypeError
        For an argument out of range; the text names it.

    Examples
    --------
    >>> import fastbm as bm
    >>> bm.models.random_tree(1000)
    <BoltzmannMachine: 1000 spin units, 999 couplings>
    """
    n = _checks.whole("n", n, least=1)
    scale, bias_scale = _checks.real("scale", scale, least=0.0), _checks.real("bias_scale", bias_scale, least=0.0)
    draws = generator(seed)
    units_after = np.arange(1, n, dtype=np.int32)
    parents = draws.integers(0, units_after).astype(np.int32)
    couplings = Sparse.of_pairs(n, parents, units_after, draws.normal(scale=scale, size=n - 1))
    made = BoltzmannMachine(couplings, draws.normal(scale=bias_scale, size=n), units=units)
    return named(made, "random_tree", n=n, scale=scale, bias_scale=bias_scale, units=units, seed=seed)
