"""Back-off n-gram models (Katz 1987): what they hold, how they score."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.files.declared import ORDER, VOCABULARY, Array, held
from lmtk.lm import LN10, Scores
from lmtk.machine.threads import in_threads
from lmtk.ngram import kernels
from lmtk.ngram.counts import LARGE, values
from lmtk.text.corpus import contexts
from lmtk.text.vocab import Vocab, vocab_of, vocab_settings

SOME = 1 << 14  # tokens scored together: what is kept of them stays in a cache
PAYS = 2  # nodes for which a table pays, for each token scored
ZERO = -99.0  # what stands for the logarithm of 0


def natural(log10):
    """ln of numbers given as log10, -99 being log 0. They go through single precision, in which SRILM keeps them: the
    last digits of its reports depend on it.
    """
    logs = np.asarray(log10, np.float32).astype(np.float64)
    zero = logs == ZERO
    logs *= LN10
    return np.where(zero, -np.inf, logs) if zero.any() else logs


def decimal(logs):
    """log10 of natural logs in single precision, -99 for log 0: what the file holds."""
    return np.where(np.isneginf(logs), ZERO, logs / LN10).astype(np.float32) + np.float32(0)


def frozen(array):
    """The array as one that cannot be written, as those of a file are: kernels are compiled for one kind."""
    array = np.asarray(array).view()
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class Probabilities:
    """The n-grams of one order: keys (N,) as in `counts`; logp and bow (N,), natural; logp is nan in a bare prefix."""

    keys: np.ndarray
    logp: np.ndarray
    bow: np.ndarray

    @property
    def log10p(self):
        return decimal(self.logp)

    @property
    def log10bow(self):
        return decimal(self.bow)


class Decimal:
    """What has log10p and log10bow, in single precision: natural where that is asked for."""

    @cached_property
    def logp(self):
        return natural(self.log10p)

    @cached_property
    def bow(self):
        return natural(self.log10bow)


@dataclass(frozen=True)
class Stored(Decimal):
    """The same as a text file holds them, log10 in single precision."""

    keys: np.ndarray
    log10p: np.ndarray
    log10bow: np.ndarray


@dataclass(frozen=True)
class Packed(Decimal):
    """The same as a binary file holds them: `nodes`, as kernels.pack_nodes makes them, and those of the order below;
    W, the number of words.
    """

    above: np.ndarray
    nodes: np.ndarray
    W: int

    def logs(self, column):
        logs = self.nodes.view(np.float32)[:-1, column]
        return np.where(np.isneginf(logs), np.float32(ZERO), logs)

    @cached_property
    def keys(self):
        parent = np.repeat(np.arange(len(self.above) - 1), np.diff(self.above[:, 1]))
        return parent * self.W + self.nodes[:-1, 0]

    @cached_property
    def log10p(self):
        return self.logs(self.nodes.shape[1] // 2)

    @cached_property
    def log10bow(self):
        return self.logs(3) if self.nodes.shape[1] == 4 else np.zeros(len(self.nodes) - 1, np.float32)


@dataclass(frozen=True)
class Backoff:
    """p(w | c) is that of the n-gram c w where there is one, else bow(c) p(w | c without its oldest word)."""

    vocab: Vocab
    order: int
    levels: list

    def score(self, corpus):
        """ln p of every scored token; the tag is the length of the n-gram used."""
        score = self.score_large if len(corpus.ids) >= LARGE else self.score_small
        logp, tag = score(corpus)
        return Scores(logp, lambda t: f"[{tag[t]}gram]")

    def score_small(self, corpus):
        """(logp, tag): (N,) float64 and int8, 0 where a token is not scored."""
        at = np.flatnonzero(corpus.scored)
        rows, w = contexts(corpus, self.order)[at], corpus.ids[at]
        w = np.where(w < self.vocab.V, w, -1)
        logp, used = np.full(len(at), -np.inf), np.ones(len(at), np.int8)
        for k, nodes in enumerate(self.packed[1:], 1):
            # the node of w_(t-k+1) .. w_(t-1); the root, 0, stands for none of them
            node = np.zeros(len(at), np.int64)
            for j, column in enumerate(range(k - 2, -1, -1)):
                node = children(*self.packed[j : j + 2], node, rows[:, column])
            child = children(self.packed[k - 1], nodes, node, w)
            if k > 1:
                logp += values(self.packed[k - 1].view(np.float32)[:, 3], node, np.float32(0)).astype(np.float64) * LN10
            found = values(nodes.view(np.float32)[:, nodes.shape[1] // 2], child, np.float32(np.nan))
            here = ~np.isnan(found)
            logp[here], used[here] = found[here].astype(np.float64) * LN10, k
        whole, tag = np.zeros(len(corpus.ids)), np.zeros(len(corpus.ids), np.int8)
        whole[at], tag[at] = logp, used
        return whole, tag

    @cached_property
    def packed(self):
        """The root, then the nodes of each order, as kernels.pack_nodes makes them."""
        if all(isinstance(level, Packed) for level in self.levels):
            *nodes, last = (level.nodes for level in self.levels)
            last = last if last.shape[1] == 2 else np.ascontiguousarray(last[:, ::2])
            return [self.levels[0].above, *nodes, frozen(last)]
        packed = [np.zeros((2, 4), np.int32)]
        pack = kernels.pack_nodes if sum(len(level.keys) for level in self.levels) >= LARGE else pack_plain
        for k, level in enumerate(self.levels, 1):
            packed.append(np.zeros((len(level.keys) + 1, 4 if k < self.order else 2), np.int32))
            arrays = frozen(level.keys), len(self.vocab.words), frozen(level.log10p), frozen(level.log10bow)
            pack(*arrays, *packed[-2:], packed[-1].view(np.float32))
        return list(map(frozen, packed))

    @cached_property
    def tables(self):
        """Those of kernels.fill_table by order, made once enough was scored; at 0 how many tokens."""
        return {0: 0}

    def score_large(self, corpus):
        """`score_small` with kernels."""
        N, W, V = len(corpus.ids), len(self.vocab.words), self.vocab.V
        self.tables[0] += N
        for k, (above, nodes) in enumerate(pairwise(self.packed[1:]), 2):
            pays = PAYS * self.tables[0] > len(nodes) > 2 * len(above)  # else a search is as fast
            if pays and k not in self.tables:
                self.tables[k] = np.full(1 << (2 * len(nodes)).bit_length(), -1, np.int32)
                kernels.fill_table(above, nodes, self.tables[k])
        fresh = np.zeros(N + 1, bool)
        fresh[corpus.starts] = True
        words, logs = self.packed[1][:-1, 0], self.packed[1].view(np.float32)[:-1]
        word_node, word_logp = np.full(W, -1, np.int32), np.full(W, -np.inf)
        word_node[words] = np.arange(len(words))
        log10p = logs[:, logs.shape[1] // 2].astype(np.float64)
        word_logp[words] = np.where(np.isnan(log10p), -np.inf, log10p * LN10)
        word_logp[V:] = -np.inf
        packed = [(nodes, nodes.view(np.float32)) for nodes in self.packed[1:]]

        def score_some(begin):
            start, end = max(begin - self.order + 1, 0), min(begin + SOME, N)
            ids = corpus.ids[start:end]
            found = word_node[ids], word_logp[ids], np.ones(len(ids), np.int8)
            for k, (above, nodes) in enumerate(pairwise(packed), 2):
                table = self.tables.get(k, np.empty(0, np.int32))
                kernels.extend_ngrams(ids, fresh[start:end], V, k, *above, *nodes, table, *found)
            return [x[begin - start :] for x in found[1:]]

        parts = in_threads(score_some, range(0, N, SOME))
        logp, used = (np.concatenate(column) for column in zip(*parts))
        logp[~corpus.scored] = used[~corpus.scored] = 0
        return logp, used

    def lower(self, order):
        """The same model without its longer n-grams."""
        return Backoff(self.vocab, order, self.levels[:order])

    def describe(self):
        yield "kind", "back-off n-gram"
        yield "order", self.order
        for k, level in enumerate(self.levels, 1):
            yield f"{k}-grams", int((~np.isnan(level.logp)).sum())
        yield "predicted words |V|", self.vocab.V


def pack_plain(keys, W, log10p, log10bow, above, nodes, logs):
    """kernels.pack_nodes in numpy."""
    above[:, 1] = np.searchsorted(keys, np.arange(len(above)) * W)
    nodes[:-1, 0] = keys % W
    for column, log10 in zip(range(nodes.shape[1] // 2, nodes.shape[1]), (log10p, log10bow)):
        logs[:-1, column] = np.where(log10 == ZERO, -np.inf, log10)


def children(above, nodes, node, word):
    """The children of nodes (N,) of `above` with these words (N,), among `nodes`, the order below; -1 where there is
    none (or node or word is -1).
    """
    low, end = above[node, 1], above[np.where(node < 0, node, node + 1), 1]
    high = end
    while (low < high).any():
        middle = (low + high) >> 1
        less = (low < high) & (nodes[middle, 0] < word)
        low, high = np.where(less, middle + 1, low), np.where(less, high, np.minimum(middle, high))
    return np.where((low < end) & (nodes[low, 0] == word) & (word >= 0), low, -1)


SETTINGS = VOCABULARY | {"order": ORDER}  # of the binary form


def write_binary(out, model):
    """The binary form: the nodes as they are scored, with the log10 in single precision that an ARPA file holds."""
    container.write(out, "backoff", *to_arrays(model), model.vocab.words)


def to_arrays(model):
    """(settings, arrays) of the binary form."""
    arrays = {f"nodes{k}": nodes for k, nodes in enumerate(model.packed[1:], 1)}
    return {"order": model.order, **vocab_settings(model.vocab)}, arrays


def from_arrays(about, arrays, path):
    """The model in a binary file's arrays. Raises FormatError."""
    words, sizes = held(about, arrays, path, SETTINGS, holds)
    vocab = vocab_of(about["settings"], words, path)
    nodes = [frozen(arrays[f"nodes{k}"]) for k in range(1, sizes.order + 1)]
    root = frozen(np.array([[0, 0, 0, 0], [0, len(nodes[0]) - 1, 0, 0]], np.int32))
    levels = [Packed(above, below, len(words)) for above, below in pairwise([root, *nodes])]
    for k, level in enumerate(levels, 1):
        if (level.above[0, 1], level.above[-1, 1]) != (0, len(level.nodes) - 1):
            raise FormatError(path, f"its array nodes{k - 1} does not end where nodes{k} ends")
    return Backoff(vocab, sizes.order, levels)


def holds(sizes, size):
    """The arrays of the binary form. Where the children of each node are is not looked at: that would take a pass."""
    arrays = {}
    for k in range(1, sizes.order + 1):
        arrays[f"nodes{k}"] = Array("I32", (max(size(f"nodes{k}", 0), 1), 4 if k < sizes.order else 2))
    return arrays
