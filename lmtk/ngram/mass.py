"""The probability of a set of words in each context of a back-off model, without a look-up of each word."""

import numpy as np

from lmtk.ngram.counts import find_rows
from lmtk.text.corpus import contexts, sentences


def of_contexts(model, chosen):
    """M(c), the sum of p(w | c) over the words w of a set S, for every context c of a back-off model.

    chosen: (V,), whether a predicted word is in S. Returns a list: (1,) for the empty context, then (N_k,) for the
    n-grams of length k = 1 .. order - 1, as contexts. With c' the context c without its oldest word, and the sums over
    the words of S that have an n-gram c w,

    M(c) = sum_w p(w | c) + bow(c) (M(c') - sum_w p(w | c')).
    """
    W = len(model.vocab.words)
    chosen = np.concatenate((chosen, np.zeros(W - len(chosen), bool)))
    first = model.levels[0]
    found = [np.array([np.nansum(np.exp(first.logp[chosen[first.keys]]))])]
    rows = first.keys[:, None]
    for k, level in enumerate(model.levels[1:], 1):
        parent, word = np.divmod(level.keys, W)
        longer = np.column_stack((rows[parent], word))
        own = chosen[word] & ~np.isnan(level.logp)
        shorter = sentences(longer[own, 1:])
        p = np.exp(level.logp[own]) if own.any() else np.zeros(0)
        q = np.exp(model.lower(k).score(shorter).logp[k - 1 :: k]) if own.any() else np.zeros(0)
        explicit, lower = (np.bincount(parent[own], weights, len(rows)) for weights in (p, q))
        found.append(explicit + np.exp(model.levels[k - 1].bow) * (in_rows(model, found, rows[:, 1:]) - lower))
        rows = longer
    return found


def in_rows(model, masses, rows):
    """M of each context, ids (N, k), the oldest word first, -1 for none: M of its longest suffix in the model."""
    total, k = np.full(len(rows), masses[0][0]), rows.shape[1]
    orders = [level.keys for level in model.levels]
    for length in range(1, k + 1):
        node = find_rows(orders, rows[:, k - length :], len(model.vocab.words))
        known = node >= 0
        total[known] = masses[length][node[known]]
    return total


def in_corpus(model, masses, corpus, at):
    """M of the context of each of the tokens `at`, (len(at),)."""
    return in_rows(model, masses, contexts(corpus, model.order)[at][:, ::-1])
