"""The header of a binary file, as `container` describes it, read without numpy."""

import json
import math
import operator
import zlib

from lmtk.errors import FormatError

VERSION = 1
DTYPES = {"I64": "<i8", "F64": "<f8", "F32": "<f4", "I32": "<i4", "U8": "<u1"}  # in the order of a file's arrays
MAX_HEADER = 100_000_000  # bytes, as in the safetensors library


def cut(path):
    return FormatError(path, "the file is cut short or damaged; was it written whole?")


def parsed(header, size, path):
    """(about, spans) of a header, whose length the file states as `size`. about: the description, as from
    `container.read`; spans: {name: (begin, end)} of each array, counted from the end of the header. Raises FormatError.
    """
    try:
        table = json.loads(header)
        digits, _, text = table.pop("__metadata__")["lmtk"].partition(" ")
        about = json.loads(text)
        if (
            digits != f"{zlib.crc32(text.encode()):08x}"
            or len(header) != size
            or not header.rstrip(b" ").endswith(b"}")
        ):
            raise cut(path)
        if about["format"] > VERSION:
            raise FormatError(
                path, f"written by lmtk {about['lmtk']}, format {about['format']}; this lmtk reads {VERSION}"
            )
        spans = {name: tuple(map(operator.index, entry["data_offsets"])) for name, entry in table.items()}
        here = {name: [entry["dtype"], entry["shape"]] for name, entry in table.items()}
        if here != {name: entry[:2] for name, entry in about["arrays"].items()} or not contiguous(spans.values()):
            raise cut(path)
        if not isinstance(about["kind"], str) or not isinstance(about["settings"], dict):
            raise cut(path)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise cut(path) from None
    return about, spans


def contiguous(spans):
    """Whether (begin, end) pairs cover a range from 0 without holes or overlaps."""
    end = 0
    for first, last in sorted(spans):
        if first != end or last < first:
            return False
        end = last
    return True


def fits(entry, span, dtype, *shape):
    """Whether an array has this type and shape, and its span the right number of bytes. shape: None stands for any
    number. entry: [type, shape, CRC] of the description.
    """
    kind, sizes, _ = entry
    alike = len(sizes) == len(shape) and all(type(a) is int and b in (None, a) for a, b in zip(sizes, shape))
    return kind == dtype and alike and span[1] - span[0] == math.prod(sizes) * int(DTYPES[dtype][2:])
