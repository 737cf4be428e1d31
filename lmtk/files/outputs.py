"""Open files for writing: "-" is stdout, the suffix chooses the compression, and outputs appear whole or not at all.

`open_out` writes to a temporary file beside the output, and renames it when the block ends without an error; devices,
FIFOs and open files are written in place. `open_folder` does the same for a folder of files. A temporary file is locked
while its process lives, so that the next process can remove the files of killed ones (`clear_away`).
"""

import errno
import io
import os
import re
import stat
import sys
import time
from _thread import get_native_id  # threading takes longer to import
from contextlib import contextmanager, nullcontext, suppress
from functools import cache

from lmtk.files.inputs import zstd_module

STDOUT = "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"  # may be a file that others write to as well
OPEN = re.compile(r"/dev/stderr|/(?:dev|proc/self)/fd/(\d{1,9})")  # names of other open files
EARLY = 16 << 20  # bytes that are written before they are sent to the disk
SYNC_FILE_RANGE_WRITE = 2  # of fcntl.h
SUFFIX = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}


class Output(io.FileIO):
    """An output file. `container.map_output` may map parts of the file into memory.

    early: whether bytes go to the disk while the file is written. Otherwise, renaming the file over another one waits
    until the system has found room on the disk for the whole file, half a second for each GB.
    """

    def __init__(self, *arguments, early=False):
        super().__init__(*arguments)
        self.mappings = []  # from container.map_output
        self.early, self.waiting = early, 0

    def write(self, data):
        size = super().write(data)
        self.waiting += size * self.early
        if self.waiting >= EARLY:
            self.waiting = 0
            begin_writing(self.fileno())
        return size


