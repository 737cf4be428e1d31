"""The output layer that is a binary tree with the words as leaves (Bengio et al. 2003, section 5.2, item 2).

At each node the network decides between the two sides. P(word | context) is the product of the probabilities of the
decisions from the root down to the word,

P(side 1 of node i | context) = 1 / (1 + e^(-y_i)),   y = b + Wx + U tanh(d + Hx).

The probabilities are exact, and they sum to one by construction. An update and a score compute about log2(V) outputs
instead of V. Each of the V - 1 nodes has a row of U, W and b.

The module builds trees from counts (Huffman), from strings of 0 and 1, or by bisecting the words' features; declares
the arrays; computes ln p; and updates the weights.
"""

import heapq
import math

import numpy as np

from lmtk.errors import FormatError
from lmtk.files.declared import ids
from lmtk.lm import ranges
from lmtk.machine.jit import jit
from lmtk.nplm import kernels, model, outputs
from lmtk.nplm.classes import read_labels
from lmtk.nplm.pace import rate_factors

f32, i32 = np.float32, np.int32


# Arrays of a model: U (V-1, h), W (V-1, seen) or None, b (V-1,) of the nodes; tree (V-1, 2) int32: the children of each
# node, on the sides 0 and 1. A word is its id, node i is V + i. Node 0 is the root; children have greater numbers than
# their parents.


def declare_arrays(V, h, seen, size):
    return outputs.declare_softmax(V - 1, h, seen, size) | {"tree": ids(2 * V - 1, V - 1, 2)}


def check(p, V, path):
    tree = p.tree
    once = np.array_equal(np.sort(tree, None), np.delete(np.arange(2 * V - 1), V))
    if not once or (tree - V <= np.arange(V - 1)[:, None])[tree >= V].any():
        raise FormatError(path, "damaged: its tree does not lead from node 0 to each word once")


def describe(p):
    starts, _ = paths(p.tree)
    yield "decisions for a word", f"{np.diff(starts).mean():.4g}, at most {np.diff(starts).max()}"


def log_p(p, hidden, rows, w):
    """ln p(w | context), (N,) float64. The time grows with the depth of the words in the tree, not with V."""
    M, (starts, path) = kernels.stack_weights(p.U, p.W, p.b), paths(p.tree)
    follow = log_likelihood if len(rows) > model.MANY else log_likelihood_plain
    logp = np.empty(len(w))

    # equal contexts are scored again: finding them takes as long as scoring them
    def score(part):
        follow(hidden(rows[part]), M, starts, path, w[part], logp[part])

    model.run_in_stretches(score, len(w))
    return logp


def log_all(p, z):
    """ln p of all words, (K, V) float64, for the inputs z (K, D)."""
    (starts, path), y = paths(p.tree), outputs.outputs_of(z, p.U, p.W, p.b)
    decisions = -np.logaddexp(0, np.stack((y, -y), axis=2)).reshape(len(z), -1)  # by 2 node + side
    return np.add.reduceat(decisions[:, path], starts[:-1], axis=1)


OUTPUT = outputs.Output(
    declare_arrays,
    log_p,
    log_all,
    variances=lambda p, w: (variances(p.tree, w),),
    check=check,
    describe=describe,
    least=2,
)


def paths(tree):
    """The paths from the root to the words: (starts, path), where word w has path[starts[w]:starts[w + 1]], int32.

    A decision is 2 node + side.
    """
    V = len(tree) + 1
    above = np.full(2 * V - 1, -1, i32)
    above[tree[:, 0]], above[tree[:, 1]] = 2 * np.arange(V - 1), 2 * np.arange(V - 1) + 1
    depth = np.zeros(V - 1, np.int64)
    for i in range(1, V - 1):
        depth[i] = depth[above[V + i] >> 1] + 1
    lengths = depth[above[:V] >> 1] + 1
    starts = np.concatenate(([0], np.cumsum(lengths)))
    path = np.empty(starts[-1], i32)
    words, step, at = np.arange(V), above[:V], starts[1:] - 1
    while len(words):
        path[at] = step
        inner = step >= 2
        words, step, at = words[inner], above[V + (step[inner] >> 1)], at[inner] - 1
    return starts, path


