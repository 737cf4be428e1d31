"""Kernels: functions over arrays that numba compiles.

The machine code of a kernel stands in a cache, one object file for each of the argument types that it is called with.
llvmlite loads it; numba, whose import alone takes ten times as long, is there to compile what the cache lacks.

A kernel takes arrays, numbers, None and tuples of these, all by position. It returns nothing, a number or a tuple of
numbers, and raises nothing.
"""

import ctypes
import json
import os
import sys
import tempfile
from contextlib import suppress
from functools import cache, partial, wraps
from hashlib import blake2b
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from struct import Struct
from threading import RLock
from types import FunctionType, NoneType, SimpleNamespace

import numpy as np

from lmtk.machine import memory

CONTIGUOUS = 0x1  # numpy's bit of flags.num
DIGEST = 16  # bytes
lock = RLock()


def jit(function=None, **settings):
    """The kernel of a function. settings: those of `numba.njit`, with numpy's error model (division by zero gives inf).

    numba is imported at the first call that finds nothing in the cache.
    """
    if function is None:
        return partial(jit, **settings)
    settings = {"nogil": True, "error_model": "numpy"} | settings
    codes = {}

    @wraps(function)
    def call(*arguments):
        if not by_objects():
            return call.dispatcher()(*arguments)
        values = []
        kinds = kinds_of(arguments, values)
        code = codes.get(kinds)
        if code is None:
            with lock:
                code = codes[kinds] = codes.get(kinds) or code_for(call, kinds)
        return code(*values)

    call.kernel_settings = settings
    call.in_numba = cache(partial(dispatcher_of, function, settings))
    call.dispatcher = cache(partial(dispatcher_of, function, settings | {"cache": True}))
    return call


# of a kernel that others call for each item: else its arrays are taken apart at each call, and counted
inlined = partial(jit, _nrt=False, forceinline=True)


def of_numba(module, name):
    """A function of numba's for kernels to call; it is imported with numba."""
    return SimpleNamespace(__qualname__=f"{module}.{name}", in_numba=lambda: getattr(import_module(module), name))


def kinds_of(arguments, values):
    """What a call's arguments are, as a key: (dtype, dimensions, whether contiguous) of an array, a number's type, a
    tuple of these. What the machine code gets is appended to `values`: where an array object is, a number as it is.
    """
    kinds = []
    for argument in arguments:
        kind = type(argument)
        if isinstance(argument, np.ndarray):
            kind = argument.dtype, argument.ndim, argument.flags.num & CONTIGUOUS
            values.append(id(argument))
        elif kind is int or kind is float or kind is bool:
            values.append(argument)
        elif kind is tuple:
            kind = kinds_of(argument, values)
        elif argument is not None:
            values.append(argument.item())
        kinds.append(kind)
    return tuple(kinds)


def code_for(kernel, kinds):
    """The kernel for arguments of these kinds, to be called with the values of `kinds_of`."""
    name = f"{kernel.__module__}.{kernel.__name__}-{digest_of(kernel, kinds)}"
    folder = cache_folder()
    found = folder and saved(Path(folder, name))
    if not found:
        found = compiled(kernel, kinds)
        if folder:
            save(Path(folder, name), *found)
    symbol, results, code = found
    return native(kernel, link(name, symbol, code), c_types(kinds), results)


def native(kernel, address, parameters, results):
    """Python's call of the machine code at `address`; results: as `results_to` has them."""
    take = ctypes.CFUNCTYPE(ctypes.c_int64, *parameters, ctypes.c_void_p)(address)
    one = isinstance(results, str)
    read = Struct(results if one else results[0])
    Room = ctypes.c_char * read.size

    def call(*values):
        room = Room()
        if not take(*values, room):
            raise MemoryError(f"{kernel.__name__}: no room for what it works in")
        found = read.unpack(room)
        return found[0] if one else found or None

    return call


def c_type(dtype):
    """ctypes' name of a number's type."""
    if dtype.kind == "f":
        return ctypes.c_double if dtype.itemsize == 8 else ctypes.c_float
    if dtype.kind == "b":
        return ctypes.c_bool
    return getattr(ctypes, f"c_{'u' * (dtype.kind == 'u')}int{8 * dtype.itemsize}")


def c_types(kinds):
    """ctypes' types of the values of `kinds_of`."""
    found = []
    for kind in kinds:
        if isinstance(kind, type):
            found += [] if kind is NoneType else [c_type(np.dtype(kind))]
        elif isinstance(kind[0], np.dtype):
            found.append(ctypes.c_int64)
        else:
            found += c_types(kind)
    return found


