"""Standard errors of learned couplings and biases, and how they follow from an information matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..._base.streams import Stream
from ..._base.threads import single_threaded_blas
from ..moments import Parameters

SINGULAR = 1e-12  # eigenvalue of the scaled information, beside the largest, below which it counts as 0
FAINT = 1e-100  # information, beside the largest, below which it counts as 0
COMPONENT = 1e-12  # squared component along such directions above which a parameter has no finite error


@dataclass(frozen=True)
class Errors:
    """Standard errors of couplings, in the shape of their arrays, and of biases.

    Attributes
    ----------
    weights : tuple of arrays
        One for each of `model.couplings.arrays`; the diagonal of a full matrix is 0. `inf` where the data do not
        determine a coupling.
    bias : (n_units,) array
    method : str
    detail : dict
        "unidentified" names the parameters that the data do not determine (with l2 their errors are finite: it is the
        penalty that holds them). What else there is depends on the method.
    """

    weights: tuple[np.ndarray, ...]
    bias: np.ndarray
    method: str
    detail: dict[str, Any] = field(default_factory=dict)

    def widened(self, variances: Parameters) -> Errors:
        """Return errors to the squares of which variances are added, but for those that are 0."""
        arrays = zip((*self.weights, self.bias), variances.arrays, strict=True)
        *weights, bias = (np.where(one > 0.0, np.sqrt(one * one + more), one) for one, more in arrays)
        return replace(self, weights=tuple(weights), bias=bias)

    def to_rows(self) -> dict[str, np.ndarray]:
        """Return one row of each stream: "errors/weights" and "errors/bias".

        Of several blocks of couplings, "errors/weights_0" and so on.
        """
        return {name: array[None] for name, array in self._named().items()}

    def streams(self) -> dict[str, Stream]:
        """Return the streams that `to_rows` fills."""
        return {name: Stream("<f8", array.shape) for name, array in self._named().items()}

    def _named(self) -> dict[str, np.ndarray]:
        names = ["weights"] if len(self.weights) == 1 else [f"weights_{k}" for k in range(len(self.weights))]
        return {f"errors/{name}": a for name, a in zip([*names, "bias"], [*self.weights, self.bias], strict=True)}


def sandwich(
    information: np.ndarray, penalty: np.ndarray, n_rows: int, parameters: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return standard errors by (F + P)^-1 F (F + P)^-1 / n_rows, with F the information of one row and P diagonal.

    Returns
    -------
    errors : (n_parameters,) array
        `inf` for parameters that neither the data nor the penalty determine.
    unidentified : (n_parameters,) bool array
        Parameters that the data do not determine: those with a component in the null space of F.
    pull : (n_parameters,) array
        By how much the penalty has moved the others, to first order: F^-1 P parameters, as the gradient of the
        likelihood is that of the penalty where their sum is largest.

    Notes
    -----
    With P = 0 this is F^-1 / n_rows. Matrices are scaled to a diagonal of 1 before their eigenvalues are looked at.

    References
    ----------
    White, Econometrica 50, 1 (1982), doi:10.2307/1912526.
    """
    with single_threaded_blas():
        inverse, loose = _inverse(information + np.diag(penalty))
        alone, unidentified = _inverse(information) if penalty.any() else (inverse, loose)
        variance = np.einsum("ij,ij->i", inverse @ information, inverse) / n_rows
        pull = alone @ (penalty * parameters)
    return np.where(loose, np.inf, np.sqrt(np.maximum(variance, 0.0))), unidentified, pull


def _inverse(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a generalised inverse, right for parameters that are determined, and which ones are not."""
    size = np.diagonal(matrix)
    live = size > FAINT * size.max(initial=0.0)
    scale = np.divide(1.0, np.sqrt(size, where=live, out=np.ones(len(size))), where=live, out=np.zeros(len(size)))
    values, vectors = np.linalg.eigh(matrix * np.outer(scale, scale))
    kept = values > max(SINGULAR, len(size) * np.finfo(np.float64).eps) * values.max(initial=0.0)
    loose = np.einsum("ij,ij->i", vectors[:, ~kept], vectors[:, ~kept]) > COMPONENT
    vectors = vectors[:, kept] * scale[:, None]
    return (vectors / values[kept]) @ vectors.T, loose | ~live
