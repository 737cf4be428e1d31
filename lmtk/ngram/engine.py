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
from lmtk.machine.threads import all_at_once
from lmtk.ngram import suffix
from lmtk.ngram.backoff import Backoff, Packed
from lmtk.ngram.nodes import finished, room
from lmtk.ngram.smoothing import Events, Level, counts_of_counts, estimate_order, smooth
from lmtk.text.vocab import Vocab

f32 = np.float32
# an n-gram has a probability of its own; it is the context of one that has; it has one for that alone
THERE, EXTENDED, NEEDED = 1, 2, 4


@dataclass(frozen=True)
class Estimate:
    """A model in suffix order. Of each order's n-grams, (N,): log10p, by backing off where it has none of its own;
    log10bow; marks, THERE and EXTENDED. Those of order 1 are all words of the vocabulary. words: the oldest word of
    each n-gram, those of order k from base[k] up to base[k + 1].
    """

    vocab: Vocab
    suffixes: suffix.Suffixes
    words: np.ndarray
    base: np.ndarray
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


def gathered(x, vocab, k, s):
    """The Gathered of order k > 1 of segment s of Suffixes x."""
    first, last, begin, end = x.span(s)
    local = np.empty(end - begin, np.int32)
    if k == 2:
        suffix.words_at(x.start, first, last, local)
        node, H = (first if first else vocab.sos_id), last - first
    else:
        suffix.nodes_at(x.begins[begin:end], k - 1, local)
        node, H = x.node(k - 1, begin), int(local[-1]) + 1 if len(local) else 0
    columns = np.empty((6, int(x.span_sizes[s])), np.int32)
    V = vocab.V
    events, found = suffix.gather(x.begins, x.come, x.rank, k, x.heads[s], x.heads[s + 1], V, begin, local, *columns)
    return Gathered(*columns[:, :found], node, H, events)


class Estimator:
    """What estimating keeps from order to order; lists have order k at k."""

    def __init__(self, suffixes, vocab, methods):
        self.suffixes, self.vocab, self.methods = suffixes, vocab, methods
        W = len(vocab.words)
        self.base = np.cumsum([0, 0, W, *suffixes.sizes[1:]])
        self.memory = np.empty(self.base[-1], np.int32)
        self.words = [self.memory[a:b] for a, b in pairwise(self.base)]
        self.words[1][:] = np.arange(W)
        self.unknown = [None, self.words[1] == vocab.unk_id] if vocab.unk_id >= vocab.V else None
        self.log10p, self.log10bow, self.marks = [None], [None], [None]

    def gathered(self, k, s):
        return gathered(self.suffixes, self.vocab, k, s)

    def counts(self, k, found):
        """The counts of n-grams that the order's method wants."""
        if k == self.suffixes.order or not self.methods[k - 1].smoothing.continuation:
            return found.raw
        return np.where(self.words[k][found.node] < self.vocab.V, found.children, found.raw)

    def name(self, k, upto, s):
        """Finds the oldest words of a segment's n-grams of order k; how many are counted once .. `upto` times."""
        found = self.gathered(k, s)
        above = found.first + found.context
        self.words[k][found.node] = self.words[k - 1][above]
        if self.unknown:
            unknown = self.unknown[k - 1][above]
            unknown[found.events :] = True
            self.unknown[k][found.node] = unknown
        return np.bincount(np.minimum(self.counts(k, found)[: found.events], upto + 1), minlength=upto + 2)[1:-1]

    def name_all(self):
        """n_1 .. n_r of each order, as far as the methods may ask, an array an order from 2 on."""
        of_counts = []
        for k, size in enumerate(self.suffixes.sizes[1:], 2):
            upto = asked(self.methods[k - 1])
            if self.unknown:
                self.unknown.append(np.empty(size, bool))
            parts = all_at_once(partial(self.name, k, upto), range(self.suffixes.segments))
            of_counts.append(np.sum(parts, 0))
        return of_counts

    def estimate(self, k, method, exact, s):
        """The probabilities of a segment's n-grams of order k, and the back-off weights of their contexts."""
        found = self.gathered(k, s)
        lower = self.log10p[k - 1][found.parent]
        count = self.counts(k, found)
        event = np.arange(found.events) if self.unknown is None else self.known_contexts(k, found)
        some = slice(None, found.events) if len(event) == found.events else event
        cut = found.raw[some] <= method.cutoff if method.cutoff else None
        events = Events(found.context[some], count[some], lower[some], found.H, cut)
        log10p, bow = smooth(events, k, method, self.vocab.V, exact)
        p = np.full(len(lower), np.nan, f32)
        p[some] = log10p
        there = ~np.isnan(p)
        extended = self.marks[k - 1][found.first : found.first + found.H]
        extended[found.context[there]] |= EXTENDED
        self.marks[k][found.node] = there
        if not there.all():
            p[~there] = bow[found.context[~there]] + lower[~there]
        self.log10p[k][found.node] = p
        self.log10bow[k - 1][found.first : found.first + found.H] = bow
        return len(event) - int(there.sum())

    def estimate_all(self, methods, exact):
        """Orders 2 and on; how many of their events are left out."""
        lacking = 0
        for k, size in enumerate(self.suffixes.sizes[1:], 2):
            self.log10p.append(np.empty(size, f32))
            self.log10bow.append(np.zeros(size if k < self.suffixes.order else 0, f32))
            self.marks.append(np.zeros(size, np.uint8))
            segments = self.suffixes.filled
            lacking += sum(all_at_once(partial(self.estimate, k, methods[k - 1], exact), segments))
        return lacking

    def known_contexts(self, k, found):
        """Which events have a context without <unk>, which is no word."""
        return np.flatnonzero(~self.unknown[k - 1][found.first + found.context[: found.events]])

    def need_contexts(self, k, s):
        """The contexts of a segment's n-grams of order k are needed, if these are there. Returns the suffixes of those
        that are needed themselves.
        """
        found = self.gathered(k, s)
        marks = self.marks[k][found.node]
        contexts = self.marks[k - 1][found.first : found.first + found.H]
        contexts[found.context[marks & THERE > 0]] |= THERE | EXTENDED | NEEDED
        return found.parent[marks & NEEDED > 0]

    def need_all(self, ends):
        """An ARPA file needs every prefix of its n-grams; SRILM needs the `ends` of these prefixes too."""
        for k in range(self.suffixes.order, 1, -1):
            suffixes = all_at_once(partial(self.need_contexts, k), range(self.suffixes.segments))
            for some in suffixes if ends and k > 2 else ():
                self.marks[k - 1][some] |= THERE | NEEDED


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
    given, used = [partial(counts_of_counts, first, first.count, vocab.V)], []
    given += [lambda r, n=n: n[:r].tolist() for n in counted]
    for k, (method, n) in enumerate(zip(methods, given, strict=True), 1):
        used.append((known or {}).get(k) or method.discounted(k, n, fallback, tell, exact))
    estimate_order([first], 1, used[0], vocab, tell, exact and vocab.V)
    there = ~np.isnan(first.log10p)
    return used, np.where(there, first.log10p, f32(-np.inf)), there.astype(np.uint8)


