"""Parallel tempering as an estimator: log Z, means and curves against exact sums, and what it says of itself."""

# Coverage: 95 % intervals hold the truth in 88 to 99.5 % of cases of 25 seeds and 4 machines, in 90 to 99 % of 200
# seeds of each in the slow test. Agreement: within four standard errors, which fails one right estimate in 16000; seeds
# are fixed.

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import diagnostics
from fastbm.inference.result import from_json, to_json
from fastbm.inference.temperatures import Temperatures
from fastbm.inference.tempering import levels, log_ratios
from fastbm.inference.tempering.verdict import judge_ladders
from tests.support import machines
from tests.support.combinations import each
from tests.support.machines import KINDS, UNITS, assert_covers, assert_same_inference, calm, machine
from tests.twins import tempering as slow

SEEDS = range(25)
BETAS = [0.0, 0.3, 0.9]
MACHINES = ("sk", "restricted", "lattice", "frustrated")


def known_machine(kind: str) -> tuple[bm.BoltzmannMachine, list[float]]:
    """A machine whose log Z is known, and a ladder for it."""
    generator = np.random.default_rng(3)
    if kind == "sk":
        return bm.models.sherrington_kirkpatrick(12, seed=1), [0.0, 0.5, 1.0, 1.7, 2.5]
    if kind == "restricted":
        blocks = [generator.normal(scale=1.0, size=(8, 5))]
        bias = generator.normal(scale=0.5, size=13)
        return bm.BoltzmannMachine(blocks, bias, units="binary", offset=2.0), [0.0, 0.3, 0.65, 1.0]
    if kind == "lattice":
        return bm.models.ising((6, 6)), [0.0, 0.1, 0.2, 0.29, 0.37, 0.44]
    return bm.BoltzmannMachine(np.eye(12) - 1.0, np.full(12, 0.3)), [0.0, 0.2, 0.45, 0.7]


def estimates(kind: str, seeds: range, **options: Any) -> tuple[list[bm.Inference], bm.Inference, float]:
    model, betas = known_machine(kind)
    beta = betas[-1]
    given = {"betas": betas, "n_chains": 16, "n_sweeps": 128, "burn_in": 32, "threads": 1, "witness": False} | options
    found = [calm(bm.infer, model, "tempering", beta=beta, seed=s, **given) for s in seeds]
    return found, bm.infer(model, "exact", beta=beta, energy_variance=True), beta


def covered(found: list[bm.Inference], truth: bm.Inference, beta: float) -> dict[str, list[Any]]:
    """Which of the 95 % intervals hold the truth, by what they are of."""
    ends = [Temperatures.of(f) for f in found]
    heat = beta**2 * truth.energy_variance
    return {
        "log_z": [abs(f.log_z - truth.log_z) < 1.96 * f.log_z_error for f in found],
        "energy": [abs(f.energy - truth.energy) < 1.96 * f.energy_error for f in found],
        "mean": [np.abs(f.mean - truth.mean) < 1.96 * f.mean_error for f in found],
        "entropy": [abs(e.entropy[-1] - truth.entropy) < 1.96 * e.entropy_error[-1] for e in ends],
        "heat capacity": [abs(e.heat_capacity[-1] - heat) < 1.96 * e.heat_capacity_error[-1] for e in ends],
    }


def test_error_bars_cover() -> None:
    together: dict[str, list[Any]] = {}
    for kind in MACHINES:
        found, truth, beta = estimates(kind, SEEDS)
        assert all(f.bound is None and f.n_samples == 16 * 128 for f in found)
        for name, inside in covered(found, truth, beta).items():
            together.setdefault(name, []).append(np.mean(inside))
    for inside in together.values():
        assert_covers(np.array(inside))


@pytest.mark.slow
@each(kind=MACHINES, engine=["ti", "bennett"])
def test_error_bars_cover_over_many_seeds(kind: str, engine: str) -> None:
    """The error that long steps make in integration is no normal number: where it would be most of it, they are cut."""
    options: dict[str, Any] = {"n_sweeps": 256, "engine": engine}
    if (kind, engine) == ("frustrated", "ti"):
        options["betas"] = np.interp(np.arange(10) / 3, np.arange(4), known_machine(kind)[1])
    found, truth, beta = estimates(kind, range(100), **options)
    assert all(f.detail.get("discretisation_error", 0.0) < 0.3 * f.log_z_error for f in found)
    for name, inside in covered(found, truth, beta).items():
        most = 1.0 if name == "heat capacity" else 0.99  # whose bar has a floor
        assert 0.90 <= np.mean(inside) <= most, (name, np.mean(inside))


