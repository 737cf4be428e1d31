"""A model's n-grams in the order of KenLM's tries, from a Backoff or from an estimate in suffix order.

The trie goes from the last word of an n-gram to its first: the parent of w_1 .. w_k is its suffix w_2 .. w_k, and w_1
is its label. Siblings are sorted by the numbers of their labels. The n-grams of an estimate are sorted by suffix, so
siblings are next to each other, and only have to be sorted. Those of a Backoff are sorted by prefix: they are first
dealt to their parents. `slices` sorts n-grams that come in any order.

symbol   shape            meaning
first    (N_(k-1) + 1,)   the first child of each parent, in the order of the trie; int32
keys     (N_k,)           the n-grams of order k in the order of the trie: the number of the label in the upper 32 bits,
                          the n-gram's place in its column in the lower ones; uint64
column   (N_k,)           a number for each n-gram, in the order of the model
numbers  (N_k, 2)         log10 p and log10 back-off weight of each n-gram as they are in the file, in the order of the
                          model, float32; (N_k, 1) for the highest order, which has no weights
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from lmtk.files.words import Words
from lmtk.kenlm.layout import ZERO, hash_words, places_of_unknown
from lmtk.machine.jit import intrinsic, jit
from lmtk.machine.threads import map_at_once, parts_of, thread_count
from lmtk.ngram.estimate.engine import IN_MODEL
from lmtk.ngram.estimate.suffix import orders_at
from lmtk.ngram.model.nodes import AT, WIDTH, freeze, view_records
from lmtk.ngram.model.searching import shell_sort
from lmtk.text.vocab import UNK

AHEAD = 16  # n-grams or parents: how far ahead memory is fetched
f32, u64 = np.float32, np.uint64
MINUS_ZERO = f32(-0.0)
LOWER = u64(0xFFFFFFFF)  # the half of a key that is the n-gram's place in its column
prefetch = intrinsic("prefetch")


@dataclass(frozen=True)
class Levels:
    """What a trie file needs from a model.

    words: Words in the order of their numbers, <unk> first. hashes: of the words from number 1 on. unigrams, place: the
    `numbers` of the 1-grams, and the number of the word of each. sizes: the number of n-grams of each order, the words
    being those of order 1. numbers_of(k): those of order k, in any order.

    The trie consists of consecutive slices; the children of a slice's n-grams are in the same slice. parts (S, n): the
    number of n-grams of each order in each slice. slices: for each slice a function that returns an iterator. This
    yields `first` and then (keys, numbers) for each order from 2 on; `first` counts the slice's own children.
    """

    words: list
    hashes: np.ndarray
    unigrams: np.ndarray
    place: np.ndarray
    sizes: list
    numbers_of: Callable
    parts: np.ndarray
    slices: list


def number_words(words, ids):
    """(KenLM's number of each word, (W,) int32, 0 for <unk> and for a word without a 1-gram; the hashes in the order of
    the numbers, from number 1 on; the words in that order, <unk> first). ids: the words with a 1-gram.
    """
    words, number = Words.join(words), np.zeros(len(words), np.int32)
    ids = ids[~np.isin(ids, places_of_unknown(words))]
    hashes = hash_words(words)[ids]
    by_hash = np.argsort(hashes)
    number[ids[by_hash]] = np.arange(1, len(ids) + 1)
    return number, hashes[by_hash], Words(Words.join([UNK]).text + take_words(words.text, ids[by_hash]))


def take_words(text, places):
    """The lines of a text at some places, (N,)."""
    letters = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(letters == 10) + 1
    begins, ends = np.append(0, ends[:-1])[places], ends[places]
    taken = np.empty(int((ends - begins).sum()), np.uint8)
    copy_ranges(letters, begins, ends, taken)
    return taken.tobytes()


@jit
def copy_ranges(text, begins, ends, taken):
    """taken <- the ranges of a text, one after the other."""
    size = 0
    for i in range(len(begins)):
        for at in range(begins[i], ends[i]):
            taken[size] = text[at]
            size += 1


def clip(model):
    """A Backoff with 0 in place of positive log probabilities."""
    memory = model.nodes.memory.copy()
    for level in view_records(memory, model.nodes.where)[1:]:
        np.minimum(level["log10p"], 0, out=level["log10p"])
    return replace(model, nodes=replace(model.nodes, memory=freeze(memory), path=""))


def of_backoff(model):
    """The Levels of a Backoff that has every suffix and context of its n-grams."""
    nodes, order = model.nodes, model.order
    ids = nodes.levels[1]["word"][:-1]
    number, hashes, words = number_words(model.vocab.words, ids)
    sizes = [len(words), *map(nodes.size, range(2, order + 1))]

    def numbers_of(k):
        level = nodes.levels[k]
        if k == order:
            return make_numbers(level["log10p"][:-1])
        return make_numbers(level["log10p"][:-1], level["log10bow"][:-1], level["child"][1:] > level["child"][:-1])

    sort = lambda: deal_families(nodes, number, numbers_of)
    return Levels(words, hashes, numbers_of(1), number[ids], sizes, numbers_of, np.array([sizes]), [sort])


def of_estimate(job):
    """The Levels of Buckets, which cannot be used afterwards. Returns None if the n-grams are not in one bucket in
    memory, if the model lacks some of them, or if it has both spellings of <unk>.
    """
    work, words = job.estimator, job.vocab.words
    if not work or job.sizes[1:] != [*map(len, work.suffixes.oldest[2:])] or len(places_of_unknown(words)) > 1:
        return None
    work.suffixes = replace(work.suffixes, come=None)
    work.log10p[1] = np.where(job.marks & IN_MODEL, job.log10p, np.float32(np.nan))
    place, hashes, numbered = number_words(words, np.arange(len(words)))
    sizes = [len(numbered), *job.sizes[1:]]

    def numbers_of(k):
        if k == job.order:
            return make_numbers(work.log10p[k])
        return make_numbers(work.log10p[k], work.log10bow[k], work.types[k] > 0)

    sort = lambda: sort_families(work.suffixes, place, numbers_of, work.forget)
    return Levels(numbered, hashes, numbers_of(1), place, sizes, numbers_of, np.array([sizes]), [sort])


def make_numbers(log10p, log10bow=None, is_context=None, threads=None):
    """The `numbers` of columns, with nan for a missing number. log10bow: None for the highest order. is_context (N,):
    whether an n-gram extends each. The logarithm of 0 is -99. A weight of 0 is -0.0 if no n-gram extends the n-gram.
    threads: as for `map_at_once`.
    """
    numbers = np.empty((len(log10p), 1 if log10bow is None else 2), np.float32)
    columns = (log10p, log10p, np.zeros(0, bool)) if log10bow is None else (log10p, log10bow, is_context)
    map_at_once(partial(put_numbers, *columns, numbers), parts_of(len(log10p)), threads)
    return numbers


@jit
def put_numbers(log10p, log10bow, is_context, numbers, part):
    """numbers <- a part of the columns, as in `make_numbers`."""
    for i in range(*part):
        numbers[i, 0] = ZERO if log10p[i] == -np.inf else log10p[i]
        if numbers.shape[1] > 1:
            weight = f32(0) if log10bow[i] != log10bow[i] else log10bow[i]
            weight = ZERO if weight == -np.inf else weight
            numbers[i, 1] = (f32(0) if is_context[i] else MINUS_ZERO) if weight == 0 else weight


def deal_families(nodes, number, numbers_of):
    """Yields `first` and then (keys, numbers_of(k)) for each order k from 2 on of Nodes. First words are taken in the
    order of their numbers, so siblings come out sorted. number (W,): KenLM's number of each word.
    """
    labels = number[nodes.levels[1]["word"][:-1]]
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
        yield keys, numbers_of(k)
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


def sort_families(suffixes, number, numbers_of, forget):
    """Yields `first` and then (keys, numbers_of(k)) for each order k from 2 on of Suffixes. number: as for
    `deal_families`. forget(k) is called when order k is not needed any more.
    """
    above = np.full(int(number.max()) + 1, -1, np.int32)  # the place in its column of each parent, -1 for none
    above[number] = np.arange(len(number))
    begins = np.append(suffixes.nodes(2, suffixes.ended), len(suffixes.oldest[2]))  # <s> has no children
    for k in range(2, suffixes.order + 1):
        first = np.zeros(len(above) + 1, np.int32)
        add_sizes(above, begins, first)
        yield first
        keys = np.empty(len(suffixes.oldest[k]), u64)
        each_part(first, partial(take, above, first, begins, suffixes.oldest[k], number, keys))
        each_part(first, partial(sort_siblings, first, keys))
        if k < suffixes.order:
            above, begins = np.empty(len(keys), np.int32), np.empty(len(keys) + 1, np.int64)
            map_at_once(partial(take_places, keys, above), parts_of(len(keys)))
            find_begins(suffixes.begins, k + 1, begins)
        first = None
        yield keys, numbers_of(k)
        keys = None
        forget(k)


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
    """first (N_(k-1) + 1,) <- the place of the first n-gram of order k that ends in each n-gram of order k - 1, both in
    suffix order. begins: as in `suffix`.
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
def take(above, first, begins, oldest, number, keys, part):
    """keys <- the children of a part of the parents, which are at `begins` in suffix order. above, first: the place
    of each parent in its column, and its first child. oldest (N_k,): the labels' words.
    """
    for i in range(*part):
        if above[i] >= 0:
            child = begins[above[i]]
            for at in range(first[i], first[i + 1]):
                keys[at] = u64(number[oldest[child]]) << u64(32) | u64(child)
                child += 1


@jit
def sort_siblings(first, keys, part):
    """Sorts the keys of the children of each of a part of the parents."""
    for i in range(*part):
        shell_sort(keys, np.int64(first[i]), np.int64(first[i + 1]))
