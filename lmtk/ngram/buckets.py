"""A large text's model in buckets, each sorted and estimated alone by the engine in memory, and kept in a file: in
little memory, or by several ranks, each of which owns some.

symbol  shape    meaning
N n W   -        positions, the highest order, ids of the text as in `suffix`: 0, the border, and words
bucket  -        a range of words, and the positions q whose word x[q] is in it; the first has the border alone
record  (n + 1,) x[q - n + 1] .. x[q + 1], int32
context -        an n-gram that ends in x[q]: sorted with it, as in `suffix`; its weight, its words and its line are
                 made in this bucket
event   -        one that ends in x[q + 1], with a context in the bucket: its probability is made here

For an event of order k > 2 all that the probability is made of is in the bucket too: those of its context; its counts,
as what stands before it stands before the same x[q]; and the event without its oldest word. So buckets have only sums
in common (the words, the bigrams that end in each, the counts of counts), until the probabilities go, once, each from
the bucket of its n-gram's context to that of its last word. They need no keys: what goes from bucket c to d is, on
both sides, in suffix order.

To the engine a bucket is one Suffixes: the places of the events come first, those of the contexts from the next
multiple of 64 on.
"""

import contextlib
import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from threading import Lock
from types import SimpleNamespace

import numpy as np

from lmtk.errors import LmtkError, shown
from lmtk.files.column import Shelf
from lmtk.machine import threads
from lmtk.machine.jit import jit
from lmtk.ngram import engine, printing, suffix
from lmtk.ngram.counts import sorted_by
from lmtk.text.vocab import Vocab

BYTES = 230  # of memory that a position of a bucket takes while it is estimated
WORD = 500  # of memory that a word takes
THREAD = 128 << 20  # of -memory for each thread
LEAST = 64 << 20  # bytes for buckets, whatever -memory says
SOME = 1 << 18  # positions dealt out together
PART = 1 << 19  # of a bucket, where memory is not bounded
f32 = np.float32


@dataclass
class Buckets:
    """A model in buckets. Those of a rank are `mine`, as many on each rank; bounds (B + 1,): the first word of each;
    alone: the positions of a bucket up to which so many are worked on `together`; ample: whether memory is not bounded.
    of (W,): the bucket of each word; seen (W,): how often each stands in the text. cuts: {bucket: (n + 1, B + 1)}, how
    many of its events of each order end in words before each bucket's. Order 1 is on every rank: log10p, log10bow,
    marks of the words. records: those of each bucket, until they are sorted. show(share, what): told how much of a step
    is done.
    """

    vocab: Vocab
    order: int
    comm: object
    shelf: Shelf
    seen: np.ndarray
    bounds: np.ndarray
    alone: int
    together: int
    ample: bool
    of: np.ndarray = None
    cuts: dict = field(default_factory=dict)
    log10p: np.ndarray = None
    log10bow: np.ndarray = None
    marks: np.ndarray = None
    sizes: list = None
    needed: bool = False
    records: Shelf = None
    scratch: threads.Scratch = field(default_factory=threads.Scratch)
    show: Callable = lambda share, what: None

    def __post_init__(self):
        self.of = np.repeat(np.arange(len(self.bounds) - 1, dtype=np.uint16), np.diff(self.bounds))

    @property
    def rounds(self):
        """How many buckets a rank has."""
        return (len(self.bounds) - 1) // self.comm.size

    @property
    def mine(self):
        return range(self.comm.rank * self.rounds, (self.comm.rank + 1) * self.rounds)

    def positions(self, b):
        return int(self.seen[self.bounds[b] : self.bounds[b + 1]].sum())

    def start(self, b):
        """(W + 1,): the place of each word's first context in a bucket, from 0 on."""
        first, last = self.bounds[b : b + 2]
        start = np.zeros(len(self.seen) + 1, np.int64)
        np.cumsum(self.seen[first:last], out=start[first + 1 : last + 1])
        start[last + 1 :] = start[last]
        return start

    def each(self, work, what):
        """[work(b) for b in mine], in threads as far as there is memory for several."""
        done, found = [], {}

        def whole(b):
            found[b] = work(b)
            done.append(b)
            self.show(len(done) / self.rounds, what)

        small = [b for b in self.mine if self.positions(b) <= self.alone]
        for b in self.mine:
            if b not in small:
                whole(b)
        with ThreadPoolExecutor(self.together) as pool:
            for _ in pool.map(whole, small):
                pass
        return [found[b] for b in self.mine]


