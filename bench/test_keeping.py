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


@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
@pytest.mark.parametrize("kept", ["every sweep kept", "one sweep kept"])
@pytest.mark.parametrize("sampler", ["wolff", "swendsen-wang"])
def test_keeping_of_clusters(sampler, kept, work, effort):
    n_sweeps = effort(1_000)
    thin = 1 if kept == "every sweep kept" else n_sweeps
    run = partial(
        bm.sample, bm.models.ising((16, 16)), sampler, beta=0.44, n_chains=1, n_sweeps=n_sweeps, thin=thin, burn_in=0,
        threads=1, seed=1,
    )  # fmt: skip
    workload = f"2D ferromagnet 16 x 16, {sampler.title()}, 1 chain, {n_sweeps} sweeps"
    assert len(work(run, n_sweeps, "sweeps", workload=workload, variant=kept, rounds=9).sweep) == n_sweeps // thin


@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
@pytest.mark.parametrize("observable", ["magnetisation", "overlap", "link_overlap", "structure_factor"])
def test_observables(observable, work, effort):
    n_sweeps, model = effort(1_000), bm.models.edwards_anderson((8, 8, 8), seed=1)
    run = partial(
        bm.sample, model, observables=[observable], n_chains=64, n_sweeps=n_sweeps, burn_in=0, threads=1, seed=1
    )  # fmt: skip
    workload = f"3D \u00b1J glass 8 x 8 x 8, 64 chains, {n_sweeps} sweeps, {observable} of each"
    work(run, 64 * model.n_units * n_sweeps, "attempts", workload=workload, rounds=5)
