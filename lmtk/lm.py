"""What every language model can do, and what follows from it."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lmtk.text.corpus import Corpus, contexts, sentences
from lmtk.text.vocab import Vocab

NONE, UNKNOWN, ABSENT = -1, -2, -3  # in place of an n-gram's length
LN10 = math.log(10)  # natural logs inside, log10 in files and reports


@dataclass(frozen=True)
class Scores:
    """logp: (N,) float64, ln p of each token given what stands before it (-inf: never; 0 where it is not scored).

    length: (N, J) int8, the length of the n-gram that each of J models used for a token; NONE where a model has no
    n-grams, as neural ones, UNKNOWN where its p is 0, ABSENT where it took no part.
    kinds: what a report shows of each model in place of NONE, "nplm" and so on.
    more: what else it shows, as (name, numbers (N,) or (N, J), the -debug from which on); not where numbers are nan.
    """

    logp: np.ndarray
    length: np.ndarray
    kinds: tuple = ("",)
    more: tuple = ()


def scores_of(kind, logp):
    """The Scores of a model without n-grams."""
    return Scores(logp, np.full((len(logp), 1), NONE, np.int8), (kind,))


class LanguageModel(Protocol):
    """vocab: the words; order: a prediction looks at order - 1 words, or at as many as a `reach` of the model says."""

    vocab: Vocab
    order: int

    def score(self, corpus: Corpus) -> Scores: ...


def reach(model):
    """How many words before a word its probability depends on."""
    return getattr(model, "reach", model.order - 1)


def after(model, context):
    """ln p of each predicted word, (V,), after a context, ids with the last word last: the model's own `after`, else
    the scores of V sentences that differ in their last word.
    """
    if hasattr(model, "after"):
        return model.after(context)
    V = model.vocab.V
    every = np.column_stack((np.broadcast_to(context, (V, len(context))), np.arange(V)))
    return model.score(sentences(every)).logp[len(context) :: len(context) + 1]


def unique_rows(rows):
    """The distinct rows of whole numbers (N, k), in order, and which of them each row is, (N,).

    numpy's own unique takes several times as long: here as many columns as 64 bits hold are one key.
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
    """The sum over the vocabulary, with or without <unk>, of p(. | context) at each of the positions, from the model's
    own scores, or as its `sums` has it. Equal contexts are summed once.
    """
    if hasattr(model, "sums"):
        return model.sums(corpus, positions, unk)
    V = model.vocab.V
    rows = contexts(corpus, model.order)[positions]
    if not len(rows):
        return np.zeros(0)
    unique, which = unique_rows(rows)
    sums = np.empty(len(unique))
    for i, row in enumerate(unique):
        p = np.exp(after(model, row[row >= 0][::-1]))
        sums[i] = p.sum() - (0 if unk or model.vocab.unk_id >= V else p[model.vocab.unk_id])
    return sums[which]
