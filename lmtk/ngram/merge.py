"""Back-off models with other vocabularies: the static mixture of models, and a model limited or extended to a
vocabulary.

The static mixture is again a back-off model. Its n-grams are those of all models, each with exactly the mixture's
probability. The probability of any other n-gram comes from back-off, which differs from the mixture of the models'
probabilities. `lmtk.joint.mixture` is exact for every word.
"""

from dataclasses import replace
from itertools import repeat

import numpy as np

from lmtk.ngram import rewriting
from lmtk.ngram.backoff import Backoff, Probabilities
from lmtk.ngram.nodes import N
from lmtk.ngram.pruning import backed_off, chance, large, links, renormalized, single, told, with_logs, without
from lmtk.text.vocab import EOS, PAUSE, SOS, Vocab


def united(vocabs):
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


def numbers(model, vocab):
    """The ids of a model's words in `vocab`, (W,), -1 for those that it lacks."""
    if model.vocab == vocab:
        return np.arange(len(vocab.words))
    words = renamed(model.vocab, vocab)
    return np.fromiter(map(vocab.index.get, words, repeat(-1)), np.int64, len(words))


def aligned(models, vocab):
    """The models with the ids of `vocab` and the same keys, those of all models. An n-gram that a model lacks has no
    probability in it, like a bare prefix. `vocab` must have every word that occurs in an n-gram.
    """
    W, order = len(vocab.words), max(model.order for model in models)
    ids = [numbers(model, vocab) for model in models]
    places = [np.zeros(1, np.int64) for _ in models]
    levels = [[] for _ in models]
    for k in range(order):
        own = []
        for model, word, place in zip(models, ids, places, strict=True):
            keys = model.levels[k].keys if k < model.order else np.zeros(0, np.int64)
            own.append(place[keys // len(word)] * W + word[keys % len(word)])
        every = np.unique(np.concatenate(own))
        places = [np.searchsorted(every, keys) for keys in own]
        for model, place, found in zip(models, places, levels, strict=True):
            logp, bow = np.full(len(every), np.nan), np.zeros(len(every))
            if k < model.order:
                logp[place] = model.levels[k].logp
                bow[place] = model.levels[k].bow if k < model.order - 1 else 0
            found.append(Probabilities(every, logp, bow))
    return [Backoff(vocab, order, found) for found in levels]


def renumbered(models, vocab):
    """The first of the models `aligned`. If one is large, n-grams with words that `vocab` lacks are left out."""
    if any(large(model, "renumber") for model in models):
        return rewriting.renumbered(models, vocab, [numbers(m, vocab).astype(np.int32) for m in models])
    return aligned(models, vocab)[0]


def merged(models, weights, own=False):
    """The static mixture sum_j weights[j] p_j of back-off models, all at once, with new back-off weights. own: as in
    `pruning.renormalized`.
    """
    vocab = united([model.vocab for model in models])
    if any(large(model, "merge") for model in models):
        ids = [numbers(m, vocab).astype(np.int32) for m in models]
        return told(*rewriting.merged(models, weights, vocab, ids, own))
    both = aligned(models, vocab)
    log10p, log10bow = (
        [[single(getattr(level, field)) for level in model.levels] for model in both] for field in ("logp", "bow")
    )
    W, mixed = len(both[0].vocab.words), []
    for k, (nodes, contexts) in enumerate(links(both[0].levels, W)):
        parts = (chance(backed_off(p, bow, nodes, contexts)) for p, bow in zip(log10p, log10bow, strict=True))
        with np.errstate(divide="ignore"):
            p = np.log10(sum(weight * part for weight, part in zip(weights, parts, strict=True))).astype(np.float32)
        known = ~np.isnan([part[k] for part in log10p]).all(axis=0)
        mixed.append(np.where(known, p, np.float32(np.nan)))
    return renormalized(with_logs(both[0], mixed, log10bow[0]))


def mixture(models, weights, own=False):
    """The static mixture of several models: the first two are merged, then the result and the third, and so on. own: as
    in `merged`.
    """
    whole, total = models[0], weights[0]
    for model, weight in zip(models[1:], weights[1:], strict=True):
        total += weight
        share = 1 - weight / total if weight else 1.0
        whole = merged([whole, model], [share, 1 - share], own)
    return whole


def limited(model, words):
    """The model without the n-grams that hold words other than `words`, <s>, </s> and the unknown word. Probabilities
    and weights stay.
    """
    old = model.vocab
    allowed = {*words, SOS, EOS, old.unk}
    stays = np.array([w in allowed for w in old.words])
    left = [w for w, stay in zip(old.words, stays) if stay]
    vocab = Vocab(left, int(stays[: old.V].sum()), old.unk)
    whole = sum(model.sizes) == sum(model.nodes.where[:, N])  # else bare prefixes may have to go too
    if whole and large(model, "renumber"):
        return renumbered([model], vocab)
    kept = []
    for k, level in enumerate(model.levels):
        inside = stays[level.keys % len(old.words)]
        kept.append(inside if k == 0 else inside & kept[-1][level.keys // len(old.words)])
    smaller = without(model, [k & ~np.isnan(level.logp) for k, level in zip(kept, model.levels, strict=True)])
    return renumbered([smaller], vocab)


def with_words(model, words, unk=False):
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
    none = np.zeros(len(new))
    more = Probabilities(np.array(sorted(vocab.index[w] for w in new), np.int64), none - np.inf, none)
    return renumbered([model, Backoff(vocab, 1, [more])], vocab)


def with_unknown(model, word):
    """The model with `word` for unknown words. The word that stood for them before becomes an ordinary word if it was
    predicted.
    """
    old = model.vocab
    words = [w for i, w in enumerate(old.words) if i < old.V or w != old.unk]
    vocab = Vocab(list(dict.fromkeys([*words, word])), old.V, word)
    return renumbered([replace(model, vocab=Vocab(old.words, old.V, word))], vocab)


def predicting(model, unknown):
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
