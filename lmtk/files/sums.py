"""The sums of the arrays of a large binary file, made in a thread that needs no numpy: so that it may begin before
that is imported.
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
    """A file that is mapped, what tells it from others, the thread that sums up its arrays, and the sums so far."""

    def __init__(self, file):
        self.which, self.sums = which(file), {}
        # a copy only where it is written to, which it is not: ctypes tells the address of no other
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
        """{name of an array: its sum}, once all are there."""
        self.thread.join()
        return self.sums


def begin(path):
    """Begin to sum up the arrays of a file, if it is a large one of ours. What is wrong with it is for its reader to
    say.
    """
    if path and os.path.isfile(path) and pays("binary", os.path.getsize(path)) and memory.room() is None:
        with suppress(OSError, ValueError), open(path, "rb") as file:
            if file.peek(9)[8:9] == b"{":
                begun[path] = Begun(file)


def which(stream):
    """What tells an open file from others, and from what it was before it changed."""
    told = os.fstat(stream.fileno())
    return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns


def of(stream, path):
    """What was begun of an open file, or None."""
    found = begun.pop(path, None)
    return found if found and found.which == which(stream) else None
