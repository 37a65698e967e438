"""What may say that it has converged: chains that never left their valley are told, with exact sums forbidden."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base import rng
from fastbm.inference import counted, witness
from fastbm.inference.ais import job as annealed_job, path
from fastbm.inference.ais.weights import Average
from fastbm.inference.auto import Settled
from fastbm.inference.exact import sums
from fastbm.inference.exact.method import Exact
from fastbm.inference.result import claim
from fastbm.inference.scout import bit_tempering, bounds
from fastbm.inference.scout.bit_tempering import LADDERS, temper_bits
from fastbm.inference.scout.bounds import other_sides
from fastbm.inference.scout.scout import Scout, scout
from fastbm.runs.infer import verb
from fastbm.sampling import make_chains
from tests.support import machines
from tests.support.machines import UNITS, calm, machine
from tests.twins.schedules import climbed

VISIBLE = 60
TRUTH = float(np.logaddexp(VISIBLE * np.logaddexp(0, -1.0), -210 + VISIBLE * np.logaddexp(0, 4.0)))
ENERGY = -float(VISIBLE * 4.0 / (1 + np.exp(-4.0)) - 210)  # where the hidden unit is up
LYING = [
    ("ais", {"start": "uniform"}),
    ("ais", {"start": "uniform", "path": "adaptive"}),
    ("ais", {"start": "mean-field"}),
    ("ais", {"start": "biases"}),
    ("ais", {"start": "uniform", "bracket": True}),
    ("reverse-ais", {"start": "uniform"}),
    ("population-annealing", {}),
    ("gibbs", {}),
    ("metropolis", {}),
    ("sampled-states", {}),
    ("tempering", {"n_sweeps": 300}),
    ("tempering", {"n_sweeps": 300, "n_chains": 1}),  # which says of itself that it cannot tell
]


@pytest.fixture
def hidden_valley() -> bm.BoltzmannMachine:
    """A hidden unit that is up in all of the weight but e^-12.3, and that visible units hold down."""
    return bm.models.restricted(
        weights=np.full((VISIBLE, 1), 5.0), visible_bias=-np.ones(VISIBLE), hidden_bias=[-210.0], units="binary"
    )


@pytest.fixture
def no_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*about: Any, **more: Any) -> Any:
        raise AssertionError("no exact sum is allowed here")

    monkeypatch.setattr(counted, "count", lambda *about: None)
    monkeypatch.setattr(sums.ExactSums, "advance", refuse)
    monkeypatch.setattr(Exact, "sum", refuse)
    monkeypatch.setattr(path, "_cheapest", refuse)


@pytest.mark.usefixtures("no_sums")
@pytest.mark.parametrize(("method", "options"), LYING, ids=str)
def test_who_misses_the_valley_does_not_converge(
    method: str, options: dict[str, Any], hidden_valley: bm.BoltzmannMachine
) -> None:
    found = calm(bm.infer, hidden_valley, method, **options)
    log_z = found.detail.get("log_z_corrected", found.log_z)
    right = log_z is None or abs(log_z - TRUTH) < 0.1
    if method != "reverse-ais":
        right = right and abs(found.energy - ENERGY) < 0.1
    assert right or found.converged is False


@pytest.mark.usefixtures("no_sums")
@pytest.mark.parametrize("method", ["ais", "reverse-ais", "importance-sampling", "auto", "tempering", "gibbs"])
def test_a_valley_of_the_side_that_is_kept_is_not_missed_surely(method: str) -> None:
    """The small side is the visible one, and its biases lead away from where most of the weight is."""
    model = bm.models.restricted(
        weights=np.ones((20, 60)), visible_bias=np.full(20, -53.4), hidden_bias=np.full(60, -2.0), units="binary"
    )
    count = np.arange(21)
    log_choose = np.array([np.log(float(math.comb(20, k))) for k in count])
    logs = log_choose - 53.4 * count + 60 * np.logaddexp(0, count - 2.0)
    truth = np.logaddexp.reduce(logs)
    energy = np.exp(logs - truth) @ (53.4 * count - 60 * (count - 2.0) / (1 + np.exp(2.0 - count)))
    found = calm(bm.infer, model, method, **({"exact": False} if method == "auto" else {}))
    if found.log_z is not None and abs(found.log_z - truth) > 0.2:
        assert found.converged is not True
    if found.log_z is None and abs(found.energy - energy) > 5 * found.energy_error:
        assert found.converged is not True


@pytest.mark.usefixtures("no_sums")
@pytest.mark.parametrize("method", ["ais", "reverse-ais", "importance-sampling", "auto"])
def test_who_looks_around_finds_it(method: str, hidden_valley: bm.BoltzmannMachine) -> None:
    options = {"exact": False} if method == "auto" else {}
    found = bm.infer(hidden_valley, method, **options)
    assert found.converged is True
    assert abs(found.log_z - TRUTH) < max(4 * found.log_z_error, 0.01)


def test_a_warning_says_what_contradicts(hidden_valley: bm.BoltzmannMachine) -> None:
    with pytest.warns(bm.ConvergenceWarning, match=r"ais .*12\.3 nats below a bound that holds for certain.*auto"):
        found = bm.infer(hidden_valley, "ais", start="uniform")
    about = found.detail["witness"]
    assert about["log_z_bound"] <= TRUTH + 1e-9
    assert "NOT converged" in str(found)
    assert "log Z NOT converged: log Z lies" in str(bm.log_likelihood(hidden_valley, np.ones((2, VISIBLE)), found))


def test_auto_does_not_send_to_itself(hidden_valley: bm.BoltzmannMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "settle", lambda *a, **k: Settled("ais", {"start": "uniform", "n_betas": 300}))
    with pytest.warns(bm.ConvergenceWarning, match="larger budget") as caught:
        bm.infer(hidden_valley, "auto")
    assert '"auto"' not in str(caught[0].message)


@pytest.mark.usefixtures("no_sums")
def test_a_base_in_one_of_two_valleys_is_told() -> None:
    """Mean-field means are those of one magnetisation; the other half of Z is never seen, and all weights agree."""
    model = bm.models.curie_weiss(40)
    up = np.arange(41)
    log_choose = np.array([sum(np.log(np.arange(41 - k, 41)) - np.log(np.arange(1, k + 1))) for k in up])
    truth = np.logaddexp.reduce(log_choose + 1.8 * ((2 * up - 40) ** 2 / 80 - 0.5))
    means = np.full(40, 0.9)
    held = calm(bm.infer, model, "ais", beta=1.8, start=means)
    assert held.log_z < truth - 0.5 and held.ess > 20 and held.converged is False
    found = bm.infer(model, "ais", beta=1.8)
    assert abs(found.log_z - truth) < 4 * found.log_z_error and found.converged


@pytest.mark.parametrize("units", UNITS)
def test_a_look_around_as_bits_contradicts_what_is_wrong(units: str) -> None:
    """A population of chains as bits is examined by such: ladders and walks, whose averages are known."""
    glass = bm.models.edwards_anderson((4, 4), seed=1).to_units(units)
    model, beta = bm.BoltzmannMachine(glass.couplings, glass.flat_bias, units=units, offset=0.7), 1.2
    truth = bm.infer(model, "exact", beta=beta, energy_variance=True)
    found = bm.infer(model, "population-annealing", beta=beta)

    def examined(found: bm.Inference, threads: int) -> bm.Inference:
        seen = witness.Witness(model, found.detail, beta, 1, threads)
        return witness.examine(found, seen, threads)

    assert found.detail["kernel"] == "multispin" and found.converged is True
    seen = found.detail["witness"]
    assert seen["log_z_bound"] <= truth.log_z and min(seen["ess_up"], seen["ess_down"]) > 30
    assert seen["log_z_up"] == pytest.approx(truth.log_z, abs=0.3)
    assert seen["log_z_down"] == pytest.approx(truth.log_z, abs=0.3)
    for log_z in (truth.log_z - 0.8, truth.log_z + 0.8):
        told = calm(examined, replace(found, log_z=log_z), 1)
        assert told.converged is False
    assert repr(examined(found, 1).detail["witness"]) == repr(examined(found, 2).detail["witness"])
    ladders = scout(model, beta, 0.0, 1, 1, as_bits=True)
    means = model.energy_of_bits(ladders.up).reshape(ladders.n_ladders, -1).mean(axis=1)
    assert abs(means.mean() - truth.energy) < 5 * means.std() / math.sqrt(len(means))
    np.testing.assert_allclose(ladders.energies, model.energy_of_bits(ladders.up), rtol=1e-12)


@pytest.mark.usefixtures("no_sums")
@pytest.mark.parametrize("method", ["ais", "reverse-ais", "population-annealing"])
@pytest.mark.parametrize("kind", ["visible", "layers", "sparse"])
def test_easy_machines_converge(kind: str, method: str) -> None:
    found = bm.infer(machine(kind, seed=1), method)
    assert found.converged is True and found.detail["witness"]
    one = bm.infer(machine(kind, seed=1), method, threads=1)
    assert (one.log_z, repr(one.detail["witness"])) == (found.log_z, repr(found.detail["witness"]))


@pytest.mark.parametrize(
    "method", ["ais", "reverse-ais", "tempering", "population-annealing", "sampled-states", "gibbs"]
)
def test_without_a_witness_nobody_converges(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (annealed_job, witness):
        monkeypatch.setattr(module, "scout", None)  # nobody looks
    options = {"source": "exact"} if method == "reverse-ais" else {}
    found = calm(bm.infer, machine("visible"), method, witness=False, **options)
    assert found.converged is None
    assert "cannot tell" in str(found) and "witness=False" in str(found)


def test_each_pattern_has_a_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Any] = []
    for module in (annealed_job, witness):
        plain = module.scout
        monkeypatch.setattr(module, "scout", lambda *a, plain=plain, **k: looks.append(1) or plain(*a, **k))
    clamp = ([0, 1], [[1, 1], [-1, 1], [1, -1]])
    # a base that is from a tempering takes another look to be its witness
    for method, options, n_looks in (("ais", {}, 3), ("ais", {"start": "tempering"}, 6), ("gibbs", {}, 3)):
        looks.clear()
        found = bm.infer(machine("layers"), method, clamp=clamp, **options)
        assert found.converged is True and len(looks) >= n_looks


def test_bases_that_a_machine_has() -> None:
    model = machine("restricted", "binary", seed=2)
    truth = bm.infer(model, "exact").log_z
    with pytest.raises(ValueError, match=r"base rates of the data, which this machine does not carry"):
        bm.infer(model, "ais", start="data")
    rates = model.with_base_rates([0.2, 0.9, 0.5, 0.7])
    for one, start in ((rates, "data"), (model, "biases"), (model, "tempering"), (model, np.full(4, 0.3))):
        found = bm.infer(one, "ais", start=start, n_betas=200)
        assert abs(found.log_z - truth) < 4 * found.log_z_error
        assert found.detail["start"] == (start if isinstance(start, str) else "means")
    as_spins = bm.infer(rates.to_units("spin"), "ais", start="data", n_betas=200)
    assert abs(as_spins.log_z - truth) < 4 * as_spins.log_z_error
    assert set(bm.infer(rates, "ais").detail["trials"]) >= {"uniform", "data", "biases", "tempering"}
    for wrong, text in ((np.full(3, 0.5), r"means of shape \(4,\) or \(7,\)"), (np.full(4, 2.0), "between 0 and 1")):
        with pytest.raises(ValueError, match=text):
            bm.infer(model, "ais", start=wrong)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [{"method": "cd", "epochs": 4}, {"method": "pcd", "epochs": 25}], ids=str)
def test_machines_of_digits(rule: dict[str, Any]) -> None:
    """Of a restricted machine trained on digits nobody says that it converged and is wrong."""
    file = machines.data_file("mnist.npz")
    data = (np.load(file)["train_images"][::6] > 127).astype(np.uint8)
    model = bm.fit(data, n_hidden=20, layout="restricted", evaluate="none", seed=1, **rule).model
    truth = bm.infer(model, "exact", moments=False).log_z
    found = bm.infer(model, "auto", exact=False, moments=False)
    assert found.converged and abs(found.log_z - truth) < 0.1
    for method, options in LYING:
        more = {"n_chains": 100, "n_betas": 1_000} if "ais" in method else {}
        result = calm(bm.infer, model, method, moments=False, **options, **more)
        log_z, error = claim(result)
        if log_z is not None and abs(log_z - truth) > max(4 * (error or 0.0), 0.05):
            assert result.converged is not True


@pytest.mark.parametrize("layered", [False, True])
def test_a_look_at_an_even_machine_sees_both_of_its_mirrored_valleys(layered: bool) -> None:
    """Ladders that fell into one valley would lend their means, and their word, to walks that miss half of Z."""
    blocks = [np.full((20, 8), 0.5)]
    model = bm.BoltzmannMachine(blocks) if layered else bm.models.curie_weiss(40)
    found = scout(model, 4.0, 0.0, seed=1, threads=1, must=True)
    assert np.abs(found.up.reshape(found.n_ladders, -1).mean(axis=1) - 0.5).max() < 0.1


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("bias", [0.0, 0.7])
def test_a_look_around_tells_the_energies_of_its_states_and_their_sum(units: str, bias: float, beta: float) -> None:
    model = bm.BoltzmannMachine(np.ones((5, 5)) - np.eye(5), np.full(5, bias), offset=2.0).to_units(units)
    found = scout(model, beta, 0.0, 1, 1, must=True)
    np.testing.assert_allclose(found.energies, model.energy_of_bits(found.up), rtol=1e-12)
    states = np.unique(found.up, axis=0)
    assert found.bound == pytest.approx(np.logaddexp.reduce(-beta * model.energy_of_bits(states)), rel=1e-12)


@pytest.mark.parametrize(("bound", "is_told"), [(9.0, True), (9.9, False)])
def test_walks_back_say_nothing_where_a_certain_bound_is_above_them(bound: float, is_told: bool) -> None:
    up, down = (Average(log_mean, 0.05, 16.0, np.full(16, 1 / 16), {"delta": 0.05}) for log_mean in (9.9, -9.0))
    found = bm.Inference("tempering", log_z=10.0, log_z_error=0.05)
    reason, _, _ = witness._compared(bm.models.ising((2, 2)), found, Scout(bound, "states visited"), up, down)
    assert ("nats less" in reason) == is_told


@pytest.mark.parametrize("method", ["ais", "reverse-ais"])
def test_states_that_a_base_is_from_do_not_stand_witness_to_it(
    method: str, hidden_valley: bm.BoltzmannMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scout that missed the valley: walks from its means and walks back from its states would agree."""
    look, seeds = annealed_job.scout, []

    def miss_first(model: bm.BoltzmannMachine, beta: float, seconds: float, seed: int, *more: Any, **about: Any) -> Any:
        seeds.append(seed)
        if len(seeds) > 1:
            return look(model, beta, seconds, seed, *more, **about)
        up = np.random.default_rng(0).random((400, VISIBLE + 1)) < 1 / (1 + np.e)
        up[:, -1] = False
        return Scout(-np.inf, "nothing", up.astype(np.uint8), round_trips=100)

    monkeypatch.setattr(annealed_job, "scout", miss_first)
    wrong = calm(bm.infer, hidden_valley, method, start="tempering", moments=False)
    assert len(set(seeds)) == 2
    assert wrong.converged is False
    calm(bm.infer, hidden_valley, "ais", start=wrong.detail["start means"], moments=False)
    assert seeds[0] not in seeds[1:]  # means that are passed on meet no states that they are from


