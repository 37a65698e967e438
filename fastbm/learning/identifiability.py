"""Properties of data that send parameters to infinity: units that never change, pairs with a state that never occurs.

The likelihood of such data has no maximum: it grows for ever as the coupling of the pair, or the bias of the unit,
does. Albert and Anderson, Biometrika 71, 1 (1984), doi:10.1093/biomet/71.1.1.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from .._base.threads import single_threaded_blas
from ..data.counting import count_along, count_together
from ..data.moments import Moments
from ..data.rows import Rows, pack_rows
from ..machine.couplings import Couplings, Dense, Sparse

MOST_NAMED = 10
ROUNDING = 1e-3  # of a row, by which moments may miss that a state never occurs
EXACT_ROWS = 10**9  # that stand for moments without a number of them

Pairs = list[tuple[int, int]]


class Joint(NamedTuple):
    """How often units are up and down, (n_units,), and pairs (n_pairs,) of them take each joint state.

    Once a row, or in all of them once. Of a pair (i, j) `first` is how often i alone is up, and `second` j alone. What
    is at most `least` never occurs.
    """

    i: np.ndarray
    j: np.ndarray
    up: np.ndarray
    down: np.ndarray
    both: np.ndarray
    first: np.ndarray
    second: np.ndarray
    neither: np.ndarray
    least: float = 0.0

    @classmethod
    def of(cls, data: Rows | np.ndarray | Moments, edges: np.ndarray | None = None) -> Joint:
        """Count joint states of `edges` (n_pairs, 2), of all pairs unless given, or take them from moments.

        In rows that lack entries those count in which both units are known.
        """
        if isinstance(data, Moments):
            moments, least = data.to_units("binary"), ROUNDING / (data.n_samples or EXACT_ROWS)
            return cls._of_together(moments.second_moment, 1.0, edges, least)
        up = Rows.of(data)
        if edges is not None:
            return cls._along(up, edges)
        return cls._of_together(count_together(up), len(up)) if up.complete else cls._of_gaps(up)

    @classmethod
    def _of_together(
        cls, together: np.ndarray, total: float, edges: np.ndarray | None = None, least: float = 0.0
    ) -> Joint:
        i, j = np.triu_indices(len(together), 1) if edges is None else edges.T
        up, both = np.diagonal(together), together[i, j]
        first, second = up[i] - both, up[j] - both
        return cls(i, j, up, total - up, both, first, second, total - both - first - second, least)

    @classmethod
    def _of_gaps(cls, up: Rows) -> Joint:
        both, alone, neither = np.zeros((3, up.n_units, up.n_units))
        with single_threaded_blas():
            for some in up.blocks():
                ones = up[some].astype(np.float32)
                zeros = up.known(some) - ones
                both += ones.T @ ones
                alone += ones.T @ zeros
                neither += zeros.T @ zeros
        i, j = np.triu_indices(up.n_units, 1)
        return cls(i, j, both.diagonal(), neither.diagonal(), both[i, j], alone[i, j], alone[j, i], neither[i, j])

    @classmethod
    def _along(cls, up: Rows, edges: np.ndarray) -> Joint:
        """Count along edges, 64 rows a word."""
        counts = np.zeros((4, len(edges)), np.int64)
        alone = np.zeros((2, up.n_units), np.int64)
        for some in up.blocks():
            ones, zeros = pack_rows(up[some]), pack_rows(up.known(some) ^ up[some])
            alone += [np.bitwise_count(words).sum(axis=1, dtype=np.int64) for words in (ones, zeros)]
            counts += [count_along(one, other, edges) for one in (ones, zeros) for other in (ones, zeros)]
        return cls(*edges.T, *alone, *counts)

    @property
    def vary(self) -> np.ndarray:
        """Whether both units of a pair change, among the rows in which both are known."""
        first = ~self.never(self.both + self.first) & ~self.never(self.second + self.neither)
        return first & ~self.never(self.both + self.second) & ~self.never(self.first + self.neither)

    def never(self, counts: np.ndarray) -> np.ndarray:
        """Return where a state does not occur."""
        return counts <= self.least

    def pairs(self, which: np.ndarray) -> Pairs:
        """Return chosen pairs."""
        return list(zip(self.i[which].tolist(), self.j[which].tolist(), strict=True))


def describe_degenerate(
    data: Rows | np.ndarray | Moments,
    names: Sequence[Hashable] | None = None,
    *,
    edges: np.ndarray | None = None,
    couplings_held: bool = False,
    biases_held: bool = False,
) -> list[str]:
    """Describe what makes parameters infinite, one line for each kind of trouble.

    Parameters
    ----------
    data : Rows, (m, n_units) uint8 array, or Moments
        Rows of bits, entries of which may be missing, or moments of all units.
    names : sequence, optional
        Of the units; their numbers when left out.
    edges : (n_edges, 2) array, optional
        The pairs i < j that have a coupling, in order; all when left out.
    couplings_held, biases_held : bool
        Whether a penalty keeps them finite.

    Returns
    -------
    list of str
        Empty where there is nothing to say.

    Notes
    -----
    Cost O(m n_units^2), by matrix products, or O(m n_edges), 64 rows at a time. Of rows that lack entries a state
    counts as one that never occurs if it does not where both units are known; what others tell of the missing ones may
    still speak for it.
    """
    if couplings_held and biases_held:
        return []
    joint = Joint.of(data, edges)
    gaps = isinstance(data, Rows) and not data.complete
    down, up = joint.never(joint.up), joint.never(joint.down)
    if not (gaps or isinstance(data, Moments)) and len(data) > 1 and (down | up).all():
        return [f"all {len(data)} rows are equal: biases run to infinity; give rows that differ, or l2 and l2_bias"]
    runs = ("may run", "may run") if gaps else ("runs", "run")  # of one, and of more
    lines = [
        _constant(np.flatnonzero(down), "never", "-", names, runs),
        _constant(np.flatnonzero(up), "always", "+", names, runs),
    ]
    if not couplings_held:
        lines += _describe_pairs(joint, names, runs)
    return [f"where entries are known, {line}" if gaps else line for line in lines if line]


def _describe_pairs(joint: Joint, names: Sequence[Hashable] | None, runs: tuple[str, str]) -> list[str]:
    """Return a line for each kind of joint state that pairs i < j whose units change never take."""
    together, neither, no_first, no_second = map(joint.never, (joint.both, joint.neither, joint.first, joint.second))
    asked = joint.vary
    same, opposite = asked & no_first & no_second, asked & together & neither
    rest = asked & ~same & ~opposite
    ordered = joint.pairs(rest & no_first) + [(j, i) for i, j in joint.pairs(rest & no_second)]
    return [
        _copies(joint.pairs(same), "are equal in every row", "+", names, runs),
        _copies(joint.pairs(opposite), "are opposite in every row", "-", names, runs),
        _missing(joint.pairs(rest & together), "never on together", "-", names, runs),
        _missing(joint.pairs(rest & neither), "never off together", "-", names, runs),
        _missing(sorted(ordered), "such that the first is never on without the second", "+", names, runs),
    ]


def describe_few(m: int, n: int) -> list[str]:
    """Describe that rows are fewer than units, where they are."""
    if m >= n:
        return []
    return [
        f"there are fewer rows ({m}) than units ({n}): couplings are not determined by the data alone; give l2, or "
        "more rows"
    ]


def edges_among(couplings: Couplings, n_visible: int) -> np.ndarray | None:
    """Return the pairs i < j of visible units that have a coupling, (n_edges, 2), in order; None where all have."""
    if isinstance(couplings, Dense):
        return None
    if not isinstance(couplings, Sparse):  # of layers, the first one
        return np.empty((0, 2), np.int64)
    edges = np.sort(couplings.edges[(couplings.edges < n_visible).all(axis=1)], axis=1)
    return edges[np.lexsort(edges.T[::-1])]


def _name(unit: int, names: Sequence[Hashable] | None) -> str:
    return str(unit if names is None else names[unit])


def _list(texts: list[str]) -> str:
    """Return the first few texts, joined, and how many more there are."""
    more = len(texts) - MOST_NAMED
    return ", ".join(texts[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _list_pairs(pairs: Pairs, names: Sequence[Hashable] | None) -> str:
    return _list([f"({_name(i, names)}, {_name(j, names)})" for i, j in pairs])


def _constant(units: np.ndarray, when: str, sign: str, names: Sequence[Hashable] | None, runs: tuple[str, str]) -> str:
    if not len(units):
        return ""
    listed, penalty = _list([_name(int(unit), names) for unit in units]), "give l2 and l2_bias"
    if len(units) == 1:
        return f"unit {listed} is {when} on: its bias {runs[0]} to {sign}infinity; {penalty}, or leave the unit out"
    many = f"{len(units)} units are {when} on, {listed}"
    return f"{many}: their biases {runs[1]} to {sign}infinity; {penalty}, or leave them out"


def _copies(pairs: Pairs, what: str, sign: str, names: Sequence[Hashable] | None, runs: tuple[str, str]) -> str:
    if not pairs:
        return ""
    listed, one = _list_pairs(pairs, names), len(pairs) == 1
    count, whose = (
        ("a pair of units", f"its coupling {runs[0]}")
        if one
        else (f"{len(pairs)} pairs of units", f"their couplings {runs[1]}")
    )
    return f"{count}, {listed}, {what}: {whose} to {sign}infinity; leave one unit of each pair out, or give l2"


def _missing(pairs: Pairs, what: str, sign: str, names: Sequence[Hashable] | None, runs: tuple[str, str]) -> str:
    if not pairs:
        return ""
    listed = _list_pairs(pairs, names)
    if len(pairs) == 1:
        return f"one pair is {what}, {listed}: its coupling {runs[0]} to {sign}infinity; give l2"
    return f"{len(pairs)} pairs are {what}, {listed}: their couplings {runs[1]} to {sign}infinity; give l2"
