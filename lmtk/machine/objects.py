"""Object files into memory by llvmlite, where there are no images."""

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
    """Whether the system, llvmlite and numba are as this module knows them; else numba itself runs the kernels."""
    if sys.platform != "linux" or "NUMBA_BOUNDSCHECK" in os.environ:
        return False
    with suppress(OSError, ImportError, AttributeError):
        return bool(runtime()) and (os.uname().machine == "x86_64" or hasattr(llvmlite(), "JITLibraryBuilder"))
    return False


@cache
def linker():
    return llvmlite().create_lljit_compiler()


def link(name, symbol, code):
    """The address of a symbol of an object file, now in memory."""
    library = llvmlite().JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
    for known, address in runtime().items():
        library.import_symbol(known, address)
    LOADED.append(library.link(linker(), name))
    return LOADED[-1][symbol]
