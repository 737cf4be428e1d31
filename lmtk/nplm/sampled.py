"""Updates that see a sample of the output units (after Bengio and Senecal 2003, "Quick training of probabilistic neural
nets by importance sampling").

A minibatch shares its candidates: its own words and S words drawn from a proposal. The softmax of an example is over
them, each e^y divided by the probability that its word is a candidate, so that its sum estimates that over all words;
the example's own word counts once, since it is always there.
"""

from dataclasses import replace

import numpy as np

from lmtk.nplm import sgd

f32 = np.float32
UNIGRAM = 0.1  # of a proposal that depends on the contexts
DECAY_EVERY = 64  # updates; to shrink all parameters costs about as much as one of them


class Proposal:
    """What S words are drawn from, for the training words w (N,), ids below V.

    given: the chances of all words, (V,), or a function that gives them for a minibatch's contexts (K, n-1); None: the
    unigram of w, one added to each count. With those of a function the unigram is mixed, so that every word has one.
    """

    def __init__(self, w, V, S, given=None):
        counts = np.bincount(w, minlength=V)
        self.S, self.u = S, counts / len(w)
        self.q = (counts + 1) / (len(w) + V)
        self.of = given if callable(given) else None
        if given is not None and self.of is None:
            self.q = given
        self.cumulative = np.cumsum(self.q)
        self.inclusion = {}

    def sample(self, random, contexts=None, S=None):
        """S words, drawn one after another, (S,), and the chances that they were drawn with, (V,)."""
        q, cumulative = self.q, self.cumulative
        if self.of is not None:
            q = UNIGRAM * q + (1 - UNIGRAM) * self.of(contexts)
            cumulative = np.cumsum(q)
        return np.searchsorted(cumulative, random.random(S or self.S) * cumulative[-1], "right"), q

    def candidates(self, w, drawn, q):
        """The candidates for the words w (K,): their ids, ascending, and for all V words ln P(to be a candidate).

        A word is one if one of K examples or of S draws is: 1 - (1 - u)^K (1 - q)^S, u the unigram, q the proposal.
        """
        words, size = np.unique(np.concatenate((w, drawn))), (len(w), len(drawn))
        if self.of is not None or size not in self.inclusion:
            with np.errstate(divide="ignore"):  # a text of one word
                absent = len(w) * np.log1p(-self.u) + len(drawn) * np.log1p(-q)
            self.inclusion[size] = np.log(-np.expm1(absent)).astype(f32)
        return words, self.inclusion[size]

    def draw(self, w, random, contexts=None):
        """Candidates for the words w (K,) in their contexts, as `candidates` gives them."""
        return self.candidates(w, *self.sample(random, contexts))


def split(C, H, d, U, W, b, comm, R=None, pace=None):
    """Parameters of this rank with one block, M, whose rows are in memory one after another: for `step`."""
    theta = sgd.split(C, H, d, U, W, b, 1, comm, R, pace)
    return replace(theta, blocks=[(start, np.ascontiguousarray(M.T).T) for start, M in theta.blocks])


join = sgd.join


def step(theta, contexts, w, words, log_inclusion, epsilon, feature_rate, team, parts, kept=None):
    """`sgd.step` on the outputs of the candidates `words`, without weight decay, in `parts` blocks.

    Only their rows of U, W and b change. Returns an estimate of the sum of ln p, and the norm of dL/dz.
    """
    (first, M) = theta.blocks[0]
    rows = M.T
    pieces, blocks = slices(words, first, len(rows), parts), []
    for piece in pieces:
        block = np.ascontiguousarray(rows[words[piece] - first].T)
        block[-1] -= log_inclusion[words[piece]]
        blocks.append((piece.start, block))
    small = replace(theta, blocks=blocks, V=len(words), outputs=[], pace=theta.pace.of(words))
    at, own = np.searchsorted(words, w), log_inclusion[w]
    found = sgd.step(small, contexts, at, epsilon, 0, feature_rate, team, own, kept)
    for piece, (_, block) in zip(pieces, blocks, strict=True):
        block[-1] += log_inclusion[words[piece]]
        rows[words[piece] - first] = block.T
    return found


def slices(words, first, V, parts):
    """The candidates among the V outputs from `first` on, in `parts` slices, or fewer; one at least."""
    begin, end = np.searchsorted(words, (first, first + V))
    size = max(-(-(end - begin) // parts), 1)
    return [slice(i, min(i + size, end)) for i in range(begin, end, size)] or [slice(begin, begin)]


def effective(theta, contexts, drawn, q):
    """The effective sample size of Bengio and Senecal (2003), section 4, the mean of the contexts (K, n-1).

    (sum_i r_i)^2 / sum_i r_i^2 over the drawn words (S,), with the ratios r_i = e^(y_i) / q_i; q (V,) as in
    `Proposal.sample`. nan where an output is no finite number.
    """
    words, n = np.unique(drawn, return_counts=True)
    (first, M) = theta.blocks[0]
    (mine,) = slices(words, first, M.shape[1], 1)
    z, _, _ = sgd.forward_inputs(theta, contexts)
    y = z @ M[:, words[mine] - first] - np.log(q[words[mine]]).astype(f32)
    r = np.exp(y - theta.comm.max(y.max(axis=1, initial=-np.inf))[:, None])
    one, two = theta.comm.sum(np.stack((r @ n[mine], (r * r) @ n[mine])))
    return float((one * one / two).mean())


def shrink(theta, share, feature_rate):
    """Weight decay: every weight loses this share of itself, C feature_rate times that; biases stay."""
    for _, M in theta.blocks:
        M.T[:, :-1] *= f32(1 - share)
    theta.H *= f32(1 - share)
    if theta.R is not None:
        theta.R *= f32(1 - share)
    theta.C *= f32(1 - share * feature_rate)
