"""Error bars against exact values over many seeds: who claims what, how often it holds, and what is wrong with it.

`python -m tests.support.truth_coverage 20 ais tempering` prints the whole table of some estimators with so many seeds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import fastbm as bm
from tests.support import truth_machines
from tests.support.machines import calm

NOMINAL, LEAST, MOST = 0.95, 0.90, 0.99  # coverage of 1.96 errors, and what it may be
POOLED_ALARM = 1e-3  # how often an estimator whose bars hold 0.95 fails by chance, for each quantity
CELL_ALARM = 1e-4  # how often one whose bars hold 0.90 fails by chance, for each machine and quantity
FAR = 5.0  # error bars
EASY, SURE = ("two units", "strong biases"), 0.9  # machines of which at least this part of the results converge
CROSSED, HALF = (
    ("two valleys", "two patterns", "critical"),
    0.5,
)  # and of log Z by tempering, which goes between valleys
LYING = 0.01  # most of the results that are far off that may say that they converged
FLUKES = 1e-3  # of those that converged, far off by chance; Student's t with 15 degrees of freedom has 1.6e-4 there

OPTIONS: dict[str, dict[str, Any]] = {
    "ais": {"n_chains": 128, "n_betas": 100},
    "reverse-ais": {"n_chains": 128, "n_betas": 100},
    "tempering": {"n_chains": 16, "n_sweeps": 200},
    "population-annealing": {"n_chains": 512, "n_populations": 16},
    "gibbs": {"n_chains": 8, "n_sweeps": 500},
    "metropolis": {"n_chains": 8, "n_sweeps": 500},
    "sampled-states": {"n_chains": 16, "n_sweeps": 200},
    "sample": {"n_chains": 8, "n_sweeps": 500},
}


class Claim(NamedTuple):
    """A number, or one for each unit, with its error bars, and whether they are to be believed."""

    quantity: str
    value: Any
    error: Any
    converged: bool | None


def machine_of(nasty: truth_machines.Nasty) -> bm.BoltzmannMachine:
    """The machine as users make it."""
    weights = [nasty.weights] if nasty.is_restricted else nasty.weights
    return bm.BoltzmannMachine(weights, nasty.bias, units=nasty.units)


def infer_claims(model: bm.BoltzmannMachine, beta: float, method: str, seed: int) -> Iterator[Claim]:
    """What a method of `infer` says."""
    found = calm(bm.infer, model, method, beta=beta, seed=seed, threads=1, **OPTIONS[method])
    if method == "sampled-states":
        log_z, error = found.detail["log_z_corrected"], found.detail["log_z_corrected_error"]
    else:
        log_z, error = found.log_z, found.log_z_error
    told = {
        "log_z": (log_z, error),
        "energy": (found.energy, found.energy_error),
        "mean": (found.mean, found.mean_error),
    }
    for quantity, (value, bar) in told.items():
        if value is not None and bar is not None:
            yield Claim(quantity, value, bar, found.converged)


def sample_claims(model: bm.BoltzmannMachine, beta: float, method: str, seed: int) -> Iterator[Claim]:
    """What the summary of a sampling run says, and the means of its states."""

    def order(states: np.ndarray) -> np.ndarray:
        return np.abs(states.mean(axis=1))

    options = {"observables": {"order": order}, **OPTIONS[method]}
    run: Any = calm(bm.sample, model, beta=beta, seed=seed, threads=1, **options)
    summary = run.summary()
    for quantity in ("energy", "order"):
        yield Claim(quantity, *summary[quantity], run.converged)
    if model.units == "spin" and not model.flat_bias.any():
        return  # the means are 0 by symmetry, and no run is asked for them
    units = np.moveaxis(np.asarray(run.states, float), 2, 0)
    errors = np.array([bm.diagnostics.standard_error(values) for values in units])
    mean = units.mean(axis=(1, 2))
    yield Claim("mean", mean, np.where(errors > 0, errors, np.inf), run.converged)  # units that never flip have no bar


@dataclass
class Cell:
    """What one estimator says of one quantity of one machine, over seeds.

    Each result counts by the part of its numbers that their bars hold: all units of a machine may move together.
    """

    estimator: str
    machine: str
    quantity: str
    held: list[float]
    worst: list[float]  # of a result's numbers, in error bars
    converged: list[bool]

    @property
    def n_converged(self) -> int:
        return sum(self.converged)

    @property
    def n_held(self) -> float:
        return sum(held for held, sure in zip(self.held, self.converged, strict=True) if sure)

    @property
    def n_far(self) -> int:
        return sum(worst > FAR for worst in self.worst)

    @property
    def n_lies(self) -> int:
        return sum(worst > FAR and sure for worst, sure in zip(self.worst, self.converged, strict=True))

    @property
    def coverage(self) -> float:
        return self.n_held / self.n_converged if self.n_converged else np.nan

    def __str__(self) -> str:
        where = f"{self.estimator:<20} {self.machine:<14} {self.quantity:<7}"
        told = f"{self.n_converged:4d} of {len(self.held)} converged"
        covers = f"coverage of these {self.coverage:5.3f}, of all {np.mean(self.held):5.3f}"
        return f"{where} {told}, {covers}, far off {self.n_far:3d}, of these converged {self.n_lies:3d}"


def collect(estimator: str, machine: str, seeds: Sequence[int]) -> list[Cell]:
    """Ask an estimator about a machine with every seed."""
    nasty, truth = truth_machines.MACHINES[machine], truth_machines.exact(machine)
    model = machine_of(nasty)
    ask: Callable[..., Iterator[Claim]] = sample_claims if estimator == "sample" else infer_claims
    cells: dict[str, Cell] = {}
    for seed in seeds:
        for claim in ask(model, nasty.beta, estimator, seed):
            z = deviations(claim, getattr(truth, claim.quantity))
            cell = cells.setdefault(claim.quantity, Cell(estimator, machine, claim.quantity, [], [], []))
            cell.held.append(float((z <= stats.norm.ppf((1 + NOMINAL) / 2)).mean()))
            cell.worst.append(float(z.max()))
            cell.converged.append(claim.converged is True)
    return list(cells.values())


def deviations(claim: Claim, truth: Any) -> np.ndarray:
    """How many error bars a claim is off; a bar of 0 holds what is right to rounding, and nothing else."""
    off, bars = np.abs(np.subtract(claim.value, truth)), np.asarray(claim.error, float)
    assert np.isfinite(off).all() and (bars >= 0).all(), claim
    right = off <= 1e-9 * np.maximum(np.abs(truth), 1.0)
    return np.atleast_1d(np.where(right, 0.0, off / np.where(bars > 0, bars, np.finfo(float).tiny)))


def failures(cells: Sequence[Cell]) -> list[str]:
    """What is wrong with an estimator, one line for each fault."""
    lines = []
    for quantity in dict.fromkeys(cell.quantity for cell in cells):
        some = [cell for cell in cells if cell.quantity == quantity]
        where = f"{some[0].estimator:<20} {'all machines':<14} {quantity:<7}"
        lines += [f"{where} {fault}" for fault in (*_pooled_coverage(some), *_lies(some))]
        lines += [f"{cell}: covers too little" for cell in some if _holds_too_little(cell)]
        lines += [f"{cell}: right, and yet not sure" for cell in some if _is_timid(cell)]
    return lines


def _pooled_coverage(cells: Sequence[Cell]) -> list[str]:
    n, held = sum(cell.n_converged for cell in cells), sum(cell.n_held for cell in cells)
    lines = []
    if n and held < LEAST * n and stats.binom.cdf(np.floor(held), n, NOMINAL) < POOLED_ALARM:
        lines.append(f"covers {held / n:.3f} of {n} results, below {LEAST}")
    if n and held > MOST * n and stats.binom.sf(np.ceil(held) - 1, n, NOMINAL) < POOLED_ALARM:
        lines.append(f"covers {held / n:.3f} of {n} results, above {MOST}: its bars are too wide")
    return lines


def _lies(cells: Sequence[Cell]) -> list[str]:
    n_far, n_lies = sum(cell.n_far for cell in cells), sum(cell.n_lies for cell in cells)
    if n_lies <= max(LYING * n_far, np.ceil(FLUKES * sum(cell.n_converged for cell in cells))):
        return []
    where = ", ".join(f"{cell.machine} ({cell.n_lies})" for cell in cells if cell.n_lies)
    return [f"{n_lies} of {n_far} results more than {FAR:g} bars off say that they converged: {where}"]


def _holds_too_little(cell: Cell) -> bool:
    return bool(stats.binom.cdf(np.floor(cell.n_held), cell.n_converged, LEAST) < CELL_ALARM)


def _is_timid(cell: Cell) -> bool:
    crossed = (cell.estimator, cell.quantity) == ("tempering", "log_z") and cell.machine in CROSSED
    least = SURE if cell.machine in EASY else HALF if crossed else 0.0
    return cell.n_converged < least * len(cell.held)


def main(n_seeds: str, *estimators: str) -> None:
    """Print all cells, then all faults."""
    faults = []
    for name in estimators or OPTIONS:
        started = time.process_time()
        cells = [cell for machine in truth_machines.MACHINES for cell in collect(name, machine, range(int(n_seeds)))]
        print(*cells, f"{time.process_time() - started:.1f} s of processor time", sep="\n", flush=True)
        faults += failures(cells)
    print("", *faults, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
