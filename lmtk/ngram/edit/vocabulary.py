"""Models over other vocabularies: several models merged into one, and a model limited or extended to a vocabulary.

The merged model, a static mixture, is again a back-off model. Its n-grams are those of all models, each with exactly
the mixture's probability. The probability of any other n-gram comes from back-off, which differs from the mixture of
the models' probabilities. `lmtk.joint.mixture` is exact for every word.
"""

from dataclasses import replace
from itertools import repeat

import numpy as np

from lmtk.ngram.edit.prune import drop_empty
from lmtk.ngram.edit.renormalize import update_model, warn_of_sums
from lmtk.ngram.edit.union import unite
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import build_nodes
from lmtk.ngram.model.nodes import N, wrap_records
from lmtk.text.vocab import EOS, PAUSE, SOS, Vocab


def merge(models, weights, own=False):
    """The static mixture sum_j weights[j] p_j of back-off models, all at once, with new back-off weights. own: as in
    `renormalize`.
    """
    vocab = unite_vocabularies([model.vocab for model in models])
    memory, where, far = unite(models, [ids_in(vocab, m) for m in models], len(vocab.words), weights, own)
    warn_of_sums(update_model((memory, memory.view(np.float32), where, far), vocab))
    return replace(models[0], vocab=vocab, nodes=wrap_records(memory, where, far))


def merge_in_turn(models, weights, own=False):
    """The static mixture of several models: the first two are merged, then the result and the third, and so on. own: as
    in `merge`.
    """
    whole, total = models[0], weights[0]
    for model, weight in zip(models[1:], weights[1:], strict=True):
        total += weight
        share = 1 - weight / total if weight else 1.0
        whole = merge([whole, model], [share, 1 - share], own)
    return whole


def limit(model, words):
    """The model without the n-grams that hold words other than `words`, <s>, </s> and the unknown word. Probabilities
    and weights stay.
    """
    old = model.vocab
    allowed = {*words, SOS, EOS, old.unk}
    stays = np.array([w in allowed for w in old.words])
    left = [w for w, stay in zip(old.words, stays) if stay]
    smaller = renumbered([model], Vocab(left, int(stays[: old.V].sum()), old.unk))
    has_bare = sum(model.sizes) < sum(model.nodes.where[:, N])
    return drop_empty(smaller) if has_bare else smaller


def add_words(model, words, unk=False):
    """The model with more words, which have probability 0: those of `words` that it does not predict and, with `unk`,
    the unknown word. When the model is renormalized, the mass that 1-grams leave goes to them.
    """
    old = model.vocab
    new = dict.fromkeys(w for w in words if w not in (SOS, EOS, PAUSE, old.unk) and not old.predicts(w))
    if unk and not old.predicts(old.unk):
        new[old.unk] = None
    if not new:
        return model
    predicted = [*old.words[: old.V], *new]
    vocab = Vocab(predicted + [w for w in old.words[old.V :] if w not in new], len(predicted), old.unk)
    ids = np.array(sorted(vocab.index[w] for w in new), np.int64)
    unigrams = build_nodes([(ids, np.full(len(ids), -np.inf), np.zeros(len(ids)))], len(vocab.words))
    return renumbered([model, Backoff(vocab, unigrams)], vocab)


def rename_unknown(model, word):
    """The model with `word` for unknown words. The word that stood for them before becomes an ordinary word if it was
    predicted.
    """
    old = model.vocab
    words = [w for i, w in enumerate(old.words) if i < old.V or w != old.unk]
    vocab = Vocab(list(dict.fromkeys([*words, word])), old.V, word)
    return renumbered([replace(model, vocab=Vocab(old.words, old.V, word))], vocab)


def predict_unknown(model, unknown):
    """The model with its unknown word predicted; without `unknown`, as a word of contexts only, which gets nothing of
    the mass that 1-grams leave. The word's probability stays.
    """
    old = model.vocab
    if old.predicts(old.unk) == unknown:
        return model
    words = [w for w in old.words if w != old.unk]
    words.insert(old.V if unknown else old.V - 1, old.unk)
    vocab = Vocab(words, old.V + 1 if unknown else old.V - 1, old.unk)
    return replace(model, vocab=vocab) if words == old.words else renumbered([model], vocab)


def renumbered(models, vocab):
    """The n-grams of all models with the ids of `vocab`. Probabilities and weights are those of the first model; the
    n-grams that it lacks are bare prefixes. N-grams with words that `vocab` lacks are left out.
    """
    ids = [ids_in(vocab, model) for model in models]
    return replace(models[0], vocab=vocab, nodes=wrap_records(*unite(models, ids, len(vocab.words))))


def unite_vocabularies(vocabs):
    """A Vocab that predicts the words of several. The first one's word for unknown words is taken."""
    first = vocabs[0]
    words = [renamed(v, first) for v in vocabs]
    known, old = set(first.words[: first.V]), set(first.words)
    if all(known.issuperset(mine[: v.V]) and old.issuperset(mine[v.V :]) for v, mine in zip(vocabs, words)):
        return first
    predicted = dict.fromkeys(w for v, mine in zip(vocabs, words) for w in mine[: v.V])
    others = dict.fromkeys(w for v, mine in zip(vocabs, words) for w in mine[v.V :])
    return Vocab([*predicted, *(w for w in others if w not in predicted)], len(predicted), first.unk)


def renamed(vocab, first):
    """A vocabulary's words, with the unknown word of `first` in place of its own."""
    return vocab.words if vocab.unk == first.unk else [first.unk if w == vocab.unk else w for w in vocab.words]


def ids_in(vocab, model):
    """(W,) int32: the ids of a model's words in `vocab`, -1 for those that it lacks."""
    if model.vocab == vocab:
        return np.arange(len(vocab.words), dtype=np.int32)
    words = renamed(model.vocab, vocab)
    return np.fromiter(map(vocab.index.get, words, repeat(-1)), np.int32, len(words))
