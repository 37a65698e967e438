"""Spike times to bins: counted one by one, from files, by trials, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import fastbm as bm

bin_times = bm.data.from_spike_times


def test_bins_are_those_of_exact_fractions() -> None:
    """Times on edges fall into the later bin, though k * 0.02 / 0.02 rounds below k for some k."""
    k = np.arange(2000)
    found = bin_times([k * 0.02, k[:1000] * 0.02 + 0.0199], 0.02)
    assert found.rows.shape == (2000, 2) and found.rows.dtype == np.uint8
    assert found.rows[:, 0].all() and found.rows[:1000, 1].all() and not found.rows[1000:, 1].any()
    np.testing.assert_allclose(found.start, k * 0.02)
    assert not found.trial.any() and found.names == ("0", "1")


@pytest.mark.parametrize("begin", [1e6, 1.7e9])
def test_edges_of_large_times(begin: float) -> None:
    """Seconds since 1970 are rounded to 2e-7, 1e-5 of a bin."""
    found = bin_times([begin + np.arange(100) * 0.02], 0.02, start=begin, stop=begin + 2.0)
    assert found.rows.tolist() == [[1]] * 100


@pytest.mark.parametrize(("dtype", "n"), [(np.float32, 300_000), (">f4", 300_000), (np.float16, 100)])
def test_times_round_as_their_dtype_does(dtype: Any, n: int, tmp_path: Path) -> None:
    """A spike in every bin, at its edge: ten minutes of them in float32, which rounds by 7 % of a millisecond."""
    times = (np.arange(n) * 2e-3).astype(dtype)
    rows = bin_times([times], 2e-3).rows
    assert rows.shape == (n, 1) and rows.all()
    with h5py.File(tmp_path / "a.nwb", "w") as file:
        file["units/spike_times"], file["units/spike_times_index"] = times, [n]
    assert bin_times(str(tmp_path / "a.nwb"), 2e-3).rows.all()


def test_any_order_and_several_spikes_in_a_bin() -> None:
    generator = np.random.default_rng(0)
    times = {name: generator.uniform(0.0, 30.0, 400) for name in ("a", "b", "c")}
    found = bin_times(times, 0.1)
    expected = np.stack([np.histogram(one, np.arange(301) * 0.1)[0] > 0 for one in times.values()], axis=1)
    np.testing.assert_array_equal(found.rows, expected[: len(found.rows)])
    assert found.names == ("a", "b", "c")
    same = bin_times({name: np.sort(one) for name, one in times.items()}, 0.1)
    np.testing.assert_array_equal(found.rows, same.rows)
    part = bin_times(times, 0.1, start=5.0, stop=12.05)  # the last bin would be cut
    np.testing.assert_array_equal(part.rows, expected[50:120])
    assert bm.fit(found.rows, method="exact", units="binary").converged


def test_trials_keep_their_bins_apart() -> None:
    found = bin_times([[0.5, 1.26, 3.05], []], 0.25, trials=[(1.0, 2.1), (3.0, 3.5)])
    assert found.trial.tolist() == [0, 0, 0, 0, 1, 1]
    assert found.rows.tolist() == [[0, 0], [1, 0], [0, 0], [0, 0], [1, 0], [0, 0]]
    np.testing.assert_allclose(found.start, [1.0, 1.25, 1.5, 1.75, 3.0, 3.25])
    touching = [(0.3 * k, 0.3 * k + 0.3) for k in (3, *range(3), *range(4, 20))]  # some end 1e-16 after the next begins
    assert bin_times([[0.5]], 0.1, trials=touching).rows.sum() == 1


def write(path: Path, ends: Any = (2, 2, 5), n_times: int = 5, place: str = "units") -> str:
    with h5py.File(path, "w") as file:
        table = file.create_group(place)
        table["spike_times"] = np.linspace(0.05, 0.45, n_times)
        table["spike_times_index"] = np.array(ends, np.uint32)
        table["id"] = [7, 8, 9]
    return str(path)


def test_a_file(tmp_path: Path) -> None:
    found = bin_times(write(tmp_path / "a.nwb"), 0.1)
    assert found.names == ("7", "8", "9")
    assert found.rows.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]]
    elsewhere = bin_times(write(tmp_path / "b.h5", place="processing/units") + ":processing/units", 0.1)
    np.testing.assert_array_equal(elsewhere.rows, found.rows)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda _: bin_times([[0.1]], 0.0), ValueError, "bin_width"),
        (lambda _: bin_times([], 0.1), ValueError, "times is empty"),
        (lambda _: bin_times(3, 0.1), TypeError, "times of each unit; got int"),
        (lambda _: bin_times([0.1, 0.2], 0.1), TypeError, r"times\[0\] must be the times of one unit"),
        (lambda _: bin_times([[0.1, np.nan]], 0.1), ValueError, r"times\[0\] holds a time that is not finite"),
        (lambda _: bin_times([["a"]], 0.1), TypeError, r"times\[0\] must be numbers"),
        (lambda _: bin_times([["0.1"]], 0.1), TypeError, r"times\[0\] must be numbers.* got dtype <U3"),
        (lambda _: bin_times([[0.1j]], 0.1), TypeError, r"times\[0\] must be numbers.* got dtype complex128"),
        (lambda _: bin_times([np.array(["2020-01-01"], "M8[s]")], 1.0, start=1.5e9), TypeError, "got dtype datetime64"),
        (lambda _: bin_times([np.ma.array([0.1, 0.2], mask=[0, 1])], 0.1), ValueError, "must have no masked entries"),
        (lambda _: bin_times([[], []], 0.1), ValueError, "pass stop"),
        (lambda _: bin_times([[-0.2]], 0.1), ValueError, "times begin at -0.2, before 0: pass start"),
        (lambda _: bin_times([[0.1]], 0.1, start=1.0, stop=1.05), ValueError, "no whole bin"),
        (lambda _: bin_times([[1e12]], 1e-3), ValueError, "too many"),
        (lambda _: bin_times([[1e200]], 1e-200), ValueError, "stop must be finite"),
        (lambda _: bin_times([[1.0]], 1e-200, stop=1e200), ValueError, "too many"),
        (lambda _: bin_times([[0.1]], 0.1, trials=[]), ValueError, "trials is empty"),
        (lambda _: bin_times([[0.1]], 0.1, trials=[(1.0, 1.0)]), ValueError, r"trials\[0\] ends at 1"),
        (lambda _: bin_times([[0.1]], 0.1, trials=[3]), ValueError, r"trials\[0\] must be a pair"),
        (lambda _: bin_times([[0.1]], 0.1, trials=[(0, 1)], stop=2), ValueError, "not both"),
        (
            lambda _: bin_times([[0.1]], 0.1, trials=[(2, 3), (0, 1.5), (1, 2)]),
            ValueError,
            r"trials\[1\], \(0.0, 1.5\), and trials\[2\], \(1.0, 2.0\), overlap",
        ),
        (
            lambda _: bin_times([np.float32([3600.0])], 1e-3, start=3599.0),
            ValueError,
            r"times of unit 0 are float32 and up to 3600, rounded by 0.43 of a bin of 0.001\. Pass them as they were",
        ),
        (lambda _: bin_times("nothing.nwb", 0.1), bm.StorageError, "does not exist"),
        (lambda p: bin_times(write(p) + ":other", 0.1), ValueError, "no table of units with spike times at 'other'"),
        (lambda p: bin_times(write(p, ends=(2, 1, 5)), 0.1), ValueError, "makes no sense"),
        (lambda p: bin_times(write(p, ends=(2, 3, 9)), 0.1), ValueError, "makes no sense"),
    ],
)
def test_refusals(call: Callable[[Path], Any], error: type[Exception], match: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=match):
        call(tmp_path / "a.nwb")


def test_empty_units_are_kept_where_the_end_is_given() -> None:
    assert bin_times([[], []], 0.5, stop=2.0).rows.tolist() == [[0, 0]] * 4
