"""The probabilities p(h) of the contexts h of a back-off model, which pruning weighs its losses with.

They come from the model itself or from another model (`context_probabilities`), or from how often the n-grams occur
(`counted_times`, `times_in_texts` and then `log_shares`). log10 p(h) is an array for each order below the highest, in
order of the nodes. A Kneser-Ney model itself gives poor p(h) (Chelba et al. 2010).
"""

import numpy as np

from lmtk.files.bounded import zeros
from lmtk.lm import LN10
from lmtk.machine.jit import intrinsic, jit
from lmtk.machine.threads import map_in_order
from lmtk.ngram.counting.counts import find_rows
from lmtk.ngram.edit.renormalize import log10p_of_all
from lmtk.ngram.model.nodes import children_of
from lmtk.ngram.model.searching import find_batch
from lmtk.ngram.model.walking import fetch
from lmtk.text.corpus import sentences
from lmtk.text.vocab import SOS

BATCH = 256  # n-grams looked up together
prefetch, add_shared = intrinsic("prefetch"), intrinsic("add_shared")


def context_probabilities(model, history=None):
    """Return log10 p(h) of every context h of a model, an array for each order below the highest. p(h) is the
    probability of the n-gram h as a sequence of words, by the model `history`, or by the model itself. A first <s>
    counts as </s>, since a text has as many of both. Other words that the model does not predict are left out of the
    product. p(h) is 0 if h has a word outside the vocabulary of `history`.
    """
    vocab, levels, out = model.vocab, model.nodes.levels, [np.zeros(1, np.float32)]
    if history:
        ids = history.vocab.ids_of_words(vocab.words)
        lacking = np.array([w not in history.vocab.index and w != vocab.unk for w in vocab.words])
        by_history = lambda rows: (history.score(sentences(rows)).logp / LN10).astype(np.float32)
    for k in range(1, model.order):
        words = levels[k]["word"][:-1]
        # `history` scores all k words of each n-gram; every k-th score is that of a last word
        log10p = by_history(ids[model.nodes.rows(k)])[k - 1 :: k] if history else log10p_of_all(model, k)
        log10p[np.isneginf(log10p) & (words >= vocab.V)] = 0
        if k == 1:
            closing = by_history(np.array([[history.vocab.eos_id]])) if history else log10p[words == vocab.eos_id]
            log10p[words == vocab.sos_id] = closing[0] if len(closing) else -np.inf
        if history:
            log10p[lacking[words]] = -np.inf
        out.append(np.repeat(out[-1], np.diff(levels[k - 1]["child"])) + log10p)
    return out[1:]


def counted_times(words, parts, model, order):
    """(how often each n-gram of a model of up to `order` words occurs, an array for each order; the number of words).
    words, parts: the result of `counts.contexts_of`.
    """
    index = {word: i for i, word in enumerate(words)}
    ids = np.array([index.get(word, -1) for word in model.vocab.words], np.int64)
    total = sum(times[keys != index.get(SOS, -1)].sum() for (keys, times), *_ in parts)
    out = []
    for k in range(1, order + 1):
        rows, times = ids[model.nodes.rows(k)], np.zeros(model.nodes.size(k), np.int64)
        for part in (part for part in parts if len(part) >= k):
            node = find_rows([keys for keys, _ in part], rows, len(words))
            times += np.append(part[k - 1][1], 0)[node].astype(np.int64)  # node -1: 0
        out.append(times)
    return out, int(total)


def log_shares(times, total):
    """log10 p(h) of contexts h as their relative frequencies: the logarithms of times / total."""
    with np.errstate(divide="ignore"):
        return (np.log10(times) - np.log10(max(total, 1))).astype(np.float32)


def times_in_texts(model, corpora, order):
    """(how often each n-gram of a model of up to `order` words occurs in texts, an int64 array for each order; the
    number of words). corpora: Corpora in the vocabulary of the model.
    """
    nodes, unigrams = model.walk.nodes, model.walk.unigram
    base = np.cumsum([0, *map(nodes.size, range(1, order + 1))])
    times = zeros(base[-1], np.int64)

    def parts():
        is_continued = False
        for corpus in corpora:
            is_new = corpus.scored.copy()
            is_new[corpus.starts[is_continued:-1]] = True
            yield (corpus.ids, corpus.fresh, is_new), int(np.count_nonzero(corpus.scored))
            is_continued = corpus.goes_on

    def count(part):
        text, words = part
        count_contexts(nodes.trie, unigrams, text, times, base)
        return words

    total = sum(map_in_order(count, parts()))
    return np.split(times, base[1:-1]), total


@jit
def count_contexts(trie, unigrams, text, times, base):
    """Add to `times` how often each n-gram ends at a new token. Those of order k are times[base_(k-1): base_k].
    text: ids, whether each token is the first of a sentence, and which tokens are new. Other threads may add to `times`
    too. N-grams are found an order at a time, BATCH at once, so that their random reads overlap: three for each.
    """
    (memory, where, _, _), (ids, fresh, is_new) = trie, text
    end = unigrams[ids].astype(np.int64)  # the node of the last k words, -1 for none
    ats, words, nodes, lows, highs = np.empty((5, BATCH), np.int64)
    for k in range(1, len(base)):
        for stop in range(len(ids), 0, -BATCH):  # backwards, since end[t] needs the old end[t - 1]
            many = 0
            for t in range(stop - 1, max(stop - BATCH, 0) - 1, -1):
                if k > 1:
                    end[t] = end[t - 1] if t and not fresh[t] else -1
                if end[t] >= 0:
                    ats[many], words[many], nodes[many] = t, ids[t], end[t]
                    fetch(memory, where, k - 1, end[t])
                    many += 1
            if k > 1:
                for j in range(many):
                    lows[j], highs[j] = children_of(memory, where, k - 1, nodes[j])
                find_batch(trie, k, words, lows, highs, nodes, many)
            for j in range(many):
                prefetch(times, base[k - 1] + nodes[j])
            for j in range(many):
                end[ats[j]] = nodes[j]
                if nodes[j] >= 0 and is_new[ats[j]]:
                    add_shared(times, base[k - 1] + nodes[j], 1)
