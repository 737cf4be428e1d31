"""A model's n-grams in the order of KenLM's tries, from a Backoff or from an estimate in suffix order.

The trie goes from the last word of an n-gram to its first: the parent of w_1 .. w_k is its suffix w_2 .. w_k, and w_1
is its label. Siblings are sorted by the numbers of their labels. The n-grams of an estimate are sorted by suffix, so
siblings are next to each other, and only have to be sorted. Those of a Backoff are sorted by prefix: they are first
dealt to their parents.

symbol  shape            meaning
first   (N_(k-1) + 1,)   the first child of each parent, in the order of the trie; int32
keys    (N_k,)           the n-grams of order k in the order of the trie: the number of the label in the upper 32 bits,
                         the n-gram's place in its column in the lower ones; uint64
column  (N_k,)           a number for each n-gram, in the order of the model
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from lmtk.files.bounded import trim
from lmtk.kenlm.layout import hash_words, places_of_unknown
from lmtk.machine.jit import intrinsic, jit
from lmtk.machine.threads import map_at_once, parts_of, thread_count
from lmtk.ngram.estimate.engine import IN_MODEL
from lmtk.ngram.estimate.suffix import orders_at
from lmtk.ngram.model.nodes import AT, WIDTH
from lmtk.ngram.model.searching import shell_sort
from lmtk.text.vocab import UNK

AHEAD = 16  # n-grams or parents: how far ahead memory is fetched
u64 = np.uint64
LOWER = u64(0xFFFFFFFF)  # the half of a key that is the n-gram's place in its column
prefetch = intrinsic("prefetch")


@dataclass(frozen=True)
class Levels:
    """What a trie file needs from a model.

    words: the vocabulary. ids: the ids of words that have a 1-gram. Three lists have the entry of order k at place k:
    log10p and log10bow, columns with nan for a missing number; is_context, functions that return for each n-gram of the
    order whether an n-gram extends it. families(numbers): yields `first` and then `keys` of each order from 2 on;
    numbers (W,) are KenLM's numbers of the words. forget(k): frees the columns of order k if nothing else needs them.
    """

    words: list
    ids: np.ndarray
    log10p: list
    log10bow: list
    is_context: list
    families: Callable
    forget: Callable = lambda k: None


def number_words(words, ids):
    """(KenLM's number of each word, (W,) int32, 0 for <unk> and for a word without a 1-gram; the hashes in the order of
    the numbers, from number 1 on; the words in that order, <unk> first). ids: the words with a 1-gram.
    """
    ids, words = ids[~np.isin(ids, places_of_unknown(words))], [*words]  # in a list, a place is found faster
    hashes, numbers = hash_words([words[w] for w in ids.tolist()]), np.zeros(len(words), np.int32)
    by_hash = np.argsort(hashes)
    numbers[ids[by_hash]] = np.arange(1, len(ids) + 1)
    return numbers, hashes[by_hash], [UNK, *(words[w] for w in ids[by_hash].tolist())]


def of_backoff(model):
    """The Levels of a Backoff that has every suffix and context of its n-grams."""
    nodes, levels = model.nodes, model.nodes.levels[1:]
    log10p = [None, *(level["log10p"][:-1] for level in levels)]
    log10bow = [None, *(level["log10bow"][:-1] for level in levels[:-1])]
    is_context = [None, *(lambda child=level["child"]: child[1:] > child[:-1] for level in levels[:-1])]
    families = partial(deal_families, nodes)
    return Levels(model.vocab.words, levels[0]["word"][:-1], log10p, log10bow, is_context, families)


def of_estimate(job):
    """The Levels of Buckets, which cannot be used afterwards. None, unless they are one bucket in memory and the model
    has all of its n-grams.
    """
    work, words = job.estimator, job.vocab.words
    if not work or job.sizes[1:] != work.suffixes.sizes[1:] or len(places_of_unknown(words)) > 1:
        return None
    work.suffixes = replace(work.suffixes, come=None)
    work.log10p[1] = np.where(job.marks & IN_MODEL, job.log10p, np.float32(np.nan))
    is_context = [None, *(lambda k=k: work.types[k] > 0 for k in range(1, job.order))]

    def forget(k):
        for column in (work.log10p, work.log10bow, work.marks, work.types):
            column[k] = None
        trim()

    families = partial(sort_families, work.suffixes)
    return Levels(words, np.arange(len(words)), work.log10p, work.log10bow, is_context, families, forget)


def deal_families(nodes, numbers):
    """Yields `first` and then `keys` of the orders from 2 on of Nodes. First words are taken in the order of their
    numbers, so siblings come out sorted.
    """
    labels = numbers[nodes.levels[1]["word"][:-1]]
    place, size, ends = labels, int(labels.max()) + 1, np.arange(len(labels) + 1)  # size: the number of parents
    for k in range(2, nodes.order + 1):
        ends = nodes.levels[k - 1]["child"][ends].astype(np.int64)
        ranges = np.column_stack((labels, ends[:-1], ends[1:]))[np.argsort(labels)]
        parents, first = find_parents(nodes, k, place, size)
        place = None  # its memory is used for what follows
        yield first
        place, keys, size = np.empty_like(parents), np.empty(len(parents), u64), len(parents)
        each_part(first, partial(deal, ranges, parents, first[:-1].copy(), place, keys))
        parents = first = None
        yield keys
        keys = None


def find_parents(nodes, k, place, size):
    """(the parent of each n-gram of order k > 1, (N_k,) int32; the first child of each parent, (size + 1,) int32).

    place (N_(k-1),): the place in the trie of each node of the order above. size: the number of parents.
    """
    parents, first = np.empty(nodes.size(k), np.int32), np.zeros(size + 1, np.int32)
    map_at_once(partial(look_up, nodes.memory, nodes.where, k, place, parents), parts_of(len(parents)))
    bounds = np.linspace(0, size, thread_count() + 1).astype(np.int64)
    map_at_once(partial(count_children, parents, first), pairwise(bounds.tolist()))
    return parents, np.cumsum(first, out=first)


def sort_families(x, numbers):
    """Yields `first` and then `keys` of the orders from 2 on of Suffixes."""
    above = np.full(int(numbers.max()) + 1, -1, np.int32)  # the place in its column of each parent, -1 for none
    above[numbers] = np.arange(len(numbers))
    begins = np.append(x.nodes(2, x.ended), x.sizes[1])  # where the children of each parent begin; <s> has none
    for k in range(2, x.order + 1):
        first = np.zeros(len(above) + 1, np.int32)
        add_sizes(above, begins, first)
        yield first
        keys = np.empty(x.sizes[k - 1], u64)
        each_part(first, partial(take, above, first, begins, x.oldest(k), numbers, keys))
        each_part(first, partial(sort_siblings, first, keys))
        if k < x.order:
            above, begins = np.empty(len(keys), np.int32), np.empty(len(keys) + 1, np.int64)
            map_at_once(partial(take_places, keys, above), parts_of(len(keys)))
            find_begins(x.begins, k + 1, begins)
        first = None
        yield keys
        keys = None


def each_part(first, work):
    """Calls work((low, high)), in threads, for ranges of parents with about as many children each."""
    bounds = np.searchsorted(first, np.linspace(0, first[-1], thread_count() + 1).astype(np.int32)[1:-1])
    map_at_once(work, pairwise([0, *bounds.tolist(), len(first) - 1]))


@jit
def look_up(memory, where, k, place, parents, part):
    """parents <- the places of the suffixes of a part of the n-grams of order k. place: as for `find_parents`."""
    (begin, end), at, width = part, where[k - 1, AT], where[k - 1, WIDTH]
    for i in range(begin, end):
        if i + AHEAD < end:
            prefetch(place, np.int64(memory[at + width * (i + AHEAD + 1) - 1]))
        parents[i] = place[u64(memory[at + width * (i + 1) - 1])]


@jit
def count_children(parents, first, part):
    """first[i + 1] += how often the parent i is among `parents`, for each i of a part."""
    low, high = part
    for i in range(len(parents)):
        if i + AHEAD < len(parents) and low <= parents[i + AHEAD] < high:
            prefetch(first, np.int64(parents[i + AHEAD]) + 1)
        if low <= parents[i] < high:
            first[u64(parents[i]) + u64(1)] += 1


@jit
def deal(ranges, parents, head, place, keys, part):
    """keys, place <- the children of a part of the parents, and the place of each n-gram in the order of the trie.

    ranges (N_1, 3): for each first word in the order of the numbers, its number and the range of its n-grams. head: the
    next free place among the children of each parent. Bound: two random accesses an n-gram.
    """
    low, high = part
    for r in range(len(ranges)):
        label, end = u64(ranges[r, 0]) << u64(32), ranges[r, 2]
        for i in range(ranges[r, 1], end):
            if i + AHEAD < end and low <= parents[i + AHEAD] < high:
                prefetch(head, np.int64(parents[i + AHEAD]))
            if i + AHEAD // 2 < end and low <= parents[i + AHEAD // 2] < high:
                prefetch(keys, np.int64(head[u64(parents[i + AHEAD // 2])]))
            if low <= parents[i] < high:
                place[i] = head[u64(parents[i])]
                head[u64(parents[i])] += 1
                keys[u64(place[i])] = label | u64(i)


@jit
def find_begins(begins, k, first):
    """first (N_(k-1) + 1,) <- of each n-gram of order k - 1 in suffix order, the first n-gram of order k that ends in
    it. begins: as in `suffix`.
    """
    parent = child = 0
    for j in range(len(begins)):
        f, m = orders_at(begins, j)
        if f < k and k - 1 <= m:
            first[parent] = child
            parent += 1
        child += f <= k and k <= m
    first[parent] = child


@jit
def take_places(keys, places, part):
    """places (N_k,) <- the places in the column of a part of the keys."""
    for i in range(*part):
        places[i] = keys[i] & LOWER


@jit
def add_sizes(above, begins, first):
    """first (N + 1,) <- the first child of each parent in the order of the trie; first[0] stays. above, begins: as for
    `take`. Bound: a random read a parent.
    """
    for i in range(len(above)):
        if i + AHEAD < len(above):
            prefetch(begins, np.int64(above[i + AHEAD]))
        first[i + 1] = first[i]
        if above[i] >= 0:
            first[i + 1] += begins[above[i] + 1] - begins[above[i]]


@jit
def take(above, first, begins, oldest, numbers, keys, part):
    """keys <- the children of a part of the parents, which are at `begins` in suffix order. above, first: the place
    of each parent in its column, and its first child. oldest (N_k,): the labels' words.
    """
    for i in range(*part):
        if above[i] >= 0:
            child = begins[above[i]]
            for at in range(first[i], first[i + 1]):
                keys[at] = u64(numbers[oldest[child]]) << u64(32) | u64(child)
                child += 1


@jit
def sort_siblings(first, keys, part):
    """Sorts the keys of the children of each of a part of the parents."""
    for i in range(*part):
        shell_sort(keys, np.int64(first[i]), np.int64(first[i + 1]))
