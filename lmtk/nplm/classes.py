"""A network in two steps: P(class | context) P(word | class, context), exact and normalized by construction.

Bengio et al. 2003, section 5.2, item 1, would train a smaller network for each cluster of words; here they share
C, H and d.

An update and a score see the classes and the words of one class, about 2 sqrt(V) outputs in place of V.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from lmtk.errors import FormatError
from lmtk.files.streams import lines
from lmtk.nplm import kernels, sgd
from lmtk.nplm.network import runs
from lmtk.parallel import ALONE

f32 = np.float32


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
    return replace(network, Uc=Uc, Wc=Wc, bc=bc, classes=classes)


@dataclass
class Parameters(sgd.Parameters):
    """theta: blocks holds the classes' outputs and then, for each class, those of its words.

    classes, place (V,): the class of a word and its place in it.
    """

    classes: np.ndarray = None
    place: np.ndarray = None


def split(network):
    """Parameters of a network with classes, copied."""
    classes, W = network.classes, network.W
    rows = np.hstack((network.U, network.b[:, None]) if W is None else (network.U, W, network.b[:, None]))
    top = np.hstack((network.Uc, network.bc[:, None]) if W is None else (network.Uc, network.Wc, network.bc[:, None]))
    by_class = np.argsort(classes, kind="stable")
    ends = np.cumsum(np.bincount(classes))
    place = np.empty(len(classes), np.int64)
    place[by_class] = np.arange(len(classes)) - np.repeat(ends - np.bincount(classes), np.bincount(classes))
    blocks = [(0, np.ascontiguousarray(part.T)) for part in (top, *np.split(rows[by_class], ends[:-1]))]
    C, H, d = network.C.copy(), network.H.copy(), network.d.copy()
    return Parameters(C, H, d, blocks, W is not None, len(classes), ALONE, [], classes, place)


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
