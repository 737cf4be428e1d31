"""Back-off n-gram models (Katz 1987): what they hold, how they score."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.lm import LN10, Scores
from lmtk.ngram import kernels
from lmtk.ngram.counts import LARGE, find, values
from lmtk.text.corpus import contexts
from lmtk.text.vocab import Vocab, vocab_of, vocab_settings
from lmtk.threads import in_threads

SOME = 1 << 14  # tokens scored together: what is kept of them stays in a cache
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


@dataclass(frozen=True)
class Stored:
    """The same as a file holds them, log10 in single precision; natural where that is asked for."""

    keys: np.ndarray
    log10p: np.ndarray
    log10bow: np.ndarray

    @cached_property
    def logp(self):
        return natural(self.log10p)

    @cached_property
    def bow(self):
        return natural(self.log10bow)


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
        rows, w, W = contexts(corpus, self.order)[at], corpus.ids[at], len(self.vocab.words)
        w = np.where(w < self.vocab.V, w, -1)
        logp, used = np.full(len(at), -np.inf), np.ones(len(at), np.int8)
        for k, level in enumerate(self.levels, 1):
            # the node of w_(t-k+1) .. w_(t-1); the root, 0, stands for none of them
            node = np.zeros(len(at), np.int64)
            for below, column in zip(self.levels, range(k - 2, -1, -1)):
                node = find(below.keys, node, rows[:, column], W)
            child = find(level.keys, node, w, W)
            if k > 1:
                logp += values(self.levels[k - 2].bow, node, 0)
            found = values(level.logp, child, np.nan)
            here = ~np.isnan(found)
            logp[here], used[here] = found[here], k
        whole, tag = np.zeros(len(corpus.ids)), np.zeros(len(corpus.ids), np.int8)
        whole[at], tag[at] = logp, used
        return whole, tag

    @cached_property
    def packed(self):
        """The root, then the nodes of each order, as kernels.pack_nodes makes them, one more at the end: (N + 1, 4)."""
        packed = [np.zeros((2, 4), np.int32)]
        for level in self.levels:
            packed.append(np.zeros((len(level.keys) + 1, 4), np.int32))
            logs = frozen(level.log10p), frozen(level.log10bow)
            kernels.pack_nodes(
                frozen(level.keys), len(self.vocab.words), *logs, *packed[-2:], packed[-1].view(np.float32)
            )
        return packed

    def score_large(self, corpus):
        """`score_small` with kernels."""
        N, W, V = len(corpus.ids), len(self.vocab.words), self.vocab.V
        fresh = np.zeros(N + 1, bool)
        fresh[corpus.starts] = True
        words = self.levels[0]
        word_node, word_logp = np.full(W, -1, np.int32), np.full(W, -np.inf)
        word_node[words.keys] = np.arange(len(words.keys))
        word_logp[words.keys] = np.where(np.isnan(words.logp), -np.inf, words.logp)
        word_logp[V:] = -np.inf
        packed = [(nodes, nodes.view(np.float32)) for nodes in self.packed[1:]]

        def score_some(begin):
            start, end = max(begin - self.order + 1, 0), min(begin + SOME, N)
            ids = corpus.ids[start:end]
            found = word_node[ids], word_logp[ids], np.ones(len(ids), np.int8)
            for k, (above, nodes) in enumerate(pairwise(packed), 2):
                kernels.extend_ngrams(ids, fresh[start:end], V, k, *above, *nodes, *found)
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


def write_binary(out, model):
    """The binary form: keys as they are, logs as the log10 in single precision that an ARPA file holds."""
    container.write(out, "backoff", *to_arrays(model), model.vocab.words)


def to_arrays(model):
    """(settings, arrays) of the binary form."""
    arrays = {}
    for k, level in enumerate(model.levels, 1):
        arrays |= {f"keys{k}": level.keys, f"log10p{k}": level.log10p, f"log10bow{k}": level.log10bow}
    return {"order": model.order, **vocab_settings(model.vocab)}, arrays


def from_arrays(about, arrays, path):
    """The model in a binary file's arrays. Raises FormatError."""
    try:
        settings = about["settings"]
        vocab = vocab_of(settings, container.words_of(arrays))
        names = ("keys", "log10p", "log10bow")
        levels = [Stored(*(arrays[f"{name}{k}"] for name in names)) for k in range(1, settings["order"] + 1)]
        if any(not len(level.keys) == len(level.log10p) == len(level.log10bow) for level in levels):
            raise ValueError
        return Backoff(vocab, len(levels), levels)
    except (KeyError, TypeError, ValueError, IndexError):
        raise FormatError(path, "not a whole back-off model: its arrays do not fit together") from None
