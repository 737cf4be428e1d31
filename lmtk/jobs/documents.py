"""Scoring the documents of a JSONL file, adding figures to them, and filtering them by perplexity.

`score_documents` reads the file in batches of lines. `measure` scores the documents of each batch: their texts are
normalized and split into pieces, and each line of a text is a sentence. `choose` decides from the perplexities which
documents are kept and to which bucket each belongs, and `write` writes the lines with their new fields.

Where the choice depends on all documents (-keep, and -buckets of equal size), the file is read twice: first to score,
then to write. Memory holds a few numbers for each document; only a file from a pipe is held in memory.

The figures are KenLM's: a word that the model lacks is an OOV, and its probability counts.
"""

import json
import math
import re
import sys
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import compress, pairwise, tee

from lmtk.errors import FormatError, LmtkWarning, counted, name_of
from lmtk.files.inputs import is_file
from lmtk.jobs.rules import excludes, needs, wrong
from lmtk.jobs.texts import Problems

FIGURES = ("perplexity", "words", "oovs", "log10p")
PERPLEXITY, N_WORDS, N_OOVS, LOG10P = range(4)  # rows of arrays of figures, in the order of FIGURES


@dataclass(frozen=True)
class Documents:
    """What is done with documents.

    jsonl: the file of documents. add: the figures to add, each as NAME or FIELD=NAME.
    max, min: keep documents with a perplexity of at most `max` and of at least `min`.
    keep: the fraction of the documents to keep, those with the lowest perplexity.
    buckets: the names of buckets, from the lowest perplexity to the highest. cutoffs: the perplexities at which the
    second bucket and each later bucket begin; (): all buckets get about the same number of documents.
    shard: "i/n", read only part i of n parts of the file. write_rest: a file for the lines that are not kept.
    collect: return the figures of all documents.
    """

    jsonl: str | None = None
    add: tuple[str, ...] = ()
    max: float | None = None
    min: float | None = None
    keep: float | None = None
    buckets: tuple[str, ...] = ()
    cutoffs: tuple[float, ...] = ()
    shard: str | None = None
    write_rest: str | None = None
    collect: bool = False
    quiet: bool = False

    @property
    def name(self):
        return name_of(self.jsonl)

    @property
    def part(self):
        from lmtk.files.documents import Part

        return Part.parse(self.shard) if self.shard else None

    def first_line(self):
        """The number of the first line that is read."""
        from lmtk.files.documents import first_line

        return first_line(self.jsonl, self.part)

    @property
    def added(self):
        """[(name of the new field, number of the figure)]."""
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


OPTIONS = "add max min keep buckets cutoffs shard write_rest quiet"


def bad_figure(job):
    """The message about an -add that is not a figure, or None."""
    for text in job.documents.add:
        if (name := text.rpartition("=")[2]) not in FIGURES:
            return f"-add takes {', '.join(FIGURES)}, or FIELD=NAME with one of these names, not {name!r}"
    return None


def doubled_field(job):
    """The message about a new field that has two values, or None."""
    fields = job.documents.fields
    twice = [name for name in fields if fields.count(name) > 1]
    return f'-add adds the field "{twice[0]}" twice; give another name, as in -add FIELD=NAME' if twice else None


def has_bad_cutoffs(documents):
    """Whether the cut-offs are not in ascending order, or not one fewer than the buckets."""
    cutoffs, fits = documents.cutoffs, len(documents.cutoffs) == len(documents.buckets) - 1
    return bool(cutoffs) and not (fits and all(a < b for a, b in pairwise(cutoffs)))


def of_documents(when, message):
    """A `wrong` rule about the Documents of a job."""
    return wrong(lambda job: job.documents.jsonl and when(job.documents), message)


