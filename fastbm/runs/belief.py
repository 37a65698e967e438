"""What a file's contents lead to: one StorageError where they make no sense, whatever Python says of that.

A seal tells of damage, not of sense: one who makes a file can seal it, and memory that fails before the seal is made is
sealed too. So what a run says of itself may stumble over a text where a number should be, or over what is not there.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from .._base.checks import StorageError

PACKAGE = str(Path(__file__).parents[1])


@contextmanager
def understanding(path: Any, what: str, *passes: type[Exception]) -> Iterator[None]:
    """Turn what goes wrong in the body into a StorageError, but for refusals in words of the types that pass.

    Where `path` is None nothing is turned.
    """
    try:
        yield
    except (StorageError, MemoryError):
        raise
    except Exception as error:
        if path is None or (isinstance(error, passes) and _is_in_words(error)):
            raise
        raise StorageError(
            f"{path} makes no sense: {what} cannot be told from what it holds ({type(error).__name__}: {error}). "
            "Restore a copy of it, or compute it again."
        ) from error


def _is_in_words(error: Exception) -> bool:
    """Tell whether a raise statement of fastbm made an error, and not Python or a library."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename.startswith(PACKAGE) and (last.line or "").startswith("raise ")


def guard(kind: type) -> None:
    """Let a class of runs tell of a file that makes no sense, in its properties and its summary.

    A property may refuse in words: the run has no such record.
    """
    for name, member in list(vars(kind).items()):
        if isinstance(member, property) and member.fget is not None and not name.startswith("_"):
            setattr(kind, name, property(_guarded(member.fget, f"its {name}", AttributeError), doc=member.__doc__))
        elif name == "summary":
            setattr(kind, name, _guarded(member, "its summary"))


def _guarded(function: Callable[..., Any], what: str, *passes: type[Exception]) -> Callable[..., Any]:
    @wraps(function)
    def guarded(self: Any) -> Any:
        if self.path is None:
            return function(self)
        with understanding(self.path, what, *passes):
            return function(self)

    return guarded
