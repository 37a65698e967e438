"""Observables, one row a sample: named quantities, and functions that the user gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .._base import checks
from .._base.streams import Stream
from ..machine.machine import BoltzmannMachine

Function = Callable[[np.ndarray], Any]

NAMED = ("magnetisation", "overlap", "link_overlap", "structure_factor", "overlap_structure_factor")
_NAME = re.compile(r"[A-Za-z0-9_-]*[A-Za-z0-9][A-Za-z0-9_-]*")
WAVES = {"structure_factor", "overlap_structure_factor"}
PIECE = 1 << 18  # bytes of states, or of their bits, that are looked at together
OF_PAIRS = ("overlap", "link_overlap", "overlap_structure_factor")
# names of rows of a run's summary, in which observables have theirs, and of what stands along them in exports
TAKEN = frozenset({
    "acceptance", "beta", "burn-in", "converged", "culled", "energy", "engine", "ess", "families",
    "file", "finished", "kernel", "kind", "model", "r_hat", "sampler", "samples", "state", "sweep", "tau_int", "until",
    "verdict",
})  # fmt: skip


def check_observables(given: Any) -> tuple[dict[str, str | None], dict[str, Function]]:
    """Return what the spec says of each observable (a name of ours, or None for a function), and the functions.

    `given` is a list of names, or a mapping of name to function or to one of our names.
    """
    entries = _entries(given)
    named: dict[str, str | None] = {}
    functions: dict[str, Function] = {}
    for name, what in entries.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"observables must have names of letters (a to z, A to Z), digits, - and _; got {name!r}.")
        if name in TAKEN:
            raise ValueError(f'observables: "{name}" is told of every run by that name; give another one.')
        if callable(what):
            named[name], functions[name] = None, what
        else:
            named[name] = checks.choice(f"observables[{name!r}]", what, NAMED)
    return named, functions


def _entries(given: Any) -> Mapping[Any, Any]:
    if isinstance(given, Mapping):
        return given
    if isinstance(given, str) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise TypeError(f"observables must be a list of names, or a dict of names and functions; got {given!r}.")
    names = list(given)
    for name in names:
        if callable(name):
            raise TypeError('observables that are functions need names: pass a dict, {"name": function}.')
        checks.choice("observables", name, NAMED)
    return {name: name for name in names}


def check_given(named: Mapping[str, str | None], given: Mapping[str, Function] | None) -> dict[str, Function]:
    """Check that a run that is resumed is given the functions that it had."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"observables must be a dict of the functions that the run measures; got {given!r}.")
    needed, functions = [name for name, what in named.items() if what is None], dict(given or {})
    missing, odd = [n for n in needed if n not in functions], [n for n in functions if n not in needed]
    if missing:
        example = ", ".join(f'"{name}": ...' for name in needed)
        raise ValueError(
            f"this run measures {', '.join(map(repr, missing))} by functions, which no file can hold: pass "
            f"fastbm.resume(path, observables={{{example}}}), the functions it began with."
        )
    if odd:
        listed = ", ".join(map(repr, needed)) or "none"
        raise ValueError(f"observables: this run has no function {odd[0]!r}; it has {listed}.")
    if bad := [name for name, function in functions.items() if not callable(function)]:
        raise TypeError(f"observables[{bad[0]!r}] must be a function of states; got {functions[bad[0]]!r}.")
    return functions


