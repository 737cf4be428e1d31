"""Sentences with columns, such as the items of a reading experiment, and the places of their words.

A text has a sentence on each line. A table has a header, and a sentence in one column of each row; the other columns
are kept. `read_items` reads both, `split` finds the words, the pieces of words and the regions of a sentence.
"""

import os
import re
import warnings
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise

from lmtk.errors import FormatError, LmtkWarning, counted, name_of, shown
from lmtk.files.decoding import WORD
from lmtk.files.outputs import SUFFIX
from lmtk.text.subwords import MARK, word_numbers
from lmtk.text.vocab import EOS, SOS, lower

ITEM = b"item"  # the column that names an item
SUFFIXES = "|".join(map(re.escape, SUFFIX))  # of compressed files
CSV, TABLE = (re.compile(rf".*\.{kind}({SUFFIXES})?", re.DOTALL | re.IGNORECASE) for kind in ("csv", "tsv"))
COMMAS = "a table with commas; write it with tabs, as a .tsv file"
WORD_IN_TEXT = re.compile(WORD.pattern.decode())
GOES_ON = b"@@"  # at the end of a piece: the word goes on in the next piece
END = -1  # the region of </s>


@dataclass(frozen=True)
class Item:
    """A sentence as it is written, bytes; its line in the file; and the columns that are kept, the first one `item`."""

    sentence: bytes
    line: int
    columns: tuple


@dataclass(frozen=True)
class Tokens:
    """The tokens of a sentence that a model scores, N of them: words, or pieces of words, and </s>.

    text: as the model reads them, a line without its end. words: as they are written. start, end: their places in the
    sentence, counted in characters. region: their regions, from 1 on; END for </s>. number: the number of the word
    that each token belongs to, from 0 on. sentence: the sentence, a string, if a tokenizer has split it.
    """

    text: bytes
    words: list
    start: list
    end: list
    region: list
    number: list
    sentence: str | None = None


def is_table(path):
    """Whether a file is a table by its name."""
    return TABLE.fullmatch(os.fspath(path)) is not None


def warn_if_table(path, rows):
    """Returns the pairs `rows` of a text; warns if its first two lines have equally many tabs, as in a table."""
    first = list(islice(rows, 2))
    tabs = [line.count(b"\t") for _, line in first]
    if len(tabs) == 2 and tabs[0] == tabs[1] > 0:
        message = f"{name_of(path)}: it looks like a table, but is read as plain text"
        remedy = "give its file a name that ends in .tsv, or name the column of the sentences with -column"
        warnings.warn(f"{message}; {remedy}", LmtkWarning, stacklevel=2)
    return chain(first, rows)


def read_items(path, column, rows):
    """(the names of the columns that are kept, an iterator of Items) of a text, or of a table if `column` names the
    column that has the sentences. rows: (number, line) of the lines of the text.

    A text has one column, `item`, the number of the line. A table without a column `item` gets such a column too.
    Raises FormatError.
    """
    if column is None and CSV.fullmatch(os.fspath(path)):
        raise FormatError(path, COMMAS)
    if column is None:
        return (ITEM,), (Item(line, number, (b"%d" % number,)) for number, line in rows)
    _, header = next(rows, (0, b""))
    names, sentence = header.split(b"\t"), os.fsencode(column)
    if b'"%s"' % sentence in names:
        raise FormatError(path, "the names of columns have quotation marks; write the table without quotation marks", 1)
    if sentence not in names and len(names) == 1 and b"," in header:
        raise FormatError(path, COMMAS)
    if sentence not in names:
        columns = ", ".join(map(shown, names))
        reason = f"the header has no column '{column}', only {columns}" if columns else "the header is empty"
        raise FormatError(path, f"{reason}; name the column of the sentences by -column", 1)
    if twice := [name for name in names if names.count(name) > 1]:
        raise FormatError(path, f"two columns are called {shown(twice[0])}; give each column a different name", 1)
    kept = [i for i, name in enumerate(names) if name not in (ITEM, sentence)]
    at, place = names.index(sentence), names.index(ITEM) if ITEM in names and sentence != ITEM else None

    def items():
        for number, line in rows:
            row = line.split(b"\t")
            if len(row) != len(names):
                columns = f"{counted(len(row), 'column')}, but the header has {len(names)}"
                raise FormatError(path, f"{columns}; separate columns by one tab", number)
            item = b"%d" % number if place is None else row[place]
            yield Item(row[at], number, (item, *(row[i] for i in kept)))

    return (ITEM, *(names[i] for i in kept)), items()


