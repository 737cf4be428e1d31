"""Kernels: functions over arrays that numba compiles.

The machine code of a kernel is kept in a cache, in an object file for each combination of argument types. numba is
imported only to compile kernels that the cache lacks: its import alone takes longer than a small job. Where that does
not work, `fallback` runs the kernels.

A kernel takes arrays, bytes (as an array of uint8), numbers, None and tuples of these, all by position. It returns
nothing, a number or a tuple of numbers, and raises no exceptions.
"""

import os
import re
import sys
from functools import cache, partial, wraps
from importlib import import_module
from pathlib import Path
from threading import RLock
from types import CodeType, FunctionType, SimpleNamespace

import numpy as np

from lmtk.errors import notes
from lmtk.machine import kernel_cache, memory, objects

# modules of this package on which the code of all kernels depends
PARTS = "jit", "objects", "compiling", "intrinsics"
CONTIGUOUS = 0x1  # numpy's bit of flags.num
PLAIN = {np.int64: int, np.float64: float, np.bool_: bool}  # numpy's numbers with the same machine code as Python's
# options of `numba.njit`: a kernel releases Python's lock, and a division by zero gives inf, as in numpy
SETTINGS = {"nogil": True, "error_model": "numpy"}
# options that are not public: a kernel can make arrays, is not inlined, and has no entries from numba for Python and C
PRIVATE = {"_nrt": True, "forceinline": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
lock = RLock()


def jit(function=None, **settings):
    """The kernel of a function. settings: options of `numba.njit` that differ from SETTINGS and PRIVATE."""
    if function is None:
        return partial(jit, **settings)
    codes = {}

    @wraps(function)
    def call(*arguments):
        kinds = kinds_of(arguments)
        code = codes.get(kinds)
        if code is None:
            with lock:
                code = codes[kinds] = codes.get(kinds) or code_for(call, kinds)
        return code(*arguments)

    call.kernel_settings, call.codes, call.in_numba = SETTINGS | PRIVATE | settings, codes, partial(dispatcher_of, call)
    return call


# for kernels that make no arrays: their code does not need numba's runtime
sealed = partial(jit, _nrt=False)
# for functions that only kernels call: a plain call would unpack their arrays and count references each time
inlined = partial(sealed, forceinline=True)


@cache
def dispatcher_of(kernel, is_public=False, **more):
    """numba's dispatcher of a kernel. In its scope, the kernels that it calls are dispatchers too. is_public: whether
    their settings are only public ones; more: settings of this kernel alone.
    """
    import numba

    function = kernel.__wrapped__
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        if callee := getattr(scope.get(name), "in_numba", None):
            scope[name] = callee(is_public)
    copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    settings = {name: x for name, x in kernel.kernel_settings.items() if name not in PRIVATE or not is_public}
    return numba.njit(**settings | more)(copy)


def intrinsic(name):
    """A function of `intrinsics` for kernels to call. It needs numba, so it is imported when they are compiled."""
    module = "lmtk.machine.intrinsics"
    return SimpleNamespace(__qualname__=f"{module}.{name}", in_numba=lambda _: getattr(import_module(module), name))


def fallback(kernel):
    """numba's own function for a kernel, made by public parts of numba."""
    return compiler("fallback").for_python(kernel)


@cache
def compiler(name):
    """The module `compiling` or `fallback`, which imports numba; a terminal shows a note of it. Raises MemoryError."""

    def load():
        for tell in notes if "numba" not in sys.modules else ():
            tell(f"first run: compiling once, 2 to 13 s; result kept in {kernel_cache.folder()[1] or 'memory only'}")
        import_module("numba")

    memory.try_out(load, "numba")
    return import_module(f"lmtk.machine.{name}")


def for_kinds_of(kernel, *arguments):
    """A function that calls the kernel for arguments of the same kinds as these, and does not look at kinds again."""
    kernel(*arguments)
    return kernel.codes[kinds_of(arguments)]


def kinds_of(arguments):
    """The kinds of a call's arguments, a tuple to use as a key. The kind of an array is (dtype, dimensions, whether it
    is contiguous), of a number its type, or Python's by PLAIN, of a tuple the kinds of its items.
    """
    kinds = []
    for argument in arguments:
        kind = type(argument)
        if isinstance(argument, np.ndarray):
            kind = argument.dtype, argument.ndim, argument.flags.num & CONTIGUOUS
        elif kind is tuple:
            kind = kinds_of(argument)
        else:
            kind = PLAIN.get(kind, kind)
        kinds.append(kind)
    return tuple(kinds)


def file_of(kernel, kinds):
    """The name of the kernel's file in the cache. Its machine code depends on nothing but what is in the digest."""
    digits = kernel_cache.digest(repr((machine(), kinds, meaning(kernel, {}))).encode()).hex()
    return f"{kernel.__module__}.{kernel.__name__}-{digits}"


def record(job):
    """Notes in the cache, for `recorded`, that a job, a name, has run kernels."""
    if objects.is_usable() and not recorded(job):
        kernel_cache.write(record_of(job), b"")


@cache
def recorded(job):
    """Whether a job of this name has run kernels. Those that have changed since are compiled once more."""
    return objects.is_usable() and kernel_cache.read(record_of(job)) is not None


def record_of(job):
    """The name of a job's record. Each installation has its own, also after an upgrade: their kernels may differ."""
    installation = os.path.realpath(__file__), os.stat(__file__).st_mtime_ns
    return f"job-{job}-{kernel_cache.digest(repr((machine(), installation)).encode()).hex()}"


def code_for(kernel, kinds):
    """The compiled kernel for arguments of these kinds, a function. If it cannot be made, numba's by `fallback`."""
    if not objects.is_usable():
        return fallback(kernel)
    name = file_of(kernel, kinds)
    data = kernel_cache.read(name)
    if data is None:
        try:
            compiled = compiler("compiling").compiled
            data = memory.try_out(partial(compiled, kernel, kinds, name), "a kernel's compilation")
        except MemoryError:
            raise
        except Exception:  # a version of numba whose inner parts are different; if the kernel is wrong, numba says so
            return fallback(kernel)
        kernel_cache.write(name, data)
    return objects.load(kernel.__name__, name, data)


@cache
def machine():
    """What every kernel's code depends on: the processor, versions of Python, numba and llvmlite, the modules PARTS."""
    paths = [objects.package_file(package, "_version.py") for package in ("numba", "llvmlite")]
    paths += [os.path.join(os.path.dirname(__file__), f"{name}.py") for name in PARTS]
    contents = [kernel_cache.digest(Path(path).read_bytes()) for path in paths]
    return processor(), sys.implementation.cache_tag, contents


def processor():
    """The lines of /proc/cpuinfo about the first processor that do not change from day to day."""
    with open("/proc/cpuinfo", "rb") as file:
        first = file.read(1 << 14).partition(b"\n\n")[0]
    names = rb"vendor_id|cpu family|model|stepping|flags|CPU .*|Features"
    return re.findall(rb"(?m)^(?:%s)[ \t]*:.*" % names, first)


def meaning(kernel, parts):
    """A list of texts: the code of a kernel and of the kernels that it calls, without docstrings; their settings; the
    values of their global names. parts: {function: its part of the list}, to which this function's are added.
    """
    function = kernel.__wrapped__
    if function not in parts:
        part = parts[function] = [function.__defaults__]
        part += [(name, sorted(x) if isinstance(x, set) else x) for name, x in kernel.kernel_settings.items()]
        codes = [function.__code__]
        for code in codes:  # those of the functions in it are appended
            inner = [value for value in code.co_consts if isinstance(value, CodeType)]
            values = [v for v in code.co_consts if v not in inner and v is not function.__doc__]
            part.append((code.co_code, repr(values), code.co_varnames))
            codes += inner
        for name in (name for code in codes for name in code.co_names):
            value = function.__globals__.get(name)
            if hasattr(value, "kernel_settings"):
                meaning(value, parts)
            if isinstance(value, np.ndarray):
                value = value.dtype, value.shape, value.tobytes()
            plain = isinstance(value, (int, float, str, bytes, tuple, np.generic))
            part.append((name, value if plain else getattr(value, "__qualname__", None)))
    return sorted(map(repr, parts.values()))
