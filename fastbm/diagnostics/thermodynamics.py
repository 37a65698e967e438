"""Response functions and order parameters from samples, with jackknife errors.

Arrays are (n_samples, n_chains): all chains at one temperature.

Binder, Z. Phys. B 43, 119 (1981), doi:10.1007/BF01293604 (the cumulant); Young, Phys. Rev. Lett. 51, 1206 (1983),
doi:10.1103/PhysRevLett.51.1206 (the distribution of overlaps).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._base import checks
from .autocorrelation import AGRESTI_COULL, finite, longest_tau, rarely
from .jackknife import Estimate, cut_all, jackknife, larger, of_sums

NATURAL = 200  # units; overlaps of more are put together in about MANY_BINS bins
MANY_BINS = 100
LARGEST_ROOT = 1e150  # of variances that floating point holds


class OverlapDistribution(NamedTuple):
    """P(q): centres and widths of the bins, densities and their standard errors; sum(value * width) = 1."""

    overlap: np.ndarray
    width: np.ndarray
    value: np.ndarray
    error: np.ndarray

    def __repr__(self) -> str:
        from .._base.shown import brief

        return brief(self)


def _series(name: str, values: Any) -> np.ndarray:
    array = finite(values)
    if array.ndim != 2:
        raise ValueError(f"{name} must have shape (n_samples, n_chains), chains of one temperature; got {array.shape}.")
    return array


def _variance(values: np.ndarray, what: str, *, factor: float = 1.0, scale: float = 1.0) -> Estimate:
    """`scale` times the variance of `factor` times the values."""
    centred = values - values.mean() if np.ptp(values) > 0 else np.zeros_like(values)
    with np.errstate(over="ignore"):
        centred = centred * factor
        found = None
        if np.abs(centred).max() <= LARGEST_ROOT:
            variance = jackknife(lambda first, second: second - first**2, centred, centred**2)
            found = Estimate(scale * variance.value, scale * variance.error)
    if found is None or not math.isfinite(found.value):
        raise ValueError(f"the {what} is too large for a floating-point number at this beta, or its energies are.")
    return found


def specific_heat(energy: Any, beta: float, n_units: int) -> Estimate:
    """Return the specific heat per unit, C = beta^2 (<E^2> - <E>^2) / n_units.

    Parameters
    ----------
    energy : (n_samples, n_chains) array
        Energies of the whole model.
    beta : float
        The inverse temperature of the samples.
    n_units : int

    Returns
    -------
    Estimate
        Value, in units of Boltzmann's constant, and jackknife error.
    """
    n = checks.whole("n_units", n_units, least=1)
    factor = checks.real("beta", beta) / math.sqrt(n)
    return _variance(_series("energy", energy), "specific heat", factor=factor)


def susceptibility(magnetisation: Any, beta: float, n_units: int, modulus: bool = False) -> Estimate:
    """Return the susceptibility per unit, chi = beta n_units (<m^2> - <m>^2).

    Parameters
    ----------
    magnetisation : (n_samples, n_chains) array
        Mean value of the units, m.
    beta : float
        The inverse temperature of the samples.
    n_units : int
    modulus : bool
        Take |m| in place of m: below a transition, where finite systems go from one phase to the other.

    Returns
    -------
    Estimate
        Value and jackknife error.
    """
    n, m = checks.whole("n_units", n_units, least=1), _series("magnetisation", magnetisation)
    return _variance(np.abs(m) if modulus else m, "susceptibility", scale=checks.real("beta", beta) * n)


def binder_cumulant(magnetisation: Any) -> Estimate:
    """Return Binder's cumulant, U = 1 - <m^4> / (3 <m^2>^2): 0 for a Gaussian about 0, 2/3 in an ordered phase.

    Parameters
    ----------
    magnetisation : (n_samples, n_chains) array
        Mean value of the units, or any order parameter that is symmetric about 0.

    Returns
    -------
    Estimate
        Value and jackknife error; NaN where m is always 0.

    References
    ----------
    Binder, Z. Phys. B 43, 119 (1981), doi:10.1007/BF01293604.
    """
    m = _series("magnetisation", magnetisation)
    largest = float(np.abs(m).max())
    if largest == 0.0:
        return Estimate(np.nan, np.nan)
    square = (m / largest) ** 2  # no power overflows, whatever the scale
    with np.errstate(invalid="ignore"):  # where m is 0 but for one block
        return jackknife(lambda second, fourth: 1.0 - fourth / (3.0 * second**2), square, square**2)


def correlation_length(structure: Any, length: int, order: Any = None) -> Estimate:
    """Return the second-moment correlation length of a periodic lattice, in lattice spacings.

    xi = sqrt(S(0) / S(k) - 1) / (2 sin(pi / L)), where S is the structure factor and k the smallest wave vector,
    2 pi / L along one side. It grows without bound with L below a transition, where S(0) is that of ordered states. In
    a field the mean of sum_i s_i is no correlation: with `order` it is taken off, S(0) - <order>^2.

    Parameters
    ----------
    structure : (n_samples, n_chains, 2) array
        S(0) and S(k), the squares of sum_i s_i exp(i k x_i), or of overlaps s_i t_i in place of spins.
    length : int
        L, at least 2.
    order : (n_samples, n_chains) array, optional
        The numbers whose squares are S(0).

    Returns
    -------
    Estimate
        Value and jackknife error; NaN where S(k) is 0 or above S(0), as noise can make it far above a transition.

    References
    ----------
    Cooper, Freedman and Preston, Nucl. Phys. B 210, 210 (1982), doi:10.1016/0550-3213(82)90240-1.
    """
    array, side = finite(structure), checks.whole("length", length, least=2)
    if array.ndim != 3 or array.shape[2] != 2:
        raise ValueError(f"structure must have shape (n_samples, n_chains, 2); got {array.shape}.")

    def xi(zero: Any, smallest: Any, mean: Any = 0.0) -> Any:
        return np.sqrt((zero - mean * mean) / smallest - 1.0) / (2.0 * math.sin(math.pi / side))

    means = () if order is None else (finite(order),)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = jackknife(xi, array[:, :, 0], array[:, :, 1], *means)
    return found if math.isfinite(found.value) else Estimate(math.nan, math.nan)


def overlap_distribution(
    overlap: Any, n_units: int, bins: int | None = None, *, even: bool = False
) -> OverlapDistribution:
    """Return the distribution P(q) of overlaps q = sum_i s_i t_i / n_units of two replicas of spins.

    Parameters
    ----------
    overlap : (n_samples, n_chains) array
        From -1 to 1, a chain for each pair of replicas. Values are put to the nearest of -1, -1 + 2/n, ..., 1.
    n_units : int
    bins : int, optional
        At most n_units + 1, the default up to 200 units: one bin of width 2/n about every value. For more units the
        default is 100 or 101, so many that the bins lie symmetrically about 0. A bin holds whole values, so that
        its density does not depend on how edges fall; widths differ by one value where they must.
    even : bool
        P(q) and P(-q) are known to be alike, as where a flip of all units of a replica changes no energy. No error is
        then below half of what they differ by, which alone tells of replicas that never leave one of two valleys.

    Returns
    -------
    OverlapDistribution
        Bins about the first and the last value reach 1/n beyond -1 and 1. Errors reckon with two samples more than fell
        into a bin, or out of it (Agresti and Coull, Am. Stat. 52, 119, 1998), so that none is 0.

    Raises
    ------
    ValueError
        If an overlap lies outside of -1 to 1, or `bins` outside of 1 to n_units + 1.

    References
    ----------
    Young, Phys. Rev. Lett. 51, 1206 (1983), doi:10.1103/PhysRevLett.51.1206.
    """
    q, n = _series("overlap", overlap), checks.whole("n_units", n_units, least=1)
    if np.abs(q).max() > 1.0 + 1e-9:
        raise ValueError(f"overlap must lie between -1 and 1; got {q.flat[np.abs(q).argmax()]:g}. Divide by n_units.")
    if bins is None:
        bins = n + 1 if n <= NATURAL else MANY_BINS + (n + 1) % 2
    elif not 1 <= checks.whole("bins", bins) <= n + 1:
        raise ValueError(f"bins must lie between 1 and n_units + 1 = {n + 1}, the values q can have; got {bins}.")
    edges = _edges(n + 1, bins)
    n_alike = np.rint((q + 1.0) * n / 2).astype(np.int64)
    which, mirrored = (np.searchsorted(edges, side, side="right") - 1 for side in (n_alike, n - n_alike))
    width = np.diff(edges) * 2.0 / n
    tau = max(float(longest_tau(q)), float(longest_tau(np.abs(q))))
    estimate = _not_certain(_fractions(which, bins, tau), q.size / (2.0 * tau))
    if even:
        off = estimate.value - np.bincount(mirrored.ravel(), minlength=bins) / q.size
        estimate = estimate._replace(error=np.maximum(estimate.error, np.abs(off) / 2.0))
    centres = -1.0 + (edges[:-1] + edges[1:] - 1.0) / n
    return OverlapDistribution(centres, width, estimate.value / width, estimate.error / width)


def _edges(n_values: int, bins: int) -> np.ndarray:
    """Cut n_values into bins, symmetrically where numbers are not even against odd."""
    lower = np.rint(np.arange(bins // 2 + 1) * n_values / bins).astype(np.int64)
    upper = n_values - lower[::-1]
    return np.concatenate([lower, upper[1:] if bins % 2 == 0 else upper])


def _not_certain(fractions: Estimate, ess: float) -> Estimate:
    """Fractions of `ess` samples with errors that know how badly few samples, or none, tell how rare a bin is."""
    return Estimate(fractions.value, np.hypot(fractions.error, rarely(ess, AGRESTI_COULL)))


def _fractions(which: np.ndarray, bins: int, tau: float) -> Estimate:
    """Jackknifed fraction of samples in every bin, counted block by block."""
    n_samples, n_chains = which.shape
    found = []
    for blocks in cut_all(n_samples, n_chains, tau):
        block = np.searchsorted(blocks.starts, np.arange(which.shape[blocks.axis]), side="right") - 1
        places = np.moveaxis(which, blocks.axis, 0) + (block * bins)[:, None]
        counts = np.bincount(places.ravel(), minlength=len(blocks.starts) * bins).reshape(-1, bins)
        found.append(of_sums(lambda fraction: fraction, [counts / which.shape[1 - blocks.axis]], blocks))
    return larger(found)
