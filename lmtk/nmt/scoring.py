"""Scores of given translations: ln p of their words, and their alignments.

Pairs of sentences come in. `mean_scores` scores a minibatch, `score_pairs` any number of pairs in batches. Given its
source, a target is a text that is predicted word by word. So `Targets` and `GivenSource` make a translation model look
like a language model, and the reports of language models work for it. `read_targets` turns pairs of lines into Targets.
"""

from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from lmtk.lm import LN10, scores_of
from lmtk.nmt import network
from lmtk.text.bitext import ids_with_eos, word_index
from lmtk.text.corpus import TOKEN, Corpus
from lmtk.text.vocab import lower

TOGETHER, WORDS = 64, 1 << 13  # pairs in a batch, words on a side of a batch
LINES = 1 << 10  # lines that are read at once


def mean_scores(models, sources, targets):
    """The scores of a minibatch as in `network.score_words`, by the mean of the models' probabilities and the mean
    alpha.
    """
    scores = [network.score_words(m.at, sources, targets, m.vocab.sos_id) for m in models]
    if len(models) == 1:
        return scores[0]
    out = []
    for pair in zip(*scores, strict=True):
        alphas = [alpha for _, alpha in pair if alpha is not None]
        logp = np.logaddexp.reduce([logp for logp, _ in pair]) - np.log(len(models))
        out.append((logp, sum(alphas) / np.float32(len(alphas)) if alphas else None))
    return out


def score_pairs(models, sources, targets):
    """The scores of any number of pairs of sentences of ids that end with </s>, in their order, as in `mean_scores`."""
    out = [None] * len(targets)
    longer = [max(pair, key=len) for pair in zip(sources, targets, strict=True)]
    for batch in network.make_batches(longer, TOGETHER, WORDS):
        scores = mean_scores(models, [sources[i] for i in batch], [targets[i] for i in batch])
        for i, pair in zip(batch, scores, strict=True):
            out[i] = pair
    return out


def rescore_alone(models, sentence, hypotheses, beam):
    """Compute ln p, rank and alpha of the hypotheses of one sentence without other sentences; returns them best first.

    The last digits of a matrix product depend on its number of rows. Scored alone, a sentence gets the same figures
    whatever batch it was in.
    """
    eos, out = models[0].vocab.eos_id, []
    targets = [np.array([*h.words, eos], np.int32) for h in hypotheses]
    for h, (logps, alpha) in zip(hypotheses, mean_scores(models, [sentence] * len(hypotheses), targets), strict=True):
        T = len(h.words) + h.ended
        logp = float(logps[:T].sum())
        out.append(replace(h, logp=logp, rank=beam.rank(logp, T), alpha=alpha))
    return sorted(out, key=lambda h: -h.rank)


@dataclass(frozen=True)
class Targets(Corpus):
    """A corpus of S targets; sources: the sentences of ids that they translate; words: the tokens of each pair."""

    sources: tuple = ()
    words: tuple = ()

    def sentences(self):
        """The targets, each an array of ids that ends with </s>."""
        return [self.ids[i + 1 : j] for i, j in zip(self.starts[:-1], self.starts[1:], strict=True)]


def make_targets(sources, targets, sos, lines=None, words=()):
    """Make Targets from pairs of sentences of ids that end with </s>; lines: the lines of the targets."""
    starts = np.concatenate(([0], np.cumsum([len(y) + 1 for y in targets], dtype=np.int64)))
    ids, scored = np.full(starts[-1], sos, np.int32), np.ones(starts[-1], bool)
    scored[starts[:-1]] = False
    ids[scored] = np.concatenate(targets)
    return Targets(ids, starts, scored, lines, sources=sources, words=words)


class GivenSource:
    """Translation models of the same vocabularies as a language model of Targets (the interface of lmtk.lm)."""

    def __init__(self, models):
        self.models, self.vocab = models, models[0].vocab

    def score(self, targets):
        logp = np.zeros(len(targets.ids))
        scores = score_pairs(self.models, targets.sources, targets.sentences())
        logp[targets.scored] = np.concatenate([logp for logp, _ in scores])
        return scores_of("nmt", logp)


def read_targets(model, split, pairs, tolower=False):
    """Yield pairs of lines of source and target as Targets, in large blocks; split(words) -> the words of the model."""
    sides = [(word_index(vocab), vocab.eos_id) for vocab in (model.source, model.vocab)]
    pairs = iter(pairs)
    while block := list(islice(pairs, LINES)):
        words = [[split(TOKEN.findall(lower(line) if tolower else line)) for line in pair] for pair in block]
        x, y = ([ids_with_eos(pair[i], *side) for pair in words] for i, side in enumerate(sides))
        yield make_targets(x, y, model.vocab.sos_id, [line for _, line in block], words)


def score_lines(model, split, pairs, tolower=False):
    """log10 p of the targets of pairs of lines, (K,)."""
    scores = []
    for targets in read_targets(model, split, pairs, tolower):
        scores += [logp.sum() / LN10 for logp, _ in score_pairs([model], targets.sources, targets.sentences())]
    return np.array(scores)
