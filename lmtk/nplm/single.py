"""Updates of one example, as in section 3.2 of Bengio et al. 2003: each passes over the output weights once.

Step 1 reads all of M = [U | W | b]. Step 2 reads M again for dL/dz, and once more to change it. With one example in an
update, this reading takes most of the time. So `visit` does three things with a block of M while the processor's cache
holds it: it makes the update of the example before, computes the outputs of this example, and adds up their share of
dL/dz. `flush` makes the last update.

dL/dz = m_w - sum_j p_j m_j, where p_j = e^(y_j) / S. The sum of e^(y_j) m_j in a block does not need S, which is known
only after the last block: `learn_outputs` divides by it at the end (as Milakov and Gimelshein 2018 do with the softmax
alone).

symbol  shape      meaning, besides those of `kernels`
M       (N, D, B)  the output weights without b, in N blocks of B outputs; the last block is filled up with zeros
y       (N, B)     the outputs; after an example, e^(y - q) with q the maximum of the block
s       (N,)       a factor for each block: s_n y_n is the learning rate times dL/dy
sums    (3, N)     for each block: q; the sum of y; the output of the target word, or -inf if it is not in the block
parts   (N, D)     for each block, the sum of e^(y_j - q) m_j
"""

import math
from dataclasses import dataclass

import numpy as np

from lmtk.exponential import FAST, exp_outputs, tanh
from lmtk.machine.jit import inlined, jit
from lmtk.nplm.kernels import LEAST, add_to_pair

f32 = np.float32
B = 256  # outputs in a block: with 300 inputs it has 0.3 MB, which the second level of a cache holds


@dataclass
class Layer:
    """The output weights in training. b, low (V,): the biases, and what single precision rounds off them.

    z (D,), y, s and keep are the update that is still to be made: M <- keep (M + z (s y)), b <- b + s y. sums and parts
    are room for results.
    """

    M: np.ndarray
    b: np.ndarray
    low: np.ndarray
    y: np.ndarray
    z: np.ndarray
    s: np.ndarray
    sums: np.ndarray
    parts: np.ndarray
    keep: float = 1.0

    def shrink(self, keep):
        """Multiply U and W by `keep`, after the update that is still to be made: weight decay."""
        self.keep *= keep

    def for_kernels(self):
        """The arguments of `learn_outputs` that are the layer. The update that is still to be made is made there."""
        keep, self.keep = self.keep, 1.0
        return (self.M, self.b, self.low), (self.z, self.y, self.s, f32(keep)), (self.sums, self.parts)


