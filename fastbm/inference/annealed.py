"""Annealed importance sampling on layered machines, every second layer summed analytically.

Neal, Stat. Comput. 11, 125 (2001), eqs. 11-12, doi:10.1023/A:1008923215028; Salakhutdinov and Murray, ICML (2008), p.
872, doi:10.1145/1390156.1390266.

The path f_t = f_0^(1 - t) f^t leads from a product model f_0 to f = exp(-beta E). The layers of odd number are summed
out, so log w = sum_k log f_{t[k+1]}(s_k) - log f_{t[k]}(s_k) is a function of the even layers, and Z = Z_0 <w>.
"""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np

from .. import _checks, rng
from ..couplings import Layered
from ..couplings.up import up_form
from ..kernels.layered import anneal_layer, gibbs_layer
from ..model import BoltzmannMachine
from ..sampling.engine import BLOCK, lanes_of
from ..sampling.layered import field_of_layer
from ..threads import fan_out
from .mean_field import solve
from .result import Inference, moments_of

FLOAT32_LIMIT = 1e-4  # what float32 fields may change a log-odds by before float64 is taken
FAINTEST = 0.01  # probabilities of the product model are kept this far from 0 and 1
HEALTHY_ESS = 10.0


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
    start: str = "uniform",
) -> Inference:
    """Estimate log Z by annealed importance sampling.

    Parameters
    ----------
    n_chains : int
        Independent annealing runs; `log_z_error` falls as its square root.
    n_betas : int
        Temperatures of the path, equally spaced.
    betas : (n_betas,) float array, optional
        The path itself: increasing from 0.0 (the product model) to 1.0 (the target).
    start : {"uniform", "mean-field"}
        The product model: all units free, or their mean-field means. The latter is nearer to a machine with one mode,
        and far from one with several, which its weights may not show.

    Returns
    -------
    Inference
        `log_z` and `log_z_error` in nats; `ess` of the final weights. `exp(log_z)` is unbiased, so `log_z` is low on
        average.

    Raises
    ------
    ValueError
        If the machine is not layered, or `betas` does not increase from 0 to 1.
    """
    refuse_no_layers(model)
    n_chains = _checks.whole("n_chains", n_chains, least=1)
    path = _check_path(n_betas, betas)
    base = _product_model(model, beta, _checks.choice("start", start, ("mean-field", "uniform")), seed)
    streams = rng.streams(seed, n_chains)
    annealed = _Path(model, beta, base)

    def run(first: int) -> tuple[np.ndarray, np.ndarray]:
        return annealed.run(path, streams[first : first + BLOCK])

    parts = fan_out(run, range(0, n_chains, BLOCK), threads)
    log_w = np.concatenate([weights for weights, _ in parts]) + annealed.log_z0
    top = log_w.max()
    w = np.exp(log_w - top)
    log_z = float(top + math.log(w.mean()))
    ess = float(w.sum() ** 2 / (w**2).sum())
    converged = ess >= min(HEALTHY_ESS, 0.5 * n_chains)
    if not converged:
        warnings.warn(
            f"ais: {ess:.1f} of {n_chains} weights carry the average; its error bar is not to be trusted. "
            "Raise n_betas.",
            _checks.ConvergenceWarning,
            stacklevel=5,
        )
    error = float(w.std(ddof=1) / math.sqrt(n_chains) / w.mean()) if n_chains > 1 else None
    result: dict[str, Any] = {"log_z": log_z, "log_z_error": error, "bound": "stochastic lower"}
    if moments:
        result |= _moments(model, np.concatenate([states for _, states in parts]), w / w.sum(), log_z, beta)
    detail = {"log_weights": log_w, "n_betas": len(path), "start": start, "fields": annealed.dtype.name}
    return Inference("ais", **result, converged=converged, n_samples=n_chains, ess=ess, detail=detail)


def refuse_no_layers(model: BoltzmannMachine) -> None:
    """Refuse machines that are not layered."""
    if not model.is_layered:
        raise ValueError(
            'ais needs a layered machine (weights as a list of blocks). Use "exact", "sampled-states" or "mean-field".'
        )


def _check_path(n_betas: int, betas: Any) -> np.ndarray:
    if betas is None:
        return np.linspace(0.0, 1.0, _checks.whole("n_betas", n_betas, least=2))
    path = _checks.finite_array("betas", betas)
    if path.ndim != 1 or len(path) < 2 or path[0] != 0.0 or path[-1] != 1.0 or np.any(np.diff(path) <= 0):
        raise ValueError(f"betas must increase from 0.0 to 1.0; got {np.array2string(path, threshold=6)}.")
    return path


