"""What there is of a run: a merged file, parts, or both, and which of the two counts."""

from __future__ import annotations

import difflib
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._base.checks import DamagedRun, StorageError
from . import hdf, seal
from .chain import Origin, read_origin, way_out_of_lost_parts
from .holder import is_live
from .image import SIGNATURE, Damaged, Foreign, check_hash, open_image, read_trailer
from .names import Names
from .schema import FORMAT, META, SPEC, Arrays, Stream, check_major

HASHED_AT_OPEN = 256 << 20
DISTRUST = "Its rows cannot be trusted. Restore a copy of it, or move it away and run it again."
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
        The hash of the whole file, from its trailer; empty if another program has rewritten the file.
    """

    names: Names
    sha256: str
    spec: str
    streams: dict[str, Stream]
    n_rows: dict[str, int]
    meta: dict[str, Any]

    @property
    def run_id(self) -> str:
        """The run's name for itself."""
        return str(self.meta["run_id"])

    @property
    def merged_from(self) -> str:
        """The sha256 of the first of the segments that it was merged from."""
        return str(self.meta["merged_from"])

    @property
    def settings(self) -> dict[str, Any]:
        """How the run was written."""
        return dict(json.loads(self.meta["settings"]))

    def read_arrays(self, group: str) -> Arrays:
        """Read the inputs or the last state."""
        with open_image(self.names.merged) as file:
            return hdf.read_arrays(file[group])

    def check(self) -> None:
        """Compare every byte with the trailer."""
        try:
            if not self.sha256:
                raise Damaged("the trailer is missing")
            check_hash(self.names.merged, self.sha256)
        except Damaged as error:
            raise DamagedRun(f"{self.names.shown} is damaged: {error}. {DISTRUST}") from None


@dataclass(frozen=True)
class Standing:
    """What there is of a run, merged and in parts, leftovers taken out.

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


def find(names: Names, *, hashed: bool = True) -> Standing:
    """Return what there is of a run; raise StorageError if nothing, or if the sides do not belong together.

    A merged file is compared with its hash unless `hashed` is false, or it is large.
    """
    try:
        return _find(names, hashed)
    except (StorageError, FileNotFoundError):
        raise
    except OSError as error:
        raise unreadable(names, error) from error


def _find(names: Names, hashed: bool) -> Standing:
    # A writer makes the merged file before it removes the parts, and the first segment of a run that replaces a merged
    # file before it removes that. So one of two looks, parts first, finds a run that is there.
    merged, origin = _look(names, hashed)
    if merged is None and origin is None:
        merged, origin = _look(names, hashed)
    if merged is None and origin is None:
        raise missing(names)
    if merged is None or origin is None:
        if origin is not None and origin.header.base_sha256:
            raise StorageError(f"{names.shown}, the first part of the run in {names.shown}.parts, is missing.")
        return Standing(merged, origin)
    if merged.merged_from == origin.header.sha256:
        return Standing(merged, None, leftover_parts=True)
    if origin.header.base_sha256 and origin.header.base_sha256 == merged.sha256:
        return Standing(merged, origin)
    if merged.run_id in origin.replaced:
        return Standing(None, origin, leftover_merged=True)
    raise StorageError(
        f"{names.shown} and {names.shown}.parts are of different runs. Nothing was changed. Move one of them away."
    )


def _look(names: Names, hashed: bool) -> tuple[Merged | None, Origin | None]:
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
        return read_merged(names, hashed=hashed), origin
    return None, origin


def read_merged(names: Names, *, hashed: bool = True) -> Merged:
    """Read what a merged file says of itself; refuse files that are none, newer or damaged."""
    path, shown = names.merged, names.shown
    if kind := kind_of(path):
        raise StorageError(f"{shown} is not a fastbm run (it is {kind}).")
    try:
        digest = read_trailer(path)
        if hashed and path.stat().st_size <= HASHED_AT_OPEN and not seal.is_known(path, digest):
            check_hash(path, digest)
    except Foreign:
        digest = ""
    except Damaged as error:
        digest = ""
        if "trailer is missing" not in str(error):
            raise DamagedRun(f"{shown} is damaged: {error}. {DISTRUST}") from None
    try:
        with open_image(path) as file:
            if file.attrs.get("format") != FORMAT:
                raise StorageError(f"{shown} is not a fastbm run (no format attribute).")
            check_major(shown, file.attrs["format_version"], file.attrs["fastbm_version"])
            if "segment" in file.attrs:
                raise StorageError(f"{shown} is one segment of a run. Open the run by its own name, without /seg-....")
            if META not in file or "run_id" not in file[META].attrs:
                raise StorageError(f"{shown} is not a fastbm run (it holds no run id).")
            meta = {key: hdf.plain(value) for key, value in file[META].attrs.items()}
            streams = hdf.read_streams(file)
            n_rows = {name: int(file[name].shape[0]) for name in streams}
            return Merged(names, digest, file[SPEC].asstr()[()], streams, n_rows, meta)
    except (KeyError, ValueError, RuntimeError, Damaged) as error:
        raise DamagedRun(f"{shown} is damaged: HDF5 cannot read it ({error}). {DISTRUST}") from error
    except (StorageError, FileNotFoundError):
        raise
    except OSError as error:
        with open(path, "rb") as found:
            if found.read(len(SIGNATURE)) != SIGNATURE:
                raise StorageError(f"{shown} is not a fastbm run (not an HDF5 file).") from None
        raise DamagedRun(f"{shown} is damaged: HDF5 cannot read it ({error}). {DISTRUST}") from error


def kind_of(path: Path) -> str:
    """Return what lies at a path, if it is no plain file: ``a folder``; empty for files."""
    mode = path.stat().st_mode
    return "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no plain file")


def unreadable(names: Names, error: OSError) -> StorageError:
    """Return the error for files that are there and that the system does not let us read."""
    file = error.filename or names.merged
    return StorageError(f"{names.shown} cannot be read: {error.strerror or error} ({file}). Nothing was changed.")


def missing(names: Names) -> StorageError:
    """Return the error for a run that is not there, with the files nearest by name."""
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
        if is_live(names):
            why = " A process is about to make the first one."
        return StorageError(f"{text}, and {names.shown}.parts holds no commit.{'' if left else why}")
    runs = {path.name.removesuffix(".parts") for path in folder.iterdir() if ".h5" in path.suffixes}
    runs.discard(names.merged.name)
    close = difflib.get_close_matches(names.merged.name, sorted(runs), n=3, cutoff=0.4)
    return StorageError(f"{text}." + (f" Nearest by name: {', '.join(close)}." if close else ""))
