"""The output layer with word classes: P(word | context) = P(class | context) P(word | class, context).

The probabilities are exact, and they sum to one by construction. An update and a score compute the outputs of all
classes and of the words of one class: about 2 sqrt(V) outputs instead of V.

Bengio et al. 2003 (section 5.2, item 1) propose a smaller network for each cluster of words. Here all classes share C
and the hidden layer.

The module reads a class file or makes classes by frequency, declares and initializes the arrays, computes ln p, and
updates the weights.
"""

import math

import numpy as np

from lmtk.errors import FormatError, shown
from lmtk.files.declared import ids, optional, reals
from lmtk.files.decoding import WORD, lines
from lmtk.lm import ranges
from lmtk.machine.jit import jit
from lmtk.machine.parallel import ALONE
from lmtk.nplm import kernels, model, outputs
from lmtk.nplm.pace import rate_factors

f32 = np.float32

# Arrays of a model, float32 except classes:
# Uc (c, h), Wc (c, seen), bc (c,)   output weights of the c classes; Wc is None without direct connections
# classes (V,) int32                 the class of each word; no class is empty
# U, W, b                            output weights of the words; the softmax runs over the words of one class


def declare_arrays(V, h, seen, size):
    c = size("bc", 0)
    of_classes = {"Uc": reals(c, h), "Wc": optional(reals(c, seen)), "bc": reals(c), "classes": ids(c, V)}
    return outputs.declare_softmax(V, h, seen, size) | of_classes


def check(p, V, path):
    if len(np.unique(p.classes)) < len(p.bc):
        raise FormatError(path, "damaged: a class has no word")
    if (p.W is None) != (p.Wc is None):
        raise FormatError(
            path, "damaged: only one of W and Wc is there; words and classes must both have direct connections"
        )


def describe(p):
    yield "classes", len(p.bc)


def log_p(p, hidden, rows, w):
    """ln p(w | context), (N,) float64. The time grows with the number of classes and their sizes, not with V.

    The words are scored class by class, which makes a few large matrix products. Equal contexts are scored again:
    finding them would take as long as scoring them.
    """
    M, M_classes, place, bounds = class_tables(p)
    exp_rows = model.choose_exp_rows(len(rows) > model.MANY)
    order = np.argsort(p.classes[w], kind="stable")
    logp = np.empty(len(w))

    def score(part):
        at = order[part]
        z, c, row = hidden(rows[at]), p.classes[w[at]], place[w[at]]
        part_logp = target_log_softmax(z, M_classes, c, exp_rows)
        begins = np.flatnonzero(np.diff(c, prepend=-1)).tolist()  # of runs of words of one class
        for i, j in zip(begins, (*begins[1:], len(c))):
            members = slice(bounds[c[i]], bounds[c[i] + 1])
            part_logp[i:j] += target_log_softmax(z[i:j], M[members], row[i:j] - members.start, exp_rows)
        logp[at] = part_logp

    model.run_in_stretches(score, len(w))
    return logp


def variances(p, w):
    """The variances of the outputs, with relative frequencies in the words w as probabilities, for `pace`.

    Returns P(class) p (1 - p) of the words, p being P(word | class), (V,) in the order of M in `class_tables`; and
    p (1 - p) of the classes, p being P(class), (c,).
    """
    share = np.bincount(w[w >= 0], minlength=len(p.classes)) / len(w)
    class_share = np.bincount(p.classes, weights=share)
    of_words = share * (1 - share / np.maximum(class_share[p.classes], 1e-30))
    return of_words[np.argsort(p.classes, kind="stable")], class_share * (1 - class_share)


def log_all(p, z):
    """ln p of all words, (K, V) float64, for the inputs z (K, D)."""
    order, sizes = np.argsort(p.classes, kind="stable"), np.bincount(p.classes)
    begins, class_of = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)  # of words sorted by class
    y = outputs.outputs_of(z, p.U, p.W, p.b)[:, order]
    y -= np.maximum.reduceat(y, begins, axis=1)[:, class_of]
    sums = np.add.reduceat(np.exp(y), begins, axis=1)
    of_classes = outputs.log_softmax(outputs.outputs_of(z, p.Uc, p.Wc, p.bc))
    logp = np.empty_like(y)
    logp[:, order] = y + (of_classes - np.log(sums))[:, class_of]
    return logp


OUTPUT = outputs.Output(declare_arrays, log_p, log_all, variances=variances, check=check, describe=describe)


