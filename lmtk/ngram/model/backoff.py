"""The back-off n-gram model (Katz 1987) that the rest of lmtk uses.

A `Backoff` is a vocabulary and the nodes of `nodes`. It scores texts through its `Walk`, which has the arrays that the
kernels of `walking` take; `ngrams` lists its n-grams. `write_binary` and `from_arrays` write and read the binary form:
the nodes as they are scored, so that a mapped file needs no conversion.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from lmtk.errors import FormatError, LmtkError
from lmtk.files import container
from lmtk.files.column import as_matrix
from lmtk.files.declared import MAX_ORDER, ORDER, VOCABULARY, Array, check_contents
from lmtk.lm import LN10, UNKNOWN, Scores
from lmtk.machine.large import pays
from lmtk.machine.threads import map_at_once
from lmtk.ngram.model.building import finish
from lmtk.ngram.model.nodes import LAST, NARROW, PLACE, WIDE, Nodes, allocate, find_unigrams, memory_of, wrap_records
from lmtk.ngram.model.searching import add_tables
from lmtk.ngram.model.walking import find_context_nodes, walk, walk_plain
from lmtk.text.vocab import Vocab, vocab_of, vocab_settings

BLOCK = 1 << 16  # tokens that a thread scores at once


@dataclass(frozen=True)
class Walk:
    """Scores texts. unigram, log10p_1: as in `walking`; V and kenlm: as in `walking.walk`."""

    nodes: Nodes
    unigram: np.ndarray
    log10p_1: np.ndarray
    V: int
    kenlm: bool = False

    def __call__(self, ids, fresh):
        """Score the tokens ids (N,): log10p (N,) float32, and used (N,) int8, the length of the n-gram that gave
        log10p. fresh (N,): whether a token has no context; True for the first.
        """
        N = len(ids)
        if not pays("ngrams", N, "score"):
            return walk_plain(self.nodes, self.unigram, self.log10p_1, self.V, self.kenlm, ids, fresh)
        log10p, used = np.empty(N, np.float32), np.empty(N, np.int8)

        def score_block(first):
            # a block begins with the last words of the block before it, as contexts
            begin, end = max(first - self.nodes.order + 1, 0), min(first + BLOCK, N)
            p, length = np.empty(end - begin, np.float32), np.empty(end - begin, np.int8)
            walk(self.arrays, self.V, self.kenlm, ids[begin:end], fresh[begin:end], p, length)
            log10p[first:end], used[first:end] = p[first - begin :], length[first - begin :]

        map_at_once(score_block, range(0, N, BLOCK))
        return log10p, used

    @cached_property
    def arrays(self):
        """The arrays that the kernels of `walking` take. Raises LmtkError for an order above MAX_ORDER."""
        if (order := self.nodes.order) > MAX_ORDER:
            raise LmtkError(f"the order {order} is too high; lmtk scores with models up to order {MAX_ORDER}")
        return self.nodes.trie, self.nodes.logs, self.nodes.far, self.unigram, self.log10p_1


@dataclass(frozen=True)
class Backoff:
    """A back-off model: p(w | c) is the probability of the n-gram c w if the model has that n-gram, else
    bow(c) p(w | c without its oldest word). number (W,): KenLM's number of each word in a model's KenLM file, or None.
    """

    vocab: Vocab
    nodes: Nodes
    number: np.ndarray | None = None

    @property
    def order(self):
        return self.nodes.order

    def ngrams(self, k):
        """(rows (N, k) int32, log10 p (N,), log10 of the back-off weights (N,)) of the n-grams of order k, sorted by
        their rows, which are word ids. -inf is the logarithm of 0; a log10 p of nan marks a bare prefix, which has no
        probability of its own. Raises FormatError if the nodes of a file are damaged.
        """
        level = self.nodes.checked_levels(len(self.vocab.words))[k][:-1]
        log10bow = level["log10bow"] if k < self.order else np.zeros(len(level), np.float32)
        return self.nodes.rows(k), level["log10p"], log10bow

    def score(self, corpus):
        """Score a Corpus: ln p of every scored token, computed from log10 p in single precision, and the length of the
        n-gram that gave it, UNKNOWN for a word without a 1-gram.
        """
        log10p, used = self.walk(corpus.ids, corpus.fresh)
        if len(self.bare):
            used[np.isin(corpus.ids, self.bare)] = UNKNOWN
        log10p[~corpus.scored] = used[~corpus.scored] = 0
        return Scores(log10p.astype(np.float64) * LN10, used[:, None])

    def log10p_of(self, rows, kenlm=False):
        """log10 p of the last word of each n-gram, rows of ids (N, k), after its other words: (N,) float32. Words that
        are not predicted have the probability of their 1-grams, nan for a bare one. kenlm: as in `walking.walk`.
        """
        (N, k), W = rows.shape, len(self.vocab.words)
        one, fresh = find_unigrams(self.nodes, W), np.arange(N * k) % k == 0
        log10p_1 = np.where(one >= 0, self.nodes.levels[1]["log10p"][one], np.float32(-np.inf))
        walk = Walk(self.nodes, one, log10p_1, W, kenlm)
        return walk(np.ascontiguousarray(rows).reshape(-1), fresh)[0][k - 1 :: k]

    def after(self, context):
        """ln p of each predicted word, (V,), after a context: a list of ids, the most recent word last."""
        V, levels = self.vocab.V, self.nodes.levels
        log10p, weights = self.walk.log10p_1[:V].copy(), np.zeros(V, np.float32)
        for k, node in enumerate(find_context_nodes(self.nodes, self.walk.unigram, context), 1):
            if node >= 0:
                weights += levels[k]["log10bow"][node]
                low, high = np.clip(levels[k]["child"][node : node + 2], 0, len(levels[k + 1]) - 1)
                word, value = (levels[k + 1][name][low:high] for name in ("word", "log10p"))
                has_p = (word >= 0) & (word < V) & ~np.isnan(value)
                log10p[word[has_p]], weights[word[has_p]] = value[has_p], 0
        return (log10p + weights).astype(np.float64) * LN10

    def used(self, context):
        """The number of words at the end of a context, a list of ids, on which the next word's probability depends."""
        length = 0
        for k, node in enumerate(find_context_nodes(self.nodes, self.walk.unigram, context), 1):
            if node >= 0:
                first, last = self.nodes.levels[k][node : node + 2]
                has_weight = first["log10bow"] != 0 or np.signbit(first["log10bow"])
                length = k if has_weight or first["child"] < last["child"] else length
        return length

    @property
    def has_sentence_starts(self):
        """Whether an n-gram of two words or more begins with <s>. True for a model that has only 1-grams."""
        if self.order < 2 or not self.nodes.size(2):
            return True
        node = self.walk.unigram[self.vocab.sos_id]
        return bool(node >= 0 and np.diff(self.nodes.levels[1]["child"][node : node + 2]) > 0)

    @cached_property
    def bare(self):
        """The predicted words and the unknown word whose 1-gram is bare; also an unknown word without a 1-gram."""
        first = self.nodes.levels[1][:-1]
        word = first["word"]
        bare = word[np.isnan(first["log10p"]) & ((word < self.vocab.V) | (word == self.vocab.unk_id))]
        return bare if self.vocab.unk_id in word else np.append(bare, self.vocab.unk_id)

    @cached_property
    def walk(self):
        """The Walk of this model; log10 p is -inf for a word that is not predicted."""
        unigram, V = find_unigrams(self.nodes, len(self.vocab.words)), self.vocab.V
        log10p = self.nodes.levels[1]["log10p"][unigram]
        log10p[(unigram < 0) | np.isnan(log10p)] = log10p[V:] = -np.inf
        return Walk(add_tables(self.nodes), unigram, log10p, V)

    def is_large(self, job=""):
        """Whether kernels pay for a job on all n-grams, as in `large.pays`."""
        return pays("ngrams", sum(map(self.nodes.size, range(1, self.order + 1))), job)

    @property
    def sizes(self):
        """The number of n-grams of each order, a list; bare prefixes do not count."""
        return [int(np.count_nonzero(~np.isnan(level["log10p"][:-1]))) for level in self.nodes.levels[1:]]

    def lower(self, order):
        """The model without n-grams above `order`."""
        return replace(self, nodes=self.nodes.lower(order))

    def describe(self):
        yield "kind", "back-off n-gram"
        yield "order", self.order
        for k, size in enumerate(self.sizes, 1):
            yield f"{k}-grams", size
        yield "predicted words |V|", self.vocab.V