def split(sentence, marks, separator=b""):
    """The Tokens of a sentence, as a model reads it with these Marks. separator: the bytes between two regions; they
    are not scored.
    """
    text = sentence.replace(separator, b" " * len(separator)) if separator else sentence
    spans = [match.span() for match in WORD.finditer(text)]
    words = [text[begin:end] for begin, end in spans]
    bounds = [0, *(place for span in spans for place in span)]
    passed = (sentence.count(separator, at, begin) if separator else 0 for at, begin in zip(bounds[::2], bounds[1::2]))
    region = list(accumulate(passed, initial=1))[1:]
    if sentence.isascii():
        places, length = bounds[1:], len(sentence)
    else:
        count = lambda part: len(part.decode("utf-8", "surrogateescape"))
        places, at = [], 0
        for begin, end in pairwise(bounds):
            at += count(sentence[begin:end])
            places.append(at)
        length = at + count(sentence[bounds[-1] :])
    start, end = places[::2], places[1::2]
    return as_scored(Tokens(text, words, start, end, region, numbers_of_words(words)), marks, length)


def as_scored(tokens, marks, length):
    """Tokens without an opening <s>, which is not scored, and with </s> at the end if `marks` asks for it. length: of
    the sentence.
    """
    form = lower if marks.tolower else bytes
    columns = tokens.words, tokens.start, tokens.end, tokens.region, tokens.number
    if tokens.words and not marks.stream and form(tokens.words[0]) == SOS:
        columns = tuple(column[1:] for column in columns)
    if marks.eos and not (columns[0] and form(columns[0][-1]) == EOS):
        numbers = columns[-1]
        last = EOS, length, length, END, numbers[-1] + 1 if numbers else 0
        columns = tuple([*column, value] for column, value in zip(columns, last))
    return Tokens(tokens.text, *columns, tokens.sentence)


def split_into_pieces(sentence, marks, separator, tokenizer):
    """The Tokens of a sentence whose tokens are the pieces of a tokenizer of `text.tokenizer`. marks, separator: as in
    `split`. A piece belongs to the word in which it begins; blanks at its ends do not count.
    """
    sentence, separator = sentence.decode("utf-8", "replace"), separator.decode("utf-8", "replace")
    text = sentence.replace(separator, " " * len(separator)) if separator else sentence
    spans = [match.span() for match in WORD_IN_TEXT.finditer(text)]
    ends = [end for _, end in spans]
    words, names, start, end, region, number = [], [], [], [], [], []
    for piece, name, first, last in tokenizer.places(text):
        word = min(bisect_right(ends, first), len(spans) - 1)
        first = min(max(first, spans[word][0]), ends[-1]) if spans else first
        last = first + len(text[first:last].rstrip(" \t\r\n"))
        for part in WORD_IN_TEXT.findall(name):  # none for a tab as a piece, which the model does not see
            words.append((part if piece == name else piece).encode())
            names.append(part.encode())
            start.append(first)
            end.append(last)
            region.append(1 + sentence.count(separator, 0, first) if separator else 1)
            number.append(word)
    whole = Tokens(b" ".join(names), words, start, end, region, number, sentence)
    return as_scored(whole, marks, len(sentence))


def join_tokens(tokens, first, last):
    """The word, bytes, that consists of the tokens from `first` up to `last`, the latter not included."""
    pieces = tokens.words[first:last]
    if tokens.sentence is None:
        return join(pieces)
    text = tokens.sentence[tokens.start[first] : tokens.end[last - 1]]
    if tokens.region[first] == END or not text:
        return b"".join(pieces)
    return " ".join(WORD_IN_TEXT.findall(text)).encode()


def numbers_of_words(pieces):
    """For each piece, the number of its word, from 0 on; a list.

    If the first piece begins with MARK, so does the first piece of each word, as in SentencePiece. Otherwise a piece
    that ends in GOES_ON continues in the next piece, as in subword-nmt.
    """
    if pieces and pieces[0].startswith(MARK):
        return word_numbers(pieces)
    number, numbers = 0, []
    for piece in pieces:
        numbers.append(number)
        number += not goes_on(piece)
    return numbers


def goes_on(piece):
    return piece.endswith(GOES_ON) and piece != GOES_ON


def join(pieces):
    """The word that is made of pieces, bytes."""
    if pieces[0].startswith(MARK):
        return b"".join(pieces).removeprefix(MARK) or MARK
    return b"".join(piece[: -len(GOES_ON)] if goes_on(piece) else piece for piece in pieces)
