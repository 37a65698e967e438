"""Errors that fastbm raises, and the checks made once at the public edge.

Every text names the argument, what was expected, what came, where, and the way out.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import functools
import inspect
import math
import numbers
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import local
from typing import Any, ParamSpec, TypeVar

import numpy as np

# frames between the user's and ours: fastbm's own, and those of the standard library through which it calls itself
_PASSED_THROUGH = (str(Path(__file__).parents[1]) + os.sep, contextlib.__file__, functools.__file__)
_INVERSE = "Temperatures are given by their inverse here: beta = 1 / temperature."
# what others call an option: the option without which the hint is no use, and the hint
ELSEWHERE = {
    "temperature": ("", _INVERSE),
    "T": ("", _INVERSE),
    "num_reads": ("n_chains", "Reads are chains here: n_chains."),
    "n_samples": ("n_sweeps", "Each of n_chains chains gives n_sweeps // thin samples: set n_sweeps."),
}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
LARGEST_COUNT = 2**53  # which floats hold exactly too, and no run comes near
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_of_thread = local()  # what it keeps of warnings, where it does


class StorageError(OSError):
    """A run's files are damaged, busy, foreign, or cannot be written; the text names the file and the way out.

    Attributes
    ----------
    resumable : bool
        Whether a disk has stopped a run that can go on once there is space again, or it is mended.
    """

    resumable = False


def is_full(error: BaseException | None) -> bool:
    """Return whether an error, or what it came of, is that of a disk that is full, or fails."""
    return isinstance(error, OSError) and (error.errno in _FULL or is_full(error.__cause__))


class DamagedRun(StorageError):
    """So much of a run is damaged that nothing of it can be trusted."""


class TakenRun(StorageError):
    """Another process writes a run, or has begun it already."""


class ConvergenceWarning(UserWarning):
    """A result that did not converge; it carries ``converged=False``."""


def warn(text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn the caller of fastbm, however deep the call is in which this is found: the line told is never fastbm's."""
    if (kept := getattr(_of_thread, "kept", None)) is not None:
        kept.append((text, category))
    elif sys.version_info >= (3, 12):
        warnings.warn(text, category, skip_file_prefixes=_PASSED_THROUGH)
    else:
        warnings.warn(text, category, stacklevel=_level_of_caller())


@contextlib.contextmanager
def keeping_warnings() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Keep what `warn` is told in this thread, in the body, so that it can be told elsewhere.

    Unlike `warnings.catch_warnings` it leaves other threads alone.
    """
    before = getattr(_of_thread, "kept", None)
    found: list[tuple[str, type[Warning]]] = []
    _of_thread.kept = found
    try:
        yield found
    finally:
        _of_thread.kept = before


def _level_of_caller() -> int:
    """Return the `stacklevel`, as `warn` counts, of the innermost frame that is not passed through."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PASSED_THROUGH):
        frame = frame.f_back
        while frame.f_back is not None and "importlib._bootstrap" in frame.f_code.co_filename:
            frame = frame.f_back  # which `warnings` leaves out as it counts
        level += 1
    return level


class Interrupted(KeyboardInterrupt):
    """Ctrl-C (or SIGTERM) stopped a run cleanly; ``run`` holds what was done.

    One that has a file goes on by ``fastbm.resume(error.run.path)``, one in memory does not.

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
    """Return ``" Did you mean 'x'?"`` for the valid name nearest to `name`, or an empty string.

    For a name that other packages use, it is what that is called here.
    """
    valid = list(valid)
    needs, hint = ELSEWHERE.get(name, ("", ""))
    if hint and (not needs or needs in valid):
        return f" {hint}"
    close = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def no_argument(verb: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for a name that a verb does not take: with the nearest of its own, or all if none is near."""
    known = list(dict.fromkeys(known))
    way = nearest(name, known) or f" It takes: {', '.join(known)}."
    return TypeError(f"{verb} has no argument {name!r}.{way}")


