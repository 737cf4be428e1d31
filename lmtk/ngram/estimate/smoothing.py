"""Smoothing: counts -> a back-off model (Katz 1987; Chen and Goodman 1998), as SRILM's ngram-count estimates it.

For each order, a method gives the terms of p (`methods`):

    p(w | h) = f(c) / q(h)  [ + weight(h) p(w | h without its oldest word)   if it is interpolated ]

The left-over mass goes to the unseen words, by the back-off weight

    bow(h) = (1 - sum p(w | h)) / (1 - sum p(w | h without its oldest word)),  both sums over the seen w,

and at order 1 to the words of the vocabulary without a count. `estimate` does all this in numpy, for small jobs and
special ones. `smooth` smooths the n-grams of an order; `smooth_large` below it does the same by kernels, for `engine`.
Logarithms are log10 in single precision, as in SRILM: the last digits of its models depend on it.
"""

import itertools
from dataclasses import dataclass
from functools import partial

import numpy as np

from lmtk.errors import LmtkError
from lmtk.machine.jit import jit
from lmtk.ngram import mass
from lmtk.ngram.counting.counts import find, from_rows, to_closed_rows
from lmtk.ngram.estimate.methods import EPSILON
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import build_nodes

ROUNDS = 1000  # rounds in which a total grows by one, as in SRILM; then it grows faster
f32 = np.float32


@dataclass
class Order:
    """One order while it is estimated. For each n-gram, (N,): keys; parent, the node of its context; word, its last
    word; suffix, the node without its oldest word; count, as the method wants it; raw, how often the n-gram was seen;
    inside, whether all its words are kept, or None; counted, whether it was among the counts; first_word; event,
    whether it is counted and predicted: not if its context ends in </s>, or has an <unk> that is not predicted. In
    single precision: log10p, backed off if the n-gram is left out; log10bow. kept, whether the n-gram is in the model.
    """

    keys: np.ndarray
    parent: np.ndarray
    word: np.ndarray
    suffix: np.ndarray
    count: np.ndarray
    counted: np.ndarray
    first_word: np.ndarray
    event: np.ndarray
    raw: np.ndarray
    inside: np.ndarray = None
    log10p: np.ndarray = None
    log10bow: np.ndarray = None
    kept: np.ndarray = None


def levels_of(counts, vocab, order):
    """Counts -> Orders with the vocabulary's ids. Every word is a node of order 1, and every prefix and suffix of an
    n-gram is a node of its own order.
    """
    levels, is_closed, unknown = [], *np.zeros((2, 1), bool)  # of contexts: which cannot be extended, or have <unk>
    for k, (keys, count, counted) in enumerate(nodes_of_rows(counts, vocab, order), 1):
        kind = np.int32 if len(is_closed) < 1 << 31 else np.int64  # int32 takes half the memory
        parent, word = (x.astype(kind) for x in np.divmod(keys, len(vocab.words)))
        suffix, first_word, unknown = parent, word, unknown[parent] | (word == vocab.unk_id)
        if k > 1:
            below = levels[-1]
            first_word = below.first_word[parent]
            suffix = word if k == 2 else find(below.keys, below.suffix[parent].astype(np.int64), word, len(vocab.words))
        event = counted & (word < vocab.V) & ~is_closed[parent]
        is_closed = (word == vocab.eos_id) | (unknown & (vocab.unk_id >= vocab.V))
        levels.append(Order(keys, parent, word, suffix, count, counted, first_word, event, count))
    return levels


def nodes_of_rows(counts, vocab, order):
    """A list with keys, count and counted, as in Order, of each order."""
    W, levels = len(vocab.words), counts.levels[:order]
    ids = vocab.ids_of_words(counts.words)
    rows = [ids[row] for row in to_closed_rows(levels, len(counts.words))]
    rows[0] = np.concatenate((rows[0], np.arange(W)[:, None]))
    weights = [np.pad(level.count, (0, len(row) - len(level.count))) for level, row in zip(levels, rows)]
    sizes = [len(level.keys) for level in levels]  # the rows of the counts come before those of n-grams that are added
    return [(level.keys, level.count, level.first < size) for level, size in zip(from_rows(rows, weights, W), sizes)]


