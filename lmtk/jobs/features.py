"""The features of words: of a neural model, or of the co-occurrences of a text."""

import os
import sys
from dataclasses import dataclass, field

from lmtk.errors import LmtkError, UsageError, counted, name_of
from lmtk.files.figure import KINDS
from lmtk.files.inputs import is_stream
from lmtk.jobs.rules import check, check_outputs, excludes, marks_of, needs, one_stdin, wrong
from lmtk.jobs.texts import LOWERED_RULES, Reading, convert_texts, needs_text


@dataclass(frozen=True)
class FeaturesJob:
    """Show the features of words: the neighbours of words, an analogy of three words, a table in `write`, or a picture
    in `plot`.

    lm: the file of a neural model; or text: texts, whose co-occurrences of words up to `window` words apart are reduced
    to `svd` features, for the words of the list vocab or all words. dimensions: the two features that are drawn; none:
    the principal components. top: the number of words.
    """

    lm: str | None = None
    text: tuple[str, ...] = ()
    svd: int | None = None
    window: int = 2
    vocab: str | None = None
    no_sos: bool = False
    no_eos: bool = False
    stream: bool = False
    neighbours: tuple[str, ...] = ()
    analogy: tuple[str, ...] = ()
    write: str | None = None
    plot: str | None = None
    dimensions: tuple[int, ...] = ()
    words: str | None = None
    top: int | None = None
    tolower: bool = False
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self):
        check(self, RULES)
        convert_texts(self, self.reading)
        one_stdin(self.lm, self.words, *self.text, self.vocab)

    @property
    def source(self):
        """The name, for messages, of the file that the features come from."""
        return self.lm or ", ".join(map(name_of, self.text))

    @property
    def place(self):
        """The option and the file by which lmtk vocab lists the vocabulary, for messages."""
        return f"-lm {self.lm}" if self.lm else f"-text {self.vocab or self.text[0]}"

    @property
    def picture(self):
        """The kind of picture, or None."""
        return os.path.splitext(self.plot)[1][1:] if self.plot else None


RULES = (
    wrong(
        lambda job: not (job.lm or job.text),
        "-lm is missing; give a neural model, or -text and -svd for vectors from a text",
    ),
    excludes("text", "lm"),
    needs("text", "svd"),
    needs("svd window vocab no_sos no_eos stream", "text"),
    wrong(
        lambda job: not job.vocab and any(map(is_stream, job.text)),
        "without -vocab the text is read twice, but stdin or a pipe can be read only once; add -vocab, or give a file",
    ),
    wrong(
        lambda job: sum(map(bool, (job.neighbours, job.analogy, job.write, job.plot))) != 1,
        "give one of -neighbours, -analogy, -write and -plot",
    ),
    lambda job: f"-analogy takes three words, not {len(job.analogy)}" if len(job.analogy) not in (0, 3) else None,
    wrong(lambda job: job.picture not in (None, *KINDS), "-plot {plot} must end in .svg, .png or .pdf"),
    wrong(
        lambda job: job.dimensions and (not job.plot or len(job.dimensions) != 2),
        "-dimensions needs -plot, and takes two numbers",
    ),
    *LOWERED_RULES,
    needs_text(),
)


def show_features(job):
    """Runs a FeaturesJob."""
    from lmtk.files import figure
    from lmtk.nplm import features

    if job.plot:
        figure.check_matplotlib("plot")
    check_outputs(job.write, job.plot, texts=job.text, inputs=[job.lm, job.words, job.vocab, job.reading.tokenizer])
    model = vectors_of_text(job) if job.text else neural_model(job.lm)
    senses = getattr(model, "senses", 1)
    C, vocab = features.senses_of(model) if senses > 1 else (model.C, model.vocab)
    if senses > 1 and (whole := [word for word in job.analogy if os.fsencode(word) in model.vocab.index]):
        raise LmtkError(f"{job.lm}: {whole[0]} has {senses} senses; choose one, such as {whole[0]}/1")
    ids = ids_of(job, model, senses)
    if job.neighbours or job.analogy:
        print_nearest(job, C, vocab, ids, targets_of(job, model, vocab, senses))
    else:
        write(job, C, vocab, ids[: job.top or (200 if job.plot else None)])


def neural_model(path):
    """The neural model in a file. Raises LmtkError for another kind."""
    from lmtk.files.registry import load
    from lmtk.nplm.network import Network

    model = load(path)
    if not isinstance(model, Network):
        raise LmtkError(f"{path}: not a neural model, so its words have no features; lmtk nplm-train makes one")
    return model


