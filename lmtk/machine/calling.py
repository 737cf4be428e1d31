"""Matrix products for kernels: BLAS at an address that they are given, and some rows times a panel. Importing this
module imports numba, so that kernels name its functions by `jit.of_numba`.
"""

from itertools import chain, repeat

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from lmtk.machine.factors import COLUMNS, ROWS

ROW_MAJOR, NO_TRANSPOSE = 101, 111
LANES = 8  # numbers of a vector


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


@intrinsic
def by_panel(typing, rows, depth, A, lda, B, C, ldc):
    """C <- A B for a panel B (depth, COLUMNS) and A (rows, depth), rows being one of ROWS; addresses as in `sgemm`.

    The sums stay in registers: two vectors a row, so that 6 rows make 12 sums, which wait for each other no longer than
    the processor's multiplications take. A step reads a row of B and a number of each row of A. Bound by flops.
    """

    def build(context, builder, signature, arguments):
        rows, depth, A, lda, B, C, ldc = arguments
        i32, i64, real = ir.IntType(32), ir.IntType(64), ir.FloatType()
        vector, parts = ir.VectorType(real, LANES), range(COLUMNS // LANES)
        zero, nothing = ir.Constant(vector, None), ir.Constant(vector, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(i32, LANES), [0] * LANES)
        add_up = builder.module.declare_intrinsic(f"llvm.fma.v{LANES}f32", (), ir.FunctionType(vector, [vector] * 3))

        def at(base, number, kind):
            return builder.inttoptr(builder.add(base, builder.mul(number, i64(4))), kind.as_pointer())

        end = builder.append_basic_block("multiplied")
        choice = builder.switch(rows, end)
        for many in ROWS:
            before, loop, after = (builder.append_basic_block(f"{name}{many}") for name in ("rows", "step", "sums"))
            choice.add_case(i64(many), before)
            builder.position_at_end(before)
            row = [builder.add(A, builder.mul(lda, i64(4 * i))) for i in range(many)]
            builder.branch(loop)
            builder.position_at_end(loop)
            k, sums = builder.phi(i64), [[builder.phi(vector) for _ in parts] for _ in range(many)]
            line = at(B, builder.mul(k, i64(COLUMNS)), vector)
            factors = [builder.load(builder.gep(line, [i64(j)]), align=4) for j in parts]
            added = []
            for i in range(many):
                number = builder.insert_element(nothing, builder.load(at(row[i], k, real)), i32(0))
                spread = builder.shuffle_vector(number, nothing, everywhere)
                added.append([builder.call(add_up, [spread, *pair]) for pair in zip(factors, sums[i])])
            following = builder.add(k, i64(1))
            for phi, first, later in ((k, i64(0), following), *zip(chain(*sums), repeat(zero), chain(*added))):
                phi.add_incoming(first, before)
                phi.add_incoming(later, loop)
            builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
            builder.position_at_end(after)
            for i in range(many):
                to = at(C, builder.mul(ldc, i64(i)), vector)
                for j in parts:
                    builder.store(added[i][j], builder.gep(to, [i64(j)]), align=4)
            builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), build
