"""Reads documents from a file of JSON lines, one JSON object on each line, in batches of whole lines.

`batches` yields the lines as they stand in the file, and `parse` gives the text of a line. A file may be read in n
parts (`Part`) of about equal size, whose lines make the whole file if they are put one after another. `read_parquet`
yields the texts of a parquet file.
"""

import json
import re
from typing import NamedTuple

from lmtk.errors import FormatError, UsageError, name_of
from lmtk.files.decoding import BOM, PARQUET, line_number
from lmtk.files.inputs import open_in

BLOCK = 1 << 19  # bytes of lines that are read together, few enough for the caches of a processor
LONGEST = 256 << 20  # bytes of a line
ROWS = 1 << 12  # rows of a parquet file that are read together
BLANK, NOT_JSON, NO_FIELD, NO_STRING = range(4)  # why a line has no text
ARRAY = re.compile(rb"\s*\[\s*(\{|$)")
SURROGATE = re.compile("[\ud800-\udfff]")


class Part(NamedTuple):
    """Part `number`, from 1 on, of a file that is divided into `parts`."""

    number: int = 1
    parts: int = 1

    @classmethod
    def parse(cls, text):
        """The Part that "3/8" names, or None."""
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        part = cls(int(match[1]), int(match[2])) if match else cls(0)
        return part if 1 <= part.number <= part.parts else None

    def span(self, size):
        """(begin, end) in bytes, for a file of `size` bytes: this part has the lines that begin in this range."""
        return (size * (self.number - 1) // self.parts, size * self.number // self.parts)


def batches(path, part=None):
    """Yields the lines of a file, bytes with their line ends, in lists of about BLOCK bytes. part: of the file.

    Raises UsageError for a part of a pipe, FormatError for a line that is longer than LONGEST, OSError.
    """
    with open_in(path) as stream:
        at, end = 0, None
        if part:
            at, end = find_part(stream, path, part)
        while lines := take(stream, path, at, end):
            at += sum(map(len, lines))
            yield lines


def find_part(stream, path, part):
    """(the place of the first line of a part of an open file, where the part ends). Moves the stream to this line."""
    if not stream.seekable():
        raise UsageError(f"-shard needs a file that can be read twice, and {name_of(path)} is a pipe; give a file")
    at, end = part.span(stream.seek(0, 2))
    stream.seek(max(at - 1, 0))
    if at > 0:  # a line that begins before the part belongs to the part before
        at += len(stream.readline()) - 1
    return at, end


def take(stream, path, at, end):
    """The next lines of an open file, which begin before the byte `end`, about BLOCK bytes. at: the place of the first
    one, for messages.
    """
    lines, size = [], 0
    while size < BLOCK and (end is None or at + size < end):
        line = stream.readline(LONGEST + 1)
        if at == size == 0 and line.startswith(PARQUET):
            remedy = "convert it to JSON lines, or give its name to -text with -field"
            raise FormatError(path, f"a parquet file, not JSON lines; {remedy}")
        if at == size == 0 and ARRAY.match(line):
            raise FormatError(path, "a JSON array, not JSON lines; jq -c '.[]' FILE writes its documents as lines", 1)
        if len(line) > LONGEST:
            message = f"the line is longer than {LONGEST >> 20} MB; are there line ends between the documents?"
            raise FormatError(path, message, line_number(path, at + size))
        if not line:
            break
        lines.append(line)
        size += len(line)
    return lines


def first_line(path, part):
    """The number of the first line of a part of a file."""
    if part is None or part.number == 1:
        return 1
    with open_in(path) as stream:
        at, _ = find_part(stream, path, part)
    return line_number(path, at)


def parse(line, field):
    """(the JSON object of a line, a dictionary or None; the text in its field). Without a text, the second value is
    BLANK, NOT_JSON, NO_FIELD or NO_STRING.

    Half a surrogate pair, which JSON can write and UTF-8 cannot, becomes the replacement character.
    """
    if line.isspace():
        return None, BLANK
    try:
        document = json.loads(line.decode().removeprefix("\ufeff") if line.startswith(BOM) else line.decode())
    except (ValueError, RecursionError):
        return None, NOT_JSON
    if not isinstance(document, dict):
        return None, NOT_JSON
    if field not in document:
        return document, NO_FIELD
    text = document[field]
    if not isinstance(text, str):
        return document, NO_STRING
    if not text.isascii() and SURROGATE.search(text):
        text = SURROGATE.sub("\ufffd", text)
    return document, text


def is_parquet(path):
    """Whether a file begins as parquet files do."""
    with open(path, "rb") as stream:
        return stream.read(len(PARQUET)) == PARQUET


def read_parquet(path, column):
    """Yields the texts in a column of a parquet file, lists of strings; NO_STRING stands for a null.

    Raises UsageError without the package pyarrow, FormatError for a damaged file and for a column that is missing or
    has no strings.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError("parquet files need the package pyarrow; pip install pyarrow") from None
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            if column not in schema.names:
                names = ", ".join(schema.names[:10])
                raise FormatError(path, f'no column "{column}" in it; give one of its columns as -field: {names}')
            kind = schema.field(column).type
            if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
                message = f'the column "{column}" has values of type {kind}, not texts'
                raise FormatError(path, f"{message}; give another column as -field")
            for batch in file.iter_batches(ROWS, columns=[column]):
                yield [NO_STRING if text is None else text for text in batch.column(0).to_pylist()]
    except (pyarrow.ArrowException, OSError) as e:
        if isinstance(e, OSError) and e.errno:
            raise
        raise FormatError(path, f"a damaged parquet file ({str(e).splitlines()[0]})") from None


def with_fields(line, fields):
    """A line with `fields` added at the end of its JSON object. fields: bytes, as in b'"words": 3, "oovs": 1'."""
    body = line.rstrip()
    comma = b"" if body[:-1].rstrip().endswith(b"{") else b", "
    return b"%s%s%s}%s" % (body[:-1], comma, fields, line[len(body) :])
