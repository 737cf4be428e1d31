"""A large text's model in buckets, each sorted and estimated alone by the engine in memory: in little memory, where
they are kept in a file, or by several ranks, each of which owns some.

symbol  shape    meaning
N n W   -        positions, the highest order, ids of the text as in `suffix`: 0, the border, and words
bucket  -        a range of words, and the positions q whose word x[q] is in it; the first has the border alone. Rank r
                 of P has every P-th from r on: frequent words and rare ones
record  (n + 1,) x[q - n + 1] .. x[q + 1], int32
context -        an n-gram that ends in x[q]: sorted with it, as in `suffix`; its weight, its words and its line are
                 made in this bucket
event   -        one that ends in x[q + 1], with a context in the bucket: its probability is made here

For an event of order k > 2 all that the probability is made of is in the bucket too: those of its context; its counts,
as what stands before it stands before the same x[q]; and the event without its oldest word. So buckets have only sums
in common (the words, the bigrams that end in each, the counts of counts), until the probabilities go, once, each from
the bucket of its n-gram's context to that of its last word. They need no keys: what goes from bucket c to d is, on
both sides, in suffix order.

Few ranks get the whole text, 4 bytes a position, and make the records of a bucket when it is sorted; where memory is
bounded, or the records of a rank's buckets are fewer bytes, these go to it.

To the engine a bucket is one Suffixes: the places of the events come first, those of the contexts from the next
multiple of 64 on.
"""

import contextlib
import dataclasses
import io
import os
from collections import deque
from collections.abc import Callable
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
from lmtk.machine.memory import trim
from lmtk.ngram import engine, printing, suffix
from lmtk.ngram.runs import Spilled
from lmtk.ngram.smoothing import words_kept
from lmtk.ngram.suffix import kind_of_begins, orders_at, prefetch
from lmtk.text.vocab import Vocab

BYTES = 230  # of memory that a position of a bucket takes while it is estimated, of orders up to 7
WORD = 500  # of memory that a word takes
THREAD = 128 << 20  # of -memory for each thread
LEAST = 64 << 20  # bytes for buckets, whatever -memory says
SOME = 1 << 18  # positions dealt out together
PART = 1 << 18  # of a bucket, where memory is not bounded
TOGETHER = 4  # buckets of a rank that get their probabilities at once, there
SIZE = suffix.SOME
f32 = np.float32


@dataclass
class Buckets:
    """A model in buckets, as many on each rank; bounds (B + 1,): the first word of each; alone: the positions of a
    bucket up to which so many are worked on `together`; ample: whether memory is not bounded; counts: whether it has
    n-grams and how often each was seen in place of positions; inside (W,): the words whose n-grams alone are kept, or
    None. of (W,): the bucket of each word; seen (W,): how often each stands in the text, or how many n-grams are around
    it. cuts: {bucket: (n + 1, B + 1)}, how many of its events of each order end in words before each bucket's; came:
    {bucket: (n + 1, B)}, how many of its contexts are events of each bucket. Order 1 is on every rank: log10p,
    log10bow, marks of the words. Until the buckets are sorted: records of each, or the text (N + n,) in a circle and
    places, where the words of each are. methods, exact: the Recipe's, the methods with their discounts in the end.
    show(share, what): told how much of a step is done.
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
    counts: bool
    inside: np.ndarray = None
    of: np.ndarray = None
    cuts: dict = field(default_factory=dict)
    came: dict = field(default_factory=dict)
    log10p: np.ndarray = None
    log10bow: np.ndarray = None
    marks: np.ndarray = None
    sizes: list = None
    needed: bool = False
    records: Shelf = None
    text: np.ndarray = None
    places: dict = None
    methods: list = None
    exact: bool = False
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
        return self.of_rank(self.comm.rank)

    def of_rank(self, rank):
        """The buckets of a rank."""
        return range(rank, len(self.bounds) - 1, self.comm.size)

    @property
    def by_rank(self):
        """(B,), the buckets by rank."""
        return np.arange(len(self.bounds) - 1).reshape(-1, self.comm.size).T.ravel()

    def positions(self, b):
        return int(self.seen[self.bounds[b] : self.bounds[b + 1]].sum())

    def start(self, b):
        """(W + 1,): the place of each word's first context in a bucket, from 0 on."""
        first, last = self.bounds[b : b + 2]
        start = np.zeros(len(self.seen) + 1, np.int64)
        np.cumsum(self.seen[first:last], out=start[first + 1 : last + 1])
        start[last + 1 :] = start[last]
        return start

    def forget(self):
        """Gives the memory of a step back, which the next one would not use."""
        self.scratch = threads.Scratch()
        trim()

    def each(self, work, what):
        """[work(b) for b in mine], in threads as far as there is memory for several. Those of rare words come first:
        they take the most memory, and the others then find room in it.
        """
        done, found = [], {}

        def whole(b):
            found[b] = work(b)
            done.append(b)
            self.show(len(done) / self.rounds, what)

        small = [b for b in reversed(self.mine) if self.positions(b) <= self.alone]
        for b in reversed(self.mine):
            if b not in small:
                whole(b)
        with ThreadPoolExecutor(self.together) as pool:
            for _ in pool.map(whole, small):
                pass
        return [found[b] for b in self.mine]


