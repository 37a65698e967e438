"""One Boltzmann machine per class; a row belongs to the class whose machine finds it most probable."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _checks
from ..model import BoltzmannMachine
from ..units import units as convention
from .one_shot import one_shot


class BoltzmannClassifier:
    """Classify binary rows by log p(x | class) = -E(x) - log Z, one visible machine per class.

    Parameters
    ----------
    method : {"mean-field"}
        How each machine is learned: in one step from the class's covariance, by mean field with linear response.
    flip_noise : float
        Probability, from 0 to below 1/2, with which each unit of the data is taken to be flipped; it regularises.
    units : {"binary", "spin"}
        The units of the data.

    Attributes
    ----------
    classes : array
        The labels, sorted.
    machines : list of BoltzmannMachine
    log_z : (n_classes,) array
        Mean-field log Z of each machine.

    References
    ----------
    Kappen and Rodriguez, Neural Comput. 10, 1137 (1998), sect. 5, doi:10.1162/089976698300017386.
    """

    classes: np.ndarray
    machines: list[BoltzmannMachine]
    log_z: np.ndarray

    def __init__(self, *, method: str = "mean-field", flip_noise: float = 0.14, units: str = "binary") -> None:
        self.method = _checks.choice("method", method, ("mean-field",))
        self.flip_noise = _checks.real("flip_noise", flip_noise, least=0.0)
        if self.flip_noise >= 0.5:
            raise ValueError(f"flip_noise must be below 0.5; got {flip_noise:g}.")
        self._units = convention(units)

    def fit(self, data: Any, labels: Any) -> BoltzmannClassifier:
        """Learn one machine for each label.

        Parameters
        ----------
        data : (n_rows, n_units) array
        labels : (n_rows,) array
        """
        up = self._units.bits("data", _checks.any_array("data", data))
        labels = _checks.any_array("labels", labels)
        if up.ndim != 2 or labels.shape != up.shape[:1]:
            raise ValueError(
                f"labels must have one entry for each row of data; got {labels.shape} for data of shape {up.shape}."
            )
        self.classes = np.unique(labels)
        if len(self.classes) < 2:
            raise ValueError(f"labels must name at least two classes; got {self.classes.tolist()}.")
        found = [
            one_shot(up[labels == label], flip_noise=self.flip_noise, units=self._units.name) for label in self.classes
        ]
        self.machines = [machine for machine, _ in found]
        self.log_z = np.array([log_z for _, log_z in found])
        return self

    def log_likelihoods(self, data: Any) -> np.ndarray:
        """Return log p(x | class), a (n_rows, n_classes) array."""
        if not hasattr(self, "machines"):
            raise ValueError("the classifier has learned nothing yet; call fit(data, labels) first.")
        rows = np.atleast_2d(_checks.any_array("data", data))
        return np.stack([-machine.energy(rows) for machine in self.machines], axis=1) - self.log_z

    def predict(self, data: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        log_likelihoods = self.log_likelihoods(data)
        return self.classes[np.argmax(log_likelihoods, axis=1)]

    def error(self, data: Any, labels: Any) -> float:
        """Return the fraction of rows that are put into another class than `labels` says."""
        found, labels = self.predict(data), _checks.any_array("labels", labels)
        if labels.shape != found.shape:
            raise ValueError(f"labels must have one entry for each row; got {labels.shape} for {len(found)} rows.")
        return float(np.mean(found != labels))
