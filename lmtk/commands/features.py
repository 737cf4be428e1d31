import os
import sys
from dataclasses import dataclass

from lmtk.commands.options import option, shared, takes
from lmtk.errors import LmtkError, UsageError
from lmtk.files.figure import KINDS
from lmtk.jobs.rules import Rule, build, check, check_outputs, one_stdin, required, wrong

OPTIONS = {
    "Data": {
        "lm": option("A neural model.", "FILE"),
        "words": option("Show only the words in this list.", "FILE"),
        **shared("tolower"),
    },
    "Job": {
        "neighbours": option("Print the words nearest to WORD.", "WORD", "neighbors", "word"),
        "analogy": option("Print the words that relate to C as B relates to A.", "A B C"),
        "plot": option("Draw the words in two dimensions (.svg, .png or .pdf).", "FILE"),
    },
    "Output": {"write": option("Write the features in word2vec's text form (-: stdout).", "FILE")},
    "Show": {
        "dimensions": option("Draw features I and J (default: the first two principal components).", "I J"),
        "top": option("How many words to show (default: 10; with -plot 200; with -write all).", "N", low=1),
    },
}


@dataclass(frozen=True)
class FeaturesJob:
    """Show the features of words in a neural model: the neighbours of words, an analogy of three words, a table in
    `write`, or a picture in `plot`. dimensions: the two features that are drawn; none: the principal components. top:
    the number of words.
    """

    lm: str | None = None
    neighbours: tuple[str, ...] = ()
    analogy: tuple[str, ...] = ()
    write: str | None = None
    plot: str | None = None
    dimensions: tuple[int, ...] = ()
    words: str | None = None
    top: int | None = None
    tolower: bool = False

    def __post_init__(self):
        check(self, RULES)
        one_stdin(self.lm, self.words)

    @property
    def picture(self):
        """The kind of picture, or None."""
        return os.path.splitext(self.plot)[1][1:] if self.plot else None


def analogy_of_three(job):
    wrong_number = job.analogy and len(job.analogy) != 3
    return f"-analogy takes three words, not {len(job.analogy)}" if wrong_number else None


RULES = (
    required("lm"),
    wrong(
        lambda job: sum(map(bool, (job.neighbours, job.analogy, job.write, job.plot))) != 1,
        "give one of -neighbours, -analogy, -write and -plot",
    ),
    Rule(analogy_of_three),
    wrong(lambda job: job.picture not in (None, *KINDS), "-plot {plot} must end in .svg, .png or .pdf"),
    wrong(
        lambda job: job.dimensions and (not job.plot or len(job.dimensions) != 2),
        "-dimensions takes two numbers, and -plot",
    ),
)


@takes(FeaturesJob, OPTIONS)
def command(**options):
    """Show the features of words that a neural model has learned: the nearest words by cosine, a table or a picture.

    If the model was trained with -senses, a word has several vectors: word/1, word/2 and so on. Each has neighbours of
    its own.

    \b
    Example: lmtk features -lm nplm.bin -neighbours three
    """
    from lmtk.files import figure
    from lmtk.files.registry import load
    from lmtk.nplm import features
    from lmtk.nplm.model import Neural

    job = build(FeaturesJob, options)
    if job.plot:
        figure.check_matplotlib("plot")
    check_outputs(job.write, job.plot, inputs=[job.lm, job.words])
    model = load(job.lm)
    if not isinstance(model, Neural):
        raise LmtkError(f"{job.lm}: not a neural model, so its words have no features; lmtk nplm-train makes one")
    senses = getattr(model, "senses", 1)
    C, vocab = features.senses_of(model) if senses > 1 else (model.C, model.vocab)
    if senses > 1 and (whole := [word for word in job.analogy if os.fsencode(word) in model.vocab.index]):
        raise LmtkError(f"{job.lm}: {whole[0]} has {senses} senses; choose one, such as {whole[0]}/1")
    ids = ids_of(job, model, senses)
    if job.neighbours or job.analogy:
        print_nearest(job, C, vocab, ids, targets_of(job, model, vocab, senses))
    else:
        write(job, C, vocab, ids[: job.top or (200 if job.plot else None)])


def ids_of(job, model, senses):
    """The ids of the vectors that are shown."""
    import numpy as np

    from lmtk.nplm import features
    from lmtk.text.vocab import EOS, read_vocab

    if job.words:
        ids = features.ids_of(read_vocab(job.words, job.tolower), model.vocab, job.lm)
        if not len(ids):
            raise LmtkError(f"{job.words}: no words in it")
    else:
        # </s> never stands in a context, so that it has no features to speak of
        ids = np.array([i for i, word in enumerate(model.vocab.words) if job.write or word != EOS])
    return (ids[:, None] * senses + np.arange(senses)).ravel()


def targets_of(job, model, vocab, senses):
    """The ids of the words whose neighbours are wanted, or of the three words of an analogy; a list for each table."""
    from lmtk.nplm import features
    from lmtk.text.vocab import lower

    words = [os.fsencode(word) for word in job.analogy or job.neighbours]
    words = list(map(lower, words)) if job.tolower else words
    if job.analogy:
        return [features.ids_of(words, vocab, job.lm)]
    return [[word * senses + k] for word in features.ids_of(words, model.vocab, job.lm) for k in range(senses)]


def print_nearest(job, C, vocab, ids, targets):
    """Prints the words whose vectors are nearest. C (W, m): the vectors. targets: from `targets_of`; with several of
    them each line begins with its own target.
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
            f"{job.lm}: a picture needs two features, and the model has one; train with -features 2 or more"
        )
    if not all(1 <= i <= m for i in job.dimensions):
        raise UsageError(f"-dimensions takes numbers from 1 to {m}, because the words of {job.lm} have {m} features")
    points, names = features.project(C[ids], list(job.dimensions) or None)
    with open_out(job.plot) as out:
        features.write_plot(out, job.picture, words, points, names)
