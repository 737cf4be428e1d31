"""Builds the Nodes of a model.

`build_nodes` takes sorted n-grams. `finish` takes records with words, children and logarithms, and adds what scoring
needs: it links each n-gram to its longest suffix and makes hash tables for contexts with many children. The kernels
`link_suffixes` and `link_far` do this for large models; `link_suffixes_plain` does it in numpy for small ones.
`map_in_file` maps the output file.
"""

from itertools import pairwise

import numpy as np

from lmtk.files import container
from lmtk.machine.jit import inlined, intrinsic, jit
from lmtk.machine.large import pays
from lmtk.machine.threads import map_at_once, parts_of
from lmtk.ngram.model.nodes import (
    AT,
    CHILD,
    ROOT,
    WIDTH,
    N,
    allocate,
    children_of,
    find_unigrams,
    number,
    plan,
    suffix_of,
    view_records,
    wrap_records,
)
from lmtk.ngram.model.searching import add_tables, find_batch, find_children, search

BATCH = 256  # n-grams looked up together
u64 = np.uint64
prefetch = intrinsic("prefetch")


def finish(memory, where, W, linked=False, home=None):
    """Return the Nodes of records, after adding suffixes and tables. linked: whether the records already have suffixes.
    home: None, or a function home(sizes, places=None) that returns memory for the tables, as `map_in_file` does. Raises
    FormatError if a 1-gram's word id is not below W.
    """
    nodes = wrap_records(memory, where)
    one = find_unigrams(nodes, W)
    if not pays("ngrams", sum(where[:, N].tolist()), "link"):
        return wrap_records(memory, where, link_suffixes_plain(view_records(memory, where), one))
    nodes, far = add_tables(nodes, home), ROOT
    for k in range(2, len(where) + 1) if not linked else ():
        far = add_suffixes((memory, where, nodes.slots, nodes.spans), k, one, far)
    return wrap_records(memory, where, far, nodes.slots, nodes.spans)


def add_suffixes(trie, k, one, far):
    """Set the suffixes of the k-grams; shorter n-grams must have theirs. Returns `far`, extended by the far suffixes of
    the k-grams. trie: as in `nodes`; only the hash table of order k - 1 is used. one (W,): the 1-gram of each word.
    """
    memory, where, *_ = trie
    parts = parts_of(int(where[k - 2, N]))
    missing = map_at_once(lambda part: link_suffixes(trie, k, part, one), parts)
    if not any(missing):
        return far
    more, begins = np.empty((sum(missing), 2), np.int32), np.cumsum([0, *missing]).tolist()
    map_at_once(lambda pair: link_far(memory, where, k, pair[0], one, far, more, pair[1]), zip(parts, begins))
    return np.concatenate((far, more))


@jit
def link_suffixes(trie, k, contexts, one):
    """Hard to read: searches are collected and done BATCH at a time, so that their random reads overlap.

    Sets the suffixes of the k-grams, k > 1, that extend a range of contexts, (first, end). The suffix of the n-gram h w
    is the child w of the suffix of h, so shorter n-grams must have their suffixes. A suffix becomes -1 if order k - 1
    lacks it; returns how many do. one (W,): the 1-gram of each word. Bound: two or three random reads an n-gram.
    """
    (memory, where, _, _), (first, last) = trie, contexts
    begin, width, missing = where[k - 1, AT], where[k - 1, WIDTH], 0
    above, size = where[k - 2, AT], where[k - 2, WIDTH]
    up, wide = where[max(k - 3, 0), AT], where[max(k - 3, 0), WIDTH]
    room, many = np.empty((5, BATCH), np.int64), 0
    ats, _, lows, highs, _ = room
    for i in range(first, last):
        low = high = np.int64(0)
        if k > 2:
            if i + 12 < last:
                prefetch(memory, up + wide * max(number(memory, above + size * (i + 13) - 1), 0))
            context = number(memory, above + size * (i + 1) - 1)
            if context >= 0:
                low, high = children_of(memory, where, k - 2, context)
        for child in range(number(memory, above + size * i + CHILD), number(memory, above + size * (i + 1) + CHILD)):
            at = begin + width * child
            if k == 2:
                suffix = one[u64(memory[u64(at)])]
                memory[u64(at + width - 1)] = suffix
                missing += suffix < 0
                continue
            ats[many], lows[many], highs[many] = at, low, high
            many += 1
            if many == BATCH:
                missing += link_batch(trie, k, room, many)
                many = 0
    return missing + link_batch(trie, k, room, many)


