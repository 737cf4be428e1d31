"""Outputs in two steps: P(class | context) P(word | class, context), exact and normalized by construction.

Bengio et al. 2003, section 5.2, item 1, would train a smaller network for each cluster of words; here they share
C and the hidden layer.

An update and a score see the classes and the words of one class, about 2 sqrt(V) outputs in place of V.
"""

import math
from dataclasses import dataclass

import numpy as np

from lmtk.errors import FormatError, shown
from lmtk.files.declared import ids, optional, reals
from lmtk.files.streams import WORD, lines
from lmtk.machine.jit import jit
from lmtk.machine.parallel import ALONE
from lmtk.nplm import kernels, model, outputs
from lmtk.nplm.pace import slowed

f32 = np.float32

# Uc (c, h), Wc (c, seen) or None, as W is, and bc (c,), float32: weights of the outputs of the c classes. classes (V,),
# int32: the class of each word; no class is empty. U, W and b are those of the words, y normalized within each class.


def declared(V, h, seen, size):
    c = size("bc", 0)
    more = {"Uc": reals(c, h), "Wc": optional(reals(c, seen)), "bc": reals(c), "classes": ids(c, V)}
    return outputs.of_words(V, h, seen, size) | more


def check(p, V, path):
    if len(np.unique(p.classes)) < len(p.bc):
        raise FormatError(path, "one of its classes has no word")
    if (p.W is None) != (p.Wc is None):
        raise FormatError(path, "its words have direct connections and its classes none, or the other way round")


def about(p):
    yield "classes", len(p.bc)


def log_p(p, hidden, rows, w, W):
    """ln p(w | context), (N,) float64: in time that grows with the classes and their sizes, and not with V.

    It goes class by class, for few and large products. To look for equal contexts would take as long as to score them.
    """
    M, top, place, ends = tables(p)
    first = ends - np.bincount(p.classes)
    exp_rows = model.exponentials(len(rows) > model.MANY)
    order = np.argsort(p.classes[w], kind="stable")
    logp = np.empty(len(w))

    def score(part):
        at = order[part]
        z, c, own = hidden(rows[at]), p.classes[w[at]], place[w[at]]
        found = log_softmax(z, top, c, exp_rows)
        for i, j in runs(c):
            inside = slice(first[c[i]], ends[c[i]])
            found[i:j] += log_softmax(z[i:j], M[inside], own[i:j] - inside.start, exp_rows)
        logp[at] = found

    model.in_stretches(score, len(w))
    return logp


def variances(p, w):
    """P(class) p (1 - p) of the words, p being P(word | class), in the order of `tables`, (V,); and p (1 - p) of the
    classes, p being P(class), (c,): relative frequencies in the words w.
    """
    share = np.bincount(w[w >= 0], minlength=len(p.classes)) / len(w)
    top = np.bincount(p.classes, weights=share)
    inside = share * (1 - share / np.maximum(top[p.classes], 1e-30))
    return inside[np.argsort(p.classes, kind="stable")], top * (1 - top)


OUTPUT = outputs.Output(declared, log_p, variances, check, about)


def tables(p):
    """M (V, D), the rows of the outputs of the words, class by class; top (c, D), of the classes; place (V,), a word's
    row of M; ends (c,), where each class ends in M.
    """
    by_class = np.argsort(p.classes, kind="stable")
    place = np.empty_like(by_class)
    place[by_class] = np.arange(len(by_class))
    top = kernels.outputs(p.Uc, p.Wc, p.bc)
    return kernels.outputs(p.U, p.W, p.b)[by_class], top, place, np.cumsum(np.bincount(p.classes))


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

    The square roots of the counts add up to about the same in each class, so that classes of rare words are larger.
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

    The latter are SRILM's. The words that have no class there form one; words that `vocab` does not predict are passed
    over. Raises FormatError.
    """
    names, found = {}, np.full(vocab.V, -1)
    for number, line in lines(path):
        fields = WORD.findall(line)
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


def first(counts, classes, h, seen):
    """Uc, Wc, bc and classes before training: bc the log of the classes' relative frequency, the rest 0; seen None:
    without direct connections.
    """
    sums = np.bincount(classes, weights=counts)
    c = len(sums)
    Wc = None if seen is None else np.zeros((c, seen), f32)
    return {"Uc": np.zeros((c, h), f32), "Wc": Wc, "bc": np.log(sums / sums.sum()).astype(f32), "classes": classes}


@dataclass
class Classes:
    """The outputs in training: MT (D, c) of the classes, M (V, D) of all words, class by class, row by row.

    classes, place (V,): the class of a word and its row of M; ends (c,): where each class ends.
    """

    MT: np.ndarray
    M: np.ndarray
    classes: np.ndarray
    place: np.ndarray
    ends: np.ndarray


def split(p, comm=ALONE):
    M, top, place, ends = tables(p)
    MT, M = comm.place(np.ascontiguousarray(top.T)), comm.place(np.ascontiguousarray(M))
    return Classes(MT, M, p.classes, place, ends)


def join(mine, h, direct):
    """U, W, b, Uc, Wc and bc by letter, copied."""
    words = zip("UWb", kernels.output_weights(mine.M[mine.place], h, direct))
    return dict(words) | dict(zip(("Uc", "Wc", "bc"), kernels.output_weights(mine.MT.T, h, direct)))


def shrink(mine, share, times):
    """Weight decay of `times` updates, but of the biases."""
    mine.MT[:-1] *= f32((1 - share) ** times)
    mine.M[:, :-1] *= f32((1 - share) ** times)


def see(mine, pace, z, w, epsilon, curvature):
    """As `outputs.see`: an update of the softmax over the classes, and of that over the words of each example's class.

    pace: a Pace, of the words class by class.
    """
    order = np.argsort(mine.place[w], kind="stable")
    z, w = z[order], w[order]
    c = mine.classes[w]
    first = np.concatenate(([0], mine.ends))[c]
    sizes, own = mine.ends[c] - first, mine.place[w] - first
    y, gy, gz = np.empty((len(w), mine.MT.shape[1]), f32), np.empty(sizes.sum(), f32), np.empty_like(z)
    inside = within(z, mine.M, first, sizes, own, gy, gz)
    logp, scale = kernels.normalize(*(part[None] for part in kernels.block_forward(z, c, 0, mine.MT, y)), ALONE)
    L = float(logp.sum()) + inside
    if not math.isfinite(L):
        return L, None
    gz += kernels.block_backward(z, c, 0, mine.MT, y, scale[0], epsilon, 1, slowed(pace.top, curvature))
    add_within(z, mine.M, first, sizes, gy, f32(epsilon) * slowed(pace.outputs, curvature))
    back = np.empty_like(gz)
    back[order] = gz
    return L, back


@jit(fastmath={"reassoc", "contract", "nsz"})
def within(z, rows, first, sizes, own, gy, gz):
    """A softmax over the words of a class for each example: gy <- dL/dy, one behind the other, gz <- dL/dz, in place.

    z, gz (K, D); rows (V, D): example k has the sizes[k] rows from first[k] on, its word the own[k]-th of them; gy (sum
    of sizes,). Returns L, the sum of ln P(word | class, context). Bound by memory: D floats for each word of the class
    come from beyond the second cache, once.
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
