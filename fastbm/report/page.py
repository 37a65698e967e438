"""A run as one page of HTML that needs nothing else: verdict, results, pictures, and how to repeat it.

It has no scripts, loads nothing, follows the reader's light or dark, and scrolls sideways nowhere but in its tables.
"""

from __future__ import annotations

import base64
import io
import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .._base import html
from .._base.checks import StorageError
from .._base.files import marked, refuse_foreign, write_whole
from .._base.shown import shell_word
from ..diagnostics.jackknife import Estimate
from ..inference.comparison import Comparison
from ..runs.begin import run_of
from ..runs.infer.run import InferRun, Results
from ..runs.planted.run import RulesRun
from ..runs.run import Run
from ..runs.sample.physics import thermodynamics
from ..runs.sample.samples import Samples
from ..runs.status import DAMAGED, status_of
from ..runs.summary import format_value
from ..store import Reader, open_reader
from .comparisons import facts

GENERATOR = '<meta name="generator" content="fastbm">'
ABOUT = ("toml", "settings", "n_blocks", "merged_from", "replaces")  # of `meta`, which are no facts of the machine
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #5b6570; --line: #d5dae0; --card: #fff; --page: #f5f6f8;
  --good: #1a6b3c; --bad: #a8330f; --open: #7a5a00 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --dim: #9aa4ae; --line: #39424c; --card: #1d2228;
  --page: #14181c; --good: #6fd39a; --bad: #ff9b7a; --open: #e8c35a } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.2rem; max-width: 62rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--page); overflow-wrap: anywhere }
