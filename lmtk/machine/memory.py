"""What memory is left under a limit of the address space (ulimit -v). Libraries that meet it end the process, or print
what is no line of ours; so what they take is looked for before.
"""

import os
import resource

MB = 1 << 20
NUMPY, NUMBA, KERNEL = 90 * MB, 240 * MB, 64 * MB  # what they add: to import them, to compile a kernel
BUFFER = 48 * MB  # of OpenBLAS for a thread, and the thread's stack


def room():
    """The bytes that are left, None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        with open("/proc/self/statm", "rb") as stream:
            pages = int(stream.read().split()[0])
    except OSError:
        return None
    return limit - pages * os.sysconf("SC_PAGE_SIZE")


def need(size, what):
    """Raise MemoryError where so many bytes are not left."""
    left = room()
    if left is not None and left < size:
        raise MemoryError(f"{what} wants {size // MB} MB, and ulimit -v leaves {max(left, 0) // MB}")