def class_tables(p):
    """The weights of an output layer with classes, as scoring and training use them.

    Returns M (V, D), the weights of the words, ordered by class; M_classes (c, D), the weights of the classes; place
    (V,), the row of M of each word; and bounds (c + 1,): class i has the rows of M from bounds[i] up to bounds[i + 1].
    """
    by_class = np.argsort(p.classes, kind="stable")
    place = np.empty_like(by_class)
    place[by_class] = np.arange(len(by_class))
    M, M_classes = kernels.stack_weights(p.U, p.W, p.b)[by_class], kernels.stack_weights(p.Uc, p.Wc, p.bc)
    return M, M_classes, place, np.append(0, np.cumsum(np.bincount(p.classes)))


def target_log_softmax(z, M, target, exp_rows):
    """ln of the softmax of y = zM' at one target output of each row, (K,) float64.

    z (K, D), M (V, D), target (K,): numbers of outputs, below V.
    """
    t = np.empty(len(z))

    def block(j, y):
        np.matmul(z, M[j : j + y.shape[1]].T, out=y)
        in_block = np.flatnonzero((target >= j) & (target < j + y.shape[1]))
        t[in_block] = y[in_block, target[in_block] - j]

    sums = model.log_sums(len(z), len(M), block, exp_rows)
    return t - sums


def classes_by_frequency(counts):
    """Group words of similar frequency: the class of each word, (V,) int32. Class 0 has the most frequent words.

    There are about sqrt(V) classes. The square roots of the counts have about the same sum in each class, so classes of
    rare words have more words.
    """
    order = np.argsort(-counts, kind="stable")
    mass = np.cumsum(np.sqrt(counts[order]))
    number = math.isqrt(len(counts) - 1) + 1
    classes = np.empty(len(counts), np.int32)
    classes[order] = np.minimum((mass - np.sqrt(counts[order])) * number / mass[-1], number - 1)
    return close_gaps(classes)


def close_gaps(classes):
    """Number classes from 0 without gaps, keeping their order."""
    return np.unique(classes, return_inverse=True)[1].astype(np.int32)


def read_labels(path, vocab, parse, kind, conflict):
    """Read a file with a label for a word on each line: {id: label} of the words that `vocab` predicts, in the order of
    the file. Raises FormatError.

    parse(fields, number) -> (label, word) of a line, whose words are `fields`. kind: what a label is called. conflict:
    what a message says about a word with two labels.
    """
    labels = {}
    for number, line in lines(path):
        fields = WORD.findall(line)
        if not fields:
            continue
        label, word = parse(fields, number)
        w = vocab.index.get(word, vocab.V)
        if w < vocab.V and labels.setdefault(w, label) != label:
            raise FormatError(path, f"'{shown(word)}' {conflict}", number)
    if not labels:
        raise FormatError(path, f"the file has no {kind} for any word of the vocabulary")
    return labels


def read_word_classes(path, vocab):
    """Read a class file: the class of each word that `vocab` predicts, (V,) int32.

    Lines are "class word", or SRILM's "class probability word". All words without a class in the file share one class.
    Words that `vocab` does not predict are ignored. Raises FormatError.
    """

    def parse(fields, number):
        if len(fields) not in (2, 3):
            raise FormatError(path, f"expected a class and a word, got {len(fields)} fields", number)
        if len(fields) == 3 and not is_probability(fields[1]):
            tree = "-objective tree reads a file of ngram-class -write-paths"
            raise FormatError(path, f"expected a class, a probability and a word; {tree}", number)
        return fields[0], fields[-1]

    conflict = "already has another class; a word can be in one class only"
    labels = read_labels(path, vocab, parse, "class", conflict)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(labels.values()))}
    return close_gaps(np.array([numbers.get(labels.get(w), len(numbers)) for w in range(vocab.V)]))


def is_probability(text):
    try:
        return 0 <= float(text) <= 1 + 1e-9
    except ValueError:
        return False


def initial_arrays(counts, classes, h, seen):
    """Uc, Wc, bc and classes before training: bc is the log of the relative frequency of each class, Uc and Wc are 0.

    seen: features that the direct connections see; None: there are no direct connections.
    """
    sums = np.bincount(classes, weights=counts)
    c = len(sums)
    Wc = None if seen is None else np.zeros((c, seen), f32)
    return {"Uc": np.zeros((c, h), f32), "Wc": Wc, "bc": np.log(sums / sums.sum()).astype(f32), "classes": classes}


