"""Samples that stay in their file until they are asked for.

What a run has to say that drew samples: states, energies, observables, and how well the sampler did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ...diagnostics import OverlapDistribution, Reweighted
from ...machine.machine import BoltzmannMachine
from ...machine.units import Units, units as convention
from ...store import Memory, Reader
from . import convergence, physics


class LazyStates(NDArrayOperatorsMixin):
    """Packed bits of a file as an array of unit values, (n_samples, n_chains, n_units) int8.

    Slices along samples read only these; all else that an array can do reads the whole.
    """

    dtype = np.dtype(np.int8)
    ndim = 3

    def __init__(self, reader: Reader | Memory, name: str, units: Units) -> None:
        self._reader, self._name, self._units = reader, name, units
        self._stream = reader.streams[name]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_samples, n_chains, n_units); grows while the run is live."""
        return self._reader.n_rows(self._name), self._stream.shape[0], int(self._stream.attrs["n_units"])

    @property
    def size(self) -> int:
        """Number of entries."""
        n_samples, n_chains, n_units = self.shape
        return n_samples * n_chains * n_units

    def __len__(self) -> int:
        return self.shape[0]

    def _read(self, start: int, stop: int, step: int = 1) -> np.ndarray:
        packed = self._reader.read(self._name, start, stop, step)
        up = np.unpackbits(packed, axis=2, count=self.shape[2], bitorder="little")
        return self._units.values(up)

    def __getitem__(self, key: Any) -> np.ndarray:
        first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        n_samples = len(self)
        if isinstance(first, (int, np.integer)) and not isinstance(first, bool):
            index = int(first) + (n_samples if first < 0 else 0)
            if not 0 <= index < n_samples:
                raise IndexError(f"sample {first} is out of range: there are {n_samples}")
            return self._read(index, index + 1)[(0, *rest)]
        if isinstance(first, slice):
            start, stop, step = first.indices(n_samples)
            if step > 0:
                return self._read(start, max(start, stop), step)[(slice(None), *rest)]
        return np.asarray(self)[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = self._read(0, len(self))
        return whole if dtype is None else whole.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [np.asarray(x) if isinstance(x, LazyStates) else x for x in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __repr__(self) -> str:
        return f"<states {self.shape} {self.dtype}, read from the file when sliced>"


States = np.ndarray | LazyStates


READ_ROWS = 256  # samples that are unpacked at a time


class Columns(Mapping[str, np.ndarray]):
    """The streams of one group by name, read when asked for."""

    def __init__(self, reader: Reader | Memory, group: str) -> None:
        self._reader, self._group = reader, group

    def _names(self) -> list[str]:
        start = self._group + "/"
        return [name[len(start) :] for name in self._reader.streams if name.startswith(start)]

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names():
            raise KeyError(f"the run has no {self._group} {name!r}; it has {', '.join(self._names()) or 'none'}")
        return self._reader.read(f"{self._group}/{name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return f"<{self._group}: {', '.join(self._names()) or 'none'}>"


class SampledRun:
    """The part of a Run that is about samples; `fit` records some too."""

    _reader: Reader | Memory
    config: dict[str, Any]
    kind: str

    @property
    def streams(self) -> dict[str, Any]:
        """The streams of the run, as they are declared."""
        return self._reader.streams

    def read(self, name: str, step: int = 1) -> np.ndarray:
        """Return every `step`-th row of a stream, by its path in the file; none of one that the run does not have."""
        if not self._has(name):
            return np.empty(0)
        return self._reader.read(name, 0, None, step)

    @cached_property
    def _start(self) -> BoltzmannMachine:
        raise NotImplementedError

    @property
    def meta(self) -> dict[str, Any]:
        """Machine, versions, kernel: what decides no number."""
        return self._reader.meta

    def _has(self, name: str) -> bool:
        return name in self._reader.streams

    def _need(self, name: str, what: str) -> None:
        if self._has(name):
            return
        if name == "samples/states" and self.kind == "sample":
            raise AttributeError('this run was told keep="best": its states are in best_states and best_energies.')
        raise AttributeError(
            f"this run of kind {self.kind!r} has no {what}; its streams are {', '.join(self._reader.streams)}"
        )

    @property
    def _settings(self) -> dict[str, Any]:
        if "sample" not in self.config:
            raise AttributeError(f"this run of kind {self.kind!r} has no settings of sample")
        return self.config["sample"]

    @property
    def _sampler(self) -> str:
        return str(self._settings["sampler"])

    @property
    def has_states(self) -> bool:
        """Whether any samples were recorded."""
        return self._has("samples/states") and self._reader.n_rows("samples/states") > 0

    @property
    def has_chains(self) -> bool:
        """Whether its chains go on at one temperature each, so that their samples are series in time."""
        return self.kind == "sample" and self._sampler not in ("annealing", "population-annealing")

    @property
    def states(self) -> States:
        """Samples, (n_samples, n_chains, n_units) int8 in the model's units; from a file they are read as they are
        sliced.
        """
        self._need("samples/states", "samples")
        lazy = LazyStates(self._reader, "samples/states", convention(self.config["model"]["units"]))
        return np.asarray(lazy) if isinstance(self._reader, Memory) else lazy

    @property
    def energy(self) -> np.ndarray:
        """Energies of the samples, (n_samples, n_chains)."""
        self._need("samples/energy", "energies")
        return self._reader.read("samples/energy")

    @property
    def magnetisation(self) -> np.ndarray:
        """Mean value of the units of every sample, (n_samples, n_chains)."""
        self._need("samples/states", "samples")
        n_units, units = self._start.n_units, convention(self.config["model"]["units"])
        n_samples = self._reader.n_rows("samples/states")
        up = [
            np.bitwise_count(self._reader.read("samples/states", start, start + READ_ROWS)).sum(axis=-1, dtype=np.int64)
            for start in range(0, n_samples, READ_ROWS)
        ]
        shape = self._reader.streams["samples/states"].shape[:1]
        return units.lo + units.span * np.concatenate([np.empty((0, *shape), np.int64), *up]) / n_units

    @property
    def sweep(self) -> np.ndarray:
        """The sweep after which each sample was taken, (n_samples,)."""
        self._need("samples/sweep", "sweeps")
        return self._reader.read("samples/sweep")

    @property
    def observables(self) -> Columns:
        """What was measured along the way, by name; a row for each sample."""
        return Columns(self._reader, "observables")

    @property
    def beta(self) -> np.ndarray:
        """Inverse temperature of every chain of a sampling run, (n_chains,)."""
        return np.repeat(self._settings["beta"], self._settings["n_chains"] // len(self._settings["beta"]))

    @property
    def betas(self) -> np.ndarray:
        """The ladder of a tempering run, the temperatures of a population; else those of the chains, each once."""
        if self._sampler == "population-annealing":
            return self._reader.read("population/beta")
        return np.array(self._settings["betas"] if self._sampler == "tempering" else np.unique(self.beta))

    @property
    def best_states(self) -> np.ndarray:
        """With keep="best", the distinct states of lowest energy that were seen, (at most k, n_units) int8 in the
        model's units, the lowest first and ties by their bits.
        """
        packed = self._best("best_states")
        up = np.unpackbits(packed, axis=1, count=self._start.n_units, bitorder="little")
        return self._start.convention.values(up)

    @property
    def best_energies(self) -> np.ndarray:
        """The energies of `best_states`, offset included."""
        return self._best("best_energies")

    def _best(self, name: str) -> np.ndarray:
        if self.kind != "sample" or self._settings.get("keep") != "best":
            raise AttributeError('best states are kept by sample(..., keep="best").')
        return np.array(self._reader.state[name])

    @property
    def acceptance(self) -> float | None:
        """Flips of units for each attempt, since the start; None for cluster moves, and where nothing was done."""
        settings, state = self._settings, self._reader.state
        n_swept = int(state["n_swept"])
        if "n_flips" not in state or not n_swept:
            return None
        n_free = self._start.n_units - len(self._reader.inputs.get("clamp/indices", ()))
        n_replicas = settings["n_chains"] * (len(self.betas) if self._sampler == "tempering" else 1)
        return int(state["n_flips"]) / (n_swept * n_free * n_replicas)

    @property
    def swap_rates(self) -> np.ndarray:
        """The part of the swaps of neighbouring temperatures that were accepted, (n_betas - 1,), from sample to
        sample; NaN where none was tried.
        """
        self._need("tempering/attempted", "swaps")
        attempted, accepted = (self._reader.read(f"tempering/{name}") for name in ("attempted", "accepted"))
        if not len(attempted):
            return np.full(attempted.shape[1], np.nan)
        first = 0 if len(attempted) == 1 else 1
        tried = attempted[-1] - first * attempted[0]
        return np.where(tried > 0, (accepted[-1] - first * accepted[0]) / np.maximum(tried, 1), np.nan)

    @property
    def round_trips(self) -> np.ndarray:
        """Ways of replicas from the target to the hottest temperature and back, of every ladder since the start."""
        self._need("tempering/round_trips", "round trips")
        rows = self._reader.read("tempering/round_trips")
        return rows[-1] if len(rows) else np.zeros(rows.shape[1], np.int64)

    @property
    def burn_in_found(self) -> bool | None:
        """Whether burn_in="auto" found the chains stationary within its limit; None while it looks, or if not asked."""
        state = self._reader.state
        if self._settings["burn_in"] != "auto" or int(state["first_sweep"]) < 0:
            return None
        return bool(state["settled"])

    @property
    def burn_in(self) -> int | None:
        """Sweeps before those of the first sample; None while burn_in="auto" looks for them."""
        if self._settings["burn_in"] != "auto":
            return int(self._settings["burn_in"])
        first = int(self._reader.state["first_sweep"])
        return None if first < 0 else first

    @property
    def until_met(self) -> bool | None:
        """Whether the stopping rule was met; None while it may yet be, or if there is none."""
        if not self._settings.get("until"):
            return None
        met = int(self._reader.state["last_sweep"]) >= 0
        return True if met else (False if self._reader.finished else None)

    @property
    def r_hat(self) -> list[float]:
        """Rank-normalised split R-hat of the energy, one for each group of chains with one temperature (and clamped
        pattern); of long runs, from half a million energies.
        """
        return [q.r_hat for q in convergence.quantities(self) if q.name == "energy"]

    @property
    def verdicts(self) -> dict[str, bool | None]:
        """Whether chains agree, for each quantity that a sampling run tells, by its name and temperature: the energy,
        the observables, the means of single units (of the worst of them). Of a machine that is even under a flip of all
        units |m| and products of two units stand for means, which are 0 (of spins) by symmetry. None where nothing
        tells.
        """
        return convergence.verdicts(self)

    @property
    def doubt(self) -> str:
        """Why a sampling run has not `converged`, or why nothing tells; empty where it has."""
        return convergence.judge(self).reason if self.kind == "sample" else ""

    def thermodynamics(self) -> list[physics.Thermodynamics]:
        """Return energy, specific heat, magnetisation, susceptibility and Binder's cumulant with their errors, one row
        for each inverse temperature.
        """
        return physics.thermodynamics(self)

    def overlap_distribution(self, beta: float | None = None, bins: int | None = None) -> OverlapDistribution:
        """Return P(q), the distribution of overlaps of chains 2k and 2k + 1, at one of the run's temperatures."""
        return physics.overlap_distribution(self, beta, bins)

    def reweight(self, betas: Any, observable: Any = "energy") -> Reweighted:
        """Return means at other inverse temperatures than those that were sampled, each from the nearest of these.

        Parameters
        ----------
        betas : float or (n,) array
        observable : str or (n_samples, n_chains) array
            "energy" (of the whole machine), "magnetisation" (means of -1 and +1 for a unit, whatever the machine's
            units), the name of a recorded observable, or values of the samples.
        """
        return physics.reweight(self, betas, observable)