class TreeBuilder:
    """Builds a tree bottom-up.

    pairs[i]: the children of node V + i; weight: the counts of the words, followed by those of the nodes.
    """

    def __init__(self, counts):
        self.V, self.weight, self.pairs = len(counts), counts.tolist(), []

    def join(self, a, b):
        self.pairs.append((a, b))
        self.weight.append(self.weight[a] + self.weight[b])
        return self.V + len(self.pairs) - 1

    def huffman(self, items):
        """Join words and nodes until one node is left, always the two rarest (Huffman 1952); returns this node."""
        heap = [(self.weight[i], i) for i in items]
        heapq.heapify(heap)
        while len(heap) > 1:
            (_, a), (_, b) = heapq.heappop(heap), heapq.heappop(heap)
            i = self.join(b, a)
            heapq.heappush(heap, (self.weight[i], i))
        return heap[0][1]

    def tree(self):
        """The array `tree`, its nodes numbered breadth first."""
        tree, order = np.empty((len(self.pairs), 2), i32), [len(self.pairs) - 1]
        for i, node in enumerate(order):
            for side, child in enumerate(self.pairs[node]):
                if child >= self.V:
                    order.append(child - self.V)
                    child = self.V + len(order) - 1
                tree[i, side] = child
        return tree


def tree_of_strings(strings, counts):
    """The tree in which words whose strings of 0 and 1 have a common prefix are below one node.

    strings: for each word bytes, or None. Huffman's procedure joins the words of one string, together with the node of
    the longer strings that begin with it. The words without a string become a branch of their own, beside all others;
    if no word has one, this is Huffman's tree, with the fewest decisions for a word of the text.
    """
    builder, items = TreeBuilder(counts), {}  # items: string -> words and nodes
    for w, string in enumerate(strings):
        items.setdefault(string, []).append(w)
    without = items.pop(None, [])
    by_length = {}
    for string in items:
        by_length.setdefault(len(string), set()).add(string)
    for length in range(max(by_length, default=0), 0, -1):
        for prefix in sorted({string[:-1] for string in by_length[length]}):
            sides = [builder.huffman(items[s]) for s in (prefix + b"0", prefix + b"1") if s in items]
            items.setdefault(prefix, []).append(builder.join(*sides) if len(sides) == 2 else sides[0])
            by_length.setdefault(length - 1, set()).add(prefix)
    branches = [builder.huffman(branch) for branch in (items.get(b"", []), without) if branch]
    builder.huffman(branches)
    return builder.tree()


def read_strings(path, vocab):
    """Read the string of 0 and 1 of each word that `vocab` predicts; None for a word that the file does not have.

    Lines are "string word [count]", as `lmtk ngram-class -write-paths` writes them. Raises FormatError.
    """

    def parse(fields, number):
        if len(fields) not in (2, 3) or fields[0].strip(b"01"):
            raise FormatError(
                path, "expected a path of 0s and 1s, then a word (ngram-class -write-paths writes this form)", number
            )
        return fields[:2]

    strings = read_labels(path, vocab, parse, "path", "has a second path; a word can have only one")
    return [strings.get(w) for w in range(vocab.V)]


def bisect_words(features, counts):
    """The string of 0 and 1 of each word, from halving the set of words again and again; None for a word without
    features.

    features: id -> (m,). A set of words is cut across the first principal axis of their features, at the place where
    both sides weigh about the same; the weight of a word is the square root of its count.
    """
    strings = [None] * len(counts)
    words = np.array(sorted(w for w in features if w < len(counts)), np.int64)
    X = np.array([features[w] for w in words.tolist()], np.float64)
    weight = np.sqrt(counts[words])
    stack = [(b"", np.arange(len(words)))]
    while stack:
        string, at = stack.pop()
        if len(at) < 2:
            for w in words[at].tolist():
                strings[w] = string
            continue
        centred = X[at] - np.average(X[at], axis=0, weights=weight[at])
        _, axes = np.linalg.eigh((centred * weight[at, None]).T @ centred)
        order = at[np.argsort(centred @ axes[:, -1], kind="stable")]
        mass = np.cumsum(weight[order])
        cut = min(int(np.abs(mass - mass[-1] / 2).argmin()) + 1, len(order) - 1)
        stack += [(string + b"0", order[:cut]), (string + b"1", order[cut:])]
    return strings


def initial_biases(counts, tree):
    """b before training, (V-1,): as long as U and W are 0, the probabilities of the words are their relative
    frequencies.
    """
    weight = node_counts(tree, counts)
    return np.log(weight[tree[:, 1]] / weight[tree[:, 0]]).astype(f32)


def node_counts(tree, counts):
    """The counts of the words, (V,), followed by those of the nodes, (V-1,): the sum over the words below each node."""
    V = len(tree) + 1
    weight = np.concatenate((counts, np.zeros(V - 1)))
    for i in range(V - 2, -1, -1):
        weight[V + i] = weight[tree[i]].sum()
    return weight


def variances(tree, w):
    """P(node) p (1 - p), (V-1,), with relative frequencies in w as probabilities, for `pace`.

    P(node) is the probability that a word is below the node; p is the probability that it is then on side 1.
    """
    weight = node_counts(tree, np.bincount(w[w >= 0], minlength=len(tree) + 1) / len(w))
    zero, one = weight[tree].T
    return zero * one / np.maximum(zero + one, 1e-30)


