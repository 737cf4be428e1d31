"""Kneser-Ney's discounts tuned on held-out text (Hsu and Glass 2008), where few counts give the closed form little.

An interpolated p is a_k + g_k p_(k-1) at each order k, and a_k = (c - D(c)) / T and g_k = D n / T are linear in that
order's D. So ln p of a text is concave in the discounts of one order, the others fixed: Newton's steps find its
maximum, an order after the other, again and again.
"""

from dataclasses import replace

import numpy as np

from lmtk.errors import LmtkError
from lmtk.ngram.counts import find, values
from lmtk.ngram.smoothing import counted_levels, odd_contexts
from lmtk.text.corpus import contexts

LEAST = 1e-3  # discounts from here on, so that every context leaves something
SWEEPS = 50
ENOUGH = 1e-7  # gain of ln p a word at which the sweeps end


def tuned(counts, vocab, order, methods, corpus):
    """{k: Method} with the discounts that give a held-out Corpus most probability, for interpolated Kneser-Ney of all
    orders. N-grams that a minimum leaves out count in it. Raises LmtkError where no word of the text is predicted.
    """
    levels = counted_levels(counts, vocab, order, methods)
    at = np.flatnonzero(corpus.scored & (corpus.ids < vocab.V))
    if not len(at):
        raise LmtkError("the held-out text has no word that the model predicts")
    features = [features_of(levels, k, m, vocab, corpus, at) for k, m in enumerate(methods[: len(levels)], 1)]
    D = [np.array([0.5, 1.0, 1.5])[: n.shape[1]] for _, _, n in features]
    before = -np.inf
    for _ in range(SWEEPS):
        for k in range(len(D)):
            D[k] = best(features, D, k, vocab.V)
        gained = np.log(probability(features, D, vocab.V)[0]).mean()
        if gained - before < ENOUGH:
            break
        before = gained
    return {k: replace(methods[k - 1], parameters=tuple(map(float, d))) for k, d in enumerate(D, 1)}


def features_of(levels, k, method, vocab, corpus, at):
    """Of each event (N,): its count over T; the slopes of that over the discounts, (N, R), -1 / T at the discount that
    c has; and of the lower order's weight, n_r / T, (N, R). All 0 in a context that was not seen.
    """
    level, W, R = levels[k - 1], len(vocab.words), len(method.smoothing.names)
    event = level.counted & (level.word < vocab.V) & (level.count > 0)
    rows = contexts(corpus, k)[at]
    context, H = np.zeros(len(at), np.int64), 1
    if k > 1:
        H = len(levels[k - 2].keys)
        event &= ~odd_contexts(levels[k - 2], slice(0, H), vocab)[level.parent]
        for j, below in enumerate(levels[: k - 1]):
            context = find(below.keys, context, rows[:, k - 2 - j].astype(np.int64), W)
    node = find(level.keys, context, corpus.ids[at].astype(np.int64), W)
    kind = np.minimum(level.count, R).astype(np.int64)
    T = np.bincount(level.parent[event], level.count[event], H)
    n = [np.bincount(level.parent[event & (kind == r)], minlength=H) for r in range(1, R + 1)]
    T = values(T, context, 0.0)
    seen = (node >= 0) & (T > 0)
    seen[seen] = event[node[seen]]
    T = np.where(T > 0, T, np.inf)
    c = np.where(seen, level.count[node], 0) if len(level.count) else np.zeros(len(at))
    slope = np.zeros((len(at), R))
    slope[np.flatnonzero(seen), kind[node[seen]] - 1] = -1
    return c / T, slope / T[:, None], np.stack([values(x, context, 0) for x in n], 1) / T[:, None]


def probability(features, D, V):
    """p of each event with all orders, (N,), and with those below each order, a list from 1 / V on."""
    p, below = np.full(len(features[0][0]), 1 / V), []
    for (a, slope, n), d in zip(features, D, strict=True):
        below.append(p)
        p = a + slope @ d + np.where(n.any(1), n @ d, 1) * p
    return p, below


def best(features, D, k, V):
    """The discounts of order k + 1 that give the events most, those of the others being D."""
    p, below = probability(features, D, V)
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
            there = p + slope @ (new - d)
            if (there > 0).all() and np.log(there / p).sum() > 0:
                break
            size /= 2
        else:
            return d
        moved, d, p = np.abs(new - d).max(), new, there
        if moved < 1e-7:
            return d
    return d
