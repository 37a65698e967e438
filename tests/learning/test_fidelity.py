"""A machine held against data: counts, moments and their scatter, exact sums, samples, and what is made of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.data.rows import pack_rows
from fastbm.kernels.bits import count_triples
from fastbm.learning.fidelity.fidelity import Fidelity
from fastbm.learning.fidelity.moments import ORDERS, Counts, UpMoments, count, some_triples, weighted
from fastbm.machine.units import units as convention
from tests.support.machines import parameters
from tests.twins import fidelity as reference


def machine(n: int, units: str = "spin", *, scale: float = 0.5, seed: int = 0) -> bm.BoltzmannMachine:
    generator = np.random.default_rng(seed)
    w = np.triu(generator.normal(scale=scale, size=(n, n)), 1)
    return bm.BoltzmannMachine(w + w.T, generator.normal(scale=0.4, size=n), units=units)


def restricted(n_visible: int, n_hidden: int, units: str = "binary") -> bm.BoltzmannMachine:
    generator = np.random.default_rng(3)
    block = generator.normal(scale=0.8, size=(n_visible, n_hidden))
    return bm.BoltzmannMachine([block], generator.normal(scale=0.4, size=n_visible + n_hidden), units=units)


def drawn(model: bm.BoltzmannMachine, n_rows: int, seed: int = 1) -> np.ndarray:
    """Independent rows of the machine's visible units."""
    states = bm.sample(model, sampler="exact", n_chains=1, n_sweeps=n_rows, thin=1, seed=seed, threads=1).states
    return np.asarray(states)[:, 0, : model.n_visible]


@pytest.mark.parametrize("m", [1, 63, 64, 65, 300])
def test_triples_are_counted(m):
    generator = np.random.default_rng(m)
    up = (generator.random((m, 7)) < 0.5).astype(np.uint8)
    triples = np.concatenate([some_triples(7, 0), generator.integers(0, 7, (9, 3))])
    counts = np.ones(len(triples), np.int64)
    count_triples(pack_rows(up), triples, counts)
    assert np.array_equal(counts, 1 + reference.count_triples(up, triples))


def test_triples_are_all_or_drawn():
    assert some_triples(6, 0).tolist() == [list(t) for t in itertools.combinations(range(6), 3)]
    assert len(some_triples(50, 0)) == 19_600 and some_triples(2, 0).shape == (0, 3)
    some = some_triples(80, 4)
    assert some.shape == (19_600, 3) and len(np.unique(some, axis=0)) == 19_600
    assert (np.diff(some, axis=1) > 0).all() and some.min() == 0 and some.max() == 79
    assert np.abs(np.bincount(some.ravel(), minlength=80) / (3 * 19_600 / 80) - 1).max() < 0.2
    assert np.array_equal(some, some_triples(80, 4)) and not np.array_equal(some, some_triples(80, 5))


def test_counts_do_not_depend_on_blocks_and_threads(monkeypatch):
    up = (np.random.default_rng(0).random((1_000, 9)) < 0.3).astype(np.uint8)
    triples = some_triples(9, 0)
    whole = count(up, triples, 1)
    monkeypatch.setattr("fastbm.learning.fidelity.moments.BLOCK", 130)
    for threads in (1, 2, 3):
        parts = count(up, triples, threads)
        assert parts.n == whole.n == 1_000
        for name in ("pairs", "triples", "population"):
            assert np.array_equal(getattr(parts, name), getattr(whole, name))
    assert np.array_equal(whole.population, np.bincount(up.sum(axis=1), minlength=10))


@pytest.mark.parametrize("units", ["spin", "binary"])
def test_moments_and_their_scatter(units):
    kind = convention(units)
    up = (np.random.default_rng(2).random((40, 5)) < [0.1, 0.3, 0.5, 0.8, 0.6]).astype(np.uint8)
    up[:, 4] |= up[:, 1]  # so that there are correlations
    triples = some_triples(5, 0)
    moments = UpMoments.of(count(up, triples, 1), triples)
    values, weights = kind.values(up, np.float64), np.full(40, 1 / 40)
    expected, scatter = reference.weighted_moments(values, weights), reference.influence_variances(values, weights)
    for name in ORDERS:
        np.testing.assert_allclose(moments.values(kind)[name], expected[name], atol=1e-13)
        np.testing.assert_allclose(moments.variances(kind)[name], 40 * scatter[name], atol=1e-7)
    errors, more = moments.errors(kind, moments.values(kind), 7.0), reference.unseen(values, weights)
    for name in ORDERS:
        np.testing.assert_allclose(errors[name] ** 2, expected[name] ** 2 + more[name] / 7.0**2, atol=1e-12)


