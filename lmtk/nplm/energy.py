"""The output layer of the energy-minimization network of Bengio et al. 2003, section 5.1.

Activations of the hidden layer `layers.linear` come in; exact ln p of words goes out. The energy of each pair of a
context and an output word is computed by kernels; `energy_sgd` trains the network with them.

symbol  shape       meaning
V m h n -           as in `kernels`
C       (>= V, m)   feature vectors, of the output word too
H d     (h, nm) (h,)  hidden layer over x = (C(w_t), C(w_(t-1)), .. C(w_(t-n+1)))
v       (h, 1) or (h, V)  output weights, one set or one for each target word
b       (V,)        biases; E has only b_(w_t), because the normalization cancels the biases of the context words
E       -           v . tanh(d + Hx) + b_(w_t); P(w_t | context) is e^-E over its sum for all words
o u     (K, h) (h, V)  the parts of d + Hx that depend on the context, and on the output word
A B     (K, h) (h, V)  e^(2o), e^(2u): tanh(o + u) = 1 - 2 / (1 + AB), one division for each pair and hidden unit
y       (K, V)      -E

The sums over all pairs take K V h divisions, which bound both scoring and training; matrix products cost little.
"""

import numpy as np

from lmtk.files.declared import reals
from lmtk.machine.jit import jit
from lmtk.nplm import model, outputs

f32 = np.float32
COLUMNS = 512  # output words in one block: the second-level cache holds their part of B, the first-level a row of y
PAIRS = 10_000_000  # contexts times words: with more, a compiled kernel saves more time than it takes to load


def declare_arrays(V, h, seen, size):
    sets = 1 if size("v", 1) == 1 else V  # of output weights
    return {"C": reals(size("C", 0), seen), "v": reals(h, sets), "b": reals(V)}


def describe(p):
    yield "output weights v", "one set" if p.v.shape[1] == 1 else "for each word"


def columns_of(v, words):
    """The columns of v for these words, an index: all of v if it is one set of weights, (h, 1)."""
    return slice(None) if v.shape[1] == 1 else words


def log_p(p, hidden, rows, w):
    """ln p(w | context), (N,) float64, for contexts `rows` (N, n-1) of ids and words w (N,).

    hidden(rows) -> z = [o | 1].
    """
    V, v = len(p.b), np.array(p.v)
    many = len(rows) * V > PAIRS
    exp_rows = model.choose_exp_rows(many)
    fill = minus_energies if many else minus_energies_plain
    B, c = word_part(p.C[:V], p.H), constant_part(v, p.b)

    def prepare(rows):
        A = exp_twice(hidden(rows)[:, :-1])
        sums = model.log_sums(len(rows), V, lambda j, y: fill(A, B, v, c, j, y), exp_rows)

        def outputs_of(k, w):
            return (2 * v[:, columns_of(v, w)].T / (1 + A[k] * B[:, w].T)).sum(axis=1, dtype=np.float64) + c[w]

        return sums, outputs_of

    return model.score_distinct_contexts(rows, w, prepare)


OUTPUT = outputs.Output(declare_arrays, log_p, describe=describe, title="energy-minimization network")


def exp_twice(o):
    """e^(2o), clipped so that a product of two of them is never 0 times infinity; tanh is +-1 far inside the bounds."""
    return np.asarray(np.exp(np.clip(2 * o, -85, 85)), f32)


def word_part(C, H):
    """B = e^(2u), (h, V): u is the part of Hx that depends on the output words, whose features are C (V, m)."""
    return exp_twice(H[:, : C.shape[1]] @ C.T)


def constant_part(v, b):
    """c (V,), the part of y = c + 2 sum_j v_j / (1 + A_j B_j) that does not depend on the context."""
    return np.asarray(-b - v.sum(axis=0))


@jit(fastmath={"reassoc", "contract", "nsz"})
def minus_energies(A, B, v, c, start, y):
    """y_ki <- c_i + 2 sum_j v_j / (1 + A_kj B_ji), which is -E, in place, for the words i from `start` on.

    A (K, h), B (h, V), c (V,), y (K, V_i), float32; v is (h, 1) if all words share it, else (h, V). The words are
    visited in blocks, so that their part of B stays in the cache. Bound by K V_i h divisions.
    """
    (K, h), Vi, is_shared = A.shape, y.shape[1], v.shape[1] == 1
    for first in range(0, Vi, COLUMNS):
        size = min(COLUMNS, Vi - first)
        columns = slice(first, first + size)
        these = slice(start + first, start + first + size)
        for k in range(K):
            row, constants = y[k, columns], c[these]
            for i in range(size):
                row[i] = constants[i]
            for j in range(h):
                a, units = A[k, j], B[j, these]
                if is_shared:
                    weight = f32(2) * v[j, 0]
                    for i in range(size):
                        row[i] += weight / (f32(1) + a * units[i])
                else:
                    weights = v[j, these]
                    for i in range(size):
                        row[i] += f32(2) * weights[i] / (f32(1) + a * units[i])


def minus_energies_plain(A, B, v, c, start, y):
    """The same as `minus_energies` in numpy, for small jobs, where compiling a kernel would take longer."""
    these = slice(start, start + y.shape[1])
    y[:] = c[these]
    for j in range(A.shape[1]):
        y += 2 * v[j, columns_of(v, these)] / (1 + A[:, j, None] * B[j, these])


@jit(fastmath={"reassoc", "contract", "nsz"})
def minus_energies_backward(A, B, v, start, g, gradients):
    """Back-propagate g = dL/dy of the words from `start` on, (K, V_i), to the gradients go, gu and gv, in place.

    go (K, h) = dL/do, gu (h, V_i) = dL/du, gv = dL/dv: (h, 1) if all words share v, else (h, V_i).
    With s = 1 / (1 + AB), tanh = 1 - 2s: dy/do = dy/du = -4 v s (1 - s), dy/dv = 2s - 1. Bound by K V_i h divisions.
    """
    (K, h), Vi, is_shared, (go, gu, gv) = A.shape, g.shape[1], v.shape[1] == 1, gradients
    go[:], gu[:], gv[:] = f32(0), f32(0), f32(0)
    for first in range(0, Vi, COLUMNS):
        size = min(COLUMNS, Vi - first)
        columns = slice(first, first + size)
        these = slice(start + first, start + first + size)
        for k in range(K):
            gk, total = g[k, columns], f32(0)
            for i in range(size):
                total += gk[i]
            for j in range(h):
                a, units, out = A[k, j], B[j, these], gu[j, columns]
                to, tv = f32(0), f32(0)
                if is_shared:
                    weight = f32(-4) * v[j, 0]
                    for i in range(size):
                        s = f32(1) / (f32(1) + a * units[i])
                        gs = gk[i] * s
                        t = weight * gs * (f32(1) - s)
                        tv += gs
                        to += t
                        out[i] += t
                    gv[j, 0] += f32(2) * tv - total
                else:
                    weights, outv = v[j, these], gv[j, columns]
                    for i in range(size):
                        s = f32(1) / (f32(1) + a * units[i])
                        gs = gk[i] * s
                        t = f32(-4) * weights[i] * gs * (f32(1) - s)
                        to += t
                        out[i] += t
                        outv[i] += f32(2) * gs - gk[i]
                go[k, j] += to
