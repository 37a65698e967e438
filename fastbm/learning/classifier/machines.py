"""The machine of one class: learned by any rule, in memory, with its log Z by any method.

The one-shot rule makes a visible machine from rows of data, or their sums, in one step: mean field with linear
response, by the formulas of `fastbm.learning.closed_forms.naive_mean_field`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._base import checks, rng
from ...data.counting import count_together
from ...data.moments import smoothed_rates
from ...data.rows import Rows
from ...inference.exact.method import forecast_seconds
from ...inference.methods import METHODS, run_method
from ...machine.machine import BoltzmannMachine
from ..closed_forms import naive_mean_field
from ..closed_forms.learn import CLOSED_FORMS, spin_machine
from ..learn import AIS_BETAS, learn_to_end, way_out
from ..methods import OF_RULES, PRESETS
from ..monitor.chains import R_HAT_OF_CHAINS, describe_unmixed
from ..rules import prepare
from ..settings import FitSettings
from ..training_set import Sample

ONE_SHOT, DETERMINISTIC = "mean-field", "deterministic"
EXACT_SECONDS = 10.0  # log Z of a machine: exact where it takes no longer
NEVER = 1 << 40  # epochs
NO_LOG_Z = ("gibbs", "metropolis")
MOST_NAMED = 5  # classes

Told = dict[str, list[tuple[str, type[Warning]]]]  # warnings, by class


class SpinSums(NamedTuple):
    """Sums over rows of spins, in whole numbers, so that sums of parts add up and are subtracted without rounding."""

    n_rows: int
    first: np.ndarray  # (n,) sums of s_i
    second: np.ndarray  # (n, n) sums of s_i s_j

    @classmethod
    def of(cls, up: np.ndarray) -> SpinSums:
        """Add up rows of bits (m, n)."""
        pairs = count_together(up)
        ups = np.diagonal(pairs)
        return cls(len(up), 2.0 * ups - len(up), 4.0 * pairs - 2.0 * (ups[:, None] + ups) + len(up))

    @classmethod
    def total(cls, parts: Sequence[SpinSums]) -> SpinSums:
        """Add up the sums of all parts."""
        n_rows, first, second = zip(*parts, strict=True)
        return cls(sum(n_rows), np.sum(first, axis=0), np.sum(second, axis=0))

    def without(self, part: SpinSums) -> SpinSums:
        """Return the sums over the other rows."""
        return SpinSums(self.n_rows - part.n_rows, self.first - part.first, self.second - part.second)


def one_shot(up: np.ndarray, *, flip_noise: float, units: str = "binary") -> tuple[BoltzmannMachine, float]:
    """Return the machine of rows of bits (m, n), and its mean-field log Z; see `one_shot_of_sums`."""
    return one_shot_of_sums(SpinSums.of(up), flip_noise=flip_noise, units=units)


def one_shot_of_sums(sums: SpinSums, *, flip_noise: float, units: str = "binary") -> tuple[BoltzmannMachine, float]:
    """Return the machine of rows by their sums alone, and its mean-field log Z.

    `flip_noise` is the probability with which each unit of the data is flipped; it is applied to the moments, not to
    the rows: m -> (1 - 2 eps) m and <s_i s_j> -> (1 - 2 eps)^2 <s_i s_j> off the diagonal. It keeps the covariance
    invertible.
    """
    keep = 1.0 - 2.0 * flip_noise
    mean = keep * (sums.first / sums.n_rows)
    second = keep**2 * sums.second / sums.n_rows
    np.fill_diagonal(second, 1.0)
    covariance = second - np.outer(mean, mean)
    try:
        found = naive_mean_field.couple(mean, covariance)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"flip_noise must be above 0 for these data ({sums.n_rows} rows, {len(mean)} units): their "
            "covariance is singular."
        ) from None
    return spin_machine(found).to_units(units), naive_mean_field.log_z(mean, covariance, found)


class Learned(NamedTuple):
    """A machine and its log Z, with its standard error: 0 where it is exact, NaN where nothing tells it."""

    machine: BoltzmannMachine
    log_z: float
    log_z_error: float


def rules() -> dict[str, str]:
    """Return the names of the rules, and the method of `fit` that each stands for (the one-shot rule for none)."""
    others = {name: name for name in PRESETS if name != "mean-field"}
    return {ONE_SHOT: "", DETERMINISTIC: "mean-field", **others}


def fit_options() -> list[str]:
    """Return the options of `fit` that a rule may get."""
    return ["layout", *OF_RULES, "until"]


def check_rule(method: str, n_hidden: int, units: str, options: Mapping[str, Any]) -> None:
    """Refuse options that a rule cannot use, before there are data."""
    for name in options:
        if name not in fit_options():
            raise TypeError(f"there is no option {name!r}.{checks.nearest(name, fit_options())}")
    if method != ONE_SHOT:
        _prepare(np.array([[0, 1], [1, 0]], np.uint8), method, n_hidden, units, 0, options)
        return
    if n_hidden:
        raise ValueError(f"n_hidden must be 0 for {ONE_SHOT!r}, which is one step; use 'deterministic' or 'pcd'.")
    if options:
        raise TypeError(f"{ONE_SHOT!r} is one step and takes no {next(iter(options))!r}. Name another method.")


def check_log_z(name: str) -> str:
    """Check the name of a method that gives log Z."""
    return checks.choice("log_z", name, ["auto", *(method for method in METHODS if method not in NO_LOG_Z)])


def learn(
    up: np.ndarray,
    method: str,
    *,
    flip_noise: float,
    log_z: str,
    units: str,
    n_hidden: int,
    seed: int,
    threads: int,
    options: Mapping[str, Any],
) -> Learned:
    """Learn the machine of rows of bits.

    Rows are flipped with probability `flip_noise` before they are learned; closed forms do so on average.
    """
    beta = float(options.get("beta") or 1.0)
    if method == ONE_SHOT:
        machine, value = one_shot(up, flip_noise=flip_noise, units=units)
        machine = machine.with_base_rates(smoothed_rates(Rows.of(up), machine))
        return (
            Learned(machine, value, math.nan) if log_z == "auto" else _with_log_z(machine, log_z, beta, seed, threads)
        )
    analytic = rules()[method] in CLOSED_FORMS
    if analytic:
        options = {**options, "flip_noise": flip_noise}
    elif flip_noise:
        up = up ^ (rng.keyed(seed, rng.STARTS).random(up.shape) < flip_noise)
    start, settings = _prepare(up, method, n_hidden, units, seed, options)
    data = {"rows": up}
    for line in Sample.of(start, data).describe(settings):
        checks.warn(f"data: {line}.")
    learner = learn_to_end(start, data, settings, threads=threads)
    if learner.astray:
        checks.warn(f"learning diverged. {way_out(settings)}")
    elif learner.r_hat > R_HAT_OF_CHAINS:
        s = settings
        checks.warn(describe_unmixed(learner.r_hat, learner.n_epochs, s.free, s.n_sweeps, s.learning_rate))
    return _with_log_z(learner.model, log_z, beta, seed, threads)


def _prepare(
    up: np.ndarray, method: str, n_hidden: int, units: str, seed: int, options: Mapping[str, Any]
) -> tuple[BoltzmannMachine, FitSettings]:
    """Return the machine that learning starts from, with the rows' base rates, and settings that measure nothing."""
    quiet = {"evaluate": "none", "weights_every": 0, "monitor_every": NEVER}
    start, settings = prepare(up, rules()[method], {**options, "n_hidden": n_hidden, **quiet}, units, seed)
    return start.with_base_rates(smoothed_rates(Rows.of(up), start)), settings


