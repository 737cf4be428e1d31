"""Sends the records of each position of a text to the rank that has the bucket."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lmtk.files.column import Shelf

BATCH = 1 << 18  # positions dealt out together


def deal_out(job, parts):
    """Deals the records of this rank's part of the text to their buckets, on all ranks: job.records."""
    n, comm, job.records = job.order, job.comm, Shelf()
    batches, longest, done, total = records_of(parts, n), 1, 0, int(job.seen.sum())
    while longest:
        rows = next(batches, np.zeros((0, n + 1), np.int32))
        longest = comm.largest(len(rows))
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
