"""The positions of a bucket -> its events and contexts in suffix order, which go on the shelf."""

from dataclasses import replace

import numpy as np

from lmtk.machine.jit import jit
from lmtk.ngram.counting.kernels import sort_by
from lmtk.ngram.estimate import engine, suffix
from lmtk.ngram.estimate.buckets.division import contexts_from
from lmtk.ngram.estimate.suffix import kind_of_begins, orders_at, prefetch, ranks_of

SIZE = suffix.BATCH


def sort_bucket(job, b, last, marks):
    """Puts a bucket's events and contexts on the shelf. Returns the number of bigrams that end in each word; the counts
    of counts n_1 .. of the orders from 2 on; and a claim to lmplz's last n-grams, which end in the word `last`: what
    `engine.count_last` returns, and how it changes the counts of counts.
    """
    n, W, N = job.order, len(job.seen), job.positions(b)
    with job.scratch.lent() as room:
        flat = room("flat", n - 1 + N * (n + 1), np.int32)
        flat[: n - 1] = 0
        rows = job.records.read(b, flat[n - 1 :]).reshape(N, n + 1)
        job.records.drop(b)
        order, heads = sort_rows(rows, W, room), room("heads", (W, 2), np.int32)
        contexts = compared(flat, n, order * np.int32(n + 1) + np.int32(n - 2), W, marks)
        come, begins = np.empty(N, np.int32), np.empty(N, kind_of_begins(n))
        ended = np.concatenate(([0], np.cumsum(np.bincount(rows[:, n], minlength=W))))
        heads[:, 0], heads[:, 1] = ended[:-1], -1
        follow(rows, order, contexts.begins, marks.sos, marks.eos, heads, come, begins)
        rank, words = ranks_of(begins, n, 1), room("words", (n - 1, N), np.int32)
        sizes = rank[:, -1, 1].tolist()
        find_oldest(rows, order, come, begins, W, words)
        words = [np.arange(W + 1, dtype=np.int32), *(row[:size] for row, size in zip(words, sizes[1:]))]
    base, start = np.cumsum([0, 0, W + 1, *sizes[1:]]), job.start(b)
    words = np.concatenate(words)
    events = suffix.Suffixes(begins, rank, words, base, sizes, ended, ended, come)
    counts = put_bucket(job, b, last, events, replace(contexts, start=start, ended=start))
    return np.diff(events.nodes(2, ended)), *counts


def put_bucket(job, b, last, events, contexts):
    """Puts a bucket's events and contexts, Suffixes without blocks, on the shelf. Returns the last two results of
    `sort_bucket`.
    """
    n, W, shelf, vocab = job.order, len(job.seen), job.shelf, job.vocab
    for name, x in (("events", events), ("contexts", contexts)):
        nonempty = np.flatnonzero(np.diff(x.ended))
        columns = {"begins": x.begins, "rank": x.rank, "sizes": np.array(x.sizes), "words": x.words[x.base[2] :]}
        columns["ends"] = np.stack((nonempty, x.ended[nonempty + 1] - x.ended[nonempty]))
        for field, column in columns.items():
            shelf.add((name, field, b), column)
    shelf.add(("come", b), events.come)
    job.came[b] = np.zeros((n + 1, len(job.bounds) - 1), np.int64)
    count_sources(*contexts_from(job, b), job.came[b])
    job.cuts[b] = np.array([0 * job.bounds, *(events.nodes(k, events.ended[job.bounds]) for k in range(1, n + 1))])
    estimator = engine.Estimator(events, vocab, job.methods, np.zeros(W, np.int64))
    counted = estimator.tally(events.ended[min(vocab.V, W)])
    changes = [np.zeros_like(n) for n in counted]
    claim = 0 if last is None else engine.count_last(changes, events, *events.ended[last : last + 2], vocab)
    return counted, (claim, changes)


