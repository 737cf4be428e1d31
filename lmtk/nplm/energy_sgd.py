"""Stochastic gradient ascent on ln P of the energy network, on all words or on a sample (section 5.1; `energy`).

With y = -E the gradient is that of a softmax: dL/dy_i = 1_(i=w) - P(i). It reaches H and C by two ways: through the
context's o, and through each output word's u = H_0 C(i), H_0 being the first m columns of H.
"""

import math
from functools import partial

import numpy as np

from lmtk.machine.exponential import exp_rows
from lmtk.machine.parallel import ALONE
from lmtk.nplm import kernels
from lmtk.nplm.energy import constant, exp_twice, minus_energies, minus_energies_backward, word_part
from lmtk.nplm.layers import linear, linear_back
from lmtk.nplm.pace import slowed, stiffest

f32 = np.float32


@np.errstate(over="ignore", invalid="ignore")
def step(p, weights, slow, contexts, w, words, log_inclusion, epsilon, decay, feature_rate, team, parts):
    """One update from a minibatch: theta += epsilon * sum over the examples of (dL/dtheta - decay * theta), in place; p
    has the arrays by letter; weights: an `energy.Weights`.

    contexts (K, n-1) and w (K,): ids. The softmax is over `words`, ascending ids, all or some, in `parts` blocks. With
    some, log_inclusion (V,) is ln of the probability that a word is among them; it is subtracted from y, but not for an
    example's own word (`sampled`). The decay is on v, H and C, not on the biases b and d; C learns feature_rate times
    faster; slow: a Pace.
    Returns (sum of ln p, norm of dL/do), taken before the update; where the former is not finite nothing is updated.
    """
    C, H, d, v, b = p.C, p.H, p.d, p.v, p.b
    K, V, h, m = len(w), len(words), len(d), C.shape[1]
    o, memory, _ = linear(p, C[contexts], None)
    A = exp_twice(o)
    C_out, v_out = C[words], weights.of(v, words)
    B, c = word_part(C_out, H), constant(v_out, b[words])
    if log_inclusion is not None:
        c -= log_inclusion[words]
    target = np.searchsorted(words, w)
    size = -(-V // parts)

    def forward(start):
        y = np.empty((K, min(size, V - start)), f32)
        minus_energies(A, B, v_out, weights.common, c, start, y)
        mine = np.flatnonzero((target >= start) & (target < start + y.shape[1]))
        at = mine, target[mine] - start
        if log_inclusion is not None:
            y[at] += log_inclusion[w[mine]]
        t = np.full(K, -np.inf, f32)
        t[mine] = y[at]
        q, s = np.empty((2, K), f32)
        exp_rows(y, q, s)
        return y, at, q, s, t

    found = team(forward, range(0, V, size))
    logp, scale = kernels.normalize(*(np.stack(part) for part in list(zip(*found, strict=True))[2:]), ALONE)
    total = float(logp.sum())
    if not math.isfinite(total):
        return total, math.nan

    def backward(block):
        start, (g, at, *_), share = block
        g *= -share[:, None]
        g[at] += 1
        go, gu = np.empty((K, h), f32), np.empty((h, g.shape[1]), f32)
        gv = np.empty((h, weights.columns(g.shape[1])), f32)
        minus_energies_backward(A, B, v_out, weights.common, start, g, go, gu, gv)
        return go, gu, gv, g.sum(axis=0)

    blocks = list(zip(range(0, V, size), found, scale, strict=True))
    go, gu, gv, gy = zip(*team(backward, blocks), strict=True)
    go, gu, gy = sum(go), np.concatenate(gu, axis=1), np.concatenate(gy)
    gv = weights.gathered(gv)
    g, gC = linear_back(p, memory, go), gu.T @ H[:, :m]
    paces = paces_of(weights, slow, A, B[:, target], H, weights.of(v_out, target), g, C, w) if slow.H else (1, 1, 1, 1)
    of_C, of_H, of_v, of_b = (f32(epsilon) * part for part in paces)
    keep = 1 - K * epsilon * decay
    if decay:
        v *= f32(keep)
        H *= f32(keep)
        C *= f32(1 - K * epsilon * feature_rate * decay)
    H[:, :m] += of_H * (gu @ C_out)
    H[:, m:] += of_H * g.arrays["H"]
    d += of_H * g.arrays["d"]
    weights.add(v, words, of_v, gv)
    b[words] -= (of_b * np.ones(len(b), f32))[words] * gy
    rates = f32(feature_rate) * of_C * np.ones(len(C), f32)
    C[words] += rates[words, None] * gC
    kernels.add_features(C, contexts, g.gx, rates)
    return total, float(np.linalg.norm(go))


def paces_of(weights, slow, A, B, H, v, g, C, w):
    """The paces of C, of H and d, v, b, as in `pace`; B and v: those of the examples' words w; g: the layer's gradient.

    For the curvature the examples' own words w stand for all output words: by their tanh(o + u), and by their dE/du.
    """
    m, V = C.shape[1], len(slow.outputs)
    s = 1 / (1 + A * B.T)
    tanh = 1 - 2 * s
    gu = 4 * v.T * s * (1 - s)
    stiff = partial(stiffest, number=len(w))
    of_H = stiff(*g.inputs) * stiff(g.go) + 2 * stiff(C[w]) * stiff(gu)
    met = slow.C * f32(stiffest(g.gx.reshape(-1, m), g.gx.size // m))
    met[:V] += slow.outputs * f32(slow.feature_rate * stiff(gu @ H[:, :m]))
    return slowed(met, 1), slowed(slow.H, of_H), weights.pace(slow, tanh), slowed(slow.outputs, 1)
