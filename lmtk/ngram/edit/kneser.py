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
times, counts  (M,)   how often each n-gram occurs, and C: int64; those of order k begin at base[k - 1]
stays          (M,)   whether the model keeps the n-gram: uint8
S, G           (H,)   of the empty context, then of the n-grams below the highest order, in order of `counts`
D              (4,)   the discount of the counts 0, 1, 2, and 3 or more
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
    times: np.ndarray
    counts: np.ndarray
    D: list
    tokens: int

    @cached_property
    def base(self):
        return np.concatenate(([0], np.cumsum(self.model.nodes.where[:, N])))

    def of_order(self, k):
        """(the contexts of the n-grams of order k, as places in S; their suffixes, as places in `counts`)."""
        if k == 1:
            return np.zeros(self.base[1], np.int64), None
        below, nodes = self.base[k - 2], self.model.nodes
        return 1 + below + nodes.parents(k), below + nodes.levels[k]["suffix"][:-1].astype(np.int64)

    @cached_property
    def sums(self):
        """(S, G) before pruning."""
        S, G = np.zeros((2, 1 + self.base[-2]))
        for k, D in enumerate(self.D, 1):
            c, (contexts, _) = self.counts[self.base[k - 1] : self.base[k]], self.of_order(k)
            S += np.bincount(contexts, c, len(S))
            G += np.bincount(contexts, D[np.minimum(c, 3)], len(S))
        return S, G

    def probabilities(self, counts, S, G):
        """p of every n-gram, (M,)."""
        p = np.empty(len(counts))
        for k, D in enumerate(self.D, 1):
            part, (contexts, suffixes) = slice(self.base[k - 1], self.base[k]), self.of_order(k)
            c, total, q = counts[part], S[contexts], 1 / self.model.vocab.V if k == 1 else p[suffixes]
            with np.errstate(divide="ignore", invalid="ignore"):
                p[part] = np.where(total > 0, (c - D[np.minimum(c, 3)] + G[contexts] * q) / total, q)
        return p

    @cached_property
    def lower(self):
        return self.probabilities(self.counts, *self.sums)

    def mark(self, threshold, minorder):
        """(stays, counts, S, G) after pruning the n-grams of `minorder` words or more whose removal raises the
        perplexity of the text by a smaller share than `threshold`.
        """
        stays, counts, (S, G) = (self.counts > 0).view(np.uint8), self.counts.copy(), map(np.copy, self.sums)
        needed, limit = np.zeros_like(stays), self.tokens * math.log1p(threshold)
        state = self.times, counts, stays, needed
        for k in range(len(self.D), max(minorder, 2) - 1, -1):
            rule = self.D[k - 1], self.D[k - 2], 1 / self.model.vocab.V, limit
            prune_order(self.model.nodes.arrays, k, self.base, state, (S, G), self.lower, rule)
        stays |= needed
        stays[: self.base[1]] = 1
        return stays, counts, S, G

    def fit(self, most, minorder, low):
        """(the result of `mark` with at most `most` n-grams, the threshold). The threshold is the lowest from `low` on
        that the search finds; it is inf if more n-grams always stay.
        """
        bare = np.count_nonzero(np.isnan(self.model.nodes.levels[1]["log10p"][:-1]))  # words without a probability
        size = lambda marks: int(np.count_nonzero(marks[0])) - bare
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
        p, V = self.probabilities(counts, S, G), self.model.vocab.V
        for k, level in enumerate(self.model.nodes.levels[1:], 1):
            part = slice(self.base[k - 1], self.base[k])
            with np.errstate(divide="ignore"):
                log10p = np.log10(p[part]).astype(np.float32)
            if k == 1:
                level["log10p"][:-1] = np.where(level["word"][:-1] < V, log10p, level["log10p"][:-1])
            else:
                level["log10p"][:-1] = np.where(counts[part] > 0, log10p, np.nan)
        return renormalize(select(self.model, np.split(stays, self.base[1:-1])), may_reuse=True)


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
    return KneserNey(writable(model, may_reuse=True), *map(np.concatenate, (times, counts)), D, tokens)


@jit
def prune_order(arrays, k, base, state, sums, lower, rule):
    """Prune the n-grams of order k, in place in `state` (times, counts, stays, needed) and `sums` (S, G). needed (M,):
    whether a longer n-gram that stays extends the n-gram. lower (M,): p of the n-grams; only n-grams of up to k - 2
    words are read. rule: D of order k, D of order k - 1, p of a word without counts, and the limit in nats. An n-gram
    is judged after the prunings before it have changed the counts. Bound: three random reads an n-gram.
    """
    (memory, _, where, _), (times, counts, stays, needed), (S, G) = arrays, state, sums
    D, D_lower, uniform, limit = rule
    above, wide, at, width = where[k - 2, AT], where[k - 2, WIDTH], where[k - 1, AT], where[k - 1, WIDTH]
    for i in range(where[k - 2, N]):
        context, h, h_lower, marked = base[k - 2] + i, 1 + base[k - 2] + i, np.int64(0), False
        if k > 2:
            h_lower = 1 + base[k - 3] + memory[above + wide * (i + 1) - 1]
        for child in range(memory[above + wide * i + CHILD], memory[above + wide * (i + 1) + CHILD]):
            x = base[k - 1] + child
            if stays[x] and not needed[x]:
                suffix = memory[at + width * (child + 1) - 1]
                s, c, q = base[k - 2] + suffix, counts[x], uniform
                if k > 2:
                    q = lower[base[k - 3] + memory[above + wide * (suffix + 1) - 1]]
                old, new = counts[s], counts[s] + c - 1
                d, d_old, d_new = D[min(c, 3)], D_lower[min(old, 3)], D_lower[min(new, 3)]
                G_new, S_new = G[h_lower] + d_new - d_old, S[h_lower] + c - 1
                p = (c - d + G[h] * (old - d_old + G[h_lower] * q) / S[h_lower]) / S[h]
                p_new = (G[h] + c - d) / S[h] * (new - d_new + G_new * q) / S_new
                if p_new > 0 and times[context] * p * math.log(p / p_new) < limit:
                    stays[x], counts[x], counts[s] = 0, 0, new
                    G[h] += c - d
                    G[h_lower], S[h_lower] = G_new, S_new
            if stays[x] or needed[x]:
                marked = True
        needed[context] = marked
