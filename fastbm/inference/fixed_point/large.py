"""Fixed points of large machines by Newton's method, for dense couplings from a draft in 16-bit integers.

Newton's method for the maximum of a variational log Z takes a few hundred products where sweeps would take thousands.
With y = D^-1/2 dm, D = 1 - m^2, the matrix of second derivatives is that of linear response, M
(`fastbm.inference.fixed_point.response`). Its equations are solved by conjugate gradients within a radius of trust, as
far as the step deserves: where M is not positive definite the step follows the direction that shows it to the edge, so
that saddles are left. A sweep after each step brings back units that went too far.

Dense sweeps and products with a few thousand units are bound by the memory's speed, so that a draft of the mean-field
solution takes a fraction of the time. The draft's couplings are those of the machine in units of `scale`, rounded;
fields are float32. The equations themselves are then solved from the draft's means, of which only the last steps are
left to do.

Steihaug, SIAM J. Numer. Anal. 20, 626 (1983), doi:10.1137/0720042; Dembo and Steihaug, Math. Program. 26, 190 (1983),
doi:10.1007/BF02592055.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..._base.threads import fan_out
from ...kernels.inference.mean_field import STEP, add_rounded, coarsen_rows, round_rows
from ...machine.couplings import Couplings
from .equations import MeanFieldEquations

MOST_STEPS = 200
MOST_PRODUCTS = 200  # of a step
MOST_FAILURES = 30  # one after the other: the radius is then too small for log Z to tell steps apart
FROZEN = 1e-4  # 1 / cosh below which a unit is left to sweeps: its atanh m is lost in rounding
FLAT = 1e-7  # curvature, of at most about 1, that rounding in float32 can make

Product = Callable[[np.ndarray], np.ndarray]
LEAST_UNITS = 512  # from which on a draft is worth its making
LARGEST = 32767
COARSE = 1e-3  # residual above which steps make do with eight bits
FINE = 2.0**-9  # of the root mean square of most rows, that a unit of the rounded couplings may be at most
RANGE = 1e30  # of biases and temperatures in those units
ROWS = 1000  # that a thread takes at a time


def newton(equations: MeanFieldEquations, *, tolerance: float, max_sweeps: int) -> int:
    """Move the means of a single lane to a maximum of the variational log Z by Newton's method.

    Stops once the residual is within `tolerance`. log Z never falls but by rounding. Return the number of sweeps.

    log Z never falls but by rounding. Return the number of sweeps.
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
    """The means of a lane, and what a Newton step from them needs: log Z, its slope in y, and the residual."""

    def __init__(self, equations: MeanFieldEquations) -> None:
        m = equations.values[0].copy()
        largest = 1.0 - np.finfo(float).eps
        arguments = np.arctanh(np.clip(m, -largest, largest))[None]
        self.means, self.root = m, np.sqrt((1.0 - m) * (1.0 + m))
        self.log_z = float(equations.log_z(arguments)[0])
        self.residual = float(np.abs(np.tanh(equations.arguments()[0]) - m).max(initial=0.0))
        self.slope = np.where(self.root > FROZEN, self.root * equations.gradient(arguments)[0], 0.0)


class _Step(NamedTuple):
    """A Newton step y within the radius of trust, and the rise of log Z that its quadratic model expects.

    A part t of the step should raise log Z by along t - bend t^2 / 2. `at_edge` says that the radius ended the step.

    The rise is rise(t) = along t - bend t^2 / 2 for the part t of the step. Also whether the radius ended it.
    """

    y: np.ndarray
    along: float
    bend: float
    at_edge: bool

    @property
    def length(self) -> float:
        """Length of the step in y."""
        return float(np.linalg.norm(self.y))

    @property
    def gain(self) -> float:
        """Expected rise of log Z by the whole step."""
        return self.along - 0.5 * self.bend

    def shortened(self, part: float) -> _Step:
        """Return a part of the step, with its expected rise."""
        return _Step(part * self.y, part * self.along, part**2 * self.bend, self.at_edge)


