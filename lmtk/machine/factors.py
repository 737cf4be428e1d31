"""Products of matrices in kernels, by the sgemm of OpenBLAS."""

import ctypes

import numpy as np

from lmtk.machine.blas import sgemm
from lmtk.machine.jit import intrinsic, jit

FEW = 3  # rows that are multiplied while BLAS copies a factor
by_blas = intrinsic("sgemm")


def address():
    """The address of the library's sgemm, for kernels; 0 if there is none."""
    return ctypes.cast(sgemm(), ctypes.c_void_p).value if sgemm() else 0


@jit
def multiply(gemm, X, factor, out):
    """out <- X times the factor: X (k, K), factor (K, N), out (k, >= N), float32, rows contiguous. gemm: `address`."""
    k, (K, N) = len(X), factor.shape
    if gemm and k > FEW:
        x, to, by = np.int64(X.ctypes.data), np.int64(out.ctypes.data), np.int64(factor.ctypes.data)
        by_blas(gemm, k, N, K, x, X.strides[0] // 4, by, factor.strides[0] // 4, to, out.strides[0] // 4)
        return
    for i in range(k):
        row = out[i, :N]
        row[:] = 0
        for p in range(K):
            for c in range(N):
                row[c] += X[i, p] * factor[p, c]
