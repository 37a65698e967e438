"""The decision to stop before the last epoch, by metrics and held-out rows.

Learning stops at a metric that is small enough, or that cannot become so small, or where held-out rows gain no more.

Prechelt, in Neural Networks: Tricks of the Trade (1998), doi:10.1007/3-540-49430-8_3.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

EPOCHS = 16  # whose moment errors tell whether chains could do better
AT_NOISE = 1.3  # times its noise, which an error has come down to
HELD_OUT = ("holdout_log_likelihood", "holdout_pseudo_likelihood")  # the first that there is


class Stopping:
    """The decision to stop before the last epoch, by every row of metrics.

    Parameters
    ----------
    until : dict
        Metrics and what they must come down to; all of them must.
    patience : int
        Looks at the held-out log-likelihood (pseudo-likelihood where that is not at hand) that may pass without a new
        best; 0 for any number.
    """

    def __init__(self, until: Mapping[str, float], patience: int) -> None:
        self._until, self._patience = dict(until), patience
        self.best, self.best_epoch, self._waited = -np.inf, -1, 0
        self.met = False
        self._errors = np.zeros((0, 2))  # of the last epochs, and the chains' part of their noise

    @property
    def hopeless(self) -> bool:
        """Whether the moment error is down to the chains' own noise, and that is above the target."""
        target = self._until.get("moment_error", np.inf)
        if len(self._errors) < EPOCHS:
            return False
        error, noise = self._errors.mean(axis=0)
        return bool(self._errors[:, 0].min() > target and noise > target and error < AT_NOISE * noise)

    @property
    def noise(self) -> float:
        """The chains' part of the moment noise in the last epochs."""
        return float(self._errors[:, 1].mean())

    def follow(self, metrics: Mapping[str, float], chain_noise: float) -> None:
        """Record an epoch's moment error, and the chains' part of its noise."""
        if "moment_error" in self._until and "moment_error" in metrics:
            self._errors = np.concatenate([self._errors, [[metrics["moment_error"], chain_noise]]])[-EPOCHS:]

    def judge(self, metrics: Mapping[str, float], epoch: int) -> bool:
        """Test a row of metrics; return whether held-out rows are likelier than ever."""
        found = next((metrics[name] for name in HELD_OUT if name in metrics), None)
        better = found is not None and found > self.best
        if found is not None and better:
            self.best, self.best_epoch, self._waited = float(found), epoch, 0
        elif found is not None:
            self._waited += 1
        enough = bool(self._until) and all(metrics.get(name, np.inf) <= value for name, value in self._until.items())
        self.met = enough or 0 < self._patience <= self._waited
        return better

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the decision."""
        return {
            "best": np.array(self.best), "best_epoch": np.array(self.best_epoch), "waited": np.array(self._waited),
            "met": np.array(self.met), "errors": self._errors,
        }  # fmt: skip

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.best, self.best_epoch = float(state["best"]), int(state["best_epoch"])
        self._waited, self.met = int(state["waited"]), bool(state["met"])
        self._errors = np.array(state.get("errors", self._errors))
