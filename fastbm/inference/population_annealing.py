"""log Z and moments by population annealing from beta = 0, with errors from independent populations.

With Z_m the estimate of population m of M and x_m its mean of an observable, Z = mean Z_m is unbiased and the average
of x is sum_m w_m x_m, w_m = Z_m / sum Z; to first order population m adds M w_m - 1 to log Z and M w_m (x_m - x) to x.

Hukushima and Iba, AIP Conf. Proc. 690, 200 (2003), doi:10.1063/1.1632130; Machta, Phys. Rev. E 82, 026704 (2010),
doi:10.1103/PhysRevE.82.026704; Wang, Machta and Katzgraber, Phys. Rev. E 92, 063307 (2015),
doi:10.1103/PhysRevE.92.063307 (rho_t, rho_s).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import numpy as np

from .._base import arrays
from .._base.options import Least, options
from .._base.steps import tell
from .._base.threads import fan_out, single_threaded_blas
from ..machine.machine import BoltzmannMachine
from ..sampling.engine.choice import MANY_COOLED, are_worth_tables
from ..sampling.population import PARTS, TARGET_ESS, part_of_population
from ..sampling.unseen import rarely, unseen
from .estimator import Examined, Knob, refuse_beside_betas
from .result import Inference, check_pairs, moments_of
from .scout.bases import unseen_starts
from .scout.product_path import find_path, make_levels
from .subpopulations import BasedPopulations, Subpopulations
from .temperatures import KEY, Errors, curves, means_fit, spread_error
from .tempering.ladder import check_ladder
from .verdict import Verdict, judged

FEWEST = 8  # populations, for their spread to be an error bar
HEALTHY_FAMILIES = 100.0
TOGETHER = 128  # units, whose second moments with all others stay in the second cache
MOST_NUMBERS = 1 << 23  # values of units that are held as floats
EXACT = 1 << 24  # replicas, up to which float32 holds sums of products of their units
HEALTHY_PART = 0.5  # of the populations that must carry the average


@options
class PopulationAnnealing(Examined):
    """Estimate log Z and moments by population annealing.

    Parameters
    ----------
    n_chains : int
        Replicas of all populations together.
    n_populations : int
        Independent populations, at least 8, whose spread is the error bar. Of many replicas each: what one population
        misses all miss.
    n_sweeps : int
        Sweeps at every temperature after the first.
    target_ess : float, optional
        Between 0 and 1: steps are the largest that leave the weights this effective sample size, as a part of
        `n_chains`; 0.9 unless given.
    betas : (n_betas,) array, optional
        The temperatures themselves, increasing from 0.0 to `beta`; log Z is then unbiased in Z, steps chosen on the way
        change it by little.
    start : {"uniform", "biases", "data", "mean-field", "tempering"} or array
        Where the population begins: at beta = 0, or at one of the product models that "ais" knows. Levels between that
        and the machine are no temperatures, so that there are no curves. They are chosen beforehand, by a short pilot,
        in equal steps that leave weights of normal logarithms `target_ess`.

    Raises
    ------
    ValueError
        If `betas` does not increase from 0 to `beta`, there are too few replicas, or the machine does not have what
        `start` takes.

    Notes
    -----
    `ess` is 1 / sum nu^2 with nu the weight of each family, all descendants of one initial replica.
    `detail["temperatures"]` holds the curves of all temperatures, see `Temperatures.of`; "family_entropy",
    "n_families", "rho_t" = n_chains / ess and "rho_s" = n_chains / exp(family_entropy); "log_weights", log Z of
    each population.
    """

    name: ClassVar[str] = "population-annealing"
    knob: ClassVar[Knob | None] = Knob("n_chains", 256, 1 << 20)
    all_pairs: ClassVar[bool] = True

    n_chains: Annotated[int, Least(1)] = 2_048
    n_populations: Annotated[int, Least(FEWEST)] = 32
    n_sweeps: Annotated[int, Least(1)] = 10
    target_ess: Annotated[float | None, part_of_population] = None
    betas: Any = None
    start: Any = "uniform"

    def _check_together(self) -> None:
        if self.n_chains < 2 * self.n_populations:
            raise ValueError(
                f"n_chains must be at least 2 for each of {self.n_populations} populations; got {self.n_chains}. Raise "
                "it, or lower n_populations."
            )
        refuse_beside_betas(self)

    def run(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Inference:
        """Infer log Z and moments; moments are in the machine's units."""
        ladder = None if self.betas is None else check_ladder(self.betas, beta)
        part = TARGET_ESS if self.target_ess is None else self.target_ess
        if moments:
            check_pairs(model.n_units)
        path = find_path(model, beta, self.start, self.n_chains * self.n_sweeps, seed, threads)
        if path is None:
            worth = are_worth_tables(model.n_units, self.n_chains, self.n_sweeps)
            populations = Subpopulations(
                model, self.n_chains, self.n_populations, highest_beta=beta, seed=seed, threads=threads,
                lookup_from=MANY_COOLED if worth else None,
            )  # fmt: skip
            following = _anneal(populations, beta, ladder, part, self.n_sweeps, moments)
        else:
            populations = BasedPopulations(path, self.n_chains, self.n_populations, seed=seed, threads=threads)
            # steps chosen from the weights that are averaged make log Z too low and its error too small: a rare heavy
            # replica shortens the step that weighs it, in all populations, and far from a base there are some
            levels = make_levels(path, None, seed, threads, step=math.sqrt(-math.log(part)))
            following = _anneal(populations, 1.0, levels, part, self.n_sweeps, False)
        rows = populations.engine.together(lambda: list(following), self.n_sweeps)
        start, missed = "uniform", 0.0
        if path is not None:
            start = path.name
            missed = unseen_starts(model, beta, path.base, self.n_chains, 1.0, np.arange(model.n_units))
        found = _result(model, beta, populations, rows, moments, start, missed, threads)
        return judged(found, _judge(found, populations), 'Raise n_chains or n_sweeps, or use "tempering"')


