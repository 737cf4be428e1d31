import math
import sys
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Annotated

from lmtk.commands.options import (
    Debug,
    Finish,
    LogFile,
    PlotFile,
    Quiet,
    Resume,
    SaveEvery,
    Threads,
    Tolower,
    check_trained,
    needed,
    one_stdin,
    option,
    seed_in,
)
from lmtk.errors import UsageError


def command(
    source: Annotated[
        str | None, option("source", "The training text to translate from.", "FILE", group="Data")
    ] = None,
    target: Annotated[str | None, option("target", "Its translation, line by line.", "FILE", group="Data")] = None,
    heldout_source: Annotated[
        str | None, option("heldout-source", "Held-out text to translate from.", "FILE", group="Data")
    ] = None,
    heldout_target: Annotated[str | None, option("heldout-target", "Its translation.", "FILE", group="Data")] = None,
    model: Annotated[str | None, option("model", "The model to write.", "FILE", group="Output")] = None,
    attention: Annotated[
        str, option("attention", "additive: RNNsearch; none: RNNencdec.", "additive|none", group="Model")
    ] = "additive",
    unit: Annotated[
        str, option("unit", "The hidden unit: gated, the paper's, or lstm.", "gated|lstm", group="Model")
    ] = "gated",
    hidden: Annotated[int, option("hidden", "n, hidden units.", "N", min=1, group="Model")] = 256,
    embedding: Annotated[int, option("embedding", "m, size of the word embeddings.", "M", min=1, group="Model")] = 256,
    maxout: Annotated[
        int | None,
        option("maxout", "l, maxout units of the deep output (default: 128, with -tied M).", "L", min=1, group="Model"),
    ] = None,
    tied: Annotated[
        bool, option("tied", "A target word's embedding is its weights in the output too.", group="Model")
    ] = False,
    alignment: Annotated[
        int | None,
        option("alignment", "n', hidden units of the alignment model (default: 256).", "N'", min=1, group="Model"),
    ] = None,
    shortlist: Annotated[
        int, option("shortlist", "The most frequent words of each side; others are [UNK].", "N", min=1, group="Data")
    ] = 30000,
    bpe: Annotated[
        int | None,
        option(
            "bpe",
            "Split words into N subwords, learned on both sides (default: whole words).",
            "N",
            min=2,
            group="Data",
        ),
    ] = None,
    max_length: Annotated[
        int, option("max-length", "Leave out pairs with a sentence of more words.", "N", min=1, group="Data")
    ] = 50,
    minibatch: Annotated[
        int | None,
        option("minibatch", "Sentences in an update (default: 40, with -paper 80).", "N", min=1, group="Training"),
    ] = None,
    epochs: Annotated[int, option("epochs", "Passes over the text, at most.", "N", min=1, group="Training")] = 16,
    keep: Annotated[
        str,
        option(
            "keep",
            "The epoch that is kept has the best BLEU, or likelihood, of the held-out text.",
            "bleu|likelihood",
            group="Training",
        ),
    ] = "bleu",
    patience: Annotated[
        int, option("patience", "Stop after N epochs without a better one (0: never).", "N", min=0, group="Training")
    ] = 5,
    rate: Annotated[
        float | None,
        option(
            "rate",
            "Adam's rate at the start; it falls to a twentieth (default: 0.001; up to 0.004 for few updates).",
            "X",
            min=0,
            group="Training",
        ),
    ] = None,
    dropout: Annotated[
        float | None,
        option(
            "dropout",
            "The share of units dropped in training (default: 0.3, with -paper 0).",
            "X",
            min=0,
            max=0.99,
            group="Training",
        ),
    ] = None,
    smoothing: Annotated[
        float | None,
        option(
            "smoothing",
            "Label smoothing: the share that all words have (default: 0.1, with -paper 0).",
            "X",
            min=0,
            max=0.99,
            group="Training",
        ),
    ] = None,
    average: Annotated[
        float | None,
        option(
            "average",
            "The model is a mean of the weights over about the last X of all updates so far (default: none).",
            "X",
            min=0,
            max=1,
            group="Training",
        ),
    ] = None,
    paper: Annotated[
        bool,
        option(
            "paper",
            "The paper's recipe: Adadelta, its first values, minibatches of 80, no dropout, no smoothing.",
            group="Training",
        ),
    ] = False,
    tolower: Tolower = False,
    seed: seed_in("Training") = 1,
    threads: Threads = None,
    save_every: SaveEvery = None,
    resume: Resume = False,
    finish: Finish = False,
    log: LogFile = None,
    plot: PlotFile = None,
    debug: Debug = 0,
    quiet: Quiet = False,
):
    """Train the translation model of Bahdanau et al. 2015, RNNsearch.

    The model with the highest held-out BLEU is kept. -debug 1 prints a line an epoch.

    \b
    Example: lmtk nmt-train -source train.en -target train.fr -shortlist 6000 -model en-fr.bin
    """
    o = SimpleNamespace(**locals())
    needed(model, "model")

    from lmtk import run

    if finish:
        run.finish("nmt-train", model)
        return
    check(o)
    learn(o)


