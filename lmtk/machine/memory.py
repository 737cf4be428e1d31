"""The memory that is left under a limit of the address space (ulimit -v), and malloc's settings.

A library that reaches the limit ends the process or prints errors, so a child process loads it first under a limit.
"""

import contextlib
import os
import resource

MB = 1 << 20
STATM = "/proc/self/statm"  # the sizes of this process, in pages
ARENA_MAX, MMAP_MAX, MMAP_THRESHOLD, TOP_PAD, TRIM_THRESHOLD = -8, -4, -3, -2, -1  # of malloc.h


def room():
    """The bytes that are left under the limit, or None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        with contextlib.suppress(OSError), open(STATM, "rb") as stream:
            return limit - int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return None


def try_out(work, name):
    """The result of work(), which messages call `name`. Under a memory limit, a child process does the work first.
    Raises MemoryError if it fails there.
    """
    left = room()
    if left is None:
        return work()
    child = os.fork()
    if child == 0:
        try:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1), os.dup2(nothing, 2)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        raise MemoryError(f"{name} needs more than the {max(left, 0) // MB} MB that ulimit -v leaves")
    return work()


def set_malloc(options):
    """Sets malloc's options {M_..: value}, if the C library has mallopt."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in options.items():
            mallopt(option, value)


def keep():
    """Lets the process keep freed arrays of up to 32 MB for later ones: the first touch of fresh memory is slow."""
    set_malloc({MMAP_THRESHOLD: 32 * MB, TRIM_THRESHOLD: 1024 * MB})


def keep_all():
    """Lets the process keep all freed memory for later arrays, unless there is a limit. This is for commands, which end
    when they are done. The first touch of memory takes 1 or 2 s a GB.
    """
    if room() is None:
        set_malloc({MMAP_MAX: 0, ARENA_MAX: 1, TRIM_THRESHOLD: -1, TOP_PAD: 64 * MB})
