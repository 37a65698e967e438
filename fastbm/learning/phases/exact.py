"""Phases by exact sums: visible units held at the data, what is known of rows that lack entries held, nothing held.

Each is a class with `moments(model, rows)`; `rows` are values (m, n_visible) in the machine's units.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ..._base.arrays import unlike_rows
from ..._base.threads import single_threaded_blas
from ...data.rows import Rows
from ...inference.conditional.completions import (
    Alike,
    Filled,
    Gapped,
    hidden_fields,
    log_sum,
    log_weights,
    sum_alike,
)
from ...inference.conditional.listed import MOST_LISTED, Listed
from ...inference.exact.method import Exact, usual_engine
from ...machine.clamping import Clamped
from ...machine.machine import BoltzmannMachine
from ..minibatches import distinct
from ..moments import (
    PhaseMoments,
    from_matrix,
    from_patterns,
    from_values,
    hidden_means,
    learned_pairs,
    means_of,
    without_diagonal,
)
from ..training_set import values_of
from .phase import Phase, PhaseSettings

MOST_UNITS = 2048  # of a machine of which a whole matrix is made


class ClampedExact(Phase):
    """Clamped phase, hidden units summed exactly.

    In closed form where they are independent, else over all their states.
    """

    name = "exact"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments averaged over `rows` and hidden units, with the mean log of the rows' clamped sums."""
        if model.n_hidden == 0:
            log_z = -self.settings.beta * self._average(model.energy(rows)) if self.settings.wants_log_z else None
            return from_values(model.couplings, rows, log_z, self.row_weights)
        if model.hidden_are_independent:
            return self._independent(model, rows)
        first, which = unlike_rows(rows)
        counts = np.bincount(which, weights=self.row_weights)
        alike = Alike(np.arange(len(first)), np.arange(model.n_visible), rows[first])
        return _summed(model, alike, counts / counts.sum(), self.settings)

    def _independent(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        beta = self.settings.beta
        means = hidden_means(model, rows, beta)
        log_z = -self._average(model.free_energy(rows, beta=beta)) if self.settings.wants_log_z else None
        return from_values(model.couplings, np.concatenate([rows, means], axis=1), log_z, self.row_weights)

    def _average(self, numbers: np.ndarray) -> float:
        return float(np.average(numbers, weights=self.row_weights))


class GapsExact(Phase):
    """Clamped phase of incomplete rows, missing entries and hidden units summed exactly.

    Moments given the known entries of a row are averaged over rows; they are the gradient of log p(known).

    Louis, J. R. Stat. Soc. B 44, 226 (1982), eq. 3.1, doi:10.1111/j.2517-6161.1982.tb01203.x.
    """

    name = "exact"

    _held: Gapped | None = None

    def hold(self, model: BoltzmannMachine, rows: Rows, weights: np.ndarray | None) -> None:
        """Keep all rows for every call; `moments` then uses these in place of the rows that it is given."""
        rows, shares = distinct(rows, weights)
        self._held = Gapped(model, values_of(model.convention, rows, slice(None)), shares)

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments averaged over rows, missing entries and hidden units, with the mean log of clamped sums."""
        gapped = Gapped(model, rows) if self._held is None else self._held
        mean, log_z = np.zeros(model.n_units), 0.0
        pairs = [np.zeros_like(array) for array in model.couplings.arrays]
        blocks: Iterator[Filled | Alike] = itertools.chain(gapped.filled(), gapped.summed())
        for some in blocks:
            part = self._part(model, some, gapped.shares[some.rows])
            assert part.log_z is not None
            mean, log_z = mean + part.mean, log_z + part.log_z
            for total, one in zip(pairs, part.pairs, strict=True):
                total += one
        return without_diagonal(PhaseMoments(mean, tuple(pairs), log_z))

    def _part(self, model: BoltzmannMachine, some: Filled | Alike, shares: np.ndarray) -> PhaseMoments:
        if isinstance(some, Alike):
            return _summed(model, some, shares, self.settings)
        with single_threaded_blas():
            return self._listed(model, some, shares)

    def _listed(self, model: BoltzmannMachine, filled: Filled, shares: np.ndarray) -> PhaseMoments:
        """Return sums over rows and over their completions, listed and weighted by their probability.

        What a row lacks varies about its means, and hidden units with it: to products of means come covariances, as
        products of further rows.
        """
        beta, gaps = self.settings.beta, filled.gaps
        fields = hidden_fields(model, filled)
        log_f = log_weights(model, filled, fields, beta)
        log_z = log_sum(log_f)
        p = np.exp(log_f - log_z[:, None])[:, None, :]
        hidden = means_of(np.multiply(fields, -beta * model.convention.span, out=fields), model.convention)
        means, above = (p @ filled.ways)[:, 0], (p @ hidden)[:, 0]
        values = np.concatenate([filled.values, above], axis=1)
        np.put_along_axis(values, gaps, means, axis=1)
        of_gaps = filled.ways.T * p - means[:, :, None] * p
        roots = np.zeros((*gaps.shape, model.n_units))
        if model.n_hidden:
            np.put_along_axis(roots, gaps[:, :, None], 1.0, axis=2)
            roots[:, :, model.n_visible :] = of_gaps @ hidden
        else:
            sizes, vectors = np.linalg.eigh(of_gaps @ filled.ways)
            vectors *= np.sqrt(np.maximum(sizes, 0.0))[:, None, :]
            np.put_along_axis(roots, gaps[:, None, :], vectors.transpose(0, 2, 1), axis=2)
        rows = np.concatenate([values[:, None], roots], axis=1) * np.sqrt(shares)[:, None, None]
        pairs = model.couplings.pair_sums(rows.reshape(-1, model.n_units))
        return PhaseMoments(shares @ values, pairs, float(shares @ log_z))


class FreeExact(Phase):
    """Free phase by a sum over all states."""

    name = "exact"

    _sum: Exact | None = None

    def prepare(self, model: BoltzmannMachine) -> None:
        """Choose how states of the machine are summed, whatever its parameters are."""
        pairs, engine = learned_pairs(model.couplings), usual_engine(model, moments=True)
        self._sum = Exact(energy_variance=False, pairs=pairs, engine=engine)  # type: ignore[arg-type]

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments and log Z by a sum over all states; `rows` are ignored."""
        s = self.settings
        if self._sum is None:
            self._sum = Exact(energy_variance=False, pairs=learned_pairs(model.couplings))
        exact = self._sum.sum(model, beta=s.beta, moments=True, threads=s.threads)
        return from_matrix(model.couplings, exact.mean, exact.second_moment, exact.log_z)


def _summed(model: BoltzmannMachine, alike: Alike, shares: np.ndarray, settings: PhaseSettings) -> PhaseMoments:
    """Return sums, by the rows' shares, over rows of which the same units are known."""
    couplings = model.couplings
    if model.n_units - len(alike.known) > MOST_LISTED or model.n_units > MOST_UNITS:
        found = sum_alike(
            model, alike, settings.beta, settings.threads, moments=True, energy_variance=False,
            pairs=learned_pairs(couplings),
        )  # fmt: skip
        return from_patterns(couplings, found, shares)
    clamped = Clamped.of(model, alike.known, alike.values)
    means, covariance, log_z = Listed(clamped, settings.beta, settings.threads).averages(shares)
    values = np.empty((len(shares), model.n_units))
    values[:, clamped.indices], values[:, clamped.free] = clamped.values, means
    with single_threaded_blas():
        products = couplings.pair_sums(np.sqrt(shares)[:, None] * values)
    own = couplings.pick(clamped.full_matrix(covariance))
    pairs = tuple(a + b for a, b in zip(products, own, strict=True))
    return without_diagonal(PhaseMoments(shares @ values, pairs, log_z))
