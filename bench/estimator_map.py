"""Which method says log Z and the means most cheaply, by kind of machine, size and temperature.

python -m bench.estimator_map map.csv [kind ...]

In each cell every method runs at a few efforts, on three machines of its kind. The map names the cheapest that keeps
the tolerances on all three, and the cheapest that does so and says so itself: an exact sum, or a result that calls
itself converged with error bars within the tolerances. Truths are exact sums; where none is in reach, what the two
sampling methods with the smallest error bars say of log Z, if they agree, else the cell is left out, and the means with
the smallest. CPU seconds of one thread, medians over the machines; below them, for each method, what its least effort
took and how far its log Z was off at its most, at worst.
"""

from __future__ import annotations

import csv
import itertools
import math
import sys
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fastbm as bm
from fastbm.inference.exact import forecast_seconds

LOG_Z, MEANS = 0.1, 0.01  # tolerances: nats, and the root mean square over units
SIZES, BETAS, SEEDS = (8, 16, 32, 100, 1000), (0.2, 0.7, 2.0), (0, 1, 2)
CAP = 1.5  # CPU seconds that the most effort of a method takes, about
GROWTH = 5.0  # of the seconds from one effort to the next, about
REACH = 5.0  # seconds forecast up to which exact sums are the truth
DEARER = 10.0  # times as dear as an exact sum: no more effort is tried
COLUMNS = (("log Z", False, False), ("log Z, sure", False, True), ("both", True, False), ("both, sure", True, True))

EFFORTS: dict[str, list[dict[str, Any]]] = {
    "exact": [{}],
    "mean-field": [{}],
    "tap": [{}],
    "bethe": [{}],
    "importance-sampling": [{"n_sweeps": n} for n in (250, 2_000)],
    "ais": [{"n_betas": n} for n in (20, 100, 500, 2_500)],
    "sampled-states": [{"n_sweeps": n} for n in (50, 400)],
    "population-annealing": [{"n_chains": n} for n in (256, 1_024, 8_192)],
    "tempering": [{"n_sweeps": n} for n in (50, 400, 3_200)],
}
SAMPLING = ("importance-sampling", "ais", "population-annealing", "tempering")


@dataclass(frozen=True)
class Trial:
    """One run: CPU seconds, what it found."""

    seconds: float
    found: bm.Inference

    @property
    def log_z(self) -> float:
        """The estimate; of "sampled-states" the corrected value; nan where there is none."""
        log_z = self.found.detail.get("log_z_corrected", self.found.log_z)
        return math.nan if log_z is None else float(log_z)

    @property
    def error(self) -> float:
        """The error bar; inf where there is none."""
        if self.found.bound == "exact":
            return 0.0
        error = self.found.detail.get("log_z_corrected_error", self.found.log_z_error)
        return math.inf if error is None else float(error)

    @property
    def mean_error(self) -> float:
        """Root mean square of the error bars of the means; inf where there are none."""
        if self.found.bound == "exact":
            return 0.0
        return math.inf if self.found.mean_error is None else _rms(self.found.mean_error)

    def vouches(self, means: bool) -> bool:
        """Whether it says itself that it keeps the tolerances, that of log Z or both."""
        sure = self.found.converged is True and 2 * self.error <= LOG_Z
        return sure and (not means or self.mean_error <= MEANS)

    def keeps(self, log_z: float, mean: np.ndarray | None, means: bool) -> bool:
        """Whether it does."""
        close = abs(self.log_z - log_z) <= LOG_Z
        return close and (not means or (mean is not None and _rms(self.found.mean - mean) <= MEANS))


