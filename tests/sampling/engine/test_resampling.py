"""Steps of a population in one call are those of a gather, sweeps and energies, for every engine."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sampling.engine.test_engine import MODELS, assert_same_state, chains_of


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("kernel", "rule"), [*((kernel, "gibbs") for kernel in MODELS), ("multispin", "metropolis")], ids=str
)
def test_resampled_chains_are_those_that_are_gathered_and_swept(kernel: str, rule: str, threads: int) -> None:
    order = "permuted" if kernel == "dense" else "sequential"
    chains, other = (chains_of(kernel, rule, order, threads=threads) for _ in range(2))
    if kernel == "dense" and threads > 1:
        chains.attempt_seconds *= 1000.0  # so that blocks are worth threads, and take turns on them
    parents = np.random.default_rng(6).integers(0, chains.n_chains, (3, chains.n_chains))
    steps = [(None, 0), (parents[0], 3), (None, 2), (parents[1], 1), (parents[2], 0)]
    for beta in (np.full(2000, 0.6), np.full(2000, 0.3), np.repeat(np.linspace(0.1, 0.6, 40), 64)):
        for one in (chains, other):
            one.set_beta(beta[: one.n_chains])
        for found, (index, n_sweeps) in zip(
            chains.together(lambda: [chains.resample(*step) for step in steps], 300), steps, strict=True
        ):
            if index is not None:
                other.gather(index)
            if n_sweeps:
                other.sweep(n_sweeps)
            assert found.tobytes() == other.energies().tobytes()
        assert np.array_equal(chains.bits(), other.bits())
        assert chains.n_flips == other.n_flips
        for one in (chains, other):
            one.sweep(2)
        assert_same_state(chains, other)
