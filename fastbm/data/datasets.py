"""Where data come from: arrays, files named by path, and the small sets that examples use."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import h5py
import numpy as np

from .._base import checks, files, rng

LARGEST_SIDE = 14
LISTED = 1 << 20  # rows of which lists are made
LIGHTEST = 1e-100  # largest weight of a row, down to which weights are taken as they are
DRAWN = 1 << 16  # rows that are drawn at a time
DIGITS = "sklearn:digits"
SUFFIXES = (".h5", ".hdf5", ".mat", ".npz", ".npy")
PATTERNS = ("bars-and-stripes", "shifter")


@dataclass(frozen=True)
class Data:
    """Rows as they came (not yet bits), with labels where there are any."""

    rows: np.ndarray
    labels: np.ndarray | None = None


def load(source: str, *, side: int = 4) -> Data:
    """Read a data set.

    Parameters
    ----------
    source : str
        "sklearn:digits"; "bars-and-stripes" or "shifter", of size `side`; or "FILE.h5:dataset", "FILE.mat:variable"
        (MATLAB v7.3), "FILE.npz:member", "FILE.npy"; of a file that holds one array alone its name is enough.

    Raises
    ------
    ValueError, StorageError
        For an unknown source, a missing file, or a file without that member.
    """
    if source == DIGITS:
        return _digits()
    if source == "bars-and-stripes":
        return Data(bars_and_stripes(side))
    if source == "shifter":
        return Data(*shifter(side))
    with opened(source, side) as table:
        return Data(np.asarray(table[...]))


@contextmanager
def opened(source: str, side: int | None = None) -> Iterator[Any]:
    """Give what rows are read from, an array or a dataset of an open file; parameters as for `load`.

    Raises
    ------
    ValueError, StorageError
        As for `load`.
    """
    if source in (DIGITS, *PATTERNS):
        yield load(source, **({} if side is None else {"side": side})).rows
        return
    path, member = parts_of(source)
    if not path or (path.endswith(".npy") and member):
        raise ValueError(
            f"source must be 'sklearn:digits', {', '.join(map(repr, PATTERNS))}, or a file such as 'FILE.h5:dataset', "
            f"'FILE.mat:variable', 'FILE.npz:member' or 'FILE.npy'; got {source!r}."
        )
    if not Path(files.located(path)).is_file():
        raise checks.StorageError(f"{path} {checks.no_file(path)} (source = {source!r}).")
    if path.endswith((".npy", ".npz")):
        yield _numpy(path, member)
    else:
        with opened_hdf5(path) as file:
            names: list[str] = []
            with reading(path, OSError, RuntimeError, KeyError):
                file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
                found = file.get(member or names[0]) if member or len(names) == 1 else None
            if not isinstance(found, h5py.Dataset):
                raise _no_member(path, member.lstrip("/"), names)
            with reading(path, OSError):
                yield found


def parts_of(source: str) -> tuple[str, str]:
    """Return the path of a source, and what is asked for in that file; both may be empty."""
    found = re.fullmatch(rf"(.+?(?:{'|'.join(map(re.escape, SUFFIXES))}))(?::(.*))?", source, re.DOTALL)
    return (found[1], found[2] or "") if found else ("", "")


def _numpy(path: str, member: str) -> np.ndarray:
    try:
        found = np.load(files.located(path), mmap_mode="r" if path.endswith(".npy") else None)
        if isinstance(found, np.ndarray):
            return found
        with found as archive:
            names = archive.files
            if member in names or (not member and len(names) == 1):
                array: np.ndarray = archive[member or names[0]]
                return array
    except (ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise checks.StorageError(f"{path} is not a NumPy file of numbers ({error}).") from None
    raise _no_member(path, member, names)


def opened_hdf5(path: str) -> h5py.File:
    """Open an HDF5 file to read from; a StorageError says where it is none."""
    try:
        return h5py.File(files.located(path), "r")
    except OSError as error:
        raise checks.StorageError(f"{path} is not an HDF5 file ({error}). MATLAB files must be v7.3.") from None


@contextmanager
def reading(path: str, *errors: type[Exception]) -> Iterator[None]:
    """Say of errors of HDF5 in the body, which are of these types and tell no errno, that the file is damaged."""
    try:
        yield
    except errors as error:
        if isinstance(error, checks.StorageError) or getattr(error, "errno", None) is not None:
            raise
        raise checks.StorageError(f"{path} is damaged: HDF5 cannot read it ({error}). Restore a copy of it.") from None


def _no_member(path: str, member: str, names: list[str]) -> ValueError:
    held = f"It holds: {', '.join(names) or 'nothing'}."
    if not member and names:
        return ValueError(f"{path} holds several arrays: name one, as in {f'{path}:{names[0]}'!r}. {held}")
    return ValueError(f"{path} has no {member!r}.{checks.nearest(member, names)} {held}")


def _digits() -> Data:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ImportError(
            'source "sklearn:digits" needs scikit-learn, which carries the data: pip install "fastbm[examples]".'
        ) from None
    digits = load_digits()
    return Data(digits.data, digits.target)


def _check_side(side: int, least: int) -> int:
    if (side := checks.whole("side", side, least=least)) > LARGEST_SIDE:
        raise ValueError(f"side must be at most {LARGEST_SIDE}, as there are 2^side patterns; got {side}.")
    return side


def bars_and_stripes(side: int) -> np.ndarray:
    """Return all distinct pictures of full rows, or of full columns, side x side: 2 (2^side - 1) rows of 0 and 1.

    MacKay, Information Theory, Inference and Learning Algorithms (2003), sect. 43.
    """
    side = _check_side(side, 1)
    lines = (np.arange(1 << side)[:, None] >> np.arange(side)) & 1
    bars = np.repeat(lines[:, :, None], side, axis=2).reshape(-1, side * side)
    stripes = np.repeat(lines[:, None, :], side, axis=1).reshape(-1, side * side)
    return np.unique(np.concatenate([bars, stripes]), axis=0).astype(np.uint8)


def shifter(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows (pattern, the pattern shifted by -1, 0 or 1, three units for the shift), and the shifts.

    `side` units hold the pattern and as many the shifted one, on a ring. Hinton and Sejnowski, in Parallel Distributed
    Processing 1 (1986), p. 282.
    """
    side = _check_side(side, 2)
    patterns = (np.arange(1 << side)[:, None] >> np.arange(side)) & 1
    rows, labels = [], []
    for k, shift in enumerate((-1, 0, 1)):
        flags = np.zeros((len(patterns), 3), np.int64)
        flags[:, k] = 1
        rows.append(np.concatenate([patterns, np.roll(patterns, shift, axis=1), flags], axis=1))
        labels.append(np.full(len(patterns), shift))
    return np.concatenate(rows).astype(np.uint8), np.concatenate(labels)


