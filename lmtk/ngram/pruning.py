"""New back-off weights, and relative-entropy pruning (Stolcke 1998), for back-off models.

    p(w | h) = p of the n-gram h w where the model has it, else bow(h) p(w | h')        h' is h without its oldest word
    bow(h) = (1 - sum p(w | h)) / (1 - sum p(w | h')),  sums over the words w of the n-grams h w

Sums of probabilities are in double precision. Single probabilities and weights are log10 in single precision, as in
SRILM: whether an n-gram is pruned depends on it, and so do the last digits of the file.
"""

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lmtk.errors import LmtkWarning, counted
from lmtk.lm import LN10
from lmtk.machine.large import pays
from lmtk.ngram import mass, rewriting
from lmtk.ngram.backoff import Backoff, Probabilities
from lmtk.ngram.counts import find, to_rows, values
from lmtk.ngram.methods import EPSILON
from lmtk.ngram.nodes import N
from lmtk.ngram.rewriting import chance, whole_unigrams
from lmtk.text.corpus import Corpus


class Links(NamedTuple):
    """The nodes of the N n-grams of order k, of their suffixes, and of the suffixes of their contexts.

    nodes[j - 1] (N,): the node of the last j words of each n-gram, j = 1 .. k; contexts[j - 1] (N,): that of the last j
    words of its context, j = 1 .. k - 1. nodes[-1] are the n-grams themselves, contexts[-1] their parents; -1 if the
    model has no such node.
    """

    nodes: list
    contexts: list


def links(levels, W):
    """Yields the Links of each order of a model with W words."""
    nodes = []
    for k, level in enumerate(levels, 1):
        parent, word = level.keys // W, level.keys % W
        contexts = [values(before, parent, -1) for before in nodes] if k > 1 else []
        above = [np.zeros(len(word), np.int64), *contexts]
        nodes = [find(levels[j].keys, above[j], word, W) for j in range(k - 1)] + [np.arange(len(word))]
        yield Links(nodes, contexts)


def single(logs):
    """log10, in single precision, of natural logs; -inf and nan stay."""
    return (logs / LN10).astype(np.float32)


def backed_off(log10p, log10bow, nodes, contexts):
    """log10 p, (N,) in single precision, of words after contexts. log10p and log10bow: an array for each order; nodes,
    contexts: as in Links, for the n-grams that may be used, from the 1-grams on.
    """
    out, weight = np.full(len(nodes[0]), -np.inf, np.float32), np.zeros(len(nodes[0]), np.float32)
    for j, node in enumerate(nodes):
        found = values(log10p[j], node, np.float32(np.nan))
        here = ~np.isnan(found)
        out[here], weight[here] = found[here], 0
        if j < len(contexts):
            weight += values(log10bow[j], contexts[j], np.float32(0))
    return out + weight


def left_over(log10p, lower, parent, C):
    """`mass.left` of C contexts, from their n-grams, (N,) each: log10p, nan for bare prefixes; lower, log10 p of the
    lower order; parent, the context.
    """
    given = ~np.isnan(log10p)
    return mass.left(*(np.bincount(parent[given], chance(p[given]), C) for p in (log10p, lower)))


def renormalized(model, own=False):
    """The model with the back-off weights that make every context's probabilities sum to one.

    The mass that 1-grams leave goes to the words of probability 0 in equal parts or, if there are none, to all words.
    If a context has no unseen words to back off to, its n-grams are scaled to sum to one. If its n-grams sum to more
    than one, they stay as they are and unseen words get the probability 0, with a warning. A bare prefix becomes an
    n-gram with its backed-off probability. A weight (log10) that becomes 0, or was -0.0, is stored as -0.0: a 0 that
    ARPA files state.

    own: the model is not used any more, so that its memory may be used for the new one.
    """
    if large(model, "renormalize"):
        return told(*rewriting.renormalized(model, own))
    every = list(links(model.levels, len(model.vocab.words)))
    log10p = [single(level.logp) for level in model.levels]
    log10bow, over = new_weights(model, log10p, every)
    with np.errstate(invalid="ignore"):
        for k, (nodes, contexts) in enumerate(every, 1):
            # in an ARPA file a weight needs a probability before it; a backed-off one changes no sum
            if k > 1 and (bare := np.isnan(log10p[k - 1])).any():
                log10p[k - 1][bare] = backed_off(log10p, log10bow, nodes, contexts)[bare]
    for level, bow in zip(model.levels, log10bow):
        bow[(bow == 0) & ((level.bow != 0) | np.signbit(level.bow))] = -0.0
    return told(with_logs(model, log10p, log10bow), over)


