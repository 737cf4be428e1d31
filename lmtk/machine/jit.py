"""numba's njit for every kernel of ours, with its cache in a folder that can be written."""

import os
import sys
import tempfile
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from lmtk.machine import memory


def cache_folder():
    """A folder for compiled kernels: numba's own choice, else the user's cache, else a temporary one, else none.

    Not beside the source: what pip did not install there, it would not remove either.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return os.environ["NUMBA_CACHE_DIR"]
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "lmtk"
    for folder in (home, Path(tempfile.gettempdir()) / f"lmtk-{os.getuid()}"):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.stat().st_uid == os.getuid():  # what is in it will be run
                with tempfile.TemporaryFile(dir=folder):
                    return str(folder)
        except OSError:
            continue
    return None


def jit(function=None, **settings):
    """`numba.njit` with nogil, numpy's error model (division by zero gives inf) and a cache where there can be one.

    numba is imported at the first call, so that a small job that calls no kernel does not pay for it.
    """
    if function is None:
        return partial(jit, **settings)
    compiled = None

    def dispatcher():
        nonlocal compiled
        if compiled is None:
            compiled = compile_later(function, settings)
        return compiled

    @wraps(function)
    def call(*arguments):
        return dispatcher()(*arguments)

    call.dispatcher = dispatcher
    return call


# of a kernel that others call for each item: else its arrays are taken apart at each call, and counted
inlined = partial(jit, _nrt=False, forceinline=True)


def of_numba(module, name):
    """A function of numba's for kernels to call; it is imported with numba."""
    return SimpleNamespace(dispatcher=lambda: getattr(import_module(module), name))


def pointers():
    """For kernels: pointer_to(address, np.int32), of which numba's carray makes an array."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def pointer_to(typing, address, kind):
        def build(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind.instance_type)(address, kind), build

    return pointer_to


pointer_to = SimpleNamespace(dispatcher=pointers)
carray = of_numba("numba", "carray")


def compile_later(function, settings):
    """The function as numba's dispatcher, which compiles it for the types of its first call."""
    if "numba" in sys.modules:
        memory.need(memory.KERNEL, "a compiled kernel")
    else:
        memory.need(memory.NUMBA, "numba")
    import numba

    folder = cache_folder()
    if folder:
        numba.config.CACHE_DIR = folder
    usual = {"nogil": True, "error_model": "numpy", "cache": folder is not None}
    compiled = numba.njit(**usual | settings)(function)
    cache = getattr(compiled, "_cache", None)
    if hasattr(cache, "_load_overload") and hasattr(cache, "_guard_against_spurious_io_errors"):
        cache.load_overload = partial(loaded, cache, function)
    else:
        name_kernels(function)
    return compiled


def loaded(cache, function, signature, context):
    """The machine code in numba's cache, or None. numba's own function readies all for compiling first, which takes
    twice the time of importing numba (0.2 s); here that waits for the first kernel that is not in the cache.
    """
    from numba.core.runtime import rtsys

    rtsys.initialize(context)
    with cache._guard_against_spurious_io_errors():
        found = cache._load_overload(signature, context)
    if found is None:
        name_kernels(function)
    return found


def name_kernels(function):
    """The names in a kernel become numba's of the kernels that it calls, those of its module: the cache does not see
    changes in other modules.
    """
    for name in function.__code__.co_names:
        if inner := getattr(function.__globals__.get(name), "dispatcher", None):
            function.__globals__[name] = inner()
