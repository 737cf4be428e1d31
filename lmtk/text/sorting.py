"""Counting sorts of places by one array of numbers after the other, such as of the positions of a text by their words.

`sorted_places` does all of it. Threads share each sort: a thread sorts a range of the places that the sort before has
put in order. `heads_of` says for each range where its places with each number begin.
"""

from itertools import pairwise

import numpy as np

from lmtk.machine.jit import jit
from lmtk.machine.threads import map_at_once, thread_count

BATCH = 512  # places whose random reads are made together, so that they overlap


def sorted_places(keys):
    """The places of keys, sorted by the last of them, equal ones by the one before, and so on: (N,) int32 or, from 2^31
    places on, int64. keys: an iterable of arrays (N,) of numbers from 0 up to 2^31 - 1.
    """
    order = None
    for key in keys:
        N, size = len(key), int(key.max(initial=0)) + 1
        order = np.arange(N, dtype=np.int32 if N < 1 << 31 else np.int64) if order is None else order
        ranges, out = ranges_of(N, size), np.empty_like(order)
        sort_ranges(key, order, ranges, heads_of(key, order, ranges, counts_of(key, size)), False, out)
        order = out
    return order


def ranges_of(N, size):
    """N places in ranges (first, end): one for each thread, but fewer if `heads_of` would take more memory than the
    places.
    """
    number = min(thread_count(), max(N // size, 1))
    return [*pairwise(np.linspace(0, N, number + 1).astype(np.int64).tolist())]


def counts_of(key, size):
    """(size,): how often each number is in the array `key`."""
    counts = np.zeros(size, np.int32 if len(key) < 1 << 31 else np.int64)
    count_all(key, counts)
    return counts


def heads_of(key, order, ranges, counts):
    """heads (R, size), like `order`: in the sorted order, heads[r, w] is where the places with the key w that come from
    the range r of `order` begin, and heads[0, w] is where all places with the key w begin. ranges: R ranges (first,
    end), one after the other; counts (size,): how many places have each key.
    """
    heads = np.zeros((len(ranges), len(counts)), order.dtype)
    map_at_once(lambda r: count_keys(key, order, *ranges[r], heads[r + 1]), range(len(ranges) - 1))
    heads[0, 1:] = np.cumsum(counts)[:-1]
    for above, row in pairwise(heads):
        row += above  # whole rows; np.cumsum over axis 0 takes six times as long
    return heads


def sort_ranges(key, order, ranges, heads, wants_places, out):
    """Calls `sort_range` for each of the ranges (first, end) of `order`. heads: from `heads_of`; changed in place."""
    map_at_once(lambda r: sort_range(key, order, *ranges[r], heads[r], wants_places, out), range(len(ranges)))


@jit
def count_all(key, counts):
    """counts (size,) += how often each number is in the array `key`."""
    for i in range(len(key)):
        counts[key[i]] += 1


@jit
def count_keys(key, order, begin, end, counts):
    """counts (size,) += how often each number is the key of one of the places order[begin:end]."""
    for i in range(begin, end):
        counts[key[order[i]]] += 1


@jit
def sort_range(key, order, begin, end, head, wants_places, out):
    """out <- order[begin:end], stably sorted by their keys; with `wants_places`, instead of each, its place in `order`.
    head (size,): the next place of each number, updated. Bound: two random accesses a place.
    """
    keys = np.empty(BATCH, np.int32)
    for start in range(begin, end, BATCH):
        size = min(BATCH, end - start)
        for i in range(size):
            keys[i] = key[order[start + i]]
        for i in range(size):
            w = keys[i]
            out[head[w]] = start + i if wants_places else order[start + i]
            head[w] += 1
