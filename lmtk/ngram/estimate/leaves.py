"""Counts -> their n-grams in suffix order, for the engine, as `suffix` makes them from a text.

`suffixes_of` sorts one order after the other. If the counts lack suffixes, they are added first, with the count -1.

symbol  shape    meaning
n W     -        the highest order; the last id of the vocabulary, <s>. </s> is 0
N_k     -        how many n-grams of order k there are; every word is one of order 1
node    -        an n-gram's number among those of its order: by the last word, then the one before it ..
rank    (N_k,)   the node of each n-gram in the order of Counts; int32 as all below
context (N_k,)   the node of order k - 1 without the last word
suffix  (N_k,)   the node of order k - 1 without the oldest word; it does not fall from one node to the next
start   (W + 2,) the first node of each last word
leaf    -        an n-gram that is not a suffix of another. Leaves are the places of `suffix.Suffixes`.

Once the order below is done, counting sorts by the node of the context and by the last word give suffix order.
"""

import numpy as np

from lmtk.errors import LmtkError
from lmtk.machine.jit import jit
from lmtk.ngram.counting.counts import Counts, Level
from lmtk.ngram.estimate.smoothing import nodes_of_rows
from lmtk.ngram.estimate.suffix import Suffixes, blocks_of, kind_of_begins
from lmtk.text.sorting import sorted_places


def suffixes_of(counts, vocab):
    """Counts of order 2 or more -> Suffixes; None if an n-gram has <s> in another place than the first, or </s> in
    another than the last. Words and suffixes of n-grams that the Counts lack are added with a count of -1. Raises
    LmtkError if there are 2^31 n-grams or more.
    """
    W, id_of = len(vocab.words) - 1, vocab.ids_of_words(counts.words)
    orders = [None, (id_of[counts.levels[0].keys], None, None, np.arange(W + 2, dtype=np.int32))]
    for k, level in enumerate(counts.levels[1:], 2):
        orders.append(turn_level(level, orders[-1], id_of, W))
        if orders[k] is None:
            return None
        if k > 2 and join(orders[k - 1], orders[k]):
            orders.clear()
            nodes = nodes_of_rows(counts, vocab, counts.order)
            levels = [Level(keys, np.where(is_counted, count, -1), None) for keys, count, is_counted in nodes]
            return suffixes_of(Counts(vocab.words, levels), vocab)
    raw = [None]
    for level, (rank, *_, start) in zip(counts.levels, orders[1:]):
        raw.append(np.full(start[-1], -1, level.count.dtype))
        raw[-1][rank] = level.count
    n, size = counts.order, sum(map(len, raw[1:]))
    if size >= 1 << 31:
        raise LmtkError(f"too many n-grams: {size}; the limit is 2^31, so prune or use less text")
    contexts, suffixes = ([None, None, *(order[column] for order in orders[2:])] for column in (1, 2))
    orders.clear()
    begins, places = places_of(W, suffixes)
    start, come = np.append(places[1], len(begins)), np.zeros(len(begins), np.int32)
    places[1] = np.append(places[1], np.int32(0))  # of <s>
    oldest = [None, np.arange(W + 1, dtype=np.int32)]  # the oldest word of an n-gram is that of its context
    for k in range(2, n + 1):
        come[places[k]] = places[k - 1][contexts[k]]  # at the place of a longer n-gram, its context replaces this one
        oldest.append(oldest[-1][contexts[k]])
    blocks, continuations = blocks_of(begins, start, oldest[2]), count_continuations(suffixes, raw)
    return Suffixes(begins, oldest, start, start, come, *blocks, raw, continuations)


def turn_level(level, below, id_of, W):
    """(rank, context, suffix, start) of a Level, as in the table above; None if <s> or </s> is inside an n-gram. below:
    the same of the order below. The suffixes are right for order 2; `join` sets those of other orders.
    """
    rank_below, *_, start_below = below
    context, word = rank_below[level.keys // len(id_of)], id_of[level.keys % len(id_of)]
    start = np.append(0, np.cumsum(np.bincount(word, minlength=W + 1))).astype(np.int32)
    if start[W] < len(word) or (context < start_below[1]).any():
        return None
    places, rank = np.arange(len(word), dtype=np.int32), np.empty(len(word), np.int32)
    order = sorted_places((context, word))
    rank[order] = places
    return rank, context[order], word[order], start


def count_continuations(suffixes, raw):
    """`continuations` of Suffixes. suffixes, raw: lists with order k at k."""
    longer = zip(raw[1:], suffixes[2:], raw[2:])
    return [None, *(np.bincount(suffix[c > 0], minlength=len(r)).astype(np.int32) for r, suffix, c in longer)]


def places_of(W, suffixes):
    """(begins, places) of a tree of n-grams, in which the parent of an n-gram is its suffix. The roots are the words
    below W; suffixes is a list with order k > 1 at k. begins (L,): as in Suffixes; a leaf of the tree is a place.
    places: the first place of each n-gram, int32, a list with order k at k.
    """
    n = len(suffixes) - 1
    sizes = [np.ones(len(suffixes[n]), np.int32)]  # how many leaves each n-gram has
    for k in range(n, 1, -1):
        N = len(suffixes[k - 1]) if k > 2 else W
        sizes.insert(0, np.maximum(np.bincount(suffixes[k], sizes[0], N), 1).astype(np.int32))
    f, m = np.ones((2, sizes[0].sum()), kind_of_begins(n))
    places = [None]
    for k, (parent, size) in enumerate(zip(suffixes[1:], sizes), 1):
        place = np.cumsum(size, dtype=np.int32) - size
        if k > 1:  # siblings are next to each other, the first of them at the place of their parent
            is_later = np.zeros(len(parent), bool)
            np.equal(parent[1:], parent[:-1], out=is_later[1:])
            place += places[-1][parent] - np.maximum.accumulate(np.where(is_later, 0, place))
            f[place[is_later]], m[place] = k, k
        places.append(place)
    return f | m << 4 * f.itemsize, places


@jit
def join(below, level):
    """Sets the suffixes of an order, -1 for those that the order below lacks, and returns how many these are. below,
    level: (rank, context, suffix, start) of both orders. One pass over both.
    """
    (_, context_1, suffix_1, start_1), (_, context, suffix, start), lacking = below, level, 0
    for w in range(len(start) - 1):
        a, end = start_1[w], start_1[w + 1]
        for i in range(start[w], start[w + 1]):
            above = suffix_1[context[i]]
            while a < end and context_1[a] < above:
                a += 1
            has_suffix = a < end and context_1[a] == above
            suffix[i] = a if has_suffix else -1
            lacking += not has_suffix
    return lacking