@pytest.mark.slow
def test_error_bars_of_all_levels_at_once_cover() -> None:
    pytest.importorskip("pymbar")
    found, truth, beta = estimates("sk", range(40), engine="mbar")
    for inside in covered(found, truth, beta).values():
        assert_covers(np.array(inside))


@each(kind=KINDS, units=UNITS, engine=["bennett", "bennett", "ti", "ti"])
def test_curves_of_every_temperature(kind: str, units: str, engine: str) -> None:
    model = machine(kind, units, seed=2, offset=1.5)
    found = bm.infer(model, "tempering", beta=1.2, n_betas=4, n_sweeps=600, engine=engine)
    curves = Temperatures.of(found)
    assert found.converged
    assert len(curves.betas) == 4
    assert curves.betas[0] == 0.0
    assert curves.log_z[0] == pytest.approx(model.n_units * math.log(2), abs=1e-12)
    assert curves.log_z_error[0] == 0.0
    for k, beta in enumerate(curves.betas):
        truth = bm.infer(model, "exact", beta=float(beta), energy_variance=True)
        heat = beta**2 * truth.energy_variance
        for name, value in (("log_z", truth.log_z), ("energy", truth.energy), ("entropy", truth.entropy)):
            off, error = getattr(curves, name)[k] - value, getattr(curves, f"{name}_error")[k]
            assert abs(off) < 5 * error + 1e-9, (name, beta)
        assert abs(curves.heat_capacity[k] - heat) < 5 * curves.heat_capacity_error[k] + 1e-9
    assert (found.log_z, found.energy, found.entropy) == (curves.log_z[-1], curves.energy[-1], curves.entropy[-1])
    assert np.all(np.abs(found.mean - truth.mean) < 5 * found.mean_error)
    np.testing.assert_allclose(found.second_moment, truth.second_moment, atol=0.05)
    assert found.detail["swap_rates"].shape == found.detail["overlap"].shape == (3,)


def test_curves_survive_storing() -> None:
    found = calm(bm.infer, machine("visible"), "tempering", n_sweeps=100, burn_in=10)
    back = from_json(to_json(found), found.seconds)
    assert_same_inference(found, back)
    for name, values in Temperatures.of(back).as_detail().items():
        np.testing.assert_array_equal(values, getattr(Temperatures.of(found), name))


def test_curves_are_asked_for_where_there_are_some() -> None:
    with pytest.raises(ValueError, match=r'exact visits one temperature.*"tempering"'):
        Temperatures.of(bm.infer(machine("visible"), "exact"))
    many = calm(bm.infer, machine("visible"), "tempering", clamp=([0], [[1], [-1]]), n_sweeps=50, n_betas=2)
    with pytest.raises(ValueError, match="which of the 2 clamped patterns"):
        Temperatures.of(many)
    assert Temperatures.of(many, 1).log_z[-1] == many.log_z[1]
    with pytest.raises(ValueError, match="pattern goes with many"):
        Temperatures.of(calm(bm.infer, machine("visible"), "tempering", n_sweeps=50), 1)


@pytest.mark.parametrize("engine", ["bennett", "ti"])
def test_at_beta_zero_log_z_is_known(engine: str) -> None:
    model = machine("general", "binary", offset=3.0)
    found = bm.infer(model, "tempering", beta=0.0, engine=engine)
    assert found.log_z == pytest.approx(6 * math.log(2), abs=1e-12)
    assert found.log_z_error == 0
    assert abs(found.energy - bm.infer(model, "exact", beta=0.0).energy) < 5 * found.energy_error
    assert bm.infer(model, "tempering", beta=0.0, betas=[0.0]).log_z == found.log_z


def test_clamped_units_keep_their_values() -> None:
    model = machine("layers", "binary", seed=4, offset=1.0)
    rows = np.array([[1, 0], [0, 1]])
    found, truth = (
        bm.infer(model, method, clamp=([0, 4], rows), **options)
        for method, options in (("tempering", {"n_sweeps": 400}), ("exact", {}))
    )
    assert np.all(np.abs(found.log_z - truth.log_z) < 4 * found.log_z_error)
    np.testing.assert_array_equal(found.mean[:, [0, 4]], rows)
    np.testing.assert_array_equal(found.mean_error[:, [0, 4]], 0)


