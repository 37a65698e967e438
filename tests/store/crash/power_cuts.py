"""What a power cut may leave on a disk: drawn from the log of all file operations.

A disk keeps what was synced. Of all else it may keep anything: of each write any of its pages, or a part of one; of
each folder's names any first part of the changes since the folder was synced, in their order.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastbm._base.checks import StorageError
from fastbm.store import open_reader
from fastbm.store.verification import verify
from tests.store.crash.operations import Do, Operation, watching
from tests.store.crash.stories import Stage, check_prefix, mend
from tests.support import crash

PAGE, SECTOR = 4096, 512


@dataclass
class File:
    """A file's bytes as they are on the disk, and the writes since it was synced."""

    kept: bytes = b""
    waiting: list[tuple[int, bytes]] = field(default_factory=list)

    def sync(self) -> None:
        data = bytearray(self.kept)
        for offset, piece in self.waiting:
            _write(data, offset, piece)
        self.kept, self.waiting = bytes(data), []

    def draw(self, chance: random.Random) -> bytes:
        """Bytes that may be found after a power cut."""
        data, part = bytearray(self.kept), chance.choice((0.0, 0.5, 0.9, 1.0))
        for offset, piece in self.waiting:
            if chance.random() < 0.5:  # the length is kept apart from the bytes
                _write(data, offset + len(piece), b"")
            for start, end in _pages(offset, len(piece)):
                if chance.random() >= part:
                    continue
                if chance.random() < 0.1:  # torn within a page
                    end = min(end, start + SECTOR * chance.randrange(1, PAGE // SECTOR))
                _write(data, offset + start, piece[start:end])
        return bytes(data)


def _write(data: bytearray, offset: int, piece: bytes) -> None:
    data.extend(bytes(max(0, offset + len(piece) - len(data))))
    data[offset : offset + len(piece)] = piece


def _pages(offset: int, length: int) -> list[tuple[int, int]]:
    """First and end of what falls into each page of the file, relative to the offset."""
    edges = sorted({0, length, *range(PAGE - offset % PAGE, length, PAGE)})
    return list(itertools.pairwise(edges))


@dataclass
class Names:
    """A folder's names as they are on the disk, and the changes since it was synced."""

    kept: dict[str, Any] = field(default_factory=dict)
    waiting: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seen(self) -> dict[str, Any]:
        """The names as programs see them."""
        return self.waiting[-1] if self.waiting else self.kept

    def change(self, removed: str | None = None, **added: Any) -> None:
        self.waiting.append({name: item for name, item in self.seen.items() if name != removed} | added)

    def sync(self) -> None:
        self.kept, self.waiting = self.seen, []


class Disk:
    """A folder with runs in it, and what a power cut may make of it."""

    def __init__(self, before: dict[str, bytes]) -> None:
        self.folders: dict[Path, Names] = {Path("."): Names()}
        for name, data in before.items():
            path = Path(name)
            if path.parent not in self.folders:
                self.folders[path.parent] = self.folders[Path(".")].kept[path.parent.name] = Names()
            self.folders[path.parent].kept[path.name] = File(data)

    def do(self, name: str, path: Path, *about: Any) -> None:
        """Take in one operation."""
        folder = self.folders.get(path.parent, Names())
        match name:
            case "make_folder" if path.name not in folder.seen:
                self.folders[path] = Names()
                folder.change(**{path.name: self.folders[path]})
            case "create":
                folder.change(**{path.name: File()})
            case "write":
                folder.seen[path.name].waiting.append(about)
            case "sync":
                folder.seen[path.name].sync()
            case "rename":
                before = self.folders[about[0].parent]
                file = before.seen[about[0].name]
                if before is folder:
                    folder.change(about[0].name, **{path.name: file})
                else:  # either folder may keep its change without the other's
                    before.change(about[0].name)
                    folder.change(**{path.name: file})
            case "sync_folder":
                self.folders[path].sync()
            case "unlink" | "remove_folder" if path.name in folder.seen:
                folder.change(path.name)

    def cut(self, place: Path, chance: random.Random) -> None:
        """Write what a power cut may leave."""
        shutil.rmtree(place, ignore_errors=True)
        _draw(self.folders[Path(".")], place, chance)


def _draw(folder: Names, place: Path, chance: random.Random) -> None:
    place.mkdir(parents=True)
    states = [folder.kept, *folder.waiting]
    for name, item in chance.choice((states[0], states[-1], chance.choice(states))).items():
        if isinstance(item, Names):
            _draw(item, place / name, chance)
        else:
            (place / name).write_bytes(item.draw(chance))


Entry = tuple[str, Path, tuple[Any, ...]]


@dataclass
class Log:
    """All operations of a story, and after how many of them how many blocks were said to be safe."""

    stage: Stage
    entries: list[Entry] = field(default_factory=list)
    safe: list[tuple[int, int]] = field(default_factory=list)

    def safe_after(self, n_entries: int) -> int:
        """Blocks that were said to be safe by then; -1 if not even their run."""
        return max((n_blocks for place, n_blocks in self.safe if place <= n_entries), default=-1)


def record(stage: Stage, folder: Path) -> Log:
    """Tell a story and write down what it does to the disk."""
    log, path = Log(stage), folder / "run.h5"
    stage.set(path)

    def act(operation: Operation, do: Do) -> Any:
        result = do(*operation.arguments)
        about: tuple[Any, ...] = ()
        if operation.name == "write":
            about = (operation.arguments[2], bytes(operation.arguments[1][:result]))
        elif operation.name == "rename":
            about = (Path(operation.arguments[0]).relative_to(folder),)
        if operation.name != "close":
            log.entries.append((operation.name, operation.path.relative_to(folder), about))
        return result

    with watching(act):
        stage.tell(path, lambda n_blocks: log.safe.append((len(log.entries), n_blocks)))
    return log


def trial(log: Log, place: Path, n_entries: int, chance: random.Random) -> None:
    """Cut the power after so many operations; nothing that was said to be safe is lost, and the end is the same."""
    disk = Disk(log.stage.before)
    for name, path, about in log.entries[:n_entries]:
        disk.do(name, path, *about)
    disk.cut(place, chance)
    path, safe = place / "run.h5", log.safe_after(n_entries)
    if safe >= 0:
        assert check_prefix(path, log.stage.whole) >= safe
        with open_reader(path) as reader:
            reader.verify()
    log.stage.tell(path)
    crash.assert_same_contents(log.stage.whole, crash.contents_of(path))


def check(stage: Stage, folder: Path, n_trials: int, seed: int = 0) -> Log:
    """Cut the power of one story many times."""
    log, chance = record(stage, folder), random.Random(seed)
    assert len(log.entries) > 10
    assert log.safe
    for _ in range(n_trials):
        trial(log, folder / "after", chance.randrange(len(log.entries) + 1), chance)
    return log


def check_after(name: str, stage: Stage, folder: Path, n_trials: int) -> None:
    """Cut the power right after each operation of a name, some times each."""
    log, chance = record(stage, folder), random.Random(2)
    for _ in range(n_trials):
        for number in [k + 1 for k, entry in enumerate(log.entries) if entry[0] == name]:
            trial(log, folder / "after", number, chance)


def torn(data: bytes, step: int) -> Iterator[tuple[str, bytes]]:
    """Yield a file with zeros from each place on, up to each place, and in each page and sector; with what was done."""
    edges = sorted({*range(0, len(data) + 1, step), 8, 64, 500, *(len(data) - n for n in (1, 8, 48, 64))})
    spans = [(start, len(data)) for start in edges] + [(0, end) for end in edges]
    spans += [(start, start + n) for n in (PAGE, SECTOR) for start in range(0, len(data), n)]
    for start, end in dict.fromkeys((start, min(end, len(data))) for start, end in spans):
        found = data[:start] + bytes(end - start) + data[end:]
        if found != data:
            yield f"bytes {start}-{end - 1} are zeros", found


def check_torn(parts: Path, name: str, whole: crash.Contents, place: Path, step: int, every: int) -> int:
    """Tear one file of a run in every way: it is told, what lies before is kept, and `every` so many ends the same.

    Returns
    -------
    n_torn : int
        In how many ways it was torn.
    """
    place.mkdir(exist_ok=True)
    n_torn, path, is_rows = 0, place / "run.h5", name.startswith("seg")
    kept = {one.name: one.read_bytes() for one in sorted(parts.glob("seg-*.h5")) if one.name != name}
    for n_torn, (what, data) in enumerate(torn((parts / name).read_bytes(), step), 1):
        crash.remove_run(path)
        folder = Path(shutil.copytree(parts, f"{path}.parts"))
        (folder / name).write_bytes(data)
        try:
            check_prefix(path, whole)
            assert not is_rows, f"{what}: read as if it were whole"
        except StorageError as error:
            assert is_rows, f"{what}: {error}"
            assert f"{name} is damaged: " in str(error), f"{what}: {error}"
        if is_rows:
            assert n_torn % every or verify(path).problems, what
            with open_reader(path, cut=True) as reader:
                assert reader.n_blocks == len(kept) - 1, what
        for one, before in kept.items():
            assert (folder / one).read_bytes() == before, what
        if n_torn % every == 0:
            mend(path)
            crash.assert_same_contents(whole, crash.contents_of(path))
    return n_torn