def begin_writing(number):
    """Ask the system, if possible, to start writing the pages of an open file to the disk. Does not wait."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).sync_file_range(number, ctypes.c_int64(0), ctypes.c_int64(0), SYNC_FILE_RANGE_WRITE)


def compression(path):
    """The kind of compression that the suffix of an output file chooses, or None."""
    return SUFFIX.get(os.path.splitext(path)[1])


def compress(raw, kind):
    """A stream that compresses bytes into `raw`."""
    import bz2
    import gzip
    import lzma

    if kind == "gzip":
        # level 1 is 10 times faster than 9 for a tenth more bytes; no name and no time stamp: same input, same bytes
        return gzip.GzipFile("", "wb", 1, raw, mtime=0)
    if kind == "bz2":
        return bz2.BZ2File(raw, "wb")
    if kind == "xz":
        return lzma.LZMAFile(raw, "wb", preset=1)
    return zstd_module().ZstdFile(raw, "wb")


def descriptor_of(path):
    """The number of the open file that a name such as /dev/stderr or /dev/fd/3 stands for, or None.

    The open file may be a regular file to which other programs write, too, so a rename must not replace it.
    """
    match = OPEN.fullmatch(os.fspath(path))
    return match and int(match[1] or 2)


def is_written_in_place(path):
    """Whether `path` is stdout, another open file, a device or a FIFO, which a rename must not replace."""
    try:
        return path in STDOUT or descriptor_of(path) is not None or not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def temporary_name(path):
    """The name under which `path` is written until it is complete: beside it, or beside the file that it links to.
    Raises IsADirectoryError for a path that ends in a slash, since `os.path.realpath` would drop the slash.
    """
    if not os.path.basename(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return f"{os.path.realpath(path)}{temporary_suffix()}{get_native_id()}"


def temporary_suffix():
    """The part of a temporary name between the name of the file and the number of the thread that writes it.

    It contains the name of the host: on a shared disk, a host does not know the processes of other hosts.
    """
    return f".tmp.{os.uname().nodename[:32]}."


@cache
def list_temporaries(folder):
    """The names in a folder that can be temporary files of this host, at the time of the first call."""
    with suppress(OSError):
        return [name for name in os.listdir(folder) if temporary_suffix() in name]
    return []


def clear_away(temporary):
    """Remove the unlocked temporary files and folders of the same output, which killed processes have left behind."""
    folder, name = os.path.split(temporary.removesuffix(str(get_native_id())))
    for other in list_temporaries(folder):
        if other.startswith(name) and other[len(name) :].isdigit():
            other = os.path.join(folder, other)
            with suppress(OSError):
                number = os.open(other, os.O_RDONLY)
                try:
                    lock(number)
                    remove_folder(other) if os.path.isdir(other) else os.unlink(other)
                finally:
                    os.close(number)


def remove_folder(path):
    import shutil  # its import takes as long as reading a small file

    shutil.rmtree(path, ignore_errors=True)


def lock(number):
    """Lock an open file or folder until this process ends. Raises OSError if another process has the lock."""
    import fcntl

    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)


def create_locked(temporary, early=False):
    """Create an Output in a buffer, locked so that no other process removes it."""
    clear_away(temporary)
    while True:
        raw = io.BufferedWriter(Output(temporary, "wb+", early=early))
        try:
            lock(raw.fileno())
        except BlockingIOError:
            time.sleep(0.01)  # another process is about to clear it away
        except OSError:
            return raw  # on a file system without locks, nothing is cleared away
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(raw.fileno()), os.stat(temporary)):
                return raw
        raw.close()


def open_in_place(path):
    """A stream that writes to a file, a device or a FIFO under its own name, or to an open file."""
    number = descriptor_of(path)
    return open(path if number is None else os.dup(number), "wb")


def check_output(path):
    """Raise OSError or UsageError now if `open_out(path)` would later, before any long work is done."""
    if path in STDOUT:
        return
    if compression(path) == "zstd":
        zstd_module()
    try:
        if (number := descriptor_of(path)) is not None:
            os.fstat(number)
        elif not is_written_in_place(path):
            temporary = temporary_name(path)
            try:
                create_locked(temporary).close()
            finally:  # also if a signal ends the job here
                with suppress(OSError):
                    os.unlink(temporary)
    except OSError as e:
        e.filename = path
        if e.errno == errno.ENOENT:
            e.strerror = "the folder does not exist"
        raise


@contextmanager
def open_out(path, lasting=False):
    """Open `path` for writing bytes ("-": stdout). A regular file appears, complete, when the block ends without an
    error.

    lasting: the file is on the disk before it appears, and so is complete even if the power fails. A device, a FIFO or
    a file that is already open (`descriptor_of`) is written in place. The suffix chooses the compression. Raises
    OSError with the name `path`.
    """
    kind = compression(path)
    if path in STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    in_place = is_written_in_place(path)
    temporary = path if in_place else temporary_name(path)
    try:
        with open_in_place(path) if in_place else create_locked(temporary, os.path.exists(path)) as raw:
            with io.BufferedWriter(compress(raw, kind), 1 << 16) if kind else nullcontext(raw) as out:
                yield out
            raw.flush()
            if lasting and not in_place:
                os.fsync(raw.fileno())
            if not in_place:  # while it is locked, so that no other process removes it
                with suppress(FileNotFoundError):
                    os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
                os.replace(temporary, os.path.realpath(path))
    except BaseException as e:
        if not in_place:
            with suppress(OSError):
                os.unlink(temporary)
        if isinstance(e, OSError) and (e.filename is None or e.filename == temporary):
            e.filename = path
        raise


@contextmanager
def open_folder(path):
    """Yield a hidden folder. If the block ends without an error, all files in it move to the folder `path`, which is
    created if it does not exist; otherwise none does.
    """
    is_new = not os.path.isdir(path)
    os.makedirs(path, exist_ok=True)
    hidden = temporary_name(os.path.join(path, "new"))
    clear_away(hidden)
    number = None
    try:
        os.mkdir(hidden)
        number = os.open(hidden, os.O_RDONLY)
        with suppress(OSError):
            lock(number)
        yield hidden
        for name in sorted(os.listdir(hidden)):
            os.replace(os.path.join(hidden, name), os.path.join(path, name))
    except BaseException as e:
        if isinstance(e, OSError) and e.filename and str(e.filename).startswith(hidden):
            e.filename = path + str(e.filename)[len(hidden) :]
        raise
    finally:
        remove_folder(hidden)
        if number is not None:
            os.close(number)
        if is_new:
            with suppress(OSError):
                os.rmdir(path)  # fails if it has files
