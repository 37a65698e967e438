"""Turn the JSON of pytest-benchmark into a Markdown table, fastbm beside the best of its peers.

pytest bench -n 0 --benchmark-only --benchmark-json=BENCH.json
python bench/report.py BENCH.json [more.json ...] [--only REGEX] [--readme docs/speed.md [--update]]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
OURS = "fastbm"
SOLUTIONS = "solutions"  # shown as the time that one takes
HEAD = ["workload", "threads", "fastbm", "best peer", "", "ratio"]
PREFIXES = [(1e9, " G "), (1e6, " M "), (1e3, " k "), (1.0, " ")]


@dataclass(frozen=True)
class Entry:
    """One benchmark: the median time of a round, and the work that a round does (None where only the time matters)."""

    workload: str
    threads: int
    program: str
    seconds: float
    count: float | None
    unit: str
    variant: str = ""
    overhead: float | None = None

    @classmethod
    def of(cls, benchmark: dict[str, Any]) -> Entry:
        info = benchmark["extra_info"]
        return cls(
            workload=benchmark["group"],
            threads=info["threads"],
            program=info["program"],
            seconds=benchmark["stats"]["median"],
            count=info["count"],
            unit=info["unit"],
            variant=info.get("variant", ""),
            overhead=info.get("overhead"),
        )

    @property
    def speed(self) -> float:
        """Work per second, or runs per second."""
        return (1.0 if self.count is None else self.count) / self.seconds

    def __str__(self) -> str:
        if self.count is None or self.count == 1:
            return duration(self.seconds)
        if self.unit == SOLUTIONS:
            return duration(1 / self.speed) if self.count else "not found"
        rate = f"{scaled(self.speed)}{self.unit}/s"
        if self.overhead is not None:
            return f"{rate} ({100 * self.overhead:+.1f} % time)"
        return f"{rate} ({duration(self.seconds)})" if self.unit == "states" else rate


def scaled(value: float) -> str:
    """Three digits and a prefix."""
    size, prefix = next(((s, p) for s, p in PREFIXES if value >= s), PREFIXES[-1])
    return f"{digits(value / size)}{prefix}"


def duration(seconds: float) -> str:
    """Three digits and s, ms or µs."""
    size, name = next(((s, n) for s, n in ((1.0, "s"), (1e-3, "ms")) if seconds >= s), (1e-6, "µs"))
    return f"{digits(seconds / size)} {name}"


def digits(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def rows(entries: list[Entry]) -> list[list[str]]:
    """One row for each workload, variant and number of threads that fastbm has, in the order of the run.

    A peer may use fewer threads than fastbm: some are slower with more.
    """
    order = list(dict.fromkeys(entry.workload for entry in entries))
    variants = list(dict.fromkeys(entry.variant for entry in entries))
    ours = [entry for entry in entries if entry.program == OURS]
    ours.sort(key=lambda e: (order.index(e.workload), variants.index(e.variant), e.threads))
    return [row(our, [e for e in entries if e.program != OURS and e.workload == our.workload]) for our in ours]


def row(our: Entry, peers: list[Entry]) -> list[str]:
    """fastbm beside the best peer that uses no more threads."""
    name = f"{our.workload}, {our.variant}" if our.variant else our.workload
    cells = [name, str(our.threads), str(our)]
    peers = [peer for peer in peers if peer.threads <= our.threads]
    if not peers:
        return [*cells, "–", "", "–"]
    best = max(peers, key=lambda peer: peer.speed)
    fewer = "" if best.threads == our.threads else f" ({best.threads} thread)"
    ratio = f"{our.speed / best.speed:.2g}×" if best.speed else "–"
    return [*cells, str(best), best.program + fewer, ratio]


def table(reports: list[dict[str, Any]], only: str = "") -> str:
    """The table of workloads that match `only`, and below it what it was measured on."""
    benchmarks = [benchmark for report in reports for benchmark in report["benchmarks"]]
    entries = [Entry.of(benchmark) for benchmark in benchmarks if "program" in benchmark["extra_info"]]
    entries = [entry for entry in entries if re.search(only, entry.workload)]
    lines = [HEAD, ["---", "--:", "--:", "--:", "---", "--:"], *rows(entries)]
    return "\n".join(["| " + " | ".join(line) + " |" for line in lines] + ["", machine(reports[-1])])


def machine(report: dict[str, Any]) -> str:
    """Processor, BLAS, versions and date in one line."""
    info = report["machine_info"]["fastbm"]
    versions = ", ".join(f"{name} {number}" for name, number in info["versions"].items())
    kernels = f", OPENBLAS_CORETYPE={info['OPENBLAS_CORETYPE']}" if info["OPENBLAS_CORETYPE"] else ""
    return (
        f"Medians on {info['cores']} cores of {info['cpu']}, {report['datetime'][:10]}, "
        f"compilation excluded but for empty caches; {versions}; {', '.join(info['blas'])}{kernels}."
    )


def updated(block: str, old: str) -> str:
    """The lines of `block`, and the rows of the block `old` that it does not measure anew, with their notes."""
    new_rows, new_notes = _parted(block)
    old_rows, old_notes = _parted(old)
    measured = {_workload(row) for row in new_rows}
    kept = [row for row in old_rows[2:] if _workload(row) not in measured]
    if not kept:
        return block
    others = [note for note in _machines(old_notes) if note not in new_notes]
    since = f'Rows from "{_workload(kept[0])}" on are of earlier runs{": " if others else "."}'
    return "\n".join([*new_rows, *kept, "", *new_notes, "", since + " ".join(others)])


def _machines(notes: list[str]) -> list[str]:
    """What notes say of machines and versions, each once."""
    return list(dict.fromkeys(re.findall(r"Medians on .+?\.(?= Rows from|\s*$)", "\n".join(notes), re.MULTILINE)))


def _parted(block: str) -> tuple[list[str], list[str]]:
    """Rows of a table, and the text below it."""
    lines = [line for line in block.strip().splitlines() if line]
    return [line for line in lines if line.startswith("|")], [line for line in lines if not line.startswith("|")]


def _workload(row: str) -> str:
    return row.split("|")[1].strip()


def replace_block(text: str, block: str, begin: str = BEGIN, end: str = END) -> str:
    """Put `block` between two markers of a text."""
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"the file must have {begin} once, and {end} once after it")
    head, rest = text.split(begin)
    return f"{head}{begin}\n{block}\n{end}{rest.split(end)[1]}"


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or write it into a file that has a place for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, nargs="+", help="what --benchmark-json wrote, in one run or several")
    parser.add_argument("--only", default="", help="show the workloads that this regular expression finds")
    parser.add_argument("--readme", type=Path, help="replace the block between the markers of this file")
    parser.add_argument("--update", action="store_true", help="keep the rows of that block that were not measured")
    options = parser.parse_args(arguments)
    block = table([json.loads(path.read_text()) for path in options.json], options.only)
    if options.readme is None:
        print(block)
        return 0
    try:
        text = options.readme.read_text()
        if options.update and BEGIN in text:
            block = updated(block, text.partition(BEGIN)[2].partition(END)[0])
        options.readme.write_text(replace_block(text, block))
    except ValueError as error:
        print(f"{options.readme}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
