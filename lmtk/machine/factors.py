"""Products by a factor that comes again in many calls, each of few rows, as in recurrent layers.

OpenBLAS copies a factor in each call, which takes as long as multiplying few rows by it. On processors for which it has
kernels for small products, which do not copy, the factor is kept in tiles that make such products. On others kernels
multiply by panels of it themselves.
"""

import ctypes
from dataclasses import dataclass
from functools import cache

import numpy as np

from lmtk.machine.blas import named, sgemm
from lmtk.machine.jit import jit, of_numba

SMALL = 10**6  # multiplications; with kernels for small products, OpenBLAS does not copy operands of up to so many
WITH_SMALL = b"SkylakeX", b"Cooperlake", b"SapphireRapids"  # processors with such kernels, by OpenBLAS's names
TILE = range(32, 65)  # columns of such a small product
ROWS, COLUMNS = (6, 4, 1), 16  # of a product that kernels make themselves, where BLAS has none for small products
GAP = 16  # numbers between the rows of a factor, so that their distance is not a power of two
by_blas, by_panel = (of_numba("lmtk.machine.calling", name) for name in ("sgemm", "by_panel"))


@cache
def small():
    """SMALL, or 0 where OpenBLAS has no kernels for small products."""
    call = named("openblas_get_corename64_")
    if call is None:
        return 0
    call.restype = ctypes.c_char_p
    return SMALL if call() in WITH_SMALL else 0


@dataclass(frozen=True)
class Tiles:
    """A factor (K, N) in tiles (N / columns, K, columns). A call returns X times the factor. most: the most rows of X
    with which a tile makes a small product.
    """

    tiles: np.ndarray
    most: int

    @property
    def dtype(self):
        return self.tiles.dtype

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


@dataclass(frozen=True)
class Whole:
    """A factor (K, N) in one piece. A call returns X times the factor."""

    matrix: np.ndarray

    @property
    def dtype(self):
        return self.matrix.dtype

    def for_kernels(self):
        """(panels (., K, COLUMNS), the last one filled up with zeros; N; 0), as `multiply` takes factors."""
        K, N = self.matrix.shape
        whole = np.pad(self.matrix, ((0, 0), (0, -N % COLUMNS))) if N % COLUMNS else self.matrix
        return np.ascontiguousarray(whole.reshape(K, -1, COLUMNS).swapaxes(0, 1)), N, 0

    def __call__(self, X, out=None):
        return np.matmul(X, self.matrix, out=out)


def factor(*matrices):
    """A function times(X, out=None), to be called often: X [A | B ..] for matrices A (K, .), B (K, .) and X (k, K) with
    few rows.

    Where OpenBLAS has kernels for small products, the factor is in tiles that make these, with as many rows of X at
    once as they allow; a small factor is one tile.
    """
    K, N = len(matrices[0]), sum(a.shape[1] for a in matrices)
    one = 0 < 32 * K * N <= SMALL
    columns = N if one else max((n for n in TILE if N % n == 0), default=N)
    if small() and not one and (columns not in TILE or 8 * K * columns > SMALL):
        whole = spread(matrices, K, N)
        return lambda X, out=None: np.matmul(X, whole, out=out)
    return tiled(np.concatenate(matrices, axis=1), columns)


def tiled(matrix, columns):
    """A matrix (K, N) as Tiles of so many columns, a divisor of N, or Whole if there are no kernels for these."""
    if not small():
        return Whole(matrix)
    K = len(matrix)
    tiles = np.ascontiguousarray(matrix.reshape(K, -1, columns).swapaxes(0, 1))
    return Tiles(tiles, max(SMALL // max(K * columns, 1), 1))


def address():
    """The address of the library's sgemm, for kernels; 0 where these multiply by panels."""
    return ctypes.cast(sgemm(), ctypes.c_void_p).value if small() else 0


def spread(matrices, K, N):
    """A copy of matrices side by side, with a gap after each row: BLAS is slower if the distance of rows is a power of
    two, and for transposed matrices.
    """
    out = np.empty((K, N + GAP), matrices[0].dtype)[:, :N]
    return np.concatenate(matrices, axis=1, out=out)


@jit
def multiply(gemm, X, factor, out):
    """out <- X times a factor, in the form that `for_kernels` gives: X (k, K), out (k, >= N), float32, rows contiguous.
    gemm: `address`.
    """
    tiles, N, most = factor
    k, (parts, K, columns) = len(X), tiles.shape
    if k == 0:
        return
    x, to, factors = np.int64(X.ctypes.data), np.int64(out.ctypes.data), np.int64(tiles.ctypes.data)
    lda, ldc = X.strides[0], out.strides[0]
    if gemm:
        size = -(-k // -(-k // most))
        for i in range(0, k, size):
            for j in range(parts):
                tile, into = factors + 4 * j * K * columns, to + i * ldc + 4 * j * columns
                by_blas(gemm, min(size, k - i), columns, K, x + i * lda, lda // 4, tile, columns, into, ldc // 4)
        return
    rest = np.empty((ROWS[0], COLUMNS), np.float32)
    for j in range(parts):
        i, full = 0, (j + 1) * COLUMNS <= N
        while i < k:
            left = k - i  # 8 or 9 are cut so that one is left at most
            rows = 6 if left >= 6 and left != 8 and left != 9 else 4 if left >= 4 else 1
            into, step = to + i * ldc + 4 * j * COLUMNS, ldc // 4
            if not full:
                into, step = np.int64(rest.ctypes.data), COLUMNS
            by_panel(rows, K, x + i * lda, lda // 4, factors + 4 * j * K * COLUMNS, into, step)
            for r in range(0 if full else rows):
                for c in range(N - j * COLUMNS):
                    out[i + r, j * COLUMNS + c] = rest[r, c]
            i += rows
