"""The choice of an engine for a machine, and the checks of what chains are asked to do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import _checks, rng, threads as threads_module
from ..couplings import Couplings
from ..model import BoltzmannMachine
from ..units import Units
from .dense import DenseChains
from .engine import Engine as Chains, start_bits
from .layered import LayeredChains

NEARLY_FREE = 0.05  # log-odds of a unit below which a Metropolis proposal is nearly always accepted
FEW_MAGNITUDES = 4  # distinct couplings up to which local fields often cancel
RULES = ("gibbs", "metropolis")
ORDERS = ("sequential", "permuted", "random")


def resolve_order(order: str | None, rule: str) -> str:
    """Return the order of updates; left out, sequential for Gibbs and random for Metropolis.

    Metropolis dynamics accepts every proposal that costs no energy. In an order that visits each unit once a sweep,
    free units then flip at every sweep and the chain is periodic; random order is safe.
    """
    if order is None:
        return "random" if rule == "metropolis" else "sequential"
    return _checks.choice("order", order, ORDERS)


def check_beta(beta: Any, n_chains: int) -> np.ndarray:
    """Check an inverse temperature, or several: then equal groups of consecutive chains get one each."""
    values = np.atleast_1d(_checks.finite_array("beta", beta))
    if values.ndim != 1 or not values.size or n_chains % len(values):
        raise ValueError(
            f"beta must be one number, or a list whose length divides n_chains ({n_chains}); got shape {values.shape}."
        )
    if values.min() < 0:
        raise ValueError(f"beta must be at least 0; got {values.min():g}.")
    return np.repeat(values, n_chains // len(values))


def make_chains(
    model: BoltzmannMachine,
    n_chains: int,
    *,
    rule: str = "gibbs",
    order: str | None = None,
    beta: Any = 1.0,
    seed: int = 0,
    initial: Any = "random",
    threads: int | None = None,
    first_chain: int = 0,
) -> Chains:
    """Return chains of `model`, checked and ready to sweep."""
    n_chains = _checks.whole("n_chains", n_chains, least=1)
    rule = _checks.choice("sampler", rule, RULES)
    chosen = resolve_order(order, rule)
    betas = check_beta(beta, n_chains)
    if rule == "metropolis" and chosen != "random":
        _warn_if_periodic(model, chosen, float(betas.min()))
    up = start_bits(initial, model.n_units, n_chains, seed, first_chain, model.convention)
    return couple_chains(
        model.couplings,
        model.flat_bias,
        model.convention,
        up,
        rng.streams(seed, n_chains, first=first_chain),
        beta=betas,
        rule=rule,
        order=chosen,
        seed=seed,
        threads=threads_module.resolve(threads),
    )


def couple_chains(
    couplings: Couplings, bias: np.ndarray, units: Units, up: np.ndarray, streams: np.ndarray, **settings: Any
) -> Chains:
    """Return chains for trusted couplings and biases (one vector, or one per chain)."""
    by_layers = len(couplings.sizes) > 1 and settings["order"] == "sequential"
    kind = LayeredChains if by_layers else DenseChains
    chains = kind(units, up, streams, **settings)
    chains.couple(couplings, bias)
    return chains


def _warn_if_periodic(model: BoltzmannMachine, order: str, beta: float) -> None:
    """Warn where proposals that cost nothing, always accepted, may lead a sweep that visits each unit once in
    circles.
    """
    strongest = model.couplings.absolute_sums() + np.abs(model.flat_bias)
    free = int((beta * model.convention.span * strongest < NEARLY_FREE).sum())
    magnitudes = {float(w) for array in model.couplings.arrays for w in np.unique(np.abs(array)) if w}
    ties = order == "sequential" and len(magnitudes) <= FEW_MAGNITUDES
    if free or ties:
        why = "with these couplings many flips cost nothing"
        if free:
            why = f"{free} of {model.n_units} units are nearly free at beta = {beta:g}"
        warnings.warn(
            f"{why}: Metropolis updates in {order} order accept them at every sweep, and the chain may be periodic or "
            'never reach some states. Use order="random" or sampler="gibbs".',
            UserWarning,
            stacklevel=4,
        )