def _anneal(
    populations: Subpopulations, beta: float, ladder: np.ndarray | None, target_ess: float, n_sweeps: int, moments: bool
) -> Iterator[dict[str, Any]]:
    """Cool to `beta`, the end of the ladder or of a path; yield the record of every level."""
    for k in itertools.count():
        energies, rises = populations.measure()
        centre = float(energies.mean())
        # the number of temperatures is not known before the end
        gathered = moments and means_fit(len(populations.groups), k + 1, populations.engine.n_units)
        yield {
            "n_up": populations.n_up() if gathered else None,
            "beta": populations.beta,
            "ess": _ess(populations, populations.weights()),
            "log_z": populations.log_z.copy(),
            "centre": centre,
            "energy": populations.means(energies - centre),
            "square": populations.means((energies - centre) ** 2),
        }
        if populations.beta == beta:
            return
        tell("part of the way", int(PARTS * populations.beta / beta), PARTS)
        following = populations.next_beta(rises, beta, target_ess) if ladder is None else float(ladder[k + 1])
        populations.cool(following, rises)
        populations.sweep(n_sweeps)


def _family_weights(populations: Subpopulations, weights: np.ndarray) -> np.ndarray:
    """Return nu, the part of the average that descends from each initial replica, of those that have descendants."""
    of_replica = np.repeat(weights / populations.sizes, populations.sizes)
    nu = np.bincount(populations.family, weights=of_replica, minlength=len(populations.family))
    return nu[nu > 0]


def _ess(populations: Subpopulations, weights: np.ndarray) -> float:
    """Return the number of replicas that are independent."""
    return 1.0 / float((_family_weights(populations, weights) ** 2).sum())


def _families(populations: Subpopulations, weights: np.ndarray) -> dict[str, float]:
    """Return the weights of families, and how many replicas these make count as one."""
    n_chains, nu = len(populations.family), _family_weights(populations, weights)
    entropy = float(-(nu * np.log(nu)).sum()) + 0.0
    return {
        "family_entropy": entropy,
        "n_families": len(nu),
        "rho_t": n_chains * float((nu**2).sum()),
        "rho_s": n_chains / math.exp(entropy),
    }


