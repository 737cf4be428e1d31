"""A text, or counts, -> a model in buckets.

`count` makes the buckets and sorts each; it adds up their counts of counts, estimates the discounts from these, and
estimates order 1. `estimate` estimates the longer n-grams, bucket by bucket, and marks those that an ARPA file needs.
One bucket that stays in memory is its `engine.Estimator`; others are on a shelf, from which `load` takes them.
"""

from functools import partial
from threading import Lock

import numpy as np

from lmtk.errors import LmtkError
from lmtk.machine.parallel import ALONE
from lmtk.ngram.counting.runs import Spilled
from lmtk.ngram.estimate import engine, suffix
from lmtk.ngram.estimate.buckets import of_counts, of_text
from lmtk.ngram.estimate.buckets.division import Buckets, begins_of, divide, ends_of, senders_of
from lmtk.ngram.estimate.smoothing import words_kept

f32 = np.float32


def count(ngrams, vocab, recipe, memory=None, comm=ALONE, show=lambda share, task: None, types=False):
    """Counts n-grams, and estimates the discounts and order 1: the Buckets that `estimate` goes on with. ngrams:
    suffix.Suffixes, which make one bucket in memory; or a collection.Text or runs.Spilled, dealt to buckets, the part
    of each rank of `comm`. recipe: a methods.Recipe. memory: bytes, or None. show: as in Buckets. types: as for an
    engine.Estimator. Raises NoDiscount, and LmtkError as `divide` does or if nothing is counted.
    """
    methods, kenlm, n = recipe.methods, recipe.kenlm, len(recipe.methods)
    inside, size = words_kept(recipe, vocab)
    if isinstance(ngrams, suffix.Suffixes):
        seen = np.diff(ngrams.start)
        ended = ngrams.continuations[1][:-1] if ngrams.raw else np.diff(ngrams.nodes(2, ngrams.start))
        job, sort = Buckets(vocab, n, ALONE, seen, np.array([0, len(seen)])), lambda job, b: (ended, ngrams)
        job.forget()
        job.estimator = engine.Estimator(ngrams, vocab, methods, seen, types, inside)
        seen = ngrams.raw[1] if ngrams.raw else engine.seen_words(job.seen, ngrams.marks)
        # of each order, the n-grams that end in a word of the vocabulary come first
        ends = [ngrams.nodes(k, [ngrams.ended[vocab.V]])[0] for k in range(2, ngrams.order + 1)]
        ends_in_word = any((raw[:end] > 0).any() for raw, end in zip((ngrams.raw or [])[2:], ends))
    elif isinstance(ngrams, Spilled):
        job, sort = divide(of_counts.seen(ngrams, vocab, n), "n-grams", vocab, n, memory, comm), of_counts.sort_bucket
        seen, ends_in_word = of_counts.deal_out(job, ngrams)
    else:
        job = divide(comm.sum(ngrams.seen(vocab)), "words", vocab, n, memory, comm)
        job.show, sort = show, partial(of_text.sort_bucket, marks=ngrams.marks)
        of_text.deal_out(job, ngrams.parts(vocab))
        seen, ends_in_word = engine.seen_words(job.seen, ngrams.marks), False
    if not (seen[: vocab.V] > 0).any() and (kenlm or not ends_in_word):
        raise LmtkError("the counts have no word of the vocabulary")
    job.show, job.inside, job.methods, job.kenlm = show, inside, methods, kenlm
    # -pau- is not predicted, and so in no counts of counts
    last = int(engine.last_word(seen, vocab)) if kenlm and methods[0].counts == "before" else vocab.V
    bigrams, counted = count_all(job, sort, last)
    job.records = None
    features = None
    if heldout := recipe.heldout:
        of_buckets = heldout.unseen()
        job.each(lambda b: heldout.of_estimator(load(job, b), of_buckets), "tuning discounts")
        features = [tuple(map(comm.sum, of_order)) for of_order in of_buckets]
    order_1 = partial(engine.smooth_unigrams, vocab, recipe, (inside, size), seen, bigrams, counted, features)
    job.methods, job.log10p, job.marks = comm.share(order_1)
    job.log10bow = np.full(len(job.log10p), np.nan, f32)
    job.forget()
    return job


def count_all(job, sort, last):
    """Sorts buckets by sort(job, b), such as `of_text.sort_bucket`. Returns (how many bigrams end in each word, (W,);
    the counts of counts from order 2 on). last: the last word in lmplz's order, as for `engine.count_last`.
    """
    bigrams, lock = np.zeros(len(job.seen), np.int64), Lock()

    def count(b):
        ended, events = sort(job, b)
        with lock:
            bigrams[:] += ended
        counted = engine.tally(events, job.methods, job.vocab)
        return counted, engine.count_last(counted, events, last, job.vocab)

    counted, lasts = zip(*job.each(count, "sorting"))
    counted = [job.comm.sum(np.sum(columns, 0)) for columns in zip(*counted)]
    _, changes = max(sum(job.comm.gather(lasts), ()), key=lambda last: last[0])
    return job.comm.sum(bigrams), [*map(np.add, counted, changes)]


