"""Noise-contrastive estimation (Gutmann and Hyvarinen 2010; Mnih and Teh 2012): updates that tell the words of the text
from words of a known distribution, noise.

A minibatch shares its S words of noise, drawn with the chances q. That a word is no noise has the probability

P(text | w, context) = e^(y_w) / (e^(y_w) + S q_w) = 1 / (1 + e^-(y_w - ln S q_w)),

in which e^y stands for the probability itself: the sum over all words, 1 where training has succeeded, is not computed.
"""

import numpy as np

from lmtk.machine.blas import add_product
from lmtk.nplm import kernels, outputs
from lmtk.nplm.pace import slowed

f32 = np.float32
HIGHEST = f32(80)  # of ln e^y / (S q), for float32; P(text) is 1 there long since
NOISE = 1.0  # the most that the noise of an example takes from it, as much as a softmax


@np.errstate(over="ignore", invalid="ignore")
def see(rows, team, parts, pace, drawn, q, z, w, epsilon, curvature):
    """As `outputs.see`: an update of the rows of M of the words w (K,) and of the noise, with

    L = sum_k (ln P(text | w_k) + sum_j ln (1 - P(text | j))), j over the drawn words (S,), as often as they were drawn;
    where those P(text | j) of an example sum to more than 1, which those of a softmax cannot, they are divided by that.

    rows: an `outputs.Rows`; q (V,): the chances of the noise; pace (V,). Returns (an estimate of the sum of ln p,
    dL/dz). The estimate normalizes by e^(y_w) and 1/S of the sum of e^(y_j) / q_j over the drawn words but w.
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
