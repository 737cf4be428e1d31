"""Binary files: safetensors with our own description in its metadata.

The metadata has one entry, "lmtk": eight hexadecimal digits of CRC-32, a blank, and JSON with the kind, the format's
version, the settings and, for each array, its type, shape and CRC-32. The array "vocabulary" holds the words as
bytes, one a line.

The arrays of a large file begin at a multiple of PAGE, for which blanks follow the header: so they may stand there
before their sums are known.
"""

import errno
import json
import math
import mmap
import operator
import os
import stat
import zlib
from contextlib import suppress
from weakref import ref

import numpy as np

from lmtk import __version__
from lmtk.files import sums as sums_begun
from lmtk.files.header import DTYPES, MAX_HEADER, VERSION, cut, parsed
from lmtk.files.streams import Output
from lmtk.machine import memory
from lmtk.machine.large import pays
from lmtk.machine.threads import in_threads

PAGE = 4096  # bytes


def looks_binary(head):
    """Whether the first bytes of a file can be a safetensors header."""
    return len(head) >= 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= MAX_HEADER


def write(out, kind, settings, arrays, words=None):
    """Write arrays (name -> ndarray) with their description. Same content, same bytes. Those that are `mapped` where
    they belong are there.
    """
    arrays = {name: np.ascontiguousarray(a) for name, a in arrays.items()}
    if words is not None:
        arrays["vocabulary"] = bytes_of(words)
    kinds = {np.dtype(code): name for name, code in DTYPES.items()}
    crcs = in_threads(zlib.crc32, arrays.values()) if pays("binary", sum(a.nbytes for a in arrays.values())) else None
    crcs = crcs or map(zlib.crc32, arrays.values())
    described = {name: [kinds[a.dtype], list(a.shape), crc] for (name, a), crc in zip(arrays.items(), crcs)}
    header, places = header_of(kind, settings, described)
    for name, a in arrays.items():
        if place_in(out, a) not in (None, places[name]):
            arrays[name] = a.copy()  # before others are written there
    out.write(header)
    for name, begin in places.items():
        if place_in(out, arrays[name]) == begin:
            out.seek(arrays[name].nbytes, os.SEEK_CUR)
        else:
            out.write(arrays[name].reshape(-1).view(np.uint8).data)
    if mappings(out):
        out.truncate()


def header_of(kind, settings, described):
    """(what stands before the data of a file, name -> where each array begins) of arrays as they are `described`."""
    about = {"kind": kind, "format": VERSION, "lmtk": __version__, "settings": settings, "arrays": described}
    text = json.dumps(about, sort_keys=True, separators=(",", ":"))
    table = {"__metadata__": {"lmtk": f"{zlib.crc32(text.encode()):08x} {text}"}}
    # as the safetensors library writes them: those of large numbers first, so that all stand at multiples of their size
    ranks = list(DTYPES)
    order = sorted(described, key=lambda name: (ranks.index(described[name][0]), name))
    end = 0
    for name in order:
        dtype, shape, _ = described[name]
        begin, end = end, end + math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    most = len(header) + sum(len(f"{2**32 - 1}") - len(f"{crc}") for *_, crc in described.values())
    header += b" " * ((most + 8 + -(most + 8) % PAGE) - 8 - len(header) if pays("binary", end) else -len(header) % 8)
    header = len(header).to_bytes(8, "little") + header
    return header, {name: len(header) + table[name]["data_offsets"][0] for name in order}


def mapped(out, begin, size):
    """(size,) uint8, zeros, which stand from `begin` on in a file that is being written; None where it is no file that
    memory can be of. Raises OSError where the disk is full.
    """
    if not isinstance(getattr(out, "raw", None), Output):
        return None
    try:
        os.posix_fallocate(out.fileno(), begin, size)  # a page that the disk has no room for ends the process
        pages = mmap.mmap(out.fileno(), begin + size)
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            e.filename = out.raw.name  # not the file that is being read
            raise
        return None
    with suppress(OSError, ValueError):
        pages.madvise(memory.HUGEPAGE)
    memory.mapped.append(ref(pages, memory.mapped.remove))
    found = np.frombuffer(pages, np.uint8)
    if any(len(other) > begin for other in mappings(out)):
        found[begin:] = 0
    out.raw.mappings.append(found)
    return found[begin:]


