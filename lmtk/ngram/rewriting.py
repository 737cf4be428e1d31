"""`pruning` and `merge` for large models, by kernels over the records of `nodes`.

memory, logs  the records of the model that is changed, int32, and the same memory as float32
where, far    as in `nodes`
order k       the order of the n-grams that a kernel works at; `first` .. `last` are contexts, nodes of order k - 1

All loops go over contexts and their n-grams in storage order. They are bound by one random read an n-gram, that of its
suffix, and by the exponentials.
"""

import math
from dataclasses import replace

import numpy as np

from lmtk.lm import LN10
from lmtk.machine.exponential import powers
from lmtk.machine.jit import inlined, jit, of_numba
from lmtk.machine.memory import zeros
from lmtk.machine.threads import all_at_once, in_parts
from lmtk.ngram import union
from lmtk.ngram.backoff import Backoff, Packed
from lmtk.ngram.building import finished
from lmtk.ngram.mass import left_of_one, weight_of_one
from lmtk.ngram.methods import EPSILON
from lmtk.ngram.nodes import (
    AT,
    BOW,
    CHILD,
    WIDTH,
    N,
    P,
    frozen,
    mark_ends,
    room,
    suffix_of,
    without_tables,
    writable,
)
from lmtk.ngram.walking import backed_off

AHEAD = 8
f32 = np.float32
prefetch = of_numba("lmtk.machine.intrinsics", "prefetch")


def chance(log10p):
    """Probabilities, in double precision, of log10 in single precision."""
    return np.exp(log10p.astype(np.float64) * LN10)


def whole_unigrams(log10p, predicted):
    """(log10 p of the 1-grams (N,), completed by the mass that was left, so that they sum to one; 1 if they summed to
    more, else 0). The mass goes to the predicted words of probability 0, or to all. Afterwards no predicted word is
    nan.
    """
    p = chance(log10p)
    left = 1 - np.nansum(p)
    zero = predicted & ~(p > 0)
    if left < EPSILON:
        return np.where(zero, np.float32(-np.inf), log10p), int(-left >= EPSILON)
    takers = zero if zero.any() else predicted
    p[takers] = np.where(p[takers] > 0, p[takers], 0) + left / takers.sum()
    return np.where(takers, np.log10(p).astype(np.float32), log10p), 0


def opened(model, own=False):
    """(memory, logs, where, far) of a copy of a model's nodes. With `own`, when the model is not used any more, they
    are those of the nodes themselves, unless these are in a file. Raises FormatError if a file's nodes are damaged.
    """
    model.nodes.checked(len(model.vocab.words))
    nodes, memory = model.nodes, writable(model.nodes) if own else None
    if memory is None:
        memory = zeros(nodes.memory.size, np.int32)
        memory[:] = nodes.memory
    return memory, memory.view(f32), nodes.where, nodes.far


def closed(model, nodes):
    """The model with these Nodes in place of its own."""
    W = len(model.vocab.words)
    return Backoff(model.vocab, nodes.order, [Packed(nodes, k, W) for k in range(1, nodes.order + 1)])


@inlined
def estimate(memory, logs, where, far, k, node, above, context, weights):
    """log10 p of a word after the node `context`, of order `above`, by backing off. node, of order k: the longest
    n-gram that may be used. weights (n,): scratch.
    """
    p, many = f32(-np.inf), 0
    while k:
        value = logs[where[k - 1, AT] + where[k - 1, WIDTH] * node + where[k - 1, P]]
        if value == value:
            p = value
            break
        k, node = suffix_of(memory, where, far, k, node)
    while above and above >= k:
        weights[many] = logs[where[above - 1, AT] + where[above - 1, WIDTH] * context + BOW]
        many += 1
        above, context = suffix_of(memory, where, far, above, context)
    return backed_off(p, weights, 0, many, False)


@inlined
def lower_p(memory, logs, where, far, k, node, after_order, after, weights):
    """log10 p of the last word of an n-gram by the lower order, that is after its context without the oldest word. The
    longest suffix of that context is the node `after`, of order after_order.
    """
    order, end = suffix_of(memory, where, far, k, node)
    if order == k - 1:
        p = logs[where[k - 2, AT] + where[k - 2, WIDTH] * end + where[k - 2, P]]
        if p == p:
            return p
    return estimate(memory, logs, where, far, order, end, after_order, after, weights)


@inlined
def fetch_suffix(memory, where, k, node):
    """Prefetches the number that `lower_p` of a node will read."""
    if node < where[k - 1, N]:
        end = np.int64(memory[where[k - 1, AT] + where[k - 1, WIDTH] * (node + 1) - 1])
        prefetch(memory, where[k - 2, AT] + where[k - 2, WIDTH] * max(end, 0) + where[k - 2, P])


