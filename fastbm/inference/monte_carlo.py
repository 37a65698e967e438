"""Moments by Markov chain Monte Carlo, with error bars from the chains' autocorrelation.

Means and second moments of recorded states, gathered piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np

from .. import diagnostics
from .._base.arrays import cleared, empty
from .._base.options import Least, options
from .._base.steps import SOON, tell
from .._base.threads import fan_out
from ..diagnostics.autocorrelation import standard_error, tau_and_error
from ..machine.machine import BoltzmannMachine
from ..sampling import make_chains
from ..sampling.chains import resolve_order, threads_between, warn_if_periodic
from ..sampling.engine.engine import Engine
from ..sampling.single import WORTH_BLOCKS
from ..sampling.tempering import TemperedChains
from ..sampling.unseen import AGRESTI_COULL, rarely, unseen_flip
from .chain_counts import PairCounts, PairHalves, added, count_states, shares_of_pairs
from .estimator import SWEEPS, Examined, Knob, Order, refuse_no_samples, sweeps
from .monte_carlo_verdict import ChainVerdict, judge_chains, warn_of_chains
from .result import Inference, moments_from_up
from .scout.bounds import certain
from .temperatures import FEWEST_SPREAD, spread_error

PIECE = 1 << 24  # bits of states that are held at once, about
WORTH_A_PART = 1 << 15  # numbers of blocks, in which a thread looks at some units
N_BLOCKS = 32  # means over this many blocks of every chain are kept for the error bars


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
        found: np.ndarray = chains.record(n, 1)["samples/energy"]
        return found
    chains.sweep(1)
    return chains.energies()[None]


@options
class _Chains(Examined):
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

    n_chains: Annotated[int, Least(1)] = 64
    n_sweeps: Annotated[int, Least(1)] = 1_000
    burn_in: Annotated[int | Literal["auto"], sweeps] = "auto"
    thin: Annotated[int, Least(1)] = 1
    order: Order | None = None
    initial: Any = "random"

    def _check_together(self) -> None:
        refuse_no_samples(self.n_sweeps, self.thin)

    def run(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Inference:
        """Infer log Z and moments; moments are in the machine's units."""
        n_samples = self.n_sweeps // self.thin
        target = TargetMoments(model, n_samples, self.n_chains, threads, pairs=moments, halves=moments)
        order = resolve_order(self.order, self.name)
        doubt = warn_if_periodic(model, rule=self.name, order=order, beta=beta)
        chains = make_chains(
            model,
            self.n_chains,
            rule=self.name,
            order=order,
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
        blocks = target.means()
        looks: list[Callable[[], Any]] = [partial(tau_and_error, energies)]
        looks += [partial(standard_error, part) for part in _of_units(blocks, threads)]
        (tau, energy_error), *noises = fan_out(lambda look: look(), looks, threads)
        ess, noise = energies.size / (2 * tau), np.concatenate(noises)
        verdict = judge_chains(
            model,
            beta,
            energies,
            blocks,
            np.maximum(noise, rarely(ess)),
            target.halves,
            one_point=_is_one_point(self.initial),
            frozen=frozen,
            doubt=doubt,
            threads=threads,
        )
        warn_of_chains(self.name, verdict, frozen=frozen)
        errors = _errors_of_fractions(blocks, noise, ess, certain(model, beta), self.n_chains)
        n_updates = chains.n_swept * chains.n_chains * chains.n_units
        detail = {**chains.detail, "n_updates": n_updates, "burn_in": burnt, "r_hat": verdict.r_hat, "tau_int": tau}
        return _result(model, self.name, beta, energies, energy_error, blocks, errors, target.pairs, verdict, detail)


@options
class Gibbs(_Chains):
    """Estimate moments from chains that draw one unit after the other given all others.

    Notes
    -----
    Means with errors, second moments, energy; `converged` by split R-hat of energy, units and pairs of units, by
    the means that a machine without biases is known to have, and by whether halves of the run differ. None where
    chains agree but may all have missed a valley: one chain, fewer than 8, or all from one state, unless the
    machine is known to have one valley only; also of fewer than 32 samples of a chain or 256 in all.
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
    the means that a machine without biases is known to have, and by whether halves of the run differ. None where
    chains agree but may all have missed a valley: one chain, fewer than 8, or all from one state, unless the
    machine is known to have one valley only; also of fewer than 32 samples of a chain or 256 in all.
    `detail["doubt"]` says why. `mean_error` of a unit that never flipped, and that its own bias does not hold, counts
    chains and no sweeps: it cannot tell a unit that would flip back at once from a valley that none has found.
    """

    name: ClassVar[str] = "metropolis"


def _is_one_point(initial: Any) -> bool:
    """Return whether all chains begin at the same state."""
    if isinstance(initial, str):
        return initial == "up"
    states = np.atleast_2d(initial)
    return bool((states == states[0]).all())


def _of_units(blocks: np.ndarray, threads: int) -> list[np.ndarray]:
    """Return blocks (n_blocks, n_chains, n_units) cut by units, into parts for each thread if that is worth it."""
    # NumPy adds up the numbers of one unit alone in another order than those of two or more
    n_parts = min(blocks.shape[2] // 2, 4 * threads, blocks.size // WORTH_A_PART) if threads > 1 else 1
    return np.array_split(blocks, max(n_parts, 1), axis=2)


def _errors_of_fractions(
    blocks: np.ndarray, noise: np.ndarray, ess: float, sure: np.ndarray, n_starts: float
) -> np.ndarray:
    """Return standard errors of the fractions of time that units are up.

    Parameters
    ----------
    blocks : (n_blocks, n_chains, n_units) array
        Of the fractions.
    noise : (n_units,) array
        Their standard errors, as far as flips that were seen tell.
    ess : float
        Effective samples of the energy: no unit that never flipped has more.
    sure : (n_units,) array
        Log-odds that a unit's own bias leaves it, of `certain`.
    n_starts : float
        How often chains began anew: so many independent samples there are of valleys that they do not leave.

    Notes
    -----
    A few flips, or none, tell of their own scarcity badly: where a unit was up once, six times are likely enough. So
    two more visits to its rarer side are reckoned with than were seen (`rarely`). Of a side of probability p the noise
    tells (p / noise)^2 visits, and p over their number is what one adds. They say nothing of a valley that is seldom
    found and then not soon left, so they are put together with one visit that takes a chain for all its time: what a
    visit adds is (p + 1 / n_starts) / (visits + 1). What a bias makes certain, whatever the neighbours do, bounds how
    often a unit is on that side even then. Units that only their neighbours hold, and that never flip, have wide errors
    of about 1.4 / n_starts: whether they would flip back at once cannot be told.
    """
    p = blocks.mean(axis=(0, 1))
    rarer, held = np.minimum(p, 1.0 - p), np.maximum(np.where(p < 0.5, -sure, sure), 0.0)
    longest = np.maximum(np.exp(-held) / n_starts, 1.0 / ess)
    visits = np.divide(rarer, noise, out=np.zeros_like(noise), where=noise > 0.0) ** 2
    found: np.ndarray = np.hypot(noise, rarely((visits + 1.0) / (rarer + longest), AGRESTI_COULL))
    return found


def _result(
    model: BoltzmannMachine,
    rule: str,
    beta: float,
    energies: np.ndarray,
    energy_error: float,
    blocks: np.ndarray,
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
        "mean": units.lo + units.span * blocks.mean(axis=(0, 1)),
        "mean_error": units.span * errors,
    }
    if pairs is not None:
        result |= moments_from_up(units, pairs.up())
    if verdict.reason:
        detail = detail | {"doubt": verdict.reason}
    return Inference(rule, **result, converged=verdict.converged, n_samples=energies.size, ess=ess, detail=detail)


class TargetMoments:
    """Moments of `n_samples` states of `n_chains` chains, which come packed, in the order in which they were taken.

    Attributes
    ----------
    halves : PairHalves or None
        How often pairs of units differ in halves of chains, which not everybody needs.
    """

    def __init__(
        self,
        model: BoltzmannMachine,
        n_samples: int,
        n_chains: int,
        threads: int,
        *,
        pairs: bool = True,
        halves: bool = False,
    ) -> None:
        n = model.n_units
        self._units, self._threads = model.convention, threads
        self._pairs = shares_of_pairs(n, threads) if pairs else []
        self.halves = PairHalves(n, n_chains, n_samples) if halves else None
        self._block = np.arange(n_samples) * min(N_BLOCKS, n_samples) // n_samples
        self._sums = cleared((self._block[-1] + 1, n_chains, n), np.int64)
        self._done = 0

    def add(self, packed: np.ndarray) -> None:
        """Count states, (n_samples, n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit."""
        first, self._done = self._done, self._done + len(packed)
        blocks = self._block[first : self._done]
        count_states(packed, blocks, self._sums, self._threads, self._pairs, self.halves, first)

    @property
    def pairs(self) -> PairCounts | None:
        """How often each pair of units was up together."""
        return added(self._pairs) if self._pairs else None

    def means(self) -> np.ndarray:
        """Return the part of the time that units are up in blocks of samples, (n_blocks, n_chains, n_units).

        They lie in memory unit by unit, as they are looked at.
        """
        by_unit, sizes = np.moveaxis(self._sums, -1, 0), np.bincount(self._block)
        return np.moveaxis(np.divide(by_unit, sizes[:, None], out=empty(by_unit.shape, np.float64)), 0, -1)

    def result(self, ess: float, sure: np.ndarray, n_starts: float) -> dict[str, Any]:
        """Return the moment fields of an Inference; for the arguments see `_errors_of_fractions`."""
        pairs, blocks = self.pairs, self.means()
        assert pairs is not None
        noise = np.concatenate(fan_out(standard_error, _of_units(blocks, self._threads), self._threads))
        if blocks.shape[1] >= FEWEST_SPREAD:
            of_chains = blocks.mean(axis=0)
            noise = np.maximum(noise, spread_error(of_chains - of_chains.mean(axis=0)))
        error = _errors_of_fractions(blocks, noise, ess, sure, n_starts)
        return moments_from_up(self._units, pairs.up()) | {"mean_error": self._units.span * error}