def mappings(out):
    """The arrays, (., ) uint8, that a file is mapped by from its first byte on."""
    return getattr(getattr(out, "raw", None), "mappings", [])


def place_in(out, array):
    """Where an array stands in a file that is being written; None where it does not."""
    at = array.__array_interface__["data"][0]
    for found in mappings(out):
        begin = found.__array_interface__["data"][0]
        if begin <= at and at + array.nbytes <= begin + found.nbytes:
            return at - begin
    return None


unfinished = []  # what waits for sums that are being made


def finish():
    """Wait for the sums that are made beside other work. Raises FormatError where one is wrong."""
    while unfinished:
        unfinished.pop()()


def read(stream, path, sums="now"):
    """(about, arrays) of a file of ours: the kind, settings and so on, and name -> ndarray.

    A plain file is memory-mapped; a pipe is read whole. Every size is checked against the file, every array and
    the description against its CRC. Raises FormatError.

    The arrays of a large mapped file may be checked `sums`="beside", which waits for `finish`: by the sums that were
    begun in lmtk.files.sums, if any; or "never".
    """
    size = int.from_bytes(stream.read(8), "little")
    if size > MAX_HEADER:
        raise cut(path)
    about, spans = parsed(stream.read(size), size, path)
    total = max((end for _, end in spans.values()), default=0)
    try:
        begun = sums_begun.of(stream, path) if sums == "beside" else None
        data = bytes_behind(stream, path, 8 + size, total, begun and begun.pages)
        if data is None:
            raise cut(path)
        arrays, expected = {}, []
        for name, (dtype, shape, crc) in about["arrays"].items():
            part = data[slice(*spans[name])]
            expected.append((part, crc))
            arrays[name] = part.view(DTYPES[dtype]).reshape(tuple(map(operator.index, shape)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise cut(path) from None
    large = pays("binary", total)

    def check():
        for same in (in_threads if large else map)(lambda pair: zlib.crc32(pair[0]) == pair[1], expected):
            if not same:
                raise cut(path)

    def compare():
        found = begun.done()
        if any(found.get(name) != crc for name, (*_, crc) in about["arrays"].items()):
            raise cut(path)

    if not (large and (begun or isinstance(data, np.memmap))) or sums == "now":
        check()
    elif sums == "beside":
        unfinished.append(compare if begun else check)
    return about, arrays


def bytes_behind(stream, path, offset, total, pages=None):
    """(total,) uint8 behind a header of `offset` bytes, or None where there are fewer or more; `pages`: the file, where
    it is mapped already.
    """
    try:
        plain = stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and path != "-"
    except (OSError, AttributeError, ValueError):
        plain = False
    # the file that is open: another may have taken its name by now
    if plain and stream.tell() == offset and os.fstat(stream.fileno()).st_size == offset + total:
        if pages:
            return np.frombuffer(memoryview(pages).toreadonly(), np.uint8, total, offset)
        with open(stream.fileno(), "rb", closefd=False) as file:
            return np.memmap(file, np.uint8, "r", offset, (total,)) if total else np.zeros(0, np.uint8)
    # in parts: a header may claim more than there is, or than there is memory for
    parts, left = [], total + 1
    while left and (part := stream.read(min(left, 1 << 24))):
        parts.append(part)
        left -= len(part)
    return np.frombuffer(b"".join(parts), np.uint8) if left == 1 else None


def shown(settings):
    """Settings as (name, value) pairs for people: option names, nested ones in line, those not set left out."""
    from lmtk.files import curve

    for name, value in settings.items():
        if isinstance(value, dict):
            yield from shown(value)
        elif value is not None and name != "curve":
            yield name.replace("_", "-"), {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
    if curve.fits(settings.get("curve")) and len(settings["curve"]) > 1:
        yield "curve", "\n" + curve.table(curve.epochs(settings["curve"]))


def bytes_of(words):
    """Words as an array, as `write` puts the vocabulary among the others."""
    return np.frombuffer(b"\n".join(words), np.uint8)


def words_of(arrays):
    """The vocabulary that `write` put among the arrays."""
    return arrays["vocabulary"].tobytes().split(b"\n")
