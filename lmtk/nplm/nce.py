"""Noise-contrastive estimation (Gutmann and Hyvarinen 2010; Mnih and Teh 2012).

The network learns to tell the words of the text from noise: words drawn from a known distribution q. The examples of a
minibatch share S words of noise. A word comes from the text, and not from the noise, with the probability

P(text | w, context) = e^(y_w) / (e^(y_w) + S q_w) = 1 / (1 + e^-(y_w - ln S q_w)).

Here e^y stands for the probability itself. The sum of e^y over all words is not computed; it is about 1 once training
has succeeded.
"""

import numpy as np

from lmtk.machine.threads import map_at_once
from lmtk.nplm import kernels
from lmtk.nplm.pace import rate_factors

f32 = np.float32
HIGHEST = f32(80)  # bound of ln (e^y / (S q)), so that float32 does not overflow; P(text) is 1 far below it
NOISE = 1.0  # bound of the sum of the gradients -dL/dy of the noise of an example, as in a softmax


@np.errstate(over="ignore", invalid="ignore")
def update_output(rows, noise, output_pace, z, w, epsilon, curvature):
    """Update the rows of M of the words w (K,) and of the noise words, to increase

    L = sum_k (ln P(text | w_k) + sum_j ln (1 - P(text | j))), j over the noise words, as often as they were drawn.

    The gradient of a noise word is dL/dy_j = -P(text | j). If these P of an example sum to more than 1, which the
    probabilities of a softmax cannot, they are divided by their sum.

    rows: an `outputs.Rows`; noise: the words that were drawn, (S,), and their distribution q (V,); output_pace (V,):
    the field `outputs` of a Pace; z (K, D): the input of the output layer; epsilon: the learning rate; curvature: as in
    `sgd.step`.

    Returns (an estimate of the sum of ln p, dL/dz). The normalizer in the estimate is e^(y_w) plus 1/S of the sum of
    e^(y_j) / q_j over the drawn words other than w.
    """
    drawn, q = noise
    words, place = kernels.distinct_ids(np.concatenate((w, drawn)), len(q))
    n = np.bincount(place[len(w) :], minlength=len(words)).astype(f32)
    log_noise = np.log(len(drawn) * q[words]).astype(f32)

    def forward(piece):
        MT, low = rows.take(words[piece])
        ratio = np.exp(np.minimum(z @ MT - log_noise[piece], HIGHEST))  # e^y / (S q)
        k = np.flatnonzero((place[: len(w)] >= piece.start) & (place[: len(w)] < piece.stop))
        target = k, place[k] - piece.start
        seen, others = np.zeros((2, len(w)))
        seen[k] = ratio[target] * np.exp(log_noise[place[k]].astype(np.float64))
        others[k] = -n[place[k]] * ratio[target]
        others += ratio @ n[piece]
        p = ratio / (1 + ratio)
        g = p * -n[piece]
        return (MT, low), g, target, 1 - p[target], np.stack((seen, others, g.sum(axis=1)))

    pieces = rows.slices(words, z)
    results = map_at_once(forward, pieces, rows.threads)
    seen, others, noise_gradient = rows.comm.sum(sum(sums for *_, sums in results))
    L = float((np.log(seen) - np.log(seen + np.maximum(others, 0))).sum())
    if not np.isfinite(L):
        return L, None
    share = (NOISE / np.maximum(-noise_gradient, NOISE)).astype(f32)[:, None]
    factors = rate_factors(output_pace[words], curvature)

    def backward(work):
        piece, ((MT, low), g, target, target_gradient, _) = work
        g *= share
        g[target] += target_gradient
        gz = g @ MT.T
        kernels.add_weights(epsilon, z, g * factors[piece], 1, MT, low)
        rows.put(words[piece], MT, low)
        return gz

    return L, rows.comm.sum(sum(map_at_once(backward, zip(pieces, results, strict=True), rows.threads)))
