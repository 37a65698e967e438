"""Steps of contrastive divergence in lanes, held against plain sums over the chains' states and against enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base import rng
from fastbm.kernels.bits import MASKS, add_plainly
from fastbm.kernels.learning.batches import sum_units
from fastbm.kernels.learning.contrastive import (
    add_hidden,
    add_visible,
    draw_words,
    room_of_hidden,
    transpose,
    turn_words,
    unpack_words,
    write_means,
)
from fastbm.learning import rules
from fastbm.learning.learners import restricted
from fastbm.learning.learners.restricted import RestrictedSteps
from fastbm.learning.settings import FitSettings

GIVEN: dict[str, Any] = dict.fromkeys(FitSettings.__dataclass_fields__)


def rows_of(m: int, n: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return (generator.random((m, n)) < generator.uniform(0.1, 0.9, n)).astype(np.uint8)


def machine(n: int, m: int, scale: float = 0.5, seed: int = 3) -> bm.BoltzmannMachine:
    generator = np.random.default_rng(seed)
    return bm.models.restricted(
        weights=scale * generator.normal(size=(n, m)), visible_bias=generator.normal(size=n),
        hidden_bias=generator.normal(size=m), units="binary",
    )  # fmt: skip


def steps(
    start: bm.BoltzmannMachine, up: np.ndarray, method: str = "pcd", threads: int = 1, **options: Any
) -> RestrictedSteps:
    values = GIVEN | {"epochs": 5, "batch_size": len(up), "n_chains": 8, "seed": 1} | options
    values.pop("method")
    if method == "cd":
        values["n_chains"] = None
    settings = rules.check(start, len(up), method, values)
    assert settings.engine == "lanes"
    return RestrictedSteps(start, up, settings, threads)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def expected_step(
    start: bm.BoltzmannMachine, up: np.ndarray, chains: np.ndarray, beta: float, l2: float, l2_bias: float
) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of weights and biases, from the visible states of the chains after their sweeps."""
    weights, bias = start.weights[0], np.concatenate(start.bias)
    n = start.n_visible
    v, x = up.astype(float), chains[:, :n].astype(float)
    h, y = (sigmoid(beta * (s @ weights + bias[n:])) for s in (v, x))
    slope = beta * (v.T @ h / len(v) - x.T @ y / len(x)) - l2 * weights
    means = np.concatenate([v.mean(0) - x.mean(0), h.mean(0) - y.mean(0)])
    return slope, beta * means - l2_bias * bias


@pytest.mark.parametrize("method", ["pcd", "cd"])
@pytest.mark.parametrize(("n", "m", "beta"), [(7, 5, 1.0), (40, 33, 0.7), (64, 32, 1.0)])
def test_a_step_is_the_difference_of_both_phases(method: str, n: int, m: int, beta: float):
    start, up = machine(n, m), rows_of(70, n)
    driver = steps(start, up, method, beta=beta, l2=0.1, l2_bias=0.02, learning_rate=0.3, momentum=0.5, n_sweeps=2)
    velocity = [np.zeros((n, m)), np.zeros(n + m)]
    for epoch in range(2):
        before = start if epoch == 0 else driver.parameters.machine(start)
        metrics = driver.epoch(epoch)
        chains = np.unpackbits(driver.packed(), axis=1, bitorder="little")[:, : n + m]
        assert len(chains) == (8 if method == "pcd" else 70)
        slopes = expected_step(before, up, chains, beta, 0.1, 0.02)
        after = driver.parameters
        for k, (old, new) in enumerate(
            [(before.weights[0], after.weights[0]), (np.concatenate(before.bias), after.bias)]
        ):
            velocity[k] = 0.5 * velocity[k] + 0.3 * slopes[k]
            assert np.abs(new - old - velocity[k]).max() < 2e-6
        gap = (slopes[0] + 0.1 * before.weights[0]) / beta
        assert metrics[0]["moment_error"] == pytest.approx(np.sqrt(np.mean(gap**2)), rel=1e-4)


@pytest.mark.parametrize("method", ["pcd", "cd"])
def test_chains_have_the_distribution_of_the_machine(method: str):
    """Rows for "cd" are exact samples, which stay exact; persistent chains come to be so."""
    start = machine(4, 3, scale=1.5)
    n_chains, n_steps = 512, 60
    states = (np.arange(1 << 7)[:, None] >> np.arange(7)) & 1
    p = np.exp(-start.energy(states))
    p /= p.sum()
    generator = np.random.default_rng(0)
    up = states[generator.choice(len(states), n_chains, p=p)][:, :4].astype(np.uint8)
    driver = steps(start, up, method, learning_rate=1e-300, n_chains=n_chains, batch_size=n_chains, n_sweeps=3)
    counts = np.zeros(1 << 4)
    for epoch in range(n_steps):
        driver.epoch(epoch)
        if epoch >= 10:
            bits = np.unpackbits(driver.packed(), axis=1, bitorder="little")[:, :4]
            counts += np.bincount(bits @ (1 << np.arange(4)), minlength=16)
    visible = np.bincount((states[:, :4] @ (1 << np.arange(4))), weights=p, minlength=16)
    total = counts.sum()
    # steps are three sweeps apart, as good as independent; the rows of "cd" are one sample
    noise = np.sqrt(visible * (1 - visible) / (total if method == "pcd" else n_chains))
    assert (np.abs(counts / total - visible) < 5 * noise).all()


