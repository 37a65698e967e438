"""Where the replicas of ladders are: in lanes of their own, whose temperatures change, or in lanes of a temperature."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from .._base import rng, threads as threads_module
from .._base.halting import Halted
from .._base.threads import fan_out
from ..machine.machine import BoltzmannMachine
from .chains import couple_chains, make_chains, resolve_order, start_bits
from .engine.lookup import LookupChains
from .engine.temperatures import Ladders, Samples, TemperingChains

WORTH_SHARING = 1 << 19  # bytes of states, from which on threads turn some each into rows


class ByReplica:
    """Replicas keep their lanes, and temperatures move: lane ``n_betas * ladder + r`` holds replica r.

    Those of a ladder are on one thread, which does many rounds in one call, if they are to be kept `together`.

    Attributes
    ----------
    engine : Engine
    n_ladders : int
        Ladders, those that fill up a word included.
    """

    def __init__(
        self,
        model: BoltzmannMachine,
        n_ladders: int,
        betas: np.ndarray,
        *,
        first_ladder: int,
        initial: Any,
        bias: np.ndarray,
        together: bool,
        **settings: Any,
    ) -> None:
        self.n_ladders, self._betas, self._together = n_ladders, betas, together
        self.engine = make_chains(
            model,
            n_ladders * len(betas),
            beta=np.tile(betas, n_ladders),
            initial=_of_ladders(initial, len(betas)),
            first_chain=first_ladder * len(betas),
            bias=bias[0] if len(bias) == 1 else np.repeat(bias, len(betas), axis=0),
            together=len(betas) if together else 1,
            **settings,
        )

    def lanes(self, level: np.ndarray) -> np.ndarray:
        """Return the lane that is at every level, (n_ladders, n_betas), where replicas stand at `level`."""
        n_betas = len(self._betas)
        return np.argsort(level, axis=1) + n_betas * np.arange(self.n_ladders)[:, None]

    def of_replicas(self, values: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Return values of lanes as those of replicas, (n_ladders, n_betas)."""
        return values.reshape(level.shape)

    def swap(self, before: np.ndarray, level: np.ndarray) -> None:
        """Let replicas that stood at levels `before` stand at `level`."""
        self.restore(level)

    def advance(self, n_sweeps: int, ladders: Ladders, n_ladders: int) -> bool:
        """Do some of `n_sweeps` sweeps and their swaps in few calls; tell whether it could be done."""
        engine = self.engine
        if not self._together or not isinstance(engine, TemperingChains) or not engine.tempers(n_sweeps):
            return False
        engine.temper(ladders, n_sweeps)
        return True

    def record(self, n_samples: int, thin: int, ladders: Ladders, n_ladders: int, *, whole: bool) -> Samples | None:
        """Take samples after every `thin` sweeps with their swaps in few calls; return None if it could not be done."""
        engine = self.engine
        if not self._together or not isinstance(engine, TemperingChains) or not engine.tempers(n_samples * thin):
            return None
        samples = Samples(n_samples, n_ladders, ladders.level.shape[1], -(-engine.n_units // 8), whole=whole)
        engine.temper(ladders, n_samples * thin, thin, samples)
        return samples

    def restore(self, level: np.ndarray) -> None:
        """Give lanes the temperatures that go with levels."""
        self.engine.set_beta(self._betas[level].ravel())


class ByLevel:
    """Temperatures keep their lanes, and states move: lane ``n_ladders * level + ladder``, of the kernel "lookup".

    Every level fills whole words, with ladders beyond those asked for where need be, which are ladders like the others.
    Attributes are those of `ByReplica`.
    """

    def __init__(
        self,
        model: BoltzmannMachine,
        n_ladders: int,
        betas: np.ndarray,
        *,
        first_ladder: int,
        initial: Any,
        bias: np.ndarray,
        rule: str,
        order: str | None,
        kernel: str | None,
        seed: int,
        threads: int | None,
        together: bool,
    ) -> None:
        self.n_ladders = n_all = -(-n_ladders // LookupChains.word_chains) * LookupChains.word_chains
        n_betas = len(betas)
        states = initial if isinstance(initial, str) else np.asarray(initial)
        if not isinstance(states, str) and states.ndim > 1:
            states = np.concatenate([states, np.repeat(states[-1:], n_all - n_ladders, axis=0)])
        first = first_ladder * n_betas
        bits = start_bits(_of_ladders(states, n_betas), model.n_units, n_all * n_betas, seed, first, model.convention)
        streams = rng.streams(seed, n_all * n_betas // 2, first=first // 2, purpose=rng.PAIRS)
        engine = couple_chains(
            model.couplings,
            bias,
            model.convention,
            _level_by_level(bits, n_all),
            _level_by_level(streams, n_all // 2),
            kernel=kernel,
            beta=np.repeat(betas, n_all),
            rule=rule,
            order=resolve_order(order, rule),
            seed=seed,
            threads=threads_module.resolve(threads),
        )
        assert isinstance(engine, LookupChains)
        engine.count_flips_of(np.arange(n_all * n_betas) % n_all < n_ladders)
        self.engine = engine

    def lanes(self, level: np.ndarray) -> np.ndarray:
        """Return the lane that is at every level, (n_ladders, n_betas)."""
        return np.arange(self.n_ladders)[:, None] + self.n_ladders * np.arange(level.shape[1])

    def of_replicas(self, values: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Return values of lanes as those of replicas, (n_ladders, n_betas)."""
        return np.take_along_axis(values.reshape(-1, self.n_ladders).T, level, axis=1)

    def swap(self, before: np.ndarray, level: np.ndarray) -> None:
        """Exchange the states of replicas that stood at levels `before` and stand at `level`, those of neighbours."""
        ladder, replica = np.nonzero(level > before)
        risen = np.zeros((level.shape[1] - 1, self.n_ladders), np.uint8)
        risen[before[ladder, replica], ladder] = 1
        self.engine.exchange(np.packbits(risen, axis=1, bitorder="little").view("<u4"))

    def advance(self, n_sweeps: int, ladders: Ladders, n_ladders: int) -> bool:
        """Do some of `n_sweeps` sweeps and their swaps in one call; tell whether it could be done.

        Raises
        ------
        Halted
            If a stop is asked for and the work takes longer than that between two looks for one.
        """
        every, n_swept = ladders.swap_every, self.engine.n_swept
        if n_swept % every or n_sweeps < every:
            return False
        most, n_rounds = self.engine.most_rounds(every), n_sweeps // every
        if not most:
            return False
        if n_rounds > most and self.engine.halt():
            raise Halted
        of_rounds = (*ladders[:-1], n_ladders)
        return self.engine.temper(every, min(most, n_rounds), n_swept // every % 2, of_rounds) is not None

    def record(self, n_samples: int, thin: int, ladders: Ladders, n_ladders: int, *, whole: bool) -> Samples | None:
        """Take samples after every `thin` sweeps with their swaps in few calls; return None if it could not be done.

        Raises
        ------
        Halted
            As by `advance`.
        """
        every, n_betas, engine = ladders.swap_every, len(ladders.betas), self.engine
        together = engine.most_rounds(every) * every // thin
        if engine.n_swept % every or thin % every or not together:
            return None
        samples = Samples(n_samples, n_ladders, n_betas, -(-engine.n_units // 8), whole=whole)
        begin = 0 if whole else self.n_ladders * (n_betas - 1) // engine.block_lanes  # the first block that is kept
        for t in range(0, n_samples, together):
            if t and engine.halt():
                raise Halted
            some, between = min(together, n_samples - t), thin // every
            about = (engine.n_swept // every % 2, (*ladders[:-1], n_ladders), between, len(engine.blocks) - begin)
            kept = engine.temper(every, some * between, *about)
            if kept is None:
                return None
            samples.counts[t : t + some], samples.trips[t : t + some] = kept.counts, kept.trips[:, :n_ladders]
            by_level = kept.energies.reshape(some, n_betas, self.n_ladders)
            samples.energies[t : t + some] = by_level[..., :n_ladders].swapaxes(1, 2)
            n_parts = engine.threads if kept.states.nbytes >= WORTH_SHARING else 1
            ends = [some * k // n_parts for k in range(n_parts + 1)]
            fan_out(partial(self._write, samples, t, kept.states, begin), list(pairwise(ends)), n_parts)
        return samples

    def _write(self, samples: Samples, t: int, states: np.ndarray, begin: int, part: tuple[int, int]) -> None:
        """Write a part of the states of blocks from `begin` on as samples from number `t` on. Mutates `samples`."""
        states, some = states[slice(*part)], slice(t + part[0], t + part[1])
        rows = self.engine.rows_of(states.reshape(-1, *states.shape[2:]))
        rows = rows.reshape(len(states), -1, rows.shape[1])
        n_ladders, n_betas = samples.energies.shape[1:]
        target = self.n_ladders * (n_betas - 1) - self.engine.block_lanes * begin
        samples.states[some] = rows[:, target : target + n_ladders]
        if samples.whole is not None:
            by_level = rows[:, : self.n_ladders * n_betas].reshape(len(rows), n_betas, self.n_ladders, -1)
            samples.whole[some] = by_level[:, :, :n_ladders].swapaxes(1, 2)

    def restore(self, level: np.ndarray) -> None:
        """Do nothing: lanes keep their temperatures."""


def _of_ladders(initial: Any, n_betas: int) -> Any:
    """Return states given one for each ladder as states of every replica."""
    if isinstance(initial, str):
        return initial
    states = np.asarray(initial)
    return states if states.ndim == 1 else np.repeat(states, n_betas, axis=0)


def _level_by_level(rows: np.ndarray, n_ladders: int) -> np.ndarray:
    """Return rows that lie ladder by ladder with those of a level together."""
    return np.ascontiguousarray(rows.reshape(n_ladders, -1, rows.shape[1]).transpose(1, 0, 2)).reshape(rows.shape)
