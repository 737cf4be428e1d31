"""A vocabulary divided into buckets, and the arrays that each bucket has on the shelf. `fetch` passes the numbers of
events to the buckets that have the same n-grams as contexts.
"""

import numpy as np

from lmtk.errors import LmtkError, shown
from lmtk.files.bounded import trim
from lmtk.files.column import Shelf
from lmtk.machine import threads
from lmtk.machine.jit import jit
from lmtk.ngram.estimate.suffix import cut_words, kind_of_begins, orders_at
from lmtk.text.corpus import WORD_BYTES

BYTES = 230  # bytes of memory for each position of a bucket while it is estimated, up to order 7
THREAD = 128 << 20  # bytes of -memory for each thread
LEAST = 64 << 20  # bytes for buckets, whatever -memory says
PART = 1 << 18  # positions of a bucket where memory is not bounded, at most


class Buckets:
    """A model in buckets; each rank has the same number of buckets.

    seen (W,): how often each word occurs in the text or, for counts, how many n-grams have the word as their last or
    their last but one. bounds (B + 1,): the first word of each bucket. alone: threads work on buckets of up to `alone`
    positions side by side, on larger ones one by one. inside (W + 1,): which words n-grams may have, None for all.
    bucket_of (W + 1,): the bucket of each word, and of <s>.

    cuts: {bucket: (n + 1, B + 1)}, how many of its events of each order end in a word before each bucket's words.
    log10p, log10bow, marks: those of order 1, on every rank. sizes: the number of n-grams of each order in the model.

    estimator: the engine.Estimator of a single bucket in memory, which needs no shelf or cuts; else None.

    records: a Shelf with the records of each bucket until they are sorted. methods, kenlm: as in methods.Recipe; at the
    end the methods have their discounts. show(share, task): is called with the share of a task that is done.
    """

    def __init__(self, vocab, order, comm, seen, bounds, alone=0):
        self.vocab, self.order, self.comm, self.seen, self.bounds = vocab, order, comm, seen, bounds
        self.alone, self.shelf, self.scratch = alone, Shelf(), threads.Scratch()
        bucket_of = np.repeat(np.arange(len(bounds) - 1, dtype=np.uint16), np.diff(bounds))
        self.bucket_of, self.cuts, self.kenlm = np.append(bucket_of, bucket_of[0]), {}, False
        self.log10p = self.log10bow = self.marks = self.sizes = self.inside = self.methods = None
        self.records = self.estimator = None
        self.show = lambda share, task: None

    @property
    def rank_buckets(self):
        return self.of_rank(self.comm.rank)

    def of_rank(self, rank):
        """The buckets of a rank."""
        return range(rank, len(self.bounds) - 1, self.comm.size)

    def positions(self, b):
        return int(self.seen[self.bounds[b] : self.bounds[b + 1]].sum())

    def cut(self, b, k, to):
        """(first, end) of the events of order k in bucket b that end in a word of the bucket `to`."""
        return self.cuts[b][k, to : to + 2].tolist()

    def forget(self):
        """Gives back memory that the steps so far have used."""
        self.scratch.free.clear()
        trim()

    def each(self, work, task):
        """[work(b) for b in rank_buckets], in threads if there is memory for several. Buckets of rare words come first:
        they take the most memory, which the others use afterwards. In the end it is freed. task: for the progress bar.
        """
        results, buckets = {}, self.rank_buckets

        def run(b):
            results[b] = work(b)
            self.show(len(results) / len(buckets), task)

        for b in reversed(buckets):
            if self.positions(b) > self.alone:
                run(b)
        threads.map_at_once(run, [b for b in reversed(buckets) if b not in results])
        self.forget()
        return [results[b] for b in buckets]


def divide(seen, unit, vocab, order, memory, comm):
    """Empty Buckets for a text's positions, or for counted n-grams. seen: as in Buckets; unit: of `seen`, "words" or
    "n-grams"; memory: bytes, or None. Raises LmtkError if the memory is too small for a bucket, or the text too large.
    """
    if memory:
        threads.use(min(threads.thread_count(), max(1, memory // THREAD)))  # each thread needs memory of its own
    N, W = int(seen.sum()), len(vocab.words)
    workers = comm.max(threads.thread_count())  # all ranks must divide the words alike
    position_bytes = max(BYTES, 35 * order - 40)
    room, most = N, min(PART, -(-N // (4 * workers * comm.size)))
    if memory:
        room = max(memory - WORD_BYTES * W, LEAST) // position_bytes  # positions that fit into memory together
        most = room // workers
    start = np.append(0, np.cumsum(seen))
    bounds = [0, *cut_words(start, most)]
    bounds = np.array(bounds + [len(seen)] * ((1 - len(bounds)) % comm.size))  # as many buckets for each rank
    largest = int(np.diff(start[bounds]).max())
    word = shown(vocab.words[int(seen.argmax())])
    if largest > room:
        needed = (largest * position_bytes + WORD_BYTES * W >> 20) + 1
        raise LmtkError(
            f"-memory is too small: '{word}' accounts for {largest} of the {N} {unit}, which must be in memory "
            f"together; give {needed}M or more"
        )
    if largest * (order + 1) >= 1 << 31 or len(bounds) > 1 << 16:
        reason = f"'{word}' occurs {seen.max()} times, and there are {len(bounds)} buckets"
        raise LmtkError(f"the text is too large: {reason}; use a part of it, or a lower -order")
    return Buckets(vocab, order, comm, seen, bounds, most)


def begins_of(job, b, name):
    """`begins` of suffix.Suffixes, of a bucket's "events" or "contexts"."""
    return job.shelf.get((name, "begins", b), kind_of_begins(job.order))


def ends_of(job, b, name):
    """(W + 1,): the place of each word's first event, or context, in a bucket."""
    words, sizes = job.shelf.get((name, "ends", b), np.int64).reshape(2, -1)
    ends = np.zeros(len(job.seen) + 1, np.int64)
    ends[words + 1] = sizes
    return np.cumsum(ends)


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
