"""Times at which samples are recorded: against decimal arithmetic, and what is asked of them against lists."""

from __future__ import annotations

import decimal

import numpy as np
import pytest

from fastbm.sampling.times import EvenTimes, log_times, times_of


def test_logarithmic_times_are_the_nearest_to_powers_of_ten() -> None:
    with decimal.localcontext(prec=60):
        powers = [10 ** (decimal.Decimal(k) / 10) for k in range(171)]
        nearest = [int(power.to_integral_value(decimal.ROUND_HALF_EVEN)) for power in powers]
    assert log_times(10**17).tolist() == sorted(set(nearest))
    assert [len(log_times(n)) for n in (0, 1, 9, 10, 99, 10**30)] == [0, 1, 7, 8, 17, 178]


@pytest.mark.parametrize("thin", [1, 3, "log"])
@pytest.mark.parametrize("n_sweeps", [0, 1, 7, 40])
def test_times_are_told_by_number_and_by_time(thin: int | str, n_sweeps: int) -> None:
    times = times_of(thin, n_sweeps)
    every = times.between(0, times.n)
    assert isinstance(times, EvenTimes) == (thin != "log")
    assert every.dtype == np.int64 and (every <= n_sweeps).all() and (np.diff(every) > 0).all()
    for now in range(n_sweeps + 3):
        k = times.passed(now)
        assert k == (every <= now).sum()
        if k < times.n:
            step = int(times.between(k, k + 1)[0]) - now
            alike = times.alike(k, step)
            assert every[k : k + alike].tolist() == [now + step * (j + 1) for j in range(alike)]
            most = alike == times.n - k or every[k + alike] - every[k + alike - 1] != step
            assert most or (alike == 1 and step != thin)  # of even times, on the way to the next