@dataclass(frozen=True)
class Vectors:
    """Features of words without a model: C (words, m) and the Vocab."""

    C: object
    vocab: object


def vectors_of_text(job):
    """The Vectors of a text's co-occurrences. Raises LmtkError if the text has fewer neighbours than features."""
    from itertools import chain

    from lmtk.machine.threads import thread_count, use
    from lmtk.nplm import cooccurrence
    from lmtk.text.corpus import by_count, count_words, read_corpus
    from lmtk.text.vocab import make_vocab, read_vocab

    use(products=min(thread_count(), 2))  # the products of large matrices take most of the time
    marks = marks_of(job)
    if job.vocab:
        words = read_vocab(job.vocab, job.tolower)
    else:
        counts = count_words(job.text, job.tolower)
        words = by_count(counts, counts)
    vocab = make_vocab(words, True, marks.eos, source=job.vocab or job.text[0])
    W = len(vocab.words)
    corpora = chain.from_iterable(read_corpus(path, vocab, marks, job.window + 1) for path in job.text)
    *entries, columns = cooccurrence.weigh(*cooccurrence.count_pairs(corpora, job.window, W), W)
    if columns < job.svd:
        raise LmtkError(
            f"{job.source}: its words have {counted(columns, 'different neighbour')}, left and right, fewer than -svd "
            f"{job.svd}; lower -svd"
        )
    return Vectors(cooccurrence.reduce_rows(*entries, (W, columns), job.svd), vocab)


def ids_of(job, model, senses):
    """The ids of the vectors that are shown."""
    import numpy as np

    from lmtk.nplm import features
    from lmtk.text.vocab import EOS, read_vocab

    if job.words:
        ids = features.ids_of(read_vocab(job.words, job.tolower), model.vocab, job.place)
        if not len(ids):
            raise LmtkError(f"{job.words}: no words in it")
    else:
        # </s> never stands in a context, so its features mean nothing
        ids = np.array([i for i, word in enumerate(model.vocab.words) if job.write or word != EOS])
    return (ids[:, None] * senses + np.arange(senses)).ravel()


def targets_of(job, model, vocab, senses):
    """The ids of the words whose neighbours are wanted, or of the three words of an analogy; a list for each table."""
    from lmtk.nplm import features
    from lmtk.text.vocab import lower

    words = [os.fsencode(word) for word in job.analogy or job.neighbours]
    words = list(map(lower, words)) if job.tolower else words
    if job.analogy:
        return [features.ids_of(words, vocab, job.place)]
    return [[word * senses + k] for word in features.ids_of(words, model.vocab, job.place) for k in range(senses)]


def print_nearest(job, C, vocab, ids, targets):
    """Prints the words whose vectors are nearest. C (W, m): the vectors. targets: from `targets_of`; if there are
    several, each line begins with the target.
    """
    import numpy as np

    from lmtk.nplm import features

    for words in targets:
        target = features.analogy(C, *words) if job.analogy else C[words[0]]
        first = os.fsdecode(vocab.words[words[0]]) + "\t" if len(targets) > 1 else ""
        nearest = zip(*features.rank_by_cosine(C, target, ids[~np.isin(ids, words)]))
        for i, cosine in list(nearest)[: job.top or 10]:
            sys.stdout.write(f"{first}{os.fsdecode(vocab.words[i])}\t{cosine:.7g}\n")


def write(job, C, vocab, ids):
    """-write and -plot of the vectors `ids`, rows of C."""
    from lmtk.files.outputs import open_out
    from lmtk.nplm import features

    words, m = [vocab.words[i] for i in ids], C.shape[1]
    if job.write:
        with open_out(job.write) as out:
            features.write_word2vec(out, words, C[ids])
        return
    if m < 2:
        raise LmtkError(
            f"{job.source}: a picture needs two features, and each word has one; "
            + ("give -svd 2 or more" if job.text else "train with -features 2 or more")
        )
    if not all(1 <= i <= m for i in job.dimensions):
        raise UsageError(
            f"-dimensions takes numbers from 1 to {m}, because the words of {job.source} have {m} features"
        )
    points, names = features.project(C[ids], list(job.dimensions) or None)
    with open_out(job.plot) as out:
        features.write_plot(out, job.picture, words, points, names)
