"""Models from Python, by the names that users of KenLM's module know. All logarithms are to base 10."""

import math
import os

import numpy as np

from lmtk.reports import kenlm
from lmtk.text.corpus import Corpus
from lmtk.text.vocab import EOS, SOS


class Model:
    """A language model of any kind, for sentences as strings (str in UTF-8, or bytes).

    Words are separated by blanks, tabs and line ends. A word that the model does not have is <unk>, and an OOV; where
    <unk> has no probability its log10 p is -100, and that of any other word of probability 0 is -99, as in KenLM. Of a
    back-off model the numbers are KenLM's to the last bit.

    lm: the model inside, a `lmtk.lm.LanguageModel`, which scores whole texts of ids at once. order: the longest n-gram;
    a prediction looks at order - 1 words. vocab: the words (`vocab.words`, bytes).
    """

    def __init__(self, lm, path=None):
        """lm: a model in memory, as the estimating functions give it; `lmtk.load` reads one from a file."""
        self.lm = lm
        self.path = path
        self._index = kenlm.closed(lm.vocab)
        self._scorer = None

    @property
    def order(self):
        return self.lm.order

    @property
    def vocab(self):
        return self.lm.vocab

    def score(self, sentence, bos=True, eos=True):
        """log10 p of a sentence: the sum over its words, and over </s> if `eos`, after <s> if `bos`."""
        return float(self._sum(sentence, bos, eos)[0])

    def full_scores(self, sentence, bos=True, eos=True):
        """For each word, and for </s> if `eos`: (log10 p, length of the n-gram used, whether it is an OOV).

        The length is that of the longest n-gram that any part of a mixture used; a neural model's is the number of
        words that it looked at, its prediction included.
        """
        log10p, length, unknown = self._scored(sentence, bos, eos)
        yield from zip(log10p.tolist(), length.tolist(), unknown.tolist())

    def perplexity(self, sentence):
        """10^(-log10 p / (words + 1)) of a sentence with <s> and </s>, OOVs included."""
        total, words = self._sum(sentence, True, True)
        return math.pow(10.0, -float(total) / words)

    def __contains__(self, word):
        """Whether the model has the word; <unk> is none."""
        word = as_bytes(word)
        known = self.vocab.predicts(word) or word == SOS
        return known and self._index[word] != self._index.unk

    def __repr__(self):
        kind = type(self.lm).__name__
        return f"<{kind} model of order {self.order}{f' from {os.path.basename(self.path)}' if self.path else ''}>"

    def _sum(self, sentence, bos, eos):
        log10p = self._scored(sentence, bos, eos)[0]
        return kenlm.sums_in_turn(log10p, np.array([0]), np.array([len(log10p)]))[0], len(log10p)

    def _scored(self, sentence, bos, eos):
        """log10 p, length, whether it is an OOV: (N,) each, for the words of a sentence."""
        if self._scorer is None:
            self._scorer = kenlm.scorer(self.lm)
        words = [SOS] * bool(bos) + as_bytes(sentence).split() + [EOS] * bool(eos)
        ids = np.fromiter(map(self._index.__getitem__, words), np.int32, len(words))
        scored = np.ones(len(ids), bool)
        scored[: bool(bos)] = False
        log10p, length = self._scorer(Corpus(ids, np.array([0, len(ids)]), scored))
        return log10p[scored], length[scored], ids[scored] == self._index.unk


def as_bytes(text):
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    if isinstance(text, bytes):
        return text
    raise TypeError(f"expected str or bytes, not {type(text).__name__}")
