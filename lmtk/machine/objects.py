"""Loads object files into memory by llvmlite, on systems without images."""

import os
import sys
from contextlib import suppress
from functools import cache

from lmtk.machine import memory
from lmtk.machine.images import LOADED, runtime


@cache
def llvmlite():
    memory.need(memory.LLVM, "llvmlite")
    import llvmlite.binding

    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    return llvmlite.binding


@cache
def by_objects():
    """Whether this package can load kernels; otherwise numba itself runs them. Loading needs Linux, numba's runtime,
    and x86-64 or a llvmlite that loads object files.
    """
    if sys.platform != "linux" or "NUMBA_BOUNDSCHECK" in os.environ:
        return False
    with suppress(OSError, ImportError, AttributeError):
        return bool(runtime()) and (os.uname().machine == "x86_64" or hasattr(llvmlite(), "JITLibraryBuilder"))
    return False


@cache
def linker():
    return llvmlite().create_lljit_compiler()


def link(name, symbol, code):
    """Loads an object file into memory. Returns the address of its `symbol`."""
    library = llvmlite().JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
    for known, address in runtime().items():
        library.import_symbol(known, address)
    LOADED.append(library.link(linker(), name))
    return LOADED[-1][symbol]