def leaves_mass(model):
    """Whether the probabilities of the 1-grams sum to less than one."""
    at, size, width, p = model.nodes.where[0].tolist()
    log10p = model.nodes.memory.view(np.float32)[at + p : at + p + size * width : width]
    return 1 - np.nansum(chance(log10p)) >= EPSILON


def large(model, job):
    """Whether a model is so large that the kernels of `rewriting` pay; job: as `large.pays` has it."""
    return pays("ngrams", sum(model.nodes.where[:, N]), job)


def told(model, over):
    if over:
        text = f"the probabilities after {counted(over, 'context')} add up to more than one, and stay so"
        warnings.warn(text, LmtkWarning, stacklevel=2)
    return model


def new_weights(model, log10p, every):
    """(the back-off weights, log10, an array for each order; the number of contexts whose probabilities sum to more
    than one), from log10p, an array for each order. log10p changes in place if 1-grams leave mass, or if a context has
    no unseen words to back off to.
    """
    log10bow = [np.zeros(len(p), np.float32) for p in log10p]
    with np.errstate(divide="ignore", invalid="ignore"):
        log10p[0], over = whole_unigrams(log10p[0], model.levels[0].keys < model.vocab.V)
        for k, (nodes, contexts) in enumerate(every[1:], 2):
            lower = backed_off(log10p, log10bow, nodes[:-1], contexts[:-1])
            left = left_over(log10p[k - 1], lower, contexts[-1], len(log10p[k - 2]))
            over += int(left.over.sum())
            log10p[k - 1] += left.scale[contexts[-1]]
            log10bow[k - 2] = left.weights()
    return log10bow, over


def with_logs(model, log10p, log10bow):
    """The model with other probabilities and weights, log10, an array for each order of each."""
    levels = []
    for level, p, bow in zip(model.levels, log10p, log10bow, strict=True):
        levels.append(Probabilities(level.keys, p.astype(np.float64) * LN10, bow.astype(np.float64) * LN10))
    return replace(model, levels=levels)


def context_probabilities(model, log10p, log10bow, every):
    """log10 p of each node as a sequence of words, an array for each order. <s> at the beginning counts as </s>, since
    a text has as many of both; in other places, words that are not predicted are left out.
    """
    vocab, W, out = model.vocab, len(model.vocab.words), []
    for k, (level, (nodes, contexts)) in enumerate(zip(model.levels, every, strict=True), 1):
        word = level.keys % W
        own = backed_off(log10p, log10bow, nodes, contexts)
        skipped = np.isneginf(own) & (word >= vocab.V)
        if k == 1:
            opening = word == vocab.sos_id
            own[skipped] = 0
            own[opening] = own[word == vocab.eos_id] if (word == vocab.eos_id).any() else -np.inf
            out.append(own)
            continue
        out.append(out[-1][contexts[-1]] + np.where(skipped, np.float32(0), own))
    return out


def history_probabilities(history, model):
    """`context_probabilities` of the n-grams below the highest order, by another model, `history`; p is 0 for n-grams
    with words that it lacks.
    """
    index, vocab = history.vocab.index, model.vocab
    ids = np.array([index.get(w, history.vocab.unk_id) for w in vocab.words], np.int32)
    lacking, out = np.array([w not in index and w != vocab.unk for w in vocab.words]), []
    for rows in to_rows(model.levels[:-1], len(vocab.words)):
        N, k = rows.shape
        corpus = Corpus(ids[rows].ravel(), np.arange(N + 1) * k, np.ones(N * k, bool))
        own = single(history.score(corpus).logp).reshape(N, k)
        opening = rows[:, 0] == vocab.sos_id
        closing = Corpus(np.array([history.vocab.eos_id], np.int32), np.array([0, 1]), np.ones(1, bool))
        own[opening, 0] = single(history.score(closing).logp)[0]
        own[np.isneginf(own) & (rows >= vocab.V) & ~(opening[:, None] & (np.arange(k) == 0))] = 0
        own[lacking[rows]] = -np.inf
        out.append(np.add.accumulate(own, axis=1)[:, -1])
    return out


