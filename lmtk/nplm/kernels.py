"""The network of Bengio et al. 2003, equation (1), over arrays: forward, softmax, backward.

symbol  shape             meaning (section 2)
V       -                 words predicted, |V|; C has a row for words that only stand in contexts too
m h n   -                 features a word, hidden units, order: a prediction looks at n - 1 words
C       (>= V, m)         feature vectors, C(i) in row i
H d     (h, (n-1)m) (h,)  hidden layer
U W b   (V, h) (V, (n-1)m) (V,)  output layer; W only with direct connections
M       (D, V)            [U | W | b] transposed, one matrix product each way; D = h + (n-1)m + 1, or h + 1
K       -                 examples in a minibatch
x a o   (K, (n-1)m) (K, h) (K, h)  word features, hidden activations, what goes into tanh
z       (K, D)            [a | x | 1]
y       (K, V)            outputs; the words that were seen are w (K,)
L       -                 log-likelihood, natural; gX is dL/dX, its gradient
"""

import numpy as np

from lmtk.exponential import exp_rows
from lmtk.jit import jit
from lmtk.nplm.blas import add_product

f32 = np.float32


def hidden(C, H, d, contexts):
    """Steps 1(a), 1(b) of section 3.2: x <- C(w_(t-1)) .. C(w_(t-n+1)); o <- d + Hx; a <- tanh(o).

    contexts (K, n-1) int32 -> x (K, (n-1)m), a (K, h).
    """
    x = C[contexts].reshape(len(contexts), -1)
    return x, np.tanh(x @ H.T + d)


def stack(a, x, direct):
    """z = [a | x | 1], without x where there are no direct connections."""
    K, h = a.shape
    D = h + (x.shape[1] if direct else 0) + 1
    z = np.empty((K, D), f32)
    z[:, :h] = a
    if direct:
        z[:, h:-1] = x
    z[:, -1] = 1
    return z


def block_forward(z, w, start, M, y, own=None):
    """Steps 1(c) on the block of outputs from `start` on: y <- e^(zM - q) in place, (K, V_i), q being its own maximum.

    w (K,): the words seen; own (K,), where given, is added to their outputs first. A block may be empty.
    Returns q (K,), s (K,), the sums of y, and t (K,), the output of w where it is in the block, else -inf.
    """
    np.matmul(z, M, out=y)
    mine = np.flatnonzero((w >= start) & (w < start + M.shape[1]))
    if own is not None:
        y[mine, w[mine] - start] += own[mine]
    t = np.full(len(w), -np.inf, f32)
    t[mine] = y[mine, w[mine] - start]
    q, s = y.max(axis=1, initial=-np.inf), np.zeros(len(w), f32)
    if np.isfinite(q).all():
        exp_rows(y, q, s)
    return q, s, t


def normalize(q, s, t, comm):
    """Steps 1(d)-1(f) over the blocks' q, s, t, each (blocks, K): Q = max q_i, S = sum s_i e^(q_i - Q).

    comm: the ranks whose blocks there are. Q and the outputs of the words seen are shared in one exchange.
    Returns log p of the words seen, natural, (K,) float64, nan where an output was not finite; and scale (blocks, K)
    float32: p_j is y_j times its block's scale.
    """
    # inf for nan, which MPI's maximum may lose
    Q, T = comm.max(np.nan_to_num(np.stack((q.max(axis=0), t.max(axis=0))), nan=np.inf, posinf=np.inf, neginf=-np.inf))
    if not np.isfinite(Q).all():
        return np.full(len(Q), np.nan), None
    share = np.exp((q - Q).astype(np.float64))
    S = comm.sum((share * s).sum(axis=0))
    return T - Q - np.log(S), (share / S).astype(f32)


def block_backward(z, w, start, M, y, scale, epsilon, keep):
    """Step 2(a) on a block: dL/dy_j = 1_(j=w) - p_j; M <- keep M + epsilon z' dL/dy, in place. Returns dL/dz (K, D).

    `y` and `scale` are those of the forward pass; y is overwritten. The bias b, last row of M, is not shrunk by `keep`.
    The division by the sums is left to the (K, D) arrays, a pass over y less.
    """
    mine = np.flatnonzero((w >= start) & (w < start + M.shape[1]))
    y[mine, w[mine] - start] -= 1 / scale[mine]
    gz = (y @ M.T) * -scale[:, None]
    M[-1] /= f32(keep)
    add_product(-epsilon, z * scale[:, None], y, keep, M)
    return gz


def hidden_gradient(gz, a, x, H, direct):
    """Step 2(c): dL/do = (1 - a^2) dL/da; dL/dx += H' dL/do. Returns (go, gx): (K, h), (K, (n-1)m)."""
    h = a.shape[1]
    go = gz[:, :h] * (1 - a * a)
    gx = go @ H
    if direct:
        gx += gz[:, h:-1]
    return go, gx


@jit
def add_features(C, contexts, gx, epsilon):
    """Step 2(d): C(w_(t-k)) += epsilon dL/dx(k), in place. contexts (K, n-1), gx (K, (n-1)m)."""
    K, n1 = contexts.shape
    m = C.shape[1]
    for k in range(K):
        for i in range(n1):
            j = contexts[k, i]
            for c in range(m):
                C[j, c] += epsilon * gx[k, i * m + c]
