"""Estimates a model from n-grams in suffix order (`suffix`), without look-ups.

Threads take segments, which are ranges of words, and go through a segment order by order. All n-grams whose context
ends in a word of the segment are gathered with their contexts, counts and suffixes; the segment has all of these.
`smoothing.smooth_large` smooths them. Each segment writes to places of its own, so the result does not depend on the
threads. Afterwards `Estimator.need_order` marks the n-grams that an ARPA file needs although they were left out.
"""

from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise

import numpy as np

from lmtk.files.bounded import trim
from lmtk.machine.jit import jit
from lmtk.machine.threads import Scratch, map_at_once, thread_count
from lmtk.ngram.estimate import suffix
from lmtk.ngram.estimate.smoothing import Order, counts_of_counts, estimate_order, exp10, smooth_large

f32 = np.float32
PIECE = 1 << 18  # places counted together
LARGE = 1 << 17  # places of a segment; one with more takes as much memory as many others
IN_MODEL, NEEDED = 1, 2  # marks: an n-gram is in the model; the ARPA file needs it, or its weight, for a longer one


@dataclass
class Gathered:
    """The n-grams of an order whose contexts end in a segment, (N,) each: node, context, suffix (its node), word (the
    last one), parent (the suffix among the Gathered of the order below), children (how many n-grams of the next order
    end in the n-gram) and raw (how often it was seen), as in `suffix.gather`. contexts: their nodes, a slice. local:
    the context at each place of the segment, numbered from 0.
    """

    node: np.ndarray
    context: np.ndarray
    suffix: np.ndarray
    word: np.ndarray
    parent: np.ndarray
    children: np.ndarray
    raw: np.ndarray
    contexts: slice
    local: np.ndarray

    @property
    def H(self):
        return self.contexts.stop - self.contexts.start


def gather(x, k, segment, room, counted=False):
    """The Gathered of order k > 1 of a segment of Suffixes x, in memory of `room`, a Scratch's, until the next call.
    counted: whether parent, children and raw are wanted.
    """
    first, last, begin, end = segment
    local, (a, z) = room("local", end - begin, np.int32), (x.by[first], x.by[last])
    words = (first, last) if first < len(x.start) - 1 else (0, 1)
    suffix.contexts_at(x.begins, x.start, *words, k - 1, local)
    places = int(x.blocks[1, a:z].sum() - x.blocks[0, a:z].sum())
    columns, arrays = room("grams", (7, places), np.int32), (x.begins, x.come, x.rank, x.blocks)
    columns = columns[:, : suffix.gather(arrays, k, (a, z), (begin, local), counted, columns)]
    node = first if k == 2 else int(x.nodes(k - 1, [begin])[0])
    grams = Gathered(*columns, slice(node, node + int(local[-1]) + 1), local)
    if x.raw and counted:
        grams.raw = x.raw[k][grams.node]
        grams.children = (x.continuations[k][grams.node] if k < x.order else grams.children).astype(grams.raw.dtype)
    return grams


