"""A text -> the events and contexts of its buckets in suffix order, as `of_counts` makes them of counts on disk."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lmtk.files.column import Shelf
from lmtk.ngram.counting.counts import sorted_by
from lmtk.ngram.estimate import suffix

BATCH = 1 << 18  # positions dealt out together


def deal_out(job, parts):
    """Deals the records of this rank's part of the text to their buckets, on all ranks: job.records."""
    n, comm, job.records = job.order, job.comm, Shelf()
    batches, longest, done, total = records_of(parts, n), 1, 0, int(job.seen.sum())
    while longest:
        rows = next(batches, np.zeros((0, n + 1), np.int32))
        longest = comm.max(len(rows))
        rank = job.bucket_of[rows[:, n - 1]] % np.uint16(comm.size)
        done += len(rows)
        job.show(min(1.0, done * comm.size / total), "dealing out")
        for received in comm.swap([np.compress(rank == r, rows, 0) for r in range(comm.size)]):
            job.records.deal(received, job.bucket_of[received[:, n - 1]])


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
        flat = room("flat", n - 1 + N * (n + 1), np.int32)
        flat[: n - 1] = 0
        rows = job.records.read((b,), flat[n - 1 :]).reshape(N, n + 1)
        job.records.drop((b,))
        order = np.arange(N, dtype=np.int32)
        for d in range(n):
            column = rows[:, d].copy()
            if d < n - 1:
                column[column == 0] = W  # as <s>, the border comes last
            order = sorted_by(order, column, W + 1)
        start, ended = (np.append(0, np.cumsum(np.bincount(rows[:, d], minlength=W))) for d in (n - 1, n))
        places = np.arange(N, dtype=np.int32)
        come = sorted_by(places, rows[order, n], W)
        at = order * np.int32(n + 1) + np.int32(n - 2)
        contexts = suffix.compared(flat, at, places, n, start, marks, 1)
        events = suffix.compared(flat, at + np.int32(1), come, n, ended, marks, 1)
    put_bucket(job, b, events, contexts)
    return np.diff(events.nodes(2, ended)), events


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
