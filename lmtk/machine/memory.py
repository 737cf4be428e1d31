"""What memory is left under a limit of the address space (ulimit -v). Libraries that meet it end the process, or print
what is no line of ours; so what they take is looked for before.
"""

import os
import resource

MB = 1 << 20
NUMPY, NUMBA, KERNEL = 90 * MB, 240 * MB, 64 * MB  # what they add: to import them, to compile a kernel
MMAP_THRESHOLD, TRIM_THRESHOLD, ARENA_MAX = -3, -1, -8  # of glibc's mallopt
HUGEPAGE, POPULATE = 14, 23  # of Linux' madvise
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


def prepare(size):
    """Have a thread touch so many bytes, which later arrays are made of, while this one imports: memory that is touched
    for the first time takes 2 s a GB. What is freed from here on stays with the process. Where malloc is not glibc's,
    or little memory is left, nothing happens.
    """
    import ctypes
    from threading import Thread

    libc, left = ctypes.CDLL(None), room()
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if not hasattr(libc, "mallopt") or free < 4 * size or (left is not None and left < 16 * size):
        return
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mallopt(MMAP_THRESHOLD, 1 << 30)
    libc.mallopt(TRIM_THRESHOLD, (1 << 31) - 1)
    libc.mallopt(ARENA_MAX, 1)

    def touch():
        begin = libc.malloc(size)
        page = 2 * MB
        if begin:
            first, last = -(-begin // page) * page, (begin + size) // page * page
            libc.madvise(first, last - first, HUGEPAGE)
            libc.madvise(first, last - first, POPULATE)
            libc.free(begin)

    Thread(target=touch, daemon=True).start()
