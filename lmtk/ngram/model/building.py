"""Builds Nodes: adds suffixes and tables to n-grams whose words and children are known, or takes all from a file."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.machine.jit import inlined, jit, of_numba
from lmtk.machine.large import pays
from lmtk.machine.threads import all_at_once, part_of
from lmtk.ngram.model.nodes import (
    AT,
    CHILD,
    LAST,
    NODE,
    PLACE,
    ROOT,
    WIDTH,
    N,
    Nodes,
    address,
    children_of,
    columns,
    ends_of,
    frozen,
    number,
    records_of,
    room,
    suffix_of,
    unigrams,
    without_tables,
)
from lmtk.ngram.model.searching import children, find_some, search, with_tables

SOME = 256  # n-grams looked up together
u64 = np.uint64
prefetch = of_numba("lmtk.machine.intrinsics", "prefetch")


def finished(memory, where, W, path="", linked=False, home=None):
    """The Nodes of records that lack only their suffixes or, with `linked`, nothing. home: None, or a function
    home(sizes, places=None) -> memory, as a partial of `in_file`. Raises FormatError if a 1-gram's word is out of
    range.
    """
    order, sizes = len(where), where[:, N].tolist()
    nodes = without_tables(memory, where, ROOT, path)
    one = unigrams(nodes, W)
    if not pays("ngrams", sum(sizes), "link"):
        return replace(nodes, far=frozen(link_suffixes_plain(records_of(memory, where), one)))
    nodes, far = with_tables(nodes, home), ROOT
    for k in range(2, order + 1) if not linked else ():
        far = with_suffixes(memory, where, nodes.slots, nodes.spans, k, one, far)
    return replace(nodes, far=frozen(far))


def with_suffixes(memory, where, slots, spans, k, one, far):
    """Sets the suffixes of the k-grams, once those of shorter n-grams are known. Returns `far`, extended by the far
    suffixes of the k-grams. slots, spans: the tables of order k - 1, if there are any.
    """
    size = int(where[k - 2, N])
    some = part_of(size)
    parts = [(first, min(first + some, size)) for first in range(0, size, some)]
    missing = all_at_once(lambda part: link_suffixes(memory, where, slots, spans, k, *part, one), parts)
    return with_far(memory, where, k, one, far, parts, missing)


@jit
def link_suffixes(memory, where, slots, spans, k, first, last, one):
    """Sets the suffixes of the k-grams, k > 1, that extend the contexts from `first` up to `last`; -1 where the order
    below lacks the suffix. The suffixes of shorter n-grams have to be known. Returns how many suffixes are lacking.
    one (W,): the 1-gram of each word. Bound by two or three random reads an n-gram, which overlap for SOME n-grams.
    """
    begin, width, missing = where[k - 1, AT], where[k - 1, WIDTH], 0
    above, size = where[k - 2, AT], where[k - 2, WIDTH]
    up, wide = where[max(k - 3, 0), AT], where[max(k - 3, 0), WIDTH]
    ats, lows, highs, many = np.empty(SOME, np.int64), np.empty(SOME, np.int64), np.empty(SOME, np.int64), 0
    words, found = np.empty(SOME, np.int64), np.empty(SOME, np.int64)
    room = ats, words, lows, highs, found
    for i in range(first, last):
        low = high = np.int64(0)
        if k > 2:
            if i + 12 < last:
                prefetch(memory, up + wide * max(number(memory, above + size * (i + 13) - 1), 0))
            context = number(memory, above + size * (i + 1) - 1)
            if context >= 0:
                low = number(memory, up + wide * context + CHILD)
                high = number(memory, up + wide * (context + 1) + CHILD)
        for child in range(number(memory, above + size * i + CHILD), number(memory, above + size * (i + 1) + CHILD)):
            at = begin + width * child
            if k == 2:
                suffix = one[u64(memory[u64(at)])]
                memory[u64(at + width - 1)] = suffix
                missing += suffix < 0
                continue
            ats[many], lows[many], highs[many] = at, low, high
            many += 1
            if many == SOME:
                missing += link_some(memory, slots, spans[k - 1], above, size, width, *room, many)
                many = 0
    return missing + link_some(memory, slots, spans[k - 1], above, size, width, *room, many)


@inlined
def link_some(memory, slots, span, above, size, width, ats, words, lows, highs, found, many):
    """Sets the suffixes of the first `many` records at `ats`, found by `find_some`, -1 for none. Returns how many have
    none.
    """
    missing = 0
    for j in range(many):
        words[j] = number(memory, ats[j])
    find_some(memory, slots, span, above, size, words, lows, highs, found, many)
    for j in range(many):
        memory[u64(ats[j] + width - 1)] = found[j]
        missing += found[j] < 0
    return missing


def with_far(memory, where, k, one, far, parts, missing):
    """Sets the suffixes that the order below lacks. Returns `far`, extended by them. missing: how many there are in
    each of the `parts`, (first, last), of the contexts.
    """
    if not any(missing):
        return far
    more, begins = np.empty((sum(missing), 2), np.int32), np.cumsum([0, *missing]).tolist()
    all_at_once(lambda part: link_far(memory, where, k, *part[0], one, far, more, part[1]), zip(parts, begins))
    return np.concatenate((far, more))


@jit
def link_far(memory, where, k, first, last, one, far, more, j):
    """Sets the suffixes that `link_suffixes` has not found: the longest shorter ones, or the root. They are written to
    more (., 2), from j on; the caller appends `more` to `far`.
    """
    begin, width = where[k - 1, AT], where[k - 1, WIDTH]
    above, size = where[k - 2, AT], where[k - 2, WIDTH]
    for i in range(first, last):
        for child in range(memory[above + size * i + CHILD], memory[above + size * (i + 1) + CHILD]):
            at = begin + width * child
            if memory[at + width - 1] >= 0:
                continue
            order, context = suffix_of(memory, where, far, k - 1, i)
            found = np.int64(-1)
            while order and found < 0:
                low, high = children_of(memory, where, order, context)
                found = search(memory, where[order, AT], where[order, WIDTH], low, high, memory[at])
                if found < 0:
                    order, context = suffix_of(memory, where, far, order, context)
            if found < 0:
                found = np.int64(one[memory[at]])
            memory[at + width - 1] = -1 - len(far) - j
            more[j, 0], more[j, 1] = (order + 1, found) if found >= 0 else (0, 0)
            j += 1


def link_suffixes_plain(levels, one):
    """Sets the suffixes of the records of all orders, in numpy. Returns `far`."""
    far, ends = ROOT, [np.arange(len(levels[1]) - 1)]
    for k, (above, level) in enumerate(pairwise(levels[1:]), 2):
        parent, word = np.repeat(np.arange(len(above) - 1), np.diff(above["child"])), level["word"][:-1]
        # below[j - 2]: the node of the last j words of each n-gram
        below = [children(levels[j], levels[j + 1], ends[j - 1][parent], word) for j in range(1, k - 1)]
        ends = [one[word], *below, np.arange(len(word))]
        suffix = ends[k - 2].copy()
        lacks = np.flatnonzero(suffix < 0)
        more = np.zeros((len(lacks), 2), np.int32)
        for j in range(1, k - 1):
            found = ends[j - 1][lacks]
            more[found >= 0, 0], more[found >= 0, 1] = j, found[found >= 0]
        suffix[lacks] = -1 - len(far) - np.arange(len(lacks))
        level["suffix"][:-1], far = suffix, np.concatenate((far, more))
    return far


def nodes_of(orders, W):
    """The Nodes of sorted n-grams over W words. orders: for each order, keys (N,) int64, the place of the context times
    W plus the last word; log10p and log10bow (N,), -inf for a probability of 0, nan for a bare prefix.
    """
    memory, where, records = room([len(keys) for keys, *_ in orders])
    above = np.zeros(2, NODE)
    for (keys, log10p, log10bow), level in zip(orders, records):
        above["child"][:] = np.searchsorted(keys, np.arange(len(above)) * W)
        level["word"][:-1], level["log10p"][:-1] = keys % W, log10p
        if "log10bow" in level.dtype.names:
            level["log10bow"][:-1] = log10bow
        above = level
    return finished(memory, where, W)


def of_arrays(arrays, order, W, path):
    """The Nodes of a file's arrays: nodes1 and so on, far, slots and spans, in one piece of memory if mapped.

    A file from before version 0.2 has only nodes1 and so on, without the column of suffixes. Raises FormatError.
    """
    levels = [arrays[f"nodes{k}"] for k in range(1, order + 1)]
    sizes = [len(a) - 1 for a in levels]
    if "far" not in arrays:
        memory, where, records = room(sizes)
        for a, level in zip(levels, records):
            columns(level)[:, :-1] = a
        without_tables(memory, where, ROOT, path).checked(W)
        return finished(memory, where, W)
    memory = whole = together(levels)
    if whole is None:
        memory = np.concatenate([a.reshape(-1) for a in levels])
    begin, where, at = address(memory), [], 0
    for a in levels:
        at = (address(a) - begin) // 4 if whole is not None else at
        where.append([at, len(a) - 1, a.shape[1], PLACE[a.shape[1]]])
        at += a.size
    more = (frozen(arrays[name]) for name in ("far", "slots", "spans"))
    for begin, size in arrays["spans"].tolist():
        if size & (size - 1) or not 0 <= size <= len(arrays["slots"]) - begin <= len(arrays["slots"]):
            raise FormatError(path, "damaged: its tables do not fit its slots")
    return Nodes(frozen(memory), frozen(np.array(where, np.int64)), *more, path)


def arrays_of(nodes):
    """The arrays of a file, by name: nodes1 and so on, far, slots, spans."""
    nodes = with_tables(nodes)
    levels = {f"nodes{k}": columns(level) for k, level in enumerate(nodes.levels[1:], 1)}
    last = nodes.levels[-1]
    if last.dtype == NODE:  # the highest order of a model without its longer n-grams
        levels[f"nodes{nodes.order}"] = columns(last[list(LAST.names)].astype(LAST))
    return levels | {"far": nodes.far, "slots": nodes.slots, "spans": nodes.spans}


def in_file(out, sizes, places=None):
    """Memory, int32, mapped in the binary file `out` where the arrays of `arrays_of` will be: for nodes of `sizes`, or
    with `places` for so many slots. None if `out` is not a regular file, or will be small.

    The place is a forecast. With far suffixes or a longer header the nodes will be elsewhere, and are then copied when
    the file is written.
    """
    begin, size = container.PAGE + (len(sizes) + 1) * 16 + ROOT.nbytes, 4 * ends_of(sizes)[1][-1]
    if len(sizes) > 9 or not pays("binary", size):  # nodes10 stands before nodes2
        return None
    if places is not None:
        begin, size = begin + size, 4 * places
    found = container.mapped(out, begin, size) if size else None
    return None if found is None else found.view(np.int32)


def together(arrays):
    """The stretch of memory, int32, that holds all these arrays of one mapped file; None if they are not in one."""
    base = arrays[0]
    while isinstance(base.base, np.ndarray):
        base = base.base
    first, last = address(base), address(base) + base.nbytes
    if any(not first <= address(a) <= last - a.nbytes for a in arrays):
        return None
    begin = min(map(address, arrays))
    end = max(address(a) + a.nbytes for a in arrays)
    if begin % 4:
        return None
    return base.reshape(-1).view(np.uint8)[begin - first : end - first].view(np.int32)
