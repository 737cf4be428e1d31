"""Noise-contrastive estimation (Gutmann and Hyvarinen 2010; Mnih and Teh 2012): updates that tell the words of the text
from words of a known distribution, noise.

A minibatch shares its S words of noise, drawn with the chances q. That a word is no noise has the probability

P(text | w, context) = e^(y_w) / (e^(y_w) + S q_w) = 1 / (1 + e^-(y_w - ln S q_w)),

in which e^y stands for the probability itself: the sum over all words, 1 where training has succeeded, is not computed.
"""

import math

import numpy as np

from lmtk.machine.blas import add_product
from lmtk.nplm import sampled, sgd
from lmtk.nplm.pace import slowed

f32 = np.float32
TINY = np.finfo(f32).tiny
NOISE = 1.0


@np.errstate(over="ignore", invalid="ignore")
def step(theta, contexts, w, drawn, q, epsilon, feature_rate, team, parts, kept=None):
    """One update from a minibatch, in place: theta += epsilon dL/dtheta, with

    L = sum_k (ln P(text | w_k) + sum_j ln (1 - P(text | j))), j over the drawn words (S,), as often as they were drawn.

    contexts (K, n-1), w (K,) ids; q (V,) the chances of the noise; theta as `sampled.split` makes it; other arguments,
    and what rows change, as in `sampled.step`. Returns (L, norm of dL/dz), taken before the update; where the former is
    not finite nothing is updated.
    """
    words, place = np.unique(np.concatenate((w, drawn)), return_inverse=True)
    n = np.bincount(place[len(w) :], minlength=len(words)).astype(f32)
    log_noise = np.log(len(drawn) * q[words]).astype(f32)
    z, x, a = sgd.forward_inputs(theta, contexts, kept)
    (first, M) = theta.blocks[0]
    rows = M.T

    def forward(piece):
        block = np.ascontiguousarray(rows[words[piece] - first].T)
        p = 1 / (1 + np.exp(log_noise[piece] - z @ block))
        mine = np.flatnonzero((place[: len(w)] >= piece.start) & (place[: len(w)] < piece.stop))
        own = mine, place[mine] - piece.start
        L = np.log(np.maximum(p[own], TINY)).sum(dtype=np.float64)
        L += (np.log(np.maximum(1 - p, TINY)) @ n[piece]).sum(dtype=np.float64)
        g = p * -n[piece]
        return block, g, L, own, 1 - p[own], g.sum(axis=1)

    pieces = sampled.slices(words, first, len(rows), parts)
    found = team(forward, pieces)
    total = float(theta.comm.sum(np.array([sum(part[2] for part in found)]))[0])
    if not math.isfinite(total):
        return total, math.nan

    taken = -theta.comm.sum(sum(part[5] for part in found))
    share = (NOISE / np.maximum(taken, NOISE)).astype(f32)[:, None]

    pace = slowed(theta.pace.outputs[words], sgd.curvature(theta, z))

    def backward(found):
        block, g, _, own, more, _ = found[1]
        g *= share
        g[own] += more
        gz = g @ block.T
        add_product(epsilon, z, g * pace[found[0]], 1, block)
        return gz

    gz = theta.comm.sum(sum(team(backward, list(zip(pieces, found, strict=True)))))
    for piece, (block, *_) in zip(pieces, found, strict=True):
        rows[words[piece] - first] = block.T
    sgd.update_inputs(theta, contexts, gz, a, x, epsilon, 0, feature_rate, kept)
    return total, float(np.linalg.norm(gz))