def estimate(job):
    """Estimates the orders from 2 on of Buckets, on all ranks. Returns the Buckets."""
    left_out = sum(job.each(partial(estimate_one, job), "estimating"))
    if job.comm.sum(left_out):  # prefixes may be among those left out
        need_all(job)
    share_words(job)
    marks_of = lambda b, k: job.estimator.marks[k] if job.estimator else job.shelf.get(("marks", b, k), np.uint8)
    in_model = lambda marks: int(np.count_nonzero(marks & engine.IN_MODEL))
    sizes = [sum(in_model(marks_of(b, k)) for b in job.rank_buckets) for k in range(2, job.order + 1)]
    job.sizes = [in_model(job.marks), *job.comm.sum(np.array(sizes, np.int64)).tolist()]
    return job


def load(job, b):
    """The engine.Estimator of a bucket, with the methods and the order 1 of the model as far as they are estimated."""
    work = job.estimator or engine.Estimator(load_suffixes(job, b), job.vocab, job.methods, job.seen, inside=job.inside)
    work.scratch, work.methods = job.scratch, job.methods
    work.log10p[1], work.log10bow[1], work.marks[1] = job.log10p, job.log10bow, job.marks
    return work


def load_suffixes(job, b):
    """The Suffixes of a bucket on the shelf: the places of events, and behind them those of contexts."""
    get = job.shelf.get
    events, contexts = (begins_of(job, b, name) for name in ("events", "contexts"))
    begins, edge = np.concatenate((events, contexts)), np.int32(len(events))  # the contexts begin at `edge`
    ended = ends_of(job, b, "events")
    both = [[get((name, "oldest", b, k), np.int32) for k in range(2, job.order + 1)] for name in ("events", "contexts")]
    blocks, start = suffix.blocks_of(begins, ended, both[0][0]), edge + ends_of(job, b, "contexts")
    oldest = [None, None, *map(np.concatenate, zip(*both))]
    raw = continuations = None
    if ("raw", b, 2) in job.shelf.parts:
        raw = [None, None, *(get(("raw", b, k), np.int64) for k in range(2, job.order + 1))]
        continuations = [None, None, *(get(("continuations", b, k), np.int32) for k in range(2, job.order))]
    return suffix.Suffixes(begins, oldest, start, ended, get(("come", b), np.int32) + edge, *blocks, raw, continuations)


def estimate_one(job, b):
    """Estimates the probabilities of a bucket's events and the weights of its contexts. They are put on the shelf,
    unless the bucket is in memory. Returns how many events are left out.
    """
    work, shelf = load(job, b), job.shelf
    left_out = work.estimate_all(job.kenlm)
    for k in range(2, job.order + 1) if not job.estimator else ():
        events = job.cuts[b][k, -1]
        shelf.add(("p", b, k), work.log10p[k][:events])
        shelf.add(("marks", b, k), work.marks[k][:events])
        shelf.add(("bow", b, k), work.log10bow[k][events:])
    return left_out


def share_words(job):
    """Gives every rank the weights and marks of order 1 from the ranks whose buckets have the words."""
    needed = job.comm.max(job.marks & np.uint8(engine.NEEDED))
    words = np.flatnonzero(job.bucket_of % job.comm.size == job.comm.rank)
    for column in (job.log10bow, job.marks):
        for of_rank, values in job.comm.gather((words, column[words])):
            column[of_rank] = values
    job.marks |= needed


def need_all(job):
    """Marks the prefixes of n-grams, which an ARPA file needs, and the suffixes that `Estimator.need_order` marks, from
    the highest order down. The marks of contexts go to the buckets that have the same n-grams as events.
    """
    for k in range(job.order, 1, -1):
        job.each(partial(need_one, job, k), f"prefixes of {k}-grams")
        if k == 2 or job.estimator:
            continue
        for t, b in enumerate(job.rank_buckets):
            senders = senders_of(job, b, k - 1)
            of_ranks = np.bincount(senders, minlength=len(job.bounds) - 1).reshape(job.comm.size, -1).sum(1)
            marks = job.shelf.get(("of contexts", b, k - 1), np.uint8)[np.argsort(senders, kind="stable")]
            for rank, received in enumerate(job.comm.swap(np.split(marks, np.cumsum(of_ranks)[:-1]))):
                to = job.of_rank(rank)[t]
                cuts = {("needed", receiver, to): job.cut(receiver, k - 1, to) for receiver in job.rank_buckets}
                job.shelf.add_parts({name: end - begin for name, (begin, end) in cuts.items()}, received)
        for b in job.rank_buckets:
            parts = [job.shelf.take(("needed", b, to), np.uint8) for to in range(len(job.bounds) - 1)]
            name = ("marks", b, k - 1)
            job.shelf.replace(name, np.concatenate(parts) | job.shelf.get(name, np.uint8))


def need_one(job, k, b):
    """`need_all` for a bucket and an order, without the marks that come from other buckets."""
    work, shelf = load(job, b), job.shelf
    if job.estimator:
        work.need_order(k, not job.kenlm)
        return
    for d in range(max(k - 1, 2), k + 1):
        marks = np.concatenate([shelf.get((name, b, d), np.uint8) for name in ("marks", "of contexts")])
        work.marks[d][: len(marks)] = marks
    events = job.cuts[b][:, -1]
    if k > 2:
        work.log10bow[k - 1][events[k - 1] :] = shelf.get(("bow", b, k - 1), f32)
    work.need_order(k, not job.kenlm)
    if k > 2:
        shelf.replace(("marks", b, k - 1), work.marks[k - 1][: events[k - 1]])
        shelf.replace(("of contexts", b, k - 1), work.marks[k - 1][events[k - 1] :])
        shelf.replace(("bow", b, k - 1), work.log10bow[k - 1][events[k - 1] :])
