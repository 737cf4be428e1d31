"""Intrinsics for kernels: eight bytes at any place of a uint8 array, prefetching, and arrays at an address or on the
stack. Importing this module imports numba, so that kernels name its functions by `jit.of_numba`.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array


def pointer(context, builder, kind, array, at):
    data = make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), ir.IntType(64).as_pointer())


@intrinsic
def load8(typing, array, at):
    """array[at : at + 8] as a uint64, the lowest byte first. array: uint8; `at` need not be aligned."""

    def build(context, builder, signature, arguments):
        found = builder.load(pointer(context, builder, signature.args[0], *arguments))
        found.align = 1
        return found

    return types.uint64(array, types.int64), build


@intrinsic
def store8(typing, array, at, value):
    """array[at : at + 8] <- value, a uint64, the lowest byte first."""

    def build(context, builder, signature, arguments):
        builder.store(arguments[2], pointer(context, builder, signature.args[0], *arguments[:2])).align = 1
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), build


@intrinsic
def prefetch(typing, array, at):
    """Prefetches the cache line of array[at], of any type. It does not wait, and the place may be out of range."""

    def build(context, builder, signature, arguments):
        data = make_array(signature.args[0])(context, builder, arguments[0]).data
        byte = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte.type, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte.type], kind)
        builder.call(function, [byte, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), build


def contiguous(context, builder, kind, data, shape):
    """An array of numba's type `kind` at the pointer `data`. It does not own its memory."""
    found, size, steps = make_array(kind)(context, builder), context.get_abi_sizeof(data.type.pointee), []
    step = context.get_constant(types.intp, size)
    for n in reversed(shape):
        steps.insert(0, step)
        step = builder.mul(step, n)
    populate_array(found, data, shape, steps, context.get_constant(types.intp, size), None)
    return found._getvalue()


@intrinsic(prefer_literal=True)
def local(typing, size, kind):
    """An array (size,) on the stack, not initialised, for kernels that allocate nothing. size: a constant."""
    if not isinstance(size, types.IntegerLiteral):
        return None
    found = types.Array(kind.dtype, 1, "C")

    def build(context, builder, signature, arguments):
        room = cgutils.alloca_once(builder, ir.ArrayType(context.get_data_type(kind.dtype), size.literal_value))
        first = builder.bitcast(room, context.get_data_type(kind.dtype).as_pointer())
        return contiguous(context, builder, found, first, [context.get_constant(types.intp, size.literal_value)])

    return found(size, kind), build


@intrinsic
def array_at(typing, address, shape, kind):
    """The array at an address; shape: a number or a tuple; kind: the type of its numbers, such as np.int32."""
    sizes = shape.types if isinstance(shape, types.BaseTuple) else [shape]
    found = types.Array(kind.dtype, len(sizes), "C")

    def build(context, builder, signature, arguments):
        data = builder.inttoptr(arguments[0], context.get_data_type(kind.dtype).as_pointer())
        shape = cgutils.unpack_tuple(builder, arguments[1]) if len(sizes) > 1 else [arguments[1]]
        shape = [context.cast(builder, n, size, types.intp) for n, size in zip(shape, sizes)]
        return contiguous(context, builder, found, data, shape)

    return found(address, shape, kind), build
