"""A large text's model from its n-grams in suffix order: `smoothing` without a look-up.

Order by order, and in an order segment by segment (`suffix`), in threads: the n-grams whose context ends in a segment
are gathered with their contexts, counts and suffixes, `smoothing.smooth` does the rest. What a segment gives is written
where no other writes, so that the result does not depend on the threads.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from lmtk.errors import LmtkError
from lmtk.machine.jit import jit
from lmtk.machine.threads import Scratch, all_at_once
from lmtk.ngram import suffix
from lmtk.ngram.backoff import Backoff, Packed
from lmtk.ngram.methods import EPSILON, Totals
from lmtk.ngram.nodes import columns, finished
from lmtk.ngram.nodes import room as nodes_of_sizes
from lmtk.ngram.smoothing import (
    Events,
    Level,
    counts_of_counts,
    estimate_order,
    masses_left,
    probability,
    smooth,
)
from lmtk.text.vocab import Vocab

f32 = np.float32
PIECE = 1 << 16  # places counted together
# an n-gram has a probability of its own; it is the context of one that has; it has one for that alone
THERE, EXTENDED, NEEDED = 1, 2, 4


@dataclass(frozen=True)
class Estimate:
    """A model in suffix order. Of each order's n-grams, (N,): log10p, by backing off where it has none of its own;
    log10bow; marks, THERE and EXTENDED. Those of order 1 are all words of the vocabulary.
    """

    vocab: Vocab
    suffixes: suffix.Suffixes
    log10p: list
    log10bow: list
    marks: list


@dataclass(frozen=True)
class Gathered:
    """The n-grams of an order whose contexts are in a segment, as suffix.gather has them; the first of the contexts'
    nodes, how many contexts there are, and how many n-grams end in a predicted word.
    """

    node: np.ndarray
    context: np.ndarray
    parent: np.ndarray
    word: np.ndarray
    children: np.ndarray
    raw: np.ndarray
    first: int
    H: int
    events: int


def gathered(x, vocab, k, s, room):
    """The Gathered of order k > 1 of segment s of Suffixes x, in memory of `room`."""
    local, node, H = local_contexts(x, vocab, k, s, room)
    columns = room("columns", (6, int(x.span_sizes[s]) + 1), np.int32)
    V = vocab.V
    events, found, _ = suffix.gather(
        x.begins, x.come, x.rank, k, x.heads[s], x.heads[s + 1], V, x.span(s)[2], local, *columns
    )
    return Gathered(*columns[:, :found], node, H, events)


def local_contexts(x, vocab, k, s, room):
    """Which context of order k - 1 is at each place of a segment, from 0 on; the first one's node; how many."""
    first, last, begin, end = x.span(s)
    local = room("local", end - begin, np.int32)
    if k == 2:
        suffix.words_at(x.start, first, last, local)
        return local, (first if first else vocab.sos_id), last - first
    suffix.nodes_at(x.begins[begin:end], k - 1, local)
    return local, int(x.nodes(k - 1, [begin])[0]), int(local[-1]) + 1 if len(local) else 0


