"""What it costs to keep every sweep, the default, beside keeping the last one alone: states, energies, the verdict."""

from functools import partial

import pytest

import fastbm as bm

CASES = [(64, 1, 4_000), (64, 64, 1_000), (200, 1, 1_000), (200, 64, 300), (1_000, 1, 200), (1_000, 64, 60)]


@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
@pytest.mark.parametrize("kept", ["every sweep kept", "one sweep kept"])
@pytest.mark.parametrize(("n", "n_chains", "n_sweeps"), CASES)
def test_keeping(n, n_chains, n_sweeps, kept, threads, work, effort):
    n_sweeps = effort(n_sweeps)
    thin = 1 if kept == "every sweep kept" else n_sweeps
    run = partial(
        bm.sample, bm.models.sherrington_kirkpatrick(n, seed=1), n_chains=n_chains, n_sweeps=n_sweeps, thin=thin,
        burn_in=0, threads=threads, seed=1,
    )  # fmt: skip
    workload = f"dense, n = {n}, {n_chains} chain{'s' if n_chains > 1 else ''}, {n_sweeps} sweeps"
    attempts = n * n_chains * n_sweeps
    found = work(run, attempts, "attempts", workload=workload, variant=kept, threads=threads, rounds=9)
    assert len(found.sweep) == n_sweeps // thin