def _solve(product: Product, slope: np.ndarray, radius: float, least: float) -> _Step:
    """Solve M y = slope approximately by conjugate gradients within the radius of trust.

    Where the path leaves the radius, or meets a direction along which M is not positive, y lies on its edge. The rest
    of the slope need not be smaller than `least`.

    What is left of the slope need not be smaller than `least`.
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
    """Return the point at which the line from y along `direction` leaves the radius."""
    square, along = float(direction @ direction), float(y @ direction)
    left = max(radius**2 - float(y @ y), 0.0)
    # the root without cancellation: along > 0 but for rounding
    edge: np.ndarray = y + left / (along + math.sqrt(along**2 + square * left)) * direction
    return edge


@dataclass(frozen=True)
class Rounded:
    """Dense couplings rounded to integers in units of `scale`, for sweeps of a draft.

    `array` (n_units, n_units) int16 holds them, `coarse` int8 their upper eight bits.
    """

    array: np.ndarray
    coarse: np.ndarray
    scale: float
    kind = "dense"

    @classmethod
    def of(cls, couplings: Couplings, bias: np.ndarray, beta: float, threads: int) -> Rounded | None:
        """Round dense couplings; None where units are few, or couplings too different in size."""
        n = couplings.n_units
        if couplings.kind != "dense" or n < LEAST_UNITS:
            return None
        weights = couplings.matrix()
        rows = [slice(first, min(first + ROWS, n)) for first in range(0, n, ROWS)]
        sizes = fan_out(
            lambda part: (np.abs(weights[part]).max(), *np.linalg.norm(weights[part], axis=1)), rows, threads
        )
        scale = max(float(size[0]) for size in sizes) / LARGEST
        typical = float(np.median(np.concatenate([size[1:] for size in sizes]))) / math.sqrt(n)
        pull = float(np.abs(bias).max())
        if not 0.0 < scale <= FINE * typical or pull > RANGE * scale or not 1.0 < RANGE * beta * scale < RANGE**2:
            return None
        array, coarse = np.empty((n, n), np.int16), np.empty((n, n), np.int8)

        def fill(part: slice) -> None:
            round_rows(array[part], weights[part], scale)
            coarsen_rows(coarse[part], array[part])

        fan_out(fill, rows, threads)
        return cls(array, coarse, scale)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.array)

    def matrix(self) -> np.ndarray:
        """Return the rounded couplings as a matrix."""
        return self.array

    def field(self, values: np.ndarray, threads: int = 1, *, coarse: bool = False) -> np.ndarray:
        """Return the rounded couplings times every row of `values` (m, n_units), float32.

        If `coarse`, they are taken by their upper eight bits.
        """
        right = values.astype(np.float32) * np.float32(STEP if coarse else 1)
        array = self.coarse if coarse else self.array

        def some(first: int) -> np.ndarray:
            found = np.empty_like(right)
            for product, numbers in zip(found, right[:, first : first + ROWS], strict=True):
                add_rounded(product, array[first : first + ROWS], numbers)
            return found

        return np.add.reduce(fan_out(some, range(0, self.n_units, ROWS), threads))


class DraftEquations(MeanFieldEquations):
    """The mean-field equations of rounded couplings, whose biases and temperature are in the same units."""

    def __init__(self, rounded: Rounded, bias: np.ndarray, beta: float, start: np.ndarray) -> None:
        self.rounded, self._far = rounded, False
        super().__init__(rounded, bias / rounded.scale, beta * rounded.scale, start)  # type: ignore[arg-type]

    def refresh(self) -> None:
        """Compute the fields again from the means, by the rounded couplings."""
        self.fields = (self.rounded.field(self.values, self.threads) + self.bias).astype(np.float32)

    def arguments(self) -> np.ndarray:
        """Return beta (W m + b), the arguments of tanh in the equations, (n_lanes, n_units), from the kept fields."""
        return self.beta * self.fields.astype(np.float64)

    def curvature(self, means: np.ndarray, root: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the product with `response`'s matrix at the first lane.

        By couplings of eight bits while the residual is large.
        """
        self._far = float(np.abs(np.tanh(self.arguments()[0]) - means).max()) > COARSE
        return super().curvature(means, root)

    def pulled(self, y: np.ndarray) -> np.ndarray:
        """Return W y by the rounded couplings, to the precision that steps need."""
        found: np.ndarray = self.rounded.field(y[None], self.threads, coarse=self._far)[0].astype(np.float64)
        return found
