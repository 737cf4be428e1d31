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
from lmtk.nplm import kernels
from lmtk.nplm.energy import constant_part, exp_twice, minus_energies, minus_energies_backward, word_part
from lmtk.nplm.layers import linear, linear_back
from lmtk.nplm.pace import largest_eigenvalue, rate_factors

f32 = np.float32


@np.errstate(over="ignore", invalid="ignore")
def step(p, weights, pace, contexts, w, words, log_inclusion, epsilon, decay, feature_rate, threads):
    """Make one update: theta += epsilon * sum over the examples of (dL/dtheta - decay * theta), in place.

    p has the arrays by letter, and b_low, what single precision rounds off b; weights: an `energy.Weights`; pace: a
    Pace. contexts (K, n-1) and w (K,): ids.
    The softmax is over `words`, ascending ids, in a block for each of the threads. If the words are a sample,
    log_inclusion (V,) is ln of the probability that a word is in the sample. It is subtracted from y, except for the
    word of the example itself (`sampled`). v, H and C decay, the biases b and d do not. The rate of C is
    feature_rate times higher.

    Returns (sum of ln p, norm of dL/do) from before the update. If the sum is not finite, nothing changes.
    """
    C, H, d, v, b = p.C, p.H, p.d, p.v, p.b
    K, V, h, m = len(w), len(words), len(d), C.shape[1]
    o, memory, _ = linear(p, C[contexts], None)
    A = exp_twice(o)
    C_out, v_out = C[words], weights.select(v, words)
    B, c = word_part(C_out, H), constant_part(v_out, b[words])
    if log_inclusion is not None:
        c -= log_inclusion[words]
    target = np.searchsorted(words, w)
    size = -(-V // threads)

    def forward(start):
        y = np.empty((K, min(size, V - start)), f32)
        minus_energies(A, B, v_out, weights.is_shared, c, start, y)
        in_block = np.flatnonzero((target >= start) & (target < start + y.shape[1]))
        at = in_block, target[in_block] - start
        if log_inclusion is not None:
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
        gv = np.empty((h, weights.columns(g.shape[1])), f32)
        minus_energies_backward(A, B, v_out, weights.is_shared, start, g, go, gu, gv)
        return go, gu, gv, g.sum(axis=0)

    blocks = list(zip(range(0, V, size), outputs, scale, strict=True))
    go, gu, gv, gy = zip(*map_at_once(backward, blocks, threads), strict=True)
    go, gu, gy = sum(go), np.concatenate(gu, axis=1), np.concatenate(gy)
    gv = weights.combine(gv)
    g, gC = linear_back(p, memory, go), gu.T @ H[:, :m]
    paces = (
        rate_factors_of(weights, pace, A, B[:, target], H, weights.select(v_out, target), g, C, w)
        if pace.H
        else (1, 1, 1, 1)
    )
    of_C, of_H, of_v, of_b = (f32(epsilon) * part for part in paces)
    if decay:
        shrink(p, 1 - K * epsilon * decay, 1 - K * epsilon * decay * feature_rate)
    H[:, :m] += of_H * (gu @ C_out)
    H[:, m:] += of_H * g.arrays["H"]
    d += of_H * g.arrays["d"]
    weights.add(v, words, of_v, gv)
    high, low, steps = b[words], p.b_low[words], -(of_b * np.ones(len(b), f32))[words] * gy
    kernels.add_exactly(high, low, steps)
    b[words], p.b_low[words] = steps, low
    rates = f32(feature_rate) * of_C * np.ones(len(C), f32)
    C[words] += rates[words, None] * gC
    kernels.add_features(C, contexts, g.gx, rates)
    return total, float(np.linalg.norm(go))


def shrink(p, keep, keep_C):
    """Multiply v and H by `keep`, and C by keep_C: weight decay."""
    p.v *= f32(keep)
    p.H *= f32(keep)
    p.C *= f32(keep_C)


def rate_factors_of(weights, pace, A, B, H, v, g, C, w):
    """The factors of the learning rates of C, of H and d, of v, and of b (`pace`).

    B and v are the columns of the words w of the examples; g is the gradient of the hidden layer. The curvature is
    estimated from the words w alone, by their tanh(o + u) and their dE/du, instead of from all output words.
    """
    m, V = C.shape[1], len(pace.outputs)
    s = 1 / (1 + A * B.T)
    tanh = 1 - 2 * s
    gu = 4 * v.T * s * (1 - s)
    curvature = partial(largest_eigenvalue, number=len(w))
    of_H = curvature(*g.inputs) * curvature(g.go) + 2 * curvature(C[w]) * curvature(gu)
    of_C = pace.C * f32(largest_eigenvalue(g.gx.reshape(-1, m), g.gx.size // m))
    of_C[:V] += pace.outputs * f32(pace.feature_rate * curvature(gu @ H[:, :m]))
    b_factors = rate_factors(pace.outputs, 1)
    return rate_factors(of_C, 1), rate_factors(pace.H, of_H), weights.rate_factors(pace, tanh), b_factors
