"""The memory that is left under a limit of the address space (ulimit -v), malloc's settings, and arrays in files.

A library that reaches the limit ends the process, or prints an error of its own. So under a limit a library is first
loaded by a child process. Jobs with bounded memory (-memory) keep arrays in files.
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


def room():
    """The bytes that are left under the limit, or None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        with open(STATM, "rb") as stream:
            pages = int(stream.read().split()[0])
    except OSError:
        return None
    return limit - pages * os.sysconf("SC_PAGE_SIZE")


def try_out(work, name):
    """Under a memory limit, run `work` in a child process first. Raises MemoryError if that process fails. name: of
    the work, for the message.
    """
    left = room()
    if left is None:
        return
    child = os.fork()
    if child == 0:
        status = 1
        try:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1), os.dup2(nothing, 2)
            work()
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        raise MemoryError(f"{name} needs more than the {max(left, 0) // MB} MB that ulimit -v leaves")


ARENA_MAX, MMAP_MAX, MMAP_THRESHOLD, TOP_PAD, TRIM_THRESHOLD = -8, -4, -3, -2, -1  # of malloc.h
HUGEPAGE = 14  # of mman.h


def set_malloc(options):
    """Sets malloc's options {M_..: value}, if the C library has mallopt."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in options.items():
            mallopt(option, value)


def keep():
    """Lets the process keep freed arrays of up to 32 MB for later ones: the first touch of fresh memory costs as much
    as a matrix product, or as reading its content.
    """
    set_malloc({MMAP_THRESHOLD: 32 * MB, TRIM_THRESHOLD: 1024 * MB})


def keep_all():
    """Lets the process keep all freed memory for later arrays, unless there is a limit. This is for commands, which end
    when they are done. The first touch of memory takes 1 or 2 s a GB.
    """
    if room() is None:
        set_malloc({MMAP_MAX: 0, ARENA_MAX: 1, TRIM_THRESHOLD: -1, TOP_PAD: 64 * MB})


def trim():
    """Gives freed memory back to the system, as far as malloc can; by itself, it keeps freed arrays of up to 32 MB."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def give_back(array):
    """Gives the whole pages of an array back to the system, if possible. Its numbers are undefined afterwards."""
    import ctypes

    page, begin = os.sysconf("SC_PAGE_SIZE"), array.__array_interface__["data"][0]
    first, last = -(-begin // page) * page, (begin + array.nbytes) // page * page
    with contextlib.suppress(OSError, AttributeError):
        if last > first:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_DONTNEED)


bound, mapped, watch = None, [], None  # bytes of `limit_memory`; weak references to mapped files; thread of `let_go`
SMALL = 1 << 20  # bytes; an array up to this size is in memory all the same
MOMENT = 0.005  # seconds between two checks of `let_go`
BESIDES = 90 << 20  # bytes of the program itself, in addition to the bound
STATM = "/proc/self/statm"


def limit_memory(size):
    """From now on, `zeros` makes large arrays in files, and the process keeps so few of their pages that its memory is
    about `size` bytes plus BESIDES. Does nothing on systems other than Linux.
    """
    global bound, watch
    if not os.path.exists(STATM):
        return
    trim()
    bound = size + BESIDES
    if watch is None or not watch.is_alive():  # a forked process does not have its parent's threads
        watch = Thread(target=let_go, daemon=True)
        watch.start()


def temporary_file(**how):
    """A file without a name in the folder of temporary files. Raises LmtkError if TMPDIR does not name a folder: Python
    would silently take another.
    """
    import tempfile  # its import takes as long as most of a small job

    return tempfile.TemporaryFile(prefix="lmtk-", dir=temporary_folder(), **how)


@contextlib.contextmanager
def named_file():
    """Yields (an empty temporary file, a name by which this process can open it). Where the system has /proc, the file
    is in no folder, so that it goes with the process even if the process is killed.
    """
    import tempfile

    if os.path.isdir("/proc/self/fd"):
        with temporary_file() as file:
            yield file, f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(prefix="lmtk-", dir=temporary_folder()) as file:
            yield file, file.name


def temporary_folder():
    import tempfile

    named = os.environ.get("TMPDIR")
    if named and not (os.path.isdir(named) and os.access(named, os.W_OK | os.X_OK)):
        raise LmtkError(f"TMPDIR is {named}, where no files can be created; set TMPDIR to another folder")
    return tempfile.gettempdir()


def zeros(size, kind):
    """(size,) zeros; if memory is bounded, a large array is in a file without a name. Raises OSError, naming the folder
    of temporary files, if the disk is full.
    """
    import numpy as np

    length = size * np.dtype(kind).itemsize
    if bound is None or length < SMALL:
        return np.zeros(size, kind)
    with temporary_file() as file:
        try:
            os.posix_fallocate(file.fileno(), 0, length)  # else a page without room on the disk would end the process
        except OSError as e:
            e.filename = temporary_folder()
            raise
        return array_of(file, kind)


def array_of(file, kind, access=mmap.ACCESS_WRITE):
    """(N,): the content of a file, mapped. Its pages are among those that `limit_memory` bounds."""
    import numpy as np

    pages = mmap.mmap(file.fileno(), 0, access=access)
    mapped.append(ref(pages, mapped.remove))
    return np.frombuffer(pages, kind)


def let_go():
    """Takes all pages of mapped files from this process whenever it has too many. They stay in the system's cache as
    long as there is room, and come back when they are used. This function never returns.
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
