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
R A     (h, h) (n, K, h)  recurrent weights and states, for a recurrent hidden layer; H is (h, m) and W (V, m) then
L       -                 log-likelihood, natural; gX is dL/dX, its gradient
"""

import math

import numpy as np

from lmtk.machine.blas import add_product
from lmtk.machine.exponential import exp_rows
from lmtk.machine.jit import jit

f32 = np.float32


def hidden(C, H, d, contexts, kept=None):
    """Steps 1(a), 1(b) of section 3.2: x <- C(w_(t-1)) .. C(w_(t-n+1)); o <- d + Hx; a <- tanh(o).

    contexts (K, n-1) int32 -> x (K, (n-1)m), a (K, h). kept: factors for x and for a, of their shapes, from `keep`.
    """
    x = C[contexts].reshape(len(contexts), -1)
    if kept is None:
        return x, np.tanh(x @ H.T + d)
    x *= kept[0]
    return x, kept[1] * np.tanh(x @ H.T + d)


def recurrent(C, H, R, d, contexts, kept=None):
    """A recurrent layer in place of the window (section 5.2, item 4): A_0 = 0, A_k = tanh(d + Hx(n-k) + R A_(k-1)).

    contexts (K, n-1) -> x (K, (n-1)m), as in `hidden`, and A (n, K, h), from before the first word to behind the last.
    kept: factors for x, of its shape, and for the last state, (K, h), which only the outputs see.
    """
    (K, n1), (h, m) = contexts.shape, H.shape
    x = C[contexts].reshape(K, n1 * m)
    if kept is not None:
        x *= kept[0]
    o = (x.reshape(-1, m) @ H.T + d).reshape(K, n1, h)
    A = np.zeros((n1 + 1, K, h), f32)
    for k in range(n1):
        np.tanh(o[:, n1 - 1 - k] + A[k] @ R.T, out=A[k + 1])
    return x, A


def keep(shapes, share, random):
    """Dropout: for each of the shapes an array, 0 in the given share of places and 1 / (1 - share) in the others.

    random: a numpy Generator. The share is rounded to a 65536th.
    """
    limit, scale = round(share * 65536), f32(1 / (1 - share))
    sizes = [math.prod(shape) for shape in shapes]
    drawn = np.frombuffer(random.bytes(2 * sum(sizes)), np.uint16) >= limit
    return [part.reshape(shape) * scale for part, shape in zip(np.split(drawn, np.cumsum(sizes)[:-1]), shapes)]


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


def block_backward(z, w, start, M, y, scale, epsilon, keep, pace):
    """Step 2(a) on a block: dL/dy_j = 1_(j=w) - p_j; M <- keep M + epsilon z' dL/dy, in place. Returns dL/dz (K, D).

    `y` and `scale` are those of the forward pass; y is overwritten. The bias b, last row of M, is not shrunk by `keep`.
    pace (V,): factors of epsilon, those of the block from `start` on. The division by the sums is left to the (K, D)
    arrays, a pass over y less.
    """
    mine = np.flatnonzero((w >= start) & (w < start + M.shape[1]))
    y[mine, w[mine] - start] -= 1 / scale[mine]
    gz = (y @ M.T) * -scale[:, None]
    pace = pace[start : start + M.shape[1]]
    slow = np.flatnonzero(pace < 1)  # a few frequent words
    y[:, slow] *= pace[slow]
    M[-1] /= f32(keep)
    add_product(-epsilon, z * scale[:, None], y, keep, M)
    return gz


def hidden_gradient(gz, a, x, H, direct, kept=None):
    """Step 2(c): dL/do = (1 - a^2) dL/da; dL/dx += H' dL/do. Returns (go, gx): (K, h), (K, (n-1)m).

    With the factors `kept`, da/do is their k (1 - (a/k)^2) = k - a^2/k, which is 0 where k is, and dL/dx gets its own.
    """
    h = a.shape[1]
    go = gz[:, :h] * (1 - a * a if kept is None else kept[1] - a * a / max(kept[1].max(initial=0), 1))
    gx = go @ H
    if direct:
        gx += gz[:, h:-1]
    return go, gx if kept is None else gx * kept[0]


def recurrent_gradient(gz, A, x, H, R, direct, kept=None):
    """Back-propagation through the n - 1 steps of `recurrent`: dL/do_k = (1 - A_k^2) (dL/dA_k + R' dL/do_(k+1)).

    Returns (go, gx, gR): (K, n-1, h) in the order of x, (K, (n-1)m) and (h, h). With the direct connections of the last
    word, x(1), dL/dx(1) gets its part of gz (K, D).
    """
    n1, K, h = len(A) - 1, *A.shape[1:]
    go, gR = np.empty((K, n1, h), f32), np.zeros_like(R)
    ga = gz[:, :h] if kept is None else gz[:, :h] * kept[1]
    for k in range(n1, 0, -1):
        step = (1 - A[k] * A[k]) * ga
        go[:, n1 - k] = step
        gR += step.T @ A[k - 1]
        ga = step @ R
    gx = (go.reshape(-1, h) @ H).reshape(x.shape)
    if direct:
        gx[:, : H.shape[1]] += gz[:, h:-1]
    return go, gx if kept is None else gx * kept[0], gR


@jit
def add_features(C, contexts, gx, rates):
    """Step 2(d): C(w_(t-k)) += rate dL/dx(k), in place, rates (words,). contexts (K, n-1), gx (K, (n-1)m)."""
    K, n1 = contexts.shape
    m = C.shape[1]
    for k in range(K):
        for i in range(n1):
            j = contexts[k, i]
            for c in range(m):
                C[j, c] += rates[j] * gx[k, i * m + c]
