"""Intrinsics for kernels: eight bytes at any place of a uint8 array, prefetching, numbers that threads share, giving up
the processor, arrays at an address or on the stack, bits, and BLAS. They are made of public parts of numba and llvmlite
alone, so that `fallback` works with them.

Importing this module imports numba, so kernels name its functions by `jit.intrinsic`.
"""

from functools import wraps

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

BIT, INT, BYTE, WORD = (ir.IntType(bits) for bits in (1, 32, 8, 64))
ROW_MAJOR, NO_TRANSPOSE = 101, 111  # of cblas.h


def emits(result, *kinds):
    """Decorates a function that emits code by an IRBuilder: makes it an intrinsic. result, kinds: numba's types of the
    result and the arguments; types.Array is for arrays of any type. The function gets the arguments as values of LLVM,
    and the address of the content of an array. It returns the result, or None.
    """

    def decorate(emit):
        @intrinsic
        @wraps(emit)  # numba looks at the names of the arguments
        def define(typing, *arguments):
            def build(context, builder, signature, values):
                data = lambda kind, x: context.make_array(kind)(context, builder, x).data
                values = [data(a, x) if kind is types.Array else x for kind, a, x in zip(kinds, arguments, values)]
                return emit(builder, *values) or context.get_dummy_value()

            return result(*(x if kind is types.Array else kind for kind, x in zip(kinds, arguments))), build

        return define

    return decorate


def place(builder, array, at):
    """The address of the word at array[at]; array, at: values of LLVM."""
    return builder.bitcast(builder.gep(array, [at]), WORD.as_pointer())


@emits(types.uint64, types.Array, types.int64)
def load8(builder, array, at):
    """array[at : at + 8] as a uint64, the lowest byte first. array: uint8; `at` need not be aligned."""
    word = builder.load(place(builder, array, at))
    word.align = 1
    return word


@emits(types.void, types.Array, types.int64, types.uint64)
def store8(builder, array, at, value):
    """array[at : at + 8] <- value, the lowest byte first. array: uint8; `at` need not be aligned."""
    builder.store(value, place(builder, array, at)).align = 1


@emits(types.void, types.Array, types.int64)
def prefetch(builder, array, at):
    """Prefetches the cache line of array[at], of any type. It does not wait, and the place may be out of range."""
    byte = builder.bitcast(builder.gep(array, [at]), BYTE.as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [byte.type, INT, INT, INT])
    function = builder.module.declare_intrinsic("llvm.prefetch", [byte.type], kind)
    builder.call(function, [byte, INT(0), INT(3), INT(1)])


@emits(types.int64, types.Array, types.int64)
def load_shared(builder, array, at):
    """array[at], int64, which other threads set with `store_shared`. After the load, this thread also sees all that the
    other thread wrote before its store.
    """
    return builder.load_atomic(place(builder, array, at), "acquire", 8)


@emits(types.void, types.Array, types.int64, types.int64)
def store_shared(builder, array, at, value):
    """array[at] <- value. A thread that reads it by `load_shared` also sees all that was written before."""
    builder.store_atomic(value, place(builder, array, at), "release", 8)


@emits(types.void, types.Array, types.int64, types.int64)
def add_shared(builder, array, at, value):
    """array[at] += value, while other threads may add to it too."""
    builder.atomic_rmw("add", place(builder, array, at), value, "monotonic")


# counts of a uint64's bits: zeros below and above its ones, and ones
trailing_zeros = emits(types.uint64, types.uint64)(lambda builder, number: builder.cttz(number, BIT(0)))
leading_zeros = emits(types.uint64, types.uint64)(lambda builder, number: builder.ctlz(number, BIT(0)))
ones = emits(types.uint64, types.uint64)(lambda builder, number: builder.ctpop(number))
# lets another thread use the processor (POSIX's function)
yield_processor = types.ExternalFunction("sched_yield", types.int32())


@emits(types.void, *[types.int64] * 4, *[types.Array, types.int64] * 3)
def sgemm(builder, address, rows, columns, depth, A, lda, B, ldb, C, ldc):
    """C <- A B by the cblas_sgemm with 64-bit sizes at `address`. A (rows, depth), B (depth, columns), C: float32; lda,
    ldb, ldc: how many numbers from one row to the next.
    """
    real, layout = ir.FloatType(), (INT(ROW_MAJOR), INT(NO_TRANSPOSE), INT(NO_TRANSPOSE))
    arguments = *layout, rows, columns, depth, real(1), A, lda, B, ldb, real(0), C, ldc
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    builder.call(builder.inttoptr(address, kind.as_pointer()), arguments)


def array_of(context, builder, kind, data, shape, strides=None):
    """An array of numba's type `kind` at the pointer `data`, which owns no memory. strides: by default contiguous."""
    array, item = context.make_array(kind)(context, builder), WORD(context.get_abi_sizeof(data.type.pointee))
    steps, step, size = [], item, WORD(1)
    for n in reversed(shape):
        steps.insert(0, step)
        step, size = builder.mul(step, n), builder.mul(size, n)
    array.data, array.itemsize, array.nitems = data, item, size
    numbers = types.UniTuple(types.intp, len(shape))
    array.shape, array.strides = (context.make_tuple(builder, numbers, x) for x in (shape, strides or steps))
    return array._getvalue()


@intrinsic(prefer_literal=True)
def local(typing, size, kind):
    """An array (size,) on the stack, not initialized, for kernels that allocate nothing. size: a constant."""
    array = types.Array(kind.dtype, 1, "C")

    def build(context, builder, signature, arguments):
        number = WORD(size.literal_value)
        with builder.goto_entry_block():
            first = builder.alloca(context.get_data_type(kind.dtype), number)
        return array_of(context, builder, array, first, [number])

    return array(size, kind), build


@intrinsic
def array_at(typing, address, size, kind):
    """The array (size,) at an address; kind: the type of its numbers, such as np.int32."""
    array = types.Array(kind.dtype, 1, "C")

    def build(context, builder, signature, arguments):
        data = builder.inttoptr(arguments[0], context.get_data_type(kind.dtype).as_pointer())
        return array_of(context, builder, array, data, [arguments[1]])

    return array(types.int64, types.int64, kind), build
