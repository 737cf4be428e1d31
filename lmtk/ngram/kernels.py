"""Counting by one sort, for texts that are worth compiling for.

symbol  shape      meaning
N W n   -          tokens, words, the highest order
w       (N,)       the tokens' ids, int32
order   (N,)       the positions in the order of the n words from each on, int32: n-grams that are equal, of any length
                   up to n, stand together in it
v       (N + n,)   2 w_p, and 1 more where p ends its sentence, int32; the first n follow the last
node    -          an n-gram's number among those of its length
"""

import numpy as np

from lmtk.jit import jit

SOME = 256  # positions looked at together


@jit
def suffix_order(w, W, n):
    """`order`, by n counting sorts, from the last of the n words to the first; the text counts as a circle.

    A pass shifts every position by one and puts it behind those with the same word: bound by two random accesses.
    """
    N = len(w)
    start = np.zeros(W + 1, np.int32)
    for p in range(N):
        start[w[p] + 1] += 1
    for i in range(W):
        start[i + 1] += start[i]
    order, other = np.empty(N, np.int32), np.empty(N, np.int32)
    for i in range(N):
        order[i] = i
    for _ in range(n):
        head = start.copy()
        for i in range(N):
            p = order[i] - 1
            if p < 0:
                p += N
            place = head[w[p]]
            other[place] = p
            head[w[p]] = place + 1
        order, other = other, order
    return order


@jit
def count_nodes(v, W, order, n, keys, count, first, at):
    """Every node's key and count, int64, and the position where it was seen first, int32, in place: row k - 1 of (n, N)
    arrays has the k-grams. Returns the number of nodes of each length, (n,).

    at (N, n - 2), or (0, 0) where it is not wanted: the nodes of the 2-gram .. (n - 1)-gram at each position, in place.

    Between two equal k-grams may stand one that crosses a sentence's end and so does not count: what matters is the
    least that neighbours have in common since the last k-gram that counted. Bound by one random access a position;
    those of a few hundred positions are made together, so that they overlap.
    """
    N = len(order)
    node = np.full(n, -1, np.int64)
    words = np.full((SOME + 1, n), -1, np.int32)
    new = 1  # the lengths from this one on have moved to another n-gram since they last had one
    for start in range(0, N, SOME):
        end = min(start + SOME, N)
        words[0] = words[SOME]
        for i in range(start, end):
            p = order[i]
            for k in range(n):
                words[i - start + 1, k] = v[p + k]
        for i in range(start, end):
            here, before = words[i - start + 1], words[i - start]
            p = order[i]
            common = 0
            while common < n and here[common] >> 1 == before[common] >> 1:
                common += 1
            most = 1
            while most < n and not here[most - 1] & 1:
                most += 1
            new = min(new, common + 1)
            for k in range(most):
                if k + 1 >= new:
                    node[k] += 1
                    keys[k, node[k]] = (here[k] >> 1) + (node[k - 1] * W if k else 0)
                    count[k, node[k]] = 1
                    first[k, node[k]] = p
                else:
                    count[k, node[k]] += 1
                    if p < first[k, node[k]]:
                        first[k, node[k]] = p
            if new <= most:
                new = most + 1
            if len(at):
                for k in range(1, min(most, n - 1)):
                    at[p, k - 1] = node[k]
    return node + 1


@jit
def link_suffixes(k, first, at, suffix):
    """The nodes of the n-grams without their first word, those of order k > 2, from their `first`; in place."""
    for i in range(len(first)):
        suffix[i] = at[first[i] + 1, k - 3]
