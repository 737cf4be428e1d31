"""Phrases in a corpus: make an index of texts, and count phrases in it."""

import warnings
from dataclasses import dataclass, field

from lmtk.errors import LmtkWarning, counted, name_of
from lmtk.jobs.rules import check, check_outputs, check_texts, model_missing, one_of, one_stdin, required, wrong
from lmtk.jobs.texts import LOWERED_RULES, READING_RULES, Reading, convert_texts

BLOCK = 1 << 18  # bytes of phrases that a thread counts at once
COLUMNS = b"phrase\tcount\tdocuments\tcontext\tlog10p\n"


@dataclass(frozen=True)
class IndexJob:
    """Make the index of a corpus, in which a CountOfJob counts phrases.

    documents: the unit that is a document: "lines", "paragraphs" (which blank lines separate), "files", or "records"
    (lines of JSON lines and rows of parquet files).
    tolower: convert the corpus, and later the phrases, to lower case. write: the file of the index.
    """

    text: tuple[str, ...] = ()
    documents: str | None = None
    tolower: bool = False
    write: str | None = None
    quiet: bool = False
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        check(self, INDEX_RULES)
        one_stdin(*self.text)
        if self.documents is None:
            object.__setattr__(self, "documents", "records" if self.reading.field else "lines")
        convert_texts(self, self.reading, apart=self.documents == "records")


INDEX_RULES = (
    required("text"),
    one_of("documents", ("lines", "paragraphs", "files", "records")),
    required("write"),
    *LOWERED_RULES,
    wrong(
        lambda job: job.documents == "records" and not job.reading.field,
        "-documents records needs -field, the field that has the text of a record",
    ),
)


@dataclass(frozen=True)
class CountOfJob:
    """Count phrases, which are the lines of texts, in an index. index: the file of the index. write: the file of the
    table.
    """

    index: str | None = None
    text: tuple[str, ...] = ()
    write: str = "-"
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        missing = lambda job: model_missing(job.index, job.text, "-index", "index")
        check(self, (missing, required("index"), *READING_RULES))
        one_stdin(self.index, *(self.text or ["-"]))
        object.__setattr__(self, "text", self.text or ("-",))
        convert_texts(self, self.reading.unsplit)


def write_index(job):
    """Runs an IndexJob."""
    from lmtk.files.outputs import open_out
    from lmtk.jobs.bar import reading_bar
    from lmtk.text.index import make_index, write

    check_outputs(job.write, texts=job.text, inputs=[job.reading.tokenizer])
    with reading_bar(job.text, "reading", job.quiet):
        index = make_index(job.text, job.documents, job.tolower, job.reading.digest())
    with open_out(job.write) as out:
        write(out, index)


def print_counts(job):
    """Runs a CountOfJob: writes a table with a row for each phrase."""
    from lmtk.files.outputs import open_out
    from lmtk.text.index import load

    check_outputs(job.write, texts=job.text, inputs=[job.index, job.reading.tokenizer])
    check_texts(job.text, "phrase", "lmtk count-of -index", job.index)
    index = load(job.index)
    job.reading.check_digest(index.settings.get("tokenizer"), job.index)
    parts = rows_of_texts(index, job)
    with open_out(job.write) as out:
        first = next(parts, [])  # before anything is written, since the first text may be missing
        out.write(COLUMNS)
        out.writelines(first)
        for rows in parts:
            out.writelines(rows)


def rows_of_texts(index, job):
    """Yields the rows of the table for the phrases of a job's texts, lists of bytes. Warns about blank lines."""
    from lmtk.files.decoding import blocks
    from lmtk.machine.threads import map_in_order
    from lmtk.text.corpus import Closed

    words = Closed(dict(zip(index.words, range(len(index.words)))), len(index.words))
    reader = job.reading.reader(words, index.settings["tolower"])
    for path in job.text:
        blank, read = 0, ((block, reader.ids(block)) for block in blocks(path, BLOCK))
        for rows in map_in_order(lambda pair: rows_of(index, *pair), read):
            yield rows
            blank += sum(row.startswith(b"\t") for row in rows)
        if blank:
            clause = counted(blank, "line has no words; its row has", "lines have no words; their rows have")
            warnings.warn(f"{name_of(path)}: {clause} no counts", LmtkWarning, stacklevel=1)


def rows_of(index, block, ids):
    """The rows of the table for the phrases in a block of whole lines, bytes each. ids: of its words, from 0 on."""
    import numpy as np

    from lmtk.text.corpus import NEWLINE, TOKEN
    from lmtk.text.index import count_phrases

    ends = ids == NEWLINE
    starts = np.append(0, np.flatnonzero(ends) - np.arange(np.count_nonzero(ends)))
    counts = count_phrases(index, ids[~ends] + 1, starts)
    with np.errstate(divide="ignore", invalid="ignore"):
        log10p = np.log10(counts[:, 3] / counts[:, 4])
    rows = []
    for line, (count, documents, context, *_), p in zip(block.split(b"\n"), counts.tolist(), log10p.tolist()):
        phrase = b" ".join(TOKEN.findall(line))
        rows.append(b"%s\t%d\t%d\t%d\t%.7g\n" % (phrase, count, documents, context, p) if phrase else b"\t\t\t\t\n")
    return rows