def sort_rows(rows, W, room):
    """(N,) int32: the rows (N, n + 1), stably sorted by their words n - 1, n - 2 .. 0. room: of a Scratch. Bound by two
    random reads for each word of a row.
    """
    n = rows.shape[1] - 1
    order, other, column = room("order", (3, len(rows)), np.int32)
    order[:] = np.arange(len(rows))
    for d in range(n):
        column[:] = rows[:, d]
        if d < n - 1:
            column[column == 0] = W  # as <s>, the border comes last
        sort_by(order, column, 0, W + 1, other)
        order, other = other, order
    return order


@jit
def follow(rows, order, contexts, sos, eos, heads, come, begins):
    """come, begins (N,) <- as in `suffix`, for the events of sorted rows. contexts (N,): the `begins` of their
    contexts. heads (W, 2): where the events of each word begin, and -1; in place.

    Let i and i' > i be the contexts of two neighbouring events of a word. They have their last k words in common if no
    context of order k begins after i and up to i'. The last place where a context of each order began tells this.
    """
    N, n = len(order), rows.shape[1] - 1
    words, before = np.empty(SIZE, np.int32), np.empty(SIZE, np.int32)
    begun = np.full(n + 2, -1)
    for start in range(0, N, SIZE):
        size = min(SIZE, N - start)
        for i in range(size):
            row = order[start + i]
            words[i], before[i] = rows[row, n], rows[row, n - 1]
        for i in range(size):
            place, w = start + i, words[i]
            f, m = orders_at(contexts, place)
            for k in range(f, n):
                begun[k] = place
            at, last = heads[w, 0], heads[w, 1]
            common = np.int64(last >= 0)
            for k in range(1, n):
                common += (last >= 0) & (begun[k] <= last)
            m = min(m, n - 1) if before[i] else np.int64(sos)
            m = m + 1 if eos or w else 0
            come[at], begins[at] = place, (common + 1) | m << 4 * begins.itemsize
            heads[w, 0], heads[w, 1] = at + 1, place


@jit
def find_oldest(rows, order, come, begins, W, words):
    """words (n - 1, N) <- the oldest words of the events of sorted rows, as in Suffixes, from order 2 on."""
    N, n = len(order), len(words) + 1
    place, ends = np.empty(SIZE, np.int64), np.zeros(n + 1, np.int64)
    for start in range(0, N, SIZE):
        size = min(SIZE, N - start)
        for i in range(size):
            place[i] = order[come[start + i]]
            prefetch(rows, place[i] * (n + 1))
        for i in range(size):
            f, m = orders_at(begins, start + i)
            for k in range(max(f, 2), m + 1):
                word = rows[place[i], n + 1 - k]
                words[k - 2, ends[k]] = word if word else W
                ends[k] += 1


def compared(flat, n, order, W, marks):
    """The Suffixes, without `start` and `ended`, of contexts in suffix order. order (N,): the places in `flat` before
    their last words.
    """
    N, R = len(order), suffix.RANGE
    begins, places = np.empty(N, kind_of_begins(n)), np.arange(N, dtype=np.int32)
    oldest, words = np.empty((n, R + 1), np.int32), []
    for a in range(0, N, R):
        sizes = np.zeros(n, np.int64)
        suffix.compare(flat, n, order, places, a, min(a + R, N), W, marks.sos, marks.eos, begins, sizes, oldest)
        words.append([oldest[k, : sizes[k]].copy() for k in range(1, n)])
    rank = ranks_of(begins, n, 1)
    sizes = rank[:, -1, 1].tolist()
    words = np.concatenate([np.zeros(0, np.int32), *(part for column in zip(*words) for part in column)])
    base = np.cumsum([0, 0, 0, *sizes[1:]])
    return suffix.Suffixes(begins, rank, words, base, sizes)


@jit
def count_sources(begins, of, oldest, many):
    """many (n + 1, B) += how many n-grams of each order have their last word but one in each bucket. oldest: the first
    word of each bigram.
    """
    bigram, b = -1, 0
    for i in range(len(begins)):
        f, m = orders_at(begins, i)
        if f <= 2 and m >= 2:
            bigram += 1
            b = of[oldest[bigram]]
        for k in range(max(f, 2), m + 1):
            many[k, b] += 1
