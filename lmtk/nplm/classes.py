"""A network in two steps: P(class | context) P(word | class, context), exact and normalized by construction.

Bengio et al. 2003, section 5.2, item 1, would train a smaller network for each cluster of words; here they share
C, H and d.

An update and a score see the classes and the words of one class, about 2 sqrt(V) outputs in place of V.
"""

import math
from dataclasses import dataclass

import numpy as np

from lmtk.errors import FormatError
from lmtk.files.streams import lines
from lmtk.nplm import kernels, model, sgd
from lmtk.nplm.network import Network, outputs
from lmtk.parallel import ALONE

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
        """ln p(w | context), (N,) float64: in time that grows with the classes and their sizes, and not with V."""
        M, top, place, ends = self.tables()
        first = np.concatenate(([0], ends))
        exp_rows = kernels.exp_rows if len(rows) > model.MANY else model.exp_rows_plain

        def prepare(rows):
            z = self.hidden(rows)

            def own(k, w):
                order = np.argsort(self.classes[w], kind="stable")
                z_w, c, at = z[k[order]], self.classes[w[order]], place[w[order]]
                y = (np.einsum("kd,kd->k", z_w, top[c]) + np.einsum("kd,kd->k", z_w, M[at])).astype(np.float64)
                for i, j in runs(c):
                    y[i:j] -= model.log_sums_of_product(z_w[i:j], M[first[c[i]] : ends[c[i]]], exp_rows)
                found = np.empty(len(w))
                found[order] = y
                return found

            return model.log_sums_of_product(z, top, exp_rows), own

        return model.in_contexts(rows, w, len(self.C), prepare)

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
    def shapes(values, words, n, V):
        found, bc, classes = Network.shapes(values, words, n, V), values["bc"], values["classes"]
        if classes.shape != (V,) or not np.array_equal(np.unique(classes), np.arange(len(bc))):
            raise ValueError
        found |= {"Uc": (len(bc), *found["U"][1:]), "bc": (len(bc),)}
        return found | ({"Wc": (len(bc), *found["W"][1:])} if "W" in found else {})

    def describe(self):
        for name, value in super().describe():
            yield name, value - len(self.classes) if name == "parameters" else value
            if name.startswith("predicted words"):
                yield "classes", len(self.bc)


from_arrays = ClassNetwork.from_arrays


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
                shown = fields[-1].decode("utf-8", "backslashreplace")
                raise FormatError(path, f"'{shown}' is in a second class; a word can be in one", number)
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
    """theta: blocks holds the classes' outputs and then, for each class, those of its words.

    classes, place (V,): the class of a word and its place in it.
    """

    classes: np.ndarray = None
    place: np.ndarray = None


def split(network):
    """Parameters of a network with classes, copied."""
    classes = network.classes
    rows, top, place, ends = network.tables()
    place -= (ends - np.bincount(classes))[classes]
    blocks = [(0, np.ascontiguousarray(part.T)) for part in (top, *np.split(rows, ends[:-1]))]
    C, H, d = network.C.copy(), network.H.copy(), network.d.copy()
    return Parameters(C, H, d, blocks, network.W is not None, len(classes), ALONE, [], classes, place)


def join(theta):
    """Parameters -> (C, H, d, U, W, b, Uc, Wc, bc), copied; W and Wc are None without direct connections."""
    h = len(theta.d)
    (_, top), *blocks = theta.blocks
    rows = np.empty((theta.V, len(top)), f32)
    rows[np.argsort(theta.classes, kind="stable")] = np.concatenate([M for _, M in blocks], axis=1).T
    found = []
    for M in (rows, top.T):
        U, W, b = (np.ascontiguousarray(part) for part in (M[:, :h], M[:, h:-1], M[:, -1]))
        found += [U, W if theta.direct else None, b]
    return theta.C.copy(), theta.H.copy(), theta.d.copy(), *found


@np.errstate(over="ignore", invalid="ignore")
def step(theta, contexts, w, epsilon, feature_rate):
    """`sgd.step` without weight decay: one update from a minibatch, in place.

    The classes are a softmax like that of `sgd.step`; then the examples of each class are one over its words.
    """
    order = np.argsort(theta.classes[w], kind="stable")
    contexts, w = contexts[order], w[order]
    c, place = theta.classes[w], theta.place[w]
    x, a = kernels.hidden(theta.C, theta.H, theta.d, contexts)
    z = kernels.stack(a, x, theta.direct)
    parts = [(slice(0, len(w)), c, theta.blocks[0][1])]
    parts += [(slice(i, j), place[i:j], theta.blocks[c[i] + 1][1]) for i, j in runs(c)]
    outputs = [np.empty((len(seen), M.shape[1]), f32) for _, seen, M in parts]
    found = [kernels.block_forward(z[k], seen, 0, M, y) for (k, seen, M), y in zip(parts, outputs)]
    # the classes' K examples, then the K of the words
    logp, scale = kernels.normalize(*(np.concatenate(part)[None] for part in zip(*found)), ALONE)
    total = float(logp.sum())
    if not math.isfinite(total):
        return total, math.nan
    gz, begin = np.zeros_like(z), 0
    for (k, seen, M), y in zip(parts, outputs):
        end = begin + len(seen)
        gz[k] += kernels.block_backward(z[k], seen, 0, M, y, scale[0, begin:end], epsilon, 1)
        begin = end
    sgd.update_inputs(theta, contexts, gz, a, x, epsilon, 0, feature_rate)
    return total, float(np.linalg.norm(gz))
