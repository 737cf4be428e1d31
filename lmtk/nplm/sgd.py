"""Stochastic gradient ascent on the log-likelihood (Bengio et al. 2003, sections 2 and 3.2).

The output units are in blocks as in section 3.2, one a rank, and a rank's in blocks again, one a thread: a block
computes its own outputs, their sums and its share of dL/da and dL/dx, and updates its own rows of U, W and b. What the
paper shares by Allreduce is the maximum of the outputs, the sum of their exponentials, dL/da and dL/dx.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from lmtk.machine import parallel
from lmtk.nplm import kernels
from lmtk.nplm.pace import Pace, even, slowed, stiffest

f32 = np.float32


@dataclass
class Parameters:
    """theta in the layout in which it is trained: blocks holds (start, M_i) pairs, M_i (D, V_i); the rest is shared.

    V: the output units of all ranks; comm: the ranks, each with its own blocks; pace: factors of the rates; outputs:
    room for the blocks' outputs; R: recurrent weights, or None.
    """

    C: np.ndarray
    H: np.ndarray
    d: np.ndarray
    blocks: list
    direct: bool
    V: int
    comm: object
    pace: Pace
    outputs: list = field(default_factory=list)
    R: np.ndarray | None = None


def split(C, H, d, U, W, b, parts, comm=parallel.ALONE, R=None, pace=None):
    """Parameters as section 2 has them, and R of a recurrent layer -> Parameters of this rank, copied.

    A rank has ceil(V / ranks) output units, the last one fewer, in `parts` blocks made likewise, how many as `blocks`
    says. pace: None, all learn with the whole rate.
    """
    first, end = parallel.block(len(b), comm)
    size = -(-(end - first) // parts)
    rows = (slice(i, min(i + size, end)) for i in range(first, end, size))
    stacked = (U, b[:, None]) if W is None else (U, W, b[:, None])
    blocks = [(part.start, np.ascontiguousarray(np.hstack([a[part] for a in stacked]).T, f32)) for part in rows]
    R = None if R is None else R.copy()
    pace = pace or even(len(C), len(b))
    return Parameters(C.copy(), H.copy(), d.copy(), blocks, W is not None, len(b), comm, pace, R=R)


def blocks(threads):
    """How many blocks of outputs so many threads should have: more than one each, for who is hindered does fewer."""
    return threads if threads == 1 else 2 * threads


def placed(theta, comm):
    """The parameters where `comm` places them: in memory that several ranks have in common, or where they are."""
    for name in ("C", "H", "d", "R"):
        if getattr(theta, name) is not None:
            setattr(theta, name, comm.place(getattr(theta, name)))
    theta.blocks = [(start, comm.place(M)) for start, M in theta.blocks]
    return theta


def join(theta):
    """Parameters -> (C, H, d, U, W, b), and R where there is one, whole and copied, on every rank.

    W is None without direct connections.
    """
    M = theta.comm.join(np.concatenate([M for _, M in theta.blocks], axis=1).T, theta.V)
    found = theta.C.copy(), theta.H.copy(), theta.d.copy(), *output_weights(theta, M)
    return found if theta.R is None else (*found, theta.R.copy())


def output_weights(theta, M):
    """(U, W, b) of outputs with the rows M (., D), copied; W is None without direct connections."""
    h = len(theta.d)
    U, W, b = (np.ascontiguousarray(part) for part in (M[:, :h], M[:, h:-1], M[:, -1]))
    return U, W if theta.direct else None, b


def outputs(theta, K):
    """An array (K, V_i) for each block's outputs, kept between steps: fresh memory costs as much as a product."""
    if not theta.outputs or len(theta.outputs[0]) < K:
        theta.outputs = [np.empty((K, M.shape[1]), f32) for _, M in theta.blocks]
    return [y[:K] for y in theta.outputs]


