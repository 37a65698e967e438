"""A run of `fit`: its convergence and its summary, and how its task is made again from its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...learning.learners.climbs import enough_iterations
from ...learning.settings import FitSettings
from ...store import Extension
from ..loop import Task
from ..spec import Given, read_model
from .data import read_again, stored_rows
from .learned import Learned
from .summary import summarise_fit
from .task import FitTask, before_end
from .verdict import doubt_of, evidence_of, verdict_of, warn_of_learning

UNPACKED = ("weights", "labels", "holdout_labels", "mean", "second_moment", "n_samples")  # arrays of data, as they are


class FitRun(Learned):
    """A run of `fit`, whose records are those of `Learned`.

    `Run` says what all runs have.
    """

    counted = "epochs"
    takes = frozenset({"data", "executor"})

    @classmethod
    def task(cls, spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, given: Given) -> Task:
        """Make the task that a spec describes."""
        start = read_model(inputs, spec["model"]) if given.model is None else given.model
        known = given.data or {}
        data: dict[str, Any] = stored_rows(
            spec["data"], inputs, start.convention, start.n_visible, known, given.executor
        )
        data |= {name: inputs[f"data/{name}"] for name in UNPACKED if f"data/{name}" in inputs}
        judged, settings = spec.get("judged", False), FitSettings(**spec["fit"])
        about = {"classify": spec["classify"], "judged": judged, "executor": given.executor}
        return FitTask(start, data, settings, threads=threads, **about)

    @classmethod
    def read_again(cls, spec: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Read rows that a user gives again, and check that they are those that the run began with."""
        return read_again(spec, given)

    @classmethod
    def why_another(cls, settings: Mapping[str, Any]) -> str:
        """Return why a longer run would not begin as this one did; empty if it would. Formulas are refused."""
        if settings["optimizer"] == "none":
            raise ValueError(f"cannot extend: method={settings['method']!r} is a formula, which knows no epochs.")
        if settings.get("schedule", "constant") != "constant":
            return (
                f"schedule={settings['schedule']!r} lets the learning rate fall over epochs={settings['epochs']}, so "
                "that a longer run differs from its first epoch on"
            )
        n_starts, epochs = settings.get("n_starts", 1), settings["epochs"]
        if settings["optimizer"] == "l-bfgs" and n_starts > 1 and epochs < enough_iterations(n_starts):
            return (
                f"n_starts={n_starts} climbs share epochs={epochs}, so that a longer run climbs further from each "
                "start and may choose another"
            )
        return ""

    @classmethod
    def before_its_end(cls, finished: Any, longer: Mapping[str, Any], state: Mapping[str, np.ndarray]) -> Extension:
        """Return where a longer run continues: before the evaluation at the end."""
        if why := finished.why_no_longer:
            raise ValueError(f"cannot extend: {why}. More epochs would not change what was learned.")
        kept = before_end(dict(state), finished.streams)
        if kept is None:
            raise ValueError(
                "cannot extend: the run was made by a version of fastbm that kept no state from before its end. Begin "
                "one from what was learned: fit(..., init=run.model)."
            )
        return Extension(dict(longer), *kept)

    @property
    def converged(self) -> bool | None:
        """Whether learning reached the optimum, as far as its optimiser can decide; None where it cannot.

        With "l-bfgs": whether the gradient vanished (within `tolerance`) where no curvature is negative, and not on
        the way to infinity. With
        "monte-carlo" or "natural" steps: whether moments equal the data's within the noise of both, from chains of
        their own.
        """
        if (found := verdict_of(self)) is not None:
            return found.converged
        if self.config["fit"]["optimizer"] != "l-bfgs":
            return None
        gradients = self.metrics["gradient"]
        return bool(len(gradients) and gradients[-1] <= self.config["fit"]["tolerance"])

    @property
    def doubt(self) -> str:
        """Why learning has not `converged`, or why nothing decides it; empty where it has."""
        return "" if self.converged else doubt_of(self)

    @property
    def evidence(self) -> str:
        """What speaks for learning that has `converged`: a gradient that vanished, or moments that are the data's."""
        return evidence_of(self)

    def _entries(self) -> dict[str, Any]:
        found, converged = summarise_fit(self), self.converged
        return found if converged is None else found | {"converged": converged}

    def _frame(self) -> tuple[Any, ...]:
        columns = {name: values for name, values in self.metrics.items() if name != "step"}
        return {"epoch": self.metrics["step"] + 1, **columns}, "epoch"

    def warn_at_end(self) -> None:
        """Warn once of the worst that was found in a finished run of `fit`, with the way out."""
        warn_of_learning(self)
