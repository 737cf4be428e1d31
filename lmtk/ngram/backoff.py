"""Back-off n-gram models (Katz 1987): what they hold, how they score."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.files.declared import ORDER, VOCABULARY, Array, held
from lmtk.lm import LN10, UNKNOWN, Scores
from lmtk.machine.large import pays
from lmtk.machine.threads import in_threads
from lmtk.ngram.nodes import (
    BLOCK,
    NARROW,
    WIDE,
    ZERO,
    Nodes,
    columns,
    extend,
    extend_plain,
    frozen,
    handle,
    of_arrays,
    pack,
    tables,
)
from lmtk.text.vocab import Vocab, vocab_of, vocab_settings

PAYS = 128  # numbers in the nodes for which tables pay, for each token scored


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
    """The same as order k of `nodes` holds them; W, the number of words."""

    nodes: Nodes
    k: int
    W: int

    def logs(self, column):
        logs = self.nodes.levels[self.k][column][:-1]
        return np.where(np.isneginf(logs), np.float32(ZERO), logs)

    @cached_property
    def keys(self):
        return self.nodes.keys(self.k, self.W)

    @cached_property
    def log10p(self):
        return self.logs("log10p")

    @cached_property
    def log10bow(self):
        if self.k == self.nodes.order:
            return np.zeros(self.nodes.size(self.k), np.float32)
        return self.logs("log10bow")


@dataclass(frozen=True)
class Walk:
    """What scoring needs of a model: its nodes; node (W,) int32 and logp (W,), the 1-gram of each word, -1 for none,
    and its logarithm; V and `single` as in `nodes.extend`.
    """

    nodes: Nodes
    node: np.ndarray
    logp: np.ndarray
    V: int
    single: bool = False

    def __call__(self, ids, fresh):
        """(logp, used) of tokens (N,), as `nodes.extend` has them; fresh (N,): nothing before a token counts."""
        N = len(ids)
        if not pays("ngrams", N):
            return self.some(ids, fresh)
        found = self.found if len(self.nodes.memory) < N * PAYS else NO_TABLES

        def some(begin):
            start, end = max(begin - self.nodes.order + 1, 0), min(begin + BLOCK, N)
            logp, used = self.some(ids[start:end], fresh[start:end], found)
            return logp[begin - start :], used[begin - start :]

        logp, used = zip(*in_threads(some, range(0, N, BLOCK)))
        return np.concatenate(logp), np.concatenate(used)

    def some(self, ids, fresh, found=None):
        """The same of a few tokens: with tables `found` by the kernel."""
        node, logp, used = self.node[ids], self.logp[ids], np.ones(len(ids), np.int8)
        fresh = fresh.copy()
        fresh[:1] = True
        nodes, rest = self.nodes, (ids, fresh, self.V, self.single, node, logp, used)
        if found:
            extend(nodes.memory, nodes.logs, nodes.where, *found, *rest)
        else:
            extend_plain(nodes, *rest)
        return logp, used

    def handle(self, found):
        """As `nodes.handle` has it; the walk has to outlive it."""
        return handle(self.nodes, self.node, self.logp, *found)

    @cached_property
    def found(self):
        """The tables, made when a text pays for them."""
        return tables(self.nodes)


NO_TABLES = frozen(np.empty(0, np.int32)), frozen(np.zeros((100, 2), np.int64))


@dataclass(frozen=True)
class Backoff:
    """p(w | c) is that of the n-gram c w where there is one, else bow(c) p(w | c without its oldest word)."""

    vocab: Vocab
    order: int
    levels: list

    def score(self, corpus):
        """ln p of every scored token; the length is that of the n-gram used, UNKNOWN for a word without a 1-gram."""
        logp, used = self.walk(corpus.ids, corpus.fresh)
        if len(self.bare):
            used[np.isin(corpus.ids, self.bare)] = UNKNOWN
        logp[~corpus.scored] = used[~corpus.scored] = 0
        return Scores(logp, used[:, None])

    @cached_property
    def nodes(self):
        """The n-grams as they are stored."""
        first = self.levels[0]
        if isinstance(first, Packed) and all(isinstance(x, Packed) and x.nodes is first.nodes for x in self.levels):
            return first.nodes.lower(self.order)
        return pack(self.levels, len(self.vocab.words), pays("ngrams", sum(len(x.keys) for x in self.levels)))

    @cached_property
    def bare(self):
        """The ids of words that are predicted, but have no 1-gram."""
        first = self.nodes.levels[1]
        word = first["word"][:-1]
        return word[np.isnan(first["log10p"][:-1]) & (word < self.vocab.V)]

    @cached_property
    def walk(self):
        """ln p, -inf for a word that is not predicted."""
        W, first = len(self.vocab.words), self.nodes.levels[1]
        node, logp = unigrams(self.nodes, W), np.full(W, -np.inf)
        log10p = first["log10p"][:-1].astype(np.float64)
        logp[first["word"][:-1]] = np.where(np.isnan(log10p), -np.inf, log10p * LN10)
        logp[self.vocab.V :] = -np.inf
        return Walk(self.nodes, node, logp, self.vocab.V)

    def lower(self, order):
        """The same model without its longer n-grams."""
        return Backoff(self.vocab, order, self.levels[:order])

    def describe(self):
        yield "kind", "back-off n-gram"
        yield "order", self.order
        for k, level in enumerate(self.levels, 1):
            yield f"{k}-grams", int((~np.isnan(level.logp)).sum())
        yield "predicted words |V|", self.vocab.V


def unigrams(nodes, W):
    """(W,) int32: the 1-gram of each word, -1 for none. Raises FormatError where a 1-gram has no word."""
    words = nodes.levels[1]["word"][:-1]
    if words.min(initial=0) < 0 or words.max(initial=0) >= W:
        raise FormatError(nodes.path, "damaged: 1-grams of words that it does not have")
    found = np.full(W, -1, np.int32)
    found[words] = np.arange(len(words))
    return found


SETTINGS = VOCABULARY | {"order": ORDER}  # of the binary form


def write_binary(out, model, compact=False, bits=0):
    """The binary form: the nodes as they are scored, with the log10 in single precision that an ARPA file holds; or
    that of `compact.write`, which `bits` ask for too.
    """
    if compact or bits:
        from lmtk.ngram.compact import write

        write(out, model, bits)
        return
    container.write(out, "backoff", *to_arrays(model), model.vocab.words)


def to_arrays(model):
    """(settings, arrays) of the binary form."""
    arrays = {f"nodes{k}": columns(nodes) for k, nodes in enumerate(model.nodes.levels[1:], 1)}
    return {"order": model.order, **vocab_settings(model.vocab)}, arrays


def from_arrays(about, arrays, path):
    """The model in a binary file's arrays. Raises FormatError."""
    words, sizes = held(about, arrays, path, SETTINGS, holds)
    vocab = vocab_of(about["settings"], words, path)
    nodes = of_arrays([arrays[f"nodes{k}"] for k in range(1, sizes.order + 1)], path)
    for k, (above, level) in enumerate(pairwise(nodes.levels)):
        if (above["child"][0], above["child"][-1]) != (0, len(level) - 1):
            raise FormatError(path, f"its array nodes{k} does not end where nodes{k + 1} ends")
    unigrams(nodes, len(words))
    return Backoff(vocab, sizes.order, [Packed(nodes, k, len(words)) for k in range(1, sizes.order + 1)])


def holds(sizes, size):
    """The arrays of the binary form. Where the children of each node are is not looked at: that would take a pass."""
    arrays = {}
    for k in range(1, sizes.order + 1):
        arrays[f"nodes{k}"] = Array("I32", (max(size(f"nodes{k}", 0), 1), WIDE if k < sizes.order else NARROW))
    return arrays
