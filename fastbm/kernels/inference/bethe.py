"""Belief propagation in cavity fields, and what its messages say.

A message u_(j -> i) is the field that unit j puts on unit i: u = atanh(tanh(K) tanh(c)), K = beta W_ij, with c the
field of j without what i puts on it. Messages stand in the slots of the symmetric matrix's rows: slot k of row i holds
what unit indices[k] puts on i, and slot reverse[k] what i puts on it.

Pearl, Probabilistic Reasoning in Intelligent Systems (1988); Mezard and Parisi, Eur. Phys. J. B 20, 217 (2001),
doi:10.1007/PL00011099; the free energy: Yedidia, Freeman and Weiss, IEEE Trans. Inf. Theory 51, 2282 (2005),
doi:10.1109/TIT.2005.850085.
"""

import numpy as np

from ..arrays import empty, zeros
from ..functions import atanh_product, expm1_negative, log1p_float64, log_cosh_float64, tanh_float64
from ..jit import inlined, kernel


@kernel
def reverse_slots(indptr, indices, reverse):
    """Find the slot (j, i) of every slot (i, j). Mutates `reverse` (n_slots,).

    Columns increase within each row, so that the rows that name j come in the order of j's own slots. Cost: O(n_slots).
    """
    following = indptr[:-1].copy()
    for i in range(indptr.shape[0] - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            reverse[k] = following[j]
            following[j] += 1


@kernel
def sweep_beliefs(messages, fields, graph, order, damping):
    """Send the messages of all units in `order`.

    Mutates `messages` (n_slots, lanes); returns the largest change per lane, |new - old| / (1 + |new|), before damping.
    `fields` (n_units,) is beta bias, `graph` is (indptr, reverse, couplings), couplings times beta. Part `damping` of
    an old message is kept. Cost: two exponentials and a logarithm a slot and lane, vectorised over lanes.
    """
    indptr, reverse, couplings = graph
    lanes = messages.shape[1]
    total, fresh, change = empty(lanes, np.float64), empty(lanes, np.float64), zeros(lanes, np.float64)
    for i in order:
        total[:] = fields[i]
        for k in range(indptr[i], indptr[i + 1]):
            own = messages[k]
            for c in range(lanes):
                total[c] += own[c]
        for k in range(indptr[i], indptr[i + 1]):
            coupling, own, sent = couplings[k], messages[k], messages[reverse[k]]
            for c in range(lanes):
                fresh[c] = atanh_product(coupling, total[c] - own[c])
            for c in range(lanes):
                step = fresh[c] - sent[c]
                change[c] = max(change[c], abs(step) / (1.0 + abs(fresh[c])))
                sent[c] += (1.0 - damping) * step
    return change


@kernel
def total_fields(messages, fields, indptr, totals):
    """Add up what reaches every unit. Mutates `totals` (n_units, lanes). Cost: O(n_slots) a lane."""
    for i in range(indptr.shape[0] - 1):
        total = totals[i]
        total[:] = fields[i]
        for k in range(indptr[i], indptr[i + 1]):
            message = messages[k]
            for c in range(total.shape[0]):
                total[c] += message[c]


@inlined
def _log_mean(x, y):
    """log((exp(x) + exp(y)) / 2)."""
    return max(x, y) + log1p_float64(1.0 + expm1_negative(-abs(x - y))) - 0.6931471805599453


@kernel
def bethe_log_z(messages, fields, totals, indices, graph, log_z):
    """Sum Bethe's log Z less n_units log 2. Mutates `log_z` (lanes,), which must be 0.

    `fields` (n_units,) is beta bias, `totals` (n_units, lanes) as `total_fields` gives them, `graph` is (indptr,
    reverse, couplings). With c the cavity fields at the ends of edges and H_i = beta b_i + sum of what they send to i,
    log Z = sum_i log cosh H_i + sum over edges and both ends of (log cosh(c + K) + log cosh(c - K)) / 2 - sum over
    edges of log((exp(K) cosh(c + c') + exp(-K) cosh(c - c')) / 2): in c an extremum, so that what is missing from a
    solution enters squared.
    Cost: seven logarithms an edge and lane.
    """
    indptr, reverse, couplings = graph
    for i in range(totals.shape[0]):
        for c in range(totals.shape[1]):
            field, here = fields[i], 0.0
            for k in range(indptr[i], indptr[i + 1]):
                j, coupling = indices[k], couplings[k]
                x, y = totals[i, c] - messages[k, c], totals[j, c] - messages[reverse[k], c]
                field += atanh_product(coupling, y)
                here += 0.5 * (log_cosh_float64(y + coupling) + log_cosh_float64(y - coupling))
                if i < j:
                    together, apart = log_cosh_float64(x + y), log_cosh_float64(x - y)
                    here -= _log_mean(coupling + together, apart - coupling)
            log_z[c] += here + log_cosh_float64(field)


@kernel
def pair_arguments(messages, totals, indices, graph, arguments):
    """Give the u with <s_i s_j> = tanh u of every slot under Bethe's beliefs, K + atanh(tanh c tanh c').

    Mutates `arguments` (n_slots,); messages (n_slots,) and totals (n_units,) are those of one lane. Cost: O(n_slots).
    """
    indptr, reverse, couplings = graph
    for i in range(totals.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            arguments[k] = couplings[k] + atanh_product(totals[i] - messages[k], totals[j] - messages[reverse[k]])


@kernel
def sweep_susceptibilities(responses, means, slopes, graph, order, first):
    """Send the derivatives of all messages with respect to the fields of units `first`, `first + 1`, ...

    Mutates `responses` (n_slots, lanes), one lane a unit, and `means` (n_units, lanes), the derivatives of total
    fields; returns the largest change.
    `slopes` (n_slots,) holds du/dc of the message that is sent from the row of a slot, at most 1 in size; `graph` is
    (indptr, reverse). Cost: O(n_slots) a lane, vectorised over lanes.
    """
    indptr, reverse = graph
    lanes = responses.shape[1]
    total = empty(lanes, np.float64)
    largest = 0.0
    for i in order:
        total[:] = 0.0
        if first <= i < first + lanes:
            total[i - first] = 1.0
        for k in range(indptr[i], indptr[i + 1]):
            total += responses[k]
        means[i] = total
        for k in range(indptr[i], indptr[i + 1]):
            own, sent, slope = responses[k], responses[reverse[k]], slopes[k]
            for c in range(lanes):
                fresh = slope * (total[c] - own[c])
                largest = max(largest, abs(fresh - sent[c]))
                sent[c] = fresh
    return largest


@kernel
def message_slopes(messages, totals, graph, slopes):
    """Give du/dc of the message that each row sends to each of its slots. Mutates `slopes` (n_slots,).

    d/dc atanh(tanh K tanh c) = (tanh(c + K) - tanh(c - K)) / 2. Cost: O(n_slots).
    """
    indptr, couplings = graph
    for i in range(totals.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            x = totals[i] - messages[k]
            slopes[k] = 0.5 * (tanh_float64(x + couplings[k]) - tanh_float64(x - couplings[k]))
