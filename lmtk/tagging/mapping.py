"""Maps: which tags a word of a text may stand for, each with p(word | tag)."""

import re
import warnings
from collections import defaultdict
from itertools import count

import numpy as np

from lmtk.errors import FormatError, LmtkWarning, name_of, shown
from lmtk.files.decoding import WORD, lines
from lmtk.files.outputs import open_out
from lmtk.ngram.arpa.reader import NUMBER
from lmtk.tagging.hashing import in_order
from lmtk.text.vocab import lower

UNK, SOS, EOS = range(3)  # the numbers of <unk>, <s>, </s> among words and among tags
may_have_numbers = re.compile(rb"[ \t][-+.\d]").search


class Numbering(defaultdict):
    """Words or tags -> their numbers, in the order in which they came."""

    def __init__(self, in_lower_case):
        first = b"<unk>", b"<s>", b"</s>", b"-pau-"
        super().__init__(count(len(first)).__next__, zip(first, range(len(first))))
        self.in_lower_case, self.listed = in_lower_case, []

    def fold(self, text):
        return lower(text) if self.in_lower_case else text

    @property
    def names(self):
        """The word or tag of each number."""
        if len(self.listed) < len(self):
            self.listed = list(self)
        return self.listed

    def write(self, path):
        with open_out(path) as out:
            out.writelines(name + b"\n" for name in sorted(self))


class Map:
    """A map that is read from files. words, tags: the Numberings of both; rows: {word: {tag: p}}, where p is
    p(word | tag), or log10 of it if is_log.
    """

    def __init__(self, words, tags, is_log):
        self.words, self.tags, self.is_log = words, tags, is_log
        self.certain = 0.0 if is_log else 1.0  # a probability of 1 in `rows`
        self.rows = {number: {number: self.certain} for number in (SOS, EOS, UNK)}
        self.history = [*self.rows]  # the words put into the map; ~word for one that is removed

    def number(self, field, path, line):
        """The p or log10 p in a field, or None if the field is a tag. Raises FormatError if p is negative."""
        if field[0] not in b"+-.0123456789" or not NUMBER.match(field):
            return None
        p = float(field)
        if self.is_log:
            return float(np.float32(p))
        if p < 0:
            raise FormatError(path, f"the probability {p:g} is negative; for log10 p give -logmap", line)
        return p

    def pairs(self, fields, path, line):
        """{tag: p}, as in `rows`, of fields that are tags; each tag may be followed by its probability."""
        row, last = {}, None
        for field in fields:
            p = None if last is None else self.number(field, path, line)
            if p is None:
                last = self.tags[self.tags.fold(field)]
                row[last] = self.certain
            else:
                row[last], last = p, None
        return row

    def read(self, path):
        """Reads lines of a word and its tags. The last line of a word replaces others."""
        for line_number, line in lines(path):
            if not (fields := WORD.findall(line)):
                continue
            word = self.words[self.words.fold(fields[0])]
            if word in self.rows:
                if word > EOS:
                    where = f"{name_of(path)}:{line_number}"
                    message = (
                        f"{where}: {shown(fields[0])} has two lines in the map; this line replaces the earlier one"
                    )
                    warnings.warn(message, LmtkWarning, stacklevel=2)
                del self.rows[word]
                self.history.append(~word)
            if self.tags.in_lower_case or may_have_numbers(line):
                row = self.pairs(fields[1:], path, line_number)
            else:
                row = {self.tags[field]: self.certain for field in fields[1:]}
            if row:
                self.rows[word] = row
                self.history.append(word)

    def read_classes(self, path):
        """Reads lines of a class, which is a tag, optionally its probability, and a word."""
        for line_number, line in lines(path):
            if not (fields := WORD.findall(line)):
                continue
            p = self.number(fields[1], path, line_number) if len(fields) > 1 else None
            if len(fields) != (2 if p is None else 3):
                expected = "expected a class, optionally its probability, and one word"
                raise FormatError(path, f"{expected}, found '{shown(line)[:60]}'", line_number)
            tag = self.tags[self.tags.fold(fields[0])]
            word = self.words[self.words.fold(fields[-1])]
            if word not in self.rows:
                self.rows[word] = {}
                self.history.append(word)
            self.rows[word][tag] = self.certain if p is None else p

    def write(self, path):
        """Writes a map, words and tags in SRILM's order."""
        (words,) = in_order([self.history])
        with open_out(path) as out:
            for word, tags in zip(words, in_order([[*self.rows[word]] for word in words])):
                fields = [self.describe(tag, self.rows[word][tag]) for tag in tags]
                out.write(self.words.names[word] + b"\t" * bool(fields) + b" ".join(fields) + b"\n")

    def describe(self, tag, number):
        """A tag as it stands in a map: with its number, unless the tag has p = 1."""
        name = self.tags.names[tag]
        return name if number == self.certain else b"%s %.16g" % (name, number)
