"""Updates that see a sample of the output units (after Bengio and Senecal 2003, "Quick training of probabilistic neural
nets by importance sampling").

The gradient of the softmax is dL/dtheta = dy_w/dtheta - sum_j P(j) dy_j/dtheta. A sum over a sample estimates the sum
over all words:

P(j) ~ r_j / (e^(y_w) + sum_(i != w) r_i),   r_j = e^(y_j) / c_j = e^(y_j - ln c_j).

c_j is the probability that j is in the sample. The paper's r_j is e^(y_j) / q_j, q_j being the probability of one draw.

The kernels are the softmax's: `kernels.block_forward` subtracts ln c_j from y_j, `block_backward` has the gradient.

The examples of a minibatch share a sample, the candidates: their own words and S words drawn from a proposal
distribution q. An example's own word w has e^(y_w), not r_w, since it is always in the sample.
"""

from functools import partial

import numpy as np

from lmtk.nplm import kernels, outputs

f32 = np.float32
UNIGRAM = 0.1  # its share of a proposal that depends on the contexts
DECAY_EVERY = 64  # updates; to shrink all parameters costs about as much as one update


class Proposal:
    """The proposal distribution q, from which S words are drawn.

    w (N,): the training words, ids below V; those below 0 are left out.

    given: q (V,), or a function that gives q for a minibatch's contexts (K, n-1); None: the unigram of w, one added to
    each count. A function's q is mixed with that unigram, so that no word has probability 0.
    """

    def __init__(self, w, V, S, given=None):
        w = w[w >= 0]
        counts = np.bincount(w, minlength=V)
        self.S, self.u = S, counts / len(w)
        self.q = (counts + 1) / (len(w) + V)
        self.of = given if callable(given) else None
        if given is not None and self.of is None:
            self.q = given
        self.cumulative = np.cumsum(self.q)
        self.inclusion = {}

    def sample(self, random, contexts=None, S=None):
        """S words drawn with replacement, (S,), ascending, and the q (V,) that they were drawn from."""
        q, cumulative = self.q, self.cumulative
        if self.of is not None:
            q = UNIGRAM * q + (1 - UNIGRAM) * self.of(contexts)
            cumulative = np.cumsum(q)
        drawn = np.sort(random.random(S or self.S)) * cumulative[-1]  # sorted, they are found in half the time
        return np.searchsorted(cumulative, drawn, "right"), q

    def candidates(self, w, drawn, q):
        """The candidates for the words w (K,): their ids, ascending, and ln c of all V words, (V,).

        A word is a candidate if it is the word of one of K examples or one of S draws. Its probability to be one is
        c = 1 - (1 - u)^K (1 - q)^S, u being the unigram, q the proposal.
        """
        (words, _), size = kernels.distinct(np.concatenate((w, drawn)), len(q)), (len(w), len(drawn))
        if self.of is not None or size not in self.inclusion:
            with np.errstate(divide="ignore"):  # a text of one word
                absent = len(w) * np.log1p(-self.u) + len(drawn) * np.log1p(-q)
            self.inclusion[size] = np.log(-np.expm1(absent)).astype(f32)
        return words, self.inclusion[size]

    def draw(self, w, random, contexts=None):
        """Candidates for the words w (K,) in their contexts, as `candidates` gives them."""
        return self.candidates(w, *self.sample(random, contexts))


def see(rows, team, parts, pace, words, log_c, z, w, epsilon, curvature):
    """`outputs.see` with the candidates `words` alone, in `parts` blocks: only their rows of M change.

    rows: an `outputs.Rows`; log_c (V,): ln c of all words; pace (V,), of all. L is an estimate.
    """
    blocks = []
    for piece in outputs.slices(words, rows.first, len(rows), parts):
        own = words[piece]
        blocks.append(outputs.Block(piece.start, len(own), partial(rows.take, own), partial(rows.put, own)))
    mine, place = outputs.Blocks(blocks, len(words), rows.comm), np.searchsorted(words, w)
    return outputs.see(mine, team, pace[words], 0, z, place, epsilon, curvature, log_c[words])


def effective(rows, z, drawn, q):
    """The effective sample size of Bengio and Senecal (2003), section 4, averaged over the examples z (K, D).

    It is (sum_i r_i)^2 / sum_i r_i^2 over the drawn words (S,), with the ratios r_i = e^(y_i) / q_i; q (V,) as in
    `Proposal.sample`. nan where an output is not finite.
    """
    words, n = np.unique(drawn, return_counts=True)
    (mine,) = outputs.slices(words, rows.first, len(rows), 1)
    y = z @ rows.take(words[mine]) - np.log(q[words[mine]]).astype(f32)
    r = np.exp(y - rows.comm.max(y.max(axis=1, initial=-np.inf))[:, None])
    one, two = rows.comm.sum(np.stack((r @ n[mine], (r * r) @ n[mine])))
    return float((one * one / two).mean())