DOCUMENT_RULES = (
    needs(OPTIONS, "jsonl"),
    excludes("jsonl", "text counts stream reverse escape text_has_weights format oov_features dynamic cache"),
    needs("cutoffs", "buckets"),
    of_documents(
        lambda documents: not (documents.add or documents.selects or documents.buckets or documents.collect),
        "nothing to do with the documents; give -add, -max, -min, -keep or -buckets",
    ),
    bad_figure,
    doubled_field,
    of_documents(
        lambda documents: documents.keep is not None and not 0 < documents.keep <= 1,
        "-keep takes the fraction of documents to keep, above 0 and up to 1, not {keep:g}",
    ),
    excludes("keep", "max min buckets"),
    of_documents(
        lambda documents: None not in (documents.min, documents.max) and not documents.min <= documents.max,
        "-min {min:g} is above -max {max:g}; give a lower -min or a higher -max",
    ),
    of_documents(
        lambda documents: documents.buckets and len(set(documents.buckets)) < len(documents.buckets),
        "two -buckets have the same name",
    ),
    of_documents(
        lambda documents: any(not re.fullmatch(r"[\w.-]+", name) for name in documents.buckets),
        "the names of -buckets can have only letters, digits, and the characters . _ -",
    ),
    of_documents(
        lambda documents: len(documents.buckets) == 1, "-buckets has 1 name; give two or more, such as head,middle,tail"
    ),
    of_documents(
        has_bad_cutoffs,
        "-cutoffs takes perplexities in ascending order, one between each two buckets; for 3 buckets give 2 numbers",
    ),
    of_documents(
        lambda documents: documents.shard and documents.part is None,
        "-shard takes i/n for part i of n parts, such as 3/8, not {shard}",
    ),
    wrong(
        lambda job: job.documents.jsonl and job.write and "{bucket}" in job.write and not job.documents.buckets,
        "-write has {{bucket}} in its name, so -buckets is needed",
    ),
    of_documents(
        lambda documents: documents.jsonl.endswith(".parquet"),
        "-jsonl reads JSON lines; convert {jsonl} to JSON lines, or use -text {jsonl} -field NAME",
    ),
    wrong(
        lambda job: job.documents.jsonl and job.write and job.write.endswith(".parquet"),
        "documents are written as JSON lines, not as parquet; give -write a name that ends in .jsonl",
    ),
    wrong(lambda job: job.documents.jsonl and job.scoring.debug > 1, "-debug takes 0 or 1 with -jsonl"),
)