def _result(
    model: BoltzmannMachine,
    beta: float,
    populations: Subpopulations,
    rows: list[dict[str, Any]],
    moments: bool,
    start: str,
    floor: float,
    threads: int,
) -> Inference:
    """Put the result together; `floor` is an error of log Z that populations which are all alike do not show."""
    n_levels = len(rows)
    if start != "uniform":  # levels before the last are no temperatures
        rows = [rows[-1] | {"beta": beta}]
    betas, centre = (np.array([row[name] for row in rows]) for name in ("beta", "centre"))
    own = np.array([row["log_z"] for row in rows]).T  # (n_populations, n_betas)
    energy, square = (np.array([row[name] for row in rows]).T for name in ("energy", "square"))
    n = len(own)
    top = own.max(axis=0)
    w = np.exp(own - top)
    log_z = top + np.log(w.mean(axis=0))
    w /= w.sum(axis=0)
    mean, second = (w * energy).sum(axis=0), (w * square).sum(axis=0)
    variance = np.maximum(second - mean**2, 0.0)
    missed = unseen(model, betas, np.array([row["ess"] for row in rows]))
    # by the delta method: the mean of each is the deviation that the populations' noise makes, about 0
    of_log_z, of_energy = n * w - 1.0, n * w * (energy - mean)
    of_variance = n * w * (square - second) - 2.0 * mean * of_energy
    errors = Errors(*map(spread_error, (of_log_z, of_energy, of_variance, of_log_z + betas * of_energy)))
    found = curves(betas, log_z - betas * model.offset, centre + mean + model.offset, variance, errors, missed, floor)
    if rows[-1]["n_up"] is not None:
        n_up = [row["n_up"] for row in rows]
        found = found.with_means(model.convention, n_up, populations.sizes, w, missed, spread_error, threads)
    weights = populations.weights()
    families = _families(populations, weights)
    ess = len(populations.family) / families["rho_t"]
    result = _moments(model, populations, weights, ess, threads) if moments else {}
    detail = {
        **populations.engine.detail,
        "n_updates": populations.engine.n_swept * len(populations.family) * model.n_units,
        **families,
        "log_weights": own[:, -1] - betas[-1] * model.offset,
        "n_betas": n_levels,
        "start": start,
    }
    if start == "uniform":
        detail[KEY] = found.as_detail()
    return Inference(
        "population-annealing",
        log_z=float(found.log_z[-1]),
        log_z_error=float(found.log_z_error[-1]),
        energy=float(found.energy[-1]),
        energy_error=float(found.energy_error[-1]),
        energy_variance=float(variance[-1]),
        entropy=float(found.entropy[-1]),
        n_samples=len(populations.family),
        ess=ess,
        detail=detail,
        **result,
    )


def _moments(
    model: BoltzmannMachine, populations: Subpopulations, weights: np.ndarray, ess: float, threads: int
) -> dict[str, Any]:
    """Return weighted averages over the last states; errors from the spread of the populations."""
    n, bits, own = model.n_units, populations.engine.bits(), np.empty((len(weights), model.n_units))
    second, parts, size = arrays.empty((n, n), np.float64), weights / populations.sizes, populations.sizes.max()
    second.fill(0.0)  # here, as threads that come to new memory wait for each other
    kind, at_once = np.float32 if size <= EXACT else np.float64, max(1, int(MOST_NUMBERS // (size * n)))

    def weigh(first: int) -> None:
        some = second[first : first + TOGETHER, first:]  # with all that come later
        whole, weighed = np.empty(some.shape, kind), np.empty(some.shape)
        for part, units in values:
            np.matmul(units[first : first + TOGETHER], units[first:].T, out=whole)
            np.add(some, np.multiply(whole, part, out=weighed), out=some)

    for begin in range(0, len(parts), at_once):
        values = [
            (parts[m], np.ascontiguousarray(model.convention.values(bits[populations.groups[m]], kind).T))
            for m in range(begin, min(begin + at_once, len(parts)))
        ]
        own[begin : begin + at_once] = [units.mean(axis=1, dtype=np.float64) for _, units in values]
        with single_threaded_blas():
            fan_out(weigh, range(0, n, TOGETHER), threads)
    for first in range(TOGETHER, n, TOGETHER):
        second[first:, first - TOGETHER : first] = second[first - TOGETHER : first, first:].T
    mean = weights @ own
    error = spread_error(len(weights) * weights[:, None] * (own - mean))
    never = model.convention.span * float(rarely(ess))
    return moments_of(mean, second) | {"mean_error": np.maximum(error, never)}


def _judge(found: Inference, populations: Subpopulations) -> Verdict:
    """Return whether enough populations and families carry the averages."""
    weights, n_chains = populations.weights(), len(populations.family)
    carrying, n_families = 1.0 / float(weights @ weights), math.exp(found.detail["family_entropy"])
    if carrying < HEALTHY_PART * len(weights):
        return Verdict(False, f"{carrying:.1f} of {len(weights)} populations carry the average")
    if n_families < min(HEALTHY_FAMILIES, 0.5 * n_chains):
        return Verdict(False, f"the replicas descend from {n_families:.0f} families, by their entropy")
    return Verdict(True)
