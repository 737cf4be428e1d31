"""Scoring the documents of a JSONL file, adding figures to them, and filtering them by perplexity.

`score_documents` reads the file in batches of lines. `measure` scores the documents of each batch: their texts are
normalised and split into pieces, and each line of a text is a sentence. `choose` decides from the perplexities which
documents are kept and to which bucket each belongs, and `write` writes the lines with their new fields.

Where the choice depends on all documents (-keep, and -buckets of equal size), the file is read twice: first to score,
then to write. Memory holds a few numbers for each document; only a file from a pipe is held in memory.

The figures are KenLM's: a word that the model lacks is an OOV, and its probability counts.
"""

import json
import math
import os
import re
import sys
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress, pairwise

from lmtk.errors import FormatError, LmtkWarning, counted, name_of
from lmtk.jobs.rules import Rule, excludes, needs, one_of, wrong

FIGURES = ("perplexity", "words", "oovs", "log10p")
SHOWN = 10  # numbers of lines in a warning
INSIDE = "\x1f"  # a control character that does not separate words


@dataclass(frozen=True)
class Documents:
    """What is done with documents.

    jsonl: the file. field: of the text in a document. tokenizer: a file, splits the text into pieces. encode: how
    pieces are named, None or nemo. normalize: None or ccnet. add: the figures to add, each as NAME or FIELD=NAME. max,
    min: the perplexities of the documents that are kept. keep: the share of the documents that are kept, those of the
    lowest perplexity. buckets: names of buckets, from the lowest perplexity on; cutoffs: the perplexities where the
    second bucket and further ones begin, () for buckets of equal size. shard: "i/n", the part of the file that is read.
    write_rest: a file for the lines that are not kept. collect: whether to return the figures of all documents. source:
    what messages call the file.
    """

    jsonl: str | None = None
    field: str = "text"
    tokenizer: str | None = None
    encode: str | None = None
    normalize: str | None = None
    add: tuple[str, ...] = ()
    max: float | None = None
    min: float | None = None
    keep: float | None = None
    buckets: tuple[str, ...] = ()
    cutoffs: tuple[float, ...] = ()
    shard: str | None = None
    write_rest: str | None = None
    collect: bool = False
    source: str | None = None
    quiet: bool = False

    @property
    def name(self):
        return self.source or name_of(self.jsonl)

    @property
    def part(self):
        from lmtk.files.documents import Part

        return Part.parse(self.shard) if self.shard else None

    @property
    def added(self):
        """[(name of the new field, number of the figure)]. Raises KeyError for a figure that does not exist."""
        pairs = (text.rpartition("=")[::2] for text in self.add)
        return [(field or name, FIGURES.index(name)) for field, name in pairs if name in FIGURES]

    @property
    def fields(self):
        """The names of all new fields."""
        return [name for name, _ in self.added] + ["bucket"] * bool(self.buckets)

    @property
    def selects(self):
        return not (self.max is None and self.min is None and self.keep is None)

    @property
    def needs_all(self):
        """Whether the choice of a document depends on all documents."""
        return self.keep is not None or bool(self.buckets and not self.cutoffs)


OPTIONS = "field tokenizer encode normalize add max min keep buckets cutoffs shard write_rest quiet"


def bad_figure(job):
    """The message about an -add that is not a figure, or None."""
    for text in job.documents.add:
        if (name := text.rpartition("=")[2]) not in FIGURES:
            return f"-add takes {', '.join(FIGURES)}, or FIELD=NAME with one of these names; it cannot be {name!r}"
    return None


def doubled_field(job):
    fields = job.documents.fields
    twice = [name for name in fields if fields.count(name) > 1]
    return f"the new field {twice[0]} is added twice; give another name, as in -add FIELD=NAME" if twice else None


def uncut(cutoffs):
    return any(not a < b for a, b in pairwise(cutoffs))


def of_documents(when, message):
    """A `wrong` rule about the Documents of a job."""
    return wrong(lambda job: job.documents.jsonl and when(job.documents), message)


