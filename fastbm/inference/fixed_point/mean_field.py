"""Naive mean field: the best product distribution, its lower bound on log Z, and covariances by linear response.

m = tanh(beta (W m + b)); log Z >= S(m) - beta E(m); covariance (diag(1 / (1 - m^2)) - beta W)^-1.
Peterson and Anderson, Complex Systems 1, 995 (1987); Kappen and Rodriguez, Neural Comput. 10, 1137 (1998),
doi:10.1162/089976698300017386.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..._base.options import options
from ..._base.threads import fan_out, single_threaded_blas
from ...machine.couplings import Couplings, row_blocks
from ...machine.machine import BoltzmannMachine
from ..result import Inference
from .equations import MeanFieldEquations
from .iterate import LANES, Iterated, moments as moments_of, settle, starting_means, warn_unsettled
from .large import DraftEquations, Rounded, newton
from .response import invert_all, refuse_wide, sech

COARSE = 1e-3  # change at which the starts are compared; the best is then followed to its end
COARSE_SWEEPS = 60
DRAFT = 1e-4  # residual to which rounded equations are solved before the real ones
PUSHES, PUSH = 8, 0.1  # off saddles, and how far
LAZY = 0.1  # part of the last largest change below which changes wait there


@dataclass(frozen=True)
class Solution:
    """Fixed points, one a column, as `arguments` = atanh m (n_units, lanes), and the residuals of their equations."""

    arguments: np.ndarray
    residual: np.ndarray
    n_sweeps: int

    @property
    def means(self) -> np.ndarray:
        """Means of the spins."""
        return np.tanh(self.arguments)


def solve(
    couplings: Couplings,
    bias: np.ndarray,
    beta: float,
    start: np.ndarray,
    *,
    tolerance: float,
    damping: float,
    max_sweeps: int,
    mixed: bool = True,
) -> Solution:
    """Solve the mean-field equations of spins from `start` (n_units, lanes), with `bias` (n_units, lanes)."""
    equations = MeanFieldEquations(couplings, bias.T, beta, start.T)
    return follow(equations, tolerance=tolerance, damping=damping, max_sweeps=max_sweeps, mixed=mixed)


def follow(
    equations: MeanFieldEquations, *, tolerance: float, damping: float, max_sweeps: int, mixed: bool = True
) -> Solution:
    """Sweep until the equations are solved; set the means to the fixed points and return these."""
    n_sweeps, aim = 0, 0.1 * tolerance
    while True:
        _, more = settle(equations, tolerance=aim, damping=damping, max_sweeps=max_sweeps - n_sweeps, mixed=mixed)
        n_sweeps += more
        equations.refresh()
        arguments = equations.arguments()
        equations.place(arguments)
        residual = np.abs(np.tanh(equations.arguments()) - equations.values).max(axis=1, initial=0.0)
        if np.all(residual <= tolerance) or n_sweeps >= max_sweeps or aim < equations.finest():
            return Solution(arguments.T, residual, n_sweeps)
        aim *= 0.1


def respond(
    couplings: Couplings, bias: np.ndarray, beta: float, shares: np.ndarray, *, tolerance: float, max_sweeps: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Solve from means of 0, with `bias` (n_units, lanes); return means, and covariances averaged by `shares` (lanes,).

    These are by linear response. Where it tells that a lane has come to a saddle, as mixed sweeps may, the lane is
    pushed off and goes on. There are no covariances where that does not help, as at a mean-field transition.
    """

    def solved(bias: np.ndarray, start: np.ndarray, mixed: bool) -> np.ndarray:
        about = {"tolerance": tolerance, "max_sweeps": max_sweeps, "mixed": mixed}
        return solve(couplings, bias, beta, start, damping=0.0, **about).arguments  # type: ignore[arg-type]

    arguments = solved(bias, np.zeros_like(bias), True)
    for _ in range(PUSHES):
        covariance, uphill = _mean_response(couplings, beta, arguments.T, shares)
        if not uphill:
            return np.tanh(arguments), covariance
        saddles = list(uphill)
        off = np.tanh(arguments[:, saddles]) + PUSH * np.stack(list(uphill.values()), axis=1)
        arguments[:, saddles] = solved(bias[:, saddles], off, False)
    return np.tanh(arguments), None


