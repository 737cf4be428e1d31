"""What a translation model says of translations that are known: ln p of their words, and where they look.

Given its source, a target is a text that is predicted word by word, so that the reports of language models are its own.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from lmtk.lm import LN10, Scores
from lmtk.nmt import network
from lmtk.text.bitext import ids_of, word_index
from lmtk.text.corpus import TOKEN, Corpus
from lmtk.text.vocab import lower

TOGETHER, WORDS = 64, 1 << 13  # pairs at once, and the words of a side
LINES = 1 << 10  # lines that are read at once


def score_pairs(model, sources, targets):
    """`network.score_words` of any number of pairs of sentences of ids that end with </s>, in their order."""
    out = [None] * len(targets)
    longer = [max(pair, key=len) for pair in zip(sources, targets, strict=True)]
    for batch in network.batches(longer, TOGETHER, WORDS):
        x, y = [sources[i] for i in batch], [targets[i] for i in batch]
        for i, found in zip(batch, network.score_words(model.at, x, y, model.vocab.sos_id), strict=True):
            out[i] = found
    return out


@dataclass(frozen=True)
class Targets(Corpus):
    """A corpus of S targets; sources: the sentences of ids that they translate; words: the tokens of each pair."""

    sources: tuple = ()
    words: tuple = ()

    def sentences(self):
        """The targets, each an array of ids that ends with </s>."""
        return [self.ids[i + 1 : j] for i, j in zip(self.starts[:-1], self.starts[1:], strict=True)]


def targets_of(sources, targets, sos, lines=None, words=()):
    """Pairs of sentences of ids that end with </s> as Targets; lines: what the targets were read from."""
    starts = np.concatenate(([0], np.cumsum([len(y) + 1 for y in targets], dtype=np.int64)))
    ids, scored = np.full(starts[-1], sos, np.int32), np.ones(starts[-1], bool)
    scored[starts[:-1]] = False
    ids[scored] = np.concatenate(targets)
    return Targets(ids, starts, scored, lines, sources=sources, words=words)


class GivenSource:
    """A translation model as the language model of Targets (the protocol of lmtk.lm)."""

    def __init__(self, model):
        self.model, self.vocab = model, model.vocab

    def score(self, targets):
        logp = np.zeros(len(targets.ids))
        found = score_pairs(self.model, targets.sources, targets.sentences())
        logp[targets.scored] = np.concatenate([logp for logp, _ in found])
        return Scores(logp, lambda t: "[nmt]")


def blocks(model, pairs, tolower=False):
    """Pairs of lines of source and target as Targets, many at a time."""
    sides = [(word_index(vocab), vocab.eos_id) for vocab in (model.source, model.vocab)]
    pairs = iter(pairs)
    while block := list(islice(pairs, LINES)):
        words = [[TOKEN.findall(lower(line) if tolower else line) for line in pair] for pair in block]
        x, y = ([ids_of(pair[i], *side) for pair in words] for i, side in enumerate(sides))
        yield targets_of(x, y, model.vocab.sos_id, [line for _, line in block], words)


def log10p(model, pairs, tolower=False):
    """log10 p of the targets of pairs of lines, (K,)."""
    found = []
    for targets in blocks(model, pairs, tolower):
        found += [logp.sum() / LN10 for logp, _ in score_pairs(model, targets.sources, targets.sentences())]
    return np.array(found)
