"""Records of a run of `fit`: metrics, weights, likelihoods, error bars, data, the machine."""

from __future__ import annotations

import numpy as np

from ...data.rows import Rows
from ...learning.fidelity.fidelity import Fidelity
from ...learning.moments import Parameters
from ...learning.training_set import values_of
from ...machine.machine import BoltzmannMachine
from ..records import Columns
from ..run import Run


class Learned(Run):
    """The records of a run of `fit`, without a verdict on them."""

    @property
    def energies(self) -> Columns:
        """Histograms of the energies of free chains and of rows, at most 256 of each, over `edges`; nats.

        There is one for every record of `fit`'s metrics. Hidden units are summed out where they are not coupled to one
        another; there are no energies of rows where these have missing entries.
        """
        return Columns(self._reader, "energies")

    @property
    def likelihood(self) -> Columns:
        """Log Z with its error, and likelihoods, along `fit` with `ais_every`, and the `epoch` of each row; nats."""
        return Columns(self._reader, "likelihood")

    @property
    def errors(self) -> Columns:
        """Standard errors of learned couplings and biases, "weights" and "bias"; empty unless `fit` had `errors`."""
        return Columns(self._reader, "errors")

    @property
    def fidelity(self) -> Fidelity | None:
        """The comparison of the learned machine with its data; None without `fidelity`, and until it is done."""
        rows = Columns(self._reader, "fidelity")
        return Fidelity.of_rows(rows) if "n_rows" in rows and len(rows["n_rows"]) else None

    @property
    def model(self) -> BoltzmannMachine:
        """The machine as learned up to the last commit."""
        return Parameters.from_state(self._reader.state).machine(self._start)

    @property
    def _beta(self) -> float:
        return float(self.config["fit"]["beta"])

    @property
    def data(self) -> dict[str, np.ndarray]:
        """The data of `fit` in the machine's units: "rows", and "holdout" and labels where there are any.

        Rows with missing entries are floats, NaN where one is missing. Rows that stayed in a file of their own, or came
        from a generator and were many, are not among them.
        """
        found = {}
        n_visible = self._start.n_visible
        for name, array in self._reader.inputs.items():
            group, _, key = name.partition("/")
            if group == "data" and key in ("rows", "holdout"):
                rows = Rows.of_packed(array, n_visible, self._reader.inputs.get(f"{name}_known"))
                kind = np.int8 if rows.complete else np.float64
                found[key] = values_of(self._start.convention, rows, slice(None), kind)
            elif group == "data" and not key.endswith(("_known", "_together")):
                found[key] = array
        return found