class Classes:
    """The output weights during training.

    MT (D, c): of the classes, transposed; M (V, D), place and bounds: as in `class_tables`; classes (V,): the class of
    each word. low_classes (c,), low (V,): what single precision rounds off the biases of both.
    """

    def __init__(self, p, comm=ALONE):
        M, M_classes, self.place, self.bounds = class_tables(p)
        self.MT, self.M = comm.place(np.ascontiguousarray(M_classes.T)), comm.place(np.ascontiguousarray(M))
        low = np.empty_like(p.b)
        low[self.place] = p.b_low
        self.low_classes, self.low, self.classes = comm.place(p.bc_low.copy()), comm.place(low), p.classes

    def shrink(self, keep):
        """Multiply the weights by `keep`: weight decay. Biases do not decay."""
        self.MT[:-1] *= f32(keep)
        self.M[:, :-1] *= f32(keep)

    @property
    def weights(self):
        """The arrays that updates change in place."""
        return [self.MT, self.low_classes, self.M, self.low]

    def gather(self, h, direct):
        """Copies of U, W, b, Uc, Wc and bc by letter, and of b_low and bc_low. W and Wc are None without direct
        connections.
        """
        words = zip("UWb", kernels.split_weights(self.M[self.place], h, direct))
        of_classes = zip(("Uc", "Wc", "bc"), kernels.split_weights(self.MT.T, h, direct))
        low = {"b_low": self.low[self.place], "bc_low": self.low_classes.copy()}
        return dict(words) | dict(of_classes) | low


def update_output(layer, pace, z, w, epsilon, curvature):
    """Update the softmax over the classes and, for each example, the softmax over the words of its class.

    layer: a `Classes`, changed in place. pace: a Pace whose outputs are in the order of layer.M. z (K, D): input of the
    output layer; w (K,): the words; epsilon: the learning rate; curvature: as in `sgd.step`.
    Returns (L, dL/dz); if L is not finite, nothing changes and dL/dz is None.
    """
    order = np.argsort(layer.place[w], kind="stable")
    z, w = z[order], w[order]
    c = layer.classes[w]
    first = layer.bounds[c]
    sizes, target = layer.bounds[c + 1] - first, layer.place[w] - first
    y, gy, gz = np.empty((len(w), layer.MT.shape[1]), f32), np.empty(sizes.sum(), f32), np.empty_like(z)
    L_words = softmax_in_class(z, layer.M, first, sizes, target, gy, gz)
    logp, scale = kernels.normalize(*(part[None] for part in kernels.block_forward(z, c, 0, layer.MT, y)), ALONE)
    L = float(logp.sum()) + L_words
    if not math.isfinite(L):
        return L, None
    of_classes = epsilon, 1, rate_factors(pace.top, curvature)
    gz += kernels.block_backward(z, c, 0, (layer.MT, layer.low_classes), y, scale[0], of_classes)
    rates = f32(epsilon) * rate_factors(pace.outputs, curvature)
    add_in_class(z, layer.M, first, sizes, gy, rates)
    rows = ranges(first, sizes)
    kernels.add_biases(layer.M[:, -1], layer.low, rows, rates[rows] * gy)
    in_order = np.empty_like(gz)
    in_order[order] = gz
    return L, in_order


@jit(fastmath={"reassoc", "contract", "nsz"})
def softmax_in_class(z, rows, first, sizes, target, gy, gz):
    """For each example, the softmax over the words of its class: gy <- dL/dy and gz <- dL/dz, in place.

    z, gz (K, D); rows (V, D): output weights. Example k uses the sizes[k] rows from first[k] on, and its word is the
    target[k]-th of these rows. gy (sum of sizes,): the gradients of one example after the other.
    Returns L, the sum of ln P(word | class, context). Bound by memory: each example reads D floats for each word of its
    class once, from beyond the second-level cache.
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
        seen, s = out[target[k]], f32(0)
        for i in range(sizes[k]):
            out[i] = math.exp(out[i] - q)
            s += out[i]
        L += np.float64(seen - q) - math.log(np.float64(s))
        for c in range(D):
            g[c] = f32(0)
        for i in range(sizes[k]):
            out[i] = (f32(1) if i == target[k] else f32(0)) - out[i] / s
            row, v = rows[first[k] + i], out[i]
            for c in range(D):
                g[c] += v * row[c]
    return L


@jit(fastmath={"reassoc", "contract", "nsz"})
def add_in_class(z, rows, first, sizes, gy, rates):
    """rows <- rows + rate dL/drows, in place, without the biases, the last column. rates (V,); gy: written by
    `softmax_in_class`; z, rows, first, sizes: the same as there.
    """
    K, D = z.shape
    t = 0
    for k in range(K):
        x = z[k]
        for i in range(sizes[k]):
            row, v = rows[first[k] + i], rates[first[k] + i] * gy[t]
            t += 1
            for c in range(D - 1):
                row[c] += v * x[c]
