"""Properties of data that send parameters to infinity: units that never change, pairs with a state that never occurs.

The likelihood of such data has no maximum: it grows for ever as the coupling of the pair, or the bias of the unit,
does. Albert and Anderson, Biometrika 71, 1 (1984), doi:10.1093/biomet/71.1.1.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ..data.rows import Rows
from ..machine.couplings import Couplings, Dense

MOST_NAMED = 10

Pairs = list[tuple[int, int]]


def describe_degenerate(
    up: Rows | np.ndarray,
    names: Sequence[Hashable] | None = None,
    *,
    coupled: np.ndarray | None = None,
    couplings_held: bool = False,
    biases_held: bool = False,
) -> list[str]:
    """Describe what makes parameters infinite, one line for each kind of trouble.

    Parameters
    ----------
    up : Rows, or (m, n_units) uint8 array
        Rows of bits.
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
    Cost O(m n_units^2), by matrix products.
    """
    m = len(up)
    if couplings_held and biases_held:
        return []
    together = Rows.of(up).together()
    ups = np.diagonal(together)
    changes = (ups > 0) & (ups < m)
    if m > 1 and not changes.any():
        return [f"all {m} rows are equal: biases run to infinity; give rows that differ, or l2 and l2_bias"]
    lines = [
        _constant(np.flatnonzero(ups == 0), "never", "-", names),
        _constant(np.flatnonzero(ups == m), "always", "+", names),
    ]
    if not couplings_held:
        some = changes[:, None] & changes[None, :]
        lines += _describe_pairs(together, m, np.triu(some if coupled is None else some & coupled, 1), names)
    return [line for line in lines if line]


def _describe_pairs(together: np.ndarray, m: int, asked: np.ndarray, names: Sequence[Hashable] | None) -> list[str]:
    """Return a line for each kind of joint state that pairs i < j, of those `asked` for, never take."""
    ups = np.diagonal(together)
    only_first, only_second = ups[:, None] - together, ups[None, :] - together
    neither = m - together - only_first - only_second
    same = asked & (only_first == 0) & (only_second == 0)
    opposite = asked & (together == 0) & (neither == 0)
    rest = asked & ~same & ~opposite
    ordered = _pairs(rest & (only_first == 0)) + [(j, i) for i, j in _pairs(rest & (only_second == 0))]
    return [
        _copies(_pairs(same), "are equal in every row", "+", names),
        _copies(_pairs(opposite), "are opposite in every row", "-", names),
        _missing(_pairs(rest & (together == 0)), "never on together", "-", names),
        _missing(_pairs(rest & (neither == 0)), "never off together", "-", names),
        _missing(sorted(ordered), "such that the first is never on without the second", "+", names),
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


def _constant(units: np.ndarray, when: str, sign: str, names: Sequence[Hashable] | None) -> str:
    if not len(units):
        return ""
    listed, penalty = _list([_name(int(unit), names) for unit in units]), "give l2 and l2_bias"
    if len(units) == 1:
        return f"unit {listed} is {when} on: its bias runs to {sign}infinity; {penalty}, or leave the unit out"
    many = f"{len(units)} units are {when} on, {listed}"
    return f"{many}: their biases run to {sign}infinity; {penalty}, or leave them out"


def _copies(pairs: Pairs, what: str, sign: str, names: Sequence[Hashable] | None) -> str:
    if not pairs:
        return ""
    listed, one = _list_pairs(pairs, names), len(pairs) == 1
    count, whose = (
        ("a pair of units", "its coupling runs") if one else (f"{len(pairs)} pairs of units", "their couplings run")
    )
    return f"{count}, {listed}, {what}: {whose} to {sign}infinity; leave one unit of each pair out, or give l2"


def _missing(pairs: Pairs, what: str, sign: str, names: Sequence[Hashable] | None) -> str:
    if not pairs:
        return ""
    listed = _list_pairs(pairs, names)
    if len(pairs) == 1:
        return f"one pair is {what}, {listed}: its coupling runs to {sign}infinity; give l2"
    return f"{len(pairs)} pairs are {what}, {listed}: their couplings run to {sign}infinity; give l2"
