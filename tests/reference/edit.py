"""What lmtk.ngram.edit does, in numpy: the reference that its kernels are compared with.

A model is taken apart into Columns, an item for each order. Its n-grams are found by keys, the place of the context
times W plus the last word.
"""

import warnings
from typing import NamedTuple

import numpy as np

from lmtk.errors import LmtkWarning
from lmtk.lm import LN10, probability
from lmtk.ngram.counting.counts import find, values
from lmtk.ngram.edit.renormalize import complete_unigrams
from lmtk.ngram.edit.vocabulary import new_ids, unite_vocabularies
from lmtk.ngram.estimate.methods import EPSILON
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import build_nodes
from lmtk.text.vocab import EOS, SOS, Vocab

SOME = np.float32(0)


class Columns(NamedTuple):
    """The N n-grams of one order: keys (N,) int64; log10p and log10bow (N,) float32, log10p nan for bare prefixes."""

    keys: np.ndarray
    log10p: np.ndarray
    log10bow: np.ndarray


class Left(NamedTuple):
    """The mass that C contexts leave for their unseen words, (C,) each. numerator, denominator: the mass, and the mass
    that the lower order gives these words; their quotient is the back-off weight. scale: log10 of the factor by which
    the probabilities of the seen words have to be multiplied, usually 0; over: whether these sum to more than one.
    """

    numerator: np.ndarray
    denominator: np.ndarray
    scale: np.ndarray
    over: np.ndarray

    def weights(self):
        """log10 back-off weights, (C,) float32: 0 if nothing is left on either side; -inf if p sums to more than one,
        for which SRILM writes -99 too.
        """
        is_empty = (self.numerator == 0) & (self.denominator == 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            bow = np.log10(self.numerator) - np.log10(self.denominator)
        return np.where(self.over, -np.inf, np.where(is_empty, 0, bow)).astype(np.float32)


def left(sums, lower_sums):
    """The Left of C contexts, from the sums over their seen words of p, and of p by the lower order, (C,) each."""
    numerator, denominator = 1 - sums, 1 - lower_sums
    numerator[np.abs(numerator) < EPSILON] = 0
    denominator[np.abs(denominator) < EPSILON] = 0
    over, scale = numerator < 0, np.zeros(len(sums), np.float32)
    # mass is left, but there are no unseen words to take it, so that the seen words get it
    wasted = (numerator > 0) & (denominator <= 0)
    with np.errstate(divide="ignore"):
        scale[wasted] = -np.log10(sums[wasted])
    numerator[wasted] = 0
    denominator[wasted | (denominator < 0)] = 0
    return Left(numerator, denominator, scale, over)


class Links(NamedTuple):
    """The nodes of the N n-grams of order k, of their suffixes, and of the suffixes of their contexts.

    nodes[j - 1] (N,): the node of the last j words of each n-gram, j = 1 .. k; contexts[j - 1] (N,): that of the last j
    words of its context, j = 1 .. k - 1. -1 if the model has no such node.
    """

    nodes: list
    contexts: list


def columns(model):
    """The Columns of each order, which may be changed."""
    orders = []
    for k in range(1, model.order + 1):
        rows, log10p, log10bow = model.ngrams(k)
        keys = model.nodes.parents(k) * len(model.vocab.words) + rows[:, -1]
        orders.append(Columns(keys.astype(np.int64), log10p.copy(), log10bow.copy()))
    return orders


def model_of(vocab, levels):
    return Backoff(vocab, build_nodes(levels, len(vocab.words)))


def changed(model, change):
    """The model after change(columns, k) of the Columns of each order k."""
    levels = columns(model)
    for k, level in enumerate(levels, 1):
        change(level, k)
    return model_of(model.vocab, levels)


def links(levels, W):
    """Yields the Links of each order of a model with W words."""
    nodes = []
    for k, level in enumerate(levels, 1):
        parent, word = level.keys // W, level.keys % W
        contexts = [values(before, parent, -1) for before in nodes] if k > 1 else []
        above = [np.zeros(len(word), np.int64), *contexts]
        nodes = [find(levels[j].keys, above[j], word, W) for j in range(k - 1)] + [np.arange(len(word))]
        yield Links(nodes, contexts)


def backed_off(log10p, log10bow, nodes, contexts):
    """log10 p, (N,) in single precision, of words after contexts, by the n-grams of `nodes`, from the 1-grams on."""
    out, weight = np.full(len(nodes[0]), -np.inf, np.float32), np.zeros(len(nodes[0]), np.float32)
    for j, node in enumerate(nodes):
        log10p_of_nodes = values(log10p[j], node, np.float32(np.nan))
        stated = ~np.isnan(log10p_of_nodes)
        out[stated], weight[stated] = log10p_of_nodes[stated], 0
        if j < len(contexts):
            weight += values(log10bow[j], contexts[j], SOME)
    return out + weight


def left_over(log10p, lower, parent, C):
    """The Left of C contexts, from their n-grams, (N,) each."""
    stated = ~np.isnan(log10p)
    return left(*(np.bincount(parent[stated], probability(p[stated]), C) for p in (log10p, lower)))


def new_weights(log10p, every, keys, vocab):
    """(the back-off weights of each order; how many contexts sum to more than one). log10p may change in place."""
    log10bow = [np.zeros(len(p), np.float32) for p in log10p]
    with np.errstate(divide="ignore", invalid="ignore"):
        log10p[0], over = complete_unigrams(log10p[0], keys, vocab)
        for k, (nodes, contexts) in enumerate(every[1:], 2):
            lower = backed_off(log10p, log10bow, nodes[:-1], contexts[:-1])
            mass = left_over(log10p[k - 1], lower, contexts[-1], len(log10p[k - 2]))
            over += int(mass.over.sum())
            log10p[k - 1] += mass.scale[contexts[-1]]
            log10bow[k - 2] = mass.weights()
    return log10bow, over


def renormalize(model):
    levels = columns(model)
    every, log10p = list(links(levels, len(model.vocab.words))), [level.log10p for level in levels]
    log10bow, over = new_weights(log10p, every, levels[0].keys, model.vocab)
    with np.errstate(invalid="ignore"):
        for k, (nodes, contexts) in enumerate(every[1:], 2):
            bare = np.isnan(log10p[k - 1])
            log10p[k - 1][bare] = backed_off(log10p, log10bow, nodes, contexts)[bare]
    for level, bow in zip(levels, log10bow):
        bow[(bow == 0) & ((level.log10bow != 0) | np.signbit(level.log10bow))] = -0.0
    if over:
        more = f" and {over - 1} other contexts" if over > 1 else ""
        warnings.warn(f"a context{more} sum to more than one", LmtkWarning, stacklevel=2)
    return model_of(model.vocab, list(zip([level.keys for level in levels], log10p, log10bow)))


def context_probabilities(model, levels, log10p, log10bow, every):
    """log10 p of each node as a sequence of words; <s> at the beginning counts as </s>."""
    vocab, W, out = model.vocab, len(model.vocab.words), []
    for k, (level, (nodes, contexts)) in enumerate(zip(levels, every), 1):
        word = level.keys % W
        log10p_of_contexts = backed_off(log10p, log10bow, nodes, contexts)
        skipped = np.isneginf(log10p_of_contexts) & (word >= vocab.V)
        if k == 1:
            log10p_of_contexts[skipped] = 0
            closing = log10p_of_contexts[word == vocab.eos_id]
            log10p_of_contexts[word == vocab.sos_id] = closing[0] if len(closing) else -np.inf
            out.append(log10p_of_contexts)
            continue
        out.append(out[-1][contexts[-1]] + np.where(skipped, SOME, log10p_of_contexts))
    return out


def prune(model, threshold, minorder=2, context=None):
    W, order, levels = len(model.vocab.words), model.order, columns(model)
    log10p, log10bow = [level.log10p for level in levels], [level.log10bow for level in levels]
    every = list(links(levels, W))
    kept = [~np.isnan(p) for p in log10p]
    kept[0][:] = True  # words that have no 1-gram get one
    needed = [np.zeros(len(p), bool) for p in log10p]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if context is None:
            context = context_probabilities(model, levels, log10p, log10bow, every)
        for k in range(order, 1, -1):
            nodes, contexts = every[k - 1]
            parent = contexts[-1]
            if k >= minorder and threshold > 0:
                lower = backed_off(log10p, log10bow, nodes[:-1], contexts[:-1])
                mass = left_over(log10p[k - 1], lower, parent, len(log10p[k - 2]))
                own = log10p[k - 1] = log10p[k - 1] + mass.scale[parent]
                numerator = mass.numerator[parent]
                new = np.log10(numerator + probability(own)) - np.log10(mass.denominator[parent] + probability(lower))
                new = new.astype(np.float32)
                loss = probability(own) * (lower + new - own) + numerator * (new - log10bow[k - 2][parent])
                rise = np.exp(-probability(context[k - 2][parent]) * loss * LN10) - 1
                kept[k - 1] &= needed[k - 1] | mass.over[parent] | ~(rise.astype(np.float32) < np.float32(threshold))
            need(needed, kept, every, k)
    log10bow = [np.where(node, bow, SOME) for node, bow in zip(needed, log10bow)]
    return renormalize(without(model, list(zip([level.keys for level in levels], log10p, log10bow)), kept))


def need(needed, kept, every, k):
    """Marks as needed the contexts of n-grams of order k that stay, and the suffixes of those that are needed."""
    nodes, contexts = every[k - 1]
    needed[k - 2][contexts[-1][kept[k - 1] | needed[k - 1]]] = True
    for shorter, node in zip(needed, nodes[:-1]):
        ends = node[needed[k - 1]]
        shorter[ends[ends >= 0]] = True


def prune_low(model, minorder=2):
    levels = columns(model)
    every = list(links(levels, len(model.vocab.words)))
    log10p, log10bow = [level.log10p for level in levels], [level.log10bow for level in levels]
    dropped = True
    while dropped:
        dropped = False
        with np.errstate(invalid="ignore"):
            for k in range(minorder, model.order + 1):
                nodes, contexts = every[k - 1]
                lower = backed_off(log10p, log10bow, nodes[:-1], contexts[:-1])
                low = log10bow[k - 2][contexts[-1]] + lower > log10p[k - 1]
                log10p[k - 1][low] = np.nan
                dropped |= bool(low.any())
                forget_contexts(log10p, log10bow, every, k)
        log10bow, _ = new_weights(log10p, every, levels[0].keys, model.vocab)
    kept = [~np.isnan(p) for p in log10p]
    kept[0][:] = True
    needed = [np.zeros(len(p), bool) for p in log10p]
    for k in range(model.order, 1, -1):
        need(needed, kept, every, k)
        kept[k - 1] |= needed[k - 1]
    return renormalize(without(model, list(zip([level.keys for level in levels], log10p, log10bow)), kept))


def forget_contexts(log10p, log10bow, every, k):
    """Sets the weight (log10) of nodes of order k - 1 to 0 where no word extends them and no longer context ends in
    them.
    """
    extended = np.zeros(len(log10p[k - 2]), bool)
    extended[every[k - 1].contexts[-1][~np.isnan(log10p[k - 1])]] = True
    if k < len(log10p):
        contexts = np.unique(every[k].contexts[-1])
        ends = every[k - 1].nodes[k - 2][contexts]
        extended[ends[ends >= 0]] = True
    log10bow[k - 2][~extended] = 0


def without(model, levels, kept):
    """The model of these Columns with the n-grams for which `kept`, (N,) bool for each order, is true."""
    W, staying, left = len(model.vocab.words), [k.copy() for k in kept], []
    for k in range(len(levels) - 1, 0, -1):
        staying[k - 1][(levels[k][0] // W)[staying[k]]] = True
    place = np.zeros(1, np.int64)
    for k, ((keys, log10p, log10bow), has_p, stays) in enumerate(zip(levels, kept, staying), 1):
        keys = keys if k == 1 else place[keys // W] * W + keys % W
        left.append((keys[stays], np.where(has_p, log10p, np.float32(np.nan))[stays], log10bow[stays]))
        place = np.cumsum(stays) - 1
    return model_of(model.vocab, left)


def aligned(models, vocab):
    """The Columns of models with the ids of `vocab` and the same keys, those of all models. An n-gram that a model
    lacks has no probability in it.
    """
    W, order = len(vocab.words), max(model.order for model in models)
    ids, orders = [new_ids(model, vocab).astype(np.int64) for model in models], [columns(model) for model in models]
    places, levels = [np.zeros(1, np.int64) for _ in models], [[] for _ in models]
    for k in range(order):
        in_union = []
        for of_model, word, place in zip(orders, ids, places):
            keys = of_model[k].keys if k < len(of_model) else np.zeros(0, np.int64)
            in_union.append(place[keys // len(word)] * W + word[keys % len(word)])
        every = np.unique(np.concatenate(in_union))
        places = [np.searchsorted(every, keys) for keys in in_union]
        for of_model, place, found in zip(orders, places, levels):
            log10p, log10bow = np.full(len(every), np.nan, np.float32), np.zeros(len(every), np.float32)
            if k < len(of_model):
                log10p[place] = of_model[k].log10p
                log10bow[place] = of_model[k].log10bow if k < len(of_model) - 1 else 0
            found.append(Columns(every, log10p, log10bow))
    return levels


def renumbered(models, vocab):
    return model_of(vocab, aligned(models, vocab)[0])


def merge(models, weights):
    vocab = unite_vocabularies([model.vocab for model in models])
    both = aligned(models, vocab)
    log10p, log10bow = ([[level[i] for level in levels] for levels in both] for i in (1, 2))
    mixed = []
    for k, (nodes, contexts) in enumerate(links(both[0], len(vocab.words))):
        parts = (probability(backed_off(p, bow, nodes, contexts)) for p, bow in zip(log10p, log10bow))
        with np.errstate(divide="ignore"):
            p = np.log10(sum(weight * part for weight, part in zip(weights, parts))).astype(np.float32)
        has_p = ~np.isnan([part[k] for part in log10p]).all(axis=0)
        mixed.append(np.where(has_p, p, np.float32(np.nan)))
    return renormalize(model_of(vocab, list(zip([level.keys for level in both[0]], mixed, log10bow[0]))))


def limit(model, words):
    old = model.vocab
    stays = np.array([w in {*words, SOS, EOS, old.unk} for w in old.words])
    vocab = Vocab([w for w, stay in zip(old.words, stays) if stay], int(stays[: old.V].sum()), old.unk)
    kept, levels = [], columns(model)
    for k, level in enumerate(levels):
        inside = stays[level.keys % len(old.words)]
        kept.append(inside if k == 0 else inside & kept[-1][level.keys // len(old.words)])
    kept = [k & ~np.isnan(level.log10p) for k, level in zip(kept, levels)]
    return renumbered([without(model, levels, kept)], vocab)