def estimate(suffixes, vocab, methods, marks, fallback=None, tell=lambda line: None, known=None, exact=False):
    """Suffixes -> (Estimate, the methods with their discounts), as `smoothing.estimate` has it."""
    work = Estimator(suffixes, vocab, methods)
    seen = seen_words(np.diff(suffixes.start), vocab, marks)
    first = unigrams(vocab, methods, seen, lambda: np.diff([suffixes.node(2, j) for j in suffixes.start.tolist()]))
    given = vocab, methods, first, work.name_all(), fallback, tell, known, exact
    used, log10p, there = smoothed_unigrams(*given)
    work.log10p.append(log10p)
    work.log10bow.append(np.zeros(len(log10p), f32))
    work.marks.append(there)
    if work.estimate_all(used, exact and vocab.V):
        work.need_all(not exact)
    columns = (x[1:] for x in (work.log10p, work.log10bow, work.marks))
    return Estimate(vocab, suffixes, work.memory, work.base, *columns), used


def backoff_of(model):
    """An Estimate as a Backoff model, in whose nodes the n-grams stand by their prefixes."""
    W, segments = len(model.vocab.words), range(model.suffixes.segments)
    memory, where, records = room([W, *(int(np.count_nonzero(marks & THERE)) for marks in model.marks[1:])])
    place = np.arange(W, dtype=np.int32)
    records[0]["word"][:-1], records[0]["log10bow"][:-1] = place, model.log10bow[0]
    records[0]["log10p"][:-1] = np.where(model.marks[0] & THERE, model.log10p[0], f32(np.nan))
    for k, (above, here) in enumerate(pairwise(records), 2):
        child, new = above["child"], np.zeros(len(model.marks[k - 1]), np.int32)
        all_at_once(partial(count_extensions, model, k, place, child), segments)
        np.cumsum(child, out=child)
        all_at_once(partial(place_ngrams, model, k, place, child, new, here), segments)
        place = new
    nodes = finished(memory, where, W)
    return Backoff(model.vocab, len(records), [Packed(nodes, k, W) for k in range(1, len(records) + 1)])


def kept(model, k, s):
    """The Gathered of a segment's n-grams of order k, and which of them the model has."""
    found = gathered(model.suffixes, model.vocab, k, s)
    return found, np.flatnonzero(model.marks[k - 1][found.node] & THERE)


def count_extensions(model, k, place, child, s):
    """How many extensions in the model a segment's contexts have: to child, at the `place` behind the context's."""
    found, there = kept(model, k, s)
    many = np.bincount(found.context[there], minlength=found.H)
    some = np.flatnonzero(many)
    child[place[found.first + some] + 1] = many[some]


def place_ngrams(model, k, place, child, new, here, s):
    """A segment's n-grams of order k into their records; new <- where they stand."""
    found, there = kept(model, k, s)
    node, at = found.node[there], np.empty(len(there), np.int32)
    suffix.put_behind(found.context[there], child[place[found.first : found.first + found.H]], at)
    new[node] = at
    here["word"][at] = found.word[there]
    here["log10p"][at] = model.log10p[k - 1][node]
    if k < model.suffixes.order:
        here["log10bow"][at] = model.log10bow[k - 1][node]
