"""Errors that fastbm raises, and the checks made once at the public edge.

Every text names the argument, what was expected, what came, where, and the way out.
"""

from __future__ import annotations

import difflib
import math
import numbers
import sys
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

LARGEST_COUNT = 2**53  # which floats hold exactly too, and no run comes near


class StorageError(OSError):
    """A run's files are damaged, busy, foreign, or cannot be written; the text names the file and the way out.

    Attributes
    ----------
    resumable : bool
        Whether a disk has stopped a run that can go on once there is space again.
    """

    resumable = False


class DamagedRun(StorageError):
    """So much of a run is damaged that nothing of it can be trusted."""


class ConvergenceWarning(UserWarning):
    """A result that did not converge; it carries ``converged=False``."""


def warn(text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn the caller of fastbm, however deep the call is in which this is found."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] == "fastbm":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C (or SIGTERM) stopped a run cleanly; ``run`` holds what was done and can be resumed.

    Attributes
    ----------
    run : Run
        All that was finished before the stop.
    reason : str
        What stopped it, and where.
    """

    def __init__(self, reason: str, run: Any = None) -> None:
        path = getattr(run, "path", None)
        super().__init__(f"{reason} Go on with: fastbm.resume({str(path)!r})" if path else reason)
        self.run, self.reason = run, reason


class Diverged(ValueError):
    """Learning came to parameters that mean nothing; ``run``, where there is one, holds what was learned before."""

    run: Any = None


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the valid name nearest to `name`, or an empty string."""
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def choice(argument: str, value: Any, valid: Iterable[str]) -> str:
    """Check that `value` is one of the names in `valid`."""
    valid = list(valid)
    if not isinstance(value, str) or value not in valid:
        listed = ", ".join(map(repr, valid))
        raise ValueError(f"{argument} must be one of {listed}; got {value!r}.{nearest(str(value), valid)}")
    return str(value)


def whole(argument: str, value: Any, *, least: int = 0, most: int | None = LARGEST_COUNT) -> int:
    """Check that `value` is a whole number from `least` to `most`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{argument} must be a whole number; got {value!r} ({type(value).__name__}).")
    number = int(value)
    if number < least:
        raise ValueError(f"{argument} must be at least {least}; got {number}.")
    if most is not None and number > most:
        raise ValueError(f"{argument} must be at most {most}; got {number}.")
    return number


def real(argument: str, value: Any, *, least: float = -math.inf, above: float | None = None) -> float:
    """Check that `value` is a finite number, at least `least` and, if given, above `above`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{argument} must be a number; got {value!r} ({type(value).__name__}).")
    try:
        value = float(value)
    except OverflowError:  # of a whole number
        value = math.inf if value > 0 else -math.inf
    if not math.isfinite(value):
        raise ValueError(f"{argument} must be finite; got {value}.")
    if value < least:
        raise ValueError(f"{argument} must be at least {least:g}; got {value:g}.")
    if above is not None and value <= above:
        raise ValueError(f"{argument} must be above {above:g}; got {value:g}.")
    return value


def any_array(argument: str, value: Any) -> np.ndarray:
    """Return `value` as an array; rows of unequal length are refused, and so are masked entries."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{argument} must have no masked entries here. Fill them in, or leave their rows out.")
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{argument} must be an array with rows of equal length: {error}") from None


def finite_array(argument: str, value: Any) -> np.ndarray:
    """Return `value` as a new read-only C-contiguous float64 array, all entries finite."""
    given = any_array(argument, value)
    if given.dtype.kind not in "biuf":
        example = f", for instance {given.flat[0]!r}" if given.size else ""
        raise TypeError(f"{argument} must be an array of real numbers; got dtype {given.dtype}{example}.")
    array = np.array(given, dtype=np.float64, order="C")
    if not array.ndim:
        real(argument, float(array))
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        place = tuple(int(k) for k in bad[0])
        raise ValueError(f"{argument} must be finite; {array[place]} at {place}, {len(bad)} such entries in all.")
    array.setflags(write=False)
    return array


def shape(argument: str, array: np.ndarray, expected: tuple[int | str, ...]) -> None:
    """Check the shape of `array`; words in `expected` stand for any size."""
    fits = array.ndim == len(expected) and all(
        isinstance(want, str) or want == got for want, got in zip(expected, array.shape, strict=True)
    )
    if not fits:
        wanted = "(" + ", ".join(map(str, expected)) + ("," if len(expected) == 1 else "") + ")"
        raise ValueError(f"{argument} must have shape {wanted}; got {array.shape}.")


def seed(value: Any) -> int | None:
    """Check a seed: a whole number from 0, or None to draw one."""
    return None if value is None else whole("seed", value, most=None)
