"""Back-off weights that make every context's probabilities sum to one.

    p(w | h) = p of the n-gram h w where the model has it, else bow(h) p(w | h')        h' is h without its oldest word
    bow(h) = (1 - sum p(w | h)) / (1 - sum p(w | h')),  sums over the words w of the n-grams h w

Sums of probabilities are in double precision; probabilities and weights are log10 in single precision, as in SRILM:
pruning and the last digits of the file depend on it.

model     a copy that can be changed, from `writable`
arrays    memory, logs, where and far of its nodes, as in `nodes`; the kernels change the records in memory
order k   the order of the n-grams that a kernel works at
contexts  the range (first, end) of nodes of order k - 1 that it works at

Loops go over contexts and their n-grams in storage order. Bound: a random read of each suffix, and the exponentials.
"""

import math
import warnings
from dataclasses import replace
from functools import partial

import numpy as np

from lmtk.errors import LmtkWarning, counted, shown
from lmtk.exponential import powers
from lmtk.files.bounded import zeros
from lmtk.lm import probability
from lmtk.machine.jit import inlined, intrinsic, jit
from lmtk.machine.threads import map_at_once, parts_of
from lmtk.ngram.estimate.methods import EPSILON
from lmtk.ngram.mass import left_of_one
from lmtk.ngram.model.nodes import AT, BOW, CHILD, PART, WIDTH, N, P, freeze, suffix_of, writable_memory
from lmtk.ngram.model.walking import backed_off

AHEAD = 8  # n-grams: how far ahead memory is fetched
f32 = np.float32
prefetch = intrinsic("prefetch")


def renormalize(model, may_reuse=False):
    """Return the model with back-off weights that make the probabilities after every context sum to one.

    The left-over mass of the 1-grams goes to the words of probability 0 in equal parts or, without such words, to all.
    The n-grams of a context without unseen words are scaled to sum to one. N-grams that sum to more than one stay as
    they are, and unseen words get the probability 0, with a warning. A bare prefix becomes an n-gram with its
    backed-off probability. A weight (log10) that becomes 0, or was -0.0, is stored as -0.0: a 0 that ARPA files state.

    may_reuse: whether the caller gives up the model; its memory is then reused.
    """
    model = writable(model, may_reuse)
    warn_of_sums(model, *update_all_weights(model, shown=True))
    for k, level in enumerate(model.nodes.levels[2:], 2):
        level["log10p"][:-1] = log10p_of_all(model, k)
    return replace(model, nodes=replace(model.nodes, memory=freeze(model.nodes.memory)))


def warn_of_sums(model, contexts, k, node):
    """Warn if the probabilities after `contexts` contexts sum to more than one. One of them is a node of order k."""
    if contexts:
        context = b" ".join(model.vocab.words[w] for w in model.nodes.rows(k, node, node + 1)[0])
        after = f"'{shown(context)}'" if k else "the empty context"
        after += f" and {counted(contexts - 1, 'other context')}" if contexts > 1 else ""
        remedy = "n-grams are not changed, and words without an n-gram get the probability 0 there"
        warnings.warn(f"the probabilities after {after} sum to more than one; {remedy}", LmtkWarning, stacklevel=3)


def log10p_of_all(model, k):
    """log10 p of the n-grams of order k, (N_k,) float32, backed off for bare prefixes; -inf for bare 1-grams."""
    nodes, log10p = model.nodes, model.nodes.levels[k]["log10p"][:-1].copy()
    bare, N_k = np.isnan(log10p), len(log10p)
    if bare.any():
        rows = [nodes.rows(k, a, min(a + PART, N_k))[bare[a : a + PART]] for a in range(0, N_k, PART)]
        backed_off = model.log10p_of(np.concatenate(rows))
        log10p[bare] = np.where(np.isnan(backed_off), f32(-np.inf), backed_off)
    return log10p


def leaves_mass(model):
    """Whether the probabilities of the 1-grams, without <s>, sum to less than one."""
    unigrams = model.nodes.levels[1][:-1]
    return 1 - np.nansum(probability(unigrams["log10p"][unigrams["word"] != model.vocab.sos_id])) >= EPSILON