def count(text, vocab, recipe, marks, memory, comm, show=lambda share, what: None):
    """A collection.Text, or runs.Spilled, -> Buckets whose n-grams are counted, with their discounts and order 1: the
    rest is for `estimate`. The numbers are those of engine.estimate. recipe: a methods.Recipe. Every rank of `comm` has
    its part of the text. memory: bytes, or None. show: as Buckets has it.
    """
    methods, exact, n = recipe.methods, recipe.exact, len(recipe.methods)
    inside, size = words_kept(recipe, vocab)
    if isinstance(text, Spilled):
        from lmtk.ngram import counted as counts

        job, sort = divided(counts.seen(text, vocab, n), "n-grams", vocab, n, memory, comm), counts.sort_bucket
        seen = counts.deal_out(job, text, exact)
    else:
        job, sort = (
            divided(comm.sum(text.seen(vocab)), "words", vocab, n, memory, comm),
            partial(sort_bucket, marks=marks),
        )
        job.show = show
        small = job.ample and comm.size <= n + 1 and job.seen.sum() < 1 << 31
        (share_text if small else deal_out)(job, text.parts(vocab))
        seen = comm.share(lambda: engine.seen_words(job.seen, vocab, marks))
    job.show, job.inside, job.methods, job.exact = show, inside, methods, exact
    last = int(engine.last_word(seen, vocab)) if exact and methods[0].counts == "before" else None
    bigrams, counted = count_all(job, partial(sort, job, last=last))
    job.records = job.text = job.places = None
    job.forget()

    features = features_of(job, recipe.heldout) if recipe.heldout else None

    def order_1():
        first = engine.unigrams(vocab, methods, seen, lambda: bigrams)
        first.inside = inside
        known = recipe.tuned(first, features) if recipe.heldout else recipe
        return engine.smoothed_unigrams(vocab, known, size, first, counted)

    job.methods, job.log10p, job.marks = comm.share(order_1)
    job.log10bow = np.full(len(job.log10p), np.nan, f32)
    return job


def estimate(job):
    """Orders 2 and on of Buckets. Returns these."""
    job.needed = job.comm.total(sum(job.each(partial(estimate_one, job), "estimating"))) > 0
    if job.needed:
        need_all(job, not job.exact)
    common_words(job)
    job.forget()
    sizes = np.array([sum(there(job, b, k) for b in job.mine) for k in range(2, job.order + 1)], np.int64)
    job.sizes = [int(np.count_nonzero(job.marks & engine.THERE)), *job.comm.sum(sizes).tolist()]
    return job