@inlined
def link_batch(trie, k, room, many):
    """Search for the suffixes of `many` k-grams, and set them; -1 for none. Returns the number of k-grams without one.
    room: where the records of the k-grams are; words, to be filled; lows, highs and nodes, as for `find_batch`.
    """
    (memory, where, _, _), (ats, words, lows, highs, nodes) = trie, room
    missing, width = 0, where[k - 1, WIDTH]
    for j in range(many):
        words[j] = number(memory, ats[j])
    find_batch(trie, k - 1, words, lows, highs, nodes, many)
    for j in range(many):
        memory[u64(ats[j] + width - 1)] = nodes[j]
        missing += nodes[j] < 0
    return missing


@jit
def link_far(memory, where, k, contexts, one, far, more, j):
    """Set the suffixes that `link_suffixes` left at -1. Such an n-gram gets its longest suffix of at most k - 2 words,
    or the root. (order, place) of the suffix is written to more (., 2), from j on; the caller appends `more` to `far`.
    """
    first, last = contexts
    begin, width = where[k - 1, AT], where[k - 1, WIDTH]
    above, size = where[k - 2, AT], where[k - 2, WIDTH]
    for i in range(first, last):
        for child in range(memory[above + size * i + CHILD], memory[above + size * (i + 1) + CHILD]):
            at = begin + width * child
            if memory[at + width - 1] >= 0:
                continue
            order, context = suffix_of(memory, where, far, k - 1, i)
            node = np.int64(-1)
            while order and node < 0:
                low, high = children_of(memory, where, order, context)
                node = search(memory, where, order + 1, low, high, memory[at])
                if node < 0:
                    order, context = suffix_of(memory, where, far, order, context)
            if node < 0:
                node = np.int64(one[memory[at]])
            memory[at + width - 1] = -1 - len(far) - j
            more[j, 0], more[j, 1] = (order + 1, node) if node >= 0 else (0, 0)
            j += 1


def link_suffixes_plain(levels, one):
    """Set the suffixes of the records of all orders, in numpy. Returns `far`."""
    far, ends = ROOT, [np.arange(len(levels[1]) - 1)]
    for k, (above, level) in enumerate(pairwise(levels[1:]), 2):
        parent, word = np.repeat(np.arange(len(above) - 1), np.diff(above["child"])), level["word"][:-1]
        # below[j - 2]: the node of the last j words of each n-gram
        below = [find_children(levels[j], levels[j + 1], ends[j - 1][parent], word) for j in range(1, k - 1)]
        ends = [one[word], *below, np.arange(len(word))]
        suffix = ends[k - 2].copy()
        lacks = np.flatnonzero(suffix < 0)
        more = np.zeros((len(lacks), 2), np.int32)
        for j in range(1, k - 1):
            nodes = ends[j - 1][lacks]
            more[nodes >= 0, 0], more[nodes >= 0, 1] = j, nodes[nodes >= 0]
        suffix[lacks] = -1 - len(far) - np.arange(len(lacks))
        level["suffix"][:-1], far = suffix, np.concatenate((far, more))
    return far


def build_nodes(orders, W):
    """Return the Nodes of sorted n-grams over W words. orders: (keys, log10p, log10bow) of each order, (N,) each. A
    key, int64, as `counts.number_ngrams` makes it, is the place of the context in the order below, times W, plus the
    last word. A log10p is -inf for a probability of 0, and nan for a bare prefix.
    """
    memory, where, records = allocate([len(keys) for keys, *_ in orders])
    for k, ((keys, log10p, log10bow), level) in enumerate(zip(orders, records), 1):
        level["word"][:-1], level["log10p"][:-1] = keys % W, log10p
        if k < len(orders):
            level["log10bow"][:-1] = log10bow
            level["child"][:] = np.searchsorted(orders[k][0], np.arange(len(level)) * W)
    return finish(memory, where, W)


def map_in_file(out, sizes, places=None):
    """Map the part of the binary file `out` that will hold the nodes of these sizes or, with `places`, so many slots.
    Returns int32 memory, or None if `out` is not a regular file or will be small. The position is a forecast: if far
    suffixes or a longer header move the arrays, they are copied when the file is written.
    """
    begin, size = container.PAGE + (len(sizes) + 1) * 16 + ROOT.nbytes, 4 * plan(sizes)[1]
    if len(sizes) > 9 or size < container.LARGE:  # a file has nodes10 before nodes2
        return None
    if places is not None:
        begin, size = begin + size, 4 * places
    mapped = container.map_output(out, begin, size) if size else None
    return None if mapped is None else mapped.view(np.int32)
