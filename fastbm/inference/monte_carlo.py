"""Moments by Markov chain Monte Carlo, with error bars from the chains' autocorrelation.

Means and second moments of recorded states, gathered piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np

from .. import diagnostics
from .._base.options import Least, options
from .._base.steps import SOON, tell
from ..diagnostics.autocorrelation import tau_and_error
from ..diagnostics.ranks import largest_r_hats, plain_r_hat
from ..machine.machine import BoltzmannMachine
from ..sampling import make_chains
from ..sampling.chains import kernel_of_many, resolve_order, threads_between, warn_if_periodic
from ..sampling.engine.choice import MANY_CHAINS
from ..sampling.engine.engine import Engine
from ..sampling.single import WORTH_BLOCKS
from ..sampling.tempering import TemperedChains
from ..sampling.unseen import rarely, unseen_flip
from .chain_counts import PairCounts
from .estimator import SWEEPS, Drawing, Drawn, Knob, Order, refuse_no_samples, sweeps
from .monte_carlo_verdict import ChainVerdict, judge_chains, warn_of_chains
from .result import Inference, moments_from_up
from .scout.bounds import certain
from .target_moments import OfUnits, TargetMoments, errors_of_fractions

SHORT = 1.5e-3  # seconds in which samples are drawn, whose judging threads would take longer for
HOPELESS = 1.02  # R-hat of pairs of units, sample by sample, beyond which that of units in blocks will hardly pass
PIECE = 1 << 24  # bits of states that are held at once, about


class Sweeping(Protocol):
    """The protocol of chains that can be burnt in."""

    n_chains: int

    def sweep(self, n_sweeps: int) -> None:
        """Advance every chain."""

    def energies(self) -> np.ndarray:
        """Return the quantity that has to become stationary, (n_chains,)."""


def find_burn_in(chains: Sweeping, longest: int) -> int:
    """Sweep until the mean energy is stationary by the doubling test of `diagnostics.LogBins`.

    Returns the number of sweeps. Stops at `longest`, stationary or not: R-hat will tell. Chains are recorded where they
    can be, for which the run that follows needs the same kernel.
    """
    bins, n = diagnostics.LogBins(1, chains.n_chains), 0
    while n < longest:
        tell("sweep of the burn-in", n, longest)
        # looks are taken at the end of a unit
        rows = _energies_after(chains, min(bins.unit - n % bins.unit, longest - n))
        n += len(rows)
        looks = [bins.add(row[None]) for row in rows]
        if looks[-1]:
            break
    return n


def _energies_after(chains: Sweeping, most: int) -> np.ndarray:
    """Advance by at most so many sweeps, as many as are soon done in one call; return energies after each."""
    if isinstance(chains, (TemperedChains, Engine)):
        n = min(most, max(1, int(SOON / chains.sweep_seconds)))
        alone = {"whole": False} if isinstance(chains, TemperedChains) else {}  # the target's
        found: np.ndarray = chains.record(n, 1, **alone)["samples/energy"]
        return found
    chains.sweep(1)
    return chains.energies()[None]


@options
class _Chains(Drawing):
    """Moments from chains of single-unit updates.

    Parameters
    ----------
    n_chains, n_sweeps, thin : int
        Every `thin`-th of `n_sweeps` sweeps of every chain is used.
    burn_in : int or "auto"
        Sweeps that are thrown away first; "auto" goes on until the energy is stationary, for at most `n_sweeps`.
    order : {"sequential", "permuted", "random", "coloured"}, optional
        How a sweep visits the units; left out, sequential for Gibbs and random for Metropolis.
    initial : "random", "up" or array
        Where chains start.
    """

    knob: ClassVar[Knob | None] = SWEEPS
    all_pairs: ClassVar[bool] = True
    of_log_z: ClassVar[bool] = False

    n_chains: Annotated[int, Least(1)] = 64
    n_sweeps: Annotated[int, Least(1)] = 1_000
    burn_in: Annotated[int | Literal["auto"], sweeps] = "auto"
    thin: Annotated[int, Least(1)] = 1
    order: Order | None = None
    initial: Any = "random"

    def _check_together(self) -> None:
        refuse_no_samples(self.n_sweeps, self.thin)

    def worth(self, model: BoltzmannMachine, threads: int) -> int:
        """Return one thread where samples are soon drawn."""
        return threads_between(model, self.n_chains, self.n_sweeps, threads, SHORT)

    def draw(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Drawn:
        """Draw samples, of which moments are told, in the machine's units."""
        n_samples = self.n_sweeps // self.thin
        target = TargetMoments(model, n_samples, self.n_chains, threads, pairs=moments, halves=moments)
        order = resolve_order(self.order, self.name)
        doubt = warn_if_periodic(model, rule=self.name, order=order, beta=beta)
        chains = make_chains(
            model,
            self.n_chains,
            rule=self.name,
            order=order,
            kernel=kernel_of_many(model, self.n_chains, beta, order, MANY_CHAINS),
            beta=beta,
            seed=seed,
            initial=self.initial,
            threads=threads_between(model, self.n_chains, self.n_sweeps, threads, WORTH_BLOCKS),
        )
        if self.burn_in == "auto":
            burnt = find_burn_in(chains, self.n_sweeps)
        else:
            burnt = int(self.burn_in)
            chains.sweep(burnt)
        flips = chains.n_flips
        energies = np.empty((n_samples, self.n_chains))
        piece = max(1, min(PIECE // (model.n_units * self.n_chains), int(SOON / (self.thin * chains.sweep_seconds))))
        for start in range(0, n_samples, piece):
            tell("sweep", start * self.thin, self.n_sweeps)
            found = chains.record(min(piece, n_samples - start), self.thin)
            energies[start : start + piece] = found["samples/energy"] + model.offset
            target.add(found["samples/states"])
        frozen = self.n_chains == 1 and chains.n_flips == flips  # and no other chain to tell whether that is right
        n_updates = chains.n_swept * chains.n_chains * chains.n_units
        detail = {**chains.detail, "n_updates": n_updates, "burn_in": burnt}
        parts: list[Callable[[], Any]] = [
            partial(largest_r_hats, [energies], 1),
            partial(tau_and_error, energies),
            *target.looks(),
        ]
        judge = partial(self._judge, model, beta, energies, target, doubt, frozen, detail)
        return Drawn(detail, parts, judge, hopeless=threads > 1 and _is_hopeless(energies, target))

    def _judge(
        self,
        model: BoltzmannMachine,
        beta: float,
        energies: np.ndarray,
        target: TargetMoments,
        doubt: str,
        frozen: bool,
        detail: dict[str, Any],
        numbers: Sequence[Any],
    ) -> Inference:
        """Put the result together of what parts of the samples have told."""
        (r_hat,), (tau, energy_error), *looks = numbers
        ess, units = energies.size / (2 * tau), OfUnits.joined(looks)
        verdict = judge_chains(
            model,
            beta,
            energies,
            r_hat,
            units,
            target.n_blocks,
            np.maximum(units.noise, rarely(ess)),
            target.halves,
            one_point=_is_one_point(self.initial),
            frozen=frozen,
            doubt=doubt,
        )
        warn_of_chains(self.name, verdict, frozen=frozen)
        errors = errors_of_fractions(units.p, units.noise, ess, certain(model, beta), self.n_chains)
        detail = detail | {"r_hat": verdict.r_hat, "tau_int": tau}
        return _result(model, self.name, beta, energies, energy_error, units.p, errors, target.pairs, verdict, detail)


@options
class Gibbs(_Chains):
    """Estimate moments from chains that draw one unit after the other given all others.

    Notes
    -----
    Means with errors, second moments, energy; `converged` by split R-hat of energy, units and pairs of units, by
    the means that a machine without biases is known to have, and by whether the first part of the run differs from the
    rest. None where chains agree but may all have missed a valley: one chain, fewer than 8, or all from one state,
    unless the machine is known to have one valley only; also of fewer than 32 samples of a chain or 256 in all.
    `detail["doubt"]` says why. `mean_error` of a unit that never flipped, and that its own bias does not hold, counts
    chains and no sweeps: it cannot tell a unit that would flip back at once from a valley that none has found.
    """

    name: ClassVar[str] = "gibbs"


@options
class Metropolis(_Chains):
    """Estimate moments from chains that propose to flip one unit after the other.

    Notes
    -----
    Means with errors, second moments, energy; `converged` by split R-hat of energy, units and pairs of units, by
    the means that a machine without biases is known to have, and by whether the first part of the run differs from the
    rest. None where chains agree but may all have missed a valley: one chain, fewer than 8, or all from one state,
    unless the machine is known to have one valley only; also of fewer than 32 samples of a chain or 256 in all.
    `detail["doubt"]` says why. `mean_error` of a unit that never flipped, and that its own bias does not hold, counts
    chains and no sweeps: it cannot tell a unit that would flip back at once from a valley that none has found.
    """

    name: ClassVar[str] = "metropolis"


def _is_hopeless(energies: np.ndarray, target: TargetMoments) -> bool:
    """Return whether a pass over what is at hand shows that chains disagree; others may do so too."""
    pairs = HOPELESS if target.halves is None else target.halves.r_hat()
    return plain_r_hat(energies) > diagnostics.R_HAT_LIMIT or pairs > HOPELESS


def _is_one_point(initial: Any) -> bool:
    """Return whether all chains begin at the same state."""
    if isinstance(initial, str):
        return initial == "up"
    states = np.atleast_2d(initial)
    return bool((states == states[0]).all())


def _result(
    model: BoltzmannMachine,
    rule: str,
    beta: float,
    energies: np.ndarray,
    energy_error: float,
    p: np.ndarray,
    errors: np.ndarray,
    pairs: PairCounts | None,
    verdict: ChainVerdict,
    detail: dict[str, Any],
) -> Inference:
    ess, units = energies.size / (2 * detail["tau_int"]), model.convention
    missed = unseen_flip(model, beta, ess)
    result: dict[str, Any] = {
        "energy": float(energies.mean()),
        "energy_error": float(np.hypot(energy_error, missed.chance * missed.energy)),
        "energy_variance": float(energies.var()),
        "mean": units.lo + units.span * p,
        "mean_error": units.span * errors,
    }
    if pairs is not None:
        result |= moments_from_up(units, pairs.up())
    if verdict.reason:
        detail = detail | {"doubt": verdict.reason}
    return Inference(rule, **result, converged=verdict.converged, n_samples=energies.size, ess=ess, detail=detail)