def _with_log_z(machine: BoltzmannMachine, method: str, beta: float, seed: int, threads: int) -> Learned:
    if method == "auto":
        method = "exact" if forecast_seconds(machine, moments=False) <= EXACT_SECONDS else "ais"
    more: dict[str, Any] = {"n_betas": AIS_BETAS} if method == "ais" else {}
    seed = rng.derive(seed, rng.MONITOR)
    found = run_method(machine, method, beta=beta, clamp=None, moments=False, seed=seed, threads=threads, **more)
    assert found.log_z is not None
    return Learned(machine, float(found.log_z), math.nan if found.log_z_error is None else float(found.log_z_error))


def warn_of_classes(told: Told, in_folds: Told) -> None:
    """Tell each warning once; of fits to some of the rows the first, of classes whose own fit had none."""
    whose: dict[tuple[str, type[Warning]], list[str]] = {}
    for label in told:
        few = [(f"in cross-validation: {text}", category) for text, category in in_folds.get(label, [])[:1]]
        for one in dict.fromkeys(told[label] or few):
            whose.setdefault(one, []).append(label)
    for (text, category), labels in whose.items():
        more = len(labels) - MOST_NAMED
        named = ", ".join(labels[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        checks.warn(f"class{'es' if len(labels) > 1 else ''} {named}: {text}", category)
