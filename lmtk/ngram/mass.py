"""Probability mass in the contexts of back-off models.

`backoff_weights` computes the back-off weights of contexts from the mass that is left over. `of_contexts` computes the
probability of a set of words after every context of a model, and `in_rows` looks it up for contexts.
"""

import math

import numpy as np

from lmtk.lm import probability
from lmtk.machine.jit import inlined
from lmtk.ngram.estimate.methods import EPSILON
from lmtk.ngram.model.searching import find_rows

f32 = np.float32
FAR = 0.06  # nats; with a larger divergence, a model is far from text


def backoff_weights(sums, lower_sums):
    """(log10 back-off weights, log10 of the factors for the probabilities of seen words), (C,) float32 each, of C
    contexts. sums, lower_sums (C,): the sums over the seen words of p, and of p by the lower order.

    A weight is 0 if nothing is left on either side, and -inf if p sums to more than one, where SRILM writes -99.
    Without unseen words, a factor gives the left-over mass to the seen words. Otherwise the factors are 1.
    """
    left, lower_left = (np.where(np.abs(x) < EPSILON, 0, x) for x in (1 - sums, 1 - lower_sums))
    scale, is_wasted = np.zeros(len(sums), f32), (left > 0) & (lower_left <= 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale[is_wasted] = -np.log10(sums[is_wasted])
        left[is_wasted] = 0
        bow = np.log10(left) - np.log10(np.maximum(lower_left, 0))
    is_empty = (left == 0) & (lower_left <= 0)
    return np.where(left < 0, -np.inf, np.where(is_empty, 0, bow)).astype(f32), scale


@inlined
def left_of_one(total, lower_total):
    """The left-over mass of one context, for kernels: (the mass; the mass that the lower order gives the unseen
    words; log10 of the factor of `backoff_weights`; whether p sums to more than one).
    """
    numerator, denominator = 1 - total, 1 - lower_total
    numerator = 0.0 if abs(numerator) < EPSILON else numerator
    denominator = 0.0 if abs(denominator) < EPSILON else denominator
    over, scale = numerator < 0, f32(0)
    if numerator > 0 and denominator <= 0:
        scale = f32(-math.log10(total))
        numerator = denominator = 0.0
    return numerator, max(denominator, 0.0), scale, over


def is_far_from_text(model):
    """Whether the 1-gram probabilities of a model differ from the word frequencies that its 2-grams imply, as in
    Kneser-Ney smoothing, whose 1-grams count contexts. With q(w) = sum_v p(v) p(w | v), the divergence
    sum_w q(w) ln (q(w) / p(w)) is 0.08 to 0.25 for Kneser-Ney models of texts, below 0.05 for others and for mixtures.
    """
    if model.order < 2:
        return False
    V, vocab = len(model.vocab.words), model.vocab
    words, log10p, log10bow = model.ngrams(1)
    p, bow = np.zeros(V), np.ones(V)
    p[words[:, 0]], bow[words[:, 0]] = np.nan_to_num(probability(log10p)), probability(np.nan_to_num(log10bow))
    before = p.copy()
    before[vocab.sos_id], before[vocab.eos_id] = p[vocab.eos_id], 0
    rows, log10p, _ = model.ngrams(2)
    (v, w), of_pair = rows.T, np.nan_to_num(probability(log10p))
    backed_off = (before * bow).sum() - np.bincount(w, before[v] * bow[v], V)
    q = p * backed_off + np.bincount(w, before[v] * of_pair, V)
    both = (p > 0) & (q > 0)
    q = q[both] / q[both].sum()
    return bool((q * np.log(q / p[both])).sum() > FAR)


def of_contexts(model, chosen):
    """M(c), the sum of p(w | c) over the words w of a set S, for every context c of a back-off model.

    chosen: (V,), whether a predicted word is in S. Returns a list: (1,) for the empty context, then (N_k,) for the
    n-grams of length k = 1 .. order - 1, as contexts. With c' the context c without its oldest word, and the sums over
    the words of S that have an n-gram c w,

    M(c) = sum_w p(w | c) + bow(c) (M(c') - sum_w p(w | c')).
    """
    nodes = model.nodes
    chosen = np.concatenate((chosen, np.zeros(len(model.vocab.words) - len(chosen), bool)))
    words, log10p, _ = model.ngrams(1)
    masses = [np.array([np.nansum(probability(log10p[chosen[words[:, 0]]]))])]
    for k in range(2, model.order + 1):
        rows, log10p, _ = model.ngrams(k)
        selected = chosen[rows[:, -1]] & ~np.isnan(log10p)
        p, q = probability(log10p[selected]), probability(model.log10p_of(rows[selected, 1:]))
        parent, size = nodes.parents(k)[selected], nodes.size(k - 1)
        explicit, lower = (np.bincount(parent, weights, size) for weights in (p, q))
        bow = probability(nodes.levels[k - 1]["log10bow"][:-1])
        masses.append(explicit + bow * (in_rows(model, masses, nodes.rows(k - 1)[:, 1:]) - lower))
    return masses


def in_rows(model, masses, rows):
    """M (N,) of the longest suffix of each context in the model. rows (N, k): ids, the oldest first, -1 for none."""
    total, k = np.full(len(rows), masses[0][0]), rows.shape[1]
    for length in range(1, k + 1):
        node = find_rows(model.nodes, rows[:, k - length :])
        total[node >= 0] = masses[length][node[node >= 0]]
    return total
