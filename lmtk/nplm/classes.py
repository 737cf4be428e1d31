"""A network in two steps: P(class | context) P(word | class, context), exact and normalized by construction.

Bengio et al. 2003, section 5.2, item 1, would train a smaller network for each cluster of words; here they share
C, H and d.

An update and a score see the classes and the words of one class, about 2 sqrt(V) outputs in place of V.
"""

import math
from dataclasses import dataclass
from itertools import chain

import numpy as np

from lmtk.errors import FormatError, shown
from lmtk.files.declared import ids, optional, reals
from lmtk.files.streams import lines
from lmtk.machine.jit import jit
from lmtk.machine.parallel import ALONE
from lmtk.nplm import kernels, model, sgd
from lmtk.nplm.network import Network, outputs
from lmtk.nplm.pace import even, slowed

f32 = np.float32


@dataclass(frozen=True)
class ClassNetwork(Network):
    """A Network whose y is normalized within each class of words, with outputs for the classes before it.

    Uc (c, h), Wc (c, (n-1)m) or None, as W is, and bc (c,), float32: to the outputs of the c classes. classes (V,), the
    class of each word, int32; none is empty.
    """

    kind, arrays = "nplm-class", (*Network.arrays, "Uc", "Wc", "bc", "classes")

    Uc: np.ndarray
    Wc: np.ndarray | None
    bc: np.ndarray
    classes: np.ndarray

    def score_contexts(self, rows, w):
        """ln p(w | context), (N,) float64: in time that grows with the classes and their sizes, and not with V.

        Class by class, so that each has few products; equal contexts are not looked for, which would take as long.
        """
        M, top, place, ends = self.tables()
        first = ends - np.bincount(self.classes)
        exp_rows = kernels.exp_rows if len(rows) > model.MANY else model.exp_rows_plain
        order = np.argsort(self.classes[w], kind="stable")
        logp = np.empty(len(w))

        def score(part):
            at = order[part]
            z, c, own = self.hidden(rows[at]), self.classes[w[at]], place[w[at]]
            found = log_softmax(z, top, c, exp_rows)
            for i, j in runs(c):
                inside = slice(first[c[i]], ends[c[i]])
                found[i:j] += log_softmax(z[i:j], M[inside], own[i:j] - inside.start, exp_rows)
            logp[at] = found

        model.in_stretches(score, len(w))
        return logp

    def tables(self):
        """M (V, D), the rows of the outputs of the words, class by class; top (c, D), of the classes; place (V,), a
        word's row of M; ends (c,), where each class ends in M.
        """
        by_class = np.argsort(self.classes, kind="stable")
        place = np.empty_like(by_class)
        place[by_class] = np.arange(len(by_class))
        top = outputs(self.Uc, self.Wc, self.bc)
        return outputs(self.U, self.W, self.b)[by_class], top, place, np.cumsum(np.bincount(self.classes))

    @staticmethod
    def holds(sizes, size):
        seen, h, c = (sizes.order - 1) * size("C", 1), size("d", 0), size("bc", 0)
        arrays = Network.holds(sizes, size) | {"Uc": reals(c, h), "Wc": optional(reals(c, seen)), "bc": reals(c)}
        return arrays | {"classes": ids(c, sizes.V)}

    def check(self, path):
        if len(np.unique(self.classes)) < len(self.bc):
            raise FormatError(path, "one of its classes has no word")
        if (self.W is None) != (self.Wc is None):
            raise FormatError(path, "its words have direct connections and its classes none, or the other way round")

    def describe(self):
        for name, value in super().describe():
            yield name, value - len(self.classes) if name == "parameters" else value
            if name.startswith("predicted words"):
                yield "classes", len(self.bc)


from_arrays = ClassNetwork.from_arrays