def machine(kind: str, n: int, seed: int) -> bm.BoltzmannMachine:
    """A machine of a kind, in spins, whose couplings are strong from beta = 1 on."""
    scale, draws = 2.0 / math.sqrt(n), np.random.default_rng(seed)
    if kind == "glass":
        return bm.models.random_machine(n, bias_scale=0.1, seed=seed)
    if kind == "restricted":
        hidden = min(n // 4, 20)
        return bm.models.restricted(n - hidden, hidden, scale=scale, units="spin", seed=seed)
    if kind == "deep":
        sizes = [n // 2, n // 4, n // 4]
        blocks = [draws.normal(scale=scale, size=shape) for shape in itertools.pairwise(sizes)]
        return bm.BoltzmannMachine(blocks, [draws.normal(scale=0.1, size=size) for size in sizes], units="spin")
    if kind == "lattice":
        rows = {8: 2, 16: 4, 32: 4, 100: 10, 1000: 25}[n]
        return bm.models.edwards_anderson((rows, n // rows), distribution="gaussian", periodic=False, seed=seed)
    if kind == "tree":
        return bm.models.random_tree(n, bias_scale=0.3, seed=seed)
    from scipy.sparse import coo_array

    i, j = np.triu_indices(n, 1)
    edges = draws.choice(len(i), size=3 * n // 2, replace=False)
    half = coo_array((draws.normal(size=len(edges)), (i[edges], j[edges])), shape=(n, n))
    return bm.BoltzmannMachine((half + half.T).tocsr(), draws.normal(scale=0.3, size=n), units="spin")


KINDS = ("glass", "sparse", "lattice", "tree", "restricted", "deep")


def climb(model: bm.BoltzmannMachine, beta: float, seed: int, dear: set[str]) -> dict[str, list[Trial]]:
    """Run every method with more and more effort, until it vouches for itself or takes too long."""
    found: dict[str, list[Trial]] = {}
    longest = CAP
    for method, options in EFFORTS.items():
        if method in dear or (method == "exact" and forecast_seconds(model, moments=True) > REACH):
            continue
        trials: list[Trial] = []
        for given in options:
            start = time.process_time()
            try:
                result = bm.infer(model, method, beta=beta, seed=seed, threads=1, **given)
            except ValueError:  # not for machines of this kind
                break
            taken = max(time.process_time() - start - result.compile_seconds, 1e-5)
            trials.append(Trial(taken, result))
            if trials[-1].vouches(means=True) or taken > longest / GROWTH:
                break
        if trials:
            found[method] = trials
        if method == "exact" and trials:
            longest = min(CAP, DEARER * GROWTH * trials[0].seconds)
    return found


def truth(found: dict[str, list[Trial]]) -> tuple[float, np.ndarray | None] | None:
    """log Z and means: exact, or log Z of the two best that sampled, where they agree, and the best means."""
    if "exact" in found:
        return found["exact"][0].log_z, found["exact"][0].found.mean
    last = [found[method][-1] for method in SAMPLING if method in found]
    sure = sorted((one for one in last if one.vouches(means=False)), key=lambda one: one.error)
    if len(sure) < 2 or abs(sure[0].log_z - sure[1].log_z) > 4.0 * math.hypot(sure[0].error, sure[1].error):
        return None
    means = min((one for one in last if one.vouches(means=True)), key=lambda one: one.mean_error, default=None)
    return sure[0].log_z, None if means is None else means.found.mean


def cell(kind: str, n: int, beta: float, dear: set[str]) -> tuple[dict[str, Any], dict[str, float]]:
    """One row of the map, and what the least effort of each method took."""
    trials: dict[str, list[list[Trial]]] = defaultdict(list)
    truths: list[tuple[float, np.ndarray | None]] = []
    for seed in SEEDS:
        found = climb(machine(kind, n, seed), beta, seed, dear)
        for method, tried in found.items():
            trials[method].append(tried)
        if (true := truth(found)) is None:
            break
        truths.append(true)
    least = {method: min(tried[0].seconds for tried in runs) for method, runs in trials.items()}
    row: dict[str, Any] = {"kind": kind, "n": n, "beta": beta, "truth": "none"}
    if len(truths) == len(SEEDS):
        row["truth"] = "exact" if "exact" in trials else "sampled"
        for name, means, sure in COLUMNS:
            row |= _cheapest(name, trials, truths, means, sure)
        for method, runs in trials.items():
            off = [abs(tried[-1].log_z - true[0]) for tried, true in zip(runs, truths, strict=False)]
            row[f"{method}: s"], row[f"{method}: off"] = f"{least[method]:.2g}", f"{max(off):.2g}"
        left = [tried[0].found.detail["left_out"] for tried in trials["mean-field"]]
        row["left out"] = f"{max(left):.2g}"
    return row, least


def _cheapest(
    name: str, trials: dict[str, list[list[Trial]]], truths: list[Any], means: bool, sure: bool
) -> dict[str, Any]:
    """The cheapest method that keeps the tolerances on all machines, at the least effort of each, and its seconds."""
    fit = []
    for method, runs in trials.items():
        good = [
            next((t.seconds for t in tried if t.keeps(*true, means) and (not sure or t.vouches(means))), math.inf)
            for tried, true in zip(runs, truths, strict=False)
        ]
        if len(good) == len(SEEDS) and max(good) < math.inf:
            fit.append((float(np.median(good)), method))
    seconds, method = min(fit, default=(math.nan, "-"))
    return {name: method, f"{name}: s": f"{seconds:.2g}"}


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def main(arguments: list[str]) -> int:
    """Write the map as CSV, a row at a time."""
    names = ["kind", "n", "beta", "truth", *(f"{name}{more}" for name, _, _ in COLUMNS for more in ("", ": s"))]
    names += ["left out", *(f"{method}: {what}" for method in EFFORTS for what in ("s", "off"))]
    with warnings.catch_warnings(), Path(arguments[0]).open("w") as file:
        warnings.simplefilter("ignore")
        out = csv.DictWriter(file, names)
        out.writeheader()
        for kind in arguments[1:] or KINDS:
            climb(machine(kind, 16, 0), 0.7, 0, set())  # compiles
            dear: set[str] = set()
            for n in SIZES:
                costs: dict[str, list[float]] = defaultdict(list)
                for beta in BETAS:
                    row, least = cell(kind, n, beta, dear)
                    out.writerow(row)
                    file.flush()
                    for method, seconds in least.items():
                        costs[method].append(seconds)
                dear |= {method for method, seconds in costs.items() if min(seconds) > CAP}
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
