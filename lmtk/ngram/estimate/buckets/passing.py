"""Passes the numbers of events to the buckets that have the same n-grams as contexts, and back."""

import numpy as np

from lmtk.machine.jit import jit
from lmtk.ngram.estimate.suffix import kind_of_begins, orders_at


@jit
def find_received(begins, bucket_of, oldest, k, head, place):
    """place (N,) <- for each context of order k, in suffix order, where its number stands among the numbers that other
    buckets sent. The numbers from bucket b begin at head[b], which advances in place. begins: of the contexts.
    bucket_of: the bucket of each word; oldest: the first word of each bigram.
    """
    bigram, context = -1, 0
    for i in range(len(begins)):
        f, m = orders_at(begins, i)
        bigram += (f <= 2) & (m >= 2)
        if f <= k and k <= m:
            b = bucket_of[oldest[bigram]]
            place[context] = head[b]
            head[b] += 1
            context += 1


def fetch(job, k, kinds):
    """Yields for each of a rank's buckets a list of arrays over the bucket's contexts of order k: the columns of events
    that other buckets have on their shelves as (name, bucket, k). kinds: {name: type}. All ranks swap the numbers for
    one bucket of each rank at a time.
    """
    for t, b in enumerate(job.rank_buckets):
        receivers = [job.of_rank(rank)[t] for rank in range(job.comm.size)]
        cuts = [[(sender, job.cut(sender, k, to)) for sender in job.rank_buckets] for to in receivers]
        place, columns = received_places(job, b, k), []
        for name, kind in kinds.items():
            parts = [[job.shelf.get((name, sender, k), kind, *cut) for sender, cut in row] for row in cuts]
            columns.append(job.comm.swap_all(parts)[place])
        yield columns


def received_places(job, b, k):
    """(N,): the place of each context of order k in bucket b among the numbers that all buckets send, rank by rank."""
    size = job.received[:, k, job.rank_buckets.index(b)]
    head = np.empty(len(size), np.int64)
    head[job.by_rank] = np.cumsum(size) - size
    place = np.empty(size.sum(), np.int64)
    begins = job.shelf.get(("contexts", "begins", b), kind_of_begins(job.order))
    find_received(begins, job.bucket_of, job.shelf.get(("contexts", "words", b), np.int32), k, head, place)
    return place
