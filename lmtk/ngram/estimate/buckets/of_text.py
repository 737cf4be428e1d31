"""A text -> the events and contexts of its buckets in suffix order, as `of_counts` makes them of counts on disk."""

from collections import deque

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lmtk.files.column import Shelf
from lmtk.machine.threads import map_in_order
from lmtk.ngram.estimate import suffix
from lmtk.text.sorting import counts_of, heads_of, sort_ranges

BATCH = 1 << 18  # positions dealt out together


def deal_out(job, parts):
    """Deals the records of this rank's part of the text to their buckets, on all ranks: job.records."""
    job.records = Shelf()
    deal = lambda rows: job.records.deal(rows, job.bucket_of[rows[:, job.order - 1]])
    deque(map_in_order(deal, received(job, parts)), 0)


def received(job, parts):
    """Yields the records that the ranks send to this one, and sends those of its part of the text."""
    n, comm = job.order, job.comm
    batches, longest, done, total = records_of(parts, n), 1, 0, int(job.seen.sum())
    while longest:
        rows = next(batches, np.zeros((0, n + 1), np.int32))
        longest = comm.max(len(rows))
        done += len(rows)
        job.show(min(1.0, done * comm.size / total), "dealing out")
        if comm.size == 1:
            yield rows
        else:
            rank = job.bucket_of[rows[:, n - 1]] % np.uint16(comm.size)
            yield from comm.swap([np.compress(rank == r, rows, 0) for r in range(comm.size)])


def records_of(parts, n):
    """Yields the records (M, n + 1) of a text, in batches; the text counts as a circle."""
    before, first = np.zeros(n - 1, np.int32), None
    for part in parts:
        for at in range(0, len(part), BATCH):
            x = np.concatenate((before, part[at : at + BATCH]))
            first = x[n - 1 : n] if first is None else first
            if len(x) > n:
                yield sliding_window_view(x, n + 1)
            before = x[-n:]
    if first is not None:
        yield sliding_window_view(np.concatenate((before, first)), n + 1)


def sort_bucket(job, b, marks):
    """Puts a bucket's events and contexts on the shelf. Returns (the number of bigrams that end in each word, (W,); the
    events, Suffixes without blocks).
    """
    n, W, N = job.order, len(job.seen), job.positions(b)
    with job.scratch.lent() as room:
        x, starts = job.records.read((b,), room("records", N * (n + 1), np.int32)), []
        job.records.drop((b,))
        records = np.arange(0, N * (n + 1), n + 1, dtype=np.int32)
        order, other = records.copy(), np.empty(N, np.int32)
        for d in range(n + 1):
            heads = heads_of(x[d:], records, [(0, N)], counts_of(x[d :: n + 1], W))
            starts.append(np.append(heads[0], N))
            if d < n - 1:  # as <s>, the border comes last
                heads -= heads[0, 1]
                heads[:, 0] += N
            sort_ranges(x[d:], order, [(0, N)], heads, d == n, other)
            order, other = other, order
        come, order, places = order, other, np.arange(N, dtype=np.int32)
        contexts = suffix.compared(x, order, places, n, starts[n - 1], marks, 1)
        events = suffix.compared(x[1:], order, come, n, starts[n], marks, 1)
    put_bucket(job, b, events, contexts)
    return np.diff(events.nodes(2, events.ended)), events


def put_bucket(job, b, events, contexts):
    """Puts events and contexts, Suffixes without blocks, on the shelf."""
    n, shelf = job.order, job.shelf
    for name, x in (("events", events), ("contexts", contexts)):
        nonempty = np.flatnonzero(np.diff(x.ended))
        shelf.add((name, "begins", b), x.begins)
        shelf.add((name, "ends", b), np.stack((nonempty, x.ended[nonempty + 1] - x.ended[nonempty])))
        for k in range(2, n + 1):
            shelf.add((name, "oldest", b, k), x.oldest[k])
    shelf.add(("come", b), events.come)
    job.cuts[b] = np.array([0 * job.bounds, *(events.nodes(k, events.ended[job.bounds]) for k in range(1, n + 1))])
