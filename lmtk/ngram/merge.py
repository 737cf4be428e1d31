"""Back-off models over other words: the static mixture of two models, and a model cut to a vocabulary.

The static mixture is a back-off model again. Its n-grams are those of both models, each with the mixture's probability
exactly; but an n-gram that neither of them has is estimated by back-off, and that is not the mixture of the two
estimates. The mixture that is exact for every word is `lmtk.joint.mixture`.
"""

from dataclasses import replace

import numpy as np

from lmtk.ngram.backoff import Backoff, Probabilities
from lmtk.ngram.pruning import backed_off, chance, links, renormalized, single, with_logs, without
from lmtk.text.vocab import EOS, SOS, Vocab


def united(vocabs):
    """A Vocab of the words that any of several predicts; the first says which word stands for unknown ones."""
    first = vocabs[0]
    predicted = dict.fromkeys(name(v, w, first) for v in vocabs for w in v.words[: v.V])
    others = dict.fromkeys(name(v, w, first) for v in vocabs for w in v.words[v.V :])
    return Vocab([*predicted, *(w for w in others if w not in predicted)], len(predicted), first.unk)


def name(vocab, word, first):
    """The word as the vocabulary `first` has it: both may stand for unknown words under names of their own."""
    return first.unk if word == vocab.unk else word


def aligned(models, vocab):
    """The models over the n-grams of all of them and the ids of `vocab`: the same keys in each; what a model lacks is a
    bare prefix in it. `vocab` has every word that stands in an n-gram.
    """
    W, order = len(vocab.words), max(model.order for model in models)
    ids = [np.array([vocab.index.get(name(m.vocab, w, vocab), -1) for w in m.vocab.words], np.int64) for m in models]
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


def merged(first, second, weight):
    """The static mixture weight p_first + (1 - weight) p_second of two back-off models."""
    both = aligned([first, second], united([first.vocab, second.vocab]))
    log10p, log10bow = (
        [[single(getattr(level, field)) for level in model.levels] for model in both] for field in ("logp", "bow")
    )
    W, mixed = len(both[0].vocab.words), []
    for k, (nodes, contexts) in enumerate(links(both[0].levels, W)):
        a, b = (chance(backed_off(p, bow, nodes, contexts)) for p, bow in zip(log10p, log10bow, strict=True))
        with np.errstate(divide="ignore"):
            p = np.log10(weight * a + (1 - weight) * b).astype(np.float32)
        known = ~np.isnan(log10p[0][k]) | ~np.isnan(log10p[1][k])
        mixed.append(np.where(known, p, np.float32(np.nan)))
    return renormalized(with_logs(both[0], mixed, log10bow[0]))


def mixture(models, weights):
    """The static mixture of several models: the first two are merged, then the next with the result, and so on."""
    whole, total = models[0], weights[0]
    for model, weight in zip(models[1:], weights[1:], strict=True):
        total += weight
        whole = merged(whole, model, 1 - weight / total if weight else 1.0)
    return whole


def limited(model, words, unk=False):
    """The model without the n-grams that hold other words than `words` and the special ones, weights made anew.

    Listed words that the model lacks become words of it, and so does the unknown word with `unk`: they share what the
    dropped 1-grams leave; where there are none, all words do.
    """
    old = model.vocab
    special = {SOS, EOS, old.unk}
    allowed = {*words, *special}
    stays = np.array([w in allowed for w in old.words])
    kept = []
    for k, level in enumerate(model.levels):
        inside = stays[level.keys % len(old.words)]
        kept.append(inside if k == 0 else inside & kept[-1][level.keys // len(old.words)])
    new = dict.fromkeys(w for w in words if w not in special and not old.predicts(w))
    if unk and not old.predicts(old.unk):
        new[old.unk] = None
    predicted = [w for w in old.words[: old.V] if w in allowed] + list(new)
    others = [w for w in old.words[old.V :] if w in special and w not in new]
    vocab = Vocab(predicted + others, len(predicted), old.unk)
    smaller = without(model, [k & ~np.isnan(level.logp) for k, level in zip(kept, model.levels, strict=True)])
    none = np.zeros(len(new))
    zeros = Probabilities(np.array([vocab.index[w] for w in new], np.int64), none - np.inf, none)
    whole, added = aligned([smaller, Backoff(vocab, 1, [zeros])], vocab)
    first = whole.levels[0]
    logp = np.where(np.isnan(first.logp), added.levels[0].logp, first.logp)
    return renormalized(replace(whole, levels=[replace(first, logp=logp), *whole.levels[1:]]))


def with_unknown(model, word):
    """The model with `word` for unknown words; what stood for them becomes an ordinary word if it is predicted."""
    old = model.vocab
    words = [w for i, w in enumerate(old.words) if i < old.V or w != old.unk]
    vocab = Vocab(list(dict.fromkeys([*words, word])), old.V, word)
    return aligned([replace(model, vocab=Vocab(old.words, old.V, word))], vocab)[0]
