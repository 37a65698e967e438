"""log Z and moments by parallel tempering from beta = 0, where log Z is known, to the target.

Hukushima and Nemoto, J. Phys. Soc. Jpn. 65, 1604 (1996), doi:10.1143/JPSJ.65.1604.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ..._base.arrays import cleared, empty
from ..._base.options import Least, options
from ..._base.steps import SOON, tell
from ...diagnostics.ranks import largest_r_hats
from ...machine.machine import BoltzmannMachine
from ...sampling.chains import threads_between
from ...sampling.engine.choice import are_worth_tables, looks_up_ladders
from ...sampling.tempering import TemperedChains
from ..chain_counts import COUNTS, count_states
from ..estimator import SWEEPS, Drawing, Drawn, Knob, refuse_beside_betas, refuse_no_samples, sweeps
from ..monte_carlo import PIECE, find_burn_in
from ..result import Inference
from ..scout.bounds import certain
from ..scout.product_path import find_path, make_levels
from ..target_moments import OfUnits, TargetMoments
from ..temperatures import means_fit
from ..verdict import judged
from .based import BasedChains
from .ladder import make_ladder
from .levels import of_levels, of_temperatures
from .log_ratios import bennett, integrate, mbar, pymbar_solver
from .verdict import judge_ladders

ENGINES = {"bennett": bennett, "mbar": mbar, "ti": integrate}
WORTH_A_THREAD = 1 << 15  # samples of a level, below which threads wait for each other's Python
SHORT = 5e-4  # seconds in which those of one level are drawn, whose judging threads would take longer for
BURN_IN = 0.25  # of the sweeps, at least, along a path from a product model


@options
class Tempering(Drawing):
    """Estimate log Z and moments by parallel tempering.

    Parameters
    ----------
    n_chains : int
        Independent ladders; from 4 on their spread is an error bar of its own, from 8 on one to judge them by.
    n_sweeps, thin : int
        Every `thin`-th of `n_sweeps` sweeps of every replica is used.
    burn_in : int or "auto"
        Sweeps that are thrown away first; "auto" goes on until the energy at the target is stationary, for at most
        `n_sweeps`.
    n_betas : int, optional
        Levels. Left out, enough for a swap rate of about 0.3, at most 64.
    betas : (n_betas,) array, optional
        The ladder itself, increasing from 0.0 to `beta`. Left out, steps of equal thermodynamic length from a pilot.
    engine : {"bennett", "mbar", "ti"}
        Bennett's acceptance ratio between neighbours; that of all levels at once, by the package pymbar; or
        thermodynamic integration of the mean energy.
    swap_every : int
        Sweeps between swaps.
    start : {"uniform", "biases", "data", "mean-field", "tempering"} or array
        The other end of the ladder: the machine at beta = 0, or one of the product models that `ais` knows. Levels
        between that and the machine are no temperatures, so that there are no curves; each costs about twice as much.

    Raises
    ------
    ValueError
        If `betas` does not increase from 0 to `beta`, or the machine does not have what `start` takes.
    ImportError
        If pymbar is asked for and not installed.

    Notes
    -----
    `converged` is True where neighbours overlap, replicas go round the ladders, and ladders agree within error bars
    from their own spread; None of one ladder, or of fewer than 4 samples of each. `detail["temperatures"]` holds
    the curves of all levels, see `Temperatures.of`; "swap_rates", "overlap" of neighbours, "round_trips" of each
    ladder; "r_hat" of the energies and "r_hat_units"; of "ti" the "discretisation_error", which is part of
    `log_z_error`; "levels" from 0 to 1, where `start` is not "uniform".
    """

    name: ClassVar[str] = "tempering"
    knob: ClassVar[Knob | None] = SWEEPS
    all_pairs: ClassVar[bool] = True

    n_chains: Annotated[int, Least(1)] = 16
    n_sweeps: Annotated[int, Least(1)] = 1_000
    burn_in: Annotated[int | Literal["auto"], sweeps] = "auto"
    thin: Annotated[int, Least(1)] = 1
    n_betas: Annotated[int | None, Least(2)] = None
    betas: Any = None
    engine: Literal["bennett", "mbar", "ti"] = "bennett"
    swap_every: Annotated[int, Least(1)] = 1
    start: Any = "uniform"

    def _check_together(self) -> None:
        refuse_no_samples(self.n_sweeps, self.thin)
        refuse_beside_betas(self)

    def worth(self, model: BoltzmannMachine, threads: int) -> int:
        """Return one thread where samples are soon drawn."""
        return threads_between(model, self.n_chains, self.n_sweeps, threads, SHORT)

    def draw(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Drawn:
        """Draw samples at all levels, of which log Z and moments are told, in the machine's units."""
        solve = ENGINES[self.engine]
        if self.engine == "mbar":
            pymbar_solver()
        n_samples = self.n_sweeps // self.thin
        target = TargetMoments(model, n_samples, self.n_chains, threads) if moments else None
        path = find_path(model, beta, self.start, self.n_chains * self.n_sweeps, seed, threads)
        of_chains: dict[str, Any] = {"seed": seed, "threads": threads, "swap_every": self.swap_every}
        chains: TemperedChains | BasedChains
        if path is None:
            worth = are_worth_tables(model.n_units, self.n_chains, self.n_sweeps)
            words = worth and looks_up_ladders(model.couplings, model.flat_bias, self.n_chains, 0)
            ladder = make_ladder(model, beta, self.betas, self.n_betas, in_words=words, seed=seed, threads=threads)
            gathered = moments and means_fit(self.n_chains, len(ladder), model.n_units)
            kernel = "lookup" if words else None
            chains = TemperedChains(model, self.n_chains, ladder, kernel=kernel, whole=gathered, **of_chains)
        else:
            ladder, gathered = make_levels(path, self.n_betas, seed, threads), False
            chains = BasedChains(path, self.n_chains, ladder, **of_chains)
        burnt = _burn_in(chains, self.burn_in, self.n_sweeps)
        before = chains.attempted.copy(), chains.accepted.copy(), chains.round_trips.copy()
        n_up = cleared((self.n_chains, len(ladder), model.n_units), COUNTS) if gathered else None
        energies, at_target = _record(chains, n_samples, self.thin, target, n_up, threads)
        attempted, accepted, trips = (
            now - then
            for now, then in zip((chains.attempted, chains.accepted, chains.round_trips), before, strict=True)
        )
        detail = {
            **chains.detail,
            "engine": self.engine,
            "start": "uniform" if path is None else path.name,
            "n_updates": chains.n_swept * len(ladder) * chains.n_chains * chains.n_units,
            "burn_in": burnt,
            "swap_rates": accepted / np.maximum(attempted, 1),
            "overlap": None,  # which takes its place when it is known
            "round_trips": trips,
        }
        if path is None:
            told = partial(of_temperatures, model, ladder, solve, energies, n_up, detail)
        else:
            told = partial(of_levels, model, beta, path, ladder, solve, energies, at_target, detail)
        looks = target.looks() if target else []
        many = energies[..., 0].size >= WORTH_A_THREAD  # so that threads may share the levels
        parts: list[Callable[[], Any]] = [] if many else [partial(told, 1)]
        levels = np.array_split(energies, 2 * threads if many else 1, axis=2)
        parts += [partial(largest_r_hats, [some], 1) for some in levels]
        judge = partial(_judge, model, beta, energies.shape, target, len(looks), path is not None)
        return Drawn(detail, [*parts, *looks], judge, shared=told if many else None)


