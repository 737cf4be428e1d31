"""The protocol of all language models, and sums and probabilities by their scores."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lmtk.text.corpus import Corpus, contexts, sentences
from lmtk.text.vocab import EOS, Vocab

NONE, UNKNOWN, ABSENT = -1, -2, -3  # in place of an n-gram's length
LN10 = math.log(10)  # natural logs inside, log10 in files and reports


def probability(log10p):
    """10 to the power of log10p, in double precision."""
    return np.exp(np.asarray(log10p, np.float64) * LN10)


@dataclass(frozen=True)
class Scores:
    """logp: (N,) float64, ln p of each token given the words before it; -inf for p = 0, and 0 where it is not scored.

    length: (N, J) int8, the length of the n-gram that each of J models used for a token; NONE where a model has no
    n-grams, as neural ones, UNKNOWN where its p is 0, ABSENT where it took no part.
    kinds: for each model the tag that a report shows for NONE, "nplm" and so on.
    more: other figures of a report, (name, numbers (N,) or (N, J), the least -debug that shows them); nan is not shown.
    """

    logp: np.ndarray
    length: np.ndarray
    kinds: tuple = ("",)
    more: tuple = ()


def scores_of(kind, logp):
    """The Scores of a model without n-grams, of one kind: lengths are NONE."""
    return Scores(logp, np.full((len(logp), 1), NONE, np.int8), (kind,))


class LanguageModel(Protocol):
    """vocab: the words. order: a prediction depends on the last order - 1 words, or on `reach` words if the model has
    that attribute. score: a Corpus of ids -> Scores.
    """

    vocab: Vocab
    order: int

    def score(self, corpus: Corpus) -> Scores: ...


def reach(model):
    """How many words before a word its probability depends on."""
    return getattr(model, "reach", model.order - 1)


def opens(model):
    """Whether a model has n-grams that begin with <s>, as models of sentences do; True for kinds that do not tell."""
    return getattr(model, "opens", True)


def running_text(models, marks):
    """What shows that one of some models was made of running text, though `marks` has <s> or </s>: a clause for a
    warning, or None.
    """
    if marks.eos and not all(model.vocab.predicts(EOS) for model in models):
        return "the model predicts no </s>"
    return "no n-gram of the model begins with <s>" if marks.sos and not all(map(opens, models)) else None


def after(model, context):
    """ln p of each predicted word, (V,), after a context, ids with the last word last. It is the model's own `after`,
    if it has one, else the scores of V sentences that differ in their last word.
    """
    if hasattr(model, "after"):
        return model.after(context)
    V = model.vocab.V
    every = np.column_stack((np.broadcast_to(context, (V, len(context))), np.arange(V)))
    return model.score(sentences(every)).logp[len(context) :: len(context) + 1]


def unique_rows(rows):
    """(the distinct rows of whole numbers (N, k), sorted; which of them each row is, (N,)).

    As many columns as fit 64 bits make one key, so that it takes a fraction of the time of numpy's own unique.
    """
    key, most = np.zeros(len(rows), np.int64), 1
    for column in rows.T:
        low = int(column.min(initial=0))
        size = int(column.max(initial=0)) - low + 1
        if most * size >= 1 << 62:
            distinct, key = np.unique(key, return_inverse=True)
            most = len(distinct)
        key, most = key * size + (column - low), most * size
    distinct, which = np.unique(key, return_inverse=True)
    found = np.empty((len(distinct), rows.shape[1]), rows.dtype)
    found[which] = rows
    return found, which


def vocabulary_sums(model, corpus, positions, unk=True):
    """The sum over the vocabulary, with or without <unk>, of p(. | context) at each of the positions of a corpus. It is
    the model's own `sums`, if it has one, else made from its scores, once for equal contexts.
    """
    if hasattr(model, "sums"):
        return model.sums(corpus, positions, unk)
    V, longest = model.vocab.V, int(np.diff(corpus.starts).max(initial=1))
    rows = contexts(corpus, min(reach(model) + 1, longest))[positions]
    if not len(rows):
        return np.zeros(0)
    unique, which = unique_rows(rows)
    sums = np.empty(len(unique))
    for i, row in enumerate(unique):
        p = np.exp(after(model, row[row >= 0][::-1]))
        sums[i] = p.sum() - (0 if unk or model.vocab.unk_id >= V else p[model.vocab.unk_id])
    return sums[which]
