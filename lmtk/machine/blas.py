"""numpy's own OpenBLAS, called directly: products added into their target, products in tiles, the number of threads."""

import contextlib
import ctypes
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from lmtk.machine import memory

SHARE = 6_000_000  # multiplications of a product that pay for one more thread
SMALL = 10**6  # multiplications; with kernels for small products, OpenBLAS does not copy operands of up to so many
WITH_SMALL = b"SkylakeX", b"Cooperlake", b"SapphireRapids"  # processors with such kernels, by OpenBLAS's names
TILE = range(32, 65)  # columns of such a small product
MANY = 1 << 30  # rows
ROWS, COLUMNS = 6, 16  # of a product that kernels make themselves, where there are no kernels for small products
GAP = 16  # numbers between the rows of a factor, so that their distance is not a power of two
ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE = 101, 111, 112


@cache
def library():
    """The OpenBLAS that numpy's wheel carries, or None (numpy built otherwise)."""
    for found in sorted((Path(np.__file__).parent.parent / "numpy.libs").glob("*openblas64_*")):
        try:
            return ctypes.CDLL(str(found))
        except OSError:
            continue
    return None


@cache
def named(name):
    """A function of the library, or None. numpy 2 puts "scipy_" before the names."""
    return next(filter(None, (getattr(library(), start + name, None) for start in ("scipy_", ""))), None)


@cache
def sgemm():
    function = named("cblas_sgemm64_")
    if function is None:
        return None
    size, pointer = ctypes.c_int64, ctypes.c_void_p
    real = ctypes.c_float
    shape = [size, size, size]
    function.argtypes = [ctypes.c_int] * 3 + shape + [real, pointer, size, pointer, size, real, pointer, size]
    function.restype = None
    return function


@cache
def small():
    """SMALL, or 0 where OpenBLAS has no kernels for small products."""
    call = named("openblas_get_corename64_")
    if call is None:
        return 0
    call.restype = ctypes.c_char_p
    return SMALL if call() in WITH_SMALL else 0


