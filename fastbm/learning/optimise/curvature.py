"""Curvature at a point where the gradient vanishes: whether it is a minimum, and else a way down.

Hessian-vector products are central differences of gradients, the smallest eigenvalue is found by Lanczos' method with
full reorthogonalisation, which is exact once there are as many steps as parameters.

Lanczos, J. Res. Natl. Bur. Stand. 45, 255 (1950), doi:10.6028/jres.045.026.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MOST_STEPS = 48  # of Lanczos
DIFFERENCE = 1e-4  # over which gradients are compared
BENT = 1e-5  # part of the largest curvature below 0 which is no rounding
SHORTEST, LONGEST = 1e-2, 100.0  # of the steps along a direction

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


def smallest_curvature(
    function: Objective, point: np.ndarray, generator: np.random.Generator
) -> tuple[float, float, np.ndarray]:
    """Estimate the smallest and the largest eigenvalue of the Hessian, and the smallest one's eigenvector."""
    n = point.size
    basis, diagonal, beside = np.zeros((0, n)), [], []
    vector = _unit(generator.normal(size=n))
    for _ in range(min(n, MOST_STEPS)):
        basis = np.concatenate([basis, vector[None]])
        image = (function(point + DIFFERENCE * vector)[1] - function(point - DIFFERENCE * vector)[1]) / (2 * DIFFERENCE)
        diagonal.append(float(vector @ image))
        rest = _orthogonal(image, basis)
        size = float(np.linalg.norm(rest))
        if size < 1e-8 * max(np.abs(diagonal)):  # all that this vector leads to was seen
            rest, size = _orthogonal(generator.normal(size=n), basis), 0.0
        beside.append(size)
        vector = _unit(rest)
    off = np.array(beside[: len(diagonal) - 1])
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return float(values[0]), float(values[-1]), basis.T @ vectors[:, 0]


def way_down(function: Objective, point: np.ndarray, value: float, generator: np.random.Generator) -> np.ndarray | None:
    """Find a lower point along the direction of the smallest curvature, or None where that is not negative."""
    least, largest, direction = smallest_curvature(function, point, generator)
    if least >= -BENT * max(largest, -least):
        return None
    best, lowest = None, value
    for sign in (1.0, -1.0):
        length = SHORTEST
        before = value
        while length <= LONGEST:
            moved = point + sign * length * direction
            found = function(moved)[0]
            if not found < before:
                break
            before, length = found, 2 * length
            if found < lowest:
                best, lowest = moved, found
    return best


def _orthogonal(vector: np.ndarray, basis: np.ndarray) -> np.ndarray:
    for _ in range(2):  # once leaves rounding
        vector = vector - basis.T @ (basis @ vector)
    return vector


def _unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), np.finfo(np.float64).tiny))