@jit
def weigh(memory, logs, where, far, k, first, last, shown):
    """Sets the weights of contexts from the n-grams of order k, and scales n-grams as `pruning.renormalized` does. With
    `shown`, a weight that becomes 0, or was -0.0, is stored as -0.0. Returns how many contexts sum to more than one.
    """
    weights, found = np.empty(len(where) + 1, np.float32), 0
    above, wide, below, width = where[k - 2, AT], where[k - 2, WIDTH], where[k - 1, AT], where[k - 1, WIDTH]
    p, start = below + where[k - 1, P], np.int64(memory[above + wide * first + CHILD])
    own = np.empty(np.int64(memory[above + wide * last + CHILD]) - start)
    lower = np.empty(len(own))
    for i in range(first, last):
        at = above + wide * i
        after_order, after = suffix_of(memory, where, far, k - 1, i)
        for child in range(np.int64(memory[at + CHILD]), np.int64(memory[at + wide + CHILD])):
            fetch_suffix(memory, where, k, child + AHEAD)
            value = logs[p + width * child]
            own[child - start] = lower[child - start] = -np.inf
            if value == value:
                own[child - start] = value
                lower[child - start] = lower_p(memory, logs, where, far, k, child, after_order, after, weights)
    powers(own, len(own))
    powers(lower, len(lower))
    for i in range(first, last):
        at = above + wide * i
        begin, end = np.int64(memory[at + CHILD]), np.int64(memory[at + wide + CHILD])
        given = less = 0.0
        for child in range(begin - start, end - start):
            given += own[child]
            less += lower[child]
        numerator, denominator, scale, over = left_of_one(given, less)
        if scale:
            for child in range(begin, end):
                logs[p + width * child] += scale
        found += over
        bow, old = weight_of_one(numerator, denominator, over), logs[at + BOW]
        logs[at + BOW] = f32(-0.0) if shown and bow == 0 and (old != 0 or math.copysign(1, old) < 0) else bow
    return found


@jit
def fill_bare(memory, logs, where, far, k, first, last):
    """Sets the probabilities of bare prefixes of order k by backing off. Those of shorter ones have to be set."""
    weights = np.empty(len(where) + 1, np.float32)
    above, wide, below, width = where[k - 2, AT], where[k - 2, WIDTH], where[k - 1, AT], where[k - 1, WIDTH]
    for i in range(first, last):
        for child in range(memory[above + wide * i + CHILD], memory[above + wide * (i + 1) + CHILD]):
            at = below + width * child + where[k - 1, P]
            if logs[at] != logs[at]:
                order, end = suffix_of(memory, where, far, k, child)
                logs[at] = estimate(memory, logs, where, far, order, end, k - 1, i, weights)


def new_weights(arrays, vocab, shown=False):
    """`pruning.new_weights`, in place. Returns how many contexts sum to more than one."""
    memory, logs, where, _ = arrays
    at, size, width, p = where[0].tolist()
    words, first = memory[at : at + size * width : width], logs[at + p : at + p + size * width : width]
    with np.errstate(divide="ignore", invalid="ignore"):
        first[:], over = whole_unigrams(first.copy(), words < vocab.V)
    for k in range(2, len(where) + 1):
        over += sum(in_parts(lambda *part, k=k: weigh(*arrays, k, *part, shown), where[k - 2, N]))
    return over


def renew(arrays, vocab):
    """`pruning.renormalized`, in place. Returns how many contexts sum to more than one."""
    over = new_weights(arrays, vocab, shown=True)
    for k in range(2, len(arrays[2]) + 1):
        in_parts(lambda *part, k=k: fill_bare(*arrays, k, *part), arrays[2][k - 2, N])
    return over


def renormalized(model, own=False):
    """(the model of `pruning.renormalized`, how many contexts sum to more than one)."""
    arrays = opened(model, own)
    over = renew(arrays, model.vocab)
    return closed(model, replace(model.nodes, memory=frozen(arrays[0]), path="")), over


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


def context_probabilities(arrays, vocab):
    """`pruning.context_probabilities` of the n-grams below the highest order."""
    memory, logs, where, _ = arrays
    at, size, width, p = where[0].tolist()
    words, first = memory[at : at + size * width : width], logs[at + p : at + p + size * width : width].copy()
    first[np.isnan(first)] = -np.inf
    first[np.isneginf(first) & (words >= vocab.V)] = 0
    closing = first[words == vocab.eos_id]
    first[words == vocab.sos_id] = closing[0] if len(closing) else -np.inf
    out = [first]
    for k in range(2, len(where)):
        out.append(zeros(where[k - 1, N], np.float32))
        given = k, vocab.V, *out[-2:]
        in_parts(lambda a, b, given=given: context_p(*arrays, given[0], a, b, *given[1:]), where[k - 2, N])
    return out


