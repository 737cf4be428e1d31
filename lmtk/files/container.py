"""Binary files: safetensors files with lmtk's description in the metadata.

`write` takes the kind, the settings and the arrays of a model; `read` returns them and checks all sizes and checksums.
`map_output` maps a part of a file that is being written, so that arrays can be computed in their place.

The metadata has one entry, "lmtk": eight hexadecimal digits of CRC-32, a blank, and JSON with the kind, the version of
the format, the settings and, for each array, its type, shape and CRC-32. The array "vocabulary" holds the words as
bytes, one on each line.

The arrays of a large file begin at a multiple of PAGE, and blanks fill the header up to this place. So arrays can be
written to their places before their checksums are known, although the checksums stand in the header.
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
from lmtk.clock import UNLIMITED
from lmtk.errors import FormatError
from lmtk.files import bounded
from lmtk.files.outputs import Output
from lmtk.files.words import Words
from lmtk.machine.threads import helper_pool, map_in_order, thread_count

VERSION = 1
DTYPES = {"I64": "<i8", "F64": "<f8", "F32": "<f4", "I32": "<i4", "U8": "<u1"}  # in the order of a file's arrays
KINDS = {np.dtype(code): name for name, code in DTYPES.items()}
MAX_HEADER = 100_000_000  # bytes, as in the safetensors library
PAGE = 4096  # bytes
NO_LIMIT = ("patience", 0), ("epochs", UNLIMITED)  # settings that do not end a run
LARGE = 1 << 24  # bytes: from this size on arrays begin at memory pages, and threads check them


def looks_binary(head):
    """Whether the first bytes of a file, 9 at least, can begin a safetensors header."""
    return len(head) >= 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= MAX_HEADER


def write(out, kind, settings, arrays, words=None):
    """Write arrays (name -> ndarray) with their description. Equal contents give equal bytes.

    Arrays that are already in their places in the file, by `map_output`, are not written again.
    """
    arrays = {name: np.ascontiguousarray(a) for name, a in arrays.items()}
    if words is not None:
        arrays["vocabulary"] = bytes_of(words)
    large = sum(a.nbytes for a in arrays.values()) >= LARGE
    crcs = (map_in_order if large else map)(zlib.crc32, arrays.values())
    described = {name: [KINDS[a.dtype], list(a.shape), crc] for (name, a), crc in zip(arrays.items(), crcs)}
    header, places = make_header(kind, settings, described)
    for name, a in arrays.items():
        if place_in(out, a) not in (None, places[name]):
            arrays[name] = a.copy()  # it is mapped at another place, where another array will be written
    out.write(header)
    for name, begin in places.items():
        if place_in(out, arrays[name]) == begin:
            out.seek(arrays[name].nbytes, os.SEEK_CUR)
        else:
            out.write(arrays[name].reshape(-1).view(np.uint8).data)
    if mappings(out):
        out.truncate()


def make_header(kind, settings, described):
    """(the bytes before the data of a file, {name: where its array begins}). described: {name: (type, shape, CRC)}."""
    about = {"kind": kind, "format": VERSION, "lmtk": __version__, "settings": settings, "arrays": described}
    text = json.dumps(about, sort_keys=True, separators=(",", ":"))
    table = {"__metadata__": {"lmtk": f"{zlib.crc32(text.encode()):08x} {text}"}}
    # like the safetensors library, arrays of wide numbers come first, so that all begin at multiples of their width
    ranks = list(DTYPES)
    order = sorted(described, key=lambda name: (ranks.index(described[name][0]), name))
    end = 0
    for name in order:
        dtype, shape, _ = described[name]
        begin, end = end, end + math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    # a large header is padded as if each CRC had ten digits, so its length does not depend on the CRCs
    longest = len(header) + sum(len(f"{2**32 - 1}") - len(f"{crc}") for *_, crc in described.values())
    header += b" " * ((longest + 8 + -(longest + 8) % PAGE) - 8 - len(header) if end >= LARGE else -len(header) % 8)
    header = len(header).to_bytes(8, "little") + header
    return header, {name: len(header) + table[name]["data_offsets"][0] for name in order}


def map_output(out, begin, size):
    """Map the file `out`, which is being written, from `begin` on: (size,) uint8, zeros.

    Returns None if `out` is not a regular, uncompressed file. Raises OSError if the disk is full.
    """
    if not isinstance(getattr(out, "raw", None), Output) or not hasattr(os, "posix_fallocate"):
        return None
    try:
        os.posix_fallocate(out.fileno(), begin, size)  # else a full disk would kill the process later
        pages = mmap.mmap(out.fileno(), begin + size)
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            e.filename = out.raw.name  # otherwise open_in would name the file that is being read
            raise
        return None
    with suppress(OSError, ValueError, AttributeError):
        pages.madvise(mmap.MADV_HUGEPAGE)
    bounded.mapped.append(ref(pages, bounded.mapped.remove))
    mapping = np.frombuffer(pages, np.uint8)
    if any(len(other) > begin for other in mappings(out)):
        mapping[begin:] = 0
    out.raw.mappings.append(mapping)
    return mapping[begin:]


def mappings(out):
    """The mappings of a file that is being written: uint8 arrays that begin at its first byte."""
    return getattr(getattr(out, "raw", None), "mappings", [])


def place_in(out, array):
    """The place of an array in a file that is being written, if the array is mapped from the file; else None."""
    at = array.__array_interface__["data"][0]
    for mapping in mappings(out):
        begin = mapping.__array_interface__["data"][0]
        if begin <= at and at + array.nbytes <= begin + mapping.nbytes:
            return at - begin
    return None


unfinished = []  # checks of CRCs that `finish` will do


def finish():
    """Do the checks that `read` has put off with sums="later". Raises FormatError if a checksum is wrong."""
    while unfinished:
        unfinished.pop()()


def read(stream, path, sums="now"):
    """Read (about, arrays) of a file.

    about: the description, {"kind": .., "settings": ..} and so on; arrays: {name: ndarray}. A plain file is
    memory-mapped; a pipe is read whole. All sizes are checked against the file, and the description and all arrays
    against their checksums. Raises FormatError.

    sums: when to check the arrays of a large mapped file: "now"; "later", by one thread while the job works, and by all
    threads in `finish`; or "never".
    """
    about, spans, size = read_header(stream, path)
    total = max((end for _, end in spans.values()), default=0)
    try:
        data = read_data(stream, path, size, total)
        if data is None:
            raise damage_error(path)
        arrays, expected = {}, []
        for name, (dtype, shape, crc) in about["arrays"].items():
            part = data[slice(*spans[name])]
            expected.append((part, crc))
            arrays[name] = part.view(DTYPES[dtype]).reshape(tuple(map(operator.index, shape)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise damage_error(path) from None
    large, unchecked = total >= LARGE, iter(expected)

    def check(map=map_in_order if large else map):
        for is_right in map(lambda pair: zlib.crc32(pair[0]) == pair[1], unchecked):
            if not is_right:
                raise damage_error(path)

    if not (large and isinstance(data, np.memmap)) or sums == "now":
        check()
    elif sums == "later":  # the helper and `finish` share an iterator, so each array is checked once
        helper = helper_pool(os.getpid()).submit(check, map) if thread_count() > 1 else None
        unfinished.append(lambda: (check(), helper and helper.result()))
    return about, arrays


def read_header(stream, path):
    """(about, spans, the number of bytes read) of the header of a file; see `parse_header`. Raises FormatError."""
    size = int.from_bytes(stream.read(8), "little")
    if size > MAX_HEADER:
        raise damage_error(path)
    return *parse_header(stream.read(size), size, path), 8 + size


def damage_error(path):
    remedy = "remove it, and train again" if str(path).endswith(".ckpt") else "write it again"
    return FormatError(path, f"the file is incomplete or damaged; {remedy}")


def parse_header(header, size, path):
    """(about, spans) of a header, whose length is `size` according to the file.

    about: the description, as in `read`; spans: {name: (begin, end)} of each array, counted from the end of the header.
    Raises FormatError.
    """
    try:
        table = json.loads(header)
        digits, _, text = table.pop("__metadata__")["lmtk"].partition(" ")
        about = json.loads(text)
        is_whole = len(header) == size and header.rstrip(b" ").endswith(b"}")
        if not is_whole or digits != f"{zlib.crc32(text.encode()):08x}":
            raise damage_error(path)
        if about["format"] > VERSION:
            newer = f"lmtk {about['lmtk']}"
            raise FormatError(path, f"written by {newer} in a format that this lmtk cannot read; install {newer}")
        spans = {name: tuple(map(operator.index, entry["data_offsets"])) for name, entry in table.items()}
        declared = {name: [entry["dtype"], entry["shape"]] for name, entry in table.items()}
        described = {name: entry[:2] for name, entry in about["arrays"].items()}
        is_typed = isinstance(about["kind"], str) and isinstance(about["settings"], dict)
        if declared != described or not are_contiguous(spans.values()) or not is_typed:
            raise damage_error(path)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise damage_error(path) from None
    return about, spans


def are_contiguous(spans):
    """Whether (begin, end) pairs cover a range from 0 without holes or overlaps."""
    spans = sorted(spans)
    ends = [0, *(end for _, end in spans)]
    return [begin for begin, _ in spans] == ends[:-1] and ends == sorted(ends)


def read_data(stream, path, offset, total):
    """All bytes after a header of `offset` bytes, (total,) uint8; None if there are fewer or more."""
    try:
        plain = stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and path != "-"
    except (OSError, AttributeError, ValueError):
        plain = False
    # the size of the open file, since its name may belong to another file by now
    if plain and stream.tell() == offset and os.fstat(stream.fileno()).st_size == offset + total:
        with open(stream.fileno(), "rb", closefd=False) as file:
            return np.memmap(file, np.uint8, "r", offset, (total,)) if total else np.zeros(0, np.uint8)
    # in parts: a damaged header may ask for more bytes than the file or the memory has
    parts, left = [], total + 1
    while left and (part := stream.read(min(left, 1 << 24))):
        parts.append(part)
        left -= len(part)
    return np.frombuffer(b"".join(parts), np.uint8) if left == 1 else None


def settings_for_people(settings):
    """Yield settings as (name, value) pairs: named like options, nested settings inlined.

    None is left out, and so are values that stand for no limit: a patience of 0, and the epochs of a run in minutes.
    """
    from lmtk.files import curve

    for name, value in settings.items():
        if isinstance(value, dict):
            yield from settings_for_people(value)
        elif value is not None and name != "curve" and (name, value) not in NO_LIMIT:
            yield name.replace("_", "-"), {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
    if curve.is_table(settings.get("curve")) and len(settings["curve"]) > 1:
        epochs = curve.epochs(settings["curve"])
        yield from curve.learning_statistics(epochs)
        yield "curve", "\n" + curve.format_table(epochs)


def bytes_of(words):
    """Words as a uint8 array, one a line: the array "vocabulary"."""
    return np.frombuffer(words.text[:-1] if isinstance(words, Words) else b"\n".join(words), np.uint8)
