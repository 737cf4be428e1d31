"""Training a translation model: two sides of a bitext -> a network, epoch by epoch."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from lmtk.errors import LmtkError, name_of
from lmtk.jobs.rules import check, excludes, needs, one_of, one_stdin, required, wrong
from lmtk.jobs.training import NO_EPOCHS, Life, check_trained


@dataclass(frozen=True)
class TrainTranslationJob:
    """Train a translation model. A field that is None gets its value from the recipe.

    source, target, heldout_source, heldout_target: texts; line n of a target translates line n of its source.
    model: the file of the model. attention: additive or none. unit: gated, lstm or rnn.
    hidden, maxout, alignment: numbers of units. embedding: the size of the word embeddings.
    shortlist: keep this number of the most frequent words of each side. bpe: split words into this number of subwords.
    max_length: leave out pairs with a sentence of more words. minibatch: sentence pairs in an update.
    epochs: passes over the text. keep: choose the best epoch by bleu or by likelihood.
    patience: stop after this number of epochs without an improvement; 0: never. rate: the learning rate of Adam.
    dropout: the fraction of units dropped. smoothing: label smoothing, the fraction of probability spread over all
    words.
    average: average the weights over this last fraction of the updates.
    """

    source: str | None = None
    target: str | None = None
    heldout_source: str | None = None
    heldout_target: str | None = None
    model: str | None = None
    attention: str = "additive"
    unit: str = "gated"
    hidden: int | None = None
    embedding: int | None = None
    maxout: int | None = None
    tied: bool = False
    alignment: int | None = None
    shortlist: int = 30000
    bpe: int | None = None
    max_length: int = 50
    minibatch: int | None = None
    epochs: int | None = None
    keep: str = "bleu"
    patience: int = 5
    rate: float | None = None
    dropout: float | None = None
    smoothing: float | None = None
    average: float | None = None
    paper: bool = False
    tolower: bool = False
    seed: int = 1
    threads: int | None = None
    life: Life = field(default_factory=Life)

    def __post_init__(self):
        check(self, [required("model")] if self.life.finish else RULES)
        one_stdin(*self.texts)

    @property
    def texts(self):
        return self.source, self.target, self.heldout_source, self.heldout_target


RULES = (
    required("model"),
    required("source"),
    required("target"),
    wrong(
        lambda job: (job.heldout_source is None) != (job.heldout_target is None),
        "-heldout-source and -heldout-target must be given together",
    ),
    wrong(
        lambda job: job.patience not in (0, TrainTranslationJob.patience) and not job.heldout_source,
        "-patience needs -heldout-source and -heldout-target",
    ),
    NO_EPOCHS,
    one_of("attention", ("additive", "none")),
    one_of("unit", ("gated", "lstm", "rnn")),
    one_of("keep", ("bleu", "likelihood")),
    needs("keep", "heldout_source", "-keep needs -heldout-source and -heldout-target"),
    wrong(lambda job: job.attention == "none" and job.alignment, "-alignment cannot be combined with -attention none"),
    wrong(
        lambda job: job.tied and job.maxout and job.maxout != chosen(job)["embedding"],
        "-tied needs -maxout to equal -embedding",
    ),
    excludes("rate", "paper", "-rate cannot be combined with -paper: Adadelta sets its own rate"),
)


@dataclass(frozen=True)
class Texts:
    """The texts of a run. x, y: the vocabularies of both sides. text, held: the training and the held-out Bitext (None:
    without). pieces: the subwords, b"" for whole words. joined: words of the model -> a line. references: the held-out
    translations, lines.
    """

    x: object
    y: object
    text: object
    held: object
    pieces: bytes
    joined: Callable
    references: list


def train(job):
    """Runs a TrainTranslationJob: trains, and writes the model of the best epoch."""
    from lmtk import run
    from lmtk.machine.parallel import tell_alone
    from lmtk.machine.threads import use

    tell_alone("; nmt-train runs in one process")
    if job.life.finish:
        run.finish("nmt-train", job.model, job.life.debug)
        return
    use(job.threads)
    check_trained(job.texts, job.model, job.life)
    run.check_no_checkpoint(job.model, job.life.resume)
    learn(job, read(job))


def learn(job, texts):
    """Trains on Texts."""
    from lmtk import run
    from lmtk.jobs.progress import Reporter
    from lmtk.machine.threads import thread_count
    from lmtk.nmt import network, recipes, training

    x, y, text, held = texts.x, texts.y, texts.text, texts.held
    settings = recipes.make_settings(chosen(job), job.paper, len(text.source))
    threads = job.threads or max(1, min(thread_count(), settings.minibatch // recipes.SHARE))
    if job.life.debug:
        tell_sizes(texts)
    course = course_of(job, settings, texts)
    progress = training.begin(training.initial_theta(x, y, settings, text.target), settings)
    if run.has_checkpoint(course, job.life.resume):
        best = network.arrays_by_letter(progress.theta, network.Layout(x, y, settings.sizes))
        progress = training.restore(*run.resume(course, progress.arrays, best, job.life.debug), list(best), progress)

    def bleu(theta):
        return greedy_bleu(training.make_model(theta, x, y, settings), held.source, texts.references, texts.joined)

    tell = Reporter(course, progress, job.life)
    stretches = training.train(progress, text, held, (x, y), settings, bleu if held else None, threads)
    run.run_training(course, progress, stretches, tell)


def course_of(job, settings, texts):
    """The run.Run of a job."""
    import numpy as np

    from lmtk import run
    from lmtk.files import curve
    from lmtk.nmt import network, training

    x, y, text, held = texts.x, texts.y, texts.text, texts.held
    words, heldout = np.concatenate(text.target), np.concatenate(held.target) if held else None
    slow = "Adadelta learns slowly at first, so more -epochs may help"
    return run.Run(
        program="nmt-train", model=job.model, settings=settings,
        inputs={"source, -target or held-out texts": training.fingerprint(text, held)},
        words=("shortlist or texts", [*x.words, *y.words]),
        steps=training.count_steps(len(text.source), settings.minibatch),
        unigram=curve.unigram_logp(words, heldout, y.V), save_every=job.life.save_every,
        arrays=lambda progress, arrays: arrays,
        parts=lambda progress: network.file_parts(
            training.make_model(progress.best, x, y, settings, texts.pieces, progress.curve)
        ),
        line=line, remedies=(
            slow if job.paper else "a lower -rate or more -epochs may help",
            "more -dropout, fewer -hidden units or fewer -epochs may help",
        ),
    )  # fmt: skip


def chosen(job):
    """The options that training.Settings holds; None where the recipe fills one in."""
    from lmtk.nmt.recipes import OUR_SIZES, PAPER_SIZES

    sizes = PAPER_SIZES if job.paper else OUR_SIZES
    sizes = {name: getattr(job, name) or size for name, size in sizes.items()}
    if job.tied:
        sizes["maxout"] = sizes["embedding"]
    if job.attention == "none":
        sizes["alignment"] = 0
    names = "tied", "minibatch", "epochs", "rate", "dropout", "smoothing", "bpe", "seed"
    others = {
        "unit": job.unit,
        "average": job.average or None,
        "keep": "BLEU" if job.keep == "bleu" else job.keep,
        "patience": job.patience if job.heldout_source else 0,
        "minutes": job.life.minutes,
    }
    return sizes | others | {name: getattr(job, name) for name in names}


def read(job):
    """The Texts of a job."""
    from lmtk.text import subwords
    from lmtk.text.bitext import bitext, make_shortlist, read_pairs

    pairs = read_pairs(job.source, job.target, job.tolower)
    pieces = subwords.learn_pieces((words for pair in pairs for words in pair), job.bpe) if job.bpe else b""
    split = subwords.make_splitter(pieces, job.source)
    pairs = [(split(a), split(b)) for a, b in pairs]
    x = make_shortlist([a for a, _ in pairs], job.shortlist, job.source)
    y = make_shortlist([b for _, b in pairs], job.shortlist, job.target)
    text, held, references = bitext(pairs, x, y, job.max_length), None, []
    if job.heldout_source:
        heldout = [pair for pair in read_pairs(job.heldout_source, job.heldout_target, job.tolower) if all(pair)]
        if not heldout:
            clause = "no line has words in both texts"
            raise LmtkError(f"{name_of(job.heldout_source)} and {name_of(job.heldout_target)}: {clause}")
        held = bitext([(split(a), split(b)) for a, b in heldout], x, y)
        references = [b" ".join(b) for _, b in heldout]
    return Texts(x, y, text, held, pieces, subwords.join_pieces if job.bpe else b" ".join, references)


def tell_sizes(texts):
    from lmtk.nbest.tuning import SIGNATURE

    text = texts.text
    out = f"{len(text.source)} pairs" + (f" ({text.left_out} left out: empty or too long)" if text.left_out else "")
    sys.stderr.write(f"{out}, {texts.x.V} source and {texts.y.V} target words with </s> and [UNK]\n")
    if texts.held:
        sys.stderr.write(f"greedy BLEU, as sacrebleu's {SIGNATURE}\n")


def greedy_bleu(model, sentences, references, joined):
    """BLEU, in percent, of a model's greedy translations of sentences of ids; joined: words of the model to text."""
    from lmtk.nbest import tuning
    from lmtk.nmt import beam, training

    translations = beam.Translator(model)(sentences, beam.Beam(1), training.BATCH)
    lines = (joined([model.vocab.words[w] for w in hypotheses[0].words]) for hypotheses in translations)
    stats = [tuning.statistics([line], [reference])[0] for line, reference in zip(lines, references, strict=True)]
    return 100 * float(tuning.bleu(sum(stats)))


def line(epoch, to_go):
    """The line about an epoch at -debug 1. to_go: seconds to the end of the run, None after the last epoch."""
    text = f"epoch {epoch.number}: training {shown(epoch.training)}"
    if epoch.heldout is not None:
        text += f" held-out {shown(epoch.heldout)} BLEU= {epoch.bleu:.2f}"
    text += f" {epoch.speed:.0f} words/s"
    text += "" if to_go is None else f", {timedelta(seconds=round(to_go))} to go"
    return text + " best" * (epoch.best and epoch.heldout is not None)


def shown(logp):
    from lmtk.files.curve import perplexity

    return f"logprob/word= {logp / math.log(10):.7g} ppl= {perplexity(logp):.7g}"
