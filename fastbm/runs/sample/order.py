"""Averages of order parameters: magnetisations, and overlaps of pairs of chains, with what their errors must hold.

In spins P(s) / P(-s) = exp(2 beta b s), b the biases: whatever valleys chains are in, <m> is <m tanh(beta b s)>. Where
states are seen as often as their mirrors should be, both averages are the same; what they differ by is missing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ... import diagnostics
from ...diagnostics import Estimate
from ...diagnostics.autocorrelation import standard_errors
from .errors import effective, energy_error, floored, longest_visit, observable_error, unseen_error, widened
from .samples import Samples
from .series import At, of_states
from .valleys import holds_units


def of_magnetisations(
    run: Samples, beta: float, m: np.ndarray, errors: list[float], mirrors: Mirrors | None, *, even: bool
) -> tuple[Estimate, ...]:
    """Return magnetisation, its modulus, susceptibility and Binder's cumulant, each with its error.

    `errors` are those that the values of m, its modulus and its square tell of. An unseen state may differ by a flip of
    one unit.
    """
    size, square, flip, longest = np.abs(m), m * m, 2.0 / run._start.n_units, longest_visit(run)
    response = beta * run._start.n_units
    if even:
        mean = Estimate(0.0, 0.0)
        chi = Estimate(response * float(square.mean()), response * widened(square, errors[2], flip, longest))
    else:
        mean, missed = of_mean(run, m, errors[0], mirrors), mirrors.missed(m) if mirrors else 0.0
        unseen = unseen_error(effective(m, errors[0], longest), _step(m, flip) ** 2)
        chi = diagnostics.susceptibility(m, beta, run._start.n_units)
        chi = floored(chi, response * max(unseen, missed * (2.0 * abs(mean.value) + missed)))
    modulus = Estimate(float(size.mean()), widened(size, errors[1], flip, longest))
    return mean, modulus, chi, _binder_cumulant(m, errors[2], flip, longest)


def of_mean(run: Samples, m: np.ndarray, error: float, mirrors: Mirrors | None) -> Estimate:
    """Return the magnetisation of a machine that is not even; `error` is what its values tell of."""
    found = Estimate(float(m.mean()), widened(m, error, _step(m, 2.0 / run._start.n_units), longest_visit(run)))
    return floored(found, mirrors.missed(m)) if mirrors else found


def of_energies(run: Samples, at: At, error: float | None, mirrors: Mirrors | None) -> Estimate:
    """Return the energy per unit; `error` is what its values tell of, where that is known."""
    n_units = run._start.n_units
    found = Estimate(float(at.energy.mean()) / n_units, energy_error(run, at.energy, at.beta, error) / n_units)
    return floored(found, mirrors.missed(mirrors.pull) / n_units) if mirrors else found


def _step(m: np.ndarray, flip: float) -> float:
    """Return what an unseen state may differ by in its magnetisation: by that of all units, where it never varied."""
    return flip if np.ptp(m) > 0.0 else 2.0


def of_overlaps(run: Samples, q: np.ndarray) -> tuple[Estimate, Estimate, Estimate]:
    """Return what overlaps say of a spin glass; an unseen pair may differ by a flip of one unit."""
    n_units, squares, sizes = run._start.n_units, q * q, np.abs(q)
    flip, errors, longest = 2.0 / n_units, standard_errors(squares, sizes), longest_visit(run)
    return (
        Estimate(n_units * float(squares.mean()), n_units * widened(squares, errors[0], flip, longest)),
        _binder_cumulant(q, errors[0], flip, longest),
        Estimate(float(sizes.mean()), widened(sizes, errors[1], flip, longest)),
    )


def of_link_overlaps(run: Samples, q: np.ndarray) -> Estimate:
    """Return the mean overlap of links; a flip of one unit changes all that it has."""
    indptr = run._start.couplings.csr()[0]
    flip = 4.0 * float(np.diff(indptr).max(initial=0)) / max(1, int(indptr[-1]))
    return Estimate(float(q.mean()), observable_error(q, flip, longest_visit(run)))


def _binder_cumulant(m: np.ndarray, error: float, flip: float, longest: float) -> Estimate:
    """Return Binder's cumulant U; `error` is that of the mean of m^2.

    A part p of states with another m adds p (1 - U) (2 x - 1) - p x^2 / 3 to it, where x = m^2 / <m^2>: much, where
    what was seen is small. They may be a flip larger than the largest that was seen, and then are as rare or rarer.
    """
    found, size = diagnostics.binder_cumulant(m), np.abs(m)
    if not np.isfinite(found.value):
        return found
    square, largest = size * size, float(size.max())
    x = min(1.0, largest + flip) ** 2 / float(square.mean())
    step = abs((1.0 - found.value) * (2.0 * x - 1.0) - x * x / 3.0)
    chance = unseen_error(effective(square, error, longest), 1.0)
    beyond = min(chance, float((size > largest - flip / 2.0).mean()))
    return floored(found, max(chance * flip, beyond * step))


class Mirrors(NamedTuple):
    """What biases pull at states, b s, and how much more probable these are than their mirrors, tanh(beta b s)."""

    pull: np.ndarray
    lean: np.ndarray

    def missed(self, values: np.ndarray) -> float:
        """Return the part of a mean that is missing for want of mirrors, in which the values have the other sign."""
        return abs(float((values * (1.0 - self.lean)).mean()))


def mirrors_of(run: Samples, at: At, m: np.ndarray) -> Mirrors | None:
    """Return what is known of the mirrors of states with the magnetisations m.

    None of clamped machines, in which the mirror of a state is another machine's, and where states were not recorded
    and biases differ.
    """
    bias = run._start.to_units("spin").flat_bias
    if holds_units(run):
        return None
    if np.ptp(bias) == 0.0:
        pull = bias[0] * len(bias) * m
    elif at.has_states and run.has_states:
        pull = of_states(run, at, lambda packed: _pull(packed, bias))
    else:
        return None
    return Mirrors(pull, np.tanh(at.beta * pull))


def _pull(packed: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the sum of biases times spins of packed states, byte by byte."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little") * 2.0 - 1.0
    padded = np.zeros(8 * packed.shape[-1])
    padded[: len(bias)] = bias
    total = np.zeros(packed.shape[:-1])
    for k, of_byte in enumerate(padded.reshape(-1, 8)):
        total += (bits @ of_byte)[packed[..., k]]
    return total
