"""The n-grams of a large ARPA file -> a sorted trie, by kernels.

A Trie takes the rows of one order after the other. `deal_rows` deals them to ranges of their first ids; threads sort
each range (`sort_rows`) and write its records (`link_rows`).

symbol   shape       meaning
rows     (N, k + 2)  n-grams as k ids, log10 p and log10 back-off weight, int32; the last two are the bits of float32
place    (N,)        the rows, int32, dealt to ranges of their first ids: those of a range are together, in their order
deals    (D + 1, 2)  where the rows of each range begin in `place`, and its least id; int64
"""

from itertools import pairwise

import numpy as np

from lmtk.machine.jit import intrinsic, jit
from lmtk.machine.threads import map_at_once
from lmtk.ngram.model.building import finish
from lmtk.ngram.model.nodes import AT, BOW, CHILD, WIDE, WIDTH, ZERO, N, P, allocate, number, wrap_records
from lmtk.ngram.model.searching import count_below

AHEAD = 12  # rows: how far ahead memory is fetched
DEAL = 1 << 15  # rows sorted together: they stay in a cache
WRONG, FALLING = 1, 2  # an n-gram is repeated or lacks its prefix; the last words of a context are not in order
u64 = np.uint64
prefetch = intrinsic("prefetch")


class Trie:
    """Records of n-grams over W words, which grow by one order at a time. memory, where: as in `nodes`; order: the
    number of orders so far. sizes: those of all orders to come; home: as for `building.finish`.
    """

    def __init__(self, sizes, W, home=None):
        self.sizes, self.W, self.home, self.order = sizes, W, home, 0
        self.memory, self.where, _ = allocate(sizes, home)

    def add(self, rows):
        """Adds the rows of the next order. Returns False, without adding them, if their number is not the one in
        `sizes`, or if an n-gram is repeated or lacks its prefix.
        """
        k = self.order + 1
        if k > len(self.sizes) or len(rows) != self.sizes[k - 1]:
            return False
        place, deals = np.empty(len(rows), np.int32), np.empty((len(rows) // DEAL + 2, 2), np.int64)
        deals = deals[: deal_rows(rows, self.W, max(DEAL, self.W), place, deals)].tolist()

        def put(bounds):
            (first, low), (last, high) = bounds
            return put_rows(rows, k, place[first:last], first, (low, high, self.W), self.memory, self.where)

        if any(map_at_once(put, pairwise(deals))):
            return False
        if k > 1:
            self.memory[self.where[k - 2, AT] + WIDE * self.sizes[k - 2] + CHILD] = len(rows)
        self.order = k
        return True

    def nodes(self, linked=True):
        """The Nodes of all orders. Without `linked` they have no suffixes and no tables."""
        if not linked:
            return wrap_records(self.memory, self.where, None)
        return finish(self.memory, self.where, self.W, home=self.home)


@jit
def deal_rows(rows, W, least, place, deals):
    """Fills place and deals, for ranges of `least` rows or more, except the last. Returns the length of deals."""
    many, target = np.zeros(W, np.int32), np.empty(W, np.int32)
    for i in range(len(rows)):
        many[rows[u64(i), 0]] += 1
    at, n_deals = 0, 1
    deals[0, 0] = deals[0, 1] = 0
    for w in range(W):
        target[w] = n_deals - 1
        at += many[w]
        if at - deals[n_deals - 1, 0] >= least or (w == W - 1 and (at > deals[n_deals - 1, 0] or n_deals == 1)):
            deals[n_deals, 0], deals[n_deals, 1] = at, w + 1
            n_deals += 1
    deals[n_deals - 1, 1] = W
    head = deals[:n_deals, 0].copy()
    for i in range(len(rows)):
        deal = target[rows[u64(i), 0]]
        place[head[deal]] = i
        head[deal] += 1
    return n_deals


@jit
def put_rows(rows, k, place, begin, ids, memory, where):
    """memory <- the records of the n-grams of order k in a range, and the children of the range's contexts. place (n,):
    the rows of the range; begin: the first record; ids: the least first id and the end of the first ids, and W. memory,
    where: as in `nodes`; suffixes are not set. Returns 0, or WRONG.
    """
    n, (low, high, W) = len(place), ids
    part, order, other = np.empty((n, k + 2), np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    falling, start = np.zeros(k, np.bool_), np.empty(W + 1, np.int32)
    for i in range(n):
        if i + AHEAD < n:
            prefetch(rows, np.int64(place[i + AHEAD]) * (k + 2))
        row = u64(place[i])
        for j in range(k + 2):
            part[i, j] = rows[row, j]
        for j in range(k if i else 0):
            falling[j] |= part[i, j] < part[i - 1, j]
    # if the file is sorted by contexts, the last words are in order and a sort by the contexts suffices
    status = FALLING
    for columns in range(k - 1, k + 1):
        if status == FALLING:
            sorted_places = sort_rows(part, columns, ids, falling, start, order, other)
            status = link_rows(part, sorted_places, k, begin, (low, high), memory, where)
    return status


@jit
def sort_rows(rows, columns, ids, falling, start, place, other):
    """Returns the places of the rows, stably sorted by their first columns, with a counting sort for each column, from
    the last one back. The last columns are skipped as long as `falling` says that they do not fall from row to row.
    ids: as for `put_rows`; start (W + 1,): scratch; place, other (N,): memory for the result.
    """
    (low, high, W), size = ids, len(rows)
    place[:] = np.arange(size)
    while columns and not falling[columns - 1]:
        columns -= 1
    for j in range(columns - 1, -1, -1):
        base, most = (low, high - low) if j == 0 else (np.int64(0), np.int64(W))
        start[: most + 1] = 0
        for i in range(size):
            start[u64(rows[u64(i), j] - base + 1)] += 1
        for w in range(most):
            start[w + 1] += start[w]
        for i in range(size):
            if i + AHEAD < size:
                prefetch(rows, np.int64(place[i + AHEAD]) * rows.shape[1] + j)
            w = u64(rows[u64(place[i]), j] - base)
            other[u64(start[w])] = place[i]
            start[w] += 1
        place, other = other, place
    return place


@jit
def link_rows(rows, place, k, begin, first_ids, memory, where):
    """memory <- the records of rows in the order `place`, from node `begin` on, and the children of the contexts whose
    first ids are in a range. Returns 0, WRONG or FALLING. Rows and contexts are in the same order, so that the contexts
    are found one after the other, without a search. Bound by one pass over both.
    """
    (low, high), numbers, logs, size = first_ids, rows.view(np.float32), memory.view(np.float32), len(rows)
    base, width, p = where[k - 1, AT], where[k - 1, WIDTH], where[k - 1, P]
    up, first, stop, previous = where[max(k - 2, 0), AT], np.int64(0), np.int64(0), np.int64(-1)
    # the node of the current row's first j words, and where the children of its context end
    at, end = np.empty(k, np.int64), np.empty(k, np.int64)
    if k > 1:
        unigrams = where[0, AT], where[0, WIDTH], where[0, N]
        first, stop = count_below(memory, *unigrams, low), count_below(memory, *unigrams, high)
        at[1], end[1] = first, stop
        for j in range(k - 2):
            above = where[j, AT]
            first, stop = number(memory, above + WIDE * first + CHILD), number(memory, above + WIDE * stop + CHILD)
    for i in range(size):
        if i + AHEAD < size:
            prefetch(rows, np.int64(place[i + AHEAD]) * rows.shape[1])
        row, before, j = u64(place[i]), u64(place[max(i - 1, 0)]), 1
        while i and j < k and rows[row, j - 1] == rows[before, j - 1]:
            j += 1
        if j < k:
            while j < k:
                above, word = where[j - 1, AT], rows[row, j - 1]
                while at[j] < end[j] and memory[u64(above + WIDE * at[j])] < word:
                    at[j] += 1
                if at[j] == end[j] or memory[u64(above + WIDE * at[j])] != word:
                    return WRONG
                j += 1
                if j < k:
                    at[j] = memory[u64(above + WIDE * at[j - 1] + CHILD)]
                    end[j] = memory[u64(above + WIDE * (at[j - 1] + 1) + CHILD)]
            for context in range(first, at[k - 1] + 1):
                memory[u64(up + WIDE * context + CHILD)] = begin + i
            first, previous = at[k - 1] + 1, np.int64(-1)
        w = np.int64(rows[row, k - 1])
        if w <= previous:
            return WRONG if w == previous else FALLING
        previous = w
        to, value = u64(base + width * (begin + i)), numbers[row, k]
        memory[to] = w
        logs[to + u64(p)] = -np.inf if value == ZERO else value
        if width == WIDE:
            value = numbers[row, k + 1]
            logs[to + u64(BOW)] = -np.inf if value == ZERO else value
    for context in range(first, stop):
        memory[u64(up + WIDE * context + CHILD)] = begin + size
    return 0
