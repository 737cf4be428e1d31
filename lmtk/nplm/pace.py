"""Limits of the learning rates: no parameter moves farther than the direction of highest curvature allows.

An update adds up the gradients of K examples. Along a direction in which many of them agree, the likelihood has up to K
times the curvature that it has for one example. A rate that suits one example then throws the parameters past the
maximum, farther each time, and training diverges. This happens to the row of C for <s>, which is in most contexts of
short sentences; to H, whose inputs these contexts make alike; and to the output of a word that half of the examples
have.

So each parameter has a factor of its learning rate in each update, at most 1:

factor = min(1, MOST / (eps_0 K c curvature)).

`make_pace` computes eps_0 K c of all parameters before training, a Pace. `rate_factors` computes the factors of an
update from a Pace and a curvature. eps_0 is the first learning rate. c is the share of the examples that a parameter
takes part in: 1 for the arrays of a layer; for a row of C, how often its word is in a context; for an output,
p (1 - p), where p is its share of the text.

The curvature is estimated from the Fisher information, as the product of two factors (Martens and Grosse 2015): the
largest eigenvalue for the inputs and the largest eigenvalue for the gradients at the outputs. For a layer the factors
are computed from x and dL/do. For the outputs only z is used, and for C only dL/dx, with a row for each word. Rare
words, and all parameters in a small minibatch, keep the full rate. With a minibatch of one example the update is the
paper's.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np

f32 = np.float32
PART = 1 << 16  # contexts at once
PASSES = 6  # over X in `largest_eigenvalue`
MOST = 0.5  # bound of rate times curvature; at 2 an update ends as far beyond the maximum as it began before it


@dataclass(frozen=True)
class Pace:
    """eps_0 K c of the parameters; with 0 a parameter learns with the full rate.

    C (words,): of the rows of C, times -feature-rate; H: of the layers; outputs (V,): of the outputs; top (c,): of the
    classes.
    """

    C: np.ndarray
    H: float
    outputs: np.ndarray
    top: np.ndarray | None = None


@dataclass(frozen=True)
class Rates:
    """The rates of one update.

    epsilon: the learning rate for one example, before the limits of a Pace. decay: the weight decay that the update
    applies. feature_rate: how many times higher the learning rate of C is.
    """

    epsilon: float
    decay: float = 0.0
    feature_rate: float = 1.0

    def keep(self, K):
        """(keep, keep_C): the factors by which the decay of K examples multiplies the weights and C."""
        share = K * self.epsilon * self.decay
        return 1 - share, 1 - share * self.feature_rate


def full_pace(words, V, classes=0):
    """The Pace with which all parameters learn with the full rate."""
    return Pace(np.zeros(words, f32), 0.0, np.zeros(V, f32), np.zeros(classes, f32))


def make_pace(settings, data, words, outputs, top=None):
    """The Pace of a run on these examples; C has `words` rows.

    outputs (V,) and top (c,): the variances p (1 - p) of the outputs of words or nodes, and of classes.
    """
    K = min(settings.minibatch, len(data.w))
    moved = settings.rate * (K if K > 1 else 0)
    shares = sum(np.bincount(rows.ravel(), minlength=words) for rows in split_contexts(data.contexts)) / len(data.w)
    of_C = f32(moved * settings.feature_rate) * shares.astype(f32)
    top = None if top is None else f32(moved) * top.astype(f32)
    return Pace(of_C, moved, f32(moved) * outputs.astype(f32), top)


def split_contexts(contexts):
    """Yield contexts (N, n-1) in parts, because `Windows` compute them on demand."""
    for i in range(0, len(contexts), PART):
        yield contexts[i : i + PART]


def rate_factors(moved, curvature):
    """The factors of the learning rates, at most 1, from eps_0 K c, a number or an array, and the curvature."""
    return MOST / np.maximum(moved * f32(curvature), f32(MOST))


def largest_eigenvalue(X, number, *more):
    """The largest eigenvalue of X'X / number, approached from below by two steps of the power method.

    X (N, D). With more arrays, X is the product of all of them, which is not computed.
    """
    factors = X, *more
    forth = lambda v: reduce(lambda v, Y: Y @ v, reversed(factors), v)
    signs = np.ones(len(X), X.dtype)
    signs[1::2] = -1
    v = reduce(np.matmul, factors, signs)
    for _ in range(2):
        v = reduce(np.matmul, factors, forth(v))
        v /= max(float(np.linalg.norm(v)), 1e-30)
    return float(np.square(forth(v)).sum()) / max(number, 1)


def variances(w, V):
    """p (1 - p) of each of V words, where p is the share of the word in w, (N,). Ids below 0 are other words."""
    p = np.bincount(w[w >= 0], minlength=V) / len(w)
    return p * (1 - p)
