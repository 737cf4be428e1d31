"""Reads documents from a file of JSON lines, one JSON object on each line, in batches of whole lines.

`batches` yields the lines as they stand in the file, and `text_of` gives the text of a line. A file may be read in n
parts (`Part`) of about equal size, whose lines make the whole file if they are put one after another.
"""

import json
import re
from typing import NamedTuple

from lmtk.errors import FormatError, UsageError, name_of
from lmtk.files.decoding import BLOCK, BOM, line_number
from lmtk.files.inputs import open_in

LONGEST = 256 << 20  # bytes of a line
NOT_JSON, NO_FIELD, NO_STRING = range(1, 4)  # why a line has no text
SURROGATE = re.compile("[\ud800-\udfff]")


class Part(NamedTuple):
    """Part `number`, from 1 on, of `of` parts of a file."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text):
        """The Part that "3/8" names, or None."""
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        part = cls(int(match[1]), int(match[2])) if match else cls(0)
        return part if 1 <= part.number <= part.of else None

    def span(self, size):
        """The bytes from which on and up to which lines of this part begin, in a file of `size` bytes."""
        return (size * (self.number - 1) // self.of, size * self.number // self.of)


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
    """(the place of the first line of a part of an open file, where the part ends). The stream is put at that place."""
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


def parse(line):
    """The JSON object of a line, a dictionary, or None."""
    try:
        document = json.loads(line.decode().removeprefix("\ufeff") if line.startswith(BOM) else line.decode())
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def text_of(document, field):
    """The text of a document, a string, or the number that says why it has none. document: as `parse` gives it.

    Half a surrogate pair, which JSON can write and UTF-8 cannot, becomes the replacement character.
    """
    if document is None:
        return NOT_JSON
    if field not in document:
        return NO_FIELD
    text = document[field]
    if not isinstance(text, str):
        return NO_STRING
    if not text.isascii() and SURROGATE.search(text):
        text = SURROGATE.sub("\ufffd", text)
    return text


def with_fields(line, fields):
    """A line with more fields behind those that it has. fields: bytes, as in b'"words": 3, "oovs": 1'."""
    body = line.rstrip()
    return b"%s, %s}%s" % (body[:-1], fields, line[len(body) :])