@np.errstate(over="ignore", invalid="ignore")
def step(theta, contexts, w, epsilon, decay, feature_rate, team, own=None, kept=None):
    """One update from a minibatch: theta += epsilon * sum over the examples of (dL/dtheta - decay * theta), in place.

    contexts (K, n-1) and w (K,): ids. The rate is the paper's, an example's; where theta has a pace, dL/dtheta counts
    that much. The decay is on U, W, H and C, not on the biases b and d; C learns feature_rate times faster. own: as in
    `kernels.block_forward`; kept: as in `kernels.hidden`.
    Returns (sum of ln p, norm of dL/dz), taken before the update; where the former is not finite nothing is updated.
    """
    K = len(w)
    z, x, a = forward_inputs(theta, contexts, kept)
    work = [(start, M, y) for (start, M), y in zip(theta.blocks, outputs(theta, K), strict=True)]
    q, s, t = (np.stack(part) for part in zip(*team(lambda b: kernels.block_forward(z, w, *b, own), work), strict=True))
    logp, scale = kernels.normalize(q, s, t, theta.comm)
    total = float(logp.sum())
    if not math.isfinite(total):
        return total, math.nan
    keep = 1 - K * epsilon * decay
    pace = slowed(theta.pace.outputs, curvature(theta, z))
    work = [(*b, c, epsilon, keep, pace) for b, c in zip(work, scale, strict=True)]
    gz = theta.comm.sum(sum(team(lambda b: kernels.block_backward(z, w, *b), work)))
    update_inputs(theta, contexts, gz, a, x, epsilon, decay, feature_rate, kept)
    return total, float(np.linalg.norm(gz))


def forward_inputs(theta, contexts, kept=None):
    """Steps 1(a) and 1(b): z (K, D), what the outputs are made of, and x and a, or A, of the layer for its update."""
    if theta.R is None:
        x, a = kernels.hidden(theta.C, theta.H, theta.d, contexts, kept)
        return kernels.stack(a, x, theta.direct), x, a
    x, A = kernels.recurrent(theta.C, theta.H, theta.R, theta.d, contexts, kept)
    last = A[-1] if kept is None else A[-1] * kept[1]
    return kernels.stack(last, x[:, : theta.C.shape[1]], theta.direct), x, A


def update_inputs(theta, contexts, gz, a, x, epsilon, decay, feature_rate, kept=None):
    """Steps 2(c) and 2(d): H, d, C and R, in place, from dL/dz (K, D).

    The n - 1 steps of a recurrent layer have H, d and R in common: these learn with the mean of their gradients, since
    the sum diverges at rates that suit the rest.
    """
    H, R, pace, K = theta.H, theta.R, theta.pace, len(contexts)
    if R is None:
        go, gx = kernels.hidden_gradient(gz, a, x, H, theta.direct, kept)
    else:
        go, gx, gR = kernels.recurrent_gradient(gz, a, x, H, R, theta.direct, kept)
        go, x = go.reshape(-1, len(R)), x.reshape(-1, H.shape[1])
    steps, rates = max(len(go) / K, 1), np.full(len(theta.C), f32(epsilon * feature_rate))
    rate = epsilon / steps
    if pace.H:
        inputs = stiffest(x, len(x)) + (0 if R is None else stiffest(a[:-1].reshape(-1, len(R)), len(go)))
        rate *= slowed(pace.H / steps, inputs * stiffest(go, K))
        rates *= slowed(pace.C, stiffest(gx.reshape(-1, theta.C.shape[1]), gx.size // theta.C.shape[1]))
    shrunk, rate = K * epsilon * decay, f32(rate)
    if R is not None:
        R *= f32(1 - shrunk)
        R += rate * gR
    if decay:
        H *= f32(1 - shrunk)
        theta.C *= f32(1 - shrunk * feature_rate)
    H += rate * (go.T @ x)
    theta.d += rate * go.sum(axis=0)
    kernels.add_features(theta.C, contexts, gx, rates)


def curvature(theta, z):
    """That of the outputs by what they are made of, z (K, D); 0 where all learn with the whole rate."""
    return stiffest(z, len(z)) if theta.pace.H else 0.0
