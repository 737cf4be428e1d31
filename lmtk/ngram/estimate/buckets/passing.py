"""Passes the numbers of events to the buckets that have the same n-grams as contexts, and back."""

import numpy as np

from lmtk.machine.jit import jit
from lmtk.ngram.estimate import engine
from lmtk.ngram.estimate.buckets.division import contexts_from
from lmtk.ngram.estimate.suffix import orders_at

TOGETHER = 4  # buckets of each rank that get numbers at once, where memory is not bounded
f32 = np.float32


@jit
def arrive(begins, of, oldest, k, head, came, there, out):
    """out (N,) <- came, for the contexts of order k in suffix order. Those that are events of bucket b begin in `came`
    at head[b], which advances in place. Without `there`, the other way: came <- out. begins, of, oldest: as from
    `contexts_from`.
    """
    bigram, found = -1, 0
    for i in range(len(begins)):
        f, m = orders_at(begins, i)
        bigram += (f <= 2) & (m >= 2)
        if f <= k and k <= m:
            b = of[oldest[bigram]]
            if there:
                out[found] = came[head[b]]
            else:
                came[head[b]] = out[found]
            head[b] += 1
            found += 1


def fetch(job, k):
    """Yields for each of a rank's buckets, for the contexts of order k: (log10 p, nan if the model lacks them; their
    marks, or 0 if none is NEEDED).
    """
    for found in fetched(job, k, (own_p, own_marks) if job.needed else (own_p,)):
        yield found if job.needed else (*found, np.uint8(0))


def fetched(job, k, parts):
    """Yields for each of a rank's buckets a list that has, for each of the `parts`, an array over the bucket's contexts
    of order k. part(job, b, k, to) -> the numbers (N,) of those events of bucket b that are contexts of the bucket
    `to`. All ranks swap them for TOGETHER buckets at once or, if memory is bounded, for one.
    """
    P, T, together = job.comm.size, job.rounds, TOGETHER if job.ample else 1
    for first in range(0, T, together):
        columns = []
        for part in parts:
            own = [
                [part(job, b, k, to) for to in job.of_rank(rank)[first : first + together] for b in job.mine]
                for rank in range(P)
            ]
            columns.append(job.comm.swap_all(own))
        found_of = [job.came[b][k].reshape(T, P).T for b in job.mine[first : first + together]]
        begin = np.cumsum([0, *np.sum(found_of, (0, 2))])[:-1]  # where the next from each rank is
        for b, many in zip(job.mine[first : first + together], found_of):
            found = [np.empty(many.sum(), column.dtype) for column in columns]
            for column, out in zip(columns, found):
                arrive(*contexts_from(job, b), k, heads(job, many, begin), column, True, out)
            begin += many.sum(1)
            yield found


def heads(job, many, begin):
    """(B,): where the numbers from each bucket begin. many (P, T): how many come from the T buckets of each rank; begin
    (P,): where those from each rank begin.
    """
    head = np.empty(many.size, np.int64)
    head[job.by_rank] = (begin[:, None] + np.cumsum(many, 1) - many).ravel()
    return head


def own_p(job, b, k, to):
    """log10 p of the events of order k in bucket b that end in a word of bucket `to`, nan if the model lacks them."""
    begin, end = job.cuts[b][k, to : to + 2].tolist()
    p = job.shelf.get(("p", b, k), f32, begin, end)
    return np.where(own_marks(job, b, k, to) & engine.THERE, p, f32(np.nan))


def own_marks(job, b, k, to):
    """The marks of the events of order k in bucket b that end in a word of the bucket `to`."""
    return job.shelf.get(("marks", b, k), np.uint8, *job.cuts[b][k, to : to + 2].tolist())
