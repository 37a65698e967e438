"""Chains of independent draws round a plain source: thinning, blocks, stops."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base import rng
from fastbm._base.halting import Halt, Halted, never, stop_if_asked
from fastbm.exact.plan import Forecast
from fastbm.sampling import exact
from fastbm.sampling.exact import ExactChains, Group
from tests.support import crash
from tests.support.machines import enumerate_machine, machine
from tests.twins import reference


class Listed:
    """A source that draws state k where u, of two words of the chain's stream, falls into its share of Z."""

    forecast, draw_seconds = Forecast(0.0, 0.0, "a list"), 1e-5

    def __init__(self, model: bm.BoltzmannMachine, beta: float = 1.0) -> None:
        found = enumerate_machine(model, beta)
        self.up = np.array(reference.all_states(model.n_units, "binary"), np.uint8)
        self.ends, self.calls = np.cumsum(found.probabilities), 0

    def draw(self, streams: np.ndarray, n_draws: int, threads: int, halt: Halt = never) -> np.ndarray:
        self.calls += 1
        stop_if_asked(halt)
        found = np.empty((n_draws, streams.shape[1], self.up.shape[1]), np.uint8)
        for c, stream in enumerate(streams.T.copy()):
            for t in range(n_draws):
                stream, high = step(stream)
                stream, low = step(stream)
                u = ((high << 21) + (low >> 11) + 0.5) / 2**53
                found[t, c] = self.up[min(int(np.searchsorted(self.ends, u)), len(self.up) - 1)]
            streams[:, c] = stream
        return found


def step(stream: np.ndarray) -> tuple[np.ndarray, int]:
    """A stream after one word, and the word."""
    s = [int(word) for word in stream]
    word = next(reference.xoshiro(s))
    shifted = (s[1] << 9) & reference.WORD
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= shifted
    s[3] = ((s[3] << 11) | (s[3] >> 21)) & reference.WORD
    return np.array(s, np.uint32), word


def listed_chains(n_chains: int = 4, n_groups: int = 2, threads: int = 1, first: int = 0) -> ExactChains:
    """Chains of a small machine, at an own beta for each group."""
    model, each = machine("general", "binary"), n_chains // n_groups
    groups = [Group(slice(k * each, (k + 1) * each), Listed(model, 0.5 * k)) for k in range(n_groups)]
    streams = rng.streams(5, n_chains, first=first)
    return ExactChains(model, model.flat_bias, groups, streams, engine="listed", threads=threads)


@pytest.mark.parametrize("drawn_bytes", [1, 60, 1 << 20])
@pytest.mark.parametrize("threads", [1, 2])
def test_samples_do_not_depend_on_how_they_are_drawn(
    monkeypatch: pytest.MonkeyPatch, drawn_bytes: int, threads: int
) -> None:
    whole = listed_chains().record(60, 1)
    monkeypatch.setattr(exact, "DRAWN_BYTES", drawn_bytes)
    monkeypatch.setattr(exact, "ENERGY_LANES", 3)
    chains = listed_chains(threads=threads)
    chains.sweep(4)
    found = [chains.record(5, 4), chains.record(1, 1), chains.record(5, 7)]
    assert chains.n_swept == 60
    kept = [7, 11, 15, 19, 23, 24, 31, 38, 45, 52, 59]
    for name, array in whole.items():
        assert np.array_equal(np.concatenate([one[name] for one in found]), array[kept])


def test_energies_are_those_of_the_states() -> None:
    chains, model = listed_chains(), machine("general", "binary")
    rows = chains.record(20, 2)
    up = np.unpackbits(rows["samples/states"], axis=2, count=6, bitorder="little")
    np.testing.assert_allclose(rows["samples/energy"], model.energy(up), atol=1e-13)


def test_a_draw_that_is_broken_off_is_done_again() -> None:
    chains = listed_chains()
    whole = chains.record(8, 3)
    chains = listed_chains()
    before = chains.state()
    for at in (1, 2):  # after the first group, and before any
        asked = iter(range(at, 3))
        chains.halt = lambda asked=asked: next(asked, None) == 2
        with pytest.raises(Halted):
            chains.record(8, 3)
        chains.restore(before)
    chains.halt = never
    found = chains.record(8, 3)
    assert all(np.array_equal(found[name], whole[name]) for name in whole)


def test_the_first_draw_is_known_to_take_as_long_as_its_tables() -> None:
    chains = listed_chains()
    chains._groups[1].source.forecast = Forecast(7.0, 0.0, "a list")
    assert 7.0 < chains.sweep_seconds < 7.1
    chains.sweep(1)
    assert chains.sweep_seconds < 0.1


class Stuck(Listed):
    """Makes its tables until it is stopped."""

    forecast = Forecast(60.0, 0.0, "a list")

    def draw(self, streams: np.ndarray, n_draws: int, threads: int, halt: Halt = never) -> np.ndarray:
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        for _ in range(1000):
            stop_if_asked(halt)
            time.sleep(0.01)
        raise AssertionError("nobody stopped it")


def test_ctrl_c_stops_the_making_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = machine("general")
    own: dict[str, Any] = {"sampler": "exact", "engine": "blocks", "n_chains": 4, "n_sweeps": 30}
    maker = "fastbm.sampling.exact._maker"
    monkeypatch.setattr(maker, lambda engine: lambda model, beta, **limits: Listed(model, beta))
    bm.sample(model, out=tmp_path / "whole.h5", **own)
    monkeypatch.setattr(maker, lambda engine: lambda model, beta, **limits: Stuck(model, beta))
    started = time.monotonic()
    with pytest.raises(bm.Interrupted, match="stopped by SIGINT after sweep 0 of 30"):
        bm.sample(model, out=tmp_path / "run.h5", **own)
    assert time.monotonic() - started < 8  # of the ten seconds that it would take
    monkeypatch.setattr(maker, lambda engine: lambda model, beta, **limits: Listed(model, beta))
    bm.resume(tmp_path / "run.h5")
    crash.assert_same_run(tmp_path / "whole.h5", tmp_path / "run.h5")
