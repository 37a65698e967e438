"""Cluster updates of a ferromagnet on a graph, one chain at a time: Wolff, and Swendsen and Wang.

Equal neighbours are joined with probability 1 - exp(-2 beta J); a cluster of joined units turns as a whole. Any
unfrustrated machine becomes a ferromagnet by turning some of its units (`fastbm.sampling.clusters`). Random words come
from the stream of one chain alone, as an update draws as many of them as the state asks for.

Swendsen and Wang, Phys. Rev. Lett. 58, 86 (1987), doi:10.1103/PhysRevLett.58.86; Wolff, Phys. Rev. Lett. 62, 361
(1989), doi:10.1103/PhysRevLett.62.361.
"""

from __future__ import annotations

import numpy as np

from ..ahead import BLOCK, MARKS, draw_block, draw_one_by_one
from ..arrays import empty
from ..jit import apart_borrowing, borrowing, inlined, kernel
from ..random import log_of_bits, logit_of_bits, next_word

_VISITED, _U = np.uint8(2), np.uint64
_ONE, _ALL = _U(1), _U(2**64 - 1)
DOWN = np.uint32(2**31 - 64)  # words below it, and no others, have a negative `logit_of_bits`
HELD = np.uint32(16)  # one in so many Wolff clusters is left as it is, see `wolff_update`


@kernel
def draw_word(stream):
    """Advance one stream by one step and return its 32 bits, those that `draw_bits` gives. Mutates `stream`.

    Invariant: `stream` (4,) uint32 is never all zero.
    Cost: 12 integer operations.
    """
    word, stream[0], stream[1], stream[2], stream[3] = next_word(stream[0], stream[1], stream[2], stream[3])
    return word


@inlined
def index_of(word, n):
    """Return the number from 0 to n - 1 of a random word, uniform to n / 2^32; n is from 1 to 2^32."""
    return np.int64((np.uint64(word) * np.uint64(n)) >> np.uint64(32))


@borrowing
def next_ahead(words, marks, state, table, at):
    """Return the next word of a stream, and the place after it in `words`, where `at` is that of the word.

    Mutates `state` (4,), which is the stream's after all of `words` (`BLOCK`,), and those and `marks` as `draw_block`
    does; at first `at` is `BLOCK`.
    """
    if at == BLOCK:
        draw_block(state, table, words, marks)
        at = 0
    return words[at], at + 1


@borrowing
def put_back(words, marks, state, at):
    """Set the state of a stream to that after the word before place `at`. Mutates `state`, `words`."""
    if at < BLOCK:
        for j in range(4):
            state[j] = marks[0, j, 0]
        draw_one_by_one(state, words[:at])


@borrowing
def _is_lower_below(cut, words, marks, state, table, at):
    word, at = next_ahead(words, marks, state, table, at)
    return word < np.uint32(cut & _U(0xFFFFFFFF)), at


@borrowing
def _grow(up, queue, start, indptr, indices, cuts, mark, words, marks, state, table, at):
    """Grow a cluster from the unit at queue[start]; return where it ends in `queue`, and the place after its words.

    Mutates `up`, `queue`, `words`, `marks`, `state`.
    Invariant: members are queue[start:stop], in the order they were found; `mark`, written to their bits, differs from
    the bit they had, so that each joins once and a bond between two of them is not drawn again.
    Cost: one word a bond of the members, drawn whether or not it is used: no branch depends on the state.
    """
    every = _ALL if cuts.shape[0] > 1 else _U(0)
    bit = up[queue[start]]
    up[queue[start]] = mark
    # indices without a sign are looked up without a question
    done, stop = _U(start), _U(start + 1)
    while done < stop:
        i = np.uint32(queue[done])
        done += _ONE
        k, last = _U(indptr[i]), _U(indptr[i + np.uint32(1)])
        while k < last:
            if at == BLOCK:
                draw_block(state, table, words, marks)
                at = 0
            here = min(last - k, _U(BLOCK - at))
            for place in range(_U(at), _U(at) + here):
                j, cut = np.uint32(indices[k]), cuts[k & every]
                k += _ONE
                at += 1
                upper, word = np.uint32(cut >> _U(32)), words[place]
                below = word < upper
                if word == upper:
                    below, at = _is_lower_below(cut, words, marks, state, table, at)
                old = up[j]
                joins = below & (old == bit)
                up[j] = mark if joins else old
                queue[stop] = j
                stop += _U(joins)
                if word == upper:
                    break
    return np.int64(stop), at


@borrowing
def _sum_over(queue, start, stop, pull):
    """Return the log-odds of a cluster being up; `pull` is empty where there is no field."""
    total = 0.0
    if pull.shape[0]:
        for k in range(start, stop):
            total += pull[queue[k]]
    return total


