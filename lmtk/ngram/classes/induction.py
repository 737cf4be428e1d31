"""Groups words into classes so that a class bigram model makes the text most likely.

The model is p(w | v) = p(g_w | g_v) p(w | g_w), where g_w is the class of w and each p is a relative frequency. Two
methods start from the bigram counts of a text: exchange moves single words between a fixed number of classes (Kneser
and Ney 1993; Martin, Liermann, Ney 1998, "Algorithms for bigram and trigram word clustering", section 3), and merging
joins the two classes that cost least until enough are left (Brown et al. 1992). `name_classes` names the classes.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from lmtk.errors import LmtkError, shown
from lmtk.machine.threads import map_at_once
from lmtk.ngram.classes import kernels
from lmtk.ngram.classes.files import class_names, replaced
from lmtk.ngram.counting.counts import Counts, from_rows
from lmtk.text.vocab import EOS, SOS, UNK

TABLE = 1 << 22  # x ln x is looked up for counts x below
TOGETHER = 1 << 10  # words that a call of `exchange` takes: an interrupt waits for the end of the call
STEPS = 1 << 26  # pairs of classes that a call of `agglomerate` goes over, for the same reason


@dataclass(frozen=True)
class Bigrams:
    """v, w, count (B,): bigrams of words (ids) and their counts; uses (W,): how often each word was seen."""

    words: list
    v: np.ndarray
    w: np.ndarray
    count: np.ndarray
    uses: np.ndarray


def bigrams(counts):
    """The Bigrams of Counts; without counts of 1-grams, uses come from bigrams. Raises LmtkError above 2^31 bigrams."""
    W, (first, second) = len(counts.words), counts.levels[:2]
    key, count = second.keys[second.count > 0], second.count[second.count > 0]
    v, w, uses = first.keys[key // W], key % W, np.zeros(W, np.int64)
    uses[first.keys] = first.count
    if not uses.any():
        uses = np.maximum(np.bincount(v, count, W), np.bincount(w, count, W)).astype(np.int64)
    if count.sum() >= 1 << 31:
        raise LmtkError("more than 2^31 bigrams; use less text")
    return Bigrams(counts.words, v, w, count, uses)


def by_use(data, words):
    """Sort words (ids) by falling count, then by bytes."""
    return np.array(sorted(words, key=lambda w: (-data.uses[w], data.words[w])), np.int64)


def frequency_classes(data, words, G, seed=None):
    """The classes (W,) with which the exchange starts, for `words` by falling frequency; -1 for other words. The first
    G - 1 get a class each; the others share the last class or, with a seed, are spread over all classes at random.
    """
    g = np.full(len(data.words), -1, np.int32)
    g[words] = np.minimum(np.arange(len(words)), G - 1)
    if seed is not None:
        g[words[G:]] = np.random.default_rng(seed).integers(0, G, len(words[G:]))
    return g


def given_classes(data, words, classes, path):
    """The classes with which the exchange starts, (W,), from a class file; -1 for words not in `words`. Raises
    LmtkError if one of `words` has no class.
    """
    if (alone := next((data.words[w] for w in words if data.words[w] not in classes), None)) is not None:
        raise LmtkError(f"{path}: no class for the word {shown(alone)}; list words without a class in -noclass-vocab")
    g = np.full(len(data.words), -1, np.int32)
    g[words] = class_numbers(data, classes)[words]
    return g


def class_numbers(data, classes):
    """The number of each word's class, in the order of the classes, (W,); -1 for none."""
    place = {name: c for c, name in enumerate(class_names(classes))}
    return np.array([place[classes[w][0]] if w in classes else -1 for w in data.words], np.int32)


class Exchange:
    """The state of the exchange: the arrays of the table in `kernels`; neighbours: start, word, count, repeats. order:
    the words that may move, in turn. fixed: the term of the log likelihood that no move changes. It begins with the
    classes g (W,). A word of the bigrams without a class, -1, gets its own, after the G others.
    """

    def __init__(self, data, g, G, order):
        self.g, C = numbered(data, g, G)
        self.order, self.G, self.neighbours = order, G, neighbours(data)
        cells = self.g[data.v].astype(np.int64) * C + self.g[data.w]
        self.N = np.bincount(cells, data.count, C * C).astype(np.int32).reshape(C, C)
        self.M, self.n = self.N.T.copy(), np.stack((self.N.sum(axis=1), self.N.sum(axis=0)))
        self.f = xlogx(np.arange(min(TABLE, int(data.count.sum()) + 1), dtype=np.float64))
        self.fixed = float(xlogx(np.bincount(data.w, data.count)).sum())


