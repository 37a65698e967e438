"""Restricted machines: visible units coupled to hidden ones only."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base import checks
from ..machine.machine import BoltzmannMachine
from .origin import generator


def restricted(
    n_visible: int | None = None,
    n_hidden: int | None = None,
    *,
    weights: Any = None,
    visible_bias: Any = None,
    hidden_bias: Any = None,
    units: str = "binary",
    scale: float = 0.01,
    seed: int | None = 0,
) -> BoltzmannMachine:
    """Return a restricted Boltzmann machine: visible units coupled to hidden ones only.

    Parameters
    ----------
    n_visible, n_hidden : int, optional
        Sizes; they follow from `weights` where that is given.
    weights : (n_visible, n_hidden) array, optional
        Drawn from N(0, scale^2) when left out.
    visible_bias, hidden_bias : arrays, optional
        0 when left out.
    units : {"binary", "spin"}
    scale : float
    seed : int or None

    Returns
    -------
    BoltzmannMachine
        Layered, one block.

    Raises
    ------
    ValueError, TypeError
        For an argument out of range; the text names it.

    References
    ----------
    Smolensky, in Parallel Distributed Processing 1 (1986), p. 194; Hinton, Neural Comput. 14, 1771 (2002),
    doi:10.1162/089976602760128018.

    Examples
    --------
    >>> import fastbm as bm
    >>> bm.models.restricted(784, 500)
    <BoltzmannMachine: 784 x 500 binary units, 500 hidden>
    """
    if weights is None:
        if n_visible is None or n_hidden is None:
            raise ValueError("restricted needs weights=, or n_visible and n_hidden to draw them.")
        size = (checks.whole("n_visible", n_visible, least=1), checks.whole("n_hidden", n_hidden, least=1))
        weights = generator(seed).normal(scale=checks.real("scale", scale, least=0.0), size=size)
    block = checks.finite_array("weights", weights)
    checks.shape("weights", block, ("n_visible", "n_hidden"))
    for name, wanted, found in (("n_visible", n_visible, block.shape[0]), ("n_hidden", n_hidden, block.shape[1])):
        if wanted is not None and checks.whole(name, wanted) != found:
            raise ValueError(f"{name} is {wanted}, but weights has shape {block.shape}.")
    biases = []
    for name, bias, size in (
        ("visible_bias", visible_bias, block.shape[0]),
        ("hidden_bias", hidden_bias, block.shape[1]),
    ):
        vector = checks.finite_array(name, np.zeros(size) if bias is None else bias)
        checks.shape(name, vector, (size,))
        biases.append(vector)
    return BoltzmannMachine([block], biases, units=units)
