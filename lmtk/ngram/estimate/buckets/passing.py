"""Passes the numbers of events to the buckets that have the same n-grams as contexts, and back."""

import numpy as np

from lmtk.ngram.estimate.buckets.division import stored
from lmtk.ngram.estimate.suffix import is_begin


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
            rows = [[job.shelf.get((name, sender, k), kind, *cut) for sender, cut in row] for row in cuts]
            columns.append(np.concatenate(job.comm.swap([*map(np.concatenate, rows)]))[place])
        yield columns


def received_places(job, b, k):
    """(N,): the place of each context of order k in bucket b among the numbers that all buckets send, rank by rank. A
    context's number comes from the bucket of its last word but one, which is the first word of a bigram.
    """
    begins, _ = stored(job, b, "contexts")
    bigram = (np.cumsum(is_begin(begins, 2), dtype=np.int32) - 1)[is_begin(begins, k)]
    sender = job.bucket_of[job.shelf.get(("contexts", "words", b), np.int32)[bigram]]
    place = np.empty(len(sender), np.int64)
    place[np.argsort(job.turns[sender], kind="stable")] = np.arange(len(sender))
    return place