def neighbours(data):
    """Return the arrays start, word, count and repeats of the table in `kernels`."""
    W = len(data.words)
    is_repeat = data.v == data.w
    repeats = np.bincount(data.v[is_repeat], data.count[is_repeat], W).astype(np.int32)
    v, w, count = data.v[~is_repeat], data.w[~is_repeat], data.count[~is_repeat]
    start, word, counts = np.zeros((2, W + 1), np.int64), *np.empty((2, 2, len(v)), np.int32)
    for i, (from_, to) in enumerate(((v, w), (w, v))):
        np.cumsum(np.bincount(from_, minlength=W), out=start[i, 1:])
        order = np.argsort(from_, kind="stable")
        word[i], counts[i] = to[order], count[order]
    return start, word, counts, repeats


def numbered(data, g, G):
    """Give each word of the bigrams without a class (-1) a class of its own, from G on: (g, the number of classes)."""
    g = g.copy()
    alone = np.union1d(data.v[g[data.v] < 0], data.w[g[data.w] < 0])
    g[alone] = np.arange(G, G + len(alone))
    return g, G + len(alone)


def xlogx(x):
    return x * np.log(np.maximum(x, 1))


def passes(state, iterations=None, threads=1):
    """Exchanges until no word moves, or for `iterations` passes. After every TOGETHER words, and at the end of each
    pass, yields the share of the pass that is done and the number of words that moved in it so far. After the first
    pass, several threads first find those of TOGETHER words that are not in their best class; only these get a turn.
    The exchange still ends only when no single word would move.
    """
    arrays = state.g, state.G, state.neighbours, (state.N, state.M, state.n, state.f)
    for number in itertools.count() if iterations is None else range(iterations):
        moved = 0
        for at in range(0, len(state.order), TOGETHER):
            words = state.order[at : at + TOGETHER]
            if threads > 1 and number:
                best = np.empty_like(words)
                parts = zip(np.array_split(words, threads), np.array_split(best, threads))
                map_at_once(lambda part: kernels.find_best_classes(part[0], *arrays, part[1]), parts, threads)
                words = words[best != state.g[words]]
            moved += kernels.exchange(words, *arrays)
            yield min((at + TOGETHER) / len(state.order), 1), moved
        if not moved:
            break


def tables_of(data, order, room):
    """(R, forest, tables) of `kernels.agglomerate` before the first class, with room for `room` of them. Words (ids)
    not in `order` have classes of their own, which are not merged.
    """
    g = np.full(len(data.words), -1, np.int32)
    g[order] = 0
    g, R = numbered(data, g, 1)
    C = R + room
    N = np.zeros((C, C), np.int32)
    np.add.at(N, (g[data.v], g[data.w]), data.count.astype(np.int32))
    f = xlogx(np.arange(int(data.count.sum()) + 1, dtype=np.float64))
    S = f[N].sum(axis=0) + f[N].sum(axis=1)
    forest = np.arange(len(g), dtype=np.int32), g, np.zeros(C, np.int64)
    return R, forest, (N, np.zeros((2, C), np.int64), S, np.zeros((C, C)), f)


