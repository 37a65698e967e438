"""Diagnostics of the persistent free chains: whether they mix, and a histogram of their energies beside the data's.

Parameters move, and with them what chains are drawn from; but they move for all chains alike. So a few numbers of each
chain are recorded now and then, each record is brought to mean 0 and variance 1 over the chains, and rank-normalised
split R-hat tells whether chains that were high among the others stay high: 1 where they forget within the records.

Energies are those of visible units where the sum over hidden ones has a closed form.

Vehtari, Gelman, Simpson, Carpenter and Bürkner, Bayesian Anal. 16, 667 (2021), doi:10.1214/20-BA1221.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ... import diagnostics
from ..._base import rng
from ..._base.streams import Stream
from ..._base.threads import single_threaded_blas
from ...machine.clamping import log_sums_over_hidden
from ...machine.machine import BoltzmannMachine
from ..settings import FitSettings
from .looks import MOST_ROWS, Look, looks_of

Energies = Callable[[BoltzmannMachine, np.ndarray, float], np.ndarray]

BINS = 30
GRID = np.arange(BINS + 1.0)
FEWEST_STATES = 32
WORK = 1 << 27  # states times couplings, up to which a look is short
MOST_RECORDS = 32
FEWEST_RECORDS = 8
POWER_STEPS = 50
# A chain whose memory is tau records long has R-hat^2 = 1 + 2 tau / 16 or so over half of 32 records. The limit of
# samples that are to be averaged, 1.05, asks for a tau below 1; here tau may be 3.5, about 5 % of the epochs so far, as
# a gradient needs chains that follow the parameters, not independent ones.
R_HAT_OF_CHAINS = 1.2


def describe_unmixed(r_hat: float, n_epochs: int, free: str, n_sweeps: int, learning_rate: float) -> str:
    """Return that free chains do not mix after so many epochs, with the ways out of such settings."""
    ways = [f"raise n_sweeps (it was {n_sweeps})"]
    ways += {"gibbs": ['use free="tempering" or free="auto"'], "tempering": ["raise n_betas"]}.get(free, [])
    ways.append(f"lower learning_rate (it was {learning_rate:g})")
    text = ", or ".join(ways)
    return (
        f"free chains do not mix: r_hat = {r_hat:.3g} after epoch {n_epochs}, above {R_HAT_OF_CHAINS:g}; what was "
        f"learned may be biased. {text[0].upper()}{text[1:]}."
    )


def most_states(model: BoltzmannMachine) -> int:
    """Return how many chains, or rows, are monitored: at most 256, and fewer of large machines."""
    each = sum(array.size for array in model.couplings.arrays)
    return max(FEWEST_STATES, min(MOST_ROWS, WORK // max(each, 1)))


def energies(model: BoltzmannMachine, values: np.ndarray, beta: float) -> np.ndarray:
    """Return free energies F(v) = -log sum_h exp(-beta E(v, h)) of rows (m, at least n_visible); nats.

    Where hidden units are coupled to one another, beta E of whole states (m, n_units) in their place.
    """
    if model.layout == "restricted":
        return -log_sums_over_hidden(model, values[:, : model.n_visible], beta)
    return beta * model.energy_of_values(values)


class EnergyHistogram:
    """Histograms of the energies of free chains, and of rows whose hidden units can be summed out.

    All have the same equal bins, from the lowest energy to the highest.

    Parameters
    ----------
    start : BoltzmannMachine
    looks : mapping of name to Look
    beta : float
    """

    def __init__(self, start: BoltzmannMachine, looks: Mapping[str, Look], beta: float) -> None:
        self._looks = dict(looks) if start.hidden_are_independent else {}
        self._beta = beta

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that a run writes whenever energies are recorded."""
        counts = {f"energies/{name}": Stream("<i8", (BINS,)) for name in ("chains", *self._looks)}
        return {"energies/edges": Stream("<f8", (BINS + 1,)), "energies/epoch": Stream("<i8"), **counts}

    def __call__(self, model: BoltzmannMachine, chains: np.ndarray, epoch: int) -> dict[str, np.ndarray]:
        """Return one row of every stream; `chains` are energies of chains (n_chains,)."""
        found = {name: self._of_rows(model, look) for name, look in self._looks.items()}
        found["chains"] = chains
        every = np.concatenate(list(found.values()))
        low, high = float(every.min()), float(every.max())
        high = high if high > low else low + 1.0
        edges = low + GRID * ((high - low) / BINS)
        edges[-1] = high
        counts = {f"energies/{name}": _counts(values, edges)[None] for name, values in found.items()}
        return {"energies/edges": edges[None], "energies/epoch": np.array([epoch]), **counts}

    def _of_rows(self, model: BoltzmannMachine, look: Look) -> np.ndarray:
        log_sums = look.at(model)[1]
        return energies(model, look.values, self._beta) if log_sums is None else -log_sums


