"""The continuation of a run: one that was stopped, or one that is finished and is to be longer."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from .._base.arithmetic import arithmetic
from .._base.checks import StorageError, warn
from .._base.versions import PINNED_PACKAGES, package_version
from . import disk
from .chain import Chain, Origin, blocks_safe, follow, read_inputs, read_spec
from .commit import disk_errors, prune_states
from .creation import clear_leftovers, give_up, write_first
from .find import Merged, Status, find
from .hdf import copy_arrays
from .image import Damaged
from .lock import Lock
from .merge.merge import remove_parts, remove_segments
from .names import Names
from .place import check_replaceable, warn_of_place
from .schema import (
    INPUTS,
    STATE,
    Arrays,
    Extend,
    Extension,
    canonical_json,
    check_same_spec,
)
from .segment import Contents, Header, read_header, read_state, spec_hash
from .writer import Settings, Writer, index_of

HASHED_ON_RESUME = 64


def resume(
    path: str | os.PathLike[str],
    *,
    spec: dict[str, Any] | None = None,
    extend_spec: dict[str, Any] | Extend | None = None,
    exact: bool = True,
    **changes: Any,
) -> Writer:
    """Open a run to continue at its last commit.

    Parameters
    ----------
    path : str or path
        ``run.h5`` or ``run.h5.parts``.
    spec : dict, optional
        What the caller means to continue; refused if the file holds another.
    extend_spec : dict or function, optional
        The spec of a longer run, to go on with past the end of a finished one. A function is given spec, inputs and
        last state of the finished run, and returns the `Extension`; where it raises, nothing is changed.
    exact : bool
        Refuse other versions of fastbm, NumPy and Numba than those that began the run, and another arithmetic where
        its meta names one.
    **changes
        `commit_seconds`, `commit_bytes` or `merge`, if other than at the start.

    Returns
    -------
    Writer
        At the last commit; with ``finished=True`` if nothing is left to compute. `Writer.finish` then merges what a
        kill left in parts.

    Warns
    -----
    UserWarning
        If damaged segments were set aside; their blocks are to be computed again.

    Raises
    ------
    StorageError
        If there is no such run, it is being written, or it cannot be continued as asked.
    """
    names = Names(path)
    status = find(names)
    if status.merged is not None and status.origin is None and not names.parts.exists():
        _check_spec(spec, status.merged.spec)
        if not _continues(extend_spec, status.merged.spec):
            return _done(names, status.merged)
    lock = Lock(names)
    try:
        warn_of_place(names, lock.lacks)
        with disk_errors(names, resumable=True):
            return _resume(names, lock, find(names), spec, extend_spec, exact, changes)
    except BaseException:
        give_up(names, lock)
        raise


def _resume(
    names: Names, lock: Lock, status: Status, spec: dict[str, Any] | None, extend: dict[str, Any] | Extend | None,
    exact: bool, changes: dict[str, Any],
) -> Writer:  # fmt: skip
    if status.origin is not None:
        return _continue(names, lock, status, status.origin, spec, extend, exact, changes)
    assert status.merged is not None
    _check_spec(spec, status.merged.spec)
    if not _continues(extend, status.merged.spec):
        remove_parts(names)
        lock.release()
        return _done(names, status.merged)
    check_replaceable(names)
    _check_versions(names, status.merged.meta, exact)
    return _extend_merged(names, lock, status.merged, extend, changes)


def _continues(extend: dict[str, Any] | Extend | None, text: str) -> bool:
    """Return whether a run is to be longer than it is, and has not been extended so already."""
    return callable(extend) or (extend is not None and canonical_json(extend) != text)


def _extension(extend: Any, text: str, inputs: Arrays, state: Arrays) -> Extension:
    return extend(json.loads(text), inputs, state) if callable(extend) else Extension(extend)


def _done(names: Names, merged: Merged) -> Writer:
    last = Header(merged.run_id, 0, 0, int(merged.meta["n_blocks"]), "", "", finished=True)
    arrays = merged.read_arrays(INPUTS), merged.read_arrays(STATE)
    return Writer(names, None, merged.spec, arrays[0], merged.streams, arrays[1], Settings(**merged.settings), last)


def _continue(
    names: Names, lock: Lock, status: Status, origin: Origin, spec: dict[str, Any] | None,
    extend: dict[str, Any] | Extend | None, exact: bool, changes: dict[str, Any],
) -> Writer:  # fmt: skip
    check_replaceable(names)  # at once, and not when the run is merged
    chain = follow(names, origin, hash_last=HASHED_ON_RESUME)
    if chain.headers[-1].finished:
        # Only the merge is left, and it would stop at damage of any age.
        chain = follow(names, origin, hash_last=None)
    state = _last_whole_state(chain)
    last = chain.headers[-1]
    text = read_spec(names, chain.headers, origin.spec)
    _check_spec(spec, text)
    continues = _continues(extend, text)
    if continues and not last.finished:
        raise StorageError(
            f"{names.shown} is not finished ({last.end_block} blocks). Resume it to its end, then extend it."
        )
    if not last.finished or continues:
        _check_versions(names, origin.meta, exact)
    inputs = read_inputs(names)
    extension = _extension(extend, text, inputs, state) if continues else None
    _clean(names, chain, status)
    settings = Settings(**{**origin.settings, **changes})
    writer = Writer(names, lock, text, inputs, origin.streams, state, settings, last)
    if extension is not None:
        writer._extend(extension)
    return writer


def _extend_merged(
    names: Names, lock: Lock, merged: Merged, extend: dict[str, Any] | Extend | None, changes: dict[str, Any]
) -> Writer:
    """Begin parts that continue a merged file, which stays as it is until both are merged."""
    merged.check()
    inputs, last = merged.read_arrays(INPUTS), merged.read_arrays(STATE)
    extension = _extension(extend, merged.spec, inputs, last)
    state = last if extension.state is None else copy_arrays(extension.state, "state")
    text = canonical_json(extension.spec)
    remove_segments(names)
    settings = Settings(**{**merged.settings, **changes})
    meta = {key: value for key, value in merged.meta.items() if key not in ("merged_from", "n_blocks")}
    meta |= {"replaces": "[]", "settings": canonical_json(asdict(settings))}
    header = Header(
        merged.run_id, 0, int(merged.meta["n_blocks"]), 0, spec_hash(text), merged.sha256, base_sha256=merged.sha256,
        index=index_of(merged.streams, extension.kept(merged.n_rows)),
    )  # fmt: skip
    contents = Contents(merged.streams, {}, state, meta, text, inputs, settings.compression)
    header = write_first(names, header, contents)
    disk.sync_folder(names.parts.parent)
    return Writer(names, lock, text, inputs, merged.streams, state, settings, header)


def _last_whole_state(chain: Chain) -> Arrays:
    """Return the state at the end of the chain; an earlier one where the file of a state is damaged."""
    dropped: list[int] = []
    for header in reversed(chain.headers):
        try:
            state = read_state(chain.names, header)
        except Damaged as error:
            dropped.insert(0, header.segment)
            reason = f"{chain.names.show(chain.names.segment(header.segment))} has no whole state: {error}"
            continue
        if dropped:
            chain.headers, chain.bad, chain.reason = chain.headers[: dropped[0]], dropped + chain.bad, reason
        return state
    raise StorageError(f"{chain.names.shown}: no state of the run is whole. Nothing was changed.")


def _clean(names: Names, chain: Chain, status: Status) -> None:
    """Remove what a killed writer left, and set damaged segments aside."""
    for path in names.temporaries():
        disk.unlink(path)
    if chain.stale or status.leftover_merged:
        clear_leftovers(names, merged=status.leftover_merged)
    if chain.bad:
        _set_aside(names, chain)
    prune_states(names, chain.headers[-1].segment)


def _set_aside(names: Names, chain: Chain) -> None:
    end, safe, aside = -1, chain.headers[-1].end_block, ""
    for number in reversed(chain.bad):  # last first, so that a kill in between leaves no hole
        path = names.segment(number)
        with suppress(Exception):
            end = max(end, read_header(path, names.show(path), hashed=True).end_block)
        target = names.bad(path)
        disk.rename(path, target)
        aside = target.name
    disk.sync_folder(names.parts)
    others = f", and all {len(chain.bad)} from there on likewise" if len(chain.bad) > 1 else ""
    lost = f"{safe}-{end - 1}" if end > safe else f"all from {safe} on"
    which = "What follows is set aside" if chain.reason.endswith("is missing") else "Set aside"
    warn(
        f"{chain.reason}. {blocks_safe(safe)} are whole; {lost} will be recomputed. {which} as {aside}{others}.",
        UserWarning,
    )


def _check_spec(spec: dict[str, Any] | None, text: str) -> None:
    if spec is not None:
        check_same_spec(spec, json.loads(text))


def _check_versions(names: Names, meta: dict[str, Any], exact: bool) -> None:
    there = {name: str(meta.get(f"{name}_version")) for name in PINNED_PACKAGES}
    other = [
        f"{name} is {package_version(name)} here and {version} in the file"
        for name, version in there.items()
        if version != package_version(name)
    ]
    if "arithmetic" in meta and (here := arithmetic()) != meta["arithmetic"]:
        other.append(f"matrix products and functions are of {here} here and of {meta['arithmetic']} in the file")
    if other and exact:
        raise StorageError(
            f"cannot resume {names.shown} exactly: {'; '.join(other)}. Go on where these are the same, or pass "
            f"exact=False (--inexact) to go on with rows that may differ."
        )
