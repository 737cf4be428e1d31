"""Noise-contrastive estimation (Gutmann and Hyvarinen 2010; Mnih and Teh 2012): the network learns to tell the words of
the text from noise, words drawn from a known distribution q.

The examples of a minibatch share S words of noise. A word comes from the text, and not from the noise, with probability

P(text | w, context) = e^(y_w) / (e^(y_w) + S q_w) = 1 / (1 + e^-(y_w - ln S q_w)).

Here e^y stands for the probability itself. Its sum over all words, 1 where training has succeeded, is not computed.
"""

import numpy as np

from lmtk.machine.blas import add_product
from lmtk.nplm import kernels, outputs
from lmtk.nplm.pace import slowed

f32 = np.float32
HIGHEST = f32(80)  # of ln (e^y / (S q)), so that float32 does not overflow; P(text) is 1 long before
NOISE = 1.0  # the most that the gradients -dL/dy of an example's noise sum to, as those of a softmax do


@np.errstate(over="ignore", invalid="ignore")
def see(rows, team, parts, pace, drawn, q, z, w, epsilon, curvature):
    """As `outputs.see`: an update of the rows of M of the words w (K,) and of the noise, with

    L = sum_k (ln P(text | w_k) + sum_j ln (1 - P(text | j))), j over the drawn words (S,), as often as they were drawn.

    The gradient of the noise is dL/dy_j = -P(text | j). Where these P of an example sum to more than 1, which the
    probabilities of a softmax cannot, they are divided by their sum.

    rows: an `outputs.Rows`; q (V,): the distribution of the noise; pace (V,). Returns (an estimate of the sum of ln p,
    dL/dz). The estimate's normalizer is e^(y_w) + 1/S of the sum of e^(y_j) / q_j over the drawn words other than w.
    """
    words, place = kernels.distinct(np.concatenate((w, drawn)), len(q))
    n = np.bincount(place[len(w) :], minlength=len(words)).astype(f32)
    log_noise = np.log(len(drawn) * q[words]).astype(f32)

    def forward(piece):
        MT = rows.take(words[piece])
        ratio = np.exp(np.minimum(z @ MT - log_noise[piece], HIGHEST))  # e^y / (S q)
        mine = np.flatnonzero((place[: len(w)] >= piece.start) & (place[: len(w)] < piece.stop))
        own = mine, place[mine] - piece.start
        seen, others = np.zeros((2, len(w)))
        seen[mine] = ratio[own] * np.exp(log_noise[place[mine]].astype(np.float64))
        others[mine] = -n[place[mine]] * ratio[own]
        others += ratio @ n[piece]
        p = ratio / (1 + ratio)
        g = p * -n[piece]
        return MT, g, own, 1 - p[own], np.stack((seen, others, g.sum(axis=1)))

    pieces = outputs.slices(words, rows.first, len(rows), parts)
    found = team(forward, pieces)
    seen, others, taken = rows.comm.sum(sum(part[-1] for part in found))
    L = float((np.log(seen) - np.log(seen + np.maximum(others, 0))).sum())
    if not np.isfinite(L):
        return L, None
    share = (NOISE / np.maximum(-taken, NOISE)).astype(f32)[:, None]
    slow = slowed(pace[words], curvature)

    def backward(found):
        piece, (MT, g, own, more, _) = found
        g *= share
        g[own] += more
        gz = g @ MT.T
        add_product(epsilon, z, g * slow[piece], 1, MT)
        rows.put(words[piece], MT)
        return gz

    return L, rows.comm.sum(sum(team(backward, list(zip(pieces, found, strict=True)))))
