"""Spike times to rows of bits: a unit is up in a bin in which it fired."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from .._base import checks
from .._base.shown import brief
from .datasets import opened_hdf5, reading

EDGE = 1e-6  # bins: a time so close below an edge is taken to lie on it, as 0.58 / 0.02 is 28.999999999999996
MOST_ENTRIES = 1 << 32  # of the rows
MOST_ROUNDING = 0.25  # of a bin, beyond which times do not say in which one they are
NO_NUMBERS = "cmMSUV"  # kinds of NumPy's: complex, dates, texts
UNITS = "units"  # the table of units in files of Neurodata Without Borders


class Binned(NamedTuple):
    """Rows of bits, and where they come from.

    Attributes
    ----------
    rows : (n_bins, n_units) uint8 array
        1 where a unit fired in a bin, however often.
    trial : (n_bins,) int64 array
        Which trial a bin belongs to; all 0 without trials.
    start : (n_bins,) array
        When a bin begins, in the unit of the times.
    names : tuple of str
        Of the units: those of a mapping, of a file their ids, else their numbers.
    """

    rows: np.ndarray
    trial: np.ndarray
    start: np.ndarray
    names: tuple[str, ...]

    def __repr__(self) -> str:
        return brief(self)


def from_spike_times(
    times: Any,
    bin_width: float,
    *,
    start: float | None = None,
    stop: float | None = None,
    trials: Sequence[tuple[float, float]] | None = None,
) -> Binned:
    """Bin spike times.

    Parameters
    ----------
    times : sequence of arrays, mapping of name to array, or str
        The times of each unit, in any order, seconds for instance; or "FILE.nwb", a file of Neurodata Without Borders
        (HDF5) with a table of units, "FILE.nwb:processing/x/units" where it lies elsewhere. A time that lies below the
        edge of a bin by no more than its dtype rounds is taken to lie on it.
    bin_width : float
        In the unit of the times.
    start, stop : float, optional
        Bins cover times from `start` (0 unless given) up to `stop` (the bin of the last spike unless given). A last bin
        that would be cut is left out, and so are spikes outside.
    trials : sequence of pairs (start, stop), optional
        Bins are aligned to the beginning of each trial, in place of `start` and `stop`; spikes between trials are left
        out. Trials may touch, in any order, but not overlap.

    Returns
    -------
    Binned

    Raises
    ------
    TypeError, ValueError
        If times are no numbers, not finite, negative without a `start`, or rounded by more than a quarter of a bin (as
        float32 is after some hours, in bins of a few milliseconds); if trials overlap; if there are no spikes or no
        whole bin; or if rows would not fit into memory.
    StorageError
        If a file cannot be read.

    Examples
    --------
    >>> import fastbm as bm
    >>> binned = bm.data.from_spike_times([[0.01, 0.03], [0.05]], bin_width=0.02)
    >>> binned.rows
    array([[1, 0],
           [1, 0],
           [0, 1]], dtype=uint8)
    """
    width = checks.real("bin_width", bin_width, above=0.0)
    names, units = _units(times)
    n_spikes = sum(map(len, units))
    if trials is not None:
        if start is not None or stop is not None:
            raise ValueError("pass trials, or start and stop, not both.")
        spans = _spans(trials, width)
    else:
        if not n_spikes and stop is None:
            raise ValueError("times holds no spike, so that it has no end: pass stop.")
        first = min((float(one.min()) for one in units if len(one)), default=0.0)
        if start is None and first < 0.0:
            raise ValueError(f"times begin at {first:g}, before 0: pass start.")
        begin = 0.0 if start is None else checks.real("start", start)
        if stop is None:
            stop = begin + width * (max(float(_bins(one.max(), begin, width)) for one in units if len(one)) + 1.0)
        spans = [(begin, checks.real("stop", stop))]
    counts = [int(np.clip(_bins(end, begin, width), 0, MOST_ENTRIES + 1)) for begin, end in spans]
    if not sum(counts):
        raise ValueError(f"no whole bin of {width:g} fits: lower bin_width, or pass a later stop.")
    if sum(counts) * len(units) > MOST_ENTRIES:
        raise ValueError(
            f"{sum(counts)} bins of {len(units)} units are too many: raise bin_width, or pass start, stop or trials."
        )
    rows = np.zeros((sum(counts), len(units)), np.uint8)
    ends = np.cumsum(counts)
    for (begin, _), n_bins, after in zip(spans, counts, ends, strict=True):
        for k, one in enumerate(units):
            bins = _bins(one, begin, width)
            inside = (bins >= 0) & (bins < n_bins)
            _refuse_coarse(names[k], one[inside], begin, width)
            rows[after - n_bins + bins[inside].astype(np.int64), k] = 1
    starts = [begin + width * np.arange(n) for (begin, _), n in zip(spans, counts, strict=True)]
    return Binned(rows, np.repeat(np.arange(len(spans)), counts), np.concatenate(starts), names)


def _bins(times: Any, begin: float, width: float) -> Any:
    """Return how many whole bins after `begin` times lie; what rounding has left below an edge lies on it."""
    with np.errstate(over="ignore"):
        return np.floor((np.asarray(times, np.float64) - begin) / width + _slack(times, begin, width))


def _slack(times: Any, begin: float, width: float) -> Any:
    """Return the part of a bin below an edge that counts as on it; of large times rounding is more than `EDGE`."""
    return EDGE + np.minimum(_rounding(times, begin, width), 0.5)


def _rounding(times: Any, begin: float, width: float) -> Any:
    """Return the part of a bin by which the dtype of times may have rounded them."""
    size = np.maximum(np.abs(np.asarray(times, np.float64)), abs(begin))
    with np.errstate(over="ignore"):
        return float(np.finfo(np.asarray(times).dtype).eps) * size / width


def _refuse_coarse(name: str, times: np.ndarray, begin: float, width: float) -> None:
    part = float(_rounding(times, begin, width).max(initial=0.0))
    if part > MOST_ROUNDING:
        raise ValueError(
            f"times of unit {name} are {times.dtype} and up to {np.abs(times).max():g}, rounded by {part:.2g} of a bin "
            f"of {width:g}. Pass them as they were recorded, in float64 or since a later start (once rounded, no "
            "conversion brings them back); or raise bin_width."
        )


def _units(times: Any) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """Return names and times of all units."""
    if isinstance(times, str | Path):
        return _read(str(times))
    if isinstance(times, Mapping):
        return tuple(map(str, times)), [_times(f"times[{name!r}]", one) for name, one in times.items()]
    if not isinstance(times, Iterable):
        raise TypeError(f"times must hold the times of each unit; got {type(times).__name__}.")
    found = [_times(f"times[{k}]", one) for k, one in enumerate(times)]
    if not found:
        raise ValueError("times is empty: pass the times of each unit.")
    return tuple(map(str, range(len(found)))), found


def _times(name: str, values: Any) -> np.ndarray:
    given = checks.any_array(name, values)
    if given.ndim != 1:
        raise TypeError(f"{name} must be the times of one unit, of one axis; got shape {given.shape}.")
    try:
        found = None if given.dtype.kind in NO_NUMBERS else given.astype(np.float64)
    except (TypeError, ValueError):
        found = None
    if found is None:
        raise TypeError(f"{name} must be numbers, the times of one unit; got dtype {given.dtype}.")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} holds a time that is not finite: leave it out.")
    coarse = given.dtype.kind == "f" and given.dtype.itemsize < found.itemsize
    return given if coarse else found  # its rounding counts


def _spans(trials: Any, width: float) -> list[tuple[float, float]]:
    """Return start and stop of each trial."""
    spans = [_span(k, one) for k, one in enumerate(trials)]
    if not spans:
        raise ValueError("trials is empty: pass at least one pair (start, stop).")
    for one, other in itertools.pairwise(sorted(range(len(spans)), key=spans.__getitem__)):
        end, begin = spans[one][1], spans[other][0]
        if (end - begin) / width > _slack(end, begin, width):
            raise ValueError(
                f"trials[{one}], {spans[one]}, and trials[{other}], {spans[other]}, overlap: spikes would count twice. "
                "Pass trials that at most touch."
            )
    return spans


def _span(k: int, pair: Any) -> tuple[float, float]:
    if np.shape(pair) != (2,):
        raise ValueError(f"trials[{k}] must be a pair (start, stop); got {pair!r}.")
    begin, end = (checks.real(f"trials[{k}]", value) for value in pair)
    if end <= begin:
        raise ValueError(f"trials[{k}] ends at {end:g}, which is not after its start, {begin:g}.")
    return begin, end


def _read(source: str) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """Return ids and times of the units of a file: `spike_times`, of unit k up to `spike_times_index[k]`."""
    match = re.fullmatch(r"(.+?\.(?:nwb|h5|hdf5))(?::(.*))?", source, re.DOTALL)
    path, place = (match[1], match[2] or UNITS) if match else (source, UNITS)
    if not Path(path).is_file():
        raise checks.StorageError(f"{path} {checks.no_file(path)}.")
    with opened_hdf5(path) as file, reading(path, OSError, RuntimeError, KeyError):
        table = file.get(place)
        if not isinstance(table, h5py.Group) or "spike_times" not in table or "spike_times_index" not in table:
            raise ValueError(f"{path} has no table of units with spike times at {place!r}; name it: {path}:PATH.")
        times, ends = np.asarray(table["spike_times"][...]), np.asarray(table["spike_times_index"][...], np.int64)
        ids = np.asarray(table["id"][...]) if "id" in table else np.arange(len(ends))
    begins = np.concatenate([[0], ends[:-1]])
    if (ends < begins).any() or not len(ends) or ends[-1] > len(times) or len(ids) != len(ends):
        raise ValueError(f"the index of spike times of {path} makes no sense: it does not cut them into units.")
    units = [_times(f"unit {one}", times[a:b]) for one, a, b in zip(ids, begins, ends, strict=True)]
    return tuple(map(str, ids)), units
