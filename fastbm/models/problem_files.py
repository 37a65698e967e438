"""Optimisation problems: graphs in the rudy format, maximum cuts, and quadratic unconstrained binary problems."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .._base import checks, files
from ..machine.couplings import Sparse, check_indices
from ..machine.machine import BoltzmannMachine
from .origin import named

PROBLEMS = ("couplings", "max-cut")
COMMENTS = ("#", "%")
MANY_VARIABLES, MOST_GAPS = 10**6, 100  # beyond so many variables, at most so many for each entry


class _Format(NamedTuple):
    """What lines of a file tell of: in texts of errors, and whether one may be of the diagonal."""

    whole: str
    unit: str
    units: str
    entry: str
    entries: str
    example: str
    diagonal: bool


RUDY = _Format("graph", "vertex", "vertices", "edge", "edges", "an edge, i j w", False)
QUBO = _Format("problem", "variable", "variables", "entry", "entries", "an entry, i j q", True)


def from_rudy(path: str | Path, *, problem: str = "couplings", units: str = "spin") -> BoltzmannMachine:
    r"""Read a graph in the text format of rudy, which the G-set and the graphs of the Biq Mac library share.

    The first line holds the numbers of vertices and edges, ``n m``; m lines ``i j w`` follow, with vertices counted
    from 1 and w being 1 where it is left out. Blank lines and comments (``#``, ``%``, or a line that begins with the
    word ``c``) are skipped. Binary quadratic problems of that library (``.sparse``) are read by `from_qubo`.

    Parameters
    ----------
    path : str or Path
        A text file.
    problem : {"couplings", "max-cut"}
        Couplings of spins, W_ij = w and E = -sum w s_i s_j; or the maximum cut: W_ij = -w / 2 and an offset of
        -sum w / 2, so that E is minus the weight of the cut between up and down units.
    units : {"spin", "binary"}
        The machine is the same in both: up is +1 or 1. Energies do not change.

    Returns
    -------
    BoltzmannMachine
        Sparse couplings; unit i - 1 is vertex i.

    Raises
    ------
    StorageError
        If there is no such file.
    ValueError
        For what is not in the format, edges that join a vertex to itself or come twice, and files that hold fewer or
        more edges than they announce; the text names the line. For more than a million vertices and a hundred times
        more of them than edges.

    References
    ----------
    Rinaldi's generator rudy, and Wiegele, Biq Mac Library (2007), https://biqmac.aau.at/biqmaclib.pdf.

    Examples
    --------
    >>> import fastbm as bm
    >>> from pathlib import Path
    >>> _ = Path("triangle.txt").write_text("3 3\n1 2 1\n2 3 1\n1 3 1\n")
    >>> float(bm.models.from_rudy("triangle.txt", problem="max-cut").energy([1, 1, -1]))
    -2.0
    """
    checks.choice("problem", problem, PROBLEMS)
    n, i, j, w = _read(name := checks.path("path", path), RUDY)
    factor, offset = (1.0, 0.0) if problem == "couplings" else (-0.5, -0.5 * math.fsum(w))
    made = BoltzmannMachine(Sparse.of_pairs(n, i, j, factor * w), units="spin", offset=offset).to_units(units)
    return named(made, "from_rudy", path=str(Path(name)), problem=problem, units=units)


def _read(name: str, form: _Format) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of units, and i, j and the value of each line, counted from 0."""
    path, opened = Path(name), Path(files.located(name))
    if not opened.is_file():
        raise checks.StorageError(f"{path} {checks.no_file(opened)}.")
    lines, sizes = _lines(opened), f"the numbers of {form.units} and {form.entries}"
    place, words = next(lines, (0, []))
    if not words:
        raise ValueError(f"{path} holds no {form.whole}: no line has {sizes}.")
    if len(words) != 2:
        _refuse(path, place, f"must hold {sizes}, as in 800 19176; got {' '.join(words)!r}")
    n, m = (_whole(path, place, word, least) for word, least in zip(words, (1, 0), strict=True))
    seen: dict[tuple[int, int], int] = {}
    values: list[float] = []
    for place, words in lines:
        if len(values) == m:
            told = f"the {m} that the file announces; got {' '.join(words)!r}"
            _refuse(path, place, f"is one {form.entry} more than {told}")
        pair, value = _entry(path, place, words, n, form)
        if pair in seen:
            _refuse(path, place, f"repeats the {form.entry} {pair[0]} {pair[1]} of line {seen[pair]}")
        seen[pair] = place
        values.append(value)
    if len(values) < m:
        ends_after = f"ends after {len(values)} (line {place}). Is it truncated?"
        raise ValueError(f"{path} announces {m} {form.entries}, but {ends_after}")
    _refuse_gaps(path, form.entries, n, m, first=1)
    ends = np.array(list(seen), np.int64).reshape(-1, 2) - 1
    return n, ends[:, 0], ends[:, 1], np.array(values)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Numbers (from 1) and words of the lines that say something."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            words = line.split()
            if words and not words[0].startswith(COMMENTS) and words[0] != "c":
                yield number, words


def _entry(path: Path, place: int, words: list[str], n: int, form: _Format) -> tuple[tuple[int, int], float]:
    if len(words) != 3 and (form.diagonal or len(words) != 2):
        _refuse(path, place, f"must hold {form.example}; got {' '.join(words)!r}")
    i, j = (_whole(path, place, word, 1) for word in words[:2])
    if max(i, j) > n:
        _refuse(path, place, f"names {form.unit} {max(i, j)}; the file announces {n} {form.units}")
    if i == j and not form.diagonal:
        _refuse(path, place, f"joins vertex {i} to itself, which is no coupling. Is it a QUBO? `from_qubo` reads these")
    try:
        value = float(_plain(words[2])) if len(words) == 3 else 1.0
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        _refuse(path, place, f"must end with a finite number; got {words[2]!r}")
    return (min(i, j), max(i, j)), value


