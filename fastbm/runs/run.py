"""What a user holds of a run: samples, weights, metrics, the machine, the summary; live or finished, in memory or in
a file.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..data.rows import Rows
from ..diagnostics.verdicts import all_of
from ..inference.comparison import Cell, Comparison
from ..inference.conditional.apply import complete, reconstruct, transform
from ..inference.result import Inference, from_json
from ..learning.fidelity.fidelity import Fidelity
from ..learning.moments import Parameters
from ..learning.planted.comparison import RuleComparison
from ..learning.training_set import values_of
from ..machine.machine import BoltzmannMachine
from ..store import Memory, Reader
from .infer.task import COMPILE_SECONDS, RESULT
from .sample.convergence import has_converged
from .sample.run import Columns, SampledRun
from .sample.verdict import verdict_of
from .spec import read_model
from .summary import Summary, summarise


class Run(SampledRun):
    """A run, as `sample`, `fit`, `open` and `resume` return it.

    Attributes
    ----------
    path : Path or None
        Its file; None in memory.
    config : dict
        All that it was told (the spec).
    kind : {"sample", "fit", "infer", "compare", "rules"}
    metrics, weights, evaluation : mappings of name to array
        One row for each record; `metrics["step"]` and `weights["epoch"]` tell when. `evaluation` is the last look of
        `fit`.
    """

    def __init__(self, reader: Reader | Memory) -> None:
        self._reader = reader
        self.config: dict[str, Any] = reader.spec
        self.kind: str = self.config["kind"]
        self.path = None if reader.path is None else Path(reader.path)

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        return f"<Run: {self.kind}{where}, {'finished' if self.finished else 'unfinished'}>"

    def __reduce__(self) -> Any:
        """A pickled or copied run opens its file for itself; one in memory takes its rows along."""
        return Run, (self._reader,)

    @property
    def finished(self) -> bool:
        """Whether it came to its end."""
        return self._reader.finished

    @property
    def live(self) -> bool:
        """Whether a process is writing it."""
        return self._reader.live

    def refresh(self) -> Run:
        """Look for what was committed since; returns the run itself."""
        self._reader.refresh()
        self.config = self._reader.spec  # of a run that was extended it is another
        return self

    @property
    def metrics(self) -> Columns:
        return Columns(self._reader, "metrics")

    @property
    def weights(self) -> Columns:
        return Columns(self._reader, "weights")

    @property
    def evaluation(self) -> Columns:
        return Columns(self._reader, "evaluation")

    @property
    def energies(self) -> Columns:
        """Histograms of the energies of free chains and of rows, at most 256 of each, at every look of `fit`, over
        `edges`; nats. Hidden units are summed out where they are not coupled to one another; where rows lack entries
        there are none of theirs.
        """
        return Columns(self._reader, "energies")

    @property
    def likelihood(self) -> Columns:
        """What `fit` with `ais_every` found: log Z with its error, likelihoods, and the `epoch` of each row."""
        return Columns(self._reader, "likelihood")

    @property
    def errors(self) -> Columns:
        """Standard errors of learned couplings and biases, "weights" and "bias", where `fit` was asked for them."""
        return Columns(self._reader, "errors")

    @property
    def fidelity(self) -> Fidelity | None:
        """How the learned machine stands beside its data, where `fit` was asked for it and is done."""
        rows = Columns(self._reader, "fidelity")
        return Fidelity.of_rows(rows) if "n_rows" in rows and len(rows["n_rows"]) else None

    @cached_property
    def _start(self) -> BoltzmannMachine:
        if "model" not in self.config:
            raise AttributeError(f"a run of kind {self.kind!r} has no one model")
        return read_model(self._reader.inputs, self.config["model"])

    @property
    def model(self) -> BoltzmannMachine:
        """The machine that was sampled, or the machine as learned up to the last commit."""
        if self.kind != "fit":
            return self._start
        return Parameters.from_state(self._reader.state).machine(self._start)

    @property
    def _beta(self) -> float:
        """Where P ~ exp(-beta E) is the distribution of `model`: what it was learned at."""
        return float(self.config["fit"]["beta"]) if self.kind == "fit" else 1.0

    def transform(self, rows: Any, **options: Any) -> np.ndarray:
        """`fastbm.transform` by the machine, at the beta it was learned at unless told otherwise."""
        return transform(self.model, rows, **{"beta": self._beta, **options})

    def reconstruct(self, rows: Any, **options: Any) -> np.ndarray:
        """`fastbm.reconstruct` by the machine, at the beta it was learned at unless told otherwise."""
        return reconstruct(self.model, rows, **{"beta": self._beta, **options})

    def complete(self, rows: Any, **options: Any) -> np.ndarray:
        """`fastbm.complete` by the machine, at the beta it was learned at unless told otherwise."""
        return complete(self.model, rows, **{"beta": self._beta, **options})

    def sample(self, **options: Any) -> Run:
        """`fastbm.sample` of the machine, at the beta it was learned at unless told otherwise."""
        from .sample.verb import sample

        return sample(self.model, **{"beta": self._beta, **options})

    @property
    def data(self) -> dict[str, np.ndarray]:
        """What `fit` learned from, in the machine's units: "rows", and "holdout" and labels where there are any. Rows
        that lack entries are floats, NaN where one is missing. Rows that stayed in a file of their own, or came from a
        generator and were many, are not among them.
        """
        found = {}
        n_visible = self._start.n_visible
        for name, array in self._reader.inputs.items():
            group, _, key = name.partition("/")
            if group == "data" and key in ("rows", "holdout"):
                rows = Rows.of_packed(array, n_visible, self._reader.inputs.get(f"{name}_known"))
                kind = np.int8 if rows.complete else np.float64
                found[key] = values_of(self._start.convention, rows, slice(None), kind)
            elif group == "data" and not key.endswith("_known"):
                found[key] = array
        return found

    @property
    def inference(self) -> Inference:
        """The result of `infer`."""
        return self._results()[0]

    @property
    def comparison(self) -> Comparison:
        """The results of `compare`, as far as they are there."""
        cells = [
            Cell(c["model"], c["beta"], c["method"], result, c["seed"])
            for c, result in zip(self.config["cells"], self._results(), strict=False)
        ]
        return Comparison(tuple(cells))

    @property
    def rules(self) -> RuleComparison:
        """The results of `compare_rules`, as far as they are there."""
        self._need("results/gamma", "rules")
        seconds = self._reader.read("meta/seconds")
        return RuleComparison.of(self.config["cells"], Columns(self._reader, "results"), seconds)

    def _results(self) -> list[Inference]:
        self._need(f"results/{RESULT}", "results")
        texts, seconds = self._reader.read(f"results/{RESULT}"), self._reader.read("meta/seconds")
        apart = COMPILE_SECONDS in self._reader.streams
        compiling = self._reader.read(COMPILE_SECONDS) if apart else np.zeros(len(seconds))
        return [from_json(str(text), float(s), float(c)) for text, s, c in zip(texts, seconds, compiling, strict=True)]

    @property
    def converged(self) -> bool | None:
        """Whether chains agree in all that is told and a burn-in and a stopping rule were met where asked for
        (sampling), the gradient vanished where nothing curves down ("l-bfgs"), moments are the data's within the noise
        of both (chains of their own, by "monte-carlo" or "natural" steps), or all results converged; None where nothing
        tells, as of one chain. `doubt` says why, and `verdicts` of which quantity.
        """
        if self.kind == "sample":
            return has_converged(self)
        if self.kind in ("infer", "compare"):
            return all_of(result.converged for result in self._results())
        if self.kind == "rules":
            return all(cell.converged is not False and cell.skipped is None for cell in self.rules.cells)
        if (found := verdict_of(self)) is not None:
            return found.converged
        if self.config["fit"]["optimizer"] != "l-bfgs":
            return None
        gradients = self.metrics["gradient"]
        return bool(len(gradients) and gradients[-1] <= self.config["fit"]["tolerance"])

    def summary(self) -> Summary:
        """Return the run in a few numbers: a dict that prints as a table."""
        return summarise(self)
