"""Compiles kernels to object files by numba, with parts of it that are not public. `objects` loads and calls them."""

from types import NoneType

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, codegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys as runtime

from lmtk.machine.intrinsics import WORD, array_of
from lmtk.machine.jit import dispatcher_of

OBJECT = ir.IntType(8).as_pointer()  # C's PyObject *
HEAD = object.__basicsize__ // 8  # words before the fields of a Python object
BYTES = bytes.__basicsize__ - 1  # where the content of a bytes object begins
OTHERS = {NoneType: types.none, bytes: types.Array(types.uint8, 1, "C")}  # numba's types of what is not a number


class Libraries(codegen.JITCPUCodegen):
    """numba's code generator. It does not make each function executable, which took a third of the time."""

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


def compiled(kernel, kinds, entry):
    """The object file of a kernel for arguments of these kinds. Its function `entry`, a C function of Python
    (METH_FASTCALL), calls the kernel with its arguments; its `self` is the type of exception to raise when memory runs
    out.
    """
    # the kernel becomes a part of `entry`, so that only the fields of arrays that the kernel uses are read
    dispatcher, arguments = dispatcher_of(kernel, forceinline=True), tuple(map(type_of, kinds))
    with global_compiler_lock:
        context = cpu_target.target_context
        runtime.initialize(context)  # this needs executable code
        # numba has no setting that stops it from making functions executable, so its code generator is replaced
        usual, context._internal_codegen = context._internal_codegen, LIBRARIES
        try:
            dispatcher.compile(arguments)
            code = dispatcher.overloads[arguments]
            return LIBRARIES.object_file(entry_of(kernel, code, kinds, entry), entry)
        finally:
            context._internal_codegen = usual


def type_of(kind):
    """numba's type of an argument of this kind; kinds are those of `jit.kinds_of`."""
    if isinstance(kind, type):
        return OTHERS.get(kind) or numba.from_dtype(np.dtype(kind))
    if isinstance(kind[0], np.dtype):
        dtype, n, contiguous = kind
        return types.Array(numba.from_dtype(dtype), n, "C" if contiguous else "A")
    return types.BaseTuple.from_types([type_of(inner) for inner in kind])


def entry_of(kernel, code, kinds, name):
    """numba's library of the function that `compiled` describes; code: numba's compilation of the kernel."""
    context = code.target_context
    module = context.create_module(name)
    entry = ir.Function(module, ir.FunctionType(OBJECT, [OBJECT, OBJECT.as_pointer(), WORD]), name)
    builder = ir.IRBuilder(entry.append_basic_block())
    python, (error, objects, _) = context.get_python_api(builder), entry.args
    arguments = [argument(python, kind, field(builder, objects, i, OBJECT)) for i, kind in enumerate(kinds)]
    with builder.if_then(cgutils.is_not_null(builder, python.err_occurred()), likely=False):
        builder.ret(OBJECT(None))
    nogil = kernel.kernel_settings["nogil"]
    thread = python.save_thread() if nogil else None
    status, returned = context.call_internal_no_propagate(builder, code.fndesc, code.signature, arguments)
    if nogil:
        python.restore_thread(thread)
    with builder.if_then(status.is_error, likely=False):
        python.err_set_string(error, f"{kernel.__name__}: not enough memory for its work")
        builder.ret(OBJECT(None))
    builder.ret(python.from_native_value(code.signature.return_type, returned))
    library = context.codegen().create_library(name)
    library.add_linking_library(code.library)
    library.add_ir_module(module)
    library.finalize()
    return library


def argument(python, kind, value):
    """numba's value of an argument of this kind. python: numba's PythonAPI; value: Python's object."""
    context, builder, numba_type = python.context, python.builder, type_of(kind)
    if kind is bytes:
        data = builder.gep(value, [WORD(BYTES)])
        return array_of(context, builder, numba_type, data, [field(builder, value, HEAD)])
    if isinstance(kind, type):  # a number, or None; of an int, numba would make another int first
        return python.long_as_longlong(value) if kind is int else python.to_native_value(numba_type, value).value
    if not isinstance(kind[0], np.dtype):
        items = [field(builder, value, tuple.__basicsize__ // 8 + i, OBJECT) for i in range(len(kind))]
        parts = [argument(python, inner, item) for inner, item in zip(kind, items)]
        return context.make_tuple(builder, numba_type, parts)
    # numpy's PyArrayObject: the address of the data, the number of dimensions, the addresses of shape and strides
    data = field(builder, value, HEAD, context.get_data_type(numba_type.dtype).as_pointer())
    lengths, strides = (field(builder, value, HEAD + i, WORD.as_pointer()) for i in (2, 3))
    shape, steps = ([field(builder, place, i) for i in range(kind[1])] for place in (lengths, strides))
    # numpy's strides of a contiguous array can be anything along an axis of one item
    return array_of(context, builder, numba_type, data, shape, None if numba_type.layout == "C" else steps)


def field(builder, place, i, kind=WORD):
    """Word i after a pointer, of a type of LLVM."""
    return builder.load(builder.gep(builder.bitcast(place, kind.as_pointer()), [WORD(i)]))
