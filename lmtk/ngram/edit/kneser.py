"""Prunes an interpolated Kneser-Ney model into a smaller one (Siivola, Hirsimaki and Virpioja 2007).

A Kneser-Ney model, the number of times that each n-gram occurs, and the discounts go in; a model with fewer n-grams
comes out. With C(h w) the count of an n-gram and D(c) the discount of a count c,

    p(w | h) = (C(h w) - D(C(h w)) + G(h) p(w | h')) / S(h)               h' is h without its oldest word

S(h) is the sum of the counts of all n-grams h v. G(h) is the sum of the discounts of those in the model and of the
whole counts of those that were pruned. In the highest order C(h w) is the number of times that h w occurs. In lower
orders each n-gram v h' w of the model adds 1 to C(h' w), and each that was pruned adds its whole count. So if v h' w is
pruned, C(h' w) and S(h') grow by C(v h' w) - 1, and the marginal constraints of Kneser-Ney smoothing still hold.

Orders are pruned from the highest to 2, each in storage order. A context of an n-gram that stays, stays. An n-gram is
pruned if that lowers the log-likelihood of its occurrences by less than a limit. The paper takes the number of
occurrences from the text. Here it is the number that the model expects, times(h) p(w | h): on Brown, PTB and prose the
test perplexity at equal size is lower.

symbol         shape  meaning
times, counts  (N,)   how often each n-gram of an order occurs, and C: int64
stays          (N,)   whether the model keeps the n-gram: uint8
S, G           (H,)   of the contexts of an order; order 0 is the empty context
D              (4,)   the discount of the counts 0, 1, 2, and 3 or more

There is an array for each order, in a list: S[k - 1] and G[k - 1] belong to counts[k - 1], the n-grams of order k.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lmtk.machine.jit import jit
from lmtk.ngram.edit.prune import select
from lmtk.ngram.edit.renormalize import renormalize, writable
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.nodes import AT, CHILD, WIDTH, N

TRIALS, NEAR = 30, 0.995  # thresholds tried for a size, at most; the share of the size that is near enough
LOWEST, HIGHEST = 1e-12, 1e3  # thresholds that keep all n-grams, and as few as possible


@dataclass(frozen=True)
class KneserNey:
    """An interpolated Kneser-Ney model before pruning. model: a Backoff, from `writable`, with the suffixes of its
    n-grams. times, counts: as in the table above. D: for each order. tokens: the predicted words of the text.
    """

    model: Backoff
    times: list
    counts: list
    D: list
    tokens: int

    @cached_property
    def unpruned(self):
        """(S, G, the `probabilities`) of the model before pruning."""
        S, G = [], []
        for k, (c, D) in enumerate(zip(self.counts, self.D), 1):
            contexts, size = self.model.nodes.parents(k), len(self.model.nodes.levels[k - 1]) - 1
            S.append(np.bincount(contexts, c, size))
            G.append(np.bincount(contexts, D[np.minimum(c, 3)], size))
        return S, G, self.probabilities(self.counts, S, G)

    def probabilities(self, counts, S, G):
        """p of every n-gram, an array for each order, from order 0 on, where p is 1 / V."""
        p, nodes = [np.array([1 / self.model.vocab.V])], self.model.nodes
        for k, (c, D) in enumerate(zip(counts, self.D), 1):
            contexts = nodes.parents(k)
            total, q = S[k - 1][contexts], p[-1][nodes.levels[k]["suffix"][:-1]] if k > 1 else p[0]
            with np.errstate(divide="ignore", invalid="ignore"):
                p.append(np.where(total > 0, (c - D[np.minimum(c, 3)] + G[k - 1][contexts] * q) / total, q))
        return p

    def mark(self, threshold, minorder):
        """(stays, counts, S, G) after pruning the n-grams of `minorder` words or more whose removal raises the
        perplexity of the text by a smaller share than `threshold`.
        """
        *sums, lower = self.unpruned
        counts, S, G = ([x.copy() for x in orders] for orders in (self.counts, *sums))
        stays = [(c > 0).view(np.uint8) for c in counts]
        needed, limit = [*map(np.zeros_like, stays)], self.tokens * math.log1p(threshold)
        for k in range(len(self.D), max(minorder, 2) - 1, -1):
            ngrams = counts[k - 1], stays[k - 1], needed[k - 1], S[k - 1], G[k - 1], self.D[k - 1]
            shorter = counts[k - 2], self.times[k - 2], needed[k - 2], S[k - 2], G[k - 2], self.D[k - 2]
            prune_order(self.model.nodes.arrays, k, ngrams, shorter, lower[k - 2], limit)
        stays = [np.ones_like(stays[0]), *map(np.bitwise_or, stays[1:], needed[1:])]
        return stays, counts, S, G

    def fit(self, most, minorder, low):
        """(the result of `mark` with at most `most` n-grams, the threshold). The threshold is the lowest from `low` on
        that the search finds; it is inf if more n-grams always stay.
        """
        bare = np.count_nonzero(np.isnan(self.model.nodes.levels[1]["log10p"][:-1]))  # words without a probability
        size = lambda marks: sum(map(np.count_nonzero, marks[0])) - bare
        best = self.mark(low, minorder)
        if (above := size(best)) <= most:
            return best, low
        best, low, high = self.mark(HIGHEST, minorder), max(low, LOWEST), HIGHEST
        if (below := size(best)) > most:
            return best, np.inf
        for trial in range(TRIALS):
            if below >= NEAR * most:
                break
            share = 0.5 if trial % 3 < 2 else (above - most) / (above - below)  # bisect, and interpolate
            middle = low * (high / low) ** share
            marks = self.mark(middle, minorder)
            if size(marks) > most:
                low, above = middle, size(marks)
            else:
                best, high, below = marks, middle, size(marks)
        return best, high

    def cut(self, stays, counts, S, G):
        """The Backoff with the n-grams that stay. The arguments are the result of `mark`."""
        V, p = self.model.vocab.V, self.probabilities(counts, S, G)
        for k, level in enumerate(self.model.nodes.levels[1:], 1):
            with np.errstate(divide="ignore"):
                log10p = np.log10(p[k]).astype(np.float32)
            if k == 1:
                level["log10p"][:-1] = np.where(level["word"][:-1] < V, log10p, level["log10p"][:-1])
            else:
                level["log10p"][:-1] = np.where(counts[k - 1] > 0, log10p, np.nan)
        return renormalize(select(self.model, stays), may_reuse=True)


def kneser_ney(model, times, tokens, methods):
    """The KneserNey of a Backoff, which is given up. times: how often the n-grams of each order occur in the text.
    tokens: as in KneserNey. methods: of each order, with their discounts; there may be more methods than orders.
    """
    levels, counts = model.nodes.levels, [t.copy() for t in times]
    for k in range(len(times), 1, -1):
        suffixes, size = levels[k]["suffix"][:-1], len(times[k - 2])
        longer = np.bincount(suffixes, times[k - 1], size).astype(np.int64)
        types = np.bincount(suffixes[counts[k - 1] > 0], minlength=size)
        counts[k - 2] = np.maximum(times[k - 2] - longer, 0) + types
    for level, column in zip(levels[1:], counts):
        column[level["word"][:-1] >= model.vocab.V] = 0
    c = np.arange(4.0)
    D = [c - method.discount(c) for method in methods[: model.order]]
    return KneserNey(writable(model, may_reuse=True), times, counts, D, tokens)


@jit
def prune_order(arrays, k, ngrams, shorter, lower, limit):
    """Prune the n-grams of order k, in place. ngrams: their counts, stays and needed, and S, G and D; needed (N,):
    whether a longer n-gram that stays extends the n-gram. shorter: counts, times and needed of the (k - 1)-grams, and
    their S, G and D. lower: p of the (k - 2)-grams, or of a word without counts. limit: in nats. An n-gram is judged
    after the prunings before it have changed the counts. Bound: three random reads an n-gram.
    """
    (memory, _, where, _), (counts, stays, needed, S, G, D) = arrays, ngrams
    counts_below, times, needed_below, S_below, G_below, D_below = shorter
    above, wide, at, width = where[k - 2, AT], where[k - 2, WIDTH], where[k - 1, AT], where[k - 1, WIDTH]
    for i in range(where[k - 2, N]):
        h = np.int64(memory[above + wide * (i + 1) - 1])  # the root, 0, for a word
        for x in range(memory[above + wide * i + CHILD], memory[above + wide * (i + 1) + CHILD]):
            if stays[x] and not needed[x]:
                s, c = memory[at + width * (x + 1) - 1], counts[x]
                end = np.int64(memory[above + wide * (s + 1) - 1])
                q, old, new = lower[end], counts_below[s], counts_below[s] + c - 1
                d, d_old, d_new = D[min(c, 3)], D_below[min(old, 3)], D_below[min(new, 3)]
                G_new, S_new = G_below[h] + d_new - d_old, S_below[h] + c - 1
                p = (c - d + G[i] * (old - d_old + G_below[h] * q) / S_below[h]) / S[i]
                p_new = (G[i] + c - d) / S[i] * (new - d_new + G_new * q) / S_new
                if p_new > 0 and times[i] * p * math.log(p / p_new) < limit:
                    stays[x], counts[x], counts_below[s] = 0, 0, new
                    G[i] += c - d
                    G_below[h], S_below[h] = G_new, S_new
            needed_below[i] |= stays[x] | needed[x]
