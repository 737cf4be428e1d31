"""Kneser-Ney discounts tuned on held-out text (Hsu and Glass 2008), for texts too small for counts of counts.

An interpolated p is a_k + g_k p_(k-1) at each order k; a_k = (c - D(c)) / T and g_k = D n / T are linear in the
discounts D of that order. So ln p of a text is concave in the discounts of one order while the others are fixed.
Newton's method finds its maximum for one order after the other, in several sweeps.

symbol   shape   meaning
N R      -       predicted words of the held-out text; how many discounts an order has
a        (N,)    c / T of each word after its context
slope    (N, R)  the derivatives of (c - D(c)) / T by the discounts: -1 / T at the discount of c, else 0
n        (N, R)  the derivatives of the lower order's weight: n_r / T, n_r being the context's n-grams with discount r
features -       (a, slope, n) of an order; all are 0 in a context that was not seen
"""

from dataclasses import replace
from functools import partial

import numpy as np

from lmtk.errors import LmtkError
from lmtk.ngram.counting.counts import find, find_rows, values
from lmtk.text.corpus import contexts

LEAST = 1e-3  # the least discount, with which every context leaves something
SWEEPS = 50  # over all orders, at most
ENOUGH = 1e-7  # gain of ln p a word at which the sweeps end


class HeldOut:
    """A held-out Corpus, and a Method of interpolated Kneser-Ney for each order. words (N, n) int32: each predicted
    word, then the words before it, the nearest first; -1 before the sentence. Raises LmtkError if no word is predicted.
    """

    def __init__(self, corpus, vocab, methods):
        at = np.flatnonzero(corpus.scored & (corpus.ids < vocab.V))
        if not len(at):
            raise LmtkError("the held-out text has no word that the model predicts")
        self.words = np.column_stack((corpus.ids, contexts(corpus, len(methods))))[at]
        self.vocab, self.methods = vocab, methods

    def tune(self, features):
        """{k: Method} with the discounts under which the text is most likely. The likelihood includes n-grams that a
        minimum will leave out. features: of each order.
        """
        D, before = [np.array([0.5, 1.0, 1.5])[: n.shape[1]] for _, _, n in features], -np.inf
        for _ in range(SWEEPS):
            for k in range(len(D)):
                D[k] = best_discounts(features, D, k, self.vocab.V)
            gained = np.log(probabilities(features, D, self.vocab.V)[0]).mean()
            if gained - before < ENOUGH:
                break
            before = gained
        return {k: replace(self.methods[k - 1], parameters=tuple(map(float, d))) for k, d in enumerate(D, 1)}

    def of_levels(self, levels):
        """The features of each order, from smoothing.Orders."""
        W, features, H = len(self.vocab.words), [], 1  # H: the number of contexts
        for k, level in enumerate(levels, 1):
            context = find_rows([below.keys for below in levels[: k - 1]], self.words[:, k - 1 : 0 : -1], W)
            node = find(level.keys, context, self.words[:, 0], W)
            features.append(self.of_words(k, (level.parent, level.count * level.event), H, context, node))
            H = len(level.keys)
        return features

    def unseen(self):
        """Features of the orders from 2 on, all 0, for `of_estimator`."""
        N, sizes = len(self.words), [len(method.names) for method in self.methods[1:]]
        return [(np.zeros(N), np.zeros((N, R)), np.zeros((N, R))) for R in sizes]

    def of_estimator(self, work, features):
        """The features of the orders from 2 on, as `of_levels` makes them, from an engine.Estimator: fills `features`,
        made by `unseen`, for the words whose last context word is in one of its segments. Returns them.
        """
        work.each_segment(partial(self.of_segment, work, features))
        return features

    def of_segment(self, work, features, room, segment):
        """`of_estimator` for a segment. An n-gram is found by its suffix and its oldest word."""
        x, W, (first, last, *_) = work.suffixes, len(self.vocab.words), segment
        chosen = np.flatnonzero((first <= self.words[:, 1]) & (self.words[:, 1] < last))
        if not len(chosen):
            return
        word, *before = self.words[chosen].astype(np.int64).T
        context, shorter = before[0] - first, None
        for k, grams, count, predicted, _ in work.orders(segment, room):
            if k == 2:
                node = find(grams.context.astype(np.int64) * W + grams.parent, context, word, W)
            else:
                new = np.flatnonzero(np.diff(grams.local, prepend=-1))
                context = find(shorter[new] * W + x.oldest[k - 1][grams.contexts], context, before[k - 2], W)
                keys = grams.parent.astype(np.int64) * W + x.oldest[k][grams.node]
                node = find(keys, node, before[k - 2], W)
            shorter = grams.local.astype(np.int64)  # the suffixes of the next order's contexts
            events = np.zeros_like(count)
            events[predicted] = count[predicted]
            features_of_order = self.of_words(k, (grams.context, events), grams.H, context, node)
            for whole, part in zip(features[k - 2], features_of_order, strict=True):
                whole[chosen] = part

    def of_words(self, k, grams, H, context, node):
        """The features of order k. context, node (N,): each held-out word's context and n-gram, -1 for none. grams: of
        each n-gram of the order, which of the H contexts it extends, and its count, 0 if it is not predicted.
        """
        (parent, count), R = grams, len(self.methods[k - 1].names)
        kind = np.minimum(count, R).astype(np.int64)
        n = [np.bincount(parent[kind == r], minlength=H) for r in range(1, R + 1)]
        T, c = values(np.bincount(parent, count, H), context, 0.0), values(count, node, 0)
        T, seen = np.where(T > 0, T, np.inf), np.flatnonzero(c > 0)
        slope = np.zeros((len(node), R))
        slope[seen, kind[node[seen]] - 1] = -1
        return c / T, slope / T[:, None], np.stack([values(x, context, 0) for x in n], 1) / T[:, None]


def probabilities(features, D, V):
    """(p of each word by all orders, (N,); for each order, p by the orders below it, a list that begins with 1 / V)."""
    p, below = np.full(len(features[0][0]), 1 / V), []
    for (a, slope, n), d in zip(features, D, strict=True):
        below.append(p)
        p = a + slope @ d + np.where(n.any(1), n @ d, 1) * p
    return p, below


def best_discounts(features, D, k, V):
    """The discounts of order k + 1 under which the words are most likely, while the other orders have those in D."""
    p, below = probabilities(features, D, V)
    weight = np.ones(len(p))
    for (_, _, n), d in zip(features[k + 1 :], D[k + 1 :], strict=True):
        weight *= np.where(n.any(1), n @ d, 1)
    slope = weight[:, None] * (features[k][1] + features[k][2] * below[k][:, None])
    d, most = D[k], np.arange(1, len(D[k]) + 1)
    for _ in range(20):
        ratio = slope / p[:, None]
        gradient, hessian = ratio.sum(0), ratio.T @ ratio + 1e-9 * np.eye(len(d))
        free = ~((d <= LEAST) & (gradient < 0) | (d >= most) & (gradient > 0))  # the others stay at their bounds
        step = np.zeros(len(d))
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        size = 1.0
        while size > 1e-6:
            new = np.clip(d + size * step, LEAST, most)
            new_p = p + slope @ (new - d)
            if (new_p > 0).all() and np.log(new_p / p).sum() > 0:
                break
            size /= 2
        else:
            return d
        moved, d, p = np.abs(new - d).max(), new, new_p
        if moved < 1e-7:
            return d
    return d
