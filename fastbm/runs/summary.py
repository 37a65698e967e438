"""The summary of a run: a dict of few numbers that prints as a table."""

from __future__ import annotations

from typing import Any


class Summary(dict[str, Any]):
    """A dict that prints as a table of two columns."""

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:<{width}}  {format_value(value)}" for name, value in self.items())

    def _repr_html_(self) -> str:
        from .._base import html

        return html.table([name, format_value(value)] for name, value in self.items())


def format_value(value: Any) -> str:
    """Return a value of a summary as text: floats with six digits, pairs as value +- error."""
    if isinstance(value, tuple):
        return f"{value[0]:.6g} +- {value[1]:.2g}" if value[1] else f"{value[0]:.6g} (exact)"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
