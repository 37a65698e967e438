"""The files of a run: a merged file, parts, or both, and which of the two counts."""

from __future__ import annotations

import difflib
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._base.checks import DamagedRun, StorageError
from .._base.files import is_campaign
from .._base.hdf5 import reader_of, sealed_format
from .._base.streams import Stream
from . import hdf
from .chain import Origin, parse_settings, read_origin, way_out_of_lost_parts
from .checked import MergedFile
from .holder import is_live, read_holder, silent_for
from .image import MARKED, SIGNATURE, Damaged, Foreign, check_hash
from .names import Names, of_campaign
from .schema import FORMAT, INPUTS, META, SPEC, STATE, Arrays, check_major

NAMELESS_SECONDS = 5.0  # that a writer may take to say in its lock who it is
DISTRUST = "Its rows cannot be trusted. Restore a copy of it, or move it away and run it again."
ABOUT = {"run_id": str, "merged_from": str, "n_blocks": int}  # what a merged file must say of its making
NO_SEAL = (
    "its seal is missing, so that nothing in it can be checked: it was cut, or rewritten by another program. Restore a "
    "copy of it, or open it as it is with trust=True (on the command line --trust)."
)
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


@dataclass(frozen=True)
class Merged:
    """A merged file, checked as far as is cheap.

    Attributes
    ----------
    sha256 : str
        The hash of the whole file, from its trailer; empty where the file has no seal and is trusted.
    """

    names: Names
    sha256: str
    spec: str
    streams: dict[str, Stream]
    n_rows: dict[str, int]
    meta: dict[str, Any]

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.meta["run_id"])

    @property
    def merged_from(self) -> str:
        """The sha256 of the first of the segments from which the file was merged."""
        return str(self.meta["merged_from"])

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the run's writer."""
        return parse_settings(self.meta)

    def open(self) -> MergedFile:
        """Open the file; bytes are checked as they are read."""
        return MergedFile(self.names.merged, trust=not self.sha256)

    def read_arrays(self, group: str) -> Arrays:
        """Read the inputs or the last state."""
        with self.open() as file:
            return hdf.read_arrays(file.hdf5[group])

    def check(self) -> None:
        """Compare every byte with the hash in the trailer."""
        try:
            if not self.sha256:
                raise Damaged("its seal is missing")
            check_hash(self.names.merged, self.sha256)
        except Damaged as error:
            raise DamagedRun(f"{self.names.shown} is damaged: {error}. {DISTRUST}") from None


@dataclass(frozen=True)
class Status:
    """The files of a run that count, merged and in parts, leftovers left out.

    Attributes
    ----------
    merged : Merged or None
        The merged file: the whole run, or its first part where `origin` is given too.
    origin : Origin or None
        The first segment of the parts that count.
    leftover_parts, leftover_merged : bool
        Whether a kill has left parts that are merged already, or a merged file that was replaced.
    """

    merged: Merged | None
    origin: Origin | None
    leftover_parts: bool = False
    leftover_merged: bool = False


def find(names: Names, *, trust: bool = False) -> Status:
    """Find the files of a run; raise StorageError if there are none, or if they do not belong together.

    A merged file without a seal is refused unless one is to `trust` it.
    """
    try:
        return _find(names, trust)
    except (StorageError, FileNotFoundError):
        raise
    except OSError as error:
        raise unreadable(names, error) from error


def _find(names: Names, trust: bool) -> Status:
    # A writer makes the merged file before it removes the parts, and the first segment of a run that replaces a merged
    # file before it removes that. So one of two looks, parts first, finds a run that is there.
    merged, origin = _parts_and_merged(names, trust)
    if merged is None and origin is None:
        merged, origin = _parts_and_merged(names, trust)
    if merged is None and origin is None:
        raise missing(names)
    if merged is None or origin is None:
        if origin is not None and origin.header.base_sha256:
            raise StorageError(f"{names.shown}, the first part of the run in {names.shown}.parts, is missing.")
        return Status(merged, origin)
    if merged.merged_from == origin.header.sha256:
        return Status(merged, None, leftover_parts=True)
    if origin.header.base_sha256 and origin.header.base_sha256 == merged.sha256:
        return Status(merged, origin)
    if merged.run_id in origin.replaced:
        return Status(None, origin, leftover_merged=True)
    raise StorageError(
        f"{names.shown} and {names.shown}.parts are of different runs. Nothing was changed. Move one of them away."
    )


def _parts_and_merged(names: Names, trust: bool) -> tuple[Merged | None, Origin | None]:
    if is_campaign(names.merged):
        raise StorageError(of_campaign("path", names.shown))
    names.check_links()
    there, origin = names.has_segments(), None
    with suppress(FileNotFoundError):
        origin = read_origin(names) if there else None
    # Parts that vanish while they are looked at were merged; where they are still there, the first one is lost.
    if there and origin is None and names.has_segments():
        raise DamagedRun(
            f"{names.show(names.segment(0))} is missing, so the run cannot be read or resumed. "
            f"{way_out_of_lost_parts(names)}"
        )
    with suppress(FileNotFoundError):
        return read_merged(names, trust=trust), origin
    return None, origin


