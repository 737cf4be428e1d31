"""The softmax over all words, for updates of one example: each update passes over the output weights once.

Step 1 of section 3.2 of Bengio et al. 2003 reads all of M = [U | W | b]. Step 2 reads M again for dL/dz, and once more
to change it. With one example in an update, this reading takes most of the time. So `visit` does three things with a
block of M while the processor's cache holds it: it makes the update of the example before, computes the outputs of
this example, and adds up their share of dL/dz. `flush` makes the last update.

dL/dz = m_w - sum_j p_j m_j, where p_j = e^(y_j) / S. The sum of e^(y_j) m_j in a block does not need S, which is known
only after the last block: `update_output` divides by it at the end (as Milakov and Gimelshein 2018 do with the softmax
alone).

symbol  shape      meaning, besides those of `kernels`
M       (N, D, B)  the output weights without b, in N blocks of B outputs; the last block is filled up with zeros
y       (N, B)     the outputs; after an example, e^(y - q) with q the maximum of the block
s       (N,)       a factor for each block: s_n y_n is the learning rate times dL/dy
parts   (N, D)     for each block, the sum of e^(y_j - q) m_j
"""

from dataclasses import dataclass

import numpy as np

from lmtk.exponential import FAST, exp_outputs
from lmtk.machine.jit import inlined, jit
from lmtk.machine.parallel import ALONE
from lmtk.nplm.kernels import LEAST, add_to_pair, normalize

f32 = np.float32
B = 256  # outputs in a block: with 300 inputs it has 0.3 MB, which the second level of a cache holds


@dataclass
class Layer:
    """The output weights in training. b, low (V,): the biases, and what single precision rounds off them.

    z (D,), y, s and keep are the update that is still to be made: M <- keep (M + z (s y)), b <- b + s y.
    """

    M: np.ndarray
    b: np.ndarray
    low: np.ndarray
    y: np.ndarray
    z: np.ndarray
    s: np.ndarray
    keep: float = 1.0

    def shrink(self, keep):
        """Multiply U and W by `keep`, after the update that is still to be made: weight decay."""
        self.keep *= keep


def make_layer(U, W, b, low):
    """Copy U, W and b of section 2, and `low`, into a Layer."""
    weights = U if W is None else np.hstack((U, W))
    (V, D), N = weights.shape, -(-len(b) // B)
    M = np.zeros((N, B, D), f32)
    M.reshape(-1, D)[:V] = weights
    M = np.ascontiguousarray(M.transpose(0, 2, 1))
    return Layer(M, b.copy(), low.copy(), np.zeros((N, B), f32), np.zeros(D, f32), np.zeros(N, f32))


def gather(layer, h):
    """Copy U, W, b and b_low out of a Layer. W is None without direct connections."""
    flush(layer)
    M = layer.M.transpose(0, 2, 1).reshape(-1, len(layer.z))[: len(layer.b)]
    U, W = M[:, :h].copy(), M[:, h:].copy()
    return {"U": U, "W": W if W.shape[1] else None, "b": layer.b.copy(), "b_low": layer.low.copy()}


def update_output(layer, z, w, epsilon):
    """Update the softmax from one example: z (1, D + 1), the input of the output layer; w, its target word.

    Returns (L, dL/dz); if L is not finite, the example changes nothing and dL/dz is None.
    """
    block, place = divmod(w, B)
    sums, parts = visit_all(layer, z[0, :-1], w)
    logp, scale = normalize(*sums[:, :, None], ALONE)
    L = float(logp[0])
    if not np.isfinite(L):
        return L, None
    gz = np.zeros_like(z)
    gz[0, :-1] = layer.M[block, :, place] - scale[:, 0] @ parts
    scale = np.maximum(scale[:, 0], LEAST)
    layer.y[block, place] -= 1 / scale[block]
    layer.z[:], layer.s[:] = z[0, :-1], -epsilon * scale
    return L, gz


def flush(layer):
    """Make the update that is still to be made."""
    visit_all(layer, np.zeros_like(layer.z), -1)


def visit_all(layer, z, w):
    """Make the update that is still to be made, and compute the outputs for z (D,).

    w: the target word, or -1. Returns (the maxima q, the sums of y, and the output of w in its block, (3, N); parts).
    """
    N, D = len(layer.s), len(z)
    sums, parts = np.full((3, N), -np.inf, f32), np.zeros((N, D), f32)
    places = w - B * np.arange(N)
    weights, update = (layer.M, layer.b, layer.low), (layer.z, layer.s, f32(layer.keep))
    visit(weights, update, z, places, layer.y, sums, parts)
    layer.s[:], layer.keep = 0, 1.0
    return sums, parts


@jit(fastmath=FAST)
def visit(weights, update, z, places, y, sums, parts):
    """One pass over the weights (M, b, low): makes the update (z, s, keep) of the example before, then y <- e^(y - q)
    of this example, block by block. The other arguments are those of `visit_all`; sums and parts are results.

    Bound by reading and writing M once.
    """
    (M, b, low), (z_before, s, keep) = weights, update
    gy = np.zeros(B, f32)
    for n in range(len(M)):
        at = n * B
        size = min(B, len(b) - at)
        for j in range(size):
            gy[j] = s[n] * y[n, j]
            b[at + j], low[at + j] = add_to_pair(b[at + j], low[at + j], gy[j])
            y[n, j] = b[at + j]
        gy[size:], y[n, size:] = 0, -np.inf
        change_and_multiply(M[n], z_before, gy, keep, z, y[n])
        exp_outputs(y[n : n + 1], sums[0, n : n + 1], sums[1, n : n + 1], places[n : n + 1], None, sums[2, n : n + 1])
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