def split(n_rows: int, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the rows to learn from and of those held out, both increasing.

    With `holdout` above 0 at least one row is held out, and at least one is left.
    """
    holdout = _check_holdout(holdout)
    order = rng.keyed(seed, rng.SPLIT).permutation(n_rows)
    n_held = min(max(round(holdout * n_rows), 1), n_rows - 1) if holdout else 0
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def _check_holdout(holdout: float) -> float:
    holdout = checks.real("holdout", holdout, least=0.0)
    if holdout >= 1.0:
        raise ValueError(f"holdout must be below 1; got {holdout:g}.")
    return holdout


def holding_out(n_rows: int, holdout: float, seed: int) -> Callable[[int, int], np.ndarray]:
    """Return a function that tells which of the rows from `first` to before `last` are held out, (m,) bool.

    Of many rows each is drawn by itself, so that no list of all of them is needed; else as `split` does.
    """
    holdout = _check_holdout(holdout)
    if n_rows <= LISTED or not holdout:
        held = np.zeros(n_rows, bool)
        held[split(n_rows, holdout, seed)[1]] = True
        return lambda first, last: held[first:last]

    def drawn(first: int, last: int) -> np.ndarray:
        blocks = range(first // DRAWN, -(-last // DRAWN))
        uniform = np.concatenate([rng.keyed(seed, rng.SPLIT, block).random(DRAWN) for block in blocks])
        found: np.ndarray = uniform[first - blocks.start * DRAWN :][: last - first] < holdout
        return found

    return drawn


def fold_of(n_rows: int, folds: int, fold: int) -> Callable[[int, int], np.ndarray]:
    """Return a function that tells which rows are those of a fold, as `holding_out` does.

    Folds are contiguous blocks, as even as can be: fold k of n has the rows from k n_rows // n to before
    (k + 1) n_rows // n. Neighbours in time, which depend on one another, so are hardly ever on both sides.
    """
    if folds > n_rows:
        raise ValueError(f"data.folds must be at most the number of rows, {n_rows}; got {folds}.")
    begin, end = fold * n_rows // folds, (fold + 1) * n_rows // folds

    def held(first: int, last: int) -> np.ndarray:
        places = np.arange(first, last)
        found: np.ndarray = (places >= begin) & (places < end)
        return found

    return held


def check_rows(data: Any, argument: str = "data") -> np.ndarray:
    """Check that data are a table with at least one row."""
    rows = checks.any_array(argument, data)
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        row, column = (int(k) for k in np.argwhere(~np.isfinite(rows))[0])
        raise ValueError(f"{argument} must be finite; got {rows[row, column]} in row {row}, unit {column}.")
    if rows.ndim != 2:
        raise ValueError(f"{argument} must have shape (n_rows, n_units); got {rows.shape}.")
    if not len(rows) or not rows.shape[1]:
        raise ValueError(f"{argument} is empty: shape {rows.shape}. At least one row and one unit are needed.")
    return rows


def check_row_weights(weights: Any, n_rows: int) -> np.ndarray | None:
    """Check what rows count for: one number each, none below 0; None where all count alike."""
    if weights is None:
        return None
    found = checks.finite_array("row_weights", weights)
    if found.shape != (n_rows,):
        raise ValueError(f"row_weights must have one entry for each row ({n_rows}); got shape {found.shape}.")
    if (found < 0).any() or not found.any():
        raise ValueError(f"row_weights must be 0 or more, and not all 0; the smallest is {found.min():g}.")
    return in_range(found)


def n_worth(weights: np.ndarray) -> int:
    """Return the number of equally weighted rows whose mean is as certain as with these weights.

    That is (sum w)^2 / sum w^2.

    Kish, Survey Sampling (1965).
    """
    return round(float(weights.sum() ** 2 / (weights**2).sum()))


def in_range(weights: np.ndarray) -> np.ndarray:
    """Return weights of which sums of squares stay in the range of float64: as they are where they do."""
    largest = weights.max()
    return weights if LIGHTEST < largest < 1 / LIGHTEST else weights / largest
