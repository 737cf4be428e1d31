"""Memory that a job gives back to the system, temporary files, and arrays in temporary files (-memory).

After `limit_memory`, `zeros` makes large arrays in files. When the process has too much memory, a thread, `drop_pages`,
drops pages of mapped files from the process.
"""

import contextlib
import mmap
import os
import time
from threading import Thread
from weakref import ref

from lmtk.errors import LmtkError
from lmtk.machine.memory import STATM

bound = None  # bytes: the greatest memory of the process, set by `limit_memory`
mapped = []  # weak references to mapped files
watch = None  # the thread of `drop_pages`
SMALL = 1 << 20  # bytes; an array below this size stays in memory
MOMENT = 0.005  # seconds between two checks of `drop_pages`
PARTS = 8  # of a mapped file, which are dropped one after the other
BESIDES = 90 << 20  # bytes of the program itself, in addition to the bound


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
        watch = Thread(target=drop_pages, daemon=True)
        watch.start()


def temporary_file(**options):
    """A file without a name in the folder of temporary files. Raises LmtkError if no file can be created in TMPDIR:
    Python would silently choose another folder.
    """
    import tempfile  # its import takes as long as most of a small job

    return tempfile.TemporaryFile(prefix="lmtk-", dir=temporary_folder(), **options)


@contextlib.contextmanager
def named_file():
    """Yields (an empty temporary file, a name by which this process can open it). If the system has /proc, the file is
    in no folder, so that it disappears with the process even if the process is killed.
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


@contextlib.contextmanager
def naming_folder():
    """Lets an OSError of a block, such as that of a full disk, name the folder of temporary files, unless it names a
    file already.
    """
    try:
        yield
    except OSError as e:
        e.filename = e.filename or temporary_folder()
        raise


def zeros(size, kind):
    """(size,) zeros; if memory is bounded, a large array is in a file without a name. Raises OSError, naming the folder
    of temporary files, if the disk is full.
    """
    import numpy as np

    length = size * np.dtype(kind).itemsize
    if bound is None or length < SMALL:
        return np.zeros(size, kind)
    with temporary_file() as file:
        with naming_folder():
            os.posix_fallocate(file.fileno(), 0, length)  # else a full disk would kill the process later
        return array_of(file, kind)


def array_of(file, kind, access=mmap.ACCESS_WRITE):
    """(N,): the content of a file, mapped. Its pages are among those that `limit_memory` bounds."""
    import numpy as np

    pages = mmap.mmap(file.fileno(), 0, access=access)
    mapped.append(ref(pages, mapped.remove))
    return np.frombuffer(pages, kind)


def drop_pages():
    """Drops pages of mapped files from this process while its memory is above the bound, a part of each file at a time,
    and gives back freed memory after each round. The pages stay in the system's cache as long as there is room, and
    come back when they are used. This function never returns.
    """
    page, part = os.sysconf("SC_PAGE_SIZE"), 0
    with open(STATM, "rb", buffering=0) as statm:
        while True:
            time.sleep(MOMENT)
            statm.seek(0)
            most = bound
            if most and int(statm.read().split()[1]) * page > most:
                for file in [*mapped]:
                    if (pages := file()) is not None:
                        size = -(-len(pages) // (PARTS * page)) * page
                        if part * size < len(pages):
                            pages.madvise(mmap.MADV_DONTNEED, part * size, size)
                    del pages
                part = (part + 1) % PARTS
                if part == 0:
                    trim()


def trim():
    """Gives freed memory back to the system, as far as possible. By itself, malloc keeps freed arrays up to 32 MB."""
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