def _whole(path: Path, place: int, word: str, least: int) -> int:
    try:
        number = int(_plain(word))
    except ValueError:
        _refuse(path, place, f"must begin with two whole numbers; got {word!r}")
    if number < least:
        counted = " (they are counted from 1)" if number == 0 else ""
        _refuse(path, place, f"holds {number} where at least {least} is needed{counted}")
    return number


def _plain(word: str) -> str:
    """Spoil what Python reads as a number and other programs do not."""
    return word.replace("_", "?")


def _refuse(path: Path, place: int, what: str) -> NoReturn:
    raise ValueError(f"{path}, line {place} {what}.")


def from_qubo(Q: Any, *, offset: float = 0.0) -> BoltzmannMachine:
    """Return the binary machine whose energy is x^T Q x + offset.

    Parameters
    ----------
    Q : (n, n) array, scipy.sparse matrix, dict of (i, j) to number, or path
        Need not be symmetric: Q_ij and Q_ji add up. The diagonal is linear in 0/1 units, and becomes the bias: W_ij =
        -(Q_ij + Q_ji), b_i = -Q_ii.

        A path is that of a text file as the Biq Mac library's ``.sparse``: ``n m``, and m lines ``i j q`` with
        variables counted from 1, comments as for `from_rudy`. Q is symmetric there: a line with i != j stands for Q_ij
        and Q_ji, so that it adds 2 q x_i x_j. Beasley's instances (bqp) are to be maximised in the OR-Library.
    offset : float

    Returns
    -------
    BoltzmannMachine
        Binary units; sparse couplings unless Q is an array. A dict has as many units as its largest index asks for.

    Raises
    ------
    StorageError
        If there is no such file.
    ValueError, TypeError
        If Q is not square, is empty, holds what is no finite number, has keys that are no pairs of indices, or has
        more than a million variables and a hundred times more of them than entries. For what is not in the format of
        a file, and entries that come twice; the text names the line.

    References
    ----------
    Wiegele, Biq Mac Library (2007), https://biqmac.aau.at/biqmaclib.html.

    Examples
    --------
    >>> import fastbm as bm
    >>> model = bm.models.from_qubo({(0, 0): -1.0, (1, 1): -1.0, (0, 1): 3.0})
    >>> model.energy([[1, 0], [1, 1]])
    array([-1.,  1.])
    """
    if isinstance(Q, Mapping) and not hasattr(Q, "tocoo"):  # as SciPy's matrices have, among them its dicts of keys
        Q = _of_dict(Q)
    elif isinstance(Q, (str, os.PathLike)):
        Q = _of_file(Q)
    sparse = hasattr(Q, "tocoo")
    shape = Q.shape if sparse else checks.any_array("Q", Q).shape
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"Q must be a square matrix or a dict of (i, j) to number; got shape {shape}.")
    if not shape[0]:
        raise ValueError("Q must hold at least one variable; got an empty matrix.")
    if not sparse:
        dense = checks.finite_array("Q", Q)
        with np.errstate(over="ignore"):  # the machine refuses what is not finite
            weights = -(dense + dense.T)
        np.fill_diagonal(weights, 0.0)
        return BoltzmannMachine(weights, -np.diagonal(dense), units="binary", offset=offset)
    entries = Q.tocoo()
    _refuse_gaps("Q", "entries", shape[0], entries.nnz)
    values = checks.finite_array("Q", entries.data)
    off = entries.row != entries.col
    bias = -np.bincount(entries.row[~off], weights=values[~off], minlength=shape[0])
    couplings = Sparse.of_pairs(shape[0], entries.row[off], entries.col[off], -values[off])
    return BoltzmannMachine(couplings, bias, units="binary", offset=offset)


def _refuse_gaps(name: Any, entries: str, n_variables: int, n_entries: int, *, first: int = 0) -> None:
    """Refuse indices that are labels: a machine has all the units below its largest index, numbered from `first`."""
    check_indices(str(name), n_variables)
    if n_variables > max(MANY_VARIABLES, MOST_GAPS * n_entries):
        raise ValueError(
            f"{name} has {n_entries} {entries} for {n_variables} variables, as its largest index or first line asks "
            f"for, and nearly all of these are in none. Number the variables from {first} without gaps."
        )


def _of_file(path: str | os.PathLike[str]) -> Any:
    from scipy.sparse import coo_array

    n, i, j, q = _read(checks.path("Q", path), QUBO)
    q = np.where(i == j, q, 2.0 * q)
    return coo_array((q, (i, j)), shape=(n, n))


def _of_dict(entries: Mapping[Any, Any]) -> Any:
    from scipy.sparse import coo_array

    if not entries:
        raise ValueError("Q must hold at least one entry; got an empty dict.")
    pairs = []
    for key in entries:
        if not isinstance(key, tuple) or len(key) != 2:
            raise TypeError(f"Q must have keys (i, j); got {key!r}.")
        pairs.append([checks.whole(f"index of Q in {key!r}", index) for index in key])
    values = [checks.real(f"Q[{key!r}]", value) for key, value in entries.items()]
    n = 1 + max(map(max, pairs))
    _refuse_gaps("Q", "entries", n, len(pairs))
    return coo_array((values, tuple(np.array(pairs).T)), shape=(n, n))
