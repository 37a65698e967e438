"""Newton's method for the maximum of a variational log Z: a few hundred products where sweeps would take thousands.

With y = D^-1/2 dm, D = 1 - m^2, the matrix of second derivatives is that of linear response, M (see
`fastbm.inference.response`). Its equations are solved by conjugate gradients within a radius of trust, as far as the
step deserves: where M is not positive definite the step follows the direction that shows it to the edge, so that
saddles are left. A sweep after each step brings back units that went too far.

Steihaug, SIAM J. Numer. Anal. 20, 626 (1983), doi:10.1137/0720042; Dembo and Steihaug, Math. Program. 26, 190 (1983),
doi:10.1007/BF02592055.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .mean_field_equations import MeanFieldEquations

MOST_STEPS = 200
MOST_PRODUCTS = 200  # of a step
MOST_FAILURES = 30  # one after the other: the radius is then too small for log Z to tell steps apart
FROZEN = 1e-4  # 1 / cosh below which a unit is left to sweeps: its atanh m is lost in rounding
FLAT = 1e-7  # curvature, of at most about 1, that rounding in float32 can make

Product = Callable[[np.ndarray], np.ndarray]


def newton(equations: MeanFieldEquations, *, tolerance: float, max_sweeps: int) -> int:
    """Move the means of a single lane to a maximum of log Z, until their residual is within `tolerance`; log Z never
    falls but by rounding. The number of sweeps.
    """
    n_sweeps = n_failures = 0
    best = _Point(equations)
    radius = 0.3 * best.means.size**0.25
    step: _Step | None = None
    for _ in range(min(MOST_STEPS, max_sweeps)):
        if best.residual <= tolerance or n_failures > MOST_FAILURES:
            break
        if step is None:
            step = _solve(equations.curvature(best.means, best.root), best.slope, radius, 0.5 * tolerance)
        equations.values[0] = np.clip(best.means + best.root * step.y, -1.0, 1.0)
        equations.refresh()
        equations.sweep(0.0, np.zeros(1))
        if equations.couplings.kind != "dense":  # whose sweeps keep the fields
            equations.refresh()
        n_sweeps += 1
        point = _Point(equations)
        rise = point.log_z - best.log_z
        if rise > 0.0 or point.residual < 0.5 * best.residual:
            if rise < 0.25 * step.gain:
                radius = 0.5 * min(radius, step.length)
            elif step.at_edge:
                radius *= 2.0
            best, step, n_failures = point, None, 0
        else:
            step = step.shortened(0.25)
            radius = min(radius, step.length)
            n_failures += 1
    equations.values[0] = best.means
    equations.refresh()
    return n_sweeps


class _Point:
    """The means that equations are at, and what a step from them needs: log Z and its slope in y."""

    def __init__(self, equations: MeanFieldEquations) -> None:
        m = equations.values[0].copy()
        largest = 1.0 - np.finfo(float).eps
        arguments = np.arctanh(np.clip(m, -largest, largest))[None]
        self.means, self.root = m, np.sqrt((1.0 - m) * (1.0 + m))
        self.log_z = float(equations.log_z(arguments)[0])
        self.residual = float(np.abs(np.tanh(equations.arguments()[0]) - m).max(initial=0.0))
        self.slope = np.where(self.root > FROZEN, self.root * equations.gradient(arguments)[0], 0.0)


class _Step(NamedTuple):
    """A step y, how much log Z should rise by along it, rise(t) = along t - bend t^2 / 2 for the part t of it, and
    whether the radius ended it.
    """

    y: np.ndarray
    along: float
    bend: float
    at_edge: bool

    @property
    def length(self) -> float:
        return float(np.linalg.norm(self.y))

    @property
    def gain(self) -> float:
        return self.along - 0.5 * self.bend

    def shortened(self, part: float) -> _Step:
        return _Step(part * self.y, part * self.along, part**2 * self.bend, self.at_edge)


def _solve(product: Product, slope: np.ndarray, radius: float, least: float) -> _Step:
    """The y with M y = slope, roughly, or where the way to it leaves the radius. What is left of the slope need not be
    smaller than `least`.
    """
    y, rest = np.zeros_like(slope), slope.copy()
    direction, size = rest.copy(), float(rest @ rest)
    # the squares of 1/2 and of the fourth root: faster than linear
    goal = max(min(0.25, math.sqrt(size)) * size, least**2)
    for _ in range(MOST_PRODUCTS):
        if size == 0.0:
            break
        pulled = product(direction)
        curvature = float(direction @ pulled)
        step = size / curvature if curvature > FLAT * float(direction @ direction) else math.inf
        fresh = y + step * direction if math.isfinite(step) else y
        if math.isinf(step) or float(fresh @ fresh) >= radius**2:
            edge = _to_edge(y, direction, radius)
            further = float((edge - y) @ direction) / float(direction @ direction)
            bend = float(edge @ (slope - rest + further * pulled))
            return _Step(edge, float(edge @ slope), bend, at_edge=True)
        y = fresh
        rest -= step * pulled
        old, size = size, float(rest @ rest)
        if size <= goal:
            break
        direction = rest + (size / old) * direction
    return _Step(y, float(y @ slope), float(y @ (slope - rest)), at_edge=False)


def _to_edge(y: np.ndarray, direction: np.ndarray, radius: float) -> np.ndarray:
    """Where the way from y along `direction` leaves the radius."""
    square, along = float(direction @ direction), float(y @ direction)
    left = max(radius**2 - float(y @ y), 0.0)
    # the root without cancellation: along > 0 but for rounding
    edge: np.ndarray = y + left / (along + math.sqrt(along**2 + square * left)) * direction
    return edge