@pytest.mark.parametrize("scale", [1e-12, 30.0, 1e3])
def test_any_range_of_couplings_is_finite(scale: float) -> None:
    model = machine("visible", scale=scale)
    found = calm(bm.infer, model, "tempering", n_chains=8, n_sweeps=200)
    truth = bm.infer(model, "exact")
    for name, values in Temperatures.of(found).as_detail().items():
        assert np.isfinite(values).all(), name
    assert not found.converged or abs(found.log_z - truth.log_z) < 5 * found.log_z_error + 1e-6


def test_the_same_bits_for_any_number_of_threads() -> None:
    model = bm.models.sherrington_kirkpatrick(20, seed=2)
    one, two, three = (
        calm(bm.infer, model, "tempering", n_sweeps=60, n_chains=20, threads=t, seed=5) for t in (1, 2, 3)
    )
    assert_same_inference(one, two)
    assert_same_inference(one, three)
    assert calm(bm.infer, model, "tempering", n_sweeps=60, n_chains=20, seed=6).log_z != one.log_z


@pytest.mark.parametrize("method", ["tempering", "population-annealing"])
def test_ctrl_c_is_heard_at_once(method: str) -> None:
    """Work for hours is left within 0.2 s, or some more where processors are shared."""
    model, sent, main = bm.models.ising((64, 64)), [], threading.main_thread().ident
    assert main is not None
    options = {"moments": False, "betas": [0.0, 0.1, 0.2, 0.3, 0.4], "threads": 2}
    calm(bm.infer, model, method, beta=0.4, n_sweeps=1, **options)  # what is to be compiled is

    def interrupt() -> None:
        sent.append(time.perf_counter())
        signal.pthread_kill(main, signal.SIGINT)

    timer = threading.Timer(0.5, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        bm.infer(model, method, beta=0.4, n_sweeps=10**6, **options)
    left = time.perf_counter()
    timer.join()
    assert left - sent[0] < 4.0


def two_valleys() -> bm.BoltzmannMachine:
    return bm.BoltzmannMachine(0.5 * (1.0 - np.eye(10)), np.full(10, 0.03))


def test_ladders_that_take_long_between_valleys_are_believed_with_bars_from_their_spread() -> None:
    model, truth = two_valleys(), bm.infer(two_valleys(), "exact")
    found = [calm(bm.infer, model, "tempering", n_chains=16, n_sweeps=200, seed=s, threads=1) for s in range(12)]
    assert sum(f.converged is True for f in found) > 10 and all(f.detail["r_hat_units"] > 1.05 for f in found)
    for name in ("log_z", "energy", "mean"):
        off = np.array([np.max(np.abs(getattr(f, name) - getattr(truth, name))) for f in found])
        assert np.mean(off < 1.96 * np.array([np.max(getattr(f, f"{name}_error")) for f in found])) > 0.8


def test_what_nothing_could_have_contradicted_is_not_sure() -> None:
    model = machine("visible", scale=0.3)
    alone = bm.infer(model, "tempering", n_chains=1, n_sweeps=2000)
    assert alone.converged is None and alone.detail["doubt"].startswith("one ladder")
    single = bm.infer(model, "tempering", n_chains=1, n_sweeps=1)
    assert single.converged is None and single.log_z_error is None
    few = bm.infer(model, "tempering", n_sweeps=3, burn_in=50)
    assert few.converged is None and few.detail["doubt"].startswith("3 samples")
    assert bm.infer(model, "tempering").converged is True
    assert bm.infer(model, "tempering", witness=False).converged is None


def test_ladders_that_still_relax_or_never_go_round_are_told() -> None:
    generator = np.random.default_rng(0)
    shape, trips = (100, 16, 3), np.full(16, 5)
    still, betas = generator.normal(size=shape), np.array(BETAS)
    flat = machine("visible")

    def judge(energies: np.ndarray, trips: np.ndarray) -> Any:
        r_hat, ratios = float(diagnostics.r_hat(energies).max()), log_ratios.bennett(betas, energies)
        drifts = [levels._any_drifts(energies, ratios.terms, threads) for threads in (1, 2)]
        assert drifts[0] == drifts[1]
        told = levels.Told(bm.Inference("tempering"), ratios, np.full(3, 0.5), drifts[0])
        return judge_ladders(flat, energies.shape, told, r_hat, None, trips)

    assert judge(still, trips).converged is True
    drifting = still + np.linspace(0.5, 0.0, 100)[:, None, None]
    assert "the first half of the samples differs" in judge(drifting, trips).reason
    assert "back 15 times, less than once a ladder" in judge(still, np.arange(16) // 15 * 15).reason
    apart = still + 2.0 * generator.normal(size=(1, 16, 1))
    assert "the ladders disagree" in judge(apart, trips).reason
    few = still[:, :4] + 0.5 * np.array([1.0, -1.0, 0.0, 0.0])[:, None]
    assert "(above 1.05)" in judge(few, trips[:4]).reason
    assert "back 3 times" in judge(still[:, :4], np.array([0, 0, 3, 0])).reason


def test_levels_that_hardly_meet_are_told() -> None:
    with pytest.warns(bm.ConvergenceWarning, match="tempering has not converged"):
        found = bm.infer(bm.models.ising((24, 24)), "tempering", beta=0.4, betas=[0, 0.4], n_sweeps=200)
    assert not found.converged
    assert found.detail["overlap"][0] < 1e-3


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (r"betas must increase.*got 0.5 at 1 after 1. Turn it round", {"betas": [1.0, 0.5, 0.0]}),
        (r"betas must increase.*got 0.5 at 2", {"betas": [0.0, 0.7, 0.5, 1.0]}),
        (r"betas must begin at 0.0.*first is 0.1. Put 0.0 in front", {"betas": [0.1, 1.0]}),
        (r"betas must end at beta.*Pass beta=2", {"betas": [0.0, 2.0]}),
        ("betas must be finite", {"betas": [0.0, math.nan, 1.0]}),
        (r"betas must list.*shape \(0,\)", {"betas": []}),
        ("leave one of them out", {"betas": [0.0, 1.0], "n_betas": 3}),
        ("n_betas must be at least 2", {"n_betas": 1}),
        ("n_chains must be at least 1; got 0", {"n_chains": 0}),
        ("n_sweeps must be at least 1", {"n_sweeps": 0}),
        (r"n_sweeps // thin must be at least 1; got 3 // 4", {"n_sweeps": 3, "thin": 4}),
        ("swap_every must be at least 1", {"swap_every": 0}),
        ("burn_in must be at least 0", {"burn_in": -1}),
        ("engine must be one of .*Did you mean 'bennett'", {"engine": "benett"}),
    ],
)
def test_bad_options_are_named(text: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=text):
        bm.infer(machine("visible"), "tempering", **options)


