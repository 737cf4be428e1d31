"""Updates from a sample of the output units (after Bengio and Senecal 2003, "Quick training of probabilistic neural
nets by importance sampling").

The gradient of the softmax is dL/dtheta = dy_w/dtheta - sum_j P(j) dy_j/dtheta. A sum over a sample estimates the sum
over all words:

P(j) ~ r_j / (e^(y_w) + sum_(i != w) r_i),   r_j = e^(y_j) / c_j = e^(y_j - ln c_j).

c_j is the probability that j is in the sample. The paper's r_j is e^(y_j) / q_j, where q_j is the probability of one
draw.

The kernels are those of the softmax: `kernels.block_forward` subtracts ln c_j from y_j, `kernels.block_backward`
computes the gradient. The examples of a minibatch share one sample, the candidates: the words of the examples and S
words drawn from a proposal distribution q. The word w of an example has e^(y_w) instead of r_w, since w is always in
the sample.
"""

from functools import partial

import numpy as np

from lmtk.nplm import kernels, outputs

f32 = np.float32
UNIGRAM = 0.1  # the share of the unigram in a proposal that depends on the contexts


class Proposal:
    """The proposal distribution q, from which S words are drawn.

    w (N,): the training words, ids below V; ids below 0 are ignored. proposal: q (V,), or a function that gives q for
    the contexts (K, n-1) of a minibatch; None: the unigram of w, with one added to each count. The q of a function is
    mixed with that unigram, so that no word has probability 0.

    u (V,): the unigram of w; inclusion: (K, S) -> ln c of `candidates`, kept if q does not depend on the contexts.
    """

    def __init__(self, w, V, S, proposal=None):
        w = w[w >= 0]
        counts = np.bincount(w, minlength=V)
        self.S, self.u = S, counts / len(w)
        self.q = (counts + 1) / (len(w) + V)
        self.of_contexts = proposal if callable(proposal) else None
        if proposal is not None and self.of_contexts is None:
            self.q = proposal
        self.cumulative = np.cumsum(self.q)
        self.inclusion = {}

    def sample(self, random, contexts=None, S=None):
        """Draw S words with replacement. Returns them, (S,), ascending, and the q (V,) that they were drawn from."""
        q, cumulative = self.q, self.cumulative
        if self.of_contexts is not None:
            q = UNIGRAM * q + (1 - UNIGRAM) * self.of_contexts(contexts)
            cumulative = np.cumsum(q)
        drawn = np.sort(random.random(S or self.S)) * cumulative[-1]  # sorted, they are found in half the time
        return np.searchsorted(cumulative, drawn, "right"), q

    def candidates(self, w, drawn, q):
        """The candidates for the words w (K,): their ids, ascending, and ln c of all V words, (V,).

        A word is a candidate if it is the word of one of K examples or one of S draws. The probability of that is c = 1
        - (1 - u)^K (1 - q)^S, where u is the unigram and q the proposal.
        """
        (words, _), size = kernels.distinct_ids(np.concatenate((w, drawn)), len(q)), (len(w), len(drawn))
        if self.of_contexts is not None or size not in self.inclusion:
            with np.errstate(divide="ignore"):  # a text of one word
                absent = len(w) * np.log1p(-self.u) + len(drawn) * np.log1p(-q)
            self.inclusion[size] = np.log(-np.expm1(absent)).astype(f32)
        return words, self.inclusion[size]


def update_output(rows, candidates, output_pace, z, w, epsilon, curvature):
    """Update the softmax over the candidates: only their rows of M change.

    rows: an `outputs.Rows`; candidates: ids, ascending, and ln c of all words, (V,), as in `Proposal.candidates`;
    output_pace (V,): the field `outputs` of a Pace; z (K, D): the input of the output layer; w (K,): the words;
    epsilon: the learning rate; curvature: as in `sgd.step`.

    Returns (L, dL/dz); L is an estimate of the sum of ln p. If L is not finite, nothing changes.
    """
    (words, log_c), blocks = candidates, []
    for piece in rows.slices(words, z):
        ids = words[piece]
        blocks.append(outputs.Block(piece.start, len(ids), partial(rows.take, ids), partial(rows.put, ids)))
    layer = outputs.Blocks(blocks, rows.comm, rows.threads)
    target = np.searchsorted(words, w)
    return outputs.update_output(layer, output_pace[words], z, target, epsilon, curvature, log_c[words])


def effective_sample_size(rows, z, drawn, q):
    """The effective sample size of Bengio and Senecal (2003), section 4, averaged over the examples z (K, D).

    It is (sum_i r_i)^2 / sum_i r_i^2 over the drawn words (S,), with the ratios r_i = e^(y_i) / q_i. q (V,): the
    probabilities that the words were drawn with. The result is nan if an output is not finite.
    """
    words, n = np.unique(drawn, return_counts=True)
    (local,) = outputs.slice_words(words, rows.first, len(rows), 1)  # the words of this rank
    y = z @ rows.take(words[local])[0] - np.log(q[words[local]]).astype(f32)
    r = np.exp(y - rows.comm.max(y.max(axis=1, initial=-np.inf))[:, None])
    total, squares = rows.comm.sum(np.stack((r @ n[local], (r * r) @ n[local])))
    return float((total * total / squares).mean())
