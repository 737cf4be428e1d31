"""Maximum-entropy n-gram models (Rosenfeld 1996): counts -> a back-off model, as in SRILM's ngram-count -maxent.

Each word and each counted n-gram has a weight lambda:

    p(w | h) = exp(S(h, w)) / Z(h),    S(h, w) = sum of lambda(g, w) over the suffixes g of h after which w was seen

The weights minimize

    - ln p(text) + sum lambda^2 / (2 sigma2) + alpha sum |lambda|

With h' for h without its oldest word, exp(S(h, w)) differs from exp(S(h', w)) only for the words seen after h. So Z(h)
is Z(h') plus a sum over these words alone (Wu and Khudanpur 2000). For other words, p(w | h) is Z(h') / Z(h) p(w | h').
This factor is the back-off weight, so that the model fits into an ARPA file (Wu 2002, section 7.1).
"""

from itertools import pairwise

import numpy as np

from lmtk.errors import LmtkError
from lmtk.lm import LN10
from lmtk.ngram.estimate.smoothing import levels_of
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import build_nodes

KEPT = 6  # pairs of differences that L-BFGS remembers
ROUNDS, TRIALS = 1000, 40  # rounds of the optimizer, at most, and steps tried in each
PAST, LITTLE, FLAT = 5, 1e-4, 1e-7  # it ends when PAST rounds gain less than a share LITTLE, or the slope is FLAT


class Features:
    """The n-grams of all orders in one array of n nodes, after a node 0 for the empty n-gram. levels: smoothing.Orders.
    orders: the slice of each order. parent, suffix (n,): the nodes of an n-gram's context, and of the n-gram without
    its oldest word. event (n,): whether the n-gram has a weight. seen (n,): how often the n-gram occurs in the text. M
    (n,): how often the n-gram is the longest context of a word in the text. N-grams with a word that is not predicted
    count as not seen; but <s> may be the first word.
    """

    def __init__(self, levels, vocab):
        ends = np.cumsum([1, *(len(level.keys) for level in levels)])
        self.orders, below = [slice(a, b) for a, b in pairwise(ends)], [0, *ends[:-2].tolist()]
        self.parent, self.suffix = (
            np.concatenate([[0], *(getattr(level, name).astype(np.int64) + at for level, at in zip(levels, below))])
            for name in ("parent", "suffix")
        )
        self.event = np.concatenate([[False], *(level.word < vocab.V for level in levels)])
        words, is_outside = self.orders[0].stop, ~self.event
        is_outside[[0, 1 + vocab.sos_id]] = False
        for nodes in self.orders:
            is_outside[nodes] |= is_outside[self.parent[nodes]]
        count = np.where(is_outside, 0, np.concatenate([[0.0], *(level.count for level in levels)]))
        longer = np.bincount(self.suffix[words:], count[words:], len(count))
        first = np.where(self.event, np.maximum(count - longer, 0), 0)  # uses that are not part of a longer n-gram's
        self.M = np.bincount(self.parent, first, len(first))
        self.seen = self.add_extensions(first)

    def add_suffixes(self, x):
        """x (n,) <- at each node, the sum of x over the node and its suffixes."""
        for nodes in self.orders:
            x[nodes] += x[self.suffix[nodes]]
        return x

    def add_extensions(self, x):
        """x (n,) <- at each node, the sum of x over the node and all n-grams that end in it."""
        for nodes in reversed(self.orders):
            x[: nodes.start] += np.bincount(self.suffix[nodes], x[nodes], nodes.start)
        return x

    def sums(self, weights):
        """(S, exp S, exp S minus exp S of the suffix, Z), (n,) each; Z is that of the node as a context."""
        S = self.add_suffixes(weights.copy())
        exp = np.where(self.event, np.exp(S), 0)
        beyond = exp - exp[self.suffix]
        return S, exp, beyond, self.add_suffixes(np.bincount(self.parent, beyond, len(S)))

    def loss(self, weights, sigma2):
        """(what the weights minimize, without alpha sum |lambda|; its gradient (n,)), both per token of the text."""
        _, exp, beyond, Z = self.sums(weights)
        A = self.add_extensions(self.M / Z)[self.parent]  # the sum of 1 / Z over the text's uses of the context
        expected = self.add_extensions(beyond * A) + exp[self.suffix] * A
        N = self.M.sum()
        value = self.M @ np.log(Z) - self.seen @ weights + weights @ weights / (2 * sigma2)
        return value / N, np.where(self.event, expected - self.seen + weights / sigma2, 0) / N