SETTINGS = VOCABULARY | {"order": ORDER}  # of the binary form


def write_binary(out, model):
    """Write the binary form of a Backoff model."""
    container.write(out, "backoff", *to_arrays(model), model.vocab.words)


def to_arrays(model):
    """Return (settings, arrays) of the binary form: nodes1 .. noden, far, slots and spans."""
    nodes, last = add_tables(model.nodes), model.nodes.levels[-1]
    arrays = {f"nodes{k}": as_matrix(level) for k, level in enumerate(nodes.levels[1:], 1)}
    if last.dtype != LAST:  # the highest order of a model without its longer n-grams
        arrays[f"nodes{nodes.order}"] = as_matrix(last[list(LAST.names)].astype(LAST))
    arrays |= {"far": nodes.far, "slots": nodes.slots, "spans": nodes.spans}
    return {"order": model.order, **vocab_settings(model.vocab)}, arrays


def from_arrays(about, arrays, path):
    """Return the Backoff model of a binary file's arrays. Mapped arrays are not copied. Files of early checkouts have
    only nodes1 .. noden, without the column of suffixes. Raises FormatError.
    """
    words, sizes = check_contents(about, arrays, path, SETTINGS, declare_arrays)
    vocab, W = vocab_of(about["settings"], words, path), len(words)
    levels = [arrays[f"nodes{k}"] for k in range(1, sizes.order + 1)]
    memory, is_early = memory_of(levels), "far" not in arrays
    if is_early or memory is None:
        memory, where, records = allocate([len(a) - 1 for a in levels])
        for a, level in zip(levels, records):
            as_matrix(level)[:, : a.shape[1]] = a
    else:
        ats = [(a.ctypes.data - memory.ctypes.data) // 4 for a in levels]
        where = np.array([[at, len(a) - 1, a.shape[1], PLACE[a.shape[1]]] for at, a in zip(ats, levels)], np.int64)
    if is_early:
        wrap_records(memory, where, path=path).checked_levels(W)
        return Backoff(vocab, finish(memory, where, W))
    for begin, size in arrays["spans"].tolist():
        if size & (size - 1) or not 0 <= size <= len(arrays["slots"]) - begin <= len(arrays["slots"]):
            raise FormatError(path, "damaged: a hash table ends outside the array slots")
    nodes = wrap_records(memory, where, arrays["far"], arrays["slots"], arrays["spans"], path)
    for k, (above, level) in enumerate(pairwise(nodes.levels)):
        if (above["child"][0], above["child"][-1]) != (0, len(level) - 1):
            raise FormatError(path, f"its array nodes{k} does not end where nodes{k + 1} ends")
    find_unigrams(nodes, W)
    return Backoff(vocab, nodes)


def declare_arrays(sizes, size):
    """Declare the arrays of the binary form, by name; size(name, axis) gives the lengths in the file. The children of
    nodes are not checked, since that would take a pass over the model.
    """
    arrays, n = {}, sizes.order
    has_suffixes = size("nodes1", 1) in (WIDE, NARROW)  # not in the files of early checkouts
    if has_suffixes:
        arrays["far"] = Array("I32", (max(size("far", 0), 1), 2))
        arrays["slots"], arrays["spans"] = Array("I32", (size("slots", 0),)), Array("I64", (n + 1, 2))
    for k in range(1, n + 1):
        width = (WIDE if k < n else NARROW) - (not has_suffixes)
        arrays[f"nodes{k}"] = Array("I32", (max(size(f"nodes{k}", 0), 1), width))
    return arrays