# the cache


def cache_folder():
    """A folder for compiled kernels: NUMBA_CACHE_DIR, else the user's cache, else a temporary one, else none.

    Not beside the source: what pip did not install there, it would not remove either.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "lmtk"
    for folder in (Path(named),) if named else (home, Path(tempfile.gettempdir()) / f"lmtk-{os.getuid()}"):
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if named or folder.stat().st_uid == os.getuid():  # what is in it will be run
                with tempfile.TemporaryFile(dir=folder):
                    return folder
    return None


def digest_of(kernel, kinds):
    """What the machine code of a kernel depends on, as hexadecimal digits."""
    return blake2b(repr((machine(), kinds, meaning(kernel, {}))).encode(), digest_size=DIGEST).hexdigest()


@cache
def machine():
    """The processor, the versions of Python and numba, and what this package gives all kernels."""
    llvm = llvmlite()
    files = [numba_file("_version.py"), Path(__file__), Path(__file__).with_name("unaligned.py")]
    return (
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        sys.implementation.cache_tag,
        [blake2b(path.read_bytes(), digest_size=DIGEST).hexdigest() for path in files],
    )


def meaning(kernel, known):
    """The code of a kernel and of the kernels that it calls, and the values of the names in it."""
    function = kernel.__wrapped__
    if function not in known:
        code = function.__code__
        found = known[function] = [code.co_code, repr(code.co_consts), code.co_varnames, function.__defaults__]
        found += [
            (name, sorted(value) if isinstance(value, set) else value) for name, value in kernel.kernel_settings.items()
        ]
        for name in code.co_names:
            value = function.__globals__.get(name)
            if hasattr(value, "kernel_settings"):
                meaning(value, known)
            plain = isinstance(value, (int, float, str, bytes, tuple, np.generic))
            found.append((name, value if plain else getattr(value, "__qualname__", None)))
    return sorted(map(repr, known.values()))


def saved(path):
    """The symbol, the results and the machine code in a file of the cache, None where there is no whole one."""
    with suppress(OSError, ValueError):
        data = path.read_bytes()
        if blake2b(data[DIGEST:], digest_size=DIGEST).digest() == data[:DIGEST]:
            line, _, code = data[DIGEST:].partition(b"\n")
            return *json.loads(line), code
    return None


def save(path, symbol, results, code):
    data = json.dumps([symbol, results]).encode() + b"\n" + code
    with suppress(OSError), tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as out:
        out.write(blake2b(data, digest_size=DIGEST).digest() + data)
        out.close()
        os.replace(out.name, path)


# machine code into memory


@cache
def llvmlite():
    memory.need(memory.LLVM, "llvmlite")
    import llvmlite.binding

    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    return llvmlite.binding


def numba_file(*names):
    """A file of numba's, which is not imported for it."""
    return Path(find_spec("numba").origin).parent.joinpath(*names)


@cache
def runtime():
    """The addresses of what numba's code calls in numba: memory for arrays, and errors. They stand in two modules
    in C, which load without the rest of numba.
    """
    found = {}
    for prefix, *names in (("NRT_", "core", "runtime", "_nrt_python"), ("numba_", "_helperlib")):
        path = numba_file(*names[:-1], names[-1] + EXTENSION_SUFFIXES[0])
        spec = spec_from_file_location(".".join(["numba", *names]), path)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= {name if name.startswith("_") else prefix + name: at for name, at in module.c_helpers.items()}
    return found


@cache
def by_objects():
    """Whether llvmlite and numba are as this module knows them; else numba itself runs the kernels."""
    with suppress(OSError, ImportError, AttributeError):
        return "NUMBA_BOUNDSCHECK" not in os.environ and bool(runtime()) and hasattr(llvmlite(), "JITLibraryBuilder")
    return False


@cache
def linker():
    return llvmlite().create_lljit_compiler()


LIBRARIES = []  # the code in them lives as long as they do


def link(name, symbol, code):
    """The address of a symbol of an object file, now in memory."""
    library = llvmlite().JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
    for known, address in runtime().items():
        library.import_symbol(known, address)
    LIBRARIES.append(library.link(linker(), name))
    return LIBRARIES[-1][symbol]


# numba


def dispatcher_of(function, settings):
    """The function as numba's, with the kernels that it calls."""
    import numba

    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        if found := getattr(scope.get(name), "in_numba", None):
            scope[name] = found()
    if settings.get("cache"):
        folder = cache_folder()
        numba.config.CACHE_DIR, settings = str(folder or ""), settings | {"cache": folder is not None}
    own = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    return numba.njit(**settings)(own)


