"""Sweeps are left soon after a stop is asked for, at any size, and go on from the state before with the same bits."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base import arrays
from fastbm._base.halting import Halted
from fastbm.machine.couplings import Couplings
from fastbm.sampling import make_chains
from fastbm.sampling.engine.dense import DenseChains
from fastbm.sampling.engine.engine import Engine
from fastbm.sampling.engine.fixed_point import FixedPoint
from fastbm.sampling.engine.lanes import PIECE_SECONDS
from fastbm.sampling.engine.orders import ORDERS, sites, visit_order
from tests.support import machines

PROMPT = 0.2  # seconds, the design's
ROOM = 5.0  # times that: machines that run tests may be slow and busy


class Stop:
    """A wish to stop that comes at the n-th look; keeps the times of all looks."""

    def __init__(self, at: int) -> None:
        self.at, self.looks = at, [time.monotonic()]

    def __call__(self) -> bool:
        self.looks.append(time.monotonic())
        return len(self.looks) > self.at

    def longest(self) -> float:
        return float(np.diff([*self.looks, time.monotonic()]).max())


def long_run(kernel: str, rule: str = "gibbs", order: str = "sequential", threads: int = 2) -> tuple[Engine, int]:
    """Chains, and sweeps of theirs that take some six pieces in each block."""
    generator = np.random.default_rng(1)
    model = {
        "dense": bm.models.sherrington_kirkpatrick(150, seed=1),
        "sparse": bm.models.ising((12, 12)),
        "layered": bm.BoltzmannMachine([generator.normal(scale=0.1, size=(150, 100))]),
        "lookup": bm.models.ising((12, 12)),
        "multispin": bm.models.ising((12, 12)),
    }[kernel]
    n_chains = {"lookup": 384, "multispin": 1024}.get(kernel, 130)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*periodic")
        chains = make_chains(model, n_chains, kernel=kernel, rule=rule, order=order, beta=0.3, seed=2, threads=threads)
    return chains, int(6 * PIECE_SECONDS / (chains.attempt_seconds * chains._lanes() * model.n_units))


CASES = [
    *(("dense", order) for order in ORDERS[::2]),
    *(("sparse", order) for order in ORDERS[1::2]),
    ("lookup", "random"),
    ("multispin", "permuted"),
    ("layered", "coloured"),
]


@pytest.mark.parametrize(("kernel", "order"), CASES)
def test_long_sweeps_are_broken_off_and_go_on_with_the_same_bits(kernel: str, order: str) -> None:
    chains, n_sweeps = long_run(kernel, order=order, threads=1 if order == "permuted" else 2)
    whole, _ = long_run(kernel, order=order, threads=1)
    before = chains.state()
    for at in (1, 3):
        chains.halt = Stop(at)
        with pytest.raises(Halted):
            chains.sweep(n_sweeps)
        with pytest.raises(Halted):
            chains.record(10, n_sweeps // 10 + 1)
        with pytest.raises(Halted):
            chains.watch(n_sweeps, lambda *_: None)
        chains.restore(before)
    chains.halt = Stop(10**9)
    for one in (chains, whole):
        one.sweep(n_sweeps)
        one.record(3, n_sweeps // 12 + 1)
        one.watch(n_sweeps // 6, lambda *_: None)
        found = one.record(1, n_sweeps // 4)
    assert len(chains.halt.looks) > 4
    after, expected = chains.state(), whole.state()
    assert all(np.array_equal(after[name], expected[name]) for name in after)
    assert np.array_equal(found["samples/energy"][-1], chains.energies())


@pytest.mark.parametrize("kernel", ["dense", "multispin"])
def test_long_steps_of_populations_are_broken_off(kernel: str) -> None:
    (chains, _), (whole, _) = (long_run(kernel, threads=1) for _ in range(2))
    before, parents = chains.state(), np.arange(chains.n_chains)[::-1]
    for one in (chains, whole):  # one block is all that is done between two looks
        one.attempt_seconds = {"dense": 2e-7, "multispin": 2e-9}[kernel]
    chains.halt = lambda: True
    with pytest.raises(Halted):
        chains.together(lambda: chains.resample(parents, 40), 40)
    chains.restore(before)
    chains.halt = lambda: False
    assert np.array_equal(chains.resample(parents, 40), whole.resample(parents, 40))


@pytest.mark.parametrize("kernel", ["dense", "sparse", "layered", "lookup", "multispin"])
def test_short_sweeps_run_to_their_end(kernel: str) -> None:
    chains, n_sweeps = long_run(kernel)
    chains.halt = lambda: True
    for _ in range(12):  # more work together than is done between two looks
        chains.sweep(max(1, n_sweeps // 20))
        chains.record(1, max(1, n_sweeps // 20))
    chains.load_bits(chains.bits())
    chains.sweep(1)
    assert chains.energies().shape == (chains.n_chains,)


@pytest.mark.parametrize("kernel", ["dense", "sparse", "layered", "lookup", "multispin"])
def test_all_that_is_long_is_left_between_blocks_but_for_states_to_go_back_to(kernel: str) -> None:
    chains, _ = long_run(kernel)
    chains.sweep(1)
    before, bits, energies = chains.state(), chains.bits(), chains.energies()
    chains.attempt_seconds = 1e-3  # so that all counts as long
    chains.halt = lambda: True
    for act in (chains.energies, chains.packed, chains.bits, lambda: chains.load_bits(1 - bits)):
        with pytest.raises(Halted):
            act()
    again = chains.state()
    assert all(np.array_equal(again[name], before[name]) for name in before)
    looks = chains.halt = Stop(2)
    with pytest.raises(Halted):
        chains.load_bits(1 - bits)  # the first block is already in another state
    assert len(looks.looks) > 2
    chains.halt = lambda: True
    chains.restore(before)
    chains.halt = lambda: False
    assert np.array_equal(chains.bits(), bits)
    assert np.array_equal(chains.energies(), energies)


def test_one_sweep_of_many_units_is_cut() -> None:
    chains = make_chains(bm.models.ising((300, 300)), 64, kernel="sparse", beta=0.4, threads=1)
    chains.attempt_seconds = PIECE_SECONDS / 64 / 7001  # as if a piece were 7001 attempts
    whole = make_chains(bm.models.ising((300, 300)), 64, kernel="sparse", beta=0.4, threads=1)
    for order in ORDERS:
        chains.order = whole.order = order
        chains.halt = Stop(10**9)
        for one in (chains, whole):
            one.sweep(3)
        assert np.array_equal(chains.packed(), whole.packed())
        assert len(chains.halt.looks) > 30
        before = chains.state()
        chains.halt = Stop(4)
        with pytest.raises(Halted):
            chains.sweep(1)
        chains.restore(before)


def assert_left_at_once(chains: Engine, n_sweeps: int = 1) -> None:
    chains.sweep(1)  # kernels are compiled, fields filled
    chains.halt = Stop(3)
    with pytest.raises(Halted):
        chains.sweep(n_sweeps)
    assert chains.halt.longest() < ROOM * PROMPT


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
@pytest.mark.parametrize(("kernel", "n_chains"), [("sparse", 64), ("lookup", 128), ("multispin", 512)])
def test_a_sweep_of_a_million_units_is_left_at_once(kernel: str, n_chains: int, rule: str) -> None:
    model = bm.models.ising((1000, 1000))
    assert_left_at_once(make_chains(model, n_chains, kernel=kernel, rule=rule, beta=0.4, initial="up", threads=1), 3)


class Wide(DenseChains):
    """Dense chains whose couplings are windows of one random row: 1 GiB where a model takes five."""

    def couple(self, couplings: Any, bias: np.ndarray) -> None:
        self.visit, self.bias = np.arange(self.n_units, dtype=np.int32), np.zeros((1, self.n_units))
        self._point = FixedPoint(np.dtype(np.int32), 20, 0.0)
        self._rises = arrays.zeros((self.n_units, self.n_units), np.int32)
        row = np.random.default_rng(0).integers(-1000, 1000, 2 * self.n_units, dtype=np.int32)
        for i in range(self.n_units):
            self._rises[i] = row[i : i + self.n_units]
        self._start = np.broadcast_to(np.zeros((1, self.n_units), np.int32), (self.n_chains, self.n_units))
        self.attempt_seconds = 2e-9 + 2e-11 * self.n_units
        self._scale = [arrays.zeros((up.shape[1],), np.float32) for up in self.up]
        self._rescale()
        self._forget()


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
def test_a_sweep_of_the_largest_dense_machine_is_left_at_once(rule: str) -> None:
    n, n_chains, generator = 16_384, 64, np.random.default_rng(1)
    streams = generator.integers(1, 2**32, (n_chains, 4), dtype=np.uint32)
    up = generator.integers(0, 2, (n_chains, n), dtype=np.uint8)
    units = machines.flat(1).convention
    # at infinite temperature as many units flip as can
    chains = Wide(units, up, streams, beta=0.0, rule=rule, order="sequential", seed=0, threads=1)
    chains.couple(None, np.zeros(n))
    assert_left_at_once(chains)
    chains._forget()
    chains.halt = Stop(3)
    with pytest.raises(Halted):
        chains.sweep(1)  # broken off while fields are filled
    assert chains.halt.longest() < ROOM * PROMPT


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n_units", [1, 3, 70_000])
def test_orders_do_not_depend_on_how_sweeps_are_cut(order: str, n_units: int) -> None:
    chain = bm.models.ising((n_units,), periodic=False) if n_units > 1 else machines.flat(1)
    couplings: Couplings = chain.couplings
    visit, length = visit_order(order, couplings), max(1, 65_536 // n_units)
    assert sorted(visit.tolist()) == list(range(n_units))

    def all_rows(first: int, n_sweeps: int) -> np.ndarray:
        found = []
        for rows, count in sites(order, visit, 1, first, n_sweeps):
            assert rows.dtype == np.int32 and rows.flags.c_contiguous
            found += [rows[t % len(rows)] for t in range(count)]
        return np.array(found)

    start, n_sweeps = length - 1, 4
    whole = all_rows(start, n_sweeps)
    parts = [all_rows(start, 1), all_rows(start + 1, 2), all_rows(start + 3, 1)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert len(all_rows(start, 0)) == 0
    if order == "permuted":
        assert np.array_equal(np.sort(whole, axis=1), np.tile(np.arange(n_units), (4, 1)))
