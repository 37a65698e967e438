"""Tables as HTML, for notebooks and pages: everything that is not a tag is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return rows of texts as a table; without a `head` the first column holds names."""
    parts = []
    if head:
        parts.append("<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>")
    for row in rows:
        cells = [f"<td>{escape(cell)}</td>" for cell in row]
        if not head and row:
            cells[0] = f'<th scope="row" style="text-align:left">{escape(row[0])}</th>'
        parts.append("<tr>" + "".join(cells) + "</tr>")
    return f"<table>{''.join(parts)}</table>"