def estimate(
    text,
    vocab,
    methods,
    marks,
    memory,
    comm,
    fallback=None,
    tell=lambda line: None,
    known=None,
    exact=False,
    show=lambda share, what: None,
):
    """A collection.Text -> Buckets, as `engine.estimate` has it: the same numbers. Every rank of `comm` has its part of
    the text. memory: bytes, or None. show: as Buckets has it.
    """
    job = divided(text, vocab, len(methods), memory, comm)
    job.show, job.records = show, Shelf()
    deal_out(job, text.parts(vocab))
    bigrams, counted = count_all(job, methods, marks, exact)
    job.records = None

    def order_1():
        first = engine.unigrams(vocab, methods, engine.seen_words(job.seen, vocab, marks), lambda: bigrams)
        said = tell if comm.rank == 0 else lambda line: None
        return engine.smoothed_unigrams(vocab, methods, first, counted, fallback, said, known, exact and vocab.V)

    used, job.log10p, job.marks = comm.each(order_1)
    job.log10bow = np.full(len(job.log10p), np.nan, f32)
    lacking = sum(job.each(partial(estimate_one, job, used, exact and vocab.V), "estimating"))
    job.needed = comm.total(lacking) > 0
    if job.needed:
        need_all(job, methods, not exact)
    common_words(job)
    sizes = [sum(there(job, b, k) for b in job.mine) for k in range(2, job.order + 1)]
    job.sizes = [int(np.count_nonzero(job.marks & engine.THERE)), *comm.sum(np.array(sizes, np.int64)).tolist()]
    return job


