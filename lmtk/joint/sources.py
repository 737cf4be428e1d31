"""One back-off model of several texts, its sources, whose counts have weights that are learned on held-out text.

With c_s(h w) and D_s the counts and Kneser-Ney discounts of source s, and a weight for each source and order,

    p(w | h) = (sum_s weight_s (c_s(h w) - D_s(c_s(h w))) + left(h) p(w | h without its oldest word)) / T(h)

    T(h) = sum_s weight_s sum_w c_s(h w)        left(h) = sum_s weight_s sum_w D_s(c_s(h w))

and at the end of the recursion 1 / V. Below the highest order the counts are the continuation counts of each source.
So a source counts most after the contexts that it has often. Steps: `pool` puts the n-grams of all sources into one
trie; `Pool.features` looks up what the held-out words need; `tune` finds the weights and discounts under which these
words are most likely; `Pool.estimate` makes the model in one pass.

symbol    shape         meaning
S R       -             sources; discounts of a source and order, for the counts 1, 2, and 3 and more
n         -             the order of the model
weights   (n, S)        1 for the first source, since only ratios matter
D         (n, S, R)     the discounts
features  -             of an order, for N held-out words: c (N, S); T (N, S); hit (N, S R), whether the count has the
                        discount r; types (N, S R), how many n-grams of the context have it. All are 0 for a source that
                        does not have the word or the context.
"""

from dataclasses import dataclass

import numpy as np

from lmtk.files.curve import perplexity
from lmtk.machine.threads import map_at_once
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import build_nodes
from lmtk.ngram.model.nodes import Nodes
from lmtk.ngram.model.searching import find_children, find_rows
from lmtk.text.vocab import Vocab

R = 3
LEAST = 1e-3  # the least discount; it is above 0, so that every context leaves probability mass to back off with
FARTHEST = 30.0  # parameters are clipped to the range from -FARTHEST to FARTHEST
PRIOR = 3.0  # standard deviation of a parameter before the held-out text is seen; it matters for short texts only
PIECE = 1 << 13  # held-out words that a thread works at
STEPS = 300
ENOUGH = 1e-5  # gain of ln p a word in a step that ends the search


@dataclass(frozen=True)
class Pool:
    """The n-grams of all sources. Two lists with an array (N, S) for each order, from order 1 on: times, how often each
    n-gram occurs in each source; counts, the counts for smoothing, which are continuation counts below the highest
    order.
    """

    vocab: Vocab
    nodes: Nodes
    counts: list
    times: list

    @property
    def order(self):
        return self.nodes.order

    def contexts(self, weights):
        """How often each n-gram occurs if source s occurs weights[s] times, as `counts.contexts_of` returns it."""
        W, nodes = len(self.vocab.words), self.nodes
        keys = [nodes.parents(k) * W + nodes.levels[k]["word"][:-1] for k in range(1, self.order)]
        return self.vocab.words, [[(key, times @ weights) for key, times in zip(keys, self.times)]]

    def events(self, k):
        """(the n-grams of order k that are predicted, as places; their contexts; their counts (N, S))."""
        place = np.flatnonzero(self.nodes.levels[k]["word"][:-1] < self.vocab.V)
        return place, self.nodes.parents(k)[place], self.counts[k - 1][place]

    def totals(self, k):
        """(T (H, S); types (H, S R)) of the contexts of order k."""
        _, context, count = self.events(k)
        H, S = self.nodes.size(k - 1) if k > 1 else 1, count.shape[1]
        T, types = np.empty((H, S)), np.empty((H, S, R))
        for s in range(S):
            T[:, s] = np.bincount(context, count[:, s], H)
            for r in range(R):
                types[:, s, r] = np.bincount(context[kind_of(count[:, s]) == r], minlength=H)
        return T, types.reshape(H, S * R)

    def features(self, words):
        """The features of each order. words (N, n): a predicted word, then the words before it, the nearest first. The
        words with the longest known contexts come first, and an order has only those whose context is known.
        """
        levels, features = self.nodes.levels, []
        contexts = [find_rows(self.nodes, words[:, 1:k][:, ::-1]) for k in range(1, self.order + 1)]
        depth = sum(context >= 0 for context in contexts)
        longest_first = np.argsort(-depth, kind="stable")
        for k, context in enumerate(contexts, 1):
            at = longest_first[: np.count_nonzero(depth >= k)]
            node = find_children(levels[k - 1], levels[k], context[at], words[at, 0])
            count, is_known = np.zeros((len(at), self.counts[0].shape[1]), np.int64), node >= 0
            count[is_known] = self.counts[k - 1][node[is_known]]
            hit = kind_of(count)[:, :, None] == np.arange(R)
            T, types = (x[context[at]] for x in self.totals(k))
            features.append((count.astype(np.float64), T, hit.reshape(types.shape).astype(np.float64), types))
        return features

    def estimate(self, weights, D):
        """The Backoff with these weights and discounts."""
        nodes, orders, below = self.nodes, [], np.array([1 / self.vocab.V])
        for k in range(1, self.order + 1):
            (place, context, count), (T, types) = self.events(k), self.totals(k)
            total, left = totals_of_sources(T, types, weights[k - 1], D[k - 1])
            level = nodes.levels[k][:-1]
            p = np.zeros(len(level))
            kept = discount(count, D[k - 1]) @ weights[k - 1]
            lower = below[level["suffix"][place] if k > 1 else np.zeros(len(place), np.int64)]
            p[place] = (kept + left[context] * lower) / total[context]
            if k > 1:
                orders[-1][2][:] = np.log10(left / total)
            with np.errstate(divide="ignore"):
                keys = nodes.parents(k) * len(self.vocab.words) + level["word"]
                orders.append((keys, np.log10(p).astype(np.float32), np.zeros(len(p), np.float32)))
            below = p
        return Backoff(self.vocab, build_nodes(orders, len(self.vocab.words)))


