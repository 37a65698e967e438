"""One line for what is shown: of what holds many numbers names and shapes, of texts and paths what prints."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np


def brief(what: Any) -> str:
    """Return a named tuple or a dataclass in one line; its arrays are told by their shapes."""
    named: Mapping[str, Any] = (
        what._asdict() if hasattr(what, "_asdict") else {one.name: getattr(what, one.name) for one in fields(what)}
    )
    return f"<{type(what).__name__}: {', '.join(f'{name} {_told(value)}' for name, value in named.items())}>"


def printable(what: object) -> str:
    """Return a text in one line that no terminal obeys: what does not print, as newlines, is written as Python does."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(what))


def shell_word(path: str | os.PathLike[str]) -> str:
    """Return a path as it is typed into a shell, in one line; what does not print by its bytes, as bash and zsh do.

    A name that would be taken for an option or a home folder has the folder before it.
    """
    text = os.fspath(path)
    if text.startswith(("-", "~")):
        text = f"./{text}"
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_in_shell, text))}'"


def _in_shell(letter: str) -> str:
    if letter.isprintable():
        return f"\\{letter}" if letter in "\\'" else letter
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(letter))


def _told(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"({', '.join(map(str, value.shape))}{',' * (value.ndim == 1)})"
    if isinstance(value, tuple) and not hasattr(value, "_asdict"):
        return f"of {len(value)}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
