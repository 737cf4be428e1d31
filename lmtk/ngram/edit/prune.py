"""Pruning of back-off models: by relative entropy (Stolcke 1998), and of n-grams below their backed-off probability.

An edit goes in four steps: the records are copied, n-grams are marked that stay, the marked records are copied to new
memory with their suffixes, and the back-off weights are made anew. The kernels' arguments are those of `renormalize`;
kept, needed: uint8 marks of n-grams, in order of their nodes.
"""

import math
from dataclasses import replace

import numpy as np

from lmtk.lm import LN10
from lmtk.machine.jit import jit
from lmtk.machine.memory import zeros
from lmtk.machine.threads import map_at_once, parts_of
from lmtk.ngram.edit.renormalize import AHEAD, copied, estimate, fetch_suffix, lower_p, renormalize, update_all_weights
from lmtk.ngram.mass import left_of_one
from lmtk.ngram.model.building import finish
from lmtk.ngram.model.nodes import AT, BOW, CHILD, WIDTH, N, P, allocate, mark_suffixes, suffix_of, view_records
from lmtk.text.corpus import Corpus

f32 = np.float32


def prune(model, threshold, minorder=2, history=None, own=False):
    """Remove the n-grams of `minorder` words or more whose removal raises the model's own perplexity by a smaller share
    than `threshold` (Stolcke 1998), and recompute the weights.

    Leaving out the n-gram h w changes bow(h) to bow'(h), and the entropy by
        -p(h) {p(w|h) [log p(w|h') + log bow'(h) - log p(w|h)] + (1 - sum p(v|h)) [log bow'(h) - log bow(h)]}.
    Each n-gram is judged as if it alone were removed. The context of an n-gram that stays, stays too. p(h) is taken
    from the model itself or from the model `history`: a Kneser-Ney model gives poor p(h) (Chelba et al. 2010). own:
    whether the caller gives the model up, so that its memory may be reused.
    """
    arrays = memory, _, where, _ = copied(model, own)
    context = history_probabilities(history, model) if history else context_probabilities(arrays, model.vocab)
    base = first_marks(where)
    kept, needed = np.ones(base[-1], np.uint8), [np.zeros(size, np.uint8) for size in where[:, N]]
    for k in range(len(where), 1, -1):
        given = context[k - 2], float(threshold if k >= minorder else 0), kept[base[k - 1] : base[k]]
        given = *given, needed[k - 1], needed[k - 2]
        map_at_once(lambda part, k=k, given=given: judge(*arrays, k, *part, *given), parts_of(where[k - 2, N]))
        mark_suffixes(model.nodes, k, needed)
    for level, marks in zip(view_records(memory, where)[1:-1], needed):
        level["log10bow"][:-1][marks == 0] = 0
    return without(model, arrays, kept, base)


def prune_low(model, minorder=2):
    """Remove the n-grams of `minorder` words or more whose probability is below the backed-off one (SRILM's
    -prune-lowprobs). Weights are recomputed and n-grams judged again until none is removed.
    """
    arrays = memory, _, where, _ = copied(model)
    order, dropped = len(where), True
    extended = [np.zeros(n, np.uint8) for n in where[:, N]]
    for k in range(2, order):
        mark_extended(memory, where, k, extended[k - 2])
    while dropped:
        dropped = 0
        for k in range(minorder, order + 1):
            drop = lambda part, k=k: drop_low(*arrays, k, *part, extended[k - 2])
            dropped += sum(map_at_once(drop, parts_of(where[k - 2, N])))
        update_all_weights(arrays, model.vocab)
    base = first_marks(where)
    kept = stated(arrays)
    kept[: base[1]] = 1
    needed = np.zeros_like(kept)
    for k in range(order, 1, -1):
        mark_contexts(memory, where, k, kept, needed, base)
        mark_suffixes(model.nodes, k, np.split(needed, base[1:-1]))
    return without(model, arrays, kept | needed, base)


def drop_empty(model):
    """Remove the bare prefixes that no n-gram extends. Probabilities and weights stay."""
    arrays = copied(model)
    return replace(model, nodes=select(arrays, len(model.vocab.words), stated(arrays), first_marks(arrays[2])))


def first_marks(where):
    """(n + 1,): where the marks of each order begin in an array for the n-grams of all orders, and its end."""
    return np.concatenate(([0], np.cumsum(where[:, N])))


def stated(arrays):
    """Whether each n-gram, those of all orders in one array, has a probability of its own: uint8."""
    levels = view_records(arrays[0], arrays[2])[1:]
    return np.concatenate([~np.isnan(level["log10p"][:-1]) for level in levels]).astype(np.uint8)


def without(model, arrays, kept, base):
    """The model with the n-grams that are kept, with new weights. kept: marks of all n-grams; those of order k begin at
    base[k - 1]. A removed n-gram that is the prefix of a kept one becomes a bare prefix, which gets its backed-off
    probability.
    """
    return renormalize(replace(model, nodes=select(arrays, len(model.vocab.words), kept, base)), own=True)