h1 { font-size: 1.35rem; margin: 0 0 .6rem } h2 { font-size: 1.05rem; margin: 0 0 .6rem }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin: 0 0 1rem }
.verdict { border-left: 6px solid var(--open); font-size: 1.1rem }
.good { border-left-color: var(--good) } .bad { border-left-color: var(--bad) }
.scroll { overflow-x: auto } p { margin: .4rem 0 } .dim { color: var(--dim) }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; vertical-align: top; padding: .15rem .9rem .15rem 0; border-bottom: 1px solid var(--line) }
th { font-weight: 600; overflow-wrap: normal }
.grid td, .grid th { text-align: right; white-space: nowrap; overflow-wrap: normal }
pre { margin: 0; overflow-x: auto; font: 13px/1.45 ui-monospace, monospace; white-space: pre }
img { width: 100%; height: auto; background: #fff; border-radius: 4px; display: block }
"""


def write_page(out: Path, place: Path | None, *, trust: bool = False) -> tuple[Path, bool]:
    """Write the page of a run, beside it unless told where; return where it is and whether the run is whole.

    Raises
    ------
    StorageError
        If there is a file that is no page of fastbm, there is no run, or the disk refuses.
    """
    path = out.with_suffix(".html") if place is None else place
    target = refuse_foreign(path, "page", marked(GENERATOR.encode()))
    whole = True
    try:
        (reader := open_reader(out, trust=trust)).verify_parts()
        text = page(reader)
    except StorageError:
        reader = open_reader(out, cut=True, trust=trust)
        if not reader.damage:
            raise
        text, whole = page(reader), False
    write_whole(target, text.encode(errors="backslashreplace"))  # names of files may hold what is no text
    return path, whole


def page(reader: Reader) -> str:
    """Return a run as a page of HTML."""
    run, status = run_of(reader), status_of(reader)
    summary = run.summary()
    title = f"{run.kind}: {summary.get('model', Path(summary['file']).name)}"
    mood = {True: " good", False: " bad", None: ""}[False if status.state == DAMAGED else run.converged]
    state = f"{status.state}: {status.text}" + (f". Go on with: {status.command}" if status.command else "")
    head = f"<h1>{escape(title)}</h1><p><b>{escape(summary.pop('verdict'))}</b></p>"
    parts = [f'<section class="verdict{mood}">{head}<p class="dim">{escape(state)}</p>{_warnings(run)}</section>']
    rows = [[name, format_value(value)] for name, value in summary.items() if name not in ("kind", "finished")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they would say is said above
        parts += [_section("Results", html.table(rows)), _picture(run), *_tables(run), _repeat(run), _machine(run)]
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{GENERATOR}\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head>\n<body>\n{body}\n'
        f'<p class="dim">fastbm {version("fastbm")}</p>\n</body></html>\n'
    )


def _section(title: str, content: str, kind: str = "") -> str:
    return f'<section><h2>{escape(title)}</h2><div class="scroll {kind}">{content}</div></section>'


def _warnings(run: Run) -> str:
    """Return what the run warned of at its end."""
    if not run.finished:
        return ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run.warn_at_end()
    return "".join(f"<p>Warning: {escape(str(one.message))}</p>" for one in caught)


def _picture(run: Run) -> str:
    """Return the picture of a run inside the page, or why there is none."""
    try:
        from .plots import figure
    except ImportError:
        return _section("Picture", '<p>Pictures need Matplotlib: <code>pip install "fastbm[plot]"</code></p>')
    try:
        drawn = figure(run)
    except (ValueError, AttributeError) as error:
        return _section("Picture", f"<p>{escape(str(error))}</p>")
    drawn.suptitle("")  # the page says it
    buffer = io.BytesIO()
    drawn.savefig(buffer, dpi=150, format="png")
    data = base64.b64encode(buffer.getvalue()).decode()
    return _section("Picture", f'<img alt="picture of the run" src="data:image/png;base64,{data}">')


def _tables(run: Run) -> list[str]:
    """Return the tables of a run: temperatures, what was inferred, or the cells of a comparison."""
    if isinstance(run, InferRun):
        return [_section("Found", html.table(facts(cell))) for cell in run.comparison.cells]
    if isinstance(run, Results):
        return [_cells(run.comparison)]
    if isinstance(run, RulesRun):
        return [_section("Rules", f"<pre>{escape(str(run.rules))}</pre>")]
    if isinstance(run, Samples):
        with suppress(ValueError, AttributeError):
            return [_temperatures(run)]
    return []


def _cells(comparison: Comparison) -> str:
    head, *rows = comparison.printed()
    return _section("Cells", html.table(rows, head), "grid")


def _temperatures(run: Samples) -> str:
    rows = thermodynamics(run)
    if len(rows) < 2:
        return ""
    names = [name for name in rows[0]._fields[1:] if any(getattr(row, name) is not None for row in rows)]
    cells = [[f"{row.beta:g}", *(_estimate(getattr(row, name)) for name in names)] for row in rows]
    head = ["beta", *(name.replace("_", " ").replace("abs magnetisation", "|magnetisation|") for name in names)]
    return _section("Temperatures, per unit", html.table(cells, head), "grid")


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return "-"
    return f"{found.value:.5g} ± {found.error:.2g}" if found.error else f"{found.value:.5g}"


def _repeat(run: Run) -> str:
    """Return how to make the run again: its settings as a file to run, or as they were resolved."""
    parts = []
    if toml := run.meta.get("toml"):
        parts.append("<p>Its settings, for a file run.toml that <code>fastbm run run.toml</code> takes:</p>")
        parts.append(f"<pre>{escape(as_toml(json.loads(toml)))}</pre>")
    settings = json.dumps(run.config, indent=1, default=str)
    settings = settings if len(settings) < 20_000 else settings[:20_000] + "\n..."
    whole = f"<details><summary>All settings as they were resolved</summary><pre>{escape(settings)}</pre></details>"
    if run.path is not None:
        name = shell_word(run.path)
        checks = f"<code>fastbm show {escape(name)}</code>, <code>fastbm verify {escape(name)}</code>"
        parts.append(f"<p>Look again: {checks}; in Python <code>bm.open({escape(repr(str(run.path)))})</code></p>")
    return _section("How to repeat it", "".join([*parts, whole]))


def _machine(run: Run) -> str:
    facts = [[name.replace("_", " "), str(value)] for name, value in run.meta.items() if name not in ABOUT]
    return _section("Made with", html.table(facts))


def as_toml(tables: Mapping[str, Any]) -> str:
    """Return tables of settings as TOML."""
    plain = {name: value for name, value in tables.items() if not isinstance(value, Mapping)}
    lines = [f"{_key(name)} = {_value(value)}" for name, value in plain.items()]
    for name, value in tables.items():
        if isinstance(value, Mapping):
            inner = [f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None]
            lines += ["", f"[{_key(name)}]", *inner]
    return "\n".join(lines).strip()


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = [f"{_key(name)} = {_value(item)}" for name, item in value.items() if item is not None]
        return "{ " + ", ".join(inner) + " }" if inner else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return json.dumps(value, ensure_ascii=False)
