"""First and second moments of units: all that rules which learn from moments alone ask of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._base import checks as _checks
from .._base.threads import single_threaded_blas
from ..machine.checks import check_columns
from ..machine.couplings.protocol import frozen
from ..machine.machine import BoltzmannMachine
from ..machine.units import BINARY, SPIN, Units, units as convention
from . import datasets, moments_checks as checks, sources
from .counting import count_together
from .rows import Rows

LEAST_RATE = 1e-9  # of rates that are known exactly, or from more rows than its inverse


@dataclass(frozen=True, eq=False, init=False)
class Moments:
    """Means and second moments of units, from data or from a model.

    Parameters
    ----------
    mean : (n_units,) array
        <s_i>.
    second_moment : (n_units, n_units) array
        <s_i s_j>, symmetric. The diagonal follows from the units (1 for spins, the mean for binary units) and is
        checked; a diagonal of zeros is filled.
    n_samples : int, optional
        How many rows they are averages of; None when they are exact.
    units : {"binary", "spin"}, optional
        Told from the diagonal, or from negative moments, when left out. Without either (a diagonal of zeros and nothing
        negative, or units that are all up) it must be given.

    Raises
    ------
    ValueError, TypeError
        For shapes that do not fit, entries that are not finite, and moments that no distribution can have: means out of
        range, second moments outside the bounds that the means of the pair set, a covariance with a negative direction.

    Notes
    -----
    Every pair is held against the bounds of Frechet, max(0, p_i + p_j - 1) <= p_ij <= min(p_i, p_j) in binary units,
    and the covariance against being positive semidefinite, both up to a rounding of 1e-6. These are necessary and not
    sufficient: inequalities of three and more units are not looked at, as they are too many.

    References
    ----------
    Frechet, Ann. Univ. Lyon A 14, 53 (1951). Deza and Laurent, Geometry of Cuts and Metrics (1997), sect. 5.1,
    doi:10.1007/978-3-642-04295-9.

    Examples
    --------
    >>> import fastbm as bm
    >>> moments = bm.Moments([0.5, 0.5], [[0.5, 0.4], [0.4, 0.5]], n_samples=1000)
    >>> moments.units, moments.to_units("spin").second_moment[0, 1].round(6).item()
    ('binary', 0.6)
    """

    mean: np.ndarray
    second_moment: np.ndarray
    n_samples: int | None
    units: str

    def __init__(self, mean: Any, second_moment: Any, n_samples: int | None = None, units: str | None = None) -> None:
        m = np.array(_checks.finite_array("mean", mean))
        second = np.array(_checks.finite_array("second_moment", second_moment))
        if m.ndim != 1 or not m.size:
            raise ValueError(f"mean must have one number a unit, (n_units,); got shape {m.shape}.")
        _checks.shape("second_moment", second, (len(m), len(m)))
        checks.symmetric(second)
        kind = checks.units_of_moments(m, second) if units is None else convention(units)
        checks.mean_in_range(m, kind)
        np.clip(m, kind.lo, kind.hi, out=m)
        checks.fill_diagonal(m, second, kind)
        if n_samples is not None:
            n_samples = _checks.whole("n_samples", n_samples, least=1)
        self._set(m, (second + second.T) / 2, n_samples, kind)
        binary = self.to_units("binary")
        checks.pairs_in_bounds(binary.mean, binary.second_moment)
        checks.no_negative_direction(self.covariance)

    def _set(self, mean: np.ndarray, second_moment: np.ndarray, n_samples: int | None, units: Units) -> None:
        object.__setattr__(self, "mean", frozen(mean))
        object.__setattr__(self, "second_moment", frozen(second_moment))
        object.__setattr__(self, "n_samples", n_samples)
        object.__setattr__(self, "units", units.name)

    @classmethod
    def trusted(cls, mean: np.ndarray, second_moment: np.ndarray, n_samples: int | None, units: Units) -> Moments:
        """Take moments that are known to be right, diagonal included."""
        moments = cls.__new__(cls)
        moments._set(mean, second_moment, n_samples, units)
        return moments

    @classmethod
    def of(cls, rows: Any, units: str | None = None, weights: Any = None) -> Moments:
        """Average rows of data.

        Parameters
        ----------
        rows : (n_rows, n_units) array
            Values of the units.
        units : {"binary", "spin"}, optional
            Told from the values when left out: spins where there is a -1, binary units where there is a 0.
        weights : (n_rows,) array, optional
            How much each row counts; from 0, not all 0. `n_samples` is then the number of rows of equal weight that are
            worth as much, (sum w)^2 / sum w^2, as `fit` counts them for error bars.

        Returns
        -------
        Moments
            In the units of the rows. Sums of rows without weights are exact whole numbers, whatever the threads.
        """
        given = _checks.any_array("rows", rows)
        if given.ndim != 2 or not given.size:
            raise ValueError(f"rows must have shape (n_rows, n_units), at least one of each; got {given.shape}.")
        kind = _units_of_rows(given) if units is None else convention(units)
        up = kind.bits("rows", given)
        return moments_of_rows(Rows.of(up), weights).to_units(kind.name)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.mean)

    @property
    def covariance(self) -> np.ndarray:
        """<s_i s_j> - <s_i> <s_j>, a (n_units, n_units) array."""
        return self.second_moment - np.outer(self.mean, self.mean)

    def __repr__(self) -> str:
        source = "exact" if self.n_samples is None else f"{self.n_samples} samples"
        return f"<Moments: {self.n_units} {self.units} units, {source}>"

    def to_units(self, units: str) -> Moments:
        """Return the same moments in the other convention, s = 2 x - 1."""
        target = convention(units)
        if target.name == self.units:
            return self
        m, second = self.mean, self.second_moment
        if target.name == "spin":
            mean = 2.0 * m - 1.0
            pairs = 4.0 * second - 2.0 * (m[:, None] + m[None, :]) + 1.0
            np.fill_diagonal(pairs, 1.0)
        else:
            mean = (1.0 + m) / 2.0
            pairs = (1.0 + m[:, None] + m[None, :] + second) / 4.0
            np.fill_diagonal(pairs, mean)
        return self.trusted(mean, pairs, self.n_samples, target)

    def flipped(self, eps: float) -> Moments:
        """Return the moments of the same units when each is flipped with probability `eps`, below 1/2.

        In spins m -> (1 - 2 eps) m and, off the diagonal, <s_i s_j> -> (1 - 2 eps)^2 <s_i s_j>: the average over all
        flips, with no noise of its own. It makes the covariance invertible and every cell of every pair positive.
        """
        eps = _checks.real("eps", eps, least=0.0)
        if eps >= 0.5:
            raise ValueError(f"eps must be below 0.5; got {eps:g}.")
        spin, keep = self.to_units("spin"), 1.0 - 2.0 * eps
        second = keep**2 * spin.second_moment
        np.fill_diagonal(second, 1.0)
        return self.trusted(keep * spin.mean, second, self.n_samples, SPIN).to_units(self.units)


def _units_of_rows(rows: np.ndarray) -> Units:
    if rows.dtype.kind not in "biuf":
        raise TypeError(f"rows must be numbers, 0 or 1, or -1 or 1; got dtype {rows.dtype}.")
    if (rows == -1).any():
        return SPIN
    if (rows == 0).any():
        return BINARY
    raise ValueError('units cannot be told from rows that hold neither -1 nor 0: pass units="binary" or units="spin".')


def _check_weights(weights: Any, n_rows: int) -> tuple[np.ndarray | None, float, int]:
    if weights is None:
        return None, float(n_rows), n_rows
    counts = _checks.finite_array("weights", weights)
    _checks.shape("weights", counts, (n_rows,))
    if counts.min() < 0 or not counts.any():
        raise ValueError(f"weights must be at least 0 and not all 0; the least is {counts.min():g}.")
    within = datasets.in_range(counts)
    return within, float(within.sum()), datasets.n_worth(within)


def moments_of_rows(up: Rows, weights: Any = None) -> Moments:
    """Return the moments of bits, as of binary units; parameters as for `Moments.of`."""
    counts, total, n_samples = _check_weights(weights, len(up))
    pairs = (count_together(up) if counts is None else _weigh_together(up, counts)) / total
    return Moments.trusted(np.diagonal(pairs).copy(), pairs, n_samples, BINARY)


def _weigh_together(up: Rows, counts: np.ndarray) -> np.ndarray:
    """Return the weight of the rows in which units i and j are both up, for all pairs."""
    total = np.zeros((up.n_units,) * 2)
    with single_threaded_blas():
        for some in up.blocks():
            bits = up[some]
            total += bits.T @ (bits * counts[some, None])
    return (total + total.T) / 2


def smoothed_rates(data: Any, model: BoltzmannMachine, row_weights: Any = None) -> np.ndarray:
    """Return the base rates of a machine's visible units in data, kept from 0 and 1.

    Parameters
    ----------
    data : array, Moments, Rows, or whatever else `fit` learns from
        Rows (n_rows, n_visible) in the machine's units, some entries missing or not; moments of the visible units, in
        either convention; or rates (n_visible,), P(unit up) from 0 to 1, of which 0 and 1 alone are moved.
    model : BoltzmannMachine
    row_weights : (n_rows,) array, optional
        How much each row counts; it goes with rows.

    Returns
    -------
    (n_visible,) float64 array
        P(unit up), whatever the units; above 0 and below 1.

    Raises
    ------
    ValueError, TypeError
        If data are of another number of units, or rows hold values that are not the machine's.

    Notes
    -----
    A unit that is up in k of the N rows in which it is known gets (k + 1) / (N + 2), Laplace's rule of succession. Rows
    that have weights count by these; N is their total weight, and no less than the number of rows that count.

    References
    ----------
    Salakhutdinov and Murray, ICML (2008), sect. 4, doi:10.1145/1390156.1390266 (annealing from the base rates of data).

    Examples
    --------
    >>> import fastbm as bm
    >>> model = bm.models.restricted(2, 3, units="binary")
    >>> bm.smoothed_rates([[0, 1], [0, 1], [1, 1]], model).tolist()
    [0.4, 0.8]
    """
    if row_weights is not None and (isinstance(data, Moments) or _is_one_axis(data)):
        raise ValueError("row_weights goes with rows; data are moments or rates. Leave it out.")
    if isinstance(data, Moments):
        up = data.to_units("binary").mean
        _check_units(len(up), model)
        return _kept_inside(up if data.n_samples is None else _succession(up * data.n_samples, data.n_samples))
    if _is_one_axis(data):
        return _kept_inside(_check_rates(data, model))
    given = check_columns("data", data, model.names)
    rows = given if isinstance(given, Rows) else sources.read(given, model.convention)[0]
    _check_units(rows.n_units, model)
    weights = datasets.check_row_weights(row_weights, len(rows))
    scale = 1.0 if weights is None else max(np.count_nonzero(weights) / weights.sum(), 1.0)
    return _kept_inside(_succession(rows.sums(weights) * scale, rows.known_counts(weights) * scale))


def _is_one_axis(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return len(data) > 0 and np.ndim(data[0]) == 0
    return getattr(data, "ndim", 0) == 1


def _succession(times_up: np.ndarray, n: Any) -> np.ndarray:
    return np.asarray((times_up + 1.0) / (n + 2.0))


def _kept_inside(rates: np.ndarray) -> np.ndarray:
    return np.clip(rates, LEAST_RATE, 1.0 - LEAST_RATE)


def _check_units(n_units: int, model: BoltzmannMachine) -> None:
    if n_units != model.n_visible:
        raise ValueError(f"data must be of the machine's {model.n_visible} visible units; got {n_units} units.")


def _check_rates(data: Any, model: BoltzmannMachine) -> np.ndarray:
    rates = _checks.finite_array("data", data)
    _check_units(len(rates), model)
    wrong = np.flatnonzero((rates < 0.0) | (rates > 1.0))
    if wrong.size:
        raise ValueError(
            f"data of one axis are rates P(unit up), from 0 to 1; got {rates[wrong[0]]:g} for unit {wrong[0]}. Of "
            "means of spins these are (1 + mean) / 2; one row of data is data[None, :]."
        )
    return rates
