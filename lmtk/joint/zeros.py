"""What SRILM's ngram does with words that a model cannot predict: -skipoovs, -zeroprob-word and -unk-prob.

Each class wraps a language model and changes its scores; the interface is that of `lmtk.lm`.
"""

from dataclasses import dataclass, replace

import numpy as np

from lmtk.lm import ABSENT, LanguageModel, Scores, after, ranges, reach
from lmtk.text.corpus import Corpus


class Wrapper:
    """A language model that changes the scores of another one, `model`."""

    @property
    def vocab(self):
        return self.model.vocab

    @property
    def order(self):
        return self.model.order


@dataclass(frozen=True)
class Skipping(Wrapper):
    """p of the unknown word is 0, and so is p of a word with an unknown one among the `near` words before it."""

    model: LanguageModel
    near: int

    @property
    def order(self):
        return max(self.model.order, self.near + 1)

    @property
    def reach(self):
        return max(reach(self.model), self.near)

    def score(self, corpus):
        scores, skipped = self.model.score(corpus), corpus.ids == self.vocab.unk_id
        unknown = np.flatnonzero(skipped)
        end = corpus.starts[np.searchsorted(corpus.starts, unknown, "right")]  # of its sentence
        for distance in range(1, self.near + 1):
            at = unknown + distance
            skipped[at[at < end]] = True
        skipped &= corpus.scored
        logp, length = np.where(skipped, -np.inf, scores.logp), np.where(skipped[:, None], ABSENT, scores.length)
        return replace(scores, logp=logp, length=length)

    def after(self, context):
        """ln p of each predicted word after a context."""
        V, unk = self.vocab.V, self.vocab.unk_id
        if unk in context[max(len(context) - self.near, 0) :]:
            return np.full(V, -np.inf)
        logp = after(self.model, context)
        logp[unk : unk + 1] = -np.inf
        return logp


@dataclass(frozen=True)
class Nonzero(Wrapper):
    """A model that gives words of probability 0 another probability.

    instead: the id of a word whose p every word of p = 0 gets, or None. unknown: ln p of the unknown word, or None for
    the model's. The lengths of n-grams that are reported for a sentence come from both words.
    """

    model: LanguageModel
    instead: int | None
    unknown: float | None

    @property
    def index(self):
        """The Growing index of a model whose vocabulary grows, else None."""
        return getattr(self.model, "index", None)

    @property
    def reach(self):
        return reach(self.model)

    def score(self, corpus):
        scores, unknown = self.model.score(corpus), corpus.scored & (corpus.ids == self.vocab.unk_id)
        if self.instead is not None:
            zero = corpus.scored & np.isneginf(scores.logp) & (corpus.ids != self.instead)
            scores = self.replaced(
                corpus, scores, np.flatnonzero(zero & ~unknown if self.unknown is not None else zero)
            )
        if self.unknown is not None:
            scores = replace(scores, logp=np.where(unknown, self.unknown, scores.logp))
        return scores

    def replaced(self, corpus, scores, at):
        """The Scores with p of the word `instead` at some tokens."""
        begin = corpus.starts[np.searchsorted(corpus.starts, at, "right") - 1]
        begin = np.maximum(begin, at - min(reach(self.model), len(corpus.ids)))
        size = at - begin + 1
        starts = np.append(0, np.cumsum(size))
        ids = corpus.ids[ranges(begin, size)]
        last, scored = starts[1:] - 1, np.zeros(len(ids), bool)
        ids[last], scored[last] = self.instead, True
        lower = self.model.score(Corpus(ids, starts, scored))
        logp, length = scores.logp.copy(), np.full((len(corpus.ids), lower.length.shape[1]), ABSENT, np.int8)
        logp[at], length[at] = lower.logp[last], lower.length[last]
        if self.unknown is not None and self.instead == self.vocab.unk_id:
            logp[at] = self.unknown
            length[at] = ABSENT
        return Scores(logp, np.hstack((scores.length, length)), scores.kinds + lower.kinds, scores.more)

    def after(self, context):
        """ln p of each predicted word after a context."""
        logp, unk, instead = after(self.model, context), self.vocab.unk_id, self.instead
        if instead is not None:
            p = self.unknown if instead == unk and self.unknown is not None else logp[instead : instead + 1]
            zero = np.isneginf(logp)
            logp[zero] = np.broadcast_to(p, int(zero.sum())) if np.size(p) else -np.inf
        if self.unknown is not None:
            logp[unk : unk + 1] = self.unknown
        return logp