def check(o):
    """Raise UsageError where options do not go together."""
    needed(o.source, "source"), needed(o.target, "target")
    one_stdin(o.source, o.target, o.heldout_source, o.heldout_target)
    if (o.heldout_source is None) != (o.heldout_target is None):
        raise UsageError("-heldout-source and -heldout-target go together")
    if o.attention not in ("additive", "none"):
        raise UsageError(f"-attention is additive or none, not {o.attention}")
    if o.unit not in ("gated", "lstm"):
        raise UsageError(f"-unit is gated or lstm, not {o.unit}")
    if o.keep not in ("bleu", "likelihood"):
        raise UsageError(f"-keep is bleu or likelihood, not {o.keep}")
    if o.attention == "none" and o.alignment:
        raise UsageError("-alignment has no meaning with -attention none")
    if o.tied and o.maxout not in (None, o.embedding):
        raise UsageError(f"-tied needs as many -maxout units as the -embedding is long, {o.embedding}")
    if o.paper and o.rate is not None:
        raise UsageError("-rate has no meaning with -paper: Adadelta finds its own")


def learn(o):
    """Train as the options say."""
    from lmtk import run
    from lmtk.jobs.progress import Reporter
    from lmtk.machine import threads as machine
    from lmtk.nmt import network, recipes, training

    machine.use(o.threads)
    check_trained((o.source, o.target, o.heldout_source, o.heldout_target), o.model, o.log, o.plot)
    run.check_beside(o.model, o.resume)
    settings = recipes.make_settings(given(o), o.paper)
    threads = o.threads or max(1, min(machine.count(), settings.minibatch // recipes.SHARE))
    texts = read(o, settings)
    x, y, text, held = texts.x, texts.y, texts.text, texts.held
    if not o.paper and o.rate is None:
        settings = replace(settings, rate=recipes.learning_rate(settings.epochs * training.count_steps(text, settings)))
    if o.debug:
        tell_sizes(texts)
    life = run.Run(
        program="nmt-train", model=o.model, settings=settings,
        inputs={"source, -target or held-out texts": training.fingerprint(text, held)},
        words=("shortlist or texts", [*x.words, *y.words]), steps=training.count_steps(text, settings),
        unigram=training.unigram_logp(text, held, y), save_every=o.save_every,
        arrays=lambda progress, arrays: arrays,
        parts=lambda progress: network.file_parts(training.best_model(progress, x, y, settings, texts.pieces)),
        line=line, remedies=(
            "Adadelta begins slowly, more -epochs may help" if o.paper else "a lower -rate or more -epochs may help",
            "more -dropout, fewer -hidden units or fewer -epochs may help",
        ),
    )  # fmt: skip
    progress = training.begin(training.initial_theta(x, y, settings, text.target), settings)
    if run.has_checkpoint(life, o.resume):
        best = network.arrays_by_letter(progress.theta, network.make_layout(x, y, **settings.sizes))
        progress = training.restore(*run.resume(life, progress.arrays, best, o.debug), list(best), progress)

    def bleu(theta):
        return greedy_bleu(training.make_model(theta, x, y, settings), held.source, texts.references, texts.joined)

    tell = Reporter(life, progress, o.debug, o.quiet, o.log, o.plot)
    how = bleu if held else None, threads, machine.Team(threads)
    run.run_training(life, progress, training.train(progress, text, held, x, y, settings, *how), tell)


def given(o):
    """The options that training.Settings holds."""
    from lmtk.nmt.recipes import ALIGNMENT, MAXOUT

    names = "embedding", "hidden", "tied", "minibatch", "epochs", "rate", "dropout", "smoothing", "bpe", "seed"
    return {name: getattr(o, name) for name in names} | {
        "maxout": o.maxout or (o.embedding if o.tied else MAXOUT),
        "alignment": 0 if o.attention == "none" else o.alignment or ALIGNMENT,
        "unit": o.unit,
        "average": o.average or None,
        "keep": "BLEU" if o.keep == "bleu" else o.keep,
        "patience": o.patience if o.heldout_source else 0,
    }


def read(o, settings):
    """The texts of a run: vocabularies x and y, Bitexts text and held (or None), subwords in `pieces` and how they are
    joined, the references of the held-out text.
    """
    from lmtk.text import subwords
    from lmtk.text.bitext import bitext, make_shortlist, read_pairs

    pairs = read_pairs(o.source, o.target, o.tolower)
    pieces = subwords.learn_pieces((words for pair in pairs for words in pair), o.bpe) if o.bpe else b""
    split = subwords.make_splitter(pieces, o.source)
    pairs = [(split(a), split(b)) for a, b in pairs]
    x = make_shortlist([a for a, _ in pairs], o.shortlist, o.source)
    y = make_shortlist([b for _, b in pairs], o.shortlist, o.target)
    texts = SimpleNamespace(x=x, y=y, text=bitext(pairs, x, y, o.max_length), held=None, pieces=pieces)
    texts.joined = subwords.join_pieces if o.bpe else b" ".join
    if o.heldout_source:
        heldout = [pair for pair in read_pairs(o.heldout_source, o.heldout_target, o.tolower) if all(pair)]
        texts.held = bitext([(split(a), split(b)) for a, b in heldout], x, y)
        texts.references = [b" ".join(b) for _, b in heldout]
    return texts


def tell_sizes(texts):
    from lmtk.nbest.tuning import SIGNATURE

    text = texts.text
    out = f"{len(text.source)} pairs" + (f" ({text.left_out} left out: empty or too long)" if text.left_out else "")
    sys.stderr.write(f"{out}, {len(texts.x.words)} source and {texts.y.V} target words\n")
    if texts.held:
        sys.stderr.write(f"greedy BLEU, as sacrebleu's {SIGNATURE}\n")


def greedy_bleu(model, sentences, references, joined):
    """BLEU, in percent, of a model's greedy translations of sentences of ids; joined: words of the model to text."""
    from lmtk.nbest import tuning
    from lmtk.nmt import beam, training

    found = beam.Translator(model)(sentences, beam.Beam(1), training.BATCH)
    lines = (joined([model.vocab.words[w] for w in hypotheses[0].words]) for hypotheses in found)
    stats = [tuning.statistics([line], [reference])[0] for line, reference in zip(lines, references, strict=True)]
    return 100 * float(tuning.bleu(sum(stats)))


def line(epoch, to_go):
    """An epoch, at -debug 1; to_go: seconds, None where it was the last."""
    told = f"epoch {epoch.number}: training {shown(epoch.training)}"
    if epoch.heldout is not None:
        told += f" held-out {shown(epoch.heldout)} BLEU= {epoch.bleu:.2f}"
    told += f" {epoch.speed:.0f} words/s"
    told += "" if to_go is None else f", {timedelta(seconds=round(to_go))} to go"
    return told + " best" * (epoch.best and epoch.heldout is not None)


def shown(logp):
    return f"logprob/word= {logp / math.log(10):.7g} ppl= {math.exp(min(-logp, 700)):.7g}"
