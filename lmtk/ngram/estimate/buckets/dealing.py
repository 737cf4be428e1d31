"""Sends the records of each position of a text to the rank that has the bucket."""

import numpy as np

from lmtk.files.column import Shelf

BATCH = 1 << 18  # positions dealt out together


def deal_out(job, parts):
    """Deals the records of this rank's part of the text to their buckets, on all ranks: job.records."""
    n, comm, job.records = job.order, job.comm, Shelf()
    pieces, longest, done, total = overlapping(parts, n), 1, 0, int(job.seen.sum())
    while longest:
        x = next(pieces, np.zeros(n, np.int32))
        longest = comm.largest(len(x) - n)
        rank = job.bucket_of[x[n - 1 : -1]] % np.uint16(comm.size)
        rows = x[np.argsort(rank, kind="stable")[:, None] + np.arange(n + 1)]
        parts = np.split(rows, np.cumsum(np.bincount(rank, minlength=comm.size))[:-1])
        done += len(rows)
        job.show(min(1.0, done * comm.size / total), "dealing out")
        for received in comm.swap(parts):
            job.records.deal(received, job.bucket_of[received[:, n - 1]])


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
