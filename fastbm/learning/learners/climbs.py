"""Several starts of one descent, of which the best is continued.

All go some iterations far, the best ones of these farther, and then one is left. Where few iterations were asked for,
these climbs are so short that both rounds take no more than these; a run that is made longer later goes on from where
the shorter one started. Every call does one climb; records of all are the state, so that a run that is stopped goes on
to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..moments import with_prefix, without_prefix
from ..optimise.lbfgs import Lbfgs

FIRST, SECOND = 25, 100  # iterations
FINALISTS = 2
ALIKE = 1e-6  # difference of values of climbs on one hill


def enough_iterations(n_starts: int) -> int:
    """Return how many there must be, so that more of them would make no climb longer."""
    return max(FIRST * n_starts, SECOND * FINALISTS)


class Climbs:
    """Descents from all `points`, of about `n_iterations` in a round at most."""

    def __init__(self, make: Callable[[np.ndarray], Lbfgs], points: Sequence[np.ndarray], n_iterations: int) -> None:
        self._all = [make(point) for point in points]
        self._first = min(max(n_iterations // len(points), 1), FIRST)
        self._second = min(max(n_iterations // FINALISTS, 1), SECOND)
        self._n_done = 0

    @property
    def _n_calls(self) -> int:
        return len(self._all) + min(FINALISTS, len(self._all)) if len(self._all) > 1 else 0

    @property
    def over(self) -> bool:
        """Whether the best climb is known."""
        return self._n_done >= self._n_calls

    def climb(self) -> None:
        """Do one more climb."""
        if self._n_done < len(self._all):
            self._all[self._n_done].run(self._first)
        else:
            self._ranked()[self._n_done - len(self._all)].run(self._second)
        self._n_done += 1

    def best(self) -> Lbfgs:
        """Return the climb that reached the lowest value, with its record."""
        if len(self._all) == 1:
            return self._all[0]
        return min(self._ranked()[:FINALISTS], key=lambda one: one.run(self._second)[-1][1])

    def _ranked(self) -> list[Lbfgs]:
        """Return the climbs by value after the first round, the lowest first, and repeats of a value last."""
        values = [one.run(self._first)[-1][1] for one in self._all]
        order = sorted(range(len(values)), key=lambda k: (values[k], k))
        fresh = [k for place, k in enumerate(order) if not place or values[k] > values[order[place - 1]] + ALIKE]
        return [self._all[k] for k in [*fresh, *(k for k in order if k not in fresh)]]

    def state(self) -> dict[str, np.ndarray]:
        """Return the records of all climbs, while the best is not known."""
        records = (with_prefix(str(k), one.state()) for k, one in enumerate(self._all))
        return {"n_done": np.array(self._n_done), **{k: v for record in records for k, v in record.items()}}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._n_done = int(state["n_done"])
        for k, one in enumerate(self._all):
            one.restore(without_prefix(str(k), state))