def _product_model(model: BoltzmannMachine, beta: float, start: str, seed: int) -> np.ndarray:
    """Log-odds of every unit under f_0."""
    if start == "uniform":
        return np.zeros(model.n_units)
    spin = model.to_units("spin")
    bias = spin.flat_bias[:, None]
    solution = solve(spin.couplings, bias, beta, np.zeros_like(bias), tolerance=1e-6, damping=0.0, max_sweeps=100)
    most = math.log((1 - FAINTEST) / FAINTEST)
    return np.clip(2 * solution.arguments[:, 0], -most, most)


class _Path:
    """The annealing of one block of chains, in terms of units that are up (see `fastbm.sampling.engine`)."""

    def __init__(self, model: BoltzmannMachine, beta: float, base: np.ndarray) -> None:
        assert isinstance(model.couplings, Layered)
        form, field = up_form(model.couplings, model.flat_bias, model.convention)
        worst = beta * float((form.absolute_sums() + np.abs(field)).max())
        self.dtype = np.dtype(np.float32 if worst * 2.0**-22 <= FLOAT32_LIMIT else np.float64)
        self._layers = model.couplings.layers
        self._blocks = [(beta * block).astype(self.dtype) for block in form.arrays]
        self._field = (beta * field).astype(self.dtype)
        self._base = base.astype(self.dtype)
        self._n_units = model.n_units
        down = np.full((1, model.n_units), model.convention.lo)
        self.log_z0 = float(np.logaddexp(0.0, base).sum()) - beta * float(model.energy(down)[0])

    def _fields(self, layer: int, up: np.ndarray) -> np.ndarray:
        return field_of_layer(self._blocks, self._layers, layer, up, self._field[:, None])

    def run(self, path: np.ndarray, streams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log w without log Z_0, and the final states' bits, of one block of chains."""
        n_chains = len(streams)
        lanes = lanes_of(n_chains)
        stream = np.ones((4, lanes), np.uint32)
        stream[:, :n_chains] = streams.T
        up = np.zeros((self._n_units, lanes), self.dtype)
        totals = np.zeros(lanes)
        scale = np.ones(lanes, self.dtype)
        tilt = (self._field - self._base).astype(np.float64)
        evens, odds = range(0, len(self._layers), 2), range(1, len(self._layers), 2)
        for layer in evens:
            rows = self._layers[layer]
            gibbs_layer(up[rows], np.repeat(self._base[rows][:, None], lanes, axis=1), scale, stream, n_chains)
        for before, after in itertools.pairwise(path):
            for layer in evens:
                totals += (after - before) * (tilt[self._layers[layer]] @ up[self._layers[layer]])
            for layer in odds:
                rows = self._layers[layer]
                anneal_layer(up[rows], self._fields(layer, up), self._base[rows], before, after, stream, totals)
            for layer in evens:
                rows = self._layers[layer]
                fields = self.dtype.type(after) * self._fields(layer, up)
                fields += self.dtype.type(1 - after) * self._base[rows][:, None]
                gibbs_layer(up[rows], fields, scale, stream, n_chains)
        return totals[:n_chains], up[:, :n_chains].T.astype(np.uint8)


def _moments(model: BoltzmannMachine, up: np.ndarray, weights: np.ndarray, log_z: float, beta: float) -> dict[str, Any]:
    """Averages over the final states, weighted; errors by the delta method for a ratio of averages."""
    values = model.convention.values(up, np.float64)
    energies = np.asarray(model.energy(values))
    mean, energy = weights @ values, float(weights @ energies)
    error = np.sqrt((weights**2) @ (values - mean) ** 2)
    ess = 1.0 / float(weights @ weights)
    never = model.convention.span * math.sqrt(ess + 1.0) / (ess + 2.0) / math.sqrt(ess)  # Laplace's rule
    second = (values * weights[:, None]).T @ values
    return moments_of(mean, second) | {
        "mean_error": np.where(error > 0, error, never),
        "energy": energy,
        "energy_error": float(np.sqrt(weights**2 @ (energies - energy) ** 2)),
        "energy_variance": float(weights @ (energies - energy) ** 2),
        "entropy": log_z + beta * energy,
    }
