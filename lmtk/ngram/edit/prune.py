"""Pruning of back-off models: by relative entropy (Stolcke 1998), and of n-grams below their backed-off probability.

An edit goes in four steps: the model is copied, n-grams are marked that stay, the marked records are copied to new
memory with their suffixes, and the back-off weights are made anew. Pruning by entropy first computes for each n-gram
the threshold up to which it stays, so that a model of a wanted size needs no trials. The kernels' arguments are those
of `renormalize`; kept, needed: uint8 marks of the n-grams, in order of their nodes, an array for each order.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from lmtk.lm import LN10
from lmtk.machine.jit import jit
from lmtk.machine.threads import map_at_once, parts_of
from lmtk.ngram.edit.contexts import context_probabilities
from lmtk.ngram.edit.renormalize import AHEAD, fetch_suffix, lower_p, renormalize, update_all_weights, writable
from lmtk.ngram.mass import left_of_one
from lmtk.ngram.model.building import finish
from lmtk.ngram.model.nodes import AT, BOW, CHILD, WIDTH, N, P, allocate, are_contexts, mark_suffixes, suffix_of

PART = 1 << 16  # n-grams in one step of `copy_staying`
f32 = np.float32


def prune(model, threshold, minorder=2, context=None, may_reuse=False):
    """Remove the n-grams of `minorder` words or more whose removal raises the model's own perplexity by a smaller share
    than `threshold` (Stolcke 1998), and recompute the weights. The arguments are those of `find_limits`.
    """
    model, limits = find_limits(model, minorder if threshold > 0 else model.order + 1, context, may_reuse)
    kept = mark_kept(limits, threshold)
    del limits  # four bytes for each n-gram
    return cut(model, kept)


def find_limits(model, minorder=2, context=None, may_reuse=False):
    """The threshold up to which `prune` keeps each n-gram: (a copy of the model, limits of each order). limits
    (N_k,) float32: inf for n-grams that always stay (below `minorder` words), -inf for bare prefixes.

    Leaving out the n-gram h w changes bow(h) to bow'(h), and the entropy by
        -p(h) {p(w|h) [log p(w|h') + log bow'(h) - log p(w|h)] + (1 - sum p(v|h)) [log bow'(h) - log bow(h)]}.
    Each n-gram is judged as if it alone were removed. The context of an n-gram that stays, stays too, and so does that
    context's longest suffix. So an n-gram gets the highest limit among itself and the n-grams that need it.

    context: log10 p(h) of every context h, an array for each order; None: from the model itself, but a Kneser-Ney model
    gives poor p(h) (Chelba et al. 2010). The list is emptied on the way, to free its memory. may_reuse: whether the
    caller gives up the model; its memory is then reused.
    """
    model = writable(model, may_reuse)
    nodes, context = model.nodes, context or context_probabilities(model)
    limits = [np.full(size, -np.inf, f32) for size in nodes.where[:, N]]  # `mark_suffixes` and `judge` raise them
    for k in range(nodes.order, 1, -1):
        mark_suffixes(nodes, k, limits)
        judge_part = partial(judge, nodes.arrays, k, k >= minorder, context.pop(), limits[k - 1], limits[k - 2])
        map_at_once(judge_part, parts_of(nodes.size(k - 1)))
    limits[0][:] = np.inf
    return model, limits


def mark_kept(limits, threshold):
    """The marks of the n-grams that stay: those with limits, as from `find_limits`, of at least the threshold."""
    return [(of_order >= f32(threshold)).view(np.uint8) for of_order in limits]


def cut(model, kept):
    """The model without the n-grams that are not kept, with new weights. model: from `find_limits`; it can be used
    again.
    """
    return renormalize(select(model, kept, mark_needed(model.nodes, kept)), may_reuse=True)


def threshold_for(limits, most):
    """The lowest threshold that keeps at most `most` n-grams; inf if more always stay. limits: from `find_limits`."""
    every = np.concatenate(limits)
    removed = len(every) - most
    return np.nextafter(np.partition(every, removed - 1)[removed - 1], f32(np.inf)) if removed > 0 else f32(-np.inf)


def prune_low(model, minorder=2):
    """Remove the n-grams of `minorder` words or more whose probability is below the backed-off one (SRILM's
    -prune-lowprobs). Weights are recomputed and n-grams judged again until none is removed.
    """
    model = writable(model)
    nodes, dropped = model.nodes, True
    extended = [np.zeros(n, np.uint8) for n in nodes.where[:, N]]  # the n-grams in which longer contexts end
    for shorter, level in zip(extended, nodes.levels[2 : nodes.order]):
        suffix = level["suffix"][:-1][np.diff(level["child"]) > 0]
        shorter[suffix[(suffix >= 0) & (suffix < len(shorter))]] = 1
    while dropped:
        dropped = 0
        for k in range(minorder, nodes.order + 1):
            drop = partial(drop_low, nodes.arrays, k, extended[k - 2])
            dropped += sum(map_at_once(drop, parts_of(nodes.size(k - 1))))
        update_all_weights(model)
    kept = stated(nodes)
    kept[0][:] = 1
    kept = [marks | needed for marks, needed in zip(kept, mark_needed(nodes, kept))]
    return renormalize(select(model, kept), may_reuse=True)


def stated(nodes):
    """The marks of n-grams that have a probability."""
    return [(~np.isnan(level["log10p"][:-1])).view(np.uint8) for level in nodes.levels[1:]]


def mark_needed(nodes, kept):
    """The marks of n-grams that need a weight: the contexts of kept n-grams, and the suffixes of these contexts."""
    needed = [*map(np.zeros_like, kept)]
    for k in range(nodes.order, 1, -1):
        needed[k - 2] |= are_contexts(nodes, k, kept[k - 1] | needed[k - 1])
        mark_suffixes(nodes, k, needed)
    return needed


def select(model, kept, weighted=None):
    """The model with copies of the n-grams that are kept, and of their prefixes. kept: marks of all n-grams. A removed
    n-gram that is the prefix of a kept one becomes a bare prefix. weighted: marks of the n-grams that have a weight;
    None: all have one.
    """
    levels, stays = model.nodes.checked_levels(len(model.vocab.words)), [*kept]
    for k in range(len(levels) - 1, 1, -1):
        stays[k - 2] = stays[k - 2] | are_contexts(model.nodes, k, stays[k - 1])
    new, new_where, records = allocate([*map(np.count_nonzero, stays)])
    marks = kept, stays, weighted or stays
    map_at_once(lambda k: copy_staying(levels, k, marks, records[k - 1]), range(1, len(levels)))
    return replace(model, nodes=finish(new, new_where, len(model.vocab.words)))


def copy_staying(levels, k, marks, records):
    """records <- the n-grams of order k that stay, and where their children begin. marks: kept, stays and weighted.
    N-grams that stay but are not kept become bare prefixes; those that are not weighted get the weight (log10) 0.
    """
    is_context, n = k + 1 < len(levels), 0
    before = np.int32(0)  # how many children stay of the n-grams so far
    for begin in range(0, len(levels[k]) - 1, PART):  # in parts, which stay in a cache
        kept, stays, weighted = (of_orders[k - 1][begin : begin + PART] for of_orders in marks)
        staying, old = np.flatnonzero(stays), levels[k][begin : begin + PART]
        new, n = records[n : n + len(staying)], n + len(staying)
        new["word"] = old["word"].take(staying)
        new["log10p"] = np.where(kept.take(staying), old["log10p"].take(staying), f32(np.nan))
        if is_context:
            new["log10bow"] = np.where(weighted.take(staying), old["log10bow"].take(staying), f32(0))
            first, end = levels[k]["child"][[begin, begin + len(kept)]]
            children = before + np.append(np.int32(0), np.cumsum(marks[1][k][first:end], dtype=np.int32))
            new["child"], before = children.take(old["child"].take(staying) - first), children[-1]
    if is_context:
        records["child"][-1] = before


@jit
def judge(arrays, k, judged, p_context, limits, shorter, contexts):
    """Stolcke's rule for the n-grams of order k, as in `find_limits`: limits (N_k,) float32 <- the threshold up to
    which each stays; before, the highest limit of the longer n-grams that need it, -inf for none. shorter (N_(k-1),):
    the same of order k - 1, raised to what the n-grams need. p_context: log10 p of the contexts. Without `judged` all
    n-grams stay.
    """
    (memory, logs, where, far), (first, last) = arrays, contexts
    weights = np.empty(len(where) + 1, np.float32)
    above, wide, below, width = where[k - 2, AT], where[k - 2, WIDTH], where[k - 1, AT], where[k - 1, WIDTH]
    p, start = below + where[k - 1, P], np.int64(memory[above + wide * first + CHILD])
    lower = np.empty(np.int64(memory[above + wide * last + CHILD]) - start, np.float32)
    for i in range(first, last):
        at = above + wide * i
        begin, end = np.int64(memory[at + CHILD]), np.int64(memory[at + wide + CHILD])
        after_order, after = suffix_of(memory, where, far, k - 1, i)
        seen = seen_by_lower = 0.0
        for child in range(begin, end if judged else begin):
            fetch_suffix(memory, where, k, child + AHEAD)
            log10p = logs[p + width * child]
            q = lower[child - start] = lower_p(arrays, k, child, after_order, after, weights)
            if log10p == log10p:
                seen += math.exp(np.float64(log10p) * LN10)
                seen_by_lower += math.exp(np.float64(q) * LN10)
        numerator, denominator, scale, over = left_of_one(seen, seen_by_lower)
        history, old = math.exp(np.float64(p_context[i]) * LN10), np.float64(logs[at + BOW])
        for child in range(begin, end):
            loss = np.inf
            if judged and not over:
                logs[p + width * child] += scale
                log10p, q = np.float64(logs[p + width * child]), np.float64(lower[child - start])
                chance = math.exp(log10p * LN10)
                new = np.float64(f32(math.log10(numerator + chance) - math.log10(denominator + math.exp(q * LN10))))
                loss = math.exp(-history * (chance * (q + new - log10p) + numerator * (new - old)) * LN10) - 1
            is_bare = logs[p + width * child] != logs[p + width * child]
            limit = f32(np.inf) if loss != loss else f32(loss)
            limit = limits[child] if is_bare else max(limit, limits[child])
            limits[child] = f32(-np.inf) if is_bare else limit
            shorter[i] = max(shorter[i], limit)


@jit
def drop_low(arrays, k, extended, contexts):
    """Make an n-gram of order k bare, in place, if backing off gives it a higher probability. If nothing extends a
    context any more, its weight (log10) becomes 0. Returns the number of n-grams that became bare. extended
    (N_(k-1),) uint8: whether a context of order k ends in an n-gram.
    """
    (memory, logs, where, far), (first, last) = arrays, contexts
    weights, gone = np.empty(len(where) + 1, np.float32), 0
    above, wide, below, width = where[k - 2, AT], where[k - 2, WIDTH], where[k - 1, AT], where[k - 1, WIDTH]
    for i in range(first, last):
        at, has_ngrams = above + wide * i, False
        after_order, after = suffix_of(memory, where, far, k - 1, i)
        for child in range(memory[at + CHILD], memory[at + wide + CHILD]):
            fetch_suffix(memory, where, k, child + AHEAD)
            p = below + width * child + where[k - 1, P]
            if logs[at + BOW] + lower_p(arrays, k, child, after_order, after, weights) > logs[p]:
                logs[p] = np.nan
                gone += 1
            has_ngrams |= logs[p] == logs[p]
        if not (has_ngrams or extended[i]):
            logs[at + BOW] = 0
    return gone
