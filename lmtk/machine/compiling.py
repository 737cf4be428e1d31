"""Compiles kernels to machine code by numba, which this module imports. `jit` loads and calls that code."""

from contextlib import contextmanager, suppress
from functools import cache
from types import FunctionType, NoneType

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import codegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys as runtime
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from lmtk.machine.images import address_of
from lmtk.machine.kernel_cache import folder_for_numba

ENTRY, WORD = "entry", ir.IntType(64)
# numba's settings for functions that only kernels call: they need no entries for Python and C
ALONE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def dispatcher_of(function, settings):
    """numba's dispatcher of a function, for kernels to call. In its scope, the kernels that it calls are dispatchers
    too.
    """
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        if found := getattr(scope.get(name), "in_numba", None):
            scope[name] = found()
    own = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    return numba.njit(**ALONE | settings)(own)


def cached_dispatcher_of(function, settings):
    """The dispatcher of a function, for Python to call, with numba's own cache, if there is a folder for it. That cache
    does not see changes in other modules.
    """
    if folder := folder_for_numba():
        numba.config.CACHE_DIR = folder
    return dispatcher_of(function, settings | {"cache": folder is not None, "no_cpython_wrapper": False})


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

    def object_file(self, library):
        return self._tm.emit_object(library._final_module)


@contextmanager
def apart():
    """In this block, numba makes Library objects in place of executable code. numba has no setting for that, so its
    target's code generator is replaced.
    """
    with global_compiler_lock:
        context = cpu_target.target_context
        runtime.initialize(context)  # this needs executable code
        usual, context._internal_codegen = context._internal_codegen, libraries()
        try:
            yield
        finally:
            context._internal_codegen = usual


@cache
def libraries():
    return Libraries("lmtk")


def compiled(kernel, kinds):
    """(image, results, machine code) of a kernel for arguments of these kinds.

    The code is a function around the kernel. It takes the values of `jit.kinds_of` and the address of the results, and
    returns 1 if all went well. image: as from `image_of`, or the name of the symbol if the code is an object file.
    results: the format by which Python's struct reads them; for a tuple, a list of one format.
    """
    dispatcher, given = kernel.in_numba(), tuple(map(type_of, kinds))
    with apart():
        dispatcher.compile(given)
        code = dispatcher.overloads[given]
        made = libraries().object_file(entry_of(code, kinds))
    result = code.signature.return_type
    numbers = numbers_of(result)
    read = "".join(map(form, numbers))
    image, bytes_of_it = image_of(made, ENTRY) or (ENTRY, made)
    return image, read if numbers == [result] else [read], bytes_of_it


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
    for some, letters in ((types.Boolean, "?7x"), (types.Float, "d"), (types.Integer, "q")):
        if isinstance(kind, some):
            return letters
    raise TypeError(f"a kernel returns {kind}, which is no number")


def entry_of(code, kinds):
    """The Library of the function that `compiled` describes; code: numba's compilation of the kernel."""
    context, result = code.target_context, code.signature.return_type
    module = context.create_module(ENTRY)
    parameters = [of_it for kind in kinds for of_it in parameters_of(context, kind)]
    entry = ir.Function(module, ir.FunctionType(WORD, [*parameters, WORD]), ENTRY)
    builder = ir.IRBuilder(entry.append_basic_block())
    values = iter(entry.args)
    arguments = [argument(context, builder, kind, values) for kind in kinds]
    call = context.call_conv.get_function_type(result, code.signature.args)
    kernel = ir.Function(module, call, code.fndesc.llvm_func_name)
    status, found = context.call_conv.call_function(builder, kernel, result, code.signature.args, arguments)
    with builder.if_then(status.is_error, likely=False):
        builder.ret(WORD(0))
    out = builder.inttoptr(next(values), WORD.as_pointer())
    for i, kind in enumerate(numbers_of(result)):
        value = found if kind is result else builder.extract_value(found, i)
        value = context.cast(builder, value, kind, types.float64 if form(kind) == "d" else types.int64)
        builder.store(builder.bitcast(value, WORD), builder.gep(out, [WORD(i)]))
    builder.ret(WORD(1))
    library = context.codegen().create_library(ENTRY)
    library.add_linking_library(code.library)
    library.add_ir_module(module)
    library.finalize()
    return library


def parameters_of(context, kind):
    """LLVM's types of the values of an argument; `jit.c_types` gives those of ctypes."""
    if isinstance(kind, type):
        known = {NoneType: [], bytes: [WORD, WORD]}
        return known[kind] if kind in known else [context.get_value_type(type_of(kind))]
    if isinstance(kind[0], np.dtype):
        return [WORD]
    return [of_it for inner in kind for of_it in parameters_of(context, inner)]


def argument(context, builder, kind, values):
    """numba's value of an argument of this kind, from the next of the `values`, an iterator."""
    if kind is NoneType:
        return context.get_dummy_value()
    if kind is bytes:
        return array(context, builder, type_of(kind), next(values), [next(values)])
    if isinstance(kind, type):
        return next(values)
    if not isinstance(kind[0], np.dtype):
        parts = [argument(context, builder, inner, values) for inner in kind]
        return context.make_tuple(builder, type_of(kind), parts)
    # numpy's PyArrayObject: the address of the data, the number of dimensions, the addresses of shape and strides
    fields = builder.add(next(values), WORD(object.__basicsize__))
    data, _, lengths, strides = (word_at(builder, fields, i) for i in range(4))
    shape, steps = ([word_at(builder, place, i) for i in range(kind[1])] for place in (lengths, strides))
    return array(context, builder, type_of(kind), data, shape, steps)


