"""The mixtures of SRILM's ngram whose weights are not fixed.

`Bayes` (-bayes) weights models by how well they predicted the preceding words, `LogLinear` (-loglinear-mix) multiplies
probabilities and normalizes the product after each context (the module `loglinear` makes one model of it instead), and
`Cached` (-cache) mixes a model with the relative frequencies of recent words. All have the interface of `lmtk.lm`.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lmtk.joint.mixture import Combined, part_scores
from lmtk.joint.zeros import Wrapper
from lmtk.lm import ABSENT, LN10, LanguageModel, Scores, after, reach, unique_rows, vocabulary_sums
from lmtk.ngram.edit.vocabulary import add_words, unite_vocabularies
from lmtk.text.corpus import Corpus, contexts, sentences


def of_one_vocabulary(models):
    """Convert back-off models to the words of all of them; a word that a model lacks has the probability 0 in it."""
    vocab = unite_vocabularies([model.vocab for model in models])
    return [add_words(model, vocab.words[: vocab.V], vocab.predicts(vocab.unk)) for model in models]


def to_single(log10p):
    """Round numbers to single precision, in which SRILM stores logarithms."""
    return log10p.astype(np.float32).astype(np.float64)


def rounded(logp):
    """Round logarithms, natural, as SRILM does: log10 in single precision."""
    return to_single(logp / LN10) * LN10


def sequence_log10p(scored, vocab, rows, unk):
    """log10 p of each row of ids (N, L), scored as a separate text, by each of J models: (N, J), as in SRILM.

    An <s> at the beginning gets the probability of </s>. Words of probability 0 are skipped if they are not predicted
    words; without `unk`, <unk> is not one of them. scored: a function from a Corpus to ln p (tokens, J).
    """
    N, L = rows.shape
    logp = scored(Corpus(rows.ravel(), np.arange(N + 1) * L, np.ones(N * L, bool))).reshape(N, L, -1)
    logp[rows[:, 0] == vocab.sos_id, 0] = scored(sentences(np.array([[vocab.eos_id]])))[0]
    none = (rows >= vocab.V) | ((rows == vocab.unk_id) & (not unk))
    logp[np.isneginf(logp) & none[:, :, None]] = 0
    total = np.zeros((N, logp.shape[2]))
    for log10p in to_single(logp / LN10).swapaxes(0, 1):  # from the oldest word on, as SRILM adds them
        total = to_single(total + log10p)
    return total


@dataclass(frozen=True)
class Bayes(Combined):
    """p = sum_j w_j p_j, with w_j proportional to weights[j] p_j(the `length` preceding words)^scale.

    The parts have the same words. unk: whether <unk> counts as a word. If not, a part that gives <unk> the probability
    0 skips it among the preceding words.
    """

    parts: list
    weights: list
    length: int
    scale: float
    unk: bool = True

    @property
    def reach(self):
        return max(self.length, *map(reach, self.parts))

    def score(self, corpus):
        logp, _, length, kinds = part_scores(self.parts, corpus, None)
        logp = rounded(logp)
        more = [("probs", np.exp(logp), 3)]
        with np.errstate(divide="ignore"):
            weights = np.broadcast_to(np.log(self.weights), logp.shape)
        if self.length and self.scale:
            posterior = weights + self.scale * self.before(corpus)
            lost = np.isneginf(posterior).all(axis=1)
            posterior = np.where(lost[:, None], weights, posterior)
            weights = posterior - np.logaddexp.reduce(posterior, axis=1)[:, None]
        if self.length:
            more.insert(0, ("post", np.exp(weights), 2))
        mixed = np.logaddexp.reduce(logp + weights, axis=1)
        return Scores(np.where(corpus.scored, mixed, 0), length, kinds, tuple(more))

    def before(self, corpus):
        """ln p by each part, (N, J), of the `length` words before each token, as in `sequence_log10p`."""
        total = np.zeros((len(corpus.ids), len(self.parts)))
        rows = contexts(corpus, self.length + 1)[:, ::-1]
        for first in range(self.length):  # where the context begins
            has_length = (rows[:, first] >= 0) & (rows[:, :first] < 0).all(axis=1)
            if not has_length.any():
                continue
            distinct, inverse = unique_rows(rows[has_length, first:])
            scored = lambda corpus: part_scores(self.parts, corpus, None)[0]
            total[has_length] = sequence_log10p(scored, self.vocab, distinct, self.unk)[inverse] * LN10
        return total


@dataclass(frozen=True)
class LogLinear(Combined):
    """p proportional to the product of p_j^weights[j], normalized over the vocabulary; the parts have the same words.

    Logarithms are in single precision, as in SRILM. unk: whether <unk> is one of the words that the product is summed
    over. whole: a cache, {context: log10 of the sum after it}. Its contexts are cut to the most words that any part
    uses; if a part is a class model, these are all words of the sentence so far, as in SRILM.
    """

    parts: list
    weights: list
    unk: bool = True
    whole: dict = field(default_factory=dict)

    @cached_property
    def ids(self):
        """The ids of the words in each part."""
        return [part.vocab.ids_of_words(self.vocab.words) for part in self.parts]

    @cached_property
    def cut(self):
        """Whether all parts can say which words of a context they use."""
        return all(hasattr(part, "used") for part in self.parts)

    def score(self, corpus):
        logp, _, length, *about = part_scores(self.parts, corpus, None)
        # as in SRILM, after a part that gives a word no probability the others are not asked
        is_possible = np.cumsum(np.isneginf(logp[:, :-1]), axis=1) == 0
        length[:, 1:] = np.where(is_possible, length[:, 1:], ABSENT)
        log10p, at = self.product(logp / LN10), np.flatnonzero(corpus.scored)
        longest = self.order if self.cut else int(np.diff(corpus.starts).max(initial=1))
        rows, inverse = unique_rows(contexts(corpus, longest)[at])
        every = [row[row >= 0][::-1] for row in rows]
        used = [self.used(context) for context in every]
        denom, cached = np.full((2, len(corpus.ids)), np.nan)
        for t, i in zip(at.tolist(), inverse.tolist()):
            whole, new = self.sum_after(every[i], used[i])
            log10p[t] -= whole
            (denom if new else cached)[t] = new or np.exp(whole * LN10)
        out = np.where(corpus.scored, to_single(log10p) * LN10, 0)
        return Scores(out, length, *about, (("denom", denom, 2), ("cached", cached, 2)))

    def product(self, log10p):
        """sum_j weights[j] log10 p_j (N, J); a part with the weight 0 is left out."""
        total = np.zeros(len(log10p))
        for column, weight in zip(to_single(log10p).T, self.weights):
            if weight:
                total = to_single(total + weight * column)
        return total

    def products(self, context):
        """The product for each predicted word, log10, (V,). Words that a part does not predict, such as </s>, have the
        probability 0 in it.
        """
        logp = []
        for part, numbers in zip(self.parts, self.ids):
            row = np.append(after(part, numbers[context]), -np.inf)
            logp.append(row[np.minimum(numbers[: self.vocab.V], part.vocab.V)])
        return self.product(np.column_stack(logp) / LN10)

    def used(self, context):
        """The end of a context that the parts use, a tuple; the longest of all parts."""
        uses = (part.used(numbers[context]) for part, numbers in zip(self.parts, self.ids))
        length = max(uses) if self.cut else len(context)
        return tuple(context[len(context) - length :].tolist())

    def sum_after(self, context, used):
        """log10 of the sum over the vocabulary after a context, and the sum itself if it was not known before.

        used: the end of the context that the parts use.
        """
        total = None
        if not self.whole.get(used):
            p = np.exp(self.products(context) * LN10)
            total = p.sum() - (0 if self.unk or not self.vocab.predicts(self.vocab.unk) else p[self.vocab.unk_id])
            self.whole[used] = float(to_single(np.log10(total)))
        return self.whole[used], total

    def after(self, context):
        """ln p of each predicted word after a context."""
        return to_single(self.products(context) - self.sum_after(context, self.used(context))[0]) * LN10


@dataclass(frozen=True)
class Cached(Wrapper):
    """(1 - weight) p + weight r, where r is the relative frequency of a word among the last `length` words.

    Before any word r is 0, as in SRILM. The cache is kept from one corpus to the next.
    """

    model: LanguageModel
    length: int
    weight: float
    unk: bool = False
    # the last words, and before which tokens of the last corpus there were words
    history: dict = field(default_factory=lambda: {"last": np.empty(0, np.int64), "filled": None})

    def score(self, corpus):
        scores = self.model.score(corpus)
        p, share = np.exp(rounded(scores.logp)), np.full(len(corpus.ids), np.nan)
        enters_cache = corpus.scored & (self.unk | (corpus.ids != self.vocab.unk_id))
        last = self.history["last"]
        self.history["filled"] = len(last) + np.cumsum(enters_cache) - enters_cache > 0
        words = np.concatenate((last, corpus.ids[enters_cache])).astype(np.int64)
        place, N = np.arange(len(words)), len(words)
        begin = np.maximum(place - self.length, 0)
        keys = np.sort(words * N + place)  # of each word, where it stands
        occurrences = np.searchsorted(keys, words * N + place) - np.searchsorted(keys, words * N + begin)
        share[enters_cache] = (occurrences / np.maximum(place - begin, 1))[len(last) :]
        self.history["last"] = words[-self.length :]
        with np.errstate(divide="ignore"):
            probs = np.column_stack((p, np.exp(rounded(np.log(np.nan_to_num(share))))))
            logp = np.log(probs @ (1 - self.weight, self.weight))
        more = (*scores.more, ("cache", share, 2), ("probs", probs, 3))
        return replace(scores, logp=np.where(corpus.scored, logp, 0), more=more)

    def sums(self, corpus, positions, unk):
        """The sums of p over the vocabulary, at these positions of the corpus that was scored last. If the cache has
        words, their frequencies sum to one.
        """
        model_sums = vocabulary_sums(self.model, corpus, positions, unk)
        return (1 - self.weight) * model_sums + self.weight * self.history["filled"][positions]
