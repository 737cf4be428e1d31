"""Compiles kernels to object files by numba, with parts of it that are not public. `objects` loads and calls them."""

from contextlib import contextmanager
from itertools import count
from types import NoneType

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import codegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys as runtime

from lmtk.machine.intrinsics import array_of
from lmtk.machine.jit import dispatcher_of

BYTE, WORD, DOUBLE = ir.IntType(8), ir.IntType(64), ir.DoubleType()


def options(settings):
    """numba's options for the settings of a kernel, which does not get entries for Python and C of its own."""
    public = {name: value for name, value in settings.items() if name not in ("is_inlined", "allocates")}
    private = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": settings["is_inlined"]}
    return public | private | ({} if settings["allocates"] else {"_nrt": False})


class Library(codegen.CPUCodeLibrary):
    """numba's library of a function, to be linked into its callers. It gets no machine code of its own."""

    def _finalize_specific(self):
        pass

    def get_pointer_to_function(self, name):
        self._ensure_finalized()
        return 0


class Libraries(codegen.JITCPUCodegen):
    """numba's code generator for Library. It does not make each function executable by itself, which took a third of
    the time.
    """

    _library_class = Library

    def _add_module(self, module):
        pass

    def set_env(self, name, environment):
        pass

    def object_file(self, library, entry):
        """The object file of a library. Only the function `entry` can be seen from outside, so that files with copies
        of the same function can be loaded side by side.
        """
        module = library._final_module
        for function in module.functions:
            if not function.is_declaration and function.name != entry:
                function.linkage = "internal"
        return self._tm.emit_object(module)


LIBRARIES = Libraries("lmtk")


@contextmanager
def apart():
    """In this block, numba makes Library objects in place of executable code. numba has no setting for that, so its
    target's code generator is replaced.
    """
    with global_compiler_lock:
        context = cpu_target.target_context
        runtime.initialize(context)  # this needs executable code
        usual, context._internal_codegen = context._internal_codegen, LIBRARIES
        try:
            yield
        finally:
            context._internal_codegen = usual


def compiled(kernel, kinds, entry):
    """(results, object file) of a kernel for arguments of these kinds.

    The file has a function `entry` around the kernel. It takes the address of the values of `jit.kinds_of`, in the form
    of `jit.format_of`, writes the results in their place, and returns 1 if all went well. results: the format by which
    Python's struct reads them; for a tuple, a list of one format.
    """
    dispatcher, arguments = dispatcher_of(kernel, options), tuple(map(type_of, kinds))
    with apart():
        dispatcher.compile(arguments)
        code = dispatcher.overloads[arguments]
        file = LIBRARIES.object_file(entry_of(code, kinds, entry), entry)
    result = code.signature.return_type
    numbers = numbers_of(result)
    read = "".join(map(form, numbers))
    return read if numbers == [result] else [read], file


def type_of(kind):
    """numba's type of an argument of this kind; kinds are those of `jit.kinds_of`."""
    if kind is NoneType:
        return types.none
    if kind is bytes:
        return types.Array(types.uint8, 1, "C")
    if isinstance(kind, type):
        return numba.from_dtype(np.dtype(kind))
    if isinstance(kind[0], np.dtype):
        dtype, n, contiguous = kind
        return types.Array(numba.from_dtype(dtype), n, "C" if contiguous else "A")
    return types.BaseTuple.from_types([type_of(inner) for inner in kind])


def numbers_of(result):
    """The types of the numbers in a kernel's result."""
    if isinstance(result, types.BaseTuple):
        return list(result.types)
    return [] if result is types.none else [result]


def form(kind):
    """The format by which Python's struct reads 8 bytes with a number of numba's type `kind`. Raises TypeError."""
    for number, letters in ((types.Boolean, "?7x"), (types.Float, "d"), (types.Integer, "q")):
        if isinstance(kind, number):
            return letters
    raise TypeError(f"a kernel returns {kind}, which is not a number")


def entry_of(code, kinds, name):
    """The Library of the function that `compiled` describes; code: numba's compilation of the kernel."""
    context, result = code.target_context, code.signature.return_type
    module = context.create_module(name)
    entry = ir.Function(module, ir.FunctionType(WORD, [WORD]), name)
    builder = ir.IRBuilder(entry.append_basic_block())
    values = (word_at(builder, entry.args[0], i) for i in count())
    arguments = [argument(context, builder, kind, values) for kind in kinds]
    call = context.call_conv.get_function_type(result, code.signature.args)
    kernel = ir.Function(module, call, code.fndesc.llvm_func_name)
    status, returned = context.call_conv.call_function(builder, kernel, result, code.signature.args, arguments)
    with builder.if_then(status.is_error, likely=False):
        builder.ret(WORD(0))
    out = pointer(builder, entry.args[0], WORD)
    for i, kind in enumerate(numbers_of(result)):
        value = returned if kind is result else builder.extract_value(returned, i)
        value = context.cast(builder, value, kind, types.float64 if form(kind) == "d" else types.int64)
        builder.store(builder.bitcast(value, WORD), builder.gep(out, [WORD(i)]))
    builder.ret(WORD(1))
    library = context.codegen().create_library(name)
    library.add_linking_library(code.library)
    library.add_ir_module(module)
    library.finalize()
    return library


def argument(context, builder, kind, values):
    """numba's value of an argument of this kind, from the next of the `values`, an iterator."""
    if kind is NoneType:
        return context.get_dummy_value()
    if kind is bytes:
        return array_of(context, builder, type_of(kind), pointer(builder, next(values), BYTE), [next(values)])
    if isinstance(kind, type):
        number, word = type_of(kind), next(values)
        if number == types.boolean:
            return builder.icmp_unsigned("!=", word, WORD(0))
        if isinstance(number, types.Float):
            return context.cast(builder, builder.bitcast(word, DOUBLE), types.float64, number)
        return context.cast(builder, word, types.int64, number)
    if not isinstance(kind[0], np.dtype):
        parts = [argument(context, builder, inner, values) for inner in kind]
        return context.make_tuple(builder, type_of(kind), parts)
    # numpy's PyArrayObject: the address of the data, the number of dimensions, the addresses of shape and strides
    fields = builder.add(next(values), WORD(object.__basicsize__))
    data, _, lengths, strides = (word_at(builder, fields, i) for i in range(4))
    shape, steps = ([word_at(builder, place, i) for i in range(kind[1])] for place in (lengths, strides))
    whole = type_of(kind)
    data = pointer(builder, data, context.get_data_type(whole.dtype))
    # numpy's strides of a contiguous array can be anything along an axis of one item
    return array_of(context, builder, whole, data, shape, None if whole.layout == "C" else steps)


def pointer(builder, address, kind):
    return builder.inttoptr(address, kind.as_pointer())


def word_at(builder, address, i):
    return builder.load(builder.gep(pointer(builder, address, WORD), [WORD(i)]))
