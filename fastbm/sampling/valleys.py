"""Valleys of a machine: what is known of them without sampling it.

In spins P(s) / P(-s) = exp(2 beta b s): without biases every state has a mirror that is as probable, and the means of
spins are 0. Flips of its neighbours move the mean of a spin with field b and couplings of R = sum_j |J_ij| in all by
beta R / cosh^2(beta max(|b| - R, 0)) at most; where that is below 1 for all spins, single-unit dynamics forgets any
start within some n log n updates.

Dobrushin, Theory Probab. Appl. 13, 197 (1968), doi:10.1137/1113026. Levin, Peres and Wilmer, Markov Chains and Mixing
Times (2017), theorem 15.1.
"""

from __future__ import annotations

import numpy as np

from ..machine.machine import BoltzmannMachine
from .gauge import find_gauge

ROUNDING = 1e-9  # the largest mean of a spin that passes for 0
STEEPEST = 30.0  # half log-odds, beyond which a field holds a spin for good
FEW_UNITS = 2000  # of dense machines that are looked through for frustration
FEWEST_CHAINS = 8  # fall into the same of two equal valleys once in 128 runs
FEWEST_OF_MIRRORS = 4  # chains, where the only valleys mirror each other


def is_even(model: BoltzmannMachine, beta: float) -> bool:
    """Return whether every state is as probable as its mirror, all units flipped, so that the means of spins are 0.

    |<s_i>| <= tanh(beta sum_j |b_j|), b the biases in spins.
    """
    bias = model.flat_bias
    if model.units == "binary":
        ones = np.ones(model.n_units, np.int8)
        bias = bias / 2 + (model.field(ones) - bias) / 4
    with np.errstate(over="ignore"):
        return bool(beta * float(np.abs(bias).sum()) <= ROUNDING)


def has_one_valley(model: BoltzmannMachine, beta: float) -> bool:
    """Return whether units depend so little on others, by Dobrushin's condition, that there is one valley alone."""
    reach = beta * model.couplings.absolute_sums() * model.convention.span**2 / 4
    with np.errstate(over="ignore"):
        if np.all(reach < 1.0):
            return True
        held = np.maximum(beta * np.abs(model.to_units("spin").flat_bias) - reach, 0.0)
        return bool(np.all(reach < np.cosh(np.minimum(held, STEEPEST)) ** 2))


def has_mirrors_only(model: BoltzmannMachine, beta: float) -> bool:
    """Return whether the machine's only two deepest valleys mirror each other: even, connected, without frustration.

    Its two ground states mirror each other then, and no other valley is as deep.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    if not is_even(model, beta) or (model.couplings.kind != "sparse" and model.n_units > FEW_UNITS):
        return False
    indptr, indices, values = model.couplings.csr()
    graph = csr_array((values, indices, indptr), shape=(model.n_units, model.n_units))
    one_part = connected_components(graph, directed=False, return_labels=False) == 1
    return bool(one_part) and find_gauge(indptr, indices, values)[0] is not None


def why_unseen(model: BoltzmannMachine, beta: float, n_chains: int, *, one_point: bool, clamped: bool = False) -> str:
    """Return why there may be valleys that none of `n_chains` chains that agree has visited; empty if that is unlikely.

    `one_point` says that all began at the same state, `clamped` that what is sampled is the machine given some units.
    """
    if n_chains == 1:
        return "one chain cannot tell whether it has seen all valleys: pass n_chains of 8 or more"
    if has_one_valley(model, beta) or (n_chains >= FEWEST_CHAINS and not one_point):
        return ""
    if n_chains >= FEWEST_OF_MIRRORS and not clamped and has_mirrors_only(model, beta):
        return ""
    if one_point:
        return "all chains began at one state, which may hide other valleys: begin at random"
    return (
        f"{n_chains} chains fall into the same of two equal valleys in one run of {2 ** (n_chains - 1)}: pass n_chains "
        f"of {FEWEST_CHAINS} or more"
    )