class Estimator:
    """The state of an estimation. Lists have order k at k, an array over the n-grams of the order in suffix order:
    log10p, backed off if the n-gram has no probability of its own; log10bow, nan if nothing extends the n-gram; marks,
    IN_MODEL and NEEDED; types, the number of n-grams that extend it. seen (W,): how often each word occurs in the text.
    types: whether to count the extensions of n-grams. inside (W + 1,): which words n-grams may have, None for all.
    """

    def __init__(self, suffixes, vocab, methods, seen, types=False, inside=None):
        self.suffixes, self.vocab, self.methods, self.scratch = suffixes, vocab, methods, Scratch()
        unk, n = vocab.unk_id, suffixes.order
        has_unknown = unk >= vocab.V and seen[unk] > 0  # <unk> is not predicted, but occurs in n-grams
        self.unknown = with_words(suffixes, np.arange(len(vocab.words)) == unk) if has_unknown else None
        self.outside = with_words(suffixes, ~inside) if inside is not None else None
        # whether some n-grams are not predicted, or not counted
        self.has_others = has_unknown or suffixes.raw is not None or suffixes.ended[vocab.V] < suffixes.ended[-1]
        sizes = [0, len(vocab.words), *map(len, suffixes.oldest[2:])]
        self.log10p = [None, None, *(np.empty(size, f32) for size in sizes[2:])]
        self.log10bow = [None, None, *(np.empty(size, f32) for size in sizes[2:n]), np.empty(0, f32)]
        self.marks = [None, None, *(np.zeros(size, np.uint8) for size in sizes[2:])]
        self.types = [*(np.zeros(size if types else 0, np.int32) for size in sizes[:n]), np.empty(0, np.int32)]

    def forget(self, k):
        """Gives the memory of order k back to the system. It cannot be used afterwards."""
        for column in (self.log10p, self.log10bow, self.marks, self.types):
            column[k] = None
        trim()

    def each_segment(self, work):
        """[work(room, segment)] of all segments, in threads; room: of a Scratch. Half of the threads do the large ones,
        in memory that is given back, since each takes as much memory as many others.
        """
        segments = self.suffixes.segments  # the largest first
        n_large = sum(end - begin > LARGE for *_, begin, end in segments)
        n_turns = min(max(thread_count() // 2, 1), n_large)
        groups = [segments[first:n_large:n_turns] for first in range(n_turns)]

        def run(group):
            scratch = Scratch() if group in groups else self.scratch
            with scratch.lent() as room:
                results = [work(room, segment) for segment in group]
            if scratch is not self.scratch:
                del room, scratch
                trim()
            return results

        return [*chain.from_iterable(map_at_once(run, [*groups, *([segment] for segment in segments[n_large:])]))]

    def estimate_all(self, kenlm):
        """Estimates the orders from 2 on, and the weights of their contexts. Returns how many n-grams are left out, not
        counting those with an <unk> that is not predicted.
        """
        left_out = sum(self.each_segment(partial(self.estimate, kenlm, exp10(self.log10p[1]))))
        vocab, kept = self.vocab, self.marks[1] > 0
        return left_out + np.count_nonzero(~kept[vocab.V :]) - (vocab.unk_id >= vocab.V and not kept[vocab.unk_id])

    def estimate(self, kenlm, lower_p, room, segment):
        """`estimate_all` for a segment. lower_p: 10^log10p of order 1; room: of a Scratch."""
        left_out = 0
        for k, grams, count, predicted, unknowns in self.orders(segment, room):
            node, raw = grams.node[predicted], grams.raw[predicted]
            if self.outside:
                raw = np.where(self.outside[k][node], -1, raw)
            events = grams.context[predicted], count[predicted], raw, grams.parent[predicted], lower_p
            log10p, lower_p, bow = smooth_large(k, events, grams.H, self.methods[k - 1], self.vocab.V, kenlm, room)
            types = room("types", grams.H, np.int32)
            lacking = len(grams.node) - put(node, log10p, events[0], self.log10p[k], self.marks[k], types)
            if lacking:
                lower_p = self.back_off(k, grams, predicted, log10p, lower_p, bow)
            bow[(types == 0) & (bow == 0)] = np.nan
            self.log10bow[k - 1][grams.contexts] = bow
            if len(self.types[k - 1]):
                self.types[k - 1][grams.contexts] = types
            left_out += lacking - unknowns
        return left_out

    def orders(self, segment, room):
        """Yields for each order k from 2 on: k; the Gathered of a segment; their counts as the order's method wants
        them; which n-grams are predicted; how many have an <unk> that is not predicted. An n-gram is predicted if it is
        counted, ends in a predicted word, and has no such <unk>.
        """
        for k in range(2, self.suffixes.order + 1):
            grams = gather(self.suffixes, k, segment, room, counted=True)
            count, predicted, unknowns = grams.raw, slice(None), 0
            if k < self.suffixes.order and self.methods[k - 1].continued:
                count, is_first = grams.children, self.suffixes.oldest[k][grams.node] >= self.vocab.V
                count[is_first] = grams.raw[is_first]  # nothing precedes n-grams that begin with a word such as <s>
            if self.has_others:
                is_predicted = (grams.word < self.vocab.V) & (grams.raw >= 0)
                if self.unknown:
                    is_unknown = (grams.word == self.vocab.unk_id) | self.unknown[k - 1][grams.contexts][grams.context]
                    is_predicted, unknowns = is_predicted & ~is_unknown, np.count_nonzero(is_unknown)
                predicted = np.flatnonzero(is_predicted)
            yield k, grams, count, predicted, unknowns

    def back_off(self, k, grams, predicted, log10p, p, bow):
        """Backs off for the n-grams without a probability of their own. log10p, p: of the `predicted` n-grams; bow: of
        the contexts. Returns p of all n-grams, (N,).
        """
        lacks_p, all_p = np.ones(len(grams.node), bool), np.empty(len(grams.node))
        lacks_p[predicted], all_p[predicted] = np.isnan(log10p), p
        node = grams.node[lacks_p]
        self.log10p[k][node] = bow[grams.context[lacks_p]] + self.log10p[k - 1][grams.suffix[lacks_p]]
        self.marks[k][node] = 0
        all_p[lacks_p] = exp10(self.log10p[k][node])
        return all_p

    def need_contexts(self, k, room, segment):
        """Marks the contexts of a segment's k-grams that are IN_MODEL. Returns suffixes of those that are NEEDED."""
        grams = gather(self.suffixes, k, segment, room)
        marks, bow = self.marks[k][grams.node], self.log10bow[k - 1][grams.contexts]
        extended = grams.context[marks & IN_MODEL > 0]
        self.marks[k - 1][grams.contexts][extended] |= IN_MODEL | NEEDED
        bow[extended] = np.where(np.isnan(bow[extended]), 0, bow[extended])
        if len(self.types[k - 1]):
            self.types[k - 1][grams.contexts] = np.bincount(extended, minlength=grams.H)
        return grams.suffix[marks & NEEDED > 0]

    def need_order(self, k, ends):
        """Marks the prefixes of the n-grams of order k, and the suffixes of the NEEDED ones. With `ends` these suffixes
        have to be in the model too, as in SRILM; otherwise only the weights of those in the model have to be written.
        """
        mark = IN_MODEL | NEEDED if ends and k > 2 else NEEDED
        for suffixes in self.each_segment(partial(self.need_contexts, k)):
            self.marks[k - 1][suffixes] |= mark


def tally(x, methods, vocab):
    """The counts of counts n_1 .. n_r, (r,), of each order of Suffixes x from 2 on, a list. The order's Method may ask
    for numbers up to n_r.
    """
    end = x.ended[vocab.V]  # n-grams that end in a predicted word are at the places below `end`
    spans = [*pairwise(suffix.cut_places(x.begins[:end], PIECE, 2))]
    orders = enumerate(methods[1:], 2)
    return [sum(map_at_once(partial(tally_span, x, k, method, vocab.V), spans)) for k, method in orders]


def tally_span(x, k, method, V, span):
    """The counts of counts of the n-grams of order k that begin in a span of places."""
    if not method.highest:
        return np.zeros(0, np.int64)
    count, *continuations = x.counts(k, span)
    if k == x.order or not method.continued or method.counts != "before":
        continuations = [count]
    n = np.zeros(1 + method.highest, np.int64)
    tally_counts(count, *continuations, x.oldest[k][slice(*x.nodes(k, span))], V, n)
    return n[1:]


@jit
def tally_counts(count, continuations, oldest, V, n):
    """n (1 + r,) += how many n-grams have the counts 1 .. r; n[0] has the others. count (N,): how often each was seen;
    continuations (N,) count instead for n-grams that are counted and whose oldest word is below V.
    """
    for i in range(len(count)):
        c = continuations[i] if oldest[i] < V and count[i] >= 0 else count[i]
        whole = np.int64(c)
        n[whole if whole == c and 0 < whole < len(n) else 0] += 1


def with_words(x, chosen):
    """Which n-grams of each order have one of the `chosen` words (W + 1,) in them: a list with order k at k."""
    last = np.zeros(len(x.begins), bool)
    for ends in (x.ended, x.start):  # of a bucket's events, and of its contexts
        last[ends[0] : ends[-1]] = np.repeat(chosen[:-1], np.diff(ends))
    orders = [None, chosen]
    for k in range(2, x.order + 1):
        place = np.flatnonzero(suffix.is_begin(x.begins, k))
        shorter = last[place] if k == 2 else orders[k - 1][x.nodes(k - 1, place + 1) - 1]
        orders.append(shorter | chosen[x.oldest[k]])
    return orders


@jit
def put(place, log10p, context, all_log10p, marks, types):
    """all_log10p[place] <- log10p (N,). marks[place] <- IN_MODEL, or 0 where log10p is nan. types (H,) <- the number of
    each context's n-grams whose log10p is not nan. Returns the sum of `types`. One random write an n-gram.
    """
    many = 0
    types[:] = 0
    for i in range(len(place)):
        has_p = log10p[i] == log10p[i]
        all_log10p[place[i]] = log10p[i]
        marks[place[i]] = has_p
        types[context[i]] += has_p
        many += has_p
    return many


def seen_words(counts, marks):
    """How often each word of the model is seen, (W,), -1 for never. counts (W - 1,): how often each id occurs in the
    text; <s> is seen as often as the border.
    """
    seen = np.append(counts, counts[0] * marks.sos)
    seen[0] *= marks.eos
    return np.where(seen > 0, seen, -1)


def smooth_unigrams(vocab, recipe, kept, seen, bigrams, counted, features):
    """Order 1: (the methods with their discounts, log10 p of the words, their marks). kept: as `smoothing.words_kept`
    returns it; seen (W,): how often each word is seen, -1 if it is not counted; bigrams (W - 1,): the number of bigrams
    that end in each id of the text. Of each order from 2 on: counted, the counts of counts; features, for `tuned`.
    """
    (inside, size), is_counted, seen = kept, seen >= 0, np.maximum(seen, 0)
    words, count = np.arange(len(vocab.words), dtype=np.int32), seen
    if recipe.methods[0].continued:
        count = np.where(words < vocab.V, np.append(bigrams, 0), seen)
    nothing = np.zeros(len(words), np.int32)
    first = Order(
        keys=words, parent=nothing, word=words, suffix=nothing, count=count, counted=is_counted, first_word=words,
        event=is_counted & (words < vocab.V), raw=seen, inside=inside,
    )  # fmt: skip
    if recipe.heldout:
        recipe = recipe.tuned([*recipe.heldout.of_levels([first]), *features])
    last = last_word(seen, vocab) if recipe.kenlm else None
    of_orders = [partial(counts_of_counts, first, recipe.methods[0], last, vocab.V)]
    of_orders += [lambda r, n=n: n[:r].tolist() for n in counted]
    methods = [recipe.discounted_method(k, n) for k, n in enumerate(of_orders, 1)]
    estimate_order([first], 1, methods[0], vocab, recipe.tell, size)
    return methods, first.log10p, first.kept.astype(np.uint8)


def last_word(seen, vocab):
    """The last word in lmplz's order: marks, then words as they were first seen. seen (W,): how often each was seen."""
    words = np.flatnonzero(seen > 0)
    others = words[(words != vocab.eos_id) & (words != vocab.unk_id) & (words != vocab.sos_id)]
    return others[-1] if len(others) else words[0]


def count_last(counted, x, word, vocab):
    """How `counted`, the counts of counts of Suffixes x, change because lmplz counts the last n-gram of each order 2 ..
    n - 1, in its order, by its raw count instead of its continuation count. Returns where the oldest word of the last
    bigram is in lmplz's order, from 1 on, or 0 without a bigram; and the changes. word: the last word; without a
    predicted one nothing changes.
    """
    first, changes = 0, [np.zeros_like(n) for n in counted]
    a, b = x.ended[word : word + 2] if word < vocab.V else (0, 0)
    for k, n in enumerate(changes[:-1], 2):  # a, b: the places of the last n-gram of order k - 1
        counts, oldest = x.counts(k, (a, b)), x.oldest[k][slice(*x.nodes(k, (a, b)))]
        # the place of the oldest word in lmplz's order; 0 for n-grams that were not seen
        rank = np.where(oldest == vocab.unk_id, 1, np.where(oldest == vocab.sos_id, 2, oldest + 3)) * (counts[0] > 0)
        if not rank.any():
            break
        last = rank.argmax()
        first = first or int(rank[last])
        if oldest[last] == vocab.sos_id:  # no word precedes <s>: its count is the raw count
            break
        for r, change in zip((column[last] for column in counts), (1, -1)):
            if 0 < r <= len(n):
                n[r - 1] += change
        a, b = np.append(a + np.flatnonzero(suffix.is_begin(x.begins[a:b], k)), b)[last : last + 2]
    return first, changes