def counted_levels(counts, vocab, methods, kenlm=False):
    """`levels_of` with the counts that each order's Method wants. Raises LmtkError if nothing is counted: with `kenlm`,
    no word of the vocabulary; else no n-gram of any order that ends in one.
    """
    levels = levels_of(counts, vocab, len(methods))
    if not any((level.raw[level.word < vocab.V] > 0).any() for level in levels[: 1 if kenlm else None]):
        raise LmtkError("the counts have no word of the vocabulary")
    for method, level, above in zip(methods, levels, levels[1:]):
        if method.continued:
            # continuation counts (Kneser and Ney 1995): how many different words precede each n-gram; an n-gram whose
            # first word is not predicted, such as <s>, keeps its raw count, since nothing precedes it
            continued = np.bincount(above.suffix[above.count > 0], minlength=len(level.keys)).astype(level.count.dtype)
            level.count = np.where(level.first_word < vocab.V, continued, level.count)
    return levels


def counts_of_counts(level, method, last, V, upto):
    """n_1 .. n_upto: how many of the counted n-grams that end in a predicted word have the count 1 .. upto. last: a
    node that lmplz counts by its raw count, or None.
    """
    count = (level.raw if method.counts == "after" else level.count).copy()
    if last is not None:
        count[last] = level.raw[last]
    counts = count[level.counted & (level.word < V) & (count <= upto)]
    return [int((counts == r).sum()) for r in range(1, upto + 1)]


def last_nodes(levels, vocab):
    """The last n-gram of each order but the highest, in lmplz's order, up to the first that begins with <s>: a list of
    nodes. In its counts of counts, and only there, lmplz has the raw counts of these n-grams. N-grams are sorted by
    their last words, then by the words before; marks come first, -pau- last.
    """
    rank = np.arange(len(vocab.words))
    rank[[vocab.unk_id, vocab.sos_id, vocab.eos_id]] = -3, -2, -1
    above, out = np.flatnonzero(levels[0].raw > 0), []
    for level, longer in itertools.pairwise(levels):
        if len(above):
            out.append(above[np.argmax(rank[level.first_word[above]])])
            above = np.flatnonzero((longer.suffix == out[-1]) & (longer.raw > 0))
    return out


def estimate(counts, vocab, recipe):
    """Counts -> (Backoff, the methods with their discounts). Raises NoDiscount, and LmtkError if nothing is counted."""
    methods, kenlm, discounted = recipe.methods, recipe.kenlm, []
    levels = counted_levels(counts, vocab, methods, kenlm)
    if recipe.heldout:
        recipe = recipe.tuned(recipe.heldout.of_levels(levels))
    last = last_nodes(levels, vocab) if kenlm else []
    for k, (method, level, last_node) in enumerate(itertools.zip_longest(methods, levels, last), 1):
        discounted.append(recipe.discounted_method(k, partial(counts_of_counts, level, method, last_node, vocab.V)))
    inside, size = words_kept(recipe, vocab)
    if inside is not None:
        for k, level in enumerate(levels, 1):
            level.inside = inside[level.word] if k == 1 else inside[level.word] & levels[k - 2].inside[level.parent]
    for k, method in enumerate(discounted, 1):
        estimate_order(levels, k, method, vocab, recipe.tell, size, recipe.trusting)
    fix_contexts(levels, kenlm)
    orders, place = [], np.zeros(1, np.int64)
    for level in levels:
        kept = level.kept if orders else np.ones(len(level.keys), bool)  # words stay without a p too
        keys = place[level.parent[kept]] * len(vocab.words) + level.word[kept]
        orders.append((keys, np.where(level.kept, level.log10p, f32(np.nan))[kept], level.log10bow[kept]))
        place = np.cumsum(kept) - 1
        vars(level).clear()  # makes room for a large model
    return Backoff(vocab, build_nodes(orders, len(vocab.words))), discounted


def words_kept(recipe, vocab):
    """(inside, size). inside (W,): whether n-grams of a word are kept: of marks and of words that the recipe lists;
    None without a list. size: with KenLM's rules, the number of words of the uniform distribution, else False.
    """
    if recipe.listed is None:
        return None, recipe.kenlm and max(vocab.V, recipe.size)
    inside = np.array([w in recipe.listed for w in vocab.words])
    inside[[vocab.sos_id, vocab.eos_id, vocab.unk_id]] = True
    return inside, recipe.kenlm and max(int(inside[: vocab.V].sum()), recipe.size)


