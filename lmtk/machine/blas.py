"""Matrix products by the OpenBLAS that comes with numpy: products shared among threads, products added to a matrix in
place, products in kernels, and the number of OpenBLAS's threads. A build of numpy without OpenBLAS has numpy's products
instead, and loops in kernels.
"""

import contextlib
import ctypes
from functools import cache
from pathlib import Path

import numpy as np

from lmtk.machine import memory
from lmtk.machine.jit import intrinsic, jit
from lmtk.machine.threads import map_at_once

SHARE = 6_000_000  # multiplications that are worth one more thread
FEW = 3  # rows that kernels multiply while BLAS copies a factor
ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE = 101, 111, 112
by_blas = intrinsic("sgemm")


@cache
def named(name):
    """A function of the OpenBLAS in numpy's wheel, or None without one. numpy 2 puts "scipy_" before its name."""
    path = next((Path(np.__file__).parent.parent / "numpy.libs").glob("*openblas64_*"), None)
    library = path and ctypes.CDLL(str(path))
    return getattr(library, f"scipy_{name}", None) or getattr(library, name, None)


@cache
def sgemm():
    """OpenBLAS's cblas_sgemm with 64-bit sizes, or None."""
    if function := named("cblas_sgemm64_"):
        size, pointer, real = ctypes.c_int64, ctypes.c_void_p, ctypes.c_float
        function.argtypes = [ctypes.c_int] * 3 + [size] * 3 + [real, pointer, size, pointer, size, real, pointer, size]
        function.restype = None
    return function


def address():
    """The address of the library's sgemm, for kernels; 0 if there is none."""
    return ctypes.cast(sgemm(), ctypes.c_void_p).value or 0


def shares(threads, multiplications):
    """The number of shares, at most one for each thread, into which a product is worth dividing."""
    return max(1, min(threads, multiplications // SHARE))


def product(threads, A, B):
    """The product A B. Threads share a large product."""
    return products(threads, (A, B, None))[0]


def products(threads, *factors):
    """[A B for A, B, out in factors], each written to its `out` unless that is None. Threads share large products,
    all of them at once: each takes rows of A, or columns of B if B has more columns than A has rows.
    """
    results, jobs = [], []
    for A, B, out in factors:
        out = np.empty((len(A), B.shape[1]), A.dtype) if out is None else out
        number, size = shares(threads, A.size * B.shape[1]), max(out.shape)
        for i in range(0, size, -(-size // number) or 1):
            cut = slice(i, i + -(-size // number))
            jobs.append((A[cut], B, out[cut]) if len(A) >= B.shape[1] else (A, B[:, cut], out[:, cut]))
        results.append(out)
    if len(jobs) > len(factors):
        map_at_once(lambda job: np.matmul(*job), jobs, threads)
    else:
        for job in jobs:
            np.matmul(*job)
    return results


def add_product(alpha, A, B, beta, M):
    """M <- beta M + alpha A'B in place: A (K, D), B (K, V), M (D, V), float32, with contiguous rows or, for M,
    contiguous columns. It takes one pass over M; numpy would need a product of M's size and two more passes.
    """
    if M.strides[0] == M.itemsize:
        A, B, M = B, A, M.T
    (K, D), V = A.shape, B.shape[1]
    function = sgemm()
    fits = lambda a: a.strides[1] == a.itemsize and a.strides[0] >= a.shape[1] * a.itemsize
    if function is None or not M.size or not all(map(fits, (A, B, M))):
        M *= np.float32(beta)
        M += np.float32(alpha) * (A.T @ B)
        return
    (a, lda), (b, ldb), (m, ldm) = ((x.ctypes.data, max(x.strides[0] // x.itemsize, x.shape[1])) for x in (A, B, M))
    function(ROW_MAJOR, TRANSPOSE, NO_TRANSPOSE, D, V, K, alpha, a, lda, b, ldb, beta, m, ldm)


@jit
def multiply(gemm, X, factor, out):
    """out <- X times the factor: X (k, K), factor (K, N), out (k, >= N), float32, rows contiguous. gemm: `address`."""
    k, (K, N) = len(X), factor.shape
    if gemm and k > FEW:
        by_blas(gemm, k, N, K, X, X.strides[0] // 4, factor, factor.strides[0] // 4, out, out.strides[0] // 4)
        return
    for i in range(k):
        row = out[i, :N]
        row[:] = 0
        for p in range(K):
            for c in range(N):
                row[c] += X[i, p] * factor[p, c]


def set_threads(threads):
    """Sets the number of threads of a matrix product. Without OpenBLAS, does nothing."""
    if call := named("openblas_set_num_threads64_"):
        call(ctypes.c_int(threads))


def product_threads():
    """The number of threads of a matrix product; None without OpenBLAS."""
    call = named("openblas_get_num_threads64_")
    return call and call()


@contextlib.contextmanager
def one_thread():
    """Makes each matrix product in a block of code run on one thread."""
    before = product_threads()
    if before != 1:  # else this block is inside another one, or beside one in another thread
        set_threads(1)
    try:
        yield
    finally:
        if before != 1:
            set_threads(before)


def reserve(threads):
    """If memory is limited, makes OpenBLAS allocate the buffers of its threads now: an allocation that fails later
    would end the process. Raises MemoryError.
    """
    if memory.room() is None:
        return

    def take_and_give():
        with contextlib.suppress(AttributeError):
            take, give = named("blas_memory_alloc"), named("blas_memory_free")
            take.restype, give.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
            for buffer in [take(0) for _ in range(min(threads, 64))]:  # it keeps at least so many
                give(buffer)

    memory.try_out(take_and_give, f"matrix products on {threads} thread{'s' * (threads > 1)}")