@pytest.mark.parametrize("method", ["pcd", "cd"])
def test_bits_do_not_depend_on_threads_blocks_or_stops(method: str, monkeypatch: pytest.MonkeyPatch):
    start, up = machine(40, 37), rows_of(330, 40)
    options = {"batch_size": 100, "n_chains": 130, "momentum": 0.9, "learning_rate": 0.05}
    found = []
    for threads, least in ((1, 1), (2, 1), (3, 1), (3, 1 << 40)):
        monkeypatch.setattr(restricted, "THREADS_WORK", least)
        driver = steps(start, up, method, threads, **options)
        for epoch in range(3):
            assert driver.epoch(epoch)
        found.append(driver.state())
    monkeypatch.setattr(restricted, "CALL_WORK", 1)
    broken = steps(start, up, method, **options)
    for epoch in range(3):
        while not broken.epoch(epoch):
            fresh = steps(start, up, method, **options)
            fresh.restore(broken.state())
            broken = fresh
    found.append(broken.state())
    for other in found[1:]:
        assert found[0].keys() == other.keys()
        assert all(np.array_equal(found[0][name], other[name]) for name in found[0])


def test_passes_against_plain_loops():
    generator = np.random.default_rng(1)
    bits = (generator.random((37, 64)) < np.linspace(0, 1, 64)).astype(np.uint32)
    words = (bits.reshape(37, 2, 32) << np.arange(32, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
    turned, unpacked = np.ones((3, 64), np.uint16), np.empty((64, 37), np.float32)
    turn_words(turned, words)
    unpack_words(unpacked, np.ascontiguousarray(words.T))
    assert np.array_equal(unpacked, bits.T)
    for lane in range(48):
        for i in range(64):
            assert turned[lane // 16, i] >> (lane % 16) & 1 == (bits[lane, i] if lane < 37 else 0)

    fields = np.concatenate([generator.normal(size=(9, 48)) * 5, np.full((1, 48), 200), np.full((1, 48), -200)])
    fields = fields.astype(np.float32)
    means = np.full((40, 60), 7, np.float32)
    write_means(means[:37], np.ascontiguousarray(fields[:, :37].T), 11, -0.25)
    assert np.abs(means[:37, :11] + 0.25 * sigmoid(fields[:, :37].T.astype(float))).max() < 1e-7
    assert (means[:, 11:] == 7).all()
    assert (means[37:] == 7).all()

    other_way = np.zeros((48, 32), np.float32)
    transpose(other_way, means[:32])
    assert np.array_equal(other_way, means[:32, :48].T)

    visible_gap, hidden_gap, sums = np.empty(50), np.empty(9), np.empty(9)
    sum_units(visible_gap, hidden_gap, sums, (turned, means), 16, 16, 21)
    assert np.abs(visible_gap - bits[:16, :50].mean(axis=0) + bits[16:, :50].mean(axis=0)).max() < 1e-14
    assert np.abs(sums - means[:16, :9].sum(axis=0, dtype=float)).max() < 1e-12
    assert np.abs(hidden_gap - means[:, :9].sum(axis=0, dtype=float)).max() < 1e-12

    streams = np.ascontiguousarray(rng.streams(3, 48).T)
    drawn, total = np.ones((2, 48), np.uint32), np.zeros(11)
    for _ in range(400):
        draw_words(drawn[:1], fields, streams, 11, np.empty(48, np.uint32))
        total += (drawn[0][None, :] >> np.arange(11, dtype=np.uint32)[:, None] & 1).sum(axis=1)
        assert (drawn[0] >> 11 == 0).all()
    p = sigmoid(fields.astype(float)).sum(axis=1)
    spread = np.sqrt(400 * (sigmoid(fields.astype(float)) * sigmoid(-fields.astype(float))).sum(axis=1))
    assert (np.abs(total - 400 * p) <= 5 * spread + 1e-9).all()


def test_sums_of_rows_are_taken_in_one_order_whatever_the_processor():
    """Of visible units one by one, of hidden ones by fours."""
    generator = np.random.default_rng(2)
    weights = generator.normal(size=(64, 192)).astype(np.float32)
    bits = (generator.random((32, 64)) < np.linspace(0, 1, 32)[:, None]).astype(np.uint32)
    words = (bits.reshape(32, 2, 32) << np.arange(32, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
    bias = generator.normal(size=192).astype(np.float32)
    one_by_one, by_fours = np.tile(bias, (32, 1)), np.tile(bias, (32, 1))
    for lane in range(32):
        for i in np.flatnonzero(bits[lane]):
            one_by_one[lane] += weights[i]
        for first in range(0, 64, 4):
            a, b, c, d = weights[first : first + 4] * bits[lane, first : first + 4, None].astype(np.float32)
            by_fours[lane] += ((a + b) + c) + d
    rows = np.empty((32, 192), np.float32)
    add_visible(rows, bias, weights, words, np.empty(80, np.int32))
    looked_up, products = (np.repeat(bias[:, None], 32, axis=1) for _ in range(2))
    columns, room = np.ascontiguousarray(weights.T), np.empty(room_of_hidden(2, 32), np.float32)
    add_hidden(looked_up, columns, np.ascontiguousarray(words.T), MASKS, room)
    add_plainly(products, columns, np.ascontiguousarray(bits.T, np.float32))
    assert np.array_equal(rows, one_by_one)
    assert np.array_equal(looked_up, by_fours.T)
    assert np.array_equal(products, by_fours.T)
