"""What a translation model says of translations that are known: ln p of their words, and where they look.

Given its source, a target is a text that is predicted word by word, so that the reports of language models are its own.
"""

from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from lmtk.lm import LN10, Scores
from lmtk.nmt import network
from lmtk.text.bitext import ids_of, word_index
from lmtk.text.corpus import TOKEN, Corpus
from lmtk.text.vocab import lower

TOGETHER, WORDS = 64, 1 << 13  # pairs at once, and the words of a side
LINES = 1 << 12  # lines that are read at once


def score_pairs(model, sources, targets):
    """`network.score_words` of pairs of sentences of ids that end with </s>: yields the number of the pair, ln p of its
    words and their weights, in an order that is good for batches.
    """
    longer = [max(pair, key=len) for pair in zip(sources, targets, strict=True)]
    for batch in network.batches(longer, TOGETHER, WORDS):
        x, y = [sources[i] for i in batch], [targets[i] for i in batch]
        for i, found in zip(batch, network.score_words(model.at, x, y, model.vocab.sos_id), strict=True):
            yield i, *found


@dataclass(frozen=True)
class Targets(Corpus):
    """A corpus of targets; sources: the sentence of ids that each one translates."""

    sources: list = field(default_factory=list)


def targets_of(sources, targets, sos, lines=None):
    """Pairs of sentences of ids that end with </s> as Targets; lines: what the targets were read from."""
    starts = np.concatenate(([0], np.cumsum([len(y) + 1 for y in targets], dtype=np.int64)))
    ids, scored = np.full(starts[-1], sos, np.int32), np.ones(starts[-1], bool)
    scored[starts[:-1]] = False
    if targets:
        ids[scored] = np.concatenate(targets)
    return Targets(ids, starts, scored, lines, sources=sources)


class GivenSource:
    """A translation model as the language model of Targets (the protocol of lmtk.lm)."""

    def __init__(self, model):
        self.model, self.vocab = model, model.vocab

    def score(self, targets):
        first, end = targets.starts[:-1] + 1, targets.starts[1:]
        sentences = [targets.ids[i:j] for i, j in zip(first, end, strict=True)]
        logp = np.zeros(len(targets.ids))
        for i, found, _ in score_pairs(self.model, targets.sources, sentences):
            logp[first[i] : end[i]] = found
        return Scores(logp, lambda t: "[nmt]")

    def sums(self, targets):
        """log10 p of each target, (S,)."""
        return np.add.reduceat(self.score(targets).logp, targets.starts[:-1]) / LN10


def blocks(model, pairs, tolower=False):
    """Pairs of lines of source and target as Targets, many at a time."""
    sides = [(word_index(vocab), vocab.eos_id) for vocab in (model.source, model.vocab)]
    pairs = iter(pairs)
    while block := list(islice(pairs, LINES)):
        x, y = (
            [ids_of(TOKEN.findall(lower(line) if tolower else line), *side) for line in column]
            for column, side in zip(zip(*block, strict=True), sides, strict=True)
        )
        yield targets_of(x, y, model.vocab.sos_id, [line for _, line in block])


def log10p(model, pairs, tolower=False):
    """log10 p of the targets of pairs of lines: yields (S,) for some pairs after another."""
    given = GivenSource(model)
    for targets in blocks(model, pairs, tolower):
        yield given.sums(targets)
