"""The CRCs of the arrays of a large binary file, computed in a thread. It needs no numpy, so that it can begin before
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
    """A mapped file, its identity (`which`), the thread that computes its arrays' CRCs, and the CRCs so far."""

    def __init__(self, file):
        self.which, self.sums = which(file), {}
        # copy on write, although nothing is written: ctypes gives addresses only of writable memory
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
        """{name of an array: its CRC}; waits until all are computed. Those of a damaged file may be missing."""
        self.thread.join()
        return self.sums


def begin(path):
    """Begins to compute the CRCs of a file's arrays, if it is a large file of ours. Faults in the file are left to its
    reader.
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