def estimate_order(levels, k, method, vocab, tell, size, trusting=False):
    """Estimates, in `levels`, the probabilities of order k and the back-off weights of its contexts. size: as
    `words_kept` returns it. trusting: as in a Recipe.
    """
    level, V, below = levels[k - 1], vocab.V, levels[k - 2] if k > 1 else None
    level.log10p, level.log10bow = np.full(len(level.keys), np.nan, f32), np.zeros(len(level.keys), f32)
    n, lower_p, T, H = np.flatnonzero(level.event), None, None, 1
    if below:
        lower_p, H = exp10(below.log10p), len(below.keys)
        T = below.count if trusting else None
    raw = level.raw[n] if level.inside is None else np.where(level.inside[n], level.raw[n], -1)
    events = level.parent[n], level.count[n], raw, level.suffix[n], lower_p
    level.log10p[n], _, bow = smooth(events, H, method, V, size, T)
    if below:
        below.log10bow = bow
    else:
        left = 1 - np.nansum(exp10(level.log10p))
        if size:  # the unseen words' mass may be so small that 1 - sum would lose it
            seen = np.count_nonzero(~np.isnan(level.log10p))
            left = bow[0] * (1 - seen / size if method.interpolate else 1)
        elif left < EPSILON:
            left = 0.0
        give_to_unseen(level, vocab, left, tell, size)
    level.kept = ~np.isnan(level.log10p)
    n = np.flatnonzero(~level.kept)
    level.log10p[n] = bow[level.parent[n]] + below.log10p[level.suffix[n]] if below else -np.inf


def smooth(events, H, method, V, size, T=None):
    """(log10 p (N,) of events in single precision, nan if left out; p (N,), 10 to that; log10 of the back-off weights
    (H,) of their contexts). At order 1 the last is the weight of the uniform distribution, not its logarithm.

    events: the predicted n-grams of an order that were counted, as (context, count, raw, parent, lower_p). (N,) each:
    context, which of the H contexts an n-gram extends; count, as the method wants it; raw, how often the n-gram was
    seen, -1 if it is left out for its words; parent, the number of its suffix in the order below. lower_p (M,): p of
    the n-grams of the order below, None at order 1. T (H,): how often each context was seen, None if that is the sum of
    the counts. size: as `words_kept` returns it.

    An n-gram that is left out, by `cutoff` or for its words, gives its count to the lower order.
    """
    context, count, raw, parent, lower_p = events
    cut = raw <= (method.cutoff or -1)
    lost, seen = np.bincount(context[cut], count[cut], H), np.bincount(context, count, H)
    types = np.stack([np.bincount(context[~cut & (count >= r)], minlength=H) for r in (0, 2, 3)])
    T = seen if T is None else T
    is_kept = (seen > 0)[context] & (T > 0)[context] & ~cut
    if lower_p is not None:
        is_kept &= count > 0
    kept = slice(None) if is_kept.all() else np.flatnonzero(is_kept)
    N, context, count = len(context), context[kept], count[kept]
    # as in SRILM, 1 / V has its log10 in single precision
    uniform = 1 / size if size else 10.0 ** float(f32(-np.log10(V)))
    lower = np.full(len(count), uniform) if lower_p is None else lower_p[parent[kept]]
    shares = lost, lower if method.interpolate else None, size
    p, weight, left_out = share_mass(method, context, count, (T, types, V), *shares)
    log10p = np.full(N, np.nan, f32)
    with np.errstate(divide="ignore"):
        kept_log10p = np.log10(p).astype(f32)
        kept_log10p[left_out] = np.nan
        if lower_p is None:
            bow = weight
        elif size:
            bow = np.where(T > 0, np.log10(weight), 0).astype(f32)
        else:
            total = lambda x: np.bincount(context, np.where(np.isnan(kept_log10p), 0, x), H)
            bow, scale = mass.backoff_weights(total(exp10(kept_log10p)), total(lower))
            kept_log10p += scale[context]  # if the lower order leaves nothing, p is scaled to sum to one
    log10p[kept] = kept_log10p
    return log10p, exp10(log10p), bow


