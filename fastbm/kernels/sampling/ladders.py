"""Ladders of replicas that keep their lanes: sweeps, swaps of temperatures and samples, many of them in one call.

Between two swaps of small machines there is less work than a call takes. A block of lanes holds whole ladders, which
nothing but time has in common with those of other blocks.

`legs` (n, 3) int64 tell what is done: so many sweeps, then whether temperatures are swapped, then whether a sample is
taken, or, where it is `MEASURED`, energies alone are written that swaps would be decided by. `visits` is (sites, legs),
`sites` being one row for all sweeps or one for each.
"""

import numpy as np

from ..arrays import copy_row, empty
from ..bits import pack_lane, pack_units
from ..energy import fill_energies_few, fill_energies_sparse
from ..jit import apart_borrowing, borrowing, kernel
from .few import advance_sparse_few, room_for_sparse
from .few_dense import advance_either
from .field_energies import STEPS, add_remainders, sum_fields, words_of_units, write_bits
from .layer_energies import pack_sample, weigh_layers
from .layered import sweep_layers
from .sparse import sweep_sparse
from .tempering import count_round_trips, swap_ladder

MEASURED = 2


@apart_borrowing
def swap_lanes(ladders, energies, scale):
    """Try to swap every second pair of neighbouring temperatures, and give lanes what goes with theirs.

    Mutates `scale` (lanes,) and of `ladders` (level, streams, counts, end, trips, betas, scales, room) all arrays but
    `betas` and `scales` (n_betas,), what goes with each temperature; `room` (n_betas + 1,) int64 begins with the parity
    of the first pair. Others are as for `swap_neighbours` and `count_round_trips`. Replica r of ladder c is lane
    n_betas c + r.
    """
    level, streams, counts, end, trips, betas, scales, room = ladders
    (n_ladders, n_betas), n_swaps, parity, holder = level.shape, 0, room[0], room[1:]
    for c in range(n_ladders):
        own = energies[c * n_betas : (c + 1) * n_betas]
        n_swaps += swap_ladder(level[c], streams[c], counts, betas, own, parity, holder)
    if n_swaps:
        count_round_trips(end, trips, level)
        for c in range(n_ladders):
            for r in range(n_betas):
                scale[c * n_betas + r] = scales[level[c, r]]
    room[0] = 1 - parity


@apart_borrowing
def _note(ladders, t, told):
    """Write where replicas stand and what was counted as sample `t`. Mutates `told` (n_ladders + 2, n_betas + 1).

    Rows are those of ladders, with the number of the replica at each level, among those of all samples, and their trips
    behind; then those of counts.
    """
    level, counts, trips = ladders[0], ladders[2], ladders[4]
    n_ladders, n_betas = level.shape
    for c in range(n_ladders):
        first = (t * n_ladders + c) * n_betas
        for r in range(n_betas):
            told[c, level[c, r]] = first + r
        told[c, n_betas] = trips[c]
    for k in range(n_betas - 1):
        told[n_ladders, k], told[n_ladders + 1, k] = counts[0, k], counts[1, k]


