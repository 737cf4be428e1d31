"""Arrays that grow, on disk where memory is short."""

import tempfile

import numpy as np


class Column:
    """An array that grows at its end: in memory or, with `spill`, in a file without a name, of which nothing is left,
    whatever ends the program.
    """

    def __init__(self, kind, spill):
        self.kind, self.parts, self.file, self.size = np.dtype(kind), [], None, 0
        if spill:
            self.file = tempfile.TemporaryFile(prefix="lmtk-")

    def append(self, array):
        """Raises OSError, of the folder of temporary files, where the disk is full."""
        self.size += array.size
        array = np.ascontiguousarray(array, self.kind)
        if self.file is None:
            self.parts.append(array)
            return
        try:
            self.file.write(array.data)
            self.file.flush()
        except OSError as e:
            e.filename = tempfile.gettempdir()
            raise

    def array(self):
        """(N,), what was appended so far; it reads the file as it is looked at."""
        if self.file is None:
            self.parts = [np.concatenate(self.parts or [np.zeros(0, self.kind)])]
            return self.parts[0]
        return np.memmap(self.file, self.kind, "r") if self.size else np.zeros(0, self.kind)
