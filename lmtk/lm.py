"""What every language model can do, and what follows from it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lmtk.text.corpus import Corpus, contexts, sentences
from lmtk.text.vocab import Vocab

LN10 = math.log(10)  # natural logs inside, log10 in files and reports


@dataclass(frozen=True)
class Scores:
    """logp: (N,) float64, ln p of each token given what stands before it (-inf: never; 0 where it is not scored).

    tag: what SRILM's report shows of token t, without blanks, as "[3gram]".
    """

    logp: np.ndarray
    tag: Callable[[int], str]


class LanguageModel(Protocol):
    """vocab: the words; order: a prediction looks at order - 1 words."""

    vocab: Vocab
    order: int

    def score(self, corpus: Corpus) -> Scores: ...


def vocabulary_sums(model, corpus, positions):
    """The sum over the vocabulary of p(. | context) at each of the positions, from the model's own scores.

    Equal contexts are summed once; each is scored as V sentences that differ in their last word.
    """
    V = model.vocab.V
    rows = contexts(corpus, model.order)[positions]
    if not len(rows):
        return np.zeros(0)
    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
    sums = np.empty(len(unique))
    for i, row in enumerate(unique):
        context = row[row >= 0][::-1]
        every = np.column_stack((np.broadcast_to(context, (V, len(context))), np.arange(V)))
        logp = model.score(sentences(every)).logp[len(context) :: len(context) + 1]
        sums[i] = np.exp(logp).sum()
    return sums[inverse.ravel()]
