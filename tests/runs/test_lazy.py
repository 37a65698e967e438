"""States that are read from a file when asked for act like an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import fastbm as bm


@pytest.fixture(scope="module")
def lazy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, np.ndarray]:
    path = tmp_path_factory.mktemp("lazy") / "run.h5"
    model = bm.models.random_machine(11, units="binary")
    run = bm.sample(model, n_chains=3, n_sweeps=23, out=path)
    return run.states, np.asarray(bm.sample(model, n_chains=3, n_sweeps=23).states)


def index(size: int) -> st.SearchStrategy[Any]:
    edge = st.none() | st.integers(-size - 3, size + 3)
    slices = st.builds(slice, edge, edge, st.none() | st.integers(-4, 4).filter(bool))
    whole = st.integers(-size, size - 1)
    return st.one_of(slices, whole, whole.map(np.int64), st.lists(whole, min_size=1, max_size=4))


ODD_KEYS = [
    ..., (), None, (..., 0), (None, 2), (slice(2, 9), None, 1), (3, ..., [1, 2]), (0, slice(None), [1, 2]), True, False,
]  # fmt: skip
KEYS = st.one_of(
    index(23), st.tuples(index(23)), st.tuples(index(23), st.integers(-3, 2)),
    st.tuples(index(23), st.builds(slice, st.integers(0, 3))),
    st.tuples(st.builds(slice, st.integers(0, 23)), index(3)),
    st.tuples(st.integers(0, 22), index(3), st.integers(0, 10)), st.sampled_from(ODD_KEYS),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(KEYS)
def test_lazy_slices_are_numpy_slices(lazy: tuple[Any, np.ndarray], key: Any) -> None:
    states, whole = lazy
    found = states[key]
    assert np.shape(found) == np.shape(whole[key])
    assert np.array_equal(found, whole[key])
    assert found.dtype == np.int8


def test_lazy_states_act_like_an_array(lazy: tuple[Any, np.ndarray]) -> None:
    states, whole = lazy
    assert (states.shape, states.ndim, states.size, len(states), states.dtype) == (
        whole.shape,
        3,
        whole.size,
        23,
        np.int8,
    )
    assert np.array_equal(np.asarray(states, float), whole)
    assert np.array_equal(2 * states - 1, 2 * whole - 1)
    assert np.array_equal(states == 1, whole == 1)
    assert states.mean() == np.mean(states) == whole.mean()
    assert np.array_equal(states.reshape(-1, 11), whole.reshape(-1, 11))
    assert np.array_equal(np.stack(list(states)), whole)
    assert "(23, 3, 11)" in repr(states)
    for key in (23, -24, 10**6):
        with pytest.raises(IndexError):
            states[key]
    for key in ((0, 3), (slice(None), 0, 11), (0, 0, 0, 0), 1.5, "a"):
        with pytest.raises(IndexError):
            states[key]
