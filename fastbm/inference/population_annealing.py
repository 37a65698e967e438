"""log Z and moments by population annealing from beta = 0, with errors from independent populations.

Many populations are annealed side by side, down the same temperatures, in one engine. Each is resampled within itself,
so that its exp(log Z) is an unbiased estimate of its own, and the spread of these is an error bar that knows of all
that replicas of one population have in common.

With Z_m the estimate of population m of M and x_m its mean of an observable, Z = mean Z_m is unbiased and the average
of x is sum_m w_m x_m, w_m = Z_m / sum Z; to first order population m adds M w_m - 1 to log Z and M w_m (x_m - x) to x.

Hukushima and Iba, AIP Conf. Proc. 690, 200 (2003), doi:10.1063/1.1632130; Machta, Phys. Rev. E 82, 026704 (2010), sec.
III (weighted averages of populations), doi:10.1103/PhysRevE.82.026704; Wang, Machta and Katzgraber, Phys. Rev. E 92,
063307 (2015), doi:10.1103/PhysRevE.92.063307 (rho_t, rho_s).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._base import checks, rng
from ..kernels.sampling.tempering import resample_systematic, sum_weights
from ..machine.machine import BoltzmannMachine
from ..sampling.chains import make_chains
from ..sampling.population import choose_step
from ..sampling.unseen import rarely, unseen
from .result import Inference, check_pairs, moments_of
from .temperatures import KEY, curves, means_fit, spread_error
from .tempering.ladder import check_ladder
from .verdict import Verdict, judged

LONGEST_SECONDS = 0.1  # that threads go on with, about, after a stop
FEWEST = 8  # populations, for their spread to be an error bar
HEALTHY_FAMILIES = 100.0
HEALTHY_PART = 0.5  # of the populations that must carry the average


class Subpopulations:
    """Populations at beta = 0, to be cooled.

    Parameters
    ----------
    model : BoltzmannMachine
    n_chains, n_populations : int
        Replicas, which the populations share as equally as can be.
    highest_beta : float
    seed, threads : int

    Attributes
    ----------
    engine : Engine
        The replicas; those of a population lie side by side.
    groups : list of slice
    beta : float
    log_z : (n_populations,) array
        Each population's estimate at `beta`, without offset.
    family : (n_chains,) int64 array
        The number of the initial replica that each descends from.
    """

    def __init__(
        self,
        model: BoltzmannMachine,
        n_chains: int,
        n_populations: int,
        *,
        highest_beta: float,
        seed: int,
        threads: int,
    ) -> None:
        self.engine = make_chains(model, n_chains, beta=0.0, seed=seed, threads=threads, highest_beta=highest_beta)
        edges = np.arange(n_populations + 1) * n_chains // n_populations
        self.groups = [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]
        self.beta, self.log_z = 0.0, np.full(n_populations, model.n_units * math.log(2.0))
        self.family = np.arange(n_chains)
        self._seed, self._n_steps = seed, 0

    def next_beta(self, energies: np.ndarray, target: float, target_ess: float) -> float:
        """Return the coldest temperature whose weights, of all replicas together, have an effective sample size of at
        least `target_ess` times their number.
        """
        most = target - self.beta
        step = choose_step(energies, float(energies.min()), most, target_ess)
        return target if step == most else max(self.beta + step, float(np.nextafter(self.beta, np.inf)))

    def cool(self, beta: float, energies: np.ndarray) -> None:
        """Weigh and resample every population, whose replicas have these energies without offset, for `beta`."""
        step = beta - self.beta
        parents = np.empty(len(energies), np.int64)
        uniforms = rng.keyed(self._seed, rng.RESAMPLING, self._n_steps).random(len(self.groups))
        for m, group in enumerate(self.groups):
            own = energies[group]
            least = float(own.min())
            self.log_z[m] += math.log(sum_weights(own, least, step)[0] / len(own)) - step * least
            resample_systematic(parents[group], own, least, step, uniforms[m])
            parents[group] += group.start
        self.family = self.family[parents]
        self.engine.gather(parents)
        self.engine.set_beta(np.full(len(energies), beta))
        self.beta, self._n_steps = beta, self._n_steps + 1

    def sweep(self, n_sweeps: int) -> None:
        """Advance every replica, in pieces between which a stop can come."""
        piece = max(1, int(LONGEST_SECONDS / self.engine.sweep_seconds))
        for start in range(0, n_sweeps, piece):
            self.engine.sweep(min(piece, n_sweeps - start))

    def weights(self) -> np.ndarray:
        """Return each population's part in averages: exp(log_z), normalised, (n_populations,)."""
        w = np.exp(self.log_z - self.log_z.max())
        return w / w.sum()

    def means(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of values (n_chains, ...) over every population, (n_populations, ...)."""
        return np.stack([values[group].mean(axis=0) for group in self.groups])


def population_annealing(
    model: BoltzmannMachine,
    *,
    beta: float,
    moments: bool,
    seed: int,
    threads: int,
    n_chains: int = 2_048,
    n_populations: int = 32,
    n_sweeps: int = 10,
    target_ess: float | None = None,
    betas: Any = None,
) -> Inference:
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

    Returns
    -------
    Inference
        `ess` is 1 / sum nu^2 with nu the weight of each family, all descendants of one initial replica.
        `detail["temperatures"]` holds the curves of all temperatures, see `Temperatures.of`; "family_entropy",
        "n_families", "rho_t" = n_chains / ess and "rho_s" = n_chains / exp(family_entropy); "log_weights", log Z of
        each population.

    Raises
    ------
    ValueError
        If `betas` does not increase from 0 to `beta`, or there are too few replicas.
    """
    n_populations = checks.whole("n_populations", n_populations, least=FEWEST)
    n_chains, n_sweeps = checks.whole("n_chains", n_chains, least=1), checks.whole("n_sweeps", n_sweeps, least=1)
    if n_chains < 2 * n_populations:
        raise ValueError(
            f"n_chains must be at least 2 for each of {n_populations} populations; got {n_chains}. Raise it, or lower "
            "n_populations."
        )
    ladder = None if betas is None else check_ladder(betas, beta)
    if ladder is not None and target_ess is not None:
        raise ValueError("betas say all that target_ess would: leave one of them out.")
    part = 0.9 if target_ess is None else checks.real("target_ess", target_ess, above=0.0)
    if part >= 1.0:
        raise ValueError(f"target_ess is a part of the population, between 0 and 1; got {part:g}.")
    if moments:
        check_pairs(model.n_units)
    populations = Subpopulations(model, n_chains, n_populations, highest_beta=beta, seed=seed, threads=threads)
    rows = list(_anneal(populations, beta, ladder, part, n_sweeps, moments))
    found = _result(model, populations, rows, moments)
    return judged(found, _judge(found, populations), 'Raise n_chains or n_sweeps, or use "tempering"')


def _anneal(
    populations: Subpopulations, beta: float, ladder: np.ndarray | None, target_ess: float, n_sweeps: int, moments: bool
) -> Iterator[dict[str, Any]]:
    """Cool down to `beta`; yield what there is to say of every temperature."""
    for k in itertools.count():
        energies = populations.engine.energies()
        centre = float(energies.mean())
        # the number of temperatures is not known before the end
        gathered = moments and means_fit(len(populations.groups), k + 1, populations.engine.n_units)
        yield {
            "up": populations.means(populations.engine.bits()) if gathered else None,
            "beta": populations.beta,
            "ess": _ess(populations, populations.weights()),
            "log_z": populations.log_z.copy(),
            "centre": centre,
            "energy": populations.means(energies - centre),
            "square": populations.means((energies - centre) ** 2),
        }
        if populations.beta == beta:
            return
        following = populations.next_beta(energies, beta, target_ess) if ladder is None else float(ladder[k + 1])
        populations.cool(following, energies)
        populations.sweep(n_sweeps)


def _family_weights(populations: Subpopulations, weights: np.ndarray) -> np.ndarray:
    """nu, the part of the average that descends from each initial replica, of those that have descendants."""
    of_replica = np.concatenate(
        [np.full(g.stop - g.start, w / (g.stop - g.start)) for g, w in zip(populations.groups, weights, strict=True)]
    )
    nu = np.bincount(populations.family, weights=of_replica, minlength=len(populations.family))
    return nu[nu > 0]


def _ess(populations: Subpopulations, weights: np.ndarray) -> float:
    """How many replicas are independent."""
    return 1.0 / float((_family_weights(populations, weights) ** 2).sum())


def _families(populations: Subpopulations, weights: np.ndarray) -> dict[str, float]:
    """Weights of families, and what they say of how many replicas count as one."""
    n_chains, nu = len(populations.family), _family_weights(populations, weights)
    entropy = float(-(nu * np.log(nu)).sum()) + 0.0
    return {
        "family_entropy": entropy,
        "n_families": len(nu),
        "rho_t": n_chains * float((nu**2).sum()),
        "rho_s": n_chains / math.exp(entropy),
    }


def _result(
    model: BoltzmannMachine, populations: Subpopulations, rows: list[dict[str, Any]], moments: bool
) -> Inference:
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
    energy_terms = n * w * (energy - mean)
    found = curves(
        betas,
        log_z - betas * model.offset,
        n * w - 1.0,
        centre + mean + model.offset,
        variance,
        energy_terms,
        n * w * (square - second) - 2.0 * mean * energy_terms,
        missed,
        spread_error,
    )
    if rows[-1]["up"] is not None:
        up = np.stack([row["up"] for row in rows], axis=1)
        found = found.with_means(model.convention, up, w, missed, spread_error)
    weights = populations.weights()
    families = _families(populations, weights)
    ess = len(populations.family) / families["rho_t"]
    result = _moments(model, populations, weights, ess) if moments else {}
    detail = {
        **populations.engine.detail,
        "n_updates": populations.engine.n_swept * len(populations.family) * model.n_units,
        **families,
        "log_weights": own[:, -1] - betas[-1] * model.offset,
        "n_betas": len(betas),
        KEY: found.as_detail(),
    }
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


def _moments(model: BoltzmannMachine, populations: Subpopulations, weights: np.ndarray, ess: float) -> dict[str, Any]:
    """Weighted averages over the last states; errors from the spread of the populations."""
    bits, own = populations.engine.bits(), np.empty((len(weights), model.n_units))
    second = np.zeros((model.n_units, model.n_units))
    for m, group in enumerate(populations.groups):
        values = model.convention.values(bits[group], np.float64)
        own[m] = values.mean(axis=0)
        second += weights[m] / len(values) * (values.T @ values)
    mean = weights @ own
    error = spread_error(len(weights) * weights[:, None] * (own - mean))
    never = model.convention.span * float(rarely(ess))
    return moments_of(mean, second) | {"mean_error": np.maximum(error, never)}


def _judge(found: Inference, populations: Subpopulations) -> Verdict:
    """Whether enough populations and families carry the averages."""
    weights, n_chains = populations.weights(), len(populations.family)
    carrying, n_families = 1.0 / float(weights @ weights), math.exp(found.detail["family_entropy"])
    if carrying < HEALTHY_PART * len(weights):
        return Verdict(False, f"{carrying:.1f} of {len(weights)} populations carry the average")
    if n_families < min(HEALTHY_FAMILIES, 0.5 * n_chains):
        return Verdict(False, f"the replicas descend from {n_families:.0f} families, by their entropy")
    return Verdict(True)
