"""BLAS for kernels, at an address that they are given. Importing this module imports numba, so that kernels name its
function by `jit.of_numba`.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

ROW_MAJOR, NO_TRANSPOSE = 101, 111


@intrinsic
def sgemm(typing, address, rows, columns, depth, A, lda, B, ldb, C, ldc):
    """C <- A B by the cblas_sgemm with 64-bit sizes at `address`. A (rows, depth), B (depth, columns) and C are
    addresses of float32; lda, ldb, ldc: numbers from one row to the next.
    """

    def build(context, builder, signature, arguments):
        i32, i64, real = ir.IntType(32), ir.IntType(64), ir.FloatType()
        kinds = [i32] * 3 + [i64] * 3 + [real] + [i64] * 4 + [real] + [i64] * 2
        function = builder.inttoptr(arguments[0], ir.FunctionType(ir.VoidType(), kinds).as_pointer())
        how = i32(ROW_MAJOR), i32(NO_TRANSPOSE), i32(NO_TRANSPOSE)
        builder.call(function, [*how, *arguments[1:4], real(1), *arguments[4:8], real(0), *arguments[8:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 10), build
