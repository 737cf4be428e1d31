"""Grows a set of n-grams from a text, order by order (after Siivola, Hirsimaki and Virpioja 2007).

The words of a text go in as ids; a model with the n-grams that are worth having comes out. It has every word. The
n-grams h w of order k are counted only where the model has the n-grams h and h' w, h' being h without its oldest
word. Either all n-grams h w of a context h come in, or none: they come in if at least one of them raises the
log-likelihood of its expected occurrences by a limit. So memory holds the words of the text and the n-grams that come
in, but not all n-grams of a high order.

With the counts c of the n-grams h w, their sum S, their discounts D and the sum G of the discounts,

    p(w | h) = (c - D + G p(w | h')) / S,    gain(h w) = S p(w | h) log (p(w | h) / ((G + c - D) / S p(w | h')))

The gain is the loss for which `edit.kneser` would prune h w again. p(w | h') is kept for each word of the text.
"""

import math

import numpy as np

from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import build_nodes


def grow(corpus, vocab, methods, threshold):
    """A Backoff with the n-grams that come in, without probabilities. Orders without n-grams are left out. corpus: a
    Corpus. methods: of each order, with their discounts. threshold: the limit as a share of the perplexity of the text.
    """
    ids, W = corpus.ids.astype(np.int64), len(vocab.words)
    limit = np.count_nonzero(corpus.scored) * math.log1p(threshold)
    predicted, is_first = corpus.scored & (ids < vocab.V), np.zeros(len(ids), bool)
    is_first[corpus.starts[:-1]] = True
    is_context = (ids < vocab.V) | (ids == vocab.sos_id)  # a context has no unknown words that are not predicted
    c, node = np.bincount(ids[predicted], minlength=W), np.where(is_context, ids, -1)
    d = c - methods[0].discount(c)
    p = ((c - d + d.sum() / vocab.V) / max(c.sum(), 1))[ids]
    levels = [(np.arange(W), np.where(np.arange(W) == vocab.unk_id, np.nan, -np.inf), 0)]
    for method in methods[1:]:
        before = np.concatenate(([-1], node[:-1]))
        at = np.flatnonzero((before >= 0) & (node >= 0) & predicted & ~is_first)
        keys, first, inverse, c = np.unique(before[at] * W + ids[at], True, True, True)
        if not len(keys):
            break
        context, d, q = keys // W, c - method.discount(c), p[at[first]]
        S, G = (np.bincount(context, column)[context] for column in (c, d))
        new, without = c - d + G * q, (G + c - d) * q
        with np.errstate(divide="ignore", invalid="ignore"):
            is_kept = np.bincount(context, new * np.log(new / without) >= limit)[context] > 0
        if not is_kept.any():
            break
        levels.append((keys[is_kept], np.nan, 0))
        p[at] = np.where(is_kept, new / S, q)[inverse]
        node = np.full(len(ids), -1)
        node[at] = np.where(is_kept, np.cumsum(is_kept) - 1, -1)[inverse]
    return Backoff(vocab, build_nodes(levels, W))
