"""Models over other vocabularies: several models merged into one, and a model limited or extended to a vocabulary.

The merged model, a static mixture, is again a back-off model. Its n-grams are those of all models, each with exactly
the mixture's probability. The probability of any other n-gram comes from back-off, which differs from the mixture of
the models' probabilities. `lmtk.joint.mixture` is exact for every word.
"""

from dataclasses import replace
from itertools import repeat

import numpy as np

from lmtk.ngram.edit.prune import select, stated
from lmtk.ngram.edit.renormalize import renormalize
from lmtk.ngram.edit.union import unite
from lmtk.ngram.model.backoff import Backoff
from lmtk.ngram.model.building import build_nodes
from lmtk.ngram.model.nodes import N, wrap_records
from lmtk.text.vocab import EOS, PAUSE, SOS, Vocab, common_tokenizer


def merge(models, weights, may_reuse=False):
    """Merge back-off models into their static mixture sum_j weights[j] p_j, all at once, with new back-off weights.
    may_reuse: whether the caller gives up the models; their memory is then reused or freed.
    """
    vocab = unite_vocabularies([model.vocab for model in models])
    return renormalize(renumbered(models, vocab, weights, may_reuse), may_reuse=True)


def merge_in_turn(models, weights, may_reuse=False):
    """Merge the first two models, then the result and the third, and so on. may_reuse: as in `merge`."""
    whole, total = models[0], weights[0]
    for model, weight in zip(models[1:], weights[1:], strict=True):
        total += weight
        share = 1 - weight / total if weight else 1.0
        whole = merge([whole, model], [share, 1 - share], may_reuse)
    return whole


def limit(model, words):
    """Remove n-grams with words other than `words`, <s>, </s> and the unknown word; the others do not change."""
    old = model.vocab
    allowed = {*words, SOS, EOS, old.unk}
    stays = np.array([w in allowed for w in old.words])
    kept_words = [w for w, stay in zip(old.words, stays) if stay]
    smaller = renumbered([model], Vocab(kept_words, int(stays[: old.V].sum()), old.unk, old.tokenizer))
    has_bare = sum(model.sizes) < sum(model.nodes.where[:, N])
    return select(smaller, stated(smaller.nodes)) if has_bare else smaller  # no bare prefix without longer n-grams


def add_words(model, words, unk=False):
    """Add words with probability 0: those of `words` that the model does not predict and, with `unk`, the unknown word.
    When the model is renormalized, these words get the left-over mass of the 1-grams.
    """
    old = model.vocab
    new = dict.fromkeys(w for w in words if w not in (SOS, EOS, PAUSE, old.unk) and not old.predicts(w))
    if unk and not old.predicts(old.unk):
        new[old.unk] = None
    if not new:
        return model
    predicted = [*old.words[: old.V], *new]
    vocab = Vocab(predicted + [w for w in old.words[old.V :] if w not in new], len(predicted), old.unk, old.tokenizer)
    unigrams = build_nodes([(np.arange(old.V, len(predicted)), -np.inf, 0)], len(vocab.words))
    return renumbered([model, Backoff(vocab, unigrams)], vocab)


def rename_unknown(model, word):
    """Make `word` the unknown word. The previous unknown word becomes an ordinary word if it was predicted."""
    old = model.vocab
    words = [w for i, w in enumerate(old.words) if i < old.V or w != old.unk]
    vocab = Vocab(list(dict.fromkeys([*words, word])), old.V, word, old.tokenizer)
    return renumbered([replace(model, vocab=Vocab(old.words, old.V, word, old.tokenizer))], vocab)


def predict_unknown(model, unknown):
    """Make the unknown word a predicted word or, without `unknown`, a word of contexts only, which gets no left-over
    mass of the 1-grams. The word's probability stays.
    """
    old = model.vocab
    if old.predicts(old.unk) == unknown:
        return model
    words = [w for w in old.words if w != old.unk]
    words.insert(old.V if unknown else old.V - 1, old.unk)
    vocab = Vocab(words, old.V + 1 if unknown else old.V - 1, old.unk, old.tokenizer)
    return replace(model, vocab=vocab) if words == old.words else renumbered([model], vocab)


def renumbered(models, vocab, weights=None, may_reuse=False):
    """Unite the n-grams of all models under the ids of `vocab`. N-grams with words outside `vocab` are left out.
    weights, may_reuse: as for `unite`.
    """
    united = unite(models, [new_ids(model, vocab) for model in models], len(vocab.words), weights, may_reuse)
    return replace(models[0], vocab=vocab, nodes=wrap_records(*united))


def unite_vocabularies(vocabs):
    """Return a Vocab that predicts the words of all `vocabs`, with the unknown word of the first."""
    words = [renamed(v, vocabs[0]) for v in vocabs]
    predicted = dict.fromkeys(w for v, own_words in zip(vocabs, words) for w in own_words[: v.V])
    others = dict.fromkeys(w for v, own_words in zip(vocabs, words) for w in own_words[v.V :] if w not in predicted)
    return Vocab([*predicted, *others], len(predicted), vocabs[0].unk, common_tokenizer(vocabs))


def renamed(vocab, first):
    """Return the words of `vocab`, with the unknown word of `first` in place of its unknown word."""
    return vocab.words if vocab.unk == first.unk else [first.unk if w == vocab.unk else w for w in vocab.words]


def new_ids(model, vocab):
    """Return the ids in `vocab` of a model's words, (W,) int32; -1 for words outside `vocab`."""
    if model.vocab == vocab:
        return np.arange(len(vocab.words), dtype=np.int32)
    words = renamed(model.vocab, vocab)
    return np.fromiter(map(vocab.index.get, words, repeat(-1)), np.int32, len(words))
