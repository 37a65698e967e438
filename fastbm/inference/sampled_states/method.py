"""log Z from the unique low-energy states that sequential dynamics visits, at the target, tempered, or annealed.

The sum over the set S of distinct visited states is a lower bound. At the target temperature the probability P(S) of
the set is the fraction of samples of independent chains that lie in it, and log Z = log sum_S exp(-beta E) - log P(S).
Beside it stands the missing mass of Good, Biometrika 40, 237 (1953), doi:10.1093/biomet/40.3-4.237, where samples are
far enough apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ... import diagnostics
from ..._base import checks, rng
from ..._base.options import Above, Least, options
from ..._base.steps import tell
from ...machine.machine import BoltzmannMachine
from ...sampling import Chains, make_chains
from ...sampling.annealing import AnnealedChains, make_schedule, resolve_schedule
from ...sampling.chains import threads_between
from ...sampling.tempering import TemperedChains
from ..estimator import SWEEPS, Examined, Knob, Order, refuse_no_samples, sweeps
from ..monte_carlo import find_burn_in
from ..result import Inference, check_pairs, moments_of
from ..temperatures import spread_error
from ..tempering.ladder import make_ladder
from ..verdict import Verdict, apart, judged
from .state_set import StateSet

PIECE_BYTES = 1 << 24  # of packed states that are held at once, about

Visited = Iterator[tuple[np.ndarray, np.ndarray]]
WORTH_BLOCKS = (
    0.02  # seconds of all sweeps from which on two blocks repay the burn-in, which hands them over each sweep
)
MOST_MISSED = 0.1  # nats that the bound may lie below its estimate: a tenth of the weight
INDEPENDENT = 0.6  # autocorrelation time, in samples, up to which samples count as independent (1/2 is exact)


def visit_chains(
    model: BoltzmannMachine,
    n_chains: int,
    n_sweeps: int,
    thin: int,
    burn_in: int | None,
    *,
    beta: float,
    order: str | None,
    seed: int,
    threads: int,
) -> Visited:
    """Return the states of chains at the target, with their energies.

    States are packed (n, n_chains, bytes), energies (n, n_chains) without offset.

    `burn_in` None goes on until the energy is stationary, for at most `n_sweeps`.
    """
    threads = threads_between(model, n_chains, n_sweeps, threads, WORTH_BLOCKS)
    chains = make_chains(model, n_chains, order=order, beta=beta, seed=seed, threads=threads)
    return _recorded(chains, n_sweeps, thin, burn_in)


def visit_tempered(
    model: BoltzmannMachine,
    n_chains: int,
    n_sweeps: int,
    thin: int,
    burn_in: int | None,
    *,
    beta: float,
    order: str | None,
    seed: int,
    threads: int,
    ladder: np.ndarray,
) -> Visited:
    """Return the states of ladders of replicas at the target, with their energies, as `visit_chains` does."""
    chains = TemperedChains(model, n_chains, ladder, order=order, seed=seed, threads=threads)
    return _recorded(chains, n_sweeps, thin, burn_in)


def _recorded(chains: Chains | TemperedChains, n_sweeps: int, thin: int, burn_in: int | None) -> Visited:
    if burn_in is None:
        find_burn_in(chains, n_sweeps)
    else:
        chains.sweep(burn_in)
    left = n_sweeps // thin
    piece = max(1, PIECE_BYTES // (chains.n_chains * (-(-chains.n_units // 8) + 8)))
    while left:
        tell("sweep", n_sweeps - left * thin, n_sweeps)
        rows = chains.record(min(piece, left), thin)
        yield rows["samples/states"], rows["samples/energy"]
        left -= len(rows["samples/energy"])


def visit_annealed(
    model: BoltzmannMachine,
    n_chains: int,
    n_sweeps: int,
    thin: int,
    *,
    beta: float,
    order: str | None,
    seed: int,
    threads: int,
) -> Visited:
    """Return the states, as `visit_chains` does, of chains cooled from beta = 0 to the target, all the way."""
    about: dict[str, Any] = {"beta_low": 0.0, "beta": beta, "seed": seed, "threads": threads}
    knots = resolve_schedule(model, "adaptive", **about) if beta else [beta]  # at beta = 0 there is no way to go
    schedule = make_schedule(n_sweeps, "adaptive", knots)
    chains = AnnealedChains(model, n_chains, betas=schedule, order=order, seed=seed, threads=threads)
    while not chains.finished:
        tell("sweep", chains.n_swept, n_sweeps)
        chains.advance(thin)
        yield chains.packed()[None], chains.energies()[None]


@options
class SampledStates(Examined):
    """Sum over the distinct states visited, each counted once.

    Half of the chains collect the states, the other half, independent of them, measure the probability of the set.
    `log_z` is the lower bound; ``detail["log_z_corrected"]`` and ``detail["log_z_corrected_error"]`` the estimate.

    Parameters
    ----------
    n_chains : int
        At least 2; of "annealing" all collect.
    n_sweeps, burn_in, thin, order
        As for "gibbs".
    source : {"chains", "tempering", "annealing"}
        Dynamics at the target temperature; the target's states of ladders of replicas that reach down to beta = 0; or
        chains that are cooled from beta = 0, once, all their way. The last gives a bound only, and takes no burn-in.
    n_betas : int, optional
        Levels of "tempering".
    max_gigabytes : float
        Memory for the set. Where it runs out, the half with the highest energies is dropped, and states as high are no
        longer taken in: ``detail["states up to"]`` is the energy below which they still are.

    Notes
    -----
    The bound as `log_z`; moments weighted over the set of states; `converged` where chains agree, by split R-hat of
    the energy, and the bound is not below the estimate by more than its error explains; None where it may be by more
    than 0.1 nats, so that a tenth of the weight may be missing.
    """

    name: ClassVar[str] = "sampled-states"
    knob: ClassVar[Knob | None] = SWEEPS
    all_pairs: ClassVar[bool] = True

    n_chains: Annotated[int, Least(2)] = 64
    n_sweeps: Annotated[int, Least(1)] = 1_000
    burn_in: Annotated[int | Literal["auto"], sweeps] = "auto"
    thin: Annotated[int, Least(1)] = 1
    order: Order | None = None
    source: Literal["chains", "tempering", "annealing"] = "chains"
    n_betas: Annotated[int | None, Least(2)] = None
    max_gigabytes: Annotated[float, Above(0.0)] = 2.0

    def _check_together(self) -> None:
        refuse_no_samples(self.n_sweeps, self.thin)
        if self.n_betas is not None and self.source != "tempering":
            raise ValueError(f'n_betas is for source="tempering"; got source={self.source!r}. Leave n_betas out.')
        if self.burn_in != "auto" and self.source == "annealing":
            raise ValueError(
                "burn_in is for chains at one temperature; source='annealing' cools them down once. Leave burn_in out."
            )

    def run(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Inference:
        """Infer log Z and moments; moments are in the machine's units."""
        if moments:
            check_pairs(model.n_units)
        states = StateSet(model.n_units, 1e9 * self.max_gigabytes)
        length = None if isinstance(self.burn_in, str) else self.burn_in
        about: dict[str, Any] = {"beta": beta, "order": self.order, "threads": threads}
        if self.source == "annealing":
            energies, _ = _each(
                visit_annealed(model, self.n_chains, self.n_sweeps, self.thin, seed=seed, **about), states.add
            )
            detail: dict[str, Any] = _uncorrected("the states were annealed, not drawn at the target temperature")
            found = _result(model, beta, moments, states, energies, detail)
            return replace(found, converged=False)
        visit: Callable[..., Visited] = visit_chains
        if self.source == "tempering":
            ladder = make_ladder(model, beta, None, self.n_betas, seed=seed, threads=threads)
            visit = partial(visit_tempered, ladder=ladder)
        run = (self.n_sweeps, self.thin, length)
        energies, _ = _each(visit(model, self.n_chains // 2, *run, seed=seed, **about), states.add)
        others = visit(model, self.n_chains - self.n_chains // 2, *run, seed=rng.derive(seed, 1), **about)
        witnessed, inside = _each(others, lambda packed, _: states.contains(packed))
        detail = _correction(_log_sum(states, beta) - beta * model.offset, inside.astype(np.float64), witnessed)
        both = np.concatenate([energies, witnessed], axis=1)
        detail["r_hat"] = float(diagnostics.r_hat(both)) if len(both) >= 4 else math.inf
        alone = math.isinf(states.ceiling) and len(energies) > 1 and float(diagnostics.tau_int(energies)) <= INDEPENDENT
        if alone:
            counts = states.counts
            detail["good_turing_missing_mass"] = float((counts == 1).sum() / counts.sum())
        found = _result(model, beta, moments, states, energies, detail)
        if detail["log_z_corrected"] is None:
            return replace(found, converged=False)
        return judged(found, _judge(found), 'Raise n_sweeps or n_chains, or use "ais" or "tempering"')


def _each(visited: Visited, function: Callable[[np.ndarray, np.ndarray], Any]) -> tuple[np.ndarray, np.ndarray]:
    """Pass every piece of states and energies, flat; return all energies and answers, both (n_samples, n_chains)."""
    energies, answers = [], []
    for packed, of_states in visited:
        answers.append(np.reshape(function(packed.reshape(-1, packed.shape[2]), of_states.ravel()), of_states.shape))
        energies.append(of_states)
    return np.concatenate(energies), np.concatenate(answers)


def _log_sum(states: StateSet, beta: float) -> float:
    """Return log sum_S exp(-beta E), without the offset."""
    energies = states.energies
    lowest = energies.min()
    return math.log(np.exp(-beta * (energies - lowest)).sum()) - beta * float(lowest)


def _result(
    model: BoltzmannMachine,
    beta: float,
    moments: bool,
    states: StateSet,
    sampled: np.ndarray,
    detail: dict[str, Any],
) -> Inference:
    energies = states.energies
    log_z = _log_sum(states, beta) - beta * model.offset
    energies += model.offset
    weights = np.exp(-beta * (energies - energies.min()))
    weights /= weights.sum()
    energy = float(weights @ energies)
    found: dict[str, Any] = {
        "log_z": log_z,
        "bound": "lower",
        "energy": energy,
        "energy_variance": float(weights @ (energies - energy) ** 2),
    }
    if moments:
        found |= _moments(model, states.packed, weights)
    of_set: dict[str, Any] = {"n_states": len(states), "lowest energy": float(energies.min())}
    of_set["n_updates"] = 2 * sampled.size * model.n_units
    if math.isfinite(states.ceiling):
        of_set["states up to"] = states.ceiling + model.offset
    return Inference("sampled-states", **found, n_samples=sampled.size, detail=of_set | detail)


def _judge(found: Inference) -> Verdict:
    """Return whether chains agree, and the set holds as good as all of the weight."""
    r_hat, corrected = found.detail["r_hat"], found.detail["log_z_corrected"]
    if not r_hat <= diagnostics.R_HAT_LIMIT:
        return Verdict(False, f"r_hat = {r_hat:.3g} (above {diagnostics.R_HAT_LIMIT}); the chains disagree")
    gap, error = corrected - found.log_z, found.detail["log_z_corrected_error"]
    held = f"the states visited hold {found.detail['probability']:.2g} of the weight, so that the bound lies {gap:.3g}"
    if apart(gap, error):
        return Verdict(False, f'{held} nats below the estimate in detail["log_z_corrected"]')
    if gap > MOST_MISSED:
        return Verdict(None, f'{held} nats below detail["log_z_corrected"], whose error of {error:.2g} cannot tell')
    return Verdict(True)


def _uncorrected(why: str, probability: float | None = None) -> dict[str, Any]:
    """Return what `detail` says where there is a bound only; warn."""
    checks.warn(
        f"sampled-states: {why}, so there is a lower bound but no estimate. "
        'Raise n_sweeps of source="chains" or "tempering", or use "ais".',
    )
    return {"probability": probability, "log_z_corrected": None, "log_z_corrected_error": None}


def _correction(log_z: float, inside: np.ndarray, energies: np.ndarray) -> dict[str, Any]:
    """Estimate log Z from the probability of the set, with its error.

    Return None for it, after a warning, where that probability is 0.
    """
    probability = float(inside.mean())
    if probability == 0.0:
        return _uncorrected("no independent sample fell among the states visited", 0.0)
    # where all samples, or all but a few, are inside, these do not tell how slowly chains move, and energies do
    ess = min(float(diagnostics.ess(inside)), float(diagnostics.ess(energies)), inside.size)
    smoothed = (probability * ess + 1.0) / (ess + 2.0)  # Laplace's rule: an error bar where all samples agree
    of_chains = inside.mean(axis=0)
    spread = float(spread_error(of_chains - probability)) if len(of_chains) > 1 else 0.0
    error = max(math.sqrt(smoothed * (1.0 - smoothed) / ess), spread) / probability
    return {
        "probability": probability,
        "log_z_corrected": log_z - math.log(probability),
        "log_z_corrected_error": error,
    }


def _moments(model: BoltzmannMachine, packed: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    mean, second = np.zeros(model.n_units), np.zeros((model.n_units, model.n_units))
    for start in range(0, len(packed), 65_536):
        up = np.unpackbits(packed[start : start + 65_536], axis=1, count=model.n_units, bitorder="little")
        values = model.convention.values(up, np.float64)
        part = weights[start : start + 65_536]
        mean += part @ values
        second += (values * part[:, None]).T @ values
    return moments_of(mean, second)