@pytest.mark.parametrize("p", [0.001, 0.02, 0.5])
def test_errors_hold_for_what_few_rows_show(p):
    """Of 2 errors, in 1000 rows: 9 % of means and none of products at the rarest without what is added."""
    generator, units = np.random.default_rng(0), 4
    model = bm.BoltzmannMachine(np.zeros((units, units)), np.full(units, np.log(p / (1 - p))), units="binary")
    found = [bm.fidelity(model, generator.random((1_000, units)) < p) for _ in range(100)]
    for name in ORDERS:
        misses = [np.abs(one.machine - one.data) > 2 * one.error for one in (getattr(f, name) for f in found)]
        assert np.mean(misses) < 0.07


@pytest.mark.parametrize("units", ["spin", "binary"])
@pytest.mark.parametrize("hidden", [0, 3])
def test_sums_over_all_states(units, hidden):
    model = restricted(5, hidden, units) if hidden else machine(5, units)
    rows = drawn(model, 50)
    found = bm.fidelity(model, rows, beta=0.7)
    states, p = reference.visible_probabilities(*parameters(model), convention(units).lo, 5, 0.7)
    truth = reference.weighted_moments(states, p)
    data = reference.weighted_moments(np.asarray(rows, float), np.full(50, 1 / 50))
    for name in ORDERS:
        one = getattr(found, name)
        np.testing.assert_allclose(one.machine, truth[name], atol=1e-12)
        np.testing.assert_allclose(one.data, data[name], atol=1e-12)
        assert not one.machine_error.any()
    assert (found.n_samples, found.n_rows, found.precise) == (0, 50, True)
    jensen = reference.jensen_shannon(data["population"], truth["population"])
    assert found.population_divergence == pytest.approx(jensen, abs=1e-14)


@pytest.mark.parametrize("model", [machine(8, "binary"), machine(8, scale=0.25), restricted(7, 4)])
def test_samples_agree_with_sums(model):
    rows = drawn(model, 2_000)
    exact, found = bm.fidelity(model, rows), bm.fidelity(model, rows, n_samples=100_000, seed=7, threads=1)
    assert found.n_samples == 100_352 and found.precise and found.r_hat < 1.01  # 98 of each of 1024 chains
    for name in ORDERS:
        ours, truth = getattr(found, name), getattr(exact, name)
        z = (ours.machine - truth.machine) / ours.machine_error
        assert np.abs(z).max() < 5 and 0.3 < np.sqrt(np.mean(z**2)) < 1.6
        assert np.array_equal(ours.data, truth.data) and np.array_equal(ours.error, truth.error)


def test_rows_of_the_machine_itself_are_told_from_nothing():
    """Over data sets, z of every order has a mean square of 1: its error is what it claims."""
    model = machine(6, "binary", scale=0.8)
    found = [bm.fidelity(model, drawn(model, 2_000, seed)) for seed in range(40)]
    for name in ORDERS:
        z = np.array([getattr(one, name).z for one in found])
        squares = np.mean(z**2, axis=1)
        # the larger of two estimates of the error is a little above it, most for counts that are rare
        assert 0.75 < squares.mean() < 1.15
        assert abs(z.mean()) < 0.2
        assert [getattr(one, name).chi2 for one in found] == pytest.approx(list(squares))
    ratio = np.mean([one.population_divergence / one.population_divergence_noise for one in found])
    assert 0.8 < ratio < 1.2


