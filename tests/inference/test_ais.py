"""Annealed importance sampling, up and down the path, against exact sums: unbiased, with error bars that cover."""

# Coverage: 95 % intervals of 200 runs hold the truth in 90 to 99 % of cases; right ones fail once in a thousand.
# Unbiasedness and agreement: within four standard errors, which fails one right estimate in 16000. Seeds are fixed.

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import fastbm as bm
from fastbm.inference.ais import path, walk, walk_units
from fastbm.inference.ais.weights import average
from fastbm.sampling.engine import fixed_point
from tests.support import machines
from tests.support.combinations import each
from tests.support.machines import KINDS, UNITS, calm, machine

GROUPS, EACH = 120, 64
KERNELS = {"dense": "visible", "sparse": "visible", "layered": "layers"}


def groups(log_w: np.ndarray) -> list[Any]:
    """One average for each run of `EACH` chains: all chains of a call have streams of their own."""
    return [average(rows) for rows in log_w.reshape(-1, EACH)]


def check_groups(log_w: np.ndarray, truth: float) -> None:
    found = groups(log_w)
    assert min(f.ess for f in found) > 30
    covered = np.mean([abs(f.log_mean - truth) < 1.96 * f.error for f in found])
    assert 0.90 <= covered <= 0.99
    ratio = np.exp(log_w - truth)
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / math.sqrt(len(ratio))


@each(kind=KINDS, units=UNITS, start=["mean-field", "uniform"])
def test_both_ways_are_unbiased_and_errors_cover(kind: str, units: str, start: str) -> None:
    model = machine(kind, units, seed=2, offset=1.5, scale=0.35 if units == "spin" else 0.8)
    truth = bm.infer(model, "exact", beta=1.2)
    n_betas = 160 if kind == "general" else 40  # mean-field means are those of one of its modes
    settings = {"beta": 1.2, "seed": 5, "n_chains": GROUPS * EACH, "n_betas": n_betas, "start": start}
    up = bm.infer(model, "ais", **settings)
    down = bm.infer(model, "reverse-ais", source="exact", **settings)
    assert (up.bound, down.bound) == ("stochastic lower", "stochastic upper")
    check_groups(up.detail["log_weights"], truth.log_z)
    check_groups(-down.detail["log_weights"], -truth.log_z)
    assert abs(up.log_z - truth.log_z) < 4 * up.log_z_error
    assert abs(down.log_z - truth.log_z) < 4 * down.log_z_error
    assert np.all(np.abs(up.mean - truth.mean) < 4.5 * up.mean_error)
    assert abs(up.energy - truth.energy) < 4 * up.energy_error
    np.testing.assert_allclose(up.covariance, truth.covariance, atol=0.05)


@pytest.mark.parametrize("beta", [1.0, pytest.param(2.0, marks=pytest.mark.slow)])
def test_errors_cover_where_weights_are_uneven(beta: float) -> None:
    """Of 128 weights about 45 carry the average: the delta method alone would cover in 89 % of cases."""
    model = bm.models.sherrington_kirkpatrick(20, seed=1)
    truth = bm.infer(model, "exact", beta=beta).log_z
    n_betas = {1.0: 10, 2.0: 40}[beta]
    about = {"n_chains": GROUPS * 128, "n_betas": n_betas, "moments": False, "start": "uniform", "source": "exact"}
    found = bm.infer(model, "ais", beta=beta, bracket=True, witness=False, **about)
    for log_w, log_z in ((found.detail["log_weights"], truth), (-found.detail["upper"]["log_weights"], -truth)):
        runs = [average(rows) for rows in log_w.reshape(-1, 128)]
        assert 30 < np.median([f.ess for f in runs]) < 64
        assert 0.90 <= np.mean([abs(f.log_mean - log_z) < 1.96 * f.error for f in runs]) <= 0.99


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bracket_holds_the_truth_and_closes(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_units, "by_units", lambda *about: kernel)
    model = machine(KERNELS[kernel], seed=6, scale=1.5)
    truth = bm.infer(model, "exact").log_z
    gaps = []
    for n_betas in (3, 300):
        settings = {"n_chains": 2_000, "n_betas": n_betas, "seed": 1, "source": "exact", "start": "uniform"}
        found = calm(bm.infer, model, "ais", bracket=True, **settings)
        detail = found.detail
        assert (detail["log_z_lower"], detail["log_z_lower_error"]) == (found.log_z, found.log_z_error)
        assert detail["upper_holds"]
        assert detail["upper"]["source"] == "exact"
        assert detail["log_z_lower"] - 4 * detail["log_z_lower_error"] < truth
        assert truth < detail["log_z_upper"] + 4 * detail["log_z_upper_error"]
        alone = calm(bm.infer, model, "reverse-ais", **settings)
        assert (alone.log_z, alone.log_z_error) == (detail["log_z_upper"], detail["log_z_upper_error"])
        log_w, back = detail["log_weights"], detail["upper"]["log_weights"]
        assert log_w.mean() < truth < back.mean()  # Jensen: on average each walk is on its side
        gaps.append(back.mean() - log_w.mean())
    assert gaps[1] < 0.1 * gaps[0]


