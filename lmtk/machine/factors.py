"""Products by a factor that comes again in many calls, each of few rows, as in recurrent layers.

OpenBLAS copies a factor in each call, which takes as long as multiplying few rows by it. For some processors it has
kernels for small products, which do not copy. There the factor is kept in tiles that make such products.
"""

import ctypes
from dataclasses import dataclass
from functools import cache

import numpy as np

from lmtk.machine.blas import named, sgemm
from lmtk.machine.jit import intrinsic, jit

SMALL = 10**6  # multiplications up to which OpenBLAS's kernels for small products do not copy the operands
WITH_SMALL = b"SkylakeX", b"Cooperlake", b"SapphireRapids"  # processors with such kernels, by OpenBLAS's names
TILE = range(32, 65)  # columns of such a small product
FEWEST = 5  # rows of such a small product; with fewer, a product with a copy of the factor is as fast
ANY = 1 << 40  # more rows than a product can have
FEW = 3  # rows that are multiplied while BLAS copies a factor
GAP = 16  # numbers between the rows of a factor, so that their distance is not a power of two
by_blas = intrinsic("sgemm")


@cache
def small():
    """SMALL, or 0 where OpenBLAS has no kernels for small products."""
    if call := named("openblas_get_corename64_"):
        call.restype = ctypes.c_char_p
    return SMALL if call and call() in WITH_SMALL else 0


@dataclass(frozen=True)
class Tiles:
    """A factor (K, N) in tiles (N / columns, K, columns). A call returns X times the factor. most: the most rows that
    X may have if the product with a tile is to be small.
    """

    tiles: np.ndarray
    most: int

    def for_kernels(self):
        """(tiles, N, most), as `multiply` takes factors."""
        number, _, columns = self.tiles.shape
        return self.tiles, number * columns, self.most

    def __call__(self, X, out=None):
        parts, _, columns = self.tiles.shape
        out = np.empty((len(X), parts * columns), X.dtype) if out is None else out
        into, cuts = out.reshape(len(X), parts, columns).swapaxes(0, 1), -(-len(X) // self.most) or 1
        size = -(-len(X) // cuts) or 1
        for i in range(0, len(X), size):
            np.matmul(X[i : i + size], self.tiles, out=into[:, i : i + size])
        return out


def factor(*matrices):
    """A function times(X, out=None) for many calls: X [A | B ..] for matrices A, B (K, .) and X (k, K) with few rows.
    Where OpenBLAS has kernels for small products, the factor is in tiles that make these, with as many rows of X at
    once as they allow; a small factor is one tile.
    """
    K, N = len(matrices[0]), sum(a.shape[1] for a in matrices)
    one = not small() or 0 < 32 * K * N <= SMALL
    columns = N if one else max((n for n in TILE if N % n == 0 and FEWEST * K * n <= SMALL), default=0)
    if not K * columns:  # a copy with a GAP after each row: BLAS is slower for transposes, and for rows of 2^n numbers
        whole = np.concatenate(matrices, axis=1, out=np.empty((K, N + GAP), matrices[0].dtype)[:, :N])
        return lambda X, out=None: np.matmul(X, whole, out=out)
    return tiled(np.concatenate(matrices, axis=1), columns)


def tiled(matrix, columns):
    """A matrix (K, N) as Tiles of `columns` columns, a divisor of N."""
    K = len(matrix)
    tiles = np.ascontiguousarray(matrix.reshape(K, -1, columns).swapaxes(0, 1))
    return Tiles(tiles, max(SMALL // max(K * columns, 1), 1) if small() else ANY)


def address():
    """The address of the library's sgemm, for kernels; 0 if there is none."""
    return ctypes.cast(sgemm(), ctypes.c_void_p).value if sgemm() else 0


@jit
def multiply(gemm, X, factor, out):
    """out <- X times a factor of `for_kernels`: X (k, K), out (k, >= N), float32, rows contiguous. gemm: `address`."""
    tiles, _, most = factor
    k, (parts, K, columns) = len(X), tiles.shape
    if k == 0:
        return
    x, to, factors = np.int64(X.ctypes.data), np.int64(out.ctypes.data), np.int64(tiles.ctypes.data)
    lda, ldc = X.strides[0], out.strides[0]
    if gemm and (most < ANY or k > FEW):
        size = -(-k // -(-k // most))
        for i in range(0, k, size):
            for j in range(parts):
                tile, into = factors + 4 * j * K * columns, to + i * ldc + 4 * j * columns
                by_blas(gemm, min(size, k - i), columns, K, x + i * lda, lda // 4, tile, columns, into, ldc // 4)
        return
    for i in range(k):
        for j in range(parts):
            row = out[i, j * columns : (j + 1) * columns]
            row[:] = 0
            for p in range(K):
                for c in range(columns):
                    row[c] += X[i, p] * tiles[j, p, c]
