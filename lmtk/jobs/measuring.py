"""The surprisal of words: a table with a row for each word of a text, for models of any kind.

`measure` reads sentences in batches (`text.items`), scores each batch by each model, and makes columns of them.
`write_surprisal` prints them; `lmtk.surprisal` makes dictionaries of them.
"""

import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, islice, pairwise, tee, zip_longest
from typing import NamedTuple

from lmtk.errors import FormatError, LmtkWarning, counted, name_of, shown
from lmtk.jobs.rules import (
    check,
    check_outputs,
    excludes,
    marks_of,
    model_missing,
    model_repeated,
    names_of,
    one_of,
    one_stdin,
    required,
    text_missing,
    wrong,
)
from lmtk.jobs.texts import FIELD_RULES, NOT_LOWERED, PIECE_RULES, Reading

UNITS = {"bits": 1 / math.log(2), "nats": 1.0, "log10": 1 / math.log(10)}  # of -ln p
TOGETHER = 256  # sentences that are scored at once
SENTENCES = "sentence"  # the column of a table that has the sentences


@dataclass(frozen=True)
class SurprisalJob:
    """Write a table of the surprisal of words.

    lm: files of models, or models in memory; each adds its columns. text: texts, or tables (.tsv) with a header.
    column: the column of a table that has the sentences; if it is given, every text is read as a table.
    region_separator: the characters that separate the regions of a sentence.
    field, tokenizer, encode: as in texts.Reading.
    unit: the unit of surprisal and entropy, "bits", "nats" or "log10". bits: the same as unit="bits".
    by: "token" makes a row for each token; "word" makes a row for each word, with the sum over its pieces.
    entropy: add the entropy of the distribution of the next word.
    """

    lm: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    column: str | None = None
    region_separator: str | None = None
    no_sos: bool = False
    no_eos: bool = False
    stream: bool = False
    tolower: bool = False
    field: str | None = None
    tokenizer: str | None = None
    encode: str | None = None
    unit: str = "bits"
    bits: bool = False
    by: str = "token"
    entropy: bool = False
    write: str = "-"
    quiet: bool = False
    threads: int | None = None

    def __post_init__(self):
        check(self, RULES)
        one_stdin(*self.lm, *self.text)

    @property
    def marks(self):
        return marks_of(self)

    @cached_property
    def reading(self):
        return Reading(self.field, self.tokenizer, self.encode)


def reads_field_of_table(job):
    """Whether -field is given for a text that is a table, whose columns -column names."""
    from lmtk.text.items import is_table

    return job.field and (job.column or any(map(is_table, job.text)))


RULES = (
    lambda job: model_missing(job.lm, job.text),
    required("lm"),
    lambda job: None if job.text else text_missing(job.lm, 1),
    one_of("unit", tuple(UNITS)),
    excludes("bits", "unit", "-bits cannot be combined with -unit {unit}"),
    one_of("by", ("token", "word")),
    wrong(lambda job: job.column == "", "-column is empty; give the name of the column that has the sentences"),
    wrong(
        lambda job: job.region_separator is not None and job.region_separator.split() != [job.region_separator],
        "-region-separator takes one or more characters without blanks, such as |, not '{region_separator}'",
    ),
    lambda job: model_repeated(job.lm),
    *FIELD_RULES,
    *PIECE_RULES,
    NOT_LOWERED,
    wrong(
        reads_field_of_table,
        "-field reads JSON lines and parquet files; for a table give -column instead",
    ),
)


class Form(NamedTuple):
    """How the values of a column are printed, and what they are in Python."""

    print: Callable
    value: Callable


TEXT = Form(bytes, os.fsdecode)
NUMBER = Form(b"%d".__mod__, int)
MEASURE = Form(b"%.7g".__mod__, float)
FLAG = Form(b"%d".__mod__, bool)
POSITIVE = Form(lambda n: b"%d" % n if n > 0 else b"", lambda n: n if n > 0 else None)  # empty for 0 and less


class Column(NamedTuple):
    """A column of some rows of the table. values: one for each row."""

    name: str
    form: Form
    values: list


def write_surprisal(job):
    """Runs a SurprisalJob: writes the table."""
    from lmtk.files.outputs import STDOUT
    from lmtk.jobs.bar import reading_bar

    check_files(job)
    with reading_bar(job.text, "scoring", job.quiet or job.write in STDOUT):
        write_table(job.write, measure(job))


def check_files(job):
    """Checks the output of a SurprisalJob. Raises UsageError, OSError."""
    check_outputs(job.write, texts=job.text, inputs=[*job.lm, job.tokenizer])


def write_table(path, parts):
    """Writes a table. parts: as from `measure`."""
    from lmtk.files.outputs import open_out

    with open_out(path) as out:
        for number, columns in enumerate(parts):
            if not number:
                out.write(b"\t".join(os.fsencode(column.name) for column in columns) + b"\n")
            cells = [map(column.form.print, column.values) for column in columns]
            out.writelines(b"\t".join(row) + b"\n" for row in zip(*cells))