def select(arrays, W, kept, base):
    """Copy the n-grams that are kept, and their prefixes, to new Nodes. kept, base: as for `without`."""
    memory, _, where, _ = arrays
    stays, order = kept.copy(), len(where)
    for k in range(order, 1, -1):
        mark_contexts(memory, where, k, stays, stays, base)
    sizes = [int(np.count_nonzero(stays[base[k] : base[k + 1]])) for k in range(order)]
    new, new_where, _ = allocate(sizes)
    map_at_once(lambda k: copy_staying(memory, where, k, kept, stays, base, new, new_where), range(1, order + 1))
    return finish(new, new_where, W)


def context_probabilities(arrays, vocab):
    """Return log10 p(h) of every context h, an array for each order below the highest. p(h) is the probability of the
    n-gram h as a sequence of words. A first <s> counts as </s>, since a text has as many of both. Other words that the
    model does not predict are left out of the product.
    """
    memory, _, where, _ = arrays
    unigrams = view_records(memory, where)[1][:-1]
    words, first = unigrams["word"], unigrams["log10p"].copy()
    first[np.isnan(first)] = -np.inf
    first[np.isneginf(first) & (words >= vocab.V)] = 0
    closing = first[words == vocab.eos_id]
    first[words == vocab.sos_id] = closing[0] if len(closing) else -np.inf
    out = [first]
    for k in range(2, len(where)):
        out.append(zeros(where[k - 1, N], np.float32))
        work = lambda part, k=k, columns=out[-2:]: context_p(*arrays, k, *part, vocab.V, *columns)
        map_at_once(work, parts_of(where[k - 2, N]))
    return out


def history_probabilities(history, model):
    """Return log10 p(h) of every context h, as `context_probabilities` does, but by the model `history`. p(h) is 0 if h
    has a word outside the vocabulary of `history`.
    """
    index, vocab = history.vocab.index, model.vocab
    ids = np.array([index.get(w, history.vocab.unk_id) for w in vocab.words], np.int32)
    lacking, out = np.array([w not in index and w != vocab.unk for w in vocab.words]), []
    for k in range(1, model.order):
        rows = model.nodes.rows(k)
        corpus = Corpus(ids[rows].ravel(), np.arange(len(rows) + 1) * k, np.ones(rows.size, bool))
        log10p = (history.score(corpus).logp / LN10).astype(np.float32).reshape(rows.shape)
        opening = rows[:, 0] == vocab.sos_id
        closing = Corpus(np.array([history.vocab.eos_id], np.int32), np.array([0, 1]), np.ones(1, bool))
        log10p[opening, 0] = (history.score(closing).logp / LN10).astype(np.float32)[0]
        log10p[np.isneginf(log10p) & (rows >= vocab.V) & ~(opening[:, None] & (np.arange(k) == 0))] = 0
        log10p[lacking[rows]] = -np.inf
        out.append(np.add.accumulate(log10p, axis=1)[:, -1])
    return out


@jit
def context_p(memory, logs, where, far, k, first, last, V, before, found):
    """found (N_k,) <- log10 p of the n-grams of order k as sequences of words, from `before`, that of their contexts.
    Words with ids from V on that have no probability are left out.
    """
    weights = np.empty(len(where) + 1, np.float32)
    above, wide, below, width = where[k - 2, AT], where[k - 2, WIDTH], where[k - 1, AT], where[k - 1, WIDTH]
    for i in range(first, last):
        for child in range(memory[above + wide * i + CHILD], memory[above + wide * (i + 1) + CHILD]):
            at = below + width * child
            own = logs[at + where[k - 1, P]]
            if own != own:
                order, end = suffix_of(memory, where, far, k, child)
                own = estimate(memory, logs, where, far, order, end, k - 1, i, weights)
            found[child] = before[i] + (own if memory[at] < V or own != -np.inf else f32(0))


