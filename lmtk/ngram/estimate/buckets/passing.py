"""Passes the numbers of events to the buckets that have the same n-grams as contexts, and back."""

import numpy as np

from lmtk.ngram.estimate.buckets.division import begins_of
from lmtk.ngram.estimate.suffix import is_begin


def fetch(job, k, kinds):
    """Yields for each of a rank's buckets a list of arrays over the bucket's contexts of order k: the columns of events
    that other buckets have on their shelves as (name, bucket, k). kinds: {name: type}. All ranks swap the numbers for
    one bucket of each rank at a time.
    """
    for t, b in enumerate(job.rank_buckets):
        receivers = [job.of_rank(rank)[t] for rank in range(job.comm.size)]
        cuts = [[(sender, job.cut(sender, k, to)) for sender in job.rank_buckets] for to in receivers]
        order, columns = np.argsort(senders(job, b, k), kind="stable"), []
        for name, kind in kinds.items():
            rows = [[job.shelf.get((name, sender, k), kind, *cut) for sender, cut in row] for row in cuts]
            columns.append(np.empty(len(order), kind))
            columns[-1][order] = np.concatenate(job.comm.swap([*map(np.concatenate, rows)]))
        yield columns


def senders(job, b, k):
    """(N,): the place in `turns` of the bucket that has each context of order k in bucket b as an event. It is the
    bucket of the context's last word but one, which is the first word of a bigram.
    """
    begins = begins_of(job, b, "contexts")
    bigram = (np.cumsum(is_begin(begins, 2), dtype=np.int32) - 1)[is_begin(begins, k)]
    return job.turns[job.bucket_of[job.shelf.get(("contexts", "oldest", b, 2), np.int32)[bigram]]]
