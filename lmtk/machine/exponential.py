"""Exponentials and hyperbolic tangents of many numbers, faster than those of numba and libm."""

import numpy as np

from lmtk.machine.jit import jit

f32, i32 = np.float32, np.int32
FAST = {"reassoc", "contract", "nsz"}


@jit(fastmath=FAST)
def exp(v):
    """e^v of one number between -87 and 87, with a relative error below 4e-7: 2^k times a polynomial in the rest. In a
    loop, the compiler vectorises it.
    """
    n = np.floor(v * f32(1.44269504) + f32(0.5))
    r = v - n * f32(0.693359375) + n * f32(2.12194440e-4)
    p = f32(1.9875691500e-4)
    p = p * r + f32(1.3981999507e-3)
    p = p * r + f32(8.3334519073e-3)
    p = p * r + f32(4.1665795894e-2)
    p = p * r + f32(1.6666665459e-1)
    p = p * r + f32(5.0000001201e-1)
    p = p * r * r + r + f32(1.0)
    # 2^n, from its bits; numba widens i32 sums to 64 bits unless told otherwise, which halves the speed
    return p * i32(i32(i32(n) + i32(127)) * i32(8388608)).view(f32)


@jit(fastmath=FAST)
def ordered(bits):
    """The bits of a float as an integer, such that integers are ordered as the floats are; it is its own inverse.

    The compiler vectorises the search for the largest of many integers, but not of floats.
    """
    return i32(bits ^ i32(i32(bits >> 31) & i32(0x7FFFFFFF)))


def exp_rows(y, q, s):
    """y (K, V) <- e^(y - q) in place, as `exp_outputs` does."""
    exp_outputs(y, q, s, None, None, None)


@jit(fastmath=FAST)
def exp_outputs(y, q, s, own, log_c, t):
    """y (K, V) <- e^(y - ln c - q) in place, in one pass; q (K,) <- the maxima of the rows of y - ln c, -inf if V is 0;
    s (K,) <- their sums, nan where a row has nan. Results are at least e^-87, 2^-126 of the largest.

    log_c (V,): None: 0. own (K,): the output of a row from which no ln c is taken, and t (K,) <- it; None, or below 0,
    or from V on: there is none, and t is as it was.
    """
    K, V = y.shape
    for k in range(K):
        row, bits = y[k], y[k].view(i32)
        there = own is not None and 0 <= own[k] < V
        if there:
            t[k] = row[own[k]]
        if log_c is not None:
            for j in range(V):
                row[j] -= log_c[j]
            if there:
                row[own[k]] = t[k]
        most, total = i32(-0x7F800001), f32(0)  # -inf
        for j in range(V):
            v = ordered(bits[j])
            most = v if v > most else most
        top = i32(ordered(most)).view(f32)
        for j in range(V):
            v = row[j] - top
            e = exp(f32(-87.0) if v < f32(-87.0) else v)  # nan stays nan
            row[j] = e
            total += e
        q[k], s[k] = top, total


@jit(fastmath=FAST)
def span_sums(y, i, span, top, s):
    """For the i-th span of `span` numbers of each row k: top_ki <- the maximum, s_ki <- the sum of e^(y - top_ki).

    y (K, V), where V is a multiple of span; top, s (K, V / span). Terms are at least e^-87.
    """
    bits = y.view(i32)
    for k in range(len(y)):
        row, whole = y[k, i * span : (i + 1) * span], bits[k, i * span : (i + 1) * span]
        most, total = i32(-0x80000000), f32(0)
        for j in range(span):
            v = ordered(whole[j])
            most = v if v > most else most
        most = i32(ordered(most)).view(f32)
        for j in range(span):
            v = row[j] - most
            total += exp(v if v > f32(-87.0) else f32(-87.0))
        top[k, i], s[k, i] = most, total


