"""Independent states of a machine for those who compute with them, and keep no run of them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from ..machine.machine import BoltzmannMachine
from .arguments import check
from .clamped import Conditioned
from .exact import Exact
from .resolve import resolve


def draw_exactly(
    model: BoltzmannMachine, beta: float, shape: tuple[int, int], *, seed: int, threads: int, **options: Any
) -> np.ndarray:
    """Return packed states of independent draws, (draws, chains, bytes); chain c depends on the seed and c alone.

    Parameters
    ----------
    shape : (int, int)
        How many draws of how many chains.
    **options
        Of the sampler "exact".

    Raises
    ------
    ValueError
        If no engine can make the tables within the limits.
    """
    n_draws, n_chains = shape
    about = {"n_chains": n_chains, "n_sweeps": n_draws, "beta": beta, "seed": seed, "keep": "all"}
    subject = Conditioned(model, None, n_chains)
    settings = check(Exact(**options), defaultdict(lambda: None, about), {})
    settings = resolve(settings, subject, threads)
    chains = settings.own.chains(settings, subject, "random", threads)
    packed: np.ndarray = chains.record(n_draws, 1)["samples/states"]
    return packed
