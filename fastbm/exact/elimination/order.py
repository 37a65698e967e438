"""In which order to eliminate units: the order makes the tables, and with them all that an elimination costs.

Eliminating a unit joins its neighbours to one another; the width is the most neighbours that any unit has then. Tried
are the unit of least degree first (Rose, in Graph Theory and Computing, 1972), the unit whose neighbours lack the
fewest couplings first (min-fill), and sweeps: by the number of the unit, along every axis that regular numbers betray,
and breadth first (Cuthill and McKee, Proc. 24th ACM Conf. 157, 1969, doi:10.1145/800195.805928). What costs least is
taken. Bodlaender and Koster, Inf. Comput. 208, 259 (2010), doi:10.1016/j.ic.2009.03.008.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WIDEST = 30  # no table has more than 2^WIDEST entries
REPORTED, REPORTED_UNITS = 100, 10_000  # widths up to here are found to be reported, of machines up to this size
MOST_WORK = 30_000_000  # couplings that the search by degree looks at, about a second; beyond it gives up
FILL_UNITS = 2000  # machines up to this size are searched by fill ...
FILL_ENTRIES = 1 << 21  # ... where all other orders cost more entries than this, about as much time as the search

Neighbours = Sequence[set[int]]


@dataclass(frozen=True)
class Order:
    """An order of elimination.

    Attributes
    ----------
    name : {"min-degree", "min-fill", "rows", "breadth-first"}
    units : list of int
    scopes : list of set of int
        Of every step: the later steps whose units its message is about.
    n_entries : int
        Entries of all messages together.
    """

    name: str
    units: list[int]
    scopes: list[set[int]]
    n_entries: int

    @property
    def width(self) -> int:
        """Units of the largest scope."""
        return max(map(len, self.scopes))


def best_order(neighbours: Neighbours) -> tuple[Order | None, str]:
    """Return the cheapest order found, None if all are wider than `WIDEST`; and its width, in words."""
    units, width = by_degree(neighbours)
    best = None
    if len(units) == len(neighbours) and width <= WIDEST:
        best = evaluate("min-degree", units, neighbours)
    if best is None or best.width > 2:  # up to 2 the least degree is never wider than need be
        for name, sweep in _sweeps(neighbours):
            best = _cheaper(best, evaluate(name, sweep, neighbours, best))
        if len(neighbours) <= FILL_UNITS and (best is None or best.n_entries > FILL_ENTRIES) and width <= REPORTED:
            best = _cheaper(best, evaluate("min-fill", by_fill(neighbours), neighbours, best))
    if best is not None:
        return best, f"width {best.width}"
    if len(units) == len(neighbours):
        return None, f"width {width}"
    return None, f"width above {REPORTED if width > REPORTED else WIDEST}"


def _cheaper(one: Order | None, other: Order | None) -> Order | None:
    if one is None or other is None:
        return one or other
    return other if other.n_entries < one.n_entries else one


def evaluate(name: str, units: list[int], neighbours: Neighbours, best: Order | None = None) -> Order | None:
    """Find all scopes of an order; None once it is too wide, dearer than `best`, or does not name all units."""
    n = len(neighbours)
    if len(units) < n:
        return None
    step = [0] * n
    for k, unit in enumerate(units):
        step[unit] = k
    scopes: list[set[int]] = []
    children: dict[int, list[set[int]]] = {}
    n_entries = 0
    for k, unit in enumerate(units):
        scope = {step[other] for other in neighbours[unit] if step[other] > k}
        scope.update(*children.pop(k, ()))
        scope.discard(k)
        if len(scope) > WIDEST:
            return None
        n_entries += 1 << len(scope)
        if best is not None and n_entries >= best.n_entries:
            return None
        if scope:
            children.setdefault(min(scope), []).append(scope)
        scopes.append(scope)
    return Order(name, units, scopes, n_entries)


def by_degree(neighbours: Neighbours) -> tuple[list[int], int]:
    """Eliminate the unit with the fewest neighbours, the first of them; return units and width.

    Some units are left out where the width exceeds `TOLD` (`WIDEST` where there are many units), or the search takes
    too long.
    """
    widest = REPORTED if len(neighbours) <= REPORTED_UNITS else WIDEST
    left: list[set[int] | None] = [set(others) for others in neighbours]
    heap = [(len(others), unit) for unit, others in enumerate(neighbours)]
    heapq.heapify(heap)
    units: list[int] = []
    width = work = 0
    while heap:
        degree, unit = heapq.heappop(heap)
        others = left[unit]
        if others is None or degree != len(others):  # it has changed since
            continue
        width, work = max(width, degree), work + degree * degree
        if width > widest or work > MOST_WORK:
            break
        for other in others:
            joined = left[other]
            assert joined is not None
            joined |= others
            joined -= {unit, other}
            heapq.heappush(heap, (len(joined), other))
        left[unit] = None
        units.append(unit)
    return units, width


def by_fill(neighbours: Neighbours) -> list[int]:
    """Eliminate the unit whose neighbours lack the fewest couplings to one another; return the units in order.

    Among several it is the one with the fewest neighbours. Some units are left out where it gets too wide.
    """
    left = [sum(1 << other for other in others) for others in neighbours]
    cost = [_fill(left, unit) for unit in range(len(left))]
    heap = [(*cost[unit], unit) for unit in range(len(left))]
    heapq.heapify(heap)
    gone = [False] * len(left)
    units: list[int] = []
    while heap:
        *found, unit = heapq.heappop(heap)
        if gone[unit] or tuple(found) != cost[unit]:
            continue
        if found[1] > WIDEST:
            break
        gone[unit] = True
        units.append(unit)
        scope, changed = left[unit], left[unit]
        for other in _bits(scope):
            if found[0]:
                left[other] |= scope
            left[other] &= ~(1 << unit | 1 << other)
            if found[0]:  # couplings between two of its neighbours may be there now
                changed |= left[other]
        for other in _bits(changed):
            cost[other] = _fill(left, other)
            heapq.heappush(heap, (*cost[other], other))
    return units


def _fill(left: list[int], unit: int) -> tuple[int, int]:
    """How many pairs of neighbours are not coupled (twice), and the number of neighbours."""
    others = left[unit]
    degree = others.bit_count()
    if degree > WIDEST:  # it is not to be eliminated like this: any cost above the others' will do
        return degree * degree, degree
    return sum((others & ~left[other]).bit_count() - 1 for other in _bits(others)), degree


def _bits(word: int) -> Iterator[int]:
    while word:
        lowest = word & -word
        yield lowest.bit_length() - 1
        word ^= lowest


def _sweeps(neighbours: Neighbours) -> Iterator[tuple[str, list[int]]]:
    n = len(neighbours)
    yield "rows", list(range(n))
    steps = Counter(other - unit for unit, others in enumerate(neighbours) for other in others if other > unit)
    strides = [1, *sorted(step for step, count in steps.items() if 2 * count >= n and step > 1), n]
    for stride, larger in itertools.pairwise(strides):
        if larger % stride == 0 and larger < n:  # along the last axis it is the sweep by numbers
            yield "rows", sorted(range(n), key=lambda unit: (unit // stride % (larger // stride), unit))
    yield "breadth-first", _breadth_first(neighbours)


def _breadth_first(neighbours: Neighbours) -> list[int]:
    """Every connected part from one of its ends, neighbours in the order of their degrees."""
    units: list[int] = []
    seen = [False] * len(neighbours)
    for unit in range(len(neighbours)):
        if not seen[unit]:
            part = _search(neighbours, _search(neighbours, unit)[-1])
            for other in part:
                seen[other] = True
            units += part
    return units


def _search(neighbours: Neighbours, first: int) -> list[int]:
    found, waiting, seen = [], deque([first]), {first}
    while waiting:
        unit = waiting.popleft()
        found.append(unit)
        for other in sorted(neighbours[unit] - seen, key=lambda other: (len(neighbours[other]), other)):
            seen.add(other)
            waiting.append(other)
    return found
