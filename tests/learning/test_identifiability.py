"""Data without a maximum of the likelihood are told from data with one, by name."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.data.counting import count_together
from fastbm.data.rows import Rows
from fastbm.learning import identifiability
from fastbm.learning.identifiability import describe_degenerate, describe_few, edges_among
from tests.twins import fidelity as reference


def some_bits(m: int, n: int, p: float = 0.5, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random((m, n)) < p).astype(np.uint8)


def test_nothing_to_say():
    assert describe_degenerate(some_bits(200, 8)) == []


@pytest.mark.parametrize("large", [1 << 28, 0])
@pytest.mark.parametrize("m", [1, 6, 7, 50, 200])
def test_counts_do_not_depend_on_blocks(m, large, monkeypatch):
    up = some_bits(m, 9)
    expected = up.astype(int).T @ up.astype(int)
    monkeypatch.setattr("fastbm.data.counting.LARGE", large)
    monkeypatch.setattr("fastbm.data.counting.FEWEST_WORDS", 1)
    monkeypatch.setattr("fastbm.data.counting.WORDS", 1)
    assert np.array_equal(count_together(up), expected)
    monkeypatch.setattr("fastbm.data.rows.NUMBERS", 63)
    assert np.array_equal(count_together(up), expected)


def test_constant_units():
    up = some_bits(200, 7)
    up[:, 3] = 0
    assert describe_degenerate(up) == [
        "unit 3 is never on: its bias runs to -infinity; give l2 and l2_bias, or leave the unit out"
    ]
    up[:, [1, 5]] = 1
    assert describe_degenerate(up, names=list("abcdefg")) == [
        "unit d is never on: its bias runs to -infinity; give l2 and l2_bias, or leave the unit out",
        "2 units are always on, b, f: their biases run to +infinity; give l2 and l2_bias, or leave them out",
    ]


def test_missing_joint_states():
    up = some_bits(400, 8)
    up[:, 1] &= 1 - up[:, 0]  # never on together
    up[:, 3] |= 1 - up[:, 2]  # never off together
    up[:, 4] &= up[:, 5]  # 4 never on without 5
    up[:, 7] |= up[:, 6]  # 6 never on without 7
    assert describe_degenerate(up) == [
        "one pair is never on together, (0, 1): its coupling runs to -infinity; give l2",
        "one pair is never off together, (2, 3): its coupling runs to -infinity; give l2",
        "2 pairs are such that the first is never on without the second, (4, 5), (6, 7): their couplings run to "
        "+infinity; give l2",
    ]


@pytest.mark.parametrize("units", ["binary", "spin"])
@pytest.mark.parametrize("n_samples", [400, None])
def test_moments_tell_what_their_rows_do(n_samples: int | None, units: str):
    up = some_bits(400, 6)
    up[:, 0], up[:, 2] = 0, up[:, 1] & up[:, 2]
    moments = bm.Moments.of(up, "binary").to_units(units)
    moments = bm.Moments(moments.mean, moments.second_moment, n_samples, units)
    assert describe_degenerate(moments) == describe_degenerate(up)
    with pytest.warns(bm.ConvergenceWarning, match="never on") as caught:
        bm.fit(moments, "exact", epochs=1)
    assert len(caught) == 2


def test_rows_that_lack_entries_tell_of_pairs_that_are_known_together():
    up, known = some_bits(400, 5), some_bits(400, 5, 0.9, seed=1)
    up[:, 1] &= 1 - up[:, 0] * known[:, 0]
    known[:, 4] &= 1 - known[:, 3] * up[:, 3]  # of 3 and 4, where both are known, 3 is always down
    assert describe_degenerate(Rows.of(up & known, known)) == [
        "where entries are known, one pair is never on together, (0, 1): its coupling may run to -infinity; give l2"
    ]


def test_the_first_is_never_on_without_the_second_whatever_their_order():
    up = some_bits(400, 3)
    up[:, 2] &= up[:, 0]
    (line,) = describe_degenerate(up)
    assert line.startswith("one pair is such that the first is never on without the second, (2, 0):")


def test_what_a_penalty_holds_and_what_is_not_coupled_is_no_trouble():
    up = some_bits(200, 4)
    up[:, 0] = 1
    up[:, 2] &= 1 - up[:, 1]
    assert len(describe_degenerate(up)) == 2
    assert describe_degenerate(up, couplings_held=True, biases_held=True) == []
    assert [line[:6] for line in describe_degenerate(up, couplings_held=True)] == ["unit 0"]
    # a bias that is held leaves the couplings of a constant unit to do its work
    assert [line[:6] for line in describe_degenerate(up, biases_held=True)] == ["unit 0", "one pa"]
    ring = np.roll(np.eye(4), 1, axis=0) + np.roll(np.eye(4), -1, axis=0)  # (0, 1), (1, 2), (2, 3), (3, 0)
    for pairs, n_lines in ((ring, 2), (ring * (np.add.outer(range(4), range(4)) != 3), 1)):
        couplings = bm.BoltzmannMachine(scipy.sparse.csr_array(pairs)).couplings
        assert len(describe_degenerate(up, edges=edges_among(couplings, 4))) == n_lines
    assert edges_among(bm.BoltzmannMachine(ring).couplings, 4) is None


def test_rows_that_are_all_equal():
    up = np.tile(some_bits(1, 5), (30, 1))
    assert describe_degenerate(up) == [
        "all 30 rows are equal: biases run to infinity; give rows that differ, or l2 and l2_bias"
    ]


def test_copies():
    up = some_bits(100, 5)
    up[:, 4], up[:, 2] = up[:, 0], 1 - up[:, 1]
    assert describe_degenerate(up) == [
        "a pair of units, (0, 4), are equal in every row: its coupling runs to +infinity; leave one unit of each pair "
        "out, or give l2",
        "a pair of units, (1, 2), are opposite in every row: its coupling runs to -infinity; leave one unit of each "
        "pair out, or give l2",
    ]


def test_few_rows_and_long_lists():
    lines = describe_degenerate(some_bits(6, 60, p=0.2))
    assert describe_few(6, 60)[0].startswith("there are fewer rows (6) than units (60)")
    assert not describe_few(60, 60)
    together = next(line for line in lines if "never on together" in line)
    assert together.count("(") == 10 and "more: their couplings" in together
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("gaps", [False, True])
def test_pairs_along_edges_are_those_of_all_that_are_coupled(gaps: bool) -> None:
    up, known = some_bits(70, 9, p=0.2), some_bits(70, 9, p=0.8 if gaps else 1.1, seed=1)
    up[:, 8] = 0
    rows = Rows.of(up & known, known) if gaps else Rows.of(up)
    every = np.stack(np.triu_indices(9, 1), axis=1)
    assert describe_degenerate(rows, edges=every) == describe_degenerate(rows)
    edges = every[np.random.default_rng(2).random(len(every)) < 0.4]
    along, whole = identifiability.Joint.of(rows, edges), identifiability.Joint.of(rows)
    chosen = [next(k for k, pair in enumerate(every) if (pair == edge).all()) for edge in edges]
    for name in ("both", "first", "second", "neither", "vary"):
        np.testing.assert_array_equal(getattr(along, name), getattr(whole, name)[chosen])
    ring = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
    hidden = bm.BoltzmannMachine(scipy.sparse.csr_array(ring), n_hidden=2)
    assert edges_among(hidden.couplings, 3).tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("seed", range(6))
def test_pairs_are_those_of_the_twin(seed, monkeypatch):
    monkeypatch.setattr(identifiability, "MOST_NAMED", 10_000)
    up = some_bits(12, 9, p=0.3, seed=seed)
    found, expected = " ".join(describe_degenerate(up)), reference.degenerate_pairs(up)
    implied = sorted([(i, j) for i, j in expected["10"]] + [(j, i) for i, j in expected["01"]])
    for pairs, what in (
        (expected["11"], "never on together, "),
        (expected["00"], "never off together, "),
        (implied, "without the second, "),
        (expected["same"], "pair of units, " if len(expected["same"]) == 1 else "pairs of units, "),
    ):
        assert not pairs or what + ", ".join(map(str, pairs)) + (": " if "unit" not in what else ", are equal") in found
    assert any(expected.values())