@jit
def judge(memory, logs, where, far, k, first, last, context, threshold, kept, needed, shorter):
    """Stolcke's rule for the n-grams of order k, as in `prune`: kept (N_k,) uint8 <- whether each stays. Marks
    in shorter (N_(k-1),) the contexts that are needed. context: log10 p of the contexts. With a threshold of 0 all
    n-grams stay.
    """
    weights, most = np.empty(len(where) + 1, np.float32), 0
    above, wide, below, width = where[k - 2, AT], where[k - 2, WIDTH], where[k - 1, AT], where[k - 1, WIDTH]
    p = below + where[k - 1, P]
    for i in range(first, last):
        most = max(most, memory[above + wide * (i + 1) + CHILD] - memory[above + wide * i + CHILD])
    lower = np.empty(most, np.float32)
    for i in range(first, last):
        at = above + wide * i
        begin, end = np.int64(memory[at + CHILD]), np.int64(memory[at + wide + CHILD])
        after_order, after = suffix_of(memory, where, far, k - 1, i)
        given = less = 0.0
        for child in range(begin, end):
            own = logs[p + width * child]
            kept[child] = own == own
            if threshold > 0:
                fetch_suffix(memory, where, k, child + AHEAD)
                q = lower_p(memory, logs, where, far, k, child, after_order, after, weights)
                lower[child - begin] = q
                if own == own:
                    given += math.exp(np.float64(own) * LN10)
                    less += math.exp(np.float64(q) * LN10)
        if threshold > 0 and begin < end:
            numerator, denominator, scale, over = left_of_one(given, less)
            history, old = math.exp(np.float64(context[i]) * LN10), np.float64(logs[at + BOW])
            for child in range(begin, end):
                logs[p + width * child] += scale
                own, q = np.float64(logs[p + width * child]), np.float64(lower[child - begin])
                if kept[child] and not (needed[child] or over):
                    chance = math.exp(own * LN10)
                    new = math.log10(numerator + chance) - math.log10(denominator + math.exp(q * LN10))
                    new = np.float64(f32(new))
                    loss = chance * (q + new - own) + numerator * (new - old)
                    kept[child] = not (math.exp(-history * loss * LN10) - 1 < threshold)
        for child in range(begin, end):
            if kept[child] or needed[child]:
                shorter[i] = 1


@jit
def mark_contexts(memory, where, k, stays, marked, base):
    """Marks the contexts of n-grams of order k that stay or are marked. The nodes of order k begin at base[k - 1] in
    both arrays.
    """
    above, wide = where[k - 2, AT], where[k - 2, WIDTH]
    for i in range(where[k - 2, N]):
        for child in range(memory[above + wide * i + CHILD], memory[above + wide * (i + 1) + CHILD]):
            if stays[base[k - 1] + child] or marked[base[k - 1] + child]:
                marked[base[k - 2] + i] = 1
                break


@jit
def copy_staying(memory, where, k, kept, stays, base, new, new_where):
    """new <- the records of the n-grams of order k that stay, and the children of their contexts. N-grams that stay but
    are not kept become bare prefixes.
    """
    below, width, to, wide = where[k - 1, AT], where[k - 1, WIDTH], new_where[k - 1, AT], new_where[k - 1, WIDTH]
    p, new_p = where[k - 1, P], new_where[k - 1, P]
    numbers = new.view(np.float32)
    above, size = where[max(k - 2, 0), AT], where[max(k - 2, 0), WIDTH]
    up = new_where[max(k - 2, 0), AT]
    found, context = 0, 0
    for i in range(where[k - 2, N] if k > 1 else 1):
        if k > 1 and not stays[base[k - 2] + i]:
            continue
        begin = np.int64(memory[above + size * i + CHILD]) if k > 1 else 0
        end = np.int64(memory[above + size * (i + 1) + CHILD]) if k > 1 else where[0, N]
        if k > 1:
            new[up + size * context + CHILD] = found
        for child in range(begin, end):
            if stays[base[k - 1] + child]:
                at, here = below + width * child, to + wide * found
                new[here], new[here + new_p] = memory[at], memory[at + p]
                if not kept[base[k - 1] + child]:
                    numbers[here + new_p] = np.nan
                if k < len(where):
                    new[here + BOW] = memory[at + BOW]
                found += 1
        context += 1
    if k > 1:
        new[up + size * context + CHILD] = found


@jit
def drop_low(memory, logs, where, far, k, first, last, extended):
    """Makes an n-gram of order k bare, in place, if backing off gives it a higher probability. If nothing extends a
    context any more, its weight (log10) becomes 0. Returns the number of n-grams that became bare. extended
    (N_(k-1),) uint8: whether a context of order k ends in an n-gram.
    """
    weights, gone = np.empty(len(where) + 1, np.float32), 0
    above, wide, below, width = where[k - 2, AT], where[k - 2, WIDTH], where[k - 1, AT], where[k - 1, WIDTH]
    for i in range(first, last):
        at, some = above + wide * i, False
        after_order, after = suffix_of(memory, where, far, k - 1, i)
        for child in range(memory[at + CHILD], memory[at + wide + CHILD]):
            fetch_suffix(memory, where, k, child + AHEAD)
            p = below + width * child + where[k - 1, P]
            lower = lower_p(memory, logs, where, far, k, child, after_order, after, weights)
            if logs[at + BOW] + lower > logs[p]:
                logs[p] = np.nan
                gone += 1
            some |= logs[p] == logs[p]
        if not (some or extended[i]):
            logs[at + BOW] = 0
    return gone


@jit
def mark_extended(memory, where, k, extended):
    """Marks the n-grams of order k - 1 in which contexts of order k end: extended (N_(k-1),) uint8, in place."""
    at, width = where[k - 1, AT], where[k - 1, WIDTH]
    for i in range(where[k - 1, N]):
        if memory[at + width * i + CHILD] < memory[at + width * (i + 1) + CHILD]:
            suffix = memory[at + width * (i + 1) - 1]
            if 0 <= suffix < len(extended):
                extended[suffix] = 1