def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymbar", None)
    with pytest.raises(ImportError, match=r'pip install "fastbm\[mbar\]".*bennett'):
        bm.infer(machine("visible"), "tempering", engine="mbar")


def test_a_picture_of_curves(tmp_path: Any) -> None:
    from fastbm.report.pictures.temperatures import plot_temperatures

    sizes = {"tempering": {"n_sweeps": 100}, "population-annealing": {"n_chains": 128}}
    found = {n: calm(bm.infer, machine("visible"), n, **own) for n, own in sizes.items()}
    assert plot_temperatures(found, tmp_path / "deep" / "curves.png").stat().st_size > 10_000
    flat = calm(bm.infer, machine("visible"), "tempering", beta=0.0, n_sweeps=100)
    assert plot_temperatures(Temperatures.of(flat), tmp_path / "one.png").is_file()
    with pytest.raises(ValueError, match="results must hold 1 to 5"):
        plot_temperatures({}, tmp_path / "none.png")


def test_the_twin_of_kaufman_is_the_sum_over_all_states() -> None:
    model = bm.models.ising((4, 4))
    for beta in (0.2, 0.44, 0.9):
        assert slow.kaufman_log_z(4, 4, beta) == pytest.approx(bm.infer(model, "exact", beta=beta).log_z, rel=1e-13)


@pytest.mark.slow
def test_a_rugged_machine_traps_gibbs_and_not_tempering() -> None:
    """160 units that store three patterns, deep in the phase of retrieval; log Z is known by summing over overlaps."""
    stored = np.where(np.random.default_rng(0).random((3, 160)) < 0.5, -1, 1)
    model, beta = bm.models.hopfield(stored), 2.5
    with pytest.warns(bm.ConvergenceWarning, match="gibbs has not converged"):
        assert not bm.infer(model, "gibbs", beta=beta, n_sweeps=1_000).converged
    tempered = bm.infer(model, "tempering", beta=beta, n_sweeps=16_000, thin=8)
    assert tempered.converged
    truth = slow.three_pattern_log_z(stored.tolist(), beta)
    assert abs(tempered.log_z - truth) < 4 * tempered.log_z_error
    assert tempered.log_z_error < 0.1
    assert np.all(np.abs(tempered.mean) < 5 * tempered.mean_error)  # by symmetry
    annealed = bm.infer(model, "ais", beta=beta, n_chains=512, n_betas=2_000, path="adaptive", moments=False)
    assert annealed.converged
    error = math.hypot(tempered.log_z_error, annealed.log_z_error)
    assert abs(tempered.log_z - annealed.log_z) < 4 * error < 0.5