def divided(text, vocab, order, memory, comm):
    """Buckets without anything in them. Raises LmtkError where there is too little memory."""
    if memory:
        threads.at_most(max(1, memory // THREAD))
    seen = comm.sum(text.seen(vocab))
    N, W, workers = int(seen.sum()), len(vocab.words), threads.count()
    room = max(memory - WORD * W, LEAST) // BYTES if memory else None
    most = max(1, room // workers if memory else min(PART, -(-N // (2 * workers * comm.size))))
    bounds = ranges(seen, comm.size, most)
    largest = int(np.diff(np.append(0, np.cumsum(seen))[bounds]).max())
    word = shown(vocab.words[int(seen.argmax())])
    if memory and largest > room:
        needed = (largest * BYTES + WORD * W >> 20) + 1
        raise LmtkError(
            f"-memory is too small: the n-grams around '{word}', {largest} of {N} words, stay together in memory; give "
            f"{needed}M or more"
        )
    if largest * (order + 1) >= 1 << 31 or len(bounds) > 1 << 16:
        raise LmtkError(f"the text is too large: '{word}' stands in it {seen.max()} times, {len(bounds)} buckets")
    workers = workers if not memory or 2 * most <= room else 1
    return Buckets(vocab, order, comm, Shelf(), seen, bounds, most, workers, not memory)


def ranges(seen, ranks, most):
    """The first word of each bucket, and the end, (B + 1,): as many buckets for each of the ranks, with about as many
    positions a rank, and up to `most` a bucket, or a single word's. seen (W,): each word's positions.
    """
    ends = np.cumsum(seen)
    shares = np.searchsorted(ends, ends[-1] * np.arange(1, ranks) / ranks)
    shares = np.concatenate(([1], np.clip(shares, 1, len(seen)), [len(seen)]))
    found = []
    for first, last in pairwise(shares.tolist()):
        cuts = [] if found else [0]
        while first < last:
            cuts.append(first)
            first = max(first + 1, min(int(np.searchsorted(ends, ends[first - 1] + most, "right")), last))
        found.append(cuts)
    rounds = max(1, *map(len, found))
    padded = [cuts + [last] * (rounds - len(cuts)) for cuts, last in zip(found, shares[1:].tolist())]
    return np.array([cut for cuts in padded for cut in cuts] + [len(seen)], np.int64)


def deal_out(job, parts):
    """The records of this rank's part of the text to their buckets, of whatever rank."""
    n, B, comm = job.order, len(job.bounds) - 1, job.comm
    pieces, more, done, total = overlapping(parts, n), True, 0, int(job.seen.sum())
    while more:
        x = next(pieces, np.zeros(n, np.int32))
        more = comm.largest(len(x) - n)
        counts = np.bincount(job.of[x[n - 1 : -1]], minlength=B)
        rows = np.empty((len(x) - n, n + 1), np.int32)
        ends = np.cumsum(counts)
        deal(x, n, job.of, ends - counts, rows)
        parts = np.split(rows, ends[job.rounds - 1 : -1 : job.rounds])
        done += len(rows)
        rows, counts = comm.swap(parts), comm.swap(np.split(counts, comm.size))
        job.show(min(1.0, done * comm.size / total), "dealing out")
        for some, sizes in zip(rows, counts, strict=True):
            for b, part in zip(job.mine, np.split(some, np.cumsum(sizes)[:-1]), strict=True):
                if len(part):
                    job.records.add(b, part)


def overlapping(parts, n):
    """A text in pieces, each with the n - 1 words before it and one after; it counts as a circle."""
    before, first = np.zeros(n - 1, np.int32), None
    for part in parts:
        for at in range(0, len(part), SOME):
            x = np.concatenate((before, part[at : at + SOME]))
            first = x[n - 1 : n] if first is None else first
            if len(x) > n:
                yield x
            before = x[-n:]
    if first is not None:
        yield np.concatenate((before, first))


@jit
def deal(x, n, of, head, rows):
    """rows (M, n + 1) <- the records of x (M + n,), those of a bucket together from head (B,), in place, on."""
    for i in range(len(rows)):
        b = of[x[i + n - 1]]
        for d in range(n + 1):
            rows[head[b], d] = x[i + d]
        head[b] += 1


def count_all(job, methods, marks, exact):
    """Sorts every bucket; (how many bigrams end in each word (W,), n_1 .. of the orders from 2 on)."""
    bigrams, lock = np.zeros(len(job.seen), np.int64), Lock()
    last = int(engine.last_word(job.seen, job.vocab)) if exact and methods[0].counts == "before" else None

    def count(b):
        ended, *found = sort_bucket(job, b, methods, marks, last)
        with lock:
            bigrams[:] += ended
        return found

    found = job.each(count, "sorting")
    counted = [job.comm.sum(np.sum(columns, 0)) for columns in zip(*(counted for counted, _ in found))]
    odd = [odd for part in job.comm.gather([odd for _, odd in found if odd]) for odd in part]
    if odd:  # that of the last bucket decides
        counted = [n + more for n, more in zip(counted, odd[-1])]
    return job.comm.sum(bigrams), counted


def sort_bucket(job, b, methods, marks, last):
    """Puts a bucket's Suffixes on the shelf. Returns how many bigrams end in each word; n_1 .. of the orders from 2 on;
    how these change by lmplz's last n-gram (engine.count_last, of the word `last`), if that may be here, else None.
    """
    n, W, shelf, vocab = job.order, len(job.seen), job.shelf, job.vocab
    N = job.positions(b)
    flat = np.empty(n - 1 + N * (n + 1), np.int32)
    flat[: n - 1] = 0
    job.records.read(b, flat[n - 1 :])
    job.records.drop(b)
    rows, order = flat[n - 1 :].reshape(-1, n + 1), np.arange(N, dtype=np.int32)
    for d in range(n):
        column = rows[:, d].copy()
        if d < n - 1:
            column[column == 0] = W  # as <s> the border comes last
        order = sorted_by(order, column, W + 1)
    following = rows[order, n]
    come = sorted_by(np.arange(N, dtype=np.int32), following, W)
    at = np.arange(N, dtype=np.int32) * np.int32(n + 1)
    for name, places, d in (("events", order[come], n - 1), ("contexts", order, n - 2)):
        for what, column in compared(flat, n, at + np.int32(d), places, W, marks).items():
            shelf.add((name, what, b), column)
    shelf.add(("come", b), come + np.int32(edge(N)))
    some, many = np.unique(following, return_counts=True)
    shelf.add(("following", b), np.stack((some, many)).astype(np.int64))
    shelf.add(("before", b), job.of[rows[order, n - 2]])
    del flat, rows, order, following, come, at, places, column, some, many
    work = loaded(job, b, methods)
    x = work.suffixes
    job.cuts[b] = np.array([0 * job.bounds, *(x.nodes(k, x.ended[job.bounds]) for k in range(1, n + 1))])
    counted = work.tallied(x.ended[min(vocab.V, W)])
    odd = [np.zeros_like(n) for n in counted]
    is_last = last is not None and engine.count_last(odd, x, x.ended[last], x.ended[last + 1], vocab)
    return np.diff(x.nodes(2, x.ended)), counted, odd if is_last else None


def edge(N):
    """The first place of the contexts in a bucket of N positions."""
    return -(-N // 64) * 64


def compared(flat, n, order, places, W, marks):
    """What Suffixes have of some records in suffix order."""
    N, R = len(places), suffix.RANGE
    begins, rank = np.empty(N, np.uint8), np.zeros((n, N // 64 + 2, 2), np.uint64)
    sizes, oldest, words = np.zeros((-(-N // R) + 1, n), np.int64), np.empty((n, R + 1), np.int32), []
    for r, a in enumerate(range(0, N, R)):
        given = a, min(a + R, N), W, marks.sos, marks.eos, begins, rank, sizes[r], oldest
        suffix.compare(flat, n, order, places, *given)
        words.append([oldest[k, : sizes[r, k]].copy() for k in range(1, n)])
    suffix.shift_ranks(rank, sizes, N)
    words = np.concatenate([np.zeros(0, np.int32), *(part for column in zip(*words) for part in column)])
    return {"begins": begins, "rank": rank, "sizes": sizes[-1], "words": words}


def stored(job, b, name):
    """begins, rank and sizes of a bucket's events or contexts."""
    kinds = {"begins": np.uint8, "rank": np.uint64, "sizes": np.int64}
    begins, rank, sizes = (job.shelf.get((name, what, b), kind) for what, kind in kinds.items())
    return begins, rank.reshape(job.order, -1, 2), sizes


def loaded(job, b, methods):
    """A bucket as an engine.Estimator."""
    W, get, vocab = len(job.seen), job.shelf.get, job.vocab
    N = job.positions(b)
    (e, e_rank, e_sizes), (c, c_rank, c_sizes) = (stored(job, b, name) for name in ("events", "contexts"))
    begins = np.concatenate((e, np.zeros(edge(N) - N, np.uint8), c))
    rank = np.concatenate((e_rank[:, : edge(N) // 64], c_rank), 1)
    rank[:, edge(N) // 64 :, 1] += e_sizes[:, None].astype(np.uint64)
    some, many = get(("following", b), np.int64).reshape(2, -1)
    ended = np.zeros(W + 1, np.int64)
    ended[some + 1] = many
    np.cumsum(ended, out=ended)
    sizes = (e_sizes + c_sizes).tolist()
    names = [get((name, "words", b), np.int32) for name in ("events", "contexts")]
    names = zip(*(np.split(part, np.cumsum(s[1:-1])) for part, s in zip(names, (e_sizes, c_sizes))))
    words = np.concatenate([np.arange(W + 1, dtype=np.int32), *(part for pair in names for part in pair)])
    base, start = np.cumsum([0, 0, W + 1, *sizes[1:]]), edge(N) + job.start(b)
    blocks = suffix.blocks_of(begins, ended, words[base[2] :][: e_sizes[1]])
    x = suffix.Suffixes(get(("come", b), np.int32), begins, rank, words, base, *blocks, start, ended, sizes)
    work = engine.Estimator(x, vocab, methods, job.seen)
    work.scratch = job.scratch
    return work


def estimate_one(job, methods, exact, b):
    """The probabilities of a bucket's events and the weights of its contexts; how many events are left out."""
    work, shelf = loaded(job, b, methods), job.shelf
    work.begin(job.log10p, job.log10bow, job.marks)
    lacking = work.estimate_all(methods, exact)
    for k in range(2, job.order + 1):
        events = job.cuts[b][k, -1]
        shelf.add(("p", b, k), work.log10p[k][:events])
        shelf.add(("marks", b, k), work.marks[k][:events])
        shelf.add(("bow", b, k), work.log10bow[k][events:])
    return lacking


def there(job, b, k):
    """How many of a bucket's events of order k the model has."""
    return int(np.count_nonzero(job.shelf.get(("marks", b, k), np.uint8) & engine.THERE))


def common_words(job):
    """Every rank gets the others' weights and marks of order 1."""
    first, last = (job.bounds[b] for b in (job.mine[0], job.mine[-1] + 1))
    needed = job.comm.max(job.marks & np.uint8(engine.NEEDED))
    for column in (job.log10bow, job.marks):
        some = np.append(column[first:last], column[-1:])
        found = job.comm.gather(some)
        column[:] = np.concatenate([*(x[:-1] for x in found), found[0][-1:]])
    job.marks |= needed


def sources(job, b, k):
    """The order in which a bucket's contexts of order k come from the buckets, and how many from each, (B,)."""
    begins = job.shelf.get(("contexts", "begins", b), np.uint8)
    came = job.shelf.get(("before", b), np.uint16)[((begins & 15) <= k) & (k <= begins >> 4)]
    return np.argsort(came, kind="stable"), np.bincount(came, minlength=len(job.bounds) - 1)


def fetch(job, k):
    """Yields log10 p of the n-grams of order k that end in each of a rank's buckets, nan where the model has none, and
    their marks, or 0 where none is NEEDED. They come together, or, where memory is short, for one bucket after another.
    """
    T, together = job.rounds, job.rounds if job.ample else 1
    for first in range(0, T, together):
        shares = [range(rank * T + first, rank * T + first + together) for rank in range(job.comm.size)]
        columns = []
        for part in (own_p, own_marks) if job.needed else (own_p,):
            own = [np.concatenate([part(job, b, k, to) for to in some for b in job.mine]) for some in shares]
            columns.append(job.comm.swap(own))
        at = [0] * job.comm.size
        for t in range(first, first + together):
            order, sizes = sources(job, job.mine[t], k)
            ends = [begin + int(size) for begin, size in zip(at, sizes.reshape(-1, T).sum(1))]
            found = []
            for column in columns:
                found.append(np.empty(len(order), column[0].dtype))
                found[-1][order] = np.concatenate([x[begin:end] for x, begin, end in zip(column, at, ends)])
            yield found if job.needed else (*found, np.uint8(0))
            at = ends


def own_p(job, b, k, to):
    """log10 p of the events of order k in bucket b that end in a word of the bucket `to`, nan where there is none."""
    begin, end = job.cuts[b][k, to : to + 2].tolist()
    return np.where(own_marks(job, b, k, to) & engine.THERE, job.shelf.get(("p", b, k), f32, begin, end), f32(np.nan))


def own_marks(job, b, k, to):
    """Their marks."""
    return job.shelf.get(("marks", b, k), np.uint8, *job.cuts[b][k, to : to + 2].tolist())


def need_all(job, methods, ends):
    """`engine.need_all`: order by order, from the highest, what the events need of their contexts goes from the
    buckets of these to those that have them as events.
    """
    for k in range(job.order, 1, -1):
        job.each(partial(need_one, job, methods, k, ends), f"prefixes of {k}-grams")
        for t in range(job.rounds if k > 2 else 0):
            order, sizes = sources(job, job.mine[t], k - 1)
            marks = job.shelf.get(("of contexts", job.mine[t], k - 1), np.uint8)[order]
            ends_of = np.cumsum(sizes)
            parts = np.split(marks, ends_of[job.rounds - 1 : -1 : job.rounds])
            for rank, some in enumerate(job.comm.swap(parts)):
                at, d = 0, rank * job.rounds + t
                for b in job.mine:
                    begin, end = job.cuts[b][k - 1, d : d + 2].tolist()
                    job.shelf.add(("needed", b, d), some[at : at + end - begin])
                    at += end - begin
        for b in job.mine if k > 2 else ():
            needed = [job.shelf.get(("needed", b, d), np.uint8) for d in range(len(job.bounds) - 1)]
            replace(
                job.shelf, ("marks", b, k - 1), np.concatenate(needed) | job.shelf.get(("marks", b, k - 1), np.uint8)
            )
            for d in range(len(job.bounds) - 1):
                job.shelf.drop(("needed", b, d))


def need_one(job, methods, k, ends, b):
    """`engine.need_all` of a bucket and order."""
    work, shelf = loaded(job, b, methods), job.shelf
    work.begin(job.log10p, job.log10bow, job.marks)
    for d in range(max(k - 1, 2), k + 1):
        parts = [shelf.get((name, b, d), np.uint8) for name in ("marks", "of contexts")]
        some = np.concatenate(parts)
        work.marks[d][: len(some)] = some
    events = job.cuts[b][:, -1]
    if k > 2:
        work.log10bow[k - 1][events[k - 1] :] = shelf.get(("bow", b, k - 1), f32)
    for segment in work.suffixes.segments:
        work.need_ends(k, work.need_contexts(k, segment), ends)
    if k > 2:
        replace(shelf, ("marks", b, k - 1), work.marks[k - 1][: events[k - 1]])
        replace(shelf, ("of contexts", b, k - 1), work.marks[k - 1][events[k - 1] :])
        replace(shelf, ("bow", b, k - 1), work.log10bow[k - 1][events[k - 1] :])


def replace(shelf, name, array):
    shelf.drop(name)
    shelf.add(name, array)


def write_arpa(out, job, path=None, layout=None):
    """The model as ARPA, the same bytes as printing.write_estimate's. Rank 0 has `out`, which is `path`."""
    layout, scratch, comm = layout or printing.plain(job.vocab.words), threads.Scratch(), job.comm
    file = opened(out, comm) if comm.size > 1 else None
    if out:
        printing.write_header(out, job.sizes, layout)
    for k in range(1, job.order + 1):
        kept = None if out else Shelf()
        lines = out or SimpleNamespace(write=lambda some, kept=kept: kept.add("lines", np.frombuffer(some, np.uint8)))
        if out:
            out.write(b"\n\\%d-grams:\n" % k)
        for done, model in enumerate(models_of(job, k), 1):
            printing.write_order(lines, model, k, layout, scratch)
            job.show(done / job.rounds, f"writing {k}-grams")
        if comm.size > 1:
            pass_on(comm, out, kept, file, path)
    if out:
        out.write(b"\n\\end\\\n")
    comm.gather(None)  # rank 0's file is whole when every rank has written
    if file is not None:
        os.close(file)


def opened(out, comm):
    """A descriptor of rank 0's `out` on every rank, None where it is no plain file that they all can write."""
    plain = out and isinstance(getattr(out, "raw", None), io.FileIO) and os.path.isfile(out.raw.name)
    name, file = comm.gather(out.raw.name if plain else None)[0], None
    with contextlib.suppress(OSError, TypeError):
        file = os.open(name, os.O_WRONLY)
    if comm.total(int(file is None)) and file is not None:
        os.close(file)
        return None
    return file


def pass_on(comm, out, kept, file, path):
    """What each rank has kept goes behind rank 0's `out`, in their order: each writes it, or rank 0 receives it."""
    if file is None:
        for rank in range(1, comm.size) if out else ():
            comm.receive(rank, out.write)
        if kept:
            comm.send(kept.end, lambda begin, end: kept.get("lines", np.uint8, begin, end))
        return
    sizes = comm.gather(out.tell() if out else kept.end)
    if out:
        out.seek(sum(sizes))
        return
    try:
        os.lseek(file, sum(sizes[: comm.rank]), os.SEEK_SET)
        sent = 0
        while sent < kept.end:
            sent += os.sendfile(file, kept.file.fileno(), sent, kept.end - sent)
    except OSError as e:
        e.filename = path
        raise


def models_of(job, k):
    """The buckets of a rank, each as an Estimate of those n-grams of order k whose lines it has; those of order 1 are
    rank 0's.
    """
    if k == 1 and job.comm.rank == 0:
        yield engine.Estimate(job.vocab, None, [job.log10p], [job.log10bow], [job.marks], None)
    for b, (p, marks) in zip(job.mine, fetch(job, k)) if k > 1 else ():
        begins, rank, sizes = stored(job, b, "contexts")
        base = np.cumsum([0, 0, 0, *sizes[1:]])
        # one more, as words_of reads one where there is none
        words = np.append(job.shelf.get(("contexts", "words", b), np.int32, 0, int(base[k + 1])), np.int32(0))
        x = suffix.Suffixes(None, begins, rank, words, base, None, None, job.start(b), None, sizes.tolist())
        marks = (marks & np.uint8(engine.NEEDED)) | ~np.isnan(p)
        found = p, job.shelf.get(("bow", b, k), f32), marks.astype(np.uint8)
        yield engine.Estimate(job.vocab, x, *([None] * (k - 1) + [column] for column in found), None)