def mergers(data, order, window, G, every=0):
    """Merge classes as in Brown et al. 1992: the words `order` come in turn, two of each window + 1 classes are
    merged, and at the end classes are merged until G are left. A window of all words tries all pairs.

    After each call of the kernel, and with `every` after so many mergers, yields the share of the work that is done,
    and the pairs of words whose classes were merged so far, (m, 2): each stands for its class, then the first for both.
    """
    tallest = min(window, len(order))
    sizes = np.concatenate((np.minimum(np.arange(len(order)), window), np.arange(tallest, G, -1)))
    pairs = np.concatenate(([0], np.cumsum(sizes.astype(np.float64) ** 2)))  # of classes, gone over before each step
    R, forest, tables = tables_of(data, order, tallest + 1)
    K, m, done, merged, near = R, 0, 0, np.zeros((len(data.words), 2), np.int64), neighbours(data)
    while done < len(sizes):
        end = max(np.searchsorted(pairs, pairs[done] + STEPS), done + 1)
        if every:
            end = min(end, tallest + (max(done - tallest, 0) // every + 1) * every)
        end = min(end, len(order) if done < len(order) else len(sizes))
        most = window if done < len(order) else G + len(sizes) - end
        K, m = kernels.agglomerate(order[done:end], (most, R, K), forest, near, tables, merged, m)
        done = end
        yield pairs[done] / pairs[-1], merged[:m]


def classes_as_words(data, g, G):
    """The Bigrams of the G classes g (W,) in place of words. Words without a class, -1, are classes of their own."""
    g, C = numbered(data, g, G)
    key, inverse = np.unique(g[data.v].astype(np.int64) * C + g[data.w], return_inverse=True)
    count = np.bincount(inverse, data.count).astype(np.int64)
    uses = np.bincount(g[g >= 0], data.uses[g >= 0], C).astype(np.int64)
    return Bigrams([b"%08d" % c for c in range(C)], key // C, key % C, count, uses)


def merged_classes(merged, order, merged_id, words):
    """The class (W,) of each of `words` after the mergers of `order`, numbered by their first words in `order`; other
    words: -1. merged_id[w]: the id that stood for word w in the mergers.
    """
    root = np.arange(order.max() + 1)
    root[merged[:, 1]] = merged[:, 0]
    while (root != root[root]).any():
        root = root[root]
    number = {w: c for c, w in enumerate(dict.fromkeys(root[order].tolist()))}
    g = np.full(len(merged_id), -1, np.int32)
    g[words] = [number[w] for w in root[merged_id[words]].tolist()]
    return g


def paths(data, classes):
    """{class: the string of 0 and 1 that leads to it in the tree of mergers, which go on down to one class}."""
    names = class_names(classes)
    G = len(names)
    *_, (_, merged) = mergers(classes_as_words(data, class_numbers(data, classes), G), np.arange(G), G, 1)
    path_of = [b""] * G
    for a, b in merged[::-1].tolist():
        path_of[b] = path_of[a] + b"1"
        path_of[a] += b"0"
    return dict(zip(names, path_of))


def write_paths(out, data, classes):
    """Write a line for each word, "PATH WORD COUNT" with tabs: the path of its class, the word, how often it was seen;
    by paths, then falling counts, then bytes.
    """
    path = paths(data, classes)
    uses = dict(zip(data.words, data.uses.tolist()))
    rows = sorted((path[c], -uses[word], word) for word, (c, _) in classes.items())
    out.writelines(b"%s\t%s\t%d\n" % (bits, word, -count) for bits, count, word in rows)


def log_likelihood(state):
    """ln p of the text by the class model: the sum over bigrams of ln p of the second word given the first."""
    return float(xlogx(state.N[state.N > 0].astype(np.float64)).sum() - xlogx(state.n).sum()) + state.fixed


def name_classes(data, g, G, unseen=(), unk=UNK):
    """The classes of the words whose class g (W,) is from 0 to G - 1, by falling use. Classes without words are left
    out.

    `unseen` words get the class of rare words: the class of `unk`, or else the one with most words of the lowest count.
    In a text of N words, T of them different, their share is T / (N + T), in equal parts (Witten and Bell, method C).
    It is taken from the other words of the class, and is never more than half of the class.
    """
    seen = np.flatnonzero((g >= 0) & (g < G))
    used = data.uses[seen]
    uses = np.bincount(g[seen], used, G)
    share = np.zeros(G)
    if len(unseen):
        rare = next((g[w] for w in seen if data.words[w] == unk), None)
        if rare is None:
            rare = np.bincount(g[seen[used == used.min()]], minlength=G).argmax()
        N, T = used.sum(), len(seen)
        share[rare] = min(T / (N + T) * N / uses[rare], 0.5)
    number = np.argsort(np.argsort(-uses, kind="stable"))
    name = [b"CLASS-%05d" % (c + 1) for c in number]
    seen = seen[np.argsort(number[g[seen]], kind="stable")]
    classes = {data.words[w]: (name[g[w]], data.uses[w] / uses[g[w]] * (1 - share[g[w]])) for w in seen.tolist()}
    return classes | {data.words[w]: (name[rare], share[rare] / len(unseen)) for w in unseen}


def class_counts(data, classes):
    """The Counts of 1-grams and 2-grams of classes, and of the words that have none."""
    words = list(dict.fromkeys((SOS, EOS, UNK, *data.words)))
    index = {w: i for i, w in enumerate(words)}
    names, name_id = replaced(words, classes)
    name_id = name_id[[index[w] for w in data.words]]
    rows = [name_id[:, None], np.column_stack((name_id[data.v], name_id[data.w]))]
    return Counts(names, from_rows(rows, [data.uses, data.count], len(names)))
