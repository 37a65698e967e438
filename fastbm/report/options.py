"""What is said of a sampler, a method of inference or a rule of learning by its name: its docstring."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from .._base import checks
from .._base.options import Options
from ..inference.auto import BY_NAME
from ..learning.methods import RULES
from ..learning.settings import Monitor
from ..sampling.samplers import SAMPLERS

WIDTH = 79
# what each is called, the module whose classes they are, and how one is passed
TABLES: dict[str, tuple[str, str, Mapping[str, type[Options]]]] = {
    "samplers": ("sampler", "bm.sample(model, {})", SAMPLERS),
    "methods": ("method of inference", "bm.infer(model, {})", BY_NAME),
    "rules": ("rule of learning", "bm.fit(rows, {})", {**RULES, Monitor.name: Monitor}),
}


def describe(name: str | None = None) -> str:
    """Return what there is of that name, or all names by kind.

    Raises
    ------
    ValueError
        For a name that nothing has; the text names the nearest.
    """
    if name is None:
        return "\n".join(_listed(kind, table) for kind, _, table in TABLES.values()) + (
            "\nfastbm help NAME says what each does, and what its options mean."
        )
    found = [_entry(place, name) for place, (_, _, table) in TABLES.items() if name in table]
    if not found:
        known = dict.fromkeys(one for _, _, table in TABLES.values() for one in table)
        raise ValueError(f"nothing is called {name!r}.{checks.nearest(name, known)} fastbm help lists all names.")
    return "\n\n\n".join(found)


def _listed(kind: str, table: Mapping[str, type[Options]]) -> str:
    names = ", ".join(table)
    return textwrap.fill(f"{kind}: {names}", WIDTH, subsequent_indent="    ", break_on_hyphens=False)


def _entry(place: str, name: str) -> str:
    kind, call, table = TABLES[place]
    cls = table[name]
    made = f"bm.{place}.{cls.__name__}(...)"
    use = f"bm.fit(rows, monitor={made})" if cls is Monitor else call.format(f'"{name}", ...')
    head = f"{name}, {'what is watched' if cls is Monitor else f'a {kind}'}: {use}"
    more = "" if cls is Monitor else f"\n{' ' * len(head[: head.index(use)])}{call.format(made)}"
    return f"{head}{more}\n\n{textwrap.indent(_narrow(cls.__doc__ or ''), '    ')}"


def _narrow(doc: str) -> str:
    """Return a docstring with lines that fit a terminal, each with the indent of its paragraph."""
    lines: list[str] = []
    paragraph: list[str] = []

    def end() -> None:
        if paragraph:
            indent = paragraph[0][: len(paragraph[0]) - len(paragraph[0].lstrip())]
            text = " ".join(line.strip() for line in paragraph)
            lines.extend(
                textwrap.wrap(text, WIDTH - 4, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
            )
            paragraph.clear()

    for line in doc.splitlines():
        is_text = bool(line.strip()) and (line.startswith(" ") or " : " not in line)
        if not is_text or set(line) == {"-"} or (paragraph and _indent(line) != _indent(paragraph[0])):
            end()
        if is_text and set(line) != {"-"}:
            paragraph.append(line)
            continue
        if set(line) == {"-"} and lines:
            end()
        lines.append(line)
    end()
    return "\n".join(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