def divided(seen, what, vocab, order, memory, comm):
    """Buckets without anything in them, of the positions of a text, or of n-grams. Raises LmtkError where there is too
    little memory.
    """
    if memory:
        threads.at_most(max(1, memory // THREAD))
    N, W, workers = int(seen.sum()), len(vocab.words), threads.count()
    each = max(BYTES, 35 * order - 40)
    room = max(memory - WORD * W, LEAST) // each if memory else None
    most = max(1, room // workers if memory else min(PART, -(-N // (2 * workers * comm.size))))
    bounds = ranges(seen, comm.size, most, not memory)
    largest = int(np.diff(np.append(0, np.cumsum(seen))[bounds]).max())
    word = shown(vocab.words[int(seen.argmax())])
    if memory and largest > room:
        needed = (largest * each + WORD * W >> 20) + 1
        raise LmtkError(
            f"-memory is too small: the n-grams around '{word}', {largest} of {N} {what}, stay together in memory; "
            f"give {needed}M or more"
        )
    if largest * (order + 1) >= 1 << 31 or len(bounds) > 1 << 16:
        raise LmtkError(f"the text is too large: '{word}' stands in it {seen.max()} times, {len(bounds)} buckets")
    workers = workers if not memory or 2 * most <= room else 1
    return Buckets(vocab, order, comm, Shelf(), seen, bounds, most, workers, not memory, what != "words")


def ranges(seen, ranks, most, even):
    """The first word of each bucket, and the end, (B + 1,): as many buckets for each of the ranks, with up to `most`
    positions a bucket, or a single word's, or, with `even`, about as many in each. seen (W,): each word's positions.
    """
    ends, W = np.cumsum(seen), len(seen)
    if even:
        B = ranks * (1 - int(-ends[-1] // (ranks * most)))
        shares = ends[0] + (ends[-1] - ends[0]) * np.arange(1, B - 1) / (B - 1)
        return np.array([0, 1, *np.clip(np.searchsorted(ends, shares), 1, W), W][: B + 1])
    cuts, first = [0], 1
    while first < W:
        cuts.append(first)
        first = max(first + 1, int(np.searchsorted(ends, ends[first - 1] + most, "right")))
    return np.array(cuts + [W] * (1 + -len(cuts) % ranks))


def share_text(job, parts):
    """Every rank gets the text, and finds the places of its own words."""
    n, N = job.order, int(job.seen.sum())
    job.text = np.empty(N + n, np.int32)
    x = job.text[n - 1 : -1]
    job.comm.join(np.concatenate([np.zeros(0, np.int32), *parts])[:, None], N, x[:, None])
    job.text[: n - 1], job.text[-1] = x[np.arange(1 - n, 0) % N], x[0]
    sizes = [job.positions(b) for b in job.mine]
    places, ends = np.empty(sum(sizes) + 1, np.int32), np.cumsum(sizes)
    head = np.full((len(job.bounds) - 1, 2), (sum(sizes), 0))
    head[job.mine, 0], head[job.mine, 1] = ends - sizes, 1
    find(x, job.of, head, places)
    job.places = dict(zip(job.mine, np.split(places[:-1], ends[:-1])))


@jit
def find(x, of, head, places):
    """places <- those of the words of each bucket in x (N,), from the first number of head (B, 2), in place, on; the
    second is 1, or 0 for buckets of others, which write to a place without use: a branch costs more.
    """
    for p in range(len(x)):
        b = of[x[p]]
        places[head[b, 0]] = p
        head[b, 0] += head[b, 1]


def deal_out(job, parts):
    """The records of this rank's part of the text to their buckets, of whatever rank."""
    n, B, comm = job.order, len(job.bounds) - 1, job.comm
    pieces, more, done, total = overlapping(parts, n), True, 0, int(job.seen.sum())
    job.records, by_rank = Shelf(), job.by_rank
    while more:
        x = next(pieces, np.zeros(n, np.int32))
        more = comm.largest(len(x) - n)
        counts = np.bincount(job.of[x[n - 1 : -1]], minlength=B)
        rows = np.empty((len(x) - n, n + 1), np.int32)
        ends = np.cumsum(counts[by_rank])
        head = np.empty(B, np.int64)
        head[by_rank] = ends - counts[by_rank]
        deal(x, n, job.of, head, rows)
        parts = np.split(rows, ends[job.rounds - 1 : -1 : job.rounds])
        done += len(rows)
        rows, counts = comm.swap(parts), comm.swap(np.split(counts[by_rank], comm.size))
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


def count_all(job, sort):
    """Sorts every bucket by sort(b); (how many bigrams end in each word (W,), n_1 .. of the orders from 2 on)."""
    bigrams, lock = np.zeros(len(job.seen), np.int64), Lock()

    def count(b):
        ended, *found = sort(b)
        with lock:
            bigrams[:] += ended
        return found

    found = job.each(count, "sorting")
    counted = [job.comm.sum(np.sum(columns, 0)) for columns in zip(*(counted for counted, _ in found))]
    odd = [odd for part in job.comm.gather([odd for _, odd in found if odd]) for odd in part]
    if odd:  # that of the last bucket decides
        counted = [n + more for n, more in zip(counted, odd[-1])]
    return job.comm.sum(bigrams), counted


def sort_bucket(job, b, last, marks):
    """Puts a bucket's events and contexts on the shelf. Returns how many bigrams end in each word; n_1 .. of the orders
    from 2 on; how these change by lmplz's last n-gram (engine.count_last, of the word `last`), if that may be here,
    else None.
    """
    n, W, N = job.order, len(job.seen), job.positions(b)
    with job.scratch.lent() as room:
        flat = room("flat", n - 1 + N * (n + 1), np.int32)
        rows = records(job, b, flat)
        order, other, column = room("order", (3, N), np.int32)
        start, heads = room("start", W + 1, np.int32), room("heads", (W, 2), np.int32)
        sort_rows(rows, n, W, column, start, order, other)
        contexts = compared(flat, n, order * np.int32(n + 1) + np.int32(n - 2), W, marks)
        come, begins = np.empty(N, np.int32), np.empty(N, kind_of_begins(n))
        ended = start.astype(np.int64)
        heads[:, 0], heads[:, 1] = start[:-1], -1
        follow(rows, order, contexts["begins"], marks.sos, marks.eos, heads, come, begins)
        rank, sizes = np.zeros((n, N // 64 + 2, 2), np.uint64), np.empty(n, np.int64)
        words = room("words", (n - 1, N), np.int32)
        index(rows, order, come, begins, W, rank, sizes, words)
        words = np.concatenate([some[:size] for some, size in zip(words, sizes[1:])])
    events = {"begins": begins, "rank": rank, "sizes": sizes, "words": words}
    found = put_bucket(job, b, last, events, contexts, come, ended, job.start(b))
    bigrams = np.empty(W + 1, np.int64)
    suffix.numbers(rank, 2, ended, bigrams)
    return np.diff(bigrams), *found


def put_bucket(job, b, last, events, contexts, come, ended, start, raw=None, fresh=None):
    """Puts a bucket's events and contexts, of which those of each word begin at `ended` and `start` (W + 1,), on the
    shelf; the rest of what `sort_bucket` returns.
    """
    n, W, shelf, vocab = job.order, len(job.seen), job.shelf, job.vocab
    begins, rank, sizes, words = (events[what] for what in ("begins", "rank", "sizes", "words"))
    for name, columns in (("events", events), ("contexts", contexts)):
        for what, column in columns.items():
            shelf.add((name, what, b), column)
    shelf.add(("come", b), come)
    for name, ends in (("events", ended), ("contexts", start)):
        some = np.flatnonzero(np.diff(ends))
        shelf.add((name, "ends", b), np.stack((some, ends[some + 1] - ends[some])))
    base = np.cumsum([0, 0, W + 1, *sizes[1:]])
    words = np.concatenate((np.arange(W + 1, dtype=np.int32), words))
    x = suffix.Suffixes(come, begins, rank, words, base, None, None, ended, ended, sizes.tolist(), raw, fresh)
    job.came[b] = np.zeros((n + 1, len(job.bounds) - 1), np.int64)
    count_sources(*contexts_from(job, b), job.came[b])
    job.cuts[b] = np.array([0 * job.bounds, *(x.nodes(k, ended[job.bounds]) for k in range(1, n + 1))])
    counted = engine.Estimator(x, vocab, job.methods, np.zeros(W, np.int64)).tallied(ended[min(vocab.V, W)])
    odd = [np.zeros_like(n) for n in counted]
    is_last = last is not None and engine.count_last(odd, x, ended[last], ended[last + 1], vocab)
    return counted, odd if is_last else None


def records(job, b, flat):
    """flat <- n - 1 times 0 and the records of a bucket, which are given up. Returns these, (N, n + 1)."""
    n = job.order
    flat[: n - 1] = 0
    rows = flat[n - 1 :].reshape(-1, n + 1)
    if job.text is None:
        job.records.read(b, flat[n - 1 :])
        job.records.drop(b)
    else:
        copy_records(job.text, job.places.pop(b), rows)
    return rows


@jit
def copy_records(x, places, rows):
    """rows (N, n + 1) <- the records of some places of a text in a circle."""
    for i in range(len(places)):
        for d in range(rows.shape[1]):
            rows[i, d] = x[places[i] + d]


@jit
def sort_rows(rows, n, W, column, start, order, other):
    """order (N,) <- the rows (N, n + 1) by their words n - 1, n - 2 .. 0, stably; start (W + 1,) <- how many have a
    word n below each. column and other, (N,), are written over. Two random reads a row and word.
    """
    N = len(order)
    into, from_ = (order, other) if n % 2 else (other, order)
    for i in range(N):
        from_[i] = i
    for d in range(n + 1):
        start[:] = 0
        for i in range(N):
            word = rows[i, d]
            column[i] = word if word or d >= n - 1 else W  # as <s> the border comes last
        for i in range(N):
            start[column[i]] += 1
        total = 0
        for w in range(W + 1):
            here = start[w]
            start[w] = total
            total += here
        for i in range(N if d < n else 0):
            row = from_[i]
            word = column[row]
            into[start[word]] = row
            start[word] += 1
        into, from_ = from_, into


@jit
def follow(rows, order, contexts, sos, eos, heads, come, begins):
    """come and begins (N,) of the events of sorted rows, from the `begins` of their contexts. heads (W, 2): where
    the events of each word begin, and -1; in place.

    Of a word's events i and i' > i, one after the other, the first k words of the contexts are the same if none of
    order k begins between them, i excluded: from the last that began of each order that is known at once.
    """
    N, n = len(order), rows.shape[1] - 1
    words, before = np.empty(SIZE, np.int32), np.empty(SIZE, np.int32)
    begun = np.full(n + 2, -1)
    for start in range(0, N, SIZE):
        size = min(SIZE, N - start)
        for i in range(size):
            row = order[start + i]
            words[i], before[i] = rows[row, n], rows[row, n - 1]
        for i in range(size):
            place, w = start + i, words[i]
            f, m = orders_at(contexts, place)
            for k in range(f, n):
                begun[k] = place
            at, last = heads[w, 0], heads[w, 1]
            common = np.int64(last >= 0)
            for k in range(1, n):
                common += (last >= 0) & (begun[k] <= last)
            m = min(m, n - 1) if before[i] else np.int64(sos)
            m = m + 1 if eos or w else 0
            come[at], begins[at] = place, (common + 1) | m << 4 * begins.itemsize
            heads[w, 0], heads[w, 1] = at + 1, place


@jit
def index(rows, order, come, begins, W, rank, sizes, words):
    """rank, sizes (n,) and words (n - 1, N), those of orders from 2 on, of the events of sorted rows."""
    N, n = len(order), len(sizes)
    place, bits = np.empty(SIZE, np.int64), np.empty(n, np.uint64)
    sizes[:] = 0
    for start in range(0, N, SIZE):
        size = min(SIZE, N - start)
        for i in range(size):
            place[i] = order[come[start + i]]
            prefetch(rows, place[i] * (n + 1))
        for block in range(0, size, 64):
            b = (start + block) >> 6
            bits[:] = 0
            for k in range(n):
                rank[k, b, 1] = np.uint64(sizes[k])
            for i in range(block, min(block + 64, size)):
                f, m = orders_at(begins, start + i)
                for k in range(f, m + 1):
                    bits[k - 1] |= np.uint64(1) << np.uint64(i - block)
                    if k > 1:
                        word = rows[place[i], n + 1 - k]
                        words[k - 2, sizes[k - 1]] = word if word else W
                    sizes[k - 1] += 1
            for k in range(n):
                rank[k, b, 0] = bits[k]
    for k in range(n):
        for block in range((N + 63) >> 6, rank.shape[1]):
            rank[k, block, 1] = np.uint64(sizes[k])


def edge(N):
    """The first place of the contexts in a bucket of N positions."""
    return -(-N // 64) * 64


def compared(flat, n, order, W, marks):
    """What Suffixes have of contexts in suffix order; order (N,): the places before their last words."""
    N, R = len(order), suffix.RANGE
    begins, places = np.empty(N, kind_of_begins(n)), np.arange(N, dtype=np.int32)
    rank = np.zeros((n, N // 64 + 2, 2), np.uint64)
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
    kinds = {"begins": kind_of_begins(job.order), "rank": np.uint64, "sizes": np.int64}
    begins, rank, sizes = (job.shelf.get((name, what, b), kind) for what, kind in kinds.items())
    return begins, rank.reshape(job.order, -1, 2), sizes


def ends_of(job, b, name):
    """(W + 1,): the place of each word's first event, or context, in a bucket."""
    some, many = job.shelf.get((name, "ends", b), np.int64).reshape(2, -1)
    ends = np.zeros(len(job.seen) + 1, np.int64)
    ends[some + 1] = many
    return np.cumsum(ends)


def loaded(job, b):
    """A bucket as an engine.Estimator."""
    W, get, vocab = len(job.seen), job.shelf.get, job.vocab
    (e, e_rank, e_sizes), (c, c_rank, c_sizes) = (stored(job, b, name) for name in ("events", "contexts"))
    N, ended = len(e), ends_of(job, b, "events")
    begins = np.concatenate((e, np.zeros(edge(N) - N, e.dtype), c))
    rank = np.concatenate((e_rank[:, : edge(N) // 64], c_rank), 1)
    rank[:, edge(N) // 64 :, 1] += e_sizes[:, None].astype(np.uint64)
    sizes = (e_sizes + c_sizes).tolist()
    both = [get((name, "words", b), np.int32) for name in ("events", "contexts")]
    ends = np.cumsum([(0, 0), *zip(e_sizes[1:], c_sizes[1:])], 0).tolist()
    words = [words[a:z] for at, to in pairwise(ends) for words, a, z in zip(both, at, to)]
    words = np.concatenate([np.arange(W + 1, dtype=np.int32), *words])
    base, start = np.cumsum([0, 0, W + 1, *sizes[1:]]), edge(N) + ends_of(job, b, "contexts")
    blocks = suffix.blocks_of(begins, ended, words[base[2] :][: e_sizes[1]])
    come = get(("come", b), np.int32) + np.int32(edge(N))
    x = suffix.Suffixes(come, begins, rank, words, base, *blocks, start, ended, sizes)
    if job.counts:
        raw = [None, None, *(get(("raw", b, k), np.int64) for k in range(2, job.order + 1))]
        x = dataclasses.replace(
            x, raw=raw, fresh=[None, None, *(get(("fresh", b, k), np.int64) for k in range(2, job.order))]
        )
    work = engine.Estimator(x, vocab, job.methods, job.seen, inside=job.inside)
    work.scratch = job.scratch
    return work


def features_of(job, heldout):
    """The features of a HeldOut from orders 2 on."""
    found = heldout.unseen()
    job.each(lambda b: heldout.of_estimator(loaded(job, b), found), "tuning discounts")
    return [tuple(map(job.comm.sum, of_order)) for of_order in found]


def estimate_one(job, b):
    """The probabilities of a bucket's events and the weights of its contexts; how many events are left out."""
    work, shelf = loaded(job, b), job.shelf
    work.begin(job.log10p, job.log10bow, job.marks)
    lacking = work.estimate_all(job.methods, job.exact)
    for k in range(2, job.order + 1):
        events = job.cuts[b][k, -1]
        for name, column in (("p", work.log10p[k][:events]), ("marks", work.marks[k][:events])):
            shelf.add((name, b, k), column)
        shelf.add(("bow", b, k), work.log10bow[k][events:])
    return lacking


def there(job, b, k):
    """How many of a bucket's events of order k the model has."""
    return int(np.count_nonzero(job.shelf.get(("marks", b, k), np.uint8) & engine.THERE))


def common_words(job):
    """Every rank gets the others' weights and marks of order 1."""
    needed = job.comm.max(job.marks & np.uint8(engine.NEEDED))
    ends = zip(job.bounds[job.mine], job.bounds[1:][job.mine])
    own = np.concatenate([np.arange(first, last) for first, last in ends])
    for column in (job.log10bow, job.marks):
        for rank, some in enumerate(job.comm.gather((own, column[own], column[-1:]))):
            column[some[0]] = some[1]
            if rank == 0:
                column[-1:] = some[2]
    job.marks |= needed


@jit
def count_sources(begins, of, oldest, many):
    """many (n + 1, B) += how many n-grams of each order there are by the bucket of the word before their last one.
    oldest: that word of each bigram.
    """
    bigram, b = -1, 0
    for i in range(len(begins)):
        f, m = orders_at(begins, i)
        if f <= 2 and m >= 2:
            bigram += 1
            b = of[oldest[bigram]]
        for k in range(max(f, 2), m + 1):
            many[k, b] += 1


@jit
def arrive(begins, of, oldest, k, head, came, there, out):
    """out (N,) <- what came for the n-grams of order k, from each bucket in their order, from head (B,), in place, on;
    or, with `there` not, the other way: came <- out.
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


def contexts_from(job, b):
    """What `arrive` wants of a bucket's contexts: begins, of, oldest."""
    begins = job.shelf.get(("contexts", "begins", b), kind_of_begins(job.order))
    return begins, np.append(job.of, job.of[0]), job.shelf.get(("contexts", "words", b), np.int32)


def fetch(job, k):
    """Yields log10 p of the n-grams of order k that end in each of a rank's buckets, nan where the model has none, and
    their marks, or 0 where none is NEEDED.
    """
    for found in fetched(job, k, (own_p, own_marks) if job.needed else (own_p,)):
        yield found if job.needed else (*found, np.uint8(0))


def fetched(job, k, parts):
    """Yields, of the n-grams of order k that end in each of a rank's buckets, [what each of the `parts` has of them as
    events]: part(job, b, k, to) -> (N,), that of bucket b for another. It comes for some buckets at once, where memory
    is short for one.
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
    """Where what comes from each bucket begins, (B,); many (P, T), how much it is; begin (P,): where that of each rank
    does.
    """
    head = np.empty(many.size, np.int64)
    head[job.by_rank] = (begin[:, None] + np.cumsum(many, 1) - many).ravel()
    return head


def own_p(job, b, k, to):
    """log10 p of the events of order k in bucket b that end in a word of the bucket `to`, nan where there is none."""
    begin, end = job.cuts[b][k, to : to + 2].tolist()
    p = job.shelf.get(("p", b, k), f32, begin, end)
    return np.where(own_marks(job, b, k, to) & engine.THERE, p, f32(np.nan))


def own_marks(job, b, k, to):
    """Their marks."""
    return job.shelf.get(("marks", b, k), np.uint8, *job.cuts[b][k, to : to + 2].tolist())


def need_all(job, ends):
    """`engine.need_all`: order by order, from the highest, what the events need of their contexts goes from the
    buckets of these to those that have them as events.
    """
    for k in range(job.order, 1, -1):
        job.each(partial(need_one, job, k, ends), f"prefixes of {k}-grams")
        for t in range(job.rounds if k > 2 else 0):
            b = job.mine[t]
            many = job.came[b][k - 1].reshape(job.rounds, -1).T
            marks, cuts = np.empty(many.sum(), np.uint8), np.cumsum(many.sum(1))
            head = heads(job, many, cuts - many.sum(1))
            column = job.shelf.get(("of contexts", b, k - 1), np.uint8)
            arrive(*contexts_from(job, b), k - 1, head, marks, False, column)
            parts = np.split(marks, cuts[:-1])
            for rank, some in enumerate(job.comm.swap(parts)):
                at, d = 0, job.of_rank(rank)[t]
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


def need_one(job, k, ends, b):
    """`engine.need_all` of a bucket and order."""
    work, shelf = loaded(job, b), job.shelf
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
    write = write_alone(out) if comm.size == 1 else write_together(out, comm, path)
    with write as (lines, done):
        if out:
            printing.write_header(lines, job.sizes, layout)
        for k in range(1, job.order + 1):
            if out:
                lines.write(b"\n\\%d-grams:\n" % k)
            for t, model in enumerate(models_of(job, k), 1):
                if model:
                    printing.write_order(lines, model, k, layout, scratch)
                done()
                job.show(t / job.rounds, f"writing {k}-grams")
        if out:
            lines.write(b"\n\\end\\\n")
        done()


@contextlib.contextmanager
def write_alone(out):
    yield out, lambda: None


class Kept:
    """What is written, in memory that is used again."""

    def __init__(self):
        self.room, self.size = np.empty(0, np.uint8), 0

    def write(self, some):
        end = self.size + len(some)
        if end > len(self.room):
            room = np.empty(2 * end, np.uint8)
            room[: self.size] = self.room[: self.size]
            self.room = room
        self.room[self.size : end] = np.frombuffer(some, np.uint8)
        self.size = end


@contextlib.contextmanager
def write_together(out, comm, path):
    """(what a rank writes to, a function that all must call as often): it puts what each rank has written since, one
    rank's behind that of another, into rank 0's `out`. Where that is a plain file that all ranks can open each writes
    to its place, one call later, so that none waits for the others' sizes; else rank 0 receives all.
    """
    kept, end, ahead, spare = Kept(), 0, deque(), []
    name, file = opened(out, comm)

    def done():
        ahead.append((kept.room, kept.size, comm.tell(kept.size)))
        kept.room, kept.size = spare.pop() if spare else np.empty(0, np.uint8), 0
        if len(ahead) > 1 or file is None:
            put()

    def put():
        nonlocal end
        room, size, told = ahead.popleft()
        sizes = told()
        at = end + sum(sizes[: comm.rank])
        end += sum(sizes)
        if file is not None:
            put_at(file, room[:size], at)
        elif out:
            out.write(room[:size].data)
            for rank in range(1, comm.size):
                comm.receive(rank, out.write)
        else:
            comm.send(size, lambda begin, end: room[begin:end])
        spare.append(room)

    try:
        yield kept, done
        while ahead:
            put()
        comm.gather(None)  # rank 0's file is whole when every rank has written
    except BaseException as e:
        if file is not None:  # what fails here ends rank 0 too
            with contextlib.suppress(OSError):
                os.unlink(name)
        if isinstance(e, OSError) and e.filename is None:
            e.filename = path
        raise
    finally:
        if file is not None:
            os.close(file)


def opened(out, comm):
    """The name of rank 0's `out` and a descriptor of it on every rank, None where it is no plain file that they all can
    write.
    """
    plain = out and isinstance(getattr(out, "raw", None), io.FileIO) and os.path.isfile(out.raw.name)
    name, file = comm.gather(out.raw.name if plain else None)[0], None
    with contextlib.suppress(OSError, TypeError):
        file = os.open(name, os.O_WRONLY)
    if comm.total(int(file is None)) and file is not None:
        os.close(file)
        return name, None
    return name, file


def put_at(file, data, at):
    """Writes data (N,) of uint8 to its place in a file."""
    while len(data):
        size = os.pwrite(file, data, at)
        data, at = data[size:], at + size


def models_of(job, k):
    """The buckets of a rank, each as an Estimate of those n-grams of order k whose lines it has; those of order 1 are
    rank 0's, and None the others'.
    """
    if k == 1:
        one = engine.Estimate(job.vocab, None, [job.log10p], [job.log10bow], [job.marks], None)
        yield None if job.comm.rank else one
    for b, (p, marks) in zip(job.mine, fetch(job, k)) if k > 1 else ():
        begins, rank, sizes = stored(job, b, "contexts")
        base = np.cumsum([0, 0, 0, *sizes[1:]])
        # one more, as words_of reads one where there is none
        words = np.append(job.shelf.get(("contexts", "words", b), np.int32, 0, int(base[k + 1])), np.int32(0))
        x = suffix.Suffixes(
            None, begins, rank, words, base, None, None, ends_of(job, b, "contexts"), None, sizes.tolist()
        )
        marks = (marks & np.uint8(engine.NEEDED)) | ~np.isnan(p)
        p[np.isnan(p)] = 0  # not printed; kernels leave what is no number to Python
        found = p, job.shelf.get(("bow", b, k), f32), marks.astype(np.uint8)
        yield engine.Estimate(job.vocab, x, *([None] * (k - 1) + [column] for column in found), None)