def kind_of(count):
    """The place of the discount of each count, -1 for 0."""
    return np.minimum(count, R).astype(np.int64) - 1


def discount(count, D):
    """The counts (N, S) less their discounts D (S, R)."""
    padded = np.column_stack((D, np.zeros(len(D))))  # the last for the kind -1
    return count - padded[np.arange(len(D)), kind_of(count)]


def totals_of_sources(T, types, weights, D):
    """T(h) and left(h), (H,) each, with the weights (S,) and discounts D (S, R), from T (H, S) and types (H, S R) of
    contexts. Both are 1 for a context without counts: it backs off with all its mass.
    """
    total, left = T @ weights, types @ (weights[:, None] * D).ravel()
    is_empty = total == 0
    total[is_empty], left[is_empty] = 1, 1
    return total, left


def pool(sources, vocab):
    """The Pool of the Counts of each source. N-grams with an unknown word that is not predicted are left out."""
    W, S, order = len(vocab.words), len(sources), max(counts.order for counts in sources)
    ids = [vocab.ids_of_words(counts.words).astype(np.int64) for counts in sources]
    places, orders, times = [np.zeros(1, np.int64)] * S, [], []
    for k in range(order):
        keys, count = [], []
        for s, counts in enumerate(sources):
            parent, word = np.divmod(counts.levels[k].keys, len(counts.words))
            parent, word = places[s][parent if k else np.zeros_like(word)], ids[s][word]
            is_in = (parent >= 0) & ((word != vocab.unk_id) | (vocab.unk_id < vocab.V))
            keys.append(np.where(is_in, parent * W + word, -1))
            count.append(counts.levels[k].count)
        every = [np.arange(W)] if k == 0 else []
        merged, node = np.unique(np.concatenate([*keys, *every]), return_inverse=True)
        outside = int(merged[:1].tolist() == [-1])
        merged, node = merged[outside:], node.ravel() - outside
        table = np.zeros((len(merged), S), np.int64)
        places = np.split(node, np.cumsum([len(x) for x in keys]))[:S]
        for s in range(S):
            np.add.at(table[:, s], places[s][places[s] >= 0], count[s][places[s] >= 0])
        nothing = np.zeros(len(merged), np.float32)
        orders.append((merged, nothing, nothing))
        times.append(table)
    nodes = build_nodes(orders, W)
    return Pool(vocab, nodes, continued(nodes, times, vocab.V), times)


def continued(nodes, times, V):
    """The counts of each order for Kneser-Ney smoothing: below the highest order, how many different words precede an
    n-gram in a source. An n-gram whose first word is not predicted, such as <s>, keeps its count. times: a list of
    counts (N, S).
    """
    counts, first = [], nodes.levels[1]["word"][:-1]
    for k in range(1, len(times)):
        suffix, columns = nodes.levels[k + 1]["suffix"][:-1], []
        for column in times[k].T:
            columns.append(np.bincount(suffix[column > 0], minlength=nodes.size(k)))
        counts.append(np.where((first < V)[:, None], np.column_stack(columns), times[k - 1]))
        first = first[nodes.parents(k + 1)]
    return [*counts, times[-1]]


