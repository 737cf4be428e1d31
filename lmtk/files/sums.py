"""The CRCs of the arrays of a large binary file, made in a thread that needs no numpy, so that it may begin before
numpy is imported.
"""

import json
import mmap
import os
import zlib
from contextlib import suppress
from threading import Thread

from lmtk.machine import memory
from lmtk.machine.large import pays

begun = {}  # path -> a Begun


class Begun:
    """A mapped file, `which` identifies it, the thread that makes its arrays' CRCs, and those made so far."""

    def __init__(self, file):
        self.which, self.sums = which(file), {}
        # copy on write, though nothing is written: ctypes gives addresses only of writable memory
        self.pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.thread = Thread(target=self.add, daemon=True)
        self.thread.start()

    def add(self):
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            size = int.from_bytes(self.pages[:8], "little")
            table = json.loads(self.pages[8 : 8 + size])
            table.pop("__metadata__")
            with memoryview(self.pages) as pages:
                for name, entry in table.items():
                    first, last = (8 + size + at for at in entry["data_offsets"])
                    self.sums[name] = zlib.crc32(pages[first:last])

    def done(self):
        """{name of an array: its CRC}; waits until all are made. A damaged file's may be lacking."""
        self.thread.join()
        return self.sums


def begin(path):
    """Begins to make the CRCs of a file's arrays, if it is a large one of ours. It says nothing of faults in the file,
    which the reader will find.
    """
    if path and os.path.isfile(path) and pays("binary", os.path.getsize(path)) and memory.room() is None:
        with suppress(OSError, ValueError), open(path, "rb") as file:
            if file.peek(9)[8:9] == b"{":
                begun[path] = Begun(file)


def which(stream):
    """A tuple that identifies an open file and its present content: device, inode, size, time of change."""
    told = os.fstat(stream.fileno())
    return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns


def of(stream, path):
    """The Begun of an open file, taken out of `begun`; None if there is none, or the file has changed since."""
    found = begun.pop(path, None)
    return found if found and found.which == which(stream) else None
