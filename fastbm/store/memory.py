"""Runs that live in memory, written and read like those in files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._base.checks import nearest
from .._base.halting import Halt, never
from .._base.streams import Stream
from .hdf import copy_arrays, copy_rows
from .schema import Extension, canonical_json, check_streams

FEW = 8  # blocks, whose rows are put together each time, rather than once and then copied


class Memory:
    """A run in memory: its writer and its reader in one.

    Takes the arguments of `create` that decide what a run holds, and has the methods of `Writer` and `Reader`.

    Examples
    --------
    >>> run = Memory(spec={"beta": 0.5}, streams={"samples/energy": Stream("<f8")}, state={"sweep": 0})
    >>> run.append({"samples/energy": [1.0, 2.0]}, state=lambda: {"sweep": 2})
    >>> run.finish({"sweep": 2})
    >>> run.read("samples/energy", start=1)
    array([2.])
    """

    live = unchecked = False

    def __init__(
        self,
        *,
        spec: dict[str, Any],
        streams: Mapping[str, Stream],
        state: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = self.place = None
        self.spec: dict[str, Any] = json.loads(canonical_json(spec))
        self.streams = check_streams(streams)
        self.state = copy_arrays(state, "state")
        self.inputs = copy_arrays(inputs or {}, "inputs")
        self.meta: dict[str, Any] = dict(meta or {})
        self.finished = False
        self.n_blocks = 0
        self._rows: dict[str, list[np.ndarray]] = {name: [] for name in self.streams}

    def append(self, rows: Mapping[str, Any], state: Callable[[], Mapping[str, Any]] | None = None) -> None:
        """Add one block of rows; they are copied. `state` is never called: there is nothing to commit."""
        if self.finished:
            raise ValueError("the run in memory is finished; it takes no more rows.")
        for name, array in copy_rows(rows, self.streams).items():
            if len(array):
                self._rows[name].append(array)
        self.n_blocks += 1

    def commit(self, state: Mapping[str, Any]) -> None:
        """Keep the state after the last block."""
        self.state = copy_arrays(state, "state")

    def finish(self, state: Mapping[str, Any], halt: Halt = never) -> None:
        """Keep the last state and mark the run as finished; there is nothing to merge that `halt` could break off."""
        self.commit(state)
        self.finished = True

    def extended(self, extension: Extension) -> Memory:
        """Return a run that continues this finished one past its end; this one stays as it is."""
        state = self.state if extension.state is None else extension.state
        longer = Memory(spec=extension.spec, streams=self.streams, state=state, inputs=self.inputs, meta=self.meta)
        longer.n_blocks = self.n_blocks
        kept = extension.kept({name: self.n_rows(name) for name in self.streams})
        longer._rows = {name: [self._whole(name)[: kept[name]]] for name in self.streams}
        return longer

    def close(self) -> None:
        """Do nothing: there is no lock to release."""

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def refresh(self) -> None:
        """Do nothing: rows are seen as soon as they are appended."""

    def n_rows(self, name: str) -> int:
        """Return how many rows a stream has."""
        return sum(map(len, self._known(name)))

    def read(self, name: str, start: int = 0, stop: int | None = None, step: int = 1) -> np.ndarray:
        """Return rows of a stream, selected as by a slice with a positive step; a copy."""
        if step < 1:
            raise ValueError(f"step must be at least 1; got {step}.")
        if (n_blocks := len(self._known(name))) > 1 and (step > 1 or n_blocks <= FEW):
            return self._picked(name, range(*slice(start, stop, step).indices(self.n_rows(name))))
        return self._whole(name)[start:stop:step].copy()

    def peek(self, name: str, step: int = 1) -> np.ndarray:
        """Return every `step`-th row of a stream, not to be written to: no copy where all rows came at once."""
        blocks = self._known(name)
        return blocks[0][::step] if len(blocks) == 1 else self.read(name, step=step)

    def _picked(self, name: str, rows: range) -> np.ndarray:
        stream, first = self.streams[name], 0
        parts = [np.empty((0, *stream.shape), stream.numpy_dtype)]
        for block in self._known(name):
            begin = rows.start + max(0, -(-(first - rows.start) // rows.step)) * rows.step
            parts.append(block[begin - first : max(rows.stop - first, 0) : rows.step])
            first += len(block)
        return np.concatenate(parts, dtype=stream.numpy_dtype)

    def _known(self, name: str) -> list[np.ndarray]:
        if name not in self._rows:
            raise KeyError(f"the run has no stream {name!r}.{nearest(name, self.streams)}")
        return self._rows[name]

    def _whole(self, name: str) -> np.ndarray:
        blocks, stream = self._known(name), self.streams[name]
        if len(blocks) != 1:
            empty = np.empty((0, *stream.shape), stream.numpy_dtype)
            self._rows[name] = blocks = [np.concatenate([empty, *blocks], dtype=stream.numpy_dtype)]
        return blocks[0]