def compiled(kernel, kinds):
    """The symbol, the results and the machine code of a kernel: of a function around it that takes the values of
    `kinds_of` and the address of the results, and returns 1 if all went well.
    """
    memory.need(memory.KERNEL if "numba" in sys.modules else memory.NUMBA, "a kernel's compilation")
    from numba import carray, cfunc, types
    from numpy.lib.stride_tricks import as_strided

    put, results = results_to()
    scope = {"carray": carray, "as_strided": as_strided, "pointer_to": pointer_to.in_numba(), "int64": np.int64}
    scope |= {"kernel": kernel.in_numba(), "put": put, "HEAD": object.__basicsize__}
    lines, parameters = [], []
    arguments = ", ".join(argument(kind, lines, parameters, scope) for kind in kinds)
    names = ", ".join([*(f"x{i}" for i in range(len(parameters))), "out"])
    lines += [f"put(out, kernel({arguments}))", "return 1"]
    exec(f"def entry({names}):\n    " + "\n    ".join(lines), scope)
    code = cfunc(types.int64(*parameters, types.int64), error_model="numpy")(scope["entry"])
    return code.native_name, results[-1], object_file(code.inspect_llvm())


def results_to():
    """For kernels: put(address, results), which writes a number, or each of a tuple, into 8 bytes; and a list, to which
    its compilation appends how Python's struct reads them: a text, or a list of one text for a tuple.
    """
    from numba import types
    from numba.extending import intrinsic

    found = []

    @intrinsic
    def put(typing, address, result):
        kinds = result.types if isinstance(result, types.BaseTuple) else [result] if result is not types.none else []
        wide = [types.float64 if isinstance(kind, types.Float) else types.int64 for kind in kinds]
        read = [
            "?7x" if isinstance(kind, types.Boolean) else "d" if isinstance(kind, types.Float) else "q"
            for kind in kinds
        ]
        found.append(read[0] if [*kinds] == [result] else ["".join(read)])

        def build(context, builder, signature, arguments):
            at = builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(types.int64)))
            for i, (kind, to) in enumerate(zip(kinds, wide)):
                value = builder.extract_value(arguments[1], i) if kind is not result else arguments[1]
                value = builder.bitcast(context.cast(builder, value, kind, to), context.get_value_type(types.int64))
                builder.store(value, builder.gep(at, [context.get_constant(types.int64, i)]))
            return context.get_dummy_value()

        return types.void(types.int64, result), build

    return put, found


def argument(kind, lines, parameters, scope):
    """How numba's code makes an argument of this kind of its parameters, whose types are appended to `parameters`."""
    from numba import from_dtype, types

    x = f"x{len(parameters)}"
    if isinstance(kind, type):
        if kind is NoneType:
            return "None"
        parameters.append(from_dtype(np.dtype(kind)))
        return x
    if not isinstance(kind[0], np.dtype):
        return f"({''.join(argument(inner, lines, parameters, scope) + ', ' for inner in kind)})"
    parameters.append(types.int64)
    dtype, n, contiguous = kind
    scope[f"{x}_dtype"] = dtype
    # numpy's PyArrayObject: where the data are, the number of dimensions, where they and the strides are
    lines.append(f"{x}_fields = carray(pointer_to({x} + HEAD, int64), 4)")
    lines += [f"{x}_{name} = carray(pointer_to({x}_fields[{at}], int64), {n})" for name, at in (("n", 2), ("step", 3))]
    shape, steps = (f"({''.join(f'{x}_{name}[{i}], ' for i in range(n))})" for name in ("n", "step"))
    array = f"carray(pointer_to({x}_fields[0], {x}_dtype), {shape})"
    return array if contiguous else f"as_strided({array}, {shape}, {steps})"


def object_file(text):
    """The machine code, for this processor, of a module of LLVM's language."""
    llvm = llvmlite()
    host = {"cpu": llvm.get_host_cpu_name(), "features": llvm.get_host_cpu_features().flatten()}
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(**host, opt=3, reloc="static", codemodel="jitdefault", jit=True)
    return machine.emit_object(llvm.parse_assembly(text))


def pointers():
    """For kernels: pointer_to(address, np.int32), of which numba's carray makes an array."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def pointer_to(typing, address, kind):
        def build(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind.dtype)(address, kind), build

    return pointer_to


pointer_to = SimpleNamespace(__qualname__="pointer_to", in_numba=cache(pointers))
carray = of_numba("numba", "carray")
