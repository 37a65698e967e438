"""Campaigns whose workers and coordinators are killed, and what must then be true of their folders."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastbm as bm
from fastbm.campaigns.attempts import LEFT, STARTED
from fastbm.store import is_there, open_reader
from fastbm.store.holder import read_holder
from tests.support import stopping

Rows = dict[str, dict[str, bytes]]

# Workers are forked, as whatever is in a test; a cell takes a while, so that there is time to kill it.
BEFORE = """
import time
from fastbm.campaigns import task
from fastbm.runs import workers
workers.METHODS = ("fork",)
row = task.ShardTask._row
task.ShardTask._row = lambda self, cell: (time.sleep({seconds}), row(self, cell))[1]
"""


def tables(n_betas: int = 4, fields: tuple[float, ...] = (0.0, 0.1), **campaign: Any) -> dict[str, Any]:
    """A campaign of small cells."""
    return {
        "model": {"name": "ising", "shape": [3, 3]},
        "sample": {"n_sweeps": 10, "n_chains": 8, "burn_in": 0},
        "grid": {"sample.beta": {"linspace": [0.1, 0.8, n_betas]}, "model.field": list(fields)},
        "campaign": {"n_shards": 4, **campaign},
    }


def write(folder: Path, said: Mapping[str, Any]) -> Path:
    """Write tables as TOML."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {text(one)}" for key, one in value.items()) + "}"
        return repr(value).replace("'", '"')

    lines = [f"[{name}]\n" + "".join(f'"{k}" = {text(v)}\n' for k, v in table.items()) for name, table in said.items()]
    file = folder / "campaign.toml"
    file.write_text("\n".join(lines))
    return file


def contents(folder: Path) -> Rows:
    """What the shards of a campaign hold, but for what depends on clocks: their specs and every byte of their rows."""
    found = {}
    for path in sorted((folder / "shards").glob("*.h5")):
        run = bm.open(path)
        assert run.finished, path
        streams = {name: repr(run.read(name).tolist()).encode() for name in run.streams if not name.startswith("meta")}
        found[path.name] = {"spec": repr(run.config).encode(), **streams}
    return found


def paths(folder: Path) -> list[Path]:
    """All shards that have begun."""
    there = (folder / "shards").glob("*") if (folder / "shards").exists() else ()
    return sorted({Path(str(path).removesuffix(".parts")) for path in there if path.suffix in (".h5", ".parts")})


def holders(folder: Path) -> set[int]:
    """The processes that write shards."""
    found = (read_holder(Path(f"{path}.parts") / "lock") for path in paths(folder))
    return {one.pid for one in found if one is not None and one.alive}


class Watch:
    """What was committed at each kill, and which cells were begun after it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._committed: dict[Path, set[str]] = {}
        self._lines: dict[Path, int] = {}

    def look(self) -> None:
        """Check that no cell was begun again that had been committed before the last look."""
        for path in paths(self._folder):
            lines = self._read(path)
            begun = [line.split()[0] for line in lines[self._lines.get(path, 0) :] if line not in (STARTED, LEFT)]
            assert not set(begun) & self._committed.get(path, set()), path
            if is_there(path):
                reader = open_reader(path)
                ids = [cell["id"] for cell in reader.spec["cells"]]
                self._committed[path] = set(ids[: reader.n_rows("cells/row")])
            self._lines[path] = len(lines)

    @staticmethod
    def _read(path: Path) -> list[str]:
        try:
            return Path(f"{path}.attempts").read_text().splitlines()
        except FileNotFoundError:
            return []


def kill_workers_and_coordinators(
    file: Path, folder: Path, n_of_workers: int, n_of_coordinators: int, *, seconds: float, between: float
) -> int:
    """Run a campaign with two workers to its end, through kills in an order that is drawn; return how many came."""
    chance = random.Random(1)
    phases = sorted(chance.randrange(n_of_coordinators + 1) for _ in range(n_of_workers))  # of each worker's kill
    watch, n_kills = Watch(folder), 0
    words = ("run", file, "--out", folder, "--workers", 2, "-q")
    for phase in range(n_of_coordinators + 1):
        left: list[int] = []
        with stopping.start(*words, before=BEFORE.format(seconds=seconds)) as child:
            for _ in range(phases.count(phase)):
                wait_for_a_row(folder, child, chance.uniform(0.0, between))
                if there := sorted(holders(folder)):
                    os.kill(chance.choice(there), signal.SIGKILL)
                    n_kills += 1
            if phase < n_of_coordinators:
                wait_for_a_row(folder, child, chance.uniform(0.0, between))
                n_kills += child.poll() is None
                left = children_of(child._pid)
                child.kill()
            told = child.communicate()
        end = time.monotonic() + stopping.DEADLINE
        while holders(folder) or any(map(is_alive, left)):
            assert time.monotonic() < end, "workers go on without their coordinator"
            time.sleep(0.02)
        watch.look()
    assert child.returncode == 0, told
    return n_kills


def children_of(pid: int) -> list[int]:
    """The processes that a process has begun."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_a_row(folder: Path, child: stopping.Child, more: float) -> None:
    """Wait until one more row is committed, and a time after it."""
    before, end = n_committed(folder), time.monotonic() + stopping.DEADLINE
    while child.poll() is None and not (n_committed(folder) > before and holders(folder)):
        assert time.monotonic() < end, "no row is committed"
        time.sleep(0.02)
    time.sleep(more)


def n_committed(folder: Path) -> int:
    """How many rows are committed in all shards."""
    n = 0
    for path in paths(folder):
        try:
            n += open_reader(path).n_rows("cells/row")
        except bm.StorageError:  # it is being made, or merged
            continue
    return n