def tune(features, V):
    """(weights (n, S), D (n, S, R), the perplexity of the words with equal weights, and with these)."""
    n, S = len(features), features[0][0].shape[1]
    start, N = np.zeros(n * (S - 1 + S * R)), len(features[0][0])  # the first source has the weight 1

    def likelihood(x):
        """ln p a word, with the prior, and its gradient."""
        weights, D, by_parameter = parameters(x, n, S)
        L, gradient = log_likelihood(features, weights, D, V)
        return L - x @ x / (2 * PRIOR**2 * N), by_parameter(*gradient) - x / (PRIOR**2 * N)

    first = likelihood(start)[0]
    weights, D, _ = parameters(maximize(likelihood, start), n, S)
    return weights, D, perplexity(first), perplexity(log_likelihood(features, weights, D, V)[0])


def parameters(x, n, S):
    """(weights, D, a function from their gradients to that of x) of the parameters x: the logarithms of the weights,
    and the logits of the discounts as shares of the largest, 1, 2 and 3.
    """
    x = np.clip(x, -FARTHEST, FARTHEST).reshape(n, -1)
    weights = np.exp(np.column_stack((np.zeros(n), x[:, : S - 1])))
    share = 1 / (1 + np.exp(-x[:, S - 1 :].reshape(n, S, R)))
    most = np.arange(1, R + 1) * (1 - LEAST)

    def by_parameter(of_weights, of_D):
        of_logits = of_D * most * share * (1 - share)
        return np.column_stack(((of_weights * weights)[:, 1:], of_logits.reshape(n, -1))).ravel()

    return weights, share * most + LEAST, by_parameter


def log_likelihood(features, weights, D, V):
    """(the mean ln p of the held-out words, its derivatives by weights and by D)."""
    N = len(features[0][0])

    def sums(begin):
        piece = slice(begin, begin + PIECE)
        return sum_logs([[x[piece] for x in of_order] for of_order in features], weights, D, V)

    L, of_weights, of_D = (sum(x) / N for x in zip(*map_at_once(sums, range(0, N, PIECE))))
    return L, (of_weights, of_D)


def sum_logs(features, weights, D, V):
    """(the sum of ln p of held-out words, its derivatives by weights and by D)."""
    p, orders = np.full(len(features[0][0]), 1 / V), []
    for (c, T, hit, types), w, d in zip(features, weights, D, strict=True):
        below, (total, left) = p[: len(c)].copy(), totals_of_sources(T, types, w, d)
        p[: len(c)] = (c @ w - hit @ (w[:, None] * d).ravel() + left * below) / total
        orders.append((total, left, below, p[: len(c)].copy()))
    of_weights, of_D, slope = np.empty_like(weights), np.empty_like(D), 1 / p
    for k in range(len(features) - 1, -1, -1):
        (c, T, hit, types), (total, left, below, p_k) = features[k], orders[k]
        share = slope[: len(c)] / total
        of_wd = ((share * below) @ types - share @ hit).reshape(D[k].shape)
        of_weights[k] = share @ c - (share * p_k) @ T + (of_wd * D[k]).sum(1)
        of_D[k] = of_wd * weights[k][:, None]
        slope[: len(c)] = share * left
    return np.log(p).sum(), of_weights, of_D


def maximize(function, x):
    """x at a maximum, by the quasi-Newton method of Broyden, Fletcher, Goldfarb and Shanno. function: x -> (value,
    gradient).
    """
    value, gradient = function(x)
    inverse, is_first = np.eye(len(x)), True
    for _ in range(STEPS):
        step = inverse @ gradient
        slope = step @ gradient
        size = 1.0 if not is_first else min(1.0, 1 / max(np.abs(step).max(), 1e-300))
        while size > 1e-10:
            new, (new_value, new_gradient) = x + size * step, function(x + size * step)
            if new_value >= value + 1e-4 * size * slope:
                break
            size /= 2
        else:
            break
        moved, turned = new - x, gradient - new_gradient
        gain, x, value, gradient = new_value - value, new, new_value, new_gradient
        curvature = moved @ turned
        if curvature > 1e-12 * np.sqrt((moved @ moved) * (turned @ turned)):
            if is_first:
                inverse *= curvature / (turned @ turned)
                is_first = False
            along = inverse @ turned
            inverse += (1 + turned @ along / curvature) * np.outer(moved, moved) / curvature
            inverse -= (np.outer(along, moved) + np.outer(moved, along)) / curvature
        if gain < ENOUGH:
            break
    return x
