"""What memory is left under a limit of the address space (ulimit -v). Libraries that meet it end the process, or print
what is no line of ours; so room for them is looked for before they are loaded. And arrays in files, for jobs whose
memory is bounded.
"""

import contextlib
import mmap
import os
import resource
import time
from threading import Thread
from weakref import ref

from lmtk.errors import LmtkError

MB = 1 << 20
# what they add: to import them, to compile a kernel
NUMPY, LLVM, NUMBA, KERNEL = 90 * MB, 160 * MB, 240 * MB, 64 * MB
BUFFER = 48 * MB  # of OpenBLAS for a thread, and the thread's stack


def room():
    """The bytes that are left, None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        with open(STATM, "rb") as stream:
            pages = int(stream.read().split()[0])
    except OSError:
        return None
    return limit - pages * os.sysconf("SC_PAGE_SIZE")


def need(size, what):
    """Raise MemoryError where so many bytes are not left."""
    left = room()
    if left is not None and left < size:
        raise MemoryError(f"{what} wants {size // MB} MB, and ulimit -v leaves {max(left, 0) // MB}")


ARENA_MAX, MMAP_MAX, MMAP_THRESHOLD, TOP_PAD, TRIM_THRESHOLD = -8, -4, -3, -2, -1  # of malloc.h
HUGEPAGE = 14  # of mman.h


def set_malloc(options):
    """Sets malloc's options {M_..: value} where there are such, which are of Linux and its C library."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in options.items():
            mallopt(option, value)


def keep():
    """Freed arrays of up to 32 MB stay with the process: the first touch of fresh memory costs as much as a
    product, or as reading what comes into it.
    """
    set_malloc({MMAP_THRESHOLD: 32 * MB, TRIM_THRESHOLD: 1024 * MB})


def keep_all():
    """All that is freed stays with the process, for its next arrays: for commands, which end when they are done. The
    first touch of memory takes 1 s/GB, or 2. Not under a limit.
    """
    if room() is None:
        set_malloc({MMAP_MAX: 0, ARENA_MAX: 1, TRIM_THRESHOLD: -1, TOP_PAD: 64 * MB})


def trim():
    """Gives memory that was freed back to the system, where malloc can; it keeps arrays of up to 32 MB."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def give_back(array):
    """Gives the whole pages of an array back to the system, where that can be: what it holds is not said afterwards."""
    import ctypes

    page, begin = os.sysconf("SC_PAGE_SIZE"), array.__array_interface__["data"][0]
    first, last = -(-begin // page) * page, (begin + array.nbytes) // page * page
    with contextlib.suppress(OSError, AttributeError):
        if last > first:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_DONTNEED)


bound, mapped, watch = None, [], None  # as `at_most` was told; the files of arrays; the thread that looks after them
SMALL = 1 << 20  # bytes up to which an array is in memory all the same
MOMENT = 0.005  # seconds
BESIDES = 90 << 20  # bytes that the program has, whatever the bound
STATM = "/proc/self/statm"


def at_most(size):
    """From here on large arrays that `zeros` makes are in files, of whose pages this process has only so many at once
    that its memory comes to `size` bytes and BESIDES, about. Nothing happens where this is not Linux.
    """
    global bound, watch
    if not os.path.exists(STATM):
        return
    trim()
    bound = size + BESIDES
    if watch is None:
        watch = Thread(target=let_go, daemon=True)
        watch.start()


def temporary_file(**how):
    """A file without a name in the folder of temporary files. Raises LmtkError where TMPDIR names none: Python would
    take another in silence.
    """
    import tempfile  # as long to import as most of what a small job does

    return tempfile.TemporaryFile(prefix="lmtk-", dir=temporary_folder(), **how)


def temporary_folder():
    import tempfile

    named = os.environ.get("TMPDIR")
    if named and not (os.path.isdir(named) and os.access(named, os.W_OK | os.X_OK)):
        raise LmtkError(f"TMPDIR, {named}, is no folder in which files can be made")
    return tempfile.gettempdir()


def zeros(size, kind):
    """(size,) zeros; where memory is bounded, in a file without a name. Raises OSError, of the folder of temporary
    files, where the disk is full.
    """
    import numpy as np

    length = size * np.dtype(kind).itemsize
    if bound is None or length < SMALL:
        return np.zeros(size, kind)
    with temporary_file() as file:
        try:
            os.posix_fallocate(file.fileno(), 0, length)  # a page that the disk has no room for ends the process
        except OSError as e:
            e.filename = temporary_folder()
            raise
        return array_of(file, kind)


def array_of(file, kind, access=mmap.ACCESS_WRITE):
    """(N,), what a file holds, mapped; its pages are among those that `at_most` bounds."""
    import numpy as np

    pages = mmap.mmap(file.fileno(), 0, access=access)
    mapped.append(ref(pages, mapped.remove))
    return np.frombuffer(pages, kind)


def let_go():
    """Takes all pages of files from this process whenever it has too many: they stay in the system's cache as long as
    there is room, and come back when they are looked at.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    with open(STATM, "rb", buffering=0) as statm:
        while True:
            time.sleep(MOMENT)
            statm.seek(0)
            most = bound
            if most and int(statm.read().split()[1]) * page > most:
                for file in [*mapped]:
                    if (pages := file()) is not None:
                        pages.madvise(mmap.MADV_DONTNEED)
                    del pages