@apart_borrowing
def turn_single(up, queue, graph, pull, ahead, at, n_updates):
    """Grow one cluster from a random unit and turn it, `n_updates` times: see `wolff_update`.

    `ahead` is (words, marks, stream, table), as `next_ahead` takes them with `at`. Return the sum of the clusters'
    sizes, and the place after the last word.
    """
    (indptr, indices, cuts), (words, marks, stream, table), total = graph, ahead, 0.0
    for _ in range(n_updates):
        word, at = next_ahead(words, marks, stream, table, at)
        queue[0] = index_of(word, up.shape[0])
        bit = up[queue[0]]
        size, at = _grow(up, queue, 0, indptr, indices, cuts, np.uint8(1 - bit), words, marks, stream, table, at)
        total += size
        stays = np.uint32(word % HELD) == np.uint32(0)
        if not stays and pull.shape[0]:
            rise = _sum_over(queue, 0, size, pull)
            word, at = next_ahead(words, marks, stream, table, at)
            stays = (-rise if bit else rise) < log_of_bits(word)
        if stays:
            for k in range(size):
                up[queue[k]] = bit
    return total, at


@apart_borrowing
def turn_all(up, queue, graph, pull, ahead, at, n_updates):
    """Draw the direction of every cluster, `n_updates` times, as `turn_single` turns one: see `swendsen_wang_update`.

    Return the sum of the clusters' squared sizes, and the place after the last word.
    """
    n_units, total = up.shape[0], 0.0
    (indptr, indices, cuts), (words, marks, stream, table) = graph, ahead
    for _ in range(n_updates):
        stop = 0
        for i in range(n_units):
            if up[i] >= _VISITED:
                continue
            start = stop
            queue[start] = i
            stop, at = _grow(
                up, queue, start, indptr, indices, cuts, np.uint8(up[i] | _VISITED), words, marks, stream, table, at
            )
            word, at = next_ahead(words, marks, stream, table, at)
            above = word < DOWN
            if pull.shape[0]:
                above = _sum_over(queue, start, stop, pull) > logit_of_bits(word)
            drawn = np.uint8(_VISITED | np.uint8(above))
            for k in range(_U(start), _U(stop)):
                up[np.uint32(queue[k])] = drawn
            total += float(stop - start) * float(stop - start)
        for i in range(n_units):
            up[i] &= np.uint8(1)
    return total, at


@kernel
def wolff_update(up, queue, graph, pull, stream, table, n_updates):
    """Grow one cluster from a random unit and turn it, `n_updates` times.

    Mutates `up`, `queue`, `stream`; returns the sum of the clusters' sizes.
    `up` (n_units,) uint8 holds the bits, `queue` (n_units + 1,) int32 is work space, `graph` is (indptr, indices, cuts)
    with bond probabilities in units of 2^-64, one for each entry of `indices` or one for all, `pull` is 2 beta b (or
    empty, without a field), `table` is `fastbm.kernels.ahead.leaps()`.
    Invariant: detailed balance. A cluster turns with probability min(1, exp(change of its pull)); one in `HELD` is left
    alone, or parity would be fixed where nothing is ever rejected. Which units are drawn, and when they are held, does
    not depend on the state, so that neither needs to be uniform to the last bit.
    Cost: O(bonds that touch the cluster).
    """
    words, marks = empty(BLOCK, np.uint32), empty(MARKS, np.uint32)
    total, at = turn_single(up, queue, graph, pull, (words, marks, stream, table), np.int64(BLOCK), n_updates)
    put_back(words, marks, stream, at)
    return total


@kernel
def swendsen_wang_update(up, queue, graph, pull, stream, table, n_updates):
    """Cut the graph into clusters and draw each one's direction given its field, `n_updates` times.

    Mutates `up`, `queue`, `stream`; returns the sum of the clusters' squared sizes.
    Arguments as for `wolff_update`.
    Invariant: detailed balance; a unit in a finished cluster carries a mark above its bit until the update ends.
    Cost: O(n_units + bonds).
    """
    words, marks = empty(BLOCK, np.uint32), empty(MARKS, np.uint32)
    total, at = turn_all(up, queue, graph, pull, (words, marks, stream, table), np.int64(BLOCK), n_updates)
    put_back(words, marks, stream, at)
    return total


@kernel
def wolff_updates(up, queue, graph, pull, streams, table, n_updates, sums):
    """Do what `wolff_update` does to one chain after the other, and add what it returns to `sums` (n_chains,).

    Mutates `up` (n_chains, n_units), `queue`, `streams` (n_chains, 4), `sums`.
    """
    for c in range(up.shape[0]):
        sums[c] += wolff_update(up[c], queue, graph, pull, streams[c], table, n_updates)


@kernel
def swendsen_wang_updates(up, queue, graph, pull, streams, table, n_updates, sums):
    """Do what `wolff_updates` does by `swendsen_wang_update`."""
    for c in range(up.shape[0]):
        sums[c] += swendsen_wang_update(up[c], queue, graph, pull, streams[c], table, n_updates)
