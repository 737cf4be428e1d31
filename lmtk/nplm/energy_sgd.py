"""Stochastic gradient ascent on ln P of the energy network (`energy`; Bengio et al. 2003, section 5.1).

`step` takes a minibatch and updates the parameters, with all words or a sample of the words as outputs. With y = -E the
gradient is that of a softmax: dL/dy_i = 1_(i=w) - P(i). H and C get gradients in two ways: through o of the context,
and through u = H_0 C(i) of each output word, where H_0 is the first m columns of H.
"""

import math
from functools import partial

import numpy as np

from lmtk.exponential import exp_rows
from lmtk.machine.parallel import ALONE
from lmtk.machine.threads import map_at_once
from lmtk.nplm import energy, kernels
from lmtk.nplm.layers import linear, linear_back
from lmtk.nplm.pace import largest_eigenvalue, rate_factors
from lmtk.nplm.sgd import shrink

f32 = np.float32


@np.errstate(over="ignore", invalid="ignore")
def step(p, pace, examples, candidates, rates, threads):
    """Make one update: theta += epsilon * sum over the examples of (dL/dtheta - decay * theta), in place.

    p has the arrays by letter, and b_low, what single precision rounds off b; pace, rates: a Pace and Rates of the
    module `pace`. examples: contexts (K, n-1) and words w (K,), ids.
    candidates: ascending ids, over which the softmax is computed, in a block for each of the threads; and log_inclusion
    (V,): ln of the probability that a word is among them, 0 if all words are. It is subtracted from y, except for the
    word of the example itself (`sampled`). v, H and C decay, the biases b and d do not.

    Returns (sum of ln p, norm of dL/do) from before the update. If the sum is not finite, nothing changes.
    """
    (contexts, w), (words, log_inclusion) = examples, candidates
    K, V, h, is_shared = len(w), len(words), len(p.d), p.v.shape[1] == 1
    v_out = p.v[:, energy.columns_of(p.v, words)]
    o, kept, _ = linear(p, p.C[contexts], None)
    A, B, c = energy.exp_twice(o), energy.word_part(p.C[words], p.H), energy.constant_part(v_out, p.b[words])
    c -= log_inclusion[words]
    target = np.searchsorted(words, w)
    size = -(-V // threads)

    def forward(start):
        y = np.empty((K, min(size, V - start)), f32)
        energy.minus_energies(A, B, v_out, c, start, y)
        in_block = np.flatnonzero((target >= start) & (target < start + y.shape[1]))
        at = in_block, target[in_block] - start
        y[at] += log_inclusion[w[in_block]]
        t = np.full(K, -np.inf, f32)
        t[in_block] = y[at]
        q, s = np.empty((2, K), f32)
        exp_rows(y, q, s)
        return y, at, q, s, t

    outputs = map_at_once(forward, range(0, V, size), threads)
    logp, scale = kernels.normalize(*(np.stack(part) for part in list(zip(*outputs, strict=True))[2:]), ALONE)
    total = float(logp.sum())
    if not math.isfinite(total):
        return total, math.nan

    def backward(block):
        start, (g, at, *_), share = block
        g *= -share[:, None]
        g[at] += 1
        go, gu = np.empty((K, h), f32), np.empty((h, g.shape[1]), f32)
        gv = np.empty((h, 1 if is_shared else g.shape[1]), f32)
        energy.minus_energies_backward(A, B, v_out, start, g, (go, gu, gv))
        return go, gu, gv, g.sum(axis=0)

    blocks = list(zip(range(0, V, size), outputs, scale, strict=True))
    go, gu, gv, gy = zip(*map_at_once(backward, blocks, threads), strict=True)
    go, gu, gy = sum(go), np.concatenate(gu, axis=1), np.concatenate(gy)
    gv = sum(gv) if is_shared else np.concatenate(gv, axis=1)
    gx, (g,) = linear_back(p, kept, go)
    factors = 1, 1, 1, 1
    if pace.H:
        s = 1 / (1 + A * B[:, target].T)
        factors = rate_factors_of(p, pace, s, v_out[:, energy.columns_of(p.v, target)], (gx, g), w, rates.feature_rate)
    update(p, contexts, words, (gx, g, gu, gv, gy), factors, rates)
    return total, float(np.linalg.norm(go))


def update(p, contexts, words, gradients, factors, rates):
    """Add the steps of an update to the parameters, in place. gradients: dL/dx and the `layers.Gradient` of the
    context, dL/du (h, V), dL/dv and dL/dy (V,) of the output `words`; factors: from `rate_factors_of`.
    """
    (gx, g, gu, gv, gy), C, H, m = gradients, p.C, p.H, p.C.shape[1]
    of_C, of_H, of_v, of_b = (f32(rates.epsilon) * part for part in factors)
    C_out, gC = C[words], gu.T @ H[:, :m]
    if rates.decay:
        shrink(p, *rates.keep(len(contexts)))
    H[:, :m] += of_H * (gu @ C_out)
    H[:, m:] += of_H * g.arrays["H"]
    p.d += of_H * g.arrays["d"]
    columns = energy.columns_of(p.v, words)
    p.v[:, columns] += (of_v * np.ones(p.v.shape[1], f32))[columns] * gv
    kernels.add_biases(p.b, p.b_low, words, -(of_b * np.ones(len(p.b), f32))[words] * gy)
    of_C = f32(rates.feature_rate) * of_C * np.ones(len(C), f32)
    C[words] += of_C[words, None] * gC
    kernels.add_features(C, contexts, gx, of_C)


def rate_factors_of(p, pace, s, v, gradients, w, feature_rate):
    """The factors of the learning rates of C, of H and d, of v, and of b (`pace`).

    w (K,): the words of the examples; s (K, h): 1 / (1 + e^(2 (o + u))) of each example and its word; v: the columns of
    v for w, or the one column that all words share; gradients: dL/dx and the `layers.Gradient` of the hidden layer;
    feature_rate: as in Rates. The curvature is estimated from the words w alone, by their tanh(o + u) and their dE/du,
    instead of from all output words.
    """
    (gx, g), m, V = gradients, p.C.shape[1], len(pace.outputs)
    tanh = 1 - 2 * s
    gu = 4 * v.T * s * (1 - s)
    curvature = partial(largest_eigenvalue, number=len(w))
    of_H = curvature(*g.inputs) * curvature(g.go) + 2 * curvature(p.C[w]) * curvature(gu)
    of_C = pace.C * f32(largest_eigenvalue(gx.reshape(-1, m), gx.size // m))
    of_C[:V] += pace.outputs * f32(feature_rate * curvature(gu @ p.H[:, :m]))
    if p.v.shape[1] == 1:
        v_factors = rate_factors(pace.H, curvature(tanh - tanh.mean(axis=0)))
    else:
        v_factors = rate_factors(pace.outputs, curvature(tanh))
    return rate_factors(of_C, 1), rate_factors(pace.H, of_H), v_factors, rate_factors(pace.outputs, 1)