def named(verb: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let a verb without further options refuse unknown names as those with options do, not in Python's words."""
    known = tuple(inspect.signature(verb).parameters)

    @functools.wraps(verb)
    def checked(*args: Arguments.args, **given: Arguments.kwargs) -> Result:
        for name in given:
            if name not in known:
                raise no_argument(verb.__name__, name, known)
        return verb(*args, **given)

    return checked


def no_file(path: str | os.PathLike[str]) -> str:
    """Return what is wrong with a path at which there is no file."""
    if os.path.isdir(path):
        return "is a folder, not a file"
    return "is a pipe or a device, not a file: write it to one first" if os.path.exists(path) else "does not exist"


def choice(argument: str, value: Any, valid: Iterable[str]) -> str:
    """Check that `value` is one of the names in `valid`."""
    valid = list(valid)
    if not isinstance(value, str) or value not in valid:
        listed = ", ".join(map(repr, valid))
        raise ValueError(f"{argument} must be one of {listed}; got {value!r}.{nearest(str(value), valid)}")
    return str(value)


def whole(argument: str, value: Any, *, least: int = 0, most: int | None = LARGEST_COUNT) -> int:
    """Check that `value` is a whole number from `least` to `most`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, numbers.Integral)):
        raise TypeError(f"{argument} must be a whole number; got {value!r} ({type(value).__name__}).")
    number = int(value)
    if number < least:
        raise ValueError(f"{argument} must be at least {least}; got {number}.")
    if most is not None and number > most:
        raise ValueError(f"{argument} must be at most {most}; got {number}.")
    return number


def real(argument: str, value: Any, *, least: float = -math.inf, above: float | None = None) -> float:
    """Check that `value` is a finite number, at least `least` and, if given, above `above`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (float, numbers.Real)):
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
    return float(value)


def path(argument: str, value: Any) -> str:
    """Return the text of a path; others than texts and path objects are refused."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        there = getattr(value, "path", None)  # of a run, or of a campaign
        way = "" if there is None else f" Name where it is: {str(there)!r}."
        raise TypeError(f"{argument} must be text or a Path; got {value!r} ({type(value).__name__}).{way}")
    return text


def place(argument: str, value: Any) -> Path:
    """Return a path with a home folder filled in; one that can name nothing is refused."""
    text = path(argument, value)
    if not text:
        raise ValueError(f"{argument} must name a file or a folder; got {text!r}. Leave it out, or name one.")
    if "\0" in text:
        raise ValueError(f"{argument} must not hold a zero character; got {text!r}.")
    if (found := os.path.expanduser(text)).startswith("~"):
        raise ValueError(f"{argument} must name a home folder that there is; got {text!r}. Write the whole path.")
    return Path(found)


def any_array(argument: str, value: Any) -> np.ndarray:
    """Return `value` as an array; rows of unequal length are refused, and so are masked entries.

    Sparse matrices are filled, and missing entries of tables with nullable columns become NaN.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{argument} must have no masked entries here. Fill them in, or leave their rows out.")
    try:
        found = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
        if found.dtype.kind == "O" and hasattr(value, "to_numpy"):
            with contextlib.suppress(TypeError, ValueError):
                found = value.to_numpy(dtype=np.float64, na_value=math.nan)
        return found
    except (TypeError, ValueError) as error:
        raise ValueError(f"{argument} must be an array with rows of equal length: {error}") from None


def real_array(argument: str, value: Any) -> np.ndarray:
    """Return `value` as an array of real numbers, in the dtype that it has."""
    given = any_array(argument, value)
    if given.dtype.kind not in "biuf":
        example = f", for instance {given.flat[0]!r}" if given.size else ""
        raise TypeError(f"{argument} must be an array of real numbers; got dtype {given.dtype}{example}.")
    return given


def finite_array(argument: str, value: Any) -> np.ndarray:
    """Return `value` as a new read-only C-contiguous float64 array, all entries finite."""
    array = np.array(real_array(argument, value), dtype=np.float64, order="C")
    if not array.ndim:
        real(argument, float(array))
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
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