@pytest.mark.slow
def test_a_machine_that_learned_digits_traps_gibbs_and_not_tempering() -> None:
    """160 pixels of handwritten digits, those that vary most."""
    with np.load(machines.data_file("mnist.npz")) as digits:
        rows = (digits["train_images"].reshape(-1, 784)[:5_000] > 127).astype(np.uint8)
    rows = rows[:, np.sort(np.argsort(rows.var(axis=0))[-160:])]
    run = bm.fit(rows, method="pcd", epochs=30, batch_size=100, learning_rate=0.01, evaluate="none", seed=0)
    with pytest.warns(bm.ConvergenceWarning, match="gibbs has not converged"):
        assert not bm.infer(run.model, "gibbs", n_sweeps=500).converged
    tempered = bm.infer(run.model, "tempering", n_sweeps=4_000, thin=2)
    annealed = bm.infer(run.model, "ais", n_betas=5_000, moments=False)
    assert tempered.converged and annealed.converged
    error = math.hypot(tempered.log_z_error, annealed.log_z_error)
    assert abs(tempered.log_z - annealed.log_z) < 4 * error < 0.4


@pytest.mark.slow
def test_log_z_of_a_large_critical_lattice() -> None:
    """128 x 128 spins at the transition, beside Kaufman's log Z of the torus.

    The domains of the coldest levels relax more slowly than the run is long, which R-hat says. The spread of eight
    independent ladders tells the error of log Z, but for what all of them owe to their random starts, which a long
    burn-in makes small.
    """
    beta = math.log1p(math.sqrt(2.0)) / 2
    options = {"n_chains": 8, "n_sweeps": 2_500, "burn_in": 2_500, "thin": 10, "moments": False}
    found = calm(bm.infer, bm.models.ising((128, 128)), "tempering", beta=beta, **options)
    assert abs(found.log_z - slow.kaufman_log_z(128, 128, beta)) < 4 * found.log_z_error
    assert found.log_z_error < 1.0  # of 15233


def test_integration_over_too_few_temperatures_is_not_believed() -> None:
    model = bm.models.curie_weiss(8, coupling=100.0, field=100.0)
    with pytest.warns(bm.ConvergenceWarning, match="too far apart to integrate over"):
        found = bm.infer(model, "tempering", engine="ti", n_sweeps=400, n_betas=6)
    assert not found.converged


@each(method=["tempering", "population-annealing"], units=["spin", "binary"])
def test_means_at_every_temperature(method: str, units: str) -> None:
    model = bm.models.random_machine(8, scale=1.0, bias_scale=0.4, units=units, seed=5)
    options: dict[str, Any] = {"n_sweeps": 2000, "n_betas": 5} if method == "tempering" else {"n_chains": 4096}
    found = bm.infer(model, method, beta=1.2, **options)
    curves = bm.Temperatures.of(found)
    assert curves.mean is not None and curves.mean_error is not None
    assert curves.mean.shape == curves.mean_error.shape == (len(curves.betas), 8)
    truth = np.array([bm.infer(model, "exact", beta=b).mean for b in curves.betas])
    assert np.abs((curves.mean - truth) / curves.mean_error).max() < 5.5
    assert (curves.mean_error > 0).all() and curves.mean_error.max() < 0.1
    np.testing.assert_allclose(curves.mean[-1], found.mean, atol=1e-12)
    assert bm.Temperatures.of(bm.infer(model, method, beta=1.2, moments=False, **options)).mean is None


def test_one_sample_tells_no_error() -> None:
    model = machine("visible")
    found = calm(bm.infer, model, "tempering", n_chains=1, n_sweeps=1, n_betas=4)
    assert found.log_z_error is None and found.energy_error is None
    assert not found.converged
    with pytest.raises(ValueError, match="one sample tells no errors"):
        bm.Temperatures.of(found)