def _judge(
    model: BoltzmannMachine,
    beta: float,
    shape: tuple[int, int, int],
    target: TargetMoments | None,
    n_looks: int,
    based: bool,
    numbers: Sequence[Any],
) -> Inference:
    """Put the result together of what parts of the samples have told."""
    told, *more = numbers
    found, units, r_hats = told.found, None, more[: len(more) - n_looks]
    trips, r_hat = found.detail["round_trips"], max(one for (one,) in r_hats)
    if target is not None:
        units = OfUnits.joined(more[len(r_hats) :])
        n_starts = shape[1] + int(trips.sum())  # a replica forgets at the other end of its ladder
        found = replace(found, **target.result(units, found.ess, certain(model, beta), n_starts))
    verdict = judge_ladders(model, shape, told, r_hat, units, trips, based=based)
    return judged(found, verdict, "Raise n_sweeps, or n_betas where swap_rates in detail are small")


def _burn_in(chains: TemperedChains | BasedChains, burn_in: int | str, n_sweeps: int) -> int:
    if isinstance(burn_in, str):
        burnt = find_burn_in(chains, n_sweeps)
        if isinstance(chains, BasedChains):  # which begin in valleys that may be left seldom
            more = max(int(BURN_IN * n_sweeps) - burnt, 0)
            chains.sweep(more)
            burnt += more
        return burnt
    chains.sweep(burn_in)
    return burn_in


def _record(
    chains: TemperedChains | BasedChains,
    n_samples: int,
    thin: int,
    target: TargetMoments | None,
    n_up: np.ndarray | None,
    threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Record what changes along the ladder, and energies at the target.

    The former is (n_samples, n_chains, n_betas), energies with offset or D of a path; the latter, without offset,
    (n_samples, n_chains). States at the target go to `target`, and how often units are up at every level to `n_up`
    (n_chains, n_betas, n_units).
    """
    # in memory level by level, as they are looked at
    energies = np.moveaxis(empty((len(chains.betas), n_samples, chains.n_chains), np.float64), 0, -1)
    at_target = np.empty((n_samples, chains.n_chains))
    piece = max(1, PIECE // (chains.n_units * chains.n_chains))
    if n_up is not None:
        piece = max(1, min(piece // len(chains.betas), int(SOON / (thin * chains.sweep_seconds))))
    for start in range(0, n_samples, piece):
        some = slice(start, min(start + piece, n_samples))
        tell("sweep", start * thin, n_samples * thin)
        row = chains.record(some.stop - start, thin)
        energies[some], at_target[some] = row["tempering/energy"], row["samples/energy"]
        if target is not None:
            target.add(row["samples/states"])
        if n_up is not None:
            packed = row["ladder/states"]
            lanes = packed.reshape(len(packed), -1, packed.shape[-1])
            count_states(lanes, np.zeros(len(packed), np.int64), n_up.reshape(1, -1, chains.n_units), threads)
    return energies, at_target
