"""Counting n-grams: what is counted, and which counts and words are written."""

import os
import warnings
from dataclasses import dataclass, field
from functools import partial

from lmtk.errors import LmtkWarning, counted
from lmtk.jobs.rules import check, excludes, marks_of, needs, option_named, unknown_word, wrong, wrong_without_text
from lmtk.jobs.texts import LOWERED_RULES, Reading, convert_texts


@dataclass(frozen=True)
class CountJob:
    """Count the n-grams of texts, add count files to them, and write counts and words.

    text, read: texts and count files. sources: texts that are counted separately and get weights.
    text_has_weights, text_has_weights_last: a line begins or ends with the number of times that it is counted.
    vocab: a word list. limit_vocab: remove n-grams of `read` with other words.
    nonevents: a file of words that occur in contexts only. classes: a file of classes, which replace their words.
    write: a file for the counts of all orders, or only of the order write_order if this is not 0.
    write_n: {order: file for the counts of this order}. write_vocab: a file for the vocabulary.
    read_with_mincounts: remove n-grams of `read` with counts below gtmin_n, {order: count}, or at orders above 9 below
    gtmin.
    memory: the memory to use, in bytes. mpi: share the work among the ranks of mpiexec.
    kenlm: lines become sentences as in KenLM's lmplz; open_end and skip_symbols change this.
    reading: how the texts become lines of words.
    """

    text: tuple[str, ...] = ()
    text_has_weights: bool = False
    text_has_weights_last: bool = False
    read: tuple[str, ...] = ()
    order: int = 3
    write: str | None = None
    write_n: dict[int, str] = option_named("writeN", {})
    write_order: int = 0
    recompute: bool = False
    sort: bool = False
    vocab: str | None = None
    limit_vocab: bool = False
    nonevents: str | None = None
    write_vocab: str | None = None
    classes: str | None = None
    map_unk: str = "<unk>"
    tolower: bool = False
    no_sos: bool = False
    no_eos: bool = False
    stream: bool = False
    float_counts: bool = False
    read_with_mincounts: bool = False
    gtmin: float | None = None
    gtmin_n: dict[int, float] = option_named("gtNmin", {})
    kenlm: bool = False
    open_end: bool = False
    skip_symbols: bool = False
    memory: int | None = None
    mpi: bool = False
    sources: tuple[str, ...] = option_named("source", ())
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        check(self, RULES)
        convert_texts(self, self.reading, "text sources")
        unknown_word(self.map_unk)

    @property
    def marks(self):
        if self.kenlm:
            from lmtk.text.corpus import Marks

            options = {"open_end": self.open_end, "skip_symbols": self.skip_symbols}
            return Marks(blank=True, tolower=self.tolower, **options)
        return marks_of(self)

    @property
    def unk(self):
        """The word that stands for unknown words."""
        return os.fsencode(self.map_unk)

    @property
    def weighted(self):
        return self.text_has_weights or self.text_has_weights_last

    @property
    def writes_counts(self):
        return bool(self.write or self.write_n)

    @property
    def outputs(self):
        """The files for counts and words, where None stands for a file that is not wanted."""
        return self.write, *self.write_n.values(), self.write_vocab


def order_not_counted(job):
    """The message about a -writeN for an order that is not counted, or None."""
    above = [n for n in job.write_n if n > job.order]
    return f"-write{above[0]} is above the order of the counts, {job.order}; raise -order" if above else None


