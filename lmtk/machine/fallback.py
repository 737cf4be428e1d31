"""Kernels by public parts of numba alone, with numba's own cache: on systems, and for versions of numba, for which
`compiling` does not work. The first call of a kernel takes longer in each process, since numba has to be imported.
"""

import numba

from lmtk.machine.jit import dispatcher_of
from lmtk.machine.kernel_cache import folder_for_numba


def for_python(kernel):
    """numba's function for a kernel, to be called by Python. numba's cache does not see changes in other modules."""
    if folder := folder_for_numba():
        numba.config.CACHE_DIR = folder
    return dispatcher_of(kernel, is_public=True, cache=folder is not None)
