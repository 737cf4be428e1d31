"""Open files for reading: "-" is stdin, and compressed files are recognized by their content.

`open_in` opens a path and gives a stream of its bytes, decompressed if need be (gzip, bzip2, xz, zstd). It rejects a
second reading of stdin or of an unnamed pipe, and turns damage of compressed data into a FormatError. `digest` computes
a checksum of the content. `watch` tells a progress bar how many bytes were read. The text of a `Source` is converted
while it is read, for example from JSON lines.
"""

import contextlib
import errno
import io
import os
import stat
import sys
import zlib
from importlib import import_module
from itertools import chain

from lmtk.errors import FormatError, UsageError, name_of

watch = None  # a function that gets the number of bytes of each read, for a progress bar; or None
opened_before = set()  # (device, inode) of stdin and unnamed pipes that were opened, and so can give nothing more
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
NAMING = b"\\mixture\\", b"\\class-ngram\\"  # the first bytes of text models that name other files
BLANK = b"\xef\xbb\xbf \t\r\n"  # bytes that may precede NAMING
HEAD = 64  # bytes from which the kind of a file is recognized
OF_OUTPUTS = errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE  # errors of writing


class Source(str):
    """The name of a file whose text is converted while it is read. Apart from that, it is used like any name, a str.

    convert(path) yields the text, bytes, in blocks of whole lines.
    """

    def __new__(cls, path, convert):
        source = super().__new__(cls, path)
        source.convert = convert
        return source


class Converted(io.RawIOBase):
    """A stream of the bytes that an iterator yields."""

    def __init__(self, blocks):
        self.blocks, self.rest = blocks, memoryview(b"")

    def readable(self):
        return True

    def readinto(self, buffer):
        while not self.rest:
            block = next(self.blocks, None)
            if block is None:
                return 0
            self.rest = memoryview(block)
        size = min(len(buffer), len(self.rest))
        buffer[:size], self.rest = self.rest[:size], self.rest[size:]
        return size


def zstd_module():
    for package in ("compression", "backports"):  # the first is a part of Python 3.14
        with contextlib.suppress(ImportError):
            return import_module(f"{package}.zstd")
    raise UsageError("zstd files need the package backports.zstd; pip install backports.zstd")


def decompress(raw, kind):
    """A decompressed stream of `raw`, which starts with the magic number of `kind`."""
    import bz2
    import gzip
    import lzma

    readers = {"gzip": lambda raw: gzip.GzipFile(fileobj=raw), "bz2": bz2.BZ2File, "xz": lzma.LZMAFile}
    reader = readers[kind](raw) if kind in readers else zstd_module().ZstdFile(raw)
    return io.BufferedReader(reader, 1 << 20)


class Watched(io.FileIO):
    """A file that calls `watch`, if it is set, with the size of each read."""

    def readinto(self, buffer):
        size = super().readinto(buffer)
        if watch:
            watch(size)
        return size


def reject_second_reading(raw, path):
    """Raise UsageError if stdin or an unnamed pipe is opened a second time, since it would look like an empty text."""
    status = os.fstat(raw.fileno())
    is_unnamed = stat.S_ISFIFO(status.st_mode) and path.startswith(("/dev/", "/proc/"))
    if is_unnamed or (path == "-" and not raw.isatty()):
        if (place := (status.st_dev, status.st_ino)) in opened_before:
            raise UsageError(f"{name_of(path)} can be read only once, and this job reads it twice; give a file")
        opened_before.add(place)


def with_head(raw):
    """A stream of the bytes of `raw` that peeks at HEAD bytes or more, unless a line or the stream ends before.

    A pipe may give fewer bytes first, from which the kind of a file could not be recognized.
    """
    head = raw.peek(HEAD)
    if len(head) >= HEAD or b"\n" in head or raw.seekable():
        return raw
    head = raw.read1(HEAD)
    while len(head) < HEAD and b"\n" not in head and (more := raw.read1(HEAD)):
        head += more
    return io.BufferedReader(Converted(chain([head], iter(lambda: raw.read1(1 << 20), b""))), 1 << 20)


@contextlib.contextmanager
def open_in(path):
    """Open `path` ("-": stdin) for reading bytes, forward only, and decompress it if need be.

    Raises OSError (missing, a directory, not readable), FormatError (compressed data that is cut short or damaged),
    UsageError (stdin or a process substitution, a second time).
    """
    import lzma

    if isinstance(path, Source):
        with contextlib.closing(path.convert(str(path))) as blocks:
            yield io.BufferedReader(Converted(blocks), 1 << 20)
        return
    raw = sys.stdin.buffer if path == "-" else io.BufferedReader(Watched(path), 1 << 20)
    try:
        reject_second_reading(raw, path)
        stream = with_head(raw)
        kind = next((k for magic, k in MAGIC.items() if stream.peek(HEAD).startswith(magic)), None)
        yield decompress(stream, kind) if kind else stream
    except (EOFError, zlib.error, lzma.LZMAError) as e:
        raise FormatError(path, f"the compressed data is incomplete or damaged ({e})") from None
    except OSError as e:
        # gzip and bz2 report damage as an OSError without a number
        if e.errno is None:
            raise FormatError(path, f"the compressed data is incomplete or damaged ({e})") from None
        if e.filename is None and e.errno not in OF_OUTPUTS:  # the caller's block may also write
            e.filename = name_of(path)
        raise
    finally:
        if path != "-":
            raw.close()


def is_file(path):
    """Whether a path is a regular file, which can be read twice. "-" is stdin, even if there is a file of this name."""
    return path != "-" and os.path.isfile(path)


def is_stream(path):
    """Whether a path is stdin or a named pipe, which can be read only once."""
    with contextlib.suppress(OSError):
        return path == "-" or stat.S_ISFIFO(os.stat(path).st_mode)
    return False


def files_named_in(path, seen=()):
    """The files that a mixture, a class model or a shortlist model names, and the files that these files name in turn.
    [] for any other file. Raises FormatError.
    """
    from lmtk.files import container

    place, names = os.path.realpath(path), []
    if place in seen or not is_file(path):
        return []
    with open_in(path) as stream:
        head = stream.peek(64)[:64]
        if container.looks_binary(head):
            about, *_ = container.read_header(stream, path)
            if type(rest := about["settings"].get("rest")) is str:
                names.append(os.path.join(os.path.dirname(place), rest))
        elif head.lstrip(BLANK).startswith(NAMING):
            for line in stream:
                key, _, name = line.strip().partition(b" ")
                if name and key in (b"model", b"classes"):
                    names.append(os.path.join(os.path.dirname(place), os.fsdecode(name)))
    return [file for name in names for file in (name, *files_named_in(name, (*seen, place)))]


def digest(path):
    """The SHA-256, in hexadecimal, of the decompressed content of a file; None for a pipe, which is read only once."""
    import hashlib

    if path is None or not is_file(path):
        return None
    with open_in(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
