"""The equations of Bengio et al. 2003 over arrays: from activations to outputs, the softmax in blocks, and back.

Activations a and features x of a minibatch come in. `stack_activations` makes z, `block_forward` computes a block of
outputs, `normalize` combines the blocks into ln p, `block_backward` updates the output weights and returns dL/dz, and
`add_features` updates C.

symbol  shape             meaning (section 2)
V       -                 words predicted, |V|; C also has rows for words that stand only in contexts
m h n   -                 features of a word, hidden units, order: a context is n - 1 words
K       -                 examples in a minibatch
x a     (K, (n-1)m) (K, h)  word features and hidden activations, as `layers` makes them
U W b   (V, h) (V, (n-1)m) (V,)  output layer; W only with direct connections
z       (K, D)            [a | x | 1]; D = h + (n-1)m + 1, or h + 1
M       (V, D)            [U | W | b]; MT (D, V_i) is a block of it, transposed, which makes products faster
y       (K, V)            outputs; the target words are w (K,)
L       -                 log-likelihood, natural; gX is dL/dX, its gradient

Equation (1): y = b + Wx + U tanh(d + Hx) = Mz, with a = tanh(d + Hx), the layer `nplm`.
"""

import numpy as np

from lmtk.exponential import exp_outputs
from lmtk.machine.blas import add_product
from lmtk.machine.jit import inlined, jit

f32 = np.float32
LEAST = f32(1e-30)  # the smallest scale of a block: the probabilities are practically 0, and 1 / scale stays finite


def stack_activations(a, x):
    """z = [a | x | 1]: a (K, h); x is (K, 0) without direct connections."""
    (K, h), seen = a.shape, x.shape[1]
    z = np.empty((K, h + seen + 1), f32)
    z[:, :h], z[:, h:-1], z[:, -1] = a, x, 1
    return z


def stack_weights(U, W, b):
    """M = [U | W | b], one row for each output, so that y = zM'."""
    return np.column_stack((U, b) if W is None else (U, W, b))


def split_weights(M, h, direct):
    """Copy U, W and b out of M (V, D). W is None without direct connections."""
    U, W, b = (part.copy() for part in (M[:, :h], M[:, h:-1], M[:, -1]))
    return U, W if direct else None, b


def distinct_ids(ids, W):
    """The distinct ids, ascending, (D,), and the place of each id among them, shaped like `ids`; ids are below W."""
    present, place = np.zeros(W, bool), np.empty(W, np.intp)
    present[ids] = True
    distinct = np.flatnonzero(present)
    place[distinct] = np.arange(len(distinct))
    return distinct, place[ids]


def block_forward(z, w, start, MT, y, log_c=None):
    """Step 1(c) on the block of outputs from `start` on: y <- e^(zM' - q) in place, (K, V_i).

    q is the maximum of each row of the block. w (K,): the target words. log_c (V,), or None: subtracted from the
    outputs, except from those of w. A block may be empty.
    Returns q (K,); s (K,), the sums of y; and t (K,), the output of w if it is in the block, else -inf.
    """
    np.matmul(z, MT, out=y)
    q, s = np.empty((2, len(w)), f32)
    t = np.full(len(w), -np.inf, f32)
    exp_outputs(y, q, s, w - start, None if log_c is None else log_c[start : start + MT.shape[1]], t)
    return q, s, t


def normalize(q, s, t, comm):
    """Steps 1(d)-1(f): combine q, s, t of all blocks, (blocks, K) each, by Q = max q_i and S = sum s_i e^(q_i - Q).

    comm: the ranks that hold blocks. One exchange shares both Q and the outputs of the target words.
    Returns ln p of the target words, (K,) float64, or nan if an output is not finite; and scale (blocks, K) float32:
    p_j is y_j times the scale of its block.
    """
    most = np.stack((q.max(axis=0), t.max(axis=0)))
    most[np.isnan(most)] = np.inf  # MPI's maximum may lose nan
    Q, T = comm.max(most)
    if not np.isfinite(Q).all():
        return np.full(len(Q), np.nan), None
    share = np.exp((q - Q).astype(np.float64))
    S = comm.sum((share * s).sum(axis=0))
    return T - Q - np.log(S), (share / S).astype(f32)


def block_backward(z, w, start, weights, y, scale, rates):
    """Step 2(a) on a block: dL/dy_j = 1_(j=w) - p_j; M <- keep M + epsilon dL/dy' z, in place.

    weights: the pair MT, low of `add_weights`. `y` and `scale` come from the forward pass; y is overwritten. rates:
    epsilon, keep, and (V,) a factor of epsilon for each output. `scale` multiplies (K, D) arrays instead of y, which
    saves a pass over y.
    Returns dL/dz (K, D). Its last column is 0, since the 1 in z is constant.
    """
    (MT, low), (epsilon, keep, factors) = weights, rates
    in_block = np.flatnonzero((w >= start) & (w < start + MT.shape[1]))
    scale = np.maximum(scale, LEAST)
    y[in_block, w[in_block] - start] -= 1 / scale[in_block]
    gz = np.zeros_like(z)
    np.matmul(y, MT[:-1].T, out=gz[:, :-1])
    gz *= -scale[:, None]
    factors = factors[start : start + MT.shape[1]]
    slow = np.flatnonzero(factors < 1)  # a few frequent words
    y[:, slow] *= factors[slow]
    add_weights(-epsilon, z * scale[:, None], y, keep, MT, low)
    return gz


def add_weights(rate, z, gy, keep, MT, low):
    """M <- keep M + rate gy' z, in place, for a block of outputs. `keep` does not shrink the biases b, the last row of
    MT.

    low (V_i,): what single precision rounds off the biases. With one example in an update, a step rate gy_j of a bias
    is often less than half a unit in its last place. Without `low` these steps would be lost, and only the steps
    upwards, of the words that occur, would count.
    """
    add_product(rate, z[:, :-1], gy, keep, MT[:-1])
    add_exactly(MT[-1], low, f32(rate) * (z[:, -1] @ gy))


@inlined
def add_to_pair(high, low, step):
    """(the sum in single precision, what it rounds off) of high + low + step, a number in two parts and a step."""
    exact = np.float64(high) + np.float64(low) + np.float64(step)
    rounded = f32(exact)
    return rounded, f32(exact - np.float64(rounded))


@jit
def add_exactly(b, low, steps):
    """b + low + steps, exactly: b <- the sum in single precision, low <- the rest. All (V_i,), in place."""
    for j in range(len(b)):
        b[j], low[j] = add_to_pair(b[j], low[j], steps[j])


@jit
def add_biases(b, low, at, steps):
    """b[at_i] += steps_i, one after the other, in place: b (V,), at, steps (N,); low (V,): as in `add_weights`."""
    for i in range(len(at)):
        j = at[i]
        b[j], low[j] = add_to_pair(b[j], low[j], steps[i])


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