def log_softmax(z, M, own, exp_rows):
    """ln of the softmax of y = zM' at one output of each row, (K,) float64: z (K, D), M (V, D), own (K,) below V."""
    t = np.empty(len(z))

    def block(j, y):
        np.matmul(z, M[j : j + y.shape[1]].T, out=y)
        mine = np.flatnonzero((own >= j) & (own < j + y.shape[1]))
        t[mine] = y[mine, own[mine] - j]

    sums = model.log_sums(len(z), len(M), block, exp_rows)
    return t - sums


def runs(values):
    """(begin, end) of each run of equal values in an array that is not empty."""
    cuts = np.flatnonzero(np.diff(values)) + 1
    return zip((0, *cuts.tolist()), (*cuts.tolist(), len(values)))


def by_frequency(counts):
    """The class of each word, (V,) int32: sqrt(V) classes of words of like frequency, the most frequent in class 0.

    The square roots of the counts of a class add up to about the same for all, so that those of rare words are larger.
    """
    order = np.argsort(-counts, kind="stable")
    mass = np.cumsum(np.sqrt(counts[order]))
    number = math.isqrt(len(counts) - 1) + 1
    found = np.empty(len(counts), np.int32)
    found[order] = np.minimum((mass - np.sqrt(counts[order])) * number / mass[-1], number - 1)
    return dense(found)


def dense(found):
    """Class numbers without gaps, in the same order."""
    return np.unique(found, return_inverse=True)[1].astype(np.int32)


def read(path, vocab):
    """The class of each word that `vocab` predicts, (V,) int32, from lines "class word" or "class probability word".

    The latter are SRILM's. Words that have no class are one of their own; other words are passed over. Raises
    FormatError.
    """
    names, found = {}, np.full(vocab.V, -1)
    for number, line in lines(path):
        fields = line.split()
        if not fields:
            continue
        if len(fields) not in (2, 3):
            raise FormatError(path, f"expected a class and a word, got {len(fields)} fields", number)
        word = vocab.index.get(fields[-1], vocab.V)
        if word < vocab.V:
            name = names.setdefault(fields[0], len(names))
            if found[word] not in (-1, name):
                raise FormatError(path, f"'{shown(fields[-1])}' is in a second class; a word can be in one", number)
            found[word] = name
    if not names:
        raise FormatError(path, "no word of the vocabulary has a class in it")
    return dense(np.where(found < 0, len(names), found))


def add(network, counts, classes):
    """The network, before training, with outputs for classes: bc the log of their relative frequency, the rest 0."""
    sums = np.bincount(classes, weights=counts)
    Wc = np.zeros((len(sums), network.W.shape[1]), f32) if network.W is not None else None
    Uc, bc = np.zeros((len(sums), len(network.d)), f32), np.log(sums / sums.sum()).astype(f32)
    return ClassNetwork(**vars(network), Uc=Uc, Wc=Wc, bc=bc, classes=classes)


@dataclass
class Parameters(sgd.Parameters):
    """theta: blocks holds the classes' outputs and those of all words, class by class; of these rows are in memory one
    after another.

    classes, place (V,): the class of a word and its place among all; ends (c,): where each class ends.
    """

    classes: np.ndarray = None
    place: np.ndarray = None
    ends: np.ndarray = None


def split(network, pace=None):
    """Parameters of a network with classes, copied; pace as in `sgd.split`, the words class by class."""
    rows, top, place, ends = network.tables()
    blocks = [(0, np.ascontiguousarray(top.T)), (0, np.ascontiguousarray(rows).T)]
    C, H, d = network.C.copy(), network.H.copy(), network.d.copy()
    of_words = {"classes": network.classes, "place": place, "ends": ends}
    pace = pace or even(len(C), len(place), len(ends))
    return Parameters(C, H, d, blocks, network.W is not None, len(place), ALONE, pace, **of_words)


def variances(network, w):
    """P(the output's sum is met) p (1 - p) of the words w, in the order of `tables`, (V,), and of the classes, (c,)."""
    p = np.bincount(w, minlength=len(network.classes)) / len(w)
    top = np.bincount(network.classes, weights=p)
    inside = p * (1 - p / np.maximum(top[network.classes], 1e-30))
    return inside[np.argsort(network.classes, kind="stable")], top * (1 - top)


