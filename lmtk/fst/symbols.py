r"""Symbol tables of OpenFst: the words of a model and their numbers, which are the labels of arcs.

As text, a line has a word and its number. In binary form (OpenFst 1.8, symbol-table.cc), a table has a magic number, a
name, the first number that is free, the number of symbols, and then each symbol and its number. A binary FST may hold a
table behind its header. A string is its length, int32, and its bytes; other numbers are int64, all little-endian.
"""

import re
import struct
from dataclasses import dataclass

from lmtk.errors import FormatError, shown

EPSILON = b"<eps>"
SYMBOLS_MAGIC = 2125658996
HAS_SYMBOLS = 1, 2  # bits of an FST's flags: input symbols, output symbols
MOST = 2**31 - 2  # a label is an int32
NAME = b"words"  # of tables in FSTs
LABEL = re.compile(rb"0*([0-9]{1,10})$")  # of a word, in text


@dataclass(frozen=True)
class Symbols:
    """number: {word: number}. path: the file that the table comes from, or None for a new table."""

    number: dict
    path: str | None = None

    @property
    def name(self):
        """The name of the table for a FormatError."""
        return self.path or "the symbol table"

    def add(self, word):
        """The number of a word, which gets the next free number if it has none. Raises FormatError if none is left."""
        if word not in self.number:
            number = max(self.number.values(), default=-1) + 1
            if number > MOST:
                raise FormatError(self.name, f"the number {MOST} is taken, so none is left for {shown(word)}; add it")
            self.number[word] = number
        return self.number[word]


def new_symbols(words):
    """The Symbols in which <eps> is 0 and the words, a list, have the numbers from 1 on."""
    return Symbols({word: i for i, word in enumerate(dict.fromkeys([EPSILON, *words]))})


def read_symbols(path):
    """Reads Symbols from a text, or from a binary FST that contains a symbol table. Raises FormatError."""
    from lmtk.files.decoding import OPENFST, WORD, lines_in
    from lmtk.files.inputs import open_in

    with open_in(path) as stream:
        if stream.peek(4).startswith(OPENFST):
            _, number = read_header(stream, path)
            if number is None:
                raise FormatError(path, "the FST has no symbol table; give a text with words and their numbers")
            return Symbols(number, path)
        number, words = {}, {}
        for line, text in lines_in(stream, path):
            if not (fields := WORD.findall(text)):
                continue
            digits = len(fields) == 2 and LABEL.match(fields[1])
            if not digits or int(digits[1]) > MOST:
                raise FormatError(path, "expected a word and its number, a whole number below 2147483647", line)
            word, value = fields[0], int(digits[1])
            if number.setdefault(word, value) != value:
                raise FormatError(path, f"the word {shown(word)} has two numbers, {number[word]} and {value}", line)
            if words.setdefault(value, word) != word:
                both = f"{shown(words[value])} and {shown(word)}"
                raise FormatError(path, f"the number {value} stands for two words, {both}", line)
    if not number:
        raise FormatError(path, "the symbol table is empty; expected lines with a word and its number")
    return Symbols(number, path)


def describe(stream, path):
    """A binary FST, for `lmtk info`: ([(name, value)], its words by number). Only the header and the symbols are read.
    Raises FormatError.
    """
    rows, number = read_header(stream, path)
    if number is None:
        return [*rows, ("symbol table", "none")], []
    words = sorted(number, key=number.get)
    return [*rows, ("symbol table", f"{len(words)} words")], words


def read_header(stream, path):
    """([(name, value)] of the header of a binary FST, {word: number} of its first symbol table or None). Raises
    FormatError.
    """

    def take(form):
        size = struct.calcsize("<" + form)
        if len(data := stream.read(size)) < size:
            raise FormatError(path, "the FST is incomplete: it ends within its header or its symbol table")
        return struct.unpack("<" + form, data)

    def text():
        (size,) = take("i")
        return take(f"{min(max(size, 0), 1 << 20)}s")[0]

    take("i")
    fst, arcs = text(), text()
    _, flags, _, start, states, _ = take("iiQqqq")
    rows = [("kind", f"OpenFst's binary form, {shown(fst)} FST with {shown(arcs)} arcs")]
    rows += [("states", states), ("start state", start)]
    if not flags & sum(HAS_SYMBOLS):
        return rows, None
    if take("i") != (SYMBOLS_MAGIC,):
        raise FormatError(path, "the FST's symbol table is damaged")
    text()
    _, size = take("qq")
    number = {}
    for _ in range(size):
        word = text()
        (number[word],) = take("q")
    if not all(0 <= value <= MOST for value in number.values()):
        raise FormatError(path, "the FST's symbol table has a number outside 0..2147483646")
    return rows, number


def in_order(symbols):
    """[(number, word)] by number."""
    return sorted((value, word) for word, value in symbols.number.items())


def as_text(symbols):
    """The lines of a symbol table, as bytes."""
    return b"".join(b"%s\t%d\n" % (word, value) for value, word in in_order(symbols))


def as_binary(symbols):
    """A symbol table in binary form, as bytes."""
    rows = in_order(symbols)
    string = lambda word: struct.pack("<i", len(word)) + word
    head = struct.pack("<i", SYMBOLS_MAGIC) + string(NAME) + struct.pack("<qq", rows[-1][0] + 1, len(rows))
    return head + b"".join(string(word) + struct.pack("<q", value) for value, word in rows)
