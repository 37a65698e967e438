"""What chains that agree have missed for certain, by bounds on log Z from both sides.

If states s are those of a machine, log Z = <-log P(s) - beta E(s)>, and <-log q(s) - beta E(s)> with any other
distribution q is no less: here that of the tree which the first half of a run's states tells, over the second half.
Mean field bounds log Z, and the part of it in which a unit stands as it seldom does, from below. Where a lower bound is
above the upper one, chains have not been where most of the weight is, whatever R-hat says.
"""

from __future__ import annotations

import math

import numpy as np

from ... import diagnostics
from ..._base.threads import single_threaded_blas
from ...diagnostics.trees import log_tree
from ...machine.machine import BoltzmannMachine
from ...sampling.unseen import AGRESTI_COULL, rarely
from .samples import Samples
from .units import spaced
from .valleys import is_even

MOST_UNITS = 1024  # whose pairs are counted
MOST_GROUPS = 8  # of chains, the coldest ones
FEWEST_STATES = 64  # of a group, in either half
BARS = 5.0
ROUNDING = 1e-9


def why_missed(run: Samples, together: list[np.ndarray]) -> str:
    """Return how bounds contradict what a run of chains in groups has sampled, as text; empty where they do not.

    Left out are large machines, clamped ones, and draws by exact sums.
    """
    model = run._start
    if run._sampler == "exact" or run.config["sample"].get("n_patterns") or not 1 < model.n_units <= MOST_UNITS:
        return ""
    packed, betas = spaced(run), run.beta
    coldest = sorted(together, key=lambda chains: -float(betas[chains[0]]))[:MOST_GROUPS]
    with single_threaded_blas():
        for chains in coldest:
            beta, half = float(betas[chains[0]]), len(packed) // 2
            if beta == 0.0 or half * len(chains) < FEWEST_STATES:
                continue
            bits = np.unpackbits(packed[:, chains], axis=2, count=model.n_units, bitorder="little")
            if is_even(run):
                bits[1::2] ^= 1  # mirrors are as probable, and are counted as seen
            starts = len(chains) + (int(run.round_trips.sum()) if run._sampler == "tempering" else 0)
            if reason := _missed(model, beta, bits, starts):
                return f"at beta = {beta:g} {reason}"
    return ""


def _missed(model: BoltzmannMachine, beta: float, bits: np.ndarray, n_starts: int) -> str:
    """Return how bounds contradict states as bits, (n_samples, n_chains, n_units); empty where they do not.

    `n_starts` are how often chains began anew: what units seldom do is known as well as that many chains tell it.
    """
    from ...inference.scout.bounds import mean_field_bound, other_sides
    from ...inference.verdict import missed_side

    half = len(bits) // 2
    rows, later = bits[:half].reshape(-1, model.n_units), bits[half:]
    energies = model.energy_of_bits(later.reshape(-1, model.n_units)).reshape(later.shape[:2])
    values = -log_tree(rows, later) - beta * energies
    most, error = float(values.mean()), float(diagnostics.standard_error(values))
    lowest = later.reshape(-1, model.n_units)[[np.argmin(energies)]]
    bound = mean_field_bound(model, beta, lowest, seed=0)
    if bound > most + BARS * error + ROUNDING * abs(most):
        return (
            f"states allow a log Z of at most {most:.6g}, and {bound:.6g} is a bound that holds for certain (mean "
            "field): chains have not been where most of the weight is"
        )
    p = bits.mean(axis=(0, 1))
    spread = bits.mean(axis=0).std(axis=0, ddof=1) / math.sqrt(bits.shape[1]) if bits.shape[1] > 1 else 0.0
    p_error = np.hypot(spread, rarely(n_starts, AGRESTI_COULL))
    return missed_side(other_sides(model, beta, p), most, error, p, p_error)
