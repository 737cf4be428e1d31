"""Draws random sentences from a back-off model, and computes distributions over the next word.

`sentences` draws word after word. A context is a tuple: the nodes of its last 1, 2 .. order - 1 words, -1 for none.
`make_chances` makes a function from such a tuple to p of all words; that of `mean_chances` averages over contexts.
"""

from functools import lru_cache

import numpy as np

from lmtk.errors import LmtkError
from lmtk.lm import probability
from lmtk.ngram.model.searching import find_rows
from lmtk.ngram.model.walking import find_context_nodes

LONGEST = 50_000  # words; after so many, SRILM ends a sentence without </s>
CACHED = 1 << 23  # probabilities that the cache of contexts holds


def sentences(model, prefixes, seed=1, unk=False):
    """Yield a random continuation of each prefix, up to but without </s>; prefix and continuation are lists of ids. A
    word is drawn from p(. | context) over the predicted words; without `unk` the unknown word is never drawn. All
    sentences share one sequence of random numbers. Raises LmtkError if the model predicts no </s>, or gives every word
    the probability 0 after some context.
    """
    vocab, random = model.vocab, np.random.default_rng(seed)
    if vocab.eos_id >= vocab.V:
        raise LmtkError("the model never predicts </s>, so its sentences would not end")
    chances = make_chances(model, unk)
    cumulative = lru_cache(max(CACHED // vocab.V, 1))(lambda nodes: np.cumsum(chances(nodes)))
    for prefix in prefixes:
        words = list(prefix)
        while words[-1:] != [vocab.eos_id] and len(words) - len(prefix) < LONGEST:
            context = words[max(len(words) - model.order + 1, 0) :]
            sums = cumulative(tuple(find_context_nodes(model.nodes, model.walk.unigram, context)))
            if not sums[-1] > 0:
                raise LmtkError("the model gives every word the probability 0 after some context")
            words.append(int(np.searchsorted(sums, random.random() * sums[-1], "right")))
        yield words[len(prefix) : len(words) - (words[-1:] == [vocab.eos_id])]


def make_chances(model, unk=True):
    """Return a function that gives p of each predicted word, (V,), after a context, a tuple of its nodes. Without
    `unk`, the unknown word gets the probability 0.
    """
    V, unk_id = model.vocab.V, model.vocab.unk_id
    levels = model.nodes.checked_levels(len(model.vocab.words))[1:]
    # each exponential is taken once, instead of those of the whole vocabulary for every word drawn
    p = [probability(level["log10p"][:-1]) for level in levels]
    bow = [probability(level["log10bow"][:-1]) for level in levels[:-1]]
    words = levels[0]["word"][:-1]
    predicted, shortest = words < V, np.zeros(V)
    shortest[words[predicted]] = np.nan_to_num(p[0][predicted])

    def chances(nodes):
        out = shortest.copy()
        for k, node in enumerate(nodes, 1):
            if node < 0:
                continue
            out *= bow[k - 1][node]
            first, last = levels[k - 1]["child"][node : node + 2]
            word, own_p = levels[k]["word"][first:last], p[k][first:last]
            stated = (word < V) & ~np.isnan(own_p)
            out[word[stated]] = own_p[stated]
        if not unk and unk_id < V:
            out[unk_id] = 0
        return out

    return chances


def mean_chances(model, vocab):
    """The function that gives, for contexts (K, N) of ids of `vocab`, the last word first, the mean p(. | context) of
    its predicted words, (V,): 0 for words that the model does not predict, the others scaled to sum to one.
    """
    ids = model.vocab.ids_of_words(vocab.words)
    predicted = np.array([model.vocab.predicts(word) for word in vocab.words[: vocab.V]])
    model_ids = np.where(predicted, ids[: vocab.V], 0)
    chances = make_chances(model)

    def mean(contexts):
        rows = ids[contexts[:, : model.order - 1]]
        nodes = [find_rows(model.nodes, rows[:, k::-1]).tolist() for k in range(rows.shape[1])]
        total = sum(map(chances, zip(*nodes))) if nodes else chances(())
        q = np.where(predicted, total[model_ids], 0)
        return q / (q.sum() or 1)

    return mean