@jit
def judge(memory, logs, where, far, k, first, last, context, threshold, kept, needed, shorter):
    """Stolcke's rule for the n-grams of order k, as in `pruning.pruned`: kept (N_k,) uint8 <- whether each stays. Marks
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


def without(arrays, vocab, kept, base):
    """(the Nodes of `pruning.without`, with weights made anew; how many contexts sum to more than one)."""
    memory, _, where, _ = arrays
    stays, order = kept.copy(), len(where)
    for k in range(order, 1, -1):
        mark_contexts(memory, where, k, stays, stays, base)
    sizes = [int(np.count_nonzero(stays[base[k] : base[k + 1]])) for k in range(order)]
    new, new_where, _ = room(sizes)
    all_at_once(lambda k: copy_staying(memory, where, k, kept, stays, base, new, new_where), range(1, order + 1))
    nodes = finished(new, new_where, len(vocab.words))
    return nodes, renew((new, new.view(f32), nodes.where, nodes.far), vocab)


def pruned(model, threshold, minorder, history, own=False):
    """(the model of `pruning.pruned`, how many contexts sum to more than one). history: a function, model -> log10 p of
    its contexts, or None.
    """
    arrays = _, logs, where, _ = opened(model, own)
    context = history(model) if history else context_probabilities(arrays, model.vocab)
    base = np.concatenate(([0], np.cumsum(where[:, N])))
    kept, needed = np.ones(base[-1], np.uint8), [np.zeros(size, np.uint8) for size in where[:, N]]
    for k in range(len(where), 1, -1):
        given = context[k - 2], float(threshold if k >= minorder else 0), kept[base[k - 1] : base[k]]
        given = *given, needed[k - 1], needed[k - 2]
        in_parts(lambda *part, k=k, given=given: judge(*arrays, k, *part, *given), where[k - 2, N])
        mark_ends(model.nodes, k, needed)
    for k in range(1, len(where)):
        at, size, width, _ = where[k - 1].tolist()
        logs[at + BOW : at + BOW + size * width : width][needed[k - 1] == 0] = 0
    nodes, over = without(arrays, model.vocab, kept, base)
    return closed(model, nodes), over


@jit
def drop_low(memory, logs, where, far, k, first, last, extended):
    """In place, makes those n-grams of order k bare for which backing off gives more, and sets the weights (log10) of
    contexts to 0 that nothing extends any more. Returns the number of n-grams that became bare. extended (N_(k-1),)
    uint8: whether a context of order k ends in an n-gram.
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


def without_low(model, minorder):
    """(the model of `pruning.without_low`, how many contexts sum to more than one)."""
    arrays = memory, logs, where, _ = opened(model)
    order, gone = len(where), True
    extended = [np.zeros(n, np.uint8) for n in where[:, N]]
    for k in range(2, order):
        mark_extended(memory, where, k, extended[k - 2])
    while gone:
        gone = 0
        for k in range(minorder, order + 1):
            drop = lambda *part, k=k: drop_low(*arrays, k, *part, extended[k - 2])
            gone += sum(in_parts(drop, where[k - 2, N]))
        new_weights(arrays, model.vocab)
    base = np.concatenate(([0], np.cumsum(where[:, N])))
    kept = np.ones(base[-1], np.uint8)
    for k in range(2, order + 1):
        at, size, width, p = where[k - 1].tolist()
        kept[base[k - 1] : base[k]] = ~np.isnan(logs[at + p : at + p + size * width : width])
    needed = np.zeros_like(kept)
    for k in range(order, 1, -1):
        mark_contexts(memory, where, k, kept, needed, base)
        mark_ends(model.nodes, k, np.split(needed, base[1:-1]))
    kept |= needed
    nodes, over = without(arrays, model.vocab, kept, base)
    return closed(model, nodes), over


def merged(models, weights, vocab, ids, own=False):
    """(the model of `merge.merged`, how many contexts sum to more than one). ids: for each model, the new ids of its
    words.
    """
    memory, where, far = union.united(models, ids, len(vocab.words), weights, own)
    over = renew((memory, memory.view(f32), where, far), vocab)
    return closed(replace(models[0], vocab=vocab), without_tables(memory, where, far)), over


def renumbered(models, vocab, ids):
    """`merge.renumbered`; ids as in `merged`."""
    return closed(replace(models[0], vocab=vocab), without_tables(*union.united(models, ids, len(vocab.words))))
