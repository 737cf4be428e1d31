"""Deals a text's positions to buckets.

With few ranks, `share_text` gives every rank the whole text, and a bucket gets the places of its words. Otherwise
`deal_out` sends the records of each position to the rank that has the bucket. `records` takes a bucket's records in
either case.
"""

import numpy as np

from lmtk.files.column import Shelf
from lmtk.machine.jit import jit

BATCH = 1 << 18  # positions dealt out together


def share_text(job, parts):
    """Gives every rank the whole text, job.text, and the places of its own words in it, job.places."""
    n, N = job.order, int(job.seen.sum())
    job.text = np.empty(N + n, np.int32)
    x = job.text[n - 1 : -1]
    job.comm.join(np.concatenate([np.zeros(0, np.int32), *parts])[:, None], N, x[:, None])
    job.text[: n - 1], job.text[-1] = x[np.arange(1 - n, 0) % N], x[0]
    sizes = [job.positions(b) for b in job.rank_buckets]
    places, ends = np.empty(sum(sizes) + 1, np.int32), np.cumsum(sizes)
    head = np.full((len(job.bounds) - 1, 2), (sum(sizes), 0))
    head[job.rank_buckets, 0], head[job.rank_buckets, 1] = ends - sizes, 1
    find(x, job.of, head, places)
    job.places = dict(zip(job.rank_buckets, np.split(places[:-1], ends[:-1])))


@jit
def find(x, of, head, places):
    """places <- the positions in x (N,) of the words of each bucket, beginning at head[b, 0], which advances in place
    by head[b, 1]: 1, or 0 for buckets of other ranks. These all write to one unused place: a branch would cost more.
    """
    for p in range(len(x)):
        b = of[x[p]]
        places[head[b, 0]] = p
        head[b, 0] += head[b, 1]


def deal_out(job, parts):
    """Deals the records of this rank's part of the text to their buckets, on all ranks: job.records."""
    n, B, comm = job.order, len(job.bounds) - 1, job.comm
    pieces, longest, done, total = overlapping(parts, n), 1, 0, int(job.seen.sum())
    job.records, by_rank = Shelf(), job.by_rank
    while longest:
        x = next(pieces, np.zeros(n, np.int32))
        longest = comm.largest(len(x) - n)
        counts = np.bincount(job.of[x[n - 1 : -1]], minlength=B)
        rows = np.empty((len(x) - n, n + 1), np.int32)
        ends = np.cumsum(counts[by_rank])
        head = np.empty(B, np.int64)
        head[by_rank] = ends - counts[by_rank]
        deal(x, n, job.of, head, rows)
        parts = np.split(rows, ends[job.rounds - 1 : -1 : job.rounds])
        done += len(rows)
        rows, counts = comm.swap(parts), comm.swap(np.split(counts[by_rank], comm.size))
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


@jit
def deal(x, n, of, head, rows):
    """rows (M, n + 1) <- the records of x (M + n,); each bucket's begin at head (B,), which advances in place."""
    for i in range(len(rows)):
        b = of[x[i + n - 1]]
        for d in range(n + 1):
            rows[head[b], d] = x[i + d]
        head[b] += 1


def records(job, b, flat):
    """flat <- n - 1 zeros and the records of a bucket, which the job drops. Returns the records, (N, n + 1)."""
    n = job.order
    flat[: n - 1] = 0
    rows = flat[n - 1 :].reshape(-1, n + 1)
    if job.text is None:
        job.records.read(b, flat[n - 1 :])
        job.records.drop(b)
    else:
        copy_records(job.text, job.places.pop(b), rows)
    return rows


@jit
def copy_records(x, places, rows):
    """rows (N, n + 1) <- the records of some places of a text; x has the circle's other end on both sides."""
    for i in range(len(places)):
        for d in range(rows.shape[1]):
            rows[i, d] = x[places[i] + d]
