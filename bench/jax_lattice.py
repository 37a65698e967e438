"""Single-spin sweeps of a 2D lattice in JAX: one colour of a checkerboard after the other, all sweeps in one call.

XLA takes its number of threads from flags when it is loaded, and one thread only where it is held to one processor: a
process is to be of its own, and `hold` the first that it does.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np

from .problems import Problem, forward_bonds

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def hold() -> None:
    """Hold this process to one processor."""
    os.environ["XLA_FLAGS"] = ONE_THREAD
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])


def sweep(problem: Problem, n_chains: int, n_sweeps: int, rule: str, beta: float, seed: int = 1) -> np.ndarray:
    """Final states (n_chains, n_units) of spins that started at random."""
    import jax

    return np.asarray(_compiled(problem, n_chains, rule)(n_sweeps, beta, jax.random.PRNGKey(seed)))


@cache
def _compiled(problem: Problem, n_chains: int, rule: str) -> Any:
    import jax
    import jax.numpy as jnp

    bonds = jnp.asarray(forward_bonds(problem), jnp.float32)
    parity = jnp.asarray(np.indices(problem.size).sum(axis=0) % 2)

    def log_odds(spins: Any) -> Any:
        total = 0.0
        for axis in range(2):
            ahead = bonds[..., axis]
            total += ahead * jnp.roll(spins, -1, axis + 1) + jnp.roll(ahead * spins, 1, axis + 1)
        return total

    def run(n_sweeps: Any, beta: Any, key: Any) -> Any:
        def one(_: Any, state: Any) -> Any:
            spins, key = state
            key, drawn = jax.random.split(key)
            uniforms = jax.random.uniform(drawn, spins.shape)
            for colour in (0, 1):
                field = 2.0 * beta * log_odds(spins)
                if rule == "metropolis":
                    new = jnp.where(uniforms < jnp.exp(-field * spins), -spins, spins)
                else:
                    new = jnp.where(uniforms < jax.nn.sigmoid(field), 1.0, -1.0)
                spins = jnp.where(parity == colour, new, spins)
            return spins, key

        key, drawn = jax.random.split(key)
        start = jnp.where(jax.random.bernoulli(drawn, shape=(n_chains, *problem.size)), 1.0, -1.0)
        spins, _ = jax.lax.fori_loop(0, n_sweeps, one, (start, key))
        return spins.reshape(n_chains, -1)

    return jax.jit(run)
