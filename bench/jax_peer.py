"""A minimal restricted machine in JAX: contrastive divergence, an epoch one compiled call; in a process of its own.

XLA takes its number of threads from flags when it is loaded, and one thread only where it is held to one processor.
"""

from __future__ import annotations

import os
from functools import cache, partial
from typing import Any

import numpy as np

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def hold(threads: int) -> None:
    """Hold this process to so many processors; to be called before anything else is."""
    if threads == 1:
        os.environ["XLA_FLAGS"] = ONE_THREAD
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


class Contrastive:
    """As many chains as rows of a batch; `persistent` chains, or such that start at the rows."""

    def __init__(self, rows: np.ndarray, hidden: int, batch: int, rate: float, persistent: bool) -> None:
        import jax
        import jax.numpy as jnp

        keys = jax.random.split(jax.random.PRNGKey(1), 3)
        visible = rows.shape[1]
        weights = 0.01 * jax.random.normal(keys[0], (visible, hidden))
        chains = (jax.random.uniform(keys[1], (batch, hidden)) < 0.5).astype(jnp.float32)
        self._state = weights, jnp.zeros(visible), jnp.zeros(hidden), chains, keys[2]
        self._epoch = jax.jit(partial(_epoch, jnp.asarray(rows, jnp.float32), batch, rate / batch, persistent))
        self._wait = jax.block_until_ready

    def epochs(self, n: int) -> tuple[np.ndarray, ...]:
        """Learn for n epochs; return weights, visible and hidden biases."""
        for _ in range(n):
            self._state = self._epoch(*self._state)
        return tuple(np.asarray(part) for part in self._wait(self._state)[:3])


def _epoch(rows: Any, batch: int, rate: float, persistent: bool, *state: Any) -> Any:
    import jax
    import jax.numpy as jnp

    *state, key = state
    key, shuffled = jax.random.split(key)
    order = jax.random.permutation(shuffled, len(rows))[: len(rows) // batch * batch].reshape(-1, batch)

    def step(state: Any, chosen: Any) -> Any:
        weights, a, b, chains, key = state
        v = rows[chosen]
        h = jax.nn.sigmoid(v @ weights + b)
        key, first, second, third = jax.random.split(key, 4)
        start = chains if persistent else (jax.random.uniform(third, h.shape) < h).astype(jnp.float32)
        x = (jax.random.uniform(first, v.shape) < jax.nn.sigmoid(start @ weights.T + a)).astype(jnp.float32)
        y = jax.nn.sigmoid(x @ weights + b)
        if persistent:
            chains = (jax.random.uniform(second, y.shape) < y).astype(jnp.float32)
        weights = weights + rate * (v.T @ h - x.T @ y)
        a, b = a + rate * (v.sum(0) - x.sum(0)), b + rate * (h.sum(0) - y.sum(0))
        return (weights, a, b, chains, key), None

    return jax.lax.scan(step, (*state, key), order)[0]


@cache
def machine(name: str, hidden: int, batch: int, rate: float, persistent: bool) -> Contrastive:
    """The machine that learns rows of a name of `bench.test_restricted.ROWS`."""
    from .test_restricted import ROWS

    return Contrastive(ROWS[name](), hidden, batch, rate, persistent)


def learn(n: int, *arguments: Any) -> tuple[np.ndarray, ...]:
    """Learn for n epochs more."""
    return machine(*arguments).epochs(n)