def test_errors_of_rows_that_come_in_runs():
    """Every row ten times in a row: errors are those of the rows that are not repeated."""
    model = machine(6, "binary", scale=0.8)
    rows = drawn(model, 2_000)
    alone, repeated = bm.fidelity(model, rows), np.repeat(rows, 10, axis=0)
    labels = np.repeat(np.arange(200), 100)
    for options in ({"block": 50}, {"block": "auto"}, {"trials": labels}):
        found = bm.fidelity(model, repeated, **options)
        for name in ORDERS:
            one, other = getattr(found, name), getattr(alone, name)
            assert 0.85 < np.median(one.error / other.error) < 1.15
            assert np.array_equal(one.data, other.data) or np.allclose(one.data, other.data)
        assert 0.5 < found.covariance.chi2 / alone.covariance.chi2 < 1.6
        assert 0.7 < found.population_divergence_noise / alone.population_divergence_noise < 1.4
        assert not repeated.all(axis=1).any()
        assert found.population.error[-1] == pytest.approx(np.sqrt(2) / found.n_worth)
    for options, match in (
        ({"trials": labels[1:]}, "trial of each row"),
        ({"trials": labels % 100}, "contiguous"),
        ({"trials": labels // 20}, "at least 20"),
        ({"block": 5, "trials": labels}, "not both"),
        ({"block": 5_000}, "block must be at most"),
        ({"block": 5, "row_weights": np.ones(20_000)}, "independent"),
    ):
        with pytest.raises(ValueError, match=match):
            bm.fidelity(model, repeated, **options)


@pytest.mark.parametrize("units", ["spin", "binary"])
def test_frequencies_of_patterns(units):
    model = machine(4, units)
    rows = drawn(model, 500)
    found = bm.pattern_frequencies(model, rows, beta=0.7)
    states, p = reference.visible_probabilities(*parameters(model), convention(units).lo, 4, 0.7)
    seen = np.array([(rows == state).all(axis=1).mean() for state in states])
    place = [int(np.flatnonzero((states == one).all(axis=1))[0]) for one in found.patterns]
    assert len(place) == (seen > 0).sum() and (np.diff(found.counts) <= 0).all()
    np.testing.assert_allclose(found.data, seen[place])
    np.testing.assert_allclose(found.machine, p[place], atol=1e-12)
    high = (states == convention(units).hi).astype(float)
    alone = np.prod(np.where(high, (up := seen @ high), 1 - up), axis=1)
    np.testing.assert_allclose(found.independent, alone[place], atol=1e-12)
    assert found.divergence == pytest.approx(reference.jensen_shannon(seen, p), abs=1e-12)
    assert found.independent_divergence == pytest.approx(reference.jensen_shannon(seen, alone), abs=1e-12)
    with pytest.raises(ValueError, match="rows is empty"):
        bm.pattern_frequencies(model, rows[:0])


@pytest.mark.parametrize("n_rows", [100, 3_000])
def test_rows_of_the_machine_are_as_far_from_it_as_its_noise(n_rows: int) -> None:
    visible = bm.models.random_machine(12, seed=3)
    hidden = bm.models.restricted(12, 4, seed=3, units="binary")
    for model in (visible, hidden):
        states = bm.sample(model, "exact", n_chains=n_rows, n_sweeps=4, seed=5).states[..., :12]
        found = [bm.pattern_frequencies(model, rows) for rows in states]
        noise = np.mean([one.noise for one in found])
        assert np.mean([one.divergence for one in found]) == pytest.approx(noise, rel=0.1)
        assert noise > 2 * np.mean([(len(one.counts) - 1) / (8 * n_rows) for one in found])  # where all are seen often
    large = bm.models.ising((30, 30))
    rows = np.ones((3, 900), int)
    assert np.isnan(bm.pattern_frequencies(large, rows, method="mean-field").noise)


def test_what_the_machine_gets_wrong_shows():
    model = machine(8, scale=0.8)
    rows = drawn(model, 4_000)
    alone = bm.BoltzmannMachine(np.zeros((8, 8)), np.arctanh(np.mean(rows, axis=0)))
    found = bm.fidelity(alone, rows)
    assert found.mean.largest_z < 1e-6 and found.mean.root_mean_square < 1e-9
    assert found.covariance.chi2 > 20 and found.covariance.largest_z > 10
    assert found.population_divergence > 5 * found.population_divergence_noise


def test_bits_do_not_depend_on_threads():
    model = restricted(9, 5)
    rows = drawn(model, 300)
    one, two, three = (bm.fidelity(model, rows, n_samples=9_000, seed=2, threads=k) for k in (1, 2, 3))
    for name, array in one.rows().items():
        assert array.tobytes() == two.rows()[name].tobytes() == three.rows()[name].tobytes()


def test_samples_until_a_third_of_the_rows_scatter():
    model = machine(24, "binary", scale=0.3)
    rows = np.asarray(bm.sample(model, n_chains=1_000, n_sweeps=50, burn_in=49, thin=50, seed=3, threads=1).states)[0]
    found = bm.fidelity(model, np.tile(rows, (30, 1)), threads=2)
    assert found.precise and found.n_samples >= 9 * found.n_rows * 0.7
    for name in ("mean", "covariance", "triple"):
        one = getattr(found, name)
        assert np.sqrt(np.mean((one.machine_error / one.error) ** 2)) < 0.4
    short = bm.fidelity(model, np.tile(rows, (1_000, 1)), threads=2, max_seconds=0.01)
    assert not short.precise and short.n_samples == 65_536


def test_rows_for_a_file_and_back():
    found = bm.fidelity(machine(6), drawn(machine(6), 100))
    streams, rows = Fidelity.streams(6), found.rows()
    assert streams.keys() == rows.keys()
    for name, stream in streams.items():
        assert rows[name].shape == (1, *stream.shape) and rows[name].dtype.str == stream.dtype
    again = Fidelity.of_rows({name: np.concatenate([0 * array, array]) for name, array in rows.items()})
    assert again.summary() == found.summary()
    assert np.array_equal(again.triples, found.triples) and type(again.n_rows) is int
    assert Fidelity.streams(60)["triple/z"].shape == (19_600,)


@pytest.mark.parametrize("n", [1, 2])
def test_few_units_have_no_pairs_or_triples(n):
    summary = bm.fidelity(machine(n), [[1] * n, [-1] * n, [1] * n]).summary()
    assert summary["triple_chi2"] == 0.0 and all(np.isfinite(value) for value in summary.values())


def test_units_that_never_change():
    rows = np.zeros((20, 3), int)
    rows[::2, 0] = 1
    found = bm.fidelity(bm.BoltzmannMachine(np.zeros((3, 3)), [0.0, -800.0, -4.0], units="binary"), rows)
    assert found.mean.z[1] == 0.0 and found.mean.error[1] == pytest.approx(np.sqrt(2) / 20)
    assert 0 < found.mean.z[2] < 1 and np.isfinite(found.triple.z).all()  # the machine's own scatter
    sampled = bm.fidelity(bm.BoltzmannMachine(np.zeros((3, 3)), [0.0, -800.0, -4.0], units="binary"), rows, n_samples=1)
    assert 1.0 <= sampled.mean.machine_error[1] * sampled.n_samples / np.sqrt(2) < 4.0


def test_what_neither_side_ever_changes_but_they_disagree_on_is_finite():
    rows = np.zeros((20, 3), int)
    rows[::2, 0] = 1
    found = bm.fidelity(bm.BoltzmannMachine(np.zeros((3, 3)), [0.0, 800.0, -800.0], units="binary"), rows)
    assert found.mean.z[1] == 20.0, "in rows that would have to be others"
    assert np.isfinite(list(found.summary().values())).all()


@pytest.mark.parametrize("units", ["spin", "binary"])
def test_hidden_units_that_are_coupled_are_summed_too(units):
    model = bm.models.random_machine(7, scale=0.8, units=units, seed=5)
    model = bm.BoltzmannMachine(model.weights, model.bias, units=units, n_hidden=3, offset=0.7)
    found = bm.fidelity(model, drawn(machine(4, units), 30), beta=0.7)
    truth = bm.infer(model, "exact", beta=0.7)
    assert found.n_samples == 0
    np.testing.assert_allclose(found.mean.machine, truth.mean[:4], atol=1e-12)
    pairs = np.triu_indices(4, 1)
    np.testing.assert_allclose(found.covariance.machine, truth.covariance[pairs], atol=1e-12)


def test_refusals():
    model: Any = machine(4)
    with pytest.raises(TypeError, match=r"that of a run is fastbm\.open\(path\)\.model"):
        bm.fidelity("m.h5", [[1, 1]])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"rows must have a last axis of 4 units"):
        bm.fidelity(model, [[1, 1, 1]])
    with pytest.raises(ValueError, match=r"They look like binary units"):
        bm.fidelity(model, [[1, 0, 1, 0]])
    with pytest.raises(ValueError, match=r"rows is empty"):
        bm.fidelity(model, np.empty((0, 4)))
    with pytest.raises(ValueError, match=r"at most 2048 visible units.*got 2049"):
        bm.fidelity(bm.models.ising((3, 683)), np.ones((2, 2_049)))
    with pytest.raises(ValueError, match="n_samples"):
        bm.fidelity(model, [[1, 1, 1, 1]], n_samples=0)
    with pytest.raises(ValueError, match="max_seconds"):
        bm.fidelity(model, [[1, 1, 1, 1]], max_seconds=0)


@pytest.mark.parametrize(
    ("n", "coupling", "field"),
    [
        (22, 0.5, 0.1),
        (120, 0.0125, 0.01),  # whose phases differ by less in energy than it fluctuates
    ],
)
def test_chains_that_do_not_mix_are_told(n, coupling, field):
    """Two phases of all units up or down, between which no chain goes."""
    model = bm.BoltzmannMachine(np.where(np.eye(n), 0.0, coupling), np.full(n, field))
    with pytest.warns(bm.ConvergenceWarning, match="have not converged"):
        found = bm.fidelity(model, np.ones((30, n), int), n_samples=20_000)
    assert found.r_hat > 1.1


def test_counts_add_up():
    up = (np.random.default_rng(5).random((90, 4)) < 0.4).astype(np.uint8)
    triples = some_triples(4, 0)
    total: Counts = count(up[:33], triples, 1) + count(up[33:], triples, 1)
    assert total.n == 90 and np.array_equal(total.triples, count(up, triples, 1).triples)


@pytest.mark.parametrize("n", [1, 2, 6])
def test_a_picture_has_four_panels(n, tmp_path):
    pytest.importorskip("matplotlib")
    from fastbm.report.pictures.fit import draw_fidelity, fidelity_figure

    model = machine(n, "binary")
    found = bm.fidelity(model, drawn(model, 50))
    figure = fidelity_figure(found)
    assert [axes.get_title() for axes in figure.axes] == [
        f"{n} means", "no covariances" if n < 2 else "1 covariances" if n == 2 else "15 covariances",
        "no triples" if n < 3 else "20 triples", "population count",
    ]  # fmt: skip
    (points,) = [line for line in figure.axes[0].lines if line.get_marker() == "."]
    assert np.array_equal(points.get_xydata(), np.stack([found.mean.data, found.mean.machine], axis=1))
    data, machine_line = (figure.axes[3].lines[k].get_xydata() for k in (-1, 0))
    both = {tuple(point) for point in np.concatenate([data, machine_line])}
    assert {(k, p) for k, p in enumerate(found.population.machine) if p > 0} <= both
    assert {(k, p) for k, p in enumerate(found.population.data) if p > 0} <= both
    if n < 6:
        return
    path = draw_fidelity(found, tmp_path / "new" / "fidelity.png")
    assert path.read_bytes()[:4] == b"\x89PNG" and [p.name for p in path.parent.iterdir()] == ["fidelity.png"]


def test_weighted_rows_are_as_rows_that_are_repeated() -> None:
    generator = np.random.default_rng(8)
    up, n_times = (generator.random((30, 6)) < 0.4).astype(np.uint8), generator.integers(1, 5, 30)
    chosen = np.array([[0, 1, 2], [1, 3, 5], [0, 4, 5]])
    found = weighted(up, n_times.astype(float), chosen)
    counted = UpMoments.of(count(np.repeat(up, n_times, axis=0), chosen, 1), chosen)
    for name in ("up", "pairs", "triples", "population"):
        np.testing.assert_allclose(getattr(found, name), getattr(counted, name), rtol=1e-13, atol=1e-15)