def _counts(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return how many values are between edges, the last bin with its upper end: `np.histogram` in less time."""
    below = np.searchsorted(np.sort(values), edges)
    below[-1] = len(values)
    return np.diff(below)


def principal_axis(covariance: Callable[[np.ndarray], np.ndarray], n: int, seed: int) -> np.ndarray:
    """Return the direction (n,) in which data vary most, approximately; 0 where they do not vary.

    `covariance` multiplies a vector by the covariance.
    """
    axis = rng.keyed(seed, rng.MONITOR, 5).normal(size=n)
    with single_threaded_blas():  # the same bits whatever the number of threads
        for _ in range(POWER_STEPS):
            axis = covariance(axis)
            size = float(np.linalg.norm(axis))
            axis = axis / size if size > 0 else np.zeros(n)
    return axis


class Mixing:
    """Records of the energy, the number of units up and the projection of visible units on an axis, of each chain.

    One is taken an epoch at first and then fewer, so that at most 32 reach back over the last half of the epochs, or a
    bit more.

    Parameters
    ----------
    axis : (n_visible,) array
    beta : float
    n_chains : int
        Those that are recorded.
    """

    def __init__(self, axis: np.ndarray, beta: float, n_chains: int) -> None:
        self._axis, self._beta = axis, beta
        self._n_chains = n_chains
        self.forget()

    def forget(self) -> None:
        """Drop all records, as chains move in another way from here on."""
        self._records = np.zeros((0, self._n_chains, 3), np.float32)
        self._n_epochs, self._spacing = 0, 1
        self._value: float | None = None

    def record(self, model: BoltzmannMachine, up: np.ndarray, look: Energies = energies) -> bool:
        """Record chains in states (n_chains, n_units) of 0 and 1 after an epoch; return whether that was done.

        `look` tells their energies.
        """
        self._n_epochs += 1
        if self._n_epochs % self._spacing:
            return False
        values = model.convention.values(up, np.float64)
        numbers = np.stack(
            [
                look(model, values, self._beta),
                up.sum(axis=1, dtype=np.float64),
                values[:, : model.n_visible] @ self._axis,
            ],
            axis=1,
        )
        self._records = np.concatenate([self._records, _standard(numbers)[None]])[-MOST_RECORDS:]
        if self._n_epochs >= 2 * MOST_RECORDS * self._spacing:
            self._records = self._records[1::2]
            self._spacing *= 2
        self._value = None
        return True

    @property
    def r_hat(self) -> float:
        """The largest R-hat of the three quantities; NaN with one chain, and until there are 8 records."""
        if self._value is None:
            enough = len(self._records) >= FEWEST_RECORDS and self._n_chains > 1
            self._value = float(np.max(diagnostics.r_hat(self._records))) if enough else float("nan")
        return self._value

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the records bit for bit."""
        return {"records": self._records, "count": np.array([self._n_epochs, self._spacing])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._records = np.array(state["records"])
        self._n_epochs, self._spacing = (int(number) for number in state["count"])
        self._value = None


def _standard(numbers: np.ndarray) -> np.ndarray:
    """Return columns scaled to mean 0 and variance 1, or 0 where they vary by rounding only."""
    centred = numbers - numbers.mean(axis=0)
    spread = centred.std(axis=0)
    varies = spread > 1e-12 * np.abs(numbers).max(axis=0, initial=0.0)
    scaled: np.ndarray = np.where(varies, centred / np.where(varies, spread, 1.0), 0.0)
    return scaled.astype(np.float32)


class ChainMonitor:
    """The monitor of the free chains, epoch by epoch: of the first 256, and fewer of large machines.

    Parameters
    ----------
    start : BoltzmannMachine
    data : mapping of name to array
        As `FitTask` takes them. Where rows lack entries none of them have energies.
    settings : FitSettings
    looks : mapping of name to Look
        Of rows and of those held out, which the pseudo-likelihood looks at too; fewer are looked at of large machines.
    """

    metric_names = ("r_hat",)

    def __init__(
        self, start: BoltzmannMachine, data: Mapping[str, Any], settings: FitSettings, looks: Mapping[str, Look]
    ) -> None:
        self._n_units, seed, most = start.n_units, settings.seed, most_states(start)
        self._n_chains = min(settings.n_chains, most)
        looks = looks if most == MOST_ROWS else looks_of(start, data, settings, most)
        whole = {name: look for name, look in looks.items() if look.complete}
        self._histogram = EnergyHistogram(start, whole, settings.beta)
        rows = {name: look.values for name, look in looks.items()}
        if "rows" in rows:
            known = ~np.isnan(rows["rows"])
            mean = rows["rows"].sum(axis=0, where=known) / np.maximum(known.sum(axis=0), 1)
            centred = np.where(known, rows["rows"] - mean, 0.0)
            axis = principal_axis(lambda v: centred.T @ (centred @ v), start.n_visible, seed)
        else:
            covariance = data["second_moment"] - np.outer(data["mean"], data["mean"])
            axis = principal_axis(lambda v: covariance @ v, start.n_visible, seed)
        self._mixing = Mixing(axis, settings.beta, self._n_chains)
        self._beta = settings.beta
        self._seen: tuple[BoltzmannMachine, np.ndarray] | None = None

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that a run writes beside metrics."""
        return self._histogram.streams

    @property
    def r_hat(self) -> float:
        """R-hat of the chains over the last records."""
        return self._mixing.r_hat

    def forget(self) -> None:
        """Drop all records, as chains move in another way from here on."""
        self._mixing.forget()

    def follow(self, model: BoltzmannMachine, packed: np.ndarray) -> bool:
        """Record the chains after an epoch, by their packed states; return whether that was due."""
        return self._mixing.record(model, self._bits(packed), self._energies)

    def measure(self, model: BoltzmannMachine, packed: np.ndarray, epoch: int) -> dict[str, np.ndarray]:
        """Return one row of the histograms."""
        if self._seen is None or self._seen[0] is not model:
            self._energies(model, model.convention.values(self._bits(packed), np.float64), self._beta)
        assert self._seen is not None
        found = self._histogram(model, self._seen[1], epoch)
        self._seen = None
        return found

    def _energies(self, model: BoltzmannMachine, values: np.ndarray, beta: float) -> np.ndarray:
        """Return the energies of chains, and keep them for the histogram of the same epoch."""
        self._seen = model, energies(model, values, beta)
        return self._seen[1]

    def _bits(self, packed: np.ndarray) -> np.ndarray:
        return np.unpackbits(packed[: self._n_chains], axis=1, count=self._n_units, bitorder="little")

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the monitor bit for bit."""
        return self._mixing.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._mixing.restore(state)