def read_merged(names: Names, *, trust: bool = False) -> Merged:
    """Read what a merged file holds about itself; refuse files that are none, newer or damaged, or lack a seal."""
    path, shown = names.merged, names.shown
    if kind := kind_of(path):
        kind = "the folder of a campaign" if is_campaign(path) else kind
        raise StorageError(f"{shown} is not a fastbm run (it is {kind}).")
    try:
        with _open_merged(names, trust) as file:
            about = _about(names, file)
            file.check_about((INPUTS, STATE))
            return about
    except Damaged as error:
        raise DamagedRun(f"{shown} is damaged: {error}. {DISTRUST}") from None
    except (StorageError, FileNotFoundError):
        raise
    except Exception as error:  # a file that is sealed and no run may fail in any way
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DamagedRun(f"{shown} is damaged: HDF5 cannot read it ({error}). {DISTRUST}") from error


def _open_merged(names: Names, trust: bool) -> MergedFile:
    try:
        return MergedFile(names.merged)
    except (Foreign, Damaged) as error:
        missing = isinstance(error, Foreign) or "trailer is missing" in str(error)
        if not missing:
            raise
        with open(names.merged, "rb") as file:
            head = file.read(MARKED)
        if not head.startswith(SIGNATURE):
            raise StorageError(f"{names.shown} is not a fastbm run (not an HDF5 file).") from None
        if isinstance(error, Foreign):
            raise StorageError(f"{names.shown} is not a fastbm run (no format attribute).") from None
    if (other := sealed_format(names.merged)) not in ("", FORMAT):
        raise StorageError(f"{names.shown} is not a fastbm run but a {other}, which {reader_of(other)} reads.")
    if trust:
        return MergedFile(names.merged, trust=True)
    raise DamagedRun(f"{names.shown} is damaged: {NO_SEAL}")


def _about(names: Names, merged: MergedFile) -> Merged:
    shown, file = names.shown, merged.hdf5
    attrs = hdf.read_attributes(file["/"].id)
    if attrs.get("format") != FORMAT:
        raise StorageError(f"{shown} is not a fastbm run (no format attribute).")
    check_major(shown, attrs["format_version"], attrs["fastbm_version"])
    if "segment" in attrs:
        raise StorageError(f"{shown} is one segment of a run. Open the run by its own name, without /seg-....")
    meta = hdf.read_attributes(file[META].id) if META in file else {}
    if "run_id" not in meta:
        raise StorageError(f"{shown} is not a fastbm run (it holds no run id).")
    parse_settings(meta)
    if any(not isinstance(meta.get(key), kind) for key, kind in ABOUT.items()):
        raise Damaged("what it says of its making is not there")
    streams, n_rows = hdf.read_streams(file)
    return Merged(names, merged.sha256, file[SPEC].asstr()[()], streams, n_rows, meta)


def kind_of(path: Path) -> str:
    """Return what lies at a path, as text, if it is no plain file: ``a folder``; empty for files."""
    mode = path.stat().st_mode
    return "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no plain file")


def unreadable(names: Names, error: OSError) -> StorageError:
    """Return the error for files that exist but that the system refuses to read."""
    file = error.filename or names.merged
    return StorageError(f"{names.shown} cannot be read: {error.strerror or error} ({file}). Nothing was changed.")


def missing(names: Names) -> StorageError:
    """Return the error for a run that does not exist, with the files nearest by name."""
    folder = names.merged.parent
    text = f"{names.shown} does not exist: no such run"
    if not folder.is_dir():
        return StorageError(f"{text}, and no folder {folder}.")
    if names.merged.is_symlink():
        return StorageError(f"{text}, but a link to {os.readlink(names.merged)}, which is not there.")
    if names.parts.is_dir():
        ours = {names.lock, *names.temporaries()}
        left = [path for path in names.parts.iterdir() if path not in ours]
        why = " A run that was killed before its first one leaves that: begin it again."
        if is_live(names) or (read_holder(names.lock) is None and silent_for(names) < NAMELESS_SECONDS):
            why = " A process is about to make the first one."
        return StorageError(f"{text}, and {names.shown}.parts holds no commit.{'' if left else why}")
    runs = {path.name.removesuffix(".parts") for path in folder.iterdir() if ".h5" in path.suffixes}
    runs.discard(names.merged.name)
    close = difflib.get_close_matches(names.merged.name, sorted(runs), n=3, cutoff=0.4)
    return StorageError(f"{text}." + (f" Nearest by name: {', '.join(close)}." if close else ""))
