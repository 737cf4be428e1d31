"""Images of kernels' machine code: how they are kept in the cache and loaded into memory."""

import ctypes
import json
import mmap
import os
import re
import sys
from contextlib import suppress
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from struct import Struct

from lmtk.machine import kernel_cache
from lmtk.machine.kernel_cache import digest

# modules of this package on which the code of all kernels depends
PARTS = "jit", "images", "objects", "compiling", "unaligned", "calling"
NUMBER = Struct("<Q")
LOADED = []  # memory and libraries with loaded code, which must not be freed


@cache
def machine():
    """All that the code of every kernel depends on: the processor, the versions of Python, numba and llvmlite, and the
    modules PARTS.
    """
    files = package_file("numba", "_version.py"), package_file("llvmlite", "_version.py")
    files += tuple(os.path.join(os.path.dirname(__file__), f"{name}.py") for name in PARTS)
    return (
        processor(),
        sys.implementation.cache_tag,
        [digest(content(path)) for path in files],
    )


def content(path):
    with open(path, "rb") as file:
        return file.read()


def processor():
    """The lines of /proc/cpuinfo about the first processor that do not change from day to day."""
    with open("/proc/cpuinfo", "rb") as file:
        first = file.read(1 << 14).partition(b"\n\n")[0]
    names = rb"vendor_id|cpu family|model|stepping|flags|CPU .*|Features"
    return re.findall(rb"(?m)^(?:%s)[ \t]*:.*" % names, first)


def saved(name):
    """(image, results, machine code), as from `compiling.compiled`, from a file of the cache; None if it cannot be
    used.
    """
    data = kernel_cache.read(name)
    if data is None:
        return None
    line, _, code = data.partition(b"\n")
    return *json.loads(line), code


def save(name, about, results, code):
    kernel_cache.write(name, json.dumps([about, results]).encode() + b"\n" + code)


def stamps(paths):
    """{path: [size, time]} of files, by which they count as unchanged, as in Python's own cache; None where one is
    missing.
    """
    with suppress(OSError):
        return {path: [(found := os.stat(path)).st_size, found.st_mtime_ns] for path in sorted(paths)}
    return None


def package_file(package, *names):
    """The path of a file of a package. The package is not imported."""
    return os.path.join(os.path.dirname(find_spec(package).origin), *names)


@cache
def runtime():
    """{name: address} of the functions of numba that compiled code calls: memory for arrays, and errors. They are in
    two C modules, which load without the rest of numba.
    """
    found = {}
    for prefix, *names in (("NRT_", "core", "runtime", "_nrt_python"), ("numba_", "_helperlib")):
        path = package_file("numba", *names[:-1], names[-1] + EXTENSION_SUFFIXES[0])
        spec = spec_from_file_location(".".join(["numba", *names]), path)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= {name if name.startswith("_") else prefix + name: at for name, at in module.c_helpers.items()}
    return found


def load(image, code):
    """Loads an image into memory. Returns the address of its entry. image, code: as from `compiling.image_of`."""
    memory, rest = mmap.mmap(-1, image["size"]), len(code) - 8 * image["local"]
    memory[:rest] = code[:rest]
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for place in memoryview(code)[rest:].cast("q"):
        add_to(memory, place, begin)
    for name, places in image["outside"].items():
        for place in places:
            add_to(memory, place, address_of(name))
    if process().mprotect(begin, image["fixed"], mmap.PROT_READ | mmap.PROT_EXEC):
        raise MemoryError("the system lets no kernel run")
    LOADED.append(memory)
    return begin + image["entry"]


def add_to(memory, place, number):
    """Adds `number` to the number in the eight bytes at a place, in place."""
    NUMBER.pack_into(memory, place, (NUMBER.unpack_from(memory, place)[0] + number) % 2**64)


def native(name, address, parameters, results, nogil=True):
    """A Python function that calls the machine code at `address`. parameters: types of ctypes; results: as from
    `compiling.compiled`; nogil: whether it releases Python's lock.
    """
    kind = ctypes.CFUNCTYPE if nogil else ctypes.PYFUNCTYPE
    take = kind(ctypes.c_int64, *parameters, ctypes.c_void_p)(address)
    one = isinstance(results, str)
    read = Struct(results if one else results[0])
    Room = ctypes.c_char * read.size

    def call(*values):
        room = Room()
        if not take(*values, room):
            raise MemoryError(f"{name}: no room for what it works in")
        found = read.unpack(room)
        return found[0] if one else found or None

    return call


@cache
def process():
    """The libraries of this process, for look-ups by name."""
    library = ctypes.CDLL(None)
    library.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return library


def address_of(name):
    """The address of a function or variable of the process or of numba's runtime. Raises ValueError."""
    found = here(name) or runtime().get(name)
    if not found:
        raise ValueError(f"no {name} here")
    return found


def here(name):
    """The address of a function or variable of the process, or None."""
    with suppress(ValueError):
        return ctypes.addressof(ctypes.c_char.in_dll(process(), name))
    return None
