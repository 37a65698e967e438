"""Records of a run of `sample`: states, energies, observables, and diagnostics of the sampler."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ...sampling import valleys
from ...sampling.engine.orders import DRAWN
from ...sampling.times import LOG
from ...store import Memory, Reader
from ..records import Columns, LazyStates, States
from ..run import Run


class Samples(Run):
    """The records of a run of `sample`, without a verdict on them."""

    def __init__(self, reader: Reader | Memory) -> None:
        super().__init__(reader)
        self.found: dict[str, Any] = {}  # in the records, and in which of them

    @property
    def _settings(self) -> dict[str, Any]:
        found: dict[str, Any] = self.config["sample"]
        return found

    @property
    def _sampler(self) -> str:
        return str(self._settings["sampler"])

    def check_records(self) -> None:
        """Raise a ValueError where a sample lacks its state, its energy, its sweep or an observable."""
        names = [name for name in self._reader.streams if name.startswith(("samples/", "observables/", "ladder/"))]
        counts = {name: self._reader.n_rows(name) for name in names}
        if self._settings.get("keep") == "all" and "samples/states" not in counts:
            raise ValueError("it keeps all states, and samples/states is missing")
        if len(set(counts.values())) > 1:
            raise ValueError(f"samples and what was recorded of them differ in number: {counts}")

    @property
    def has_chains(self) -> bool:
        """Whether chains stay at one temperature each, so that their samples are series in time."""
        return self._sampler not in ("annealing", "population-annealing")

    @property
    def at_log_times(self) -> bool:
        """Whether samples were taken at logarithmic times, so that they are a relaxation and no even series."""
        return bool(self._settings["thin"] == LOG)

    @property
    def shares_order(self) -> bool:
        """Whether there are several chains, all of which visit the same units in an order that is drawn.

        Each update keeps the equilibrium, whatever its unit, so that of states there the order tells nothing and chains
        are independent. Before, means over chains vary with the order, and correlations in time always do.
        """
        return self._settings["n_chains"] > 1 and self._settings.get("order") in DRAWN

    @property
    def times(self) -> np.ndarray:
        """Sweeps from the end of the burn-in to each sample, (n_samples,) int64."""
        return self.sweep - (self.burn_in or 0)

    @property
    def beta(self) -> np.ndarray:
        """Inverse temperature of every chain, (n_chains,)."""
        return np.repeat(self._settings["beta"], self._settings["n_chains"] // len(self._settings["beta"]))

    @cached_property
    def _start_is_even(self) -> bool:
        """Whether the machine is even under a flip of all units, as far as the coldest chains can tell."""
        return valleys.is_even(self._start, float(max(self.config["sample"]["beta"])))

    @property
    def _n_samples(self) -> int:
        """Number of samples that were recorded."""
        self._need("samples/sweep", "sweeps")
        return self._reader.n_rows("samples/sweep")

    @property
    def betas(self) -> np.ndarray:
        """Inverse temperatures, (n_betas,): a ladder's, the steps of a population, else each of the chains' once."""
        if self._sampler == "population-annealing":
            return self._reader.read("population/beta")
        return np.array(self._settings["betas"] if self._sampler == "tempering" else np.unique(self.beta))

    @property
    def ladder_states(self) -> States:
        """States at every temperature of the ladders, (n_samples, n_chains, n_betas, n_units) int8, as `states`.

        Only of sampler="tempering" with record="all"; the temperatures are `betas`.
        """
        if "ladder/states" not in self.streams:
            raise AttributeError('this run has no states at every temperature: tempering with record="all" keeps them.')
        lazy = LazyStates(self._reader, "ladder/states", self._start.convention)
        return np.asarray(lazy) if isinstance(self._reader, Memory) else lazy

    @property
    def ladder_observables(self) -> Mapping[str, np.ndarray]:
        """Observables at every temperature of the ladders by name, (n_samples, n_chains, n_betas), or of pairs.

        Only of sampler="tempering"; of observables that are functions only with record="all".
        """
        return {name: array for name, array in Columns(self._reader, "ladder").items() if name != "states"}

    @property
    def best_states(self) -> np.ndarray:
        """Distinct states of lowest energy that were seen, (at most k, n_units) int8 in the model's units.

        Only with keep="best". The lowest come first, ties are ordered by their bits.
        """
        packed = self._best("best_states")
        up = np.unpackbits(packed, axis=1, count=self._start.n_units, bitorder="little")
        return self._start.convention.values(up)

    @property
    def best_energies(self) -> np.ndarray:
        """The energies of `best_states`, offset included."""
        return self._best("best_energies")

    @property
    def acceptance(self) -> float | None:
        """Accepted flips for each attempt, since the start; None for cluster moves, and where nothing was done."""
        settings, state = self._settings, self._reader.state
        n_swept = int(state["n_swept"])
        if "n_flips" not in state or not n_swept:
            return None
        n_free = self._start.n_units - len(self._reader.inputs.get("clamp/indices", ()))
        n_replicas = settings["n_chains"] * (len(self.betas) if self._sampler == "tempering" else 1)
        return int(state["n_flips"]) / (n_swept * n_free * n_replicas)

    @property
    def swap_rates(self) -> np.ndarray:
        """Fraction of swaps accepted between neighbouring temperatures, (n_betas - 1,).

        NaN where none was tried. Counted from the first sample to the last.
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
        """Round trips of replicas, from the target to the hottest temperature and back, for every ladder."""
        self._need("tempering/round_trips", "round trips")
        rows = self._reader.read("tempering/round_trips")
        return rows[-1] if len(rows) else np.zeros(rows.shape[1], np.int64)

    @property
    def burn_in_found(self) -> bool | None:
        """Whether burn_in="auto" found the chains stationary within its limit; None until decided, or if not asked."""
        if self._settings["burn_in"] != "auto":
            return None
        state = self._reader.state
        return bool(state["settled"]) if int(state["first_sweep"]) >= 0 else None

    @property
    def burn_in(self) -> int | None:
        """Number of sweeps before those of the first sample; None until burn_in="auto" has found it."""
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

    def _best(self, name: str) -> np.ndarray:
        if self._settings.get("keep") != "best":
            raise AttributeError('best states are kept by sample(..., keep="best").')
        return np.array(self._reader.state[name])
