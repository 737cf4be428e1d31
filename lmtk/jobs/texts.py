"""How texts are read: as lines, from a field of JSON lines or parquet, normalised, and split into pieces.

`Reading` has the options that commands share. Its `sources` makes files.inputs.Source of the names of texts. A Source
is converted to plain text, a block after another, while a job reads it. So no converted text is written, and everything
that reads texts takes it.
"""

import os
import warnings
from dataclasses import dataclass

from lmtk.errors import FormatError, LmtkWarning, counted, name_of
from lmtk.jobs.rules import excludes, needs, one_of

SHOWN = 10  # numbers of lines in a warning
INSIDE = "\x1f"  # a control character that does not separate words


@dataclass(frozen=True)
class Reading:
    """How texts are read. field: the field of JSON lines, or the column of parquet files, that has the text; None: the
    files are texts. tokenizer: a file, splits the text into pieces. encode: how pieces are named, None or nemo.
    normalize: None or ccnet.
    """

    field: str | None = None
    tokenizer: str | None = None
    encode: str | None = None
    normalize: str | None = None

    def sources(self, paths):
        """The names of texts as names of Sources, if the texts are converted."""
        from lmtk.files.inputs import Source

        if not (self.field or self.tokenizer or self.normalize):
            return paths
        return tuple(path if isinstance(path, Source) else Source(path, self.converter()) for path in paths)

    def converter(self):
        """A function from the name of a text to blocks of its converted text."""
        warned = []  # a text may be read twice

        def convert(path):
            from lmtk.files.decoding import blocks

            problems = Problems(name_of(path), self.field, lambda: 1)
            texts = self.blocks_of_field(path, problems) if self.field else blocks(path)
            if self.tokenizer or self.normalize:
                from lmtk.text.tokenizer import piece_text

                reader, join = piece_text(self.encoder()), self.join_words
                texts = (reader.ids(join(block)).tobytes() for block in texts)
            yield from texts
            if not warned:
                problems.warn(lambda problem: "skipped")
                warned.append(True)

        return convert

    def join_words(self, block):
        """A block of lines in which tabs and carriage returns separate no words, if CCNet's normalisation will remove
        them.
        """
        if not self.normalize or not (b"\t" in block or b"\r" in block):
            return block
        return block.replace(b"\t", INSIDE.encode()).replace(b"\r", INSIDE.encode())

    def encoder(self):
        """The text.tokenizer.Encoder that -normalize and -tokenizer ask for."""
        from lmtk.text.tokenizer import Encoder, load_tokenizer

        normalize = None
        if self.normalize:
            from lmtk.text.ccnet import normalize
        return Encoder(normalize, load_tokenizer(self.tokenizer, self.encode) if self.tokenizer else None)

    def as_lines(self, texts):
        """Texts of documents, with the line ends that separate sentences; the one at the end of a text separates none.
        CCNet's normalisation takes line ends away, and so makes one word of the words around them.
        """
        if not self.normalize:
            texts = [text.removesuffix("\n") for text in texts]
        else:
            texts = [text.strip() for text in texts]
            for blank in "\n\t\r":
                texts = [text.replace(blank, INSIDE) for text in texts]
        return texts

    def blocks_of_field(self, path, problems):
        """Yields the texts of the documents of a file, a line after another, in blocks of bytes."""
        from lmtk.files.documents import batches, is_parquet, parse, read_parquet

        if os.path.isfile(path) and is_parquet(path):
            problems.unit = "row"
            parsed = ([(None, text) for text in texts] for texts in read_parquet(path, self.field))
        else:
            parsed = ([parse(line, self.field) for line in lines] for lines in batches(path))
        first = 0
        for rows in parsed:
            texts = []
            for row, (_, text) in enumerate(rows):
                if isinstance(text, str):
                    texts.append(text)
                else:
                    problems.add(text, first + row)
            if not first and not texts:
                problems.reject(next((document for document, _ in rows if document), None))
            yield "".join([text + "\n" for text in self.as_lines(texts)]).encode()
            first += len(rows)

    def digest(self):
        """The SHA-256 of the tokenizer's file, or None."""
        from lmtk.files.inputs import digest

        return digest(self.tokenizer)

    def check_model(self, model, name):
        """Warn if a model was made with another tokenizer."""
        of_model = model.vocab.tokenizer
        if self.tokenizer and of_model and self.digest() not in (None, of_model):
            message = f"{name} was made with another tokenizer than {self.tokenizer}"
            warnings.warn(f"{message}; give the tokenizer of the model", LmtkWarning, stacklevel=1)


class Problems:
    """The lines of a file that have no text, {problem: their numbers, from 0 on}.

    name: what messages call the file. field: of the text. first: a function that gives the number of the first line, 1
    unless a part of the file is read. unit: "line", or "row" of a parquet file.
    """

    BLANK, NOT_JSON, NO_FIELD, NO_STRING, EMPTY, NUL = range(6)

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

        document: the first of them that is a JSON object, or None.
        """
        lacking, malformed = (len(self.lines.get(problem, ())) for problem in (self.NO_FIELD, self.NOT_JSON))
        if lacking > malformed:
            names = ", ".join(list(document)[:SHOWN])
            message = f'the documents have no field "{self.field}"; give one of their fields as -field: {names}'
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


READING_RULES = (
    one_of("normalize", ("ccnet",)),
    one_of("encode", ("nemo",)),
    needs("encode", "tokenizer"),
    excludes("tokenizer", "tolower", "-tokenizer cannot be combined with -tolower; lower the text before"),
)
