"""Back-off n-gram models (Katz 1987): their arrays, their scores, their binary form."""

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
from lmtk.ngram.building import arrays_of, of_arrays, pack
from lmtk.ngram.nodes import NARROW, WIDE, ZERO, Nodes, unigrams
from lmtk.ngram.searching import with_tables
from lmtk.ngram.walking import context_nodes, handle, spread, walk, walk_plain
from lmtk.text.vocab import Vocab, vocab_of, vocab_settings

TOGETHER = 1 << 16  # tokens that a thread scores at once
NUMBERS = "word_numbers"  # an array of a binary file


def natural(log10):
    """Natural logarithms from log10, where -99 stands for log 0. The log10 is first rounded to single precision, as in
    SRILM: the last digits of its reports depend on it.
    """
    logs = np.asarray(log10, np.float32).astype(np.float64)
    zero = logs == ZERO
    logs *= LN10
    return np.where(zero, -np.inf, logs) if zero.any() else logs


def decimal(logs):
    """log10, in single precision, from natural logarithms; -99 for log 0, as in an ARPA file."""
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
        """A weight of -0.0 keeps its sign: it is a 0 that an ARPA file states."""
        return np.copysign(decimal(self.bow), self.bow).astype(np.float32)


class Decimal:
    """Adds logp and bow, natural, to a class that has log10p and log10bow, in single precision."""

    @cached_property
    def logp(self):
        return natural(self.log10p)

    @cached_property
    def bow(self):
        return natural(self.log10bow)


@dataclass(frozen=True)
class Stored(Decimal):
    """Probabilities as a text file holds them: log10 in single precision."""

    keys: np.ndarray
    log10p: np.ndarray
    log10bow: np.ndarray


@dataclass(frozen=True)
class Packed(Decimal):
    """Probabilities as order k of `nodes` holds them. W: the number of words."""

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
    """What scoring needs of a model: its nodes; node (W,) int32, the 1-gram of each word, -1 for none; log10p (W,)
    float32, log10 p of each word; V and `single` as in `walking.walk`.
    """

    nodes: Nodes
    node: np.ndarray
    log10p: np.ndarray
    V: int
    single: bool = False

    def __call__(self, ids, fresh):
        """(log10p (N,) float32, used (N,) int8) of the tokens `ids` (N,), as in `walking.walk`. fresh (N,): whether a
        token has no context.
        """
        N, fresh = len(ids), fresh.copy()
        fresh[:1] = True
        if not pays("ngrams", N, "score"):
            return walk_plain(self.nodes, self.node, self.log10p, self.V, self.single, ids, fresh)
        log10p, used, nodes = np.empty(N, np.float32), np.empty(N, np.int8), self.nodes
        arrays = nodes.memory, nodes.logs, nodes.where, nodes.far, nodes.slots, nodes.spans, self.node, self.log10p

        def some(first):
            # a block begins with the last words of the block before it, as contexts
            begin, end = max(first - nodes.order + 1, 0), min(first + TOGETHER, N)
            p, length = np.empty(end - begin, np.float32), np.empty(end - begin, np.int8)
            begun = fresh[begin:end].copy()
            begun[0] = True
            walk(*arrays, self.V, self.single, ids[begin:end], begun, p, length)
            log10p[first:end], used[first:end] = p[first - begin :], length[first - begin :]

        for _ in in_threads(some, range(0, N, TOGETHER)):
            pass
        return log10p, used

    @cached_property
    def handle(self):
        """`walking.handle` of this walk. It holds addresses: the walk has to outlive it."""
        return handle(self.nodes, self.node, self.log10p)


