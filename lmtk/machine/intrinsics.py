"""Intrinsics for kernels: eight bytes at any place of a uint8 array, prefetching, numbers that threads share, giving up
the processor, arrays at an address or on the stack, bits, and BLAS. They are made of public parts of numba and llvmlite
alone, so that `fallback` works with them.

Importing this module imports numba, so kernels name its functions by `jit.intrinsic`.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

BIT, INT, BYTE, WORD = (ir.IntType(bits) for bits in (1, 32, 8, 64))
ROW_MAJOR, NO_TRANSPOSE = 101, 111  # of cblas.h


def pointer(context, builder, kind, array, at):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), WORD.as_pointer())


@intrinsic
def load8(typing, array, at):
    """array[at : at + 8] as a uint64, the lowest byte first. array: uint8; `at` need not be aligned."""

    def build(context, builder, signature, arguments):
        word = builder.load(pointer(context, builder, signature.args[0], *arguments))
        word.align = 1
        return word

    return types.uint64(array, types.int64), build


@intrinsic
def prefetch(typing, array, at):
    """Prefetches the cache line of array[at], of any type. It does not wait, and the place may be out of range."""

    def build(context, builder, signature, arguments):
        byte = builder.bitcast(pointer(context, builder, signature.args[0], *arguments), BYTE.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [byte.type, INT, INT, INT])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte.type], kind)
        builder.call(function, [byte, INT(0), INT(3), INT(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), build


@intrinsic
def load_shared(typing, array, at):
    """array[at], int64, which other threads set with `store_shared`. After the load, this thread also sees all that the
    other thread wrote before its store.
    """

    def build(context, builder, signature, arguments):
        return builder.load_atomic(pointer(context, builder, signature.args[0], *arguments), "acquire", 8)

    return types.int64(array, types.int64), build


def writer(write, kind):
    """The intrinsic (array, at, value) that calls write(builder, the place array[at], value) of numba's type `kind`."""

    @intrinsic
    def put(typing, array, at, value):
        def build(context, builder, signature, arguments):
            write(builder, pointer(context, builder, signature.args[0], *arguments[:2]), arguments[2])
            return context.get_dummy_value()

        return types.void(array, types.int64, kind), build

    return put


def write_unaligned(builder, place, value):
    builder.store(value, place).align = 1


# array[at : at + 8] <- value, the lowest byte first
store8 = writer(write_unaligned, types.uint64)
# array[at] <- value. A thread that reads it by `load_shared` also sees all that was written before.
store_shared = writer(lambda builder, place, value: builder.store_atomic(value, place, "release", 8), types.int64)
# array[at] += value, while other threads may add to it too
add_shared = writer(lambda builder, place, value: builder.atomic_rmw("add", place, value, "monotonic"), types.int64)


@intrinsic
def yield_processor(typing):
    """Lets another thread use the processor (POSIX's sched_yield)."""

    def build(context, builder, signature, arguments):
        module, name = builder.module, "sched_yield"
        builder.call(module.globals.get(name) or ir.Function(module, ir.FunctionType(INT, []), name), [])
        return context.get_dummy_value()

    return types.void(), build


def array_of(context, builder, kind, data, shape, strides=None):
    """An array of numba's type `kind` at the pointer `data`, which owns no memory. strides: by default contiguous."""
    array, item = context.make_array(kind)(context, builder), WORD(context.get_abi_sizeof(data.type.pointee))
    steps, step, size = [], item, WORD(1)
    for n in reversed(shape):
        steps.insert(0, step)
        step, size = builder.mul(step, n), builder.mul(size, n)
    array.data, array.itemsize, array.nitems = data, item, size
    array.shape, array.strides = words(builder, shape), words(builder, strides or steps)
    return array._getvalue()


def words(builder, numbers):
    """Numbers as one value of LLVM."""
    array = ir.Constant(ir.ArrayType(WORD, len(numbers)), ir.Undefined)
    for i, number in enumerate(numbers):
        array = builder.insert_value(array, number, i)
    return array


@intrinsic(prefer_literal=True)
def local(typing, size, kind):
    """An array (size,) on the stack, not initialized, for kernels that allocate nothing. size: a constant."""
    if not isinstance(size, types.IntegerLiteral):
        return None
    array = types.Array(kind.dtype, 1, "C")

    def build(context, builder, signature, arguments):
        number = context.get_data_type(kind.dtype)
        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(number, size.literal_value))
        first = builder.bitcast(room, number.as_pointer())
        return array_of(context, builder, array, first, [WORD(size.literal_value)])

    return array(size, kind), build


@intrinsic
def array_at(typing, address, size, kind):
    """The array (size,) at an address; kind: the type of its numbers, such as np.int32."""
    array = types.Array(kind.dtype, 1, "C")

    def build(context, builder, signature, arguments):
        data = builder.inttoptr(arguments[0], context.get_data_type(kind.dtype).as_pointer())
        return array_of(context, builder, array, data, [arguments[1]])

    return array(types.int64, types.int64, kind), build


def counting(name, *more):
    """The intrinsic that counts bits of a uint64 by LLVM's function of this name; more: its further arguments."""

    @intrinsic
    def count(typing, number):
        def build(context, builder, signature, arguments):
            return getattr(builder, name)(arguments[0], *more)

        return types.uint64(types.uint64), build

    return count


trailing_zeros, leading_zeros, ones = counting("cttz", BIT(0)), counting("ctlz", BIT(0)), counting("ctpop")


@intrinsic
def sgemm(typing, address, rows, columns, depth, A, lda, B, ldb, C, ldc):
    """C <- A B by the cblas_sgemm with 64-bit sizes at `address`. A (rows, depth), B (depth, columns) and C are
    addresses of float32; lda, ldb, ldc: numbers from one row to the next.
    """

    def build(context, builder, signature, arguments):
        real = ir.FloatType()
        kinds = [INT] * 3 + [WORD] * 3 + [real] + [WORD] * 4 + [real] + [WORD] * 2
        function = builder.inttoptr(arguments[0], ir.FunctionType(ir.VoidType(), kinds).as_pointer())
        layout = INT(ROW_MAJOR), INT(NO_TRANSPOSE), INT(NO_TRANSPOSE)
        builder.call(function, [*layout, *arguments[1:4], real(1), *arguments[4:8], real(0), *arguments[8:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 10), build
