"""Annealed importance sampling, up the path for a lower bound on log Z and down it for an upper one.

Neal, Stat. Comput. 11, 125 (2001), eqs. 11-12, doi:10.1023/A:1008923215028; Burda, Grosse and Salakhutdinov, AISTATS
(2015), arXiv:1412.8566 (the way down).

The path f_t = f_0^(1 - t) f^t leads from a product model f_0 to f = exp(-beta E), and
log w = sum_k (t_{k+1} - t_k) (log f(s_k) - log f_0(s_k)) + log Z_0 along a walk up it, so that Z = <w>. Along a walk
down it from states of f, 1 / Z = <1 / w>. Of layered machines every second layer is summed out, both ways.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _checks
from ..model import BoltzmannMachine
from .annealed_job import Job, make_job
from .annealed_starts import check_source
from .annealed_weights import Average, average, weighted_moments
from .result import Inference, check_pairs


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
        Whether to go back down the path too, as "reverse-ais" does: `detail` then holds "log_z_lower", "log_z_upper",
        their errors "log_z_lower_error", "log_z_upper_error", and "upper_holds": whether walks down began at exact
        samples or at states of converged chains. `log_z` is the lower one.
    source, n_sweeps
        For the way down; see `reverse_ais`.

    Returns
    -------
    Inference
        `log_z` and `log_z_error` in nats; `ess` of the final weights. `exp(log_z)` is unbiased, so `log_z` is low on
        average. The error is the largest of those in `detail["log_z_errors"]`: by the delta method, and where the
        weights are uneven (ess below 0.7 of their number) by the bootstrap and from a log-normal tail.

    Raises
    ------
    ValueError
        If `betas` does not increase from 0 to 1.

    Notes
    -----
    Costs a sweep of all chains for each temperature; the weights cost next to nothing.
    """
    if not isinstance(bracket, (bool, np.bool_)):
        raise TypeError(f"bracket must be True or False; got {bracket!r}.")
    check_source(source, n_sweeps)
    if moments:
        check_pairs(model.n_units)
    job = make_job(model, beta, n_chains, n_betas, betas, path, start, seed, threads)
    log_w, up, told = job.up()
    found = average(log_w)
    _warn_if_few("ais", found)
    log_z = found.log_mean
    result: dict[str, Any] = {"log_z": log_z, "log_z_error": found.error, "bound": "stochastic lower"}
    if moments:
        result |= weighted_moments(model, up, found.weights, log_z, beta)
    detail = {"log_weights": log_w, "n_betas": len(job.path), "start": start, "log_z_errors": found.errors, **told}
    if bracket:
        detail |= _bracket(job, found, source, n_sweeps)
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
    job = make_job(model, beta, n_chains, n_betas, betas, path, start, seed, threads)
    log_w, found, holds, told = _descend(job, source, n_sweeps)
    return Inference(
        "reverse-ais",
        log_z=-found.log_mean,
        log_z_error=found.error,
        bound="stochastic upper" if holds else None,
        converged=found.healthy and holds,
        n_samples=n_chains,
        ess=found.ess,
        detail={
            "log_weights": log_w,
            "n_betas": len(job.path),
            "start": start,
            "log_z_errors": found.errors,
            **told,
        },
    )


def _descend(job: Job, source: str, n_sweeps: int) -> tuple[np.ndarray, Average, bool, dict[str, Any]]:
    """Walk down: log w, the average of 1 / w, whether it bounds log Z, and details. Warns of what is not to be trusted.

    It bounds log Z if walks begin at samples of the machine: exact ones, or states of chains that have converged.
    """
    log_w, converged, told = job.down(source, n_sweeps)
    found = average(-log_w)
    _warn_if_few("reverse-ais", found)
    if converged is False:
        _checks.warn(
            f"reverse-ais: the Gibbs chains it starts from have not converged (r_hat = {told['r_hat']:.3g}), so that "
            "its log Z bounds nothing. Raise n_sweeps.",
        )
    return log_w, found, converged is not False, told


def _bracket(job: Job, lower: Average, source: str, n_sweeps: int) -> dict[str, Any]:
    """Both ends of the bracket, for `detail`."""
    log_w, upper, holds, told = _descend(job, source, n_sweeps)
    return {
        "log_z_lower": lower.log_mean,
        "log_z_lower_error": lower.error,
        "log_z_upper": -upper.log_mean,
        "log_z_upper_error": upper.error,
        "upper_holds": holds,
        "upper": {"log_weights": log_w, "ess": upper.ess, "log_z_errors": upper.errors, **told},
    }


def _warn_if_few(name: str, found: Average) -> None:
    if not found.healthy:
        _checks.warn(
            f"{name}: {found.ess:.1f} of {len(found.weights)} weights carry the average; its error bar is not to be "
            "trusted. Raise n_betas or n_chains.",
        )
