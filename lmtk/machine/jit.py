"""Kernels: functions over arrays that numba compiles.

The machine code of a kernel stands in a cache, one file for each of the argument types that it is called with. It is
an Image, which takes a copy and some sums to load; on processors that `compiling` makes none for, an object file, which
llvmlite loads. numba, whose import alone takes longer than a small job, is there to compile what the cache lacks.

A kernel takes arrays, bytes (as an array of uint8), numbers, None and tuples of these, all by position. It returns
nothing, a number or a tuple of numbers, and raises nothing.
"""

import ctypes
import json
import mmap
import os
import re
import sys
from contextlib import suppress
from functools import cache, partial, wraps
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from struct import Struct
from threading import RLock
from types import NoneType, SimpleNamespace

import numpy as np

from lmtk.machine import memory

try:
    from _blake2 import blake2b  # hashlib imports OpenSSL first
except ImportError:
    from hashlib import blake2b

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
    call.in_numba = cache(lambda: compiler().dispatcher_of(function, settings))
    call.dispatcher = cache(lambda: compiler().cached_dispatcher_of(function, settings, cache_folder()))
    return call


# of a kernel that others call for each item: else its arrays are taken apart at each call, and counted
inlined = partial(jit, _nrt=False, forceinline=True)


def of_numba(module, name):
    """A function of numba's for kernels to call; it is imported with numba."""
    return SimpleNamespace(__qualname__=f"{module}.{name}", in_numba=lambda: getattr(import_module(module), name))


carray, pointer_to = of_numba("numba", "carray"), of_numba("lmtk.machine.compiling", "pointer_to")


def compiler():
    """The module that compiles; numba is imported with it."""
    memory.need(memory.KERNEL if "numba" in sys.modules else memory.NUMBA, "a kernel's compilation")
    return import_module("lmtk.machine.compiling")


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
        elif kind is bytes:
            values += argument, len(argument)
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
        found = compiler().compiled(kernel, kinds)
        if folder:
            save(Path(folder, name), *found)
    about, results, code = found
    address = load(about, code) if isinstance(about, dict) else link(name, about, code)
    return native(kernel, address, c_types(kinds), results)


def native(kernel, address, parameters, results):
    """Python's call of the machine code at `address`; results: as `compiled` has them."""
    kind = ctypes.CFUNCTYPE if kernel.kernel_settings["nogil"] else ctypes.PYFUNCTYPE
    take = kind(ctypes.c_int64, *parameters, ctypes.c_void_p)(address)
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
        if kind is bytes:
            found += [ctypes.c_void_p, ctypes.c_int64]
        elif not isinstance(kind, type):
            found += [ctypes.c_int64] if isinstance(kind[0], np.dtype) else c_types(kind)
        elif kind is not NoneType:
            found.append(c_type(np.dtype(kind)))
    return found


# the cache


@cache
def cache_folder():
    """A folder for compiled kernels: NUMBA_CACHE_DIR, else the user's cache, else a temporary one, else none.

    Not beside the source: what pip did not install there, it would not remove either.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "lmtk"
    if usable(Path(named) if named else home, named):
        return Path(named) if named else home
    import tempfile

    folder = Path(tempfile.gettempdir()) / f"lmtk-{os.getuid()}"
    return folder if not named and usable(folder) else None


def usable(folder, named=None):
    """Whether a folder, which is made if need be, can have files, and is the user's: what is in it will be run."""
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return bool(named or folder.stat().st_uid == os.getuid()) and os.access(folder, os.W_OK | os.X_OK)
    return False


def digest_of(kernel, kinds):
    """What the machine code of a kernel depends on, as hexadecimal digits."""
    return blake2b(repr((machine(), kinds, meaning(kernel, {}))).encode(), digest_size=DIGEST).hexdigest()


@cache
def machine():
    """The processor, the versions of Python and numba, and what this package gives all kernels."""
    here = Path(__file__).parent
    files = package_file("numba", "_version.py"), package_file("llvmlite", "_version.py")
    files += tuple(here / f"{name}.py" for name in ("jit", "compiling", "unaligned", "calling"))
    return (
        processor(),
        sys.implementation.cache_tag,
        [blake2b(path.read_bytes(), digest_size=DIGEST).hexdigest() for path in files],
    )


