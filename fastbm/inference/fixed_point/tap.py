"""The equations of Thouless, Anderson and Palmer: mean field with the reaction of a spin on itself taken out.

m_i = tanh(beta (W m + b)_i - beta^2 m_i sum_j W_ij^2 (1 - m_j^2)); log Z = S(m) - beta E(m) + beta^2 / 4 sum_ij W_ij^2
(1 - m_i^2) (1 - m_j^2); covariance from C^-1, whose diagonal is 1 / (1 - m_i^2) + beta^2 sum_j W_ij^2 (1 - m_j^2) and
which is -beta W_ij - 2 beta^2 W_ij^2 m_i m_j off it. Exact to second order in beta W, and for the model of Sherrington
and Kirkpatrick above its transition.
Thouless, Anderson and Palmer, Phil. Mag. 35, 593 (1977), doi:10.1080/14786437708235992; Plefka, J. Phys. A 15, 1971
(1982), doi:10.1088/0305-4470/15/6/035.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..._base import checks
from ..._base.options import options
from ...kernels.inference.tap import add_onsager_dense, solve_units, sweep_tap_dense, sweep_tap_sparse
from ...machine.couplings import Couplings
from ...machine.machine import BoltzmannMachine
from ..result import Inference
from .equations import MeanFieldEquations, entropy
from .iterate import Iterated, of_bound, of_entropy, settle, starting_means, warn_unsettled
from .mean_field import climb
from .response import ResponseMatrix, refuse_wide, sech

POLARISING_SWEEPS = 4  # of mean field, from random starts: TAP's own sweeps lead nearly all of them to small means


class TapEquations(MeanFieldEquations):
    """The TAP equations, with the means of several starts in lanes.

    Their fields and their Onsager terms sum_j W_ij^2 (1 - m_j^2) are kept.
    """

    def refresh(self) -> None:
        """Compute the fields and the Onsager terms again from the means."""
        super().refresh()
        self.onsager = self._by_squares(1.0 - self.values**2)

    def _by_squares(self, values: np.ndarray) -> np.ndarray:
        """Return sum_j W_ij^2 x_j for every row x."""
        found = np.zeros(values.shape)
        if self.couplings.kind == "dense":
            add_onsager_dense(found, np.ascontiguousarray(values), self.couplings.matrix())
        else:
            found[:] = self._squares.field(values)
        return found

    @cached_property
    def _squares(self) -> Couplings:
        return self.couplings.with_arrays([array**2 for array in self.couplings.arrays])

    def sweep(self, damping: float, least: np.ndarray) -> np.ndarray:
        """Do one sweep; return the largest change of every lane."""
        change: np.ndarray
        if self.couplings.kind == "layered":
            return self._sweep_layers(damping)
        if self.couplings.kind == "sparse":
            change = sweep_tap_sparse(self._means, self.couplings.csr(), self._pull, self.beta, damping)
        else:
            change = self._sweep_dense(damping, least)
        return change

    def _sweep_units(self, damping: float, least: np.ndarray, units: np.ndarray) -> np.ndarray:
        weights, kept = self.couplings.matrix(), (self._means, self.fields, self.onsager)
        change: np.ndarray = sweep_tap_dense(*kept, weights, self.beta, damping, least, units)
        return change

    def _blocks(self, power: int) -> tuple[np.ndarray, ...]:
        return self.couplings.arrays if power == 1 else self._squares.arrays

    def _arguments_of_layer(self, k: int) -> np.ndarray:
        fields = super()._arguments_of_layer(k)
        arguments = np.empty_like(fields)
        onsager = np.ascontiguousarray(self.beta**2 * self._neighbours(k, 1.0 - self._means**2, power=2))
        solve_units(arguments, np.ascontiguousarray(fields), onsager)
        return arguments

    def arguments(self) -> np.ndarray:
        """Return the arguments of tanh in the TAP equations, (n_lanes, n_units), from the fields that are kept."""
        found = np.empty_like(self.fields)
        solve_units(found, self.beta * self.fields, self.beta**2 * self.onsager)
        return found

    def _correction(self) -> np.ndarray:
        """Return sum_ij W_ij^2 (1 - m_i^2) (1 - m_j^2) of every lane."""
        found: np.ndarray = (self.onsager * (1.0 - self.values**2)).sum(axis=1)
        return found

    def energies(self) -> np.ndarray:
        """Return <E> of every lane, without offset, with the Onsager correction."""
        found: np.ndarray = super().energies() - 0.5 * self.beta * self._correction()
        return found

    def log_z(self, arguments: np.ndarray) -> np.ndarray:
        """Return the estimate of log Z of every lane, without offset; `arguments` are atanh of the means."""
        found: np.ndarray = (
            entropy(arguments) - self.beta * super().energies() + 0.25 * self.beta**2 * self._correction()
        )
        return found

    def plefka(self) -> np.ndarray:
        """Return 1 - beta^2 / n sum_ij W_ij^2 (1 - m_i^2) (1 - m_j^2) of every lane."""
        found: np.ndarray = 1.0 - self.beta**2 * self._correction() / self.couplings.n_units
        return found

    def rank(self, log_z: np.ndarray) -> np.ndarray:
        """Return the number by which the best lane is chosen: log Z, where Plefka's criterion holds.

        Where it holds nowhere, the one that misses it least is chosen.
        """
        criterion = self.plefka()
        return np.where(criterion >= 0.0, log_z, 1e200 * np.maximum(criterion, -1e100))

    def gradient(self, arguments: np.ndarray) -> np.ndarray:
        """Return d log Z / d m."""
        return super().gradient(arguments) - self.beta**2 * self.onsager * self.values

    @cached_property
    def _single_squares(self) -> np.ndarray | None:
        return None if self._single is None else self._single**2

    def _pulled_by_squares(self, y: np.ndarray) -> np.ndarray:
        """Return sum_j W_ij^2 y_j, to the precision that Newton steps need."""
        if self._single_squares is not None:
            return (self._single_squares @ y.astype(np.float32)).astype(np.float64)
        return self._by_squares(y[None])[0]

    def curvature(self, means: np.ndarray, root: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the product with `response`'s matrix at the first lane, which is not made; root = (1 - m^2)^1/2."""
        beta, widths = self.beta, root * means
        diagonal = 1.0 + root**2 * beta**2 * self.onsager[0]

        def product(y: np.ndarray) -> np.ndarray:
            found: np.ndarray = (
                diagonal * y
                - beta * root * self.pulled(root * y)
                - 2.0 * beta**2 * widths * self._pulled_by_squares(widths * y)
            )
            return found

        return product

    def response(self, arguments: np.ndarray) -> tuple[ResponseMatrix, np.ndarray]:
        """Return the matrix whose inverse gives covariances at the first lane, and 1 / cosh of its arguments."""
        root, m, beta = sech(arguments), np.tanh(arguments), self.beta
        diagonal = 1.0 + root**2 * beta**2 * self.onsager[0]

        def entries(w: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
            found: np.ndarray = -root[i] * root[j] * (beta * w + 2.0 * (beta * w) ** 2 * m[i] * m[j])
            return found

        return ResponseMatrix(self.couplings, diagonal, entries), root

    def finest(self) -> float:
        """Return the residual that rounding leaves, below which no sweep gets."""
        squares = float((self.beta**2 * self.onsager).max(initial=0.0))
        return super().finest() + 16 * float(np.finfo(float).eps) * squares


@options
class TAP(Iterated):
    """Solve the TAP equations from several starts; the solution of the highest log Z is kept.

    Notes
    -----
    `log_z` is no bound. `covariance` is the linear response as it comes: its diagonal, unlike that of
    `second_moment`, is not the exact one. For sparse machines of more than 16,384 units both hold the coupled pairs
    only. `detail["plefka"]` is 1 - beta^2 / n sum_ij W_ij^2 (1 - m_i^2) (1 - m_j^2); below 0 the expansion behind
    the equations does not converge, nothing here is to be trusted, and `converged` is False. So it is where log Z lies
    below the bound of mean field at one of the starts, or, of up to 14 units, or as many on one side of a layered
    machine, more than a nat from what counting all states gives.
    """

    name: ClassVar[str] = "tap"

    def run(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Inference:
        """Infer log Z and moments; moments are in the machine's units."""
        spin = model.to_units("spin")
        starts = starting_means(spin.n_units, self.n_starts, seed)
        bound = -math.inf
        if self.n_starts > 1:
            polarised = MeanFieldEquations(spin.couplings, spin.flat_bias[None], beta, starts[1:])
            settle(polarised, tolerance=0.0, damping=0.0, max_sweeps=POLARISING_SWEEPS)
            starts[1:] = polarised.values
            bound = _best_bound(polarised) - beta * spin.offset
        if moments:
            refuse_wide(spin.couplings)
        found = climb(TapEquations, spin, beta, starts, self, threads)
        if not found.converged:
            warn_unsettled("tap", found.residual, found.n_sweeps, "Raise max_sweeps or damping.")
        assert isinstance(found.equations, TapEquations)
        criterion = float(found.equations.plefka()[0])
        if criterion < 0.0:
            checks.warn(
                "tap: the expansion behind the equations does not converge here (Plefka's criterion "
                f"{criterion:.2g} < 0)."
            )
        result = found.inference("tap", model, None, moments, threads)
        result = replace(
            result, converged=result.converged and criterion >= 0.0, detail=result.detail | {"plefka": criterion}
        )
        return of_bound(of_entropy(result, spin.n_units, beta), bound)


def _best_bound(equations: MeanFieldEquations) -> float:
    """Return the highest bound on log Z of all lanes, after one step of all their means at once."""
    equations.refresh()
    arguments = equations.arguments()
    equations.place(arguments)
    return float(equations.log_z(arguments).max())