def a_field() -> bm.BoltzmannMachine:
    """A ferromagnet in a field, whose other valley has 4 % of the weight."""
    return bm.BoltzmannMachine(0.35 * (1 - np.eye(16)), np.full(16, 0.1))


def a_rare_valley() -> bm.BoltzmannMachine:
    """A deep machine with a valley of 0.2 % that most walks miss."""
    draw = np.random.default_rng(6)
    for size in ((3, 12), 3, 12, (2, 14), *[(4, 4)] * 3, *[4] * 4):
        draw.normal(size=size)
    blocks = [3.0 * draw.normal(size=size) for size in ((5, 1), (1, 5), (5, 3))]
    return bm.BoltzmannMachine(blocks, [draw.normal(size=n) for n in (5, 1, 5, 3)], units="binary", offset=-2.0)


def a_star(bias: float = -184.0) -> bm.BoltzmannMachine:
    """A unit that holds 20 others, most of the weight, and that chains do not find up."""
    weights = np.zeros((21, 21))
    weights[0, 1:] = weights[1:, 0] = 10.0
    return bm.BoltzmannMachine(weights, [bias, *[0.0] * 20], units="binary")


def an_even_star() -> bm.BoltzmannMachine:
    """One whose unit is up in half of the weight."""
    return a_star(-186.2)


