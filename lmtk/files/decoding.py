"""Decode texts into blocks of whole lines, lines, and passages.

`blocks` opens a file and yields its text in blocks of bounded size; `lines` yields its lines with their numbers. A byte
order mark is skipped, UTF-16 becomes UTF-8, and a missing newline at the end is added. Binary models and overlong words
are errors; bytes that are not UTF-8, NUL bytes, carriage returns inside lines and ARPA files give one warning each.
"""

import codecs
import re
import warnings
from contextlib import suppress

from lmtk.errors import FormatError, LmtkWarning, counted, name_of
from lmtk.files.inputs import Source, is_file, open_in

BLOCK = 4 << 20  # bytes of a block of text
LONGEST_LINE = 16 << 20  # bytes, for readers that need whole lines
LONGEST_WORD = 1 << 20  # bytes
BLANK = re.compile(rb"[ \t\r\n]")
BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks
MODEL = b'{"__metadata__":'  # the bytes from the ninth on in a safetensors file
PARQUET = b"PAR1"
KENLM = b"mmap lm http://kheafield.com/code "
OPENFST = b"\xd6\xfd\xb2\x7e"
FORMS = {"latin1": "Latin-1", "utf-16le": "UTF-16"}
JSONL = re.compile(rb"\s*\{\s*\"[^\"\n]*\"\s*:")
JSON = re.compile(rb"(?:\s*\[)?" + JSONL.pattern)
ARPA = re.compile(rb"\s*\\data\\[ \t\r]*\n[ \t]*ngram[ \t]")
NO_UTF8 = re.compile("[\udc80-\udcff].*")  # the rest of a line, in a text decoded with surrogateescape
WORD = re.compile(rb"[^ \t\r\n]+")  # as in SRILM and KenLM, no other character separates words


def blocks(path, size=BLOCK, eager=False, pieces=False, as_is=False):
    """Yield the text of a file as `decode_blocks` does, with the warnings of `warn_about_bytes`. Raises the errors of
    `decode_blocks` and `open_in`.
    """
    with open_in(path) as stream:
        yield from warn_about_bytes(decode_blocks(stream, path, size, eager, pieces, as_is), path)


def warn_about_bytes(blocks, path):
    """Yield the blocks of a text; at the end, warn about lines that are not UTF-8 and carriage returns inside lines."""
    bad = returns = 0
    name, form = name_of(path), "latin1"
    for block in warn_if_model(blocks, path):
        if not block.isascii() and (bad_here := count_bad_lines(block)):
            bad += bad_here
            form = "utf-16le" if 4 * block.count(b"\0") > len(block) else form
        if b"\r" in block:
            returns += block.count(b"\r") - block.count(b"\r\n")
        yield block
    if bad:
        line = f"{name}: {counted(bad, 'line is', 'lines are')} not UTF-8"
        remedy = f"if the text is {FORMS[form]}, convert it: iconv -f {form} -t utf-8"
        warnings.warn(f"{line}; {remedy}", LmtkWarning, stacklevel=2)
    if returns:
        line = f"{name}: {counted(returns, 'carriage return')} inside lines, read as blanks; tr '\\r' '\\n'"
        warnings.warn(f"{line} makes them line ends", LmtkWarning, stacklevel=2)


def warn_if_model(blocks, path):
    """Yield the blocks of a text; warn if it is an ARPA file or JSON lines."""
    for i, block in enumerate(blocks):
        if i == 0 and ARPA.match(block):
            message = f"{name_of(path)}: it looks like a model, but is read as plain text"
            warnings.warn(f"{message}; lmtk ppl and lmtk vocab read models with -lm", LmtkWarning, stacklevel=2)
        elif i == 0 and JSON.match(block):
            message = f"{name_of(path)}: it looks like JSON, but is read as plain text"
            warnings.warn(f"{message}; to read a field of it, add -field NAME", LmtkWarning, stacklevel=2)
        yield block


def count_bad_lines(block):
    """The number of lines of a block that are not UTF-8."""
    with suppress(UnicodeDecodeError):
        block.decode()
        return 0
    return len(NO_UTF8.findall(block.decode("utf-8", "surrogateescape")))