def smooth_large(k, events, H, method, V, kenlm, room):
    """`smooth` by kernels, for an order k above 1. The log10 p and p returned are memory of `room`, a Scratch's; p
    stays until the order after the next is smoothed. `smooth` itself does the few contexts that leave nothing for
    unseen words, or too much.
    """
    context, count, raw, parent, lower_p = events
    kind = np.int32 if raw.dtype == np.int32 else np.float64  # counts that were read may be large, or fractions
    h, lost = room("totals", (H, 4), kind), room("lost", H, kind)
    cutoff = method.cutoff or -1  # -1: n-grams that are only prefixes of others, seen 0 times, are types too
    sum_counts(context, count, raw, cutoff, h, lost)
    T, types = h[:, 0].astype(np.float64), h[:, 1:].T
    seen = T > 0
    T[~seen] = 1
    q, weight = method.shares(T, types, V)
    if lost.any():
        weight = weight + lost / T
    share = room("share", (H, 2), np.float64)
    share[:, 0], share[:, 1] = q, weight if method.interpolate else 0
    f, less = method.discounted_counts()
    log10p, p = room("log10p", len(raw), f32), room(f"p{k % 2}", len(raw), np.float64)
    lower, sums = room("lower", len(raw), np.float64), room("sums", (H, 2), np.float64)
    rule = np.array(f), float(less), float(method.minimum), cutoff, bool(kenlm)
    interpolate(events, rule, share, p, lower, sums)
    full = np.zeros(H, bool) if method.idle or kenlm else (sums[:, 0] > 1 - EPSILON) & (types[0] < V)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.log10(p, out=p)
        log10p[:] = p
        p[:] = log10p
        np.power(10.0, p, out=p)
        if kenlm:
            return log10p, p, np.where(seen, np.log10(weight), 0).astype(f32)
    sum_both(context, p, lower, sums)
    bow, scale = mass.backoff_weights(sums[:, 0], sums[:, 1])
    full |= scale > 0
    if full.any():
        selected, number = np.flatnonzero(full[context]), np.cumsum(full) - 1
        events = number[context[selected]], count[selected], raw[selected], parent[selected], lower_p
        log10p[selected], p[selected], bow[full] = smooth(events, number[-1] + 1, method, V, False)
    return log10p, p, bow


@jit
def sum_counts(context, count, raw, cutoff, h, lost):
    """h (H, 4) <- T and the three types of `methods`; lost (H,) <- the sum of the counts of the n-grams that
    were seen `cutoff` times or less. Those are not types.
    """
    h[:], lost[:] = 0, 0
    for i in range(len(context)):
        at, c, is_type = context[i], count[i], raw[i] > cutoff
        h[at, 0] += c
        h[at, 1] += is_type
        h[at, 2] += is_type & (c >= 2)
        h[at, 3] += is_type & (c >= 3)
        if not is_type:
            lost[at] += c


@jit
def interpolate(events, rule, share, p, lower, sums):
    """p (N,) <- f(c) / q + weight p of the lower order, nan for an n-gram that is left out; lower (N,) <- p of the
    lower order; sums[:, 0] (H,) <- the sum of p. events: as for `smooth`; share (H, 2): q and weight; rule: what
    discounted_counts of a Method returns, its minimum and cutoff, and whether the rules are KenLM's.
    """
    (context, count, raw, parent, lower_p), (f, less, minimum, cutoff, kenlm) = events, rule
    sums[:] = 0
    for i in range(len(context)):
        at, c = context[i], count[i]
        below = lower_p[parent[i]]
        few = c <= len(f) - 1
        whole = np.int64(c) if few else 0
        kept = f[whole + (whole < c)] if few else c - less
        kept = kept / share[at, 0] if c >= minimum else 0.0
        is_kept = (c > 0) & (raw[i] > cutoff) & (kenlm | (kept != 0))
        value = kept + share[at, 1] * below
        lower[i], p[i] = below, value if is_kept else np.nan
        sums[at, 0] += value if is_kept else 0.0