def a_crowd() -> bm.BoltzmannMachine:
    """Two layers that are up or down together, about as likely, which a scout seldom sees both of."""
    return bm.BoltzmannMachine([np.full((8, 8), 3.0)], [np.full(8, -12.0), np.full(8, -11.95)], units="binary")


@pytest.mark.parametrize(
    ("method", "make", "seed"),
    [
        ("ais", a_field, 0), ("reverse-ais", a_field, 8), ("ais", a_rare_valley, 2), ("reverse-ais", a_rare_valley, 2),
        ("gibbs", a_star, 0), ("tempering", a_crowd, 0), ("population-annealing", a_crowd, 0),
        ("gibbs", an_even_star, 0), ("tempering", an_even_star, 0), ("population-annealing", an_even_star, 0),
        ("ais", an_even_star, 0), ("reverse-ais", an_even_star, 0),
    ],
)  # fmt: skip
def test_a_valley_that_is_missed_is_told_or_within_the_error(
    method: str, make: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted, "count", lambda *about: None)
    model = make()
    truth = bm.infer(model, "exact")
    found = calm(bm.infer, model, method, seed=seed)
    far = found.mean is not None and np.any(np.abs(found.mean - truth.mean) > 6 * np.maximum(found.mean_error, 1e-12))
    if found.log_z is not None:
        far = abs(found.log_z - truth.log_z) > 4 * found.log_z_error
    assert (found.converged is False) is bool(far)


