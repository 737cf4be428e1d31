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
DECAY_EVERY = 64  # updates; to shrink all parameters costs about as much as one of them


class Proposal:
    """The unigram of the training words, one added to each count, for drawing S words: w (N,) ids below V."""

    def __init__(self, w, V, S):
        counts = np.bincount(w, minlength=V)
        self.S, self.u = S, counts / len(w)
        self.q = (counts + 1) / (len(w) + V)
        self.cumulative = np.cumsum(self.q)
        self.inclusion = {}

    def draw(self, w, random):
        """The candidates for the words w (K,): their ids, ascending, and for all V words ln P(to be a candidate).

        A word is one if one of K examples or of S draws is: 1 - (1 - u)^K (1 - q)^S, u the unigram, q the proposal.
        """
        K = len(w)
        if K not in self.inclusion:
            with np.errstate(divide="ignore"):  # a text of one word
                absent = K * np.log1p(-self.u) + self.S * np.log1p(-self.q)
            self.inclusion[K] = np.log(-np.expm1(absent)).astype(f32)
        drawn = np.searchsorted(self.cumulative, random.random(self.S) * self.cumulative[-1], "right")
        return np.unique(np.concatenate((w, drawn))), self.inclusion[K]


def split(C, H, d, U, W, b, comm):
    """Parameters of this rank with one block, M, whose rows are in memory one after another: for `step`."""
    theta = sgd.split(C, H, d, U, W, b, 1, comm)
    return replace(theta, blocks=[(start, np.ascontiguousarray(M.T).T) for start, M in theta.blocks])


join = sgd.join


def step(theta, contexts, w, words, log_inclusion, epsilon, feature_rate, team, parts):
    """`sgd.step` on the outputs of the candidates `words`, without weight decay, in `parts` blocks.

    Only their rows of U, W and b change. Returns an estimate of the sum of ln p, and the norm of dL/dz.
    """
    (first, M) = theta.blocks[0]
    rows = M.T
    begin, end = np.searchsorted(words, (first, first + len(rows)))
    size = max(-(-(end - begin) // parts), 1)
    pieces = [slice(i, min(i + size, end)) for i in range(begin, end, size)] or [slice(begin, begin)]
    blocks = []
    for piece in pieces:
        block = np.ascontiguousarray(rows[words[piece] - first].T)
        block[-1] -= log_inclusion[words[piece]]
        blocks.append((piece.start, block))
    small = replace(theta, blocks=blocks, V=len(words), outputs=[])
    found = sgd.step(
        small, contexts, np.searchsorted(words, w), epsilon, 0, feature_rate, team, log_inclusion[w]
    )  # fmt: skip
    for piece, (_, block) in zip(pieces, blocks, strict=True):
        block[-1] += log_inclusion[words[piece]]
        rows[words[piece] - first] = block.T
    return found


def shrink(theta, share, feature_rate):
    """Weight decay: every weight loses this share of itself, C feature_rate times that; biases stay."""
    for _, M in theta.blocks:
        M.T[:, :-1] *= f32(1 - share)
    theta.H *= f32(1 - share)
    theta.C *= f32(1 - share * feature_rate)