def make_layer(U, W, b, low):
    """Copy U, W and b of section 2, and `low`, into a Layer."""
    weights = U if W is None else np.hstack((U, W))
    (V, D), N = weights.shape, -(-len(b) // B)
    M = np.zeros((N * B, D), f32)
    M[:V] = weights
    M = np.ascontiguousarray(M.reshape(N, B, D).transpose(0, 2, 1))
    zeros = lambda *shape: np.zeros(shape, f32)
    return Layer(M, b.copy(), low.copy(), zeros(N, B), zeros(D), zeros(N), zeros(3, N), zeros(N, D))


def gather(layer, h, direct):
    """Copy U, W, b and b_low out of a Layer. W is None without direct connections."""
    flush(layer)
    N, D, _ = layer.M.shape
    M = layer.M.transpose(0, 2, 1).reshape(N * B, D)[: len(layer.b)]
    W = M[:, h:].copy() if direct else None
    return {"U": M[:, :h].copy(), "W": W, "b": layer.b.copy(), "b_low": layer.low.copy()}


def flush(layer):
    """Make the update that is still to be made."""
    zeros = np.zeros_like(layer.z)
    learn_outputs(*layer.for_kernels(), zeros, -1, f32(0), zeros)


def update_output(layer, z, w, epsilon):
    """Update the softmax from one example: z (1, D + 1), the input of the output layer; w, its target word.

    Returns (L, dL/dz); if L is not finite, the example changes nothing and dL/dz is None.
    """
    gz = np.zeros_like(z)
    L = learn_outputs(*layer.for_kernels(), z[0, :-1], w, f32(epsilon), gz[0, :-1])
    return L, gz if math.isfinite(L) else None


@jit(fastmath=FAST)
def update(hidden, weights, pending, room, context, w, rates):
    """One example of the layer `nplm`, steps 1 and 2 of section 3.2: its context (n-1,) and its word w.

    hidden: C, H and d; weights, pending, room: `Layer.for_kernels`; rates: epsilon of all parameters but C, and of C.
    Returns (L, norm of dL/dz), from before the update; if L is not finite, the example changes nothing.
    """
    (C, H, d), (epsilon, epsilon_C) = hidden, rates
    h, m, D = len(d), C.shape[1], len(pending[0])
    x, z, gz = np.empty(H.shape[1], f32), np.empty(D, f32), np.empty(D, f32)
    for k in range(len(context)):  # 1(a)
        x[k * m : (k + 1) * m] = C[context[k]]
    for i in range(h):  # 1(b)
        o = d[i]
        for j in range(len(x)):
            o += H[i, j] * x[j]
        z[i] = tanh(o)
    z[h:] = x[: D - h]
    L = learn_outputs(weights, pending, room, z, w, epsilon, gz)  # 1(c) to 2(b)
    if not np.isfinite(L):
        return L, np.nan
    gx, squares = np.zeros_like(x), f32(0)
    gx[: D - h] = gz[h:]
    for j in range(D):
        squares += gz[j] * gz[j]
    for i in range(h):  # 2(c)
        go = (f32(1) - z[i] * z[i]) * gz[i]
        for j in range(len(x)):
            gx[j] += H[i, j] * go
            H[i, j] += epsilon * go * x[j]
        d[i] += epsilon * go
    for k in range(len(context)):  # 2(d)
        for c in range(m):
            C[context[k], c] += epsilon_C * gx[k * m + c]
    return L, math.sqrt(squares)


@jit(fastmath=FAST)
def learn_outputs(weights, pending, room, z, w, epsilon, gz):
    """Update the output layer from z (D,), its input, and the target word w; w = -1 only makes the update before.

    weights: M, b and low; pending: z, y, s and keep of the update before, where that of this example will be; room:
    sums and parts. gz (D,) <- dL/dz. Returns L; if it is not finite, the example changes nothing.
    """
    (M, _, _), (z_before, y, s, _), (sums, parts) = weights, pending, room
    visit(weights, pending, room, z, w)
    s[:] = 0
    Q, T, S = sums[0].max(), sums[2].max(), 0.0
    for n in range(len(M)):
        S += np.exp(np.float64(sums[0, n] - Q)) * sums[1, n]
    L = np.float64(T) - np.float64(Q) - np.log(S)
    if not np.isfinite(L):
        return L
    block, place = w // B, w % B
    gz[:] = M[block, :, place]
    for n in range(len(M)):
        scale = f32(np.exp(np.float64(sums[0, n] - Q)) / S)
        for d in range(len(z)):
            gz[d] -= scale * parts[n, d]
        scale = max(scale, LEAST)
        s[n] = -epsilon * scale
        if n == block:
            y[n, place] -= f32(1) / scale
    z_before[:] = z
    return L


@jit(fastmath=FAST)
def visit(weights, pending, room, z, w):
    """One pass over M: makes the update before, then y <- e^(y - q) for z and the target word w, and `room`, block by
    block. The arguments are those of `learn_outputs`.

    Bound by reading and writing M once.
    """
    (M, b, low), (z_before, y, s, keep), (sums, parts) = weights, pending, room
    gy, place = np.zeros(B, f32), np.empty(1, np.int64)
    for n in range(len(M)):
        at = n * B
        size = min(B, len(b) - at)
        for j in range(size):
            gy[j] = s[n] * y[n, j]
            b[at + j], low[at + j] = add_to_pair(b[at + j], low[at + j], gy[j])
            y[n, j] = b[at + j]
        gy[size:], y[n, size:] = 0, -np.inf
        change_and_multiply(M[n], z_before, gy, keep, z, y[n])
        place[0], sums[2, n] = w - at, -np.inf
        exp_outputs(y[n : n + 1], sums[0, n : n + 1], sums[1, n : n + 1], place, None, sums[2, n : n + 1])
        add_outputs(M[n], y[n], parts[n])


@inlined(fastmath={"contract"})
def change_and_multiply(M, z_before, gy, keep, z, y):
    """M <- keep (M + z_before' gy), then y <- y + z M, for a block M (D, B). FAST would compute y from weights that are
    not yet rounded, and a copy of the network between two updates would change the training.
    """
    for d in range(len(z)):
        row, change, factor = M[d], keep * z_before[d], z[d]
        for j in range(B):
            weight = keep * row[j] + change * gy[j]
            row[j] = weight
            y[j] += factor * weight


@inlined(fastmath=FAST)
def add_outputs(M, y, part):
    """part (D,) <- M y' for a block M (D, B)."""
    for d in range(len(part)):
        row, total = M[d], f32(0)
        for j in range(B):
            total += row[j] * y[j]
        part[d] = total