@apart_borrowing
def _weigh(fields, words, octets, remainders, t, energies):
    """Write the energies of sample `t` as `record_refined` has them. Mutates `energies` and what is room."""
    rest, start, bits, sums, wholes = remainders
    n_chains, n_lanes = energies.shape[1], bits.shape[0] * bits.shape[2]
    place = t % (n_lanes // n_chains)  # among the samples that are added together
    sum_fields(words, fields, start, STEPS[rest.shape[0]], energies[t])
    if rest.shape[0]:
        write_bits(octets, place * n_chains, n_chains, bits)
    if (place + 2) * n_chains > n_lanes or t == energies.shape[0] - 1:
        add_remainders(rest, bits, sums, wholes, energies[t - place : t + 1])


@borrowing
def temper_dense(up, chains, visits, ways, ladders, coarse, remainders, found):
    """Do what `visits` tell of replicas on dense couplings; return the number of flips.

    Mutates `up`, fields, scale and streams of `chains`, which are as `advance_dense` takes them, what `swap_lanes`
    does, and of `found` (words, energies, told, room) the rows of samples: `words` (n_samples + 1, n_chains, n_words)
    uint64, the last row being room, `energies` (n_samples, n_chains), and `told` as `_note` writes it.
    `ways` is as for `record_refined`. `coarse` is (start, constants, (one, other), energies): swaps are decided by
    energies of the fields, a product with both numbers above a constant for each chain. Those of samples are in the
    units of the fields, as `remainders` tell, or are not told where they are None.
    Cost: that of sweeps and energies, and O(n_units) a replica and swap.
    """
    (sites, legs), (hold, few, many), (states, energies, told, room) = visits, ways, found
    (start, constants, (one, other), here), (octets, of_sweeps) = coarse, room
    fields, scale = chains[0], chains[2]
    n_flips, first, t = 0, 0, np.int64(0)  # no literal, as which parts would be compiled once more
    for leg in range(legs.shape[0]):
        end = first + legs[leg, 0]
        rows = sites[first:end] if sites.shape[0] > 1 else sites
        n_flips += advance_either(up, chains, rows, legs[leg, 0], hold, few, many, of_sweeps)
        first = end
        words = states[t if legs[leg, 2] == 1 else states.shape[0] - 1]
        if legs[leg, 1] or legs[leg, 2]:
            words_of_units(up, words, octets)
        if legs[leg, 1] or legs[leg, 2] == MEASURED:
            sum_fields(words, fields, start, np.int64(1), here)
            for c in range(here.shape[0]):
                here[c] = -0.5 * here[c] * one * other + constants[c]
        if legs[leg, 1]:
            swap_lanes(ladders, here, scale)
        if legs[leg, 2] == MEASURED:
            copy_row(energies[t], here)
            t += 1
        elif legs[leg, 2]:
            if remainders is not None:
                _weigh(fields, words, octets, remainders, t, energies)
            _note(ladders, t, told[t])
            t += 1
    return n_flips


@kernel
def temper_sparse(up, chains, visits, ways, ladders, machine, found):
    """Do what `temper_dense` does of replicas on sparse couplings, with energies as `energies_sparse` has them.

    Of `found` states are bytes, (n_samples, n_chains, n_bytes), and there is no room.
    `chains`, with edges in fours where chains are few, and `machine` (graph, bias, units) are as for `record_sparse`.
    """
    (sites, legs), (hold, few, many), (packed, energies, told) = visits, ways, found
    ((indptr, indices, rises), start, scale, streams), (graph, bias, units) = chains, machine
    n_chains, n_flips, first, t = energies.shape[1], 0, 0, np.int64(0)
    field, total = empty(up.shape[1], np.float64), empty(up.shape[1], np.float64)
    rises_of = (indptr, indices, rises, start)
    if few is not None:
        room = room_for_sparse(rises)
    for leg in range(legs.shape[0]):
        n_sweeps = legs[leg, 0]
        rows = sites[first : first + n_sweeps] if sites.shape[0] > 1 else sites
        first += n_sweeps
        if few is not None:
            n_flips += advance_sparse_few(up, rises_of, scale, streams, rows, n_sweeps, hold, room)
            fill_energies_few(up, graph, bias, units, field, total)
        if many is not None:
            n_flips += sweep_sparse(up, rises_of, scale, streams, rows, n_sweeps, hold, n_chains)
            fill_energies_sparse(up, graph, bias, units, field, total)
        if legs[leg, 1]:
            swap_lanes(ladders, total, scale)
        if legs[leg, 2]:
            for c in range(n_chains):
                energies[t, c] = total[c]
            if legs[leg, 2] != MEASURED:
                if few is not None:
                    for c in range(n_chains):
                        pack_lane(up, c, packed[t, c])
                if many is not None:
                    pack_units(up, packed[t])
                _note(ladders, t, told[t])
            t += 1
    return n_flips


@kernel
def temper_layers(values, chains, visits, machine, ladders, weighing, found):
    """Do what `temper_dense` does of replicas on layered couplings.

    Mutates `values`, scale and streams of `chains`, and what `swap_lanes` does. `visits` is (legs, hold), `machine`
    (machine, room) as for `sweep_layers`, `weighing` what `record_layers` takes.
    """
    (legs, hold), (machine_of_sweeps, room), (packed, energies, notes) = visits, machine, found
    (told, summed, joined), plan, words = weighing, machine_of_sweeps[0], room[1]
    here, n_flips, t = empty(energies.shape[1], np.float64), 0, np.int64(0)
    for leg in range(legs.shape[0]):
        n_flips += sweep_layers(values, chains, machine_of_sweeps, room, hold, legs[leg, 0])
        if legs[leg, 1] or legs[leg, 2]:
            weigh_layers(values, plan, words, told, summed, here)
        if legs[leg, 1]:
            swap_lanes(ladders, here, chains[1])
        if legs[leg, 2]:
            copy_row(energies[t], here)
            if legs[leg, 2] != MEASURED:
                pack_sample(words, plan, joined, packed[t])
                _note(ladders, t, notes[t])
            t += 1
    return n_flips