@pytest.mark.parametrize("scale", [1.0, 1e35, 1e200])
def test_bounds_by_mean_field_lose_nothing_by_single_precision(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    own = bm.models.sherrington_kirkpatrick(60, seed=1, field=0.1)
    model = bm.BoltzmannMachine(scale * own.weights, scale * own.bias)
    found = bounds.mean_field_bound(model, 1.0, np.zeros((0, 60), np.uint8), 0)
    monkeypatch.setattr(bounds, "LARGEST_SINGLE", 0.0)
    monkeypatch.setattr(bounds, "AT_REST", 0.0)
    assert found == pytest.approx(bounds.mean_field_bound(model, 1.0, np.zeros((0, 60), np.uint8), 0), rel=1e-8)


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("units", UNITS)
def test_bounds_of_sides_seldom_seen_hold_and_are_exact_where_the_rest_is_free(units: str, layered: bool) -> None:
    held = bm.BoltzmannMachine([np.full((1, 6), 2.0)], [[1.0], np.linspace(-1.0, 1.0, 6)]).to_units(units)
    general = bm.models.restricted(4, 3, seed=3) if layered else bm.models.random_machine(7, seed=3)
    for model, beta in ((held, 0.7), (general.to_units(units), 2.0)):
        sides = other_sides(model, beta, np.ones(7))
        assert len(sides) == 6
        for unit, is_up, bound in sides:
            part = bm.infer(model, "exact", beta=beta, clamp=([unit], [model.convention.lo])).log_z
            assert not is_up
            assert bound <= part + 1e-9
            if model is held and unit == 0:
                assert bound == pytest.approx(part, abs=1e-9)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(("threads", "rounds_of_a_call"), [(1, 1), (1, 1000), (2, 3)])
def test_ladders_of_bits_go_as_steps_one_by_one_with_swaps_in_between(
    units: str, threads: int, rounds_of_a_call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, n_levels, burn_in, n_rounds = bm.models.edwards_anderson((3, 4), seed=3).to_units(units), 16, 4, 36
    betas = np.linspace(0.0, 1.5, n_levels)
    engine = make_chains(model, n_levels * LADDERS, beta=np.repeat(betas, LADDERS), kernel="multispin", seed=7)
    uniforms = iter(rng.keyed(7, rng.SWAPS).random(n_levels // 2 * LADDERS * (burn_in + n_rounds)))
    parents, ends, trips, seen = None, [[0] * LADDERS for _ in betas], 0, []
    for t in range(burn_in + n_rounds):
        energies = engine.resample(parents, 1).reshape(n_levels, LADDERS).tolist()
        if t >= burn_in:
            seen.append((engine.bits()[-LADDERS:], energies[-1]))
        places = climbed(energies, betas.tolist(), t % 2, uniforms)
        ends = [[ends[k][c] for k, c in row] for row in places]
        ends[0] = [2 if end == 1 else end for end in ends[0]]
        trips += ends[-1].count(2)
        ends[-1] = [1] * LADDERS
        parents = np.array([[k * LADDERS + c for k, c in row] for row in places]).ravel()
    monkeypatch.setattr("fastbm.sampling.engine.multispin.WORTH_A_MEETING", 0.0)
    each = n_levels * LADDERS * (model.n_units * bit_tempering.ATTEMPT_SECONDS + bit_tempering.CHAIN_SECONDS)
    monkeypatch.setattr(bit_tempering, "SOON", (rounds_of_a_call + 0.5) * each)
    found = temper_bits(model, betas, n_rounds=n_rounds, burn_in=burn_in, seed=7, threads=threads)
    assert np.array_equal(found.up, np.stack([up for up, _ in seen], axis=1))
    np.testing.assert_allclose(found.energies.T, [energies for _, energies in seen], rtol=0, atol=1e-12)
    assert found.round_trips == trips > 0
