"""Back-off n-gram models (Katz 1987): what they hold, how they score."""

from dataclasses import dataclass

import numpy as np

from lmtk.lm import Scores
from lmtk.ngram.counts import find, values
from lmtk.text.corpus import contexts
from lmtk.text.vocab import Vocab


@dataclass(frozen=True)
class Probabilities:
    """The n-grams of one order: keys (N,) as in `counts`; logp and bow (N,), natural; logp is nan in a bare prefix."""

    keys: np.ndarray
    logp: np.ndarray
    bow: np.ndarray


@dataclass(frozen=True)
class Backoff:
    """p(w | c) is that of the n-gram c w where there is one, else bow(c) p(w | c without its oldest word)."""

    vocab: Vocab
    order: int
    levels: list

    def score(self, corpus):
        """ln p of every scored token; the tag is the length of the n-gram used."""
        at = np.flatnonzero(corpus.scored)
        rows, w, W = contexts(corpus, self.order)[at], corpus.ids[at], len(self.vocab.words)
        w = np.where(w < self.vocab.V, w, -1)
        logp, used = np.full(len(at), -np.inf), np.ones(len(at), np.int8)
        for k, level in enumerate(self.levels, 1):
            # the node of w_(t-k+1) .. w_(t-1); the root, 0, stands for none of them
            node = np.zeros(len(at), np.int64)
            for below, column in zip(self.levels, range(k - 2, -1, -1)):
                node = find(below.keys, node, rows[:, column], W)
            child = find(level.keys, node, w, W)
            if k > 1:
                logp += values(self.levels[k - 2].bow, node, 0)
            found = values(level.logp, child, np.nan)
            here = ~np.isnan(found)
            logp[here], used[here] = found[here], k
        whole, tag = np.zeros(len(corpus.ids)), np.zeros(len(corpus.ids), np.int8)
        whole[at], tag[at] = logp, used
        return Scores(whole, lambda t: f"[{tag[t]}gram]")

    def lower(self, order):
        """The same model without its longer n-grams."""
        return Backoff(self.vocab, order, self.levels[:order])

    def describe(self):
        yield "kind", "back-off n-gram"
        yield "order", self.order
        for k, level in enumerate(self.levels, 1):
            yield f"{k}-grams", int((~np.isnan(level.logp)).sum())
        yield "predicted words |V|", self.vocab.V
