"""Exponentials and hyperbolic tangents of many numbers, faster than those of numba and libm."""

import numpy as np

from lmtk.machine.jit import jit

f32, i32 = np.float32, np.int32
FAST = {"reassoc", "contract", "nsz"}


@jit(fastmath=FAST)
def exp(v):
    """e^v of one number between -87 and 87, with a relative error below 4e-7: 2^k times a polynomial in the rest. In a
    loop, the compiler vectorizes it.
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

    The compiler vectorizes the search for the largest of many integers, but not of floats.
    """
    return i32(bits ^ i32(i32(bits >> 31) & i32(0x7FFFFFFF)))


@jit(fastmath=FAST)
def exp_rows(y, q, s):
    """y (K, V) <- e^(y - q) in place, as `exp_outputs` does."""
    exp_outputs(y, q, s, None, None, None)


def exp_rows_plain(y, q, s):
    """The same as `exp_rows` in numpy, for float64 too."""
    y.max(axis=1, out=q)
    y -= q[:, None]
    np.exp(y, out=y)
    s[:] = y.sum(axis=1)


@jit(fastmath=FAST)
def exp_outputs(y, q, s, left_out, log_c, t):
    """y (K, V) <- e^(y - ln c - q) in place, in one pass; q (K,) <- the maxima of the rows of y - ln c, -inf if V is 0;
    s (K,) <- their sums, nan where a row has nan. Results are at least e^-87, 2^-126 of the largest.

    log_c (V,): ln c; None: 0. left_out (K,): for each row, the index of an output from which ln c is not subtracted; t
    (K,) <- this output. A row whose index is not in 0..V-1 has no such output, and its t is not changed. None: no row
    has one.
    """
    K, V = y.shape
    for k in range(K):
        row, bits = y[k], y[k].view(i32)
        has_left_out = left_out is not None and 0 <= left_out[k] < V
        if has_left_out:
            t[k] = row[left_out[k]]
        if log_c is not None:
            for j in range(V):
                row[j] -= log_c[j]
            if has_left_out:
                row[left_out[k]] = t[k]
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
def sigma(v):
    """1 / (1 + e^-v) of one number, error under 2e-7."""
    v = f32(-80.0) if v < f32(-80.0) else v  # nan stays nan
    v = f32(80.0) if v > f32(80.0) else v
    return f32(1) / (f32(1) + exp(-v))


@jit(fastmath=FAST)
def tanh(v):
    """2 sigma(2v) - 1 of one number."""
    return f32(2) * sigma(f32(2) * v) - f32(1)


@jit(fastmath={"contract"})
def powers(x, n):
    """x[:n] <- 10^x in double precision, in place, with a relative error below 4e-16. x (N,) float64, below 300; below
    about x = -300 the result is 0. It is 2^k times the series of e^r, |r| <= ln 2 / 2, which the compiler vectorizes.
    """
    for i in range(n):
        v = x[i] * 2.302585092994046
        is_normal = v > -690.0
        v = v if is_normal else 0.0
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
        x[i] = p * np.int64((np.int64(i32(k)) + 1023) << 52).view(np.float64) if is_normal else 0.0
