"""Passes the numbers of events to the buckets that have the same n-grams as contexts, and back."""

import numpy as np

from lmtk.machine.jit import jit
from lmtk.ngram.estimate import engine
from lmtk.ngram.estimate.buckets.division import contexts_from
from lmtk.ngram.estimate.suffix import orders_at

f32 = np.float32


@jit
def find_places(begins, of, oldest, k, head, place):
    """place (N,) <- for each context of order k, in suffix order, its place among the numbers sent by the buckets
    that have it as an event. Those from bucket b begin at head[b], which advances in place. begins, of, oldest: from
    `contexts_from`.
    """
    bigram, context = -1, 0
    for i in range(len(begins)):
        f, m = orders_at(begins, i)
        bigram += (f <= 2) & (m >= 2)
        if f <= k and k <= m:
            b = of[oldest[bigram]]
            place[context] = head[b]
            head[b] += 1
            context += 1


def fetch(job, k):
    """Yields for each of a rank's buckets, for the contexts of order k: (log10 p, nan if the model lacks them; their
    marks, or 0 if none is NEEDED).
    """
    for columns in fetch_parts(job, k, (p_for, marks_for) if job.needed else (p_for,)):
        yield columns if job.needed else (*columns, np.uint8(0))


def fetch_parts(job, k, parts):
    """Yields for each of a rank's buckets a list that has, for each of the `parts`, an array over the bucket's contexts
    of order k. part(job, b, k, to) -> the numbers (N,) of those events of bucket b that are contexts of the bucket
    `to`. All ranks swap them for one bucket of each rank at a time.
    """
    for t, b in enumerate(job.rank_buckets):
        columns = []
        for part in parts:
            of_ranks = [
                [part(job, source, k, job.of_rank(rank)[t]) for source in job.rank_buckets]
                for rank in range(job.comm.size)
            ]
            columns.append(job.comm.swap_all(of_ranks))
        place = places_of(job, b, k)
        yield [column[place] for column in columns]


def places_of(job, b, k):
    """(N,): the place of each context of order k in bucket b among the numbers that all buckets send, rank by rank."""
    size = job.came[b][k][job.by_rank]
    head = np.empty(len(size), np.int64)
    head[job.by_rank] = np.cumsum(size) - size
    place = np.empty(size.sum(), np.int64)
    find_places(*contexts_from(job, b), k, head, place)
    return place


def p_for(job, b, k, to):
    """log10 p of the events of order k in bucket b that end in a word of bucket `to`, nan if the model lacks them."""
    begin, end = job.cuts[b][k, to : to + 2].tolist()
    p = job.shelf.get(("p", b, k), f32, begin, end)
    return np.where(marks_for(job, b, k, to) & engine.IN_MODEL, p, f32(np.nan))


def marks_for(job, b, k, to):
    """The marks of the events of order k in bucket b that end in a word of the bucket `to`."""
    return job.shelf.get(("marks", b, k), np.uint8, *job.cuts[b][k, to : to + 2].tolist())
