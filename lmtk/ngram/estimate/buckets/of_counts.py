"""Counts on disk -> events and contexts, as `of_text` makes them of a text's positions.

symbol  shape    meaning
event   (k + 2,) int32: an n-gram of order k, ids as in the model's vocabulary, and its count as two int32. It goes to
                 the bucket of its last word but one; <s> goes to the border's
context (k,)     int32: the n-gram's words alone, which go to the bucket of its last word
node    -        an n-gram's number among those of its order in suffix order: its node in `counts` if its words are
                 reversed, where its suffixes are prefixes

Every prefix of an n-gram is in the counts, at least with the count 0. So the prefix is in the bucket of its last word.
A suffix that was not counted is made in both buckets of its n-gram, with the same two last words.
"""

from dataclasses import replace

import numpy as np

from lmtk.files.column import Column
from lmtk.ngram.counting.counts import find, from_rows
from lmtk.ngram.estimate import leaves
from lmtk.ngram.estimate.buckets.of_text import put_bucket
from lmtk.ngram.estimate.suffix import Suffixes


def seen(counts, vocab, order):
    """(W,): how many n-grams, from order 2 on, have each word as their last or their last but one. Those of <s>, the
    last id, are added to the border's.
    """
    id_of, seen = vocab.ids_of_words(counts.words), np.zeros(len(vocab.words), np.int64)
    for k in range(2, min(order, counts.order) + 1):
        for parent, word, _ in counts.nodes(k):
            for last in (word, counts.context_words(k, parent)):
                seen += np.bincount(id_of[last], minlength=len(seen))
    seen[0] += seen[-1]
    return seen[:-1]


def deal_out(job, counts):
    """Deals the n-grams of the orders from 2 on to their buckets. Returns how often each word was seen, (W + 1,), -1 if
    it was not counted; and whether an n-gram that was seen ends in a word of the vocabulary.
    """
    id_of, bucket_of = job.vocab.ids_of_words(counts.words), job.bucket_of
    once, above, ends_in_word = np.full(len(job.seen) + 1, -1), np.zeros((1, 0), np.int32), False
    for k in range(1, min(job.order, counts.order) + 1):
        column = Column(np.int32, True)
        for parent, word, count in counts.nodes(k):
            rows = np.hstack((above[parent], id_of[word][:, None]))
            if k == 1:
                once[rows[:, 0]] = count
            else:
                ends_in_word = ends_in_word or bool((count[rows[:, 0] < job.vocab.V] > 0).any())
                job.shelf.deal(rows, bucket_of[rows[:, -1]], ("context", k))
                rows_with_counts = np.hstack((rows, count.view(np.int32).reshape(-1, 2)))
                job.shelf.deal(rows_with_counts, bucket_of[rows[:, -2]], ("event", k))
            column.append(rows)
        above = column.array().reshape(-1, k)
    return once, ends_in_word


def sort_bucket(job, b):
    """`of_text.sort_bucket` of counts."""
    n, W, (first, end) = job.order, len(job.seen), job.bounds[b : b + 2].tolist()
    rows, weights = [np.zeros((0, 1), np.int32)], [np.zeros(0, np.int64)]
    for k in range(2, n + 1):
        rows_with_counts = job.shelf.take(("event", k, b), np.int32).reshape(-1, k + 2)
        rows.append(rows_with_counts[:, k - 1 :: -1])
        weights.append(np.ascontiguousarray(rows_with_counts[:, k:]).view(np.int64)[:, 0] + 1)
    levels, events, suffixes, places = in_suffix_order(rows, weights, W)
    raw = [None, *(level.count - 1 for level in levels)]  # -1 for n-grams that were not counted: 1 was added to counts

    rows = [np.arange(first, end, dtype=np.int32)[:, None]]
    rows += [job.shelf.take(("context", k, b), np.int32).reshape(-1, k)[:, ::-1] for k in range(2, n + 1)]
    nothing = [np.zeros(len(x), np.int64) for x in rows]
    levels_of_contexts, contexts, _, places_of_contexts = in_suffix_order(rows, nothing, W)

    come, oldest = np.zeros(len(events.begins), np.int32), events.oldest
    context = np.where(oldest[2] == W, 0, oldest[2]) - first  # of each bigram, one of the bucket's words
    for k in range(2, n + 1):
        if k > 2:  # an n-gram's context is that of its suffix, with the oldest word before it
            context = find(levels_of_contexts[k - 2].keys, context[suffixes[k]], oldest[k], W + 1)
        come[places[k]] = places_of_contexts[k - 1][context]

    continuations, bigrams = leaves.count_continuations(suffixes, raw), np.zeros(W, np.int64)
    bigrams[levels[0].keys] = continuations[1]
    for name, columns in (("raw", raw), ("continuations", continuations)):
        for k, column in enumerate(columns[2:], 2):
            job.shelf.add((name, b, k), column)
    events = replace(events, come=come, raw=raw, continuations=continuations)
    put_bucket(job, b, events, contexts)
    return bigrams, events


def in_suffix_order(rows, weights, W):
    """Puts n-grams and their suffixes in suffix order. rows (N, k): those of each order, ids from the last word back;
    weights (N,). Returns (the Levels; the Suffixes; the suffixes and the places of n-grams, as for
    `leaves.places_of`).
    """
    levels = from_rows([np.ascontiguousarray(x) for x in rows], weights, W + 1)
    suffixes = [None, None, *((level.keys // (W + 1)).astype(np.int32) for level in levels[1:])]
    oldest = [None, None, *((level.keys % (W + 1)).astype(np.int32) for level in levels[1:])]
    begins, places = leaves.places_of(len(levels[0].keys), suffixes)
    sizes = np.zeros(W + 1, np.int64)
    sizes[levels[0].keys + 1] = np.diff(np.append(places[1], len(begins)))
    ended = np.cumsum(sizes)
    x = Suffixes(begins, oldest, ended, ended)
    return levels, x, suffixes, places