@jit(fastmath=FAST)
def join_sums(top, part, s):
    """s_k <- ln sum_i part_ki e^(top_ki), float64: ln of the sum of a row's spans, with top and part by `span_sums`."""
    for k in range(len(s)):
        most, total = top[k].max(), f32(0)
        for i in range(top.shape[1]):
            v = top[k, i] - most
            total += part[k, i] * exp(v if v > f32(-87.0) else f32(-87.0))
        s[k] = most + np.log(total)


@jit(fastmath=FAST)
def tanh_sums(UH, q, a):
    """a (K, T, n) <- tanh(UH + q), UH (K, T, n), q (K, n). tanh v = 1 - 2 / (e^2v + 1), error under 2e-7."""
    K, T, n = a.shape
    for k in range(K):
        add = q[k]
        for j in range(T):
            row, out = UH[k, j], a[k, j]
            for i in range(n):
                v = f32(2) * (row[i] + add[i])
                v = f32(-40.0) if v < f32(-40.0) else v
                v = f32(40.0) if v > f32(40.0) else v
                out[i] = f32(1) - f32(2) / (exp(v) + f32(1))


@jit(fastmath=FAST)
def sigma(v):
    """1 / (1 + e^-v) of one number, error under 2e-7."""
    v = f32(-80.0) if v < f32(-80.0) else v  # nan stays nan
    v = f32(80.0) if v > f32(80.0) else v
    return f32(1) / (f32(1) + exp(-v))


@jit(fastmath=FAST)
def tanh(v):
    """2 sigma(2v) - 1 of one number."""
    return f32(2) * sigma(f32(2) * v) - f32(1)


@jit(fastmath=FAST)
def tanh_products(UH, q, v, at, lengths, e):
    """e_rj <- v . tanh(UH_kj + q_r), k = at_r, for j below lengths_k. UH (K, T, n), q (R, n), e (R, T)."""
    for r in range(len(at)):
        k, add = at[r], q[r]
        for j in range(lengths[k]):
            row, total = UH[k, j], f32(0)
            for i in range(len(v)):
                total += v[i] * tanh(row[i] + add[i])
            e[r, j] = total


@jit(fastmath=FAST)
def gate_sums(zr, s, rs, G):
    """The gates of `units.gated_step`: zr (k, 2n) <- sigma(zr + G) in place, rs (k, n) <- r o s. G may be None."""
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
    """The state of `units.gated_step`: t (k, n) <- tanh(t + u) in place, new (k, n) <- (1 - z) o s + z o t."""
    k, n = t.shape
    for i in range(k):
        for j in range(n):
            v = tanh(t[i, j] + u[i, j])
            t[i, j] = v
            new[i, j] = s[i, j] + zr[i, j] * (v - s[i, j])


@jit(fastmath=FAST)
def lstm_sums(zr, t, s, new, seen, G):
    """`units.lstm_step` after its products: zr (k, 3n) <- i, f, o = sigma(zr); t (k, n) <- tanh(t), both in place; new
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


@jit(fastmath={"contract"})
def powers(x, n):
    """x[:n] <- 10^x in double precision, in place, with a relative error below 4e-16. x (N,) float64, below 300; below
    about x = -300 the result is 0. It is 2^k times the series of e^r, |r| <= ln 2 / 2, which the compiler vectorises.
    """
    for i in range(n):
        v = x[i] * 2.302585092994046
        there = v > -690.0
        v = v if there else 0.0
        k = np.floor(v * 1.4426950408889634 + 0.5)
        r = v - k * 0.6931471803691238 - k * 1.9082149292705877e-10
        p = 1.6059043836821613e-10
        p = p * r + 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 1.984126984126984e-04
        p = p * r + 1.388888888888889e-03
        p = p * r + 8.333333333333333e-03
        p = p * r + 4.1666666666666664e-02
        p = p * r + 1.6666666666666666e-01
        p = p * r + 0.5
        p = p * r * r + r + 1.0
        x[i] = p * np.int64((np.int64(i32(k)) + 1023) << 52).view(np.float64) if there else 0.0