def _mean_response(
    couplings: Couplings, beta: float, arguments: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray | None, dict[int, np.ndarray]]:
    """Return the average by `shares` of covariances at fixed points, `arguments` (n_points, n_units).

    And, by the numbers of those that are saddles, ways uphill. Where there are any, or a response diverges, there is no
    average.
    """
    n, roots, weights = couplings.n_units, sech(arguments), couplings.matrix()
    parts: list[np.ndarray | None] = []
    uphill: dict[int, np.ndarray] = {}
    for some in row_blocks(len(shares), n * n):
        left, right = roots[some, :, None], roots[some, None, :]
        matrices = np.eye(n) - beta * weights * left * right
        inverses = invert_all(matrices.copy())
        if inverses is None:
            values, vectors = np.linalg.eigh(matrices)
            lowest = roots[some] * vectors[:, :, 0]
            uphill |= {some.start + k: lowest[k] for k in np.flatnonzero(values[:, 0] < 0.0).tolist()}
        parts.append(None if inverses is None else np.tensordot(shares[some], left * inverses * right, axes=1))
    known = [part for part in parts if part is not None]
    return (np.sum(known, axis=0) if len(known) == len(parts) else None), uphill


@options
class MeanField(Iterated):
    """Find the best product distribution of several starts.

    Parameters
    ----------
    n_starts : int
        One from m = 0 (moved by the bias), the others random; that of the best bound is followed to its end.

    Notes
    -----
    `covariance` is the linear response as it comes: its diagonal, unlike that of `second_moment`, is not the exact
    one. For sparse machines of more than 16,384 units both hold the coupled pairs only. `detail["left_out"]` is the
    leading order, in the couplings, of what the bound lacks, see `left_out`.
    """

    name: ClassVar[str] = "mean-field"

    def run(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Inference:
        """Infer log Z and moments; moments are in the machine's units."""
        spin = model.to_units("spin")
        if moments:
            refuse_wide(spin.couplings)
        starts = starting_means(spin.n_units, self.n_starts, seed)
        found = climb(MeanFieldEquations, spin, beta, starts, self, threads)
        if not found.converged:
            rest = "the bound holds all the same. Raise max_sweeps or damping."
            warn_unsettled("mean-field", found.residual, found.n_sweeps, rest)
        result = found.inference("mean-field", model, "lower", moments, threads)
        return replace(result, detail={"left_out": left_out(spin.couplings, beta, found.arguments)} | result.detail)


def left_out(couplings: Couplings, beta: float, arguments: np.ndarray) -> float:
    """Estimate what the mean-field log Z leaves out, in nats, to second order in the couplings.

    It is half the variance of beta E that the product distribution leaves to it, beta^2 / 4 sum_ij W_ij^2 (1 - m_i^2)
    (1 - m_j^2) at m = tanh(`arguments`).

    No bound: a valley that was missed is not in it.

    References
    ----------
    Plefka, J. Phys. A 15, 1971 (1982). doi:10.1088/0305-4470/15/6/035
    """
    free = sech(arguments) ** 2
    if couplings.kind == "dense":
        weights = couplings.matrix()
        return float(0.25 * beta**2 * np.einsum("i,ij,ij,j", free, weights, weights, free))  # no copy, no threads
    squares = couplings.with_arrays([array**2 for array in couplings.arrays])
    return float(0.25 * beta**2 * (free @ squares.field(free[None])[0]))


@dataclass(frozen=True)
class Climbed:
    """The best of several starts: its equations in a single lane, atanh of its means, and how they were reached."""

    equations: MeanFieldEquations
    arguments: np.ndarray
    residual: float
    converged: bool
    n_sweeps: int
    values: np.ndarray  # log Z of all starts
    offset: float

    def inference(
        self, method: str, model: BoltzmannMachine, bound: str | None, moments: bool, threads: int
    ) -> Inference:
        """Return the result, in the units of `model`."""
        log_z = float(self.equations.log_z(self.arguments[None])[0]) - self.equations.beta * self.offset
        energy = float(self.equations.energies()[0]) + self.offset
        result: dict[str, Any] = {"log_z": log_z, "bound": bound, "energy": energy}
        if moments:
            response, root = self.equations.response(self.arguments)
            result |= moments_of(model, method, np.tanh(self.arguments), response.covariance(root, threads))
        return Inference(
            method,
            **result,
            entropy=log_z + self.equations.beta * energy,
            converged=self.converged,
            detail={
                "residual": self.residual,
                "n_sweeps": self.n_sweeps,
                f"{'bounds' if bound else 'log_z'} of all starts": self.values,
            },
        )


def climb(
    kind: type[MeanFieldEquations],
    spin: BoltzmannMachine,
    beta: float,
    starts: np.ndarray,
    settings: Iterated,
    threads: int,
) -> Climbed:
    """Sweep all starts near to a maximum of log Z, and bring the best of them to it by Newton's method."""
    couplings, bias = spin.couplings, spin.flat_bias[None]
    if couplings.kind == "sparse":
        couplings.csr()  # made once, before threads ask for it
    rounded = Rounded.of(couplings, bias, beta, threads) if kind is MeanFieldEquations else None

    def coarse(first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        some = starts[first : first + LANES]
        equations = kind(couplings, bias, beta, some) if rounded is None else DraftEquations(rounded, bias, beta, some)
        _, n_sweeps = settle(
            equations, tolerance=COARSE, damping=settings.damping, max_sweeps=min(COARSE_SWEEPS, settings.max_sweeps),
            lazy=LAZY if couplings.kind == "dense" else 0.0,
        )  # fmt: skip
        if rounded is not None:
            equations = kind(couplings, bias, beta, equations.values)
        equations.refresh()
        arguments = equations.arguments()
        equations.place(arguments)
        log_z = equations.log_z(arguments)
        return log_z, np.array(equations.values), equations.rank(log_z), n_sweeps

    with single_threaded_blas():
        parts = fan_out(coarse, range(0, settings.n_starts, LANES), threads)
    values, means, rank = (np.concatenate([part[k] for part in parts]) for k in (0, 1, 2))
    n_sweeps = max(part[3] for part in parts)
    best = int(np.argmax(rank))
    start = means[best : best + 1]
    with single_threaded_blas():
        if rounded is not None:
            draft = DraftEquations(rounded, bias, beta, start)
            draft.threads = threads
            n_sweeps += newton(
                draft, tolerance=max(settings.tolerance, DRAFT), max_sweeps=settings.max_sweeps - n_sweeps
            )
            start = draft.values
        equations = kind(couplings, bias, beta, start)
        equations.threads = threads
        if rounded is not None:
            equations.quick = lambda y: rounded.scale * draft.pulled(y)
        n_sweeps += newton(equations, tolerance=settings.tolerance, max_sweeps=settings.max_sweeps - n_sweeps)
    solution = follow(
        equations, tolerance=settings.tolerance, damping=settings.damping,
        max_sweeps=max(settings.max_sweeps - n_sweeps, 0),
    )  # fmt: skip
    residual = float(solution.residual[0])
    values[best] = equations.log_z(solution.arguments.T)[0]
    converged = residual <= settings.tolerance or residual <= equations.finest()
    return Climbed(
        equations, solution.arguments[:, 0], residual, converged, n_sweeps + solution.n_sweeps,
        values - beta * spin.offset, spin.offset,
    )  # fmt: skip