RULES = (
    wrong_without_text(
        lambda job: not (job.text or job.read or job.sources), "a text or counts are needed: give -text or -read"
    ),
    order_not_counted,
    wrong(lambda job: job.memory is not None and job.memory < 1, "-memory must be above 0, not {memory}"),
    wrong(lambda job: job.limit_vocab and not job.vocab and job.read, "-limit-vocab with -read needs -vocab"),
    excludes("text_has_weights", "text_has_weights_last"),
    wrong(
        lambda job: job.write_order > job.order,
        "-write-order {write_order} is above the order of the counts, {order}; raise -order",
    ),
    excludes("read_with_mincounts", "text"),
    wrong(
        lambda job: job.weighted and (not job.text or job.stream or job.kenlm),
        "-text-has-weights needs -text and cannot be combined with -stream or -kenlm",
    ),
    needs("open_end skip_symbols", "kenlm"),
    needs("open_end skip_symbols", "text"),
    excludes("open_end skip_symbols", "vocab"),
    excludes(
        "kenlm",
        "no_sos no_eos stream map_unk",
        "-kenlm fixes <s>, </s> and <unk>; leave out -no-sos, -no-eos, -stream and -map-unk",
    ),
    excludes("nonevents", "kenlm", "-nonevents cannot be combined with -kenlm or -maxent"),
    excludes("recompute", "kenlm memory mpi"),
    *LOWERED_RULES,
    excludes("text_has_weights text_has_weights_last", "field tokenizer normalize"),
)


@dataclass(frozen=True)
class Lists:
    """The word lists of a CountJob, read once. words: those of -vocab and -nonevents, None without -vocab. nonevents:
    a list. classes: those of `classes.files`, or None.
    """

    words: list | None
    nonevents: list
    classes: object


def read_lists(job):
    """The Lists that a CountJob names."""
    from lmtk.text.vocab import read_vocab

    classes = None
    if job.classes:
        from lmtk.ngram.classes.files import read_classes

        classes = read_classes(job.classes)
    nonevents = read_vocab(job.nonevents, job.tolower) if job.nonevents else []
    words = read_vocab(job.vocab, job.tolower) if job.vocab else None
    return Lists(None if words is None else [*words, *nonevents], nonevents, classes)


def collect_counts(job, lists, comm, as_text=False):
    """What `collection.collect` makes of the texts and count files. as_text: as for `collect`."""
    from lmtk.ngram.classes.files import replaced
    from lmtk.ngram.counting.collection import FIRST, LAST, Sources, collect
    from lmtk.ngram.estimate.methods import least_count

    orders = range(1, job.order + 1) if job.read_with_mincounts else ()
    sources = Sources(
        texts=[] if job.weighted else job.text,
        files=job.read,
        order=job.order,
        words=lists.words,
        marks=job.marks,
        unk=job.unk,
        limit=job.limit_vocab and bool(job.vocab),
        floats=job.float_counts,
        weighted=job.text if job.weighted else [],
        weight_of=LAST if job.text_has_weights_last else FIRST,
        least=[job.gtmin_n.get(n, least_count(n, job.gtmin)) for n in orders],
    )
    replace = partial(replaced, classes=lists.classes) if lists.classes else None
    return collect(sources, as_text, job.memory, comm, replace)


def vocabulary_of(job, lists, words, unk):
    """The vocabulary of a model of the counted words. unk: whether the model predicts unknown words."""
    from lmtk.text.vocab import make_vocab, with_tokenizer

    if lists.classes and job.unk in lists.classes:
        unk = False  # the class of <unk> is predicted in its place
    source = job.vocab or (job.text or job.read or job.sources)[0]
    vocab = make_vocab(words, unk, True, job.unk, source, lists.nonevents)
    return with_tokenizer(vocab, job.reading.digest())


def write_counted(job, lists, counts):
    """Writes the counts and their words to the files that the job names."""
    from lmtk.files.outputs import open_out
    from lmtk.ngram.classes.files import class_names
    from lmtk.ngram.counting.counts import write_counts
    from lmtk.text.vocab import EOS, SOS

    words = counts.words
    if lists.classes and not job.vocab and (left := len({*words} - {*class_names(lists.classes), SOS, EOS, job.unk})):
        clause = counted(left, "word has no class and is", "words have no class and are")
        message = f"{clause} counted unchanged; to limit the vocabulary give -vocab"
        warnings.warn(message, LmtkWarning, stacklevel=1)
    if job.write:
        with open_out(job.write) as out:
            write_counts(out, counts, job.sort, only=job.write_order or None)
    for n, path in job.write_n.items():
        with open_out(path) as out:
            write_counts(out, counts, job.sort, only=n)
    if job.write_vocab:
        with open_out(job.write_vocab) as out:
            out.write(b"".join(w + b"\n" for w in sorted({*words, *lists.nonevents})))
