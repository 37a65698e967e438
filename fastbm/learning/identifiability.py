"""Properties of data that send parameters to infinity: units that never change, pairs with a state that never occurs.

The likelihood of such data has no maximum: it grows for ever as the coupling of the pair, or the bias of the unit,
does. Albert and Anderson, Biometrika 71, 1 (1984), doi:10.1093/biomet/71.1.1.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from .._base.threads import single_threaded_blas
from ..data.counting import count_together
from ..data.moments import Moments
from ..data.rows import Rows
from ..machine.couplings import Couplings, Dense

MOST_NAMED = 10
ROUNDING = 1e-3  # of a row, by which moments may miss that a state never occurs
EXACT_ROWS = 10**9  # that stand for moments without a number of them

Pairs = list[tuple[int, int]]


class Joint(NamedTuple):
    """How often two units take each joint state, (n_units, n_units) each; once a row, or in all of them once.

    `alone` is how often the first is up and the second down; what is at most `least` never occurs.
    """

    both: np.ndarray
    alone: np.ndarray
    neither: np.ndarray
    least: float = 0.0

    @classmethod
    def of(cls, data: Rows | np.ndarray | Moments) -> Joint:
        """Count joint states in rows, in those in which both units are known, or take them from moments."""
        if isinstance(data, Moments):
            moments = data.to_units("binary")
            return cls._of_together(moments.second_moment, 1.0, ROUNDING / (data.n_samples or EXACT_ROWS))
        up = Rows.of(data)
        return cls._of_together(count_together(up), len(up)) if up.complete else cls._of_gaps(up)

    @classmethod
    def _of_together(cls, both: np.ndarray, total: float, least: float = 0.0) -> Joint:
        alone = np.diagonal(both)[:, None] - both
        return cls(both, alone, total - both - alone - alone.T, least)

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
        return cls(both, alone, neither)

    @property
    def vary(self) -> np.ndarray:
        """Whether both units change, among the rows in which both are known."""
        first = ~self.never(self.both + self.alone) & ~self.never(self.alone.T + self.neither)
        return first & first.T

    def never(self, counts: np.ndarray) -> np.ndarray:
        """Return where a joint state does not occur."""
        return counts <= self.least


def describe_degenerate(
    data: Rows | np.ndarray | Moments,
    names: Sequence[Hashable] | None = None,
    *,
    coupled: np.ndarray | None = None,
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
    coupled : (n_units, n_units) bool array, optional
        Which pairs have a coupling; all when left out.
    couplings_held, biases_held : bool
        Whether a penalty keeps them finite.

    Returns
    -------
    list of str
        Empty where there is nothing to say.

    Notes
    -----
    Cost O(m n_units^2), by matrix products. Of rows that lack entries a state counts as one that never occurs if it
    does not where both units are known; what others tell of the missing ones may still speak for it.
    """
    if couplings_held and biases_held:
        return []
    joint = Joint.of(data)
    gaps = isinstance(data, Rows) and not data.complete
    down, up = joint.never(np.diagonal(joint.both)), joint.never(np.diagonal(joint.neither))
    if not (gaps or isinstance(data, Moments)) and len(data) > 1 and (down | up).all():
        return [f"all {len(data)} rows are equal: biases run to infinity; give rows that differ, or l2 and l2_bias"]
    runs = ("may run", "may run") if gaps else ("runs", "run")  # of one, and of more
    lines = [
        _constant(np.flatnonzero(down), "never", "-", names, runs),
        _constant(np.flatnonzero(up), "always", "+", names, runs),
    ]
    if not couplings_held:
        asked = joint.vary if coupled is None else joint.vary & coupled
        lines += _describe_pairs(joint, np.triu(asked, 1), names, runs)
    return [f"where entries are known, {line}" if gaps else line for line in lines if line]


def _describe_pairs(
    joint: Joint, asked: np.ndarray, names: Sequence[Hashable] | None, runs: tuple[str, str]
) -> list[str]:
    """Return a line for each kind of joint state that pairs i < j, of those `asked` for, never take."""
    together, neither, only_first = map(joint.never, (joint.both, joint.neither, joint.alone))
    same, opposite = asked & only_first & only_first.T, asked & together & neither
    rest = asked & ~same & ~opposite
    ordered = _pairs(rest & only_first) + [(j, i) for i, j in _pairs(rest & only_first.T)]
    return [
        _copies(_pairs(same), "are equal in every row", "+", names, runs),
        _copies(_pairs(opposite), "are opposite in every row", "-", names, runs),
        _missing(_pairs(rest & together), "never on together", "-", names, runs),
        _missing(_pairs(rest & neither), "never off together", "-", names, runs),
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


def which_coupled(couplings: Couplings) -> np.ndarray | None:
    """Return the `coupled` of `describe_degenerate`, which is None where all pairs are."""
    if isinstance(couplings, Dense):
        return None
    return couplings.with_arrays([np.ones_like(array) for array in couplings.arrays]).matrix() != 0


def _pairs(mask: np.ndarray) -> Pairs:
    return [(int(i), int(j)) for i, j in np.argwhere(mask)]


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
