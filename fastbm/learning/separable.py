"""Units and pairs of units whose data send a parameter to infinity: a value, or a pair of values, is never seen.

Where units i and j never take two values together, lowering the coupling that favours these values (and moving both
biases along) always makes the data more probable, whatever the rest of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ..rows import Rows
from .degenerate import count_together

NAMED = 5  # so many are named in a warning


def never_seen(up: Rows, coupled: Callable[[np.ndarray], np.ndarray], *, pairs: bool, biases: bool) -> str | None:
    """Say which units are constant, and which coupled pairs of the others lack a combination; None where none is.

    `coupled` takes a full matrix and returns the (m, 2) indices, i < j, of the coupled pairs where it is not 0;
    `pairs` and `biases` tell whether couplings and biases are free, so that nothing holds them back.
    """
    counts = up.sums()
    constant = (counts == 0) | (counts == len(up))
    said = []
    if (biases or pairs) and constant.any():
        said.append(
            f"{_named(np.flatnonzero(constant), 'unit', 'units')} never changed: bias and couplings go to infinity; "
            "set l2 and l2_bias, or leave the unit out"
        )
    if pairs:
        both = count_together(up)
        neither = len(up) - counts[:, None] - counts[None, :] + both
        missing = np.minimum(np.minimum(both, neither), np.minimum(counts[:, None] - both, counts[None, :] - both)) <= 0
        missing &= ~(constant[:, None] | constant[None, :])
        found = coupled(missing.astype(np.float64))
        if len(found):
            tuples = [f"({i}, {j})" for i, j in found.tolist()]
            said.append(
                f"{_named(tuples, 'pair', 'pairs')} never took one of its four combinations of values: couplings "
                "go to infinity; set l2 (1e-4, say)"
            )
    return ". ".join(said) + "." if said else None


def _named(items: Iterable[object], one: str, many: str) -> str:
    names = [str(item) for item in items]
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return f"{one if len(names) == 1 else many} {shown}"
