"""Eight bytes at any place of a uint8 array, for kernels; numba is imported with this module, so kernels name it by
`jit.of_numba`.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


def pointer(context, builder, kind, array, at):
    data = make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), ir.IntType(64).as_pointer())


@intrinsic
def load8(typing, array, at):
    """array[at : at + 8] as a number, the lowest byte first."""

    def build(context, builder, signature, arguments):
        found = builder.load(pointer(context, builder, signature.args[0], *arguments))
        found.align = 1
        return found

    return types.uint64(array, types.int64), build


@intrinsic
def store8(typing, array, at, value):
    """array[at : at + 8] = value, the lowest byte first."""

    def build(context, builder, signature, arguments):
        builder.store(arguments[2], pointer(context, builder, signature.args[0], *arguments[:2])).align = 1
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), build


@intrinsic
def prefetch(typing, array, at):
    """The line of array[at], of any type, comes into the cache; nothing waits for it, and any place will do."""

    def build(context, builder, signature, arguments):
        data = make_array(signature.args[0])(context, builder, arguments[0]).data
        byte = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte.type, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte.type], kind)
        builder.call(function, [byte, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), build
