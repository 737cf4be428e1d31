"""The exponentials of a softmax, which both kinds of neural models spend much of their time on."""

import numpy as np

from lmtk.jit import jit

f32, i32 = np.float32, np.int32


@jit(fastmath={"reassoc", "contract", "nsz"})
def exp_rows(y, q, s):
    """y <- e^(y - q) in place, q being the maximum of each row; s <- its sums. y (K, V), q (K,), s (K,), float32.

    e^v is 2^k times a polynomial in the rest (relative error under 4e-7), which the compiler vectorises; libm's exp it
    cannot. Below e^-87 the result stays there, a 2^126th of the largest.
    """
    K, V = y.shape
    for k in range(K):
        row, top, total = y[k], q[k], f32(0)
        for j in range(V):
            v = row[j] - top
            v = v if v > f32(-87.0) else f32(-87.0)
            n = np.floor(v * f32(1.44269504) + f32(0.5))
            r = v - n * f32(0.693359375) + n * f32(2.12194440e-4)
            p = f32(1.9875691500e-4)
            p = p * r + f32(1.3981999507e-3)
            p = p * r + f32(8.3334519073e-3)
            p = p * r + f32(4.1665795894e-2)
            p = p * r + f32(1.6666665459e-1)
            p = p * r + f32(5.0000001201e-1)
            p = p * r * r + r + f32(1.0)
            # 2^n, made of its bits; numba widens i32 sums to 64 bits unless told otherwise, which halves the speed
            e = p * i32(i32(i32(n) + i32(127)) * i32(8388608)).view(f32)
            row[j] = e
            total += e
        s[k] = total