def join(theta):
    """Parameters -> (C, H, d, U, W, b, Uc, Wc, bc), copied; W and Wc are None without direct connections."""
    (_, top), (_, rows) = theta.blocks
    outputs = (sgd.output_weights(theta, M) for M in (rows.T[theta.place], top.T))
    return theta.C.copy(), theta.H.copy(), theta.d.copy(), *chain.from_iterable(outputs)


@np.errstate(over="ignore", invalid="ignore")
def step(theta, contexts, w, epsilon, feature_rate, kept=None):
    """`sgd.step` without weight decay: one update from a minibatch, in place.

    The classes are a softmax like that of `sgd.step`; then each example is one over the words of its class.
    """
    order = np.argsort(theta.place[w], kind="stable")
    contexts, w = contexts[order], w[order]
    kept = kept and [part[order] for part in kept]
    c = theta.classes[w]
    first = np.concatenate(([0], theta.ends))[c]
    sizes, own = theta.ends[c] - first, theta.place[w] - first
    z, x, a = sgd.forward_inputs(theta, contexts, kept)
    (_, top), (_, M) = theta.blocks
    y, gy, gz = np.empty((len(w), top.shape[1]), f32), np.empty(sizes.sum(), f32), np.empty_like(z)
    inside = within(z, M.T, first, sizes, own, gy, gz)
    logp, scale = kernels.normalize(*(part[None] for part in kernels.block_forward(z, c, 0, top, y)), ALONE)
    total = float(logp.sum()) + inside
    if not math.isfinite(total):
        return total, math.nan
    curved = sgd.curvature(theta, z)
    gz += kernels.block_backward(z, c, 0, top, y, scale[0], epsilon, 1, slowed(theta.pace.top, curved))
    add_within(z, M.T, first, sizes, gy, f32(epsilon) * slowed(theta.pace.outputs, curved))
    sgd.update_inputs(theta, contexts, gz, a, x, epsilon, 0, feature_rate, kept)
    return total, float(np.linalg.norm(gz))


@jit(fastmath={"reassoc", "contract", "nsz"})
def within(z, rows, first, sizes, own, gy, gz):
    """A softmax over the words of a class for each example: gy <- dL/dy, one behind the other, gz <- dL/dz, in place.

    z, gz (K, D); rows (V, D), of which an example's are sizes[k] from first[k] on, that of its word the own[k]-th of
    them; gy (sum of sizes,). Returns L, the sum of ln P(word | class, context). Bound by the rows, D floats for
    each word of the class, which come from beyond the second cache once.
    """
    K, D = z.shape
    L, t = 0.0, 0
    for k in range(K):
        x, g, out = z[k], gz[k], gy[t : t + sizes[k]]
        t += sizes[k]
        q = f32(-np.inf)
        for i in range(sizes[k]):
            row, y = rows[first[k] + i], f32(0)
            for c in range(D):
                y += x[c] * row[c]
            out[i] = y
            q = y if y > q else q
        seen, s = out[own[k]], f32(0)
        for i in range(sizes[k]):
            out[i] = math.exp(out[i] - q)
            s += out[i]
        L += np.float64(seen - q) - math.log(np.float64(s))
        for c in range(D):
            g[c] = f32(0)
        for i in range(sizes[k]):
            out[i] = (f32(1) if i == own[k] else f32(0)) - out[i] / s
            row, v = rows[first[k] + i], out[i]
            for c in range(D):
                g[c] += v * row[c]
    return L


@jit(fastmath={"reassoc", "contract", "nsz"})
def add_within(z, rows, first, sizes, gy, rates):
    """rows <- rows + rate dL/drows, in place, rates (V,), from the gy that `within` gave; other arguments as there."""
    K, D = z.shape
    t = 0
    for k in range(K):
        x = z[k]
        for i in range(sizes[k]):
            row, v = rows[first[k] + i], rates[first[k] + i] * gy[t]
            t += 1
            for c in range(D):
                row[c] += v * x[c]
