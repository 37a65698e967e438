"""A population that is cooled: how far, what its replicas then weigh, and which of them live on.

A step from beta to beta + step gives replica r the weight w_r = exp(-step (E_r - least)), and the population is
resampled to constant size.

Machta, Phys. Rev. E 82, 026704 (2010), doi:10.1103/PhysRevE.82.026704; Wang, Machta and Katzgraber, Phys. Rev. E 92,
063307 (2015), doi:10.1103/PhysRevE.92.063307 (families); Kitagawa, J. Comput. Graph. Stat. 5, 1 (1996),
doi:10.1080/10618600.1996.10474692 (systematic resampling).
"""

import math

import numpy as np

from ..arrays import empty, sum_row, zeros
from ..functions import LANES, exp_float64
from ..jit import apart, kernel

HALVINGS = 32  # of a step that is known up to a factor of two
SECANTS, CLOSE = 8, 1e-9  # of which the last moves a step by this part at most: the error left is about its square
SURE = 1e-12  # part of a step, up to which sums of weights say for certain whether it is too large


@apart
def sum_weights(energies, least, step):
    """Return sum w and sum w^2.  Cost: one exponential a replica, in vectors: every `LANES`th is summed by itself."""
    totals, squares = zeros(LANES, np.float64), zeros(LANES, np.float64)
    n = energies.shape[0]
    for first in range(0, n - LANES + 1, LANES):
        some = energies[first : first + LANES]
        for k in range(LANES):
            w = exp_float64(-step * (some[k] - least))
            totals[k] += w
            squares[k] += w * w
    for r in range(n // LANES * LANES, n):
        w = exp_float64(-step * (energies[r] - least))
        totals[0] += w
        squares[0] += w * w
    return sum_row(totals), sum_row(squares)


@kernel
def resample_systematic(index, energies, edges, step, uniforms, least, totals):
    """Write the parent of every replica, in increasing order, of populations that are resampled each by itself.

    Mutates `index` (n,) int64, `least` and `totals` (n_populations,), the lowest energy and the sum of the weights of
    each; returns how many replicas have no offspring. Population m is those from edges[m] on, before edges[m + 1].
    With u = uniforms[m] in [0, 1), the parent of its replica c is the first r with w_0 + ... + w_r > (c + u) sum(w) /
    n, so that replica r has n w_r / sum(w) offspring, rounded up or down.  Cost: two exponentials a replica.
    """
    n_parents = 0
    weights = empty(energies.shape[0], np.float64)
    for m in range(uniforms.shape[0]):
        start, n = edges[m], edges[m + 1] - edges[m]
        own = energies[start : start + n]
        lowest = own[0]
        for k in range(1, n):
            lowest = min(lowest, own[k])
        for k in range(n):
            weights[k] = exp_float64(-step * (own[k] - lowest))
        least[m], totals[m] = lowest, sum_weights(own, lowest, step)[0]
        share = totals[m] / n
        r, reached, last = -1, 0.0, -1
        for c in range(n):
            aim = (c + uniforms[m]) * share
            while (reached <= aim or r < 0) and r < n - 1:
                r += 1
                reached += weights[r]
            n_parents += np.int64(r != last)
            last = r
            index[start + c] = start + r
    return energies.shape[0] - n_parents


@apart
def _distance(energies, least, step):
    """Return how far weights are from those of no step: for small steps in proportion to it."""
    total, squares = sum_weights(energies, least, step)
    return math.sqrt(max(0.0, math.log(energies.shape[0] * squares / (total * total))))


@apart
def _reaches(energies, least, step, target_ess, near):
    """Return whether a step leaves the effective sample size that is asked for; `near` is about the largest that does.

    Weights are summed only where a step is as near to it as that; everywhere if it is NaN.
    """
    if abs(step - near) > SURE * near:
        return step < near
    total, squares = sum_weights(energies, least, step)
    return total * total >= target_ess * energies.shape[0] * squares


@apart
def _guess_step(energies, least, step, target_ess):
    """Return about the step that leaves this effective sample size, by secants from another; NaN where they fail."""
    aim = math.sqrt(-math.log(target_ess))
    reached = _distance(energies, least, step)
    further = step * aim / reached if reached else math.nan
    for _ in range(SECANTS):
        if not 0.0 < further < math.inf:
            return math.nan
        if abs(further - step) <= CLOSE * further:
            break
        before, start = reached, step
        step, reached = further, _distance(energies, least, further)
        slope = (reached - before) / (step - start)
        further = step + (aim - reached) / slope if slope else math.nan
    return further


@kernel
def choose_step(energies, most, target_ess):
    """Return the largest step of beta, at most `most`, that keeps the weights' effective sample size high enough.

    It must be at least `target_ess` times their number.
    The effective size (sum w)^2 / sum w^2 falls as the step grows, so halving finds it, from where weights differ much.
    Weights are summed only at steps near to a first guess, if that is seen to be near.
    Cost: about ten sums of weights, of one exponential a replica.
    """
    near, least, highest = math.nan, energies[0], energies[0]
    for energy in energies:
        least, highest = min(least, energy), max(highest, energy)
    if _reaches(energies, least, most, target_ess, near):
        return most
    low = min(0.5 * most, 1.0 / (highest - least))
    guess = _guess_step(energies, least, low, target_ess)
    if _reaches(energies, least, (1.0 - SURE) * guess, target_ess, near) and not _reaches(
        energies, least, (1.0 + SURE) * guess, target_ess, near
    ):
        near = guess
    while low > 0.0 and not _reaches(energies, least, low, target_ess, near):
        low *= 0.5
    while 0.0 < 2.0 * low < most and _reaches(energies, least, 2.0 * low, target_ess, near):
        low *= 2.0
    high = min(2.0 * low, most)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if _reaches(energies, least, middle, target_ess, near):
            low = middle
        else:
            high = middle
    return low


@kernel
def measure_population(energies, family):
    """Return the mean and the standard deviation of energies, and measures of families.

    These are their number; -sum nu log nu in nats, nu being the part of the population in each; and rho_t = n_replicas
    sum nu^2, the mean square size of a family: errors of means are at most sqrt(variance rho_t / n_replicas), and
    n_replicas / exp(entropy) is how many replicas count as one. Replica r is of family[r], int64, and those of a family
    lie side by side.  Cost: O(n_replicas).
    """
    n_replicas, mean, rest, variance = family.shape[0], 0.0, 0.0, 0.0
    for energy in energies:
        mean += energy
    mean /= n_replicas
    for energy in energies:  # what rounding has left of the mean is seen in sums of distances from it
        rest += energy - mean
        variance += (energy - mean) * (energy - mean)
    mean += rest / n_replicas
    variance = max(0.0, variance - rest * rest / n_replicas)
    n, entropy, squares, size = 0, 0.0, 0.0, 0
    for r in range(n_replicas):
        size += 1
        if r + 1 == n_replicas or family[r + 1] != family[r]:
            part = size / n_replicas
            n += 1
            entropy -= part * math.log(part)
            squares += part * part
            size = 0
    return mean, math.sqrt(variance / n_replicas), n, entropy, n_replicas * squares