def pruned(model, threshold, minorder=2, history=None, own=False):
    """The model without the n-grams of `minorder` words or more whose removal raises the model's own perplexity by a
    smaller share than `threshold` (Stolcke 1998), with new weights.

    Leaving out the n-gram h w changes bow(h) to bow'(h), and the entropy by
        -p(h) {p(w|h) [log p(w|h') + log bow'(h) - log p(w|h)] + (1 - sum p(v|h)) [log bow'(h) - log bow(h)]}.
    Each n-gram is judged as if it alone were removed. The context of an n-gram that stays, stays too. p(h) is taken
    from the model itself or from the model `history`: a Kneser-Ney model gives poor p(h) (Chelba et al. 2010). own: as
    in `renormalized`.
    """
    if large(model, "prune"):
        given = history and (lambda model: history_probabilities(history, model))
        return told(*rewriting.pruned(model, threshold, minorder, given, own))
    W, order = len(model.vocab.words), model.order
    log10p = [single(level.logp) for level in model.levels]
    log10bow = [single(level.bow) for level in model.levels]
    every = list(links(model.levels, W))
    kept = [~np.isnan(p) for p in log10p]
    kept[0][:] = True  # words that have no 1-gram get one
    # whether a node is the context of an n-gram that stays, or a suffix of such a context
    needed = [np.zeros(len(p), bool) for p in log10p]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if history is None:
            context = context_probabilities(model, log10p, log10bow, every)
        else:
            context = history_probabilities(history, model)
        for k in range(order, 1, -1):
            nodes, contexts = every[k - 1]
            parent = contexts[-1]
            if k >= minorder and threshold > 0:
                lower = backed_off(log10p, log10bow, nodes[:-1], contexts[:-1])
                left = left_over(log10p[k - 1], lower, parent, len(log10p[k - 2]))
                own = log10p[k - 1] = log10p[k - 1] + left.scale[parent]
                numerator = left.numerator[parent]
                new = np.log10(numerator + chance(own)) - np.log10(left.denominator[parent] + chance(lower))
                new = new.astype(np.float32)
                loss = chance(own) * (lower + new - own) + numerator * (new - log10bow[k - 2][parent])
                entropy = -chance(context[k - 2][parent]) * loss
                rise = np.exp(entropy * LN10) - 1
                kept[k - 1] &= needed[k - 1] | left.over[parent] | ~(rise < threshold)
            need(needed, kept, every, k)
    log10bow = [np.where(node, bow, 0) for node, bow in zip(needed, log10bow)]
    return renormalized(without(with_logs(model, log10p, log10bow), kept))


def need(needed, kept, every, k):
    """Marks as needed the contexts of n-grams of order k that stay, and the suffixes of n-grams of order k that are
    needed.
    """
    nodes, contexts = every[k - 1]
    needed[k - 2][contexts[-1][kept[k - 1] | needed[k - 1]]] = True
    for shorter, node in zip(needed, nodes[:-1]):
        ends = node[needed[k - 1]]
        shorter[ends[ends >= 0]] = True


def without_low(model, minorder=2):
    """The model without the n-grams of `minorder` words or more whose probability is below the backed-off one, as by
    SRILM's -prune-lowprobs. Weights are recomputed and n-grams judged again until all stay.
    """
    if large(model, "prune-low"):
        return told(*rewriting.without_low(model, minorder))
    every = list(links(model.levels, len(model.vocab.words)))
    log10p, log10bow = ([single(getattr(level, field)) for level in model.levels] for field in ("logp", "bow"))
    gone = True
    while gone:
        gone = False
        with np.errstate(invalid="ignore"):
            for k in range(minorder, model.order + 1):
                nodes, contexts = every[k - 1]
                lower = backed_off(log10p, log10bow, nodes[:-1], contexts[:-1])
                low = log10bow[k - 2][contexts[-1]] + lower > log10p[k - 1]
                log10p[k - 1][low] = np.nan
                gone |= bool(low.any())
                forget_contexts(log10p, log10bow, every, k)
        log10bow, _ = new_weights(model, log10p, every)
    kept = [~np.isnan(p) for p in log10p]
    kept[0][:] = True
    needed = [np.zeros(len(p), bool) for p in log10p]
    for k in range(model.order, 1, -1):
        need(needed, kept, every, k)
        kept[k - 1] |= needed[k - 1]
    return renormalized(without(with_logs(model, log10p, log10bow), kept))


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


def without(model, kept):
    """The model with the n-grams for which `kept`, (N,) bool for each order, is true. A removed n-gram that is the
    prefix of one that stays becomes a bare prefix.
    """
    W, staying, levels = len(model.vocab.words), [k.copy() for k in kept], []
    for k in range(model.order - 1, 0, -1):
        staying[k - 1][(model.levels[k].keys // W)[staying[k]]] = True
    place = np.zeros(1, np.int64)
    for k, (level, own, stays) in enumerate(zip(model.levels, kept, staying, strict=True), 1):
        keys = level.keys if k == 1 else place[level.keys // W] * W + level.keys % W
        logp = np.where(own, level.logp, np.nan)
        levels.append(Probabilities(keys[stays], logp[stays], level.bow[stays]))
        place = np.cumsum(stays) - 1
    return Backoff(model.vocab, model.order, levels)
