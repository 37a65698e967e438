"""When to stop before the last epoch: a metric that is small enough, or held-out rows that gain no more.

Prechelt, in Neural Networks: Tricks of the Trade (1998), doi:10.1007/3-540-49430-8_3.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

HELD_OUT = ("holdout_log_likelihood", "holdout_pseudo_likelihood")  # the first that there is


class Stopping:
    """Looks at every row of metrics.

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

    def look(self, metrics: Mapping[str, float], epoch: int) -> bool:
        """Take a row of metrics; whether held-out rows are likelier than ever."""
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
        return {
            "best": np.array(self.best), "best_epoch": np.array(self.best_epoch), "waited": np.array(self._waited),
            "met": np.array(self.met),
        }  # fmt: skip

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.best, self.best_epoch = float(state["best"]), int(state["best_epoch"])
        self._waited, self.met = int(state["waited"]), bool(state["met"])