def estimate(counts, vocab, order, alpha, sigma2, tell=lambda line: None):
    """Counts -> Backoff, with the penalties alpha and sigma2 above. Raises LmtkError if nothing is counted."""
    levels = levels_of(counts, vocab, order)
    f = Features(levels, vocab)
    if not f.M.sum():
        raise LmtkError("the counts have no word of the vocabulary")
    weights = minimize(lambda x: f.loss(x, sigma2), len(f.event), alpha / f.M.sum(), tell)
    S, _, _, Z = f.sums(weights)
    logZ = np.log(Z)
    log10p = np.where(f.event, (S - logZ[f.parent]) / LN10, np.nan).astype(np.float32)
    log10p[f.orders[0].start + vocab.sos_id] = -np.inf
    log10bow = ((logZ[f.suffix] - logZ) / LN10).astype(np.float32)
    orders = [(level.keys, log10p[nodes], log10bow[nodes]) for level, nodes in zip(levels, f.orders)]
    return Backoff(vocab, build_nodes(orders, len(vocab.words)))


def minimize(loss, n, c, tell):
    """x (n,) that minimizes loss(x) + c sum |x|, from x = 0 on. loss(x) -> (its value, its gradient (n,)). The method
    is OWL-QN (Andrew and Gao 2007): L-BFGS in which numbers that would change their sign become 0. Like SRILM's, it
    stops a little before the minimum.
    """
    x = np.zeros(n)
    value, g = loss(x)
    values, pairs = [value], []
    for number in range(1, ROUNDS + 1):
        # the pseudo-gradient of loss(x) + c sum |x|
        slope = np.where(x, g + c * np.sign(x), np.sign(g) * np.maximum(np.abs(g) - c, 0))
        if np.linalg.norm(slope) <= FLAT * max(np.linalg.norm(x), 1):
            break
        d = -times_inverse_hessian(slope, pairs)
        if c:
            d[d * slope >= 0] = 0
        step = 1.0 if pairs else 1 / np.linalg.norm(d)
        side = np.where(x, x, -slope)
        for _ in range(TRIALS):
            new = x + step * d
            if c:
                new[new * side <= 0] = 0
            with np.errstate(over="ignore", invalid="ignore"):  # a step that goes too far
                value, new_g = loss(new)
            value += c * np.abs(new).sum()
            if value <= values[-1] + 1e-4 * ((new - x) @ slope):
                break
            step /= 2
        else:
            break
        pairs = [*pairs[1 - KEPT :], (new - x, new_g - g)]
        x, g = new, new_g
        values.append(value)
        tell(f"round {number}: cost per token {value:.9g}")
        if number >= PAST and abs(values[-1 - PAST] - value) < LITTLE * abs(value):
            break
    return x


def times_inverse_hessian(g, pairs):
    """L-BFGS's estimate of the inverse Hessian, times g (Nocedal 1980). pairs: differences of x, and of gradients."""
    g, products = g.copy(), []
    for s, y in reversed(pairs):
        products.append((s @ g) / (s @ y))
        g -= products[-1] * y
    if pairs:
        s, y = pairs[-1]
        g *= (s @ y) / (y @ y)
    for s, y in pairs:
        g += (products.pop() - (y @ g) / (s @ y)) * s
    return g
