"""How texts are read: as lines, from a field of JSON lines or parquet, normalized, and split into pieces.

`Reading` has the options that commands share. `convert_texts` replaces the names of texts in a job by
files.inputs.Source. A Source is converted to plain text, block by block, while a job reads it. So the converted text is
never written to a file, and every function that reads texts accepts a Source. A job that also needs the words as they
stand in the text converts it by `Reading.unsplit`, and gets the ids of the pieces by `Reading.reader`.
"""

import os
import re
import warnings
from dataclasses import dataclass, replace
from functools import cached_property

from lmtk.errors import FormatError, LmtkWarning, counted, name_of
from lmtk.files.inputs import is_file
from lmtk.jobs.rules import excludes, flatten, needs, one_of, wrong

SHOWN = 10  # numbers of lines in a warning
SHORT_TEXT = 100  # words; a shorter plain text gives no warning about unknown words
DOCUMENTS = (".jsonl", ".ndjson", ".json", ".parquet")  # how the names of files with fields end
BLANKS = " \t\r\n"
BLANK_LINE = re.compile(r"\n[ \t\r]*(?=\n)")


@dataclass(frozen=True)
class Reading:
    """How texts are read.

    field: the field of JSON lines, or the column of parquet files, that has the text. None: the files are plain texts.
    tokenizer: a file of a tokenizer, which splits the text into pieces.
    encode: how pieces are named; "nemo": each by one character. normalize: "ccnet": normalize the text as CCNet does.
    """

    field: str | None = None
    tokenizer: str | None = None
    encode: str | None = None
    normalize: str | None = None

    @property
    def is_encoded(self):
        """Whether the words of a text are changed or split."""
        return bool(self.tokenizer or self.normalize)

    @property
    def unsplit(self):
        """The Reading that leaves the words as they are."""
        return Reading(self.field)

    def source(self, path, apart=False):
        """The name of a text; if the text has to be converted, as a Source, which converts it while it is read. apart:
        put a blank line after the text of each document, and remove the blank lines inside the text.
        """
        from lmtk.files.inputs import Source

        is_plain = not (self.field or self.is_encoded)
        return path if is_plain or path is None or isinstance(path, Source) else Source(path, self.converter(apart))

    def of_other(self, path):
        """The Reading of a text other than the main one, such as a held-out text. It has no field, unless the name of
        the file ends in one of DOCUMENTS.
        """
        from lmtk.files.outputs import SUFFIX

        stem, suffix = os.path.splitext(path)
        suffix = os.path.splitext(stem)[1] if suffix in SUFFIX else suffix
        return self if suffix.lower() in DOCUMENTS else replace(self, field=None)

    def converter(self, apart):
        """A function from the name of a text to blocks of its converted text."""
        warned = []  # a text may be read twice

        def convert(path):
            from lmtk.files.decoding import blocks

            texts = self.blocks_of_field(path, apart, warned) if self.field else blocks(path)
            if self.is_encoded:
                from lmtk.text.tokenizer import piece_text

                reader = piece_text(self.encoder)
                texts = (reader.ids(block).tobytes() for block in texts)
            yield from texts

        return convert

    @cached_property
    def encoder(self):
        """The text.tokenizer.Encoder that -normalize and -tokenizer ask for."""
        from lmtk.text.tokenizer import Encoder, load_tokenizer

        normalize = None
        if self.normalize:
            from lmtk.text.ccnet import normalize
        return Encoder(normalize, load_tokenizer(self.tokenizer, self.encode) if self.tokenizer else None)

    def reader(self, index, tolower=False):
        """The Reader of a text by an index, Closed or Growing, or the PieceReader if its words are changed or split."""
        from lmtk.text.corpus import Reader
        from lmtk.text.tokenizer import piece_ids

        return piece_ids(self.encoder, index) if self.is_encoded else Reader(index, tolower)

    def split(self, lines):
        """Lines, bytes without their ends, with blanks between the pieces."""
        if not self.is_encoded:
            return lines
        return [line.encode() for line in self.encoder.lines([line.decode("utf-8", "replace") for line in lines])]

    def as_lines(self, texts):
        """The texts of documents, without the line end after the last sentence. For CCNet's normalization, the other
        line ends become INSIDE, which does not separate words: CCNet deletes line ends and so joins words.
        """
        if not self.normalize:
            return [text.removesuffix("\n") for text in texts]
        from lmtk.text.tokenizer import INSIDE

        return [text.strip().replace("\n", INSIDE) for text in texts]

    def blocks_of_field(self, path, apart, warned):
        """Yield the texts of the documents of a file as lines, in blocks of bytes. apart: as in `source`.
        warned: a list, which is empty until the problems of the file have been printed.
        """
        for pairs in self.texts_of_field(path, warned):
            texts = self.as_lines([text for _, text in pairs])
            if apart:
                texts = [BLANK_LINE.sub("", text) + "\n" for text in texts]
            yield "".join([text + "\n" for text in texts]).encode()

    def texts_of_field(self, path, warned):
        """Yield the texts of the documents of a file in lists of pairs (the number of the line or row, the text).

        warned: as in `blocks_of_field`. Raises FormatError if none of the first documents has the field, and for a word
        that is longer than LONGEST_WORD.
        """
        from lmtk.files.decoding import LONGEST_WORD, find_long_word
        from lmtk.files.documents import batches, is_parquet, parse, read_parquet

        problems, first = Problems(name_of(path), self.field, lambda: 1), 0
        if is_file(path) and is_parquet(path):
            problems.unit = "row"
            parsed = ([(None, text) for text in texts] for texts in read_parquet(path, self.field))
        else:
            parsed = ([parse(line, self.field) for line in lines] for lines in batches(path))
        for rows in parsed:
            pairs = []
            for row, (_, text) in enumerate(rows, first):
                if not isinstance(text, str):
                    problems.add(text, row)
                    continue
                if not text or (text.isspace() and not text.strip(BLANKS)):
                    problems.add(problems.EMPTY, row)
                if "\0" in text and not self.normalize:
                    problems.add(problems.NUL, row)
                if len(text) > LONGEST_WORD // 4 and find_long_word(text.encode()) >= 0:
                    message = f"the text has a word longer than {LONGEST_WORD >> 20} MB; leave this document out"
                    raise FormatError(path, message, row + 1)
                pairs.append((row + 1, text))
            if not first and not pairs:
                problems.reject(next((document for document, _ in rows if document), {}))
            yield pairs
            first += len(rows)
        if not warned:
            problems.warn(lambda problem: OUTCOMES.get(problem, "skipped"))
            warned.append(True)

    def lines(self, path):
        """Yield (the number of its line or row in the file, a line of the text) of a text whose words are neither
        changed nor split.
        """
        from lmtk.files.decoding import blocks, split_lines

        if not self.field:
            yield from split_lines(blocks(path))
            return
        for pairs in self.texts_of_field(path, []):
            for number, text in pairs:
                for line in text.removesuffix("\n").split("\n"):
                    yield number, line.encode().rstrip(b"\r")

    def digest(self):
        """The SHA-256 of the tokenizer's file, or None."""
        from lmtk.files.inputs import digest

        return digest(self.tokenizer)

    def check_model(self, model, name):
        """Warn if a model was made with another tokenizer. name: what messages call the model."""
        self.check_digest(model.vocab.tokenizer, name)

    def check_models(self, models, names):
        """`check_model` of each of the models."""
        for model, name in zip(models, names):
            self.check_model(model, name if isinstance(name, str) else "the model")

    def check_pieces(self, unknown, number, name):
        """Warn if a model lacks most of the pieces of a text, or of the words of documents. unknown: how many of the
        `number` pieces or words the model lacks. name: what messages call the text.
        """
        if 2 * unknown <= number:
            return
        units, remedy = "piece", f"was the model made with the tokenizer {self.tokenizer}?"
        if not self.tokenizer:
            units, remedy = "word", "if the model is in lower case, add -tolower; "
            remedy += "if it was made with a tokenizer, give the tokenizer as -tokenizer FILE; "
            remedy += "if it is a model of classes, give the classes too"
        text = f"{name}: {int(unknown)} of {counted(int(number), units)} are not in the model"
        warnings.warn(f"{text}; {remedy}", LmtkWarning, stacklevel=1)

    def check_digest(self, of_model, name):
        """Warn if a model or an index was made with a tokenizer, and this Reading has another one or none. of_model:
        the digest of the model's tokenizer, or None. name: what messages call the model.
        """
        if not of_model:
            return
        if not self.tokenizer:
            message = f"{name} was made with a tokenizer, but this text is read as words"
            warnings.warn(f"{message}; add -tokenizer FILE with the same tokenizer", LmtkWarning, stacklevel=1)
        elif self.digest() not in (None, of_model):
            message = f"{name} was made with another tokenizer, not with {self.tokenizer}"
            warnings.warn(f"{message}; give the tokenizer that {name} was made with", LmtkWarning, stacklevel=1)


