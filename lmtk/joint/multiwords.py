"""Multiwords: several words joined by a letter, as "i_have_got". A model scores them as a sequence of these words."""

import numpy as np

from lmtk.lm import ABSENT, LN10, Scores, ranges
from lmtk.ngram.edit.vocabulary import add_words
from lmtk.text.corpus import Corpus, Growing
from lmtk.text.vocab import Vocab


class Multiwords:
    """A back-off model whose words are split at a letter.

    index: word -> id, for the reader of a text; every new word gets an id, as in SRILM. So a word with a part that the
    model lacks has probability 0, and is not <unk>. parts: for each id, the ids of its parts in the model.
    """

    def __init__(self, model, letter):
        self.letter = letter  # no part of a word is the letter, so it stands for parts that the model lacks
        self.model, self.order = add_words(model, [letter]), model.order
        self.index, self.parts = Growing(self.model.vocab.words), []
        self.known = self.model.vocab

    @property
    def vocab(self):
        if len(self.index) != len(self.known.words) + 1:
            self.known = Vocab(self.index.words(), self.known.V, self.known.unk, self.known.tokenizer)
        return self.known

    def parts_of(self, word):
        index = self.model.vocab.index
        parts = [part for part in word.split(self.letter) if part]
        return [index.get(part, index[self.letter]) for part in parts] if parts else [index[word]]

    def score(self, corpus):
        """ln p of every scored token: the sum over its parts, in single precision; its tag joins their tags."""
        self.parts += map(self.parts_of, self.vocab.words[len(self.parts) :])
        every = list(map(self.parts.__getitem__, corpus.ids.tolist()))
        many = np.array(list(map(len, every)), np.int64)
        ends = np.cumsum(many)
        begins, ids = ends - many, np.array([w for parts in every for w in parts], np.int32)
        starts = np.append(begins, len(ids))[corpus.starts]
        scores = self.model.score(Corpus(ids, starts, np.repeat(corpus.scored, many)))
        if not len(ids):
            return scores
        length = np.full((len(many), many.max(), scores.length.shape[1]), ABSENT, np.int8)
        length[np.repeat(np.arange(len(many)), many), ranges(0, many)] = scores.length
        logp = np.add.reduceat((scores.logp / LN10).astype(np.float32), begins).astype(np.float64) * LN10
        return Scores(logp, length.reshape(len(many), -1), scores.kinds * int(many.max()))
