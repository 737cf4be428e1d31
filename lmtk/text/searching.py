"""Kernels that sort the suffixes of a corpus and find phrases among them; `index` has the table of symbols.

Bound of a search: two random reads for each of log2 N steps; and for the documents of a phrase, two random reads and a
search for each of its places.
"""

import numpy as np

from lmtk.machine.jit import inlined, jit


@jit
def find_heads(text, order, first, end, most, is_head):
    """is_head[first:end] <- whether the `most` words at each of these places of the order differ from those at the
    place before; if a border is among them, they always do. Bound: two random reads a place.
    """
    for i in range(max(first, 1), end):
        p, q, same = order[i - 1], order[i], 0
        while same < most and text[q + same] and text[p + same] == text[q + same]:
            same += 1
        is_head[i] = same < most


@inlined
def number_at(numbers, i):
    """The number that is split into the bytes numbers[i]."""
    x = np.int64(0)
    for b in range(numbers.shape[1]):
        x |= np.int64(numbers[i, b]) << (8 * b)
    return x


@inlined
def compare(text, place, query, begin, end):
    """-1, 0 or 1: the words of the text from `place` on come before the phrase query[begin:end], begin with the phrase,
    or come after it.
    """
    for i in range(begin, end):
        at = place + i - begin
        word = number_at(text, at) if at < len(text) else np.int64(0)
        if word != query[i]:
            return -1 if word < query[i] else 1
    return 0


@inlined
def bound(text, order, query, begin, end, low, above):
    """The first i, `low` or more, for which the words at order[i] do not come before the phrase query[begin:end]; with
    above = 1, for which they come after it.
    """
    high = len(order)
    while low < high:
        middle = (low + high) >> 1
        if compare(text, number_at(order, middle), query, begin, end) < above:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def count_places(text, order, query, begin, end):
    """How often the phrase query[begin:end] occurs; each place of the text has the empty phrase."""
    if begin == end:
        return len(text)
    first = bound(text, order, query, begin, end, 0, 0)
    return bound(text, order, query, begin, end, first, 1) - first


@jit
def count_all(text, order, documents, query, starts, seen, counts):
    """counts (P, 5) <- as from `index.count_phrases`, for the phrases query[starts[i]:starts[i + 1]]. seen (D,): -1,
    and afterwards the last phrase in each document.
    """
    for i in range(len(counts)):
        begin, end = starts[i], starts[i + 1]
        if begin == end:
            continue
        first = bound(text, order, query, begin, end, 0, 0)
        last = bound(text, order, query, begin, end, first, 1)
        number = 0
        for j in range(first, last):
            document = document_of(documents, number_at(order, j))
            number += seen[document] != i
            seen[document] = i
        low, high = begin, end - 1
        if first < last:
            high = begin
        # the first word from which on the context occurs
        while low < high:
            middle = (low + high) >> 1
            if count_places(text, order, query, middle, end - 1):
                high = middle
            else:
                low = middle + 1
        counts[i, 0], counts[i, 1], counts[i, 2] = last - first, number, end - 1 - low
        counts[i, 3] = count_places(text, order, query, low, end)
        counts[i, 4] = count_places(text, order, query, low, end - 1)


@inlined
def document_of(documents, place):
    """The document in which a place is: the last one that begins there or before."""
    low, high = 0, len(documents)
    while high - low > 1:
        middle = (low + high) >> 1
        if number_at(documents, middle) <= place:
            low = middle
        else:
            high = middle
    return low
