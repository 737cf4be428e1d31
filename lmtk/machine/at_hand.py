"""Kernels whose images are known to be in the cache, so that they can run before numpy is imported."""

import ctypes
import os
import sys
from importlib import import_module

from lmtk.machine.images import cache_folder, digest, images_of, load, machine, native, save, stamps

PACKAGE = os.path.dirname(os.path.dirname(__file__))


def at_hand(module, sizes, sources):
    """{name: function} for `sealed` kernels of a module, which take only whole numbers; sizes: {name: how many}. None
    if the system has no images.

    If their images are in the cache, neither the module nor numpy is imported. sources: the files whose code is in the
    images; `stamps` tells whether they are unchanged.
    """
    folder = cache_folder()
    if not folder or sys.platform != "linux" or "NUMBA_BOUNDSCHECK" in os.environ:
        return None
    told = repr((machine(), sizes, stamps(os.path.join(PACKAGE, source) for source in sources)))
    place = os.path.join(folder, f"{module}-{digest(told.encode()).hex()}")
    images = images_of(place, folder)
    if images is None:
        from lmtk.machine import jit, objects

        if not objects.by_objects():
            return None
        kinds = {getattr(import_module(module), name): (int,) * size for name, size in sizes.items()}
        for kernel, kind in kinds.items():
            jit.code_for(kernel, kind)
        save(place, {kernel.__name__: jit.file_of(kernel, kind) for kernel, kind in kinds.items()}, "", b"")
        images = images_of(place, folder)
    if images is None or not all(isinstance(about, dict) for about, *_ in images.values()):
        return None
    return {
        name: native(name, load(about, code), [ctypes.c_int64] * sizes[name], results)
        for name, (about, results, code) in images.items()
    }
