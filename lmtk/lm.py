"""The interface of all language models, and what can be computed from their scores.

A model scores a Corpus of ids at once: `LanguageModel.score` -> `Scores`. From these scores come the probabilities of
all words after a context (`after`) and the sums over the vocabulary (`vocabulary_sums`). Perplexity, mixing, tuning and
rescoring use the same interface.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lmtk.text.corpus import Corpus, contexts, sentences
from lmtk.text.vocab import Vocab

NONE, UNKNOWN, ABSENT = -1, -2, -3  # values of Scores.length that are not a length
LN10 = math.log(10)  # natural logs inside, log10 in files and reports


def probability(log10p):
    """10 to the power of log10p, in double precision."""
    return np.exp(np.asarray(log10p, np.float64) * LN10)


@dataclass(frozen=True)
class Scores:
    """The scores of a Corpus of N tokens by J models (one, or the parts of a mixture).

    logp: (N,) float64, ln p of each token given the words before it; -inf for p = 0, and 0 for tokens that are not
    scored. length: (N, J) int8, the length of the n-gram that each model used for a token; NONE if the model has no
    n-grams, as neural models; UNKNOWN for a word that the model does not know; ABSENT if the model was not used.
    kinds: for each model the tag that a report shows for NONE, such as "nplm". more: other figures of a report: (name,
    numbers (N,) or (N, J), the lowest -debug that shows them); nan is not shown.
    """

    logp: np.ndarray
    length: np.ndarray
    kinds: tuple = ("",)
    more: tuple = ()


def scores_of(kind, logp):
    """The Scores of a model without n-grams, of one kind: all lengths are NONE."""
    return Scores(logp, np.full((len(logp), 1), NONE, np.int8), (kind,))


class LanguageModel(Protocol):
    """A language model.

    vocab: the words. order: a prediction depends on the last order - 1 words, or on the last `reach` words if the model
    has that attribute. score: a Corpus of ids -> Scores.
    """

    vocab: Vocab
    order: int

    def score(self, corpus: Corpus) -> Scores: ...


def reach(model):
    """The number of preceding words that the probability of a word depends on."""
    return getattr(model, "reach", model.order - 1)


def kind_of_model(model):
    """What messages and `lmtk info` call the kind of a model: the value of the first row of its `describe`."""
    return next(model.describe())[1]


def has_sentence_starts(model):
    """Whether a model has n-grams that begin with <s>, as models of sentences do; True for kinds that do not say."""
    return getattr(model, "has_sentence_starts", True)


def find_running_text(models, marks, names=("the model",)):
    """Find evidence that a model was made from running text, although `marks` has <s> or </s>.

    Returns a clause for a warning, or None. names: what the clause calls the models.
    """
    for model, name in zip(models, names, strict=True):
        if marks.eos and model.vocab.eos_id >= model.vocab.V:
            return f"{name} does not predict </s>"
        if marks.sos and not has_sentence_starts(model):
            return f"no n-gram of {name} begins with <s>"
    return None


def after(model, context):
    """ln p of each predicted word, (V,), after a context of ids, the last word last.

    The model computes them if it has a method `after` or `after_each`. Otherwise they are the scores of V sentences
    that differ in their last word.
    """
    if hasattr(model, "after"):
        return model.after(context)
    if hasattr(model, "after_each"):
        return model.after_each([context])[0]
    return after_by_scores(model, context)


def after_by_scores(model, context):
    """`after` from the scores of V sentences."""
    V = model.vocab.V
    rows = np.column_stack((np.broadcast_to(np.array(context, np.int32), (V, len(context))), np.arange(V)))
    return model.score(sentences(rows)).logp[len(context) :: len(context) + 1]


def last_word_corpus(contexts):
    """A Corpus of sentences that are contexts, lists of ids, and one more word, which alone is scored."""
    starts = np.cumsum([0, *(len(context) + 1 for context in contexts)])
    ids, scored = np.zeros(starts[-1], np.int32), np.zeros(starts[-1], bool)
    scored[starts[1:] - 1] = True
    ids[~scored] = [w for context in contexts for w in context]
    return Corpus(ids, starts, scored)


def after_each(model, contexts):
    """ln p of each predicted word after each of B contexts, lists of ids: (B, V)."""
    if hasattr(model, "after_each"):
        return model.after_each(contexts)
    return rows_of_words(model, [after(model, context) for context in contexts])


def after_each_by_scores(model, contexts):
    """`after_each` from the scores of V sentences for each context."""
    return rows_of_words(model, [after_by_scores(model, context) for context in contexts])


def rows_of_words(model, rows):
    """B rows (V,) as one array (B, V), also if B is 0."""
    return np.array(rows).reshape(len(rows), model.vocab.V)


def unique_rows(rows):
    """(the distinct rows of whole numbers (N, k), sorted; the number of the distinct row of each row, (N,)).

    As many columns as fit into 64 bits make one key, which takes a fraction of the time of numpy's unique on rows.
    """
    key, most = np.zeros(len(rows), np.int64), 1
    for column in rows.T:
        low = int(column.min(initial=0))
        size = int(column.max(initial=0)) - low + 1
        if most * size >= 1 << 62:
            keys, key = np.unique(key, return_inverse=True)
            most = len(keys)
        key, most = key * size + (column - low), most * size
    keys, inverse = np.unique(key, return_inverse=True)
    distinct = np.empty((len(keys), rows.shape[1]), rows.dtype)
    distinct[inverse] = rows
    return distinct, inverse


def ranges(begins, sizes):
    """The whole numbers of several ranges, one range after the other, (sum of sizes,): sizes[i] numbers from begins[i]
    on. sizes (N,); begins (N,), or one number for all ranges.
    """
    ends = np.cumsum(sizes)  # of the ranges, in the result
    return np.repeat(begins - ends + sizes, sizes) + np.arange(sizes.sum())


def vocabulary_sums(model, corpus, positions, unk=True):
    """The sum over the vocabulary, with or without <unk>, of p(. | context) at each of the positions of a corpus.

    The model computes it if it has a method `sums`. Otherwise it is computed from the scores, once for equal contexts.
    """
    if hasattr(model, "sums"):
        return model.sums(corpus, positions, unk)
    V = model.vocab.V
    unique, inverse = distinct_contexts(model, corpus, positions)
    sums = np.empty(len(unique))
    for i, row in enumerate(unique):
        p = np.exp(after(model, row[row >= 0][::-1]))
        sums[i] = p.sum() - (0 if unk or model.vocab.unk_id >= V else p[model.vocab.unk_id])
    return sums[inverse]


def distinct_contexts(model, corpus, positions):
    """(the distinct contexts, rows (U, n) of ids, the latest word first and -1 before the sentence; the number of the
    context of each of P positions, (P,)). n is at most the model's reach.
    """
    longest = int(np.diff(corpus.starts).max(initial=1))
    return unique_rows(contexts(corpus, min(reach(model) + 1, longest))[positions])
