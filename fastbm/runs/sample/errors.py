"""Error bars of averages, with what states that were not seen may add to them.

What was not seen in `ess` effective samples may still have a probability of a few parts of 1 / ess. A rare state that
was seen r times leaves an error of sqrt(r + 2) / ess times what it differs by (`rarely`), and not of sqrt(r) / ess,
which is 0 where there was none: what two more would add is put beside what the samples tell of their own scatter.

How long a visit takes is known of those that were seen. Others may be longer: where a flip that costs much leaves more
units free, chains come back after wandering about. So visits that were seen are put together with one more, of as many
sweeps as that may take (`longest_visit`); where many were seen it adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import diagnostics
from ..._base.arrays import near_one
from ...diagnostics.autocorrelation import standard_errors
from ...diagnostics.jackknife import student_widening
from ...sampling.unseen import AGRESTI_COULL, Unseen, rarely, unseen_flip
from ...sampling.valleys import has_one_valley
from .samples import Samples

# sweeps for each unit, some of what walls that move freely need to meet. Of 3700 runs of rings, lattices and glasses of
# 5 to 16 units with fewer than 12 visits, the energy of one and |m| of 3 were 5 errors off; of 67 and 110 without it
LONGEST_VISIT = 2.0
AT_ONCE = ("exact", "swendsen-wang")  # samplers of which no sample depends on where a flip leads


def longest_visit(run: Samples) -> float:
    """Return how many samples in a row a chain may be where none was seen.

    Of chains so many sweeps as units need to come back, of a ladder those from one round trip to the next. Where units
    depend so little on others that a flip leads nowhere, it is one.
    """
    n_samples, settings = run._n_samples, run.config["sample"]
    if run._sampler in AT_ONCE or has_one_valley(run._start, float(np.max(run.beta))):
        return 1.0
    if run._sampler == "tempering":
        return max(1.0, n_samples / (1.0 + float(run.round_trips.mean())))
    every = settings["thin"] if isinstance(settings["thin"], int) else 1
    return max(1.0, min(LONGEST_VISIT * run._start.n_units / every, n_samples))


def energy_error(run: Samples, energy: np.ndarray, beta: float | None = None, error: float | None = None) -> float:
    """Return the standard error of the mean of energies, (n_samples, n_chains) of chains at one temperature.

    `error` is what they tell of their own scatter, where it is known.
    """
    error = float(diagnostics.standard_error(energy)) if error is None else error
    missed = _unseen(run, energy, float(np.max(run.beta)) if beta is None else beta, error)
    return float(np.hypot(error, missed.chance * missed.energy))


def heat_floor(run: Samples, energy: np.ndarray, beta: float, error: float) -> float:
    """Return what unseen states may add to a specific heat per unit; `error` is that of the mean of the energies."""
    missed = _unseen(run, energy, beta, error)
    return float(missed.chance * (beta * missed.energy) ** 2) / run._start.n_units


def _unseen(run: Samples, energy: np.ndarray, beta: float, error: float) -> Unseen:
    return unseen_flip(run._start, beta, effective(energy, error, longest_visit(run)))


def effective(values: np.ndarray, error: float, longest: float = 1.0) -> float:
    """Return how many independent samples tell of rare states, of values (n_samples, n_chains).

    `error` is the standard error of their mean, `longest` how many samples a visit that was not seen may take. Values
    of variance v and fourth moment k that are of rare visits are off in a part p = v^2 / k of the samples, and r = p v
    / error^2 visits have this error. With one more, of a part l of the samples, a visit is (p + l) / (r + 1).
    """
    part = longest / values.size
    if not error > 0.0:
        return 1.0 / part
    scaled, exponent = near_one(values - values.flat[0])
    square = (scaled - scaled.mean()) ** 2
    variance = float(square.mean())
    ess = float(np.clip(variance / np.ldexp(error, -exponent) ** 2, 1.0, values.size))
    off = variance**2 / float((square * square).mean())
    return (ess * off + 1.0) / (off + max(part, 1.0 / ess))


def observable_error(values: np.ndarray, scale: float | None = None, longest: float = 1.0) -> float:
    """Return the standard error of the mean of an observable.

    `scale` is what an unseen state would differ by, where it is known, `longest` how many samples it would be seen in.
    """
    return widened(values, float(diagnostics.standard_error(values)), scale, longest)


def observable_errors(
    series: Sequence[np.ndarray], scales: Sequence[float | None], longest: float = 1.0
) -> list[float]:
    """Return what `observable_error` does of each of many series and scales."""
    errors = standard_errors(*series)
    return [widened(values, error, scale, longest) for values, error, scale in zip(series, errors, scales, strict=True)]


def widened(values: np.ndarray, error: float, scale: float | None = None, longest: float = 1.0) -> float:
    """Return the standard error of a mean whose values tell of the `error`, with what unseen states may add.

    They differ by `scale`, for `longest` samples. Where it is not known, nothing is added to values that vary, and
    others may be off by the value itself, or 1 where that is 0.
    """
    if scale is None:
        scale = 0.0 if error > 0.0 else abs(float(values.flat[0])) or 1.0
    return float(np.hypot(error, unseen_error(effective(values, error, longest), scale)))


def across_chains(run: Samples, values: np.ndarray, scale: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return means over chains at each time, and their standard errors, of values (n_samples, n_chains).

    `scale` is what an unseen state would differ by; where it is not known, and at a time all chains are alike, it is
    the largest value, or 1 where that is 0. Errors are NaN for one chain and where chains share an order that is drawn,
    with which means vary more than chains do among themselves; of few chains they are widened as those of
    `diagnostics.jackknife`.
    """
    n_chains = values.shape[1]
    if n_chains == 1 or run.shares_order:
        return values.mean(axis=1), np.full(len(values), np.nan)
    error = student_widening(n_chains - 1) * values.std(axis=1, ddof=1) / np.sqrt(n_chains)
    off = np.where(error > 0.0, 0.0, float(np.abs(values).max()) or 1.0) if scale is None else scale
    return values.mean(axis=1), np.hypot(error, rarely(n_chains, AGRESTI_COULL) * off)


def why_unknown(run: Samples) -> str:
    """Return why errors of means at one time are not known of chains that share an order, and the way out."""
    return (
        f"not known: in {run.config['sample']['order']} order all chains of a run visit the same units. "
        'Gibbs updates in order="sequential" or "coloured" have them, and the scatter between runs of several seeds'
    )


def unseen_error(ess: float, scale: float) -> float:
    """Return the standard error of a mean that comes of states that `ess` samples lack, each off by `scale`."""
    return float(rarely(ess, AGRESTI_COULL)) * scale


def of_unvaried(found: diagnostics.Reweighted) -> diagnostics.Reweighted:
    """Return averages with errors of what never varied: unseen states may be off by the value, or 1 where that is 0."""
    off = rarely(found.ess, AGRESTI_COULL) * np.where(found.value, np.abs(found.value), 1.0)
    return found._replace(error=np.where(np.equal(found.error, 0.0), off, found.error)[()])


def floored(estimate: diagnostics.Estimate, floor: float) -> diagnostics.Estimate:
    """Return an estimate whose error is at least `floor`; one that is NaN stays so.

    What is not linear in means, as a specific heat, changes by the square of a flip. Added, that would be no small part
    of the error of few samples of a glass, in which flips as large were seen.
    """
    return estimate._replace(error=float(np.maximum(estimate.error, floor)))
