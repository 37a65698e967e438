"""log Z from the unique low-energy states that sequential dynamics visits.

The sum over the set S of distinct visited states is a lower bound. At the target temperature the probability P(S) of
the set is the fraction of samples of independent chains that lie in it, and log Z = log sum_S exp(-beta E) - log P(S).
Beside it stands the missing mass of Good, Biometrika 40, 237 (1953), doi:10.1093/biomet/40.3-4.237, where samples are
far enough apart.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import _checks, diagnostics, rng
from ..model import BoltzmannMachine
from ..sampling import Chains, make_chains
from .monte_carlo import find_burn_in
from .result import Inference, moments_of

INDEPENDENT = 0.6  # autocorrelation time, in samples, up to which samples count as independent (1/2 is exact)


def sampled_states(
    model: BoltzmannMachine,
    *,
    beta: float,
    moments: bool,
    seed: int,
    threads: int,
    n_chains: int = 64,
    n_sweeps: int = 1_000,
    burn_in: int | str = "auto",
    thin: int = 1,
    order: str | None = None,
) -> Inference:
    """Sum over the distinct states visited, each counted once.

    Half of the chains collect the states, the other half, independent of them, measure the probability of the set.
    `log_z` is the lower bound; ``detail["log_z_corrected"]`` and ``detail["log_z_corrected_error"]`` the estimate.

    Parameters
    ----------
    n_chains : int
        At least 2.
    n_sweeps, burn_in, thin, order
        As for "gibbs".

    Returns
    -------
    Inference
        The bound as `log_z`; moments weighted over the set of states; `converged` by split R-hat of the energy.
    """
    n_chains = _checks.whole("n_chains", n_chains, least=2)
    n_sweeps, thin = _checks.whole("n_sweeps", n_sweeps, least=1), _checks.whole("thin", thin, least=1)
    n_samples = n_sweeps // thin
    if not n_samples:
        raise ValueError(f"n_sweeps // thin must be at least 1; got {n_sweeps} // {thin}.")
    collectors, energies = _visit(
        make_chains(model, n_chains // 2, order=order, beta=beta, seed=seed, threads=threads),
        n_samples,
        thin,
        burn_in,
        n_sweeps,
    )
    witnesses, witness_energies = _visit(
        make_chains(model, n_chains - n_chains // 2, order=order, beta=beta, seed=rng.derive(seed, 1), threads=threads),
        n_samples,
        thin,
        burn_in,
        n_sweeps,
    )
    unique, first, counts = np.unique(_keys(collectors).ravel(), return_index=True, return_counts=True)
    state_energies = energies.ravel()[first] + model.offset
    lowest = state_energies.min()
    weights = np.exp(-beta * (state_energies - lowest))
    log_z = math.log(weights.sum()) - beta * lowest
    weights /= weights.sum()
    inside = np.isin(_keys(witnesses), unique).astype(np.float64)
    energy = float(weights @ state_energies)
    result: dict[str, Any] = {
        "log_z": log_z,
        "bound": "lower",
        "energy": energy,
        "energy_variance": float(weights @ (state_energies - energy) ** 2),
    }
    if moments:
        packed = collectors.reshape(-1, collectors.shape[2])[first]
        result |= _moments(model, packed, weights)
    detail = {"n_states": len(unique), "lowest energy": float(lowest)} | _correction(log_z, inside)
    both = np.concatenate([energies, witness_energies], axis=1)
    detail["r_hat"] = r_hat = float(diagnostics.r_hat(both)) if n_samples >= 4 else math.inf
    converged = bool(r_hat <= diagnostics.R_HAT_LIMIT) and detail["log_z_corrected"] is not None
    if float(diagnostics.tau_int(energies)) <= INDEPENDENT and n_samples > 1:
        detail["good_turing_missing_mass"] = float((counts == 1).sum() / counts.sum())
    return Inference(
        "sampled-states",
        **result,
        converged=converged,
        n_samples=collectors.shape[0] * collectors.shape[1],
        detail=detail,
    )


def _visit(
    chains: Chains, n_samples: int, thin: int, burn_in: int | str, n_sweeps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the packed states (n_samples, n_chains, bytes) and their energies without offset."""
    if burn_in == "auto":
        find_burn_in(chains, n_sweeps)
    else:
        chains.sweep(_checks.whole("burn_in", burn_in))
    found = chains.record(n_samples, thin)
    return found["samples/states"], found["samples/energy"]


def _keys(packed: np.ndarray) -> np.ndarray:
    """One comparable value for each state: its bytes."""
    return np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[-1])))[..., 0]


def _correction(log_z: float, inside: np.ndarray) -> dict[str, float | None]:
    """The estimate of log Z from the probability of the set, with its error; None, after a warning, where that is 0."""
    probability = float(inside.mean())
    if probability == 0.0:
        warnings.warn(
            "sampled-states: no independent sample fell among the states visited, so there is a lower bound "
            "but no estimate. "
            'Raise n_sweeps, or use "ais".',
            _checks.ConvergenceWarning,
            stacklevel=6,
        )
        return {"probability": 0.0, "log_z_corrected": None, "log_z_corrected_error": None}
    ess = min(float(diagnostics.ess(inside)), inside.size)
    smoothed = (probability * ess + 1.0) / (ess + 2.0)  # Laplace's rule: an error bar where all samples agree
    spread = inside.mean(axis=0).std(ddof=1) / math.sqrt(inside.shape[1]) if inside.shape[1] > 1 else 0.0
    error = max(math.sqrt(smoothed * (1.0 - smoothed) / ess), float(spread)) / probability
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