@each(scale=[1e-12, 1.0, 30.0, 1e3], kernel=["dense", "sparse"])
def test_kernels_agree_to_the_bit_on_couplings_of_any_size(
    kernel: str, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = np.asarray(bm.models.sherrington_kirkpatrick(12, seed=2).weights) * scale
    model = bm.BoltzmannMachine(weights, np.linspace(-1, 1, 12) * scale, offset=scale)
    settings = {"n_betas": 400, "n_chains": 200, "bracket": True, "seed": 2, "moments": False}
    by_default = calm(bm.infer, model, "ais", threads=1, **settings)
    monkeypatch.setattr(walk_units, "by_units", lambda *about: kernel)
    found = calm(bm.infer, model, "ais", threads=3, **settings)  # cold walks carry little weight, and say so
    for key in ("log_z_lower", "log_z_upper"):
        assert found.detail[key] == by_default.detail[key]
    truth = bm.infer(model, "exact").log_z
    rounding = 1e-12 * abs(truth)
    assert found.log_z - 4 * found.log_z_error < truth + rounding
    assert truth < found.detail["log_z_upper"] + 4 * found.detail["log_z_upper_error"] + rounding
    if scale <= 1:
        assert abs(found.log_z - truth) < 4 * found.log_z_error + rounding


def test_coarse_integers_cost_no_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step of the path leads from rounded couplings to the user's, however rough the rounding."""
    model = machine("visible", seed=9)
    rough = fixed_point.FixedPoint(np.dtype(np.int32), 2, 0.25)  # couplings are multiples of 1 / 4
    monkeypatch.setattr(fixed_point, "_candidates", lambda *about: [rough])
    truth = bm.infer(model, "exact")
    found = bm.infer(model, "ais", n_chains=20_000, n_betas=100, bracket=True, witness=False)
    assert "2^-2" in found.detail["fields"]
    assert found.log_z_error < 0.005
    assert abs(found.log_z - truth.log_z) < 4 * found.log_z_error
    assert abs(found.detail["log_z_upper"] - truth.log_z) < 4 * found.detail["log_z_upper_error"]
    assert np.all(np.abs(found.mean - truth.mean) < 4.5 * found.mean_error)


@pytest.mark.parametrize("kind", ["visible", "restricted"])
def test_gibbs_chains_that_agree_start_the_way_down(kind: str) -> None:
    model = machine(kind, seed=7)
    truth = bm.infer(model, "exact").log_z
    found = calm(bm.infer, model, "reverse-ais", source="gibbs", n_chains=512, n_betas=200)
    assert found.bound == "stochastic upper"
    assert found.converged
    assert found.detail["r_hat"] < 1.05
    assert abs(found.log_z - truth) < 4 * found.log_z_error


def test_gibbs_chains_that_do_not_agree_bound_nothing() -> None:
    model = bm.models.curie_weiss(60)
    settings = {"beta": 3.0, "n_chains": 64, "n_betas": 500, "n_sweeps": 100}
    with pytest.warns(bm.ConvergenceWarning, match="have not converged .r_hat.*n_sweeps"):
        found = bm.infer(model, "reverse-ais", source="gibbs", **settings)
    assert found.bound is None
    assert not found.converged
    with pytest.warns(bm.ConvergenceWarning, match="ais .* starts down from have not converged"):
        bracket = bm.infer(model, "ais", bracket=True, source="gibbs", **settings)
    assert not bracket.detail["upper_holds"]
    assert bracket.bound == "stochastic lower"


def test_exact_samples_that_cannot_be_had() -> None:
    model = bm.models.sherrington_kirkpatrick(120, seed=1)
    with pytest.raises(ValueError, match=r"source='exact' cannot.*120 units.*Use source=.tempering"):
        bm.infer(model, "reverse-ais", source="exact", n_chains=4)


def test_an_adaptive_path_follows_the_fluctuations() -> None:
    """All that happens to a ferromagnet with spins together happens around its transition, at beta = 1."""
    model, settings = (
        bm.models.curie_weiss(200),
        {"beta": 3.0, "n_chains": 640, "n_betas": 300, "moments": False, "start": "uniform"},
    )
    linear = bm.infer(model, "ais", **settings)
    found = bm.infer(model, "ais", path="adaptive", threads=1, **settings)
    assert found.log_z == bm.infer(model, "ais", path="adaptive", threads=2, **settings).log_z
    assert found.detail["n_betas"] == 300
    assert found.detail["log_weights"].var() < 0.6 * linear.detail["log_weights"].var()
    together = np.arange(201)
    count = [math.lgamma(201) - math.lgamma(k + 1) - math.lgamma(201 - k) for k in together]
    magnetisation = 2 * together - 200
    truth = np.logaddexp.reduce(np.array(count) + 3.0 * (magnetisation**2 - 200) / 400)
    assert abs(found.log_z - truth) < 4 * found.log_z_error


@pytest.mark.parametrize("kind", KINDS)
def test_bits_do_not_depend_on_threads(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are others for three threads, which share them however little that is worth."""
    monkeypatch.setattr(walk, "WORTH_A_THREAD", 0.0)
    model = machine(kind, seed=8)
    one, three = (
        bm.infer(model, "ais", n_chains=200, n_betas=40, bracket=True, path="adaptive", start="mean-field", threads=n)
        for n in (1, 3)
    )
    for key in ("log_z_lower", "log_z_upper"):
        assert one.detail[key] == three.detail[key]
    assert np.array_equal(one.detail["log_weights"], three.detail["log_weights"])
    assert np.array_equal(one.mean, three.mean)


@pytest.mark.parametrize("kind", ["layers", "general", "sparse"])
def test_bits_do_not_depend_on_how_a_path_is_cut(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"n_chains": 70, "n_betas": 30, "bracket": True, "moments": False}
    whole = bm.infer(machine(kind), "ais", **settings)
    monkeypatch.setattr(walk, "PIECE_SECONDS", 0.0)
    steps = bm.infer(machine(kind), "ais", **settings)
    assert np.array_equal(whole.detail["log_weights"], steps.detail["log_weights"])
    assert whole.detail["log_z_upper"] == steps.detail["log_z_upper"]


def test_r_hat_of_sums_is_that_of_samples() -> None:
    generator = np.random.default_rng(4)
    size, rates = 50, generator.uniform(0.3, 0.7, (12, 1, 3))
    bits = generator.random((12, size, 3)) < rates
    energies = generator.normal(size=(12, size))
    samples = np.concatenate([energies[..., None], bits], axis=2)
    within = samples.var(axis=1, ddof=1).mean(axis=0)
    between = size * samples.mean(axis=1).var(axis=0, ddof=1)
    expected = np.sqrt(((size - 1) * within + between) / (size * within)).max()
    found = path._split_r_hat(samples.sum(axis=1), (energies**2).sum(axis=1), size)
    assert found == pytest.approx(expected, rel=1e-9)
    trapped = np.repeat([[0.0, 1.0], [0.0, 0.0]], 3, axis=0)  # no chain moves, and they differ
    assert path._split_r_hat(size * trapped, np.zeros(6), size) > 1000


@pytest.mark.parametrize("kind", ["visible", "sparse"])
@pytest.mark.parametrize("units", UNITS)
def test_clamped_units_of_other_couplings(kind: str, units: str) -> None:
    model = machine(kind, units, seed=4, offset=0.5)
    clamp = ([0, 3], [[1, 1], [1, 0 if units == "binary" else -1]])
    truth = bm.infer(model, "exact", clamp=clamp).log_z
    up = bm.infer(model, "ais", clamp=clamp, n_chains=512, n_betas=200)
    down = bm.infer(model, "reverse-ais", clamp=clamp, n_chains=512, n_betas=200)
    for found in (up, down):
        assert np.all(np.abs(found.log_z - truth) < 4 * found.log_z_error)


def test_one_unit_and_no_couplings() -> None:
    """f is a product model, and with mean-field means it is f_0: all weights are alike."""
    for model in (bm.BoltzmannMachine(np.zeros((1, 1)), [0.7]), bm.BoltzmannMachine(np.zeros((6, 6)), units="binary")):
        for method in ("ais", "reverse-ais"):
            found = bm.infer(model, method, n_chains=32, n_betas=3, start="mean-field")
            assert found.log_z == pytest.approx(bm.infer(model, "exact").log_z, abs=1e-9)  # in steps of 2^-30


@pytest.mark.parametrize("method", ["ais", "reverse-ais"])
@pytest.mark.parametrize("units", UNITS)
def test_walks_that_are_all_alike_have_an_error_bar(method: str, units: str) -> None:
    """Units that their own biases hold the base holds too; of others that stand still few walks begin elsewhere."""
    weights, signs = 40.0 * (np.eye(4, k=1) + np.eye(4, k=-1)), np.array([1, -1, 1, 1])
    held, pulled = (bm.BoltzmannMachine(weights, bias).to_units(units) for bias in (200.0 * signs, [200.0, 0, 0, 0]))
    for start, seed in itertools.product(("mean-field", "tempering"), range(6)):
        few: dict[str, Any] = {"n_chains": 32, "n_betas": 2, "start": start, "seed": seed}
        found = calm(bm.infer, held, method, **few)
        assert found.log_z == pytest.approx(bm.infer(held, "exact").log_z, abs=1e-6)
        assert 0.0 < found.log_z_error < 1e-5
        found = calm(bm.infer, pulled, method, **few)
        assert abs(found.log_z - bm.infer(pulled, "exact").log_z) < 4 * found.log_z_error < 0.3


@pytest.mark.parametrize("walk", ["blocks", "marginal"])
def test_rounding_of_layers_has_an_error_bar(walk: str) -> None:
    block, bias = np.random.default_rng(1).normal(scale=1e-4, size=(6, 7)), np.arange(13.0) % 4 - 1
    for beta in (0.0, 1.0, 30.0):
        model = bm.BoltzmannMachine([block], bias)
        found = calm(bm.infer, model, "ais", beta=beta, n_chains=16, n_betas=20, start="biases", walk=walk)
        off = abs(found.log_z - bm.infer(model, "exact", beta=beta).log_z)
        assert off < 4 * found.log_z_error < 1e-2


def test_weights_that_underflow_have_an_error_too() -> None:
    assert math.isfinite(average(np.array([0.0, -744.0, -800.0, -900.0])).error)


def test_a_tail_that_few_weights_see_widens_the_error() -> None:
    # evenly spread normal numbers: the tail beyond the largest is what the delta method does not see
    log_w = 1.5 * scipy.special.ndtri((np.arange(128) + 0.5) / 128)
    w = np.exp(log_w)
    assert average(log_w).error > 1.2 * w.std(ddof=1) / math.sqrt(128) / w.mean()
    even = 0.1 * log_w
    w = np.exp(even)
    assert average(even).error == pytest.approx(w.std(ddof=1) / math.sqrt(128) / w.mean(), rel=1e-12)
    assert set(average(even).errors) == {"delta"}
    redrawn = scipy.stats.bootstrap((np.exp(log_w),), lambda x, axis: np.log(x.mean(axis=axis)), rng=1)
    assert average(log_w).errors["bootstrap"] == pytest.approx(redrawn.standard_error, rel=0.2)
    assert average(log_w).error == max(average(log_w).errors.values())
    spread = average(1e4 * log_w)
    assert spread.error < 1e5  # no more than a weight itself is spread
    assert spread.ess == pytest.approx(1.0)


@pytest.mark.slow
def test_a_machine_trained_on_digits() -> None:
    rows = np.load(machines.data_file("mnist.npz"))
    pixels = rows[next(name for name in rows.files if "train" in name and rows[name].ndim > 1)]
    data = (pixels.reshape(len(pixels), -1)[:5_000] > 127).astype(np.uint8)
    run = bm.fit(data, n_hidden=20, layout="restricted", method="pcd", epochs=5, evaluate="none", seed=0)
    truth = bm.infer(run.model, "exact", moments=False).log_z
    found = bm.infer(run.model, "ais", n_chains=100, n_betas=10_000, bracket=True, moments=False)
    assert abs(found.log_z - truth) < 0.1
    assert abs(found.detail["log_z_upper"] - truth) < 0.1
    assert found.converged


@pytest.mark.parametrize("units", UNITS)
def test_ais_follows_a_path_of_its_own_and_many_blocks_of_chains(units: str) -> None:
    model = machine("layers", units, seed=3, scale=1.0)
    truth = bm.infer(model, "exact")
    found = bm.infer(model, "ais", betas=np.linspace(0, 1, 300) ** 2, n_chains=500, start="uniform")
    assert abs(found.log_z - truth.log_z) < 4 * found.log_z_error
    assert found.log_z_error < 0.02
    assert found.n_samples == 500
    np.testing.assert_allclose(np.diagonal(found.second_moment), found.mean if units == "binary" else 1.0, atol=1e-12)
    assert np.all(np.abs(found.mean - truth.mean) < 5 * found.mean_error)


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_ais_is_exact_where_one_layer_is_all_there_is(beta: float) -> None:
    """At beta = 0 every weight is the same, and so it is when nothing but a layer that is summed out is left free."""
    model = machine("restricted", "binary", seed=1)
    if beta == 0:
        found, truth = bm.infer(model, "ais", beta=0.0, n_chains=4, n_betas=2), 7 * math.log(2)
    else:
        row = [1, 0, 1, 1]
        found = bm.infer(model, "ais", clamp=(range(4), row), n_chains=4, n_betas=2)
        truth = -model.free_energy(row)
    assert found.log_z == pytest.approx(truth, abs=1e-5)
    assert found.log_z_error == pytest.approx(0, abs=1e-5)


def test_ais_says_when_few_weights_carry_the_average() -> None:
    model = bm.BoltzmannMachine([np.random.default_rng(1).normal(scale=4.0, size=(8, 8))])
    with pytest.warns(bm.ConvergenceWarning, match="weights carry the average.*n_betas"):
        found = bm.infer(model, "ais", n_betas=2, n_chains=100)
    assert not found.converged
    assert found.ess < 10


def test_one_chain_has_no_error_bar_and_says_so_without_nan() -> None:
    with pytest.warns(bm.ConvergenceWarning, match=r"1\.0 of 1 weights"):
        found = bm.infer(machine("restricted"), "ais", n_chains=1, n_betas=10)
    assert found.log_z_error is None and not found.converged
    assert math.isfinite(found.log_z)


def test_few_healthy_chains_have_converged() -> None:
    """No handful of weights is worth more than their number, and what has not converged comes with a warning."""
    found = bm.infer(machine("layers", scale=0.2), "ais", n_chains=8)
    assert found.ess > 7.9
    assert found.converged is None and "so few walks" in found.detail["doubt"]


def test_ais_of_huge_couplings_is_finite() -> None:
    model = bm.BoltzmannMachine([np.full((3, 2), 1000.0)], units="binary")
    found = calm(bm.infer, model, "ais", n_chains=64, n_betas=2000)
    assert math.isfinite(found.log_z)
    assert found.log_z <= 6000 + 10 * math.log(2)


@pytest.mark.parametrize("units", UNITS)
def test_ais_with_clamped_units_in_every_layer(units: str) -> None:
    model = machine("layers", units, seed=4)
    found, truth = (
        bm.infer(model, method, clamp=([0, 4, 6], [1, 1, 1]), **options)
        for method, options in (("ais", {"n_chains": 256, "n_betas": 200}), ("exact", {}))
    )
    assert abs(found.log_z - truth.log_z) < 4 * found.log_z_error + 1e-6
    assert found.bound == "stochastic lower"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("n_chains must be at least 1", {"n_chains": 0}),
        ("n_betas must be at least 2", {"n_betas": 1}),
        ("start must be one of .*Did you mean 'uniform'", {"start": "uniforn"}),
        ("betas must increase from 0.0 to 1.0", {"betas": [0, 0.5, 0.4, 1]}),
        ("betas must increase from 0.0 to 1.0", {"betas": [0.1, 1]}),
        ("betas must increase from 0.0 to 1.0", {"betas": [0, 0.9]}),
        ("betas must be finite", {"betas": [0, np.nan, 1]}),
        ("path must be one of .*Did you mean 'adaptive'", {"path": "adaptve"}),
        ("source must be one of .*Did you mean 'gibbs'", {"source": "gibs", "bracket": True}),
        ("n_sweeps must be at least 2", {"n_sweeps": 1, "bracket": True, "source": "gibbs"}),
    ],
)
def test_bad_paths_are_named(text: str, options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=text):
        bm.infer(machine("restricted"), "ais", **options)


def test_a_few_uneven_weights_are_not_believed() -> None:
    model = bm.models.sherrington_kirkpatrick(200, seed=1)
    for n_chains in (1, 2, 4):
        with pytest.warns(bm.ConvergenceWarning, match="weights carry the average"):
            assert not bm.infer(model, "ais", n_chains=n_chains, n_betas=3, moments=False).converged