DOCUMENT_RULES = (
    needs(OPTIONS, "jsonl"),
    excludes("jsonl", "text counts stream format oov_features"),
    needs("cutoffs", "buckets"),
    of_documents(
        lambda what: not (what.add or what.selects or what.buckets or what.collect),
        "nothing to do with the documents; give -add, -max, -min, -keep or -buckets",
    ),
    Rule(bad_figure),
    Rule(doubled_field),
    one_of("normalize", ("ccnet",)),
    one_of("encode", ("nemo",)),
    needs("encode", "tokenizer"),
    of_documents(
        lambda what: what.keep is not None and not 0 < what.keep <= 1,
        "-keep is the share of documents to keep, above 0 and up to 1; it cannot be {keep:g}",
    ),
    excludes("keep", "max min buckets"),
    of_documents(
        lambda what: None not in (what.min, what.max) and not what.min <= what.max,
        "no perplexity is at least {min:g} (-min) and at most {max:g} (-max)",
    ),
    of_documents(
        lambda what: what.buckets and len(set(what.buckets)) < len(what.buckets), "two -buckets have one name"
    ),
    of_documents(
        lambda what: any(not re.fullmatch(r"[\w.-]+", name) for name in what.buckets),
        "the name of a bucket has letters, digits, and the characters . _ - only",
    ),
    of_documents(
        lambda what: len(what.buckets) == 1, "-buckets has 1 name; give two or more, such as head,middle,tail"
    ),
    of_documents(
        lambda what: what.cutoffs and (len(what.cutoffs) != len(what.buckets) - 1 or uncut(what.cutoffs)),
        "-cutoffs takes one number less than -buckets has names, in ascending order",
    ),
    of_documents(
        lambda what: what.shard and what.part is None,
        "-shard is i/n, part i of n with i from 1 to n, such as 3/8; it cannot be {shard}",
    ),
    wrong(
        lambda job: job.documents.jsonl and job.write and "{bucket}" in job.write and not job.documents.buckets,
        "-write has {{bucket}} in its name, so -buckets is needed",
    ),
    wrong(lambda job: job.documents.jsonl and job.scoring.debug > 1, "-debug takes 0 and 1 with -jsonl"),
)


@dataclass(frozen=True)
class Measured:
    """What is known of D lines. figures (4, D) float64: the rows are FIGURES. words and oovs are nan for a line that is
    not a JSON object; perplexity and log10p are nan for a document without words too. kept (D,) bool: whether a line is
    chosen. bucket (D,) int: the number of its bucket, -1 for none.
    """

    figures: object
    kept: object
    bucket: object

    def part(self, first, end):
        return Measured(self.figures[:, first:end], self.kept[first:end], self.bucket[first:end])


@dataclass(frozen=True)
class Batch:
    """D lines, bytes, the first of which has the number `first`, from 0 on. figures (4, D): as in Measured. rows: the
    numbers, in the batch, of the lines that have a text. texts: their texts, strings.
    """

    lines: list
    first: int
    figures: object
    rows: list
    texts: list


