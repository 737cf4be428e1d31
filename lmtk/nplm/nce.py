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
HIGHEST = f32(80)  # of ln e^y / (S q), for float32; P(text) is 1 there long since
NOISE = 1.0  # the most that the noise of an example takes from it, as much as a softmax


@np.errstate(over="ignore", invalid="ignore")
def step(theta, contexts, w, drawn, q, epsilon, feature_rate, team, parts, kept=None):
    """One update from a minibatch, in place: theta += epsilon dL/dtheta, with

    L = sum_k (ln P(text | w_k) + sum_j ln (1 - P(text | j))), j over the drawn words (S,), as often as they were drawn;
    where those P(text | j) of an example sum to more than 1, which those of a softmax cannot, they are divided by that.

    contexts (K, n-1), w (K,) ids; q (V,) the chances of the noise; theta as `sampled.split` makes it; other arguments,
    and what rows change, as in `sampled.step`. Returns (an estimate of the sum of ln p, norm of dL/dz), taken before
    the update; where the former is not finite nothing is updated. The estimate normalizes by e^(y_w) and 1/S of the
    sum of e^(y_j) / q_j over the drawn words but w.
    """
    words, place = np.unique(np.concatenate((w, drawn)), return_inverse=True)
    n = np.bincount(place[len(w) :], minlength=len(words)).astype(f32)
    log_noise = np.log(len(drawn) * q[words]).astype(f32)
    z, x, a = sgd.forward_inputs(theta, contexts, kept)
    (first, M) = theta.blocks[0]
    rows = M.T

    def forward(piece):
        block = np.ascontiguousarray(rows[words[piece] - first].T)
        ratio = np.exp(np.minimum(z @ block - log_noise[piece], HIGHEST))  # e^y / (S q)
        mine = np.flatnonzero((place[: len(w)] >= piece.start) & (place[: len(w)] < piece.stop))
        own = mine, place[mine] - piece.start
        seen, others = np.zeros((2, len(w)))
        seen[mine] = ratio[own] * np.exp(log_noise[place[mine]].astype(np.float64))
        others[mine] = -n[place[mine]] * ratio[own]
        others += ratio @ n[piece]
        p = ratio / (1 + ratio)
        g = p * -n[piece]
        return block, g, own, 1 - p[own], np.stack((seen, others, g.sum(axis=1)))

    pieces = sampled.slices(words, first, len(rows), parts)
    found = team(forward, pieces)
    seen, others, taken = theta.comm.sum(sum(part[-1] for part in found))
    total = float((np.log(seen) - np.log(seen + np.maximum(others, 0))).sum())
    if not math.isfinite(total):
        return total, math.nan
    share = (NOISE / np.maximum(-taken, NOISE)).astype(f32)[:, None]
    pace = slowed(theta.pace.outputs[words], sgd.curvature(theta, z))

    def backward(found):
        piece, (block, g, own, more, _) = found
        g *= share
        g[own] += more
        gz = g @ block.T
        add_product(epsilon, z, g * pace[piece], 1, block)
        return gz

    gz = theta.comm.sum(sum(team(backward, list(zip(pieces, found, strict=True)))))
    for piece, (block, *_) in zip(pieces, found, strict=True):
        rows[words[piece] - first] = block.T
    sgd.update_inputs(theta, contexts, gz, a, x, epsilon, 0, feature_rate, kept)
    return total, float(np.linalg.norm(gz))
