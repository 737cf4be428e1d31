"""The neural model of Bengio et al. 2003, section 2: what it holds, how it scores, its file."""

from dataclasses import dataclass

import numpy as np

from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.lm import Scores
from lmtk.nplm import kernels, threads
from lmtk.text.corpus import contexts
from lmtk.text.vocab import Vocab, vocab_of, vocab_settings

ARRAYS = "C", "H", "d", "U", "W", "b", "Uc", "Wc", "bc", "classes"
ROWS, COLUMNS = 2048, 512  # contexts and outputs of one product while scoring: few enough for the caches
MANY = 20_000  # contexts from which on a compiled kernel pays for its start-up


@dataclass(frozen=True)
class Network:
    """theta = (b, d, W, U, H, C), equation (1): y = b + Wx + U tanh(d + Hx).

    C (words, m), H (h, (n-1)m), d (h,), U (V, h), W (V, (n-1)m) or None, b (V,), float32; shapes as in `kernels`.
    settings: the command's options that made it, as they are written into the file.

    With classes (V,), the class of each word, int32, p is P(class | context) P(word | class, context): y is normalized
    within each class, and Uc (c, h), Wc (c, (n-1)m) or None and bc (c,) give the outputs of the classes.
    """

    vocab: Vocab
    order: int
    C: np.ndarray
    H: np.ndarray
    d: np.ndarray
    U: np.ndarray
    W: np.ndarray | None
    b: np.ndarray
    settings: dict
    Uc: np.ndarray | None = None
    Wc: np.ndarray | None = None
    bc: np.ndarray | None = None
    classes: np.ndarray | None = None

    def score(self, corpus):
        """Exact ln p of every scored token. Equal contexts are computed once; memory does not grow with the text."""
        logp = np.zeros(len(corpus.ids))
        at = np.flatnonzero(corpus.scored)
        logp[at] = -np.inf
        at = at[corpus.ids[at] < self.vocab.V]
        if len(at):
            rows = self.padded(contexts(corpus, self.order)[at])
            logp[at] = score_contexts(self, rows, corpus.ids[at])
        return Scores(logp, lambda t: "[nplm]")

    def padded(self, rows):
        """Contexts with <s> where nothing stands, before a sentence's start."""
        return np.where(rows < 0, self.vocab.sos_id, rows)

    def describe(self):
        V, h, m = len(self.b), len(self.d), self.C.shape[1]
        yield "kind", "nplm: neural probabilistic language model"
        yield "order n", self.order
        yield "hidden units h", h
        yield "features m", m
        yield "direct connections", "no" if self.W is None else "yes"
        yield "parameters", sum(a.size for name, a in named(self).items() if name != "classes")
        yield "predicted words |V|", V
        if self.classes is not None:
            yield "classes", len(self.bc)
        yield from container.shown(self.settings)


def distinct(rows, W):
    """Equal rows of ids below W, once.

    Returns (a row's index for each distinct one, the number of its distinct one for each row).
    """
    number = np.zeros(len(rows), np.int64)
    first = np.zeros(1, np.int64)
    for column in rows.T:
        _, first, number = np.unique(number * W + column, return_index=True, return_inverse=True)
    return first, number


def score_contexts(network, rows, w):
    """ln p(w | context), (N,) float64, for contexts (N, n-1) and words w (N,)."""
    if network.classes is not None:
        return score_classes(network, rows, w)
    C, H, d, U, W, b = network.C, network.H, network.d, network.U, network.W, network.b
    M = np.column_stack((U, b) if W is None else (U, W, b))
    first, number = distinct(rows, len(C))
    by_context = np.argsort(number, kind="stable")
    ends = np.searchsorted(number, np.arange(len(first)), "right", sorter=by_context)
    exp_rows = kernels.exp_rows if len(first) > MANY else exp_rows_plain
    logp = np.empty(len(w))
    tops = range(0, len(first), ROWS)

    def score(tops):
        for top in tops:
            x, a = kernels.hidden(C, H, d, rows[first[top : top + ROWS]])
            z = kernels.stack(a, x, W is not None)
            tokens = by_context[ends[top - 1] if top else 0 : ends[min(top + ROWS, len(first)) - 1]]
            mine = number[tokens] - top
            sums = log_sums(z, M, exp_rows)
            # in steps, since one context may be asked for every word of the vocabulary
            for i in range(0, len(tokens), ROWS):
                k, at = mine[i : i + ROWS], tokens[i : i + ROWS]
                logp[at] = np.einsum("kd,kd->k", z[k], M[w[at]]) - sums[k]

    members = min(threads.count(), len(tops))
    threads.Team(members)(score, [tops[i::members] for i in range(members)])
    return logp


