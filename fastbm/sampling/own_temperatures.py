"""Inverse temperatures from a machine's own fields, so that W and c W are searched alike, whatever c is.

A unit's log-odds are beta (hi - lo) field_i. Hot is where no state pulls any unit with log-odds above `FREE`, and cold
where a state that was quenched pulls a typical unit with log-odds of `FROZEN`. Between the two lies all that ladders
need; chains that stay at one temperature search best where units are pulled hard and still move, at `MOVING`.
Annealing gains nothing where states are forgotten within a few sweeps: it begins where a quenched state pulls a
typical unit with `LOOSE`, about where glasses begin to freeze, and couplings none with more than `TIED`. It ends
later than ladders, at `STILL`: chains at rest cost little and still find small gaps.

All are powers of two times 11 bits, so that the last bits of a matrix product do not matter, and multiples of the
couplings by powers of two give the same bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._base import rng
from .._base.threads import single_threaded_blas
from .chains import start_chains
from .clamped import Conditioned
from .engine.choice import choose_kernel

FREE, MOVING, FROZEN = 0.5, 10.0, 30.0  # log-odds
LOOSE, TIED, STILL = 3.0, 10.0, 70.0  # of annealing
QUENCHED = 1e6  # log-odds by the largest field
CHAINS, SWEEPS = 16, 20  # of the quench
LARGEST = 1e300  # of an inverse temperature
BITS = 11


class OwnBetas(NamedTuple):
    """Inverse temperatures that a machine suggests: hot, best for search at one, cold, and both ends of annealing.

    All are infinite where nothing pulls any unit.
    """

    hot: float
    moving: float
    cold: float
    first: float
    last: float


def hot_beta(subject: Conditioned) -> float:
    """Return the inverse temperature at which flips are nearly free in every state; infinite where no field acts."""
    machine = subject.machine
    bias = np.abs(machine.flat_bias if subject.bias is None else subject.bias)
    strongest = machine.couplings.absolute_sums() + np.atleast_2d(bias).max(axis=0)
    return _beta(FREE, machine.convention.span * float(strongest.max(initial=0.0)))


def own_betas(subject: Conditioned, threads: int) -> OwnBetas:
    """Return the inverse temperatures that a machine suggests.

    They come from a short quench; with several clamped patterns, of the first one.

    The quench is the same for every seed, number of chains and number of threads.

    Notes
    -----
    Cost: 20 sweeps of 16 chains.
    """
    hot, machine = hot_beta(subject), subject.machine
    if math.isinf(hot):
        return OwnBetas(hot, hot, hot, hot, hot)
    beta = np.full(CHAINS, min(hot * (QUENCHED / FREE), LARGEST))
    about = (machine.couplings, machine.flat_bias, machine.convention)
    kernel = choose_kernel(*about, beta=beta, order="sequential")
    chains = start_chains(
        machine, machine.flat_bias, beta, rule="gibbs", order="sequential", kernel=kernel,
        seed=rng.derive(0, rng.PILOT), initial="random", threads=threads, first_chain=0, highest_beta=None,
        # chains so cold take int64, which no run after this does: the kernel is taken that is compiled the fastest
        one_by_one=True if kernel == "dense" else None,
    )  # fmt: skip
    chains.sweep(SWEEPS)
    states = machine.convention.values(chains.bits(), np.float64)
    with single_threaded_blas():
        pulls = machine.couplings.field(states)
    fields = pulls + machine.flat_bias
    largest = float(np.abs(fields).max())
    if not largest:  # all pulls cancel
        return OwnBetas(hot, hot, hot, hot, hot)
    by_unit = np.sqrt(np.mean((fields / largest) ** 2, axis=0)) * largest
    typical = machine.convention.span * float(np.median(by_unit[by_unit > 0.0]))
    tied = machine.convention.span * float(np.abs(pulls).max())
    first = min(_beta(LOOSE, typical), _beta(TIED, tied))
    return OwnBetas(hot, _beta(MOVING, typical), _beta(FROZEN, typical), first, _beta(STILL, typical))


def _beta(log_odds: float, pull: float) -> float:
    """Return the inverse temperature at which a pull, (hi - lo) field, makes the given log-odds."""
    if not pull:
        return math.inf
    mantissa, exponent = math.frexp(pull)
    mantissa, exponent_up = math.frexp(log_odds / mantissa)
    try:
        return min(math.ldexp(round(math.ldexp(mantissa, BITS)), exponent_up - exponent - BITS), LARGEST)
    except OverflowError:
        return LARGEST
