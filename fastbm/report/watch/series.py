"""What a running run has found of late: windows on its last rows, that grow by what is new at each look."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from ... import diagnostics
from ...inference.result import from_json
from ...runs.infer.task import RESULT
from ...runs.run import Run
from ...runs.sample.convergence import Quantity, groups, quantities_of, watched_names
from ...runs.sample.samples import Samples
from ...store import Reader, last_rows

MOST_NUMBERS, FEWEST_ROWS, MOST_ROWS = 1 << 15, 64, 4096  # of a window
MOST_COMMITS = 64  # that are opened for one look
MOST_GROUPS = 16  # of chains, that diagnostics are told of
SPARKED = ("log_likelihood", "pseudo_likelihood", "objective", "moment_error", "gradient")


class Line(NamedTuple):
    """One line of a view: a label, a text, and maybe numbers to be drawn beside it."""

    label: str
    text: str
    values: np.ndarray | None = None


class Window:
    """The last rows of one stream.

    Attributes
    ----------
    rows : (n, ...) array
    start, end : int
        The numbers of the first of these rows, and of the one after the last.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = self.end = 0
        self.rows = np.empty(0)

    def update(self, reader: Reader) -> None:
        """Take in what is new."""
        end = reader.n_rows(self.name)
        if end == self.end:
            return
        if end < self.end:  # what was read is computed again
            self.end = 0
        stream = reader.streams[self.name]
        most = int(np.clip(MOST_NUMBERS // max(1, int(np.prod(stream.shape))), FEWEST_ROWS, MOST_ROWS))
        start, rows = last_rows(reader, self.name, min(most, end - self.end), MOST_COMMITS)
        before = self.rows if self.end and start == self.end else rows[:0]
        self.rows = np.concatenate([before, rows])[-most:]
        self.end = start + len(rows)
        self.start = self.end - len(self.rows)


class Recent:
    """The windows that a run of any kind is looked at through."""

    def __init__(self, run: Run, reader: Reader) -> None:
        self._run, self._reader = run, reader
        self._windows: dict[str, Window] = {}

    def lines(self) -> list[Line]:
        """Return what is to be told of the run, after a look at what is new."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # chains that do not move have no diagnostics
            return LINES[self._run.kind](self)

    def _rows(self, name: str) -> np.ndarray:
        """Return the last rows of a stream; none where the run has no such stream."""
        return self._window(name).rows

    def _window(self, name: str) -> Window:
        window = self._windows.setdefault(name, Window(name))
        if name in self._reader.streams:
            window.update(self._reader)
        return window

    def _later_half(self, name: str) -> np.ndarray:
        """Of the rows in a window, those of the later half of the run."""
        window = self._window(name)
        return window.rows[max(0, window.end // 2 - window.start) :]

    @property
    def _samples(self) -> Samples:
        assert isinstance(self._run, Samples)
        return self._run

    @property
    def _n_units(self) -> int:
        return int(sum(self._run.config["model"]["sizes"]))

    def sample(self) -> list[Line]:
        """Tell energies, diagnostics, and how temperatures mix."""
        if not self._samples.has_chains:
            return self._schedule()
        energy = self._rows("samples/energy")
        if not len(energy):
            burn_in = self._run.config["sample"]["burn_in"]
            sought = "its end is looked for" if burn_in == "auto" else f"{burn_in} sweeps"
            return [Line("burn-in", f"{sought}; no samples yet")] if burn_in else []
        lines = [Line("energy", self._energy(), energy.mean(axis=1) / self._n_units)]
        series = {name: self._later_half(stream) for name, stream in watched_names(self._samples).items()}
        lines += self._diagnostics({k: v for k, v in series.items() if len(v) >= 4 and np.isfinite(v).all()})
        return lines + self._ladder()

    def _energy(self) -> str:
        """Energies per unit over the later half (of a relaxation at its end), of the first and the last temperature."""
        energy, together = self._later_half("samples/energy") / self._n_units, groups(self._samples)
        energy = energy[-1:] if self._samples.at_log_times else energy
        first, last = (_pair(energy[:, chains]) for chains in (together[0], together[-1]))
        if len(together) == 1:
            return f"{first} a unit"
        betas = [self._samples.beta[chains[0]] for chains in (together[0], together[-1])]
        return f"{first} to {last} a unit, beta {betas[0]:g} to {betas[1]:g}"

    def _diagnostics(self, series: dict[str, np.ndarray]) -> list[Line]:
        """Tell R-hat and ess on the last sweeps that the windows of all series hold."""
        n = min(map(len, series.values()), default=0)
        series = {name: values[-n:] for name, values in series.items()}
        together = groups(self._samples)
        chosen = [together[k] for k in np.unique(np.linspace(0, len(together) - 1, MOST_GROUPS).astype(int))]
        watched = quantities_of(self._samples, series, chosen, ess=True) if series else []
        known = [q for q in watched if np.isfinite(q.r_hat)]
        if not known:
            return []
        sweeps = self._rows("samples/sweep")[-n:]
        worst: dict[str, Quantity] = {}
        for q in sorted(known, key=lambda q: q.r_hat):
            worst[q.name] = q
        text = ", ".join(f"{name} {q.r_hat:.3f}" for name, q in worst.items())
        least = min(known, key=lambda q: q.ess_bulk)
        ess = f"{least.ess_bulk:.4g} bulk, {min(q.ess_tail for q in known):.4g} tail"
        return [
            Line("r_hat", f"{text}; sweeps {sweeps[0]}-{sweeps[-1]}"),
            Line("ess", f"{ess} ({least.label}); the same sweeps"),
        ]

    def _ladder(self) -> list[Line]:
        """Describe swaps between neighbours within the window, the worst pair, and round trips since the start."""
        attempted, accepted = self._rows("tempering/attempted"), self._rows("tempering/accepted")
        if not len(attempted):
            return []
        first = 0 if len(attempted) == 1 else 1
        tried, taken = attempted[-1] - first * attempted[0], accepted[-1] - first * accepted[0]
        rates, betas = np.where(tried > 0, taken / np.maximum(tried, 1), np.nan), self._samples.betas
        trips = self._rows("tempering/round_trips")
        lines = [Line("round trips", f"{trips[-1].sum()}, {trips[-1].min()} to {trips[-1].max()} a ladder")]
        if np.isnan(rates).all():
            return lines
        least = int(np.nanargmin(rates))
        text = f"{np.nanmin(rates):.2f} to {np.nanmax(rates):.2f}; least at beta {betas[least]:g}-{betas[least + 1]:g}"
        return [Line("swap rates", text, rates), *lines]

    def _schedule(self) -> list[Line]:
        """Energies on the way down a schedule."""
        group = "annealing" if "annealing/energy" in self._reader.streams else "population"
        energy, beta = self._rows(f"{group}/energy"), self._rows(f"{group}/beta")
        if not len(energy):
            return []
        means = energy.reshape(len(energy), -1).mean(axis=1) / self._n_units
        lines = [Line("energy", f"{means[-1]:.5g} a unit at beta {beta[-1]:.4g}", means)]
        families, log_z = self._rows("population/n_families"), self._rows("population/log_z")
        if len(families):
            lines.append(Line("families", f"{families[-1]} left; log Z {log_z[-1]:.6g}"))
        return lines

    def fit(self) -> list[Line]:
        """Tell the last of every metric, and the course of likelihood and moments."""
        names = [name.removeprefix("metrics/") for name in self._reader.streams if name.startswith("metrics/")]
        lines = []
        for name in sorted(set(names) - {"step"}, key=lambda name: SPARKED.index(name) if name in SPARKED else 99):
            values = self._rows(f"metrics/{name}")
            known = values[np.isfinite(values)]
            if len(known):
                spark = known if name in SPARKED and len(known) > 1 else None
                lines.append(Line(name.replace("_", "-") if name != "r_hat" else name, f"{known[-1]:.6g}", spark))
        return lines

    def cells(self) -> list[Line]:
        """Tell the last result, and the cell at work."""
        done = self._reader.n_rows(f"results/{RESULT}")
        lines = []
        if done:
            result = from_json(str(self._reader.read(f"results/{RESULT}", done - 1)[0]), 0.0)
            log_z = "" if result.log_z is None else f": log Z {_result(result.log_z, result.log_z_error)}"
            doubt = {True: "", False: ", not converged", None: ", may not have converged"}[result.converged]
            skipped = f": skipped, {result.detail['skipped']}" if "skipped" in result.detail else ""
            lines.append(Line("last", f"{self._cell(done - 1)}{skipped or log_z + doubt}"))
        return lines + self._next(done)

    def rules(self) -> list[Line]:
        """Tell the last result of a comparison of rules, and the cell at work."""
        done = self._reader.n_rows("results/gamma")
        lines = []
        if done:
            gamma = float(self._reader.read("results/gamma", done - 1)[0])
            message = f"gamma {gamma:.4g}" if np.isfinite(gamma) else "no gamma"
            lines.append(Line("last", f"{self._cell(done - 1)}: {message}"))
        return lines + self._next(done)

    def _next(self, done: int) -> list[Line]:
        more = done < len(self._run.config["cells"])
        return [Line("at work on", self._cell(done))] if more and not self._reader.finished else []

    def _cell(self, k: int) -> str:
        cell: dict[str, Any] = self._run.config["cells"][k]
        return f"{cell.get('rule') or cell['method']}, {cell['model']}, beta {cell['beta']:g}"


LINES = {"sample": Recent.sample, "fit": Recent.fit, "infer": Recent.cells, "compare": Recent.cells,
         "rules": Recent.rules}  # fmt: skip


def _pair(values: np.ndarray) -> str:
    """Mean and standard error of chains, (n, k)."""
    error = float(diagnostics.standard_error(values)) if len(values) >= 4 else float("nan")
    return f"{values.mean():.4g}" + (f" +- {error:.1g}" if error > 0 else "")


def _result(value: Any, error: Any) -> str:
    """Write log Z with its error; for many patterns, their range."""
    values = np.atleast_1d(value)
    if len(values) > 1:
        return f"{values.min():.6g} to {values.max():.6g}"
    error = None if error is None else float(np.atleast_1d(error)[0])
    return f"{values[0]:.8g}" + (f" +- {error:.2g}" if error else " (exact)" if error == 0.0 else "")