class Observables:
    """The observables of one run.

    Parameters
    ----------
    model : BoltzmannMachine
        The whole machine.
    n_chains : int
    named : mapping
        As `check_observables` returns it.
    functions : mapping
        The functions for names of which `named` says None.
    first : (n_chains, ceil(n_units / 8)) uint8 array, or None where there are no observables
        States on which functions are tried, to learn the shapes they return.
    n_groups : int
        Equal groups of consecutive chains that have the same temperature and clamped values.
    """

    def __init__(
        self,
        model: BoltzmannMachine,
        n_chains: int,
        named: Mapping[str, str | None],
        functions: Mapping[str, Function],
        first: np.ndarray | None,
        n_groups: int = 1,
    ) -> None:
        self._model, self._n_chains, self._named, self._functions = model, n_chains, dict(named), dict(functions)
        if self._pairs and n_chains // n_groups % 2:
            raise ValueError(
                f"observables {self._pairs[0]!r} compares chains 2k and 2k + 1, which must be alike: n_chains for each "
                f"beta and clamped pattern must be even; got {n_chains // n_groups}."
            )
        if "link_overlap" in self._named.values():
            indptr, indices, _ = model.couplings.csr()
            rows = np.repeat(np.arange(model.n_units, dtype=np.int32), np.diff(indptr))
            edges = np.stack([rows, indices], axis=1)[rows < indices]
            if not len(edges):
                raise ValueError("observables 'link_overlap' is a mean over couplings, and the machine has none.")
            from .engine.edges import Links  # most runs need none

            self._links, self._n_links = Links(edges, model.n_units), len(edges)
        for what in sorted(WAVES):
            if what in self._named.values():
                from .structure import periodic_sides

                self._sides = periodic_sides(model.origin, model.n_units, f"observables {what!r}")
        self._shapes: dict[str, tuple[int, ...]] = {}
        if first is not None:
            ours = {name: self._ours(what, first) for name, what in self._named.items() if what is not None}
            found = ours | (self._theirs_of(first) if self._functions else {})
            self._shapes = {name: found[name].shape for name in self._named}

    @property
    def has_functions(self) -> bool:
        """Whether any are functions of the user."""
        return bool(self._functions)

    @property
    def multiply(self) -> bool:
        """Whether any may call BLAS, as functions of the user may."""
        return self.has_functions or not WAVES.isdisjoint(self._named.values())

    @property
    def _pairs(self) -> list[str]:
        return [name for name, what in self._named.items() if what in OF_PAIRS]

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams of the observables, as a run declares them."""
        return {f"observables/{name}": Stream("<f8", shape) for name, shape in self._shapes.items()}

    def level_streams(self, n_levels: int, *, functions: bool) -> dict[str, Stream]:
        """Streams of the observables at every level of ladders; of those that are functions only on request."""
        shapes = {name: shape for name, shape in self._shapes.items() if functions or self._named[name] is not None}
        return {f"ladder/{name}": Stream("<f8", (*shape, n_levels)) for name, shape in shapes.items()}

    @property
    def scalars(self) -> dict[str, int]:
        """Observables that are one number a chain, or one for two chains, with the length of a row."""
        return {
            name: shape[0]
            for name, shape in self._shapes.items()
            if self._named[name] in OF_PAIRS or shape == (self._n_chains,)
        }

    def measure(self, packed: np.ndarray) -> dict[str, np.ndarray]:
        """Return a row of every observable for every sample of packed states (n_samples, n_chains, n_bytes)."""
        if not self._named:
            return {}
        return {f"observables/{name}": rows for name, rows in self._rows(packed, functions=True).items()}

    def measure_levels(self, packed: np.ndarray, *, functions: bool) -> dict[str, np.ndarray]:
        """Return rows at every level of ladders, of states (n_samples, n_levels, n_chains, n_bytes), levels last."""
        found = self._rows(packed, functions=functions)
        return {f"ladder/{name}": rows.swapaxes(1, -1) for name, rows in found.items()}

    def _rows(self, packed: np.ndarray, *, functions: bool) -> dict[str, np.ndarray]:
        """Return values of every observable, (..., *its shape), of states (..., n_chains, n_bytes)."""
        found = {name: self._ours(what, packed) for name, what in self._named.items() if what is not None}
        if functions and self._functions:
            rows = [self._theirs_of(sample) for sample in packed.reshape(-1, *packed.shape[-2:])]
            for name in self._functions:
                values = np.array([row[name] for row in rows])
                found[name] = values.reshape(*packed.shape[:-2], *self._shapes[name])
        return {name: found[name] for name in self._shapes if name in found}

    def _theirs_of(self, packed: np.ndarray) -> dict[str, np.ndarray]:
        """Return what the user's functions say of a sample, (n_chains, n_bytes)."""
        up = np.unpackbits(packed, axis=1, count=self._model.n_units, bitorder="little")
        states = self._model.convention.values(up)
        states.setflags(write=False)
        return {name: self._theirs(name, function(states)) for name, function in self._functions.items()}

    def _theirs(self, name: str, value: Any) -> np.ndarray:
        array = checks.any_array(f"observables[{name!r}]", value)
        if array.dtype.kind not in "biuf" or array.ndim > 1 or not array.size:
            raise TypeError(
                f"observables[{name!r}] must return numbers, ({self._n_chains},) for one a chain or any other number; "
                f"got dtype {array.dtype}, shape {array.shape}."
            )
        if name in self._shapes and array.shape != self._shapes[name]:
            raise ValueError(
                f"observables[{name!r}] returned shape {self._shapes[name]} first and {array.shape} later."
            )
        return array.astype(np.float64)

    def _ours(self, what: str, packed: np.ndarray) -> np.ndarray:
        """Return one of our observables of samples, (..., n_chains, n_bytes)."""
        n = self._model.n_units
        if what == "magnetisation":
            return 2.0 * _count_bits(packed) / n - 1.0
        if what == "structure_factor":
            return self._structure_factor(packed)
        different = packed[..., 0::2, :] ^ packed[..., 1::2, :]
        if what == "overlap_structure_factor":  # a sign of all products does not change it
            return self._structure_factor(different)
        if what == "overlap":
            return 1.0 - 2.0 * _count_bits(different) / n
        return 1.0 - 2.0 * self._links.count_unlike(different) / self._n_links

    def _structure_factor(self, packed: np.ndarray) -> np.ndarray:
        from .structure import structure_factor

        rows = packed.reshape(-1, packed.shape[-1])
        step = max(1, PIECE // (8 * rows.shape[1]))
        parts = [structure_factor(rows[k : k + step], self._sides) for k in range(0, len(rows), step)]
        return np.concatenate([np.empty(0), *parts]).reshape(packed.shape[:-1])


def _count_bits(packed: np.ndarray) -> np.ndarray:
    """Return how many bits of each row of bytes are set, (...) of (..., n_bytes)."""
    rows = packed.reshape(-1, packed.shape[-1])
    n_bytes, step = rows.shape[1], max(1, PIECE // rows.shape[1])
    found, words = np.empty(len(rows), np.int64), np.zeros((min(step, len(rows)), -(-n_bytes // 8)), np.uint64)
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        words.view(np.uint8)[: len(some), :n_bytes] = some
        np.bitwise_count(words[: len(some)]).sum(axis=1, dtype=np.int64, out=found[first : first + step])
    return found.reshape(packed.shape[:-1])