@dataclass(frozen=True)
class Measured:
    """The results for D lines. figures (4, D) float64: the rows are FIGURES. words and oovs are nan for a line that is
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


def score_documents(job, model):
    """Scores, changes and filters documents, as a ScoreJob says. model: in memory. Returns the Measured of all lines,
    None without `collect`. Raises FormatError, UsageError, OSError.
    """
    import numpy as np

    from lmtk.files.documents import batches
    from lmtk.jobs.bar import reading_bar

    documents = job.documents
    first, again = (batches(documents.jsonl, documents.part) for _ in range(2))
    if documents.needs_all and not is_file(documents.jsonl):  # a pipe is held in memory
        first, again = tee(first)
    problems = Problems(documents.name, field_of(job), documents.first_line)
    share = 1 / documents.part.parts if documents.part else 1.0
    scored = measure(job, model, first, problems)
    if documents.needs_all:
        with reading_bar([documents.jsonl], "scoring", documents.quiet, share):
            figures = [batch.figures for batch in scored]
            measured = choose(documents, np.concatenate([np.zeros((len(FIGURES), 0)), *figures], axis=1))
        blocks = parts_of(measured, again)
    else:
        blocks = ((batch.lines, choose(documents, batch.figures)) for batch in scored)
    with reading_bar([documents.jsonl], "writing" if documents.needs_all else "scoring", documents.quiet, share):
        measured = write(job, blocks)
    problems.warn(partial(outcome, documents, len(outputs_of(job))))
    return measured


def field_of(job):
    """The name of the field that has the text of a document."""
    return job.scoring.reading.field or "text"


def outcome(documents, outputs, problem):
    """What happens to the lines with a problem, in words. outputs: how many files the chosen documents go to."""
    if problem == Problems.NUL:
        return "NUL is read as a part of the word"
    if not outputs:
        return "not scored"
    if outputs > 1 or documents.selects:
        rest = documents.write_rest
        return f"written to {rest}" if rest else "left out (-write-rest FILE writes such lines)"
    return "written without a score" if documents.fields and problem != Problems.NOT_JSON else "written unchanged"


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

    reading, marks, index = job.scoring.reading, job.scoring.marks, closed(model.vocab)
    reader, score = reading.reader(index), scorer(model, lengths=False)

    def read():
        for batch in read_batches(job, batches, problems):
            texts = [text.lower() for text in batch.texts] if marks.tolower else batch.texts
            texts = reading.as_lines(texts)
            block = "".join([text + "\n" for text in texts]).encode()
            corpus, *_ = block_corpus(reader.ids, block, model.vocab, marks)
            yield batch, np.array([1 + text.count("\n") for text in texts], int), corpus

    def scored(item):
        batch, sizes, corpus = item
        if batch.rows:
            batch.figures[:, batch.rows] = document_figures(corpus, score(corpus)[0], index.unk, marks, sizes)
        return batch

    unknown = number = 0
    for batch in map_in_order(scored, read()):
        words = batch.figures[N_WORDS, batch.rows]
        number, unknown = number + words.sum(), unknown + int(batch.figures[N_OOVS, batch.rows].sum())
        check_sum(model, Tally(log10p=batch.figures[LOG10P, batch.rows][words > 0].sum()))
        for row in np.array(batch.rows, int)[words == 0].tolist():
            problems.add(problems.EMPTY, batch.first + row)
        yield batch
    reading.check_pieces(unknown, number, job.documents.name)
    if unknown and not model.vocab.predicts(model.vocab.words[index.unk]):
        words = counted(unknown, "unknown word adds", "unknown words add")
        text = f"the model gives <unk> no probability, so {words} -100 to log10p each"
        warnings.warn(f"{text}; train the model with -unk or -kenlm", LmtkWarning, stacklevel=1)


def read_batches(job, batches, problems):
    """Yields a Batch for each list of lines, with the texts of its documents. Raises FormatError if a document has a
    field that would be added, and if no document of the first lines has a text.
    """
    import numpy as np

    from lmtk.files.documents import parse

    documents, field, keeps_nul = job.documents, field_of(job), not job.scoring.reading.normalize
    first, added, at_the_beginning = 0, set(documents.fields), not documents.part or documents.part.number == 1
    for lines in batches:
        rows, texts, figures, sample = [], [], np.full((len(FIGURES), len(lines)), np.nan), None
        for row, line in enumerate(lines):
            document, text = parse(line, field)
            if document is not None and not added.isdisjoint(document):
                reject_field(documents, min(added & document.keys()), problems.first() + first + row)
            sample = sample or document
            if not isinstance(text, str):
                problems.add(text, first + row)
                figures[[N_WORDS, N_OOVS], row] = np.nan if document is None else 0
                continue
            if keeps_nul and "\0" in text:
                problems.add(problems.NUL, first + row)
            rows.append(row)
            texts.append(text)
        if at_the_beginning and first == 0 and not rows:
            problems.reject(sample or {})
        yield Batch(lines, first, figures, rows, texts)
        first += len(lines)


def reject_field(documents, field, number):
    """Raises FormatError about a document that already has a field that would be added."""
    names = dict(documents.added)
    remedy = f"give another name, as in -add NAME={FIGURES[names[field]]}" if field in names else "rename that field"
    raise FormatError(documents.name, f'the document already has a field "{field}"; {remedy}', number)


def document_figures(corpus, log10p, unk, marks, sizes):
    """The figures (4, T) of T documents. corpus: their sentences, with log10p (N,) of each token. unk: the id of
    unknown words. sizes (T,): how many sentences each document has.

    perplexity = 10^(-log10p / (words + sentences)), the sums of a sentence as KenLM adds them.
    """
    import numpy as np

    from lmtk.reports.kenlm import sentence_sums

    first, last = corpus.starts[:-1] + marks.sos, corpus.starts[1:]
    unknown = np.append(0, np.cumsum(corpus.scored & (corpus.ids == unk)))[corpus.starts]
    begins = np.cumsum(sizes) - sizes
    totals = sentence_sums(corpus, log10p, marks.sos).astype(np.float64), last - first, np.diff(unknown)
    total, tokens, oovs = (np.add.reduceat(of_sentence, begins) for of_sentence in totals)
    words = tokens - sizes * marks.eos
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        perplexity = 10.0 ** (-total / tokens)
    perplexity[words == 0] = total[words == 0] = np.nan
    return perplexity, words, oovs, total


def choose(documents, figures):
    """The Measured of D lines with figures (4, D). Documents of equal perplexity rank in the order of the file."""
    import numpy as np

    perplexity = figures[PERPLEXITY]
    scored, bucket = ~np.isnan(perplexity), np.full(len(perplexity), -1)
    kept = scored.copy() if documents.selects else np.ones(len(perplexity), bool)
    if documents.max is not None:
        kept &= perplexity <= documents.max
    if documents.min is not None:
        kept &= perplexity >= documents.min
    if documents.needs_all:
        ranked = np.argsort(perplexity, kind="stable")[: np.count_nonzero(scored)]
    if documents.keep is not None:
        kept[ranked[max(1, round(documents.keep * len(ranked))) :]] = False
    if documents.cutoffs:
        bucket[scored] = np.searchsorted(documents.cutoffs, perplexity[scored], side="right")
    elif documents.buckets:
        bucket[ranked] = np.arange(len(ranked)) * len(documents.buckets) // max(len(ranked), 1)
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

    documents, paths, collected, counts = job.documents, outputs_of(job), [], np.zeros(3, int)
    with ExitStack() as stack:
        outs = [stack.enter_context(open_out(path)) for path in paths]
        rest = stack.enter_context(open_out(documents.write_rest)) if documents.write_rest else None
        for lines, measured in blocks:
            container.finish()  # a damaged model must not filter
            if documents.collect:
                collected.append(measured)
            lines = with_figures(documents, lines, measured)
            places = np.where(measured.kept, measured.bucket if len(paths) > 1 else 0, -1)
            for place, out in [*enumerate(outs), *([(-1, rest)] if rest else [])]:
                out.writelines(compress(lines, (places == place).tolist()))
            n_scored = np.count_nonzero(~np.isnan(measured.figures[PERPLEXITY]))
            counts += np.array([len(lines), n_scored, sum(places >= 0)])
    if job.scoring.debug:
        total, scored, kept = counts.tolist()
        sys.stderr.write(f"{documents.name}: {counted(total, 'line')}, {scored} scored, {kept} kept\n")
    if not documents.collect:
        return None
    collected = collected or [choose(documents, np.zeros((len(FIGURES), 0)))]
    columns = zip(*((x.figures, x.kept, x.bucket) for x in collected))
    return Measured(*(np.concatenate(column, axis=-1) for column in columns))


def with_figures(documents, lines, measured):
    """The lines, each with the new fields at its end. A line that is not a JSON object stays as it is."""
    import numpy as np

    from lmtk.files.documents import with_fields

    if not documents.fields:
        return lines
    columns = []
    for name, row in documents.added:
        form = "%.7g" if FIGURES[row] in ("perplexity", "log10p") else "%d"
        values = [form % value if math.isfinite(value) else "null" for value in measured.figures[row].tolist()]
        columns.append([f"{json.dumps(name)}: {value}" for value in values])
    if documents.buckets:
        names = [*map(json.dumps, documents.buckets), "null"]
        columns.append([f'"bucket": {names[bucket]}' for bucket in measured.bucket.tolist()])
    is_object = ~np.isnan(measured.figures[N_WORDS])
    return [
        with_fields(line, ", ".join(fields).encode()) if has_fields else line
        for line, has_fields, *fields in zip(lines, is_object.tolist(), *columns)
    ]