@jit(fastmath={"reassoc", "contract", "nsz"})
def log_likelihood(z, M, starts, path, w, logp):
    """logp_k <- ln P(w_k | context), in place: the sum of ln 1 / (1 + e^(-+y_i)) over the decisions on the path of w_k.

    z (K, D), M (V-1, D); starts, path: from `paths`; w (K,), logp (K,) float64. The probabilities of both sides of a
    node sum to one in all digits, since both are computed from one e^-|y|. One ln is taken of a product of many 1 +
    e^-|y|. Bound by memory: each decision reads a row of M, D floats, that is far from the others.
    """
    K, D = z.shape
    for k in range(K):
        total, product = 0.0, 1.0
        first, end = starts[w[k]], starts[w[k] + 1]
        for j in range(first, end):
            row = M[path[j] >> 1]
            y = f32(0)
            for c in range(D):
                y += z[k, c] * row[c]
            y = -y if path[j] & 1 else y
            # y is now the output for the other side: -ln p = ln(1 + e^y) = max(y, 0) + ln(1 + e^-|y|)
            e = math.exp(-abs(np.float64(y)))
            total -= max(np.float64(y), 0.0)
            product *= 1.0 + e
            if product > 1e150:
                total, product = total - math.log(product), 1.0
        logp[k] = total - math.log(product)


def log_likelihood_plain(z, M, starts, path, w, logp):
    """The same as `log_likelihood` in numpy, for small jobs, where compiling a kernel would take longer."""
    for begin in range(0, len(w), 256):
        part = slice(begin, begin + 256)
        lengths = starts[w[part] + 1] - starts[w[part]]
        k = np.repeat(np.arange(len(lengths)), lengths)
        steps = path[ranges(starts[w[part]], lengths)]
        y = np.einsum("kd,kd->k", z[part][k], M[steps >> 1]) * np.where(steps & 1, -1, 1)
        logp[part] = -np.bincount(k, np.logaddexp(0, y.astype(np.float64)), len(lengths))


@jit(fastmath={"reassoc", "contract", "nsz"})
def descend(z, M, starts, path, w, gy, gz):
    """gy <- dL/dy of each decision, in order, and gz <- dL/dz (K, D), in place. Returns L, the sum of ln p.

    dL/dy_i = side - 1 / (1 + e^(-y_i)). z (K, D), M (V-1, D); starts, path: from `paths`; w (K,). Bound by memory: rows
    of M, D floats for each decision, that are far from each other.
    """
    K, D = z.shape
    L, t = 0.0, 0
    for k in range(K):
        for c in range(D):
            gz[k, c] = f32(0)
        for j in range(starts[w[k]], starts[w[k] + 1]):
            row, side = M[path[j] >> 1], path[j] & 1
            y = f32(0)
            for c in range(D):
                y += z[k, c] * row[c]
            wrong = np.float64(-y if side else y)
            e = math.exp(-abs(wrong))
            L -= max(wrong, 0.0) + math.log(1.0 + e)
            p = (1.0 if wrong > 0 else e) / (1.0 + e)
            g = f32(p if side else -p)
            gy[t] = g
            t += 1
            for c in range(D):
                gz[k, c] += g * row[c]
    return L


@jit(fastmath={"reassoc", "contract", "nsz"})
def add_decisions(z, M, starts, path, w, gy, rates):
    """M <- M + rate dL/dM, in place, without the biases, the last column. rates (V-1,); gy: written by `descend`; z, M,
    starts, path, w: as in `descend`.
    """
    K, D = z.shape
    t = 0
    for k in range(K):
        for j in range(starts[w[k]], starts[w[k] + 1]):
            row, g = M[path[j] >> 1], rates[path[j] >> 1] * gy[t]
            t += 1
            for c in range(D - 1):
                row[c] += g * z[k, c]


def update_output(rows, ways, output_pace, z, w, epsilon, curvature):
    """Update the decisions on the path to each word.

    rows: an `outputs.Rows` of the nodes, changed in place; ways: the result of `paths`; output_pace (V-1,): the field
    `outputs` of a Pace; z (K, D): the input of the output layer; w (K,): the words; epsilon: the learning rate;
    curvature: as in `sgd.step`. Returns (L, dL/dz); if L is not finite, nothing changes and dL/dz is None.
    """
    (starts, path), M = ways, rows.M
    lengths = starts[w + 1] - starts[w]
    gy, gz = np.empty(lengths.sum(), f32), np.empty_like(z)
    L = descend(z, M, starts, path, w, gy, gz)
    if not math.isfinite(L):
        return L, None
    rates = f32(epsilon) * rate_factors(output_pace, curvature)
    add_decisions(z, M, starts, path, w, gy, rates)
    nodes = path[ranges(starts[w], lengths)] >> 1
    kernels.add_biases(M[:, -1], rows.low, nodes, rates[nodes] * gy)
    return L, gz