@jit
def sum_both(context, p, lower, sums):
    """sums (H, 2) <- the sums of p and of `lower` (N,) in each context, over the n-grams whose p is not nan."""
    sums[:] = 0
    for i in range(len(context)):
        at, has_p = context[i], p[i] == p[i]
        sums[at, 0] += p[i] if has_p else 0.0
        sums[at, 1] += lower[i] if has_p else 0.0


def share_mass(method, context, c, totals, lost, lower, kenlm):
    """(p of n-grams; with `kenlm`, the lower order's weight in each context; which n-grams are left out). context, c
    (N,): the context and the count of each n-gram; totals: T, types, V, as in `methods`; lost: the sum of the counts
    that are cut in each context; lower: p of the lower order, None without interpolation.

    If nothing is left for a context's unseen words, the context is no longer interpolated. If still nothing is left,
    its total grows by one until something is left (Doug Paul's remedy, as in SRILM). After ROUNDS rounds the total
    grows by a share of itself. Each round has only the contexts for which nothing was left in the round before.
    """
    (T, types, V), f, todo = totals, method.discount(c.astype(np.float64)), slice(None)
    T = T.astype(np.float64)
    p, left_out = np.empty(len(c)), np.zeros(len(c), bool)
    for round in itertools.count():
        is_interpolated = round == 0 and lower is not None
        with np.errstate(divide="ignore", invalid="ignore"):
            q, weight = method.shares(T, types, V)
            weight = weight + lost / T
        kept = f[todo] / q[context]
        left_out[todo] = (kept == 0) & (c[todo] > 0) & (not kenlm)
        p[todo] = kept + weight[context] * lower if is_interpolated else kept
        if method.idle or kenlm:
            return p, weight, left_out
        sums = np.bincount(context, np.where(left_out[todo], 0, p[todo]), len(T))
        is_full = (sums > 1 - EPSILON) & (types[0] < V)  # nothing is left, though there are unseen words
        if not is_full.any():
            return p, weight, left_out
        again, number = is_full[context], np.cumsum(is_full) - 1
        todo = np.flatnonzero(again) if round == 0 else todo[again]
        context, T, types, lost = number[context[again]], T[is_full], types[:, is_full], lost[is_full]
        if not is_interpolated:
            T += 1 if round < ROUNDS else np.maximum(1, EPSILON * T)


def exp10(log10):
    """10^log10 in double precision."""
    return 10.0 ** log10.astype(np.float64)


def give_to_unseen(level, vocab, left, tell, size):
    """Order 1: gives the left-over mass to the words without a probability. If all words have one, all words share the
    mass. Words that are counted only in contexts get p = 0. size: the least number of words that share the mass,
    including words outside the vocabulary; 0 for SRILM's rules.
    """
    words = level.word < vocab.V
    level.log10p[level.word == vocab.sos_id] = -np.inf
    if not size:
        level.log10p[level.counted & ~words & (level.word != vocab.unk_id)] = -np.inf
    kept = words if level.inside is None else words & level.inside
    # in KenLM, a word that was seen may have the probability 0
    unseen = kept & (np.isnan(level.log10p) if size else ~(level.log10p > -np.inf))
    sharing = unseen.sum() + max(size - kept.sum(), 0)
    with np.errstate(divide="ignore"):
        if unseen.any():
            tell(f"warning: distributing {left:.6g} left-over probability mass over {sharing} zeroton words")
            level.log10p[unseen] = f32(np.log10(left / sharing))
        elif left:
            tell(f"warning: distributing {left:.6g} left-over probability mass over all {words.sum()} words")
            level.log10p[words] = np.log10(exp10(level.log10p[words]) + left / words.sum()).astype(f32)


def fix_contexts(levels, kenlm):
    """Puts back prefixes that were left out, with backed-off probabilities: an ARPA file needs every prefix of its
    n-grams. SRILM also needs the suffixes of these prefixes, and their prefixes; with `kenlm` they are not put back.
    """
    needed = []
    for k in range(len(levels), 0, -1):
        level = levels[k - 1]
        level.kept[needed] = True
        ends = level.suffix[needed if k > 2 and not kenlm else []]
        needed = np.append(level.parent[level.kept], ends)