def convert_texts(job, reading, texts="text", others="", apart=False):
    """Make Sources of the names of texts in the fields of a job.

    texts, others: names of fields, with blanks between them; a field has one name, a tuple of names, or None. The
    Reading of `others` is `Reading.of_other`. apart: as in `Reading.source`.
    """
    for name in f"{texts} {others}".split():
        value = getattr(job, name)
        paths = value if isinstance(value, tuple) else (value,)
        made = tuple(
            (reading.of_other(path) if path and name in others.split() else reading).source(path, apart)
            for path in paths
        )
        object.__setattr__(job, name, made if isinstance(value, tuple) else made[0])


class Problems:
    """The problems of the lines of a file. lines: {problem: the numbers of its lines, from 0 on}.

    name: what messages call the file. field: of the text. first: a function that gives the number of the first line, 1
    unless a part of the file is read. unit: "line", or "row" of a parquet file.
    """

    BLANK, NOT_JSON, NO_FIELD, NO_STRING, EMPTY, NUL = range(6)  # the first four are those of `documents.parse`

    def __init__(self, name, field, first):
        self.name, self.field, self.first, self.lines, self.unit = name, field, first, {}, "line"

    def add(self, problem, line):
        if problem != self.BLANK:
            self.lines.setdefault(problem, []).append(line)

    def clauses(self):
        field = self.field
        return {
            self.NOT_JSON: ("line is not a JSON object", "lines are not JSON objects"),
            self.NO_FIELD: (f'document has no field "{field}"', f'documents have no field "{field}"'),
            self.NO_STRING: (
                f'document has a field "{field}" that is not a string',
                f'documents have a field "{field}" that is not a string',
            ),
            self.EMPTY: ("document has no words", "documents have no words"),
            self.NUL: ("document has NUL characters", "documents have NUL characters"),
        }

    def reject(self, document):
        """Raise FormatError where the first documents of a file show that it is another kind of file.

        document: the first of them that is a JSON object with fields, or {}.
        """
        problems = self.NO_FIELD, self.NOT_JSON, self.NO_STRING
        lacking, malformed, no_string = (len(self.lines.get(problem, ())) for problem in problems)
        if no_string and {self.NO_STRING, self.NO_FIELD} >= self.lines.keys():
            texts = ", ".join([name for name, value in document.items() if isinstance(value, str)][:SHOWN])
            remedy = f"; give a field with a text as -field: {texts}" if texts else ""
            message = f'the field "{self.field}" of the documents is not a string{remedy}'
            raise FormatError(self.name, message, self.first() + self.lines[self.NO_STRING][0])
        if lacking > malformed:
            names = ", ".join(list(document)[:SHOWN])
            inner = "; a field inside another field cannot be read" if "." in self.field else ""
            remedy = f"; give one of their fields as -field: {names}" if names else ""
            message = f'the documents have no field "{self.field}"{inner}{remedy}'
            raise FormatError(self.name, message, self.first() + self.lines[self.NO_FIELD][0])
        if malformed:
            message = 'not JSON lines; expected a document on each line, such as {"text": "..."}'
            raise FormatError(self.name, message, self.first() + self.lines[self.NOT_JSON][0])

    def warn(self, outcome):
        """One warning for each problem. outcome(problem): what happens to the lines with it, in words."""
        first, clauses = self.first() if self.lines else 1, self.clauses()
        for problem, lines in sorted(self.lines.items()):
            numbers = ", ".join(str(first + line) for line in lines[:SHOWN]) + ", ..." * (len(lines) > SHOWN)
            where = f"({self.unit}{'s' * (len(lines) > 1)} {numbers})"
            message = f"{self.name}: {counted(len(lines), *clauses[problem])} {where}; {outcome(problem)}"
            warnings.warn(message, LmtkWarning, stacklevel=1)


OUTCOMES = {Problems.EMPTY: "read as a blank line", Problems.NUL: "NUL is read as a part of the word"}
FIELD_RULES = (wrong(lambda job: flatten(job)["field"] == "", "-field is empty; give the name of a field"),)
PIECE_RULES = one_of("encode", ("nemo",)), needs("encode", "tokenizer")
READING_RULES = *FIELD_RULES, one_of("normalize", ("ccnet",)), *PIECE_RULES
# of jobs that can put a text in lower case
NOT_LOWERED = excludes("tokenizer", "tolower", more="; first convert the text to lower case")
LOWERED_RULES = *READING_RULES, NOT_LOWERED


def needs_text(texts="text"):
    """A rule: the options of a Reading need one of the options `texts`."""
    return needs("field tokenizer normalize", texts)