def measure(job):
    """Yields the table of a SurprisalJob in parts: the Columns of some rows, at least once. Raises LmtkError."""
    from lmtk.files import container
    from lmtk.files.registry import load
    from lmtk.jobs.bar import reading_bar
    from lmtk.lm import find_running_text
    from lmtk.machine.threads import use
    from lmtk.text.items import ITEM

    use(job.threads)
    models = []
    for model in job.lm:
        with reading_bar([model] if isinstance(model, str) else [], "reading the model", job.quiet):
            models.append(load(model, sums="later") if isinstance(model, str) else model)
    if clause := find_running_text(models, job.marks, names_of(job.lm)):
        remedy = "if the model was trained with -stream, add -stream here too"
        warnings.warn(f"{clause}; {remedy}", LmtkWarning, stacklevel=1)
    job.reading.check_models(models, job.lm)
    measures, sentences, header = Measures(models, labels(job.lm), job), 0, None
    without_rows = measures.columns([], ())
    added = {column.name for column in columns_of(job, (ITEM,), [], 1, without_rows)[1:]}
    for path in job.text:
        names, batches = batches_of(job, path)
        check_names(path, names, header, added)
        header = header or (path, names)
        for batch, *corpora in corpora_of(models, batches, job.marks):
            first = sentences + 1
            sentences += len(batch)
            columns = columns_of(job, names, batch, first, measures.columns(batch, corpora))
            container.finish()  # a damaged model must not be reported on
            yield columns
    is_checked = job.reading.tokenizer or job.reading.field
    for numbers, lm in zip(measures.lacking, job.lm) if is_checked else ():
        job.reading.check_pieces(*numbers, name_of(lm) if isinstance(lm, str) else "the model")
    if not sentences:
        yield columns_of(job, header[1], [], 1, without_rows)


def labels(models):
    """What the names of the columns of each model end in: nothing for a single one, else "_" and the name of its file
    without folder and suffix.
    """
    from lmtk.files.outputs import SUFFIX

    if len(models) == 1:
        return [""]

    def stem(name):
        base, suffix = os.path.splitext(os.path.basename(name))
        return os.path.splitext(base)[0] if suffix in SUFFIX else base

    names = [model if isinstance(model, str) else f"{i}" for i, model in enumerate(models, 1)]
    stems = [stem(name) for name in names]
    return [f"_{short if stems.count(short) == 1 else name}" for short, name in zip(stems, names)]


def batches_of(job, path):
    """(the names of the columns of a text that are kept, an iterator of batches: lists of pairs (Item, Words))."""
    from lmtk.text.items import is_table, read_items, split, split_into_pieces, warn_if_table

    column = job.column or (SENTENCES if is_table(path) else None)
    rows = job.reading.lines(path)
    names, items = read_items(path, column, rows if column or job.reading.field else warn_if_table(path, rows))
    separator = os.fsencode(job.region_separator or "")
    if job.tokenizer:
        split = partial(split_into_pieces, tokenizer=job.reading.encoder.tokenizer)

    def batches():
        blank, has_regions, has_bars = [], None, False  # None before the first sentence
        while rows := list(islice(items, TOGETHER)):
            has_regions = has_regions or any(separator in item.sentence for item in rows)
            has_bars = has_bars or any(b" | " in item.sentence for item in rows)
            pairs = [(item, split(item.sentence, job.marks, separator)) for item in rows]
            blank += [item.line for item, words in pairs if not words.text.strip(b" \t\r")]
            if batch := [(item, words) for item, words in pairs if words.text.strip(b" \t\r")]:
                yield batch
        if blank and column:
            clause = counted(len(blank), "row has no sentence and is", "rows have no sentence and are")
            text = f"{name_of(path)}:{blank[0]}: {clause} left out"
            warnings.warn(text, LmtkWarning, stacklevel=1)
        if has_bars and column and not separator:
            clause = "sentences contain |, which is scored as a word"
            remedy = "if | separates regions, add -region-separator '|'"
            warnings.warn(f"{name_of(path)}: {clause}; {remedy}", LmtkWarning, stacklevel=1)
        if has_regions is False:
            clause = f"no sentence contains '{shown(separator)}', so each sentence is one region"
            warnings.warn(f"{name_of(path)}: {clause}; check -region-separator", LmtkWarning, stacklevel=1)

    return names, batches()


def check_names(path, names, header, added):
    """Raises FormatError if the columns of a text are not those of the texts before it, or have names of columns that
    the output adds. header: (the first text, its columns), or None. added: names.
    """
    if header and names != header[1]:
        columns, expected = (f"({', '.join(map(shown, n))})" for n in (names, header[1]))
        message = f"the columns {columns} are not the columns {expected} of {name_of(header[0])}"
        raise FormatError(path, f"{message}; score this file separately", 1)
    for name in names[1:]:
        if os.fsdecode(name) in added:
            raise FormatError(path, f"the column {shown(name)} has the name of an output column; rename this column", 1)


