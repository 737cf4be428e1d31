"""Arrays that grow, in memory or in an unnamed temporary file.

`Column` is one array, `Shelf` several arrays by name in one file. Such a file disappears with the process, however the
process ends.
"""

import mmap
import os
from threading import Lock

import numpy as np

from lmtk.files import bounded
from lmtk.machine.jit import jit


class Column:
    """An array that grows at its end, in memory or, with `spill`, in an unnamed temporary file."""

    def __init__(self, kind, spill):
        self.kind, self.parts, self.file, self.size = np.dtype(kind), [], None, 0
        if spill:
            self.file = bounded.temporary_file()

    def append(self, array):
        """Add an array at the end. On a full disk, raises OSError with the name of the folder of temporary files."""
        self.size += array.size
        array = np.ascontiguousarray(array, self.kind)
        if self.file is None:
            self.parts.append(array)
            return
        with bounded.naming_folder():
            self.file.write(array.data)
            self.file.flush()

    def array(self):
        """All that was appended so far, (N,). An array in a file is mapped: pages are read when they are used."""
        if self.file is None:
            self.parts = [np.concatenate(self.parts or [np.zeros(0, self.kind)])]
            return self.parts[0]
        return bounded.array_of(self.file, self.kind, mmap.ACCESS_READ) if self.size else np.zeros(0, self.kind)

    def read(self, begin, end):
        """A copy of the numbers from `begin` up to `end`. Unlike `array`, it keeps no pages of the file in memory."""
        out = np.empty(end - begin, self.kind)
        if self.file is None:
            out[:] = self.array().reshape(-1)[begin:end]
        else:
            read_at(self.file, out, begin * out.itemsize)
        return out


def read_at(file, out, at):
    """Fill an array with the content of a file from byte `at` on."""
    data = out.view(np.uint8)
    while len(data):
        done = os.preadv(file.fileno(), [data], at)
        data, at = data[done:], at + done


def put_at(file, data, at):
    """Write bytes, a memoryview or an array, to their place in a file, given by its descriptor."""
    while len(data):
        done = os.pwrite(file, data, at)
        data, at = data[done:], at + done


class Shelf:
    """Arrays by name that grow at their ends, all in one unnamed temporary file or, without `spill`, in memory. Several
    threads may use it.
    """

    def __init__(self, spill=True):
        self.parts, self.end, self.lock = {}, 0, Lock()
        self.file = bounded.temporary_file(buffering=0) if spill else None

    def add(self, name, array):
        """Add an array at the end of the array `name`. If the disk is full, raises OSError with the folder of temporary
        files.
        """
        self.add_parts({name: array.size}, array)

    def add_parts(self, sizes, array):
        """Add the parts of an array at the ends of several arrays. sizes: {name: size of its part}, in the order of the
        parts. Raises OSError as `add` does.
        """
        array = np.ascontiguousarray(array).reshape(-1)
        if self.file is None:
            array = array.copy()
        with self.lock:
            at, begin = self.end, 0
            self.end += array.nbytes
            for name, size in sizes.items():
                end = begin + size
                where = array[begin:end] if self.file is None else at + begin * array.itemsize
                self.parts.setdefault(name, []).append((size, where))
                begin = end
        if self.file is not None:
            with bounded.naming_folder():
                put_at(self.file.fileno(), array.view(np.uint8), at)

    def deal(self, rows, numbers, name=()):
        """Add each of `rows` (N, ...), of numbers of 4 or 8 bytes, at the end of the array (*name, i), where i is its
        number in `numbers` (N,).
        """
        if len(rows):
            sizes, dealt = np.bincount(numbers), np.empty(rows.shape, rows.dtype)
            scatter(as_matrix(rows), np.asarray(numbers, np.int32), np.cumsum(sizes) - sizes, as_matrix(dealt))
            width = rows.size // len(rows)
            self.add_parts({(*name, i): int(sizes[i]) * width for i in np.flatnonzero(sizes).tolist()}, dealt)

    def size(self, name):
        return sum(size for size, _ in self.parts.get(name, ()))

    def read(self, name, out, begin=0):
        """out (N,) <- the array `name` from `begin` on. `out` must have the type of this array."""
        place = -begin
        for size, where in self.parts.get(name, ()):
            a, b = max(place, 0), min(place + size, len(out))
            if self.file is None:
                out[a : max(a, b)] = where[a - place : max(a, b) - place]
            else:
                read_at(self.file, out[a : max(a, b)], where + (a - place) * out.itemsize)
            place += size
        return out

    def get(self, name, kind, begin=0, end=None):
        """The array `name` from `begin` up to `end`, in memory; kind: its type."""
        end = self.size(name) if end is None else end
        return self.read(name, np.empty(end - begin, kind), begin)

    def take(self, name, kind):
        """The array `name`, which is dropped."""
        array = self.get(name, kind)
        self.drop(name)
        return array

    def drop(self, name):
        self.parts.pop(name, None)

    def replace(self, name, array):
        self.drop(name)
        self.add(name, array)


def as_matrix(rows):
    """Rows (N, ...), also of records, as a matrix of int32: a view if they are contiguous in memory, else a copy."""
    return np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.int32)


@jit
def scatter(rows, numbers, heads, dealt):
    """dealt (N, w) <- the rows, each at the head of its number, which advances."""
    for i in range(len(rows)):
        to = heads[numbers[i]]
        heads[numbers[i]] = to + 1
        for j in range(rows.shape[1]):
            dealt[to, j] = rows[i, j]
