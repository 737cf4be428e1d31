"""The neural model of Bengio et al. 2003, section 2: what it holds, how it scores, its file."""

from dataclasses import dataclass

import numpy as np

from lmtk.errors import FormatError
from lmtk.files import container
from lmtk.lm import Scores
from lmtk.nplm import kernels, threads
from lmtk.text.corpus import contexts
from lmtk.text.vocab import Vocab, vocab_of, vocab_settings

ROWS, COLUMNS = 2048, 512  # contexts and outputs of one product while scoring: few enough for the caches
MANY = 20_000  # contexts from which on a compiled kernel pays for its start-up


@dataclass(frozen=True)
class Network:
    """theta = (b, d, W, U, H, C), equation (1): y = b + Wx + U tanh(d + Hx).

    C (words, m), H (h, (n-1)m), d (h,), U (V, h), W (V, (n-1)m) or None, b (V,), float32; shapes as in `kernels`.
    settings: the command's options that made it, as they are written into the file.
    """

    arrays = "CHdUWb"

    vocab: Vocab
    order: int
    C: np.ndarray
    H: np.ndarray
    d: np.ndarray
    U: np.ndarray
    W: np.ndarray | None
    b: np.ndarray
    settings: dict

    def score(self, corpus):
        """Exact ln p of every scored token. Equal contexts are computed once; memory does not grow with the text."""
        logp = np.zeros(len(corpus.ids))
        at = np.flatnonzero(corpus.scored)
        logp[at] = -np.inf
        at = at[corpus.ids[at] < self.vocab.V]
        if len(at):
            logp[at] = self.score_contexts(self.padded(contexts(corpus, self.order)[at]), corpus.ids[at])
        return Scores(logp, lambda t: "[nplm]")

    def padded(self, rows):
        """Contexts with <s> where nothing stands, before a sentence's start."""
        return np.where(rows < 0, self.vocab.sos_id, rows)

    def score_contexts(self, rows, w):
        return score_contexts(self, rows, w)

    def describe(self):
        V, h, m = len(self.b), len(self.d), self.C.shape[1]
        yield "kind", "nplm: neural probabilistic language model"
        yield "order n", self.order
        yield "hidden units h", h
        yield "features m", m
        yield "direct connections", "no" if self.W is None else "yes"
        yield "parameters", sum(a.size for a in (self.C, self.H, self.d, self.U, self.W, self.b) if a is not None)
        yield "predicted words |V|", V
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
    C, H, d, U, W, b = network.C, network.H, network.d, network.U, network.W, network.b
    M = np.column_stack((U, b) if W is None else (U, W, b))
    exp_rows = kernels.exp_rows if len(rows) > MANY else exp_rows_plain

    def prepare(rows):
        x, a = kernels.hidden(C, H, d, rows)
        z = kernels.stack(a, x, W is not None)
        sums = log_sums(len(z), len(M), lambda j, y: np.matmul(z, M[j : j + y.shape[1]].T, out=y), exp_rows)
        return sums, lambda k, w: np.einsum("kd,kd->k", z[k], M[w])

    return in_contexts(rows, w, len(C), prepare)


def in_contexts(rows, w, words, prepare):
    """ln p(w | context), (N,) float64, for contexts (N, n-1), ids below `words`, and words w (N,); equal contexts once.

    prepare(rows) -> the ln of the sum of all e^y in each of the contexts, and own(k, w), the outputs y of the words w
    in the k-th ones.
    """
    first, number = distinct(rows, words)
    by_context = np.argsort(number, kind="stable")
    ends = np.searchsorted(number, np.arange(len(first)), "right", sorter=by_context)
    logp = np.empty(len(w))
    tops = range(0, len(first), ROWS)

    def score(tops):
        for top in tops:
            sums, own = prepare(rows[first[top : top + ROWS]])
            tokens = by_context[ends[top - 1] if top else 0 : ends[min(top + ROWS, len(first)) - 1]]
            mine = number[tokens] - top
            # in steps, since one context may be asked for every word of the vocabulary
            for i in range(0, len(tokens), ROWS):
                k, at = mine[i : i + ROWS], tokens[i : i + ROWS]
                logp[at] = own(k, w[at]) - sums[k]

    members = min(threads.count(), len(tops))
    threads.Team(members)(score, [tops[i::members] for i in range(members)])
    return logp


def log_sums(K, V, block, exp_rows):
    """ln sum_i e^(y_i), (K,) float64, over V outputs: block(j, y) fills y (K, .) with those from j on.

    Each block of outputs has its own maximum.
    """
    y, s = np.empty((K, COLUMNS), np.float32), np.empty(K, np.float32)
    Q, S = np.full(K, -np.inf), np.zeros(K)
    for j in range(0, V, COLUMNS):
        out = y if V - j >= COLUMNS else np.empty((K, V - j), np.float32)
        block(j, out)
        q = out.max(axis=1)
        exp_rows(out, q, s)
        top = np.maximum(Q, q)
        S = S * np.exp(Q - top) + s * np.exp(q - top)
        Q = top
    return Q + np.log(S)


def exp_rows_plain(y, q, s):
    """`kernels.exp_rows` for small jobs, which would wait longer for the compiler."""
    np.exp(y - q[:, None], out=y)
    s[:] = y.sum(axis=1)


def named(network):
    """The network's arrays by their letters, as a file holds them; no W without direct connections."""
    return {name: getattr(network, name) for name in network.arrays if getattr(network, name) is not None}


def write(out, network):
    vocab, arrays = network.vocab, named(network)
    about = {"order": network.order, **vocab_settings(vocab), "training": network.settings}
    container.write(out, "nplm", about, arrays, vocab.words)


def from_arrays(about, arrays, path):
    """The Network in a file's arrays. Raises FormatError where their shapes do not fit together."""
    try:
        settings, words = about["settings"], container.words_of(arrays)
        n, V = settings["order"], settings["V"]
        C, H, d, U, W, b = (arrays.get(name) for name in Network.arrays)
        m, h = C.shape[1], len(d)
        shapes = {"C": (len(words), m), "H": (h, (n - 1) * m), "d": (h,), "U": (V, h), "b": (V,)}
        if W is not None:
            shapes["W"] = (V, (n - 1) * m)
        if any(arrays[name].shape != shape or arrays[name].dtype != np.float32 for name, shape in shapes.items()):
            raise ValueError
        return Network(vocab_of(settings, words), n, C, H, d, U, W, b, settings["training"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FormatError(path, "not a whole neural model: its arrays do not fit together") from None
