"""Sends the records of each position of a text to the rank that has the bucket."""

import numpy as np

from lmtk.files.column import Shelf

BATCH = 1 << 18  # positions dealt out together


def deal_out(job, parts):
    """Deals the records of this rank's part of the text to their buckets, on all ranks: job.records."""
    n, comm, rounds = job.order, job.comm, len(job.rank_buckets)
    pieces, longest, done, total = overlapping(parts, n), 1, 0, int(job.seen.sum())
    turns, job.records = job.turns, Shelf()
    while longest:
        x = next(pieces, np.zeros(n, np.int32))
        longest = comm.largest(len(x) - n)
        turn = turns[job.bucket_of[x[n - 1 : -1]]]
        rows = x[np.argsort(turn, kind="stable")[:, None] + np.arange(n + 1)]
        counts = np.bincount(turn, minlength=len(turns))
        parts = np.split(rows, np.cumsum(counts)[rounds - 1 : -1 : rounds])
        done += len(rows)
        rows, counts = comm.swap(parts), comm.swap(np.split(counts, comm.size))
        job.show(min(1.0, done * comm.size / total), "dealing out")
        for received, sizes in zip(rows, counts, strict=True):
            for b, part in zip(job.rank_buckets, np.split(received, np.cumsum(sizes)[:-1]), strict=True):
                if len(part):
                    job.records.add(b, part)


def overlapping(parts, n):
    """Yields a text in pieces, each with the n - 1 words before it and one after; the text counts as a circle."""
    before, first = np.zeros(n - 1, np.int32), None
    for part in parts:
        for at in range(0, len(part), BATCH):
            x = np.concatenate((before, part[at : at + BATCH]))
            first = x[n - 1 : n] if first is None else first
            if len(x) > n:
                yield x
            before = x[-n:]
    if first is not None:
        yield np.concatenate((before, first))
