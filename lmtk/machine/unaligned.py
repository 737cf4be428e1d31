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
