"""Log-linear interpolation of back-off models, exact and normalized, as one back-off model (Heafield et al. 2016).

With back-off models p_i of one vocabulary and weights m_i, which may be any numbers,

    u(w | h) = prod_i p_i(w | h)^m_i        Z(h) = sum_w u(w | h)        p(w | h) = u(w | h) / Z(h)

Let h' be h without its oldest word, and b_i(h) the back-off weights, 1 where a model lacks h. A word w without an
n-gram h w in any model has u(w | h) = b(h) u(w | h') with b(h) = prod_i b_i(h)^m_i. So p is a back-off model whose
n-grams are those of all models and whose weights are b(h) Z(h') / Z(h), and Z needs the n-grams of a context alone:

    Z(h) = b(h) Z(h') + sum over the n-grams h w of (u(w | h) - b(h) u(w | h'))

Steps: `unite_models` puts all models over one vocabulary and all n-grams into one trie; `tune` finds the weights under
which a text is most likely, which is a concave problem; `interpolate` makes the model.

symbol   shape        meaning
S        -            models
flat     -            n-grams of all orders are numbered together, from the root 0 on, those of order k from base[k] on
log_p    (N, S)       ln p_i of each n-gram, float32
log_b    (N, S)       ln of the product of b_i of an n-gram and all its suffixes, as contexts, float32
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from lmtk.errors import LmtkError, counted
from lmtk.lm import LN10, ranges
from lmtk.ngram.edit.union import unite
from lmtk.ngram.edit.vocabulary import renumbered, unite_vocabularies
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import build_nodes
from lmtk.ngram.model.nodes import ZERO, Nodes, find_unigrams, freeze, view_records, wrap_records, writable_memory
from lmtk.ngram.model.searching import find_rows
from lmtk.text.corpus import contexts as contexts_before
from lmtk.text.vocab import Vocab

PIECE = 1 << 20  # n-grams that are scored together
STEPS = 100
ENOUGH = 1e-9  # gain of ln p a word in a step that ends the search
MOST_BOW = 10.0  # of log10 of back-off weights
LEAST = 1e-200  # a sum Z below has lost digits, and one above 1 / LEAST may overflow
LOST = "some products of probabilities are too small to be summed; give smaller weights, or learn them on a longer text"
f32 = np.float32


@dataclass(frozen=True)
class United:
    """The n-grams of several models. nodes: all n-grams, without probabilities. walks: a Walk of each model over
    `vocab` and the ghost, a word that has only a 1-gram, with p = 1. So p(ghost | h) is the product of the back-off
    weights of h and its suffixes.
    """

    vocab: Vocab
    nodes: Nodes
    walks: list
    base: list
    log_p: np.ndarray
    log_b: np.ndarray

    @property
    def order(self):
        return self.nodes.order

    def level(self, k):
        """The flat numbers of the n-grams of order k, a slice."""
        return slice(self.base[k], self.base[k + 1])

    def suffixes(self, k):
        """The flat number of the longest proper suffix of each n-gram of order k, (N_k,)."""
        if k == 1:
            return np.zeros(self.nodes.size(1), np.int64)
        suffix, far = self.nodes.levels[k]["suffix"][:-1].astype(np.int64), self.nodes.far.astype(np.int64)
        order, place = far[np.maximum(-1 - suffix, 0)].T
        return np.where(suffix >= 0, self.base[k - 1] + suffix, np.array(self.base)[order] + place)

    def is_predicted(self, k):
        """Whether the last word of each n-gram of order k is predicted, (N_k,)."""
        return self.nodes.levels[k]["word"][:-1] < self.vocab.V

    @cached_property
    def contexts(self):
        """The flat number of the context of each n-gram, by flat number."""
        orders = range(1, self.order + 1)
        return np.concatenate([np.zeros(1, np.int64), *(self.base[k - 1] + self.nodes.parents(k) for k in orders)])


def unite_models(models, names, tell=lambda text: None):
    """The United of Backoff models. A word that a model lacks has the probability of the model's <unk>, and 10^-99 if
    the model does not predict <unk>, which `tell` is told. names: of the models.
    """
    vocab = unite_vocabularies([model.vocab for model in models])
    V, W = vocab.V, len(vocab.words)
    ghost = b""  # not a word of any text
    wider = Vocab([*vocab.words[:V], ghost, *vocab.words[V:]], V + 1, vocab.unk, vocab.tokenizer)
    models = [over_words(model, wider, name, tell) for model, name in zip(models, names, strict=True)]
    ids = np.arange(W + 1, dtype=np.int32)
    ids[V:] -= 1
    ids[V] = -1
    nodes = wrap_records(*unite(models, [ids] * len(models), W))
    base = np.cumsum([0, 1, *(nodes.size(k) for k in range(1, nodes.order + 1))]).tolist()
    walks = [model.walk for model in models]
    walks = [replace(walk, log10p_1=np.maximum(walk.log10p_1, f32(ZERO))) for walk in walks]  # 10^-99 in place of 0
    log_p, log_b = np.zeros((2, base[-1], len(models)), f32)
    for k in range(1, nodes.order + 1):
        rows = nodes.rows(k)
        for begin in range(0, len(rows), PIECE):
            part = slice(begin, begin + PIECE)
            at = slice(base[k] + begin, base[k] + min(begin + PIECE, len(rows)))
            log_p[at], log_b[at] = log_scores(walks, rows[part], V)
    return United(vocab, nodes, walks, base, log_p, log_b)


def over_words(model, vocab, name, tell):
    """The Backoff model over a larger Vocab, whose last predicted word follows no context."""
    ids = np.arange(len(vocab.words))
    unigrams = build_nodes([(ids, np.full(len(ids), np.nan), np.zeros(len(ids)))], len(ids))
    wider = renumbered([model, Backoff(vocab, unigrams)], vocab)
    nodes, unknown = wider.nodes, ZERO
    level = view_records(writable_memory(nodes), nodes.where)[1][:-1]
    place = find_unigrams(nodes, len(ids))
    if model.vocab.predicts(model.vocab.unk):
        of_unk = level["log10p"][place[vocab.unk_id]]
        unknown = of_unk if of_unk > ZERO else ZERO
    log10p = level["log10p"][place]
    lacking = np.isnan(log10p)
    lacking[vocab.V - 1 :] = False
    if unknown == ZERO and (number := np.count_nonzero(lacking)):
        words = counted(number, "word of the other models gets", "words of the other models get")
        tell(
            f"{name}: the model does not predict <unk>, so {words} the probability 1e-99; estimate this model with -unk"
        )
    log10p[lacking] = unknown
    log10p[: vocab.V] = np.maximum(np.nan_to_num(log10p[: vocab.V], nan=ZERO), f32(ZERO))
    log10p[vocab.V - 1] = 0
    level["log10p"][place] = log10p
    return wider


def log_scores(walks, rows, V):
    """(ln p of the last word of each n-gram; ln of the product of the back-off weights after it), (N, S) float32 each.
    rows (N, k): their ids. The ghost has the id V in the walks, so ids from V on rise by 1.
    """
    rows = np.column_stack((np.where(rows >= V, rows + 1, rows), np.full(len(rows), V, np.int32)))
    fresh = np.zeros(rows.shape, bool)
    fresh[:, 0] = True
    log_p, log_b = np.empty((2, len(rows), len(walks)), f32)
    for s, walk in enumerate(walks):
        log10p = walk(rows.ravel().astype(np.int32), fresh.ravel())[0].reshape(rows.shape)
        log10p = np.maximum(log10p, f32(ZERO))
        log_p[:, s], log_b[:, s] = log10p[:, -2] * LN10, log10p[:, -1] * LN10
    return log_p, log_b


def interpolate(united, weights):
    """The Backoff of United models with these weights. Raises LmtkError if the products are too small to be summed."""
    nodes, base = united.nodes, united.base
    log_u, log_b = united.log_p @ np.asarray(weights), united.log_b @ np.asarray(weights)
    log_Z, memory = np.zeros(base[-2]), np.array(nodes.memory)
    levels, contexts, lost = view_records(memory, nodes.where), united.contexts, False
    for k in range(united.order):  # contexts of order k, and their n-grams
        at, children = united.level(k), united.level(k + 1)
        group = contexts[children] - base[k]
        is_predicted = united.is_predicted(k + 1)
        u = np.bincount(group, np.exp(log_u[children]) * is_predicted, at.stop - at.start)
        if k == 0:
            log_Z[0] = np.log(u[0]) if u[0] else -np.inf
        else:
            above, suffix = united.suffixes(k), united.suffixes(k + 1)
            backed_off = log_b[at] - log_b[above] + log_Z[above]
            lower = np.exp(log_u[suffix] + log_b[contexts[children]] - log_b[contexts[suffix]])
            left = np.exp(backed_off) - np.bincount(group, lower * is_predicted, len(u))
            has_children = np.diff(nodes.levels[k]["child"]) > 0
            with np.errstate(divide="ignore", invalid="ignore"):
                log_Z[at] = np.where(has_children, np.log(u + np.maximum(left, 0)), backed_off)
            levels[k]["log10bow"][:-1] = log10bow = (backed_off - log_Z[at]) / LN10
            lost |= (log10bow > MOST_BOW).any()  # Z is little more than a rounding error
        normalized = np.where(is_predicted, log_u[children] - log_Z[contexts[children]], -np.inf)
        levels[k + 1]["log10p"][:-1] = np.minimum(normalized / LN10, 0)  # rounding may make it positive
    if lost or not np.isfinite(log_Z).all():
        raise LmtkError(LOST)
    return Backoff(united.vocab, replace(nodes, memory=freeze(memory)))


def sum_up(orders, weights):
    """(the sums Z(h) (C,) of all contexts, their first (C, S) and second (C, S, S) derivatives by the weights).

    orders: five arrays for each order of C contexts h and M n-grams h w, from order 0 on. above (C,): the place of h'
    among the contexts of all orders; shorter (C, S): ln b_i(h); group (M,): the place of h in its order; log_p (M, S):
    ln p_i(w | h); lower (M, S): ln b_i(h) p_i(w | h').
    """
    S = len(weights)
    Z, first, second = np.zeros(0), np.zeros((0, S)), np.zeros((0, S, S))
    for above, shorter, group, log_p, lower in orders:
        C = len(shorter)
        a, b = np.exp(log_p @ weights), np.exp(lower @ weights) if len(above) else np.zeros(len(group))
        add = lambda values, group=group, C=C: np.bincount(group, values, C).astype(np.float64)
        Z_new, first_new, second_new = add(a), np.empty((C, S)), np.empty((C, S, S))
        for i in range(S):
            first_new[:, i] = add(a * log_p[:, i] - b * lower[:, i])
            for j in range(i + 1):
                second_new[:, i, j] = add(a * log_p[:, i] * log_p[:, j] - b * lower[:, i] * lower[:, j])
                second_new[:, j, i] = second_new[:, i, j]
        if len(above):
            g, Z_above, first_above = np.exp(shorter @ weights), Z[above], first[above]
            Z_new += np.maximum(g * Z_above - add(b), 0)
            first_new += g[:, None] * (shorter * Z_above[:, None] + first_above)
            mixed = shorter[:, :, None] * first_above[:, None, :]
            squares = shorter[:, :, None] * shorter[:, None, :] * Z_above[:, None, None]
            second_new += g[:, None, None] * (squares + mixed + mixed.swapaxes(1, 2) + second[above])
        Z, first, second = (np.concatenate(x) for x in ((Z, Z_new), (first, first_new), (second, second_new)))
    return Z, first, second


def sums_of(united, needed):
    """(a function of the weights that returns what `sum_up` does of the needed contexts; the place of each needed
    context among them). needed: whether a context is needed, by flat number; their suffixes are needed too, and are
    marked in this array. The places are by flat number.
    """
    contexts, nodes = united.contexts, united.nodes
    needed[0] = True
    for k in range(united.order - 1, 0, -1):
        needed[united.suffixes(k)[needed[united.level(k)]]] = True
    place, orders = np.cumsum(needed) - 1, []
    for k in range(united.order):
        at = np.flatnonzero(needed[united.level(k)])
        begin, end = (nodes.levels[k]["child"][at + i].astype(np.int64) for i in (0, 1))
        group = np.repeat(np.arange(len(at)), end - begin)
        children = ranges(begin, end - begin)
        kept = united.is_predicted(k + 1)[children]
        group, children = group[kept], children[kept]
        log_p, flat = united.log_p[united.base[k + 1] + children], united.base[k] + at
        if k == 0:
            lower, above, shorter = log_p, np.zeros(0, np.int64), np.zeros((1, log_p.shape[1]))
        else:
            suffix, above = united.suffixes(k + 1)[children], united.suffixes(k)[at]
            lower = united.log_p[suffix] + united.log_b[flat[group]] - united.log_b[contexts[suffix]]
            shorter = (united.log_b[flat] - united.log_b[above]).astype(np.float64)
        orders.append((place[above], shorter, group, log_p.astype(np.float64), lower.astype(np.float64)))
    return partial(sum_up, orders), place


def tune(united, corpus, tell=lambda weights, logp: None):
    """(the weights (S,) under which the words of a Corpus are most likely; how many words these are; their mean ln p).
    `tell` is called with the weights of each step and that mean. Raises LmtkError if no word is predicted.
    """
    vocab, n = united.vocab, united.order
    at = np.flatnonzero(corpus.scored & (corpus.ids < vocab.V))
    if not len(at):
        raise LmtkError("no word of it is in the models")
    wide = np.where(corpus.ids >= vocab.V, corpus.ids + 1, corpus.ids).astype(np.int32)
    columns = [np.maximum(walk(wide, corpus.fresh)[0][at], f32(ZERO)) for walk in united.walks]
    logp = np.column_stack(columns).astype(np.float64) * LN10
    flat = longest_contexts(united, contexts_before(corpus, n)[at])
    needed = np.zeros(united.base[-2], bool)
    needed[flat] = True
    sums, place = sums_of(united, needed)
    times = np.bincount(place[flat], minlength=np.count_nonzero(needed)) / len(at)

    def likelihood(weights):
        with np.errstate(over="ignore", invalid="ignore"):
            Z, first, second = sums(weights)
        if not ((Z > LEAST) & (Z < 1 / LEAST)).all():  # False for nan
            return -np.inf, None, None
        mean = first / Z[:, None]
        squares = second / Z[:, None, None] - mean[:, :, None] * mean[:, None, :]
        L = (logp @ weights).mean() - times @ np.log(Z)
        return L, logp.mean(0) - times @ mean, np.tensordot(times, squares, 1)

    weights = np.full(logp.shape[1], 1 / logp.shape[1])
    L, slope, curvature = likelihood(weights)
    if np.isinf(L):
        raise LmtkError(LOST)
    for _ in range(STEPS):
        tell(weights, L)
        step, size = np.linalg.lstsq(curvature, slope, 1e-12)[0], 1.0
        while size > 1e-6:
            new_L, *new = likelihood(weights + size * step)
            if new_L >= L:
                break
            size /= 2
        else:
            break
        weights, gain, L, (slope, curvature) = weights + size * step, new_L - L, new_L, new
        if gain < ENOUGH:
            break
    return weights, len(at), L


def longest_contexts(united, before):
    """The flat number of the longest context among the n-grams of each row of words (N, n - 1), the nearest first."""
    flat = np.zeros(len(before), np.int64)
    for length in range(1, united.order):
        node = find_rows(united.nodes, before[:, :length][:, ::-1])
        flat = np.where(node >= 0, united.base[length] + node, flat)
    return flat