def corpora_of(models, batches, marks):
    """Yields each batch with the Corpus of its sentences for each model."""
    from lmtk.text.corpus import corpora

    batches, *copies = tee(batches, 1 + len(models))

    def texts(copy):
        return (b"".join(words.text + b"\n" for _, words in batch) for batch in copy)

    read = [corpora(texts(copy), model.vocab, marks, model.order) for copy, model in zip(copies, models)]
    return zip(batches, *read, strict=True)


def columns_of(job, names, batch, first, measures):
    """The Columns of a batch, whose first sentence has this number. names: of the columns that are kept."""
    items, sentences, rows = [], [], []
    for number, (item, words) in enumerate(batch, first):
        rows_here = rows_by_word(words) if job.by == "word" else rows_by_token(words)
        items += [item.columns] * len(rows_here)
        sentences += [number] * len(rows_here)
        rows += rows_here
    kept = zip(*items) if items else [()] * len(names)
    item, *others = [Column(os.fsdecode(name), TEXT, values) for name, values in zip(names, kept)]
    position, word, start, end, region = zip(*rows) if rows else [()] * 5
    return [
        item,
        Column("sentence", NUMBER, sentences),
        *others,
        *([Column("region", POSITIVE, region)] if job.region_separator else []),
        Column("position", NUMBER, position),
        Column("word", TEXT, word),
        *measures,
        Column("start", NUMBER, start),
        Column("end", NUMBER, end),
    ]


def rows_by_token(words):
    """[(position, word, start, end, region)] of the tokens of a sentence."""
    return list(zip(range(1, len(words.words) + 1), words.words, words.start, words.end, words.region))


def rows_by_word(words):
    """[(position, word, start, end, region)] of the words of a sentence, whose pieces are joined."""
    from lmtk.text.items import join_tokens

    rows = []
    bounds = [*first_pieces(words), len(words.number)]
    for position, (a, b) in enumerate(pairwise(bounds), 1):
        rows.append((position, join_tokens(words, a, b), words.start[a], words.end[b - 1], words.region[a]))
    return rows


def first_pieces(words):
    """The places of the first piece of each word of a sentence."""
    return [i for i, number in enumerate(words.number) if i == 0 or number != words.number[i - 1]]


class Measures:
    """The measures of each token by each model. labels: what the names of a model's columns end in. lacking (M, 2): how
    many tokens each model lacked so far, and how many it scored.
    """

    def __init__(self, models, labels, job):
        import numpy as np

        from lmtk.reports.following import Follower

        self.labels, self.job = labels, job
        self.followers, self.lacking = [Follower(model) for model in models], np.zeros((len(models), 2), int)

    def columns(self, batch, corpora):
        """The Columns of the models: surprisal, entropy, oov and ngram. corpora: the Corpus of a batch for each model;
        none for a batch without sentences.
        """
        first = None
        if self.job.by == "word":
            begins = accumulate((len(words.words) for _, words in batch), initial=0)
            first = [begin + i for begin, (_, words) in zip(begins, batch) for i in first_pieces(words)]
        measures = zip_longest(self.followers, self.labels, self.lacking, corpora)
        return [column for measure in measures for column in self.of_model(*measure, first)]

    def of_model(self, follower, label, lacking, corpus, first):
        """The Columns of one model, whose row of `lacking` is updated. first: the places of the first pieces of words,
        None for a row for each token.
        """
        import numpy as np

        unit, entropy = UNITS[self.job.unit], []
        if corpus is None:
            surprisal, oov, ngram = (), (), ()
        else:
            scores, vocab = follower.lm.score(corpus), follower.lm.vocab
            # 0.0 - x is never -0
            logp = scores.logp[corpus.scored]
            surprisal = 0.0 - logp * unit
            oov = corpus.ids[corpus.scored] == vocab.unk_id
            lacking += np.count_nonzero(oov), len(oov)
            ngram = np.where(np.isneginf(logp), 0, scores.length[corpus.scored].max(axis=1))
            positions = np.flatnonzero(corpus.scored)
            if first is not None:
                surprisal, oov = np.add.reduceat(surprisal, first), np.logical_or.reduceat(oov, first)
                ngram, positions = ngram[first], positions[first]
            if self.job.entropy:
                entropy = (follower.entropies(corpus, positions) * unit).tolist()
            surprisal, oov, ngram = surprisal.tolist(), oov.tolist(), ngram.tolist()
        return [
            Column(f"surprisal{label}", MEASURE, surprisal),
            *([Column(f"entropy{label}", MEASURE, entropy)] if self.job.entropy else []),
            Column(f"oov{label}", FLAG, oov),
            Column(f"ngram{label}", POSITIVE, ngram),
        ]
