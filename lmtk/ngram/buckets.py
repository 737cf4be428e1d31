"""A large text's model in buckets, each sorted and estimated alone by the engine in memory: with little memory, the
buckets going through a file, or by several ranks, each of which owns some.

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

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from threading import Lock

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
LEAST = 64 << 20  # bytes for buckets, whatever -memory says
SOME = 1 << 18  # positions dealt out together
PART = 1 << 20  # of a bucket, where memory is not bounded
f32 = np.float32


@dataclass
class Buckets:
    """A model in buckets. Those of a rank are `mine`, as many on each rank; bounds (B + 1,): the first word of each;
    of (W,): the bucket of each word; seen (W,): how often each stands in the text. cuts: {bucket: (n + 1, B + 1)}, how
    many of its events of each order end in words before each bucket's. Order 1 is on every rank: log10p, log10bow,
    marks of the words.
    """

    vocab: Vocab
    order: int
    comm: object
    shelf: Shelf
    seen: np.ndarray
    bounds: np.ndarray
    alone: int
    together: int
    of: np.ndarray = None
    cuts: dict = field(default_factory=dict)
    log10p: np.ndarray = None
    log10bow: np.ndarray = None
    marks: np.ndarray = None
    sizes: list = None

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

    def each(self, work):
        """[work(b) for b in mine], in threads as far as there is memory for several."""
        large = [b for b in self.mine if self.positions(b) > self.alone]
        found = {b: work(b) for b in large}
        small = [b for b in self.mine if b not in found]
        with ThreadPoolExecutor(self.together) as pool:
            found |= dict(zip(small, pool.map(work, small)))
        return [found[b] for b in self.mine]


def estimate(text, vocab, methods, marks, memory, comm, fallback=None, tell=lambda line: None, known=None, exact=False):
    """A collection.Text -> Buckets, as `engine.estimate` has it: the same numbers. Every rank of `comm` has its part of
    the text. memory: bytes, or None.
    """
    job = divided(text, vocab, len(methods), memory, comm)
    deal_out(job, text.parts(vocab))
    bigrams, counted = count_all(job, methods, marks)

    def order_1():
        first = engine.unigrams(vocab, methods, engine.seen_words(job.seen, vocab, marks), lambda: bigrams)
        said = tell if comm.rank == 0 else lambda line: None
        return engine.smoothed_unigrams(vocab, methods, first, counted, fallback, said, known, exact)

    used, job.log10p, job.marks = comm.each(order_1)
    job.log10bow = np.zeros(len(job.log10p), f32)
    lacking = sum(job.each(partial(estimate_one, job, used, exact and vocab.V)))
    if comm.total(lacking):
        need_all(job, methods, not exact)
    common_words(job)
    sizes = [sum(there(job, b, k) for b in job.mine) for k in range(2, job.order + 1)]
    job.sizes = [int(np.count_nonzero(job.marks & engine.THERE)), *comm.sum(np.array(sizes, np.int64)).tolist()]
    return job


def divided(text, vocab, order, memory, comm):
    """Buckets without anything in them. Raises LmtkError where there is too little memory."""
    seen = comm.sum(text.seen(vocab))
    N, W, workers = int(seen.sum()), len(vocab.words), threads.count()
    room = max(memory - WORD * W, LEAST) // BYTES if memory else None
    most = max(1, room // workers if memory else min(PART, -(-N // (2 * workers * comm.size))))
    bounds = ranges(seen, comm.size, most)
    largest = int(np.diff(np.append(0, np.cumsum(seen))[bounds]).max())
    if memory and largest > room:
        word, needed = vocab.words[int(seen.argmax())], (largest * BYTES + WORD * W >> 20) + 1
        raise LmtkError(
            f"-memory is too small: the n-grams around '{shown(word)}', {largest} of {N} words, stay together in "
            f"memory; give {needed}M or more"
        )
    workers = workers if not memory or 2 * most <= room else 1
    return Buckets(vocab, order, comm, Shelf(memory), seen, bounds, most, workers)


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
    pieces, more = overlapping(parts, n), True
    while more:
        x = next(pieces, np.zeros(n, np.int32))
        more = comm.largest(len(x) - n)
        counts = np.bincount(job.of[x[n - 1 : -1]], minlength=B)
        rows = np.empty((len(x) - n, n + 1), np.int32)
        ends = np.cumsum(counts)
        deal(x, n, job.of, ends - counts, rows)
        parts = np.split(rows, ends[job.rounds - 1 : -1 : job.rounds])
        rows, counts = comm.swap(parts), comm.swap(np.split(counts, comm.size))
        for some, sizes in zip(rows, counts, strict=True):
            for b, part in zip(job.mine, np.split(some, np.cumsum(sizes)[:-1]), strict=True):
                if len(part):
                    job.shelf.add(("records", b), part)


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


def count_all(job, methods, marks):
    """Sorts every bucket; (how many bigrams end in each word (W,), n_1 .. of the orders from 2 on)."""
    bigrams, lock = np.zeros(len(job.seen), np.int64), Lock()

    def count(b):
        ended, counted = sort_bucket(job, b, methods, marks)
        with lock:
            bigrams[:] += ended
        return counted

    counted = [np.sum(columns, 0) for columns in zip(*job.each(count))]
    return job.comm.sum(bigrams), [job.comm.sum(n) for n in counted]


def sort_bucket(job, b, methods, marks):
    """Puts a bucket's Suffixes on the shelf; (how many bigrams end in each word, n_1 .. of the orders from 2 on)."""
    n, W, shelf, vocab = job.order, len(job.seen), job.shelf, job.vocab
    N = job.positions(b)
    flat = np.zeros(n - 1 + N * (n + 1), np.int32)
    shelf.read(("records", b), flat[n - 1 :])
    shelf.drop(("records", b))
    rows, order = flat[n - 1 :].reshape(-1, n + 1), np.arange(N, dtype=np.int32)
    for d in range(n):
        column = rows[:, d].copy()
        if d < n - 1:
            column[column == 0] = W  # as <s> the border comes last
        order = sorted_by(order, column, W + 1)
    following = rows[order, n]
    come = sorted_by(np.arange(N, dtype=np.int32), following, W)
    at = np.arange(N, dtype=np.int32) * np.int32(n + 1)
    ends = np.bincount(following, minlength=W)
    for name, places, last in (("events", order[come], n), ("contexts", order, n - 1)):
        begins, rank, sizes = compared(flat, n, at + np.int32(last - 1), places, marks)
        shelf.add((name, b), begins)
        shelf.add((name, "rank", b), rank)
        shelf.add((name, "sizes", b), sizes)
        given = flat, at[places] + np.int32(n + last - 1), begins, vocab, np.cumsum([0, 0, 0, *sizes[1:]])
        for what, column in zip(("words", "unknown"), named(*given)):
            shelf.add((name, what, b), column)
    shelf.add(("come", b), come + np.int32(-(-N // 64) * 64))
    some = np.flatnonzero(ends).astype(np.int32)
    shelf.add(("ends", b), np.concatenate((some, ends[some].astype(np.int32))))
    shelf.add(("before", b), job.of[rows[order, n - 2]])
    del flat, rows, order, following, come, at, places, given, column
    work = loaded(job, b, methods)
    x = work.suffixes
    heads = np.append(x.heads[0], N)
    job.cuts[b] = np.array(
        [[0] * len(job.bounds)] + [[x.node(k, heads[w]) for w in job.bounds] for k in range(1, n + 1)]
    )
    counted, ended = [], np.zeros(W, np.int64)
    for k in range(2, n + 1):
        upto = engine.asked(methods[k - 1])
        counted.append(np.zeros(upto, np.int64))
        for s in x.filled:
            found = work.gathered(k, s)
            count = np.minimum(work.counts(k, found)[: found.events], upto + 1)
            counted[-1] += np.bincount(count, minlength=upto + 2)[1:-1]
            if k == 2:
                ended += np.bincount(found.word, minlength=W)
    return ended, counted


def compared(flat, n, order, places, marks):
    """begins, rank and sizes of some records in suffix order, as in Suffixes."""
    N = len(places)
    begins, rank, sizes = np.zeros(N, np.uint8), np.zeros((n, -(-N // 64), 2), np.uint64), np.zeros(n, np.int64)
    suffix.compare(flat, n, order, places, 0, N, marks.sos, marks.eos, begins, rank, sizes)
    return begins, rank, sizes


def named(flat, places, begins, vocab, base):
    """Of each n-gram from order 2 on the oldest word, and whether <unk> is in it: those of order k from base[k] on."""
    names, unknown = np.empty(base[-1], np.int32), np.zeros(base[-1], np.bool_)
    name(flat, places, begins, vocab.sos_id, vocab.unk_id, base.copy(), names, unknown)
    return names, unknown


@jit
def name(flat, places, begins, sos, unk, at, names, unknown):
    """`named`, into names and unknown; at (n + 1,), in place; places (N,): where in `flat` the last words are."""
    for i in range(len(begins)):
        p, m = places[i], begins[i] >> 4
        for k in range(max(begins[i] & 15, 2), m + 1):
            word = flat[p - k + 1]
            names[at[k]] = word if word else sos
            for d in range(k):
                unknown[at[k]] |= flat[p - d] == unk
            at[k] += 1


def loaded(job, b, methods):
    """A bucket as an engine.Estimator."""
    n, W, get = job.order, len(job.seen), job.shelf.get
    N, (first, last) = job.positions(b), job.bounds[b : b + 2].tolist()
    edge = -(-N // 64) * 64
    (e, e_rank, e_sizes), (c, c_rank, c_sizes) = (stored(job, b, name) for name in ("events", "contexts"))
    c_rank[:, :, 1] += e_sizes[:, None].astype(np.uint64)
    rank = np.zeros((n, 2 * (edge // 64) + 2, 2), np.uint64)
    rank[:, :, 1] = (e_sizes + c_sizes)[:, None]
    rank[:, : edge // 64], rank[:, edge // 64 : -2] = e_rank, c_rank
    heads = np.zeros((3, W), np.int32)
    some, ends = get(("ends", b), np.int32).reshape(2, -1)
    heads[2, some] = ends
    heads[0] = np.cumsum(heads[2]) - heads[2]
    heads[2] += heads[0]
    heads[1] = heads[2 if first else 0]  # the border's are the last segment
    bounds = np.array([max(first, 1), max(last, 1)])
    begins = np.concatenate((e, np.zeros(edge - N, np.uint8), c))
    sizes = (e_sizes + c_sizes).tolist()
    x = suffix.Suffixes(get(("come", b), np.int32), begins, rank, heads, edge + job.start(b), bounds, sizes)
    work = engine.Estimator(x, job.vocab, methods)
    for what, kind in (("words", np.int32), ("unknown", np.bool_)):
        parts = [get((name, what, b), kind) for name in ("events", "contexts")]
        split = [np.split(part, np.cumsum(size[1:-1])) for part, size in zip(parts, (e_sizes, c_sizes))]
        if what == "words":
            for k, pair in enumerate(zip(*split), 2):
                np.concatenate(pair, out=work.words[k])
        elif work.unknown:
            work.unknown += [np.concatenate(pair) for pair in zip(*split)]
    return work


def stored(job, b, name):
    """begins, rank and sizes of a bucket's events or contexts."""
    n, get = job.order, job.shelf.get
    rank = get((name, "rank", b), np.uint64).reshape(n, -1, 2).copy()
    return get((name, b), np.uint8), rank, get((name, "sizes", b), np.int64)


def estimate_one(job, methods, exact, b):
    """The probabilities of a bucket's events and the weights of its contexts; how many events are left out."""
    work, shelf = loaded(job, b, methods), job.shelf
    work.log10p.append(job.log10p)
    work.log10bow.append(job.log10bow)
    work.marks.append(job.marks)
    lacking = work.estimate_all(methods, exact)
    for k in range(2, job.order + 1):
        events = job.cuts[b][k, -1]
        shelf.add(("p", b, k), work.log10p[k][:events])
        shelf.add(("marks", b, k), work.marks[k][:events])
        shelf.add(("bow", b, k), work.log10bow[k][events:])
        shelf.add(("extended", b, k), work.marks[k][events:])
    return lacking


def there(job, b, k):
    """How many of a bucket's events of order k the model has."""
    return int(np.count_nonzero(job.shelf.get(("marks", b, k), np.uint8) & engine.THERE))


def common_words(job):
    """Every rank gets the others' weights and marks of order 1."""
    first, last = (job.bounds[b] for b in (job.mine[0], job.mine[-1] + 1))
    for column in (job.log10bow, job.marks):
        some = np.append(column[first:last], column[-1:])
        found = job.comm.gather(some)
        column[:] = np.concatenate([*(x[:-1] for x in found), found[0][-1:]])


def sources(job, b, k):
    """The order in which a bucket's contexts of order k come from the buckets, and how many from each, (B,)."""
    begins = job.shelf.get(("contexts", b), np.uint8)
    came = job.shelf.get(("before", b), np.uint16)[((begins & 15) <= k) & (k <= begins >> 4)]
    return np.argsort(came, kind="stable"), np.bincount(came, minlength=len(job.bounds) - 1)


def fetch(job, k, t):
    """log10 p of the n-grams of order k that end in the t-th bucket of a rank, nan where the model has none."""
    parts = []
    for rank in range(job.comm.size):
        to, some = rank * job.rounds + t, [np.zeros(0, f32)]
        for b in job.mine:
            begin, end = job.cuts[b][k, to : to + 2].tolist()
            p, marks = (
                job.shelf.get((name, b, k), kind, begin, end) for name, kind in (("p", f32), ("marks", np.uint8))
            )
            some.append(np.where(marks & engine.THERE, p, f32(np.nan)))
        parts.append(np.concatenate(some))
    found = np.concatenate(job.comm.swap(parts))
    order, _ = sources(job, job.mine[t], k)
    p = np.empty(len(found), f32)
    p[order] = found
    return p


def need_all(job, methods, ends):
    """`engine.need_all`: order by order, from the highest, what the events need of their contexts goes from the
    buckets of these to those that have them as events.
    """
    for k in range(job.order, 1, -1):
        job.each(partial(need_one, job, methods, k, ends))
        for t in range(job.rounds if k > 2 else 0):
            order, sizes = sources(job, job.mine[t], k - 1)
            marks = job.shelf.get(("extended", job.mine[t], k - 1), np.uint8)[order]
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
            needed = np.concatenate(needed) & np.uint8(engine.THERE | engine.NEEDED)
            replace(job.shelf, ("marks", b, k - 1), needed | job.shelf.get(("marks", b, k - 1), np.uint8))
            for d in range(len(job.bounds) - 1):
                job.shelf.drop(("needed", b, d))


def need_one(job, methods, k, ends, b):
    """`engine.need_all` of a bucket and order."""
    work, shelf = loaded(job, b, methods), job.shelf
    work.marks = [None] * (k + 1)
    for d in (k - 1, k):
        parts = [shelf.get((name, b, d), np.uint8) for name in ("marks", "extended")] if d > 1 else [job.marks]
        work.marks[d] = np.concatenate(parts) if d > 1 else job.marks
    for s in work.suffixes.filled:
        suffixes = work.need_contexts(k, s)
        if ends and k > 2:
            work.marks[k - 1][suffixes] |= engine.THERE | engine.NEEDED
    if k > 2:
        events = job.cuts[b][k - 1, -1]
        replace(shelf, ("marks", b, k - 1), work.marks[k - 1][:events])
        replace(shelf, ("extended", b, k - 1), work.marks[k - 1][events:])


def replace(shelf, name, array):
    shelf.drop(name)
    shelf.add(name, array)


def write_arpa(out, job):
    """The model as ARPA, the same bytes as printing.write_estimate's, from rank 0; other ranks give no `out`."""
    cells = printing.word_cells(job.vocab.words)
    if out:
        printing.write_header(out, job.sizes)
    for k in range(1, job.order + 1):
        lines = lines_of(job, k, cells)
        if out:
            out.write(b"\n\\%d-grams:\n" % k)
        in_turn(job.comm, out, lines)
    if out:
        out.write(b"\n\\end\\\n")


def lines_of(job, k, cells):
    """The lines of order k of a rank's buckets, in pieces; those of order 1 are rank 0's."""
    if k == 1:
        x = suffix.Suffixes(None, None, None, None, None, None, job.sizes)
        model = engine.Estimate(job.vocab, x, None, None, [job.log10p], [job.log10bow], [job.marks])
        yield from printing.lines_of_words(model, cells) if job.comm.rank == 0 else ()
        return
    for t, b in enumerate(job.mine):
        begins, rank, sizes = stored(job, b, "contexts")
        tail = np.repeat(np.array([[0, s] for s in sizes], np.uint64)[:, None], 2, 1)
        x = suffix.Suffixes(None, begins, np.concatenate((rank, tail), 1), None, job.start(b), None, sizes.tolist())
        base = np.cumsum([0, 0, 0, *sizes[1:]])
        words = job.shelf.get(("contexts", "words", b), np.int32, 0, int(base[k + 1]))
        p = fetch(job, k, t)
        marks = (job.shelf.get(("extended", b, k), np.uint8) & np.uint8(engine.EXTENDED)) | ~np.isnan(p)
        columns = (p, job.shelf.get(("bow", b, k), f32), marks.astype(np.uint8))
        model = engine.Estimate(job.vocab, x, words, base, *([None] * (k - 1) + [column] for column in columns))
        yield from printing.lines_of_order(model, k, cells)


def in_turn(comm, out, lines):
    """The pieces of every rank, in their order, into rank 0's `out`."""
    if comm.rank == 0:
        out.writelines(lines)
        for rank in range(1, comm.size):
            comm.receive(rank, out.write)
        return
    kept = Shelf(True)
    for some in lines:
        kept.add("text", np.frombuffer(some, np.uint8))
    comm.send(kept.size("text"), lambda begin, end: kept.get("text", np.uint8, begin, end))
