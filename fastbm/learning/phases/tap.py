"""Both phases by the equations of Thouless, Anderson and Palmer.

At a solution log Z = S(m) - beta E(m) + beta^2 / 4 sum_ij W_ij^2 (1 - m_i^2) (1 - m_j^2) is stationary in m, so that
its slopes with respect to the parameters are beta <s_i> and beta <s_i s_j> with

    <s_i> = m_i,    <s_i s_j> = m_i m_j + beta W_ij (1 - m_i^2) (1 - m_j^2)

for spins. With these moments the difference of both phases is the gradient of the likelihood that TAP gives, clamped
log Z less free log Z. One solution stands for the whole machine: it sees neither the loops of strong couplings nor
several modes.

Gabrie, Tramel and Krzakala, NIPS (2015), doi:10.48550/arXiv.1506.02914; Thouless, Anderson and Palmer, Phil. Mag. 35,
593 (1977), doi:10.1080/14786437708235992.
"""

from __future__ import annotations

import numpy as np

from ..._base.arrays import unlike_rows
from ..._base.checks import Diverged
from ..._base.threads import fan_out, single_threaded_blas
from ...inference.fixed_point.iterate import Iterated
from ...inference.fixed_point.mean_field import climb, follow
from ...inference.fixed_point.tap import TapEquations
from ...machine.clamping import Clamped
from ...machine.couplings import Couplings
from ...machine.machine import BoltzmannMachine
from ..moments import PhaseMoments, without_diagonal
from .phase import Phase

TOLERANCE, MOST_SWEEPS = 1e-10, 2_000
UNSOLVED = 1e-3  # residual from which on there is no solution to speak of
LANES = 256  # rows whose equations are solved together


def spin_moments(
    couplings: Couplings, beta: float, means: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Return <s_i> and <s_i s_j> of coupled pairs, averaged by `weights` over solutions `means` (m, n_units) of spins.

    Units that are clamped have means of -1 or 1, and so no part in the second term.
    """
    roots = np.sqrt(weights)[:, None]
    products = couplings.pair_sums(means * roots)
    widths = couplings.pair_sums((1.0 - means**2) * roots)
    pairs = tuple(p + beta * w * d for p, w, d in zip(products, couplings.arrays, widths, strict=True))
    return weights @ means, pairs


def in_units(model: BoltzmannMachine, mean: np.ndarray, pairs: tuple[np.ndarray, ...], log_z: float) -> PhaseMoments:
    """Return moments of spins in the units of `model`; x_i x_j = (s_i s_j + s_i + s_j + 1) / 4 for x = (1 + s) / 2."""
    if model.units == "binary":
        more, products = model.couplings.pair_sums((mean + 1.0)[None]), model.couplings.pair_sums(mean[None])
        pairs = tuple((p + a - b) / 4.0 for p, a, b in zip(pairs, more, products, strict=True))
        mean = (1.0 + mean) / 2.0
    return without_diagonal(PhaseMoments(mean, pairs, log_z))


def refuse_unsolved(phase: str, residual: float) -> None:
    """Raise `Diverged` where the TAP equations have no solution, by their residual; learning stops there."""
    if not residual <= UNSOLVED:
        raise Diverged(f"the TAP equations of the {phase} phase do not settle (residual {residual:.2g}).")


class ClampedTap(Phase):
    """Clamped phase, hidden units by the TAP solution that starts from m = 0.

    It is exact where they are not coupled to one another.
    """

    name = "tap"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments averaged over `rows`, hidden units by TAP, with the mean log of the rows' clamped sums."""
        spin, beta = model.to_units("spin"), self.settings.beta
        values = rows.astype(np.float64) if model.units == "spin" else 2.0 * rows - 1.0
        first, which = unlike_rows(values)
        unique, weights = values[first], np.bincount(which) / len(values)
        if model.n_hidden == 0:
            log_z = -beta * float(weights @ spin.energy(unique))
            return in_units(model, *spin_moments(spin.couplings, beta, unique, weights), log_z)
        clamped = Clamped.of(spin, np.arange(model.n_visible), unique)
        independent = spin.has_free_energy
        if clamped.couplings.kind == "sparse":
            clamped.couplings.csr()  # made once, before threads ask for it

        def one(first: int) -> tuple[np.ndarray, np.ndarray]:
            bias = clamped.bias[first : first + LANES]
            start = np.tanh(beta * bias) if independent else np.zeros_like(bias)
            equations = TapEquations(clamped.couplings, bias, beta, start)
            found = follow(equations, tolerance=TOLERANCE, damping=0.0, max_sweeps=MOST_SWEEPS)
            refuse_unsolved("clamped", float(found.residual.max(initial=0.0)))
            return found.means.T, equations.log_z(found.arguments.T)

        with single_threaded_blas():
            parts = fan_out(one, range(0, len(unique), LANES), self.settings.threads)
        hidden, sums = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        means = np.concatenate([unique, hidden], axis=1)
        log_z = float(weights @ (sums - beta * clamped.offset))
        return in_units(model, *spin_moments(spin.couplings, beta, means, weights), log_z)


class FreeTap(Phase):
    """Free phase by one solution of the TAP equations, followed from one update to the next."""

    name = "tap"

    _means: np.ndarray

    def prepare(self, model: BoltzmannMachine) -> None:
        """Start the solution at means of 0."""
        self._means = np.zeros(model.n_units)

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments and log Z by the TAP solution next to the last one; `rows` are ignored."""
        spin, s = model.to_units("spin"), self.settings
        settings = Iterated(n_starts=1, tolerance=TOLERANCE, max_sweeps=MOST_SWEEPS)
        found = climb(TapEquations, spin, s.beta, self._means[None], settings, s.threads)
        refuse_unsolved("free", found.residual)
        self._means = np.tanh(found.arguments)
        log_z = float(found.equations.log_z(found.arguments[None])[0]) - s.beta * spin.offset
        return in_units(model, *spin_moments(spin.couplings, s.beta, self._means[None], np.ones(1)), log_z)

    def state(self) -> dict[str, np.ndarray]:
        """Return the means of the last solution."""
        return {"means": self._means}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._means = np.array(state["means"])
