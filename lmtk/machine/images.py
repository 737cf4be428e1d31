"""Machine code of kernels as images: the cache that keeps them, and how they come into memory. Nothing here needs
numpy, so that a kernel of which it is known where its image stands may run before that is imported.
"""

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

try:
    from _blake2 import blake2b  # hashlib imports OpenSSL first
except ImportError:
    from hashlib import blake2b

DIGEST = 16  # bytes
# modules of this package that all kernels depend on
PARTS = "jit", "images", "objects", "compiling", "unaligned", "calling"
NUMBER = Struct("<Q")
LOADED = []  # the code in them lives as long as they do


def digest(data):
    return blake2b(data, digest_size=DIGEST).digest()


@cache
def cache_folder():
    """A folder for compiled kernels: NUMBA_CACHE_DIR, else the user's cache, else a temporary one, else none.

    Not beside the source: what pip did not install there, it would not remove either.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    home = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lmtk")
    if usable(named or home, named):
        return named or home
    import tempfile

    folder = os.path.join(tempfile.gettempdir(), f"lmtk-{os.getuid()}")
    return folder if not named and usable(folder) else None


def usable(folder, named=None):
    """Whether a folder, which is made if need be, can have files, and is the user's: what is in it will be run."""
    with suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return bool(named or os.stat(folder).st_uid == os.getuid()) and os.access(folder, os.W_OK | os.X_OK)
    return False


@cache
def machine():
    """The processor, the versions of Python and numba, and what this package gives all kernels."""
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
    """What the system says of the first processor, but for what changes from day to day."""
    with open("/proc/cpuinfo", "rb") as file:
        first = file.read(1 << 14).partition(b"\n\n")[0]
    names = rb"vendor_id|cpu family|model|stepping|flags|CPU .*|Features"
    return re.findall(rb"(?m)^(?:%s)[ \t]*:.*" % names, first)


def saved(path):
    """What `compiling.compiled` gave, in a file of the cache; None where there is no whole one."""
    with suppress(OSError, ValueError):
        data = content(path)
        if digest(data[DIGEST:]) == data[:DIGEST]:
            line, _, code = data[DIGEST:].partition(b"\n")
            return *json.loads(line), code
    return None


def save(path, about, results, code):
    import tempfile  # as long to import as a kernel to load

    data = json.dumps([about, results]).encode() + b"\n" + code
    with suppress(OSError), tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        part = os.path.join(folder, os.path.basename(path))
        with open(part, "wb") as file:
            file.write(digest(data) + data)
        os.replace(part, path)


def images_of(place, folder):
    """{name of a kernel: what is saved of it} by a file that says where; None where something is not there."""
    files, *_ = saved(place) or [{"": ""}]
    images = {name: saved(os.path.join(folder, file)) for name, file in files.items()}
    return images if all(images.values()) else None


def package_file(package, *names):
    """A file of a package, which is not imported for it."""
    return os.path.join(os.path.dirname(find_spec(package).origin), *names)


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


def load(image, code):
    """The address of an Image's entry, now in memory; code: as `compiling.image_of` has it."""
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
    """The eight bytes at a place, as a number, and `number`; in place."""
    NUMBER.pack_into(memory, place, (NUMBER.unpack_from(memory, place)[0] + number) % 2**64)


def native(name, address, parameters, results, nogil=True):
    """Python's call of the machine code at `address`; parameters: ctypes' types; results: as `compiled` has them."""
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
    """What is in this process, by its names."""
    library = ctypes.CDLL(None)
    library.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return library


def address_of(name):
    """Where a function or variable of numba's runtime or of the process is. Raises ValueError."""
    found = here(name) or runtime().get(name)
    if not found:
        raise ValueError(f"no {name} here")
    return found


def here(name):
    """Where the process has a function or variable; None where it has none."""
    with suppress(ValueError):
        return ctypes.addressof(ctypes.c_char.in_dll(process(), name))
    return None
