"""What `fastbm verify` prints: of runs, and of the small files of machines and classifiers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from .._base import files
from .._base.checks import StorageError
from .._base.files import is_campaign
from .._base.hdf5 import sealed_format
from .._base.shown import printable
from ..campaigns.generations import read_all
from ..campaigns.status import opened
from ..learning.classifier.classifier import BoltzmannClassifier
from ..learning.classifier.file import FORMAT as CLASSIFIER
from ..machine.file import load
from ..store import apart
from ..store.verification import verify_apart

SHARDS, CELLS, PARTS = "shards", "cells", ".parts"  # the folders of a campaign, and how runs are called that go on


def verify(out: Path) -> bool:
    """Check every byte of a file, or of all that a campaign holds; say what was found, and whether all is sound."""
    if not is_campaign(out):
        return verify_file(out)
    runs = sorted({place.with_suffix("") if place.suffix == PARTS else place for place in _places(out)})
    return all([verify_file(run) for run in runs]) and _belong(out)


def _belong(folder: Path) -> bool:
    """Say whether a campaign's shards, which are whole, are its own and in their places."""
    try:
        for _ in opened(folder, read_all(folder)):
            pass
    except StorageError as error:
        Console().print(f"[red]damaged[/]  {escape(printable(error))}", highlight=False)
        return False
    return True


def _places(folder: Path) -> Iterator[Path]:
    for name in (SHARDS, CELLS):
        for place in (folder / name).glob("*.h5*"):
            if place.suffix in (".h5", PARTS):
                yield place


def verify_file(out: Path) -> bool:
    """Check every byte of a run, a machine or a classifier, in a process of its own; say what was found.

    Returns whether it is sound.

    Raises
    ------
    StorageError
        If there is no such file, or it may not be read.
    """
    started = time.perf_counter()
    console = Console()
    with files.reading(out):
        try:
            is_small = out.is_file() and files.check_seal(out)
        except StorageError as error:
            console.print(f"[red]damaged[/]  {escape(printable(error))}", highlight=False)
            return False
    if is_small:
        return _verify_small(out, console)
    found = verify_apart(out)
    for line in found.problems:
        console.print(f"[red]damaged[/]  {escape(printable(line))}", highlight=False)
    for line in found.notes:
        console.print(f"note     {escape(printable(line))}", highlight=False)
    state = "is being written" if found.live else "finished" if found.finished else "can be resumed"
    state = "it cannot be read or resumed" if found.lost else state
    blocks = f"blocks 0-{found.n_blocks - 1}" if found.n_blocks else "no blocks"
    where = "one file" if found.merged else f"{found.n_files} files"
    seconds = time.perf_counter() - started
    console.print(
        f"{escape(printable(out))}: {where}, {found.n_bytes / 1e6:.1f} MB, {blocks} are whole; {state}. "
        f"{'Every byte is as it was written' if found.sound else f'{len(found.problems)} damaged'} ({seconds:.1f} s).",
        highlight=False,
    )
    return found.sound


def _verify_small(out: Path, console: Console) -> bool:
    """Read a file that is sealed as machines and classifiers are; HDF5 sees it elsewhere."""
    try:
        holds = apart.call(content, str(out), apart.SECONDS)
    except apart.Lost as error:
        holds = {"problem": f"{out} cannot be looked at: the process that read it {error}."}
    if problem := holds.get("problem"):
        console.print(f"[red]damaged[/]  {escape(printable(problem))}", highlight=False)
        return False
    console.print(f"{escape(printable(out))}: {holds['what']}. Every byte is as it was written.", highlight=False)
    return True


def content(path: str) -> dict[str, str]:
    """Say what a machine's or a classifier's file holds, or what is wrong with it."""
    try:
        if sealed_format(path) != CLASSIFIER:
            machine = load(path)
            return {"what": f"a machine of {machine.n_units} {machine.units} units"}
        classifier = BoltzmannClassifier.load(path)
    except StorageError as error:
        return {"problem": str(error)}
    return {"what": f"a classifier of {len(classifier.classes)} classes, {classifier.machines[0].n_visible} units"}
