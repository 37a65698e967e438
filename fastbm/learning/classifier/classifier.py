"""One Boltzmann machine per class; a row belongs to the class whose machine finds it most probable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax

from ..._base import checks, rng, threads as threads_module
from ..._base.threads import fan_out, single_threaded_blas
from ...inference.likelihood import log_sums
from ...machine.checks import check_columns, check_names, columns_of
from ...machine.machine import BoltzmannMachine
from ...machine.units import units as convention
from . import file
from .machines import ONE_SHOT, Learned, Told, check_log_z, check_rule, fit_options, learn, rules, warn_of_classes
from .tuning import FLIP_NOISES, LEAST_ROWS, calibrate as fit_calibration, deal, held_out, held_out_one_shot

FLIP_NOISE = 0.14  # of the one-shot rule where a class has too few rows to hold some out
PRIORS = ("uniform", "counts")


class BoltzmannClassifier:
    """Classify binary rows by log p(x | class) = -F(x) - log Z, one machine per class.

    Parameters
    ----------
    method : {"mean-field", "deterministic", "pcd", "cd", "exact", "monte-carlo", "pseudolikelihood", ...}
        How each machine is learned: in one step from the class's covariance, by mean field with linear response
        ("mean-field"); or by a rule of `fit` under the same name, of which the iterated mean-field one is called
        "deterministic" here.
    flip_noise : float or "cv", optional
        Probability, from 0 to below 1/2, with which each unit of the data is taken to be flipped; it regularises. The
        one-shot rule averages over flips, the others learn rows that were flipped once. "cv": the best of several by
        cross-validation with 5 folds of the training rows. Its cost is one more pass over the data and the machines of
        the folds; for the other rules, and for another `log_z`, 45 times that of learning. Unless given "cv" for the
        one-shot rule, by its own log Z unless it is calibrated too (0.14 where a class has fewer than 3 rows), and 0
        for the others.
    log_z : str
        How log Z is computed: any method of `infer`; "auto" is exact where that takes seconds, else "ais", and the
        one-shot rule's own mean-field value for its machines.
    units : {"binary", "spin"}
        The units of the data.
    n_hidden : int
        Hidden units of each machine.
    priors : {"uniform", "counts"}
        Whether classes are equally frequent, or as frequent as in the training rows.
    calibrate : bool
        Whether to fit an offset for each class, and one scale for all, to the scores of training rows by machines that
        have not seen them (logistic regression; 5 folds). The offsets make up for errors of log Z and of the rule, so
        that what is compared is not log p(x | class) any more.
    seed : int or None
    threads : int, optional
    **options
        Of `fit`, for its rules: epochs, learning_rate, l2, layout, beta, ...

    Attributes
    ----------
    classes : array
        The labels, sorted.
    machines : list of BoltzmannMachine
    log_z, log_z_error : (n_classes,) arrays
        log Z of each machine, and its standard error: 0 where log Z is exact, NaN where its method has none, as the
        one-shot rule's own value, which may be nats off.
    flip_noise : float
        What was used.
    cross_validation : dict
        The error of every flip noise that was tried, where it was "cv".
    log_prior, offsets : (n_classes,) arrays
    scale : float
        Rows are classified by scale * (log p(x | class) + offset) + log prior; 1 and 0 where not calibrated.

    References
    ----------
    Kappen and Rodriguez, Neural Comput. 10, 1137 (1998), sect. 5, doi:10.1162/089976698300017386.
    """

    classes: np.ndarray
    machines: list[BoltzmannMachine]
    log_z: np.ndarray
    log_z_error: np.ndarray
    log_prior: np.ndarray
    offsets: np.ndarray
    scale: float
    cross_validation: dict[float, float]

    def __init__(
        self,
        method: str = ONE_SHOT,
        *,
        flip_noise: float | str | None = None,
        log_z: str = "auto",
        units: str = "binary",
        n_hidden: int = 0,
        priors: str = "uniform",
        calibrate: bool = False,
        seed: int | None = 0,
        threads: int | None = None,
        **options: Any,
    ) -> None:
        self.method = checks.choice("method", method, rules())
        self._units = convention(units)
        self._noise, self._by_default = _check_noise(flip_noise, self.method), flip_noise is None
        self._log_z = check_log_z(log_z)
        self._priors = checks.choice("priors", priors, PRIORS)
        if not isinstance(calibrate, (bool, np.bool_)):
            raise TypeError(f"calibrate must be True or False; got {calibrate!r}.")
        self._calibrate, self._n_hidden = bool(calibrate), checks.whole("n_hidden", n_hidden)
        self._seed, self._threads = rng.resolve(seed), threads
        threads_module.resolve(threads)
        self._options = {name: value for name, value in options.items() if value is not None}
        check_rule(self.method, self._n_hidden, units, self._options)
        self._beta = float(self._options.get("beta", 1.0))

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of the constructor, without `threads`."""
        return {
            "method": self.method,
            "flip_noise": self._noise,
            "log_z": self._log_z,
            "units": self._units.name,
            "n_hidden": self._n_hidden,
            "priors": self._priors,
            "calibrate": self._calibrate,
            "seed": self._seed,
            **self._options,
        }

    def __repr__(self) -> str:
        learned = f", {len(self.classes)} classes" if hasattr(self, "classes") else ""
        return f"<BoltzmannClassifier: {self.method}{learned}>"

    def fit(self, data: Any, labels: Any) -> BoltzmannClassifier:
        """Learn one machine for each label.

        Parameters
        ----------
        data : (n_rows, n_units) array
        labels : (n_rows,) array

        Raises
        ------
        ValueError
            If there are fewer than two classes, a class has fewer than two rows, or columns of a table have one name.

        Warns
        -----
        ConvergenceWarning
            Of what `fastbm.fit` warns of, such as data that send parameters to infinity, with the classes whose it is.
        """
        up = self._units.bits("data", checks.any_array("data", data))
        labels = checks.any_array("labels", labels)
        if up.ndim != 2 or labels.shape != up.shape[:1]:
            raise ValueError(
                f"labels must have one entry for each row of data; got {labels.shape} for data of shape {up.shape}."
            )
        columns = columns_of(data)
        names = None if columns is None else check_names(columns, up.shape[1], up.shape[1] + self._n_hidden)
        classes = check_classes(labels)
        codes = np.searchsorted(classes, labels)
        counts = np.bincount(codes)
        prior = counts / len(codes) if self._priors == "counts" else np.full(len(classes), 1.0 / len(classes))
        in_folds, told = Told(), Told()
        noise, tried, offsets, scale = self._tune(up, codes, classes, np.log(prior), in_folds)
        learned = self._learn(up, codes, noise, classes, told)
        warn_of_classes(told, in_folds)
        self.classes, self.log_prior, self.flip_noise = classes, np.log(prior), noise
        self.offsets, self.scale, self.cross_validation = offsets, scale, tried
        self.machines = [one.machine if names is None else one.machine.with_names(names) for one in learned]
        self.log_z = np.array([one.log_z for one in learned])
        self.log_z_error = np.array([one.log_z_error for one in learned])
        return self

    def _learn(self, up: np.ndarray, codes: np.ndarray, noise: float, classes: np.ndarray, told: Told) -> list[Learned]:
        """Return the machine of each class; what its fit warns of is added to `told`."""

        def one(k: int) -> Learned:
            with checks.keeping_warnings() as kept:
                found = self._learn_one(up[codes == k], classes[k], noise, k)
            told.setdefault(str(classes[k]), []).extend(kept)
            return found

        at_once = threads_module.resolve(self._threads) if self.method == ONE_SHOT and self._log_z == "auto" else 1
        with single_threaded_blas():  # classes side by side, and the same bits for any number of threads
            return fan_out(one, range(int(codes.max()) + 1), at_once)

    def _learn_one(self, up: np.ndarray, label: Any, noise: float, k: int) -> Learned:
        try:
            return learn(
                up, self.method, flip_noise=noise, log_z=self._log_z, units=self._units.name, n_hidden=self._n_hidden,
                seed=rng.derive(self._seed, k), threads=threads_module.resolve(self._threads), options=self._options,
            )  # fmt: skip
        except ValueError as error:
            raise type(error)(f"class {label}: {error}") from None

    def _tune(
        self, up: np.ndarray, codes: np.ndarray, classes: np.ndarray, log_prior: np.ndarray, told: Told
    ) -> tuple[float, dict[float, float], np.ndarray, float]:
        """Return flip noise, errors of all that were tried, offsets and scale, chosen on the training rows."""
        offsets, scale = np.zeros(len(classes)), 1.0
        tunes = self._noise == "cv"
        if tunes and self._by_default and not self._calibrate and np.bincount(codes).min() < LEAST_ROWS:
            return FLIP_NOISE, {}, offsets, scale
        noises = FLIP_NOISES if tunes else (float(self._noise),)
        if not tunes and not self._calibrate:
            return noises[0], {}, offsets, scale
        folds = deal(codes, classes, self._seed)
        best, tried = np.inf, {}
        for noise, scores in zip(noises, self._held_out(up, codes, folds, noises, classes, told), strict=True):
            found = fit_calibration(scores, codes, log_prior) if self._calibrate else (np.zeros(len(classes)), 1.0)
            decided = np.argmax(found[1] * (scores + found[0]) + log_prior, axis=1)
            tried[float(noise)] = error = float(np.mean(decided != codes))
            if error < best:
                best, chosen, (offsets, scale) = error, float(noise), found
        return chosen, tried if tunes else {}, offsets, scale

    def _held_out(
        self,
        up: np.ndarray,
        codes: np.ndarray,
        folds: np.ndarray,
        noises: tuple[float, ...],
        classes: np.ndarray,
        told: Told,
    ) -> np.ndarray | list[np.ndarray]:
        """Return the scores of the training rows by machines that have not seen them, for each flip noise."""
        if self.method == ONE_SHOT and (self._log_z == "auto" or (self._by_default and not self._calibrate)):
            return held_out_one_shot(up, codes, folds, noises, threads_module.resolve(self._threads))

        def scores(noise: float, learned: np.ndarray, scored: np.ndarray) -> np.ndarray:
            machines = self._learn(up[learned], codes[learned], noise, classes, told)
            log_z = np.array([one.log_z for one in machines])
            return self._scores([one.machine for one in machines], up[scored]) - log_z

        n_classes = int(codes.max()) + 1
        return [held_out(folds, n_classes, lambda a, b, noise=noise: scores(noise, a, b)) for noise in noises]  # type: ignore[misc]

    def _scores(self, machines: list[BoltzmannMachine], up: np.ndarray) -> np.ndarray:
        """Return log sum_h exp(-beta E(x, h)) of rows of bits, (n_rows, n_machines)."""
        threads = threads_module.resolve(self._threads)
        if machines[0].n_hidden:
            values = self._units.values(up, np.float64)
            return np.stack([log_sums(one, values, self._beta, threads)[0] for one in machines], axis=1)
        with single_threaded_blas():
            return np.stack(fan_out(lambda one: -self._beta * one.energy_of_bits(up), machines, threads), axis=1)

    def log_likelihoods(self, data: Any) -> np.ndarray:
        """Return log p(x | class), a (n_rows, n_classes) array."""
        if not hasattr(self, "machines"):
            raise ValueError("the classifier has learned nothing yet; call fit(data, labels) first.")
        first = self.machines[0]
        rows = np.atleast_2d(checks.any_array("data", check_columns("data", data, first.names, "the training rows")))
        up = first.check_states(rows, argument="data", n_units=first.n_visible)
        found: np.ndarray = self._scores(self.machines, up) - self.log_z
        return found

    def _log_joint(self, data: Any) -> np.ndarray:
        log_likelihoods = self.log_likelihoods(data)
        return self.scale * (log_likelihoods + self.offsets) + self.log_prior

    def predict_log_proba(self, data: Any) -> np.ndarray:
        """Return log P(class | x), a (n_rows, n_classes) array."""
        found: np.ndarray = log_softmax(self._log_joint(data), axis=1)
        return found

    def predict(self, data: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        log_joint = self._log_joint(data)
        return self.classes[np.argmax(log_joint, axis=1)]

    def error(self, data: Any, labels: Any) -> float:
        """Return the fraction of rows that are put into another class than `labels` says."""
        found, labels = self.predict(data), checks.any_array("labels", labels)
        if labels.shape != found.shape:
            raise ValueError(f"labels must have one entry for each row; got {labels.shape} for {len(found)} rows.")
        return float(np.mean(found != labels))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the learned classifier to an HDF5 file that `load` reads.

        Raises
        ------
        StorageError
            If the file exists and `overwrite` is not set.
        """
        if not hasattr(self, "machines"):
            raise ValueError("the classifier has learned nothing yet; call fit(data, labels) first.")
        arrays = {name: np.asarray(getattr(self, name)) for name in file.ARRAYS}
        file.write(path, self.settings, arrays, self.machines, self.cross_validation, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path, *, threads: int | None = None) -> BoltzmannClassifier:
        """Read a classifier that `save` wrote.

        Raises
        ------
        StorageError
            If there is no such file, it is damaged, or it holds no classifier.
        """
        threads_module.resolve(threads)
        with file.reading(path) as (settings, arrays, machines, tried):
            found = cls(**settings, threads=threads)
        for name, array in arrays.items():
            setattr(found, name, array if array.ndim else float(array))
        found.machines, found.cross_validation = machines, tried
        return found


def option_names() -> list[str]:
    """Return the names of the options of `BoltzmannClassifier`, without the units."""
    own = [name for name in BoltzmannClassifier.__init__.__kwdefaults__ or () if name != "units"]
    return ["method", *own, *fit_options()]


def check_classes(labels: np.ndarray) -> np.ndarray:
    """Return the classes, sorted; there must be two at least, of two rows at least."""
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"labels must be known; got nan in row {np.flatnonzero(np.isnan(labels))[0]}. Leave it out.")
    if labels.dtype.kind not in "biufUO":
        raise TypeError(f"labels must be numbers or texts; got {labels.dtype}. Pass labels.astype(str).")
    try:
        classes, counts = np.unique(labels, return_counts=True)
    except TypeError:  # of objects that have no order
        raise TypeError("labels must be all numbers, or all texts; got both, or others.") from None
    if len(classes) < 2:
        raise ValueError(
            f"labels must name at least two classes; got {classes.tolist()}. For one machine in all use fastbm.fit."
        )
    if counts.min() < 2:
        few = int(counts.argmin())
        raise ValueError(
            f"labels must name at least two rows of each class; class {classes.tolist()[few]!r} has {counts[few]}. "
            "Leave its rows out, or merge classes."
        )
    return classes


def _check_noise(value: Any, method: str) -> float | str:
    if value is None:
        return "cv" if method == ONE_SHOT else 0.0
    if isinstance(value, str):
        if value != "cv":
            raise ValueError(f'flip_noise must be a number, or "cv"; got {value!r}.')
        return value
    if (noise := checks.real("flip_noise", value, least=0.0)) >= 0.5:
        raise ValueError(f"flip_noise must be below 0.5; got {noise:g}.")
    return noise
