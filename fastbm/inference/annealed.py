"""Annealed importance sampling, up the path for a lower bound on log Z and down it for an upper one.

Neal, Stat. Comput. 11, 125 (2001), eqs. 11-12, doi:10.1023/A:1008923215028; Burda, Grosse and Salakhutdinov, AISTATS
(2015), arXiv:1412.8566 (the way down).

The path f_t = f_0^(1 - t) f^t leads from a product model f_0 to f = exp(-beta E), and
log w = sum_k (t_{k+1} - t_k) (log f(s_k) - log f_0(s_k)) + log Z_0 along a walk up it, so that Z = <w>. Along a walk
down it from states of f, 1 / Z = <1 / w>. Of layered machines every second layer is summed out, both ways.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _checks, rng
from ..model import BoltzmannMachine
from .annealed_path import PATHS, adapt_path, check_path, make_walk, product_model
from .annealed_starts import draw_starts
from .annealed_weights import Average, average, weighted_moments
from .result import Inference

DOWN, SAMPLES = 1, 2  # what the seeds of the way down and of its samples are derived by


@dataclass(frozen=True)
class _Job:
    """A path with its ends, and how it is walked."""

    model: BoltzmannMachine
    beta: float
    base: np.ndarray
    path: np.ndarray
    n_chains: int
    seed: int
    threads: int

    def up(self) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Return log w, the final states as bits, and details of the walk."""
        walk = make_walk(self.model, self.beta, self.base, rng.streams(self.seed, self.n_chains), self.threads)
        walk.begin()
        walk.follow(self.path)
        walk.finish()
        return walk.log_w + walk.log_z0, walk.bits(), walk.detail

    def down(self, source: str, n_sweeps: int) -> tuple[np.ndarray, bool | None, dict[str, Any]]:
        """Return log w of walks from samples of the machine, whether these are samples, and details."""
        samples = rng.derive(self.seed, SAMPLES)
        starts = draw_starts(self.model, self.beta, self.n_chains, source, n_sweeps, samples, self.threads)
        streams = rng.streams(rng.derive(self.seed, DOWN), self.n_chains)
        walk = make_walk(self.model, self.beta, self.base, streams, self.threads)
        walk.load(starts.up)
        walk.follow(self.path[::-1])
        return walk.log_z0 - walk.log_w, starts.converged, walk.detail | starts.detail


def _job(
    model: BoltzmannMachine, beta: float, n_chains: int, n_betas: int, betas: Any, path: str, start: str, seed: int,
    threads: int,
) -> _Job:  # fmt: skip
    n_chains = _checks.whole("n_chains", n_chains, least=1)
    steps = check_path(n_betas, betas)
    base = product_model(model, beta, start)
    if _checks.choice("path", path, PATHS) == "adaptive" and betas is None:
        steps = adapt_path(model, beta, base, len(steps), seed, threads)
    return _Job(model, beta, base, steps, n_chains, seed, threads)