def update_all_weights(model, shown=False):
    """Complete the 1-grams and set all back-off weights, in place. shown: as for `update_weights`. Returns the number
    of contexts whose probabilities sum to more than one, and the order and the node of one of them.
    """
    nodes, example = model.nodes, (0, 0)
    unigrams = nodes.levels[1][:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        unigrams["log10p"], over = complete_unigrams(unigrams["log10p"].copy(), unigrams["word"], model.vocab)
    for k in range(2, nodes.order + 1):
        for number, node in map_at_once(partial(update_weights, nodes.arrays, k, shown), parts_of(nodes.size(k - 1))):
            over, example = over + number, (k - 1, node) if number else example
    return over, *example


def complete_unigrams(log10p, words, vocab):
    """Give the left-over mass of the 1-grams to the predicted words of probability 0 or, without such words, to all.
    Returns the new log10 p (N,), not nan for a predicted word, and 1 if the 1-grams sum to more than one, else 0.
    """
    p, predicted = probability(log10p), words < vocab.V
    left = 1 - np.nansum(p[words != vocab.sos_id])  # KenLM's files give <s>, which is never predicted, probability 1
    zero = predicted & ~(p > 0)
    if left < EPSILON:
        return np.where(zero, f32(-np.inf), log10p), int(-left >= EPSILON)
    takers = zero if zero.any() else predicted
    p[takers] = np.where(p[takers] > 0, p[takers], 0) + left / takers.sum()
    return np.where(takers, np.log10(p).astype(f32), log10p), 0


def writable(model, may_reuse=False):
    """Copy a model; the records of the copy can be changed. With `may_reuse`, nodes in memory are taken over instead,
    and the caller must not use the model afterwards. Raises FormatError if a file's nodes are damaged.
    """
    model.nodes.checked_levels(len(model.vocab.words))
    memory = writable_memory(model.nodes) if may_reuse else None
    if memory is None:
        memory = zeros(model.nodes.memory.size, np.int32)
        memory[:] = model.nodes.memory
    return replace(model, nodes=replace(model.nodes, memory=memory, path=""))


@inlined
def lower_p(arrays, k, node, above, context, weights):
    """log10 p of the last word of a node of order k, from its longest proper suffix with a probability and the weights
    of `context`, a node of order `above`, and of that context's suffixes. context: the longest suffix of the n-gram's
    context. weights (n,): scratch.
    """
    (memory, logs, where, far), p, many = arrays, f32(-np.inf), 0
    k, node = suffix_of(memory, where, far, k, node)
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
def fetch_suffix(memory, where, k, node):
    """Prefetch the number that `lower_p` of a node will read."""
    if node < where[k - 1, N]:
        end = np.int64(memory[where[k - 1, AT] + where[k - 1, WIDTH] * (node + 1) - 1])
        prefetch(memory, where[k - 2, AT] + where[k - 2, WIDTH] * max(end, 0) + where[k - 2, P])


@jit
def update_weights(arrays, k, shown, contexts):
    """Set the weights of contexts from the n-grams of order k, and scale n-grams as `renormalize` does. shown:
    store a weight that becomes 0, or was -0.0, as -0.0. Returns how many contexts sum to more than 1, and one of them.
    """
    (memory, logs, where, far), (first, last) = arrays, contexts
    weights, n_over, example = np.empty(len(where) + 1, np.float32), 0, 0
    above, wide, below, width = where[k - 2, AT], where[k - 2, WIDTH], where[k - 1, AT], where[k - 1, WIDTH]
    p, start = below + where[k - 1, P], np.int64(memory[above + wide * first + CHILD])
    higher = np.empty(np.int64(memory[above + wide * last + CHILD]) - start)
    lower = np.empty(len(higher))
    for i in range(first, last):
        at = above + wide * i
        after_order, after = suffix_of(memory, where, far, k - 1, i)
        for child in range(np.int64(memory[at + CHILD]), np.int64(memory[at + wide + CHILD])):
            fetch_suffix(memory, where, k, child + AHEAD)
            value = logs[p + width * child]
            higher[child - start] = lower[child - start] = -np.inf
            if value == value:
                higher[child - start] = value
                lower[child - start] = lower_p(arrays, k, child, after_order, after, weights)
    powers(higher, len(higher))
    powers(lower, len(lower))
    for i in range(first, last):
        at = above + wide * i
        begin, end = np.int64(memory[at + CHILD]), np.int64(memory[at + wide + CHILD])
        seen = seen_by_lower = 0.0
        for child in range(begin - start, end - start):
            seen += higher[child]
            seen_by_lower += lower[child]
        numerator, denominator, scale, over = left_of_one(seen, seen_by_lower)
        if scale:
            for child in range(begin, end):
                logs[p + width * child] += scale
        n_over, example = n_over + over, i if over else example
        bow, old = f32(-np.inf) if over else f32(0), logs[at + BOW]
        if denominator > 0 and not over:
            bow = f32(math.log10(numerator) - math.log10(denominator))
        logs[at + BOW] = f32(-0.0) if shown and bow == 0 and (old != 0 or math.copysign(1, old) < 0) else bow
    return n_over, example