@dataclass(frozen=True)
class Backoff:
    """p(w | c) is the probability of the n-gram c w where there is one, else bow(c) p(w | c without its oldest word).

    levels: of each order, a Probabilities, Stored or Packed. number (W,): KenLM's number of each word, if the model is
    from a binary file that has these numbers.
    """

    vocab: Vocab
    order: int
    levels: list
    number: np.ndarray | None = None

    def score(self, corpus):
        """Scores: ln p of every scored token, from log10 p in single precision, and the length of the n-gram used,
        UNKNOWN for a word without a 1-gram.
        """
        log10p, used = self.walk(corpus.ids, corpus.fresh)
        if len(self.bare):
            used[np.isin(corpus.ids, self.bare)] = UNKNOWN
        log10p[~corpus.scored] = used[~corpus.scored] = 0
        return Scores(log10p.astype(np.float64) * LN10, used[:, None])

    def after(self, context):
        """ln p of each predicted word, (V,), after a context: ids, the last word last."""
        return spread(self.nodes, self.walk.node, self.walk.log10p[: self.vocab.V], context).astype(np.float64) * LN10

    def used(self, context):
        """On how many of the last words of a context, ids, the probabilities after it can depend."""
        length = 0
        for k, node in enumerate(context_nodes(self.nodes, self.walk.node, context), 1):
            if node >= 0:
                first, last = self.nodes.levels[k][node : node + 2]
                shown = first["log10bow"] != 0 or np.signbit(first["log10bow"])
                length = k if shown or first["child"] < last["child"] else length
        return length

    @cached_property
    def nodes(self):
        """The Nodes of the n-grams. They are made from the levels, unless these are Packed in common Nodes."""
        first = self.levels[0]
        if isinstance(first, Packed) and all(isinstance(x, Packed) and x.nodes is first.nodes for x in self.levels):
            return first.nodes.lower(self.order)
        return pack(self.levels, len(self.vocab.words), pays("ngrams", sum(len(x.keys) for x in self.levels), "link"))

    @property
    def opens(self):
        """Whether an n-gram of two words or more begins with <s>. A model without such n-grams does not tell: True."""
        if self.order < 2 or not self.nodes.size(2):
            return True
        node = self.walk.node[self.vocab.sos_id]
        first, last = self.nodes.levels[1]["child"][node : node + 2] if node >= 0 else (0, 0)
        return bool(first < last)

    @cached_property
    def bare(self):
        """The ids of predicted words, and of the unknown word, that have no 1-gram or only a bare one."""
        first = self.nodes.levels[1]
        word = first["word"][:-1]
        bare = word[np.isnan(first["log10p"][:-1]) & ((word < self.vocab.V) | (word == self.vocab.unk_id))]
        return bare if self.vocab.unk_id in word else np.append(bare, self.vocab.unk_id)

    @cached_property
    def walk(self):
        """The Walk of this model; log10 p is -inf for a word that is not predicted."""
        W, first = len(self.vocab.words), self.nodes.levels[1]
        log10p, given = np.full(W, -np.inf, np.float32), ~np.isnan(first["log10p"][:-1])
        log10p[first["word"][:-1][given]] = first["log10p"][:-1][given]
        log10p[self.vocab.V :] = -np.inf
        return Walk(with_tables(self.nodes), unigrams(self.nodes, W), log10p, self.vocab.V)

    @property
    def sizes(self):
        """How many n-grams there are of each order, a list; bare prefixes do not count."""
        columns = (x.nodes.levels[x.k]["log10p"][:-1] if isinstance(x, Packed) else x.log10p for x in self.levels)
        return [int(np.count_nonzero(~np.isnan(log10p))) for log10p in columns]

    def lower(self, order):
        """The model without n-grams above `order`."""
        return Backoff(self.vocab, order, self.levels[:order], self.number)

    def describe(self):
        yield "kind", "back-off n-gram"
        yield "order", self.order
        for k, size in enumerate(self.sizes, 1):
            yield f"{k}-grams", size
        yield "predicted words |V|", self.vocab.V


SETTINGS = VOCABULARY | {"order": ORDER}  # of the binary form


def write_binary(out, model):
    """Writes the binary form: the nodes as they are scored, with log10 in single precision, as in ARPA files."""
    container.write(out, "backoff", *to_arrays(model), model.vocab.words)


def to_arrays(model):
    """(settings, arrays) of the binary form."""
    return {"order": model.order, **vocab_settings(model.vocab)}, arrays_of(model.nodes) | numbers_of(model)


def numbers_of(model):
    """The array of KenLM's numbers of words, {name: (W,)}, which stands last in a file; {} if the model has none."""
    return {} if model.number is None else {NUMBERS: np.asarray(model.number, np.int32)}


def from_arrays(about, arrays, path):
    """The model in a binary file's arrays. Raises FormatError."""
    words, sizes = held(about, arrays, path, SETTINGS, holds)
    vocab = vocab_of(about["settings"], words, path)
    nodes = of_arrays(arrays, sizes.order, len(words), path)
    for k, (above, level) in enumerate(pairwise(nodes.levels)):
        if (above["child"][0], above["child"][-1]) != (0, len(level) - 1):
            raise FormatError(path, f"its array nodes{k} does not end where nodes{k + 1} ends")
    unigrams(nodes, len(words))
    levels = [Packed(nodes, k, len(words)) for k in range(1, sizes.order + 1)]
    return Backoff(vocab, sizes.order, levels, arrays.get(NUMBERS))


def numbers_array(W):
    """The declaration of KenLM's numbers of W words."""
    return Array("I32", (W,), 0, W, needed=False)


def holds(sizes, size):
    """The arrays of the binary form. The children of nodes are not checked: that would take a pass over the model."""
    arrays, n, less = {NUMBERS: numbers_array(sizes.W)}, sizes.order, 0
    if size("nodes1", 1) in (WIDE, NARROW):
        arrays["far"] = Array("I32", (max(size("far", 0), 1), 2))
        arrays["slots"], arrays["spans"] = Array("I32", (size("slots", 0),)), Array("I64", (n + 1, 2))
    else:
        less = 1  # files from before version 0.2 have no suffixes
    for k in range(1, n + 1):
        arrays[f"nodes{k}"] = Array("I32", (max(size(f"nodes{k}", 0), 1), (WIDE if k < n else NARROW) - less))
    return arrays