def ais(
    model: BoltzmannMachine,
    *,
    beta: float,
    moments: bool,
    seed: int,
    threads: int,
    n_chains: int = 128,
    n_betas: int = 1_000,
    betas: Any = None,
    path: str = "linear",
    start: str = "uniform",
    bracket: bool = False,
    source: str = "auto",
    n_sweeps: int = 1_000,
) -> Inference:
    """Estimate log Z by annealed importance sampling.

    Parameters
    ----------
    n_chains : int
        Independent annealing runs; `log_z_error` falls as its square root.
    n_betas : int
        Temperatures of the path.
    betas : (n_betas,) float array, optional
        The path itself: increasing from 0.0 (the product model) to 1.0 (the target).
    path : {"linear", "adaptive"}
        How temperatures are spread: equally, or, after a pilot run, so that each step adds as much to the variance of
        the weights.
    start : {"uniform", "mean-field"}
        The product model: all units free, or their mean-field means. The latter is nearer to a machine with one mode,
        and far from one with several, which its weights may not show.
    bracket : bool
        Whether to go back down the path too, as "reverse-ais" does: `detail` then holds "log_z_lower", "log_z_upper"
        and their errors, and in "upper bound" what that of "reverse-ais" would be.
    source, n_sweeps
        For the way down; see `reverse_ais`.

    Returns
    -------
    Inference
        `log_z` and `log_z_error` in nats; `ess` of the final weights. `exp(log_z)` is unbiased, so `log_z` is low on
        average.

    Raises
    ------
    ValueError
        If `betas` does not increase from 0 to 1.

    Notes
    -----
    Costs a sweep of all chains for each temperature; the weights cost next to nothing.
    """
    job = _job(model, beta, n_chains, n_betas, betas, path, start, seed, threads)
    log_w, up, told = job.up()
    found = average(log_w)
    _warn_if_few("ais", found)
    log_z = found.log_mean
    result: dict[str, Any] = {"log_z": log_z, "log_z_error": found.error, "bound": "stochastic lower"}
    if moments:
        result |= weighted_moments(model, up, found.weights, log_z, beta)
    detail = {"log_weights": log_w, "n_betas": len(job.path), "start": start, **told}
    if bracket:
        detail |= _upper(job, found, source, n_sweeps)
    return Inference("ais", **result, converged=found.healthy, n_samples=n_chains, ess=found.ess, detail=detail)


def reverse_ais(
    model: BoltzmannMachine,
    *,
    beta: float,
    seed: int,
    threads: int,
    n_chains: int = 128,
    n_betas: int = 1_000,
    betas: Any = None,
    path: str = "linear",
    start: str = "uniform",
    source: str = "auto",
    n_sweeps: int = 1_000,
) -> Inference:
    """Estimate log Z by annealed importance sampling in reverse, from samples of the machine to the product model.

    Parameters
    ----------
    n_chains, n_betas, betas, path, start
        As for `ais`.
    source : {"auto", "exact", "gibbs"}
        Where samples come from: drawn independently by the tables of exact sums, or the last states of Gibbs chains.
        "auto" takes exact ones where they take less than about a minute.
    n_sweeps : int
        Sweeps of the Gibbs chains from random states; the second half tells whether they have converged.

    Returns
    -------
    Inference
        `exp(-log_z)` is unbiased, so that `log_z` is high on average, if the samples are right: `bound` is None and
        `converged` False where Gibbs chains have not converged.
    """
    job = _job(model, beta, n_chains, n_betas, betas, path, start, seed, threads)
    log_w, sampled, told = job.down(source, n_sweeps)
    found = average(-log_w)
    _warn_if_few("reverse-ais", found)
    if sampled is False:
        warnings.warn(
            f"reverse-ais: the Gibbs chains it starts from have not converged (r_hat = {told['r_hat']:.3g}), so that "
            "its log Z bounds nothing. Raise n_sweeps.",
            _checks.ConvergenceWarning,
            stacklevel=5,
        )
    return Inference(
        "reverse-ais",
        log_z=-found.log_mean,
        log_z_error=found.error,
        bound=_bound(sampled),
        converged=found.healthy and sampled is not False,
        n_samples=n_chains,
        ess=found.ess,
        detail={"log_weights": log_w, "n_betas": len(job.path), "start": start, **told},
    )


def _bound(sampled: bool | None) -> str | None:
    return None if sampled is False else "stochastic upper"


def _upper(job: _Job, lower: Average, source: str, n_sweeps: int) -> dict[str, Any]:
    """The other end of the bracket, for `detail`."""
    log_w, sampled, told = job.down(source, n_sweeps)
    upper = average(-log_w)
    return {
        "log_z_lower": lower.log_mean,
        "log_z_lower_error": lower.error,
        "log_z_upper": -upper.log_mean,
        "log_z_upper_error": upper.error,
        "upper bound": _bound(sampled),
        "upper ess": upper.ess,
        "upper": {"log_weights": log_w, **told},
    }


def _warn_if_few(name: str, found: Average) -> None:
    if not found.healthy:
        warnings.warn(
            f"{name}: {found.ess:.1f} of {len(found.weights)} weights carry the average; its error bar is not to be "
            "trusted. Raise n_betas.",
            _checks.ConvergenceWarning,
            stacklevel=6,
        )