def shares(team, multiplications):
    """The number of shares of a product of so many multiplications for a `threads.Team`; None: this thread alone."""
    return 1 if team is None else max(1, min(team.size, multiplications // SHARE))


def product(team, A, B, out=None):
    """A B, written to `out` if given; in shares for a team if that pays."""
    return products(team, (A, B, out))[0]


def products(team, *wanted):
    """[A B for A, B, out in wanted], each written to its `out` unless that is None. If it pays, a team does shares of
    all of them at once: rows of A, or columns of B if there are more of these.
    """
    found, jobs, parts = [], [], 1
    for A, B, out in wanted:
        out = np.empty((len(A), B.shape[1]), A.dtype) if out is None else out
        number, size = shares(team, A.size * B.shape[1]), max(out.shape)
        for i in range(0, size, -(-size // number) or 1):
            cut = slice(i, i + -(-size // number))
            jobs.append((A[cut], B, out[cut]) if len(A) >= B.shape[1] else (A, B[:, cut], out[:, cut]))
        parts = max(parts, number)
        found.append(out)
    run = map if parts == 1 else team
    list(run(lambda job: np.matmul(*job[:2], out=job[2]), jobs))
    return found


@dataclass(frozen=True)
class Tiles:
    """A factor (K, N) in tiles (N / columns, K, columns). A call returns X times the factor. most: the most rows of X
    with which a tile makes a small product; without kernels for these there is one tile.
    """

    tiles: np.ndarray
    most: int

    def for_kernels(self):
        """(tiles, N, most) for `units.multiply`. The one tile of a factor becomes panels (., K, COLUMNS), filled up
        with zeros.
        """
        N = len(self.tiles) * self.tiles.shape[2]
        return self.tiles if small() else panels(self.tiles[0]), N, self.most

    def __call__(self, X, out=None):
        parts, _, columns = self.tiles.shape
        out = np.empty((len(X), parts * columns), X.dtype) if out is None else out
        into, cuts = out.reshape(len(X), parts, columns).swapaxes(0, 1), -(-len(X) // self.most) or 1
        size = -(-len(X) // cuts) or 1
        for i in range(0, len(X), size):
            np.matmul(X[i : i + size], self.tiles, out=into[:, i : i + size])
        return out


def factor(*matrices):
    """A function times(X, out=None), to be called often: X [A | B ..] for matrices A (K, .), B (K, .) and X (k, K) with
    few rows.

    OpenBLAS would copy the factor in each call, which takes as long as multiplying few rows by it. So the factor is
    kept in tiles that make small products, with as many rows of X at once as they allow. A small factor is one tile,
    and so is any where there are no kernels for small products: a copy of each tile would take longer than one of all.
    """
    K, N = len(matrices[0]), sum(a.shape[1] for a in matrices)
    one = 0 < 32 * K * N <= (small() or math.inf)
    columns = N if one else max((n for n in TILE if N % n == 0), default=N)
    if not one and (columns not in TILE or 8 * K * columns > SMALL):
        whole = spread(matrices, K, N)
        return lambda X, out=None: np.matmul(X, whole, out=out)
    return tiled(np.concatenate(matrices, axis=1), columns)


def tiled(matrix, columns):
    """A matrix (K, N) as Tiles of so many columns, a divisor of N; as one tile without kernels for small products."""
    K, N = matrix.shape
    columns = columns if small() else N
    tiles = np.ascontiguousarray(matrix.reshape(K, -1, columns).swapaxes(0, 1))
    return Tiles(tiles, max(SMALL // max(K * columns, 1), 1) if small() else MANY)


def panels(matrix):
    """A matrix (K, N) in panels (N / COLUMNS, K, COLUMNS), the last one filled up with zeros."""
    K, N = matrix.shape
    whole = np.zeros((K, -(-N // COLUMNS) * COLUMNS), matrix.dtype)
    whole[:, :N] = matrix
    return np.ascontiguousarray(whole.reshape(K, -1, COLUMNS).swapaxes(0, 1))


def address():
    """The address of the library's sgemm, for kernels; 0 where these multiply by panels."""
    return ctypes.cast(sgemm(), ctypes.c_void_p).value if small() else 0


def spread(matrices, K, N):
    """A copy of matrices side by side, with a gap after each row: BLAS is slower if the distance of rows is a power of
    two, and for transposed matrices.
    """
    out = np.empty((K, N + GAP), matrices[0].dtype)[:, :N]
    return np.concatenate(matrices, axis=1, out=out)


def add_product(alpha, A, B, beta, M):
    """M <- beta M + alpha A'B in place: A (K, D), B (K, V), M (D, V), float32, with contiguous rows; M may have
    contiguous columns instead.

    It takes one pass over M; numpy would need a product of M's size and two more passes.
    """
    if M.flags.f_contiguous:
        A, B, M = B, A, M.T
    (K, D), V = A.shape, B.shape[1]
    function = sgemm()
    if function is None or not V or not (A.flags.c_contiguous and B.flags.c_contiguous and M.flags.c_contiguous):
        M *= np.float32(beta)
        M += np.float32(alpha) * (A.T @ B)
        return
    function(
        ROW_MAJOR, TRANSPOSE, NO_TRANSPOSE, D, V, K, alpha, A.ctypes.data, D, B.ctypes.data, V, beta, M.ctypes.data, V
    )  # fmt: skip


def set_threads(threads):
    """Makes matrix products run on so many threads; without OpenBLAS nothing changes."""
    if call := named("openblas_set_num_threads64_"):
        call(ctypes.c_int(threads))


def threads():
    """The number of threads of matrix products; None without OpenBLAS."""
    call = named("openblas_get_num_threads64_")
    return call and call()


@contextlib.contextmanager
def one_thread():
    """Makes each matrix product in a block of code run on one thread."""
    before = threads()
    if before in (None, 1):
        yield
        return
    set_threads(1)
    try:
        yield
    finally:
        set_threads(before)


def reserve(threads):
    """If memory is limited, makes OpenBLAS allocate the buffers of so many threads now: if it could not do so later, it
    would end the process. Raises MemoryError.
    """
    if memory.room() is None:
        return
    memory.need(threads * memory.BUFFER, f"matrix products on {threads} thread{'s' * (threads > 1)}")
    with contextlib.suppress(AttributeError):
        take, give = library().blas_memory_alloc, library().blas_memory_free
        take.restype, give.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        for buffer in [take(0) for _ in range(min(threads, 64))]:  # it keeps at least so many
            give(buffer)