def decode_blocks(stream, path, size=BLOCK, eager=False, pieces=False, as_is=False):
    """Yield a text in blocks of whole lines, of about `size` bytes.

    pieces: a line longer than both BLOCK and `size` is cut between words into several blocks, so that memory does not
    grow with the length of a line. Otherwise a line longer than LONGEST_LINE is an error. as_is: a last line without a
    newline does not get one. eager: lines in a pipe are yielded at once, so that a filter answers line by line. path:
    for messages.

    A byte order mark of UTF-8 is skipped, with a warning. UTF-16 with a byte order mark becomes UTF-8. NUL bytes stay,
    with a warning. Raises FormatError for a binary model, for a line that is too long, and for a word longer than
    LONGEST_WORD.
    """
    read, offset, short_is_last = stream.read1 if eager else stream.read, 0, not eager
    block = read(size)
    # less than a byte order mark was read; a line end is not in one, and a filter answers a short line at once
    while 0 < len(block) < len(BOM) and b"\n" not in block and (more := read(size)):
        block += more
    if block[8:].startswith(MODEL) or block.startswith((KENLM, OPENFST)):
        raise FormatError(path, "a binary file, such as a model; expected a text")
    if block.startswith(PARQUET):
        raise FormatError(path, "a parquet file; name its column of texts with -field")
    if block.startswith(b"SRILM_BINARY"):
        raise FormatError(
            path, "SRILM's binary form, which lmtk does not read; convert it to text with SRILM's -write or -write-lm"
        )
    if block.startswith(UTF16):
        texts, short_is_last = decode_utf16(block, stream, size, path), False
        read = lambda _: next(texts, b"")
        block = read(size)
    elif block.startswith(BOM):
        warnings.warn(f"{name_of(path)}: byte order mark skipped", LmtkWarning, stacklevel=2)
        # fill the block up, since a block of less than `size` bytes counts as the last one
        block, offset = block[len(BOM) :] + read(len(BOM)), len(BOM)
    limit, parts, last, has_nul = max(size, BLOCK) if pieces else LONGEST_LINE, [], b"", False
    number, counts_lines = 1, not is_file(path)  # a file is read again to count the lines before an error

    def checked(text, whole):
        """Return the text, after the checks. whole: whether the text ends with a line end. Raises FormatError."""
        begin = find_long_word(text)
        if begin < 0 and (whole or pieces):
            return text
        place = (number if counts_lines else line_number(path, offset)) + text.count(b"\n", 0, max(begin, 0))
        if begin < 0:
            raise FormatError(path, f"the line is longer than {LONGEST_LINE >> 20} MB; break it into sentences", place)
        message = f"a word longer than {LONGEST_WORD >> 20} MB begins at byte {offset + begin}; is this a text?"
        raise FormatError(path, message, place)

    while block:
        if not has_nul and b"\0" in block and not isinstance(path, Source):  # a Source warns itself
            has_nul = True
            place = (number if counts_lines else line_number(path, offset)) + block.count(b"\n", 0, block.index(b"\0"))
            message = f"{name_of(path)}:{place}: NUL bytes in the text; they are read as parts of words"
            remedy = "if the text is UTF-16, convert it: iconv -f utf-16le -t utf-8"
            warnings.warn(f"{message}; {remedy}", LmtkWarning, stacklevel=2)
        end = len(block) if short_is_last and len(block) < size else block.rfind(b"\n") + 1
        if not end and sum(map(len, parts)) + len(block) < limit:
            parts.append(block)
        else:
            text, rest = memoryview(block)[: end or len(block)], block[end:] if end else b""
            text = checked(b"".join((*parts, text)) if parts or rest else block, end > 0)
            if not end:
                end = find_last_blank(text) + 1
                text, rest = text[:end], text[end:]
            elif not (as_is or text.endswith(b"\n")):
                text += b"\n"
            if text:
                last = text[-1:]
                yield text
            parts, offset = [rest] if rest else [], offset + len(text)
            number += text.count(b"\n") if counts_lines else 0
        block = read(size)
    last = parts[-1] if parts else last
    newline = b"" if as_is or not last or last.endswith(b"\n") else b"\n"
    if parts or newline:
        yield checked(b"".join(parts), True) + newline


def find_long_word(text):
    """The place of the first word of a text that is longer than LONGEST_WORD, or -1.

    The text is visited in steps of LONGEST_WORD / 2 bytes. A long word covers at least one whole step, so only words
    around steps without blanks are measured.
    """
    step = LONGEST_WORD // 2
    for at in range(step, len(text), step):
        if not BLANK.search(text, at - step, at):
            begin, end = find_last_blank(text, at) + 1, BLANK.search(text, at)
            if (end.start() if end else len(text)) - begin > LONGEST_WORD:
                return begin
    return -1


def find_last_blank(text, end=None):
    """The place of the last blank or newline before text[end], or -1."""
    return max(text.rfind(blank, 0, end) for blank in (b" ", b"\t", b"\r", b"\n"))


def line_number(path, offset):
    """The number of the line at a byte offset of the decompressed text of a file."""
    with open_in(path) as stream:
        number = 1
        while offset > 0 and (block := stream.read(min(offset, BLOCK))):
            number, offset = number + block.count(b"\n"), offset - len(block)
        return number


def decode_utf16(block, stream, size, path):
    """Yield UTF-16 text with a byte order mark as UTF-8, in blocks.

    block: the bytes that have been read of the stream. Raises FormatError.
    """
    decoder, at = codecs.getincrementaldecoder("utf-16")(), 0
    while True:
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block, not block)
        except UnicodeDecodeError as e:
            place = at - pending + e.start
            message = f"the byte order mark says UTF-16, but byte {place} is not UTF-16 ({e.reason})"
            raise FormatError(path, message) from None
        at += len(block)
        if text:
            yield text.encode()
        if not block:
            return
        block = stream.read(size)


def lines(path, words=False):
    """Yield (number, line without its end) of a text file. words: whether to warn if the file looks like a model."""
    with open_in(path) as stream:
        blocks = decode_blocks(stream, path)
        yield from split_lines(warn_if_model(blocks, path) if words else blocks)


def lines_in(stream, path):
    """Yield (number, line without its end) of an open stream; `path` is for messages."""
    return split_lines(decode_blocks(stream, path))


def split_lines(blocks):
    """Yield (number, line without its end) of a text in blocks of whole lines, as `decode_blocks` yields them."""
    rows = (row.rstrip(b"\r") for block in blocks for row in block.removesuffix(b"\n").split(b"\n"))
    return enumerate(rows, 1)


def passages(rows, escape):
    """Yield (the text between two lines that begin with `escape`, the second of these lines, or b"" at the end).

    rows: (number, line) pairs, as from `lines`.
    """
    text = []
    for _, row in rows:
        if row.startswith(escape):
            yield b"".join(text), row + b"\n"
            text = []
        else:
            text.append(row + b"\n")
    yield b"".join(text), b""
