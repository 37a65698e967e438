"""Moments of coupled pairs alone: what was computed is given, what was not is refused by its number."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from fastbm.inference.known_pairs import known_pairs

DENSE = np.array([[1.0, 0.5, 0.0, 0.0], [0.5, 1.0, 0.2, 0.0], [0.0, 0.2, 1.0, 0.3], [0.0, 0.0, 0.3, 1.0]])
KNOWN = known_pairs(scipy.sparse.csr_array(DENSE))


@pytest.mark.parametrize(
    "index",
    [(0, 1), (3, 2), (-1, 3), (0, -3), ([0, 1, 3], [1, 2, 2]), ([0, -1], [1, -2]), (2, [1, 2, 3]), (slice(1, 3), 2)],
)
def test_what_was_computed_is_given(index: tuple[object, object]) -> None:
    found = KNOWN[index]
    np.testing.assert_array_equal(found.toarray() if hasattr(found, "toarray") else found, DENSE[index])


@pytest.mark.parametrize(
    ("index", "pair"),
    [
        ((0, 2), (0, 2)),
        ((3, 0), (3, 0)),
        ((-1, -3), (3, 1)),
        (([0, 1, 1, 2], [1, 2, 3, 0]), (1, 3)),
        ((3, [3, 2, 1]), (3, 1)),
    ],
)
def test_what_was_not_computed_is_refused(index: tuple[object, object], pair: tuple[int, int]) -> None:
    with pytest.raises(LookupError, match=rf"the pair of units \({pair[0]}, {pair[1]}\) was not computed"):
        KNOWN[index]


def test_other_places_are_refused_as_everywhere() -> None:
    for index in ((0, 4), (-5, 0), ([0, 1], [0, 9])):
        with pytest.raises(IndexError):
            KNOWN[index]