def word_at(builder, address, i):
    return builder.load(builder.gep(builder.inttoptr(address, WORD.as_pointer()), [WORD(i)]))


def array(context, builder, kind, data, shape, steps=()):
    """numba's array of the data at an address. The strides of a contiguous array are computed from its shape, since
    those of numpy can be anything along an axis of one item.
    """
    item = context.get_data_type(kind.dtype)
    size = WORD(context.get_abi_sizeof(item))
    if kind.layout == "C":
        steps, step = [], size
        for length in reversed(shape):
            steps.insert(0, step)
            step = builder.mul(step, length)
    made = make_array(kind)(context, builder)
    data = builder.inttoptr(data, item.as_pointer())
    populate_array(made, data=data, shape=shape, strides=steps, itemsize=size, meminfo=None)
    return made._getvalue()


@intrinsic
def pointer_to(typing, address, kind):
    """pointer_to(address, np.int32): a pointer of which numba's carray makes an array."""

    def build(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(kind.dtype)(address, kind), build


SECTION = np.dtype("u4, u4, u8, u8, u8, u8, u4, u4, u8, u8")  # of the format ELF: Elf64_Shdr
SECTION.names = "name", "kind", "flags", "address", "offset", "size", "link", "info", "align", "each"
SYMBOL = np.dtype([("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"), ("size", "u8")])
BYTE = np.dtype(np.uint8)
RELOCATION = np.dtype([("offset", "u8"), ("kind", "u4"), ("symbol", "u4"), ("addend", "i8")])
X86_64, PROGBITS, SYMTAB, RELA, NOBITS = 62, 1, 2, 4, 8
WRITE, ALLOC = 1, 2  # flags of sections
OUTSIDE, COMMON = 0, 0xFFF2  # SHN_UNDEF, symbols defined elsewhere; SHN_COMMON, symbols for which the linker makes room
ADDRESS = 1  # R_X86_64_64: eight bytes for an address
PAGE, WIDEST = 4096, 64  # bytes: the unit of memory protection; the largest alignment of a number


def image_of(code, symbol):
    """(image, bytes) of an object file in the format ELF; None for a processor other than x86-64, for relocations other
    than addresses, and for names that this process does not have.

    image: a dict. size: that of the code in memory. fixed: how much of it is never written. entry: the place of the
    symbol. local: how many places hold addresses within the code, to which its own address has to be added; they are
    listed after the code, int64. outside: {name: places to which the address of that name has to be added}.
    """
    if int.from_bytes(code[18:20], "little") != X86_64:
        return None
    sections = np.frombuffer(
        code, SECTION, int.from_bytes(code[60:62], "little"), int.from_bytes(code[40:48], "little")
    )
    table = next(s for s in sections if s["kind"] == SYMTAB)
    symbols, names = part(code, table, SYMBOL), bytes(part(code, sections[table["link"]]))
    begins, fixed, made = placed(code, sections)
    local, outside, common, entry = [], {}, {}, None
    for s in symbols:
        if text_at(names, s["name"]) == symbol:
            entry = begins[int(s["section"])] + int(s["value"])
    for s in sections[sections["kind"] == RELA]:
        for at, kind, which, addend in part(code, s, RELOCATION).tolist() if s["info"] in begins else ():
            name, section = text_at(names, symbols[which]["name"]), int(symbols[which]["section"])
            place = begins[s["info"]] + at
            if kind != ADDRESS or (section not in begins and section not in (OUTSIDE, COMMON)):
                return None
            if section == OUTSIDE and not is_here(name):
                return None
            if section == OUTSIDE:
                outside.setdefault(name, []).append(place)
            else:
                local.append(place)
            if section == COMMON:
                if name not in common:
                    common[name] = len(made)
                    made += bytes(-(-int(symbols[which]["size"]) // WIDEST) * WIDEST)
                addend += common[name]
            elif section in begins:
                addend += begins[section] + int(symbols[which]["value"])
            made[place : place + 8] = (addend % 2**64).to_bytes(8, "little")
    about = {"size": len(made), "fixed": fixed, "entry": entry, "local": len(local), "outside": outside}
    return about, bytes(made) + np.array(local, "<i8").tobytes()


def is_here(name):
    with suppress(ValueError):
        return address_of(name) != 0
    return False


def placed(code, sections):
    """({number of a section: where it begins}, where the writable sections begin, a bytearray of all sections)."""
    begins, made, fixed = {}, bytearray(), None
    flags = sections["flags"].tolist()
    for written, i in sorted((bool(f & WRITE), i) for i, f in enumerate(flags) if f & ALLOC):
        s = sections[i]
        if s["kind"] not in (PROGBITS, NOBITS):
            continue  # tables for exceptions, which kernels do not raise
        if written and fixed is None:
            made += bytes(-len(made) % PAGE)
            fixed = len(made)
        made += bytes(-len(made) % max(int(s["align"]), 1))
        begins[i] = len(made)
        made += bytes(part(code, s)) if s["kind"] == PROGBITS else bytes(int(s["size"]))
    made += bytes(-len(made) % PAGE)
    return begins, len(made) if fixed is None else fixed, made


def part(code, section, kind=BYTE):
    """The content of a section as an array of `kind`."""
    return np.frombuffer(code, kind, int(section["size"]) // kind.itemsize, int(section["offset"]))


def text_at(names, at):
    return names[at : names.index(b"\0", at)].decode()