def score_classes(network, rows, w):
    """`score_contexts` of a network with classes: the outputs of the classes and of the words of one class are summed.

    Its time grows with the classes and their sizes, about 2 sqrt(V), and not with V.
    """
    U, W, b, classes = network.U, network.W, network.b, network.classes
    by_class = np.argsort(classes, kind="stable")
    M = np.column_stack((U, b) if W is None else (U, W, b))[by_class]
    top = np.column_stack((network.Uc, network.bc) if W is None else (network.Uc, network.Wc, network.bc))
    ends = np.cumsum(np.bincount(classes, minlength=len(top)))
    place = np.empty_like(by_class)
    place[by_class] = np.arange(len(by_class))
    exp_rows = kernels.exp_rows if len(w) > MANY else exp_rows_plain
    logp = np.empty(len(w))
    tops = range(0, len(w), ROWS)

    def score(tops):
        for i in tops:
            order = np.argsort(classes[w[i : i + ROWS]], kind="stable") + i
            x, a = kernels.hidden(network.C, network.H, network.d, rows[order])
            z = kernels.stack(a, x, W is not None)
            c, at = classes[w[order]], place[w[order]]
            y = np.einsum("kd,kd->k", z, top[c]) + np.einsum("kd,kd->k", z, M[at])
            sums = log_sums(z, top, exp_rows)
            for begin, end in runs(c):
                last = ends[c[begin]]
                first = ends[c[begin] - 1] if c[begin] else 0
                sums[begin:end] += log_sums(z[begin:end], M[first:last], exp_rows)
            logp[order] = y - sums

    members = max(min(threads.count(), len(tops)), 1)
    threads.Team(members)(score, [tops[i::members] for i in range(members)])
    return logp


def runs(values):
    """(begin, end) of each run of equal values in an array that is not empty."""
    cuts = np.flatnonzero(np.diff(values)) + 1
    return zip((0, *cuts.tolist()), (*cuts.tolist(), len(values)))


def log_sums(z, M, exp_rows):
    """ln sum_i e^(y_i), (K,) float64, with y = M z: z (K, D), M (V, D). Each block of outputs has its own maximum."""
    K = len(z)
    y, s = np.empty((K, COLUMNS), np.float32), np.empty(K, np.float32)
    Q, S = np.full(K, -np.inf), np.zeros(K)
    for j in range(0, len(M), COLUMNS):
        block = M[j : j + COLUMNS]
        out = y if len(block) == COLUMNS else np.empty((K, len(block)), np.float32)
        np.matmul(z, block.T, out=out)
        q = out.max(axis=1)
        exp_rows(out, q, s)
        top = np.maximum(Q, q)
        S = S * np.exp(Q - top) + s * np.exp(q - top)
        Q = top
    return Q + np.log(S)


def exp_rows_plain(y, q, s):
    """`kernels.exp_rows` for small jobs, which would wait longer for the compiler."""
    s[:] = np.exp(y - q[:, None]).sum(axis=1)


def named(network):
    """The network's arrays by their letters, as a file holds them; only those that it has."""
    return {name: getattr(network, name) for name in ARRAYS if getattr(network, name) is not None}


def write(out, network):
    vocab, arrays = network.vocab, named(network)
    about = {"order": network.order, **vocab_settings(vocab), "training": network.settings}
    # a kind of their own, since a reader from before would take them for networks without classes
    kind = "nplm" if network.classes is None else "nplm-class"
    container.write(out, kind, about, arrays, vocab.words)


def from_arrays(about, arrays, path):
    """The Network in a file's arrays. Raises FormatError where their shapes do not fit together."""
    try:
        settings, words = about["settings"], container.words_of(arrays)
        n, V = settings["order"], settings["V"]
        C, H, d, U, W, b, Uc, Wc, bc, classes = (arrays.get(name) for name in ARRAYS)
        m, h = C.shape[1], len(d)
        shapes = {"C": (len(words), m), "H": (h, (n - 1) * m), "d": (h,), "U": (V, h), "b": (V,)}
        if W is not None:
            shapes["W"] = (V, (n - 1) * m)
        if (about["kind"] == "nplm-class") != (classes is not None):
            raise ValueError
        if classes is not None:
            shapes |= {"Uc": (len(bc), h), "bc": (len(bc),)} | ({"Wc": (len(bc), (n - 1) * m)} if W is not None else {})
            # none of them empty
            if classes.shape != (V,) or not np.array_equal(np.unique(classes), np.arange(len(bc))):
                raise ValueError
        if any(arrays[name].shape != shape or arrays[name].dtype != np.float32 for name, shape in shapes.items()):
            raise ValueError
        return Network(vocab_of(settings, words), n, C, H, d, U, W, b, settings["training"], Uc, Wc, bc, classes)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FormatError(path, "not a whole neural model: its arrays do not fit together") from None
