"""Kernels: functions over arrays that numba compiles.

The machine code of a kernel is kept in a cache, in a file for each combination of argument types. It is an image, which
loads by a copy and some additions; on processors for which `compiling` makes no images, it is an object file, which
llvmlite loads. numba is imported only to compile kernels that the cache lacks: its import alone takes longer than a
small job.

A kernel takes arrays, bytes (as an array of uint8), numbers, None and tuples of these, all by position. It returns
nothing, a number or a tuple of numbers, and raises no exceptions.
"""

import ctypes
import os
import sys
from functools import cache, partial, wraps
from importlib import import_module
from threading import RLock
from types import CodeType, NoneType, SimpleNamespace

import numpy as np

from lmtk.errors import notes
from lmtk.machine import kernel_cache, memory
from lmtk.machine.images import load, machine, native, save, saved, stamps
from lmtk.machine.kernel_cache import digest
from lmtk.machine.objects import by_objects, link

CONTIGUOUS = 0x1  # numpy's bit of flags.num
lock = RLock()
used = {}  # the keys are this process's kernels with the kinds of their arguments, in the order of their first calls


def jit(function=None, **settings):
    """The kernel of a function. settings: those of `numba.njit`. By default it releases Python's lock, and has numpy's
    error model, in which a division by zero gives inf.
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
                used[call, kinds] = None
        return code(*values)

    call.kernel_settings, call.codes = settings, codes
    call.in_numba = cache(lambda: compiler().dispatcher_of(function, settings))
    call.dispatcher = cache(lambda: compiler().cached_dispatcher_of(function, settings))
    return call


# for functions that kernels call for each item: a plain call would unpack their arrays and count references each time
inlined = partial(jit, _nrt=False, forceinline=True)
# for kernels that make no arrays: their code does not need numba's runtime, which would have to be loaded
sealed = partial(jit, _nrt=False)


def of_numba(module, name):
    """A function of numba, or of a module that imports it, for kernels to call; imported when they are compiled."""
    return SimpleNamespace(__qualname__=f"{module}.{name}", in_numba=lambda: getattr(import_module(module), name))


carray, pointer_to = of_numba("numba", "carray"), of_numba("lmtk.machine.compiling", "pointer_to")


def compiler():
    """The module `compiling`, which imports numba. Raises MemoryError if there is too little memory for numba."""
    first = "lmtk.machine.compiling" not in sys.modules
    memory.need(memory.KERNEL if "numba" in sys.modules else memory.NUMBA, "a kernel's compilation")
    for tell in notes if first else ():
        tell(f"compiling kernels, for some seconds; {kernel_cache.folder()[1] or 'no folder'} keeps them")
    return import_module("lmtk.machine.compiling")


def kinds_of(arguments, values):
    """The kinds of a call's arguments, a tuple to use as a key. The kind of an array is (dtype, dimensions, whether it
    is contiguous), that of a number its type, that of a tuple its kinds. Appends to `values` what the machine code
    gets: an array's address as an object, the address and length of bytes, a number as it is.
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


def file_of(kernel, kinds):
    """The name of the kernel's file in the cache, for arguments of these kinds."""
    return f"{kernel.__module__}.{kernel.__name__}-{digest_of(kernel, kinds)}"


def record(job):
    """Notes in the cache, for `recorded`, the kernels that this process has used as those of a job, a name."""
    if used and by_objects() and not recorded(job):
        known = {}
        for kernel, _ in used:
            meaning(kernel, known)
        sources = {sys.modules[function.__module__].__file__ for function in known}
        save(record_of(job), [[file_of(*both) for both in used], stamps(sources)], "", b"")


@cache
def recorded(job):
    """Whether the cache has the kernels that an earlier process used for a job, and their sources are unchanged."""
    (names, sources), *_ = (by_objects() and saved(record_of(job))) or [([], None)]
    return bool(names) and stamps(sources) == sources and all(map(kernel_cache.has, names))


def record_of(job):
    """The name of a job's record. Each installation has its own, since its kernels may differ from those of others."""
    return f"job-{job}-{digest(repr((machine(), os.path.realpath(__file__))).encode()).hex()}"


def code_for(kernel, kinds):
    """A function that calls the kernel's machine code for arguments of these kinds with the values of `kinds_of`."""
    name = file_of(kernel, kinds)
    found = saved(name)
    if not found:
        found = compiler().compiled(kernel, kinds)
        save(name, *found)
    about, results, code = found
    address = load(about, code) if isinstance(about, dict) else link(name, about, code)
    return native(kernel.__name__, address, c_types(kinds), results, kernel.kernel_settings["nogil"])


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


def digest_of(kernel, kinds):
    """A digest, in hexadecimal, of everything on which the machine code of a kernel depends."""
    return digest(repr((machine(), kinds, meaning(kernel, {}))).encode()).hex()


def meaning(kernel, known):
    """A list of texts: the code of a kernel and of the kernels that it calls, their settings, and the values of their
    global names. known: {function: its part} for the functions done so far.
    """
    function = kernel.__wrapped__
    if function not in known:
        found = known[function] = [function.__defaults__]
        found += [
            (name, sorted(value) if isinstance(value, set) else value) for name, value in kernel.kernel_settings.items()
        ]
        codes = [function.__code__]
        for code in codes:  # those of the functions in it are appended
            inner = [value for value in code.co_consts if isinstance(value, CodeType)]
            found.append((code.co_code, repr([v for v in code.co_consts if v not in inner]), code.co_varnames))
            codes += inner
        for name in (name for code in codes for name in code.co_names):
            value = function.__globals__.get(name)
            if hasattr(value, "kernel_settings"):
                meaning(value, known)
            if isinstance(value, np.ndarray):
                value = value.dtype, value.shape, value.tobytes()
            plain = isinstance(value, (int, float, str, bytes, tuple, np.generic))
            found.append((name, value if plain else getattr(value, "__qualname__", None)))
    return sorted(map(repr, known.values()))