def processor():
    """What the system says of the first processor, but for what changes from day to day."""
    with open("/proc/cpuinfo", "rb") as file:
        first = file.read(1 << 14).partition(b"\n\n")[0]
    names = rb"vendor_id|cpu family|model|stepping|flags|CPU .*|Features"
    return re.findall(rb"(?m)^(?:%s)[ \t]*:.*" % names, first)


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
            if isinstance(value, np.ndarray):
                value = value.dtype, value.shape, value.tobytes()
            plain = isinstance(value, (int, float, str, bytes, tuple, np.generic))
            found.append((name, value if plain else getattr(value, "__qualname__", None)))
    return sorted(map(repr, known.values()))


def saved(path):
    """What `compiling.compiled` gave, in a file of the cache; None where there is no whole one."""
    with suppress(OSError, ValueError):
        data = path.read_bytes()
        if blake2b(data[DIGEST:], digest_size=DIGEST).digest() == data[:DIGEST]:
            line, _, code = data[DIGEST:].partition(b"\n")
            return *json.loads(line), code
    return None


def save(path, about, results, code):
    import tempfile  # as long to import as a kernel to load

    data = json.dumps([about, results]).encode() + b"\n" + code
    with suppress(OSError), tempfile.TemporaryDirectory(dir=path.parent) as folder:
        part = Path(folder, path.name)
        part.write_bytes(blake2b(data, digest_size=DIGEST).digest() + data)
        part.replace(path)


# machine code into memory


@cache
def llvmlite():
    memory.need(memory.LLVM, "llvmlite")
    import llvmlite.binding

    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    return llvmlite.binding


def package_file(package, *names):
    """A file of a package, which is not imported for it."""
    return Path(find_spec(package).origin).parent.joinpath(*names)


@cache
def runtime():
    """The addresses of what numba's code calls in numba: memory for arrays, and errors. They stand in two modules
    in C, which load without the rest of numba.
    """
    found = {}
    for prefix, *names in (("NRT_", "core", "runtime", "_nrt_python"), ("numba_", "_helperlib")):
        path = package_file("numba", *names[:-1], names[-1] + EXTENSION_SUFFIXES[0])
        spec = spec_from_file_location(".".join(["numba", *names]), path)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= {name if name.startswith("_") else prefix + name: at for name, at in module.c_helpers.items()}
    return found


@cache
def by_objects():
    """Whether the system, llvmlite and numba are as this module knows them; else numba itself runs the kernels."""
    if sys.platform != "linux" or "NUMBA_BOUNDSCHECK" in os.environ:
        return False
    with suppress(OSError, ImportError, AttributeError):
        return bool(runtime()) and (os.uname().machine == "x86_64" or hasattr(llvmlite(), "JITLibraryBuilder"))
    return False


def load(image, code):
    """The address of an Image's entry, now in memory; code: as `compiling.image_of` has it."""
    memory, local = mmap.mmap(-1, image["size"]), np.frombuffer(code, "<i8", offset=len(code) - 8 * image["local"])
    memory[: len(code) - local.nbytes] = code[: len(code) - local.nbytes]
    there = np.frombuffer(memory, np.uint8)
    begin = there.__array_interface__["data"][0]
    add_to(there, local, begin)
    for name, places in image["outside"].items():
        add_to(there, np.array(places), address_of(name))
    if process().mprotect(begin, image["fixed"], mmap.PROT_READ | mmap.PROT_EXEC):
        raise MemoryError("the system lets no kernel run")
    LOADED.append(memory)
    return begin + image["entry"]


def add_to(there, places, number):
    """The eight bytes at each place, as a number, and `number`; in place."""
    at = places[:, None] + np.arange(8)
    there[at] = (there[at].view("<u8") + np.uint64(number)).view(np.uint8)


@cache
def process():
    """What is in this process, by its names."""
    library = ctypes.CDLL(None)
    library.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return library


def address_of(name):
    """Where a function or variable of numba's runtime or of the process is. Raises ValueError."""
    return runtime().get(name) or ctypes.addressof(ctypes.c_char.in_dll(process(), name))


@cache
def linker():
    return llvmlite().create_lljit_compiler()


LOADED = []  # the code in them lives as long as they do


def link(name, symbol, code):
    """The address of a symbol of an object file, now in memory."""
    library = llvmlite().JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
    for known, address in runtime().items():
        library.import_symbol(known, address)
    LOADED.append(library.link(linker(), name))
    return LOADED[-1][symbol]
