"""The machine code of kernels: loaded by llvmlite, without numba, and called as built-in functions."""

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

from lmtk.machine import memory

METH_FASTCALL = 0x80  # of Python's methodobject.h


def package_file(package, *names):
    """The path of a file of a package. The package is not imported."""
    return os.path.join(os.path.dirname(find_spec(package).origin), *names)


@cache
def runtime():
    """{name: address} of the functions of numba that compiled code calls: memory for arrays, and errors. They are in
    two C modules, which load without the rest of numba.
    """
    functions = {}
    for prefix, *folders, name in (("NRT_", "core", "runtime", "_nrt_python"), ("numba_", "_helperlib")):
        spec = PathFinder.find_spec(".".join(["numba", *folders, name]), [package_file("numba", *folders)])
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        functions |= {name if name.startswith("_") else prefix + name: at for name, at in module.c_helpers.items()}
    return functions


@cache
def is_usable():
    """Whether the machine code that `compiling` makes can be loaded here. Otherwise `fallback` runs the kernels."""
    with suppress(OSError, ImportError, AttributeError):
        is_linux = sys.platform == "linux" and os.uname().machine == "x86_64"
        return is_linux and "NUMBA_BOUNDSCHECK" not in os.environ and bool(runtime())
    return False


@cache
def linker():
    """(LLVM's linker, its class for object files)."""
    llvm = memory.try_out(lambda: import_module("llvmlite.binding"), "llvmlite")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name, address in runtime().items():
        llvm.add_symbol(name, address)
    processor = llvm.Target.from_default_triple().create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), processor), llvm.ObjectFileRef


class Definition(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def load(name, entry, code):
    """The built-in function of Python whose code is `entry`, a name that no other file has, in an object file, as from
    `compiling.compiled`.
    """
    linked, file = linker()
    linked.add_object_file(file.from_data(code))
    linked.finalize_object()
    definition = Definition(name.encode(), linked.get_function_address(entry), METH_FASTCALL)
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    # the definition is the function's module too, so that it lives as long as the function
    return new(("PyCFunction_NewEx", ctypes.pythonapi))(ctypes.addressof(definition), MemoryError, definition)