class Problems:
    """The lines without a score: {problem: their numbers}, from 0 on in the part of the file that is read."""

    NOT_JSON, NO_FIELD, NO_STRING, EMPTY, NUL = range(1, 6)

    def __init__(self, what):
        self.what, self.lines = what, {}

    def add(self, problem, line):
        self.lines.setdefault(problem, []).append(line)

    def clauses(self):
        field = self.what.field
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

        document: the first of them, None if it is not a JSON object.
        """
        if self.what.part and self.what.part.number > 1:
            return
        path = self.what.name
        if self.NO_FIELD in self.lines and document:
            names = ", ".join(list(document)[:SHOWN])
            message = f'the documents have no field "{self.what.field}"; give one of their fields as -field: {names}'
            raise FormatError(path, message, self.number(self.lines[self.NO_FIELD][0]))
        if self.NOT_JSON in self.lines and document is None:
            message = 'not JSON lines; expected a document on each line, such as {"text": "..."}'
            raise FormatError(path, message, self.number(self.lines[self.NOT_JSON][0]))

    def number(self, line):
        """The number of a line in the file, from 1 on."""
        from lmtk.files.documents import first_line

        return first_line(self.what.jsonl, self.what.part) + line

    def warn(self, outputs):
        """One warning for each problem. outputs: how many files the chosen documents are written to."""
        what, clauses, first = self.what, self.clauses(), self.number(0) if self.lines else 1
        for problem, lines in sorted(self.lines.items()):
            numbers = ", ".join(str(first + line) for line in lines[:SHOWN]) + ", ..." * (len(lines) > SHOWN)
            where = f"(line{'s' * (len(lines) > 1)} {numbers})"
            message = f"{what.name}: {counted(len(lines), *clauses[problem])} {where}; {self.outcome(problem, outputs)}"
            warnings.warn(message, LmtkWarning, stacklevel=1)

    def outcome(self, problem, outputs):
        """What happens to the lines with a problem, in words."""
        if problem == self.NUL:
            return "NUL stays in its word"
        if not outputs:
            return "not scored"
        if outputs > 1 or self.what.selects:
            rest = self.what.write_rest
            return f"written to {rest}" if rest else "left out (-write-rest FILE writes such lines)"
        return "written without a score" if self.what.fields and problem != self.NOT_JSON else "written unchanged"


class Source:
    """The lines of a JSONL file, or of a part of it, in batches. held: the batches of a pipe that is read twice."""

    def __init__(self, what):
        self.path, self.part = what.jsonl, what.part
        self.held = [] if what.needs_all and not os.path.isfile(self.path) else None

    def batches(self, again=False):
        """Yields lists of lines. again: whether the file was read before."""
        from lmtk.files.documents import batches

        if self.held is None:
            yield from batches(self.path, self.part)
        elif again:
            yield from self.held
        else:
            for lines in batches(self.path, self.part):
                self.held.append(lines)
                yield lines


def score_documents(job, model):
    """Scores, changes and filters documents, as a ScoreJob says. model: in memory. Returns the Measured of all lines,
    None without `collect`. Raises FormatError, UsageError, OSError.
    """
    import numpy as np

    from lmtk.jobs.bar import reading

    what = job.documents
    problems, source, share = Problems(what), Source(what), 1 / what.part.of if what.part else 1.0
    scored = measure(job, model, source.batches(), problems)
    if what.needs_all:
        with reading([what.jsonl], "scoring", what.quiet, share):
            figures = [batch.figures for batch in scored]
            measured = choose(what, np.concatenate([np.zeros((len(FIGURES), 0)), *figures], axis=1))
        blocks = parts_of(measured, source.batches(again=True))
    else:
        blocks = ((batch.lines, choose(what, batch.figures)) for batch in scored)
    with reading([what.jsonl], "writing" if what.needs_all else "scoring", what.quiet, share):
        measured = write(job, blocks)
    problems.warn(len(outputs_of(job)))
    return measured


def outputs_of(job):
    """The files for the chosen documents: one, or one for each bucket; () if nothing is written."""
    path = job.write
    if path and "{bucket}" in path:
        return tuple(path.replace("{bucket}", name) for name in job.documents.buckets)
    return (path,) if path else ()


def measure(job, model, batches, problems):
    """Yields a Batch with all its figures for each of the batches, lists of lines. problems: Problems, to which the
    lines without a score are added. Raises FormatError.
    """
    import numpy as np

    from lmtk.machine.threads import map_in_order
    from lmtk.reports.kenlm import block_corpus, closed, scorer
    from lmtk.reports.srilm import check_sum
    from lmtk.reports.tally import Tally

    what, marks = job.documents, job.scoring.marks
    reader, score = reader_of(what, closed(model.vocab)), scorer(model, lengths=False)

    def read():
        for batch in read_batches(what, batches, problems):
            texts = [text.lower() for text in batch.texts] if marks.tolower else batch.texts
            if what.normalize:  # it takes line ends away, and so makes one word of the words around
                texts = [text.strip() for text in texts]
                for blank in "\n\t\r":
                    texts = [text.replace(blank, INSIDE) for text in texts]
            block = "".join([text + "\n" for text in texts]).encode()
            corpus, *_ = block_corpus(reader, block, model.vocab, marks)
            yield batch, np.array([1 + text.count("\n") for text in texts], int), corpus

    def scored(item):
        batch, sizes, corpus = item
        if batch.rows:
            batch.figures[:, batch.rows] = document_figures(corpus, score(corpus)[0], reader.index.unk, marks, sizes)
        return batch

    for batch in map_in_order(scored, read()):
        words = batch.figures[1, batch.rows]
        check_sum(model, Tally(log10p=batch.figures[3, batch.rows][words > 0].sum()))
        for row in np.array(batch.rows, int)[words == 0].tolist():
            problems.add(problems.EMPTY, batch.first + row)
        yield batch


def reader_of(what, index):
    """A reader of blocks of text: a PieceReader if -normalize or -tokenizer asks for one. index: Closed."""
    from lmtk.text.corpus import Reader
    from lmtk.text.tokenizer import Encoder, PieceReader, load_tokenizer

    if not what.normalize and not what.tokenizer:
        return Reader(index)
    normalize = None
    if what.normalize:
        from lmtk.text.ccnet import normalize
    return PieceReader(Encoder(normalize, what.tokenizer and load_tokenizer(what.tokenizer, what.encode)[0]), index)


def read_batches(what, batches, problems):
    """Yields a Batch for each list of lines, with the texts of its documents. Raises FormatError if a document has a
    field that would be added, and if no document of the first lines has a text.
    """
    import numpy as np

    from lmtk.files.documents import parse, text_of

    first, field, added = 0, what.field, set(what.fields)
    for lines in batches:
        rows, texts, figures, sample = [], [], np.full((len(FIGURES), len(lines)), np.nan), None
        for row, line in enumerate(lines):
            if line.isspace():
                continue
            document = parse(line)
            text = text_of(document, field)
            if document is not None and not added.isdisjoint(document):
                reject_field(what, min(added & document.keys()), problems.number(first + row))
            sample = sample or document
            if not isinstance(text, str):
                problems.add(text, first + row)
                figures[1:3, row] = np.nan if document is None else 0
                continue
            if "\0" in text and not what.normalize:
                problems.add(problems.NUL, first + row)
            rows.append(row)
            texts.append(text)
        if first == 0 and not rows:
            problems.reject(sample)
        yield Batch(lines, first, figures, rows, texts)
        first += len(lines)


def reject_field(what, field, number):
    """Raise FormatError about a document that already has a field that would be added."""
    names = dict(what.added)
    remedy = f"give another name, as in -add NAME={FIGURES[names[field]]}" if field in names else "rename that field"
    raise FormatError(what.name, f'the document already has a field "{field}"; {remedy}', number)


def document_figures(corpus, log10p, unk, marks, sizes):
    """The figures (4, T) of T documents. corpus: their sentences, with log10p (N,) of each token. unk: the id of
    unknown words. sizes (T,): how many sentences each document has.

    perplexity = 10^(-log10p / (words + sentences)), the sums of a sentence as KenLM adds them.
    """
    import numpy as np

    from lmtk.reports.kenlm import sums_in_turn

    first, last = corpus.starts[:-1] + marks.sos, corpus.starts[1:]
    unknown = np.append(0, np.cumsum(corpus.scored & (corpus.ids == unk)))[corpus.starts]
    begins = np.cumsum(sizes) - sizes
    totals = sums_in_turn(log10p.astype(np.float32), first, last).astype(np.float64), last - first, np.diff(unknown)
    total, tokens, oovs = (np.add.reduceat(of_sentence, begins) for of_sentence in totals)
    words = tokens - sizes * marks.eos
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        perplexity = 10.0 ** (-total / tokens)
    perplexity[words == 0] = total[words == 0] = np.nan
    return perplexity, words, oovs, total


def choose(what, figures):
    """The Measured of D lines with figures (4, D). Of equal perplexities the first come first."""
    import numpy as np

    perplexity = figures[0]
    scored, bucket = ~np.isnan(perplexity), np.full(len(perplexity), -1)
    kept = scored.copy() if what.selects else np.ones(len(perplexity), bool)
    if what.max is not None:
        kept &= perplexity <= what.max
    if what.min is not None:
        kept &= perplexity >= what.min
    if what.needs_all:
        ranked = np.argsort(perplexity, kind="stable")[: np.count_nonzero(scored)]
    if what.keep is not None:
        kept[ranked[max(1, round(what.keep * len(ranked))) :]] = False
    if what.cutoffs:
        bucket[scored] = np.searchsorted(what.cutoffs, perplexity[scored], side="right")
    elif what.buckets:
        bucket[ranked] = np.arange(len(ranked)) * len(what.buckets) // max(len(ranked), 1)
    return Measured(figures, kept, bucket)


def parts_of(measured, batches):
    """Yields (lines, their part of the Measured of all lines) for each of the batches."""
    at = 0
    for lines in batches:
        yield lines, measured.part(at, at + len(lines))
        at += len(lines)


def write(job, blocks):
    """Writes the lines of the blocks, (lines, their Measured), to the outputs of a job. Returns the Measured of all
    lines, None without `collect`.
    """
    import numpy as np

    from lmtk.files import container
    from lmtk.files.outputs import open_out

    what, paths, collected, counts = job.documents, outputs_of(job), [], np.zeros(3, int)
    with ExitStack() as stack:
        outs = [stack.enter_context(open_out(path)) for path in paths]
        rest = stack.enter_context(open_out(what.write_rest)) if what.write_rest else None
        for lines, measured in blocks:
            container.finish()  # a damaged model must not filter
            if what.collect:
                collected.append(measured)
            lines = with_figures(what, lines, measured)
            places = np.where(measured.kept, measured.bucket if len(paths) > 1 else 0, -1)
            for place, out in [*enumerate(outs), *([(-1, rest)] if rest else [])]:
                out.writelines(compress(lines, (places == place).tolist()))
            counts += np.array([len(lines), np.count_nonzero(~np.isnan(measured.figures[0])), sum(places >= 0)])
    if job.scoring.debug:
        total, scored, kept = counts.tolist()
        sys.stderr.write(f"{what.name}: {counted(total, 'line')}, {scored} scored, {kept} kept\n")
    if not what.collect:
        return None
    columns = [(x.figures, x.kept, x.bucket) for x in collected] or [(np.zeros((len(FIGURES), 0)), [], [])]
    return Measured(*(np.concatenate(column, axis=-1) for column in zip(*columns)))


def with_figures(what, lines, measured):
    """The lines, each with the new fields behind those that it has. A line that is not a JSON object stays as it is."""
    import numpy as np

    from lmtk.files.documents import with_fields

    if not what.fields:
        return lines
    columns = []
    for name, row in what.added:
        shape = "%.7g" if FIGURES[row] in ("perplexity", "log10p") else "%d"
        values = [shape % value if math.isfinite(value) else "null" for value in measured.figures[row].tolist()]
        columns.append([f"{json.dumps(name)}: {value}" for value in values])
    if what.buckets:
        names = [*map(json.dumps, what.buckets), "null"]
        columns.append([f'"bucket": {names[bucket]}' for bucket in measured.bucket.tolist()])
    is_object = ~np.isnan(measured.figures[1])
    return [
        with_fields(line, ", ".join(fields).encode()) if has_fields else line
        for line, has_fields, *fields in zip(lines, is_object.tolist(), *columns)
    ]