class Estimator:
    """What estimating keeps from order to order; lists have order k at k. p: 10^log10p, of the last two orders."""

    def __init__(self, suffixes, vocab, methods):
        self.suffixes, self.vocab, self.methods, self.scratch = suffixes, vocab, methods, Scratch()
        start, unk = suffixes.start, vocab.unk_id
        # where <unk> is no word and stands in the text: which n-grams have it
        odd = unk >= vocab.V and start[unk + 1] > start[unk]
        self.unknown = [None, np.arange(len(vocab.words)) == unk] if odd else None
        self.log10p, self.log10bow, self.marks, self.p = [None], [None], [None], {}

    def continued(self, k):
        """Whether an order's method counts n-grams by those of the next that end in them."""
        return k < self.suffixes.order and self.methods[k - 1].smoothing.continuation

    def tallied(self, end):
        """n_1 .. n_r of each order from 2 on, as far as the methods may ask, at the places up to `end`."""
        x, V = self.suffixes, self.vocab.V
        begins = x.begins[:end]
        cuts = np.empty(len(begins) // PIECE + 3, np.int64)
        cuts = cuts[: suffix.cut_places(begins, PIECE, cuts)]
        of_counts = []
        for k, method in enumerate(self.methods[1:], 2):
            parts, first = np.zeros((len(cuts) - 1, asked(method) + 1), np.int64), x.nodes(k, cuts)

            def piece(q, k=k, parts=parts, first=first):
                with self.scratch.lent() as room:
                    counts = room("tally", (2, int(cuts[q + 1] - cuts[q]) + 1), np.int32)
                    given = x.oldest(k), first[q], V, self.continued(k), counts, parts[q]
                    suffix.tally(begins, k, cuts[q], cuts[q + 1], *given)

            all_at_once(piece, range(len(parts)))
            of_counts.append(parts.sum(0)[1:])
        return of_counts

    def begin(self, log10p, log10bow, marks):
        """Order 1 is estimated; log10bow is filled in."""
        self.log10p.append(log10p)
        self.log10bow.append(log10bow)
        self.marks.append(marks)
        self.p[1] = probability(log10p)

    def estimate_all(self, methods, exact):
        """Orders 2 and on; how many of their events are left out."""
        return sum(self.estimate_order(k, method, exact) for k, method in enumerate(methods[1:], 2))

    def estimate_order(self, k, method, exact):
        """Order k > 1, and the back-off weights of its contexts. How many n-grams are left out that are counted."""
        size = self.suffixes.sizes[k - 1]
        self.log10p.append(np.empty(size, f32))
        self.log10bow.append(np.zeros(size if k < self.suffixes.order else 0, f32))
        self.marks.append(np.zeros(size, np.uint8))
        self.p[k] = np.empty(size if k < self.suffixes.order else 0)
        if self.unknown and len(self.unknown) == k:
            self.unknown.append(np.empty(size, bool))
        left_out = all_at_once(partial(self.estimate, k, method, exact), self.suffixes.filled)
        del self.p[k - 1]
        return sum(left_out)

    def estimate(self, k, method, exact, s):
        """`estimate_order` of a segment's contexts."""
        with self.scratch.lent() as room:
            found = gathered(self.suffixes, self.vocab, k, s, room)
            count = found.raw
            if self.continued(k):
                count = found.children
                suffix.own_counts(found.node, self.suffixes.oldest(k), found.raw, self.vocab.V, count)
            events, contexts = self.events(k, found), slice(found.first, found.first + found.H)
            given = [column[events] for column in (found.context, count, found.raw, found.parent)]
            given = *given, self.log10p[k - 1], self.p[k - 1], found.H
            n = len(given[0])
            log10p, p = room("log10p", n, f32), room("p", n, np.float64)
            bow = smoothed(given, method, self.vocab.V, exact, log10p, p, room)
            self.log10bow[k - 1][contexts] = bow
            place = found.node[events]
            columns = self.log10p[k], self.p[k], self.marks[k]
            many = put(place, log10p, p, given[0], *columns, self.marks[k - 1][contexts])
            if many < len(found.node):
                self.back_off(k, found, events, log10p, bow)
            return n - many

    def events(self, k, found):
        """Which n-grams are predicted: those of the vocabulary's words, in contexts without an <unk> that is none."""
        if not self.unknown:
            return slice(found.events)
        unknown = self.unknown[k - 1][found.first + found.context]
        self.unknown[k][found.node] = unknown | (found.word == self.vocab.unk_id)
        return np.flatnonzero(~unknown[: found.events])

    def back_off(self, k, found, events, log10p, bow):
        """The n-grams without a probability of their own have what backing off gives them."""
        lacking = np.ones(len(found.node), bool)
        lacking[events] = np.isnan(log10p)
        node = found.node[lacking]
        self.log10p[k][node] = bow[found.context[lacking]] + self.log10p[k - 1][found.parent[lacking]]
        self.marks[k][node] = 0
        if len(self.p[k]):
            self.p[k][node] = probability(self.log10p[k][node])

    def need_contexts(self, k, s):
        """The contexts of a segment's n-grams of order k are needed, if these are there. Returns the suffixes of those
        that are needed themselves.
        """
        with self.scratch.lent() as room:
            found = gathered(self.suffixes, self.vocab, k, s, room)
            marks = self.marks[k][found.node]
            contexts = self.marks[k - 1][found.first : found.first + found.H]
            contexts[found.context[marks & THERE > 0]] |= THERE | EXTENDED | NEEDED
            return found.parent[marks & NEEDED > 0]

    def need_all(self, ends):
        """An ARPA file needs every prefix of its n-grams; SRILM needs the `ends` of these prefixes too, else only their
        weights are written where they are there.
        """
        for k in range(self.suffixes.order, 1, -1):
            suffixes = all_at_once(partial(self.need_contexts, k), range(self.suffixes.segments))
            for some in suffixes:
                self.marks[k - 1][some] |= THERE | NEEDED if ends and k > 2 else NEEDED


def smoothed(given, method, V, exact, log10p, p, room):
    """`smoothing.smooth` of the predicted n-grams of a segment: log10p (N,), nan where they are left out, and p, 10 to
    that; in place. Returns log10 of the back-off weights (H,).

    given: context, count, raw, parent, (N,); log10p and p of the order below; H.
    """
    context, count, raw, parent, below, lower_p, H = given
    h, lost = room("totals", (H, 4), np.int32), room("lost", H, np.int32)
    sum_counts(context, count, raw, method.cutoff, h, lost)
    T, types = h[:, 0].astype(np.float64), h[:, 1]
    seen = T > 0
    T[~seen] = 1
    q, weight = method.smoothing.shares(method.parameters, Totals(T, types, h[:, 2], h[:, 3], V))
    if method.cutoff:
        weight = weight + lost / T
    share = room("share", (H, 2), np.float64)
    share[:, 0], share[:, 1] = q, weight if method.interpolate else 0
    f, less = method.smoothing.kept(method.parameters)
    lower, sums = room("lower", len(p), np.float64), room("sums", (H, 2), np.float64)
    rule = np.array(f), float(less), float(method.minimum), method.cutoff, bool(exact)
    interpolate(context, count, raw, parent, lower_p, *rule, share, p, lower, sums)
    odd = np.zeros(H, bool) if method.idle or exact else (sums[:, 0] > 1 - EPSILON) & (types < V)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.log10(p, out=p)
        log10p[:] = p
        p[:] = log10p
        np.power(10.0, p, out=p)
        if exact:
            return np.where(seen, np.log10(weight), 0).astype(f32)
    sum_both(context, p, lower, sums)
    bow, scaled = masses_left(sums[:, 0], sums[:, 1])
    odd |= scaled
    if odd.any():
        some, contexts = np.flatnonzero(odd[context]), np.flatnonzero(odd)
        number = np.cumsum(odd) - 1
        cut = raw[some] <= method.cutoff if method.cutoff else None
        events = Events(number[context[some]], count[some], below[parent[some]], len(contexts), cut)
        log10p[some], bow[contexts] = smooth(events, 2, method, V, exact)
        p[some] = probability(log10p[some])
    return bow


@jit
def sum_counts(context, count, raw, cutoff, h, lost):
    """h (H, 4) <- T, types, types2, types3 of Totals; lost (H,) <- the counts of n-grams seen `cutoff` times or less,
    which are no types.
    """
    h[:] = 0
    lost[:] = 0
    for i in range(len(context)):
        of, c, there = context[i], count[i], raw[i] > cutoff
        h[of, 0] += c
        h[of, 1] += there
        h[of, 2] += there & (c > 1)
        h[of, 3] += there & (c > 2)
        if not there:
            lost[of] += c


@jit
def interpolate(context, count, raw, parent, lower_p, f, less, minimum, cutoff, exact, share, p, lower, sums):
    """p (N,) <- f(c) / q + weight p of the lower order, nan where an n-gram is left out; lower (N,) <- the latter; sums
    (H, 2), the first <- sum of p. share (H, 2): q and weight; f, less: as Smoothing.kept has them.
    """
    sums[:] = 0
    for i in range(len(context)):
        of, c = context[i], count[i]
        below = lower_p[parent[i]]
        kept = f[c] if c < len(f) else c - less
        kept = kept if c >= minimum else 0.0
        there = (c > 0) & (raw[i] > cutoff) & (exact | (kept != 0))
        found = kept / share[of, 0] + share[of, 1] * below
        lower[i], p[i] = below, found if there else np.nan
        sums[of, 0] += found if there else 0.0


@jit
def sum_both(context, p, lower, sums):
    """sums (H, 2) <- the sums of p and of `lower` (N,) in each context, where p is a number."""
    sums[:] = 0
    for i in range(len(context)):
        of, there = context[i], p[i] == p[i]
        sums[of, 0] += p[i] if there else 0.0
        sums[of, 1] += lower[i] if there else 0.0


@jit
def put(place, log10p, p, context, all_log10p, all_p, marks, extended):
    """Columns (N,) to the places of their n-grams, and marks; where they are nan, none. Returns how many are not."""
    many = 0
    for i in range(len(place)):
        there = log10p[i] == log10p[i]
        all_log10p[place[i]] = log10p[i]
        if len(all_p):
            all_p[place[i]] = p[i]
        marks[place[i]] = there
        extended[context[i]] |= there << 1
        many += there
    return many


def asked(method):
    """How many counts of counts a method may ask for."""
    return max(4, int(method.parameters[0]) + 1 if method.name == "gt" else 0)


def seen_words(counts, vocab, marks):
    """How often each word of the model is seen, (W,), from how often each id of the text is, (W - 1,). Raises
    LmtkError where none is.
    """
    seen = np.append(counts, counts[0] if marks.sos else 0)
    if not marks.eos:
        seen[0] = 0
    if not seen[: vocab.V].sum():
        raise LmtkError("no word of the vocabulary is counted")
    return seen


def unigrams(vocab, methods, seen, bigrams):
    """Order 1 as `smoothing` has it; bigrams () gives how many bigrams end in each id of the text, (W - 1,)."""
    words, count = np.arange(len(vocab.words), dtype=np.int32), seen
    if len(methods) > 1 and methods[0].smoothing.continuation:
        count = np.where(words < vocab.V, np.append(bigrams(), 0), seen)
    nothing = np.zeros(len(words), np.int32)
    return Level(words, nothing, words, nothing, count, seen > 0, words, words == vocab.unk_id, seen)


def smoothed_unigrams(vocab, methods, first, counted, fallback, tell, known, exact):
    """(the methods with their discounts, log10 p of the words by backing off, their marks) from order 1 and the n_1 ..
    of each order from 2 on.
    """
    count, used = first.count, []
    if exact:
        last = last_word(first.raw, vocab)
        count = count.copy()
        count[last] = first.raw[last]
    given = [partial(counts_of_counts, first, count, vocab.V)]
    given += [lambda r, n=n: n[:r].tolist() for n in counted]
    for k, (method, n) in enumerate(zip(methods, given, strict=True), 1):
        used.append((known or {}).get(k) or method.discounted(k, n, fallback, tell, exact))
    estimate_order([first], 1, used[0], vocab, tell, exact and vocab.V)
    there = ~np.isnan(first.log10p)
    return used, np.where(there, first.log10p, f32(-np.inf)), there.astype(np.uint8)


def last_word(seen, vocab):
    """The word that was seen first last of all, from how often each was seen, (W,)."""
    words = np.flatnonzero(seen)
    return max(words, key=lambda w: w if w not in (vocab.eos_id, vocab.unk_id, vocab.sos_id) else -1)


def count_last(counted, x, a, b, vocab):
    """`smoothing.last_nodes` of the orders 2 .. n - 1: the n-gram that lmplz has last among those of the last word, at
    the places a .. b of Suffixes x, has its raw count in n_1 .. (in place). Returns whether there is one.
    """
    for k, n in enumerate(counted[:-1], 2):
        at = a + np.flatnonzero((x.begins[a:b] & 15 <= k) & (x.begins[a:b] >> 4 >= k))
        oldest = x.oldest(k)[x.nodes(k, at)]
        at = at[oldest != vocab.sos_id]
        if not len(at):
            return k > 2
        a = at[-1]
        ends = np.flatnonzero(x.begins[a + 1 : b] & 15 <= k)
        b = a + 1 + ends[0] if len(ends) else b
        for r, change in ((int(np.diff(x.nodes(k + 1, np.array([a, b])))[0]), -1), (b - a, 1)):
            if r <= len(n):
                n[r - 1] += change
    return len(counted) > 1


def estimate(suffixes, vocab, methods, marks, fallback=None, tell=lambda line: None, known=None, exact=False):
    """Suffixes -> (Estimate, the methods with their discounts), as `smoothing.estimate` has it."""
    work, start = Estimator(suffixes, vocab, methods), suffixes.start
    seen = seen_words(np.diff(start), vocab, marks)
    first = unigrams(vocab, methods, seen, lambda: np.diff(suffixes.nodes(2, start)))
    counted = work.tallied(start[vocab.V] if len(start) > vocab.V else start[-1])
    if exact:
        last = last_word(seen, vocab)
        count_last(counted, suffixes, start[last], start[last + 1], vocab)
    used, log10p, there = smoothed_unigrams(vocab, methods, first, counted, fallback, tell, known, exact)
    work.begin(log10p, np.zeros(len(log10p), f32), there)
    if work.estimate_all(used, exact and vocab.V):
        work.need_all(not exact)
    return Estimate(vocab, suffixes, *(x[1:] for x in (work.log10p, work.log10bow, work.marks))), used


def backoff_of(model):
    """An Estimate as a Backoff model, in whose nodes the n-grams stand by their prefixes."""
    W, segments, scratch = len(model.vocab.words), model.suffixes.filled, Scratch()
    memory, where, records = nodes_of_sizes([W, *(int(np.count_nonzero(marks & THERE)) for marks in model.marks[1:])])
    place, lacking = np.arange(W, dtype=np.int32), 0
    records[0]["word"][:-1], records[0]["log10bow"][:-1] = place, model.log10bow[0]
    records[0]["log10p"][:-1] = np.where(model.marks[0] & THERE, model.log10p[0], f32(np.nan))
    for k, (above, here) in enumerate(pairwise(records), 2):
        child, new = above["child"], np.full(len(model.marks[k - 1]), -1, np.int32)
        all_at_once(partial(place_segment, model, k, place, child, new, columns(here)[:0], scratch), segments)
        np.cumsum(child, out=child)
        lacking += sum(
            all_at_once(partial(place_segment, model, k, place, child, new, columns(here), scratch), segments)
        )
        place = new
    nodes = finished(memory, where, W, linked=not lacking)
    return Backoff(model.vocab, len(records), [Packed(nodes, k, W) for k in range(1, len(records) + 1)])


def place_segment(model, k, place, child, new, rows, scratch, s):
    """The n-grams of order k whose context is in a segment into rows, as `columns` has them; how many lack a suffix.
    Where there are none, how many extensions each context has into child, at the `place` behind the context's.
    """
    x = model.suffixes
    with scratch.lent() as room:
        local, first, H = local_contexts(x, model.vocab, k, s, room)
        contexts = place[first : first + H]
        head = room("head", H, np.int32)
        head[:] = child[contexts] if len(rows) else 0
        given = x.heads[s], x.heads[s + 1], x.span(s)[2], local, head, place, model.marks[k - 1]
        given = *given, model.log10p[k - 1], model.log10bow[k - 1], rows, rows.view(f32), new
        lacking, _ = suffix.place(x.begins, x.come, x.rank, k, *given)
        if not len(rows):
            there = head > 0
            child[contexts[there] + 1] = head[there]
        return lacking
