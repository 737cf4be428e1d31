"""Recurrent hidden units: the gated unit of Cho et al. 2014, the LSTM, and the tanh unit, for `nplm` and `nmt`.

A `Unit` is a record of functions for one step, forward and backward. `follow` computes the states of packed sequences
step by step; `follow_back` is back-propagation through time. Threads share the sequences. For large work, `whole_run`
selects kernels that compute all steps in one call.

symbol  shape             meaning
n k     -                 units; sequences at a step
P       -                 steps of all sequences: packed time by time, the longest sequences first
d       -                 (gates + 1) n
G at b  (D, d) (P,) (d,)  the inputs: G[at] + b goes into the gates and the proposed state of a step; D distinct inputs,
                          such as words, are multiplied once each
zr      (P, gates n)      inputs of the gates, then the gates
t       (P, n)            inputs of the proposed state, then the proposed state
s       (k, width n)      the state before a step
S U     (n, gates n) (n, n)  recurrent weights: of the gates, of the proposed state

Functions get some of them in tuples: `inputs` is G, at, b; `recurrent` is S, U; `memory` is zr, t, the states before
the steps, and what the backward step needs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lmtk.exponential import FAST, sigma, tanh
from lmtk.machine.blas import address, multiply, shares
from lmtk.machine.jit import inlined, jit
from lmtk.machine.large import pays
from lmtk.machine.threads import map_at_once

GAP = 16  # numbers between the rows of a factor
f32 = np.float32


@dataclass(frozen=True)
class Unit:
    """A kind of unit. gates: the number of gates; width: a state is width n numbers, the first n are the activations.

    step(zr, t, s, U, Q, new, kept): changes zr and t in place, and writes new (k, width n), the state after the step,
    and kept (k, n), which the backward step needs. Q: what must still be added to zr, s S, or None. back(gs, zr, t, s,
    kept, UT, gG): gs (k, width n) is dL/d(new state) on entry; on return it is dL/ds without the part through the
    gates. gG (k, (gates + 1) n) <- dL/d(inputs of the gates and of the proposed state).
    alike: whether U multiplies the activations before the step, as S does; else U multiplies `kept`. If alike, one
    product with [S | U] replaces two: Q is this product, (k, (gates + 1) n), and step and back get None for U and UT.
    run, run_back: kernels for all steps of sequences at once, used when the calls for single steps would take much of
    the time; None: there are none. They get R and U of `follow`, or RT and UT of `follow_back`. open: the gate whose
    biases start at 1, so that a state persists (Jozefowicz et al. 2015); None: no gate.
    """

    name: str
    gates: int
    width: int
    step: Callable
    back: Callable
    alike: bool = False
    run: Callable | None = None
    run_back: Callable | None = None
    open: int | None = None


def is_worth_compiling(t, *others, kind="units"):
    """Whether kernels compute the activations t: there are many, and rows are contiguous, as the kernels need."""
    return pays(kind, t.size) and t.dtype == np.float32 and all(x.flags.c_contiguous for x in (t, *others))


def sigmoid(x):
    """sigma(x), in place, by tanh, which does not overflow."""
    x *= x.dtype.type(0.5)
    np.tanh(x, out=x)
    x *= x.dtype.type(0.5)
    x += x.dtype.type(0.5)
    return x


@jit(fastmath=FAST)
def gate_sums(zr, s, rs, G):
    """The gates of `gated_step`: zr (k, 2n) <- sigma(zr + G) in place, rs (k, n) <- r o s. G may be None."""
    k, n = rs.shape
    for i in range(k):
        if G is not None:
            for j in range(2 * n):
                zr[i, j] += G[i, j]
        for j in range(n):
            zr[i, j] = sigma(zr[i, j])
        for j in range(n):
            r = sigma(zr[i, n + j])
            zr[i, n + j] = r
            rs[i, j] = r * s[i, j]


@jit(fastmath=FAST)
def state_sums(t, u, zr, s, new):
    """The state of `gated_step`: t (k, n) <- tanh(t + u) in place, new (k, n) <- (1 - z) o s + z o t."""
    k, n = t.shape
    for i in range(k):
        for j in range(n):
            v = tanh(t[i, j] + u[i, j])
            t[i, j] = v
            new[i, j] = s[i, j] + zr[i, j] * (v - s[i, j])


@jit(fastmath=FAST)
def lstm_sums(zr, t, s, new, seen, G):
    """`lstm_step` after its products: zr (k, 3n) <- i, f, o = sigma(zr); t (k, n) <- tanh(t), both in place; new
    (k, 2n) <- the state, o o tanh(c) and c = f o c + i o t; seen (k, n) <- tanh(c). G is added first: (k, 3n) to zr,
    (k, 4n) to zr and t, or None.
    """
    k, n = t.shape
    for j in range(k):
        if G is not None:
            for m in range(3 * n):
                zr[j, m] += G[j, m]
            for m in range(3 * n, G.shape[1]):
                t[j, m - 3 * n] += G[j, m]
        for m in range(n):
            zr[j, m], zr[j, n + m] = sigma(zr[j, m]), sigma(zr[j, n + m])
        for m in range(n):
            t[j, m] = tanh(t[j, m])
            new[j, n + m] = zr[j, n + m] * s[j, n + m] + zr[j, m] * t[j, m]
        for m in range(n):
            o = sigma(zr[j, 2 * n + m])
            zr[j, 2 * n + m] = o
            seen[j, m] = tanh(new[j, n + m])
            new[j, m] = o * seen[j, m]


def gated_step(zr, t, s, U, Q, new, rs):
    """The gated unit (Bahdanau et al. 2015, A.1.1): zr <- [z_i r_i] = sigma(zr);
    t <- s~_i = tanh(t + [r_i o s_(i-1)] U); new <- s_i = (1 - z_i) o s_(i-1) + z_i o s~_i; rs <- r_i o s_(i-1).
    """
    n = t.shape[1]
    if is_worth_compiling(t, zr):
        gate_sums(zr, s, rs, Q)
        state_sums(t, rs @ U, zr, s, new)
        return
    if Q is not None:
        zr += Q
    sigmoid(zr)
    np.multiply(zr[:, n:], s, out=rs)
    t += rs @ U
    np.tanh(t, out=t)
    np.subtract(t, s, out=new)
    new *= zr[:, :n]
    new += s


def gated_back(gs, zr, t, s, kept, UT, gG):
    update_backward(gs, zr, t, s, gG)
    reset_backward(gs, zr, s, gG[:, 2 * t.shape[1] :] @ UT, gG)


@jit
def update_backward(gs, zr, t, s, gG):
    """First half of the backward step: gG (k, 3n) <- gradients of the inputs of z and t; gs (k, n) <- gs o (1 - z).

    `reset_backward` writes the gradient of the input of r.
    """
    k, n = gs.shape
    one = gs.dtype.type(1)
    for i in range(k):
        for j in range(n):
            z, v, g = zr[i, j], t[i, j], gs[i, j]
            gG[i, j] = g * (v - s[i, j]) * z * (one - z)
            gG[i, 2 * n + j] = g * z * (one - v * v)
            gs[i, j] = g * (one - z)


@jit
def reset_backward(gs, zr, s, grs, gG):
    """Second half of the backward step, from grs (k, n), the gradient of r o s.

    gG <- the gradient of the input of r; gs (k, n) += grs o r.
    """
    k, n = gs.shape
    one = gs.dtype.type(1)
    for i in range(k):
        for j in range(n):
            r, g = zr[i, n + j], grs[i, j]
            gG[i, n + j] = g * s[i, j] * r * (one - r)
            gs[i, j] += g * r


def lstm_step(zr, t, s, U, Q, new, seen):
    """An LSTM (Graves 2013, equations 7 to 11, without peepholes) with state [s, c]: zr <- [i f o] = sigma(zr);
    t <- tanh(t + s U); new <- [o o tanh(c'), c'] with c' = f o c + i o t; seen <- tanh(c').
    """
    n = t.shape[1]
    if U is not None:
        t += s[:, :n] @ U
    if is_worth_compiling(t, zr):
        lstm_sums(zr, t, s, new, seen, Q)
        return
    if Q is not None:
        zr += Q[:, : 3 * n]
        if U is None:
            t += Q[:, 3 * n :]
    sigmoid(zr)
    np.tanh(t, out=t)
    memory = new[:, n:]
    np.multiply(zr[:, n : 2 * n], s[:, n:], out=memory)
    memory += zr[:, :n] * t
    np.tanh(memory, out=seen)
    np.multiply(zr[:, 2 * n :], seen, out=new[:, :n])


def lstm_back(gs, zr, t, s, kept, UT, gG):
    n = t.shape[1]
    lstm_backward(gs, zr, t, s, kept, gG)
    if UT is None:
        gs[:, :n] = 0
    else:
        np.matmul(gG[:, 3 * n :], UT, out=gs[:, :n])


@jit
def lstm_backward(gs, zr, t, s, seen, gG):
    """gG (k, 4n) <- gradients of the inputs of i, f, o and t; the second half of gs (k, 2n) <- the gradient of the
    memory before the step. seen (k, n): tanh of the memory after the step.
    """
    k, n = t.shape
    one = gs.dtype.type(1)
    for j in range(k):
        for m in range(n):
            i, f, o, v, a, g = zr[j, m], zr[j, n + m], zr[j, 2 * n + m], t[j, m], seen[j, m], gs[j, m]
            memory = gs[j, n + m] + g * o * (one - a * a)
            gG[j, m] = memory * v * i * (one - i)
            gG[j, n + m] = memory * s[j, n + m] * f * (one - f)
            gG[j, 2 * n + m] = g * a * o * (one - o)
            gG[j, 3 * n + m] = memory * i * (one - v * v)
            gs[j, n + m] = memory * f


def tanh_step(zr, t, s, U, Q, new, kept):
    """The simple unit (Elman 1990; Bahdanau et al. 2015, equation 1 and A.1.1): t, new <- s_i = tanh(t + s_(i-1) U)."""
    t += Q if U is None else s @ U
    np.tanh(t, out=t)
    new[:] = t


def tanh_back(gs, zr, t, s, kept, UT, gG):
    """gG (k, n) <- gs o (1 - s_i o s_i), the gradient of the inputs."""
    np.multiply(t, t, out=gG)
    np.subtract(1, gG, out=gG)
    gG *= gs
    gs[:] = 0 if UT is None else gG @ UT


@inlined
def begin_step(inputs, start, begun, state, fresh, step, after):
    """Prepare the products of a step: zr and t (k, .) <- the inputs, before (k, width n) <- the state. step: these
    three arrays.

    The state is in `after`, from row `begun` on, where the previous step wrote it. At the first step, with begun -1, it
    is in `state`.
    """
    (G, at, b), (zr, t, before) = inputs, step
    k, n = t.shape
    gates, width = zr.shape[1], before.shape[1]
    for j in range(k):
        row, clear = at[start + j], fresh is not None and fresh[start + j]
        for m in range(gates):
            zr[j, m] = G[row, m] + b[m]
        for m in range(n):
            t[j, m] = G[row, gates + m] + b[gates + m]
        for m in range(width):
            last = state[j, m] if begun < 0 else after[begun + j, m]
            before[j, m] = last if not clear else 0


@jit
def gated_run(inputs, spans, state, fresh, factors, memory, after):
    """Kernel of `follow` for a share of the sequences: writes the memory zr, t, before and kept, and after, (P, .).

    It repeats `gated_step` for all steps in one call. spans (T, 2): where the steps of the share begin and end; state
    (k, n): before the first step; fresh (P,) bool or None. factors: from `whole_run`. Bound by the products, P n d
    multiplications.
    """
    (gemm, S, U), (zr, t, before, kept) = factors, memory
    n, begun = t.shape[1], -1
    Q, V = np.empty((len(state), 2 * n), t.dtype), np.empty((len(state), n), t.dtype)
    for start, stop in spans:
        now, k = slice(start, stop), stop - start
        s, rs = before[now], kept[now]
        begin_step(inputs, start, begun, state, fresh, (zr[now], t[now], s), after)
        multiply(gemm, s, S, Q)
        gate_sums(zr[now], s, rs, Q[:k])
        multiply(gemm, rs, U, V)
        state_sums(t[now], V[:k], zr[now], s, after[now])
        begun = start


@jit
def lstm_run(inputs, spans, state, fresh, factors, memory, after):
    """Kernel of `follow` for a share of the sequences, for an LSTM; S and U are one factor, SU."""
    (gemm, SU, _), (zr, t, before, kept) = factors, memory
    n, begun = t.shape[1], -1
    Q = np.empty((len(state), 4 * n), t.dtype)
    for start, stop in spans:
        now = slice(start, stop)
        s = before[now]
        begin_step(inputs, start, begun, state, fresh, (zr[now], t[now], s), after)
        multiply(gemm, s[:, :n], SU, Q)
        lstm_sums(zr[now], t[now], s, after[now], kept[now], Q[: stop - start])
        begun = start


@inlined
def add_gradient(gs, ga):
    """gs (k, width n) += ga (k, n), the gradient of the activations of a step, in place."""
    for j in range(len(gs)):
        for m in range(ga.shape[1]):
            gs[j, m] += ga[j, m]


@inlined
def clear_begun(gs, fresh, start):
    """Set the gradient of the state to 0 for sequences whose state was reset before this step."""
    if fresh is not None:
        for j in range(len(gs)):
            if fresh[start + j]:
                gs[j] = 0


@jit
def gated_run_back(ga, spans, carried, fresh, factors, memory, gG):
    """Kernel of `follow_back` for a share of the sequences: writes gG (P, 3n).

    It repeats `gated_back` for all steps in one call. carried (k, n), zeros at first, holds the gradient from later
    steps.
    """
    (gemm, ST, UT), (zr, t, before, _) = factors, memory
    n = t.shape[1]
    V = np.empty((len(carried), n), t.dtype)
    for start, stop in spans[::-1]:
        now, k = slice(start, stop), stop - start
        gs, s, g = carried[:k], before[now], gG[now]
        add_gradient(gs, ga[now])
        update_backward(gs, zr[now], t[now], s, g)
        multiply(gemm, g[:, 2 * n :], UT, V)
        reset_backward(gs, zr[now], s, V[:k], g)
        multiply(gemm, g[:, : 2 * n], ST, V)
        add_gradient(gs, V[:k])
        clear_begun(gs, fresh, start)


@jit
def lstm_run_back(ga, spans, carried, fresh, factors, memory, gG):
    """Kernel of `follow_back` for a share of the sequences, for an LSTM: writes gG (P, 4n); carried (k, 2n)."""
    (gemm, RT, _), (zr, t, before, kept) = factors, memory
    for start, stop in spans[::-1]:
        now, gs = slice(start, stop), carried[: stop - start]
        add_gradient(gs, ga[now])
        lstm_backward(gs, zr[now], t[now], before[now], kept[now], gG[now])
        multiply(gemm, gG[now], RT, gs)
        clear_begun(gs, fresh, start)


GATED = Unit("gated unit", 2, 1, gated_step, gated_back, run=gated_run, run_back=gated_run_back)
LSTM = Unit("LSTM", 3, 2, lstm_step, lstm_back, alike=True, run=lstm_run, run_back=lstm_run_back, open=1)
TANH = Unit("tanh unit", 0, 1, tanh_step, tanh_back, alike=True)
UNITS = {"gated": GATED, "lstm": LSTM, "rnn": TANH}  # by the name of -unit, which is its name in a file too


def from_activations(unit, a):
    """The state (.., width n) with the activations a (.., n); the memory behind them is 0."""
    return np.concatenate([a, *[np.zeros_like(a)] * (unit.width - 1)], axis=-1)


def open_gates(unit, b):
    """Set the biases of the open gate to 1, in place, before training; b ((gates + 1) n,)."""
    if unit.open is not None:
        n = len(b) // (unit.gates + 1)
        b[unit.open * n : (unit.open + 1) * n] = 1


def run_shares(threads, work, rows, multiplications):
    """[work(share)] for slices of `rows` rows, or sequences: a slice for each of the threads, or one slice for small
    work.

    multiplications: the number in all slices, which decides how many threads are worth while.
    """
    parts = shares(threads, multiplications)
    size = -(-rows // parts)
    cuts = [slice(i, min(i + size, rows)) for i in range(0, rows, size)]
    return [work(cuts[0])] if parts == 1 else map_at_once(work, cuts, threads)


def step_spans(sizes, share):
    """The steps of a share of the sequences, in the packed steps: (T, 2), begin and end for each time."""
    sizes = np.array([k for k in sizes if k > share.start])
    begins = np.cumsum(sizes) - sizes
    return np.column_stack((begins + share.start, begins + np.minimum(sizes, share.stop)))


def factor(*matrices):
    """[A | B ..], (K, N), of matrices (K, .), for products with many matrices of few rows. Products are slower by
    transposes, and by factors whose rows are a power of two apart, so this copy has a GAP after each row.
    """
    N = sum(matrix.shape[1] for matrix in matrices)
    return np.concatenate(matrices, axis=1, out=np.empty((len(matrices[0]), N + GAP), matrices[0].dtype)[:, :N])


def whole_run(unit, R, U, t):
    """(`address`, R, U) for kernels of all steps at once; None if the job is too small for them. t (P, n), of all
    steps.
    """
    if not (unit.run and R.dtype == t.dtype and is_worth_compiling(t, kind="states")):
        return None
    return address(), R, U


def follow(unit, inputs, sizes, recurrent, state=None, fresh=None, threads=1):
    """The states of sequences. sizes: for each t, the number of sequences with a t-th step.

    state (sizes[0], width n): before the first step, None: 0. fresh (P,) bool: the steps before which the state is
    reset to 0. threads: how many threads share the sequences. Returns the activations (P, n), what
    `follow_back` needs, and the last state of the longest sequences.
    """
    (G, at, b), (S, U) = inputs, recurrent
    P, (n, gates), kind = len(at), S.shape, G.dtype
    d = gates + unit.alike * n
    R, U = (factor(S, U), None) if unit.alike else (factor(S), factor(U))
    zr, t, kept = np.empty((P, gates), kind), *np.empty((2, P, n), kind)
    before, after = np.empty((2, P, unit.width * n), kind)
    state = np.zeros((sizes[0], unit.width * n), kind) if state is None else state
    fresh = None if fresh is None or not fresh.any() else fresh
    at_once, G = whole_run(unit, R, U, t), np.ascontiguousarray(G)
    inputs, memory = (G, at, b), (zr, t, before, kept)

    def go(share):
        if at_once:
            unit.run(inputs, step_spans(sizes, share), state[share], fresh, at_once, memory, after)
            return
        new, Q = state[share], np.empty((share.stop - share.start, d), kind)
        for start, stop in step_spans(sizes, share).tolist():
            now, k = slice(start, stop), stop - start
            rows, s = G[at[now]], before[now]
            np.add(rows[:, :gates], b[:gates], out=zr[now])
            np.add(rows[:, gates:], b[gates:], out=t[now])
            s[:] = new[:k]
            if fresh is not None:
                s[fresh[now]] = 0
            new = after[now]
            unit.step(zr[now], t[now], s, U, np.matmul(s[:, :n], R, out=Q[:k]), new, kept[now])

    run_shares(threads, go, sizes[0], P * n * d)
    return after[:, :n], (*memory, fresh), after[P - sizes[-1] :].copy()


def follow_back(unit, ga, sizes, recurrent, memory, threads=1):
    """Back-propagation through time: gG (P, d), the gradient of G[at] + b of all steps, from ga (P, n), of the
    activations.
    """
    (zr, t, before, kept, fresh), (S, U) = memory, recurrent
    (P, n), gates = ga.shape, S.shape[1]
    gG, d = np.empty((P, gates + n), ga.dtype), gates + unit.alike * n
    RT, UT = (factor(np.vstack((S.T, U.T))), None) if unit.alike else (factor(S.T), factor(U.T))
    carried = np.zeros((sizes[0], before.shape[1]), ga.dtype)
    at_once = whole_run(unit, RT, UT, t)

    def go(share):
        if at_once:
            unit.run_back(ga, step_spans(sizes, share), carried[share], fresh, at_once, memory[:-1], gG)
            return
        for start, stop in step_spans(sizes, share)[::-1].tolist():
            now, gs = slice(start, stop), carried[share][: stop - start]
            gs[:, :n] += ga[now]
            unit.back(gs, zr[now], t[now], before[now], kept[now], UT, gG[now])
            gs[:, :n] += gG[now, :d] @ RT
            if fresh is not None:
                gs[fresh[now]] = 0

    run_shares(threads, go, sizes[0], P * n * d)
    return gG


def weight_products(unit, memory, gG, gS, gU):
    """The products that write gS and gU, as `blas.products` takes them."""
    _, _, before, kept, _ = memory
    n, gates = gS.shape
    s = before[:, :n]
    return (s.T, gG[:, :gates], gS), ((s if unit.alike else kept).T, gG[:, gates:], gU)


def sum_rows(gG, at, D):
    """The gradient of G (D, d), from gG (P, d) of `follow_back`: the sum of the rows for each of the D inputs."""
    out = np.zeros((D, gG.shape[1]), gG.dtype)
    add_rows(gG, at, out)
    return out


@jit
def add_rows(rows, at, out):
    """out[at_i] += rows_i, in place: rows (P, d), at (P,), out (D, d)."""
    for i in range(len(at)):
        row, to = rows[i], out[at[i]]
        for j in range(len(row)):
            to[j] += row[j]
