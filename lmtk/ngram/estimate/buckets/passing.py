"""Passes the numbers of events to the buckets that have the same n-grams as contexts, and back."""

import numpy as np

from lmtk.machine.jit import jit
from lmtk.ngram.estimate.buckets.division import begins_of
from lmtk.ngram.estimate.suffix import orders_at


def fetch(job, k, kinds):
    """Yields for each of a rank's buckets a list of arrays over the bucket's contexts of order k: the columns of events
    that other buckets have on their shelves as (name, bucket, k). kinds: {name: type}. All ranks swap the numbers for
    one bucket of each rank at a time.
    """
    for t, b in enumerate(job.rank_buckets):
        receivers = [job.of_rank(rank)[t] for rank in range(job.comm.size)]
        cuts = [[(sender, job.cut(sender, k, to)) for sender in job.rank_buckets] for to in receivers]
        order, columns = np.argsort(senders_of(job, b, k), kind="stable"), []
        for name, kind in kinds.items():
            rows = [[job.shelf.get((name, sender, k), kind, *cut) for sender, cut in row] for row in cuts]
            columns.append(np.empty(len(order), kind))
            columns[-1][order] = np.concatenate(job.comm.swap([*map(np.concatenate, rows)]))
        yield columns


def senders_of(job, b, k):
    """Which bucket has each context of order k of bucket b as an event, (N,); that is the bucket of the context's last
    word but one. The buckets are numbered rank by rank, in uint16, since numpy sorts 16 bits by a radix sort.
    """
    numbers = np.arange(len(job.bounds) - 1, dtype=np.uint16).reshape(job.comm.size, -1).T.ravel()
    of_bigrams = numbers[job.bucket_of[job.shelf.get(("contexts", "oldest", b, 2), np.int32)]]
    of_ngrams = np.empty(1 + job.shelf.size(("contexts", "oldest", b, k)), np.uint16)
    spread(begins_of(job, b, "contexts"), k, of_bigrams, of_ngrams)
    return of_ngrams[:-1]


@jit
def spread(begins, k, of_bigrams, of_ngrams):
    """of_ngrams (N + 1,) <- for each n-gram of order k > 1, what `of_bigrams` has for the bigram that it ends with. The
    last entry is not for an n-gram.
    """
    bigram, i = -1, 0
    for j in range(len(begins)):
        f, m = orders_at(begins, j)
        bigram += (f <= 2) & (m >= 2)
        if k <= m:
            of_ngrams[i] = of_bigrams[bigram]
            i += f <= k
